use proptest::prelude::*;

use super::*;

const UID: u32 = 1000;
/// The boot time of the host, in milliseconds since 1970.
const BOOT: u64 = 1_700_000_000_400;

/// Process 7 of a job, from `begin` to `end` milliseconds since boot.
fn notes(begin: u64, end: u64) -> Known {
    let mut notes = Known::default();
    let before = Before { memory: [5].into(), ..Before::default() };
    notes.add(Note::Began(before));
    notes.add(Note::Clock(clock(begin, 0)));
    notes.add(Note::Process(Lifetime { pid: 7, begin, seen: end, over: true }));
    notes
}

/// The clocks at some time since boot, with the wall clock set forward by `set`.
fn clock(boot: u64, set: u64) -> Offset {
    Reading { before: boot, wall: BOOT + boot + set, after: boot }.into()
}

/// The kernel's record of a time since boot.
fn second(boot: u64) -> u64 {
    (BOOT + boot) / 1000
}

fn object(id: i32, state: State) -> Object {
    Object { id, users: [UID; 2], state }
}

fn segment(pid: u32, boot: u64, attached: u64) -> Object {
    object(6, State::Memory { made: Use { pid, at: second(boot) }, attached })
}

fn set(pids: &[u32], boot: u64) -> Object {
    object(6, State::Semaphores { pids: Some(pids.to_vec()), at: second(boot) })
}

fn queue(sent: (u32, u64), received: (u32, u64)) -> Object {
    let used = |(pid, boot)| Use { pid, at: if pid == 0 { 0 } else { second(boot) } };
    object(6, State::Messages { sent: used(sent), received: used(received) })
}

fn reason(notes: &Known, object: &Object) -> Option<Reason> {
    notes.judge(object, UID).err().map(|kept| kept.reason)
}

#[test]
fn a_segment_made_by_a_process_of_the_job_is_removed_when_no_process_is_attached() {
    let notes = notes(10_000, 20_000);
    assert_eq!(reason(&notes, &segment(7, 15_000, 0)), None);
    assert_eq!(reason(&notes, &segment(7, 15_000, 1)), Some(Reason::Attached));
    assert_eq!(reason(&notes, &segment(8, 15_000, 0)), Some(Reason::Stranger(8)));
    let before = Object { id: 5, ..segment(7, 15_000, 0) };
    assert_eq!(reason(&notes, &before), Some(Reason::Older));
    for users in [[UID, 1], [1, UID]] {
        let theirs = Object { users, ..segment(7, 15_000, 0) };
        let kept = notes.judge(&theirs, UID).unwrap_err();
        assert_eq!(kept, Kept { reason: Reason::OtherUser, is_doubtful: false });
    }
}

#[test]
fn a_number_that_another_process_had_before_or_after_is_not_the_jobs() {
    let notes = notes(10_000, 20_000);
    for time in [8_000, 22_000] {
        let kept = notes.judge(&segment(7, time, 0), UID).unwrap_err();
        assert_eq!(kept, Kept { reason: Reason::AnotherTime(7), is_doubtful: true });
        assert_eq!(reason(&notes, &set(&[7], time)), Some(Reason::AnotherTime(7)));
        assert_eq!(reason(&notes, &queue((7, time), (0, 0))), Some(Reason::AnotherTime(7)));
    }
}

#[test]
fn sets_and_queues_are_removed_if_all_their_last_users_were_of_the_job() {
    let notes = notes(10_000, 20_000);
    assert_eq!(reason(&notes, &set(&[7, 7], 15_000)), None);
    assert_eq!(reason(&notes, &set(&[7, 8], 15_000)), Some(Reason::Stranger(8)));
    assert_eq!(reason(&notes, &set(&[], 15_000)), Some(Reason::Unused));
    let unknown = object(6, State::Semaphores { pids: None, at: second(15_000) });
    assert_eq!(reason(&notes, &unknown), Some(Reason::Unknown));
    assert_eq!(reason(&notes, &queue((7, 15_000), (7, 16_000))), None);
    assert_eq!(reason(&notes, &queue((7, 15_000), (8, 12_000))), Some(Reason::Stranger(8)));
    assert_eq!(reason(&notes, &queue((0, 0), (0, 0))), Some(Reason::Unused));
    let last_use_is_anothers = queue((7, 15_000), (7, 25_000));
    assert_eq!(reason(&notes, &last_use_is_anothers), Some(Reason::AnotherTime(7)));
}

