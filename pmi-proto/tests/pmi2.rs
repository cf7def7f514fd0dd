//! PMI-2: tests of a session with a real client, with several threads of one, and with faulty ones.

mod manager;

use manager::{KVSNAME, Manager, bodies, facts, frame};
use pmi_proto::limits::{MAX_FRAME, MAX_KEY, MAX_OPEN, MAX_OUTPUT, MAX_PORT, MAX_VALUE};
use pmi_proto::{Answer, Dialect, Operation, Phase, ProtocolError, Session, Spawned, Ticket};

const INIT: &str = "cmd=init pmi_version=2 pmi_subversion=0";
const RESPONSE: &str = "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";

/// Intel MPI over Slurm's libpmi2, rank 0 of two on one node, with `cmd=` left out.
const INTEL_MPI: &str = "
-> fullinit;pmirank=0;threaded=FALSE;
<- fullinit-response;pmi-version=2;pmi-subversion=0;rank=0;size=2;appnum=0;debugged=FALSE;pmiverbose=FALSE;rc=0;
-> job-getid;
<- job-getid-response;jobid=kvs_22138_0;rc=0;
-> info-getjobattr;key=PMI_process_mapping;
<- info-getjobattr-response;found=TRUE;value=(vector,(0,1,2));rc=0;
-> info-putnodeattr;key=-bcast-1-0;value=2F6465762F73686D2F496E74656C5F4D50495F;
<- info-putnodeattr-response;rc=0;
-> kvs-fence;
<- kvs-fence-response;rc=0;
-> info-getnodeattr;key=-bcast-1-0;wait=TRUE;
<- info-getnodeattr-response;found=TRUE;value=2F6465762F73686D2F496E74656C5F4D50495F;rc=0;
-> info-getjobattr;key=universeSize;
<- info-getjobattr-response;found=TRUE;value=-1;rc=0;
-> finalize;
<- finalize-response;rc=0;
";

/// All other requests, with and without the token of a thread.
const THE_OTHERS: &str = "
-> kvs-put;thrid=7;key=a;value=b=c;;d;
<- kvs-put-response;thrid=7;rc=0;
-> kvs-get;jobid=kvs_22138_0;srcid=-1;key=a;thrid=x y;
<- kvs-get-response;thrid=x y;found=TRUE;value=b=c;;d;rc=0;
-> kvs-get;jobid=;srcid=0;key=-NONEXIST-KEY;
<- kvs-get-response;found=FALSE;rc=0;
-> kvs-get;jobid=kvs_parent;srcid=-1;key=a;
<- kvs-get-response;found=TRUE;value=a;rc=0;
-> kvs-get;jobid=kvs_other;srcid=-1;key=a;
<- kvs-get-response;found=FALSE;rc=0;
-> info-getnodeattr;key=nobody;wait=FALSE;
<- info-getnodeattr-response;found=FALSE;rc=0;
-> info-getnodeattr;key=nobody;
<- info-getnodeattr-response;found=FALSE;rc=0;
-> info-getjobattr;key=mpi_reserved_ports;
<- info-getjobattr-response;found=FALSE;rc=0;
-> name-publish;name=my svc;port=tag#0$;infokeycount=0;
<- name-publish-response;rc=0;
-> name-publish;name=my svc;port=other;infokeycount=0;
<- name-publish-response;rc=1;errmsg=taken;
-> name-lookup;name=my svc;infokeycount=0;
<- name-lookup-response;port=tag#0$;value=tag#0$;rc=0;
-> name-unpublish;name=my svc;infokeycount=0;
<- name-unpublish-response;rc=0;
-> name-lookup;thrid=1;name=my svc;infokeycount=0;
<- name-lookup-response;thrid=1;rc=1;errmsg=service_not_found;
-> job-connect;jobid=kvs_parent;
<- job-connect-response;kvscopy=FALSE;rc=0;
-> job-disconnect;jobid=kvs_parent;
<- job-disconnect-response;rc=0;
-> spawn;ncmds=1;preputcount=0;subcmd=/bin/x;maxprocs=2;argc=0;infokeycount=0;
<- spawn-response;jobid=kvs_child;nerrs=0;rc=0;
-> ring;ring-count=1;ring-left=l;ring-right=r;
<- ring-response;ring-count=0;ring-left=r;ring-right=l;rc=0;
";

