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
        let mut own = Command::new(launcher);
        own.args(["-n", &ranks.to_string(), &program]);
        add("its own launcher", own);
        for ours in Launcher::own_two(ring) {
            add(&ours.name, ours.command(ranks, &[], &[&program]));
        }
        let results = contest.run(repetitions);
        println!("{}", contest::table(&results, "ms", |time: Duration| time.as_secs_f64() * 1e3));
    }
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
