//! Tests of a session with slow, unusual, faulty and hostile clients.

mod manager;

use manager::{KVSNAME, Manager, facts};
use pmi_proto::limits::{
    MAX_BACKLOG, MAX_KEY, MAX_LINE, MAX_OUTPUT, MAX_PORT, MAX_REPLY, MAX_VALUE, MAX_VALUE_REPLY,
};
use pmi_proto::{Answer, Dialect, Operation, Phase, ProtocolError, Session, Ticket};

const INIT: &str = "cmd=init pmi_version=1 pmi_subversion=1";
const INIT_REPLY: &str = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";

const FIRST: Operation = Operation::Initialized { first: true, dialect: Dialect::Pmi1 };
const AGAIN: Operation = Operation::Initialized { first: false, dialect: Dialect::Pmi1 };

/// The next operation alone.
fn poll(session: &mut Session) -> Option<Operation> {
    session.poll_operation().map(|(_, operation)| operation)
}

/// The ticket of the fence that comes next.
fn fence(session: &mut Session) -> Ticket {
    let (ticket, operation) = session.poll_operation().unwrap();
    assert_eq!(operation, Operation::Fence);
    assert_eq!(session.fence(), Some(ticket));
    ticket
}

/// A session after its init. No operation was polled since.
fn ready() -> Session {
    let mut session = Session::new(facts());
    session.receive(format!("{INIT}\n").as_bytes());
    assert_eq!(poll(&mut session), Some(FIRST));
    session.consume(session.output().len());
    session
}

#[test]
fn an_init_may_come_again_without_a_finalize() {
    let mut manager = Manager::new();
    manager.say(INIT);
    manager.say(&format!("cmd=put kvsname={KVSNAME} key=a value=1"));
    assert_eq!(manager.say(INIT), INIT_REPLY);
    assert_eq!(manager.operations.last(), Some(&AGAIN));
    let found = manager.say(&format!("cmd=get kvsname={KVSNAME} key=a"));
    assert_eq!(found, "cmd=get_result rc=0 msg=success value=1\n");
}

#[test]
fn a_client_gets_the_lower_of_the_subversion_that_it_asks_for_and_2() {
    for (asked, reported) in [("0", 1), ("1", 1), ("x", 1), ("2", 2), ("9", 2)] {
        let mut manager = Manager::new();
        let reply = manager.say(&format!("cmd=init pmi_version=1 pmi_subversion={asked}"));
        let line = format!("cmd=response_to_init pmi_version=1 pmi_subversion={reported} rc=0\n");
        assert_eq!(reply, line, "{asked}");
    }
    assert_eq!(Manager::new().say("cmd=init pmi_version=1"), INIT_REPLY);
}

