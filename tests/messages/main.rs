//! The bytes of each message of the suite. `golden/` has one encoded sample of each kind of each enum, a kind a line.
//! Messages between hosts travel in the compact encoding. `golden/compact/` has the same samples as hexadecimal digits. A test
//! that fails prints the lines that this release writes.
//!
//! Programs of different releases speak to each other: managers live longer than daemons. A changed line here is a message
//! that the other release may not read. A new kind needs a new line.

use std::fmt::Debug;
use std::path::Path;

use mpd_alloc::data::{AllocMessage, AllocNews};
use mpd_alloc::exchange::{Ask, Order, Reply};
use mpd_requests::{ToHelper, ToProgram};
use mpd_wire::frame::{self, InvalidFrame, compact};
use mpd_wire::hex;
use mpd_wire::job::{Failure, ManagerEnd, RankEnd, SpawnOutcome};
use mpd_wire::message::{
    ConsoleReply, DaemonReport, Down, Greeting, JobChange, JobInput, JobNews, JobOrder, JobRef,
    ManagerOrder, ManagerReport, MeetingAnswer, MeetingOperation, NameAnswer, NameOperation,
    Opening, OrderAnswer, Placing, RingMessage, RingOrder, RingRequest, ShimOrder, ShimReport, Up,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What a message must do.
trait Message: Serialize + DeserializeOwned + PartialEq + Debug {}
impl<M: Serialize + DeserializeOwned + PartialEq + Debug> Message for M {}

/// A kind that no release has.
const LATER: &str = "kind_of_a_later_release";

/// Kinds whose content is again a message with a kind, and has no fields of its own.
const NESTED: [(&str, &str); 2] = [("shim_report", "ended"), ("slots_reply", "news")];

/// The lines of a file of samples.
fn samples(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("messages/golden").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(str::to_owned).collect()
}

/// The kinds of an enum, as serde lists them in its error.
fn kinds<M: Message>() -> Vec<String> {
    let error = serde_json::from_value::<M>(json!(LATER)).expect_err("no such kind").to_string();
    let (_, listed) = error.split_once("expected").expect(&error);
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The kind of a sample.
fn kind_of(message: &Value) -> &str {
    let tagged = || message.as_object().and_then(|object| object.keys().next()).map(String::as_str);
    message.as_str().or_else(tagged).unwrap_or_else(|| panic!("{message} has no kind"))
}

/// The message with one more field; `None` if it has no fields.
fn with_one_more_field(mut message: Value) -> Option<Value> {
    let fields = message.as_object_mut()?.values_mut().next()?.as_object_mut()?;
    fields.insert("field_of_a_later_release".to_owned(), json!({"more": [1, 2]}));
    Some(message)
}

fn check<M: Message>(name: &str) {
    let lines = samples(name);
    let values: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).expect(line)).collect();
    let sampled: Vec<&str> = values.iter().map(kind_of).collect();
    assert_eq!(
        sampled,
        kinds::<M>(),
        "{name} has one line for each kind, in the order of the enum"
    );
    for (line, value) in lines.iter().zip(values) {
        let message: M = frame::decode_message(line.as_bytes()).expect(line);
        assert_eq!(serde_json::to_string(&message).expect(line), *line, "{name}");
        if !NESTED.contains(&(name, kind_of(&value)))
            && let Some(more) = with_one_more_field(value)
        {
            let more = more.to_string();
            assert_eq!(frame::decode_message(more.as_bytes()).as_ref(), Ok(&message), "{more}");
        }
    }
    for later in [json!(LATER), json!({LATER: {"number": 1}}), json!({LATER: null})] {
        let read = frame::decode_message::<M>(later.to_string().as_bytes());
        assert_eq!(read, Err(InvalidFrame::Unknown(LATER.to_owned())), "{name}");
    }
}

