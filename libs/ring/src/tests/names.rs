//! Names: claims, conflicts, bounds.

use super::*;
use mpd_wire::Standing;
use mpd_wire::names::{
    Hold, Lock, MAX_CLAIMS, MAX_CLAIMS_OF_JOB, MAX_KEPT, MAX_NAME, MAX_VALUE, NameRecord, SALT,
    TOO_MANY_OF_JOB,
};

fn job(number: u64) -> JobId {
    JobId::new(number, "d").unwrap()
}

fn claim(of: &str, number: u64) -> Claim {
    let (name, value) = (of.to_owned(), format!("port {number}"));
    Claim { name, value, job: job(number), lock: None, hold: Hold::Job }
}

/// The name record that `owner`, instance 2, has published.
fn name_record(owner: &str, version: u64, claims: &[Claim]) -> NameRecord {
    let claims = claims.to_vec();
    NameRecord { version, claims, ..NameRecord::new(name(owner), Instance::from_bytes([2; 16])) }
}

fn publish(ring: &mut Noted, of: &str, number: u64) -> Vec<Output> {
    let request = RequestId(number);
    ring.handle(second(1), Input::Publish { request, claim: claim(of, number) });
    drain(ring)
}

fn published(number: u64, result: Publication) -> Output {
    Output::Published { request: RequestId(number), result }
}

/// A daemon `a` with a live member `b`, which is linked as its lhs.
fn with_member() -> Noted {
    let mut ring = Noted::new(second(1), config("a"));
    link_up(&mut ring, 1, None, "b", Purpose::Ring);
    let records = vec![record("b", 1, Standing::Live, 2, GAP * 9)];
    ring.handle(second(1), Input::Received(LinkId(1), RingMessage::list(records)));
    drain(&mut ring);
    ring
}

fn receive(ring: &mut Noted, name_records: &[NameRecord]) -> Vec<Output> {
    let name_records = name_records.to_vec();
    ring.handle(second(1), Input::Received(LinkId(1), RingMessage::Names { name_records }));
    drain(ring)
}

fn winner(ring: &Noted, of: &str) -> Option<(String, JobId)> {
    ring.lookup(of).map(|(owner, claim)| (owner.to_string(), claim.job.clone()))
}

#[test]
fn a_ring_of_one_publishes_at_once_and_keeps_a_name_until_its_job_takes_it_back_or_ends() {
    let mut ring = Noted::new(second(1), config("a"));
    drain(&mut ring);
    assert_eq!(publish(&mut ring, "ocean", 7), [published(7, Publication::Done)]);
    assert_eq!(publish(&mut ring, "ocean", 3), [published(3, Publication::Taken)]);
    assert_eq!(ring.lookup("ocean").unwrap().1, &claim("ocean", 7));
    for (of, by, found) in [("ocean", 3, false), ("air", 7, false), ("ocean", 7, true)] {
        let (request, of) = (RequestId(9), of.to_owned());
        ring.handle(second(1), Input::Unpublish { request, name: of, job: job(by), key: None });
        assert_eq!(drain(&mut ring), [Output::Unpublished { request, found }]);
    }
    assert_eq!(winner(&ring, "ocean"), None);
    for (of, by) in [("ocean", 7), ("air", 7), ("land", 8)] {
        publish(&mut ring, of, by);
    }
    ring.handle(second(1), Input::JobOver(job(7)));
    assert_eq!(drain(&mut ring), []);
    assert_eq!(ring.names(), [(&name("a"), &claim("land", 8))]);
}

#[test]
fn a_name_with_a_key_is_one_name_and_is_taken_back_with_that_key() {
    let mut ring = Noted::new(second(1), config("a"));
    drain(&mut ring);
    let key = |words: &[u8]| NameKey::new("ocean", words);
    let locked = |words, number| {
        let lock = Some(Lock::new([9; SALT], &key(words)));
        Claim { lock, ..claim("ocean", number) }
    };
    for (claim, result) in [
        (locked(b"deep", 7), Publication::Done),
        (locked(b"blue", 8), Publication::Taken),
        (claim("ocean", 9), Publication::Taken),
    ] {
        ring.handle(second(1), Input::Publish { request: RequestId(1), claim });
        assert_eq!(drain(&mut ring), [published(1, result)]);
    }
    for (key, found) in [(None, false), (Some(key(b"blue")), false), (Some(key(b"deep")), true)] {
        let (request, name) = (RequestId(2), "ocean".to_owned());
        ring.handle(second(1), Input::Unpublish { request, name, job: job(7), key });
        assert_eq!(drain(&mut ring), [Output::Unpublished { request, found }]);
    }
    assert_eq!(winner(&ring, "ocean"), None);
}