#[test]
fn another_version_is_refused_and_the_client_may_still_abort() {
    let mut manager = Manager::new();
    let reply = manager.say("cmd=init pmi_version=3 pmi_subversion=0");
    assert_eq!(reply, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
    assert_eq!(manager.session.phase(), Phase::ExpectInit);
    assert_eq!(manager.say("cmd=abort exitcode=-1 message=PMI_Init failed"), "");
    assert_eq!(
        manager.operations,
        [
            Operation::Misbehaved {
                error: ProtocolError::UnsupportedVersion { version: 3 },
                fatal: false
            },
            Operation::Abort { code: -1, world: true, message: b"PMI_Init failed".into() },
        ]
    );
}

#[test]
fn finalize_is_acknowledged_every_time_and_reported_once() {
    let mut manager = Manager::initialized();
    assert_eq!(manager.say("cmd=finalize"), "cmd=finalize_ack rc=0\n");
    assert_eq!(manager.say("cmd=finalize"), "cmd=finalize_ack rc=0\n");
    assert_eq!(manager.operations, [Operation::Finalized]);
}

#[test]
fn an_init_after_finalize_begins_again() {
    let mut manager = Manager::initialized();
    manager.say("cmd=finalize");
    assert_eq!(manager.say(INIT), INIT_REPLY);
    assert_eq!(manager.session.phase(), Phase::Ready);
    manager.say("cmd=finalize");
    assert_eq!(manager.operations, [Operation::Finalized, AGAIN, Operation::Finalized]);
}

#[test]
fn garbage_after_finalize_is_ignored() {
    let mut manager = Manager::initialized();
    manager.say("cmd=finalize");
    let after_finalize = manager.written.len();
    manager.receive(b"hello from a grandchild\n\ncmd=fly\ncmd=put kvsname\n\x00\xff\n");
    manager.receive(&vec![b'x'; 3 * MAX_LINE]);
    manager.receive(b"\npartial");
    manager.end_of_stream();
    assert_eq!(manager.operations, [Operation::Finalized]);
    assert_eq!(manager.written.len(), after_finalize);
}

#[test]
fn an_init_is_served_after_garbage_that_came_after_finalize() {
    let mut manager = Manager::initialized();
    manager.say("cmd=finalize");
    manager.receive(&vec![b'x'; 3 * MAX_LINE]);
    assert_eq!(manager.say("the end of a long line"), "");
    assert_eq!(manager.say(INIT), INIT_REPLY);
}

#[test]
fn a_good_command_outside_init_and_finalize_is_refused_because_its_sender_waits() {
    let mut manager = Manager::new();
    let get = format!("cmd=get kvsname={KVSNAME} key=a");
    let refused = "cmd=get_result rc=-1 msg=not_initialized value=unknown\n";
    assert_eq!(manager.say(&get), refused);
    assert_eq!(manager.say("cmd=barrier_in"), "cmd=barrier_in_result rc=-1 msg=not_initialized\n");
    assert_eq!(manager.say("cmd=finalize"), "cmd=finalize_ack rc=-1\n");
    manager.say(INIT);
    manager.say("cmd=finalize");
    assert_eq!(manager.say(&get), refused);
    assert_eq!(manager.errors().len(), 4);
}

#[test]
fn a_line_of_70_kb_is_fatal_and_reported_once() {
    let mut manager = Manager::initialized();
    manager.receive(&vec![b'x'; 70_000]);
    manager.receive(b"\ncmd=get_maxes\n");
    manager.end_of_stream();
    assert_eq!(manager.errors(), [(ProtocolError::LineTooLong, true)]);
    assert_eq!(manager.operations.len(), 1);
    assert_eq!(manager.written.len(), INIT_REPLY.len());
}

#[test]
fn a_command_whose_line_is_too_long_is_refused_and_the_next_one_is_served() {
    for (command, refused) in [
        ("publish_name", "cmd=publish_result rc=-1 msg=line_too_long\n"),
        ("lookup_name", "cmd=lookup_result rc=-1 msg=line_too_long\n"),
        ("put", "cmd=put_result rc=-1 msg=line_too_long\n"),
    ] {
        let mut manager = Manager::initialized();
        let before = manager.written.len();
        manager.receive(format!("cmd={command} service=").as_bytes());
        manager.receive(&vec![b'x'; MAX_LINE]);
        manager.receive(b"x port=p\n");
        assert_eq!(std::str::from_utf8(&manager.written[before..]), Ok(refused));
        assert!(manager.say("cmd=get_maxes").ends_with("vallen_max=1024\n"));
        assert!(manager.errors().iter().all(|(_, is_fatal)| !is_fatal));
    }
}

#[test]
fn a_line_that_is_too_long_is_fatal_in_a_block_and_for_an_abort() {
    for beginning in ["mcmd=spawn\narg1=", "cmd=abort exitcode=1 error_msg="] {
        let mut manager = Manager::initialized();
        manager.receive(beginning.as_bytes());
        manager.receive(&vec![b'x'; MAX_LINE + 1]);
        assert_eq!(manager.errors(), [(ProtocolError::LineTooLong, true)]);
    }
}

#[test]
fn the_longest_line_is_still_read() {
    let mut manager = Manager::initialized();
    let mut line = b"cmd=get_maxes junk=".to_vec();
    line.resize(MAX_LINE, b'x');
    line.push(b'\n');
    manager.receive(&line);
    assert_eq!(manager.errors(), []);
    assert!(manager.written.ends_with(b"vallen_max=1024\n"));
}

#[test]
fn a_partial_line_at_the_end_is_dropped_and_reported() {
    let mut manager = Manager::initialized();
    manager.receive(b"cmd=finalize");
    manager.end_of_stream();
    assert_eq!(manager.errors(), [(ProtocolError::PartialLine { length: 12 }, false)]);
    assert_eq!(manager.session.phase(), Phase::Ready);
}

#[test]
fn a_clean_end_is_not_reported() {
    let mut manager = Manager::initialized();
    manager.end_of_stream();
    assert_eq!(manager.operations, []);
}

#[test]
fn complete_lines_before_the_end_are_served_after_it() {
    let mut session = ready();
    session.receive(b"cmd=barrier_in\ncmd=finalize\ncmd=f");
    let ticket = fence(&mut session);
    session.end_of_stream();
    assert_eq!(poll(&mut session), None);
    session.answer(ticket, Answer::Fence);
    assert_eq!(poll(&mut session), Some(Operation::Finalized));
    assert_eq!(poll(&mut session), None);
}

#[test]
fn a_carriage_return_before_the_newline_does_not_matter() {
    let mut manager = Manager::new();
    assert_eq!(manager.say(&format!("{INIT}\r")), INIT_REPLY);
    manager.say(&format!("cmd=put kvsname={KVSNAME} key=a value=b\r"));
    assert_eq!(manager.kvs.get(b"a"), Some(&b"b"[..]));
}

#[test]
fn two_commands_in_one_write_are_answered_in_order() {
    let mut manager = Manager::initialized();
    let replies = manager.say("cmd=get_appnum\ncmd=barrier_in\ncmd=get_universe_size");
    assert_eq!(replies, "cmd=appnum appnum=0\ncmd=barrier_out\ncmd=universe_size size=-1\n");
}

#[test]
fn nothing_is_served_before_the_outstanding_answer() {
    let mut session = ready();
    session.receive(b"cmd=barrier_in\ncmd=get_maxes\ncmd=finalize\n");
    assert_eq!(session.phase(), Phase::InFence);
    let ticket = fence(&mut session);
    assert_eq!(poll(&mut session), None);
    assert_eq!(session.output(), b"");
    session.answer(ticket, Answer::Fence);
    assert!(session.output().starts_with(b"cmd=barrier_out\ncmd=maxes "));
    assert_eq!(poll(&mut session), Some(Operation::Finalized));
}

#[test]
fn an_abort_passes_a_fence_that_never_ends() {
    let mut session = ready();
    session.receive(b"cmd=barrier_in\ncmd=abort exitcode=7\ncmd=get_maxes\n");
    fence(&mut session);
    assert_eq!(
        poll(&mut session),
        Some(Operation::Abort { code: 7, world: true, message: vec![] })
    );
    assert_eq!(poll(&mut session), None);
    assert_eq!(session.phase(), Phase::InFence);
    assert_eq!(session.output(), b"");
}

#[test]
fn a_client_that_floods_a_waiting_session_is_cut_off() {
    let mut session = ready();
    session.receive(b"cmd=barrier_in\n");
    for _ in 0..MAX_BACKLOG / MAX_LINE {
        session.receive(&b"cmd=get_maxes\n".repeat(MAX_LINE / 14));
    }
    let ticket = fence(&mut session);
    assert_eq!(poll(&mut session), None);
    session.receive(&vec![b'\n'; MAX_LINE]);
    let flood = Operation::Misbehaved { error: ProtocolError::TooMuchPending, fatal: true };
    assert_eq!(poll(&mut session), Some(flood));
    session.answer(ticket, Answer::Fence);
    assert_eq!(session.output(), b"cmd=barrier_out\n");
}

#[test]
fn a_client_that_does_not_read_is_not_served_until_it_does() {
    let mut session = ready();
    let asked = 2 * MAX_OUTPUT / 61;
    for _ in 0..asked {
        session.receive(b"cmd=get_maxes\n");
    }
    assert!(session.output().len() < MAX_OUTPUT + MAX_REPLY);
    let mut lines = 0;
    while !session.output().is_empty() {
        lines += session.output().iter().filter(|&&byte| byte == b'\n').count();
        session.consume(session.output().len());
    }
    assert_eq!(lines, asked);
}

#[test]
fn a_manager_that_does_not_poll_does_not_get_unbounded_operations() {
    let mut session = ready();
    session.receive(&vec![b'\n'; MAX_LINE]);
    let mut reported = 0;
    while session.poll_operation().is_some() {
        reported += 1;
    }
    assert_eq!(reported, MAX_LINE);
}

#[test]
fn a_kvs_of_another_job_is_refused() {
    let mut manager = Manager::initialized();
    assert_eq!(
        manager.say("cmd=put kvsname=other key=a value=b"),
        "cmd=put_result rc=-1 msg=unknown_kvsname\n"
    );
    assert_eq!(
        manager.say("cmd=get kvsname=other key=a"),
        "cmd=get_result rc=-1 msg=unknown_kvsname value=unknown\n"
    );
    assert_eq!(
        manager.say("cmd=getbyidx kvsname=other idx=0"),
        "cmd=getbyidx_results rc=-1 reason=unknown_kvsname\n"
    );
    assert!(manager.kvs.is_empty());
}

#[test]
fn a_reserved_key_can_be_got_and_not_put() {
    let mut manager = Manager::initialized();
    manager.kvs.put(b"PMI_dead_processes", b"3,1").unwrap();
    assert_eq!(
        manager.say(&format!("cmd=put kvsname={KVSNAME} key=PMI_dead_processes value=0")),
        "cmd=put_result rc=-1 msg=reserved_key\n"
    );
    assert_eq!(
        manager.say(&format!("cmd=get kvsname={KVSNAME} key=PMI_dead_processes")),
        "cmd=get_result rc=0 msg=success value=3,1\n"
    );
}

#[test]
fn a_key_or_value_is_refused_from_the_advertised_length_on() {
    let mut manager = Manager::initialized();
    let mut put = |key: usize, value: usize| {
        let (key, value) = ("k".repeat(key), "v".repeat(value));
        manager.say(&format!("cmd=put kvsname={KVSNAME} key={key} value={value}"))
    };
    assert_eq!(put(MAX_KEY - 1, MAX_VALUE - 1), "cmd=put_result rc=0\n");
    assert_eq!(put(1, 0), "cmd=put_result rc=0\n");
    assert_eq!(put(0, 1), "cmd=put_result rc=-1 msg=empty_key\n");
    assert_eq!(put(MAX_KEY, 1), "cmd=put_result rc=-1 msg=key_too_long\n");
    assert_eq!(put(1, MAX_VALUE), "cmd=put_result rc=-1 msg=value_too_long\n");
}

#[test]
fn every_value_that_can_be_put_can_be_got() {
    let mut manager = Manager::initialized();
    let key = "k".repeat(MAX_KEY - 1);
    for length in [985, 986, MAX_VALUE - 1] {
        let value = "v".repeat(length);
        let put = format!("cmd=put kvsname={KVSNAME} key={key} value={value}");
        assert_eq!(manager.say(&put), "cmd=put_result rc=0\n");
        let found = manager.say(&format!("cmd=get kvsname={KVSNAME} key={key}"));
        assert_eq!(found, format!("cmd=get_result rc=0 msg=success value={value}\n"));
        let found = manager.say(&format!("cmd=getbyidx kvsname={KVSNAME} idx=0"));
        let entry = format!("cmd=getbyidx_results rc=0 nextidx=1 key={key} val={value}\n");
        assert_eq!(found, entry);
        assert!(found.len() <= MAX_VALUE_REPLY);
    }
}

#[test]
fn a_value_that_no_client_can_put_is_sent_only_within_the_shortest_line_buffer() {
    let mut manager = Manager::initialized();
    let room = MAX_REPLY - "cmd=get_result rc=0 msg=success value=".len();
    let refused = "cmd=get_result rc=-1 msg=value_too_long value=unknown\n";
    for (key, length, fits) in [
        ("PMI_dead_processes", room, true),
        ("PMI_dead_processes", room + 1, false),
        ("a", MAX_VALUE, false),
    ] {
        manager.kvs.put(key.as_bytes(), &vec![b'v'; length]).unwrap();
        let reply = manager.say(&format!("cmd=get kvsname={KVSNAME} key={key}"));
        assert!(reply.len() <= MAX_REPLY + 1);
        assert_eq!(reply == refused, !fits, "{key} {length}");
    }
}

#[test]
fn a_value_of_several_lines_never_reaches_a_client() {
    let mut manager = Manager::initialized();
    manager.kvs.put(b"a", b"1\ncmd=barrier_out").unwrap();
    assert_eq!(
        manager.say(&format!("cmd=get kvsname={KVSNAME} key=a")),
        "cmd=get_result rc=-1 msg=value_is_not_one_line value=unknown\n"
    );
}

#[test]
fn the_client_gets_the_error_of_a_full_kvs() {
    let mut session = ready();
    session.receive(format!("cmd=put kvsname={KVSNAME} key=a value=b\n").as_bytes());
    let (ticket, _) = session.poll_operation().unwrap();
    session.answer(ticket, Answer::Put(Err(pmi_proto::PutError::Full)));
    assert_eq!(session.output(), b"cmd=put_result rc=-1 msg=kvs_full\n");
}

#[test]
fn an_unknown_command_is_answered_with_its_own_name() {
    let mut manager = Manager::initialized();
    assert_eq!(manager.say("cmd=fly high"), "cmd=fly_result rc=-1 msg=unknown_command\n");
    assert_eq!(manager.say("mcmd=fly\nhow=high\nendcmd"), manager.say("cmd=fly"));
    let reply = manager.say(&format!("cmd=\u{7}{}", "x".repeat(5000)));
    assert!(reply.starts_with("cmd=_xxx") && reply.len() < 120, "{reply}");
    let error = ProtocolError::UnknownCommand { name: "fly".into() };
    assert_eq!(manager.errors()[0], (error, false));
}

#[test]
fn a_malformed_command_is_answered_in_the_form_of_its_reply() {
    let mut manager = Manager::initialized();
    let cases = [
        ("cmd=put kvsname=k key=a b value=c", "cmd=put_result rc=-1 msg=malformed_line\n"),
        ("cmd=put kvsname=k value=c", "cmd=put_result rc=-1 msg=missing_attribute\n"),
        ("cmd=getbyidx kvsname=k idx=-1", "cmd=getbyidx_results rc=-1 reason=bad_number\n"),
        ("cmd=get_maxes now", "cmd=get_maxes_result rc=-1 msg=malformed_line\n"),
        ("cmd=init", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n"),
        ("cmd=initack pmiid=1", "cmd=initack rc=-1\n"),
        ("no command", ""),
    ];
    for (line, reply) in cases {
        assert_eq!(manager.say(line), reply);
    }
}

#[test]
fn one_call_of_spawn_is_one_operation_and_is_answered_once() {
    let mut manager = Manager::initialized();
    let block = |number: u32| {
        format!(
            "mcmd=spawn\nnprocs=2\nexecname=a out\ntotspawns=2\nspawnssofar={number}\nargcnt=2\n\
             arg1=cmd=abort exitcode=1\narg2=\npreput_num=0\ninfo_num=0\nendcmd"
        )
    };
    assert_eq!(manager.say(&block(1)), "");
    assert_eq!(manager.operations, []);
    assert_eq!(manager.say(&block(2)), "cmd=spawn_result rc=0 errcodes=0,0,0,0\n");
    let [Operation::Spawn(request)] = &manager.operations[..] else {
        panic!("{:?}", manager.operations)
    };
    assert_eq!(request.commands.len(), 2);
    assert_eq!(request.commands[1].args, [&b"cmd=abort exitcode=1"[..], b""]);
    assert_eq!(manager.say("cmd=get_appnum"), "cmd=appnum appnum=0\n");
}

#[test]
fn after_a_too_large_spawn_is_refused_the_session_continues() {
    let mut manager = Manager::initialized();
    let arg = "x".repeat(MAX_LINE - 20);
    let args: String = (1..=20).map(|number| format!("arg{number}={arg}\n")).collect();
    let block = format!(
        "mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=1\nspawnssofar=1\nargcnt=20\n{args}endcmd"
    );
    assert_eq!(manager.say(&block), "cmd=spawn_result rc=-1 msg=spawn_too_large\n");
    assert_eq!(manager.errors(), [(ProtocolError::SpawnTooLarge, false)]);
    assert_eq!(manager.say("cmd=get_appnum"), "cmd=appnum appnum=0\n");
    let block = "mcmd=spawn\nnprocs=0\nexecname=a\ntotspawns=1\nspawnssofar=1\nendcmd";
    assert_eq!(manager.say(block), "cmd=spawn_result rc=-1 msg=bad_number\n");
}

#[test]
fn a_block_cut_off_by_the_end_of_the_stream_is_reported() {
    let mut manager = Manager::initialized();
    manager.receive(b"mcmd=spawn\nnprocs=1\n");
    manager.end_of_stream();
    assert_eq!(manager.errors(), [(ProtocolError::UnfinishedBlock, false)]);
}

#[test]
fn names_are_published_looked_up_and_withdrawn_by_the_manager() {
    let mut manager = Manager::initialized();
    let cases = [
        ("lookup_name service=my svc", "lookup_result rc=1 msg=service_not_found"),
        ("publish_name service=my svc port=tag#0 port=x$", "publish_result rc=0 msg=success"),
        ("publish_name service=my svc port=tag#0 port=p", "publish_result rc=1 msg=taken"),
        ("lookup_name service=my svc", "lookup_result rc=1 msg=service_not_found"),
        ("lookup_name service=my svc port=tag#0", "lookup_result rc=0 msg=success port=x$"),
        ("unpublish_name service=s", "unpublish_result rc=1 msg=service_not_found"),
    ];
    for (request, reply) in cases {
        assert_eq!(manager.say(&format!("cmd={request}")), format!("cmd={reply}\n"), "{request}");
    }
}

#[test]
fn a_port_longer_than_the_room_of_mpi_programs_is_neither_published_nor_sent() {
    let mut manager = Manager::initialized();
    let (longest, longer) = ("p".repeat(MAX_PORT - 1), "p".repeat(MAX_PORT));
    let mut publish = |port: &str| manager.say(&format!("cmd=publish_name service=s port={port}"));
    assert_eq!(publish(&longer), "cmd=publish_result rc=-1 msg=port_too_long\n");
    assert_eq!(publish(&longest), "cmd=publish_result rc=0 msg=success\n");
    let found = format!("cmd=lookup_result rc=0 msg=success port={longest}\n");
    assert_eq!(manager.say("cmd=lookup_name service=s"), found);
    let error = ProtocolError::PortTooLong { command: "publish_name", length: MAX_PORT };
    assert_eq!(manager.errors(), [(error, false)]);
    let mut session = ready();
    session.receive(b"cmd=lookup_name service=s\n");
    let (ticket, _) = session.poll_operation().unwrap();
    session.answer(ticket, Answer::Found(Ok(longer.as_bytes())));
    assert_eq!(session.output(), b"cmd=lookup_result rc=1 msg=port_too_long\n");
}

#[test]
#[should_panic(expected = "does not answer")]
#[cfg(debug_assertions)]
fn an_answer_without_an_open_operation_is_an_error_of_the_caller() {
    let mut session = ready();
    session.receive(b"cmd=barrier_in\n");
    let ticket = fence(&mut session);
    session.answer(ticket, Answer::Fence);
    session.answer(ticket, Answer::Fence);
}

#[test]
fn a_singleton_is_welcomed_and_its_put_of_nothing_is_accepted() {
    let mut session = Session::of_singleton(facts());
    let welcome = format!(
        "cmd=singinit_info rc=0 versionok=yes stdio=no kvsname={KVSNAME}\n{INIT_REPLY}cmd=put_result rc=0\n"
    );
    session.receive(format!("{INIT}\ncmd=put kvsname= key= value=\n").as_bytes());
    assert_eq!(String::from_utf8_lossy(session.output()), welcome);
    assert_eq!(poll(&mut session), Some(FIRST));
    assert_eq!(poll(&mut session), None);
    session.receive(b"cmd=put kvsname= key=a value=1\n");
    assert!(matches!(poll(&mut session), Some(Operation::Misbehaved { fatal: false, .. })));
}
