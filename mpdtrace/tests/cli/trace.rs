//! `mpdtrace` and `mpdringtest`.

use mpd_wire::Standing;
use mpd_wire::message::{ConsoleReply, MemberDescription, RingRequest};

use crate::support::{Act, Daemon, NAUGHTY, event, home, name, refusal, ring, way};

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
