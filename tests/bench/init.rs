//! `MPI_Init` and `MPI_Finalize` of MPICH 5 and Intel MPI, beside the launchers that come with them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use mpd_tests::surroundings::setting;

use crate::contest::{self, Contest};
use crate::programs::{Launcher, Ring};

/// A library and the settings that lead to it.
struct Library {
    name: &'static str,
    /// Settings with its programs, its shared objects, and the launcher that comes with it.
    settings: [&'static str; 3],
    /// A variable that it needs on one host, under any launcher.
    variable: (&'static str, &'static str),
}

const LIBRARIES: [Library; 2] = [
    Library {
        name: "MPICH 5.0.2",
        settings: ["MPD_TEST_MPICH5_DIR", "MPD_TEST_MPICH5_LIB", "MPD_TEST_MPICH5_MPIEXEC"],
        variable: ("MPIR_CVAR_CH4_NETMOD", "ofi"),
    },
    Library {
        name: "Intel MPI",
        settings: ["MPD_TEST_IMPI_DIR", "MPD_TEST_IMPI_LIB", "MPD_TEST_IMPI_MPIEXEC"],
        variable: ("I_MPI_FABRICS", "shm"),
    },
];

/// The time of a whole run: start, `MPI_Init`, `MPI_Finalize`, end.
pub(crate) fn init(ring: &Ring, ranks: usize, repetitions: usize) {
    for Library { name: library, settings, variable } in LIBRARIES {
        let [Some(directory), Some(path), Some(launcher)] = settings.map(setting) else {
            crate::left_out(library, "it is not there; run scripts/prepare-test-env");
            continue;
        };
        let program = PathBuf::from(&directory).join("init").display().to_string();
        let title = format!("MPI_Init and MPI_Finalize of {ranks} ranks, {library}");
        let mut contest = Contest::new(title);
        let mut add = |name: &str, mut command: Command| {
            command.env("LD_LIBRARY_PATH", &path).env(variable.0, variable.1);
            contest.add(name, move || contest::time(|| complete(&mut command, ranks)));
        };
        let own = |program: &[&str]| {
            let mut own = Command::new(&launcher);
            own.args(["-n", &ranks.to_string()]).args(program);
            own
        };
        add("its own launcher", own(&[&program]));
        for ours in Launcher::own_two(ring) {
            add(&ours.name, ours.command(ranks, &[], &[&program]));
        }
        let mut timed = own(&["bash", "-c", TIMED, &program]);
        timed.env("LD_LIBRARY_PATH", &path).env(variable.0, variable.1);
        contest.add(
            "floor: CPU time of the ranks under its own launcher, divided by the CPUs",
            move || cpu_time(&mut timed, ranks),
        );
        let results = contest.run(repetitions);
        println!("{}", contest::table(&results, "ms", |time: Duration| time.as_secs_f64() * 1e3));
    }
}

/// Runs the program, and prints the seconds of CPU time that it took as user and system.
const TIMED: &str = r#"TIMEFORMAT="cpu %3U %3S"; { time "$0" >&3; } 3>&1 2>&1"#;

/// The CPU time of all ranks of a command that prints it for each, divided by the CPUs of this machine.
fn cpu_time(command: &mut Command, ranks: usize) -> Result<Duration, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let times: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("cpu ")).collect();
    if times.len() != ranks {
        return Err(format!("{} of {ranks} ranks printed their CPU time", times.len()));
    }
    let seconds = times
        .iter()
        .flat_map(|line| line.split(' '))
        .map(|word| word.parse::<f64>().unwrap_or(0.0));
    let cpus = std::thread::available_parallelism().map_err(|error| error.to_string())?.get();
    Ok(Duration::from_secs_f64(seconds.sum::<f64>()) / u32::try_from(cpus).unwrap_or(1))
}

/// Runs a command in which each rank prints a line.
fn complete(command: &mut Command, ranks: usize) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let lines = String::from_utf8_lossy(&output.stdout).lines().count();
    if output.status.success() && lines == ranks {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("{}, {lines} lines of {ranks} ranks: {first}", output.status))
}
