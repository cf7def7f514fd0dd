//! `mpdtop`.

use std::path::Path;

use mpd_wire::Rank;
use mpd_wire::message::{ConsoleReply, HostTop, HostUse, RankUse, RingRequest, RunUse};

use crate::support::{Act, Daemon, NAUGHTY, name, run};

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
