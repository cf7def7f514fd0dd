//! A client and a session exchange the requests and replies of both encodings.

use pmix_proto::connect::{Introduction, Refusal};
use pmix_proto::encoding::{Data, DataType, Encoding, Value, Writer};
use pmix_proto::event_log::OrderedEvent;
use pmix_proto::limits::{
    MAX_BEYOND, MAX_GROUPS, MAX_HANDSHAKE, MAX_KEPT_EVENTS, MAX_MESSAGE, MAX_OPEN, MAX_RANK_BYTES,
};
use pmix_proto::message::{Reply, Request};
use pmix_proto::transport::{HEADER, Header};
use pmix_proto::view::{App, Info, Proc};
use pmix_proto::{
    Answer, Event, Operation, Persistence, Phase, ProtocolError, Range, Session, Status, Ticket,
};

const RELEASE: [u32; 3] = [5, 0, 11];

/// A client with its session.
struct Pair {
    session: Session,
    encoding: Encoding,
    replies: Vec<u8>,
}

fn introduction(encoding: Encoding) -> Introduction {
    Introduction {
        security: b"native".into(),
        user: Some((1, 1)),
        role: 0,
        namespace: b"job".into(),
        rank: 1,
        version: b"5.0.11".into(),
        encoding: if encoding == Encoding::Fixed { b"v3".into() } else { b"v41".into() },
        buffers: 1,
        store: b"hash".into(),
    }
}

fn connect_message(introduction: &Introduction) -> Vec<u8> {
    let payload = introduction.write();
    let length = u32::try_from(payload.len()).unwrap();
    let header = [u32::MAX, u32::MAX, length, 0].map(u32::to_ne_bytes).concat();
    [header, payload].concat()
}

impl Pair {
    fn connected(encoding: Encoding) -> Self {
        Self::of(encoding, introduction(encoding))
    }

    fn of(encoding: Encoding, introduction: Introduction) -> Self {
        let mut session = Session::new();
        session.receive(&connect_message(&introduction));
        let Some((_, Operation::Connecting(introduction))) = session.poll_operation() else {
            panic!("the client is not announced");
        };
        session.admit(&introduction, encoding, 5);
        assert_eq!(session.output(), [0, 0, 0, 0, 0, 0, 0, 5]);
        session.consume(8);
        Self { session, encoding, replies: Vec::new() }
    }

    fn send(&mut self, tag: u32, request: &Request) {
        let payload = request.write(self.encoding);
        self.send_bytes(tag, &payload);
    }

    fn send_bytes(&mut self, tag: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap();
        let header = Header { index: 5, tag, length }.write();
        self.session.receive(&[&header, payload].concat());
    }

    fn operation(&mut self) -> Option<(Ticket, Operation)> {
        self.session.poll_operation()
    }

    fn ask(&mut self, request: &Request) -> (Ticket, Operation) {
        self.send(101, request);
        self.operation().expect("an operation")
    }

    fn reply(&mut self, command: u8) -> Option<(u32, Reply)> {
        let (header, payload) = self.message()?;
        assert_eq!(header.index, 5);
        Some((header.tag, Reply::read(self.encoding, command, RELEASE, &payload).unwrap()))
    }

    fn message(&mut self) -> Option<(Header, Vec<u8>)> {
        self.replies.extend_from_slice(self.session.output());
        self.session.consume(self.session.output().len());
        let header = Header::read(*self.replies.first_chunk::<HEADER>()?);
        let end = HEADER + header.length as usize;
        let payload = self.replies.get(HEADER..end)?.to_vec();
        self.replies.drain(..end);
        Some((header, payload))
    }
}

fn fence(procs: &[Proc]) -> Request {
    Request::Fence { procs: procs.to_vec(), info: vec![] }
}

#[test]
fn a_client_connects_and_is_admitted_with_its_bytes_in_any_pieces() {
    let bytes = connect_message(&introduction(Encoding::Flexible));
    let mut session = Session::new();
    for byte in &bytes {
        assert_eq!(session.poll_operation(), None);
        session.receive(&[*byte]);
    }
    let expected = Operation::Connecting(introduction(Encoding::Flexible));
    assert_eq!(session.poll_operation().map(|(_, operation)| operation), Some(expected));
    assert_eq!(session.phase(), Phase::Connecting);
}

