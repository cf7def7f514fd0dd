//! The root's decisions, for all ranks of the job: who is where, what the first failure was, when to
//! signal, when to kill, when it is over.
//!
//! A [`Job`] knows nothing of managers in between: it hears [`Up`] words, which hold for the whole tree,
//! and gives [`Down`] commands, which do too. A job of one host is no other case.
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
//!  Draining -- Drained, or given up when the user interrupted --> Tidying -- Tidied --> Over
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::manager::roll::{Pmi, Roll};
use crate::manager::{
    Config, DRAIN_GRACE, FAILURE_GRACE, INTERRUPT_GRACE, Output, STOP_GRACE, TERMINATE_GRACE,
};
use mpd_machine::{Time, Timers};
use mpd_wire::job::{Failure, OnFailure, RankEnd, Shares};
use mpd_wire::message::{Down, Up};
use mpd_wire::{DaemonName, Rank, RankSet};

/// What stops a program at a moment when no console has asked for it: a command with a number that no console gives.
const INTERRUPT: &str = "0 interrupt";

pub(super) const SIGHUP: u8 = 1;
pub(super) const SIGINT: u8 = 2;
const SIGQUIT: u8 = 3;
pub(super) const SIGKILL: u8 = 9;
pub(super) const SIGTERM: u8 = 15;
pub(super) const SIGTSTP: u8 = 20;
const SIGWINCH: u8 = 28;

/// What the root wants.
#[derive(Debug)]
pub(super) enum Act {
    /// Of every manager, itself included.
    Command(Down),
    /// Of its own process.
    Tell(Output),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The job has run as long as it may.
    Limit,
    /// SIGINT or SIGHUP was not enough.
    Terminate,
    /// SIGTERM was not enough.
    Kill,
    /// SIGTSTP was not enough.
    Stop,
    /// The reader does not read.
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
    Tidying,
    Over,
}

/// One job. See the module for its phases.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) shares: Shares,
    pub(super) phase: Phase,
    /// Whether the ranks were told to start.
    went: bool,
    pub(super) roll: Roll,
    /// Places of managers that are out of reach, and with them all that is below.
    pub(super) lost: BTreeSet<usize>,
    on_failure: OnFailure,
    failure: Option<Failure>,
    /// The first rank of the first world that uses an MPI library without PMI, and that library.
    alone: Option<(Rank, String)>,
    /// Nothing of this job is to start, and the console may submit it once more.
    withdrawn: bool,
    /// The user asked for the end, or the limit is over: do not wait for a reader that does not read.
    hasty: bool,
    /// The signal that the user wanted the job to end by.
    wanted_end: Option<u8>,
    /// Why the wait for the reader is bounded: the failure of a job whose output is thrown away for it.
    parting: Option<Failure>,
    /// The user wants everything stopped.
    pub(super) suspended: bool,
    /// Everything is.
    stopped: bool,
    /// Counts the commands to stop.
    round: u32,
    /// Signals that came before all ranks were there.
    early: Vec<Down>,
    limit: Option<Duration>,
    /// The ranks are debuggers: what becomes of their programs is seen to by who uses them.
    pub(super) debugged: bool,
    timers: Timers<Timer>,
    acts: VecDeque<Act>,
}

impl Job {
    pub(super) fn new(config: &Config<'_>) -> Self {
        Self {
            shares: config.shares.clone(),
            phase: Phase::Preparing,
            went: false,
            roll: Roll::of(config.size, config.shares),
            lost: BTreeSet::new(),
            on_failure: config.on_failure,
            failure: None,
            alone: None,
            withdrawn: false,
            hasty: false,
            wanted_end: None,
            parting: None,
            suspended: false,
            stopped: false,
            round: 0,
            early: Vec::new(),
            limit: config.limit,
            debugged: config.debugged,
            timers: Timers::default(),
            acts: VecDeque::new(),
        }
    }

