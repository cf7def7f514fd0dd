//! Texts of files, and the lines of a client.

use mpd_proto::channel::{KeyText, keytext};
use mpd_proto::hosts;
use pmi_proto::{Answer, Facts, Operation, Session};

use super::{Bytes, in_pieces};

/// A key file that can be read is written so that it reads the same.
pub(crate) fn key_file(data: &[u8]) {
    let word = std::str::from_utf8(data).ok().and_then(keytext::secret_word);
    assert!(word.is_none_or(|word| !word.is_empty() && word.trim() == word));
    if let Ok(keys) = KeyText::parse(data.to_vec()) {
        let text = keys.to_text();
        let again = KeyText::parse(text.as_bytes().to_vec()).expect("what was written can be read");
        assert_eq!(*again.to_text(), *text);
        assert_eq!(again.ring(), keys.ring());
    }
}

/// Whatever host file or list is taken, its words can be neither options nor shell code, and there are
/// not too many of them.
pub(crate) fn host_file(data: &[u8]) {
    let list = std::str::from_utf8(data).ok().map(hosts::parse_list);
    for entries in [Some(hosts::parse_file(data)), list].into_iter().flatten().flatten() {
        assert!(entries.len() <= hosts::MAX_HOSTS);
        for entry in entries {
            assert!(hosts::is_host_name(&entry.host), "{:?}", entry.host);
            assert!(entry.user.as_deref().is_none_or(hosts::is_user_name));
        }
    }
}

/// A client says anything; what waits is bounded, and the conversation is the same however its bytes
/// are cut.
pub(crate) fn pmi_lines(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let cuts = bytes.some();
    let stream = bytes.rest();
    let one = conversation(stream, &[0xff]);
    let two = conversation(stream, cuts);
    assert_eq!(one, two);
}

fn conversation(stream: &[u8], cuts: &[u8]) -> (Vec<Operation>, Vec<u8>) {
    let facts = Facts {
        kvsname: "kvs_0123".to_owned(),
        rank: 3,
        size: 4,
        appnum: 0,
        universe_size: Some(8),
        spawner: None,
    };
    let mut session = Session::new(facts);
    let (mut operations, mut output) = (Vec::new(), Vec::new());
    in_pieces(stream, Bytes::new(cuts), |piece| {
        session.receive(piece);
        serve(&mut session, &mut operations, &mut output);
    });
    session.end_of_stream();
    serve(&mut session, &mut operations, &mut output);
    (operations, output)
}

fn serve(session: &mut Session, operations: &mut Vec<Operation>, output: &mut Vec<u8>) {
    while let Some(operation) = session.poll_operation() {
        match &operation {
            Operation::Put { .. } => session.answer(Answer::Put(Ok(()))),
            Operation::Get { key } => session.answer(Answer::Get(Some(key))),
            Operation::GetByIndex { index } => {
                let entry = (&b"key"[..], &b"value"[..]);
                session.answer(Answer::GetByIndex((*index < 2).then_some(entry)));
            }
            Operation::Publish { .. } => session.answer(Answer::Published(Ok(()))),
            Operation::Lookup { name } => session.answer(Answer::Found(Ok(name))),
            Operation::Unpublish { .. } => session.answer(Answer::Unpublished(Err("not_found"))),
            Operation::Fence => session.answer(Answer::Fence),
            Operation::Initialized { .. }
            | Operation::Finalized
            | Operation::Abort { .. }
            | Operation::Misbehaved { .. } => {}
        }
        operations.push(operation);
        output.extend_from_slice(session.output());
        session.consume(session.output().len());
    }
    output.extend_from_slice(session.output());
    session.consume(session.output().len());
}
