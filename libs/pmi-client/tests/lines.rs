//! PMI-1 against the session of `pmi-proto`, over real sockets.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;

use pmi_client::{Client, Error, SpawnCommand, SpawnRequest, Version};
use pmi_proto::{Answer, Facts, Kvs, Operation, Session, Spawned, Ticket};

/// The state that the ranks of a job share.
struct Job {
    kvs: Mutex<Kvs>,
    names: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    fence: Barrier,
    size: u32,
}

impl Job {
    fn new(size: u32) -> Arc<Self> {
        let mut kvs = Kvs::new();
        kvs.put(b"PMI_process_mapping", b"(vector,(0,2,1))").unwrap();
        let fence = Barrier::new(size as usize);
        Arc::new(Self { kvs: Mutex::new(kvs), names: Mutex::default(), fence, size })
    }

    /// Serves one rank until it closes. Returns the operations that need no answer.
    fn serve(&self, rank: u32, mut stream: impl Read + Write) -> Vec<Operation> {
        let facts =
            Facts { kvsname: "kvs_7_0".into(), rank, size: self.size, appnum: 3, spawner: None };
        let mut session = Session::new(facts);
        let (mut notices, mut buffer) = (Vec::new(), [0; 7]);
        loop {
            let read = stream.read(&mut buffer).unwrap_or(0);
            if read == 0 {
                return notices;
            }
            session.receive(&buffer[..read]);
            while let Some((ticket, operation)) = session.poll_operation() {
                self.perform(&mut session, ticket, operation, &mut notices);
            }
            let written = session.output().len();
            stream.write_all(session.output()).unwrap();
            session.consume(written);
        }
    }

    fn perform(
        &self,
        session: &mut Session,
        ticket: Ticket,
        operation: Operation,
        notices: &mut Vec<Operation>,
    ) {
        let (mut kvs, mut names) = (self.kvs.lock().unwrap(), self.names.lock().unwrap());
        match operation {
            Operation::Put { key, value } => {
                session.answer(ticket, Answer::Put(kvs.put(&key, &value)))
            }
            Operation::Get { key } => session.answer(ticket, Answer::Get(kvs.get(&key))),
            Operation::GetByIndex { index } => {
                session.answer(ticket, Answer::GetByIndex(kvs.get_index(index)));
            }
            Operation::Publish { service, value } => {
                let is_new = names.insert(service.name, value).is_none();
                session.answer(ticket, Answer::Published(is_new.then_some(()).ok_or("taken")));
            }
            Operation::Lookup { service } => {
                let found = names.get(&service.name).map(Vec::as_slice);
                session.answer(ticket, Answer::Found(found.ok_or("unknown")));
            }
            Operation::Unpublish { service } => {
                let found = names.remove(&service.name).map(drop);
                session.answer(ticket, Answer::Unpublished(found.ok_or("unknown")));
            }
            Operation::UniverseSize => session.answer(ticket, Answer::UniverseSize(Some(9))),
            Operation::Fence => {
                drop((kvs, names));
                self.fence.wait();
                session.answer(ticket, Answer::Fence);
            }
            Operation::Spawn(request) => {
                let errors: Vec<_> =
                    request.commands.iter().map(|command| command.args.len() as i32).collect();
                let spawned = Spawned { jobid: "kvs_8_0", errors: &errors };
                session.answer(ticket, Answer::Spawned(Ok(spawned)));
            }
            Operation::Signal { rank, .. } => {
                let done = if rank < 1 { Ok(()) } else { Err("no_such_rank") };
                session.answer(ticket, Answer::Done(done));
            }
            other => notices.push(other),
        }
    }
}

/// A rank's server in a thread, and its client over an inherited descriptor.
fn rank(job: &Arc<Job>, rank: u32) -> (Client, JoinHandle<Vec<Operation>>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (size, job) = (job.size, job.clone());
    let server = std::thread::spawn(move || job.serve(rank, theirs));
    let client = Client::connect_by(Version::One, |name| match name {
        "PMI_FD" => Some(ours.as_raw_fd().to_string()),
        "PMI_RANK" => Some(rank.to_string()),
        "PMI_SIZE" => Some(size.to_string()),
        "PMI_SPAWNED" => Some("1".into()),
        _ => None,
    });
    (client.unwrap(), server)
}

