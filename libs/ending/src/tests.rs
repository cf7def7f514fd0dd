//! The machine with the processes of a host.

use std::collections::BTreeSet;
use std::time::Duration;

use mpd_leftovers as leftovers;
use mpd_leftovers::record::{Note, Registered};
use mpd_sansio::Time;
use mpd_wire::message::Phase;
use mpd_wire::{Pid, Rank, RankSet};

use crate::ending::Beginning;
use crate::fixture::{Host, Process};
use crate::input::{Completeness, Input};
use crate::output::{Action, FileKind, Output, Question};
use crate::shm::User;
use crate::signal_target::SignalTarget;
use crate::signals::{SIGKILL, SIGTERM};
use crate::text::Line;
use crate::{HELPER_PATIENCE, IMMUNE_PATIENCE, PATIENCE, STOP_PATIENCE};

/// All signals that the tests send and that can be handled.
const ALL: [i32; 2] = [SIGTERM, SIGUSR1];

const SIGCONT: i32 = 18;
const SIGUSR1: i32 = 10;
const SIGWINCH: i32 = 28;

fn term() -> Input {
    Input::Signal(SIGTERM, SignalTarget::Group)
}

fn sent(signal: i32) -> Output {
    Output::Ask(Question::Signal(signal, SignalTarget::Group))
}

fn stopped(pid: i32) -> Output {
    Output::Ask(Question::Stop(Pid(pid)))
}

fn helper(kind: FileKind, inodes: &[u64]) -> Output {
    Output::Ask(Question::StartHelper(kind, inodes.to_vec()))
}

/// Where an output is among these.
#[track_caller]
fn at(outputs: &[Output], wanted: &Output) -> usize {
    let found = outputs.iter().position(|output| output == wanted);
    found.unwrap_or_else(|| panic!("{wanted:?} is not among {outputs:#?}"))
}

/// Checks that these come in this order.
#[track_caller]
fn in_order(outputs: &[Output], wanted: &[Output]) {
    let places: Vec<usize> = wanted.iter().map(|output| at(outputs, output)).collect();
    assert!(places.is_sorted(), "{places:?} in {outputs:#?}");
}

fn is_kill_round(output: &Output) -> bool {
    matches!(output, Output::Ask(Question::KillChildren(_)))
}

fn ranks(count: usize) -> Vec<Process> {
    vec![Process::default(); count]
}

/// The helper reports that the job uses these inodes, and ends.
fn job_uses(host: &mut Host, inodes: &[u64]) -> Vec<Output> {
    let found = inodes.iter().map(|&inode| (inode, User::Job)).collect();
    let mut outputs = host.send(Input::Found(found));
    outputs.extend(host.send(Input::HelperEnded(Completeness::Complete)));
    outputs
}

/// A host whose job has used the file 7, and has no process any more.
fn with_a_file_left() -> Host {
    let mut host = Host::new([]);
    host.make(7);
    host.send(Input::Going);
    assert!(host.wait().contains(&helper(FileKind::New, &[7])));
    job_uses(&mut host, &[7]);
    host
}

// ----- signals -----

#[test]
fn a_signal_is_sent_when_the_processes_that_it_ends_are_still_and_a_helper_has_noted_what_they_use()
{
    let mut host = Host::new(ranks(2));
    host.make(7);
    let mut outputs = host.send(term());
    outputs.extend(host.wait());
    in_order(
        &outputs,
        &[
            Output::Ask(Question::Children),
            stopped(1),
            stopped(2),
            Output::PauseSearch,
            Output::Ask(Question::IsStill(Pid(1), false)),
            Output::Ask(Question::ShmTime),
            helper(FileKind::New, &[7]),
        ],
    );
    assert!(!outputs.contains(&sent(SIGTERM)) && host.machine.is_busy());
    let ended = job_uses(&mut host, &[7]);
    let note = leftovers::Note::File(host.files[0].id);
    let ours = [Pid(1), Pid(2)].into();
    in_order(
        &ended,
        &[
            Output::Act(Action::Note(Note::Leftovers(note))),
            sent(SIGTERM),
            Output::Act(Action::Continue(ours)),
        ],
    );
    assert!(!host.machine.is_busy());
}

