//! Basic guarantees of every job: it runs, each rank knows its identity, and ranks keep the settings of the caller.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mpd_tests::surroundings::{setting, skip};

use crate::run::{Output, Run, comes_true};
use crate::suite::{Suite, is_root};

#[test]
fn four_ranks_of_an_ordinary_program_run_without_a_daemon() {
    let suite = Suite::new();
    let output = suite.mpirun(["-np", "4", "hostname"]).output();
    output.code(0).quiet();
    let lines = output.sorted_lines();
    assert_eq!(lines.len(), 4, "{output}");
    assert!(lines.iter().all(|line| line == &lines[0]), "{output}");
    suite.gone(&[]);
}

#[test]
fn without_room_for_a_key_a_job_runs_and_a_daemon_prints_a_hint() {
    // The key of root is not in its home directory.
    let suite = if is_root() { Suite::as_user(60_209) } else { Suite::new() };
    let home = suite.path("home");
    fs::set_permissions(&home, PermissionsExt::from_mode(0o500)).expect("chmod");
    for home in [home.as_path(), Path::new("/no/such/home")] {
        let homeless = |run: Run| run.env("HOME", home).without_env("MPD_KEY_FILE");
        let output = homeless(suite.mpirun(["-n", "2", "echo", "here"])).output();
        output.code(0).prints("here\nhere\n").quiet();
        let output = homeless(suite.command(suite.program("mpd")).arg("--daemon")).output();
        let file = home.join(".mpd.key").display().to_string();
        output.code(1).says(&[&file, "name another key file with --key or MPD_KEY_FILE"]).brief();
    }
    suite.gone(&[]);
}

#[test]
fn four_ranks_of_an_ordinary_program_run_through_a_daemon() {
    let suite = Suite::new();
    let daemon = suite.start_daemon();
    let output = suite.mpirun(["-np", "4", "hostname"]).output();
    output.code(0).quiet();
    assert_eq!(output.sorted_lines().len(), 4, "{output}");
    suite.only_the_daemon_is_left();
    assert_eq!(suite.daemon().pid, daemon.pid);
}

#[test]
fn mpiexec_behaves_like_mpirun() {
    let suite = Suite::new();
    let mpiexec = suite.program("mpiexec");
    suite
        .command(mpiexec)
        .args(["-n", "2", "echo", "here"])
        .output()
        .code(0)
        .prints("here\nhere\n");
}

#[test]
fn every_job_has_its_own_id_cookie_and_private_directory() {
    let suite = Suite::new();
    suite.start_daemon();
    let script = "stat -c %a $MPD_JOB_TMPDIR; echo $MPD_JOB_ID $MPD_JOB_COOKIE $MPD_JOB_TMPDIR; \
                  touch $MPD_JOB_TMPDIR/file; mkdir -p $MPD_JOB_TMPDIR/a/$PMI_RANK/b";
    let seen: Vec<Vec<String>> = (0..2)
        .map(|_| {
            let output = suite.mpirun(["-n", "2", "sh", "-c", script]).output();
            output.code(0);
            let mut lines = output.sorted_lines();
            lines.dedup();
            lines
        })
        .collect();
    for lines in &seen {
        assert_eq!(lines.len(), 2, "both ranks have equal values: {lines:?}");
        assert!(lines.contains(&"700".to_owned()), "{lines:?}");
        let arguments: Vec<_> =
            lines.iter().find(|l| *l != "700").expect("ids").split(' ').collect();
        assert_eq!(arguments.len(), 3, "{arguments:?}");
        assert!(arguments.iter().all(|word| !word.is_empty()), "{arguments:?}");
        assert!(Path::new(arguments[2]).starts_with(suite.path("tmp")), "{arguments:?}");
        assert!(!Path::new(arguments[2]).exists(), "{arguments:?} must be removed with its job");
    }
    let ids = |lines: &[String]| lines.iter().find(|line| *line != "700").cloned();
    assert_ne!(ids(&seen[0]), ids(&seen[1]));
}

