//! Properties of PMI-1 for any input: chunking, bounds, round trips.

mod manager;

use manager::{KVSNAME, Manager, conversation, cut, facts};
use pmi_proto::limits::{MAX_MAPPING, MAX_OUTPUT, MAX_VALUE_REPLY};
use pmi_proto::{Client, Reply, Session, process_mapping};
use proptest::collection::vec;
use proptest::prelude::*;

/// A line that a client might send. Most lines are valid, the others in part.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let words = ["init pmi_version=1 pmi_subversion=1", "get_maxes", "barrier_in", "finalize"];
    let fixed = prop::sample::select(words.to_vec()).prop_map(|text| format!("cmd={text}").into());
    let put = ("[a-c]{0,2}", "[ -~]{0,80}")
        .prop_map(|(key, value)| format!("cmd=put kvsname={KVSNAME} key={key} value={value}"));
    let get = "[a-c]{0,2}".prop_map(|key| format!("cmd=get kvsname={KVSNAME} key={key}"));
    let index = (0..4).prop_map(|index| format!("cmd=getbyidx kvsname={KVSNAME} idx={index}"));
    let spawn = (1..3u32).prop_map(|n| {
        format!("mcmd=spawn\nnprocs=1\nexecname=x\ntotspawns=2\nspawnssofar={n}\nendcmd")
    });
    let odd = prop::sample::select(vec![
        "cmd=init pmi_version=3 pmi_subversion=0",
        "cmd=abort exitcode=3 message=so it goes",
        "cmd=initack pmiid=0",
        "mcmd=spawn",
        "endcmd",
        "",
    ]);
    prop_oneof![
        4 => fixed,
        4 => put.prop_map(String::into_bytes),
        4 => get.prop_map(String::into_bytes),
        1 => index.prop_map(String::into_bytes),
        1 => spawn.prop_map(String::into_bytes),
        1 => odd.prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..40),
    ]
}

/// A stream of such lines with either line end. The last end may be missing.
fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    (vec((any_line(), any::<bool>()), 0..40), any::<bool>(), any::<bool>()).prop_map(
        |(lines, partial, long)| {
            let mut bytes = Vec::new();
            for (line, with_return) in lines {
                bytes.extend_from_slice(&line);
                bytes.extend_from_slice(if with_return { b"\r\n" } else { b"\n" });
            }
            if long {
                bytes.resize(bytes.len() + 70_000, b'x');
            }
            if partial {
                bytes.extend_from_slice(b"cmd=get_ma");
            }
            bytes
        },
    )
}

/// Bytes similar to the protocol, to reach deep into the parser.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "cmd=",
        "mcmd=",
        "endcmd",
        "init",
        "put",
        "get",
        "spawn",
        " ",
        "=",
        "\n",
        "\r\n",
        "key=",
        " kvsname=",
        KVSNAME,
        " value=",
        "pmi_version=1",
        "service=",
        " port=",
        "idx=",
        "abort",
        "finalize",
        "publish_name",
        "barrier_in",
        "-1",
        "99999999999999999999",
    ];
    let piece = prop_oneof![
        8 => prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..30),
    ];
    vec(piece, 0..200).prop_map(|pieces| pieces.concat())
}

/// Carries bytes both ways until the client has its next reply.
fn ask(client: &mut Client, manager: &mut Manager, request: &[u8], sizes: &[usize]) -> Reply {
    let before = manager.written.len();
    for piece in cut(request, sizes) {
        manager.receive(piece);
    }
    for piece in cut(&manager.written[before..], sizes) {
        client.receive(piece);
    }
    client.poll_reply().unwrap()
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("one word", |byte| !b" \r\n".contains(byte));
    vec(byte, 1..64).prop_filter("not reserved", |key| !key.starts_with(b"PMI_"))
}

fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        3 => prop::sample::select(b"= \\a[]".to_vec()),
        2 => any::<u8>().prop_filter("one line", |byte| *byte != b'\n'),
    ];
    vec(byte, 0..980).prop_filter("no return at the end", |value| !value.ends_with(b"\r"))
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_operations_and_output(
        stream in any_stream(),
        sizes in vec(1..200usize, 1..20),
    ) {
        let whole = conversation(&[&stream]);
        prop_assert_eq!(&conversation(&cut(&stream, &sizes)), &whole);
        if stream.len() < 5000 {
            prop_assert_eq!(&conversation(&cut(&stream, &[1])), &whole);
        }
    }

    #[test]
    fn any_bytes_are_survived_and_no_reply_is_too_long(
        bytes in any_bytes(),
        init_first in any::<bool>(),
        sizes in vec(1..100usize, 1..5),
    ) {
        let mut manager = if init_first { Manager::initialized() } else { Manager::new() };
        for piece in cut(&bytes, &sizes) {
            manager.receive(piece);
        }
        manager.end_of_stream();
        for line in manager.written.split(|&byte| byte == b'\n') {
            prop_assert!(line.len() <= MAX_VALUE_REPLY);
        }
    }

    #[test]
    fn what_waits_for_an_idle_manager_is_bounded(pieces in vec(any_bytes(), 0..4)) {
        let mut session = Session::new(facts());
        for piece in &pieces {
            session.receive(piece);
        }
        for _ in 0..30 {
            session.receive(&b"cmd=get_maxes\ncmd=init pmi_version=1\n\n".repeat(400));
            prop_assert!(session.output().len() <= MAX_OUTPUT + 4 * MAX_VALUE_REPLY);
        }
    }

    #[test]
    fn what_one_client_puts_it_gets_back(
        pairs in vec((any_key(), any_value()), 1..6),
        sizes in vec(1..50usize, 1..5),
    ) {
        let (mut client, mut manager) = (Client::new(), Manager::new());
        let mut ask =
            |client: &mut Client, request: Vec<u8>| ask(client, &mut manager, &request, &sizes);
        let request = client.init();
        let welcome = Reply::ResponseToInit { version: 1, subversion: 1, rc: 0 };
        prop_assert_eq!(ask(&mut client, request), welcome);
        let request = client.get_my_kvsname();
        prop_assert_eq!(ask(&mut client, request), Reply::MyKvsname(KVSNAME.into()));
        let mut last = std::collections::BTreeMap::new();
        for (key, value) in &pairs {
            let request = client.put(key, value);
            prop_assert_eq!(ask(&mut client, request), Reply::PutResult(Ok(())));
            last.insert(key, value);
        }
        let request = client.barrier_in();
        prop_assert_eq!(ask(&mut client, request), Reply::BarrierOut { tag: None });
        for (key, value) in last {
            let request = client.get(key);
            prop_assert_eq!(ask(&mut client, request), Reply::GetResult(Ok(value.clone())));
        }
        let request = client.finalize();
        prop_assert_eq!(ask(&mut client, request), Reply::FinalizeAck { rc: 0 });
    }

    #[test]
    fn the_client_survives_any_bytes(bytes in any_bytes(), sizes in vec(1..60usize, 1..5)) {
        let (mut whole, mut in_pieces) = (Client::new(), Client::new());
        whole.receive(&bytes);
        for piece in cut(&bytes, &sizes) {
            in_pieces.receive(piece);
        }
        while let Some(reply) = whole.poll_reply() {
            prop_assert_eq!(Some(reply), in_pieces.poll_reply());
        }
        prop_assert_eq!(in_pieces.poll_reply(), None);
    }

    #[test]
    fn a_mapping_read_back_is_the_placement_renumbered(
        runs in vec((0..5u32, 1..6usize), 1..60),
        scale in 1..1000u32,
    ) {
        let nodes: Vec<u32> = runs
            .iter()
            .flat_map(|(node, length)| std::iter::repeat_n(node * scale, *length))
            .collect();
        let mut order: Vec<u32> = Vec::new();
        let mut dense = Vec::new();
        for node in &nodes {
            let number = order.iter().position(|known| known == node).unwrap_or_else(|| {
                order.push(*node);
                order.len() - 1
            });
            dense.push(u32::try_from(number).unwrap());
        }
        let text = process_mapping::encode(&nodes).unwrap();
        prop_assert!(text.len() <= MAX_MAPPING);
        prop_assert_eq!(process_mapping::decode(&text), Ok(dense));
    }

    #[test]
    fn any_text_is_a_mapping_or_an_error(text in "(\\(vector)?[(),0-9]{0,30}\\)?") {
        let _ = process_mapping::decode(&text);
    }
}