#[test]
fn a_signal_that_everyone_handles_is_sent_at_once() {
    let mut host = Host::new([Process { handles: &ALL, ..Process::default() }]);
    let outputs = host.send(term());
    assert!(outputs.contains(&sent(SIGTERM)) && !outputs.contains(&stopped(1)));
    assert!(!host.machine.is_busy());
}

#[test]
fn a_signal_that_ends_no_process_is_sent_without_a_look() {
    let outputs = Host::new(ranks(1)).send(Input::Signal(SIGWINCH, SignalTarget::Group));
    assert_eq!(outputs, [sent(SIGWINCH)]);
}

#[test]
fn only_the_ranks_that_get_the_signal_are_stopped_and_no_process_that_left_their_group() {
    let mut host = Host::new(ranks(2));
    host.add(Process { parent: 2, ..Process::default() });
    let target = SignalTarget::Groups(RankSet::from_iter([Rank(1)]));
    let mut outputs = host.send(Input::Signal(SIGTERM, target.clone()));
    outputs.extend(host.wait());
    assert!(outputs.contains(&stopped(2)));
    assert!(!outputs.contains(&stopped(1)) && !outputs.contains(&stopped(3)));
    assert!(outputs.contains(&Output::Ask(Question::Signal(SIGTERM, target))));
}

#[test]
fn a_process_that_does_not_stop_delays_a_signal_by_the_patience_at_most() {
    let mut host = Host::new([Process { is_deep: true, ..Process::default() }]);
    host.send(term());
    let outputs = host.wait_for(&sent(SIGTERM));
    assert!(host.now >= Time::ZERO + PATIENCE && host.now < Time::ZERO + 2 * PATIENCE);
    assert!(outputs.contains(&Output::Act(Action::Continue([Pid(1)].into()))));
}

#[test]
fn a_helper_that_does_not_end_delays_a_signal_by_the_patience_at_most() {
    let mut host = Host::new(ranks(1));
    host.make(7);
    host.send(term());
    host.wait_for(&sent(SIGTERM));
    assert_eq!(host.now, Time::ZERO + PATIENCE);
}

#[test]
fn without_a_helper_a_signal_is_sent_when_all_are_still() {
    let mut host = Host::new(ranks(1));
    host.make(7);
    host.helper_fails = true;
    host.send(term());
    assert!(host.wait().contains(&sent(SIGTERM)));
}

#[test]
fn a_signal_that_waits_does_not_wait_twice() {
    let mut host = Host::new([Process { is_deep: true, ..Process::default() }]);
    for _ in 0..3 {
        host.send(term());
    }
    let outputs = host.wait_for(&sent(SIGTERM));
    assert_eq!(outputs.iter().filter(|&output| *output == sent(SIGTERM)).count(), 1);
}

#[test]
fn a_second_signal_waits_for_a_stop_of_its_own_and_the_first_one_does_not_wait_for_that() {
    let handles = Process { handles: &[SIGTERM], ..Process::default() };
    let mut host = Host::new([Process::default(), handles]);
    host.make(7);
    let mut outputs = host.send(term());
    outputs.extend(host.send(Input::Signal(SIGUSR1, SignalTarget::Group)));
    outputs.extend(host.send(Input::Continue));
    assert!(outputs.contains(&helper(FileKind::New, &[7])));
    assert!(!outputs.contains(&stopped(2)), "the first signal does not end it");
    outputs.extend(job_uses(&mut host, &[7]));
    host.make(8);
    outputs.extend(host.wait_for(&helper(FileKind::New, &[8])));
    assert!(!outputs.contains(&sent(SIGUSR1)));
    outputs.extend(job_uses(&mut host, &[8]));
    in_order(
        &outputs,
        &[sent(SIGTERM), stopped(2), sent(SIGUSR1), Output::Act(Action::ContinueDescendants)],
    );
    assert!(!host.machine.is_busy());
}

#[test]
fn a_second_signal_waits_no_longer_than_the_patience_behind_the_first_one() {
    let handles = Process { handles: &[SIGTERM], is_deep: true, ..Process::default() };
    let mut host = Host::new([Process { is_deep: true, ..Process::default() }, handles]);
    host.send(term());
    host.send(Input::Signal(SIGUSR1, SignalTarget::Group));
    host.wait_for(&sent(SIGUSR1));
    assert!(host.now < Time::ZERO + 2 * PATIENCE + Duration::from_millis(10));
}

