//! Signals that may end ranks, stops, and the kill of every process.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::Pid;
use mpd_wire::message::Phase;

use crate::ending::{Ending, Helper, Step, Timer, after};
use crate::errand::{Due, Errand, Purpose, Waiting};
use crate::input::{Answer, Killing};
use crate::output::{Action, Output, Question};
use crate::signal_target::SignalTarget;
use crate::signals::{SIGCONT, SIGKILL, asks_to_end, is_terminating};
use crate::still::{Progress, Still, Wanted};
use crate::{IMMUNE_PATIENCE, PATIENCE, STOP_PATIENCE};

/// The time between two rounds of killing while the system does not list the children.
const UNLISTED_INTERVAL: Duration = Duration::from_millis(100);

impl Ending {
    // ----- stop -----

    /// Stops every process of the job here.
    pub(crate) fn stop(&mut self, now: Time) {
        self.halt = Some((Still::begin(false), now + STOP_PATIENCE));
        self.timers.stop(Timer::Fences);
        self.look_at_halt(now);
    }

    pub(crate) fn look_at_halt(&mut self, now: Time) {
        // No look now: it would end the helper for which a signal, a kill or the clean-up waits.
        if self.step != Step::None || matches!(self.helper, Some(Helper::Left { .. })) {
            return self.end_look_at_halt(now, now, false);
        }
        // Fences that wait for this helper are held until the user continues the job. Then they wait for the next helper.
        self.stop_helper();
        if let Some((still, _)) = &mut self.halt {
            let question = still.look(Wanted::All);
            self.ask(question, Waiting::Look(Purpose::Halt(now)));
        }
    }

    fn end_look_at_halt(&mut self, now: Time, began: Time, is_complete: bool) {
        let Some((_, until)) = &self.halt else { return };
        if is_complete || began >= *until {
            self.report(Output::TreeStopped);
        } else {
            self.timers.set(Timer::Stopping, after(now, began));
        }
    }

    /// Continues every stopped process of the job here, after the pending actions.
    pub(crate) fn continue_all(&mut self) {
        self.halt = None;
        self.add(Due::Continue);
        self.agenda.follow([Errand::Proceed]);
    }

    // ----- looks -----

    /// Continues a look at the processes.
    pub(crate) fn go_on(&mut self, now: Time, purpose: Purpose, answer: Answer) {
        let still = match (&purpose, &mut self.halt) {
            (Purpose::Halt(_), Some((still, _))) => still,
            (Purpose::Signal(..) | Purpose::Action(..) | Purpose::Halt(_), _) => &mut self.still,
        };
        match still.take(answer) {
            Progress::Ask(question) => self.ask(question, Waiting::Look(purpose)),
            Progress::Done(is_complete) => match purpose {
                Purpose::Halt(began) => self.end_look_at_halt(now, began, is_complete),
                Purpose::Action(began, until) => self.end_look(began, until, is_complete),
                Purpose::Signal(began, signal) => self.begin_signal(now, began, signal),
            },
        }
    }

    // ----- signals and the kill -----

    /// Sends a signal to ranks that run here.
    pub(crate) fn signal(&mut self, now: Time, (signal, target): (i32, SignalTarget)) {
        if self.step != Step::None {
            self.add(Due::Signal(signal, target));
            self.agenda.follow([Errand::Proceed]);
        } else if is_terminating(signal) && self.kills.is_none() {
            self.still = Still::begin(self.has_group);
            let question = self.still.look(Wanted::Affected(signal, target.clone()));
            self.ask(question, Waiting::Look(Purpose::Signal(now, (signal, target))));
        } else {
            self.begin_signal(now, now, (signal, target));
        }
    }

    /// A signal that ends no process is sent at once. Any other waits until all processes that it will end are still.
    fn begin_signal(&mut self, now: Time, began: Time, (signal, target): (i32, SignalTarget)) {
        if self.still.is_empty() {
            return self.ask(Question::Signal(signal, target), Waiting::Signalled(signal));
        }
        self.begin_stop(now);
        self.add(Due::Signal(signal, target));
        self.timers.set(Timer::Next, after(now, began));
    }

