//! What those may try who can reach a daemon's port, its socket, its files. The letters and numbers are
//! those of GUARANTEES.md.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mpd_proto::message::{ConsoleReply, Lap, Payload, RingMessage, RingRequest};
use mpd_proto::ring::{DaemonName, Instance, Record, Standing};
use mpd_tests::random::Random;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;

use crate::attacker::{
    Claim, Guest, JOIN, M1, M2, M3, RING, Relay, Way, answer_to, connect, greeting, idle, key_in,
    rest, text,
};
use crate::members::{Members, holds};
use crate::naive::{self, Bytes32};
use crate::process::{self, Process};
use crate::run::{comes_true, sample, scaled, wait_until};
use crate::suite::{Suite, is_root, skip, tell};

/// A ring, and what an attacker knows of it.
struct Target {
    ring: Members,
    key: Bytes32,
    claims: u8,
}

impl Target {
    fn of(count: usize) -> Self {
        Self::ring(Members::of(count))
    }

    fn ring(ring: Members) -> Self {
        let key = key_in(&ring.suite.path("home/key"));
        Self { ring, key, claims: 0 }
    }

    /// Where the first daemon listens.
    fn door(&self) -> SocketAddr {
        self.ring.member(1).address
    }

    fn daemon(&self) -> Process {
        self.ring.process(1)
    }

    /// A new instance each time, nearly.
    fn claim(&mut self, purpose: u8) -> Claim {
        self.claims = self.claims.wrapping_add(2);
        Claim::new(self.key, purpose, self.claims)
    }

    fn guest(&mut self) -> Guest {
        let claim = self.claim(JOIN);
        Guest::enter(self.door(), &claim, "guest", "")
    }

    /// Whether the first daemon was ever told of a member that does not exist, and believed it.
    fn believes_in_ghosts(&self) -> bool {
        self.ring.record(1, "ghost").is_some()
    }

    /// Its log, with no byte in it that could drive a terminal or fake a line.
    fn clean_log(&self) -> String {
        let log = self.ring.log(1);
        let raw = log.chars().find(|c| c.is_control() && *c != '\n');
        assert!(raw.is_none(), "{raw:?} in the log: {log:?}");
        log
    }
}

/// What a member would say of a member that does not exist.
fn ghost() -> Vec<u8> {
    let record = Record {
        name: DaemonName::new("ghost").expect("a name"),
        incarnation: 1,
        standing: Standing::Dead,
        instance: Instance::from_bytes([9; 16]),
        position: 77,
        ordinal: 77,
        ncpus: 1,
        addresses: Vec::new(),
        by: None,
        age_s: 0,
    };
    text(&RingMessage::Update { records: vec![record] })
}

fn ping(to: SocketAddr) -> RingRequest {
    RingRequest::Ping { target: to.to_string() }
}

fn pulse() -> Vec<u8> {
    text(&RingMessage::Pulse { digest: 1 })
}

#[test]
fn a1_a_recorded_handshake_replayed_is_never_accepted() {
    let target = Target::of(1);
    let relay = Relay::honest(target.door());
    let join = target.ring.mpd(2).args(["--join", &relay.address.to_string()]);
    target.ring.started(2, join);
    target.ring.agree();
    let recorded = relay.heard(Way::There);
    assert!(recorded.len() > M1 + M3, "a whole session: {} bytes", recorded.len());
    for number in 0..sample(200, 10_000) {
        let piece = match number % 4 {
            0 => &recorded[..],
            1 => &recorded[..M1 + M3],
            2 => &recorded[..M1],
            _ => &recorded[M1..],
        };
        let answer = answer_to(target.door(), piece);
        assert!(answer.len() <= M2, "replay {number} was answered by {} bytes", answer.len());
    }
    target.ring.agree();
}

#[test]
fn a1_a_frame_repeated_left_out_or_moved_closes_the_connection() {
    let mut target = Target::of(1);
    for number in 0..sample(60, 10_000) {
        let mut guest = target.guest();
        let frames = [guest.seal(&pulse()), guest.seal(&ghost()), guest.seal(&ghost())];
        let order: &[usize] = match number % 3 {
            0 => &[0, 0, 1, 2],
            1 => &[1, 2],
            _ => &[0, 2, 1],
        };
        for frame in order {
            guest.send_raw(&frames[*frame]);
        }
        assert!(guest.is_closed());
    }
    assert!(!target.believes_in_ghosts());
    // In order they would have been believed.
    let mut guest = target.guest();
    guest.send(&pulse());
    guest.send(&ghost());
    wait_until("it believes", || target.believes_in_ghosts());
}