#[test]
fn nothing_is_removed_if_the_clock_was_set_while_the_job_ran() {
    let mut notes = notes(10_000, 20_000);
    assert!(!notes.add(Note::Clock(clock(12_000, 50))), "not worth a note");
    assert_eq!(reason(&notes, &segment(7, 15_000, 0)), None);
    assert!(notes.add(Note::Clock(clock(13_000, 3_600_000))));
    assert_eq!(reason(&notes, &segment(7, 15_000, 0)), Some(Reason::ClockWasSet));
    assert_eq!(reason(&notes, &segment(8, 15_000, 0)), Some(Reason::Stranger(8)));
}

#[test]
fn a_note_without_a_new_fact_is_recognised() {
    let mut notes = Known::default();
    let file = FileId { device: 27, inode: 9, born: Some(1) };
    let lifetime = Lifetime { pid: 7, begin: 1, seen: 2, over: false };
    for note in [
        Note::Clock(clock(1_000, 0)),
        Note::Process(lifetime),
        Note::Process(Lifetime { over: true, ..lifetime }),
        Note::File(file),
    ] {
        assert!(notes.add(note.clone()), "{note:?}");
        assert!(!notes.add(note.clone()), "{note:?}");
    }
    assert!(!notes.add(Note::Process(Lifetime { seen: 3, ..lifetime })));
    assert!(notes.add(Note::File(FileId { born: Some(2), ..file })), "the inode of another file");
}

#[test]
fn a_process_that_was_not_reaped_lived_until_now_if_that_is_known() {
    let mut notes = notes(10_000, 20_000);
    notes.add(Note::Process(Lifetime { pid: 8, begin: 10_000, seen: 10_000, over: false }));
    assert_eq!(notes.unreaped().collect::<Vec<_>>(), [(8, 10_000)]);
    assert_eq!(reason(&notes, &segment(8, 15_000, 0)), Some(Reason::AnotherTime(8)));
    notes.prolong(30_000, |_, _| false);
    assert_eq!(reason(&notes, &segment(8, 15_000, 0)), Some(Reason::AnotherTime(8)));
    notes.prolong(30_000, |pid, begin| (pid, begin) == (8, 10_000));
    assert_eq!(reason(&notes, &segment(8, 15_000, 0)), None);
    notes.prolong(30_000, |_, _| true);
    assert_eq!(reason(&notes, &segment(7, 25_000, 0)), Some(Reason::AnotherTime(7)), "reaped");
}

#[test]
fn notes_without_their_first_one_are_not_used() {
    let lifetime = Note::Process(Lifetime { pid: 7, begin: 1, seen: 2, over: false });
    let began = Note::Began(Before::default());
    assert_eq!(Known::of([]), None);
    assert_eq!(Known::of([lifetime.clone(), began.clone()]), None);
    assert_eq!(Known::of([began, lifetime]).unwrap().unreaped().count(), 1);
}

proptest! {
    #[test]
    fn an_object_that_a_process_made_in_its_life_is_the_jobs_even_in_a_short_life(
        begin in 1_000_u64..100_000,
        length in 0_u64..5_000,
        at in 0_u64..5_000,
        late in 0_u64..20,
    ) {
        let notes = notes(begin, begin + length);
        let at = (begin + at % (length + 1)).saturating_sub(late);
        prop_assert_eq!(reason(&notes, &segment(7, at, 0)), None);
    }

    #[test]
    fn an_object_of_another_process_with_that_number_is_kept_if_whole_seconds_distinguish_the_lifetimes(
        begin in 10_000_u64..100_000,
        length in 0_u64..5_000,
        apart in 1_050_u64..9_000,
        is_before: bool,
    ) {
        let notes = notes(begin, begin + length);
        let at = if is_before { begin - apart } else { begin + length + apart };
        prop_assert_eq!(reason(&notes, &segment(7, at, 0)), Some(Reason::AnotherTime(7)));
    }
}
