//! Tests: compares `pmix.txt`, the protocol for people, with the tables of the code.

use super::pack::Pack;
use super::table::{self, COMMANDS};
use super::{GroupForm, Put, Reply, Request, Scope};
use crate::encoding::types::{Field, Shape, TYPES};
use crate::encoding::{Encoding, Value};
use crate::status::Status;
use crate::view::{App, Info, Pair, Proc, Published, Query};

const TEXT: &str = include_str!("../../pmix.txt");

/// The rows below a heading.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let lines = TEXT.lines().skip_while(|line| *line != heading).skip(1);
    lines
        .take_while(|line| !line.starts_with("== "))
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| line.split('|').map(|column| column.trim().to_owned()).collect())
        .collect()
}

fn written(pack: &Pack) -> String {
    match pack {
        Pack::One(kind, name) => format!("{name}:{kind}"),
        Pack::Counted(kind, name) => format!("{name}:{kind}[]"),
        Pack::Each(kind, name) => format!("{name}:{kind}*"),
        Pack::Maybe(kind, name) => format!("[{name}:{kind}]"),
        Pack::Rest(kinds) => {
            let kinds: Vec<_> = kinds.iter().map(|(kind, name)| format!("{name}:{kind}")).collect();
            format!("{{{}}}", kinds.join(" "))
        }
        Pack::Encoded(name) => format!("{{{name}:kval}}"),
    }
}

fn list(packs: Option<&[Pack]>, none: &str) -> String {
    packs.map_or_else(
        || none.to_owned(),
        |packs| packs.iter().map(written).collect::<Vec<_>>().join(" "),
    )
}

#[test]
fn the_text_has_the_commands_of_the_code() {
    let in_code: Vec<_> = COMMANDS
        .iter()
        .map(|row| {
            let (request, reply) = (list(row.request, "?"), list(row.reply, "-"));
            vec![row.number.to_string(), row.name.to_owned(), request, reply]
        })
        .collect();
    assert_eq!(rows("== commands =="), in_code);
}

#[test]
fn the_text_has_the_other_forms_of_the_code() {
    let form = |name: &str, packs| vec![name.to_owned(), list(Some(packs), "")];
    let in_code = vec![
        form("event", table::EVENT),
        form("group-construct reply, PMIx up to 4.2.3", table::GROUP_EARLY),
        form("group-construct reply, PMIx 6.0", table::GROUP_60),
        form("group-construct reply, PMIx 6.1", table::GROUP_61),
        form("group-destruct request, PMIx up to 4.2.3", table::DESTRUCT_EARLY),
    ];
    assert_eq!(rows("== other forms =="), in_code);
}

#[test]
fn the_text_has_the_types_of_the_code() {
    let field = |field: &Field| match field {
        Field::One(kind) => kind.to_string(),
        Field::Run(count, kind) => format!("{kind}[{count}]"),
    };
    let shape = |shape: Shape| match shape {
        Shape::Nothing => "nothing".to_owned(),
        Shape::Byte => "byte".to_owned(),
        Shape::Unsigned(bytes) => format!("u{}", 8 * u32::from(bytes)),
        Shape::Signed(bytes) => format!("i{}", 8 * u32::from(bytes)),
        Shape::Text => "text".to_owned(),
        Shape::Bytes => "bytes".to_owned(),
        Shape::Value => "typed".to_owned(),
        Shape::Array => "array".to_owned(),
        Shape::Record(fields) => fields.iter().map(field).collect::<Vec<_>>().join(" "),
    };
    let in_code: Vec<_> = TYPES
        .iter()
        .map(|row| vec![row.kind.0.to_string(), row.name.to_owned(), shape(row.shape)])
        .collect();
    assert_eq!(rows("== types =="), in_code);
}