#[test]
fn a1_a_recorded_answer_replayed_convinces_no_daemon() {
    let target = Target::of(2);
    let honest = Relay::honest(target.ring.member(2).address);
    target.ring.ask(1, ping(honest.address)).expect("an honest relay is no obstacle");
    let recorded = honest.heard(Way::Back);
    let replaying = Relay::answering(move |mut stream| {
        let mut m1 = [0; M1];
        if stream.read_exact(&mut m1).is_ok() {
            let _ = stream.write_all(&recorded);
            rest(&mut stream);
        }
    });
    for _ in 0..sample(50, 10_000) {
        let problem = target.ring.refusal(1, ping(replaying.address));
        assert!(problem.contains("does not prove"), "{problem}");
    }
}

#[test]
fn a2_a_handshake_that_comes_back_to_its_daemon_fails() {
    let target = Target::of(2);
    let mirror = Relay::honest(target.door());
    let echo = Relay::answering(|mut stream| {
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                let _ = stream.write_all(&bytes[..count]);
            }
        });
    });
    for relay in [&mirror, &echo] {
        let problem = target.ring.refusal(1, ping(relay.address));
        assert!(problem.contains(&relay.address.to_string()), "{problem}");
    }
    assert_eq!(target.ring.agree(), ["d1", "d2"]);
}

#[test]
fn a2_two_daemons_that_both_connect_do_not_take_each_others_hello_for_an_answer() {
    let target = Target::of(2);
    let waiting: Mutex<Option<TcpStream>> = Mutex::new(None);
    let between = Relay::answering(move |stream| {
        let mut waiting = waiting.lock().expect("no panic");
        let Some(other) = waiting.take() else {
            *waiting = Some(stream);
            return;
        };
        for (from, to) in [(&stream, &other), (&other, &stream)] {
            let (mut from, mut to) = (from.try_clone().expect("fd"), to.try_clone().expect("fd"));
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        }
    });
    std::thread::scope(|scope| {
        for index in [1, 2] {
            let (ring, to) = (&target.ring, between.address);
            scope.spawn(move || {
                let problem = ring.refusal(index, ping(to));
                assert!(problem.contains("prove") || problem.contains("closed"), "{problem}");
            });
        }
    });
}

#[test]
fn a3_a_bit_changed_anywhere_closes_the_connection_and_nothing_is_acted_on() {
    let mut target = Target::of(1);
    let flipped = Arc::new(AtomicUsize::new(usize::MAX));
    let bit = Arc::clone(&flipped);
    let relay = Relay::new(target.door(), move |way, before, piece| {
        let bit = bit.load(Ordering::Relaxed);
        if way == Way::There && (before..before + piece.len()).contains(&(bit / 8)) {
            piece[bit / 8 - before] ^= 1 << (bit % 8);
        }
    });
    let length = M1 + M3 + greeting("guest", "").len() + ghost().len() + 2 * 20;
    let mut closed = 0;
    for bit in (0..length * 8).step_by(sample(13, 1)) {
        flipped.store(bit, Ordering::Relaxed);
        let claim = target.claim(RING);
        let Some(mut guest) = Guest::knock(connect(relay.address), &claim) else {
            assert!(bit < M1 * 8, "bit {bit} is not in the hello");
            closed += 1;
            continue;
        };
        guest.send(&greeting("guest", ""));
        guest.send(&ghost());
        // A length that grew waits for more: there is none.
        let _ = guest.stream.shutdown(std::net::Shutdown::Write);
        assert!(guest.is_closed());
        closed += 1;
        assert!(closed % 50 > 0 || !target.believes_in_ghosts(), "bit {bit} or one before it");
    }
    assert!(!target.believes_in_ghosts());
    flipped.store(usize::MAX, Ordering::Relaxed);
    let claim = target.claim(RING);
    let mut guest = Guest::enter(relay.address, &claim, "guest", "");
    guest.send(&ghost());
    wait_until("unchanged it is believed", || target.believes_in_ghosts());
    tell(&format!("{closed} bits changed of {}", length * 8));
}

