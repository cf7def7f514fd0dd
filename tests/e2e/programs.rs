//! The programs by their names.

use mpd_tests::surroundings::program;
use serde_json::Value;

use crate::run::wait_until;
use crate::suite::Suite;

const ELF: &[u8] = b"\x7fELF";

/// The names that `mpdhelp` lists.
fn names(suite: &Suite) -> Vec<String> {
    let listed = suite.command(suite.program("mpdhelp")).arg("--json").output();
    listed.code(0).quiet();
    let listed: Vec<Value> = serde_json::from_str(&listed.out()).expect("JSON");
    listed.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn every_program_name_of_the_suite_is_an_executable_that_prints_its_name() {
    let suite = Suite::new();
    let names = names(&suite);
    for name in ["mpd", "mpirun", "mpiexec", "mpigdb", "mpdexec", "mpdcheck", "pty"] {
        assert!(names.iter().any(|listed| listed == name), "{name} is not in {names:?}");
    }
    for name in names {
        let file = std::fs::read(program(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(file.starts_with(ELF), "{name} is not an executable but a script");
        let version = suite.command(program(&name)).arg("--version").output();
        version.code(0).quiet();
        let said = version.out();
        assert_eq!(said.split(' ').next(), Some(name.as_str()), "{said}");
    }
}

#[test]
fn every_program_refuses_an_unknown_option_and_prints_its_own_name() {
    let suite = Suite::new();
    for name in names(&suite) {
        let output = suite.command(program(&name)).arg("--no-such-option").output();
        let errors = output.err();
        // `pty` interprets the option as the name of a program.
        let problem = if name == "pty" { "cannot run --no-such-option" } else { "un" };
        assert!(errors.starts_with(&format!("{name}: {problem}")), "{name}: {errors}");
        assert!(errors.contains("--no-such-option"), "{name}: {errors}");
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error_of_every_program() {
    let suite = Suite::new();
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let check = |name: &str, argument: &str| {
        let output = suite.command(program(name)).args([argument, "true"]).stdout(full()).output();
        let text = format!("{name}: cannot write to standard output: No space left on device");
        output.failed().says(&[&text]).brief();
    };
    names(&suite).iter().for_each(|name| check(name, "--help"));
    ["-help", "-version", "-dry-run"].iter().for_each(|argument| check("mpirun", argument));
    // A reader that has seen enough is no error.
    suite
        .bash("$MPIRUN -help | true; echo ${PIPESTATUS[0]}")
        .output()
        .code(0)
        .quiet()
        .prints("0\n");
}

#[test]
fn every_program_refuses_a_host_file_without_hosts() {
    let suite = Suite::new();
    std::fs::write(suite.path("work/none"), "# none yet\n").expect("a file");
    for (name, code, arguments) in [
        ("mpdboot", 1, &["-f", "none"][..]),
        ("mpdcheck", 1, &["-f", "none"]),
        ("mpdcleanup", 1, &["-f", "none"]),
        ("mpirun", 125, &["-f", "none", "true"]),
    ] {
        let output = suite.command(suite.program(name)).args(arguments).output();
        output.code(code).says(&[name, "none: there is no host in the file"]).brief();
    }
}

#[test]
fn a_console_under_an_unknown_name_runs_mpdtrace() {
    let suite = Suite::new();
    let foreign = suite.path("bin/members");
    std::os::unix::fs::symlink(suite.program("mpdtrace"), &foreign).expect("a link");
    let output = suite.command(&foreign).output();
    output.code(1);
    assert!(output.err().starts_with("mpdtrace: no daemon"), "{output}");
}

#[test]
fn ring_selects_a_ring_by_name_and_an_error_lists_running_rings() {
    let suite = Suite::new();
    let at = |program: &str, arguments: &[&str]| {
        let run = suite.command(suite.program(program)).without_env("MPD_RUNDIR");
        run.env("XDG_RUNTIME_DIR", suite.path("tmp")).args(arguments)
    };
    at("mpd", &["--daemon", "--ring", "work"]).output().code(0);
    at("mpd", &["--daemon", "--ring", "play"]).output().code(0);
    let job = at("mpirun", &["--ring", "work", "-n", "1", "sh", "-c", "echo $MPD_JOB_ID"]).output();
    job.code(0).quiet();
    assert!(job.out().starts_with("1@"), "{job}");
    let wrong = at("mpirun", &["--ring", "wrok", "-n", "1", "echo", "x"]).output();
    wrong.code(125).prints("");
    assert!(wrong.err().contains("no ring called 'wrok' is up"), "{wrong}");
    assert!(wrong.err().contains("play and work"), "{wrong}");
    let wrong = at("mpdtrace", &["--ring", "wrok"]).output();
    wrong.code(1);
    assert!(wrong.err().contains("(up are play and work)"), "{wrong}");
    for ring in ["work", "play"] {
        at("mpdexit", &["localmpd", "--ring", ring]).output().code(0);
    }
    wait_until("their directories are given up", || suite.processes().is_empty());
    for ring in ["work", "play"] {
        std::fs::remove_dir_all(suite.path(format!("tmp/mpd-{ring}"))).expect("it is there");
    }
}
