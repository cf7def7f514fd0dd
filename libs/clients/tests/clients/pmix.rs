//! Clients of PMIx on two hosts: bytes in, bytes out.

use std::time::Duration;

use mpd_wire::message::NameAnswer;
use pmix_proto::Status;
use pmix_proto::encoding::Value;
use pmix_proto::message::{Put, Reply, Request, Scope};
use pmix_proto::view::{App, Info, Pair, Query};

use super::net::{Net, rank};
use mpd_clients::ConnectionId;
use mpd_clients::{FromClient, FromJob, Input};

/// The number of the range of all processes of a session.
const SESSION: u8 = 4;

const OK: Reply = Reply::Done(Status::SUCCESS);

fn commit(key: &str, value: &str) -> Request {
    let pair = Pair::new(key, Value::text(value));
    Request::Commit { puts: vec![Put { scope: Scope::Global, pair }] }
}

fn get(net: &Net, at: usize, key: &str) -> Request {
    Request::Get { proc: net.proc(at), info: vec![], key: Some(key.into()) }
}

fn fence(net: &Net, collect: bool) -> Request {
    let info = vec![Info::new("pmix.collect", Value::bool(collect))];
    Request::Fence { procs: vec![net.all()], info }
}

/// Whether the only reply has data with this text.
fn has_data(replies: &[(u32, Reply)], tag: u32, text: &str) -> bool {
    let [(of, Reply::Data(data))] = replies else { return false };
    let has_text = |blob: &Vec<u8>| blob.windows(text.len()).any(|part| part == text.as_bytes());
    *of == tag && data.iter().any(has_text)
}

#[test]
fn a_client_that_introduces_itself_as_a_running_rank_is_admitted() {
    let mut net = Net::new();
    assert_eq!(net.connect(0, 7), [0; 4]);
    let directory = "MakeDirectory(\"/tmp/pmix-0\")";
    assert_eq!(net.outputs(0), [directory, "Speaks", "Job(Initialized(Rank(0)))"]);
}

#[test]
fn an_older_connection_of_the_same_rank_is_read_before_a_newcomer_is_admitted() {
    for has_closed in [true, false] {
        let mut net = Net::with_clients();
        net.introduce(0, 8);
        assert_eq!((net.status(0, 8), net.outputs(0)), (vec![], vec!["Probe(7)".to_owned()]));
        if has_closed {
            net.give(0, Input::Client(ConnectionId::Pmix(7), FromClient::Closed));
        }
        net.give(0, Input::Probed(7));
        let admitted = net.status(0, 8) == [0; 4];
        assert_eq!(admitted, has_closed);
    }
}

#[test]
fn a_get_waits_for_a_rank_of_another_host_which_is_asked_once() {
    let mut net = Net::with_clients();
    let wanted = get(&net, 1, "address");
    net.ask(0, 100, &wanted);
    let pieces = net.pieces;
    net.ask(0, 101, &wanted);
    assert_eq!((pieces, net.pieces, net.replies(0)), (1, 1, vec![]));
    net.ask(1, 200, &commit("address", "tcp://h2"));
    assert_eq!(net.replies(1), [(200, OK)]);
    assert_eq!(net.pieces, 2, "one answer");
    let replies = net.replies(0);
    assert_eq!(replies.len(), 2);
    for (at, tag) in [100, 101].into_iter().enumerate() {
        assert!(has_data(&replies[at..=at], tag, "tcp://h2"), "{replies:?}");
    }
}

#[test]
fn a_get_of_a_rank_that_has_ended_without_a_commit_is_answered() {
    let mut net = Net::with_clients();
    let wanted = get(&net, 1, "address");
    net.ask(0, 100, &wanted);
    net.give(1, Input::Job(FromJob::Ended(rank(1))));
    assert_eq!(net.replies(0), [(100, Reply::Done(Status::NOT_FOUND))]);
}

#[test]
fn a_key_that_a_rank_does_not_commit_is_not_found_after_two_seconds() {
    let mut net = Net::with_clients();
    net.ask(1, 200, &commit("other", "x"));
    let wanted = get(&net, 1, "address");
    net.ask(0, 100, &wanted);
    net.pass(Duration::from_millis(1900));
    assert_eq!(net.replies(0), []);
    net.pass(Duration::from_millis(100));
    assert_eq!(net.replies(0), [(100, Reply::Done(Status::NOT_FOUND))]);
}