#[test]
fn a3_a_daemon_that_connects_notices_any_bit_changed() {
    let target = Target::of(2);
    let flipped = Arc::new(AtomicUsize::new(usize::MAX));
    let bit = Arc::clone(&flipped);
    let relay = Relay::new(target.ring.member(2).address, move |way, before, piece| {
        let bit = bit.load(Ordering::Relaxed);
        let (byte, wanted) =
            if bit < M2 * 8 { (bit / 8, Way::Back) } else { (bit / 8 - M2, Way::There) };
        if way == wanted && (before..before + piece.len()).contains(&byte) {
            piece[byte - before] ^= 1 << (bit % 8);
        }
    });
    for bit in (0..(M2 + M1 + M3) * 8).step_by(sample(17, 1)) {
        flipped.store(bit, Ordering::Relaxed);
        target.ring.refusal(1, ping(relay.address));
    }
    flipped.store(usize::MAX, Ordering::Relaxed);
    target.ring.ask(1, ping(relay.address)).expect("unchanged it is answered");
}

#[test]
fn a3_nothing_that_can_be_read_is_on_the_wire() {
    let ring = Members::new().option(&["--ring", "unmistakable"]);
    ring.start(1);
    let relay = Relay::honest(ring.member(1).address);
    ring.started(2, ring.mpd(2).args(["--join", &relay.address.to_string()]));
    ring.agree();
    for way in [Way::There, Way::Back] {
        let heard = relay.heard(way);
        assert!(heard.len() > 300, "{} bytes", heard.len());
        for word in ["unmistakable", "pulse", "records", "incarnation", "127."] {
            let found = heard.windows(word.len()).any(|piece| piece == word.as_bytes());
            assert!(!found, "'{word}' went {way:?}");
        }
    }
}

#[test]
fn a4_another_version_is_refused_and_only_a_holder_of_the_key_is_told() {
    let mut target = Target::of(1);
    for version in [0, 2, 255] {
        let mut claim = target.claim(JOIN);
        claim.hello.version = version;
        let answer = answer_to(target.door(), &claim.m1());
        assert_eq!(answer.len(), M2, "version {version}");
        let words: Vec<u8> = answer[8..80].iter().copied().take_while(|byte| *byte != 0).collect();
        assert_eq!(answer, naive::refusal(&target.key, &claim.m1(), 1, &words), "it is proved");
        let words = String::from_utf8(words).expect("text");
        assert!(words.contains(&version.to_string()), "{words}");
        claim.key = [3; 32];
        assert!(answer_to(target.door(), &claim.m1()).is_empty(), "a stranger gets nothing");
    }
    let key = target.key;
    let other = Relay::answering(move |mut stream| {
        let mut m1 = [0; M1];
        if stream.read_exact(&mut m1).is_ok() {
            let words = b"\x1b[31mbeware\n\xc2\x9b";
            let _ = stream.write_all(&naive::refusal(&key, &m1, 9, words));
        }
    });
    let problem = target.ring.refusal(1, ping(other.address));
    assert!(problem.contains("version 9") && problem.contains("beware"), "{problem}");
    assert!(!problem.contains(char::is_control), "{problem:?}");
}

#[test]
fn a5_a_link_that_was_cut_is_told_from_one_that_ended() {
    let mut target = Target::ring(Members::new().option(&["--verbose"]).with(1));
    let log = target.ring.rundir(1).join("mpd.log");
    let mut guest = target.guest();
    assert!(!holds(&log, "the connection was cut"));
    guest.stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    wait_until("it notices", || holds(&log, "the connection was cut"));
    assert!(guest.is_closed());
    let mut guest = target.guest();
    assert!(!holds(&log, "the peer closed"));
    guest.bye();
    wait_until("it notices", || holds(&log, "the peer closed"));
    assert!(guest.is_closed());
}