/// Plays a transcript behind an init.
fn play(transcript: &str) -> Manager {
    let mut manager = Manager::initialized_2();
    manager.kvs.put(b"PMI_process_mapping", b"(vector,(0,1,2))").unwrap();
    let mut lines = transcript.lines().filter(|line| !line.is_empty());
    while let Some(request) = lines.next() {
        let request = request.strip_prefix("-> ").expect("a request");
        let response = lines.next().and_then(|line| line.strip_prefix("<- ")).expect("a response");
        assert_eq!(manager.message(request), format!("{response}\n"));
    }
    assert_eq!(manager.errors(), []);
    manager
}

/// A session after its init. No operation was polled since.
fn ready() -> Session {
    let mut session = Session::new(facts());
    session.receive(format!("{INIT}\n").as_bytes());
    let first = Operation::Initialized { first: true, dialect: Dialect::Pmi2 };
    assert_eq!(session.poll_operation(), Some((Ticket::FIRST, first)));
    session.consume(session.output().len());
    session
}

/// Sends messages, and returns the tickets of the operations that need an answer.
fn ask(session: &mut Session, messages: &[&str]) -> Vec<Ticket> {
    for message in messages {
        session.receive(&frame(message));
    }
    std::iter::from_fn(|| session.poll_operation()).map(|(ticket, _)| ticket).collect()
}

/// The output, one body per line.
fn written(session: &mut Session) -> String {
    let text = bodies(session.output());
    session.consume(session.output().len());
    text
}

#[test]
fn intel_mpi_over_slurm_s_library_starts_as_it_did_in_the_lab() {
    let manager = play(INTEL_MPI);
    assert_eq!(manager.session.phase(), Phase::Finalized);
    assert_eq!(manager.operations.last(), Some(&Operation::Finalized));
}

#[test]
fn every_other_request_has_its_response() {
    play(THE_OTHERS);
}

#[test]
fn a_spawned_client_gets_the_name_of_its_spawner() {
    let mut session =
        Session::new(pmi_proto::Facts { spawner: Some("kvs_parent".to_owned()), ..facts() });
    session.receive(format!("{INIT}\n").as_bytes());
    assert!(session.poll_operation().is_some());
    session.consume(session.output().len());
    session.receive(&frame("fullinit;pmijobid=j;pmirank=0;threaded=TRUE;"));
    session.receive(&frame("info-getjobattr;key=universeSize;"));
    let Some((ticket, Operation::UniverseSize)) = session.poll_operation() else { panic!() };
    session.answer(ticket, Answer::UniverseSize(Some(8)));
    assert_eq!(
        written(&mut session),
        "fullinit-response;pmi-version=2;pmi-subversion=0;rank=0;size=2;appnum=0;\
         spawner-jobid=kvs_parent;debugged=FALSE;pmiverbose=FALSE;rc=0;\n\
         info-getjobattr-response;found=TRUE;value=8;rc=0;\n"
    );
}

