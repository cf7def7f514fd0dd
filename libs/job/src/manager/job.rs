//! The root's decisions for the whole job: the first failure, the times of signals and of the kill, and the end of the
//! job.
//!
//! A [`Job`] does not know the other managers. It receives [`Up`] reports about the whole tree and gives [`Down`]
//! commands for the whole tree. A job of one host is no special case.
//!
//! ```text
//!              Ready            Started           failure, ^C, console lost, timeout
//! Preparing ---------> Starting -------> Running ----------------------------------> Ending
//!     |     (Go)           |                |                                           |
//!     |  StartFailed, Lost | failure        | all ranks ended     all ended, grace over |
//!     v                    v                v                                           v
//!  Killing <---------------+----------------+-------------------------------------------+
//!     | Gone (nothing that descends from a manager lives)
//!     v
//!  Draining -- Drained, or given up when the user interrupted --> CleaningUp -- Cleaned up --> Over
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::manager::rank_table::{Pmi, RankTable};
use crate::manager::retire;
use crate::manager::{
    Config, DRAIN_GRACE, FAILURE_GRACE, INTERRUPT_GRACE, Output, STOP_GRACE, TERMINATE_GRACE,
};
use mpd_events::Recorder;
use mpd_machine::{Time, Timers};
use mpd_wire::job::{AbortScope, Failure, HostSlices, MpiLibrary, OnFailure, RankEnd};
use mpd_wire::message::{Down, FenceGroup, HostChange, HostTurn, Up};
use mpd_wire::{DaemonName, Rank, RankSet};

/// The command that stops a program without a request of a console. No console gives a command this number.
const INTERRUPT: &str = "0 interrupt";

pub(super) const SIGHUP: u8 = 1;
pub(super) const SIGINT: u8 = 2;
const SIGQUIT: u8 = 3;
pub(super) const SIGKILL: u8 = 9;
pub(super) const SIGTERM: u8 = 15;
pub(super) const SIGTSTP: u8 = 20;
const SIGWINCH: u8 = 28;

/// An output of the root's decisions.
#[derive(Debug)]
pub(super) enum Act {
    /// For every manager, including this one.
    Command(Down),
    /// For the own process.
    Emit(Output),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The job has run for its time limit.
    Limit,
    /// The ranks have not ended by SIGINT or SIGHUP.
    Terminate,
    /// The ranks have not ended by SIGTERM.
    Kill,
    /// The ranks have not stopped by SIGTSTP.
    Stop,
    /// The reader of the output does not read.
    Drain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Preparing,
    Starting,
    Running,
    Ending,
    Killing,
    Draining,
    CleaningUp,
    Over,
}

/// One job, in the phases of the diagram at the top of this file.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) host_slices: HostSlices,
    pub(super) phase: Phase,
    /// Whether the command to start was sent.
    has_started: bool,
    pub(super) rank_table: RankTable,
    /// Tree indices of managers that cannot be reached, with their subtrees.
    pub(super) lost: BTreeSet<usize>,
    on_failure: OnFailure,
    abort_scope: AbortScope,
    failure: Option<Failure>,
    /// The first rank of the first world that uses an MPI library without PMI, and that library.
    alone: Option<(Rank, String)>,
    /// No rank of this job may start any more, and the console may submit the job again.
    withdrawn: bool,
    /// Do not wait for a reader that does not read: the user requested the end, or the limit is over.
    skip_drain: bool,
    /// The signal by which the user requested the end of the job.
    wanted_end: Option<u8>,
    /// The failure to report if output is discarded because its reader does not read.
    final_failure: Option<Failure>,
    /// The user requested a stop of all processes.
    pub(super) suspended: bool,
    /// All processes are stopped.
    stopped: bool,
    /// Counts the commands to stop.
    round: u32,
    /// Signals that came before all ranks had started.
    early: Vec<Down>,
    limit: Option<Duration>,
    /// The ranks are debuggers. The debugger's user handles failures of their programs.
    pub(super) debugged: bool,
    /// Ranks may end with 0 at any time.
    pub(super) elastic: bool,
    /// A user has retired ranks.
    pub(super) has_retired: bool,
    pub(super) recorder: Recorder,
    timers: Timers<Timer>,
    acts: VecDeque<Act>,
}