#[test]
fn a_signal_during_the_kill_is_sent_at_once() {
    let foreign = Process { is_foreign: true, ..Process::default() };
    let mut host = Host::new([foreign]);
    host.send(Input::Kill);
    host.wait_for(&Output::Ask(Question::KillChildren(BTreeSet::new())));
    assert_eq!(host.send(Input::Signal(SIGUSR1, SignalTarget::Group)), [sent(SIGUSR1)]);
}

#[test]
fn a_refused_request_to_end_is_reported_and_another_refused_signal_is_not() {
    let foreign = Process { is_foreign: true, handles: &ALL, ..Process::default() };
    let mut host = Host::new([foreign]);
    let refused = |signal| Output::SignalRefused(signal, vec![Pid(1)]);
    assert!(host.send(term()).contains(&refused(SIGTERM)));
    let outputs = host.send(Input::Signal(SIGUSR1, SignalTarget::Group));
    assert!(outputs.contains(&sent(SIGUSR1)) && !outputs.contains(&refused(SIGUSR1)));
}

// ----- stops -----

#[test]
fn a_stop_is_complete_when_every_descendant_is_stopped_also_those_forked_meanwhile() {
    let mut host = Host::new([Process { forks: 3, ..Process::default() }]);
    assert!(!host.send(Input::Stop).contains(&Output::TreeStopped));
    assert!(host.machine.is_stopping() && host.machine.is_busy());
    host.wait_for(&Output::TreeStopped);
    assert_eq!(host.processes.len(), 4);
    assert!(host.processes.values().all(|process| process.is_stopped));
}

#[test]
fn a_process_that_does_not_stop_delays_a_stop_by_a_second_at_most() {
    let mut host = Host::new([Process { is_deep: true, ..Process::default() }]);
    host.send(Input::Stop);
    host.wait_for(&Output::TreeStopped);
    let late = host.now - (Time::ZERO + STOP_PATIENCE);
    assert!(late < Duration::from_millis(5), "{late:?}");
}

#[test]
fn a_signal_to_stopped_processes_is_pending_and_the_continue_comes_behind_it() {
    let mut host = Host::new(ranks(1));
    host.send(Input::Stop);
    host.wait_for(&Output::TreeStopped);
    let mut outputs = host.send(term());
    outputs.extend(host.wait());
    assert!(outputs.contains(&sent(SIGTERM)));
    let continues = |output: &Output| matches!(output, Output::Act(Action::Continue(_)));
    assert!(!outputs.iter().any(continues), "the user has stopped it");
    let continued = host.send(Input::Continue);
    in_order(
        &continued,
        &[Output::Act(Action::ContinueDescendants), Output::Act(Action::ContinueAdopted)],
    );
    assert!(!host.machine.is_stopping());
}

#[test]
fn a_continue_during_a_stop_for_a_signal_comes_behind_the_signal() {
    let mut host = Host::new([Process { is_deep: true, ..Process::default() }]);
    host.send(term());
    let mut outputs = host.send(Input::Continue);
    outputs.extend(host.wait_for(&Output::Act(Action::ContinueDescendants)));
    in_order(&outputs, &[sent(SIGTERM), Output::Act(Action::ContinueDescendants)]);
}

#[test]
fn a_stop_does_not_stop_the_helper_for_which_a_signal_or_a_kill_waits() {
    for order in [term(), Input::Kill] {
        let mut host = Host::new([Process { is_deep: true, ..Process::default() }]);
        host.make(7);
        host.send(Input::Stop);
        let mut outputs = host.send(order);
        host.processes.values_mut().for_each(|process| process.is_deep = false);
        while !outputs.contains(&helper(FileKind::New, &[7])) {
            outputs = host.wait();
        }
        let pid = host.add(Process::default());
        for _ in 0..5 {
            assert!(!host.wait().contains(&stopped(pid)));
        }
    }
}

