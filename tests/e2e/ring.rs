//! Daemons in a ring: its members, the loss of members, and refused entries.

use std::collections::BTreeSet;
use std::net::{SocketAddrV4, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use mpd_tests::random::Random;
use mpd_wire::message::{ConsoleReply, RingRequest};
use mpd_wire::{DaemonName, Standing};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, socket};

use crate::attacker::key_in;
use crate::members::{Members, holds};
use crate::naive;
use crate::run::{Output, Run, sample, scaled, wait_until};
use crate::suite::{Suite, skip, tell};

/// The suite promises one second; a test on a busy machine allows ten.
const SOON: Duration = Duration::from_secs(10);

fn exit(member: usize) -> RingRequest {
    RingRequest::Exit { member: Some(name(member)) }
}

fn name(index: usize) -> DaemonName {
    DaemonName::new(&format!("d{index}")).expect("a name")
}

fn names(indices: &[usize]) -> Vec<String> {
    indices.iter().map(|index| format!("d{index}")).collect()
}

#[test]
fn every_member_of_a_ring_of_five_lists_the_same_order() {
    let ring = Members::of(5);
    assert_eq!(ring.agree(), names(&[1, 2, 3, 4, 5]), "newcomers come last");
    for index in ring.indices() {
        let view = ring.view(index);
        assert_eq!(view.me, name(index));
        assert_eq!(view.members[0].name, name(index), "the list begins with the daemon itself");
    }
}

#[test]
fn ordinals_decide_the_order_regardless_of_the_order_of_entry() {
    let ring = Members::new();
    for (index, ordinal) in [(1, "30"), (2, "10"), (3, "40"), (4, "20")] {
        let entry = ring.indices().first().map(|first| ring.member(*first).address.to_string());
        let join = entry.iter().flat_map(|entry| ["--join", entry]);
        ring.started(index, ring.mpd(index).args(["--ordinal", ordinal]).args(join));
    }
    assert_eq!(ring.agree(), names(&[1, 3, 2, 4]));
}

#[test]
fn all_members_detect_a_killed_daemon_and_it_returns_to_its_position() {
    let ring = Members::of(5);
    for victim in 1..=5 {
        let before = ring.member(victim);
        // A link that is lost in its first second is not dialed again before that second is over.
        let linked = Instant::now();
        wait_until("no link is young", || linked.elapsed() > Duration::from_millis(1_100));
        ring.kill(victim);
        let killed = Instant::now();
        for index in ring.indices() {
            wait_until("it is missed", || {
                ring.standing(index, victim) == Some(Standing::Dead) && ring.view(index).whole
            });
        }
        let took = killed.elapsed();
        tell(&format!("d{victim} was declared dead by all after {took:?} (1 s is promised)"));
        assert!(took < scaled(SOON), "detected after {took:?}");
        ring.agree();
        let after = ring.start_again(victim);
        assert_eq!(after.address, before.address, "the daemon has the same port");
        assert_eq!(ring.agree(), names(&[1, 2, 3, 4, 5]), "the daemon has its old position");
    }
}

#[test]
fn daemons_that_all_died_form_one_ring_after_their_restart() {
    let ring = Members::of(4);
    for index in ring.indices() {
        let file = ring.rundir(index).join("ring.json");
        wait_until("the list is saved", || (1..=4).all(|i| holds(&file, &format!("\"d{i}\""))));
    }
    // While one daemon starts, the others are dead: each begins alone, and then they merge.
    (1..=4).for_each(|index| ring.kill(index));
    for index in 1..=4 {
        ring.start_again(index);
    }
    assert_eq!(ring.agree(), names(&[1, 2, 3, 4]));
}

