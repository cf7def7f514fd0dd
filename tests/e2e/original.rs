//! Command lines of the original MPD, read by the programs that users run.

use std::fs;

use nix::sys::signal::Signal;

use crate::members::Members;
use crate::run::wait_until;

#[test]
fn daemons_and_tools_take_the_options_of_the_original() {
    let ring = Members::new();
    let file = ring.suite.path("work/pid");
    let pid = format!("--pid={}", file.display());
    let first = ring.started(1, ring.mpd(1).args(["--trace", &pid]));
    assert_eq!(fs::read_to_string(&file).expect("a file").trim(), first.pid.to_string());
    let port = first.address.port();
    let entry = format!("{}_{port}", first.address.ip());
    ring.started(2, ring.mpd(2).args(["-hp", &entry, "--debug"]));
    ring.agree();
    let console = |name: &str, arguments: &[&str]| {
        let run = ring.suite.command(ring.suite.program(name)).args(arguments);
        run.env("MPD_RUNDIR", ring.rundir(2)).output()
    };
    let job = ring.mpirun(1, &["-n", "1", "sleep", "60"]).start();
    wait_until("a rank", || ring.suite.running("sleep").len() == 1);
    console("mpdkilljob", &["1"]).code(1).says(&["1@d2"]);
    console("mpdkilljob", &["ocean", "d1"]).code(1).says(&["only the number of a job"]);
    let member = format!("d1_{port}");
    console("mpdkilljob", &["1", &member]).code(0).quiet();
    job.wait().failed();
    console("mpdexit", &[&member]).code(0).quiet();
    ring.forget(1);
    assert!(!file.exists(), "the file of the process id is left");
}

#[test]
fn a_daemon_in_the_foreground_prints_its_port_when_it_is_in_the_ring() {
    let ring = Members::new();
    let first = ring.start(1);
    let entry = first.address.to_string();
    let arguments = ["-e", "-b", "--name", "d2", "--ifhn", &ring.ip(2), "--join", &entry];
    let daemon = ring.suite.mpd(&arguments).start();
    wait_until("the port", || daemon.stdout().starts_with("mpd_port="));
    assert!(ring.view(1).members.iter().any(|member| member.name.as_str() == "d2"));
    daemon.send(Signal::SIGTERM);
    let output = daemon.wait();
    output.code(0).says(&["-b has no effect: mpdboot --keep"]);
}

#[test]
fn options_without_a_counterpart_are_refused_with_the_name_to_use() {
    let suite = crate::suite::Suite::new();
    let refused = |program: &str, option: &str, name: &str| {
        let output = suite.command(suite.program(program)).arg(option).output();
        let (written, _) = option.split_once('=').unwrap_or((option, ""));
        output.code(2).brief().says(&[written, "of the original MPD", name]);
    };
    refused("mpd", "-n", "--rundir DIR");
    refused("mpd", "--tmpdir=/tmp", "--rundir DIR");
    refused("mpdcleanup", "--kill=x", "mpdkilljob");
}
