//! Transcripts of PMIx: the bytes from and to clients, the bytes between managers, and all outputs. The requests are made here,
//! so a line `> AT bytes` shows what the libraries send as well.

use std::time::Duration;

use mpd_clients::{ConnectionId, FromClient, FromJob, Input};
use mpd_wire::message::NameAnswer;
use pmix_proto::Status;
use pmix_proto::encoding::Value;
use pmix_proto::message::{Put, Request, Scope};
use pmix_proto::view::{App, Info, Pair};

use super::compare;
use super::net::{Library, Net, PMIX_3, PMIX_5, rank};

#[test]
fn clients_of_pmix_5_get_the_bytes_of_the_transcript() {
    compare("pmix5.txt", &play(PMIX_5));
}

#[test]
fn clients_of_pmix_3_get_the_bytes_of_the_transcript() {
    compare("pmix3.txt", &play(PMIX_3));
}

fn play(library: Library) -> String {
    let mut net = Net::of(library);
    begin(&mut net);
    exchange(&mut net);
    names(&mut net);
    worlds(&mut net);
    end(&mut net);
    net.log()
}

fn begin(net: &mut Net) {
    net.note("Both ranks connect, and learn the facts of their job.");
    for at in [0, 1] {
        net.connect(at, 7);
        net.ask(at, 1, &Request::JobInfo);
    }
}

fn exchange(net: &mut Net) {
    net.note("They put and commit, for all and for their host.");
    for at in [0, 1] {
        let put = |scope, key: &str| {
            let pair = Pair::new(key, Value::text(format!("{key} of {at}")));
            Put { scope, pair }
        };
        let puts = vec![put(Scope::Global, "address"), put(Scope::Local, "segment")];
        net.ask(at, 2, &Request::Commit { puts });
    }
    net.note(
        "A fence without data. Then rank 0 gets a key of the other host, which is asked for it.",
    );
    for at in [0, 1] {
        let fence = Request::Fence { procs: vec![net.all()], info: vec![] };
        net.ask(at, 3, &fence);
    }
    get(net, 0, 4, 1, "address");
    net.note("A fence that collects. Then rank 1 gets a key without a question.");
    for at in [0, 1] {
        let info = vec![Info::new("pmix.collect", Value::bool(true))];
        let fence = Request::Fence { procs: vec![net.all()], info };
        net.ask(at, 5, &fence);
    }
    get(net, 1, 6, 0, "address");
    net.note("An own key is there, and a key that no rank has put is not found.");
    get(net, 0, 7, 0, "segment");
    get(net, 0, 8, 1, "nothing");
    net.pass(Duration::from_secs(2));
}

fn get(net: &mut Net, at: usize, tag: u32, of: usize, key: &str) {
    let get = Request::Get { proc: net.proc(of), info: vec![], key: Some(key.into()) };
    net.ask(at, tag, &get);
}

fn names(net: &mut Net) {
    net.note("Rank 0 publishes a name; rank 1 looks it up at its own daemon.");
    let info = vec![Info::new("ocean", Value::text("tag#0"))];
    net.ask(0, 9, &Request::Publish { uid: 1000, info });
    net.give(0, Input::Named(1, NameAnswer::Done));
    let keys = vec![b"ocean".to_vec()];
    net.ask(0, 10, &Request::Lookup { uid: 1000, keys: keys.clone(), info: vec![] });
    // A lookup tries the narrow ranges first.
    for request in [2, 3, 4] {
        net.give(0, Input::Named(request, NameAnswer::Unknown));
    }
    net.ask(1, 10, &Request::Lookup { uid: 1000, keys: keys.clone(), info: vec![] });
    for request in [1, 2, 3] {
        net.give(1, Input::Named(request, NameAnswer::Unknown));
    }
    net.give(1, Input::Named(4, NameAnswer::Value("pmix:0:0:0:t:1@h1:tag#0".into())));
    net.note("Rank 0 takes the name back.");
    net.ask(0, 11, &Request::Unpublish { uid: 1000, keys, info: vec![] });
    net.give(0, Input::Named(5, NameAnswer::Done));
}

fn worlds(net: &mut Net) {
    net.note("Rank 0 spawns two processes, and then two that cannot start.");
    net.announce();
    for (tag, result) in [(12, Ok(("kvs_1".to_owned(), vec![0, 0]))), (13, Err("cannot_spawn"))] {
        let app = App {
            command: b"./child".to_vec(),
            arguments: vec![b"./child".to_vec(), b"-x".to_vec()],
            environment: vec![b"COLOUR=red".to_vec()],
            directory: Some(b"/tmp".to_vec()),
            processes: 2,
            info: vec![],
        };
        net.ask(0, tag, &Request::Spawn { info: vec![], apps: vec![app] });
        let caller = net.spawner.take().expect("a spawn");
        net.give(0, Input::Job(FromJob::Spawned(caller, result)));
    }
    net.note("The ranks connect and disconnect.");
    let procs = vec![net.proc(0), net.proc(1)];
    for at in [0, 1] {
        net.ask(at, 14, &Request::Connect { procs: procs.clone(), info: vec![] });
    }
    for at in [0, 1] {
        net.ask(at, 15, &Request::Disconnect { procs: procs.clone(), info: vec![] });
    }
}

fn end(net: &mut Net) {
    net.note("Rank 0 finalizes and closes its connection. Rank 1 aborts.");
    net.ask(0, 16, &Request::Finalize);
    net.give(0, Input::Client(ConnectionId::Pmix(7), FromClient::Closed));
    net.give(0, Input::Job(FromJob::Ended(rank(0))));
    let message = Some(b"no luck".to_vec());
    net.ask(1, 17, &Request::Abort { status: Status(7), message, procs: vec![] });
    net.give(1, Input::Client(ConnectionId::Pmix(7), FromClient::Closed));
    net.give(1, Input::Job(FromJob::Ended(rank(1))));
}
