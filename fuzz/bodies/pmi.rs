//! The stream of a client of PMI-1 or PMI-2.

use pmi_proto::limits::{MAX_FRAME, MAX_OUTPUT};
use pmi_proto::pmi2::{Message, Request, Response};
use pmi_proto::{Answer, Facts, Operation, Session, Spawned, Ticket, pmi2};

use super::{Bytes, in_pieces};

/// A client of PMI-1 sends any stream. Memory stays bounded. Operations and answers do not depend on the pieces in
/// which the bytes arrive.
pub(crate) fn pmi_lines(data: &[u8]) {
    same_in_any_pieces(b"", data);
}

/// As `pmi_lines`, after an init of PMI-2, where several requests may be open. Also, a valid request or response is
/// the same after it is written and read again.
pub(crate) fn pmi_messages(data: &[u8]) {
    same_in_any_pieces(b"cmd=init pmi_version=2 pmi_subversion=0\n", data);
    if let Ok(message) = Message::parse(data) {
        if let Ok(request) = Request::parse(&message) {
            assert_eq!(Request::parse(&request.message(None)), Ok(request));
        }
        if let Ok(response) = Response::parse(&message) {
            assert_eq!(Response::parse(&response.message()), Ok(response));
        }
    }
    let mut client = pmi2::Client::new();
    client.receive(data);
    let replies = std::iter::from_fn(|| client.poll_reply()).count();
    assert!(replies <= data.len());
}

fn same_in_any_pieces(init: &[u8], data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let cuts = bytes.some();
    let stream = [init, bytes.rest()].concat();
    let one = conversation(&stream, &[0xff]);
    let two = conversation(&stream, cuts);
    assert_eq!(one, two);
}

fn conversation(stream: &[u8], cuts: &[u8]) -> (Vec<Operation>, Vec<u8>) {
    let facts =
        Facts { kvsname: "kvs_0123".to_owned(), rank: 3, size: 4, appnum: 0, spawner: None };
    let mut session = Session::new(facts);
    let (mut operations, mut output) = (Vec::new(), Vec::new());
    // Requests of PMI-2 that wait. They are answered at the end.
    let mut late = Vec::new();
    in_pieces(stream, Bytes::new(cuts), |piece| {
        session.receive(piece);
        serve(&mut session, &mut operations, &mut late, &mut output);
    });
    session.end_of_stream();
    serve(&mut session, &mut operations, &mut late, &mut output);
    for ticket in late {
        session.answer(ticket, Answer::Get(None));
        assert!(session.output().len() <= MAX_OUTPUT + 2 * MAX_FRAME);
    }
    (operations, output)
}

fn serve(
    session: &mut Session,
    operations: &mut Vec<Operation>,
    late: &mut Vec<Ticket>,
    output: &mut Vec<u8>,
) {
    while let Some((ticket, operation)) = session.poll_operation() {
        answer(session, ticket, &operation, late);
        operations.push(operation);
        output.extend_from_slice(session.output());
        session.consume(session.output().len());
    }
    output.extend_from_slice(session.output());
    session.consume(session.output().len());
}

fn answer(session: &mut Session, ticket: Ticket, operation: &Operation, late: &mut Vec<Ticket>) {
    let answer = match operation {
        Operation::Put { .. } | Operation::PutNodeAttribute { .. } => Answer::Put(Ok(())),
        Operation::GetNodeAttribute { wait: true, .. } => return late.push(ticket),
        Operation::Get { key }
        | Operation::GetOf { key, .. }
        | Operation::GetNodeAttribute { key, .. }
        | Operation::GetJobAttribute { key } => Answer::Get(Some(key)),
        Operation::GetByIndex { index } => {
            let entry = (&b"key"[..], &b"value"[..]);
            Answer::GetByIndex((*index < 2).then_some(entry))
        }
        Operation::Publish { .. } => Answer::Published(Ok(())),
        Operation::Lookup { service } => {
            if let Ok((name, key)) = service.clone().split() {
                assert!(name.len() + key.map_or(0, |key| key.len()) <= service.name.len() + 256);
            }
            Answer::Found(Ok(&service.name))
        }
        Operation::Unpublish { .. } => Answer::Unpublished(Err("not_found")),
        Operation::UniverseSize => Answer::UniverseSize(Some(8)),
        Operation::Fence | Operation::GroupFence { .. } => Answer::Fence,
        Operation::Ring { left, right } => Answer::Ring(Ok((right, left))),
        Operation::Connect { .. } | Operation::Disconnect { .. } | Operation::Signal { .. } => {
            Answer::Done(Ok(()))
        }
        Operation::Spawn(request) => {
            assert!(!request.commands.is_empty());
            assert!(request.commands.iter().all(|one| one.size > 0 && !one.program.is_empty()));
            Answer::Spawned(Ok(Spawned { jobid: "kvs_4567", errors: &[0, 1] }))
        }
        Operation::Initialized { .. }
        | Operation::Finalized
        | Operation::Abort { .. }
        | Operation::Misbehaved { .. } => return,
    };
    session.answer(ticket, answer);
}
