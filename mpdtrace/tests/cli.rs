//! The tools as users run them, against a simulated daemon.

#[path = "cli/metrics.rs"]
mod metrics;
mod support;

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mpd_io::ringname::RingName;
use mpd_io::rundir::RunDir;
use mpd_wire::message::{
    ConsoleReply, HostTop, HostUse, HostedPart, JobPart, JobRef, MemberDescription, Published,
    RankRun, RankUse, RingRequest, RunUse,
};
use mpd_wire::{Address, Instance, Rank, RankSet, Standing};
use support::{Act, Daemon, command, done, event, finish, home, name, refusal, ring, run, way};

const NAUGHTY: &str = "x\nmpdtrace: FAKE \u{1b}]0;t\u{7}\u{9b}";

#[test]
fn mpdtrace_lists_the_ring_that_a_message_went_round() {
    let daemon = Daemon::of(ring(&["h1.x.org", "h2", "h3"]));
    assert_eq!(daemon.run("mpdtrace", &[]).good(), "h1\nh2\nh3\n");
    let long = "h1.x.org_5000 (10.0.0.1) 2 slots\nh2_5001 (10.0.0.2) 2 slots\n\
                h3_5002 (10.0.0.3) 2 slots\n";
    assert_eq!(daemon.run("mpdtrace", &["-l"]).good(), long);
    let json = daemon.run("mpdtrace", &["--json"]).good();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json.lines().count(), 1);
    assert_eq!(value["verified"], true);
    assert_eq!(value["ring"]["members"][2]["name"], "h3");
    assert!(daemon.run("mpdtrace", &["--svg"]).good().starts_with("<svg "));
    let lap = RingRequest::Lap { laps: 1, trace: true };
    assert_eq!(daemon.asked()[..2], [RingRequest::Describe, lap]);
}

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
fn mpdtrace_lists_dead_members_in_json_only() {
    let mut view = ring(&["h1", "h2", "h3"]);
    view.members[2].standing = Standing::Dead;
    let daemon = Daemon::of(view);
    assert_eq!(daemon.run("mpdtrace", &[]).good(), "h1\nh2\n");
    assert!(daemon.run("mpdtrace", &["--json"]).good().contains("\"standing\":\"dead\""));
}

#[test]
fn mpdtrace_asks_again_until_the_ring_has_healed() {
    let (old, new) = (ring(&["h1", "h2", "h3"]), ring(&["h1", "h3"]));
    let mut laps = 0;
    let daemon = Daemon::new(move |request| match request {
        RingRequest::Describe if laps < 2 => vec![Act::Say(ConsoleReply::Ring(old.clone()))],
        RingRequest::Describe => vec![Act::Say(ConsoleReply::Ring(new.clone()))],
        RingRequest::Watch => {
            vec![event("watching", "w"), event("member_died", "h2"), Act::Hold]
        }
        RingRequest::Lap { .. } => {
            laps += 1;
            vec![Act::Say(match laps {
                1 => ConsoleReply::LapLost { home: 0 },
                _ => home(&way(&new)),
            })]
        }
        _ => vec![],
    });
    assert_eq!(daemon.run("mpdtrace", &["--patience", "60"]).good(), "h1\nh3\n");
    let watches = daemon.asked().iter().filter(|r| **r == RingRequest::Watch).count();
    assert_eq!((watches, daemon.asked().len()), (1, 7));
}

#[test]
fn mpdtrace_says_what_does_not_agree_when_patience_ends() {
    let mut view = ring(&["h1", "h2", "h3"]);
    view.whole = false;
    view.rhs = None;
    view.members[1].suspect = true;
    let daemon = Daemon::new(move |request| match request {
        RingRequest::Describe => vec![Act::Say(ConsoleReply::Ring(view.clone()))],
        RingRequest::Lap { .. } => vec![Act::Say(home(&[name("h3"), name("h1")]))],
        RingRequest::Watch => vec![event("watching", "w"), Act::Hold],
        _ => vec![],
    });
    let ran = daemon.run("mpdtrace", &["--patience", "0.3"]);
    assert_eq!(ran.out, "h1\nh2\nh3\n");
    let err = ran.bad("mpdtrace");
    assert!(err.contains("did not visit h2"), "{err}");
    assert!(err.contains("not whole at h1 (lhs h3, no rhs)"), "{err}");
    assert!(err.contains("silent for a while: h2"), "{err}");
}

