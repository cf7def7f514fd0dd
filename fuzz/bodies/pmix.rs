//! A client of PMIx: the stream of its connection, and single messages.

use pmix_proto::connect::Introduction;
use pmix_proto::encoding::{DataType, Encoding, Reader, Writer};
use pmix_proto::event_log::OrderedEvent;
use pmix_proto::job_info::blob;
use pmix_proto::limits::{MAX_ITEMS, MAX_OUTPUT};
use pmix_proto::message::{Reply, Request, read_pairs, read_relayed, write_pairs, write_relayed};
use pmix_proto::view::Proc;
use pmix_proto::{Answer, Operation, Phase, Session, Status, Ticket};

use super::{Bytes, in_pieces};

/// A client sends any stream. Memory stays bounded. Operations and answers do not depend on the pieces in which the
/// bytes arrive.
pub(crate) fn stream(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let is_admitted = bytes.byte() & 1 == 0;
    let encoding = encoding(bytes.byte());
    let cuts = bytes.some();
    let start = if is_admitted { introduction(encoding) } else { Vec::new() };
    let stream = [&start[..], bytes.rest()].concat();
    let one = conversation(&stream, &[0xff]);
    let two = conversation(&stream, cuts);
    assert_eq!(one, two);
}

/// The readers of requests, replies, pairs and data get any bytes. A valid value is the same after it is written and
/// read again.
pub(crate) fn messages(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let encoding = encoding(bytes.byte());
    let release = [4 + u32::from(bytes.byte() % 3), u32::from(bytes.byte() % 3), 4];
    let command = bytes.byte();
    let payload = bytes.rest();
    if let Ok(request) = Request::read(encoding, release, payload) {
        // The oldest form of a destruction has no members, and is not written.
        if release >= [4, 2, 4] {
            let again = Request::read(encoding, release, &request.write(encoding));
            assert_eq!(again, Ok(grouped(request)));
        }
    }
    if let Ok(reply) = Reply::read(encoding, command, release, payload) {
        let written = reply.write(encoding, command);
        assert_eq!(Reply::read(encoding, command, release, &written), Ok(reply));
    }
    if let Ok(pairs) = read_pairs(encoding, payload) {
        assert_eq!(read_pairs(encoding, &write_pairs(encoding, &pairs)), Ok(pairs));
    }
    if let Ok(event) = read_relayed(payload) {
        assert_eq!(read_relayed(&write_relayed(&event)), Ok(event));
    }
    let kind = DataType(u16::from(command));
    if let Ok(run) = Reader::new(encoding, payload).pack(kind) {
        assert!(run.len() <= MAX_ITEMS);
        let mut writer = Writer::new(encoding);
        writer.pack(kind, &run);
        assert_eq!(Reader::new(encoding, &writer.into_bytes()).pack(kind), Ok(run));
    }
    if let Ok(introduction) = Introduction::read(payload) {
        assert_eq!(Introduction::read(&introduction.write()), Ok(introduction));
    }
}

/// The request with the pairs of a commit in the order in which they are written: by scope.
fn grouped(mut request: Request) -> Request {
    if let Request::Commit { puts } = &mut request {
        puts.sort_by_key(|put| put.scope);
    }
    request
}

fn encoding(byte: u8) -> Encoding {
    Encoding::ALL[usize::from(byte & 1)]
}

fn introduction(encoding: Encoding) -> Vec<u8> {
    let name: &[u8] = if encoding == Encoding::Fixed { b"v3" } else { b"v41" };
    let payload = Introduction {
        security: b"none".into(),
        user: None,
        role: 0,
        namespace: b"job".into(),
        rank: 0,
        version: b"5.0.11".into(),
        encoding: name.into(),
        buffers: 1,
        store: b"hash".into(),
    }
    .write();
    let length = u32::try_from(payload.len()).expect("a short payload");
    let header = [u32::MAX, u32::MAX, length, 0].map(u32::to_ne_bytes).concat();
    [header, payload].concat()
}

fn conversation(stream: &[u8], cuts: &[u8]) -> (Vec<Operation>, Vec<u8>) {
    let mut session = Session::new();
    let (mut operations, mut output, mut late) = (Vec::new(), Vec::new(), Vec::new());
    in_pieces(stream, Bytes::new(cuts), |piece| {
        session.receive(piece);
        serve(&mut session, &mut operations, &mut late, &mut output);
    });
    session.end_of_stream();
    serve(&mut session, &mut operations, &mut late, &mut output);
    assert_eq!(session.phase(), Phase::Closed);
    assert_eq!(session.open().count(), 0);
    assert!(session.is_to_be_closed());
    for ticket in late {
        session.answer(ticket, Answer::Done(Status::SUCCESS));
    }
    assert!(session.output().is_empty());
    (operations, output)
}

fn serve(
    session: &mut Session,
    operations: &mut Vec<Operation>,
    late: &mut Vec<Ticket>,
    output: &mut Vec<u8>,
) {
    while let Some((ticket, operation)) = session.poll_operation() {
        if let Operation::Notify(event) = &operation {
            let (number, event) = (operations.len() as u64, event.clone());
            let ordered = OrderedEvent { number, has_default: true, event };
            let is_sent = session.notify(&ordered);
            assert!(!is_sent || !session.notify(&ordered));
        }
        perform(session, ticket, &operation, late);
        operations.push(operation);
        assert!(session.output().len() <= 2 * MAX_OUTPUT);
        output.extend_from_slice(session.output());
        session.consume(session.output().len());
    }
    output.extend_from_slice(session.output());
    session.consume(session.output().len());
}

fn perform(session: &mut Session, ticket: Ticket, operation: &Operation, late: &mut Vec<Ticket>) {
    match operation {
        Operation::Connecting(introduction) => {
            match Encoding::named(&introduction.encoding) {
                Some(encoding) => session.admit(introduction, encoding, 0),
                None => session.refuse(pmix_proto::connect::Refusal::Encoding),
            }
            return;
        }
        Operation::Registered { .. }
        | Operation::Finalized
        | Operation::Abort { .. }
        | Operation::Misbehaved { .. } => return,
        Operation::Fence { .. } | Operation::Connect { .. } => return late.push(ticket),
        Operation::Spawn(spawn) => {
            assert!(!spawn.request.commands.is_empty());
            assert_eq!(spawn.request.commands.len(), spawn.environments.len());
            assert!(spawn.request.commands.iter().all(|one| one.size > 0));
        }
        Operation::Get { proc, .. } => {
            let data = blob(session.encoding(), &Proc::new("job", proc.rank), b"");
            return answer(session, ticket, Answer::Data(&data));
        }
        Operation::JobInfo => return answer(session, ticket, Answer::JobInfo(b"pairs")),
        Operation::Commit { .. }
        | Operation::Publish { .. }
        | Operation::Lookup { .. }
        | Operation::Unpublish { .. }
        | Operation::Notify(_)
        | Operation::Disconnect { .. }
        | Operation::Construct { .. }
        | Operation::Destruct { .. }
        | Operation::Query(_)
        | Operation::CleanUp(_)
        | Operation::Log { .. } => {}
    }
    answer(session, ticket, Answer::Done(Status::SUCCESS));
}

/// Answers an operation, unless the session has dropped it because of an error of the client.
fn answer(session: &mut Session, ticket: Ticket, answer: Answer<'_>) {
    if session.open().any(|open| open == ticket) {
        session.answer(ticket, answer);
    }
}