#[test]
fn requests_of_several_threads_are_answered_in_the_order_of_the_answers() {
    let mut session = ready();
    let tickets = ask(
        &mut session,
        &[
            "kvs-fence;thrid=1;",
            "info-getnodeattr;thrid=2;key=k;wait=TRUE;",
            "spawn;thrid=3;subcmd=x;maxprocs=1;",
            "name-lookup;thrid=4;name=n;",
            "kvs-get;thrid=5;key=k;",
        ],
    );
    assert_eq!(tickets.len(), 5);
    assert_eq!(session.phase(), Phase::InFence);
    assert_eq!(session.fence(), Some(tickets[0]));
    session.answer(tickets[4], Answer::Get(None));
    session.answer(tickets[3], Answer::Found(Ok(b"p")));
    session.answer(tickets[0], Answer::Fence);
    assert_eq!((session.phase(), session.fence()), (Phase::Ready, None));
    let errors = &[0, 4];
    session.answer(tickets[2], Answer::Spawned(Ok(Spawned { jobid: "kvs_8", errors })));
    session.answer(tickets[1], Answer::Get(Some(b"v")));
    assert_eq!(
        written(&mut session),
        "kvs-get-response;thrid=5;found=FALSE;rc=0;\n\
         name-lookup-response;thrid=4;port=p;value=p;rc=0;\n\
         kvs-fence-response;thrid=1;rc=0;\n\
         spawn-response;thrid=3;jobid=kvs_8;nerrs=2;errcodes=0,4;rc=0;\n\
         info-getnodeattr-response;thrid=2;found=TRUE;value=v;rc=0;\n"
    );
}

#[test]
fn a_second_fence_of_one_client_is_refused_while_it_is_in_one() {
    let mut session = ready();
    let tickets = ask(&mut session, &["kvs-fence;thrid=1;"]);
    ask(&mut session, &["kvs-fence;thrid=2;", "ring;ring-count=1;ring-left=;ring-right=;"]);
    assert_eq!(
        written(&mut session),
        "kvs-fence-response;thrid=2;rc=-1;errmsg=already_in_fence;\n\
         ring-response;rc=-1;errmsg=already_in_fence;\n"
    );
    session.answer(tickets[0], Answer::Fence);
    assert_eq!(written(&mut session), "kvs-fence-response;thrid=1;rc=0;\n");
}

#[test]
fn open_requests_are_bounded_and_an_abort_is_served_at_once() {
    let mut session = ready();
    let wait = |number: usize| format!("info-getnodeattr;thrid={number};key=k;wait=TRUE;");
    let requests: Vec<String> = (0..MAX_OPEN).map(wait).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    let tickets = ask(&mut session, &requests);
    assert_eq!((tickets.len(), written(&mut session).as_str()), (MAX_OPEN, ""));
    session.receive(&frame(&wait(MAX_OPEN)));
    session.receive(&frame("abort;exitcode=-1;message=no luck;"));
    session.receive(&frame("job-getid;"));
    let operations: Vec<_> =
        std::iter::from_fn(|| session.poll_operation()).map(|(_, operation)| operation).collect();
    let error = ProtocolError::TooManyOpen { command: "info-getnodeattr" };
    let abort = Operation::Abort { code: -1, world: true, message: b"no luck".into() };
    assert_eq!(operations, [Operation::Misbehaved { error, fatal: false }, abort]);
    assert_eq!(
        written(&mut session),
        "info-getnodeattr-response;thrid=256;rc=-1;errmsg=too_many_requests;\n\
         job-getid-response;jobid=kvs_22138_0;rc=0;\n"
    );
    for ticket in tickets {
        session.answer(ticket, Answer::Get(None));
    }
    assert_eq!(written(&mut session).lines().count(), MAX_OPEN);
}

#[test]
fn an_abort_is_never_refused_and_what_is_echoed_is_bounded() {
    let mut manager = Manager::initialized_2();
    let long = ";".repeat(MAX_FRAME / 2 - 40);
    assert_eq!(manager.message(&format!("abort;thrid={long};msg=so;")), "");
    assert_eq!(
        manager.message(&format!("fly;thrid={long};")),
        "fly-response;rc=-1;errmsg=unknown_command;\n"
    );
    manager.message("finalize;");
    assert_eq!(manager.message("abort;exitcode=3;"), "");
    let abort = |code, words: &str| Operation::Abort {
        code,
        world: true,
        message: words.as_bytes().into(),
    };
    assert_eq!(manager.operations.first(), Some(&abort(1, "so")));
    assert_eq!(manager.operations.last(), Some(&abort(3, "")));
}