#[test]
fn two_ranks_meet_and_read_each_other_s_values() {
    let job = Job::new(2);
    let ranks: Vec<_> = (0..2).map(|number| rank(&job, number)).collect();
    std::thread::scope(|scope| {
        for (number, (client, _)) in ranks.iter().enumerate() {
            scope.spawn(move || {
                let own = format!("a b=c {number}");
                client.put(format!("key-{number}").as_bytes(), own.as_bytes()).unwrap();
                client.fence().unwrap();
                let other = 1 - number;
                let read = client.get(format!("key-{other}").as_bytes()).unwrap();
                assert_eq!(read, Some(format!("a b=c {other}").into_bytes()));
            });
        }
    });
    for (client, server) in ranks {
        client.finalize().unwrap();
        assert_eq!(server.join().unwrap().last(), Some(&Operation::Finalized));
    }
}

#[test]
fn a_rank_knows_its_job_and_its_node() {
    let job = Job::new(4);
    let (client, _server) = rank(&job, 3);
    let process_info = client.process_info();
    assert_eq!(
        (process_info.rank, process_info.size, process_info.appnum, process_info.is_spawned),
        (3, 4, 3, true)
    );
    assert_eq!(process_info.job, b"kvs_7_0");
    assert_eq!(client.universe_size().unwrap(), Some(9));
    // The mapping names two ranks and is repeated.
    assert_eq!(client.ranks_of_node().unwrap(), [1, 3]);
}

#[test]
fn every_accepted_value_can_be_read_again() {
    let job = Job::new(1);
    let (client, _server) = rank(&job, 0);
    let limits = client.limits();
    let (key, value) = (vec![b'k'; limits.key - 1], vec![b'v'; limits.value - 1]);
    client.put(&key, &value).unwrap();
    assert_eq!(client.get(&key).unwrap(), Some(value));
    assert_eq!(client.entry(1).unwrap().unwrap().0, key);
    assert_eq!(client.entry(2).unwrap(), None);
    let longer = vec![b'v'; limits.value];
    assert!(matches!(client.put(&key, &longer), Err(Error::ValueTooLong(_))));
    let longer = vec![b'k'; limits.key];
    assert!(matches!(client.put(&longer, b""), Err(Error::KeyTooLong(_))));
}

#[test]
fn a_text_that_a_line_cannot_carry_is_refused_before_it_is_sent() {
    let job = Job::new(1);
    let (client, _server) = rank(&job, 0);
    for key in ["", "a b", "a\nb", "a\0b"] {
        assert!(matches!(client.put(key.as_bytes(), b""), Err(Error::InvalidKey)), "{key:?}");
        assert!(matches!(client.get(key.as_bytes()), Err(Error::InvalidKey)), "{key:?}");
    }
    for value in ["a\nb", "a\r", "a\0"] {
        assert!(matches!(client.put(b"k", value.as_bytes()), Err(Error::InvalidValue)));
    }
    assert!(matches!(client.publish(b"", b"p"), Err(Error::InvalidText)));
    let command = SpawnCommand {
        program: b"x".into(),
        args: vec![
            b"a
b"
            .into(),
        ],
        ..<_>::default()
    };
    let request = SpawnRequest { commands: vec![command], ..<_>::default() };
    assert!(matches!(client.spawn(&request), Err(Error::InvalidText)));
    client.put(b"k", b"still here").unwrap();
}

#[test]
fn names_are_published_found_and_withdrawn() {
    let job = Job::new(1);
    let (client, _server) = rank(&job, 0);
    client.publish(b"my service", b"tag#0 port$").unwrap();
    assert!(matches!(client.publish(b"my service", b"p"), Err(Error::Refused { rc: 1, .. })));
    assert_eq!(client.lookup(b"my service").unwrap(), b"p");
    assert!(matches!(client.publish(b"s", &[b'p'; 256]), Err(Error::PortTooLong(256))));
    client.unpublish(b"my service").unwrap();
    assert!(matches!(client.lookup(b"my service"), Err(Error::Refused { .. })));
}

#[test]
fn a_spawn_returns_a_code_for_each_process() {
    let job = Job::new(1);
    let (client, _server) = rank(&job, 0);
    let first = SpawnCommand { program: b"x".into(), size: 1, ..<_>::default() };
    let second = SpawnCommand { args: vec![b"a b".into(), b"".into()], ..first.clone() };
    let request = SpawnRequest {
        commands: vec![first, second],
        preput: vec![(b"PORT".into(), b"p#1".into())],
    };
    assert_eq!(client.spawn(&request).unwrap().codes, [0, 2]);
}

