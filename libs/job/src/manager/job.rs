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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::manager::rank_table::{Pmi, RankTable};
use crate::manager::{Config, DRAIN_GRACE, FAILURE_GRACE, Output, TERMINATE_GRACE};
use mpd_events::Recorder;
use mpd_sansio::{Time, Timers};
use mpd_wire::job::{AbortScope, Failure, HostSlices, ManagerEnd, OnFailure, Places, RankEnd};
use mpd_wire::message::{Down, FenceGroup, Up};
use mpd_wire::{DaemonName, Rank, RankSet};

/// The command that stops a program without a request of a console. No console gives a command this number.
const INTERRUPT: &str = "0 interrupt";

pub(super) const SIGHUP: u8 = 1;
pub(super) const SIGINT: u8 = 2;
pub(super) const SIGQUIT: u8 = 3;
pub(super) const SIGKILL: u8 = 9;
pub(super) const SIGTERM: u8 = 15;
pub(super) const SIGTSTP: u8 = 20;

/// An output of the root's decisions.
#[derive(Debug)]
pub(super) enum Act {
    /// For every manager, including this one.
    Command(Down),
    /// For the own process.
    Emit(Output),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
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
    /// The daemon of a lost host has not reported how its manager ended.
    Cause,
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
    pub(super) has_started: bool,
    pub(super) rank_table: RankTable,
    /// Tree indices of managers that cannot be reached, with their subtrees.
    pub(super) lost: BTreeSet<usize>,
    /// How managers have ended, by their tree indices, as their daemons say.
    pub(super) manager_ends: BTreeMap<usize, ManagerEnd>,
    /// The lost host whose failure is not reported yet, because its daemon may still name the cause.
    pub(super) withheld: Option<DaemonName>,
    /// The job is cleaned up, and ends when the withheld failure is reported.
    pub(super) is_clean: bool,
    pub(super) on_failure: OnFailure,
    pub(super) abort_scope: AbortScope,
    pub(super) failure: Option<Failure>,
    /// The first rank of the first world that uses an MPI library without PMI, and that library.
    pub(super) alone: Option<(Rank, String)>,
    /// No rank of this job may start any more, and the console may submit the job again.
    pub(super) withdrawn: bool,
    places: Places,
    /// Do not wait for a reader that does not read: the user requested the end, or the limit is over.
    skip_drain: bool,
    /// The signal by which the user requested the end of the job.
    pub(super) wanted_end: Option<u8>,
    /// The failure to report if output is discarded because its reader does not read.
    pub(super) final_failure: Option<Failure>,
    /// The user requested a stop of all processes.
    pub(super) suspended: bool,
    /// All processes are stopped.
    pub(super) stopped: bool,
    /// Counts the commands to stop.
    round: u32,
    /// Signals that came before all ranks had started.
    pub(super) early: Vec<Down>,
    limit: Option<Duration>,
    /// The ranks are debuggers. The debugger's user handles failures of their programs.
    pub(super) debugged: bool,
    /// Ranks may end with 0 at any time.
    pub(super) elastic: bool,
    /// A user has retired ranks.
    pub(super) has_retired: bool,
    pub(super) recorder: Recorder,
    pub(super) timers: Timers<Timer>,
    acts: VecDeque<Act>,
}

