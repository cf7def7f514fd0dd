//! The code reads and writes the examples of ring messages in docs/ring.md.

use std::collections::BTreeSet;

use mpd_wire::message::RingMessage;

/// The lines of JSON in docs/ring.md's section on the messages.
fn examples() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ring.md");
    let text = std::fs::read_to_string(path).expect("docs/ring.md");
    let (_, section) =
        text.split_once("\n## Messages of the ring").expect("a section on the messages");
    let section = section.split("\n## ").next().expect("its text");
    section.lines().filter(|line| line.starts_with('{')).map(str::to_owned).collect()
}

/// The tag of a message, from its name in the code. A new variant does not compile until it is
/// added here, and the test fails until docs/ring.md has an example.
const fn tag(message: &RingMessage) -> &'static str {
    match message {
        RingMessage::Pulse { .. } => "pulse",
        RingMessage::List { .. } => "list",
        RingMessage::Update { .. } => "update",
        RingMessage::Names { .. } => "names",
        RingMessage::Scatter(_) => "scatter",
        RingMessage::Gathered(_) => "gathered",
        RingMessage::Lap(_) => "lap",
    }
}

#[test]
fn every_example_is_read_and_written_back_byte_for_byte() {
    for line in examples() {
        let message: RingMessage = serde_json::from_str(&line).expect(&line);
        assert_eq!(serde_json::to_string(&message).expect("it serialises"), line);
    }
}

#[test]
fn every_message_has_an_example() {
    let messages = examples().into_iter().map(|line| serde_json::from_str(&line).expect("valid"));
    let tags: BTreeSet<&str> = messages.map(|message| tag(&message)).collect();
    let all = ["gathered", "lap", "list", "names", "pulse", "scatter", "update"];
    assert!(tags.iter().eq(all.iter()), "{tags:?}");
}

#[test]
fn an_unknown_field_is_ignored_and_an_unknown_message_is_refused() {
    for line in examples() {
        let inner = line.find(":{").expect("every message has fields") + 2;
        let more = format!("{}\"extra\":1,{}", &line[..inner], &line[inner..]);
        let message: RingMessage = serde_json::from_str(&more).expect(&more);
        assert_eq!(serde_json::to_string(&message).expect("it serialises"), line);
    }
    for unknown in ["{\"pulses\":{\"digest\":1}}", "\"pulse\"", "[]", "{}"] {
        assert!(serde_json::from_str::<RingMessage>(unknown).is_err(), "{unknown}");
    }
}