#[test]
fn an_init_on_a_live_descriptor_is_answered_as_the_first_time() {
    let mut manager = Manager::initialized_2();
    manager.message("kvs-put;key=a;value=1;");
    manager.written.clear();
    manager.say(INIT);
    assert_eq!(manager.written, RESPONSE.as_bytes());
    let again = Operation::Initialized { first: false, dialect: Dialect::Pmi2 };
    assert_eq!(manager.operations.last(), Some(&again));
    assert_eq!(manager.message("kvs-get;key=a;"), "kvs-get-response;found=TRUE;value=1;rc=0;\n");
    assert_eq!(manager.message("finalize;"), "finalize-response;rc=0;\n");
    assert_eq!(manager.message("finalize;"), "finalize-response;rc=0;\n");
    let refused = "kvs-get-response;rc=-1;errmsg=not_initialized;\n";
    assert_eq!(manager.message("kvs-get;key=a;"), refused);
    assert_eq!(manager.say(INIT), RESPONSE);
    assert_eq!(manager.session.phase(), Phase::Ready);
}

#[test]
fn a_client_may_change_the_dialect_while_nothing_is_open() {
    let mut manager = Manager::initialized();
    assert_eq!(manager.say(INIT), RESPONSE);
    assert_eq!(manager.message("job-getid;"), "job-getid-response;jobid=kvs_22138_0;rc=0;\n");
    let welcome = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
    assert_eq!(manager.say("cmd=init pmi_version=1 pmi_subversion=1"), welcome);
    assert_eq!(manager.say("cmd=get_appnum"), "cmd=appnum appnum=0\n");

    let mut session = ready();
    let tickets = ask(&mut session, &["kvs-fence;"]);
    session.receive(b"cmd=init pmi_version=1 pmi_subversion=1\n");
    session.answer(tickets[0], Answer::Fence);
    let refused = "response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n";
    assert_eq!(written(&mut session), format!("{refused}kvs-fence-response;rc=0;\n"));
}

#[test]
fn a_request_of_wrong_form_is_refused_with_the_reason() {
    let mut manager = Manager::initialized_2();
    let (key, value) = ("k".repeat(MAX_KEY), "v".repeat(MAX_VALUE));
    let cases = [
        ("fly;thrid=1;how=high;", "fly-response;thrid=1;rc=-1;errmsg=unknown_command;"),
        ("fullinit;pmirank=1;", "fullinit-response;rc=-1;errmsg=wrong_rank;"),
        ("kvs-put;thrid=1;value=v;", "kvs-put-response;thrid=1;rc=-1;errmsg=missing_attribute;"),
        ("kvs-put;key=;value=v;", "kvs-put-response;rc=-1;errmsg=empty_key;"),
        ("kvs-put;key=PMI_x;value=v;", "kvs-put-response;rc=-1;errmsg=reserved_key;"),
        (&format!("kvs-get;key={key};"), "kvs-get-response;rc=-1;errmsg=key_too_long;"),
        (
            &format!("info-putnodeattr;key=k;value={value};"),
            "info-putnodeattr-response;rc=-1;errmsg=value_too_long;",
        ),
        (&format!("finalize;thrid={value};"), "finalize-response;rc=-1;errmsg=value_too_long;"),
        ("spawn;subcmd=x;maxprocs=0;", "spawn-response;rc=-1;errmsg=bad_number;"),
        ("job-connect;jobid=;", "job-connect-response;rc=-1;errmsg=unknown_kvsname;"),
    ];
    for (request, response) in cases {
        assert_eq!(manager.message(request), format!("{response}\n"), "{request}");
    }
    assert_eq!(manager.errors().len(), cases.len());
    assert_eq!(manager.session.phase(), Phase::Ready);
}

#[test]
fn a_bad_length_is_fatal_and_reported_once() {
    for garbage in ["hello, this is no PMI", "999999cmd=x;", "cmd=get_maxes\n"] {
        let mut manager = Manager::initialized_2();
        manager.receive(garbage.as_bytes());
        manager.receive(&frame("job-getid;"));
        manager.end_of_stream();
        let errors = manager.errors();
        assert!(matches!(errors[..], [(ProtocolError::BadFrame { .. }, true)]), "{errors:?}");
        assert!(manager.written.is_empty());
    }
}

