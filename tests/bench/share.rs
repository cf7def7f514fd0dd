//! The share of the CPUs of a job beside busy processes in other sessions. The kernel may share the CPUs among sessions.

use std::env;
use std::path::Path;

use crate::contest::{self, Contest};
use crate::floor;
use crate::many::Spinner;
use crate::programs::{Launcher, Ring};

/// Busy processes in other sessions.
const SPINNERS: usize = 4;

/// How often the ranks repeat their work, so that a run takes seconds.
const ROUNDS: &str = "10";

/// Prints both tables: four ranks that compute and communicate, and the start of `ranks` ranks.
pub(crate) fn tables(ring: &Ring, ranks: usize, repetitions: usize) -> Result<(), String> {
    let spinners = (0..SPINNERS).map(|_| Spinner::start()).collect::<Result<Vec<_>, _>>()?;
    let directory = env::var("MPD_TEST_MPICH5_DIR").unwrap_or_default();
    let program = Path::new(&directory).join("allreduce").display().to_string();
    if Path::new(&program).exists() {
        let title = format!("four ranks of allreduce (MPICH 5) beside {SPINNERS} busy sessions");
        race(Contest::new(title), ring, 4, &[&program, ROUNDS], repetitions);
    } else {
        println!("left out: allreduce: no MPICH 5 (scripts/prepare-test-env)");
    }
    let title = format!("start and collect {ranks} of /bin/true beside {SPINNERS} busy sessions");
    race(Contest::new(title), ring, ranks, &["/bin/true"], repetitions);
    drop(spinners);
    Ok(())
}

fn race(mut contest: Contest, ring: &Ring, ranks: usize, program: &[&str], repetitions: usize) {
    let libraries = env::var("MPD_TEST_MPICH5_LIB").unwrap_or_default();
    for launcher in Launcher::all(ring) {
        let mut command = launcher.command(ranks, &[], program);
        command.env("LD_LIBRARY_PATH", &libraries);
        contest.add(&launcher.name, move || contest::time(|| floor::run(&mut command)));
    }
    let results = contest.run(repetitions);
    println!("{}", contest::table(&results, "ms", |m| m.as_secs_f64() * 1e3));
}