#[test]
fn a_get_waits_a_minute_for_a_connected_rank_and_longer_for_one_that_has_not_begun_to_speak() {
    let mut net = Net::with_clients();
    let wanted = get(&net, 1, "address");
    net.ask(0, 100, &wanted);
    net.pass(Duration::from_secs(59));
    assert_eq!(net.replies(0), []);
    net.pass(Duration::from_secs(1));
    assert_eq!(net.replies(0), [(100, Reply::Done(Status::TIMEOUT))]);

    let mut net = Net::new();
    net.connect(0, 7);
    net.ask(0, 100, &wanted);
    net.pass(Duration::from_secs(599));
    assert_eq!(net.replies(0), []);
    net.pass(Duration::from_secs(1));
    assert_eq!(net.replies(0), [(100, Reply::Done(Status::TIMEOUT))]);
}

#[test]
fn a_get_that_was_answered_has_no_deadline_any_more() {
    let mut net = Net::with_clients();
    let wanted = get(&net, 1, "address");
    net.ask(0, 100, &wanted);
    net.ask(1, 200, &commit("address", "tcp://h2"));
    assert!(has_data(&net.replies(0), 100, "tcp://h2"));
    net.pass(Duration::from_secs(1000));
    assert_eq!((net.replies(0), net.outputs(0)), (vec![], vec![]));
}

#[test]
fn a_fence_that_collects_brings_data_to_all_hosts_and_another_one_does_not() {
    for collect in [true, false] {
        let mut net = Net::with_clients();
        let fence = fence(&net, collect);
        for at in [0, 1] {
            net.ask(at, 1, &commit("address", &format!("tcp://h{at}")));
            net.ask(at, 2, &fence);
        }
        for at in [0, 1] {
            assert_eq!(net.replies(at), [(1, OK), (2, OK)]);
        }
        let pieces = net.pieces;
        let wanted = get(&net, 0, "address");
        net.ask(1, 3, &wanted);
        assert!(has_data(&net.replies(1), 3, "tcp://h0"));
        assert_eq!(net.pieces == pieces, collect, "{pieces} pieces before the get");
    }
}

#[test]
fn a_client_of_pmix_and_one_of_pmi_get_what_the_other_has_put() {
    let mut net = Net::new();
    net.connect(0, 7);
    net.ask(0, 1, &commit("address", "tcp://h0"));
    let fence = fence(&net, true);
    net.ask(0, 2, &fence);
    net.line(1, "cmd=init pmi_version=1 pmi_subversion=1");
    net.line(1, "cmd=put kvsname=kvs key=card value=tcp://h1");
    assert_eq!(net.line(1, "cmd=barrier_in"), "cmd=barrier_out\n");
    let found = net.line(1, "cmd=get kvsname=kvs key=pmix/0/address");
    assert_eq!(found, "cmd=get_result rc=0 msg=success value=tcp://h0\n");
    assert_eq!(net.replies(0), [(1, OK), (2, OK)]);
    let wanted = get(&net, 1, "card");
    net.ask(0, 3, &wanted);
    assert!(has_data(&net.replies(0), 3, "tcp://h1"));
}

#[test]
fn a_get_waits_for_a_key_that_a_client_of_pmi_puts_later() {
    let mut net = Net::new();
    net.connect(0, 7);
    let wanted = get(&net, 1, "card");
    net.ask(0, 3, &wanted);
    net.line(1, "cmd=init pmi_version=1 pmi_subversion=1");
    assert_eq!(net.replies(0), []);
    net.line(1, "cmd=put kvsname=kvs key=card value=tcp://h1");
    assert!(has_data(&net.replies(0), 3, "tcp://h1"));
}

#[test]
fn a_name_is_published_with_its_publisher_and_found_by_pmi() {
    let mut net = Net::with_clients();
    let info = vec![Info::new("ocean", Value::text("tag#0"))];
    net.ask(0, 1, &Request::Publish { uid: 1000, info });
    assert_eq!(net.outputs(0), ["name 1 ocean"]);
    assert_eq!(net.replies(0), []);
    net.give(0, Input::Named(1, NameAnswer::Done));
    assert_eq!(net.replies(0), [(1, OK)]);
    net.line(0, "cmd=init pmi_version=1 pmi_subversion=1");
    let found = net.line(0, "cmd=lookup_name service=ocean");
    assert_eq!(found, "cmd=lookup_result rc=0 msg=success port=tag#0\n");
}

