//! Exit codes of ranks on other hosts, and jobs that cannot start because of one host.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::across::ring;
use crate::members::Members;

#[test]
fn mpirun_exits_with_the_code_of_a_rank_on_any_host() {
    let ring = ring();
    for (rank, code) in [(0, 3), (2, 1), (3, 255), (5, 7), (6, 126), (7, 77)] {
        let arguments = [rank.to_string(), code.to_string(), "sleep".to_owned()];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = ring.ranks(8, "t-exit-with", &arguments).output();
        let host = format!("host d{}", rank / 2 + 1);
        output.code(code).says(&[&host, &format!("rank {rank}: exited with code {code}")]).brief();
        ring.only_daemons_are_left();
    }
}

#[test]
fn a_rank_killed_by_a_signal_on_any_host_gives_128_plus_its_number() {
    let ring = ring();
    for (rank, signal) in [(1, 15), (2, 9), (4, 11), (7, 6)] {
        let arguments = [rank.to_string(), format!("sig{signal}"), "sleep".to_owned()];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = ring.ranks(8, "t-exit-with", &arguments).output();
        let host = format!("host d{}", rank / 2 + 1);
        output.code(128 + signal);
        output.says(&[&host, &format!("rank {rank}: killed by signal {signal}")]).brief();
        ring.only_daemons_are_left();
    }
}

#[test]
fn the_status_file_lists_the_ranks_of_all_hosts() {
    let ring = ring();
    let arguments = ["-on-failure=continue", "-status-file", "status", "-n", "8", "sh", "-c"];
    ring.mpirun(1, &arguments).arg("exit $((PMI_RANK * 10))").output().failed();
    let status = fs::read_to_string(ring.suite.path("work/status")).expect("a status file");
    let ranks: Vec<_> = status.lines().filter(|line| line.starts_with("rank=")).collect();
    assert_eq!(ranks.len(), 8, "{status}");
    for (rank, line) in ranks.iter().enumerate() {
        let start = format!("rank={rank} host=d{} pid=", rank / 2 + 1);
        let end = format!(" code={}", rank * 10);
        assert!(line.starts_with(&start) && line.ends_with(&end), "{status}");
    }
    ring.only_daemons_are_left();
}

#[test]
fn no_rank_runs_if_one_host_cannot_run_its_program() {
    let ring = ring();
    let unusable = ring.suite.path("work/unusable");
    fs::write(&unusable, "no program").expect("a file");
    fs::set_permissions(&unusable, PermissionsExt::from_mode(0o644)).expect("chmod");
    let unusable = unusable.display().to_string();
    for host in ["d1", "d2", "d4"] {
        for (program, code) in [("./missing", 127), ("missing", 127), (&unusable, 126)] {
            let arguments = ["-n", "6", "sh", "-c", "touch ran.$PMI_RANK", ":", "-n", "1", "-host"];
            let output = ring.mpirun(1, &arguments).args([host, program]).output();
            output.code(code).says(&[&format!("host {host}"), program]).brief();
            for rank in 0..6 {
                let ran = ring.suite.path(format!("work/ran.{rank}"));
                assert!(!ran.exists(), "rank {rank} ran before {program} on {host}");
            }
        }
    }
    ring.only_daemons_are_left();
}

/// The script exists and is executable. Only the kernel detects at `exec` that its interpreter is missing.
fn script_without_interpreter(ring: &Members) -> PathBuf {
    let script = ring.suite.path("work/script");
    fs::write(&script, "#!/no/such/interpreter\n").expect("a file");
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("chmod");
    script
}

#[test]
fn an_exec_that_fails_late_ends_the_ranks_already_running_on_other_hosts() {
    let ring = ring();
    let script = script_without_interpreter(&ring);
    let arguments = ["-n", "6", "sleep", "60", ":", "-n", "1", "-host", "d3"];
    let output = ring.mpirun(1, &arguments).arg(script).output();
    let code = output.exit_code().expect("a code");
    assert!(code == 126 || code == 127, "{output}");
    output.says(&["host d3", "script"]).brief();
    ring.only_daemons_are_left();
}