#[test]
fn mpdtrace_treats_a_refused_lap_as_a_ring_that_is_not_whole() {
    let daemon = Daemon::new(|request| match request {
        RingRequest::Describe => vec![Act::Say(ConsoleReply::Ring(ring(&["h1"])))],
        RingRequest::Lap { .. } => refusal("it has not entered a ring"),
        _ => vec![event("watching", "w"), Act::Hold],
    });
    let err = daemon.run("mpdtrace", &["--patience", "0.1"]).bad("mpdtrace");
    assert!(err.contains("no message can go round the ring: it has not entered"), "{err}");
}

#[test]
fn mpdtrace_shows_the_steps_to_each_member_and_names_the_missing() {
    let census = |missing: &[&str]| ConsoleReply::Census {
        members: ["h1", "h2"]
            .iter()
            .zip(0..)
            .map(|(n, hops)| MemberDescription {
                name: name(n),
                version: NAUGHTY.into(),
                pid: 1,
                jobs: 0,
                hops,
            })
            .collect(),
        missing: missing.iter().map(|n| name(n)).collect(),
        depth: 1,
    };
    let whole = census(&[]);
    let daemon = Daemon::new(move |_| vec![Act::Say(whole.clone())]);
    let text = daemon.run("mpdtrace", &["--trace-hops"]).good();
    assert_eq!(text, "h1  0 steps\nh2  1 step\ndepth 1 of 2 members\n");
    assert!(daemon.run("mpdtrace", &["--trace-hops", "--json"]).good().contains("\"depth\":1"));
    let holed = census(&["h3"]);
    let daemon = Daemon::new(move |_| vec![Act::Say(holed.clone())]);
    let ran = daemon.run("mpdtrace", &["--trace-hops"]);
    assert!(ran.out.ends_with("depth 1 of 3 members\n"));
    assert_eq!(ran.bad("mpdtrace"), "mpdtrace: no answer from h3\n");
}

