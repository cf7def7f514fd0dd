//! Compares `protocol2.txt`, the messages for readers, with the table of the code.
//!
//! These are tests only, including those of requests and responses that need samples of all commands.

use super::request::{COMMANDS, Row};
use super::{Content, Message, Request, Response, Welcome};
use crate::error::{ProtocolError, Refusal};
use crate::keyval::Attribute;
use crate::service::Service;
use crate::spawn::{SpawnCommand, SpawnRequest};

const TEXT: &str = include_str!("../../protocol2.txt");

fn written(attributes: &[Attribute]) -> String {
    let word = |attribute: &Attribute| match attribute.required {
        true => attribute.name.to_owned(),
        false => format!("[{}]", attribute.name),
    };
    attributes.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_rows_of_the_text_are_those_of_the_code() {
    let in_text: Vec<Vec<String>> = TEXT
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| line.split('|').map(|column| column.trim().to_owned()).collect())
        .collect();
    let in_code: Vec<Vec<String>> = COMMANDS
        .iter()
        .map(|row| {
            let response = row.response.map_or_else(|| "-".to_owned(), written);
            vec![row.name.to_owned(), written(row.attributes), response]
        })
        .collect();
    assert_eq!(in_text, in_code);
}

fn requests() -> Vec<(Request, &'static str)> {
    let (key, value) = (b"k".to_vec(), b"a b=c;".to_vec());
    let command = SpawnCommand {
        program: b"./x".into(),
        args: vec![b"".into(), b"a;b".into()],
        size: 2,
        info: vec![(b"host".into(), b"h1,h2".into())],
    };
    let info = vec![(b"mpd_key".to_vec(), b"a b;c".to_vec())];
    let spawn = SpawnRequest {
        commands: vec![command.clone(), SpawnCommand { args: vec![], ..command }],
        preput: vec![(key.clone(), value.clone())],
    };
    vec![
        (Request::FullInit { rank: Some(3), threaded: true }, "fullinit;pmirank=3;threaded=TRUE;"),
        (Request::JobId, "job-getid;"),
        (Request::Connect { jobid: key.clone() }, "job-connect;jobid=k;"),
        (Request::Disconnect { jobid: key.clone() }, "job-disconnect;jobid=k;"),
        (Request::Put { key: key.clone(), value: value.clone() }, "kvs-put;key=k;value=a b=c;;;"),
        (Request::Fence, "kvs-fence;"),
        (Request::Get { jobid: b"j".into(), key: key.clone() }, "kvs-get;jobid=j;srcid=-1;key=k;"),
        (
            Request::PutNodeAttribute { key: key.clone(), value },
            "info-putnodeattr;key=k;value=a b=c;;;",
        ),
        (
            Request::GetNodeAttribute { key: key.clone(), wait: true },
            "info-getnodeattr;key=k;wait=TRUE;",
        ),
        (Request::GetJobAttribute { key: key.clone() }, "info-getjobattr;key=k;"),
        (
            Request::Publish { service: b"my svc".to_vec().into(), port: b"p".into() },
            "name-publish;name=my svc;port=p;infokeycount=0;",
        ),
        (
            Request::Lookup { service: Service { name: key.clone(), info } },
            "name-lookup;name=k;infokeycount=1;infokey0=mpd_key;infoval0=a b;;c;",
        ),
        (Request::Unpublish { service: key.into() }, "name-unpublish;name=k;infokeycount=0;"),
        (
            Request::Spawn(spawn),
            "spawn;ncmds=2;preputcount=1;ppkey0=k;ppval0=a b=c;;;subcmd=./x;maxprocs=2;argc=2;argv0=;\
             argv1=a;;b;infokeycount=1;infokey0=host;infoval0=h1,h2;subcmd=./x;maxprocs=2;argc=0;\
             infokeycount=1;infokey0=host;infoval0=h1,h2;",
        ),
        (
            Request::Ring { left: b"l".into(), right: b"r".into() },
            "ring;ring-count=1;ring-left=l;ring-right=r;",
        ),
        (Request::Signal { rank: 7, signal: 10 }, "mpd-signal;rank=7;signal=10;"),
        (
            Request::Abort { code: -1, world: false, message: b"so".into() },
            "abort;exitcode=-1;isworld=FALSE;message=so;",
        ),
        (Request::Finalize, "finalize;"),
    ]
}