#[test]
fn a_refused_client_gets_a_status_and_the_connection_closes() {
    let mut session = Session::new();
    session.receive(&connect_message(&introduction(Encoding::Flexible)));
    session.poll_operation().unwrap();
    session.refuse(Refusal::Connected);
    assert_eq!(session.output()[..4], (-23_i32).to_be_bytes());
    assert!(!session.is_to_be_closed());
    session.consume(8);
    assert!(session.is_to_be_closed());
    session.receive(b"more");
    assert_eq!(session.poll_operation(), None);
}

#[test]
fn the_connection_of_a_tool_closes_without_a_status() {
    let mut session = Session::new();
    session.receive(&connect_message(&introduction(Encoding::Flexible)));
    session.poll_operation().unwrap();
    session.refuse(Refusal::Role);
    assert!(session.output().is_empty() && session.is_to_be_closed());
}

#[test]
fn garbage_instead_of_the_connect_message_closes_the_connection() {
    let header = |length: u32| [0, 0, length, 0].map(u32::to_ne_bytes).concat();
    let too_long = header(u32::try_from(MAX_HANDSHAKE).unwrap() + 1);
    let no_message = [header(3), b"abc".to_vec()].concat();
    for bytes in [too_long, no_message, b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
        let mut session = Session::new();
        session.receive(&bytes);
        let (_, operation) = session.poll_operation().unwrap();
        assert!(matches!(operation, Operation::Misbehaved { is_fatal: true, .. }), "{operation:?}");
        assert!(session.is_to_be_closed());
    }
}

#[test]
fn a_message_that_is_too_long_closes_the_connection_after_its_header() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let length = u32::try_from(MAX_MESSAGE).unwrap() + 1;
    pair.session.receive(&Header { index: 5, tag: 101, length }.write());
    let error = ProtocolError::TooLong(length);
    let (_, operation) = pair.operation().unwrap();
    assert_eq!(operation, Operation::Misbehaved { error, is_fatal: true });
    assert!(pair.session.is_to_be_closed());
}

#[test]
fn answers_go_to_their_requests_in_any_order() {
    for encoding in Encoding::ALL {
        let mut pair = Pair::connected(encoding);
        pair.send(101, &fence(&[Proc::all("job")]));
        let proc = Proc::new("job", 0);
        let get = Request::Get { proc: proc.clone(), info: vec![], key: Some(b"k".into()) };
        pair.send(102, &get);
        let (first, operation) = pair.operation().unwrap();
        let procs = vec![Proc::all("job")];
        assert_eq!(operation, Operation::Fence { procs, collect: false, timeout: None });
        let (second, operation) = pair.operation().unwrap();
        let key = Some(b"k".to_vec());
        assert_eq!(operation, Operation::Get { proc, key, immediate: false, timeout: None });
        assert_eq!(pair.session.open().collect::<Vec<_>>(), [first, second]);
        pair.session.answer(second, Answer::Data(b"data"));
        pair.session.answer(first, Answer::Done(Status::SUCCESS));
        assert_eq!(pair.reply(4), Some((102, Reply::Data(vec![b"data".into()]))));
        assert_eq!(pair.reply(3), Some((101, Reply::Done(Status::SUCCESS))));
        assert_eq!(pair.session.open().count(), 0);
    }
}

#[test]
fn the_members_of_a_fence_are_sorted_and_an_empty_list_means_all() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let (a, b) = (Proc::new("a", 7), Proc::new("b", 1));
    let (_, operation) = pair.ask(&fence(&[b.clone(), a.clone(), b.clone()]));
    assert_eq!(operation, Operation::Fence { procs: vec![a, b], collect: false, timeout: None });
    let (_, operation) = pair.ask(&fence(&[]));
    let procs = vec![Proc::all("job")];
    assert_eq!(operation, Operation::Fence { procs, collect: false, timeout: None });
}

#[test]
fn a_request_whose_timeout_expired_is_answered_once() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let info =
        vec![Info::new("pmix.timeout", Value::int(600)), Info::new("pmix.wait", Value::int(0))];
    let keys = vec![b"a".to_vec(), b"b".to_vec()];
    let (ticket, operation) = pair.ask(&Request::Lookup { uid: 1, keys: keys.clone(), info });
    let timeout = Some(600);
    let expected = Operation::Lookup { keys, range: Range::Session, wait: Some(2), timeout };
    assert_eq!(operation, expected);
    pair.session.expire(ticket);
    pair.session.expire(ticket);
    assert_eq!(pair.reply(7), Some((101, Reply::Done(Status::TIMEOUT))));
    assert_eq!(pair.reply(7), None);
}