#[test]
fn a_daemon_that_exits_leaves_no_file_and_counts_as_departed() {
    let ring = Members::of(4);
    for (asked, leaver) in [(1, 3), (2, 1), (2, 2)] {
        match ring.ask(asked, exit(leaver)) {
            Ok(ConsoleReply::Done { missing }) => assert!(missing.is_empty(), "{missing:?}"),
            other => panic!("{other:?}"),
        }
        ring.forget(leaver);
        wait_until("its files are gone", || ring.is_clean(leaver));
        ring.agree();
        assert_eq!(ring.standing(4, leaver), Some(Standing::Departed));
    }
    let problem = ring.refusal(4, exit(3));
    assert!(problem.contains("d3"), "{problem}");
}

#[test]
fn one_exit_request_ends_all_members() {
    let ring = Members::of(5);
    match ring.ask(3, RingRequest::ExitAll) {
        Ok(ConsoleReply::Done { missing }) => assert!(missing.is_empty(), "{missing:?}"),
        other => panic!("{other:?}"),
    }
    for index in ring.indices() {
        ring.forget(index);
        wait_until("its files are gone", || ring.is_clean(index));
    }
    ring.suite.gone(&[]);
}

#[test]
fn a_signal_ends_a_daemon_and_its_successor_takes_its_position() {
    let ring = Members::of(3);
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let before = ring.member(2);
        ring.send(2, signal);
        ring.forget(2);
        ring.agree();
        assert_eq!(ring.standing(1, 2), Some(Standing::Departed));
        assert_eq!(ring.start_again(2).address, before.address);
        assert_eq!(ring.agree(), names(&[1, 2, 3]));
    }
}

#[test]
fn laps_and_census_reach_every_member_exactly_once() {
    let ring = Members::of(5);
    assert_eq!(ring.lap(2), names(&[3, 4, 5, 1, 2]));
    match ring.ask(4, RingRequest::Lap { laps: 100, trace: false }) {
        Ok(ConsoleReply::LapsHome { hops, names, took_us }) => {
            assert_eq!((hops, names.len()), (5, 0));
            tell(&format!("100 laps of 5 daemons: {} us a hop", took_us / 500));
        }
        other => panic!("{other:?}"),
    }
    for index in ring.indices() {
        match ring.ask(index, RingRequest::Census) {
            Ok(ConsoleReply::Census { members, missing, depth }) => {
                assert!(missing.is_empty() && depth <= 4, "missing {missing:?}, depth {depth}");
                let pids: BTreeSet<u32> = members.iter().map(|word| word.pid).collect();
                assert_eq!((members.len(), pids.len()), (5, 5));
            }
            other => panic!("{other:?}"),
        }
    }
    let problem = ring.refusal(1, RingRequest::Lap { laps: 0, trace: false });
    assert!(problem.contains("the number of laps must not be 0"), "{problem}");
}

#[test]
fn a_watching_console_receives_each_event_of_the_ring() {
    let ring = Members::of(3);
    let mut watch = ring.watch(1);
    ring.start(4);
    assert_eq!(watch.reports("member_entered", Some("d4")).live, 4);
    ring.kill(4);
    watch.reports("member_died", Some("d4"));
    ring.start_again(4);
    watch.reports("member_returned", Some("d4"));
    ring.ask(2, exit(3)).expect("it leaves");
    ring.forget(3);
    assert_eq!(watch.reports("member_left", Some("d3")).live, 3);
    drop(watch);
    ring.agree();
}

#[test]
fn a_daemon_stopped_for_long_is_declared_dead_and_returns_to_its_position() {
    let ring = Members::new().faster(5).with(4);
    ring.send(2, Signal::SIGSTOP);
    for index in [1, 3, 4] {
        wait_until("it is missed", || ring.standing(index, 2) == Some(Standing::Dead));
    }
    ring.send(2, Signal::SIGCONT);
    assert_eq!(ring.agree(), names(&[1, 2, 3, 4]));
}