#[test]
fn of_two_claims_to_one_name_the_lowest_job_has_it_and_the_other_owner_reports_the_loss() {
    for (theirs, ours_stays) in [(9, true), (5, false)] {
        let mut ring = Noted::new(second(1), config("a"));
        drain(&mut ring);
        publish(&mut ring, "ocean", 7);
        link_up(&mut ring, 1, None, "b", Purpose::Probe);
        let records = vec![record("b", 1, Standing::Live, 2, GAP * 9)];
        ring.handle(second(1), Input::Received(LinkId(1), RingMessage::list(records)));
        drain(&mut ring);
        let outputs = receive(&mut ring, &[name_record("b", 1, &[claim("ocean", theirs)])]);
        let lost = Output::NameLost { name: "ocean".to_owned(), job: job(7), to: job(5) };
        assert_eq!(outputs.contains(&lost), !ours_stays);
        assert_eq!(ring.lookup("ocean").unwrap().1.job, job(theirs.min(7)));
        // The claim is given up: it does not return when the other owner takes its claim back.
        receive(&mut ring, &[name_record("b", 2, &[])]);
        assert_eq!(winner(&ring, "ocean").is_some(), ours_stays);
    }
}

#[test]
fn names_of_a_dead_member_count_after_its_refutation_and_those_of_former_instances_never() {
    let mut ring = with_member();
    receive(&mut ring, &[name_record("b", 3, &[claim("ocean", 7)])]);
    assert_eq!(winner(&ring, "ocean"), Some(("b".to_owned(), job(7))));
    receive(&mut ring, &[name_record("b", 2, &[])]);
    assert!(winner(&ring, "ocean").is_some(), "an older name_record is no news");
    send(&mut ring, second(1), 2, record("b", 1, Standing::Dead, 2, GAP * 9));
    assert_eq!(winner(&ring, "ocean"), None);
    send(&mut ring, second(1), 3, record("b", 2, Standing::Live, 2, GAP * 9));
    assert!(winner(&ring, "ocean").is_some());
    send(&mut ring, second(1), 4, record("b", 3, Standing::Live, 5, GAP * 9));
    assert_eq!(winner(&ring, "ocean"), None);
    receive(&mut ring, &[name_record("b", 4, &[claim("ocean", 7)])]);
    assert_eq!(winner(&ring, "ocean"), None, "a name_record of the former instance");
}

#[test]
fn unsound_name_records_and_name_records_of_unknown_owners_are_not_accepted() {
    let mut ring = with_member();
    let two = [claim("ocean", 1), claim("air", 2)];
    let long = Claim { value: "x".repeat(MAX_VALUE + 1), ..claim("long", 1) };
    let many: Vec<Claim> = (0..=MAX_CLAIMS).map(|n| claim(&format!("{n:04}"), 1)).collect();
    let unsound = [
        name_record("b", 1, &two),
        name_record("b", 1, &[claim("same", 1), claim("same", 2)]),
        name_record("b", 1, &[claim("", 1)]),
        name_record("b", 1, &[long]),
        name_record("b", 1, &many),
        name_record("b", u64::MAX / 2, &[claim("late", 1)]),
        name_record("nobody", 1, &[claim("nobody", 1)]),
        name_record("a", 1, &[claim("ours", 1)]),
    ];
    receive(&mut ring, &unsound);
    assert_eq!(ring.names(), []);
}

#[test]
fn a_name_that_may_be_taken_back_by_any_job_ends_with_its_job_unless_it_is_kept() {
    let mut ring = Noted::new(second(1), config("a"));
    drain(&mut ring);
    for (number, (of, hold)) in (1..).zip([("shared", Hold::Shared), ("kept", Hold::Kept)]) {
        for again in [10, 20] {
            let claim = Claim { hold, ..claim(of, number) };
            let request = RequestId(again);
            ring.handle(second(1), Input::Publish { request, claim });
            assert_eq!(drain(&mut ring), [published(again, Publication::Done)]);
            if again == 10 {
                let (request, of) = (RequestId(9), of.to_owned());
                let job = job(99);
                ring.handle(second(1), Input::Unpublish { request, name: of, job, key: None });
                assert_eq!(drain(&mut ring), [Output::Unpublished { request, found: true }]);
            }
        }
        ring.handle(second(1), Input::JobOver(job(number)));
    }
    assert_eq!(ring.names().len(), 1);
    assert_eq!(winner(&ring, "kept"), Some(("a".to_owned(), job(2))));
}

#[test]
fn names_that_stay_after_their_jobs_have_a_share_of_their_own() {
    let mut ring = Noted::new(second(1), config("a"));
    drain(&mut ring);
    let mut publish = |number: usize, hold| {
        let claim = Claim { hold, ..claim(&format!("{number}"), number as u64) };
        ring.handle(second(1), Input::Publish { request: RequestId(1), claim });
        drain(&mut ring)
    };
    for number in 0..MAX_KEPT {
        assert_eq!(publish(number, Hold::Kept), [published(1, Publication::Done)]);
    }
    let refusal = published(1, Publication::Refused(TOO_MANY_OF_JOB));
    assert_eq!(publish(MAX_KEPT, Hold::Kept), [refusal]);
    assert_eq!(publish(MAX_KEPT, Hold::Job), [published(1, Publication::Done)]);
}

