//! Frames and messages. A valid message is the same after it is written and read again.

use std::fmt::Debug;

use mpd_leftovers::record::{JobRecord, Note, read_record};
use mpd_wire::frame;
use mpd_wire::frame::Decoder;
use mpd_wire::job::JobSpec;
use mpd_wire::message::{
    ConsoleReply, JobInput, JobNews, ManagerOrder, ManagerReport, Opening, OrderAnswer,
    RingMessage, RingOrder, RingRequest,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Bytes, in_pieces};

fn reads_back<M: DeserializeOwned + Serialize + PartialEq + Debug>(data: &[u8]) {
    if let Ok(message) = frame::decode_message::<M>(data) {
        let text = serde_json::to_vec(&message).expect("a valid message can be written");
        let again = frame::decode_message::<M>(&text).expect("a written message can be read");
        assert_eq!(message, again);
    }
}

/// The messages between a console and a daemon or manager.
pub(crate) fn console(data: &[u8]) {
    reads_back::<Opening>(data);
    reads_back::<RingRequest>(data);
    reads_back::<ConsoleReply>(data);
    reads_back::<JobInput>(data);
    reads_back::<JobNews>(data);
}

/// The messages between a daemon and a manager, and the daemon's records of jobs.
pub(crate) fn manager(data: &[u8]) {
    reads_back::<ManagerOrder>(data);
    reads_back::<ManagerReport>(data);
    reads_back::<JobRecord>(data);
    reads_back::<Note>(data);
    let _ = read_record(data);
}

/// The messages between daemons.
pub(crate) fn ring(data: &[u8]) {
    reads_back::<RingMessage>(data);
    reads_back::<RingOrder>(data);
    reads_back::<OrderAnswer>(data);
}

/// The encoding of a job's specification.
pub(crate) fn job_spec(data: &[u8]) {
    if let Ok(spec) = JobSpec::decode(data) {
        let bytes = spec.encode();
        let again = JobSpec::decode(&bytes).expect("a written specification can be read");
        assert!(again == spec, "the specification that was read differs");
        // The specification may be invalid; the check must not panic.
        let _ = spec.check();
    }
}

/// The frames do not depend on the pieces in which the bytes arrive.
pub(crate) fn plain_frames(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let cuts = bytes.some();
    let stream = bytes.rest();
    let mut at_once = Vec::new();
    let mut decoder = Decoder::default();
    decoder.push(stream);
    while let Ok(Some(frame)) = decoder.next_frame() {
        at_once.push((frame.kind, frame.descriptors, frame.payload.to_vec()));
    }
    let mut in_parts = Vec::new();
    let mut decoder = Decoder::default();
    in_pieces(stream, Bytes::new(cuts), |piece| {
        decoder.push(piece);
        while let Ok(Some(frame)) = decoder.next_frame() {
            in_parts.push((frame.kind, frame.descriptors, frame.payload.to_vec()));
        }
    });
    assert_eq!(at_once, in_parts);
    let mut written = Vec::new();
    for (kind, descriptors, payload) in &at_once {
        let begin = written.len();
        frame::encode(*kind, payload, &mut written);
        frame::announce(&mut written[begin..], *descriptors);
    }
    assert!(stream.starts_with(&written), "the written frames differ from those that were read");
}