#[test]
fn the_end_of_the_stream_drops_open_requests() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let (ticket, _) = pair.ask(&fence(&[]));
    pair.session.receive(&[0; 4]);
    pair.session.end_of_stream();
    let (_, operation) = pair.operation().unwrap();
    let error = ProtocolError::Partial(4);
    assert_eq!(operation, Operation::Misbehaved { error, is_fatal: false });
    assert_eq!(pair.session.open().count(), 0);
    pair.session.answer(ticket, Answer::Done(Status::SUCCESS));
    assert!(pair.session.is_to_be_closed());
}

#[test]
fn finalize_is_answered_each_time_and_reported_once() {
    let mut pair = Pair::connected(Encoding::Fixed);
    pair.send(101, &Request::Finalize);
    pair.send(102, &Request::Finalize);
    assert_eq!(pair.operation().map(|(_, operation)| operation), Some(Operation::Finalized));
    assert_eq!(pair.operation(), None);
    assert_eq!(pair.session.phase(), Phase::Finalized);
    assert_eq!(pair.reply(5), Some((101, Reply::Done(Status::SUCCESS))));
    assert_eq!(pair.reply(5), Some((102, Reply::Done(Status::SUCCESS))));
}

#[test]
fn an_abort_is_answered_and_passed_on() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let message = Some(b"no luck".to_vec());
    let (_, operation) = pair.ask(&Request::Abort { status: Status(7), message, procs: vec![] });
    let abort = Operation::Abort { status: 7, message: b"no luck".into(), procs: vec![] };
    assert_eq!(operation, abort);
    assert_eq!(pair.reply(1), Some((101, Reply::Done(Status::SUCCESS))));
}

#[test]
fn an_invalid_request_only_gets_an_error() {
    let mut pair = Pair::connected(Encoding::Flexible);
    // A fence with a count of procs and no procs, a command that does not exist, and no command.
    for (tag, payload, status) in [
        (101, &[2, 3, 2, 9][..], Status::UNPACK_FAILURE),
        (102, &[2, 99], Status::NOT_SUPPORTED),
        (103, &[], Status::UNPACK_FAILURE),
    ] {
        pair.send_bytes(tag, payload);
        let (_, operation) = pair.operation().unwrap();
        assert!(matches!(operation, Operation::Misbehaved { is_fatal: false, .. }));
        assert_eq!(pair.reply(3), Some((tag, Reply::Done(status))));
    }
    let (_, operation) = pair.ask(&fence(&[]));
    assert!(matches!(operation, Operation::Fence { .. }));
}

#[test]
fn unsupported_commands_are_answered_and_not_reported() {
    let mut pair = Pair::connected(Encoding::Flexible);
    for command in [17, 19, 22, 32] {
        pair.send(200, &Request::Unsupported { command });
        assert_eq!(pair.operation(), None);
        assert_eq!(pair.reply(command), Some((200, Reply::Done(Status::NOT_SUPPORTED))));
    }
}

#[test]
fn a_client_has_a_bounded_number_of_open_requests() {
    let mut pair = Pair::connected(Encoding::Flexible);
    for _ in 0..MAX_OPEN {
        pair.ask(&fence(&[]));
    }
    let (_, operation) = pair.ask(&fence(&[]));
    let error = ProtocolError::TooManyOpen;
    assert_eq!(operation, Operation::Misbehaved { error, is_fatal: false });
    assert_eq!(pair.reply(3), Some((101, Reply::Done(Status::OUT_OF_RESOURCE))));
}

fn event(number: u64, status: Status, affected: &Proc) -> OrderedEvent {
    let event = Event {
        status,
        source: affected.clone(),
        range: Range::Namespace,
        targets: vec![],
        info: vec![Info::new("pmix.evproc", affected.value())],
    };
    OrderedEvent { number, has_default: false, event }
}

fn register(codes: &[Status], info: Vec<Info>) -> Request {
    Request::Register { codes: codes.to_vec(), info }
}