#[test]
fn claims_beyond_the_bounds_are_refused_with_a_reason() {
    let mut ring = Noted::new(second(1), config("a"));
    drain(&mut ring);
    let refused = |ring: &mut Noted, claim: Claim| {
        ring.handle(second(1), Input::Publish { request: RequestId(1), claim });
        let outputs = drain(ring);
        let [Output::Published { result: Publication::Refused(why), .. }] = outputs[..] else {
            panic!("{outputs:?}")
        };
        why
    };
    assert_eq!(refused(&mut ring, claim("", 1)), "the name is empty");
    assert_eq!(refused(&mut ring, claim(&"x".repeat(MAX_NAME + 1), 1)), "the name is too long");
    let value = "x".repeat(MAX_VALUE + 1);
    assert_eq!(refused(&mut ring, Claim { value, ..claim("x", 1) }), "the value is too long");
    for n in 0..MAX_CLAIMS {
        let job = 1 + (n / MAX_CLAIMS_OF_JOB) as u64;
        assert_eq!(publish(&mut ring, &format!("{n}"), job), [published(job, Publication::Done)]);
    }
    assert_eq!(refused(&mut ring, claim("one more", 9)), "too many names");
    let entry = vec![Address::new("10.0.0.9:1").unwrap()];
    let mut newcomer = Noted::new(second(1), RingConfig { ordinal: None, entry, ..config("a") });
    drain(&mut newcomer);
    assert_eq!(refused(&mut newcomer, claim("x", 1)), "not in a ring yet");
}

#[test]
fn one_job_leaves_room_for_the_names_of_others() {
    let mut ring = Noted::new(second(1), config("a"));
    drain(&mut ring);
    let publish_as = |ring: &mut Noted, n: usize, job| publish(ring, &format!("{n}"), job);
    for n in 0..MAX_CLAIMS_OF_JOB {
        assert_eq!(publish_as(&mut ring, n, 1), [published(1, Publication::Done)]);
    }
    let refusal = published(1, Publication::Refused(TOO_MANY_OF_JOB));
    assert_eq!(publish_as(&mut ring, 1000, 1), [refusal]);
    assert_eq!(publish_as(&mut ring, 1000, 2), [published(2, Publication::Done)]);
    let long = |n: usize| Claim { value: "x".repeat(255), ..claim(&format!("{n:0>256}"), 3) };
    let others: Vec<Claim> = (0..96).map(long).collect();
    assert!(long(96).is_within_share(&others[..90]) && !long(96).is_within_share(&others));
}

#[test]
fn a_claim_without_all_answers_in_time_is_taken_back_and_the_missing_members_are_named() {
    let mut ring = with_member();
    assert!(!publish(&mut ring, "ocean", 7).contains(&published(7, Publication::Done)));
    assert!(winner(&ring, "ocean").is_some());
    // b is silent on its link, which was accepted only: b never becomes our rhs.
    let mut results = Vec::new();
    for eighths in 8..=8 * 12 {
        let now = Time::from_micros(eighths * 125_000);
        if eighths % 8 == 0 {
            let alive = RingMessage::Pulse { digest: 0 };
            ring.handle(now, Input::Received(LinkId(1), alive));
        }
        // Its refutations keep b live, though it cannot be reached.
        let incarnation = ring.record(&name("b")).unwrap().incarnation + 1;
        let records = vec![record("b", incarnation, Standing::Live, 2, GAP * 9)];
        ring.handle(now, Input::Received(LinkId(1), RingMessage::update(records)));
        ring.handle_timeout(now);
        let outputs = drain(&mut ring).into_iter();
        results.extend(outputs.filter(|output| matches!(output, Output::Published { .. })));
    }
    let missing = vec![name("b")];
    assert_eq!(results, [published(7, Publication::Incomplete { missing })]);
    assert_eq!(winner(&ring, "ocean"), None);
}

#[test]
fn a_job_that_ends_while_it_publishes_is_answered_once() {
    let mut ring = with_member();
    publish(&mut ring, "ocean", 7);
    ring.handle(second(1), Input::JobOver(job(7)));
    let over = published(7, Publication::Refused("the job is over"));
    let outputs = drain(&mut ring);
    assert!(outputs.contains(&over), "{outputs:?}");
    ring.handle_timeout(second(30));
    let again = drain(&mut ring).into_iter();
    assert_eq!(again.filter(|o| matches!(o, Output::Published { .. })).count(), 0);
    assert_eq!(ring.names(), []);
}

#[test]
fn a_member_that_knows_a_better_claim_says_so_and_the_claim_is_taken_back() {
    let mut ring = with_member();
    publish(&mut ring, "ocean", 7);
    let outputs = receive(&mut ring, &[name_record("b", 1, &[claim("ocean", 5)])]);
    assert!(outputs.contains(&published(7, Publication::Taken)), "{outputs:?}");
    assert_eq!(winner(&ring, "ocean"), Some(("b".to_owned(), job(5))));
}