impl Job {
    pub(super) fn new(config: &Config<'_>) -> Self {
        Self {
            host_slices: config.host_slices.clone(),
            phase: Phase::Preparing,
            has_started: false,
            rank_table: RankTable::of(config.size, config.host_slices),
            lost: BTreeSet::new(),
            on_failure: config.on_failure,
            abort_scope: config.abort_scope,
            failure: None,
            alone: None,
            withdrawn: false,
            skip_drain: false,
            wanted_end: None,
            final_failure: None,
            suspended: false,
            stopped: false,
            round: 0,
            early: Vec::new(),
            limit: config.limit,
            debugged: config.debugged,
            elastic: config.elastic,
            has_retired: false,
            recorder: Recorder::default(),
            timers: Timers::default(),
            acts: VecDeque::new(),
        }
    }

    /// A report about the whole tree, or about ranks and hosts anywhere in it.
    pub(super) fn receive(&mut self, now: Time, up: Up) {
        match up {
            Up::Ready => self.ready(),
            Up::Started => self.started(now),
            Up::StartFailed { member, failure } => {
                self.fail(Some(member), failure);
                self.kill();
            }
            Up::Failed { member, failure: Failure::Killed } => {
                self.fail(Some(member), Failure::Killed);
                self.hurry(now);
                self.kill();
            }
            Up::Failed { member, failure: failure @ Failure::LeftRunning { .. } } => {
                // This outweighs the first failure, because processes of the job still run.
                self.notice(format!("host {member}: {failure}"));
                self.failure = Some(failure);
                self.kill();
            }
            Up::Failed { member, failure } => self.end_by(now, Some(member), failure),
            Up::Lost { member, problem } => self.lost(now, member, problem),
            Up::Pids { pids } => self.learn_pids(now, pids),
            Up::Notice { text } => self.notice(text),
            Up::Exited { ends } => {
                ends.into_iter().for_each(|(rank, end)| self.exited(now, rank, end));
            }
            Up::Initialized { ranks } => self.note_pmi(&ranks, Pmi::Initialized),
            Up::Finalized { ranks } => self.note_pmi(&ranks, Pmi::Finalized),
            Up::Entered { ranks } => self.entered(now, |rank_table| rank_table.enter(&ranks)),
            Up::EnteredGroup { group, ranks } => {
                self.entered(now, |rank_table| rank_table.enter_group(group, &ranks));
            }
            Up::Aborted { rank, code, message } if self.debugged => {
                self.notice(Failure::Aborted { rank, code, message }.to_string());
                // The library now waits to be killed, or continues. The program is stopped where it aborted.
                self.debug([rank].into_iter().collect(), INTERRUPT.to_owned());
            }
            Up::BrokeProtocol { rank, problem } if self.debugged => {
                self.notice(Failure::BrokeProtocol { rank, problem }.to_string());
            }
            Up::Aborted { rank, code, message } => {
                self.end_by_rank(now, rank, Failure::Aborted { rank, code, message });
            }
            Up::BrokeProtocol { rank, problem } => {
                self.end_by_rank(now, rank, Failure::BrokeProtocol { rank, problem });
            }
            Up::WorldFailed { first, member, failure } => {
                self.world_failed(first, member, failure);
            }
            Up::Prepared { first } => self.world_prepared(first),
            Up::Begun { first } => self.world_begun(first),
            Up::WorldConnection { from, number, joined } => {
                self.rank_table.connect(from, number, joined)
            }
            Up::Interrupt { from, rank, signal } => self.interrupt_rank(from, rank, signal),
            Up::Stopped { .. } if self.suspended => {
                self.stopped = true;
                self.emit(Output::ReportSuspended);
            }
            Up::Uses { rank, library } => self.note_library(now, rank, library),
            Up::Alone { rank, library } => self.note_alone(rank, library),
            Up::Crashed { rank, crash } => self.emit(Output::ReportCrashed(rank, crash)),
            Up::Restarted => self.emit(Output::ReportRestarted),
            Up::Gone => self.gone(now),
            Up::Drained => self.drained(),
            Up::CleanedUp => self.cleaned_up(now),
            Up::Stopped { .. }
            | Up::Lacks { .. }
            | Up::Trace { .. }
            | Up::StdinCredit { .. }
            | Up::StdinUnwanted { .. }
            | Up::Pulse => {}
        }
    }