#[test]
fn text_of_the_daemon_cannot_drive_a_terminal_or_forge_lines() {
    let daemon = Daemon::new(|_| refusal(NAUGHTY));
    for (program, arguments) in [
        ("mpdtrace", &[][..]),
        ("mpdtrace", &["--trace-hops"]),
        ("mpdringtest", &[]),
        ("mpdallexit", &[]),
        ("mpdexit", &["localmpd"]),
        ("mpdlistjobs", &[]),
        ("mpdkilljob", &["1"]),
        ("mpdsigjob", &["INT", "-j", "1"]),
        ("mpdstdin", &["1", "all"]),
        ("mpdstate", &["1"]),
        ("mpdping", &["h2"]),
        ("mpdwatch", &[]),
    ] {
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
    assert!(alien.run("mpdallexit", &[]).bad("mpdallexit").contains("malformed message"));
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
    for (program, arguments) in [
        ("mpdtrace", &[][..]),
        ("mpdtrace", &["--trace-hops"]),
        ("mpdringtest", &["5"]),
        ("mpdallexit", &[]),
        ("mpdexit", &["h2"]),
        ("mpddrain", &["h2"]),
        ("mpdlistjobs", &[]),
        ("mpdkilljob", &["1"]),
        ("mpdsigjob", &["INT", "-j", "1"]),
        ("mpdstdin", &["1", "all"]),
        ("mpdstate", &["1"]),
        ("mpdping", &["h2"]),
        ("mpdwatch", &[]),
    ] {
        let err = run(program, &directory.path().join("none"), arguments).bad(program);
        assert!(err.contains("no daemon is running with") && err.contains("mpdboot"), "{err}");
    }
}

#[test]
fn mpdringtest_prints_the_line_of_the_original_and_the_time_of_a_hop() {
    let daemon = Daemon::of(ring(&["h1", "h2", "h3", "h4", "h5"]));
    assert_eq!(daemon.run("mpdringtest", &[]).good(), "time for 1 loops = 0.002500 seconds\n");
    assert_eq!(
        daemon.run("mpdringtest", &["10", "-v"]).good(),
        "time for 10 loops = 0.002500 seconds\n5 hops a loop, 50.0 us a hop\n"
    );
    let json = daemon.run("mpdringtest", &["10", "--json"]).good();
    assert_eq!(json, "{\"loops\":10,\"hops\":5,\"took_us\":2500,\"per_hop_us\":50.0}\n");
    assert_eq!(daemon.asked()[1], RingRequest::Lap { laps: 10, trace: false });
}

#[test]
fn mpdringtest_counts_completed_laps_and_refuses_bad_numbers() {
    let daemon = Daemon::new(|_| vec![Act::Say(ConsoleReply::LapLost { home: 3 })]);
    let err = daemon.run("mpdringtest", &["7"]).bad("mpdringtest");
    assert!(err.contains("3 of 7 loops came home"), "{err}");
    for bad in ["0", "-1", "x", "1.5", "99999999999"] {
        assert_eq!(daemon.run("mpdringtest", &[bad]).code, 2, "{bad}");
    }
}

#[test]
fn mpdexit_finds_members_as_they_are_listed() {
    let mut view = ring(&["h1", "h2.x.org", "h3"]);
    view.members[2].standing = Standing::Dead;
    let daemon = Daemon::new(move |request| match request {
        RingRequest::Describe => vec![Act::Say(ConsoleReply::Ring(view.clone()))],
        _ => done(&[]),
    });
    for text in ["h2.x.org", "h2.x.org_5001", "h2", "h2_5001"] {
        assert_eq!(daemon.run("mpdexit", &[text]).good(), "");
        let member = Some(name("h2.x.org"));
        assert_eq!(daemon.asked().last(), Some(&RingRequest::Exit { member }));
    }
    assert_eq!(daemon.run("mpdexit", &["localmpd"]).good(), "");
    assert_eq!(daemon.asked().last(), Some(&RingRequest::Exit { member: None }));
    let unknown = daemon.run("mpdexit", &["h2_9"]).bad("mpdexit");
    assert!(unknown.contains("no member 'h2_9'") && unknown.contains("mpdtrace -l"), "{unknown}");
    assert!(daemon.run("mpdexit", &["h3"]).bad("mpdexit").contains("h3 is dead already"));
    assert_eq!(daemon.run("mpdexit", &[]).code, 2);
}

#[test]
fn mpddrain_takes_several_members_and_can_be_undone() {
    let view = ring(&["h1", "h2.x.org", "h3"]);
    let daemon = Daemon::new(move |request| match request {
        RingRequest::Describe => vec![Act::Say(ConsoleReply::Ring(view.clone()))],
        _ => done(&[]),
    });
    let asked = |daemon: &Daemon| daemon.asked().pop().unwrap();
    assert_eq!(daemon.run("mpddrain", &["h2", "localmpd"]).good(), "");
    let members = vec![name("h2.x.org"), name("h1")];
    assert_eq!(asked(&daemon), RingRequest::Drain { members, draining: true });
    assert_eq!(
        daemon.run("mpddrain", &["--undo", "--json", "h3_5002"]).good(),
        "{\"done\":{\"missing\":[]}}\n"
    );
    assert_eq!(asked(&daemon), RingRequest::Drain { members: vec![name("h3")], draining: false });
    assert!(daemon.run("mpddrain", &["h1", "h9"]).bad("mpddrain").contains("no member 'h9'"));
    assert_eq!(daemon.run("mpddrain", &[]).code, 2);
}

#[test]
fn members_that_did_not_confirm_are_named() {
    let view = ring(&["h1", "h4", "h7"]);
    let daemon = Daemon::new(move |request| match request {
        RingRequest::Describe => vec![Act::Say(ConsoleReply::Ring(view.clone()))],
        _ => done(&["h4", "h7"]),
    });
    for (program, arguments) in [
        ("mpdallexit", &[][..]),
        ("mpdexit", &["localmpd"]),
        ("mpddrain", &["h4", "h7"]),
        ("mpdkilljob", &["-a", "x"]),
        ("mpdsigjob", &["9", "-a", "x"]),
        ("mpdstdin", &["x", "0"]),
    ] {
        let err = daemon.run(program, arguments).bad(program);
        assert_eq!(err, format!("{program}: no answer from h4, h7\n"));
    }
    assert_eq!(Daemon::new(|_| done(&[])).run("mpdallexit", &[]).good(), "");
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

/// One process of a job on a host.
fn running(host: &str, job: &str, alias: Option<&str>, rank: u32, program: &str) -> HostedPart {
    let ranks = RankSet::from_ranges(vec![(rank, rank)]);
    let run = RankRun {
        world: None,
        parent: None,
        program: program.into(),
        ranks,
        pids: vec![100 + rank],
    };
    let part = JobPart {
        job: job.parse().unwrap(),
        alias: alias.map(str::to_owned),
        user: "ada".into(),
        manager: 99,
        runs: vec![run],
        spawns: None,
    };
    HostedPart { host: name(host), part }
}

#[test]
fn mpdlistjobs_lists_all_pages_by_host_in_each_form() {
    let daemon = Daemon::new(|_| {
        let reply = |jobs: &[HostedPart], missing: &[&str], more| {
            Act::Say(ConsoleReply::Jobs {
                me: name("h1"),
                jobs: jobs.to_vec(),
                missing: missing.iter().map(|text| name(text)).collect(),
                more,
            })
        };
        let first = [
            running("h1", "1@h1", Some("x"), 0, "a"),
            running("h2", "1@h1", Some("x"), 1, NAUGHTY),
        ];
        let second = [running("h1", "2@h2", None, 0, "b")];
        vec![reply(&first, &[], true), reply(&second, &[], false)]
    });
    let all = "h1 100 99\nh1 100 99\nh2 101 99\n";
    assert_eq!(daemon.run("mpdlistjobs", &["--sss"]).good(), all);
    assert_eq!(daemon.asked(), [RingRequest::Jobs]);
    let text = daemon.run("mpdlistjobs", &["-j", "1", "-u", "ada"]).good();
    assert_eq!(text.matches("jobid    = 1@h1\njobalias = x\n").count(), 2, "{text}");
    assert_eq!(text.lines().count(), 2 * 9);
    assert_eq!(daemon.run("mpdlistjobs", &["-a", "nobody"]).good(), "");
    let tree = daemon.run("mpdlistjobs", &["--tree"]).good();
    assert!(tree.starts_with("1@h1 'x' of ada\n  h1: manager 99\n    rank 0: 100 a\n"), "{tree}");
    let json = daemon.run("mpdlistjobs", &["--json"]).good();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["jobs"][0]["hosts"][1]["processes"][0]["program"], NAUGHTY);
    let text = daemon.run("mpdlistjobs", &["-j", "x"]).good();
    assert_eq!(text.matches("jobid    = 1@h1\njobalias = x\n").count(), 2, "{text}");
}

#[test]
fn mpdlistjobs_names_hosts_that_did_not_answer() {
    let daemon = Daemon::new(|_| {
        let (me, jobs, missing) = (name("h1"), vec![], vec![name("h3")]);
        vec![Act::Say(ConsoleReply::Jobs { me, jobs, missing, more: false })]
    });
    let err = daemon.run("mpdlistjobs", &[]).bad("mpdlistjobs");
    assert_eq!(err, "mpdlistjobs: no answer from h3\n");
}

#[test]
fn mpdkilljob_and_mpdsigjob_name_the_job_as_the_user_did() {
    let daemon = Daemon::new(|_| done(&[]));
    let asked = |program, arguments: &[&str]| {
        assert_eq!(daemon.run(program, arguments).good(), "", "{arguments:?}");
        daemon.asked().last().cloned().unwrap()
    };
    let (number, id) = (JobRef::Number(3), JobRef::Id("3@h2".parse().unwrap()));
    let alias = JobRef::Alias("x".into());
    assert_eq!(asked("mpdkilljob", &["3"]), RingRequest::KillJob { job: number.clone() });
    assert_eq!(asked("mpdkilljob", &["3@h2"]), RingRequest::KillJob { job: id.clone() });
    for arguments in [&["-a", "x"][..], &["x"], &["-j", "x"]] {
        assert_eq!(asked("mpdkilljob", arguments), RingRequest::KillJob { job: alias.clone() });
    }
    assert_eq!(asked("mpdkilljob", &["-j", "3"]), RingRequest::KillJob { job: number.clone() });
    let signal = |job, signal, single| RingRequest::SignalJob { job, signal, single };
    assert_eq!(asked("mpdsigjob", &["INT", "x"]), signal(alias.clone(), 2, false));
    assert_eq!(asked("mpdsigjob", &["-INT", "-j", "3"]), signal(number, 2, false));
    assert_eq!(asked("mpdsigjob", &["SIGUSR1", "-g", "-j", "3@h2"]), signal(id, 10, false));
    assert_eq!(asked("mpdsigjob", &["9", "-a", "x", "-s"]), signal(alias, 9, true));
    let wrong: [(&str, &[&str]); 8] = [
        ("mpdkilljob", &[]),
        ("mpdkilljob", &["3", "-a", "x"]),
        ("mpdkilljob", &[""]),
        ("mpdsigjob", &["INT"]),
        ("mpdsigjob", &["-j", "3"]),
        ("mpdsigjob", &["NOSUCH", "-j", "3"]),
        ("mpdsigjob", &["99", "-j", "3"]),
        ("mpdsigjob", &["INT", "-j", "3", "-s", "-g"]),
    ];
    for (program, arguments) in wrong {
        assert_eq!(daemon.run(program, arguments).code, 2, "{program} {arguments:?}");
    }
    let refusing = Daemon::new(|_| refusal("no job 3@h1; 'mpdlistjobs' lists them"));
    assert!(refusing.run("mpdkilljob", &["3"]).bad("mpdkilljob").contains("no job 3@h1"));
}

#[test]
fn mpdping_asks_for_members_by_name_and_for_others_by_address() {
    let daemon = Daemon::new(|request| match request {
        RingRequest::Describe => vec![Act::Say(ConsoleReply::Ring(ring(&["h1", "h2"])))],
        RingRequest::Ping { target } if target == "127.0.0.1:4" => refusal("connection refused"),
        RingRequest::Ping { .. } => vec![Act::Say(ConsoleReply::Pong {
            name: name("h2"),
            instance: Instance::from_bytes([1; 16]),
            address: Address::new("10.0.0.2:5001").unwrap(),
            connect_us: 100,
            total_us: 900,
        })],
        _ => vec![],
    });
    let asked = |target: &str| RingRequest::Ping { target: target.into() };
    let text = daemon.run("mpdping", &["h2"]).good();
    assert_eq!(text, "h2 answers at 10.0.0.2:5001: connect 0.100 ms, total 0.900 ms\n");
    assert_eq!(daemon.asked().last(), Some(&asked("h2")));
    assert!(daemon.run("mpdping", &["[::1]:9", "--json"]).good().starts_with("{\"pong\":"));
    assert_eq!(daemon.asked().last(), Some(&asked("[::1]:9")));
    let guessed = daemon.run("mpdping", &["127.0.0.1"]);
    assert_eq!(guessed.code, 0);
    assert!(guessed.err.contains("trying port 5000"), "{}", guessed.err);
    let refused = daemon.run("mpdping", &["127.0.0.1:4"]).bad("mpdping");
    assert!(refused.contains("127.0.0.1:4: connection refused"), "{refused}");
    assert!(daemon.run("mpdping", &["no host"]).bad("mpdping").contains("no known host"));
}

#[test]
fn mpdwatch_prints_each_event_at_once_and_reports_the_daemons_end() {
    let end = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&end);
    let daemon = Daemon::new(move |_| {
        vec![event("watching", NAUGHTY), Act::Until(Arc::clone(&until)), event("left", "bye")]
    });
    let mut watch = command("mpdwatch", &daemon.rundir(), &[]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("2026-11-21T00:00:00.000000Z h1 watching: x\\nmpdtrace"), "{first}");
    end.store(true, Ordering::SeqCst);
    assert!(lines.next().unwrap().unwrap().ends_with("left: bye"));
    assert_eq!(finish(watch).bad("mpdwatch"), "mpdwatch: the daemon ended\n");
}