#[test]
fn a_client_gets_the_events_for_which_it_has_registered() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let died = event(1, Status::TERM_WO_SYNC, &Proc::new("job", 3));
    assert!(!pair.session.notify(&died));
    let (_, operation) = pair.ask(&register(&[Status::TERM_WO_SYNC], vec![]));
    assert_eq!(operation, Operation::Registered { codes: vec![Status::TERM_WO_SYNC] });
    assert_eq!(pair.reply(13), Some((101, Reply::Done(Status::SUCCESS))));
    assert!(pair.session.notify(&died));
    let (header, payload) = pair.message().unwrap();
    assert_eq!(header.tag, 0);
    // The command, the status -200 after zigzag, the source, the number of infos.
    let source = [2, 8, b'j', b'o', b'b', 0, 3, 2, 1];
    assert_eq!(payload[..13], [&[2, 12, 2, 0x8f, 0x03][..], &source[..8]].concat());
    assert!(!pair.session.notify(&event(2, Status::PROC_ABORTED, &Proc::new("job", 3))));
}

#[test]
fn a_client_gets_an_event_once_and_after_a_late_registration() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let at = |number| event(number, Status::TERM_WO_SYNC, &Proc::new("job", 3));
    pair.ask(&register(&[Status::TERM_WO_SYNC], vec![]));
    pair.reply(13);
    assert!(pair.session.notify(&at(1)) && !pair.session.notify(&at(1)));
    pair.send(102, &Request::Deregister { codes: vec![Status::TERM_WO_SYNC] });
    assert_eq!(pair.operation(), None);
    assert!(!pair.session.notify(&at(2)));
    // The client had registered for this code before, and lacks only the second event.
    pair.send(103, &register(&[Status::TERM_WO_SYNC], vec![]));
    let (_, operation) = pair.operation().unwrap();
    assert_eq!(operation, Operation::Registered { codes: vec![] });
    assert!(!pair.session.notify(&at(1)) && pair.session.notify(&at(2)));
    // The numbers of many events are not kept for ever.
    for number in 3..3 + 2 * MAX_KEPT_EVENTS as u64 {
        assert!(pair.session.notify(&at(number)));
    }
    assert!(!pair.session.notify(&at(2 * MAX_KEPT_EVENTS as u64)));
}

#[test]
fn a_default_handler_gets_events_only_if_the_manager_allows_it() {
    let mut pair = Pair::connected(Encoding::Flexible);
    pair.ask(&register(&[], vec![]));
    let mut died = event(1, Status::TERM_WO_SYNC, &Proc::new("job", 3));
    assert!(!pair.session.notify(&died));
    died.has_default = true;
    assert!(pair.session.notify(&died));
    // The code has no handler of its own, and then has one: that does not repeat the event.
    pair.ask(&register(&[Status::TERM_WO_SYNC], vec![]));
    assert!(!pair.session.notify(&died));
    let mut explicit = OrderedEvent { number: 2, ..died };
    explicit.event.status = Status::ERROR;
    explicit.event.info.push(Info::new("pmix.evnondef", Value::bool(true)));
    assert!(!pair.session.notify(&explicit));
}

#[test]
fn a_registration_for_some_processes_gets_only_their_events() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let info = vec![Info::new("pmix.evaffected", Proc::new("job", 3).value())];
    pair.ask(&register(&[Status::PROC_ABORTED], info));
    let about = |rank: u32| event(rank.into(), Status::PROC_ABORTED, &Proc::new("job", rank));
    assert!(pair.session.notify(&about(3)));
    assert!(!pair.session.notify(&about(4)));
    // A further handler of the process is for another one.
    let info = vec![Info::new("pmix.evaffected", Proc::new("job", 4).value())];
    let (_, operation) = pair.ask(&register(&[Status::PROC_ABORTED], info));
    assert_eq!(operation, Operation::Registered { codes: vec![] });
    assert!(!pair.session.notify(&about(3)) && pair.session.notify(&about(4)));
}

#[test]
fn a_client_of_pmix_3_gets_an_event_without_the_infos_that_it_cannot_read() {
    let mut pair = Pair::connected(Encoding::Fixed);
    pair.ask(&register(&[Status::ERROR], vec![]));
    pair.reply(13);
    let mut event = event(1, Status::ERROR, &Proc::new("job", 3));
    let new = Value::new(DataType::REGEX, Data::Text(Some(b"x".into()))).unwrap();
    event.event.info.push(Info::new("new", new));
    assert!(pair.session.notify(&event));
    let (_, payload) = pair.message().unwrap();
    assert!(!payload.windows(3).any(|bytes| bytes == b"new"));
}