#[test]
fn a6_the_key_is_in_no_command_line_environment_or_log() {
    let target = Target::of(3);
    let job = target.ring.mpirun(1, &["-n", "2", "sleep", "60"]).start();
    wait_until("it runs", || target.ring.suite.running("sleep").len() == 2);
    let hex: String = target.key.iter().map(|byte| format!("{byte:02x}")).collect();
    let base64 = String::from(Payload::from(&target.key[..]));
    let forms = [target.key.to_vec(), hex.clone().into_bytes(), hex.to_uppercase().into_bytes()];
    let forms = [&forms[..], &[base64.trim_end_matches('=').as_bytes().to_vec()]].concat();
    let tells = |bytes: &[u8]| forms.iter().any(|f| bytes.windows(f.len()).any(|piece| piece == f));
    assert!(tells(&std::fs::read(target.ring.suite.path("home/key")).expect("the key file")));
    let processes = target.ring.suite.processes();
    assert!(processes.len() > 6, "{processes:?}");
    for Process { pid, .. } in processes {
        for file in ["cmdline", "environ"] {
            let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            assert!(!tells(&text), "in {file} of {pid}");
        }
    }
    for index in 1..=3 {
        assert!(!tells(target.ring.log(index).as_bytes()), "in the log of d{index}");
        let saved = target.ring.rundir(index).join("ring.json");
        assert!(!tells(&std::fs::read(saved).expect("the list")), "in the list of d{index}");
    }
    job.send(Signal::SIGTERM);
    job.wait();
}

#[test]
fn a7_a_key_file_that_others_may_know_is_refused_with_the_way_to_repair_it() {
    let suite = Suite::new();
    let good = format!("ring default\n{}\n", "0123456789abcdef".repeat(4));
    let make = |name: &str, text: &str, mode: u32| {
        let path = suite.path("home").join(name);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("chmod");
        path
    };
    let (linked, other) = (suite.path("home/symlink"), suite.path("home/other-name"));
    let (pipe, hard) = (suite.path("home/pipe"), make("hard", &good, 0o600));
    symlink(make("aim", &good, 0o600), &linked).expect("a link");
    std::fs::hard_link(&hard, other).expect("a link");
    nix::unistd::mkfifo(&pipe, Mode::from_bits_truncate(0o600)).expect("a pipe");
    let mut cases = vec![
        (make("open", &good, 0o644), "mode 644", "chmod 600"),
        (make("group", &good, 0o660), "mode 660", "chmod 600"),
        (linked, "symbolic link", "put the file itself"),
        (pipe, "not a regular file", "remove it"),
        (hard, "2 hard links", "mv "),
        (make("empty", "", 0o600), "empty", "copy it again"),
        (make("short", &good[..good.len() - 3], 0o600), "248 bits, 256", "copy it again"),
        (make("word", "ring default\nsecret\n", 0o600), "line 2", "copy it again"),
    ];
    if is_root() {
        let theirs = make("theirs", &good, 0o600);
        chown(&theirs, Some(60_203), Some(60_203)).expect("chown");
        cases.push((theirs, "belongs to user 60203", "copy of your own"));
    } else {
        skip("a key file of somebody else: needs root, to make one");
    }
    for (path, problem, repair) in cases {
        let path = path.display().to_string();
        let output = suite.mpd(&["--daemon", "--ifhn", "127.0.0.1", "--key", &path]).output();
        output.code(1).says(&[&path, problem, repair]).brief();
        assert!(!output.err().contains("0123"), "a key is told: {output}");
        suite.gone(&[]);
    }
}

#[test]
fn a8_each_ring_has_a_key_of_its_own_that_nobody_chose() {
    let keys: BTreeSet<Bytes32> = (0..3)
        .map(|_| {
            let target = Target::of(1);
            let file = target.ring.suite.path("home/key");
            let mode = std::fs::metadata(file).expect("a key file").permissions().mode();
            assert_eq!(mode & 0o7777, 0o600);
            target.key
        })
        .collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| key.iter().collect::<BTreeSet<_>>().len() > 8), "not random");
}