#[test]
fn removal_of_the_jobs_directory_follows_no_link() {
    let suite = Suite::new();
    let precious = suite.new_directory("precious");
    fs::write(suite.path("precious/file"), "keep").expect("a file");
    let script =
        "ln -s $0 $MPD_JOB_TMPDIR/link; mkdir $MPD_JOB_TMPDIR/d; chmod 0 $MPD_JOB_TMPDIR/d";
    suite.mpirun(["-n", "1", "sh", "-c", script, &precious]).output().code(0).quiet();
    assert!(suite.path("precious/file").exists());
}

#[test]
fn a_rank_keeps_the_callers_environment_byte_for_byte() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let suite = Suite::new();
    let helper = suite.program("t-env");
    let odd = OsStr::from_bytes(b"\xff\xfe\n=\\");
    let with = |run: Run| run.env("ODD", odd).env("EMPTY", "").env("LONE", "x=y=");
    let direct = with(suite.command(&helper)).output();
    let ranked = with(suite.mpirun([&helper])).output();
    ranked.code(0).quiet();
    let ours = |output: &Output| {
        environment(output, &["PMI_", "MPI_", "MPIR_", "MPD_JOB", "PMIX_", "OMPI_"])
    };
    let missing: Vec<_> =
        ours(&direct).into_iter().filter(|line| !ours(&ranked).contains(line)).collect();
    assert!(missing.is_empty(), "lost or changed: {missing:?}");
    assert!(ranked.out().contains("env ODD length 5 hex fffe0a3d5c"), "{ranked}");
}

#[test]
fn a_rank_keeps_the_callers_directory_umask_limits_and_signal_mask() {
    let suite = Suite::new();
    let directory = suite.new_directory("some where");
    let facts = "pwd; umask; ulimit -n; ulimit -Hn; ulimit -c; grep SigBlk /proc/self/status";
    let conditions = ["soft-files=300", "core=12345", "umask=027"];
    let direct = suite.command(suite.program("t-run")).args(conditions);
    let direct = direct.args(["bash", "-c", facts]).directory(&directory).output();
    let ranked = suite.command(suite.program("t-run")).args(conditions);
    let ranked = ranked.arg(suite.program("mpirun")).args(["bash", "-c", facts]);
    let ranked = ranked.directory(&directory).output();
    ranked.code(0).quiet().prints(&direct.out());
    assert!(direct.out().contains("some where\n0027\n300\n"), "{direct}");
    assert!(direct.out().contains("SigBlk:\t0000000000000000"), "{direct}");
}

#[test]
fn a_rank_has_only_the_three_streams_and_the_pmi_descriptor() {
    let suite = Suite::new();
    suite.start_daemon();
    let output = suite.mpirun(["-n", "2", "bash", "-c", LIST_DESCRIPTORS]).output();
    output.code(0);
    check_descriptors(&output);
}

#[test]
fn without_close_range_a_rank_still_has_no_other_descriptor() {
    let Some(strace) = setting("MPD_TEST_STRACE") else { return skip("no strace") };
    let suite = Suite::new();
    // A descriptor that the shell opened and that no program of the suite knows.
    let run = suite.command("bash").args(["-c", "exec \"$@\" 9</dev/null", "bash", &strace]);
    let run = run.args(["-f", "-o", "trace", "-e", "inject=close_range:error=ENOSYS"]);
    let run = run.arg(suite.program("mpirun")).args(["-n", "2", "bash", "-c", LIST_DESCRIPTORS]);
    let output = run.deadline(120).output();
    output.code(0);
    check_descriptors(&output);
    let trace = fs::read_to_string(suite.path("work/trace")).expect("a trace");
    assert!(trace.contains("(INJECTED)"), "{trace}");
}

const LIST_DESCRIPTORS: &str = "echo $PMI_FD: /proc/self/fd/*";

