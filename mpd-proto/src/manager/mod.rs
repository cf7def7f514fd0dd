//! The life of one job on one host: who is where, what the first failure was, when to signal, when to
//! kill, when it is over.
//!
//! [`Manager`] holds every decision of a manager process; the process itself only owns descriptors.
//! It does not read output, speak PMI or look at processes: it is told, and says what to do.
//!
//! ```text
//!            Started            failure, ^C, console lost, timeout
//! Starting ----------> Running ----------------------------------> Ending
//!     | StartFailed       | all ranks ended          all ended, grace over |
//!     v                   v                                                v
//!  Killing <--------------+------------------------------------------------+
//!     | TreeGone (nothing that descends from us lives)
//!     v
//!  Draining -- Drained, or given up when the user interrupted --> Over
//! ```

mod fence;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use crate::id::Rank;
use crate::job::{Failure, OnFailure, RankEnd, Shares};
use crate::manager::fence::Fence;
use crate::message::{Down, Up};
use crate::ring::DaemonName;
use crate::time::Time;
use crate::timers::Timers;

/// From `^C` (SIGINT) or a hang-up to SIGTERM.
pub const INTERRUPT_GRACE: Duration = Duration::from_secs(2);
/// From that SIGTERM to SIGKILL.
pub const TERMINATE_GRACE: Duration = Duration::from_secs(1);
/// From the SIGTERM after a failure to SIGKILL: time to leave, not to finish work.
pub const FAILURE_GRACE: Duration = Duration::from_millis(500);
/// From SIGTSTP to SIGSTOP.
pub const STOP_GRACE: Duration = Duration::from_millis(100);
/// How long a job that was told to end waits for a reader that does not read.
pub const DRAIN_GRACE: Duration = Duration::from_millis(500);
/// How long a manager waits for the last of the ranks below it to enter a fence before it says upwards
/// who has: the root must see that some wait for others.
pub const FENCE_HOLD: Duration = Duration::from_millis(100);

const SIGHUP: u8 = 1;
const SIGINT: u8 = 2;
const SIGQUIT: u8 = 3;
const SIGKILL: u8 = 9;
const SIGTERM: u8 = 15;
const SIGTSTP: u8 = 20;

/// What a manager is for.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a> {
    /// Who runs what.
    pub shares: &'a Shares,
    /// Which of the shares is this manager's; 0 is the root.
    pub place: usize,
    /// Ranks of the whole job.
    pub size: u32,
    /// What the first failure means.
    pub on_failure: OnFailure,
    /// How long the job may run.
    pub limit: Option<Duration>,
}

/// What the world did. Words about ranks are about those of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// All that can be checked here before the start is well.
    Ready,
    /// Process ids of ranks that were spawned here; before [`Input::Started`].
    Pids(Vec<(Rank, u32)>),
    /// Every rank of this host was spawned, after [`Output::Go`].
    Started,
    /// A check before the start, or the start of a rank, failed.
    StartFailed(Failure),
    /// A rank ended; all that it said on its PMI connection before was handed in.
    Exited(Rank, RankEnd),
    /// A rank did PMI init (again).
    Initialized(Rank),
    /// A rank did PMI finalize.
    Finalized(Rank),
    /// A rank entered the fence.
    EnteredFence(Rank),
    /// A rank asked for the end of the job.
    Aborted(Rank, i32, String),
    /// A rank's PMI connection cannot be continued.
    BrokeProtocol(Rank, String),
    /// The console forwards a signal.
    Signal(u8),
    /// `^C`.
    Interrupt,
    /// The terminal is gone.
    HangUp,
    /// `^Z`.
    Suspend,
    /// `fg`.
    Resume,
    /// The console's connection closed.
    ConsoleLost,
    /// The daemon asks for the end of the job.
    Kill,
    /// Standard output cannot be written any more: its reader closed it.
    OutputClosed,
    /// Output cannot be written, in the system's words.
    OutputFailed(String),
    /// Every process of the job is stopped, after [`Output::StopTree`].
    TreeStopped,
    /// No descendant lives, after [`Output::KillTree`].
    TreeGone,
    /// Output went out, after [`Output::Drain`]: its reader reads.
    DrainGoesOn,
    /// All output is written or thrown away, after [`Output::Drain`].
    Drained,
    /// Nothing of the job is left here, after [`Output::Tidy`].
    Tidied,
    /// Something worth a line to the user.
    Notice(String),
    /// The manager above says so.
    FromParent(Down),
    /// The manager at this place, directly below, says so.
    FromChild(usize, Up),
    /// The manager at this place, directly below, cannot be reached any more, or never came.
    ChildLost(usize, String),
    /// The manager above cannot be reached any more.
    ParentLost(String),
    /// Hosts that could not be told of the job, and why. For the root.
    Missing(Vec<(DaemonName, String)>),
}