#[test]
fn a_ping_of_a_frozen_daemon_has_an_answer_long_before_the_ring_declares_it_dead() {
    let ring = Members::of(2);
    ring.send(2, Signal::SIGSTOP);
    let to = ring.member(2).address.to_string();
    let problem = ring.refusal(1, RingRequest::Ping { target: to });
    assert_eq!(problem, "no answer within 0.9 s: frozen, busy, or behind a slow network");
    assert_eq!(ring.standing(1, 2), Some(Standing::Live));
    ring.send(2, Signal::SIGCONT);
    ring.agree();
}

#[test]
fn laps_of_a_stopped_daemon_end_and_do_not_affect_other_laps() {
    let ring = Members::new().faster(5).with(4);
    let mut console = ring.console(2, RingRequest::Lap { laps: 1_000_000_000, trace: false });
    ring.send(2, Signal::SIGSTOP);
    wait_until("it is missed", || ring.standing(1, 2) == Some(Standing::Dead));
    // Laps of the other daemons return, after some laps that met the stopped daemon.
    wait_until("a lap of three", || {
        let lap = RingRequest::Lap { laps: 1, trace: false };
        matches!(ring.ask(4, lap), Ok(ConsoleReply::LapsHome { hops: 3, .. }))
    });
    ring.send(2, Signal::SIGCONT);
    ring.agree();
    drop(console.answer(Some(Duration::ZERO)));
    drop(console);
    assert_eq!(ring.lap(2), names(&[3, 4, 1, 2]));
}

#[test]
fn two_rings_of_one_user_on_one_host_stay_separate() {
    let suite = Suite::new();
    let run = |ring: &str, arguments: &[&str]| {
        let run = suite.mpd(arguments).without_env("MPD_RUNDIR").env("MPD_CON_EXT", ring);
        run.env("XDG_RUNTIME_DIR", suite.path("run"))
    };
    let start = |ring: &str, name: &str, ip: &str, join: &[&str]| {
        let arguments = ["--daemon", "--echo", "--name", name, "--ifhn", ip];
        run(ring, &arguments).args(join).output()
    };
    let port = |output: &Output| {
        let text = output.code(0).out();
        text.trim().trim_start_matches("mpd_port=").to_owned()
    };
    let first = port(&start("a", "one", "127.0.0.3", &[]));
    let second = port(&start("b", "two", "127.0.0.4", &[]));
    for (ring, name, other) in [("a", "one", "two"), ("b", "two", "one")] {
        let rundir = suite.path(format!("run/mpd-{ring}"));
        let status = run(ring, &["--status"]).output();
        assert!(status.code(0).out().contains(name), "{status}");
        let log = rundir.join("mpd.log");
        assert!(!holds(&log, &format!("{other} entered")), "they met");
        let pid = serde_json::from_slice::<serde_json::Value>(&status.stdout).expect("JSON");
        let pid = pid["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a pid");
        suite.adopt(pid, &rundir, &log);
    }
    // The refused entry is explained by the name of the ring at that address.
    let third = run("c", &["--daemon", "--ifhn", "127.0.0.5", "--name", "three", "--join"]);
    let third = third.arg(format!("127.0.0.3:{first}")).env("MPD_TIME_SCALE", "20").output();
    third.code(1).says(&["\"a\"", "\"c\"", "127.0.0.3"]).brief();
    assert_ne!(first, second);
}

#[test]
fn a_second_daemon_of_the_same_name_is_refused_with_a_hint() {
    let ring = Members::new().faster(5).with(3);
    let entry = ring.member(1).address.to_string();
    for double in 1..=3 {
        let rundir = ring.suite.path("double");
        let run = ring.suite.mpd(&["--daemon", "--join", &entry, "--ifhn", &ring.ip(99)]);
        let run = run.args(["--name", &format!("d{double}"), "--rundir"]).arg(&rundir);
        let output = run.env("MPD_TIME_SCALE", "5").output();
        output.code(1).says(&[&format!("d{double}"), "--name"]).brief();
        assert!(!rundir.join("mpd.sock").exists());
    }
    assert_eq!(ring.agree(), names(&[1, 2, 3]));
}