#[test]
fn an_event_waits_for_room_and_reaches_a_client_of_another_host_that_has_registered() {
    let mut net = Net::with_clients();
    let codes = vec![Status(-3000)];
    net.ask(0, 1, &Request::Register { codes, info: vec![] });
    assert_eq!(net.replies(0), [(1, OK)]);
    net.ask(1, 2, &Request::Notify { status: Status(-3000), range: SESSION, info: vec![] });
    net.pass(Duration::from_millis(10));
    assert_eq!((net.replies(1), net.replies(0)), (vec![], vec![]), "there is no room");
    net.give_room(1);
    net.pass(Duration::from_millis(10));
    assert_eq!(net.replies(1), [(2, OK)]);
    assert_eq!(net.replies(0).len(), 1);
}

#[test]
fn a_client_that_closes_its_connection_early_has_two_seconds_to_end() {
    for ends in [true, false] {
        let mut net = Net::with_clients();
        net.give(1, Input::Client(ConnectionId::Pmix(7), FromClient::Closed));
        if ends {
            net.give(1, Input::Job(FromJob::Ended(rank(1))));
        }
        net.pass(Duration::from_secs(2));
        let problem = "closed its PMIx connection before MPI_Finalize";
        let broke = format!("Job(BrokeProtocol(Rank(1), {problem:?}))");
        assert_eq!(net.outputs(1).contains(&broke), !ends);
    }
}