/// What the process has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Everybody is ready: spawn the ranks of this host, then say [`Input::Started`].
    Go,
    /// Send this to every manager directly below that is not lost.
    ToChildren(Down),
    /// Send this to the manager above.
    ToParent(Up),
    /// Send the signal to the process group of every rank that lives.
    SignalRanks(u8),
    /// Stop every descendant, then say [`Input::TreeStopped`].
    StopTree,
    /// Continue every descendant.
    ContinueTree,
    /// Kill every descendant until none is left, then say [`Input::TreeGone`].
    KillTree,
    /// Every rank that waits in the fence may go on.
    ReleaseFence,
    /// The first failure is known. At the root.
    TellFailed {
        /// Where it happened, if it happened on one host.
        host: Option<DaemonName>,
        /// What.
        failure: Failure,
    },
    /// A line for the user. At the root.
    TellNotice(String),
    /// Process ids of ranks, of whichever host. At the root.
    Pids(Vec<(Rank, u32)>),
    /// Tell the console that everything is stopped. At the root.
    TellSuspended,
    /// Write what is left of the output, then say [`Input::Drained`].
    Drain,
    /// Throw away what is left of the output.
    DiscardOutput,
    /// Clean up what the job left on this host, then say [`Input::Tidied`].
    Tidy,
    /// Nothing is left anywhere: tell the console this exit code, and end. At the root.
    Finish(u8),
    /// Nothing is left here and below: send what is to be sent, and end. Not at the root.
    Leave,
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
enum Phase {
    Starting,
    Running,
    Ending,
    Killing,
    Draining,
    Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pmi {
    #[default]
    Unused,
    Initialized,
    Finalized,
}

#[derive(Clone, Debug, Default)]
struct Member {
    pmi: Pmi,
    end: Option<RankEnd>,
}

/// One job on one host. See the module for its phases.
#[derive(Debug)]
pub struct Manager {
    phase: Phase,
    ranks: Vec<Member>,
    living: u32,
    fence: Fence,
    on_failure: OnFailure,
    failure: Option<Failure>,
    /// The user asked for the end: do not wait for a reader that does not read.
    hasty: bool,
    /// The signal that the user wanted the job to end by.
    wanted_end: Option<u8>,
    /// The first signal after which nobody waits for a reader.
    parting: Option<u8>,
    /// The user wants everything stopped.
    suspended: bool,
    /// Everything is.
    stopped: bool,
    /// Signals that came before all ranks were there.
    early: Vec<u8>,
    limit: Option<Duration>,
    timers: Timers<Timer>,
    outputs: VecDeque<Output>,
}

impl Manager {
    /// A job of `size` ranks about to start.
    pub fn new(config: Config<'_>) -> Self {
        let Config { size, on_failure, limit, .. } = config;
        Self {
            phase: Phase::Starting,
            ranks: vec![Member::default(); size as usize],
            living: size,
            fence: Fence::new(size),
            on_failure,
            failure: None,
            hasty: false,
            wanted_end: None,
            parting: None,
            suspended: false,
            stopped: false,
            early: Vec::new(),
            limit,
            timers: Timers::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. Drain [`Manager::poll_output`] before the next.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Ready => self.outputs.push_back(Output::Go),
            Input::Tidied => self.outputs.push_back(Output::Finish(self.exit_code())),
            Input::Pids(pids) => self.outputs.push_back(Output::Pids(pids)),
            Input::Notice(text) => self.outputs.push_back(Output::TellNotice(text)),
            Input::FromParent(_)
            | Input::FromChild(..)
            | Input::ChildLost(..)
            | Input::ParentLost(_)
            | Input::Missing(_) => {}
            Input::Started => self.started(now),
            Input::StartFailed(failure) => {
                self.fail(failure);
                self.kill();
            }
            Input::Exited(rank, end) => self.exited(now, rank, end),
            Input::Initialized(rank) => self.ranks[rank.index()].pmi = Pmi::Initialized,
            Input::Finalized(rank) => self.ranks[rank.index()].pmi = Pmi::Finalized,
            Input::EnteredFence(rank) => {
                self.fence.enter(rank);
                self.review_fence(now);
            }
            Input::Aborted(rank, code, message) => {
                self.end_by(now, Failure::Aborted { rank, code, message });
            }
            Input::BrokeProtocol(rank, problem) => {
                self.end_by(now, Failure::BrokeProtocol { rank, problem });
            }
            Input::Signal(signal) => self.signal(now, signal),
            Input::Interrupt => self.interrupt(now, SIGINT),
            Input::HangUp => self.interrupt(now, SIGHUP),
            Input::Suspend => self.suspend(now),
            Input::Resume => self.resume(),
            Input::ConsoleLost => {
                self.discard(now);
                self.terminate(now, FAILURE_GRACE);
            }
            Input::Kill => {
                self.fail(Failure::Killed);
                self.hurry(now);
                self.kill();
            }
            Input::OutputClosed => self.end_by(now, Failure::OutputClosed),
            Input::OutputFailed(problem) => self.end_by(now, Failure::OutputFailed { problem }),
            Input::TreeStopped if self.suspended => {
                self.stopped = true;
                self.outputs.push_back(Output::TellSuspended);
            }
            Input::TreeStopped => self.outputs.push_back(Output::ContinueTree),
            Input::TreeGone => self.tree_gone(now),
            Input::DrainGoesOn if self.timers.is_set(Timer::Drain) => {
                self.timers.set(Timer::Drain, now + DRAIN_GRACE);
            }
            Input::DrainGoesOn => {}
            Input::Drained => self.drained(),
        }
    }