/// Each line names the three streams, the PMI descriptor and no other descriptor.
fn check_descriptors(output: &Output) {
    for line in output.out().lines() {
        let (number, open) = line.split_once(": ").expect("two parts");
        let open: Vec<_> = open.split(' ').filter_map(|p| p.rsplit('/').next()).collect();
        // The listing shell has one more descriptor open: the directory itself.
        let known = ["0", "1", "2", number];
        let unknown = open.iter().filter(|fd| !known.contains(fd)).count();
        assert!(known.iter().all(|fd| open.contains(fd)) && unknown <= 1, "{output}");
    }
}

#[test]
fn every_rank_leads_its_own_process_group_in_its_managers_session() {
    let suite = Suite::new();
    let output = suite.ranks(2, "t-env", &["NONE"]).output();
    output.code(0);
    let text = output.out();
    let lines: Vec<Vec<_>> = text
        .lines()
        .filter(|line| line.starts_with("pid "))
        .map(|line| line.split(' ').collect())
        .collect();
    assert_eq!(lines.len(), 2);
    for arguments in &lines {
        assert_eq!(arguments[1], arguments[5], "its group is its own: {arguments:?}");
        assert_eq!(arguments[7], arguments[3], "the session is its parent's: {arguments:?}");
    }
}

#[test]
fn bytes_pass_unchanged_through_the_standard_streams_of_a_rank() {
    let suite = Suite::new();
    let bytes: Vec<u8> = (0..64).flat_map(mpd_tests::digest::block).collect();
    let output = suite.ranks(1, "t-stdin", &["cat"]).input(bytes.clone()).output();
    output.code(0).quiet();
    assert!(output.stdout == bytes, "{} bytes came back of {}", output.stdout.len(), bytes.len());
}

#[test]
fn mpirun_within_a_rank_starts_a_separate_job() {
    let suite = Suite::new();
    suite.start_daemon();
    let mpirun = suite.program("mpirun");
    let inner =
        format!("echo outer $PMI_SIZE; exec {mpirun} -n 3 {} hello", suite.program("t-pmi"));
    let output = suite.mpirun(["-n", "2", "sh", "-c", &inner]).output();
    output.code(0);
    assert_eq!(output.out().matches("outer 2").count(), 2, "{output}");
    assert_eq!(output.out().matches("of 3 appnum 0").count(), 6, "{output}");
}

#[test]
fn a_private_ring_leaves_nothing_in_the_run_directory() {
    let suite = Suite::new();
    suite.mpirun(["-n", "2", "true"]).output().code(0).quiet();
    suite.gone(&[]);
    assert_eq!(fs::read_dir(suite.rundir()).expect("a directory").count(), 0);
}

#[test]
fn a_new_run_directory_is_accessible_only_to_its_user() {
    let suite = Suite::new();
    let rundir = suite.path("work/new");
    let path = rundir.display().to_string();
    let log = suite.path("mpd.log").display().to_string();
    let started = suite.mpd(&["--daemon", "--rundir", &path, "--log-file", &log]).output();
    started.code(0);
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode();
    assert_eq!(mode(&rundir) & 0o777, 0o700);
    assert_eq!(mode(&rundir.join("mpd.sock")) & 0o777, 0o600);
    let status = suite.mpd(&["--status", "--rundir", &path]).output();
    let status: serde_json::Value = serde_json::from_slice(&status.code(0).stdout).expect("JSON");
    let pid = i32::try_from(status["pid"].as_i64().expect("a pid")).expect("a pid");
    suite.mpirun(["echo", "through it"]).env("MPD_RUNDIR", &path).output().prints("through it\n");
    crate::process::send(pid, nix::sys::signal::Signal::SIGTERM);
    assert!(comes_true(std::time::Duration::from_secs(10), || !rundir.join("mpd.sock").exists()));
}

fn environment(output: &Output, except: &[&str]) -> Vec<String> {
    let text = output.out();
    let lines = text.lines().filter(|line| line.starts_with("env "));
    let kept = lines.filter(|line| !except.iter().any(|prefix| line[4..].starts_with(prefix)));
    kept.map(str::to_owned).collect()
}
