//! The tools that act on members: `mpdexit`, `mpddrain`, `mpdping`.

use mpd_wire::message::{ConsoleReply, RingRequest};
use mpd_wire::{Address, Instance, Standing};

use crate::support::{Act, Daemon, done, name, refusal, ring};

#[test]
fn mpdexit_finds_members_as_they_are_listed() {
    let mut view = ring(&["h1", "h2.x.org", "h3"]);
    view.members[2].standing = Standing::Dead;
    let daemon = Daemon::confirming(view, &[]);
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
    let daemon = Daemon::confirming(ring(&["h1", "h2.x.org", "h3"]), &[]);
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
    let daemon = Daemon::confirming(ring(&["h1", "h4", "h7"]), &["h4", "h7"]);
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