    /// Acts on every deadline at or before `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop_expired(now) {
            match timer {
                Timer::Limit => {
                    let limit = self.limit.unwrap_or_default();
                    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                    self.end_by(now, Failure::TimedOut { limit_ms });
                }
                Timer::Terminate => self.terminate(now, TERMINATE_GRACE),
                Timer::Kill => self.kill(),
                Timer::Stop => self.outputs.push_back(Output::StopTree),
                Timer::Drain => {
                    if let Some(signal) = self.parting {
                        // What is thrown away now was not delivered.
                        self.fail(Failure::Interrupted { signal });
                    }
                    self.discard(now);
                    self.drained();
                }
            }
        }
    }

    /// Says upwards what the ranks here and below did since the last time. Call once at the end of each
    /// turn, then [`Manager::poll_output`].
    pub fn flush(&mut self, now: Time) {
        let _ = now;
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Manager::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// How a rank ended, or that it never started.
    pub fn end_of(&self, rank: Rank) -> RankEnd {
        self.ranks[rank.index()].end.unwrap_or(RankEnd::NotStarted)
    }

    /// The exit code that `mpirun` would have now.
    pub fn exit_code(&self) -> u8 {
        self.failure.as_ref().map_or(0, Failure::exit_code)
    }

    fn started(&mut self, now: Time) {
        if self.phase == Phase::Starting {
            self.phase = Phase::Running;
            if self.living == 0 {
                self.kill();
                return;
            }
            if let Some(limit) = self.limit {
                self.timers.set(Timer::Limit, now + limit);
            }
            for signal in std::mem::take(&mut self.early) {
                self.outputs.push_back(Output::SignalRanks(signal));
            }
            if std::mem::take(&mut self.suspended) {
                self.suspend(now);
            }
        }
    }

    /// A signal for ranks that are not all there yet waits for them. One that means the end also means
    /// that nobody waits for a reader any more.
    fn signal(&mut self, now: Time, signal: u8) {
        match self.phase {
            Phase::Starting => self.early.push(signal),
            Phase::Running | Phase::Ending => {
                self.outputs.push_back(Output::SignalRanks(signal));
            }
            Phase::Killing | Phase::Draining | Phase::Over => {}
        }
        if matches!(signal, SIGTERM | SIGQUIT | SIGHUP) {
            self.parting.get_or_insert(signal);
            self.hurry(now);
        }
    }

    fn exited(&mut self, now: Time, rank: Rank, end: RankEnd) {
        let member = &mut self.ranks[rank.index()];
        if member.end.replace(end).is_some() {
            return;
        }
        self.living -= 1;
        self.fence.leave(rank);
        let pmi = member.pmi;
        match (end, pmi) {
            (RankEnd::Exited(0), Pmi::Initialized) => {
                self.end_by(now, Failure::NotFinalized { rank });
            }
            (RankEnd::Exited(0), Pmi::Unused | Pmi::Finalized) => self.review_fence(now),
            (
                RankEnd::Exited(_) | RankEnd::Signaled { .. } | RankEnd::NotStarted | RankEnd::Lost,
                _,
            ) => {
                self.member_failed(now, self.blame(rank, end));
            }
        }
        if self.living == 0 && matches!(self.phase, Phase::Running | Phase::Ending) {
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

    fn member_failed(&mut self, now: Time, failure: Failure) {
        match self.on_failure {
            OnFailure::End => self.end_by(now, failure),
            OnFailure::Continue => {
                self.fail(failure);
                self.review_fence(now);
            }
        }
    }

    /// Releases the fence when it is complete; ends the job when it never can be.
    fn review_fence(&mut self, now: Time) {
        if self.phase == Phase::Ending {
            // Ranks that end in their own way after ^C may meet once more.
            if self.fence.take_complete() {
                self.outputs.push_back(Output::ReleaseFence);
            }
            return;
        }
        if self.phase > Phase::Ending {
            return;
        }
        if let (OnFailure::End, Some(rank)) = (self.on_failure, self.fence.deserter()) {
            self.end_by(now, Failure::LeftOthersWaiting { rank });
        } else if self.fence.take_complete() {
            self.outputs.push_back(Output::ReleaseFence);
        }
    }

    /// Records the first failure.
    fn fail(&mut self, failure: Failure) {
        if self.failure.is_none() {
            self.outputs.push_back(Output::TellFailed { host: None, failure: failure.clone() });
            self.failure = Some(failure);
        }
    }

    /// A failure that ends the job.
    fn end_by(&mut self, now: Time, failure: Failure) {
        self.fail(failure);
        if matches!(self.phase, Phase::Starting | Phase::Running) {
            self.terminate(now, FAILURE_GRACE);
        }
    }

    fn interrupt(&mut self, now: Time, signal: u8) {
        let again = self.wanted_end.is_some();
        self.wanted_end.get_or_insert(signal);
        self.parting.get_or_insert(signal);
        self.hurry(now);
        if self.phase == Phase::Starting {
            self.fail(Failure::Interrupted { signal });
            self.kill();
        } else if again && signal == SIGINT {
            self.kill();
        } else if matches!(self.phase, Phase::Running | Phase::Ending) {
            self.outputs.push_back(Output::SignalRanks(signal));
            self.resume();
            if self.phase == Phase::Running {
                self.phase = Phase::Ending;
                self.timers.set(Timer::Terminate, now + INTERRUPT_GRACE);
            }
        }
    }

    /// SIGTERM now, the end of all after `grace`. While ranks are still being started: the end now.
    fn terminate(&mut self, now: Time, grace: Duration) {
        if self.phase == Phase::Starting {
            self.kill();
        }
        if !matches!(self.phase, Phase::Running | Phase::Ending) {
            return;
        }
        self.phase = Phase::Ending;
        self.timers.stop(Timer::Terminate);
        self.timers.stop(Timer::Limit);
        self.outputs.push_back(Output::SignalRanks(SIGTERM));
        self.resume();
        self.timers.set(Timer::Kill, now + grace);
    }

    fn kill(&mut self) {
        if matches!(self.phase, Phase::Starting | Phase::Running | Phase::Ending) {
            self.phase = Phase::Killing;
            for timer in [Timer::Limit, Timer::Terminate, Timer::Kill, Timer::Stop] {
                self.timers.stop(timer);
            }
            self.suspended = false;
            self.outputs.push_back(Output::KillTree);
        }
    }

    fn tree_gone(&mut self, now: Time) {
        if self.phase == Phase::Killing {
            self.phase = Phase::Draining;
            if self.hasty {
                self.timers.set(Timer::Drain, now + DRAIN_GRACE);
            }
            self.outputs.push_back(Output::Drain);
        }
    }

    fn drained(&mut self) {
        if self.phase == Phase::Draining {
            self.phase = Phase::Over;
            self.timers.stop(Timer::Drain);
            self.outputs.push_back(Output::Tidy);
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
        self.outputs.push_back(Output::DiscardOutput);
    }

    fn suspend(&mut self, now: Time) {
        match self.phase {
            // Done when there is everybody to stop.
            Phase::Starting => self.suspended = true,
            Phase::Running if !self.suspended => {
                self.suspended = true;
                self.outputs.push_back(Output::SignalRanks(SIGTSTP));
                self.timers.set(Timer::Stop, now + STOP_GRACE);
            }
            // Under way; the answer will come.
            Phase::Running if !self.stopped => {}
            // Stopped already, or about to end: the console may stop at once.
            Phase::Running | Phase::Ending | Phase::Killing | Phase::Draining | Phase::Over => {
                self.outputs.push_back(Output::TellSuspended);
            }
        }
    }

    fn resume(&mut self) {
        self.stopped = false;
        if std::mem::replace(&mut self.suspended, false) && self.phase != Phase::Starting {
            self.timers.stop(Timer::Stop);
            self.outputs.push_back(Output::ContinueTree);
        }
    }
}