#[test]
fn a_kill_of_stopped_processes_ends_them_and_continues_none() {
    let mut host = Host::new(ranks(2));
    host.send(Input::Stop);
    host.wait_for(&Output::TreeStopped);
    let mut outputs = host.send(Input::Kill);
    outputs.extend(host.wait_for(&Output::TreeGone));
    let continues = |it: &Output| {
        matches!(it, Output::Act(Action::Continue(_)) | Output::Act(Action::ContinueDescendants))
    };
    assert!(!outputs.iter().any(continues) && host.processes.is_empty());
}

// ----- the kill -----

#[test]
fn a_kill_stops_and_notes_every_process_before_the_first_is_killed() {
    let mut host = Host::new(ranks(1));
    host.add(Process { parent: 1, handles: &ALL, ..Process::default() });
    let mut outputs = host.send(Input::Kill);
    assert!(host.machine.is_kill());
    outputs.extend(host.wait_for(&Output::TreeGone));
    let kill = Output::Ask(Question::KillChildren(BTreeSet::new()));
    let alive = |pid, begin| Output::Ask(Question::Life(Pid(pid), begin, false));
    in_order(
        &outputs,
        &[
            Output::Killing,
            Output::Begin(Phase::Kill),
            Output::KillAdopted,
            Output::PauseSearch,
            stopped(1),
            stopped(2),
            Output::Ask(Question::Clocks),
            alive(1, Some(0)),
            alive(2, None),
            kill.clone(),
            Output::Reap,
            Output::End(Phase::Kill),
            Output::TreeGone,
        ],
    );
    assert!(host.processes.is_empty() && !host.machine.is_kill());
    // A process is noted before it is reaped.
    assert!(outputs.contains(&Output::Ask(Question::Life(Pid(1), Some(0), true))));
}

#[test]
fn processes_that_escape_by_forks_are_found_by_further_looks_before_the_kill() {
    let forks = Process { forks: 20, ..Process::default() };
    let mut host = Host::new([forks.clone(), forks]);
    let mut outputs = host.send(Input::Kill);
    outputs.extend(host.wait_for(&Output::TreeGone));
    let first = outputs.iter().position(is_kill_round).unwrap();
    for pid in 1..=42 {
        assert!(at(&outputs, &stopped(pid)) < first, "{pid}");
    }
    assert!(host.processes.is_empty() && host.now < Time::ZERO + PATIENCE);
}

#[test]
fn a_kill_waits_for_processes_that_do_not_stop_by_the_patience_and_kills_round_by_round() {
    let endless = Process { forks: u32::MAX, ..Process::default() };
    let mut host = Host::new([endless]);
    let mut outputs = host.send(Input::Kill);
    outputs.extend(host.wait_for(&Output::TreeGone));
    let late = host.now - (Time::ZERO + PATIENCE);
    assert!(late < Duration::from_millis(50), "{late:?}");
    assert!(outputs.contains(&Output::Ask(Question::Descendants)), "not all are known");
    assert!(outputs.iter().filter(|&output| is_kill_round(output)).count() > 1);
    assert!(host.processes.is_empty());
}

#[test]
fn a_kill_gives_the_helper_a_patience_of_its_own() {
    let mut host = Host::new([Process { is_deep: true, ..Process::default() }]);
    host.make(7);
    host.send(Input::Kill);
    let helper = helper(FileKind::New, &[7]);
    host.wait_for(&helper);
    let began = host.now;
    host.wait_for(&Output::TreeGone);
    assert!(began >= Time::ZERO + PATIENCE && host.now >= began + PATIENCE);
}

#[test]
fn a_kill_during_a_stop_for_a_signal_also_stops_those_that_survive_the_signal() {
    let survivor = Process { handles: &ALL, ..Process::default() };
    let mut host = Host::new([Process { is_deep: true, ..Process::default() }, survivor]);
    assert!(!host.send(term()).contains(&stopped(2)));
    let mut outputs = host.send(Input::Kill);
    assert!(outputs.contains(&stopped(2)));
    outputs.extend(host.wait_for(&Output::TreeGone));
    assert_eq!(outputs.iter().filter(|&output| *output == Output::Killing).count(), 1);
}