#[test]
fn a_message_without_a_command_is_reported_and_the_next_one_is_served() {
    let mut manager = Manager::initialized_2();
    manager.receive(b"     5hello");
    assert_eq!(manager.message("job-getid;").lines().count(), 1);
    let error = ProtocolError::NoCommand { line: "hello".to_owned() };
    assert_eq!(manager.errors(), [(error, false)]);
    manager.receive(b"    20cmd=fi");
    manager.end_of_stream();
    assert_eq!(manager.errors()[1], (ProtocolError::PartialLine { length: 12 }, false));
}

#[test]
fn garbage_after_finalize_is_ignored_and_an_init_after_it_is_found() {
    let mut manager = Manager::initialized_2();
    manager.message("finalize;");
    manager.written.clear();
    manager.receive(&frame("fly;"));
    manager.receive(&frame("kvs-put;"));
    manager.receive(b"     5hello");
    manager.receive(b"hello from a grandchild\n\x00\xff\n");
    assert!(manager.written.is_empty());
    assert_eq!(manager.operations, [Operation::Finalized]);
    assert_eq!(manager.say(INIT), RESPONSE);
}

#[test]
fn an_answer_that_was_open_at_finalize_is_still_a_message() {
    let mut session = ready();
    let tickets = ask(&mut session, &["info-getnodeattr;key=k;wait=TRUE;", "finalize;"]);
    session.receive(b"garbage of somebody else\n");
    session.answer(tickets[0], Answer::Get(None));
    assert_eq!(
        written(&mut session),
        "finalize-response;rc=0;\ninfo-getnodeattr-response;found=FALSE;rc=0;\n"
    );
}

#[test]
fn a_client_that_does_not_read_is_not_served_until_it_does() {
    let mut session = ready();
    let asked = 2 * MAX_OUTPUT / 50;
    for _ in 0..asked {
        session.receive(&frame("job-getid;"));
    }
    assert!(session.output().len() < MAX_OUTPUT + 100);
    let mut responses = 0;
    while !session.output().is_empty() {
        responses += written(&mut session).lines().count();
    }
    assert_eq!(responses, asked);
}

#[test]
fn a_value_that_fits_no_message_is_refused() {
    let mut session = ready();
    let tickets = ask(&mut session, &["kvs-get;thrid=8;key=k;"]);
    session.answer(tickets[0], Answer::Get(Some(&vec![b'v'; MAX_FRAME])));
    let refused = "kvs-get-response;thrid=8;rc=-1;errmsg=value_too_long;\n";
    assert_eq!(written(&mut session), refused);
}

#[test]
fn a_port_longer_than_the_room_of_mpi_programs_is_neither_published_nor_sent() {
    let mut manager = Manager::initialized_2();
    let (longest, longer) = ("p".repeat(MAX_PORT - 1), "p".repeat(MAX_PORT));
    let mut publish = |port: &str| manager.message(&format!("name-publish;name=n;port={port};"));
    assert_eq!(publish(&longer), "name-publish-response;rc=-1;errmsg=port_too_long;\n");
    assert_eq!(publish(&longest), "name-publish-response;rc=0;\n");
    let error = ProtocolError::PortTooLong { command: "name-publish", length: MAX_PORT };
    assert_eq!(manager.errors(), [(error, false)]);
    let mut session = ready();
    let tickets = ask(&mut session, &["name-lookup;name=n;"]);
    session.answer(tickets[0], Answer::Found(Ok(longer.as_bytes())));
    assert_eq!(written(&mut session), "name-lookup-response;rc=1;errmsg=port_too_long;\n");
}

#[test]
fn the_longest_message_is_read() {
    let mut manager = Manager::initialized_2();
    let body = format!("job-getid;junk={};", "x".repeat(MAX_FRAME - "cmd=job-getid;junk=;".len()));
    assert_eq!(manager.message(&body), format!("job-getid-response;jobid={KVSNAME};rc=0;\n"));
}