fn responses() -> Vec<(&'static str, Content, &'static str)> {
    let welcome = |spawner: Option<&str>| {
        let spawner = spawner.map(Into::into);
        Content::Welcome(Welcome { rank: 0, size: 2, appnum: 0, spawner })
    };
    let spawned = |errors: &[i32]| Content::Spawned { jobid: b"j".into(), errors: errors.into() };
    let (left, right) = (b"l".into(), b"r".into());
    vec![
        (
            "fullinit",
            welcome(None),
            "pmi-version=2;pmi-subversion=0;rank=0;size=2;appnum=0;debugged=FALSE;pmiverbose=FALSE;",
        ),
        (
            "fullinit",
            welcome(Some("p")),
            "pmi-version=2;pmi-subversion=0;rank=0;size=2;appnum=0;spawner-jobid=p;debugged=FALSE;\
             pmiverbose=FALSE;",
        ),
        ("job-getid", Content::JobId(b"kvs_7".into()), "jobid=kvs_7;"),
        ("job-connect", Content::Done, "kvscopy=FALSE;"),
        ("kvs-fence", Content::Done, ""),
        ("kvs-get", Content::Value(Some(b"a=b;c".into())), "found=TRUE;value=a=b;;c;"),
        ("info-getnodeattr", Content::Value(Some(b"".into())), "found=TRUE;value=;"),
        ("info-getjobattr", Content::Value(None), "found=FALSE;"),
        ("name-lookup", Content::Port(b"p".into()), "port=p;value=p;"),
        ("spawn", spawned(&[]), "jobid=j;nerrs=0;"),
        ("spawn", spawned(&[0, -3]), "jobid=j;nerrs=2;errcodes=0,-3;"),
        ("ring", Content::Ring { rank: 1, left, right }, "ring-count=1;ring-left=l;ring-right=r;"),
        ("finalize", Content::Done, ""),
    ]
}

fn text(message: &Message) -> String {
    let frame = message.encode().unwrap();
    String::from_utf8(frame).unwrap().split_off(6)
}

#[test]
fn each_request_has_its_message_and_each_message_its_request() {
    for (request, body) in requests() {
        assert_eq!(text(&request.message(None)), format!("cmd={body}"));
        let message = request.message(Some(b"7"));
        assert_eq!(message.pairs().first(), Some(&(b"thrid".into(), b"7".into())));
        assert_eq!(Request::parse(&message), Ok(request));
    }
    let names: Vec<_> = requests().iter().map(|(request, _)| request.name()).collect();
    assert_eq!(names, COMMANDS.iter().map(|row| row.name).collect::<Vec<_>>());
}

#[test]
fn each_response_has_its_message_and_each_message_its_response() {
    for (command, content, body) in responses() {
        let response =
            Response { thrid: Some(b"9".into()), command: command.into(), outcome: Ok(content) };
        let message = response.message();
        assert_eq!(text(&message), format!("cmd={command}-response;thrid=9;{body}rc=0;"));
        assert_eq!(Response::parse(&message), Ok(response));
    }
}

#[test]
fn a_refusal_has_one_form_for_all() {
    let outcome = Err(Refusal::new(1, "why"));
    let response = Response { thrid: None, command: b"fly".into(), outcome };
    assert_eq!(text(&response.message()), "cmd=fly-response;rc=1;errmsg=why;");
    assert_eq!(Response::parse(&response.message()), Ok(response));
}

#[test]
fn a_broken_response_is_an_error() {
    for body in ["fly;rc=0;", "fly-response;rc=0;", "kvs-put-response;", "abort-response;rc=0;"] {
        let message = Message::parse(format!("cmd={body}").as_bytes()).unwrap();
        assert!(Response::parse(&message).is_err(), "{body}");
    }
    let message = Message::parse(b"cmd=kvs-get-response;found=TRUE;rc=0;").unwrap();
    let missing = ProtocolError::MissingAttribute { command: "kvs-get", attribute: "value" };
    assert_eq!(Response::parse(&message), Err(missing));
}

/// A row's request with every attribute except `without`, all of them `1`.
fn sample(row: &Row, without: Option<&str>) -> Result<Request, ProtocolError> {
    let mut message = Message::new(row.name);
    for attribute in row.attributes {
        if Some(attribute.name) != without && row.name != "spawn" {
            message.push(attribute.name, "1");
        }
    }
    if row.name == "spawn" {
        message = message.with("subcmd", "x").with("maxprocs", "1");
    }
    Request::parse(&message)
}

#[test]
fn a_request_cannot_do_without_what_its_row_requires() {
    for row in COMMANDS {
        for attribute in row.attributes {
            let found = sample(row, Some(attribute.name));
            assert_eq!(found.is_err(), attribute.required, "{} {}", row.name, attribute.name);
        }
        assert_eq!(sample(row, None).unwrap().name(), row.name);
    }
}

#[test]
fn an_abort_is_understood_in_every_spelling() {
    let cases = [
        ("exitcode=-1;message=no luck;", (-1, true, "no luck")),
        ("isworld=TRUE;msg=no luck;", (1, true, "no luck")),
        ("isworld=FALSE;msg=;", (1, false, "")),
        ("exitcode=99999999999;", (1, true, "")),
        ("", (1, true, "")),
    ];
    for (body, (code, world, words)) in cases {
        let message = Message::parse(format!("cmd=abort;{body}").as_bytes()).unwrap();
        let abort = Request::Abort { code, world, message: words.into() };
        assert_eq!(Request::parse(&message), Ok(abort), "{body}");
    }
}