#[test]
fn a9_what_somebody_else_put_where_the_run_directory_should_be_is_not_touched() {
    if !is_root() {
        return skip("somebody else's run directory: needs root, to be two users");
    }
    let (alice, bob) = (60_207, 60_208);
    let suite = Suite::as_user(alice);
    let home = suite.path("home");
    let place = suite.path("place");
    std::fs::create_dir(&place).expect("a directory");
    type Make<'a> = &'a dyn Fn(&Path);
    let make: [(&str, Make<'_>); 4] = [
        ("directory", &|path| std::fs::create_dir(path).expect("a directory")),
        ("file", &|path| std::fs::write(path, "").expect("a file")),
        ("symlink", &|path| symlink(&home, path).expect("a link")),
        ("socket", &|path| drop(UnixListener::bind(path).expect("a socket"))),
    ];
    for (kind, make) in make {
        let path: PathBuf = place.join(kind);
        make(&path);
        std::os::unix::fs::lchown(&path, Some(bob), Some(bob)).expect("chown");
        let before = std::fs::symlink_metadata(&path).expect("it is there");
        for words in [&["--daemon"][..], &["--status"]] {
            let output = suite.mpd(words).arg("--rundir").arg(&path).output();
            output.code(1).says(&[&path.display().to_string(), "user 60208"]).brief();
        }
        let after = std::fs::symlink_metadata(&path).expect("it is there");
        assert_eq!(
            (before.ino(), before.mtime_nsec()),
            (after.ino(), after.mtime_nsec()),
            "{kind}"
        );
    }
    let left: Vec<_> = std::fs::read_dir(&home).expect("home").collect();
    assert!(left.is_empty(), "in alice's home: {left:?}");
}

#[test]
fn a10_of_fifty_daemons_started_at_once_one_serves() {
    let suite = Suite::new();
    let log = suite.path("mpd.log").display().to_string();
    let words = ["--daemon", "--ifhn", "127.0.0.1", "--log-file", &log];
    let start = || suite.mpd(&words).deadline(120).start();
    let started: Vec<_> = (0..50).map(|_| start()).collect();
    let ended: Vec<_> = started.into_iter().map(crate::run::Running::wait).collect();
    let (served, refused): (Vec<_>, Vec<_>) =
        ended.iter().partition(|output| output.exit_code() == Some(0));
    assert_eq!(served.len(), 1);
    for output in refused {
        output.code(1).says(&["already running", &suite.rundir().display().to_string()]);
        assert_eq!(output.err().lines().count(), 1, "{output}");
    }
    wait_until("one is left", || suite.processes().len() == 1);
    process::send(suite.daemon().pid, Signal::SIGKILL);
    start().wait().code(0);
    suite.adopt(suite.daemon().pid, &suite.rundir(), log.as_ref());
}

/// Says nothing, or a byte now and then, and comes again when it is sent away.
struct Flood {
    door: SocketAddr,
    idle: Vec<TcpStream>,
    slow: Vec<TcpStream>,
}

impl Flood {
    /// From so many addresses.
    const ADDRESSES: usize = 60;

    fn new(door: SocketAddr, idle_ones: usize, slow_ones: usize) -> Self {
        let idle_ones = idle(door, idle_ones, Self::ADDRESSES);
        Self { door, idle: idle_ones, slow: idle(door, slow_ones, Self::ADDRESSES) }
    }

    /// A byte of each slow one.
    fn drip(&mut self) {
        for (number, stream) in self.slow.iter_mut().enumerate() {
            if stream.write_all(b"M").is_err() {
                let again = idle(self.door, number + 1, Self::ADDRESSES).pop();
                *stream = again.expect("one");
            }
        }
    }

    fn count(&self) -> usize {
        self.idle.len() + self.slow.len()
    }
}

/// How long the daemon takes to answer this; fails beyond a second.
fn prompt(ring: &Members, request: RingRequest) -> Duration {
    let begin = Instant::now();
    ring.ask(1, request).expect("an answer");
    let took = begin.elapsed();
    assert!(took < scaled(Duration::from_secs(1)), "answered after {took:?}");
    took
}

#[test]
fn a12_many_idle_and_slow_connections_hinder_nobody() {
    let target = Target::of(3);
    let ring = &target.ring;
    let before = target.daemon();
    let (rss, calm) = (before.resident_kib(), Instant::now());
    ring.mpirun(1, &["-n", "4", "true"]).output().code(0);
    let calm = calm.elapsed();
    let mut watches: Vec<_> = (1..=3).map(|index| ring.watch(index)).collect();
    let (idle_ones, slow_ones) = sample((300, 60), (2_000, 200));
    let mut flood = Flood::new(target.door(), idle_ones, slow_ones);
    let until = Instant::now() + Duration::from_millis(sample(500, 60_000));
    let (mut worst, mut jobs) = (Duration::ZERO, Vec::new());
    while Instant::now() < until {
        flood.drip();
        worst = worst.max(prompt(ring, RingRequest::Describe));
        worst = worst.max(prompt(ring, RingRequest::Census));
        let begin = Instant::now();
        ring.mpirun(1, &["-n", "4", "true"]).output().code(0).quiet();
        jobs.push(begin.elapsed());
    }
    jobs.sort_unstable();
    let grown = target.daemon().resident_kib().saturating_sub(rss);
    let descriptors = target.daemon().descriptors();
    let job = jobs[jobs.len() / 2];
    tell(&format!(
        "{} connections: worst answer {worst:?}, a job of 4 in {job:?} (calm: {calm:?}), +{grown} KiB, \
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
fn a13_a_daemon_without_descriptors_rests_and_serves_again() {
    let ring = Members::new();
    ring.started(1, ring.mpd_under(1, &["files=40"]));
    ring.start(2);
    ring.agree();
    let target = Target::ring(ring);
    let flood = Flood::new(target.door(), sample(200, 2_000), 20);
    let socket = target.ring.rundir(1).join("mpd.sock");
    let consoles: Vec<_> = (0..60).map(|_| UnixStream::connect(&socket)).collect();
    let daemon = target.daemon();
    wait_until("it has taken what it takes", || daemon.descriptors() > 24);
    // A look at the processor time of a while in which there is nothing to do.
    let (cpu, window) = (daemon.cpu(), Duration::from_secs(sample(1, 10)));
    comes_true(window, || false);
    let used = target.daemon().cpu() - cpu;
    tell(&format!("{} descriptors, {used:?} of {window:?}", daemon.descriptors()));
    assert!(used < window / 2, "it spins: {used:?} of {window:?}");
    let lines = target.ring.log(1).lines().count();
    assert!(lines < 100, "{lines} lines in its log");
    drop((flood, consoles));
    wait_until("it serves again", || target.ring.ask(1, RingRequest::Census).is_ok());
    target.ring.kill(2);
    target.ring.start_again(2);
    target.ring.agree();
}

/// Texts of the greatest size that are no message, and one that would be.
fn monsters() -> Vec<(&'static str, Vec<u8>)> {
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
    let name = DaemonName::new("n").expect("a name");
    let origin = Instance::from_bytes([1; 16]);
    let lap = Lap { origin, sequence: 1, hops: 1, trace: true, names: vec![name; 200_000] };
    vec![
        ("brackets", vec![b'['; MIB]),
        ("deep", deep),
        ("keys", keys("{", "}")),
        ("keys within", keys("{\"pulse\":{\"digest\":1,", "}}")),
        ("names", text(&RingMessage::Lap(lap))),
        ("zeros", vec![0; MIB]),
    ]
}

/// Does this to a daemon and fails if it takes long or makes it grow.
fn harmless(target: &Target, what: &str, attack: impl FnOnce()) {
    let (rss, begin) = (target.daemon().resident_kib(), Instant::now());
    attack();
    let took = begin.elapsed();
    prompt(&target.ring, RingRequest::Describe);
    let grown = target.daemon().resident_kib().saturating_sub(rss);
    tell(&format!("{what}: {took:?}, +{grown} KiB"));
    assert!(grown < 4 * 1024, "{what}: grew by {grown} KiB");
    assert!(took < scaled(Duration::from_secs(2)), "{what}: took {took:?}");
}

#[test]
fn a14_frames_too_long_too_deep_or_too_wide_end_their_connection_and_nothing_else() {
    let mut target = Target::of(1);
    for (what, bytes) in monsters() {
        harmless(&target, what, || assert!(answer_to(target.door(), &bytes).is_empty()));
    }
    let mut guest = target.guest();
    harmless(&target, "header", || {
        guest.send_raw(&[0xff; 4]);
        assert!(guest.is_closed());
    });
    for (what, bytes) in monsters() {
        let mut guest = target.guest();
        let frame = guest.seal(&bytes);
        harmless(&target, &format!("{what}, of a member"), || {
            guest.send_raw(&frame);
            guest.bye();
            assert!(guest.is_closed());
        });
    }
}

#[test]
fn a14_a_console_that_sends_such_frames_is_refused() {
    let target = Target::of(1);
    let socket = target.ring.rundir(1).join("mpd.sock");
    let frame = |bytes: &[u8]| {
        let length = u32::try_from(bytes.len() + 1).expect("short");
        [&length.to_be_bytes()[..], &[0], bytes].concat()
    };
    let mut attacks: Vec<_> =
        monsters().into_iter().map(|(what, bytes)| (what, frame(&bytes))).collect();
    attacks.push(("header", vec![0xff; 5]));
    for (what, bytes) in attacks {
        harmless(&target, what, || {
            let mut console = UnixStream::connect(&socket).expect("it serves");
            let _ = console.write_all(&bytes);
            let _ = console.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = console.read_to_end(&mut answer);
            assert!(answer.len() < 4096, "{} bytes", answer.len());
        });
    }
}

#[test]
fn a15_bad_hellos_cost_little_and_fill_no_log() {
    let target = Target::of(1);
    let mut random = Random::new(15);
    let count = 2_000;
    let (cpu, begin) = (target.daemon().cpu(), Instant::now());
    for _ in 0..count {
        let mut hello = Claim::new([8; 32], JOIN, 2).m1();
        hello[30] = random.bits().to_le_bytes()[0];
        assert!(answer_to(target.door(), &hello).is_empty());
    }
    let used = target.daemon().cpu() - cpu;
    // Two X25519 each would be a quarter of a second alone; unit tests count them.
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
        r#"{"ring":"","name":"EVIL","release":"0","seen":"::1"}"#,
        r#"{"ring":"EVIL","name":"guest","release":"0","seen":"::1"}"#,
        r#"{"ring":"","name":"guest","release":"EVIL","seen":"EVIL"}"#,
        r#"{"ring":"","name":"guest","release":"0","seen":"::1","EVIL":1}"#,
        r#"{"EVIL":"#,
        "\u{1b}[31m\n",
    ];
    for shape in shapes {
        let claim = target.claim(RING);
        let mut guest = Guest::knock(connect(target.door()), &claim).expect("the key is right");
        guest.send(shape.replace("EVIL", evil).as_bytes());
        guest.send(r#"{"EVIL":1}"#.replace("EVIL", evil).as_bytes());
        assert!(guest.is_closed());
    }
    for shape in [r#"{"EVIL":{}}"#, r#"{"lap":{"EVIL":1}}"#, r#"{"pulse":{"digest":"EVIL"}}"#] {
        let mut guest = target.guest();
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
    assert!(target.clean_log().contains("malformed"), "it was logged at all");
}

/// The sockets of TCP there are, as /proc/PID/fd names them.
fn tcp_sockets() -> BTreeSet<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    let tables = tables.map(Result::unwrap_or_default);
    let inodes = tables
        .iter()
        .flat_map(|table| table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(9)));
    inodes.map(|inode| format!("socket:[{inode}]")).collect()
}

fn open_files(pid: i32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.map(|target| target.to_string_lossy().into_owned()).collect()
}

#[test]
fn a22_neither_ranks_nor_managers_hold_a_descriptor_of_the_ring_or_of_whoever_started_it() {
    let ring = Members::new();
    let spread = "for n in {3..50}; do eval \"exec $n</etc/passwd\"; done; exec \"$@\"";
    let behind = |run: crate::run::Run| run.args(["-c", spread, "-"]);
    let bash = || behind(ring.suite.command("bash")).arg(ring.suite.program("mpd"));
    ring.started(1, ring.dress(bash(), 1));
    ring.start(2);
    ring.agree();
    let script = "ls -l /proc/$$/fd; echo $PMI_FD; echo ready; read x";
    let job = behind(ring.suite.command("bash")).arg(ring.suite.program("mpirun"));
    let job = job.env("MPD_RUNDIR", ring.rundir(1)).args(["-n", "1", "bash", "-c", script]);
    let mut job = job.input_pipe().start();
    job.shows("ready");
    let listing = job.stdout();
    let open = listing.lines().filter(|line| line.contains(" -> ")).count();
    // The three streams, PMI, and what the shell itself keeps for its script, if anything.
    assert!((4..=5).contains(&open) && !listing.contains("passwd"), "{listing}");
    let sockets = tcp_sockets();
    let has_tcp = |pid| open_files(pid).iter().any(|target| sockets.contains(target));
    assert!(has_tcp(ring.member(1).pid), "the daemon has");
    let manager = ring.suite.manager().pid;
    assert!(!has_tcp(manager), "{:?}", open_files(manager));
    for pid in [manager, ring.member(1).pid] {
        assert!(!open_files(pid).iter().any(|target| target.contains("passwd")), "of {pid}");
    }
    writeln!(job.stdin(), "x").expect("it reads");
    job.wait().code(0);
}

#[test]
fn a23_keys_are_in_no_core_file_and_behind_no_file_of_proc() {
    if !is_root() {
        return skip("a user's daemon: needs root, to be another user");
    }
    let suite = Suite::as_user(60_209);
    let daemon = suite.start_daemon_with(&["--ifhn", "127.0.0.1"]);
    let script = "echo core $(ulimit -c); read x";
    let job = suite.command("bash").args(["-c", "ulimit -Sc 4096; exec \"$@\"", "-"]);
    let job = job.arg(suite.program("mpirun")).args(["-n", "1", "bash", "-c", script]);
    let mut job = job.input_pipe().start();
    if !comes_true(Duration::from_secs(15), || job.stdout().contains("core")) {
        panic!("no job: {}", job.stderr());
    }
    let rank = job.stdout();
    for pid in [daemon.pid, suite.manager().pid] {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("its limits");
        let core = limits.lines().find(|line| line.starts_with("Max core")).expect("a line");
        assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
        for file in ["environ", "maps", "mem", "auxv"] {
            let output = suite.command("cat").arg(format!("/proc/{pid}/{file}")).output();
            output.failed().says(&["Permission denied"]);
        }
    }
    let core: Vec<_> = ["/core".to_owned(), format!("/core.{}", daemon.pid)].into();
    let there = || core.iter().any(|path| Path::new(path).exists());
    let before = there();
    writeln!(job.stdin(), "x").expect("it reads");
    job.wait().code(0);
    // The first only ends the watch of Rust's own for a stack that is full.
    wait_until("it is dead", || {
        process::send(daemon.pid, Signal::SIGSEGV);
        Process::read(daemon.pid).is_none_or(|process| !process.is_alive())
    });
    assert!(before || !there(), "a core of the daemon");
    // What the shell could not raise stays what it was.
    let direct = suite.command("bash").args(["-c", "ulimit -Sc 4096; ulimit -c"]).output().out();
    assert_eq!(rank.trim(), format!("core {}", direct.trim()), "a rank has its user's limit");
    // Its socket is stale; the next one clears that away.
    suite.start_daemon_with(&["--ifhn", "127.0.0.1"]);
}

#[test]
fn a27_signals_are_caught_in_one_place_that_only_notes_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut catching = BTreeSet::new();
    let mut directories = Vec::new();
    for name in ["mpd", "mpd-io", "mpd-proto", "mpirun", "mpdboot", "mpdtrace", "pmi-proto"] {
        directories.push(root.join(name).join("src"));
    }
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else if ["signal_hook", "sigaction(", "SigAction", "signalfd"]
                .iter()
                .any(|w| holds(&path, w))
            {
                let relative = path.strip_prefix(root).expect("below the root");
                catching.insert(relative.display().to_string());
            }
        }
    }
    // The first hands on to a pipe; the second sets defaults between fork and exec.
    let known = ["mpd-io/src/raw.rs", "mpd-io/src/signals.rs"].map(str::to_owned);
    assert_eq!(catching, BTreeSet::from(known));
    let raw = std::fs::read_to_string(root.join("mpd-io/src/raw.rs")).expect("it is there");
    let set: Vec<_> = raw.lines().filter(|line| line.contains("sa_sigaction")).collect();
    assert!(set.iter().all(|line| line.contains("SIG_DFL")), "a handler of its own: {set:?}");
}

#[test]
fn a27_a_storm_of_signals_hurts_no_daemon() {
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
            prompt(ring, RingRequest::Census);
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
