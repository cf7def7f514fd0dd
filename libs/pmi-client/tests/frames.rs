//! PMI-2 against a server of the test, which answers late, out of order, or without tokens.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use pmi_client::{Client, Error, SpawnCommand, SpawnRequest, Version};
use pmi_proto::pmi2::{Decoder, Element, Message};

/// The server's end of one connection.
struct Server {
    stream: UnixStream,
    decoder: Decoder,
}

impl Server {
    fn receive(&mut self) -> Option<Element> {
        let mut buffer = [0; 16];
        loop {
            if let Some(received) = self.decoder.poll() {
                return Some(received.unwrap());
            }
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.decoder.receive(&buffer[..read]),
            }
        }
    }

    fn request(&mut self) -> Option<Message> {
        match self.receive()? {
            Element::Message(message) => Some(message),
            Element::Line(line) => panic!("a line: {line:?}"),
        }
    }

    /// Answers with the token of the request, if it has one and `repeats_token`.
    fn answer(&mut self, request: &Message, repeats_token: bool, pairs: &[(&str, &str)]) {
        let name = String::from_utf8_lossy(request.command()).into_owned();
        let mut answer = Message::new(format!("{name}-response"));
        if let Some(token) = request.get("thrid").filter(|_| repeats_token) {
            answer.push("thrid", token);
        }
        for (key, value) in pairs {
            answer.push(key, *value);
        }
        self.stream.write_all(&answer.with("rc", "0").encode().unwrap()).unwrap();
    }

    /// Answers the first requests of every client.
    fn welcome(&mut self) {
        let Some(Element::Line(line)) = self.receive() else { panic!("no init") };
        assert_eq!(line, b"cmd=init pmi_version=2 pmi_subversion=0");
        let answer = b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";
        self.stream.write_all(answer).unwrap();
        let request = self.request().unwrap();
        assert_eq!(request.command(), b"fullinit");
        assert_eq!(request.get("pmirank"), Some(&b"1"[..]));
        let process_info = [("rank", "1"), ("size", "2"), ("appnum", "4"), ("spawner-jobid", "k")];
        self.answer(&request, true, &process_info);
        let request = self.request().unwrap();
        assert_eq!(request.command(), b"job-getid");
        self.answer(&request, true, &[("jobid", "kvs_1")]);
    }
}

fn with_server<T: Send + 'static>(
    serve: impl FnOnce(&mut Server) -> T + Send + 'static,
) -> (Client, JoinHandle<T>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = std::thread::spawn(move || {
        let mut server = Server { stream: theirs, decoder: Decoder::new() };
        server.welcome();
        serve(&mut server)
    });
    let client = Client::connect_by(Version::Two, |name| match name {
        "PMI_FD" => Some(ours.as_raw_fd().to_string()),
        "PMI_RANK" => Some("1".into()),
        _ => None,
    });
    (client.unwrap(), server)
}

#[test]
fn a_client_receives_its_rank_and_its_job() {
    let (client, _server) = with_server(|_| ());
    let process_info = client.process_info();
    assert_eq!(
        (process_info.rank, process_info.size, process_info.appnum, process_info.is_spawned),
        (1, 2, 4, true)
    );
    assert_eq!(process_info.job, b"kvs_1");
}

#[test]
fn values_may_hold_what_separates_pairs() {
    let (client, _server) = with_server(|server| {
        let put = server.request().unwrap();
        server.answer(&put, true, &[]);
        let get = server.request().unwrap();
        assert_eq!(get.get("jobid"), Some(&b"kvs_1"[..]));
        let value = String::from_utf8_lossy(put.get("value").unwrap()).into_owned();
        server.answer(&get, true, &[("found", "TRUE"), ("value", &value)]);
        let get = server.request().unwrap();
        server.answer(&get, true, &[("found", "FALSE")]);
    });
    client.put(b"k", b"a;b=c\nd;;").unwrap();
    assert_eq!(client.get(b"k").unwrap(), Some(b"a;b=c\nd;;".to_vec()));
    assert_eq!(client.get(b"k").unwrap(), None);
}

/// One thread waits for an attribute that another thread puts; the server answers the wait last.
fn a_waiting_thread_blocks_no_other(repeats_token: bool) {
    let (send, received) = std::sync::mpsc::channel();
    let (client, server) = with_server(move |server| {
        let wait = server.request().unwrap();
        send.send(()).unwrap();
        assert_eq!(wait.command(), b"info-getnodeattr");
        assert_eq!((wait.get("wait"), wait.get("thrid")), (Some(&b"TRUE"[..]), None));
        for _ in 0..3 {
            let put = server.request().unwrap();
            assert_eq!(put.command(), b"info-putnodeattr");
            assert!(put.get("thrid").is_some());
            server.answer(&put, repeats_token, &[]);
        }
        server.answer(&wait, repeats_token, &[("found", "TRUE"), ("value", "here")]);
        let last = server.request().unwrap();
        server.answer(&last, repeats_token, &[]);
        last.command().to_vec()
    });
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.node_attribute(b"a", true).unwrap());
        received.recv().unwrap();
        for _ in 0..3 {
            client.put_node_attribute(b"a", b"here").unwrap();
        }
        assert_eq!(waiting.join().unwrap(), Some(b"here".to_vec()));
    });
    client.finalize().unwrap();
    assert_eq!(server.join().unwrap(), b"finalize");
}