#[test]
fn a_kill_during_a_signal_also_stops_a_child_of_a_process_that_is_still_already() {
    let mut host = Host::new(ranks(1));
    let child = host.add(Process { parent: 1, ..Process::default() });
    host.make(7);
    host.send(term());
    let outputs = host.wait();
    assert!(outputs.contains(&helper(FileKind::New, &[7])) && !outputs.contains(&stopped(child)));
    let mut outputs = host.send(Input::Kill);
    outputs.extend(host.wait_for(&Output::TreeGone));
    let note = Output::Ask(Question::Life(Pid(child), None, false));
    let kill = Output::Ask(Question::KillChildren(BTreeSet::new()));
    in_order(&outputs, &[stopped(child), note, kill]);
}

#[test]
fn a_continue_that_waits_has_no_effect_on_processes_that_are_killed() {
    let mut host = Host::new([Process { is_deep: true, ..Process::default() }]);
    host.send(term());
    host.send(Input::Continue);
    host.send(Input::Kill);
    let outputs = host.wait_for(&Output::TreeGone);
    assert!(
        outputs.contains(&sent(SIGTERM))
            && !outputs.contains(&Output::Act(Action::ContinueDescendants))
    );
}

#[test]
fn a_signal_to_continue_that_waits_has_no_effect_on_processes_that_are_killed() {
    let mut host = Host::new([Process { is_deep: true, ..Process::default() }]);
    host.send(term());
    host.send(Input::Signal(SIGCONT, SignalTarget::Group));
    host.send(Input::Kill);
    let outputs = host.wait_for(&Output::TreeGone);
    assert!(outputs.contains(&sent(SIGTERM)) && !outputs.contains(&sent(SIGCONT)));
}

#[test]
fn a_second_kill_changes_nothing() {
    let mut host = Host::new([Process { is_deep: true, ..Process::default() }]);
    host.send(Input::Kill);
    let outputs = host.send(Input::Kill);
    assert!(!outputs.contains(&Output::Begin(Phase::Kill)));
    let outputs = host.wait_for(&Output::TreeGone);
    assert_eq!(outputs.iter().filter(|&output| *output == Output::TreeGone).count(), 1);
}

#[test]
fn the_kill_is_over_once_when_no_child_is_left() {
    let mut host = Host::new([]);
    assert_eq!(host.send(Input::NoChild), [], "no kill was ordered");
    let outputs = host.send(Input::Kill);
    in_order(&outputs, &[Output::Reap, Output::TreeGone]);
    assert_eq!(host.send(Input::NoChild), []);
    assert_eq!(host.machine.poll_timeout(), None);
}

#[test]
fn processes_that_refuse_the_kill_are_named_after_a_second_and_left() {
    let foreign = Process { is_foreign: true, ..Process::default() };
    let mut host = Host::new([foreign, Process::default()]);
    host.send(Input::Kill);
    let named = Output::LeftRunning(vec![Pid(1)]);
    let outputs = host.wait_for(&named);
    assert!(host.now >= Time::ZERO + IMMUNE_PATIENCE);
    in_order(&outputs, &[named, Output::Unkillable(Pid(1)), Output::TreeGone]);
    assert_eq!(host.processes.len(), 1);
    assert!(!host.machine.is_kill());
}

#[test]
fn a_process_that_ends_within_the_second_is_not_named() {
    let foreign = Process { is_foreign: true, ..Process::default() };
    let mut host = Host::new([foreign]);
    let mut outputs = host.send(Input::Kill);
    for _ in 0..20 {
        outputs.extend(host.wait());
    }
    host.processes.clear();
    outputs.extend(host.wait());
    assert!(outputs.contains(&Output::TreeGone));
    assert!(!outputs.iter().any(|output| matches!(output, Output::LeftRunning(_))));
}

#[test]
fn ranks_are_killed_by_their_numbers_if_the_system_lists_no_children() {
    let mut host = Host::new(ranks(2));
    host.hides_children = true;
    let outputs = host.send(Input::Kill);
    in_order(&outputs, &[sent(SIGKILL), Output::Reap, Output::TreeGone]);
    let mut host = Host::new([Process { is_foreign: true, ..Process::default() }]);
    host.hides_children = true;
    host.send(Input::Kill);
    let next = host.machine.poll_timeout().unwrap();
    assert_eq!(next, host.now + Duration::from_millis(100));
}

// ----- control groups -----

fn with_group(in_group: bool) -> Host {
    let beginning = Beginning { has_group: true, ..Beginning::default() };
    let mut host = Host::with(beginning, [Process { in_group, ..Process::default() }]);
    host.add(Process::default());
    host
}