#[test]
fn a_client_finalizes_once_and_aborts_with_its_message() {
    let mut net = Net::with_clients();
    net.ask(0, 1, &Request::Finalize);
    net.ask(0, 2, &Request::Finalize);
    assert_eq!(net.outputs(0), ["Job(Finalized(Rank(0)))"]);
    assert_eq!(net.replies(0), [(1, OK), (2, OK)]);
    let message = Some(b"no\nluck".to_vec());
    net.ask(1, 3, &Request::Abort { status: Status(7), message, procs: vec![] });
    assert_eq!(net.outputs(1), ["Aborts(Rank(1))", r#"Job(Aborted(Rank(1), 7, "no\\nluck"))"#]);
}

#[test]
fn the_members_of_a_group_get_one_number_for_it_and_what_they_contribute() {
    let mut net = Net::with_clients();
    let procs = vec![net.proc(0), net.proc(1)];
    let construct = |value: &str| Request::GroupConstruct {
        group: b"g".to_vec(),
        procs: procs.clone(),
        info: vec![
            Info::new("pmix.grp.actxid", Value::bool(true)),
            Info::new("pmix.grp.info", Value::text(value)),
        ],
    };
    net.ask(0, 1, &construct("left"));
    assert_eq!((net.groups.len(), net.replies(0)), (1, vec![]));
    net.ask(1, 2, &construct("right"));
    let replies = [net.replies(0), net.replies(1)];
    let of = |replies: &[(u32, Reply)]| match replies {
        [(_, Reply::Group { members, context, .. })] => (members.clone(), *context),
        other => panic!("{other:?}"),
    };
    assert_eq!(of(&replies[0]), of(&replies[1]));
    assert_eq!(of(&replies[0]).0, procs);
    assert!(of(&replies[0]).1.is_some_and(|number| number > 0));
}

#[test]
fn a_rank_that_arrives_twice_enters_the_next_fence_after_the_release() {
    let mut net = Net::with_clients();
    let fence = fence(&net, false);
    net.ask(0, 1, &fence);
    net.ask(0, 2, &fence);
    net.ask(1, 3, &fence);
    assert_eq!((net.replies(0), net.replies(1)), (vec![(1, OK)], vec![(3, OK)]));
    net.ask(1, 4, &fence);
    assert_eq!((net.replies(0), net.replies(1)), (vec![(2, OK)], vec![(4, OK)]));
}

#[test]
fn the_timeout_of_a_fence_answers_the_client_and_its_rank_stays_in_the_fence() {
    let mut net = Net::with_clients();
    let info = vec![Info::new("pmix.timeout", Value::int(5))];
    net.ask(0, 1, &Request::Fence { procs: vec![net.all()], info });
    net.pass(Duration::from_secs(5));
    assert_eq!(net.replies(0), [(1, Reply::Done(Status::TIMEOUT))]);
    let fence = fence(&net, false);
    net.ask(1, 2, &fence);
    assert_eq!((net.replies(0), net.replies(1)), (vec![], vec![(2, OK)]));
}

#[test]
fn a_failed_rank_makes_a_fence_a_partial_success_and_is_an_event() {
    let mut net = Net::with_clients();
    let codes = vec![Status::ABORTED_BY_SIGNAL];
    net.ask(1, 1, &Request::Register { codes, info: vec![] });
    assert_eq!(net.replies(1), [(1, OK)]);
    for at in [0, 1] {
        net.give(at, Input::Job(FromJob::Dead(rank(0))));
    }
    let events = net.replies(1);
    assert_eq!(events.len(), 1, "one event, although both hosts know of the failure");
    let fence = fence(&net, false);
    net.ask(1, 2, &fence);
    net.ask(0, 3, &fence);
    assert_eq!(net.replies(1), [(2, Reply::Done(Status::PARTIAL_SUCCESS))]);
}

#[test]
fn a_client_learns_the_facts_about_its_world() {
    let mut net = Net::with_clients();
    net.ask(0, 1, &Request::JobInfo);
    let replies = net.replies(0);
    let [(1, Reply::JobInfo { namespace, info })] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(*namespace, net.proc(0).namespace);
    for fact in ["h1", "h2", "/tmp/pmix-0"] {
        assert!(info.windows(fact.len()).any(|part| part == fact.as_bytes()), "{fact}");
    }
    let keys = ["pmix.qry.ns", "pmix.job.size", "unknown"].map(|key| key.as_bytes().to_vec());
    let queries = vec![Query { keys: keys.to_vec(), qualifiers: vec![] }];
    net.ask(0, 2, &Request::Query { queries });
    let names = String::from_utf8(net.proc(0).namespace).unwrap();
    let known = vec![
        Info::new("pmix.job.size", Value::u32(2)),
        Info::new("pmix.qry.ns", Value::text(names)),
    ];
    assert_eq!(net.replies(0), [(2, Reply::Answers(Status::SUCCESS, known))]);
}

#[test]
fn files_are_registered_for_removal_once() {
    let mut net = Net::with_clients();
    let info = vec![Info::new("pmix.reg.cleanup", Value::text("/tmp/segment"))];
    let register = Request::JobControl { targets: vec![], info };
    net.ask(0, 1, &register);
    let outputs = net.outputs(0);
    assert!(outputs.len() == 1 && outputs[0].starts_with("ToRemove("), "{outputs:?}");
    net.ask(0, 2, &register);
    assert_eq!(net.outputs(0), Vec::<String>::new());
    assert_eq!(net.replies(0), [(1, OK), (2, OK)]);
}

#[test]
fn a_spawn_that_fails_is_answered_to_the_client_that_wanted_it() {
    let mut net = Net::with_clients();
    let app = App {
        command: b"./child".to_vec(),
        arguments: vec![b"./child".to_vec()],
        environment: vec![],
        directory: None,
        processes: 2,
        info: vec![],
    };
    net.ask(0, 1, &Request::Spawn { info: vec![], apps: vec![app] });
    let outputs = net.outputs(0);
    assert!(outputs.len() == 1 && outputs[0].starts_with("Spawn((Rank(0),"), "{outputs:?}");
    let caller = net.spawner.expect("a spawn");
    net.give(0, Input::Job(FromJob::Spawned(caller, Err("cannot_spawn"))));
    assert_eq!(net.replies(0), [(1, Reply::Done(Status::FAILED_TO_LAUNCH))]);
}

#[test]
fn a_text_of_a_library_is_shown_line_by_line_when_there_is_room() {
    let mut net = Net::with_clients();
    let info = vec![Info::new("pmix.log.stderr", Value::text("no\n-----\nluck"))];
    net.ask(1, 1, &Request::Log { time: 0, info, directives: vec![] });
    assert_eq!((net.outputs(1), net.replies(1)), (vec![], vec![]));
    net.give_room(1);
    net.pass(Duration::from_millis(10));
    let lines = ["no", "luck"].map(|line| format!("Job(Notice(\"rank 1: {line}\"))"));
    assert_eq!(net.outputs(1), lines);
    assert_eq!(net.replies(1), [(1, OK)]);
}