#[test]
fn a_thread_that_waits_for_an_attribute_does_not_block_the_thread_that_puts_it() {
    a_waiting_thread_blocks_no_other(true);
}

#[test]
fn a_server_without_tokens_is_understood_by_the_names_of_its_answers() {
    a_waiting_thread_blocks_no_other(false);
}

#[test]
fn many_threads_get_their_own_answers_in_any_order() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 40;
    let (client, server) = with_server(|server| {
        for round in 0..ROUNDS {
            // The server has all requests before it sends the first answer.
            let mut held: Vec<_> = (0..THREADS).map(|_| server.request().unwrap()).collect();
            held.rotate_left(round % THREADS);
            for request in held.iter().rev() {
                let key = String::from_utf8_lossy(request.get("key").unwrap()).into_owned();
                server.answer(request, true, &[("found", "TRUE"), ("value", &key)]);
            }
        }
    });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = &client;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let key = format!("{thread}-{round}").into_bytes();
                    assert_eq!(client.get(&key).unwrap(), Some(key));
                }
            });
        }
    });
    server.join().unwrap();
}

#[test]
fn all_waiting_threads_get_an_error_when_the_server_closes() {
    let (client, _server) = with_server(|server| {
        for _ in 0..3 {
            server.request().unwrap();
        }
    });
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| client.fence())).collect();
        for thread in waiting {
            assert!(matches!(thread.join().unwrap(), Err(Error::Closed)));
        }
    });
    assert!(matches!(client.fence(), Err(Error::Closed)));
}

#[test]
fn a_refusal_has_its_reason() {
    let (client, _server) = with_server(|server| {
        let request = server.request().unwrap();
        assert_eq!(request.command(), b"mpd-signal");
        assert_eq!(request.get("rank"), Some(&b"7"[..]));
        assert_eq!(request.get("signal"), Some(&b"10"[..]));
        let answer = Message::new("mpd-signal-response").with("rc", "1").with("errmsg", "no_rank");
        server.stream.write_all(&answer.encode().unwrap()).unwrap();
        let request = server.request().unwrap();
        let answer = Message::new("kvs-fence-response");
        assert_eq!(request.command(), b"kvs-fence");
        server.stream.write_all(&answer.encode().unwrap()).unwrap();
    });
    let Err(Error::Refused { rc: 1, message, .. }) = client.signal_rank(7, 10) else {
        panic!("not refused")
    };
    assert_eq!(message, "no_rank");
    assert!(matches!(client.fence(), Err(Error::NotUnderstood { .. })));
}

#[test]
fn a_spawn_names_programs_in_order() {
    let (client, server) = with_server(|server| {
        let request = server.request().unwrap();
        server.answer(&request, true, &[("jobid", "kvs_2"), ("nerrs", "0"), ("errcodes", "0,0")]);
        request
    });
    let pair = |key: &str, value: &str| (key.into(), value.into());
    let first = SpawnCommand {
        program: b"/bin/a".into(),
        args: vec![b"x;y".into()],
        size: 2,
        info: vec![pair("wdir", "/tmp")],
    };
    let second = SpawnCommand { program: b"b".into(), size: 1, ..SpawnCommand::default() };
    let request = SpawnRequest { commands: vec![first, second], preput: vec![pair("PORT", "p")] };
    let spawned = client.spawn(&request).unwrap();
    assert_eq!((spawned.job, spawned.codes), (Some(b"kvs_2".to_vec()), vec![0, 0]));
    let request = server.join().unwrap();
    let pairs: Vec<_> = request
        .pairs()
        .iter()
        .map(|(key, value)| {
            format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
        })
        .collect();
    let expected = "ncmds=2 preputcount=1 ppkey0=PORT ppval0=p subcmd=/bin/a maxprocs=2 argc=1 \
        argv0=x;y infokeycount=1 infokey0=wdir infoval0=/tmp subcmd=b maxprocs=1 argc=0 infokeycount=0";
    assert_eq!(pairs.join(" "), expected);
}

#[test]
fn a_server_of_the_other_version_is_named() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n").unwrap();
    let client = Client::connect_by(Version::Two, |name| {
        (name == "PMI_FD").then(|| ours.as_raw_fd().to_string())
    });
    assert!(client.unwrap_err().to_string().contains("1.1"));
}