#[test]
fn a_group_is_frozen_before_a_signal_and_runs_again_behind_it() {
    let mut host = with_group(true);
    let mut outputs = host.send(term());
    outputs.extend(host.wait());
    let asked = [Question::Children, Question::Freeze, Question::IsFrozen, Question::Members];
    let mut expected: Vec<Output> = asked.into_iter().map(Output::Ask).collect();
    expected.extend([sent(SIGTERM), Output::Act(Action::Unfreeze)]);
    in_order(&outputs, &expected);
    assert!(!outputs.contains(&stopped(1)), "it is frozen");
    assert!(!outputs.contains(&stopped(2)), "the signal is not for it");
}

#[test]
fn a_kill_notes_the_members_of_the_group_and_runs_it_again_only_after_it_was_killed() {
    let mut host = with_group(true);
    let mut outputs = host.send(Input::Kill);
    outputs.extend(host.wait_for(&Output::TreeGone));
    in_order(
        &outputs,
        &[
            Output::Ask(Question::Freeze),
            stopped(2),
            Output::Ask(Question::Life(Pid(1), Some(0), false)),
            Output::Ask(Question::RemoveEmptyGroup),
            Output::Act(Action::KillGroup),
            Output::Act(Action::Unfreeze),
            Output::Ask(Question::KillChildren(BTreeSet::new())),
            Output::TreeGone,
        ],
    );
    assert!(!outputs.contains(&stopped(1)));
}

#[test]
fn an_empty_group_is_removed_instead_of_killed() {
    let mut host = with_group(false);
    let mut outputs = host.send(Input::Kill);
    outputs.extend(host.wait_for(&Output::TreeGone));
    assert!(outputs.contains(&Output::Ask(Question::RemoveEmptyGroup)));
    assert!(!outputs.contains(&Output::Act(Action::KillGroup)));
    assert!(!host.send(Input::CleanUp).contains(&Output::Act(Action::RemoveGroup)), "it is gone");
}

#[test]
fn without_children_no_group_is_frozen() {
    let beginning = Beginning { has_group: true, ..Beginning::default() };
    let outputs = Host::with(beginning, []).send(Input::Kill);
    assert!(!outputs.contains(&Output::Ask(Question::Freeze)));
}

// ----- shared memory while the job runs -----

#[test]
fn the_intervals_between_looks_double_up_to_64_times_the_first() {
    let mut host = Host::new(ranks(1));
    host.send(Input::Going);
    let mut intervals = Vec::new();
    for _ in 0..9 {
        let before = host.now;
        assert_eq!(host.wait(), [Output::Ask(Question::ShmTime)]);
        intervals.push((host.now - before).as_millis());
    }
    assert_eq!(intervals, [20, 40, 80, 160, 320, 640, 1280, 1280, 1280]);
}

#[test]
fn one_helper_runs_at_a_time_and_it_ends_before_a_stop() {
    let mut host = Host::new(ranks(1));
    host.make(7);
    host.send(Input::Going);
    assert!(host.wait().contains(&helper(FileKind::New, &[7])));
    host.make(8);
    assert_eq!(host.wait(), [], "one runs");
    let outputs = host.send(Input::Kill);
    in_order(&outputs, &[Output::Act(Action::StopHelper), Output::PauseSearch]);
    let outputs = host.wait();
    assert!(outputs.contains(&helper(FileKind::New, &[7, 8])), "{outputs:?}");
}

#[test]
fn a_fence_is_over_at_once_in_a_job_that_ends_with_its_first_failure() {
    let mut host = Host::new(ranks(1));
    host.make(7);
    assert_eq!(host.send(Input::FenceOver(Rank(0))), [Output::ReleaseFence(Rank(0))]);
}

fn survivor() -> Host {
    let beginning = Beginning { survives_failures: true, ..Beginning::default() };
    Host::with(beginning, ranks(1))
}

