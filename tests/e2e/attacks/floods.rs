//! A12 to A16, A27: floods of connections, frames, hellos and signals.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mpd_tests::random::Random;
use mpd_wire::message::{ConsoleReply, Lap, RingMessage, RingRequest};
use mpd_wire::{DaemonName, Instance};
use nix::sys::signal::Signal;

use crate::attacker::{Claim, Guest, JOIN, RING, answer_to, connect, encoded, idle, one_idle};
use crate::attacks::Target;
use crate::members::{Members, holds};
use crate::process;
use crate::run::{comes_true, sample, wait_until};
use crate::suite::tell;

/// Connections that send nothing, or one byte from time to time, and connect again after each close.
struct Flood {
    port_address: SocketAddr,
    idle: Vec<TcpStream>,
    slow: Vec<TcpStream>,
}

impl Flood {
    /// Number of addresses of the connections.
    const ADDRESSES: usize = 60;

    fn new(port_address: SocketAddr, idle_ones: usize, slow_ones: usize) -> Self {
        let idle_ones = idle(port_address, idle_ones, Self::ADDRESSES);
        Self { port_address, idle: idle_ones, slow: idle(port_address, slow_ones, Self::ADDRESSES) }
    }

    /// Sends one byte on each slow connection and opens closed ones again. Returns the number of new connections.
    fn drip(&mut self) -> usize {
        let mut renewed = 0;
        for (number, stream) in self.idle.iter_mut().enumerate() {
            let waits =
                matches!(stream.read(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock);
            if !waits {
                *stream = reconnect(self.port_address, number);
                renewed += 1;
            }
        }
        for (number, stream) in self.slow.iter_mut().enumerate() {
            if stream.write_all(b"M").is_err() {
                *stream = reconnect(self.port_address, number);
                renewed += 1;
            }
        }
        renewed
    }

    fn count(&self) -> usize {
        self.idle.len() + self.slow.len()
    }
}

fn reconnect(port_address: SocketAddr, number: usize) -> TcpStream {
    one_idle(port_address, number % Flood::ADDRESSES)
}

/// How long the daemon takes for this answer. The deadline of the request fails the test, not this time.
fn response_time(ring: &Members, request: RingRequest) -> Duration {
    let begin = Instant::now();
    ring.ask(1, request).expect("an answer");
    begin.elapsed()
}

#[test]
fn a12_many_idle_and_slow_connections_delay_no_answer() {
    let target = Target::of(3);
    let ring = &target.ring;
    let before = target.daemon();
    let (rss, calm) = (before.resident_kib(), Instant::now());
    ring.mpirun(1, &["-n", "4", "true"]).output().code(0);
    let calm = calm.elapsed();
    let mut watches: Vec<_> = (1..=3).map(|index| ring.watch(index)).collect();
    let (idle_ones, slow_ones) = sample((300, 60), (2_000, 200));
    let mut flood = Flood::new(target.port_address(), idle_ones, slow_ones);
    let until = Instant::now() + Duration::from_millis(sample(500, 60_000));
    let (mut worst, mut jobs, mut renewed) = (Duration::ZERO, Vec::new(), 0);
    while Instant::now() < until {
        renewed += flood.drip();
        worst = worst.max(response_time(ring, RingRequest::Describe));
        worst = worst.max(response_time(ring, RingRequest::Census));
        let begin = Instant::now();
        ring.mpirun(1, &["-n", "4", "true"]).output().code(0).quiet();
        jobs.push(begin.elapsed());
    }
    jobs.sort_unstable();
    let grown = target.daemon().resident_kib().saturating_sub(rss);
    let descriptors = target.daemon().descriptors();
    let job = jobs[jobs.len() / 2];
    tell(&format!(
        "{} connections, {renewed} times anew: worst answer {worst:?}, a job of 4 in {job:?} (calm: {calm:?}), +{grown} KiB, \
         {descriptors} descriptors",
        flood.count()
    ));
    assert!(grown < 8 * 1024, "grew by {grown} KiB");
    assert!(descriptors < 64 + 40, "{descriptors} descriptors");
    for watch in &mut watches {
        let events = watch.so_far();
        let broken = events.iter().any(|e| e.contains("lost") || e.contains("dead"));
        assert!(!broken, "the ring broke: {events:?}");
    }
    drop(flood);
    ring.agree();
}

#[test]
fn a13_a_daemon_without_free_descriptors_pauses_and_serves_again_later() {
    let ring = Members::new();
    ring.started(1, ring.mpd_under(1, &["files=40"]));
    ring.start(2);
    ring.agree();
    let target = Target::ring(ring);
    let flood = Flood::new(target.port_address(), sample(200, 2_000), 20);
    let socket = target.ring.rundir(1).join("mpd.sock");
    let consoles: Vec<_> = (0..60).map(|_| UnixStream::connect(&socket)).collect();
    let daemon = target.daemon();
    wait_until("it has taken what it takes", || daemon.descriptors() > 24);
    // The processor time of a period without work.
    let (cpu, begin) = (daemon.cpu(), Instant::now());
    comes_true(Duration::from_secs(sample(1, 4)), || false);
    let (used, window) = (target.daemon().cpu() - cpu, begin.elapsed());
    tell(&format!("{} descriptors, {used:?} of {window:?}", daemon.descriptors()));
    assert!(used < window / 2, "it spins: {used:?} of {window:?}");
    let lines = target.ring.log(1).lines().count();
    assert!(lines < 100, "{lines} lines in the log");
    drop((flood, consoles));
    wait_until("it serves again", || target.ring.ask(1, RingRequest::Census).is_ok());
    target.ring.kill(2);
    target.ring.start_again(2);
    target.ring.agree();
}

/// Texts of the greatest size that are no message.
fn oversized_texts() -> Vec<(&'static str, Vec<u8>)> {
    const MIB: usize = 1 << 20;
    let keys = |start: &str, end: &str| {
        let mut json = String::from(start);
        for number in 0.. {
            if json.len() + end.len() + 16 > MIB {
                break;
            }
            json.push_str(&format!("\"k{number}\":0,"));
        }
        json.pop();
        json.push_str(end);
        json.into_bytes()
    };
    let deep = [b"{\"update\":{\"records\":".to_vec(), vec![b'['; MIB - 100]].concat();
    vec![
        ("brackets", vec![b'['; MIB]),
        ("deep", deep),
        ("keys", keys("{", "}")),
        ("keys within", keys("{\"pulse\":{\"digest\":1,", "}}")),
        ("zeros", vec![0; MIB]),
    ]
}

/// Payloads between hosts of the greatest size: some are no message, one would be.
fn oversized_payloads() -> Vec<(&'static str, Vec<u8>)> {
    const MIB: usize = 1 << 20;
    // A map with so many keys of three characters, each with the value 0, behind a beginning.
    let keys = |begin: &[u8]| {
        let keys = (0..u32::try_from((MIB - 16) / 5).expect("few")).flat_map(|number| {
            [0x63, b'k', b'a' + (number % 26) as u8, b'0' + (number % 10) as u8, 0]
        });
        begin.iter().copied().chain(keys).collect::<Vec<u8>>()
    };
    const MANY: &[u8] = b"\xba\x00\x03\x00\x00";
    let deep = [&b"\xa1\x66update\xa1\x67records"[..], &vec![0x81; MIB - 100]].concat();
    let claimed = b"\xa1\x66update\xa1\x67records\x9b\x00\x00\x00\xff\xff\xff\xff\xff".to_vec();
    let name = DaemonName::new("n").expect("a name");
    let origin = Instance::from_bytes([1; 16]);
    let names = vec![name; 200_000];
    let lap = Lap { origin, sequence: 1, hops: 1, trace: true, way: 0, names };
    vec![
        ("lists", vec![0x81; MIB]),
        ("deep", deep),
        ("claimed", claimed),
        ("keys", keys(MANY)),
        ("keys within", keys(&[b"\xa1\x65pulse", MANY].concat())),
        ("names", encoded(&RingMessage::Lap(lap))),
        ("zeros", vec![0; MIB]),
    ]
}

/// Attacks a daemon and fails if the attack costs much processor time or memory.
fn check_low_cost(target: &Target, what: &str, attack: impl FnOnce()) {
    let (rss, cpu) = (target.daemon().resident_kib(), target.daemon().cpu());
    attack();
    let took = response_time(&target.ring, RingRequest::Describe);
    let used = target.daemon().cpu().saturating_sub(cpu);
    let grown = target.daemon().resident_kib().saturating_sub(rss);
    tell(&format!("{what}: {used:?} of the daemon, answered in {took:?}, +{grown} KiB"));
    assert!(grown < 4 * 1024, "{what}: grew by {grown} KiB");
    assert!(used < Duration::from_secs(2), "{what}: {used:?} of the daemon");
}

#[test]
fn a14_a_frame_too_long_deep_or_wide_ends_only_its_connection() {
    let mut target = Target::of(1);
    for (what, bytes) in oversized_payloads() {
        check_low_cost(&target, what, || {
            assert!(answer_to(target.port_address(), &bytes).is_empty())
        });
    }
    let mut guest = target.guest();
    check_low_cost(&target, "header", || {
        guest.send_raw(&[0xff; 4]);
        assert!(guest.is_closed());
    });
    for (what, bytes) in oversized_payloads() {
        let mut guest = target.guest();
        let frame = guest.seal(&bytes);
        check_low_cost(&target, &format!("{what}, of a member"), || {
            guest.send_raw(&frame);
            guest.bye();
            assert!(guest.is_closed());
        });
    }
}

#[test]
fn a14_a_console_with_oversized_frames_is_refused() {
    let target = Target::of(1);
    let socket = target.ring.rundir(1).join("mpd.sock");
    let frame = |bytes: &[u8]| {
        let length = u32::try_from(bytes.len() + 1).expect("short");
        [&length.to_be_bytes()[..], &[0], bytes].concat()
    };
    let mut attacks: Vec<_> =
        oversized_texts().into_iter().map(|(what, bytes)| (what, frame(&bytes))).collect();
    attacks.push(("header", vec![0xff; 5]));
    for (what, bytes) in attacks {
        check_low_cost(&target, what, || {
            let mut console = UnixStream::connect(&socket).expect("it serves");
            let _ = console.write_all(&bytes);
            let _ = console.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            let _ = console.read_to_end(&mut answer);
            assert!(answer.len() < 4096, "{} bytes", answer.len());
        });
    }
}

#[test]
fn a15_bad_hellos_cost_little_time_and_few_log_lines() {
    let target = Target::of(1);
    let mut random = Random::new(15);
    let count = 2_000;
    let (cpu, begin) = (target.daemon().cpu(), Instant::now());
    for _ in 0..count {
        let mut hello = Claim::new([8; 32], JOIN, 2).m1();
        hello[30] = random.bits().to_le_bytes()[0];
        assert!(answer_to(target.port_address(), &hello).is_empty());
    }
    let used = target.daemon().cpu() - cpu;
    // Two X25519 computations for each hello would take a quarter of a second in total; unit tests count them.
    tell(&format!("{count} bad hellos in {:?}: {used:?} of the daemon", begin.elapsed()));
    assert!(used < Duration::from_secs(2), "{used:?}");
    let lines = target.clean_log().lines().count();
    assert!(lines < 100, "{lines} lines in the log");
}

#[test]
fn a16_control_characters_of_members_reach_no_log_and_no_terminal() {
    let mut target = Target::of(1);
    let evil = r"\u001b]0;x\u0007\n2026 FAKE \u009b31m";
    let shapes = [
        r#"{"ring":"","name":"EVIL","release":"0","seen":"::1","versions":2}"#,
        r#"{"ring":"EVIL","name":"guest","release":"0","seen":"::1","versions":2}"#,
        r#"{"ring":"","name":"guest","release":"EVIL","seen":"EVIL"}"#,
        r#"{"ring":"","name":"guest","release":"EVIL","seen":"EVIL","versions":2}"#,
        r#"{"ring":"","name":"guest","release":"0","seen":"::1","versions":2,"EVIL":1}"#,
        r#"{"EVIL":"#,
        "\u{1b}[31m\n",
    ];
    for shape in shapes {
        let claim = target.claim(RING);
        let mut guest =
            Guest::open(connect(target.port_address()), &claim).expect("the key is right");
        guest.send(shape.replace("EVIL", evil).as_bytes());
        guest.send(r#"{"EVIL":1}"#.replace("EVIL", evil).as_bytes());
        // Some greetings are accepted, and the message of an unknown kind is skipped.
        guest.send(r#"{"pulse":{"digest":"EVIL"}}"#.replace("EVIL", evil).as_bytes());
        assert!(guest.is_closed());
    }
    for shape in [r#"{"lap":{"EVIL":1}}"#, r#"{"pulse":{"digest":"EVIL"}}"#] {
        let mut guest = target.guest();
        // A message of an unknown kind is skipped.
        guest.send(r#"{"EVIL":{}}"#.replace("EVIL", evil).as_bytes());
        guest.send(shape.replace("EVIL", evil).as_bytes());
        assert!(guest.is_closed());
    }
    let bad = "\u{1b}]0;x\u{7}\n\u{9b}31m";
    for to in [bad.to_owned(), format!("127.0.0.1:{bad}"), format!("{bad}:7")] {
        let problem = target.ring.refusal(1, RingRequest::Ping { target: to });
        assert!(!problem.contains(char::is_control), "{problem:?}");
    }
    let socket = target.ring.rundir(1).join("mpd.sock");
    let mut console = UnixStream::connect(socket).expect("it serves");
    let request = r#"{"EVIL":1}"#.replace("EVIL", evil);
    let length = u32::try_from(request.len() + 1).expect("short").to_be_bytes();
    console.write_all(&[&length[..], &[0], request.as_bytes()].concat()).expect("it reads");
    let mut answer = Vec::new();
    let _ = console.read_to_end(&mut answer);
    assert!(answer[5..].iter().all(|byte| !byte.is_ascii_control()), "{answer:?}");
    assert!(target.clean_log().contains("is unknown to the daemon"), "the log names the request");
}

/// The sources of the suite that hold one of these words, by their paths below the workspace.
fn sources_with(words: &[&str]) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let parts = ["mpd", "libs", "mpirun", "mpdboot", "mpdtrace", "pmi-proto", "pty-wrapper"];
    let mut directories: Vec<_> = parts.iter().map(|name| root.join(name)).collect();
    let mut found = BTreeSet::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else if words.iter().any(|word| holds(&path, word)) {
                let relative = path.strip_prefix(root).expect("below the root");
                found.insert(relative.display().to_string());
            }
        }
    }
    found
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a27_the_only_handler_is_that_of_signal_hook_and_daemon_and_manager_set_no_handler() {
    // The first file asks whether a signal is ignored, the second sets defaults between clone and exec, the third
    // registers, and the fourth reads descriptors.
    let known = [
        "libs/io/src/raw.rs",
        "libs/io/src/raw/child.rs",
        "libs/io/src/process/caught.rs",
        "libs/io/src/process/signals.rs",
    ];
    assert_eq!(sources_with(&["signal_hook", "sigaction", "SigAction", "signalfd"]), set(&known));
    assert_eq!(
        sources_with(&["sa_sigaction = ", "sa_handler = "]),
        set(&[]),
        "no handler of its own"
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let child = std::fs::read_to_string(root.join(known[1])).expect("it is there");
    let sets: Vec<_> = child.lines().filter(|line| line.contains("sigaction")).collect();
    assert!(sets.iter().all(|line| line.contains("default")), "a handler of its own: {sets:?}");
    let catching = [
        "libs/boot/src/agent.rs",
        "libs/io/src/process/signals.rs",
        "mpd/src/shim/mod.rs",
        "mpdboot/src/revive.rs",
        "mpdboot/src/up.rs",
        "mpdtrace/src/con/run.rs",
        "mpdtrace/src/export.rs",
        "mpdtrace/src/hold.rs",
        "mpdtrace/src/live.rs",
        "mpirun/src/caught.rs",
        "pty-wrapper/src/session.rs",
    ];
    assert_eq!(sources_with(&["Signals::catch"]), set(&catching));
}

#[test]
fn a27_a_storm_of_signals_affects_no_daemon() {
    let target = Target::of(3);
    let ring = &target.ring;
    let mut watch = ring.watch(2);
    let over = AtomicBool::new(false);
    let victim = ring.member(1).pid;
    let sent = std::thread::scope(|scope| {
        let storm = scope.spawn(|| {
            let signals = [Signal::SIGCHLD, Signal::SIGWINCH, Signal::SIGURG, Signal::SIGPIPE];
            let mut sent = 0_u64;
            while !over.load(Ordering::Relaxed) {
                signals.iter().for_each(|signal| process::send(victim, *signal));
                sent += 4;
            }
            sent
        });
        let until = Instant::now() + Duration::from_millis(sample(500, 10_000));
        while Instant::now() < until {
            response_time(ring, RingRequest::Census);
            ring.mpirun(1, &["-n", "2", "true"]).output().code(0).quiet();
        }
        over.store(true, Ordering::Relaxed);
        storm.join().expect("it ends")
    });
    tell(&format!("{sent} signals"));
    assert_eq!(target.daemon().pid, victim);
    let events = watch.so_far();
    assert!(events.is_empty(), "{events:?}");
    assert!(matches!(ring.ask(1, RingRequest::Describe), Ok(ConsoleReply::Ring(_))));
}
