//! What all tools have in common: help, errors, untrusted text.

use std::process::{Command, Stdio};

use mpd_wire::message::{ConsoleReply, JobRef, RingRequest};

use crate::support::{Act, Daemon, NAUGHTY, command, done, finish, refusal, ring, run};

/// Command lines of tools that ask the daemon.
const ASKING: &[(&str, &[&str])] = &[
    ("mpdtrace", &[]),
    ("mpdtrace", &["--trace-hops"]),
    ("mpdringtest", &[]),
    ("mpdringtest", &["5"]),
    ("mpdallexit", &[]),
    ("mpdexit", &["localmpd"]),
    ("mpdexit", &["h2"]),
    ("mpddrain", &["h2"]),
    ("mpdlistjobs", &[]),
    ("mpdkilljob", &["1"]),
    ("mpdsigjob", &["INT", "-j", "1"]),
    ("mpdstdin", &["1", "all"]),
    ("mpdlabels", &["1", "on"]),
    ("mpdstate", &["1"]),
    ("mpdping", &["h2"]),
    ("mpdwatch", &[]),
];

#[test]
fn a_tool_can_be_selected_by_an_argument() {
    let daemon = Daemon::of(ring(&["h1", "h2"]));
    assert_eq!(daemon.run("mpdtrace", &["--tool", "mpdtrace"]).good(), "h1\nh2\n");
    let help = daemon.run("mpdtrace", &["--tool", "mpdhelp"]).good();
    assert!(help.contains("mpdsigjob"), "{help}");
    let refused = daemon.run("mpdtrace", &["--tool", "mpdsigjob", "-INT"]);
    assert!(refused.err.starts_with("mpdsigjob: "), "{}", refused.err);
}

#[test]
fn text_of_the_daemon_cannot_drive_a_terminal_or_forge_lines() {
    let daemon = Daemon::new(|_| refusal(NAUGHTY));
    for &(program, arguments) in ASKING {
        let err = daemon.run(program, arguments).bad(program);
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(err.contains("x\\nmpdtrace: FAKE \\u{1b}"), "{err}");
    }
    let mut view = ring(&["h1"]);
    (view.ring, view.key) = (NAUGHTY.into(), NAUGHTY.into());
    let daemon = Daemon::of(view);
    for arguments in [&["--json"][..], &["--svg"], &["-l"], &[]] {
        daemon.run("mpdtrace", arguments).good();
    }
}

#[test]
fn silence_a_closed_connection_garbage_and_an_unfit_reply_have_different_errors() {
    let closing = Daemon::new(|_| vec![]);
    assert!(closing.run("mpdtrace", &[]).bad("mpdtrace").contains("closed the connection"));
    let babbling = Daemon::new(|_| vec![Act::Bytes(vec![0xff; 64])]);
    assert!(babbling.run("mpdtrace", &[]).bad("mpdtrace").contains("an invalid message"));
    let alien = Daemon::new(|_| vec![Act::Bytes(b"\0\0\0\x0b\0{\"huh\":{}}".to_vec())]);
    assert!(
        alien.run("mpdallexit", &[]).bad("mpdallexit").contains("a kind that is unknown here: huh")
    );
    let beside = Daemon::new(|_| done(&[]));
    for (program, arguments) in
        [("mpdtrace", &[][..]), ("mpdringtest", &[]), ("mpdping", &["h"]), ("mpdlistjobs", &[])]
    {
        assert!(beside.run(program, arguments).bad(program).contains("does not fit the question"));
    }
}

#[test]
fn without_a_daemon_each_tool_says_how_to_start_one() {
    let directory = tempfile::tempdir().unwrap();
    for &(program, arguments) in ASKING {
        let err = run(program, &directory.path().join("none"), arguments).bad(program);
        assert!(err.contains("no daemon is running with") && err.contains("mpdboot"), "{err}");
    }
}

#[test]
fn the_state_of_a_machine_comes_in_pieces_and_is_printed_line_by_line() {
    let piece = |text: &str, more| Act::Say(ConsoleReply::State { text: text.into(), more });
    let daemon = Daemon::new(move |request| match request {
        RingRequest::State { job: None } => {
            vec![piece("Ring {\n  na", true), piece("me\n}", false)]
        }
        RingRequest::State { job } => {
            assert_eq!(*job, Some(JobRef::Number(3)));
            vec![piece("Manager\u{1b}", false)]
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(daemon.run("mpdstate", &[]).good(), "Ring {\n  name\n}\n");
    assert_eq!(daemon.run("mpdstate", &["3"]).good(), "Manager\\u{1b}\n");
}

#[test]
fn mpdhelp_lists_the_programs() {
    let directory = tempfile::tempdir().unwrap();
    let text = run("mpdhelp", directory.path(), &[]).good();
    for program in ["mpd", "mpdboot", "mpirun", "mpdtrace", "mpdcheck"] {
        assert!(text.lines().any(|l| l.trim_start().starts_with(&format!("{program} "))), "{text}");
    }
    assert!(run("mpdhelp", directory.path(), &["--json"]).good().starts_with("[{\"name\":\"mpd\""));
}

#[test]
fn every_tool_gets_its_man_page_and_completions() {
    let directory = tempfile::tempdir().unwrap();
    let docs = directory.path().join("docs");
    run("mpdtrace", directory.path(), &["--generate-docs", docs.to_str().unwrap()]).good();
    for tool in [
        "mpdtrace",
        "mpdringtest",
        "mpdallexit",
        "mpdexit",
        "mpddrain",
        "mpdlistjobs",
        "mpdkilljob",
        "mpdsigjob",
        "mpdstdin",
        "mpdlabels",
        "mpdstate",
        "mpdcleanup",
        "mpdping",
    ] {
        assert!(docs.join(format!("man/{tool}.1")).exists(), "{tool}");
        assert!(docs.join(format!("completions/bash/{tool}.bash")).exists(), "{tool}");
        assert!(docs.join(format!("completions/zsh/_{tool}")).exists(), "{tool}");
        assert!(docs.join(format!("completions/fish/{tool}.fish")).exists(), "{tool}");
    }
}

#[test]
fn a_full_disk_is_reported_and_a_lost_reader_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = |out: Stdio| {
        let mut help: Command = command("mpdhelp", directory.path(), &[]);
        finish(help.stdout(out).stderr(Stdio::piped()).spawn().unwrap())
    };
    assert!(output(full.into()).bad("mpdhelp").contains("cannot write to standard output"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = output(writer.into());
    assert_eq!((ran.code, ran.err.as_str()), (141, ""));
}
