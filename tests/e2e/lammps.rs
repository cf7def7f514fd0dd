//! Debian's LAMMPS, a program of Open MPI that people use, beside Open MPI's own launcher.

use std::path::Path;

use mpd_tests::surroundings::{setting, skip};

use crate::run::{Output, Run};
use crate::suite::Suite;

/// The table of energies: it begins with the names of its columns and ends before the time that the run took.
fn table(output: &Output) -> Vec<String> {
    let out = output.code(0).out();
    let lines = out.lines().skip_while(|line| !line.starts_with("Step Temp"));
    lines.take_while(|line| !line.starts_with("Loop time")).map(str::to_owned).collect()
}

#[test]
fn lammps_on_four_ranks_gives_the_numbers_of_its_own_launcher() {
    let (Some(lammps), Some(openmpi)) =
        (setting("MPD_TEST_LAMMPS"), setting("MPD_TEST_OMPI_DEBIAN_PREFIX"))
    else {
        return skip("LAMMPS is not there");
    };
    let libraries = |prefix: &str| format!("{prefix}/lib/{}-linux-gnu", std::env::consts::ARCH);
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("mpi/lammps/liquid.in");
    let suite = Suite::new();
    suite.start_daemon();
    let of = |launcher: Run| {
        let paths = [&lammps, &openmpi].map(|prefix| libraries(prefix));
        let run = launcher.args(["-n", "4", &format!("{lammps}/bin/lmp"), "-log", "none", "-in"]);
        let run = run.arg(&input).env("LD_LIBRARY_PATH", paths.join(":")).deadline(120);
        let run = run.env("PMIX_PREFIX", format!("{}/pmix2", libraries(&openmpi)));
        table(&run.env("OPAL_PREFIX", &openmpi).output())
    };
    let ours = of(suite.mpirun::<&str>([]));
    suite.only_the_daemon_is_left();
    let theirs = of(suite.command(format!("{openmpi}/bin/mpirun.openmpi")).args([
        "--allow-run-as-root",
        "--oversubscribe",
        "--bind-to",
        "none",
    ]));
    assert_eq!(ours, theirs);
    // The names of the columns, and steps 0 to 200.
    assert_eq!(ours.len(), 12, "{ours:?}");
    suite.only_the_daemon_is_left();
}