#[test]
fn a_job_that_survives_failures_stays_in_its_fence_until_the_users_of_new_files_are_known() {
    let release = Output::ReleaseFence(Rank(0));
    let mut host = survivor();
    let outputs = host.send(Input::FenceOver(Rank(0)));
    in_order(&outputs, &[Output::Ask(Question::ShmTime), release.clone()]);
    host.make(7);
    assert!(!host.send(Input::FenceOver(Rank(0))).contains(&release));
    // A further file has appeared meanwhile.
    host.make(8);
    let outputs = job_uses(&mut host, &[7]);
    assert!(outputs.contains(&helper(FileKind::New, &[8])) && !outputs.contains(&release));
    assert!(job_uses(&mut host, &[8]).contains(&release));
}

#[test]
fn a_fence_is_held_for_two_seconds_at_most_and_not_for_a_helper_that_has_died() {
    let release = Output::ReleaseFence(Rank(0));
    let mut host = survivor();
    host.make(7);
    host.send(Input::FenceOver(Rank(0)));
    host.wait_for(&release);
    assert_eq!(host.now, Time::ZERO + HELPER_PATIENCE);
    let mut host = survivor();
    host.make(7);
    host.send(Input::FenceOver(Rank(0)));
    assert!(host.send(Input::HelperEnded(Completeness::Cut)).contains(&release));
}

#[test]
fn a_helper_that_hangs_delays_fences_once() {
    let release = Output::ReleaseFence(Rank(0));
    let mut host = survivor();
    host.make(7);
    host.send(Input::FenceOver(Rank(0)));
    host.wait_for(&release);
    let late = host.send(Input::FenceOver(Rank(1)));
    assert_eq!(late, [Output::ReleaseFence(Rank(1))], "it hangs");
    host.send(Input::HelperEnded(Completeness::Complete));
    host.make(8);
    let next = host.send(Input::FenceOver(Rank(0)));
    assert!(next.contains(&helper(FileKind::New, &[7, 8])) && !next.contains(&release));
}

#[test]
fn a_stop_ends_the_helper_for_which_a_fence_waits_and_the_fence_waits_for_the_next_one() {
    let release = Output::ReleaseFence(Rank(0));
    let mut host = survivor();
    host.make(7);
    host.send(Input::FenceOver(Rank(0)));
    let stop = host.send(Input::Stop);
    in_order(
        &stop,
        &[Output::Act(Action::StopHelper), Output::Ask(Question::Children), stopped(1)],
    );
    let outputs = host.wait_for(&Output::TreeStopped);
    assert!(!outputs.contains(&release));
    assert_eq!(host.machine.poll_timeout(), None, "a stopped job waits without a deadline");
    assert_eq!(host.send(Input::FenceOver(Rank(1))), [], "nor does it search");
    let outputs = host.send(Input::Continue);
    in_order(&outputs, &[Output::Act(Action::ContinueDescendants), helper(FileKind::New, &[7])]);
    let outputs = job_uses(&mut host, &[7]);
    in_order(&outputs, &[release, Output::ReleaseFence(Rank(1))]);
}

#[test]
fn a_stop_also_ends_a_helper_that_a_signal_has_left_behind() {
    let mut host = survivor();
    host.make(7);
    host.send(term());
    host.wait_for(&sent(SIGTERM));
    host.add(Process::default());
    assert!(host.send(Input::Stop).contains(&Output::Act(Action::StopHelper)));
}

// ----- the clean-up -----

#[test]
fn the_record_is_removed_last_and_everything_else_before() {
    let beginning = Beginning { has_group: true, since: 77, ..Beginning::default() };
    let mut host = Host::with(beginning, []);
    host.send(Input::Register(Registered { files: vec![b"/a".into()], ..Registered::default() }));
    let outputs = host.send(Input::CleanUp);
    let registered = Registered { files: vec![b"/a".into()], since: 77, ..Registered::default() };
    in_order(
        &outputs,
        &[
            Output::Begin(Phase::Cleanup),
            Output::Ask(Question::ShmTime),
            Output::Ask(Question::Clocks),
            Output::Act(Action::RemoveObjects),
            Output::Act(Action::RemoveRegistered(registered)),
            Output::Act(Action::RemoveRankGroups),
            Output::Act(Action::RemoveDirectory),
            Output::Act(Action::RemoveGroup),
            Output::Act(Action::RemoveRecord),
            Output::End(Phase::Cleanup),
            Output::TraceEnds,
            Output::CleanedUp,
        ],
    );
    assert_eq!(host.machine.poll_timeout(), None);
}