    /// Kills every process of the job here, and each further one that appears among the descendants.
    pub(crate) fn kill(&mut self, now: Time) {
        self.report(Output::Killing);
        if !self.is_kill() {
            self.report(Output::Begin(Phase::Kill));
            self.report(Output::KillAdopted);
            self.add(Due::Kill);
            if self.step == Step::None {
                self.still = Still::begin(self.has_group);
            }
            // Processes that survive a signal are killed.
            self.still.judge_again();
            self.begin_stop(now);
        }
        self.agenda.follow([Errand::Proceed]);
    }

    /// Adds a pending action. Like a pending signal of the kernel, it is not added twice.
    pub(crate) fn add(&mut self, due: Due) {
        if !self.due.contains(&due) {
            self.due.push_back(due);
        }
    }

    fn begin_stop(&mut self, now: Time) {
        // A running helper is a descendant, too. The next helper finds what this one would have found.
        self.stop_helper();
        self.report(Output::PauseSearch);
        self.step = Step::Stop(now + PATIENCE);
    }

    /// Takes the next step if it is due: when a helper has ended, and at the timer [`Timer::Next`].
    pub(crate) fn proceed(&mut self, now: Time) {
        let Step::Stop(until) = self.step else {
            return self.agenda.follow([Errand::TakeStep(now)]);
        };
        let wanted = match self.due.front() {
            _ if self.is_kill() => Wanted::All,
            Some(Due::Signal(signal, target)) => Wanted::Affected(*signal, target.clone()),
            Some(Due::Continue | Due::Kill) | None => return self.end_look(now, until, true),
        };
        let question = self.still.look(wanted);
        self.ask(question, Waiting::Look(Purpose::Action(now, until)));
    }

    /// Ends the stop if all are still, or if it took too long.
    fn end_look(&mut self, began: Time, until: Time, is_complete: bool) {
        self.agenda.follow([Errand::TakeStep(began)]);
        if is_complete || began >= until {
            self.agenda.follow([Errand::FindNew, Errand::BeginNote(began, until)]);
        }
    }

    pub(crate) fn begin_note(&mut self, began: Time, until: Time) {
        self.step = Step::Note(if self.is_kill() { began + PATIENCE } else { until });
    }

    pub(crate) fn take_step(&mut self, now: Time, began: Time) {
        match self.step {
            Step::Stop(_) => self.agenda.follow([Errand::Round(began, Some(after(now, began)))]),
            Step::Note(until) if began < until && self.helper.is_some() => {
                self.agenda.follow([Errand::Round(began, Some(until))]);
            }
            Step::None | Step::Note(_) => {
                self.step = Step::None;
                self.agenda.follow([Errand::PerformDue(false), Errand::Round(began, None)]);
            }
        }
    }

    pub(crate) fn perform_due(&mut self, now: Time, continues: bool) {
        match self.due.pop_front() {
            None => self.agenda.follow([Errand::Release(continues)]),
            Some(Due::Continue) => self.agenda.follow([Errand::PerformNext(true)]),
            // No process runs again before its kill.
            Some(Due::Signal(SIGCONT, _)) if self.is_kill() => {
                self.agenda.follow([Errand::PerformNext(continues)]);
            }
            Some(Due::Signal(signal, target)) => {
                self.agenda.follow([Errand::PerformNext(continues)]);
                self.ask(Question::Signal(signal, target), Waiting::Signalled(signal));
            }
            Some(Due::Kill) => {
                self.kills = Some(now);
                let next = Errand::PerformNext(continues);
                self.agenda.follow([Errand::NoteLiving, Errand::KillGroup, next]);
            }
        }
    }

    /// Performs a further pending action. The stop was for the first signal. Processes that survive it may die of the next
    /// one, which gets a stop of its own. A stop for a kill is for all.
    pub(crate) fn perform_next(&mut self, now: Time, continues: bool) {
        let ends_processes =
            matches!(self.due.front(), Some(Due::Signal(signal, _)) if is_terminating(*signal));
        if !ends_processes || self.is_kill() {
            return self.perform_due(now, continues);
        }
        if continues {
            self.add(Due::Continue);
        }
        self.still.judge_again();
        self.begin_stop(now);
        self.agenda.follow([Errand::Proceed]);
    }

    /// Reports a refused signal that asks to end, since it would otherwise have no visible effect.
    pub(crate) fn report_refused(&mut self, signal: i32, refused: Vec<Pid>) {
        if !refused.is_empty() && asks_to_end(signal) {
            self.report(Output::SignalRefused(signal, refused));
        }
    }