/// One request of each command.
fn requests() -> Vec<Request> {
    let proc = Proc::new("job", 3);
    let procs = vec![proc.clone(), Proc::all("other")];
    let info = vec![
        Info::new("pmix.collect", Value::bool(true)),
        Info { key: b"k".into(), flags: 8, value: Value::array_of(&procs) },
    ];
    let (group, keys) = (b"g".to_vec(), vec![b"a".to_vec(), b"b c".to_vec()]);
    let put = |scope, key: &str| Put { scope, pair: Pair::new(key, Value::bytes(vec![0, 1])) };
    let app = App {
        command: b"./x".into(),
        arguments: vec![b"./x".into(), b"".into()],
        environment: vec![b"A=b".into()],
        directory: None,
        processes: 2,
        info: info.clone(),
    };
    let codes = vec![Status(-200), Status::DEFAULT_HANDLER];
    let mut requests = vec![
        Request::JobInfo,
        Request::Abort { status: Status(7), message: None, procs: procs.clone() },
        Request::Commit {
            puts: vec![put(Scope::Local, "a"), put(Scope::Local, "b"), put(Scope::Global, "a")],
        },
        Request::Fence { procs: procs.clone(), info: info.clone() },
        Request::Get { proc: proc.clone(), info: vec![], key: Some(b"k".into()) },
        Request::Finalize,
        Request::Publish { uid: 7, info: info.clone() },
        Request::Lookup { uid: 7, keys: keys.clone(), info: vec![] },
        Request::Unpublish { uid: 7, keys, info: info.clone() },
        Request::Spawn { info: info.clone(), apps: vec![app.clone(), app] },
        Request::Connect { procs: procs.clone(), info: vec![] },
        Request::Disconnect { procs: procs.clone(), info: info.clone() },
        Request::Notify { status: Status(-7), range: 3, info: info.clone() },
        Request::Register { codes: codes.clone(), info: info.clone() },
        Request::Deregister { codes },
        Request::Query {
            queries: vec![Query { keys: vec![b"q".into()], qualifiers: info.clone() }],
        },
        Request::Log { time: 99, info: info.clone(), directives: vec![] },
        Request::JobControl { targets: vec![proc], info: info.clone() },
        Request::GroupConstruct { group: group.clone(), procs: procs.clone(), info: info.clone() },
        Request::GroupLeave { group: group.clone(), info: info.clone() },
        Request::GroupDestruct { group, procs, info },
    ];
    let unsupported = COMMANDS.iter().filter(|row| row.request.is_none());
    requests.extend(unsupported.map(|row| Request::Unsupported { command: row.number }));
    requests.sort_by_key(Request::command);
    requests
}

#[test]
fn each_request_is_the_same_after_it_is_written_and_read() {
    for encoding in Encoding::ALL {
        for request in requests() {
            let payload = request.write(encoding);
            assert_eq!(Request::read(encoding, [5, 0, 0], &payload), Ok(request));
        }
    }
    let numbers: Vec<_> = requests().iter().map(Request::command).collect();
    assert_eq!(numbers, COMMANDS.iter().map(|row| row.number).collect::<Vec<_>>());
}

#[test]
fn a_request_that_ends_early_is_an_error() {
    for encoding in Encoding::ALL {
        for request in requests() {
            let payload = request.write(encoding);
            for length in 0..payload.len() {
                let read = Request::read(encoding, [5, 0, 0], &payload[..length]);
                // Such a part can be valid: a list may end the message earlier, and an optional last field may be missing.
                let may_be_shorter = matches!(
                    request,
                    Request::Commit { .. } | Request::Deregister { .. } | Request::Get { .. }
                );
                assert!(read.is_err() || may_be_shorter, "{request:?} cut to {length} bytes");
            }
        }
    }
}

#[test]
fn each_reply_is_the_same_after_it_is_written_and_read() {
    let members = [Proc::new("job", 0), Proc::new("job", 1)];
    let found = Published { owner: members[0].clone(), key: b"k".into(), value: Value::u32(5) };
    let info = vec![Info::new("a", Value::text("b"))];
    let mut replies = vec![
        (0, Reply::JobInfo { namespace: b"job".into(), info: b"encoded".into() }),
        (4, Reply::Data(vec![b"data".into()])),
        (7, Reply::Found(vec![found])),
        (9, Reply::Spawned { namespace: b"job".into(), info: b"encoded".into() }),
        (10, Reply::Connected(vec![b"one".into(), b"two".into()])),
        (15, Reply::Answers(Status::SUCCESS, info)),
        (15, Reply::Answers(Status::NOT_SUPPORTED, vec![])),
    ];
    for row in COMMANDS.iter().filter(|row| row.reply.is_some() && ![0, 15].contains(&row.number)) {
        replies.push((row.number, Reply::Done(Status::NOT_FOUND)));
        if row.reply.is_some_and(|reply| reply.len() == 1) {
            replies.push((row.number, Reply::Done(Status::SUCCESS)));
        }
    }
    let group =
        |form, members: &[Proc]| Reply::Group { members: members.into(), context: Some(9), form };
    let releases = [[4, 2, 2], [5, 0, 11], [6, 0, 0], [6, 1, 0]];
    for encoding in Encoding::ALL {
        for (command, reply) in &replies {
            let payload = reply.write(encoding, *command);
            assert_eq!(Reply::read(encoding, *command, [5, 0, 0], &payload).as_ref(), Ok(reply));
        }
        for release in releases {
            let form = GroupForm::of(release);
            let members = if form == GroupForm::Early { &[] } else { &members[..] };
            let reply = group(form, members);
            let payload = reply.write(encoding, 24);
            assert_eq!(Reply::read(encoding, 24, release, &payload), Ok(reply));
        }
    }
}