#[test]
fn what_a_program_registers_is_noted_with_the_time_at_which_the_job_began() {
    let beginning = Beginning { since: 77, ..Beginning::default() };
    let mut host = Host::with(beginning, []);
    let outputs = host.send(Input::Register(Registered::default()));
    let noted = Registered { since: 77, ..Registered::default() };
    assert_eq!(outputs, [Output::Act(Action::Note(Note::Registered(noted)))]);
}

#[test]
fn a_file_of_the_job_is_removed_when_a_helper_has_found_no_user_of_it() {
    let mut host = with_a_file_left();
    let outputs = host.send(Input::CleanUp);
    assert!(outputs.contains(&helper(FileKind::Left, &[7])));
    assert!(!outputs.contains(&Output::CleanedUp));
    let outputs = host.send(Input::HelperEnded(Completeness::Complete));
    assert!(outputs.contains(&Output::CleanedUp) && host.files.is_empty());
}

#[test]
fn a_file_of_the_job_that_another_program_uses_stays() {
    let mut host = with_a_file_left();
    host.send(Input::CleanUp);
    host.send(Input::Found(vec![(7, User::Stranger)]));
    let outputs = host.send(Input::HelperEnded(Completeness::Complete));
    let line = Line::Stays(vec!["/dev/shm/file-7".into()]);
    in_order(&outputs, &[Output::Act(Action::Log(line)), Output::CleanedUp]);
    assert_eq!(host.files.len(), 1);
}

#[test]
fn a_file_that_another_job_used_first_stays() {
    let mut host = Host::new([]);
    host.make(7);
    host.send(Input::Going);
    host.wait();
    host.send(Input::Found(vec![(7, User::Stranger), (7, User::Job)]));
    host.send(Input::HelperEnded(Completeness::Complete));
    let outputs = host.send(Input::CleanUp);
    assert!(outputs.contains(&Output::CleanedUp), "there is nothing to look for");
    assert_eq!(host.files.len(), 1);
}

#[test]
fn files_stay_and_all_else_is_removed_if_the_helper_dies() {
    let mut host = with_a_file_left();
    host.send(Input::CleanUp);
    let outputs = host.send(Input::HelperEnded(Completeness::Cut));
    in_order(
        &outputs,
        &[Output::Act(Action::StopHelper), Output::Act(Action::RemoveDirectory), Output::CleanedUp],
    );
    assert_eq!(host.files.len(), 1);
}

#[test]
fn files_stay_and_all_else_is_removed_if_the_helper_takes_two_seconds() {
    let mut host = with_a_file_left();
    let began = host.now;
    host.send(Input::CleanUp);
    let outputs = host.wait_for(&Output::CleanedUp);
    assert_eq!(host.now, began + HELPER_PATIENCE);
    in_order(
        &outputs,
        &[Output::Act(Action::StopHelper), Output::Act(Action::RemoveDirectory), Output::CleanedUp],
    );
    assert_eq!(host.files.len(), 1);
    // Its last word comes too late.
    assert_eq!(host.send(Input::HelperEnded(Completeness::Complete)), []);
}

#[test]
fn files_stay_if_no_helper_can_be_started() {
    let mut host = with_a_file_left();
    host.helper_fails = true;
    assert!(host.send(Input::CleanUp).contains(&Output::CleanedUp));
    assert_eq!(host.files.len(), 1);
}

#[test]
fn a_clean_up_ends_the_search_for_new_files_and_claims_those_with_names_of_the_job() {
    let mut host = Host::new([]);
    host.send(Input::World("kvs_1".to_owned()));
    host.make(6);
    host.send(Input::Going);
    assert!(host.wait().contains(&helper(FileKind::New, &[6])));
    host.make(7);
    let name = format!("/dev/shm/mpich_shm_{:x}_0", crate::named::hash("kvs_1"));
    host.files[1].path = name.into();
    let outputs = host.send(Input::CleanUp);
    in_order(&outputs, &[Output::Act(Action::StopHelper), helper(FileKind::Left, &[7])]);
    host.send(Input::HelperEnded(Completeness::Complete));
    assert_eq!(host.files.iter().map(|file| file.id.inode).collect::<Vec<_>>(), [6]);
    assert_eq!(host.machine.poll_timeout(), None);
}