#[test]
fn mpdwatch_ends_silently_when_its_reader_ends() {
    let daemon = Daemon::new(move |_| vec![event("watching", "w"), Act::Hold]);
    let mut watch = command("mpdwatch", &daemon.rundir(), &["--json"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(watch.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.starts_with("{\"time\":"), "{line}");
    drop(reader);
    let ran = finish(watch);
    assert_eq!((ran.code, ran.err.as_str()), (141, ""));
}

#[test]
fn mpdcleanup_removes_the_socket_of_a_dead_daemon_and_refuses_beside_a_live_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    assert_eq!(run("mpdcleanup", &path, &[]).good(), "");
    let rundir = RunDir::resolve(Some(path.clone()), &RingName::default(), "h");
    let living = rundir.serve().unwrap();
    let job = "3@h1".parse().unwrap();
    std::fs::write(rundir.record(&job), "{}").unwrap();
    let err = run("mpdcleanup", &path, &[]).bad("mpdcleanup");
    assert!(err.contains("a daemon is running"), "{err}");
    assert!(rundir.socket().exists());
    drop(living);
    let text = run("mpdcleanup", &path, &["-v"]).good();
    assert!(text.ends_with("/r/mpd.sock\n") && text.contains(": removed "), "{text}");
    assert!(!rundir.socket().exists() && rundir.record(&job).exists());
    assert!(run("mpdcleanup", &path, &["-v"]).good().ends_with("nothing to remove\n"));
    let answering = Daemon::new(|_| vec![]);
    let err = answering.run("mpdcleanup", &[]).bad("mpdcleanup");
    assert!(err.contains("a daemon is running"), "{err}");
    assert!(answering.rundir().join("mpd.sock").exists());
}

/// A remote shell that runs the command on this host: it drops the options and the host.
fn home_shell(directory: &Path, name: &str) -> String {
    const SCRIPT: &str = "#!/bin/sh\n\
        host=$1; [ \"$1\" = -x ] && { while [ \"$1\" != -- ]; do shift; done; shift; host=$1; }\n\
        shift\n\
        case $host in\n\
        far) echo 'ssh: connect to host far port 22: No route to host' >&2; exit 255 ;;\n\
        bare) exec sh -c '/nowhere/x' ;;\n\
        esac\n\
        echo 'Welcome to the cluster'\n\
        exec sh -c \"$*\"\n";
    let path = directory.join(name);
    std::fs::write(&path, SCRIPT).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn mpdcleanup_works_on_other_hosts_and_names_those_it_could_not_reach() {
    let directory = tempfile::tempdir().unwrap();
    let rsh = home_shell(directory.path(), "myrsh");
    let (file, path) = (directory.path().join("hosts"), directory.path().join("r"));
    let rundir = RunDir::resolve(Some(path.clone()), &RingName::default(), "h");
    drop(rundir.serve().unwrap());
    std::fs::write(&file, "near # one\nfar\nbare\n").unwrap();
    let arguments = ["-v", "-r", &rsh, "-f", file.to_str().unwrap()];
    let ran = run("mpdcleanup", &path, &arguments);
    assert!(ran.out.starts_with("near: removed "), "{}", ran.out);
    let err = ran.bad("mpdcleanup");
    assert!(err.contains("far: ") && err.contains("No route to host"), "{err}");
    assert!(err.contains("bare: there is no ") && err.contains("install MPD"), "{err}");
    std::fs::write(&file, "-oProxyCommand=x\n").unwrap();
    assert!(run("mpdcleanup", &path, &arguments).bad("mpdcleanup").contains("-oProxyCommand=x"));
}

fn check(directory: &Path, arguments: &[&str]) -> support::Ran {
    home_shell(directory, "ssh");
    let mut command = command("mpdcheck", &directory.join("r"), arguments);
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("MPD_KEY_FILE", directory.join("key"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    finish(child)
}

#[test]
fn mpdcheck_finds_an_open_key_and_invalid_hosts() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("key"), "").unwrap();
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(directory.path().join("key"), mode).unwrap();
    let ran = check(directory.path(), &["no-such-host.invalid"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(ran.out.lines().all(|line| line.starts_with("*** ")), "{}", ran.out);
    assert!(
        ran.out.contains("open to other users") && ran.out.contains("chmod 600"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("no-such-host.invalid does not resolve"), "{}", ran.out);
    let json = check(directory.path(), &["--json"]).out;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_ne!(value[0]["host"], "");
    assert!(value[0]["problems"].as_array().is_some_and(|p| !p.is_empty()));
    assert!(check(directory.path(), &["-oProxyCommand=x"]).code == 2);
    assert!(check(directory.path(), &["a;b"]).bad("mpdcheck").contains("is no host name"));
}

#[test]
fn mpdcheck_runs_on_other_hosts_and_tries_ports_in_both_directions() {
    let directory = tempfile::tempdir().unwrap();
    let ran = check(directory.path(), &["-v", "-ssh", "127.0.0.1", "far"]);
    assert_eq!(ran.err, "");
    for piece in [
        "127.0.0.1: no daemon runs with ",
        "127.0.0.1: a connection to port ",
        "127.0.0.1: a connection from it to port ",
        "*** far: it cannot be asked: ssh failed: ssh: connect to host far port 22: No route",
    ] {
        assert!(ran.out.contains(piece), "{piece} not in {}", ran.out);
    }
}

#[test]
fn mpdcheck_serves_and_connects_with_the_messages_of_the_original() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = command("mpdcheck", directory.path(), &["-s"]);
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("server listening at INADDR_ANY on: "), "{first}");
    let port = first.rsplit(' ').next().unwrap();
    let arguments = ["-c", "127.0.0.1", port];
    let expected = "client successfully recvd ack from server: ack_from_server_to_client\n";
    assert_eq!(run("mpdcheck", directory.path(), &arguments).good(), expected);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest[0].starts_with("server has conn on ") && rest.len() == 2, "{rest:?}");
    assert_eq!(finish(server).code, 0);
    assert!(
        run("mpdcheck", directory.path(), &arguments).bad("mpdcheck").contains("cannot connect")
    );
    assert_eq!(run("mpdcheck", directory.path(), &["-c", "h"]).code, 2);
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

#[test]
fn mpdnames_lists_each_name_on_one_line_also_with_control_characters() {
    let daemon = Daemon::new(|_| {
        let reply = |text: &str, more: bool| {
            let (job, host) = ("3@h2".parse().unwrap(), name("h2"));
            let (name, value, keyed) = (text.to_owned(), "port$1".to_owned(), !more);
            let published = Published { name, value, job, host, keyed };
            Act::Say(ConsoleReply::Names { names: vec![published], more })
        };
        vec![reply("a\nb", true), reply("ocean", false)]
    });
    let text = daemon.run("mpdnames", &[]).good();
    assert_eq!(text, "\"a\\nb\" 3@h2 h2 \"port$1\"\n\"ocean\" 3@h2 h2 \"port$1\" keyed\n");
    assert_eq!(daemon.asked(), [RingRequest::Names]);
    let value: serde_json::Value =
        serde_json::from_str(&daemon.run("mpdnames", &["--json"]).good()).unwrap();
    assert_eq!(value["names"][1]["name"], "ocean");
    let keyed = [&value["names"][0]["keyed"], &value["names"][1]["keyed"]];
    assert_eq!(keyed, [false, true]);
}

#[test]
fn mpdnames_shows_names_of_pmix_as_the_program_gave_them() {
    let daemon = Daemon::new(|_| {
        let published = |text: &str, value: &str| {
            let (job, host) = ("3@h2".parse().unwrap(), name("h2"));
            Published { name: text.to_owned(), value: value.to_owned(), job, host, keyed: false }
        };
        let names = vec![
            published("ocean", "pmix:0:0:1:t:3@h2:port:7"),
            published("size\0host h2", "pmix:0:0:1:x:3@h2:0206"),
            published("turn", "pmix:12:0:1:t:3@h2:x"),
        ];
        vec![Act::Say(ConsoleReply::Names { names, more: false })]
    });
    let text = daemon.run("mpdnames", &[]).good();
    let lines = [
        "\"ocean\" 3@h2 h2 \"port:7\"",
        "\"size\" 3@h2 h2 data for host h2",
        "\"turn\" 3@h2 h2 \"x\" once",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    let value: serde_json::Value =
        serde_json::from_str(&daemon.run("mpdnames", &["--json"]).good()).unwrap();
    assert_eq!(value["names"][2]["value"], "pmix:12:0:1:t:3@h2:x", "as before");
}

#[test]
fn mpdtop_prints_what_three_samples_report() {
    let mut second = 0;
    let daemon = Daemon::new(move |_| {
        second += 1;
        let machine = HostUse { at_us: second * 1_000_000, cpus: 2, ..HostUse::default() };
        let one = RankUse {
            rank: Rank(3),
            pid: 77,
            state: 'R',
            cpu_ms: second * 250,
            memory_kib: 1024,
            processes: 1,
            written: 0,
        };
        let run = RunUse {
            world: None,
            job: "1@h1".parse().unwrap(),
            alias: None,
            user: "ada".into(),
            program: NAUGHTY.into(),
            at_us: second * 1_000_000,
            counted_us: None,
            ranks: vec![one],
        };
        let hosts = vec![HostTop { host: name("h1"), machine, runs: vec![run] }];
        vec![Act::Say(ConsoleReply::Top { hosts, missing: vec![], more: false })]
    });
    let arguments = ["--once", "--json", "-i", "0.1"];
    let json = daemon.run("mpdtop", &arguments).good();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json.lines().count(), value["ranks"][0]["cpu_percent"].as_f64()), (1, Some(25.0)));
    assert_eq!(daemon.asked(), [RingRequest::Top, RingRequest::Top, RingRequest::Top]);
    let text = daemon.run("mpdtop", &["-i", "0.1"]).good();
    assert!(
        text.contains(
            "1@h1    3 h1    77 R 25.0   1.0M     -      - 0:01     1 ada  -     x\\nmpdtrace: FAKE"
        ),
        "{text}"
    );
    assert!(daemon.run("mpdtop", &["-j", "2", "--once", "-i", "0.1"]).good().contains("0 ranks"));
    assert_eq!(run("mpdtop", Path::new("/"), &["-i", "0.01"]).code, 2);
}
