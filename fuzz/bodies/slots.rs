//! Messages about slots, as another member of the ring may send them.

use std::time::Duration;

use mpd_alloc::data::{AllocId, AllocMessage, Pattern};
use mpd_alloc::exchange::{self, Ask, Granted, Listing, Order, Reply};
use mpd_alloc::{Allocator, Config, Input, Member, Output, Saved, Timing};
use mpd_sansio::{Machine as _, Time};
use mpd_wire::message::Payload;
use mpd_wire::{DaemonName, Instance};
use serde::Serialize;
use serde::de::DeserializeOwned;

const SLOTS: u32 = 4;

/// Most lines of one input that are used.
const MAX_LINES: usize = 64;

/// A daemon gives no more slots away than it has, whatever it receives. The first line is its record. Each further line
/// is a message of another member, and the time passes.
pub(crate) fn machine(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n').take(MAX_LINES);
    let saved: Saved =
        lines.next().and_then(|line| serde_json::from_slice(line).ok()).unwrap_or_default();
    let held = saved.holds.iter().fold(0, |sum: u32, hold| sum.saturating_add(hold.slots));
    let mut daemon = begin(saved);
    let mut now = Time::ZERO;
    for line in lines {
        now = now + Duration::from_millis(300);
        daemon.handle_timeout(now);
        perform(&mut daemon);
        let Ok(message) = serde_json::from_slice::<AllocMessage>(line) else { continue };
        assert_eq!(again(&message), message);
        daemon.handle(now, Input::Received(name("h2"), message));
        perform(&mut daemon);
        assert!(daemon.slots().1 <= SLOTS.max(held));
    }
}

/// Names, patterns, and what consoles and daemons say read back what they print.
pub(crate) fn texts(data: &[u8]) {
    let payload = Payload::from(data);
    read_back::<Ask>(&payload);
    read_back::<Reply>(&payload);
    read_back::<Order>(&payload);
    read_back::<Listing>(&payload);
    read_back::<Granted>(&payload);
    let text = String::from_utf8_lossy(data);
    if let Ok(id) = text.parse::<AllocId>() {
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    if let Ok(pattern) = text.parse::<Pattern>() {
        assert_eq!(pattern.as_str().parse().as_ref(), Ok(&pattern));
        assert!(!pattern.names("h1") || pattern.fits("h1"));
    }
}

fn read_back<T: PartialEq + std::fmt::Debug + Serialize + DeserializeOwned>(payload: &Payload) {
    if let Ok(value) = exchange::decode::<T>(payload) {
        assert_eq!(exchange::decode::<T>(&exchange::encode(&value)).expect("it reads back"), value);
    }
}

fn name(text: &str) -> DaemonName {
    DaemonName::new(text).expect("a name")
}

fn begin(saved: Saved) -> Allocator {
    let config = Config {
        name: name("h1"),
        arch: "x86_64".to_owned(),
        life: 1,
        timing: Timing::default(),
        saved,
    };
    let mut daemon = Allocator::new(Time::ZERO, config);
    perform(&mut daemon);
    let member = |text: &str, ordinal| Member {
        name: name(text),
        instance: Instance::from_bytes([1; 16]),
        ordinal,
        slots: SLOTS,
        draining: false,
    };
    for input in [Input::Members(vec![member("h1", 1), member("h2", 2)]), Input::Ready] {
        daemon.handle(Time::ZERO, input);
        perform(&mut daemon);
    }
    daemon
}

/// Takes all outputs. A record reads back what was written.
fn perform(daemon: &mut Allocator) {
    while let Some(output) = daemon.poll_output() {
        match output {
            Output::Save(saved) => assert_eq!(again(&*saved), *saved),
            Output::Send(_, message) => assert_eq!(again(&message), message),
            Output::Tell(..) | Output::Refused(..) => {}
        }
    }
}

fn again<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_vec(value).expect("it serialises");
    serde_json::from_slice(&text).expect("it reads back")
}