/// A ring of one member, and the command of a newcomer that connects to its port.
struct RingOfOne {
    ring: Members,
}

impl RingOfOne {
    fn new() -> Self {
        Self { ring: Members::of(1) }
    }

    /// A newcomer with short time limits.
    fn newcomer(&self, entry: &str) -> Run {
        self.ring.mpd(2).args(["--join", entry]).env("MPD_TIME_SCALE", "20")
    }

    fn entry(&self) -> String {
        self.ring.member(1).address.to_string()
    }

    /// The newcomer ended with one line that contains these fragments, and left nothing.
    fn refused(&self, output: &Output, fragments: &[&str]) {
        output.code(1).says(fragments).brief();
        self.ring.suite.gone(&[self.ring.member(1).pid]);
        assert!(self.ring.is_clean(2), "files of it are left");
        assert_eq!(self.ring.agree(), names(&[1]));
    }
}

#[test]
fn a_refused_newcomer_with_another_key_prints_the_ids_of_the_keys() {
    let ring_of_one = RingOfOne::new();
    let key = ring_of_one.ring.suite.path("home/other-key");
    let output = ring_of_one.newcomer(&ring_of_one.entry()).arg("--key").arg(&key).output();
    let [ours, theirs] = ["other-key", "key"]
        .map(|file| naive::id(&key_in(&ring_of_one.ring.suite.path("home").join(file))));
    assert_eq!(ring_of_one.ring.view(1).key, theirs);
    ring_of_one.refused(&output, &[&ring_of_one.entry(), "another key", &ours]);
}

/// A taken port, so that no other test listens there, which refuses connections.
fn closed_port() -> (OwnedFd, SocketAddrV4) {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    let socket = socket.expect("a socket");
    bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).expect("a port");
    let address: SockaddrIn = getsockname(socket.as_raw_fd()).expect("an address");
    (socket, SocketAddrV4::new(address.ip(), address.port()))
}

#[test]
fn an_entry_port_without_a_listener_is_named() {
    let ring_of_one = RingOfOne::new();
    let (_taken, closed) = closed_port();
    let output = ring_of_one.newcomer(&closed.to_string()).output();
    ring_of_one.refused(&output, &[&closed.to_string(), "onnection refused"]);
}

#[test]
fn an_interface_address_of_another_host_is_named() {
    let suite = Suite::new();
    for port in [&[][..], &["--port", "45678"]] {
        let arguments = [&["--daemon", "--ifhn", "192.0.2.1"], port].concat();
        suite.mpd(&arguments).output().code(1).says(&["192.0.2.1", "--ifhn"]).brief();
    }
    suite.gone(&[]);
}

#[test]
fn a_taken_listening_port_is_named_in_the_error() {
    let suite = Suite::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let arguments = ["--daemon", "--ifhn", "127.0.0.1", "--port", &port];
    suite.mpd(&arguments).output().code(1).says(&[&port, "--port", "taken"]).brief();
    suite.gone(&[]);
}

#[test]
fn an_entry_may_be_given_by_host_and_port_options() {
    let ring = Members::of(1);
    let address = ring.member(1).address;
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    ring.started(2, ring.mpd(2).args(["-h", &host, "-p", &port]));
    assert_eq!(ring.agree(), names(&[1, 2]));
    ring.suite.mpd(&["-h", &host]).output().code(2).says(&["--entry-port", "Usage"]);
    ring.suite.mpd(&["-p", &port]).output().code(2).says(&["--host", "Usage"]);
}

#[test]
fn a_newcomer_enters_through_the_first_entry_that_answers() {
    let ring = Members::of(1);
    let (_taken, closed) = closed_port();
    let entries = format!("{closed},{}", ring.member(1).address);
    ring.started(2, ring.mpd(2).args(["--join", &entries]));
    assert_eq!(ring.agree(), names(&[1, 2]));
}