#[test]
fn a_publication_has_its_pairs_without_the_directives() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let number = |kind, number| Value::new(kind, Data::Unsigned(number)).unwrap();
    let info = vec![
        Info::new("svc one", Value::text("port")),
        Info::new("pmix.persist", number(DataType::PERSISTENCE, 1)),
        Info::new("pmix.range", number(DataType::RANGE, 5)),
    ];
    let (_, operation) = pair.ask(&Request::Publish { uid: 1, info });
    let Operation::Publish { pairs, range, persistence } = operation else { panic!() };
    assert_eq!(pairs.len(), 1);
    assert_eq!((range, persistence), (Range::Global, Persistence::FirstRead));
}

#[test]
fn a_spawn_becomes_commands_with_the_hints_of_pmi_1_and_2() {
    let mut pair = Pair::connected(Encoding::Fixed);
    let app = App {
        command: b"./x".into(),
        arguments: vec![b"./x".into(), b"".into(), b"a b".into()],
        environment: vec![b"OMPI_PARENT_PORT=1.0:2".into()],
        directory: Some(b"/work".into()),
        processes: 2,
        info: vec![Info::new("pmix.host", Value::text("h1,h2"))],
    };
    let info = vec![Info::new("pmix.mapby", Value::text("node"))];
    let (ticket, operation) = pair.ask(&Request::Spawn { info, apps: vec![app.clone()] });
    let Operation::Spawn(spawn) = operation else { panic!("{operation:?}") };
    let command = &spawn.request.commands[0];
    assert_eq!((command.size, command.args.len()), (2, 2));
    let hint = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    assert_eq!(command.info, [hint("host", "h1,h2"), hint("wdir", "/work")]);
    assert_eq!(spawn.hints, [hint("map_by", "node")]);
    assert_eq!(spawn.environments, std::slice::from_ref(&app.environment));
    pair.session.answer(ticket, Answer::Spawned { namespace: b"new", info: b"pairs" });
    let spawned = Reply::Spawned { namespace: b"new".into(), info: b"pairs".into() };
    assert_eq!(pair.reply(9), Some((101, spawned)));
    let nothing = Request::Spawn { info: vec![], apps: vec![App { processes: 0, ..app }] };
    pair.ask(&nothing);
    assert_eq!(pair.reply(9), Some((101, Reply::Done(Status::BAD_PARAM))));
}

#[test]
fn files_to_remove_are_absolute_paths() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let control = |key: &str, path: &str| Request::JobControl {
        targets: vec![],
        info: vec![Info::new(key, Value::text(path))],
    };
    let (_, operation) = pair.ask(&control("pmix.reg.cleanup", "/dev/shm/a,/dev/shm/b"));
    let Operation::CleanUp(clean_up) = operation else { panic!("{operation:?}") };
    assert_eq!(clean_up.files, [b"/dev/shm/a", b"/dev/shm/b"]);
    pair.ask(&control("pmix.reg.cleanupdir", "relative"));
    assert_eq!(pair.reply(18), Some((101, Reply::Done(Status::BAD_PARAM))));
    pair.send(101, &control("pmix.jctrl.kill", "x"));
    assert_eq!(pair.reply(18), Some((101, Reply::Done(Status::NOT_SUPPORTED))));
}

#[test]
fn a_notification_needs_targets_exactly_if_its_range_is_a_list() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let targets = Info::new("pmix.evrange", Proc::new("job", 3).value());
    let notify =
        |range, info: &[Info]| Request::Notify { status: Status(-7), range, info: info.to_vec() };
    let (_, operation) = pair.ask(&notify(6, std::slice::from_ref(&targets)));
    let Operation::Notify(event) = operation else { panic!("{operation:?}") };
    assert_eq!((event.source, event.targets), (Proc::new("job", 1), vec![Proc::new("job", 3)]));
    for refused in [notify(6, &[]), notify(3, &[targets]), notify(77, &[])] {
        pair.ask(&refused);
        assert_eq!(pair.reply(12), Some((101, Reply::Done(Status::BAD_PARAM))));
    }
}

