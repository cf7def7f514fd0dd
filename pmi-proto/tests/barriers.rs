//! Tests of a session in the barriers of PMI-1.2: several at once, of groups, with tags.

mod manager;

use manager::{KVSNAME, facts};
use pmi_proto::limits::MAX_BARRIERS;
use pmi_proto::{Answer, BarrierGroup, GroupMembers, Operation, Phase, Session, Ticket};

/// A client of that subversion, past its init.
fn client(subversion: u32) -> Session {
    let mut session = Session::new(facts());
    say(&mut session, &format!("cmd=init pmi_version=1 pmi_subversion={subversion}"));
    assert!(session.poll_operation().is_some(), "initialized");
    session
}

/// Gives one line and returns what is written in return.
fn say(session: &mut Session, line: &str) -> String {
    session.receive(format!("{line}\n").as_bytes());
    written(session)
}

fn written(session: &mut Session) -> String {
    let text = String::from_utf8(session.output().to_vec()).unwrap();
    session.consume(text.len());
    text
}

/// The manager releases a barrier; returns the written bytes.
fn release(session: &mut Session, ticket: Ticket) -> String {
    session.answer(ticket, Answer::Fence);
    written(session)
}

fn group(members: GroupMembers, tag: i32) -> Operation {
    Operation::GroupFence { group: BarrierGroup { members, tag } }
}

#[test]
fn every_barrier_of_1_2_ends_with_its_tag_and_none_of_1_1_with_any() {
    let mut session = client(1);
    say(&mut session, "cmd=barrier_in");
    let (ticket, operation) = session.poll_operation().unwrap();
    assert_eq!(operation, Operation::Fence);
    assert_eq!(release(&mut session, ticket), "cmd=barrier_out\n");

    let mut session = client(2);
    for (line, wanted, answer) in [
        ("cmd=barrier_in", Operation::Fence, "cmd=barrier_out tag=0\n"),
        ("cmd=barrier_in group=WORLD:0", Operation::Fence, "cmd=barrier_out tag=0\n"),
        ("cmd=barrier_in group=WORLD:4", group(GroupMembers::World, 4), "cmd=barrier_out tag=4\n"),
        ("cmd=barrier_in group=NODE:0", group(GroupMembers::Node, 0), "cmd=barrier_out tag=0\n"),
        (
            "cmd=barrier_in group=0,1:9",
            group(GroupMembers::Ranks([0, 1].into()), 9),
            "cmd=barrier_out tag=9\n",
        ),
    ] {
        assert_eq!(say(&mut session, line), "", "{line}");
        let (ticket, operation) = session.poll_operation().unwrap();
        assert_eq!(operation, wanted, "{line}");
        assert_eq!(session.phase(), Phase::InFence);
        assert_eq!(release(&mut session, ticket), answer, "{line}");
        assert_eq!(session.phase(), Phase::Ready);
    }
}

#[test]
fn while_one_thread_waits_others_send_requests_and_meet() {
    let mut session = client(2);
    say(&mut session, "cmd=barrier_in group=0,1:1");
    say(&mut session, "cmd=barrier_in group=0,1:2");
    say(&mut session, "cmd=barrier_in");
    let put = format!("cmd=put kvsname={KVSNAME} key=a value=1");
    say(&mut session, &put);
    let tickets: Vec<Ticket> =
        std::iter::from_fn(|| session.poll_operation()).map(|(ticket, _)| ticket).collect();
    let [first, second, world, put] = tickets[..] else { panic!("{tickets:?}") };
    assert_eq!(session.fence(), Some(world));
    session.answer(put, Answer::Put(Ok(())));
    assert_eq!(written(&mut session), "cmd=put_result rc=0\n");
    assert_eq!(release(&mut session, world), "cmd=barrier_out tag=0\n");
    assert_eq!(release(&mut session, second), "cmd=barrier_out tag=2\n");
    assert_eq!(release(&mut session, first), "cmd=barrier_out tag=1\n");
}

#[test]
fn a_put_delays_the_requests_after_it_in_1_2_too() {
    let mut session = client(2);
    say(
        &mut session,
        &format!("cmd=put kvsname={KVSNAME} key=a value=1\ncmd=barrier_in group=NODE:1"),
    );
    let (put, _) = session.poll_operation().unwrap();
    assert_eq!(session.poll_operation(), None);
    session.answer(put, Answer::Put(Ok(())));
    let (_, operation) = session.poll_operation().unwrap();
    assert_eq!(operation, group(GroupMembers::Node, 1));
}

#[test]
fn a_second_entry_into_a_groups_barrier_enters_its_next_one() {
    let mut session = client(2);
    for line in ["cmd=barrier_in group=NODE:1", "cmd=barrier_in", "cmd=barrier_in"] {
        say(&mut session, line);
    }
    say(&mut session, "cmd=barrier_in group=NODE:1");
    let (first, operation) = session.poll_operation().unwrap();
    assert_eq!(operation, group(GroupMembers::Node, 1));
    let (world, operation) = session.poll_operation().unwrap();
    assert_eq!(operation, Operation::Fence);
    assert_eq!(session.poll_operation(), None, "the manager sees a rank once in a barrier");
    assert_eq!(release(&mut session, first), "cmd=barrier_out tag=1\n");
    let (next, operation) = session.poll_operation().unwrap();
    assert_eq!(operation, group(GroupMembers::Node, 1));
    assert_eq!(session.poll_operation(), None);
    assert_eq!(release(&mut session, next), "cmd=barrier_out tag=1\n");
    assert_eq!(release(&mut session, world), "cmd=barrier_out tag=0\n");
    let (again, operation) = session.poll_operation().unwrap();
    assert_eq!(operation, Operation::Fence);
    assert_eq!(release(&mut session, again), "cmd=barrier_out tag=0\n");
    assert_eq!(session.phase(), Phase::Ready);
}

#[test]
fn an_invalid_group_is_refused_and_so_is_any_group_in_1_1() {
    for (subversion, group) in [(2, "1:0"), (2, "0,2:0"), (2, "0,,1"), (1, "NODE:0")] {
        let mut session = client(subversion);
        let answer = say(&mut session, &format!("cmd=barrier_in group={group}"));
        assert_eq!(answer, "cmd=barrier_in_result rc=-1 msg=bad_group\n", "{group}");
        let (_, operation) = session.poll_operation().unwrap();
        assert!(matches!(operation, Operation::Misbehaved { fatal: false, .. }));
        assert_eq!(session.phase(), Phase::Ready);
    }
}

#[test]
fn barriers_of_one_client_are_bounded_and_an_init_waits_for_their_end() {
    let mut session = client(2);
    for tag in 0..MAX_BARRIERS {
        assert_eq!(say(&mut session, &format!("cmd=barrier_in group=NODE:{}", tag / 2)), "");
        while session.poll_operation().is_some() {}
    }
    let refused = "cmd=barrier_in_result rc=-1 msg=too_many_requests\n";
    assert_eq!(say(&mut session, "cmd=barrier_in group=NODE:999"), refused);
    while session.poll_operation().is_some() {}
    let again = say(&mut session, "cmd=init pmi_version=1 pmi_subversion=1");
    assert_eq!(again, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
}
