//! Options of one program of a job apply to its ranks on every host.

use std::fs;

use crate::members::Members;

/// Two daemons with two slots each.
fn ring() -> Members {
    Members::of(2)
}

#[test]
fn a_wrapper_runs_every_rank_on_every_host() {
    let ring = ring();
    let arguments =
        ["-np", "16", "-ppn", "8", "nice", "-5", "sh", "-c", "echo $(nice) of $PMI_SIZE"];
    let output = ring.mpirun(1, &arguments).output();
    output.code(0).quiet();
    let own: i32 = ring.suite.command("nice").output().out().trim().parse().expect("a number");
    let expected = format!("{} of 16", (own + 5).min(19));
    assert_eq!(output.sorted_lines(), vec![expected; 16]);
}

#[test]
fn each_program_has_its_own_environment_directory_and_umask_on_every_host() {
    let ring = ring();
    let directory = ring.suite.new_directory("elsewhere");
    let script = "echo $0 $PMI_RANK ${A-none} ${G-none} $(pwd) $(umask)";
    let work = ring.suite.path("work").display().to_string();
    let first = ["-ppn", "2", "-genv", "G", "all", "-n", "3", "-env", "A", "one", "-umask", "027"];
    let second = [":", "-n", "3", "-wdir", &directory, "-umask", "077", "-env", "A=two words"];
    let arguments =
        [&first[..], &["sh", "-c", script, "first"], &second, &["sh", "-c", script, "second"]];
    let output = ring.mpirun(1, &arguments.concat()).output();
    output.code(0);
    let line = |rank: u32| match rank {
        0..3 => format!("first {rank} one all {work} 0027"),
        _ => format!("second {rank} two words all {directory} 0077"),
    };
    assert_eq!(output.sorted_lines(), (0..6).map(line).collect::<Vec<_>>());
}

#[test]
fn programs_of_a_configuration_file_fill_the_hosts_in_order() {
    let ring = ring();
    let file = ring.suite.path("work/programs");
    let text = "# who runs what\n\
                -n 1 -env WHO master sh -c 'echo $WHO $PMI_RANK $MPI_LOCALRANKID'\n\
                -n 3 -env WHO \"a worker\" \\\n  sh -c 'echo $WHO $PMI_RANK $MPI_LOCALRANKID'\n";
    fs::write(&file, text).expect("a file");
    let arguments = ["-ppn", "2", "-configfile", &file.display().to_string()];
    let output = ring.mpirun(2, &arguments).output();
    output.code(0).quiet();
    let expected = ["a worker 1 1", "a worker 2 0", "a worker 3 1", "master 0 0"];
    assert_eq!(output.sorted_lines(), expected);
}

#[test]
fn with_envnone_no_variable_of_the_caller_reaches_any_host() {
    let ring = ring();
    let arguments = ["-ppn", "1", "-n", "2", "-envnone", "-env", "OWN", "x", "env"];
    let run = ring.mpirun(1, &arguments).env("SECRET", "left at home");
    let output = run.output();
    output.code(0).quiet();
    let ours = |line: &&String| {
        let foreign = [
            "PMI_",
            "PMIX_",
            "JSM_",
            "MPI_",
            "MPIR_",
            "I_MPI_",
            "MPD_",
            "OMPI_",
            "MV2_",
            "GFORTRAN_",
            "PATH=",
        ];
        !foreign.iter().any(|name| line.starts_with(name))
    };
    let lines = output.sorted_lines();
    assert_eq!(lines.iter().filter(ours).collect::<Vec<_>>(), ["OWN=x", "OWN=x"], "{output}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("PATH=")).count(), 2);
}