    /// Notes all processes, before they are killed.
    pub(crate) fn note_living(&mut self) {
        if self.still.is_complete() {
            self.note(self.still.pids());
        } else {
            self.ask(Question::Descendants, Waiting::Living);
        }
    }

    pub(crate) fn note(&mut self, living: VecDeque<Pid>) {
        self.agenda.follow([Errand::NoteClocks, Errand::NoteLives(living)]);
    }

    pub(crate) fn note_lives(&mut self, mut pids: VecDeque<Pid>) {
        if let Some(pid) = pids.pop_front() {
            self.agenda.follow([Errand::NoteLives(pids)]);
            self.ask(Question::Life(pid, self.noted.begin_of(pid), false), Waiting::Life);
        }
    }

    /// An empty group needs no kill, and its removal proves that it is empty.
    pub(crate) fn kill_group(&mut self) {
        if self.has_group {
            self.ask(Question::RemoveEmptyGroup, Waiting::GroupRemoved);
        }
    }

    pub(crate) fn note_group_removed(&mut self, is_removed: bool) {
        self.has_group = !is_removed;
        if self.has_group {
            self.report(Output::Act(Action::KillGroup));
        }
    }

    /// Lets processes that are still run again, unless they are killed or stopped by the user.
    pub(crate) fn release(&mut self, continues: bool) {
        let still = mem::take(&mut self.still);
        let is_frozen = still.is_frozen();
        let resumes = self.kills.is_none() && !self.is_stopping();
        let ours = still.into_ours();
        if resumes && !ours.is_empty() {
            self.report(Output::Act(Action::Continue(ours)));
        }
        if resumes && is_frozen {
            self.report(Output::Act(Action::Unfreeze));
        }
        // A process that runs again before its kill could make objects that are not noted.
        if continues && self.kills.is_none() {
            self.report(Output::Act(Action::ContinueDescendants));
            self.report(Output::Act(Action::ContinueAdopted));
        }
        if !resumes && is_frozen {
            self.report(Output::Act(Action::Unfreeze));
        }
        if resumes {
            self.agenda.follow([Errand::ReleaseFences]);
        }
    }

    pub(crate) fn begin_round(&mut self, now: Time, began: Time, next: Option<Time>) {
        if self.kills.is_some() {
            let spared = self.survivors.clone();
            self.ask(Question::KillChildren(spared), Waiting::Round(began, now));
        } else if let Some(at) = next {
            self.timers.set(Timer::Next, at);
        }
    }

    pub(crate) fn end_round(
        &mut self,
        now: Time,
        (began, round_began): (Time, Time),
        Killing { immune, found_any }: Killing,
    ) {
        self.give_up(now, immune);
        let next = if found_any { after(now, round_began) } else { began + UNLISTED_INTERVAL };
        self.timers.set(Timer::Next, next);
        // The last child may just have been reaped. Otherwise the system does not list them now: at least the ranks are
        // known.
        if !found_any {
            let question = Question::Signal(SIGKILL, SignalTarget::Group);
            self.agenda.follow([Errand::Reap]);
            return self.ask(question, Waiting::RanksKilled);
        }
        self.report(Output::Reap);
    }

    /// Gives up processes that still refuse the kill: they belong to another user now.
    fn give_up(&mut self, now: Time, immune: Vec<Pid>) {
        let is_late = self.kills.is_some_and(|since| now >= since + IMMUNE_PATIENCE);
        if immune.is_empty() || !is_late {
            return;
        }
        self.report(Output::LeftRunning(immune.clone()));
        for pid in immune {
            self.survivors.insert(pid);
            self.report(Output::Unkillable(pid));
        }
    }

    /// Some children live, and none is dead. The kill is over if all of them were given up.
    pub(crate) fn look_for_survivors(&mut self) {
        if self.kills.is_some() && !self.survivors.is_empty() {
            self.ask(Question::Children, Waiting::OnlySurvivors);
        }
    }

    /// Reports that the kill is over.
    pub(crate) fn report_gone(&mut self) {
        self.timers.stop(Timer::Next);
        self.report(Output::End(Phase::Kill));
        self.report(Output::TreeGone);
    }
}