    /// A word about the whole tree, or about ranks and hosts anywhere in it.
    pub(super) fn hear(&mut self, now: Time, up: Up) {
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
                // It outweighs the first failure: the job is not gone.
                self.tell(Output::TellNotice(format!("host {member}: {failure}")));
                self.failure = Some(failure);
                self.kill();
            }
            Up::Failed { member, failure } => self.end_by(now, Some(member), failure),
            Up::Lost { member, problem } => self.lost(now, member, problem),
            Up::Pids { pids } => self.tell(Output::Pids(pids)),
            Up::Notice { text } => self.tell(Output::TellNotice(text)),
            Up::Exited { ends } => {
                ends.into_iter().for_each(|(rank, end)| self.exited(now, rank, end));
            }
            Up::Initialized { ranks } => self.note_pmi(&ranks, Pmi::Initialized),
            Up::Finalized { ranks } => self.note_pmi(&ranks, Pmi::Finalized),
            Up::Entered { ranks } => self.entered(now, |roll| roll.enter(&ranks)),
            Up::EnteredGroup { group, ranks } => {
                self.entered(now, |roll| roll.enter_group(group, &ranks));
            }
            Up::Aborted { rank, code, message } if self.debugged => {
                self.tell(Output::TellNotice(Failure::Aborted { rank, code, message }.to_string()));
                // A library waits to be killed now, or even goes on: it stands where it aborted.
                self.debug([rank].into_iter().collect(), INTERRUPT.to_owned());
            }
            Up::BrokeProtocol { rank, problem } if self.debugged => {
                self.tell(Output::TellNotice(Failure::BrokeProtocol { rank, problem }.to_string()));
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
            Up::Bond { from, number, joined } => self.roll.bond(from, number, joined),
            Up::Interrupt { from, rank, signal } => self.interrupt_rank(from, rank, signal),
            Up::Stopped { .. } if self.suspended => {
                self.stopped = true;
                self.tell(Output::TellSuspended);
            }
            Up::Alone { rank, library } => self.note_alone(rank, library),
            Up::Crashed { rank, crash } => self.tell(Output::TellCrashed(rank, crash)),
            Up::Restarted => self.tell(Output::TellRestarted),
            Up::Gone => self.gone(now),
            Up::Drained => self.drained(),
            Up::Tidied => self.tidied(),
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
                    if let Some(failure) = self.parting.take() {
                        // What is thrown away now was not delivered.
                        self.fail(None, failure);
                    }
                    self.discard(now);
                    self.drained();
                }
            }
        }
    }

    /// The next thing that the root wants.
    pub(super) fn poll_act(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    /// When [`Job::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(super) fn end_of(&self, rank: Rank) -> RankEnd {
        let member = self.roll.member(rank);
        member.and_then(|member| member.end).unwrap_or(RankEnd::NotStarted)
    }

    pub(super) fn exit_code(&self) -> u8 {
        self.failure.as_ref().map_or(0, Failure::exit_code)
    }

    /// A signal for ranks that are not all there yet waits for them. One that means the end also means
    /// that nobody waits for a reader any more.
    pub(super) fn signal(&mut self, now: Time, signal: u8, command: Down) {
        match self.phase {
            // One that is pending already does not become two, as everywhere.
            Phase::Preparing | Phase::Starting if self.early.contains(&command) => {}
            Phase::Preparing | Phase::Starting => self.early.push(command),
            Phase::Running | Phase::Ending => self.command(command),
            Phase::Killing | Phase::Draining | Phase::Tidying | Phase::Over => {}
        }
        if matches!(signal, SIGTERM | SIGQUIT | SIGHUP) {
            self.parting.get_or_insert(Failure::Interrupted { signal });
            self.hurry(now);
        }
    }

    /// Of sizes that came before all ranks were there the last one counts.
    pub(super) fn resize(&mut self, now: Time, command: Down) {
        self.early.retain(|early| !matches!(early, Down::Resize { .. }));
        self.signal(now, SIGWINCH, command);
    }

    /// `^C` or a hang-up.
    pub(super) fn interrupt(&mut self, now: Time, signal: u8) {
        let again = self.wanted_end.is_some();
        self.wanted_end.get_or_insert(signal);
        self.parting.get_or_insert(Failure::Interrupted { signal });
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
            // Done when there is everybody to stop.
            Phase::Preparing | Phase::Starting => self.suspended = true,
            Phase::Running if !self.suspended => {
                self.suspended = true;
                self.command(Down::Signal { signal: SIGTSTP });
                self.timers.set(Timer::Stop, now + STOP_GRACE);
            }
            // Under way; the answer will come.
            Phase::Running if !self.stopped => {}
            // Stopped already, or about to end: the console may stop at once.
            Phase::Running
            | Phase::Ending
            | Phase::Killing
            | Phase::Draining
            | Phase::Tidying
            | Phase::Over => self.tell(Output::TellSuspended),
        }
    }

    pub(super) fn resume(&mut self) {
        self.stopped = false;
        if std::mem::replace(&mut self.suspended, false) && self.phase >= Phase::Running {
            self.timers.stop(Timer::Stop);
            self.command(Down::Continue);
        }
    }

    /// The console holds the ranks no longer. Where the last of them was started may not be known here yet.
    pub(super) fn go_on(&mut self) {
        match self.phase {
            Phase::Preparing | Phase::Starting => self.early.push(Down::GoOn),
            _ => self.command(Down::GoOn),
        }
    }

    pub(super) fn console_lost(&mut self, now: Time) {
        self.discard(now);
        self.terminate(now, FAILURE_GRACE);
    }

    /// The way by which other managers were to connect is gone, and the hosts may not even have been told of
    /// the job: before the start it is given up, and the console submits it again.
    pub(super) fn withdraw(&mut self) {
        if self.phase == Phase::Preparing {
            self.withdrawn = true;
            self.kill();
        }
    }

    pub(super) fn output_closed(&mut self, now: Time) {
        self.end_by(now, None, Failure::OutputClosed);
    }

    pub(super) fn drain_goes_on(&mut self, now: Time) {
        if self.timers.is_set(Timer::Drain) {
            self.timers.set(Timer::Drain, now + DRAIN_GRACE);
        }
    }

    fn ready(&mut self) {
        if self.phase == Phase::Preparing {
            self.phase = Phase::Starting;
            self.went = true;
            // The console must know before any rank runs: it submits again what has not started.
            self.tell(Output::TellStarted);
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
        if self.roll.living() == 0 {
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
            if let Some(member) = self.roll.member_mut(rank) {
                member.pmi = pmi;
            }
        }
    }

    fn note_alone(&mut self, rank: Rank, library: String) {
        let is_first = self.alone.as_ref().is_none_or(|(known, _)| rank < *known);
        if is_first && self.roll.world_of(rank).is_some_and(|world| world.number == 0) {
            self.alone = Some((rank, library));
        }
    }

    /// Ranks whose MPI library found nobody but itself did not do together what the user wanted.
    fn review_alone(&mut self) {
        if self.failure.is_none()
            && self.roll.ended_without_pmi()
            && let Some((rank, library)) = self.alone.take()
        {
            self.fail_rank(rank, Failure::RanAlone { rank, library });
        }
    }

    fn exited(&mut self, now: Time, rank: Rank, end: RankEnd) {
        let Some(ended) = self.roll.end(rank, end) else { return };
        if ended.is_unwanted {
            // What is left of a spawn that failed.
            self.review_world(ended.first);
            return self.review_living();
        }
        match (end, ended.pmi) {
            (RankEnd::Exited(0), Pmi::Initialized) if !self.debugged => {
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
        if self.roll.living() == 0 && matches!(self.phase, Phase::Running | Phase::Ending) {
            self.kill();
        }
    }

    /// A rank that did not end by `^C` and was terminated or killed for it died of the `^C`.
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

    /// The loss of a host ends the job, whatever failures of ranks mean to it; but not if nothing of it
    /// runs there any more, or not yet. While a job ends anyway, it is the first failure if nothing else
    /// was: how ranks ended, or some output, is not known then.
    fn lost(&mut self, now: Time, member: DaemonName, problem: String) {
        let Some(place) = self.shares.place_of(&member) else { return };
        if self.phase >= Phase::Tidying {
            return;
        }
        let is_spared = self.phase == Phase::Running && self.spare_loss(place, &member, &problem);
        self.lost.insert(place);
        if is_spared {
            return;
        }
        let failure = Failure::HostLost { host: member.to_string(), problem };
        self.end_by(now, Some(member), failure);
        if self.went {
            let gone = self.roll.living_ranks(|at| Shares::is_below(at, place));
            for rank in gone {
                self.roll.end(rank, RankEnd::Lost);
            }
            self.review_living();
        }
    }

    /// Ranks entered a fence of the world that is given.
    fn entered(&mut self, now: Time, enter: impl FnOnce(&mut Roll) -> Option<Rank>) {
        if let Some(first) = enter(&mut self.roll) {
            self.review_fence(now, first);
        }
    }

    /// Releases the fences of a world and of its groups when they are complete; ends the job when one never
    /// can be.
    fn review_fence(&mut self, now: Time, first: Rank) {
        if self.phase > Phase::Ending {
            return;
        }
        // Ranks that end in their own way after ^C may meet once more.
        if self.phase < Phase::Ending
            && self.on_failure == OnFailure::End
            && !self.debugged
            && let Some(rank) = self.roll.deserter(first)
        {
            self.end_by_rank(now, rank, Failure::LeftOthersWaiting { rank });
            return;
        }
        if self.roll.release(first) {
            self.command(Down::Release { first });
        }
        for group in self.roll.release_groups(first) {
            self.command(Down::ReleaseGroup { first, group });
        }
    }

    /// Records the first failure.
    fn fail(&mut self, host: Option<DaemonName>, failure: Failure) {
        if self.failure.is_none() && !self.withdrawn {
            self.tell(Output::TellFailed { host, failure: failure.clone() });
            self.failure = Some(failure);
        }
    }

    /// The same, on the host of a rank. Only for the first it is looked up: thousands may follow.
    fn fail_rank(&mut self, rank: Rank, failure: Failure) {
        if self.failure.is_none() {
            let place = self.place_of(rank);
            let share = place.and_then(|place| self.shares.get(place));
            let failure = match self.roll.world_of(rank) {
                Some(world) => failure.in_world(&world),
                None => failure,
            };
            self.fail(share.map(|share| share.member.clone()), failure);
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

    /// SIGTERM now, the end of all after `grace`. While ranks are still being started: the end now.
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
            if self.hasty {
                self.timers.set(Timer::Drain, now + DRAIN_GRACE);
            }
            self.command(Down::Drain);
        }
    }

    fn drained(&mut self) {
        if self.phase == Phase::Draining {
            self.phase = Phase::Tidying;
            self.timers.stop(Timer::Drain);
            self.timers.stop(Timer::Limit);
            self.command(Down::Tidy);
        }
    }

    fn tidied(&mut self) {
        if self.phase == Phase::Tidying {
            self.phase = Phase::Over;
            self.tell_last_worlds();
            self.tell(match self.withdrawn {
                true => Output::Withdraw,
                false => Output::Finish(self.exit_code()),
            });
        }
    }

    /// The limit bounds the ranks and the wait for the reader of their output.
    fn time_out(&mut self, now: Time) {
        let limit = self.limit.unwrap_or_default();
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let failure = Failure::TimedOut { limit_ms };
        self.parting.get_or_insert(failure.clone());
        self.hurry(now);
        // Ranks that all ended in time have not failed.
        if self.phase <= Phase::Ending {
            self.end_by(now, None, failure);
        }
    }

    /// From now on nobody waits for the reader of the output.
    fn hurry(&mut self, now: Time) {
        if !std::mem::replace(&mut self.hasty, true) && self.phase == Phase::Draining {
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

    pub(super) fn tell(&mut self, output: Output) {
        self.acts.push_back(Act::Tell(output));
    }
}