/// The same for messages between hosts.
fn check_compact<M: Message>(name: &str) {
    check::<M>(name);
    let messages: Vec<M> = samples(name)
        .iter()
        .map(|line| frame::decode_message(line.as_bytes()).expect(line))
        .collect();
    let written = messages.iter().map(compact::to_vec);
    let digits: Vec<String> = written.map(|bytes| hex::encode(&bytes)).collect();
    let kept = samples(&format!("compact/{name}"));
    assert!(kept == digits, "compact/{name} is\n{}", digits.join("\n"));
    for (message, digits) in messages.iter().zip(digits) {
        let mut bytes = vec![0; digits.len() / 2];
        hex::decode(&digits, &mut bytes).expect("digits");
        assert_eq!(compact::decode_message(&bytes).as_ref(), Ok(message), "{digits}");
        if let Some(more) = compact_with_one_more_field(&bytes) {
            assert_eq!(compact::decode_message(&more).as_ref(), Ok(message), "{digits}");
        }
    }
    for later in [compact::to_vec(&LATER), compact::to_vec(&json!({LATER: {"number": 1}}))] {
        let read = compact::decode_message::<M>(&later);
        assert_eq!(read, Err(InvalidFrame::Unknown(LATER.to_owned())), "{name}");
    }
}

/// The message with one more field in front; `None` if it has no fields.
fn compact_with_one_more_field(bytes: &[u8]) -> Option<Vec<u8>> {
    const KIND_AND_FIELDS: u8 = 0xa1;
    let (KIND_AND_FIELDS, rest) = bytes.split_first().map(|(first, rest)| (*first, rest))? else {
        return None;
    };
    let kind = 1 + usize::from(rest.first()? & 0x1f);
    // A short text is the kind, and a short map has the fields.
    let (kind, fields) = rest.split_at_checked(kind)?;
    let (count @ 0xa0..0xb7, fields) = fields.split_first().map(|(&count, rest)| (count, rest))?
    else {
        return None;
    };
    let [name, value] = [compact::to_vec(&"a_field"), compact::to_vec(&json!({"more": [1, 2]}))];
    Some([&[KIND_AND_FIELDS], kind, &[count + 1], &name, &value, fields].concat())
}

#[test]
fn messages_of_consoles_keep_their_bytes_and_ignore_what_is_later() {
    check::<Opening>("opening");
    check::<RingRequest>("ring_request");
    check::<ConsoleReply>("console_reply");
    check::<JobInput>("job_input");
    check::<JobNews>("job_news");
    check_compact::<JobOrder>("job_order");
    check::<JobRef>("job_ref");
}

#[test]
fn messages_between_daemons_and_managers_keep_their_bytes_and_ignore_what_is_later() {
    check::<ManagerOrder>("manager_order");
    check::<ManagerReport>("manager_report");
    check::<NameOperation>("name_operation");
    check::<NameAnswer>("name_answer");
    check::<Placing>("placing");
    check::<MeetingOperation>("meeting_operation");
    check::<MeetingAnswer>("meeting_answer");
    check_compact::<ManagerEnd>("manager_end");
    check::<DaemonReport>("daemon_report");
}

#[test]
fn messages_in_the_ring_keep_their_bytes_and_ignore_what_is_later() {
    check_compact::<RingMessage>("ring_message");
    check_compact::<RingOrder>("ring_order");
    check_compact::<OrderAnswer>("order_answer");
    check_compact::<JobChange>("job_change");
    let [line] = &samples("greeting")[..] else { panic!("one greeting") };
    let greeting: Greeting = serde_json::from_str(line).expect(line);
    assert_eq!(serde_json::to_string(&greeting).expect("JSON"), *line);
    let more = line.replacen('{', r#"{"field_of_a_later_release":{"more":[1,2]},"#, 1);
    assert_eq!(serde_json::from_str::<Greeting>(&more).expect(&more), greeting);
}

#[test]
fn messages_between_the_managers_of_a_job_keep_their_bytes_and_ignore_what_is_later() {
    check_compact::<Down>("down");
    check_compact::<Up>("up");
    check_compact::<Failure>("failure");
    check_compact::<RankEnd>("rank_end");
    check_compact::<SpawnOutcome>("spawn_outcome");
    check::<ShimOrder>("shim_order");
    check::<ShimReport>("shim_report");
}

#[test]
fn messages_about_slots_keep_their_bytes_and_ignore_what_is_later() {
    check::<Ask>("slots_ask");
    check::<Reply>("slots_reply");
    check_compact::<Order>("slots_order");
    check_compact::<AllocMessage>("alloc_message");
    check::<AllocNews>("alloc_news");
    check::<ToHelper>("to_helper");
    check::<ToProgram>("to_program");
}