#[test]
fn daemons_form_a_ring_over_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        return skip("a ring over IPv6: this host has none");
    }
    let suite = Suite::new();
    let log = suite.path("mpd.log").display().to_string();
    let arguments = ["--daemon", "--echo", "--ifhn", "::1", "--log-file", &log, "--name"];
    let first = suite.mpd(&arguments).arg("d1").output();
    let port = first.code(0).out().trim().replace("mpd_port=", "");
    suite.adopt(suite.daemon().pid, &suite.rundir(), log.as_ref());
    let members = Members::within(suite);
    let suite = &members.suite;
    for (name, entry) in [
        ("d2", vec!["--join".to_owned(), format!("[::1]:{port}")]),
        ("d3", vec!["-h".to_owned(), "::1".to_owned(), "-p".to_owned(), port.clone()]),
    ] {
        let rundir = suite.path(name);
        let run = suite.mpd(&arguments[..4]).args(["--name", name]).args(entry);
        run.arg("--rundir").arg(&rundir).output().code(0);
        let daemon = suite.processes().into_iter().find(|process| {
            process.is_daemon() && process.arguments.iter().any(|word| word == name)
        });
        suite.adopt(daemon.expect("a daemon").pid, &rundir, &rundir.join("mpd.log"));
        wait_until("it is known", || {
            holds(suite.path("mpd.log").as_ref(), &format!("{name} entered"))
        });
    }
}

/// One random operation on a ring.
fn disturb(ring: &Members, random: &mut Random, most: usize) -> String {
    let running = ring.indices();
    let one = running[random.below(running.len())];
    let out: Vec<usize> = (1..=most).filter(|index| !running.contains(index)).collect();
    let action = random.below(4);
    if running.len() < most / 2 || (action == 0 && !out.is_empty()) {
        let newcomer = out[random.below(out.len())];
        // A crashed daemon knows the other members. A new daemon, or one that left, needs an entry address.
        if ring.rundir(newcomer).join("ring.json").exists() {
            ring.start_again(newcomer);
            return format!("d{newcomer} is started again");
        }
        ring.start(newcomer);
        return format!("d{newcomer} enters");
    }
    match action {
        1 => {
            let asked = running[random.below(running.len())];
            // The leaver may be the asked daemon, and the ring may be healing.
            let answer = ring.ask(asked, exit(one));
            let left =
                !matches!(&answer, Ok(ConsoleReply::Done { missing }) if !missing.is_empty());
            if left && !matches!(&answer, Err(mpd_io::ring::console::ConsoleError::Refused(_))) {
                ring.forget(one);
            }
            format!("d{one} leaves by a request to d{asked}: {answer:?}")
        }
        2 => {
            ring.kill(one);
            format!("d{one} is killed")
        }
        _ => {
            ring.kill(one);
            ring.start_again(one);
            format!("d{one} is killed and started again")
        }
    }
}

#[test]
fn a_ring_is_whole_again_after_random_entries_exits_and_kills() {
    let (count, most) = sample((8, 10), (12, 16));
    let seed = sample(4, u64::from(std::process::id()));
    tell(&format!("seed {seed}"));
    let mut random = Random::new(seed);
    let ring = Members::new().with(count);
    for number in 0..sample(50, 1_000) {
        let what = disturb(&ring, &mut random, most);
        if number % 10 == 9 {
            let order = ring.agree();
            tell(&format!("after {} ({what}): {}", number + 1, order.join(" ")));
        }
    }
    let order = ring.agree();
    let first = ring.indices()[0];
    let mut lap = ring.lap(first);
    lap.rotate_right(1);
    assert_eq!(lap, order, "one circle");
    match ring.ask(first, RingRequest::Census) {
        Ok(ConsoleReply::Census { members, missing, .. }) => {
            assert_eq!(missing, []);
            assert_eq!(members.len(), order.len());
        }
        other => panic!("{other:?}"),
    }
}
