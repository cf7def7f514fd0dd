//! A1 to A5: attacks on a handshake and on frames by a recorder, a relay or another version.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::attacker::{
    Guest, JOIN, M1, M2, M3, RING, Relay, Way, answer_to, connect, greeting, rest,
};
use crate::attacks::{Target, ghost, ping, pulse};
use crate::members::{Members, holds};
use crate::naive;
use crate::run::{sample, wait_until};
use crate::suite::tell;

#[test]
fn a1_a_replayed_handshake_is_never_accepted() {
    let target = Target::of(1);
    let relay = Relay::honest(target.port_address());
    let join = target.ring.mpd(2).args(["--join", &relay.address.to_string()]);
    target.ring.started(2, join);
    target.ring.agree();
    let recorded = relay.received(Way::There);
    assert!(recorded.len() > M1 + M3, "a whole session: {} bytes", recorded.len());
    for number in 0..sample(200, 10_000) {
        let piece = match number % 4 {
            0 => &recorded[..],
            1 => &recorded[..M1 + M3],
            2 => &recorded[..M1],
            _ => &recorded[M1..],
        };
        let answer = answer_to(target.port_address(), piece);
        assert!(answer.is_empty(), "replay {number} was answered by {} bytes", answer.len());
    }
    target.ring.agree();
    assert!(target.clean_log().contains("received before: it may be a replay"));
}

#[test]
fn a1_a_repeated_omitted_or_moved_frame_closes_the_connection() {
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
    assert!(!target.has_read_ghosts());
    // In order the daemon would read them.
    let mut guest = target.guest();
    guest.send(&pulse());
    guest.send(&ghost());
    guest.bye();
    wait_until("it reads", || target.has_read_ghosts());
}

#[test]
fn a1_a_daemon_rejects_a_replayed_handshake_answer() {
    let target = Target::of(2);
    let honest = Relay::honest(target.ring.member(2).address);
    target.ring.ask(1, ping(honest.address)).expect("an answer through an unchanging relay");
    let recorded = honest.received(Way::Back);
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
fn a2_a_handshake_reflected_to_its_own_daemon_fails() {
    let target = Target::of(2);
    let mirror = Relay::honest(target.port_address());
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
fn a2_two_connecting_daemons_reject_each_others_hello_as_an_answer() {
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
fn a3_any_changed_bit_closes_the_connection_without_effect() {
    let mut target = Target::of(1);
    let flipped = Arc::new(AtomicUsize::new(usize::MAX));
    let bit = Arc::clone(&flipped);
    let relay = Relay::new(target.port_address(), move |way, before, piece| {
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
        let Some(mut guest) = Guest::open(connect(relay.address), &claim) else {
            assert!(bit < M1 * 8, "bit {bit} is behind the hello");
            closed += 1;
            continue;
        };
        guest.send(&greeting("guest", ""));
        guest.send(&ghost());
        // A grown length makes the daemon wait for more bytes, which never arrive.
        let _ = guest.stream.shutdown(Shutdown::Write);
        assert!(guest.is_closed());
        closed += 1;
        assert!(closed % 50 > 0 || !target.has_read_ghosts(), "bit {bit} or one before it");
    }
    assert!(!target.has_read_ghosts());
    flipped.store(usize::MAX, Ordering::Relaxed);
    let claim = target.claim(RING);
    let mut guest = Guest::enter(relay.address, &claim, "guest", "");
    guest.send(&ghost());
    guest.bye();
    wait_until("an unchanged frame is read", || target.has_read_ghosts());
    tell(&format!("{closed} bits changed of {}", length * 8));
}

#[test]
fn a3_a_connecting_daemon_detects_any_changed_bit() {
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
    target.ring.ask(1, ping(relay.address)).expect("an answer to unchanged bytes");
}

#[test]
fn a3_no_plain_text_is_on_the_wire() {
    let ring = Members::new().option(&["--ring", "unmistakable"]);
    ring.start(1);
    let relay = Relay::honest(ring.member(1).address);
    ring.started(2, ring.mpd(2).args(["--join", &relay.address.to_string()]));
    ring.agree();
    for way in [Way::There, Way::Back] {
        let received = relay.received(way);
        assert!(received.len() > 300, "{} bytes", received.len());
        for word in ["unmistakable", "pulse", "records", "incarnation", "127."] {
            let found = received.windows(word.len()).any(|piece| piece == word.as_bytes());
            assert!(!found, "'{word}' went {way:?}");
        }
    }
}

#[test]
fn a4_another_version_is_refused_with_a_proof_only_to_key_holders() {
    let mut target = Target::of(1);
    for version in [0, 2, 255] {
        let mut claim = target.claim(JOIN);
        claim.hello.version = version;
        let answer = answer_to(target.port_address(), &claim.m1());
        assert_eq!(answer.len(), M2, "version {version}");
        let arguments: Vec<u8> =
            answer[8..80].iter().copied().take_while(|byte| *byte != 0).collect();
        assert_eq!(answer, naive::refusal(&target.key, &claim.m1(), 1, &arguments), "it is proved");
        let arguments = String::from_utf8(arguments).expect("text");
        assert!(arguments.contains(&version.to_string()), "{arguments}");
        claim.key = [3; 32];
        assert!(
            answer_to(target.port_address(), &claim.m1()).is_empty(),
            "an outsider gets no byte"
        );
    }
    let key = target.key;
    let other = Relay::answering(move |mut stream| {
        let mut m1 = [0; M1];
        if stream.read_exact(&mut m1).is_ok() {
            let arguments = b"\x1b[31mbeware\n\xc2\x9b";
            let _ = stream.write_all(&naive::refusal(&key, &m1, 9, arguments));
        }
    });
    let problem = target.ring.refusal(1, ping(other.address));
    assert!(problem.contains("version 9") && problem.contains("beware"), "{problem}");
    assert!(!problem.contains(char::is_control), "{problem:?}");
}

#[test]
fn a5_a_cut_link_is_logged_differently_from_a_closed_link() {
    let mut target = Target::ring(Members::new().option(&["--verbose"]).with(1));
    let log = target.ring.rundir(1).join("mpd.log");
    let mut guest = target.guest();
    assert!(!holds(&log, "the connection was cut"));
    guest.stream.shutdown(Shutdown::Write).expect("it is open");
    wait_until("it notices", || holds(&log, "the connection was cut"));
    assert!(guest.is_closed());
    let mut guest = target.guest();
    assert!(!holds(&log, "the peer closed"));
    guest.bye();
    wait_until("it notices", || holds(&log, "the peer closed"));
    assert!(guest.is_closed());
}
