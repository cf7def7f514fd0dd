//! Wrong input: `mpirun` prints one clear line that names the problem and exits with the documented code.
//! No process is left, and the daemon continues to serve.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::stat::Mode;

use crate::members::Members;
use crate::run::{Output, Run, wait_until};
use crate::suite::{Suite, is_root, skip, tell};

/// A suite with a daemon, a directory of unusual programs, and a check of the daemon after each refusal.
struct Bad {
    suite: Suite,
    daemon: i32,
}

impl Bad {
    fn new() -> Self {
        let suite = Suite::new();
        let daemon = suite.start_daemon().pid;
        Self { suite, daemon }
    }

    fn mpirun(&self, arguments: &[&str]) -> Run {
        self.suite.mpirun(arguments)
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> String {
        let path = self.suite.path("work").join(name);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("chmod");
        path.display().to_string()
    }

    /// A named pipe with an executable mode, which no process has open.
    fn pipe(&self, name: &str) -> String {
        let path = self.suite.path("work").join(name);
        nix::unistd::mkfifo(&path, Mode::from_bits_truncate(0o755)).expect("mkfifo");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("chmod");
        path.display().to_string()
    }

    /// Checks for one line with all these texts, this exit code, no remaining process and the same daemon.
    fn refused(&self, output: &Output, code: i32, fragments: &[&str]) {
        output.code(code).says(fragments).brief();
        self.suite.only_the_daemon_is_left();
        assert_eq!(self.suite.daemon().pid, self.daemon, "the same daemon as before");
        self.suite.mpirun(["-n", "2", "true"]).output().code(0).quiet();
    }
}

#[test]
fn a_missing_program_gives_127_and_no_rank_runs() {
    let bad = Bad::new();
    for program in ["./no-such-program", "/no/such/program", "no-such-program"] {
        let output = bad.mpirun(&["-n", "4", program]).output();
        bad.refused(&output, 127, &[program, "No such file or directory"]);
    }
    let witness = bad.suite.path("work/witness").display().to_string();
    let output = bad.mpirun(&["-n", "2", "touch", &witness, ":", "-n", "1", "./missing"]).output();
    bad.refused(&output, 127, &["./missing"]);
    assert!(!Path::new(&witness).exists(), "a rank ran");
}

#[test]
fn a_program_without_execute_permission_gives_126() {
    let bad = Bad::new();
    let program = bad.file("plain", "#!/bin/sh\nexit 0\n", 0o644);
    let output = bad.mpirun(&["-n", "2", &program]).output();
    bad.refused(&output, 126, &["plain", "Permission denied"]);
}

#[test]
fn a_directory_as_the_program_is_refused_with_126() {
    let bad = Bad::new();
    let output = bad.mpirun(&["-n", "2", "/tmp"]).output();
    bad.refused(&output, 126, &["/tmp"]);
}

#[test]
fn a_script_whose_interpreter_is_missing_is_named() {
    let bad = Bad::new();
    let program = bad.file("script", "#!/no/such/interpreter\n", 0o755);
    let output = bad.mpirun(&["-n", "2", &program]).output();
    assert!([Some(126), Some(127)].contains(&output.exit_code()), "{output}");
    bad.refused(&output, output.exit_code().expect("a code"), &["script"]);
}

#[test]
fn a_file_that_is_not_a_program_gives_126() {
    let bad = Bad::new();
    // A script without its first line, which a shell would run, is also refused, because it contains zeros.
    let program = bad.file("rubbish", "\x7fELF\0\0\0\0\0\0\0\0\n", 0o755);
    let output = bad.mpirun(&["-n", "2", &program]).output();
    bad.refused(&output, 126, &["rubbish", "Exec format error"]);
}

#[test]
fn a_missing_working_directory_is_named() {
    let bad = Bad::new();
    let output = bad.mpirun(&["-wdir", "/no/such/dir", "-n", "2", "true"]).output();
    output.failed();
    bad.refused(&output, output.exit_code().expect("a code"), &["/no/such/dir", "No such file"]);
}

#[test]
fn impossible_numbers_of_ranks_are_refused() {
    let bad = Bad::new();
    for count in ["0", "x", "-3", "1000000", "99999999999999999999", "", "1.5"] {
        let output = bad.mpirun(&["-n", count, "true"]).output();
        bad.refused(&output, 125, &[if count.is_empty() { "-n" } else { count }]);
    }
}

#[test]
fn an_unknown_option_names_the_nearest_known_one() {
    let bad = Bad::new();
    for (wrong, right) in [("-tiemout", "-timeout"), ("-statusfile", "-status-file")] {
        let output = bad.mpirun(&[wrong, "3", "-n", "1", "true"]).output();
        bad.refused(&output, 125, &[wrong, right]);
    }
}

#[test]
fn a_command_line_without_a_program_is_refused() {
    let bad = Bad::new();
    for arguments in [&["-n", "2"][..], &[], &["-n", "2", "true", ":"], &["-n"]] {
        let output = bad.mpirun(arguments).output();
        bad.refused(&output, 125, &["mpirun: "]);
    }
}

#[test]
fn an_unreadable_configuration_file_is_named() {
    let bad = Bad::new();
    for (path, why) in [("/no/such/file", "No such file"), ("/tmp", "directory")] {
        let output = bad.mpirun(&["-configfile", path]).output();
        bad.refused(&output, 125, &[path, why]);
    }
}

#[test]
fn a_configuration_file_without_permission_is_named() {
    if !is_root() {
        return skip("a file without permission: needs root, to become another user");
    }
    let suite = Suite::as_user(60_201);
    let file = suite.path("closed");
    std::fs::write(&file, "-n 2 true\n").expect("a file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("chmod");
    let file = file.display().to_string();
    let output = suite.mpirun(["-configfile", &file]).output();
    output.code(125).says(&[&file, "Permission denied"]).brief();
}

#[test]
fn an_option_with_a_bad_value_is_named() {
    let bad = Bad::new();
    let table: [&[&str]; 8] = [
        &["-s", "none-such"],
        &["-s", "7"],
        &["-umask", "999"],
        &["-timeout", "soon"],
        &["-usize", "many"],
        &["-rlimit", "nothing"],
        &["-envlist", "NO_SUCH_VARIABLE_HERE"],
        &["-on-failure", "whatever"],
    ];
    for arguments in table {
        let output = bad.mpirun(&[arguments, &["-n", "2", "true"]].concat()).output();
        bad.refused(&output, 125, &[arguments[1]]);
    }
}

#[test]
fn an_environment_of_two_megabytes_reaches_the_ranks() {
    let bad = Bad::new();
    // A variable may have 128 KiB, and all of them together what the stack limit permits: a bit over 2 MB.
    let value = "e".repeat(99_900);
    let mut run = bad.mpirun(&["-n", "2"]).arg(bad.suite.program("t-env")).arg("BIG_19");
    for number in 0..20 {
        run = run.env(format!("BIG_{number}"), &value);
    }
    let output = run.output();
    output.code(0).quiet();
    assert_eq!(output.out().matches("env BIG_19 length 99900 ").count(), 2, "not on two ranks");
}

#[test]
fn an_environment_beyond_the_limit_of_the_kernel_is_refused() {
    let bad = Bad::new();
    let value = "e".repeat(100_000);
    let arguments: Vec<String> =
        (0..25).flat_map(|n| ["-env".into(), format!("MORE_{n}"), value.clone()]).collect();
    let mut run = bad.suite.mpirun(["-n", "1"]);
    // One half comes by the environment, the other by the command line, so that mpirun itself can start.
    for number in 0..10 {
        run = run.env(format!("BIG_{number}"), &value);
    }
    let output = run.args(&arguments[..30]).args(["true"]).output();
    if output.exit_code() == Some(0) {
        return tell("note: this kernel takes an environment of 3 MB");
    }
    bad.refused(&output, 126, &["true", "Argument list too long"]);
}

#[test]
fn invalid_data_on_the_pmi_descriptor_ends_the_job_and_names_the_rank() {
    let bad = Bad::new();
    for mode in ["garbage", "huge-line"] {
        let output = bad.suite.ranks(3, "t-pmi", &[mode, "1"]).output();
        output.failed().says(&["rank 1", "PMI"]);
        bad.suite.only_the_daemon_is_left();
        assert_eq!(bad.suite.daemon().pid, bad.daemon);
    }
}

#[test]
fn a_full_disk_at_stdout_is_reported_with_125() {
    let bad = Bad::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let output = bad.mpirun(&["-n", "2", "echo", "text"]).stdout(full).output();
    bad.refused(&output, 125, &["No space left on device"]);
}

#[test]
fn a_job_runs_with_a_full_tmpdir() {
    if !is_root() {
        return skip("a full file system: needs root, to mount one");
    }
    let suite = Suite::new();
    let script = "mount -t tmpfs -o size=16k none $TMPDIR || exit 99; \
                  dd if=/dev/zero of=$TMPDIR/fill bs=1k 2>/dev/null; \
                  $MPIRUN -n 2 echo here; code=$?; rm -f $TMPDIR/fill; \
                  ls -A $TMPDIR; umount $TMPDIR; exit $code";
    let script = format!("unshare -m bash -c '{script}'");
    let output = suite.bash(&script).output();
    if output.exit_code() == Some(99) || output.err().contains("unshare") {
        return skip("a full file system: cannot mount one here");
    }
    output.code(0).prints("here\nhere\n");
}

#[test]
fn with_a_tmpdir_that_cannot_be_used_a_job_runs_in_another_one_and_says_so_in_one_line() {
    let bad = Bad::new();
    let file = bad.pipe("file");
    let wrong: [(&[u8], &str); 6] = [
        (b"/no/such/tmp", "/no/such/tmp: No such file or directory"),
        (file.as_bytes(), "Not a directory"),
        (b"no-such", "no-such: No such file or directory"),
        (b"../up", "the path has a \"..\" in it"),
        (b"/scratch/\xff", "the path is not UTF-8 text"),
        (b"/proc", "/proc: "),
    ];
    for (value, said) in wrong {
        let script = "cd $MPD_JOB_TMPDIR && pwd";
        let output = bad
            .mpirun(&["-n", "2", "sh", "-c", script])
            .env("TMPDIR", OsStr::from_bytes(value))
            .output();
        output.code(0).says(&["TMPDIR=", said]);
        assert!(output.out().lines().all(|line| line.starts_with("/tmp/mpd-")), "{output:?}");
        assert_eq!(output.err().lines().count(), 1, "{output:?}");
    }
    bad.suite.only_the_daemon_is_left();
}

#[test]
fn a_job_runs_without_a_free_inode_in_tmpdir() {
    if !is_root() {
        return skip("a file system without inodes: needs root, to mount one");
    }
    let suite = Suite::new();
    let script = "mount -t tmpfs -o nr_inodes=3 none $TMPDIR || exit 99; \
                  touch $TMPDIR/a $TMPDIR/b $TMPDIR/c 2>/dev/null; \
                  $MPIRUN -n 2 echo here; code=$?; rm -f $TMPDIR/[abc]; \
                  ls -A $TMPDIR; umount $TMPDIR; exit $code";
    let output = suite.bash(&format!("unshare -m bash -c '{script}'")).output();
    if output.exit_code() == Some(99) || output.err().contains("unshare") {
        return skip("a file system without inodes: cannot mount one here");
    }
    output.code(0).prints("here\nhere\n").says(&["No space left on device"]);
}

#[test]
fn a_tmpdir_of_another_user_is_replaced_on_each_host_and_one_line_names_the_hosts() {
    if !is_root() {
        return skip("a directory of another user: needs root");
    }
    let ring = Members::within(Suite::as_user(60_217));
    for rundir in ["m1", "m2"] {
        ring.suite.new_directory(rundir);
        ring.suite.allow(rundir, 0o700);
    }
    // Only this user's programs get answers of the daemons.
    ring.start(1);
    ring.start(2);
    let on_both = |arguments: &[&str]| {
        let hosts = ["-hosts", "d1,d2", "-ppn", "1", "-n", "2"];
        ring.mpirun(1, &[&hosts[..], arguments].concat())
    };
    wait_until("d1 lists d2", || on_both(&["true"]).output().exit_code() == Some(0));
    let theirs = ring.suite.path("theirs");
    std::fs::create_dir(&theirs).expect("a directory");
    for mode in [0o755, 0o700] {
        ring.suite.allow("theirs", mode);
        let script = "cd $MPD_JOB_TMPDIR && pwd && stat -c %u .";
        let output = on_both(&["sh", "-c", script]).env("TMPDIR", &theirs).output();
        let reason = format!("TMPDIR={}: Permission denied; ", theirs.display());
        output.code(0).says(&[&reason, "the job's directory on hosts d", " is in /tmp"]);
        let error = output.err();
        assert_eq!(error.lines().count(), 1, "{output}");
        assert!(["d1", "d2"].iter().all(|host| error.contains(host)), "{output}");
        let lines = output.sorted_lines();
        let (places, owners): (Vec<&str>, Vec<&str>) =
            lines.iter().map(String::as_str).partition(|line| line.starts_with("/tmp/mpd-"));
        assert_eq!((places.len(), owners), (2, vec!["60217"; 2]), "{output}");
        assert!(places.iter().all(|place| !Path::new(place).exists()), "{output}");
    }
    assert_eq!(std::fs::read_dir(&theirs).expect("the directory").count(), 0);
    ring.only_daemons_are_left();
}

#[test]
fn with_few_descriptors_a_job_without_a_daemon_fails_with_one_line_that_names_what_it_could_not_do()
{
    let suite = Suite::new();
    for most in 5..20 {
        let output = suite.bash(&format!("ulimit -n {most}; exec $MPIRUN -n 1 true")).output();
        let error = output.err();
        // Its daemon may print a line of its own before or after that.
        let own = error.lines().rfind(|line| line.starts_with("mpirun: "));
        output.code(125);
        let last = own.unwrap_or_else(|| panic!("{output}"));
        assert!(!last.starts_with("mpirun: Too many open files"), "{output}");
        assert!(!error.contains(" WARN: "), "a line of a log: {output}");
    }
}

#[test]
fn a_worker_of_a_farm_that_cannot_start_is_reported_once_with_its_host_named_once() {
    let suite = Suite::new();
    let farm = suite.program("mpdfarm");
    let script = format!("ulimit -n 20; seq 4 | {farm} echo {{}}");
    let output = suite.bash(&script).output();
    output.failed();
    let lines = output.err().lines().filter(|line| line.contains("file descriptors")).count();
    assert!(lines == 1 && output.err().matches(": host ").count() == 1, "{output}");
}

#[test]
fn a_wait_for_slots_speaks_as_mpirun() {
    let suite = Suite::new();
    let output = suite.mpirun(["-wait", "-n", "2", "true"]).output();
    output.code(125).says(&["mpirun: no daemon is running"]);
    assert!(!output.err().contains("mpdalloc"), "{output}");
}

#[test]
fn a_named_pipe_as_the_program_is_refused_with_126() {
    let bad = Bad::new();
    let pipe = bad.pipe("pipe");
    let output = bad.mpirun(&["-n", "2", &pipe]).deadline(10).output();
    bad.refused(&output, 126, &["pipe", "Permission denied"]);
}

#[test]
fn a_pipe_without_a_reader_is_refused_as_an_output_file() {
    let bad = Bad::new();
    let pipe = bad.pipe("pipe");
    for option in ["-outfile-pattern", "-errfile-pattern"] {
        let output = bad.mpirun(&[option, &pipe, "-n", "2", "echo", "x"]).deadline(10).output();
        bad.refused(&output, 125, &["pipe"]);
    }
}

#[test]
fn an_output_file_cannot_be_named_after_a_process_id() {
    let bad = Bad::new();
    for option in ["-outfile-pattern", "-errfile-pattern"] {
        let output = bad.mpirun(&[option, "o.%p", "-n", "2", "true"]).output();
        bad.refused(&output, 125, &[option, "%p"]);
        assert_eq!(output.err().lines().count(), 1, "{output}");
    }
}

#[test]
fn output_beyond_the_file_size_limit_is_reported_with_125() {
    let suite = Suite::new();
    let limited = || {
        let run = suite.command(suite.program("t-run")).arg("file-size=1000000");
        run.arg(suite.program("mpirun"))
    };
    let file = std::fs::File::create(suite.path("work/all")).expect("a file");
    for run in [limited().args(["-outfile-pattern", "out.%r"]), limited().stdout(file)] {
        let flood = suite.program("t-flood");
        let output = run.args(["-n", "2", &flood, "bytes=4000000"]).output();
        output.code(125).says(&["File too large"]).brief();
        assert!(!output.err().contains("died"), "{output}");
        suite.gone(&[]);
    }
}