    /// Acts on every deadline at or before `now`.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop_expired(now) {
            match timer {
                Timer::Limit => self.time_out(now),
                Timer::Terminate => self.terminate(now, TERMINATE_GRACE),
                Timer::Kill => self.kill(),
                Timer::Stop => {
                    self.round = self.round.wrapping_add(1);
                    self.command(Down::Stop { round: self.round });
                }
                Timer::Drain => {
                    if let Some(failure) = self.final_failure.take() {
                        // The output that is discarded now was not delivered.
                        self.fail(None, failure);
                    }
                    self.discard(now);
                    self.drained();
                }
            }
        }
    }

    /// The next output.
    pub(super) fn poll_act(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    /// The time at which [`Job::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(super) fn end_of(&self, rank: Rank) -> RankEnd {
        let member = self.rank_table.member(rank);
        member.and_then(|member| member.end).unwrap_or(RankEnd::NotStarted)
    }

    pub(super) const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    pub(super) fn exit_code(&self) -> u8 {
        self.failure.as_ref().map_or(0, Failure::exit_code)
    }

    /// Sends a signal. It is kept until all ranks have started. A signal that requests the end also ends the wait for a
    /// reader that does not read.
    pub(super) fn signal(&mut self, now: Time, signal: u8, command: Down) {
        match self.phase {
            // A signal that is pending already is not kept twice, as with the kernel's signals.
            Phase::Preparing | Phase::Starting if self.early.contains(&command) => {}
            Phase::Preparing | Phase::Starting => self.early.push(command),
            Phase::Running | Phase::Ending => self.command(command),
            Phase::Killing | Phase::Draining | Phase::CleaningUp | Phase::Over => {}
        }
        if matches!(signal, SIGTERM | SIGQUIT | SIGHUP) {
            self.final_failure.get_or_insert(Failure::Interrupted { signal });
            self.hurry(now);
        }
    }

    /// Sends a new size of the terminal. Of sizes that came before all ranks had started, only the last one is kept.
    pub(super) fn resize(&mut self, now: Time, command: Down) {
        self.early.retain(|early| !matches!(early, Down::Resize { .. }));
        self.signal(now, SIGWINCH, command);
    }

    /// `^C` or a hang-up.
    pub(super) fn interrupt(&mut self, now: Time, signal: u8) {
        let again = self.wanted_end.is_some();
        self.wanted_end.get_or_insert(signal);
        self.final_failure.get_or_insert(Failure::Interrupted { signal });
        self.hurry(now);
        if self.phase < Phase::Running {
            self.fail(None, Failure::Interrupted { signal });
            self.kill();
        } else if again && signal == SIGINT {
            self.kill();
        } else if matches!(self.phase, Phase::Running | Phase::Ending) {
            self.command(Down::Signal { signal });
            self.resume();
            if self.phase == Phase::Running {
                self.phase = Phase::Ending;
                self.timers.set(Timer::Terminate, now + INTERRUPT_GRACE);
            }
        }
    }

    pub(super) fn suspend(&mut self, now: Time) {
        match self.phase {
            // The stop follows when all ranks have started.
            Phase::Preparing | Phase::Starting => self.suspended = true,
            Phase::Running if !self.suspended => {
                self.suspended = true;
                self.command(Down::Signal { signal: SIGTSTP });
                self.timers.set(Timer::Stop, now + STOP_GRACE);
            }
            // The stop is in progress; the answer will come.
            Phase::Running if !self.stopped => {}
            // All processes are stopped already, or about to end: the console may stop at once.
            Phase::Running
            | Phase::Ending
            | Phase::Killing
            | Phase::Draining
            | Phase::CleaningUp
            | Phase::Over => self.emit(Output::ReportSuspended),
        }
    }

    pub(super) fn resume(&mut self) {
        self.stopped = false;
        if std::mem::replace(&mut self.suspended, false) && self.phase >= Phase::Running {
            self.timers.stop(Timer::Stop);
            self.command(Down::Continue);
        }
    }

    /// The console no longer holds the ranks. The start of the last ones may not be known here yet.
    pub(super) fn release_held(&mut self) {
        match self.phase {
            Phase::Preparing | Phase::Starting => self.early.push(Down::GoOn),
            _ => self.command(Down::GoOn),
        }
    }

    pub(super) fn console_lost(&mut self, now: Time) {
        self.discard(now);
        self.terminate(now, FAILURE_GRACE);
    }

    /// The daemon through which other managers were to connect has died, and some hosts may not have the job at all. A
    /// job that has not started is given up, and the console submits it again.
    pub(super) fn withdraw(&mut self) {
        if self.phase == Phase::Preparing {
            self.withdrawn = true;
            self.kill();
        }
    }

    pub(super) fn output_closed(&mut self, now: Time) {
        self.end_by(now, None, Failure::OutputClosed);
    }

    /// Handles the failure of a job to which this one is connected. It does not concern a job that is ending.
    pub(super) fn connected_failed(&mut self, now: Time, failure: Failure) {
        if self.abort_scope == AbortScope::Connected && self.phase == Phase::Running {
            self.end_by(now, None, failure);
        }
    }

    pub(super) fn drain_goes_on(&mut self, now: Time) {
        if self.timers.is_set(Timer::Drain) {
            self.timers.set(Timer::Drain, now + DRAIN_GRACE);
        }
    }

    fn ready(&mut self) {
        if self.phase == Phase::Preparing {
            self.phase = Phase::Starting;
            self.has_started = true;
            // The console must know this before any rank runs: it submits a job again only if no rank has started.
            self.emit(Output::ReportStarted);
            self.command(Down::Go);
        }
    }

    fn started(&mut self, now: Time) {
        if self.phase != Phase::Starting {
            return;
        }
        self.phase = Phase::Running;
        if let Some(limit) = self.limit {
            self.timers.set(Timer::Limit, now + limit);
        }
        if self.rank_table.living() == 0 {
            self.kill();
            return;
        }
        for command in std::mem::take(&mut self.early) {
            self.command(command);
        }
        if std::mem::take(&mut self.suspended) {
            self.suspend(now);
        }
    }

    fn note_pmi(&mut self, ranks: &RankSet, pmi: Pmi) {
        for rank in ranks.ranks() {
            if let Some(member) = self.rank_table.member_mut(rank) {
                member.pmi = pmi;
            }
        }
    }

    /// Ranks of one world with different MPI libraries would wait for each other forever.
    fn note_library(&mut self, now: Time, rank: Rank, library: MpiLibrary) {
        if let Some((other, other_library)) = self.rank_table.note_library(rank, library) {
            let failure = Failure::TwoLibraries { rank, library, other, other_library };
            self.end_by_rank(now, rank, failure);
        }
    }

    fn note_alone(&mut self, rank: Rank, library: String) {
        let is_first = self.alone.as_ref().is_none_or(|(known, _)| rank < *known);
        if is_first && self.rank_table.world_of(rank).is_some_and(|world| world.number == 0) {
            self.alone = Some((rank, library));
        }
    }

    /// Ranks that each ran as rank 0 of 1 did not do the common work that the user wanted.
    fn review_alone(&mut self) {
        if self.failure.is_none()
            && self.rank_table.ended_without_pmi()
            && let Some((rank, library)) = self.alone.take()
        {
            self.fail_rank(rank, Failure::RanAlone { rank, library });
        }
    }

    fn exited(&mut self, now: Time, rank: Rank, end: RankEnd) {
        let Some(ended) = self.end_rank(now, rank, end) else { return };
        if ended.is_unwanted {
            // A remaining rank of a failed spawn.
            self.review_world(ended.first);
            return self.review_living();
        }
        match (end, ended.pmi) {
            _ if ended.is_retired && retire::is_wanted(end) => self.review_fence(now, ended.first),
            (RankEnd::Exited(0), Pmi::Initialized) if !self.debugged && !self.elastic => {
                self.member_failed(now, ended.first, rank, Failure::NotFinalized { rank });
            }
            (RankEnd::Exited(0), _) => {
                self.review_fence(now, ended.first);
            }
            (
                RankEnd::Exited(_) | RankEnd::Signaled { .. } | RankEnd::NotStarted | RankEnd::Lost,
                _,
            ) => self.member_failed(now, ended.first, rank, self.blame(rank, end)),
        }
        self.review_world(ended.first);
        self.review_living();
    }

    pub(super) fn review_living(&mut self) {
        if self.rank_table.living() == 0 && matches!(self.phase, Phase::Running | Phase::Ending) {
            self.kill();
        }
    }

    /// The failure for the end of a rank. A rank that was terminated or killed after `^C` counts as ended by `^C`.
    fn blame(&self, rank: Rank, end: RankEnd) -> Failure {
        match (end, self.wanted_end) {
            (RankEnd::Signaled { signal: SIGTERM | SIGKILL, .. }, Some(signal)) => {
                Failure::Interrupted { signal }
            }
            _ => Failure::Rank { rank, end },
        }
    }

    fn member_failed(&mut self, now: Time, first: Rank, rank: Rank, failure: Failure) {
        match self.on_failure {
            OnFailure::End if !self.debugged => self.end_by_rank(now, rank, failure),
            OnFailure::End | OnFailure::Continue => {
                self.fail_rank(rank, failure);
                if !self.debugged {
                    self.command(Down::Dead { rank });
                }
                self.review_fence(now, first);
            }
        }
    }

    /// A host is lost. This ends the job, regardless of the option about failures of ranks, unless no rank of the job
    /// runs there any more or yet. In a job that is ending, the loss is the first failure if there was no other: the
    /// ends of ranks, or some output, are then unknown.
    fn lost(&mut self, now: Time, member: DaemonName, problem: String) {
        let Some(tree_index) = self.host_slices.tree_index_of(&member) else { return };
        if self.phase >= Phase::CleaningUp {
            return;
        }
        self.recorder.host_changed(now, HostChange { host: member.clone(), to: HostTurn::Lost });
        let is_spared =
            self.phase == Phase::Running && self.spare_loss(now, (tree_index, &member), &problem);
        self.lost.insert(tree_index);
        if is_spared {
            return;
        }
        let failure = Failure::HostLost { host: member.to_string(), problem };
        self.end_by(now, Some(member), failure);
        if self.has_started {
            let gone = self.rank_table.living_ranks(|at| HostSlices::is_in_subtree(at, tree_index));
            for rank in gone {
                self.end_rank(now, rank, RankEnd::Lost);
            }
            self.review_living();
        }
    }

    /// Ranks entered a fence; `enter` returns the world of the fence.
    fn entered(&mut self, now: Time, enter: impl FnOnce(&mut RankTable) -> Option<Rank>) {
        if let Some(first) = enter(&mut self.rank_table) {
            self.review_fence(now, first);
        }
    }

    /// Releases the fences of a world and of its groups that are complete. Ends the job if a fence can never become
    /// complete.
    fn review_fence(&mut self, now: Time, first: Rank) {
        if self.phase > Phase::Ending {
            return;
        }
        // Ranks that handle ^C may still meet in a fence before they end.
        if self.phase < Phase::Ending
            && self.on_failure == OnFailure::End
            && !self.debugged
            && !self.elastic
            && let Some(rank) = self.rank_table.deserter(first)
        {
            self.end_by_rank(now, rank, Failure::LeftOthersWaiting { rank });
            return;
        }
        if self.rank_table.release(first) {
            self.command(Down::Release { first });
        }
        for group in self.rank_table.release_groups(first) {
            if group.is_across_jobs() {
                self.emit(Output::Assembled(first, group));
            } else {
                self.command(Down::ReleaseGroup { first, group });
            }
        }
    }

    /// The other jobs of a group have arrived, or will not.
    pub(super) fn met(&mut self, first: Rank, group: FenceGroup) {
        self.command(Down::ReleaseGroup { first, group });
    }

    /// Records the first failure.
    fn fail(&mut self, host: Option<DaemonName>, failure: Failure) {
        if self.failure.is_none() && !self.withdrawn {
            self.emit(Output::ReportFailed { host, failure: failure.clone() });
            self.failure = Some(failure);
        }
    }

    /// Records the first failure, on the host of a rank. The host is looked up only for the first one: thousands may
    /// follow.
    fn fail_rank(&mut self, rank: Rank, failure: Failure) {
        if self.failure.is_none() {
            let tree_index = self.tree_index_of(rank);
            let host_slice = tree_index.and_then(|tree_index| self.host_slices.get(tree_index));
            let failure = match self.rank_table.world_of(rank) {
                Some(world) => failure.in_world(&world),
                None => failure,
            };
            self.fail(host_slice.map(|host_slice| host_slice.member.clone()), failure);
        }
    }

    /// A failure that ends the job.
    pub(super) fn end_by(&mut self, now: Time, host: Option<DaemonName>, failure: Failure) {
        self.fail(host, failure);
        self.end_for_failure(now);
    }

    fn end_for_failure(&mut self, now: Time) {
        if self.phase < Phase::Ending {
            self.terminate(now, FAILURE_GRACE);
        }
    }

    fn end_by_rank(&mut self, now: Time, rank: Rank, failure: Failure) {
        self.fail_rank(rank, failure);
        if self.phase != Phase::Running || !self.end_part(rank) {
            self.end_for_failure(now);
        }
    }

    /// Sends SIGTERM now, and kills all ranks after `grace`. Kills at once if ranks are still being started.
    fn terminate(&mut self, now: Time, grace: Duration) {
        if self.phase < Phase::Running {
            self.kill();
        }
        if !matches!(self.phase, Phase::Running | Phase::Ending) {
            return;
        }
        self.phase = Phase::Ending;
        self.timers.stop(Timer::Terminate);
        self.command(Down::Signal { signal: SIGTERM });
        self.resume();
        self.timers.set(Timer::Kill, now + grace);
    }

    pub(super) fn kill(&mut self) {
        if self.phase < Phase::Killing {
            self.phase = Phase::Killing;
            for timer in [Timer::Terminate, Timer::Kill, Timer::Stop] {
                self.timers.stop(timer);
            }
            self.suspended = false;
            self.command(Down::Kill);
        }
    }

    fn gone(&mut self, now: Time) {
        if self.phase == Phase::Killing {
            self.phase = Phase::Draining;
            self.review_alone();
            if self.skip_drain {
                self.timers.set(Timer::Drain, now + DRAIN_GRACE);
            }
            self.command(Down::Drain);
        }
    }

    fn drained(&mut self) {
        if self.phase == Phase::Draining {
            self.phase = Phase::CleaningUp;
            self.timers.stop(Timer::Drain);
            self.timers.stop(Timer::Limit);
            self.command(Down::CleanUp);
        }
    }

    fn cleaned_up(&mut self, now: Time) {
        if self.phase == Phase::CleaningUp {
            self.phase = Phase::Over;
            self.emit_last_worlds();
            self.recorder.over(now, self.exit_code());
            self.report_events();
            self.emit(match self.withdrawn {
                true => Output::Withdraw,
                false => Output::Finish(self.exit_code()),
            });
        }
    }

    /// The time limit is over. It bounds the ranks and the wait for the reader of their output.
    fn time_out(&mut self, now: Time) {
        let limit = self.limit.unwrap_or_default();
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let failure = Failure::TimedOut { limit_ms };
        self.final_failure.get_or_insert(failure.clone());
        self.hurry(now);
        // Ranks that all ended within the limit have not failed.
        if self.phase <= Phase::Ending {
            self.end_by(now, None, failure);
        }
    }

    /// Bounds the wait for the reader of the output from now on.
    fn hurry(&mut self, now: Time) {
        if !std::mem::replace(&mut self.skip_drain, true) && self.phase == Phase::Draining {
            self.timers.set(Timer::Drain, now + DRAIN_GRACE);
        }
    }

    fn discard(&mut self, now: Time) {
        self.hurry(now);
        self.command(Down::Discard);
    }

    pub(super) fn command(&mut self, down: Down) {
        self.acts.push_back(Act::Command(down));
    }

    fn notice(&mut self, text: String) {
        self.emit(Output::ReportNotice(text));
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.acts.push_back(Act::Emit(output));
    }
}
