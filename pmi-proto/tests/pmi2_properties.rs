//! Properties of PMI-2 for any input: chunking, bounds, round trips through both machines.

mod manager;

use manager::{KVSNAME, Manager, conversation, cut, facts};
use pmi_proto::limits::{MAX_FRAME, MAX_OUTPUT};
use pmi_proto::pmi2::{Client, Content, Reply, Request, Response};
use pmi_proto::{Service, Session, SpawnCommand, SpawnRequest};
use proptest::collection::vec;
use proptest::prelude::*;

const INIT: &[u8] = b"cmd=init pmi_version=2 pmi_subversion=0\n";

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![2 => prop::sample::select(b";=ab ".to_vec()), 1 => any::<u8>()], 0..most)
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 1..64).prop_filter("not reserved", |key| !key.starts_with(b"PMI_"))
}

fn spawn() -> impl Strategy<Value = Request> {
    let pairs = || vec((bytes(9), bytes(9)), 0..3);
    let command = (vec(any::<u8>(), 1..9), vec(bytes(9), 0..4), 1..9_u32, pairs())
        .prop_map(|(program, args, size, info)| SpawnCommand { program, args, size, info });
    (vec(command, 1..4), pairs())
        .prop_map(|(commands, preput)| Request::Spawn(SpawnRequest { commands, preput }))
}

fn service() -> impl Strategy<Value = Service> {
    let info = vec((bytes(9), bytes(9)), 0..3);
    (bytes(9), info).prop_map(|(name, info)| Service { name, info })
}

fn any_request() -> impl Strategy<Value = Request> {
    let jobid = prop_oneof![Just(KVSNAME.into()), Just(b"kvs_parent".to_vec()), bytes(5)];
    prop_oneof![
        (0..3_u32, any::<bool>())
            .prop_map(|(rank, threaded)| Request::FullInit { rank: Some(rank), threaded }),
        Just(Request::JobId),
        Just(Request::Fence),
        (key(), bytes(1100)).prop_map(|(key, value)| Request::Put { key, value }),
        (jobid, key()).prop_map(|(jobid, key)| Request::Get { jobid, key }),
        ("[a-c]", bytes(9)).prop_map(|(key, value)| {
            Request::PutNodeAttribute { key: key.into_bytes(), value }
        }),
        ("[a-c]", any::<bool>())
            .prop_map(|(key, wait)| { Request::GetNodeAttribute { key: key.into_bytes(), wait } }),
        key().prop_map(|key| Request::GetJobAttribute { key }),
        (service(), bytes(9)).prop_map(|(service, port)| Request::Publish { service, port }),
        service().prop_map(|service| Request::Lookup { service }),
        service().prop_map(|service| Request::Unpublish { service }),
        spawn(),
        (bytes(9), bytes(9)).prop_map(|(left, right)| Request::Ring { left, right }),
        (any::<i32>(), any::<bool>(), bytes(9)).prop_map(|(code, world, message)| Request::Abort {
            code,
            world,
            message
        }),
        Just(Request::Finalize),
    ]
}

/// Bytes of a client: mostly frames, with either padding, with inits and garbage between.
fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let frame = (any_request(), any::<bool>()).prop_map(|(request, left)| {
        let frame = request.message(Some(b"7")).encode().unwrap();
        let (header, body) = frame.split_at(6);
        let header = String::from_utf8_lossy(header);
        let header = if left { header.into_owned() } else { format!("{:<6}", header.trim()) };
        [header.as_bytes(), body].concat()
    });
    let odd = prop_oneof![
        3 => Just(INIT.to_vec()),
        1 => Just(b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\n".to_vec()),
        1 => Just(b"     7garbage".to_vec()),
        1 => Just(b" 65536cmd=kvs-put;key=".to_vec()),
        1 => vec(any::<u8>(), 0..20),
    ];
    vec(prop_oneof![9 => frame, 1 => odd], 0..25)
        .prop_map(|pieces| [vec![INIT.to_vec()], pieces].concat().concat())
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_operations_and_output(
        stream in any_stream(),
        sizes in vec(1..200usize, 1..20),
    ) {
        let whole = conversation(&[&stream]);
        prop_assert_eq!(&conversation(&cut(&stream, &sizes)), &whole);
        prop_assert_eq!(&conversation(&cut(&stream, &[1])), &whole);
    }

    #[test]
    fn a_request_reads_back_as_it_was_written(request in any_request()) {
        let message = request.message(Some(b";thread=1"));
        prop_assert_eq!(Request::parse(&message), Ok(request));
        prop_assert_eq!(message.get("thrid"), Some(&b";thread=1"[..]));
    }

    #[test]
    fn any_bytes_are_survived(
        garbage in vec(prop_oneof![
            4 => prop::sample::select(b" 0123456789;=".to_vec()),
            1 => any::<u8>(),
        ], 0..300),
        init in any::<bool>(),
    ) {
        let mut manager = if init { Manager::initialized_2() } else { Manager::new() };
        manager.receive(&garbage);
        manager.end_of_stream();
        prop_assert!(manager.written.len() <= 40 * garbage.len() + 100);
    }

    #[test]
    fn what_waits_for_an_idle_manager_is_bounded(stream in any_stream()) {
        let mut session = Session::new(facts());
        session.receive(&stream);
        let request = Request::JobId.message(None).encode().unwrap();
        for _ in 0..30 {
            session.receive(&request.repeat(500));
            prop_assert!(session.output().len() <= MAX_OUTPUT + MAX_FRAME);
        }
        let operations = std::iter::from_fn(|| session.poll_operation()).count();
        prop_assert!(operations <= stream.len());
    }

    #[test]
    fn both_machines_understand_each_other(
        requests in vec(any_request(), 1..12),
        sizes in vec(1..50usize, 1..5),
    ) {
        let (mut client, mut manager) = (Client::new(), Manager::new());
        manager.receive(&client.init());
        let mut answered = 0;
        for (number, request) in requests.iter().enumerate() {
            let frame = client.request(Some(number.to_string().as_bytes()), request).unwrap();
            for piece in cut(&frame, &sizes) {
                manager.receive(piece);
            }
        }
        for piece in cut(&manager.written, &sizes) {
            client.receive(piece);
        }
        let welcome = Reply::ResponseToInit { version: 2, subversion: 0, rc: 0 };
        prop_assert_eq!(client.poll_reply(), Some(welcome));
        while let Some(reply) = client.poll_reply() {
            let Reply::Response(Response { thrid, outcome, .. }) = reply else {
                panic!("{reply:?}")
            };
            let number: usize = String::from_utf8(thrid.unwrap()).unwrap().parse().unwrap();
            let given = matches!(
                (&requests[number], &outcome),
                (_, Err(_) | Ok(Content::Done))
                    | (Request::FullInit { .. }, Ok(Content::Welcome(_)))
                    | (Request::JobId, Ok(Content::JobId(_)))
                    | (Request::Lookup { .. }, Ok(Content::Port(_)))
                    | (Request::Spawn(_), Ok(Content::Spawned { .. }))
                    | (Request::Ring { .. }, Ok(Content::Ring { .. }))
                    | (_, Ok(Content::Value(_)))
            );
            prop_assert!(given, "{:?}: {:?}", requests[number], outcome);
            answered += 1;
        }
        let silent = |request: &&Request| {
            matches!(request, Request::Abort { .. } | Request::GetNodeAttribute { wait: true, .. })
        };
        prop_assert!(answered >= requests.iter().filter(|request| !silent(request)).count());
        prop_assert!(answered <= requests.len());
    }
}
