//! The machine, and the way of its inputs and answers.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use mpd_leftovers as leftovers;
use mpd_leftovers::{Before, FileId, Known, Reading};
use mpd_sansio::{Agenda, Time, Timers, UNDRAINED};
use mpd_wire::{Pid, Rank};

use crate::errand::{Due, Errand, Waiting};
use crate::input::{Answer, Input};
use crate::named::Named;
use crate::noted::Noted;
use crate::output::{Output, Question};
use crate::shm::ShmWatch;
use crate::still::Still;

/// The least time between two rounds of killing, or between two checks whether everything is stopped. A round of
/// killing follows at once when a child has ended.
const INTERVAL: Duration = Duration::from_millis(1);

/// The time between two such rounds or checks is at least this often the time of the first: with thousands of processes
/// one takes milliseconds.
const SHARE: u32 = 3;

/// The most time between two such rounds or checks. The first one reads the state of each process, and takes much
/// longer than the others.
const MAX_INTERVAL: Duration = Duration::from_millis(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Continue with waiting signals, or with killing.
    Next,
    /// Check whether everything is stopped.
    Stopping,
    /// Look for the n-th time for new files of /dev/shm that the job uses.
    Shm(u8),
    /// Stop waiting for the users of the files that are left.
    ShmUsers,
    /// Stop holding fences until the users of new files are known.
    Fences,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Step {
    #[default]
    None,
    /// Processes are being stopped. At that time the next step begins in any case.
    Stop(Time),
    /// A helper looks for what they use. At that time the next step begins in any case.
    Note(Time),
}

/// A running helper.
#[derive(Debug)]
pub(crate) enum Helper {
    /// It finds users of new files. The flag: fences have waited for it for as long as they may.
    New { is_late: bool },
    /// It finds users of the files that are left. The inodes of those in use.
    Left { in_use: BTreeSet<u64> },
}

/// What is known when the job begins here.
#[derive(Clone, Debug, Default)]
pub struct Beginning {
    /// The System V objects that exist.
    pub before: Before,
    /// The files of `/dev/shm` that exist.
    pub files: BTreeSet<FileId>,
    /// When one of them was last created or removed, in nanoseconds since 1970, if that is known.
    pub changed: Option<u64>,
    /// The time before they were listed, in nanoseconds since 1970.
    pub began: u64,
    /// The time by the clock of files, in microseconds since 1970.
    pub since: u64,
    /// Whether the job has a control group.
    pub has_group: bool,
    /// Whether the job continues after failures.
    pub survives_failures: bool,
}

/// The pending signals and stops, the kill, and the clean-up of a job on one host.
///
/// It is driven as every machine: after each call, the owner takes all outputs before the next call. If the last one is
/// [`Output::Ask`], the next call has the answer.
#[derive(Debug)]
pub struct Ending {
    pub(crate) step: Step,
    /// Pending actions in order, each at most once.
    pub(crate) due: VecDeque<Due>,
    pub(crate) still: Still,
    /// When killing began, while every process that is found is killed.
    pub(crate) kills: Option<Time>,
    /// Processes that cannot be killed. The user has a message about them.
    pub(crate) survivors: BTreeSet<Pid>,
    /// Everything here is stopped or about to be stopped, so nothing is started. Until that time processes that are
    /// not stopped are waited for.
    pub(crate) halt: Option<(Still, Time)>,
    pub(crate) has_group: bool,
    pub(crate) timers: Timers<Timer>,
    pub(crate) helper: Option<Helper>,
    /// Worlds whose ranks stay in their fence until the users of new files are known.
    pub(crate) fences: Vec<Rank>,
    pub(crate) survives_failures: bool,
    pub(crate) watch: ShmWatch,
    /// Files in `/dev/shm` that are the job's by their names.
    pub(crate) named: Named,
    pub(crate) noted: Noted,
    pub(crate) agenda: Agenda<Errand, Waiting>,
    pub(crate) outputs: VecDeque<Output>,
}

impl Ending {
    /// The machine of a job that has made nothing here. Its first outputs are notes about the time before the job; `clocks`
    /// were read after all else.
    pub fn new(beginning: Beginning, clocks: Reading) -> Self {
        let Beginning { before, files, changed, began, since, has_group, survives_failures } =
            beginning;
        let mut outputs = VecDeque::new();
        let mut noted = Noted::new(since);
        for note in [leftovers::Note::Began(before), leftovers::Note::Clock(clocks.into())] {
            noted.add_later(note, &mut outputs);
        }
        Self {
            step: Step::None,
            due: VecDeque::new(),
            still: Still::default(),
            kills: None,
            survivors: BTreeSet::new(),
            halt: None,
            has_group,
            timers: Timers::default(),
            helper: None,
            fences: Vec::new(),
            survives_failures,
            watch: ShmWatch::start(began, files, changed),
            named: Named::default(),
            noted,
            agenda: Agenda::default(),
            outputs,
        }
    }

    /// Whether everything here is stopped or about to be stopped.
    pub const fn is_stopping(&self) -> bool {
        self.halt.is_some()
    }

    /// Whether processes are about to be stopped or ended.
    pub fn is_busy(&self) -> bool {
        self.step != Step::None || self.kills.is_some() || self.is_stopping()
    }

    /// Whether all processes are being killed, or will be.
    pub fn is_kill(&self) -> bool {
        self.kills.is_some() || self.due.contains(&Due::Kill)
    }

    /// What was noted about objects of the job.
    pub const fn known(&self) -> &Known {
        &self.noted.known
    }

    /// Takes one input.
    ///
    /// # Panics
    /// With an answer that does not fit the question.
    pub fn handle(&mut self, now: Time, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        match input {
            Input::Answer(answer) => self.take_answer(now, answer),
            other => {
                self.agenda.check_answered();
                self.begin(now, other);
            }
        }
        self.run(now);
    }

    /// Acts on every deadline at or before `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.agenda.follow([Errand::Expire(now)]);
        self.run(now);
    }

    /// The next output; `None` when all are taken.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Ending::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn begin(&mut self, now: Time, input: Input) {
        match input {
            // The caller has taken it.
            Input::Answer(_) => {}
            Input::Signal(signal, target) => self.signal(now, (signal, target)),
            Input::Stop => self.stop(now),
            Input::Continue => self.continue_all(),
            Input::Kill => self.kill(now),
            Input::CleanUp => self.clean_up(),
            Input::Going => self.set_first_look(now),
            Input::Started(pid, begin) => {
                self.ask(Question::Life(pid, begin, false), Waiting::Started(pid));
            }
            Input::Ended(pid) => self.forget(pid),
            Input::NoDeadChild => self.look_for_survivors(),
            Input::NoChild => self.end_kill(),
            Input::World(kvsname) => self.named.add(&kvsname),
            Input::Register(registered) => self.noted.register(registered, &mut self.outputs),
            Input::FenceOver(first) => self.end_fence(first),
            Input::Found(found) => self.note_found(found),
            Input::HelperEnded(end) => self.end_helper(end),
        }
    }

    /// Notes a process that is about to be reaped.
    fn forget(&mut self, pid: Pid) {
        self.ask(Question::Life(pid, self.noted.begin_of(pid), true), Waiting::Life);
        self.noted.forget_child(pid);
        self.still.forget(pid);
        self.halt.iter_mut().for_each(|(still, _)| still.forget(pid));
    }

    // ----- errands and questions -----

    fn run(&mut self, now: Time) {
        while let Some(errand) = self.agenda.next_errand() {
            self.perform(now, errand);
        }
    }

    /// Asks a question. Errands continue when it is answered.
    pub(crate) fn ask(&mut self, question: Question, waiting: Waiting) {
        self.agenda.ask(waiting);
        self.report(Output::Ask(question));
    }

    pub(crate) fn report(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    fn perform(&mut self, now: Time, errand: Errand) {
        match errand {
            Errand::Expire(at) => self.expire(now, at),
            Errand::Proceed => self.proceed(now),
            Errand::BeginNote(began, until) => self.begin_note(began, until),
            Errand::TakeStep(began) => self.take_step(now, began),
            Errand::PerformDue(continues) => self.perform_due(now, continues),
            Errand::PerformNext(continues) => self.perform_next(now, continues),
            Errand::NoteLiving => self.note_living(),
            Errand::NoteClocks => self.ask(Question::Clocks, Waiting::Clocks),
            Errand::NoteLives(pids) => self.note_lives(pids),
            Errand::KillGroup => self.kill_group(),
            Errand::Release(continues) => self.release(continues),
            Errand::Round(began, next) => self.begin_round(now, began, next),
            Errand::Reap => self.report(Output::Reap),
            Errand::LookWhileRunning => self.look_while_running(),
            Errand::FindNew => self.find_new(),
            Errand::SetLook(looks) => self.set_look(now, looks),
            Errand::HoldFence(first) => self.hold_fence(now, first),
            Errand::ReleaseFences => self.release_fences(),
            Errand::ReleaseUnlessLooking => self.release_unless_looking(now),
            Errand::Claim => self.begin_claim(),
            Errand::FindLeft => self.find_left(),
            Errand::FindUsers(left) => self.find_users(left),
            Errand::AwaitUsers => self.await_users(now),
            Errand::RemoveAll(in_use) => self.remove_all(in_use),
            Errand::RemoveObjects(in_use) => self.remove_objects(in_use),
            Errand::RemoveRest => self.remove_rest(),
        }
    }

    /// Acts on one deadline at or before that time, and then on the others.
    fn expire(&mut self, now: Time, at: Time) {
        let Some(timer) = self.timers.pop_expired(at) else { return };
        self.agenda.follow([Errand::Expire(at)]);
        match timer {
            Timer::Next => self.agenda.follow([Errand::Proceed]),
            Timer::Stopping => self.look_at_halt(now),
            Timer::Shm(looks) => {
                self.agenda.follow([Errand::LookWhileRunning, Errand::SetLook(looks)]);
            }
            Timer::ShmUsers => self.give_up_users(),
            Timer::Fences => self.give_up_new(),
        }
    }

    fn take_answer(&mut self, now: Time, answer: Answer) {
        match (self.agenda.answered(), answer) {
            (Some(Waiting::Look(purpose)), answer) => self.go_on(now, purpose, answer),
            (Some(Waiting::Signalled(signal)), Answer::Pids(refused)) => {
                self.report_refused(signal, refused);
            }
            // A round of killing follows in any case.
            (Some(Waiting::RanksKilled), Answer::Pids(_)) => {}
            (Some(Waiting::Round(began, round_began)), Answer::Killing(killing)) => {
                self.end_round(now, (began, round_began), killing);
            }
            (Some(Waiting::OnlySurvivors), Answer::Pids(children)) => {
                if children.iter().all(|pid| self.survivors.contains(pid)) {
                    self.end_kill();
                }
            }
            (Some(Waiting::Living), Answer::Pids(living)) => self.note(living.into()),
            (Some(Waiting::Clocks), Answer::Clocks(reading)) => {
                self.noted.add(leftovers::Note::Clock(reading.into()), &mut self.outputs);
            }
            (Some(Waiting::Started(pid)), Answer::Life(Some(life))) => {
                self.noted.add_child(pid, life, &mut self.outputs);
            }
            (Some(Waiting::Life), Answer::Life(Some(life))) => {
                self.noted.add(leftovers::Note::Process(life), &mut self.outputs);
            }
            // It is gone, and its number may be another one's.
            (Some(Waiting::Started(_) | Waiting::Life), Answer::Life(None)) => {}
            (Some(Waiting::GroupRemoved), Answer::Is(is_removed)) => {
                self.note_group_removed(is_removed);
            }
            (Some(Waiting::TimeForNew), Answer::ShmTime(changed)) => self.list_new(changed),
            (Some(Waiting::TimeForClaim), Answer::ShmTime(changed)) => self.list_to_claim(changed),
            (Some(Waiting::Files(listing)), Answer::ShmFiles(files, at)) => {
                self.take_files(listing, (files, at));
            }
            (Some(Waiting::Helper(kind)), Answer::Is(is_started)) => {
                self.note_helper(kind, is_started);
            }
            (waiting, answer) => unreachable!("{answer:?} does not answer {waiting:?}"),
        }
    }

    /// Ends the kill, if there is one.
    pub(crate) fn end_kill(&mut self) {
        if self.kills.take().is_some() {
            self.report_gone();
        }
    }
}

/// When a round that began at that time, and ends now, is to be repeated.
pub(crate) fn after(now: Time, began: Time) -> Time {
    now + ((now - began) * SHARE).clamp(INTERVAL, MAX_INTERVAL)
}
