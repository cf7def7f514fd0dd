//! The messages between a program with requests for slots and its helper, and the requests of the program.

use mpd_requests::frame::{Decoder, FORMAT, Received, encode, receive};
use mpd_requests::{RequestId, Table, ToHelper, ToProgram, Wanted};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Bytes, in_pieces};

/// Messages in any pieces are those of the whole stream. A message that was read is written and read again.
pub(crate) fn frames(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let cuts = bytes.some();
    let stream = bytes.rest();
    read_in_pieces::<ToHelper>(stream, cuts);
    read_in_pieces::<ToProgram>(stream, cuts);
}

fn read_in_pieces<M: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(
    stream: &[u8],
    cuts: &[u8],
) {
    let expected = messages::<M>(&mut whole(stream));
    let mut frames = whole(b"");
    let mut found = Vec::new();
    in_pieces(stream, Bytes::new(cuts), |piece| {
        frames.decoder.push(piece);
        found.extend(messages::<M>(&mut frames));
    });
    assert_eq!(found, expected);
    for message in expected {
        let again = encode(&message).expect("a message that was read is short enough");
        assert_eq!(messages::<M>(&mut whole(&again)), [message]);
    }
}

/// A stream, of which nothing is read behind bytes that are no message.
struct Stream {
    decoder: Decoder,
    is_broken: bool,
}

fn whole(stream: &[u8]) -> Stream {
    let mut decoder = Decoder::new(FORMAT);
    decoder.push(stream);
    Stream { decoder, is_broken: false }
}

fn messages<M: DeserializeOwned>(stream: &mut Stream) -> Vec<M> {
    let mut found = Vec::new();
    while !stream.is_broken {
        match receive(&mut stream.decoder) {
            Ok(Some(Received::Message(message))) => found.push(message),
            Ok(Some(Received::Unknown { .. })) => {}
            Ok(None) => break,
            Err(_) => stream.is_broken = true,
        }
    }
    found
}

/// Most requests of the program.
const REQUESTS: u8 = 16;

/// Whatever a helper sends, each request ends once, and each completion is given once. The first byte is the number of
/// requests, the rest are frames.
pub(crate) fn table(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let count = u32::from(bytes.byte() % REQUESTS) + 1;
    let mut table = Table::default();
    let wanted = Wanted { count, ..Wanted::default() };
    let first = table.allocate(&wanted).expect("a valid request");
    let all: Vec<RequestId> = (0..count as usize).map(|index| first.plus(index)).collect();
    let mut ends = vec![0; all.len()];
    for message in messages::<ToProgram>(&mut whole(bytes.rest())) {
        table.received(message);
        for id in &all {
            if table.set_exec(*id, b"/bin/true").is_ok() {
                let _ = table.start(*id);
            }
        }
        take_all(&mut table, &all, &mut ends);
    }
    table.lose_all();
    take_all(&mut table, &all, &mut ends);
    assert!(ends.iter().all(|ends| *ends == 1), "the ends of the requests: {ends:?}");
}

fn take_all(table: &mut Table, all: &[RequestId], ends: &mut [u32]) {
    for (id, ends) in all.iter().zip(ends) {
        while let Ok(Some(status)) = table.take(*id) {
            *ends += u32::from(status.state.is_last());
        }
    }
    assert!(!table.has_completions());
}