impl Job {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            host_slices: config.host_slices.clone(),
            phase: Phase::Preparing,
            has_started: false,
            rank_table: RankTable::of(config.size, &config.host_slices),
            lost: BTreeSet::new(),
            manager_ends: BTreeMap::new(),
            withheld: None,
            is_clean: false,
            on_failure: config.on_failure,
            abort_scope: config.abort_scope,
            failure: None,
            alone: None,
            withdrawn: false,
            places: Places::default(),
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
                self.report_withheld(now);
                self.notice(format!("host {member}: {failure}"));
                self.failure = Some(failure);
                self.kill();
            }
            Up::Failed { member, failure } => self.end_by(now, Some(member), failure),
            Up::Lost { member, problem, closed } => self.lost(now, member, problem, closed),
            Up::Pids { pids } => self.learn_pids(now, pids),
            Up::Notice { text } => self.notice(text),
            Up::Elsewhere { member, place, problem } => self.note_place(member, (place, problem)),
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
                self.stop_aborted(rank, Failure::Aborted { rank, code, message });
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
            Up::WorldFailed { first, member, failure } => self.world_failed(first, member, failure),
            Up::Prepared { first } => self.world_prepared(first),
            Up::WorldStarted { first } => self.world_started(first),
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
            | Up::Looked { .. }
            | Up::Pulse => {}
        }
    }

    /// Stops a program in its debugger where it aborted. Its library waits to be killed, or continues.
    fn stop_aborted(&mut self, rank: Rank, failure: Failure) {
        self.notice(failure.to_string());
        self.debug([rank].into_iter().collect(), INTERRUPT.to_owned());
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
                Timer::Cause => self.report_withheld(now),
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
            self.places.lines().into_iter().for_each(|line| self.notice(line));
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

    /// Ranks entered a fence; `enter` returns the world of the fence.
    fn entered(&mut self, now: Time, enter: impl FnOnce(&mut RankTable) -> Option<Rank>) {
        if let Some(first) = enter(&mut self.rank_table) {
            self.review_fence(now, first);
        }
    }

    /// Releases the fences of a world and of its groups that are complete. Ends the job if a fence can never become
    /// complete.
    pub(super) fn review_fence(&mut self, now: Time, first: Rank) {
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
            let waiting = self.rank_table.waiting_for(rank);
            self.end_by_rank(now, rank, Failure::LeftOthersWaiting { rank });
            // They may be of worlds that do not share its fate, and would wait forever.
            for rank in waiting {
                if self.rank_table.lives(rank) {
                    self.end_part_of(now, rank);
                }
            }
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
    pub(super) fn fail(&mut self, host: Option<DaemonName>, failure: Failure) {
        if self.failure.is_none() && !self.withdrawn {
            self.emit(Output::ReportFailed { host, failure: failure.clone() });
            self.failure = Some(failure);
        }
    }

    /// Records the first failure, on the host of a rank. The host is looked up only for the first one: thousands may
    /// follow.
    pub(super) fn fail_rank(&mut self, rank: Rank, failure: Failure) {
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

    pub(super) fn end_for_failure(&mut self, now: Time) {
        if self.phase < Phase::Ending {
            self.terminate(now, FAILURE_GRACE);
        }
    }

    pub(super) fn end_by_rank(&mut self, now: Time, rank: Rank, failure: Failure) {
        self.fail_rank(rank, failure);
        self.end_part_of(now, rank);
    }

    fn end_part_of(&mut self, now: Time, rank: Rank) {
        if self.phase != Phase::Running || !self.end_part(rank) {
            self.end_for_failure(now);
        }
    }

    /// Sends SIGTERM now, and kills all ranks after `grace`. Kills at once if ranks are still being started.
    pub(super) fn terminate(&mut self, now: Time, grace: Duration) {
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

    pub(super) fn cleaned_up(&mut self, now: Time) {
        if self.phase == Phase::CleaningUp && self.withheld.is_some() {
            self.is_clean = true;
        } else if self.phase == Phase::CleaningUp {
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
    pub(super) fn hurry(&mut self, now: Time) {
        if !std::mem::replace(&mut self.skip_drain, true) && self.phase == Phase::Draining {
            self.timers.set(Timer::Drain, now + DRAIN_GRACE);
        }
    }

    pub(super) fn discard(&mut self, now: Time) {
        self.hurry(now);
        self.command(Down::Discard);
    }

    pub(super) fn command(&mut self, down: Down) {
        self.acts.push_back(Act::Command(down));
    }

    fn note_place(&mut self, member: DaemonName, place: (String, String)) {
        let line = self.places.add(member, place).filter(|_| self.has_started);
        line.into_iter().for_each(|line| self.notice(line));
    }

    pub(super) fn notice(&mut self, text: String) {
        self.emit(Output::ReportNotice(text));
    }

    pub(super) fn emit(&mut self, output: Output) {
        self.acts.push_back(Act::Emit(output));
    }
}