/// A request of a given size that waits for other processes.
fn waiting(bytes: usize) -> Request {
    Request::Fence { procs: vec![], info: vec![Info::new("given", Value::bytes(vec![7; bytes]))] }
}

#[test]
fn requests_that_wait_count_for_the_budget_of_their_rank_and_beyond_it_none_is_decoded() {
    for encoding in [Encoding::Fixed, Encoding::Flexible] {
        let mut pair = Pair::connected(encoding);
        let large = MAX_MESSAGE / 2;
        let mut open = Vec::new();
        while !pair.session.is_over_budget() {
            let (ticket, _) = pair.ask(&waiting(large));
            assert!(pair.session.size_of(ticket) > large);
            open.push(ticket);
        }
        assert_eq!(open.len(), MAX_RANK_BYTES / large);
        pair.send(7, &fence(&[]));
        assert_eq!(pair.operation(), None);
        pair.session.answer(open[0], Answer::Done(Status::SUCCESS));
        assert!(!pair.session.is_over_budget());
        assert!(matches!(pair.operation(), Some((_, Operation::Fence { .. }))));
        // The end of the stream is not delayed.
        pair.ask(&waiting(large));
        assert!(pair.session.is_over_budget());
        pair.send(8, &Request::Finalize);
        assert_eq!(pair.operation(), None);
        pair.session.end_of_stream();
        assert_eq!(pair.operation().map(|(_, operation)| operation), Some(Operation::Finalized));
    }
}

#[test]
fn small_requests_of_a_rank_that_has_used_up_its_budget_are_decoded() {
    let mut pair = Pair::connected(Encoding::Flexible);
    pair.session.set_lasting(2 * MAX_RANK_BYTES);
    for _ in 0..100 {
        pair.ask(&waiting(100));
    }
    assert!(!pair.session.is_over_budget());
    pair.ask(&waiting(MAX_BEYOND));
    assert!(pair.session.is_over_budget());
    pair.session.set_lasting(0);
    assert!(!pair.session.is_over_budget());
}

#[test]
fn many_processes_of_interest_make_a_registration_for_all() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let procs: Vec<Proc> = (0..1000).map(|rank| Proc::new("elsewhere", rank)).collect();
    let event = |code: i32, number| {
        let source = Proc::new("job", 0);
        let info = vec![Info::new("pmix.evproc", Proc::new("job", 0).value())];
        let (status, range) = (Status(code), Range::Namespace);
        let event = Event { status, source, range, targets: vec![], info };
        OrderedEvent { number, has_default: false, event }
    };
    for code in 1..=100 {
        let info = vec![Info::new("pmix.evproc", Value::of_procs(&procs))];
        pair.send(1, &Request::Register { codes: vec![Status(-1000 - code)], info });
        while pair.operation().is_some() {}
    }
    // The first registrations have their processes, the last ones have all.
    assert!(!pair.session.notify(&event(-1001, 1)));
    assert!(pair.session.notify(&event(-1100, 2)));
}

/// A client of PMIx 4.2.2. Its request to destruct a group has the name and no members.
fn early_client() -> Pair {
    let version = b"4.2.2".to_vec();
    Pair::of(Encoding::Flexible, Introduction { version, ..introduction(Encoding::Flexible) })
}

/// Constructs the group `g`, with this answer.
fn construct_g(pair: &mut Pair, procs: &[Proc], answer: Answer<'_>) {
    let (group, procs) = (b"g".to_vec(), procs.to_vec());
    let (ticket, _) = pair.ask(&Request::GroupConstruct { group, procs, info: vec![] });
    pair.session.answer(ticket, answer);
}