/// A server like Hydra's, which never releases a barrier. Returns the first line that it cannot answer.
fn terse_server(mut stream: UnixStream) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte).is_ok_and(|read| read == 1) {
        if byte != *b"\n" {
            line.push(byte[0]);
            continue;
        }
        let answer = match line.as_slice() {
            b"cmd=init pmi_version=1 pmi_subversion=1" => {
                "cmd=response_to_init pmi_version=1 pmi_subversion=2 rc=0\n"
            }
            b"cmd=get_maxes" => "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=64\n",
            b"cmd=get_appnum" => "cmd=appnum appnum=-1\n",
            b"cmd=get_my_kvsname" => "cmd=my_kvsname kvsname=k\n",
            b"cmd=finalize" => "cmd=finalize_ack\n",
            b"cmd=barrier_in" => "",
            _ => break,
        };
        stream.write_all(answer.as_bytes()).unwrap();
        line.clear();
    }
    String::from_utf8(line).unwrap()
}

/// A client of that server. Only the client's duplicate of its socket stays open.
fn with_terse_server() -> (Client, JoinHandle<String>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = std::thread::spawn(|| terse_server(theirs));
    let client = Client::connect_by(Version::One, |name| {
        (name == "PMI_FD").then(|| ours.as_raw_fd().to_string())
    });
    (client.unwrap(), server)
}

#[test]
fn an_abort_does_not_wait_for_a_thread_in_a_barrier() {
    let (client, server) = with_terse_server();
    assert_eq!((client.limits().value, client.process_info().size), (64, 1));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.fence());
        client.abort(7, b"out of\nluck").unwrap();
        assert_eq!(server.join().unwrap(), "cmd=abort exitcode=7 message=out of luck");
        // The server has closed, so the barrier fails.
        assert!(matches!(waiting.join().unwrap(), Err(Error::Closed)));
    });
    assert!(matches!(client.put(b"a", b"b"), Err(Error::Closed)));
}

#[test]
fn a_finalize_may_be_answered_without_a_code() {
    let (client, server) = with_terse_server();
    client.finalize().unwrap();
    assert_eq!(server.join().unwrap(), "");
}

#[test]
fn a_client_with_a_port_and_an_id_receives_its_rank_and_size() {
    let job = Job::new(5);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || job.serve(2, listener.accept().unwrap().0));
    let client = Client::connect_by(Version::One, |name| match name {
        "PMI_PORT" => Some(address.clone()),
        "PMI_ID" => Some("2".into()),
        _ => None,
    });
    let client = client.unwrap();
    assert_eq!((client.process_info().rank, client.process_info().size), (2, 5));
    client.finalize().unwrap();
    assert_eq!(server.join().unwrap().last(), Some(&Operation::Finalized));
}

#[test]
fn one_descriptor_serves_two_clients_one_after_the_other() {
    let job = Job::new(1);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = std::thread::spawn(move || job.serve(0, theirs));
    for _ in 0..2 {
        let client = Client::connect_by(Version::One, |name| {
            (name == "PMI_FD").then(|| ours.as_raw_fd().to_string())
        });
        client.unwrap().finalize().unwrap();
    }
    drop(ours);
    let count = server.join().unwrap().iter().filter(|&o| *o == Operation::Finalized).count();
    assert_eq!(count, 2);
}

#[test]
fn a_descriptor_that_is_not_open_is_an_error() {
    for fd in ["-1", "1000000"] {
        let client =
            Client::connect_by(Version::One, |name| (name == "PMI_FD").then(|| fd.to_owned()));
        assert!(matches!(client, Err(Error::Descriptor { .. })), "{fd}");
    }
}

#[test]
fn a_client_continues_after_a_signal_to_a_missing_rank_was_refused() {
    let job = Job::new(1);
    let (client, _server) = rank(&job, 0);
    client.signal_rank(0, 10).unwrap();
    match client.signal_rank(7, 10) {
        Err(Error::Refused { message, .. }) => assert!(!message.is_empty()),
        other => panic!("{other:?}"),
    }
    client.fence().unwrap();
}