/// Begins to destruct the group `g` by its name. Returns the members.
fn destruct_g(pair: &mut Pair) -> (Ticket, Vec<Proc>) {
    let mut writer = Writer::new(Encoding::Flexible);
    writer.one(DataType::COMMAND, &Data::Unsigned(28));
    writer.one(DataType::STRING, &Data::Text(Some(b"g".into())));
    writer.one(DataType::SIZE, &Data::Unsigned(0));
    pair.send_bytes(7, &writer.into_bytes());
    match pair.operation() {
        Some((ticket, Operation::Destruct { procs, .. })) => (ticket, procs),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_of_pmix_4_2_2_destructs_a_group_of_some_ranks_by_its_name() {
    let mut pair = early_client();
    let procs = [Proc::new("job", 1), Proc::new("job", 3)];
    construct_g(&mut pair, &procs, Answer::Group { members: &procs, context: None });
    let (ticket, members) = destruct_g(&mut pair);
    assert_eq!(members, procs);
    pair.session.answer(ticket, Answer::Done(Status::SUCCESS));
    // The name may be used again. A group that was not constructed has no members.
    construct_g(&mut pair, &procs[..1], Answer::Done(Status::TIMEOUT));
    assert_eq!(destruct_g(&mut pair).1, [Proc::all("job")]);
    assert_eq!(pair.session.group_bytes(), 0);
}

#[test]
fn a_group_whose_destruction_fails_keeps_its_members() {
    let mut pair = early_client();
    let procs = [Proc::new("job", 1), Proc::new("job", 3)];
    construct_g(&mut pair, &procs, Answer::Group { members: &procs, context: None });
    let bytes = pair.session.group_bytes();
    let (ticket, _) = destruct_g(&mut pair);
    pair.session.answer(ticket, Answer::Done(Status::OUT_OF_RESOURCE));
    let (ticket, members) = destruct_g(&mut pair);
    assert_eq!(members, procs);
    pair.session.expire(ticket);
    let (ticket, members) = destruct_g(&mut pair);
    assert_eq!(members, procs);
    assert_eq!(pair.session.group_bytes(), bytes);
    // A member has ended, and all others have arrived.
    pair.session.answer(ticket, Answer::Done(Status::PARTIAL_SUCCESS));
    assert_eq!(destruct_g(&mut pair).1, [Proc::all("job")]);
}

#[test]
fn the_end_of_a_group_does_not_end_a_new_one_of_the_same_name() {
    let mut pair = early_client();
    let procs = [Proc::new("job", 1), Proc::new("job", 3)];
    construct_g(&mut pair, &procs, Answer::Group { members: &procs, context: None });
    let (ticket, _) = destruct_g(&mut pair);
    construct_g(&mut pair, &procs[..1], Answer::Group { members: &procs[..1], context: None });
    pair.session.answer(ticket, Answer::Done(Status::SUCCESS));
    assert_eq!(destruct_g(&mut pair).1, procs[..1]);
}

#[test]
fn the_members_of_groups_count_for_the_budget_of_their_rank() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let procs: Vec<Proc> = (0..100_000).map(|rank| Proc::new("job", rank)).collect();
    let mut constructed = 0;
    loop {
        let group = format!("group {constructed}").into_bytes();
        let construct = Request::GroupConstruct { group, procs: procs.clone(), info: vec![] };
        match pair.ask(&construct) {
            (ticket, Operation::Construct { .. }) => {
                pair.session.answer(ticket, Answer::Group { members: &[], context: None });
            }
            (_, Operation::Misbehaved { error: ProtocolError::GroupsTooLarge, .. }) => break,
            other => panic!("{other:?}"),
        }
        constructed += 1;
    }
    let bytes = pair.session.group_bytes();
    let of_one = bytes / constructed;
    assert!(of_one >= procs.len() * size_of::<Proc>(), "{of_one}");
    assert!((MAX_RANK_BYTES - of_one..=MAX_RANK_BYTES).contains(&bytes), "{bytes}");
    // Requests that wait have no room beside them.
    pair.ask(&waiting(2 * MAX_BEYOND));
    assert!(pair.session.is_over_budget());
}

#[test]
fn a_client_has_a_bounded_number_of_groups() {
    let mut pair = Pair::connected(Encoding::Flexible);
    let construct = |number: usize| Request::GroupConstruct {
        group: number.to_string().into_bytes(),
        procs: vec![Proc::new("job", 1)],
        info: vec![],
    };
    for number in 0..MAX_GROUPS {
        let (ticket, _) = pair.ask(&construct(number));
        pair.session.answer(ticket, Answer::Group { members: &[], context: None });
    }
    let (_, operation) = pair.ask(&construct(MAX_GROUPS));
    let refused = Operation::Misbehaved { error: ProtocolError::TooManyGroups, is_fatal: false };
    assert_eq!(operation, refused);
    let replies = std::iter::from_fn(|| pair.reply(24));
    assert_eq!(replies.last(), Some((101, Reply::Done(Status::OUT_OF_RESOURCE))));
}
