//! The life of one job on the tree of its managers.
//!
//! [`Manager`] makes every decision of a manager process. The process only owns descriptors. The
//! machine does not read output, speak PMI or look at processes: it takes inputs and returns
//! outputs. Every manager is a `branch` of the tree, which passes commands down and reports up. The
//! manager on the console's host is the root. Its `job` decides for all ranks. A job of one host is
//! a tree of one. `spawns` carries requests for further processes to the root, and their orders to
//! the hosts.

mod blocked;
mod branch;
mod console;
mod debug;
mod ends;
mod events;
mod fence;
mod groups;
mod job;
mod losses;
mod rank_table;
mod recorded;
mod reports;
mod retire;
mod router;
mod spawned_worlds;
pub mod spawns;
#[cfg(test)]
mod tests;
mod worlds;

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::manager::branch::{Branch, Question};
use crate::manager::job::{Job, SIGHUP, SIGINT};
use crate::manager::spawns::{
    Announced, RootSpawns, SpawnInput, SpawnOutput, SpawnSettings, Spawns,
};
use mpd_events::Recorded;
use mpd_sansio::{Machine, Time, UNDRAINED};
use mpd_wire::job::{
    AbortScope, Crash, Failure, HostSlice, HostSlices, ManagerEnd, MpiLibrary, OnFailure, Parts,
    RankEnd, World,
};
use mpd_wire::message::{Down, FenceGroup, HostChange, Up};
use mpd_wire::{DaemonName, JobId, Rank, RankSet};

pub use self::retire::refusal as refusal_to_retire;

/// From `^C` (SIGINT) or a hang-up to SIGTERM.
pub const INTERRUPT_GRACE: Duration = Duration::from_secs(2);
/// From that SIGTERM to SIGKILL.
pub const TERMINATE_GRACE: Duration = Duration::from_secs(1);
/// From the SIGTERM after a failure to SIGKILL: time to exit, not to finish work.
pub const FAILURE_GRACE: Duration = Duration::from_millis(500);
/// The time for which the report of a lost host waits for the cause, if its manager has closed the link. The daemon
/// there usually sends the cause at once.
pub const CAUSE_PATIENCE: Duration = Duration::from_secs(1);
/// From SIGTSTP to SIGSTOP.
pub const STOP_GRACE: Duration = Duration::from_millis(100);
/// The time for which a terminated job waits for a reader that does not read.
pub const DRAIN_GRACE: Duration = Duration::from_millis(500);
/// The time for which a manager waits for the last of the ranks below it to enter a fence. After it
/// the manager reports the ranks that have entered: the root must see that some ranks wait for
/// others.
pub const FENCE_HOLD: Duration = Duration::from_millis(100);

/// The other end of a job link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LinkEnd {
    Parent,
    /// The child at this tree index.
    Child(usize),
}

/// The part of a job that a manager runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The ranks of each host.
    pub host_slices: HostSlices,
    /// The index of this manager's host slice; 0 is the root.
    pub tree_index: usize,
    /// The number of ranks of the whole job.
    pub size: u32,
    /// The consequence of the first failure.
    pub on_failure: OnFailure,
    /// Whether the failure of a connected job ends this one.
    #[serde(default)]
    pub abort_scope: AbortScope,
    /// The time for which the job may run.
    pub limit: Option<Duration>,
    /// Whether the ranks are debuggers, whose programs start and end.
    pub debugged: bool,
    /// Whether a rank may end with 0 at any time.
    #[serde(default)]
    pub elastic: bool,
    /// The settings for spawns. Only the root uses them.
    #[serde(default)]
    pub spawns: SpawnSettings,
}

/// A world that the root has placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldPlan {
    /// The world, with numbers and ranks that no other world had.
    pub world: World,
    /// The parts of each host.
    pub parts: Parts,
    /// The rank that asked for it; `None`: a user.
    pub spawner: Option<Rank>,
    /// The name of its key-value space.
    pub kvsname: String,
    /// Hosts that join the job for this world.
    pub joining: Vec<HostSlice>,
    /// Whether its spawner waits until its ranks have initialised MPI.
    pub is_awaited: bool,
}

/// The end of a spawned world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldEnds {
    pub world: World,
    /// The parts of each host.
    pub parts: Parts,
    /// The end of each of its ranks, in order.
    pub ends: Vec<RankEnd>,
}

impl WorldEnds {
    /// The end of a rank, numbered through the job.
    pub fn end_of(&self, rank: Rank) -> RankEnd {
        self.ends.get(self.world.own(rank).index()).copied().unwrap_or(RankEnd::NotStarted)
    }

    /// Ranks that never started or were lost with their host, so that no message reports the end of
    /// their output.
    pub fn unreported(&self) -> Vec<Rank> {
        let is_unreported = |end: RankEnd| matches!(end, RankEnd::NotStarted | RankEnd::Lost);
        self.world.ranks().ranks().filter(|&rank| is_unreported(self.end_of(rank))).collect()
    }
}

/// An input. Inputs about ranks concern those of this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Input {
    /// All checks here before the start have succeeded.
    Ready,
    /// Process ids of ranks that were spawned here; before [`Input::Started`].
    Pids(Vec<(Rank, u32)>),
    /// Every rank of this host was spawned, after [`Output::Go`].
    Started,
    /// A check before the start, or the start of a rank, failed.
    StartFailed(Failure),
    /// A rank ended. All its messages on the PMI connection were handed in before.
    Exited(Rank, RankEnd),
    /// A rank did PMI init (again).
    Initialized(Rank),
    /// A rank did PMI finalize.
    Finalized(Rank),
    /// A request of a rank shows which MPI library it uses.
    Uses(Rank, MpiLibrary),
    /// A rank uses this MPI library, which does not speak PMI.
    Alone(Rank, String),
    /// A process of a rank crashed. This comes before the end of the rank.
    Crashed(Rank, Crash),
    EnteredFence(Rank),
    /// A rank entered the fence of a group.
    EnteredGroup(Rank, FenceGroup),
    /// A rank asked to end the job.
    Aborted(Rank, i32, String),
    /// A rank's PMI connection cannot continue.
    BrokeProtocol(Rank, String),
    /// A user wants so many ranks fewer. For the root.
    Retire(u32),
    /// The console forwards a signal, or another process sends one.
    Signal(u8),
    /// The same for the ranks' own processes, without the others of their process groups.
    SignalProcesses(u8),
    /// The console's terminal has another size: columns, lines.
    Resize(u16, u16),
    /// `^C`.
    Interrupt,
    /// The terminal is gone.
    HangUp,
    /// `^Z`.
    Suspend,
    /// `fg`.
    Resume,
    /// The console no longer holds the job, or the crashed processes.
    GoOn,
    /// The console's connection closed.
    ConsoleLost,
    /// The daemon asks for the end of the job.
    Kill,
    /// The daemon of this host has died before some child managers have connected through it.
    CutOff,
    /// Standard output cannot be written any longer: its reader closed it.
    OutputClosed,
    /// Output cannot be written, with the system's text for the error.
    OutputFailed(String),
    /// Every process of the job is stopped, after [`Output::StopTree`].
    TreeStopped,
    /// The reason why ranks cannot receive a signal that asks them to end.
    SignalRefused(String),
    /// These processes cannot be killed, after [`Output::KillTree`]. The manager does not wait for them.
    LeftRunning(String),
    /// No descendant lives that can be killed, after [`Output::KillTree`].
    TreeGone,
    /// Output was written after [`Output::Drain`]: its reader reads.
    DrainGoesOn,
    /// All output is written or discarded, after [`Output::Drain`].
    Drained,
    /// No object of the job is left here, after [`Output::CleanUp`].
    CleanedUp,
    /// A notice for the user.
    Notice(String),
    /// The job's directory here is in this place, and why, before [`Input::Ready`].
    Elsewhere(String, String),
    /// A message of the parent.
    FromParent(Down),
    /// A message of the child manager at this tree index.
    FromChild(usize, Up),
    /// The child manager at this tree index cannot be reached any longer, or never connected.
    ChildLost(usize, String),
    /// The same for a child manager that has closed its link: it has probably ended.
    ChildClosed(usize, String),
    /// The manager on this host has ended without its last report, as its daemon says. For the root.
    ManagerEnded(DaemonName, ManagerEnd),
    /// The parent cannot be reached any longer.
    ParentLost(String),
    /// Hosts that did not receive the job, and the reasons. For the root.
    Missing(Vec<(DaemonName, String)>),
    /// Hosts of the ring have changed. For the root.
    HostsChanged {
        changes: Vec<HostChange>,
        /// Hosts that a new daemon has found again.
        found: Vec<DaemonName>,
    },
    /// The events of the job have a subscriber. For the root.
    ReportEvents,
    /// A new daemon has come, which has no event of the job and no question about a spawn.
    Registered,
    /// An event that concerns spawns.
    Spawn(SpawnInput),
    /// The ranks of other jobs have arrived at the fence of that group, or will not, after [`Output::Assembled`]. For the
    /// root.
    Met(Rank, FenceGroup),
    /// A job to which this one is connected has failed. For the root.
    ConnectedFailed {
        /// The other job.
        job: JobId,
        /// Its exit code.
        code: u8,
        /// Its failure.
        problem: String,
    },
    /// The checks of a world here have succeeded, or a failure was reported.
    Prepared(Rank),
    /// Every rank of a world here was started, or a failure was reported.
    WorldStarted(Rank),
    /// A part of a world cannot be started here.
    WorldFailed(Rank, Failure),
    /// A rank here reports that its world and another one, by its number, share their fate or do
    /// not.
    WorldConnection {
        from: Rank,
        /// The number of the other world.
        number: u32,
        /// Whether they share it.
        joined: bool,
    },
    /// The console sends a line to the debuggers of these ranks. For the root.
    Debug(RankSet, String),
    /// The programs of a debugged job have ended and are to be started again. For the root.
    Restart,
    /// Everything is as before the first start, after [`Output::Restart`].
    Restarted,
    /// A rank here asks for a signal to another rank of the job.
    InterruptRank {
        /// The rank that asks.
        from: Rank,
        /// The rank that gets the signal.
        rank: Rank,
        /// The signal's number.
        signal: u8,
    },
}

/// An action for the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Report to the console, before any other action, that ranks may run from now on. At the root.
    ReportStarted,
    /// All hosts are ready: spawn the ranks of this host, then hand in [`Input::Started`].
    Go,
    /// Send this to every child manager that is not lost.
    ToChildren(Down),
    /// Send this to the parent.
    ToParent(Up),
    /// The child manager at this tree index will not come: wait for no link and no output of it.
    GiveUp(usize),
    /// Send the signal to the process group of every living rank.
    SignalRanks(u8),
    /// Send the signal to the process of every living rank, and to no other process of its group.
    SignalProcesses(u8),
    /// Send SIGTERM to the process groups of these ranks, which run here.
    Retire(RankSet),
    /// The terminals of ranks have this size from now on: columns, lines. Send SIGWINCH as for
    /// [`Output::SignalRanks`].
    Resize(u16, u16),
    /// Stop every descendant, then hand in [`Input::TreeStopped`].
    StopTree,
    /// Continue every descendant.
    ContinueTree,
    /// Read pending PMI messages of ranks of the first world.
    ReadPmi,
    /// Let ranks die that crashed and were stopped for the user.
    ReleaseCrashed,
    /// Kill every descendant until none is left, then hand in [`Input::TreeGone`].
    KillTree,
    /// Release the ranks of this world that wait in the fence.
    ReleaseFence(Rank),
    /// Release the ranks of the world with this first rank that wait in the fence of that group.
    ReleaseGroup(Rank, FenceGroup),
    /// All members of a group that meets ranks of other jobs have arrived. Hand in [`Input::Met`] when the others have.
    /// At the root.
    Assembled(Rank, FenceGroup),
    /// Send this to the child managers at these tree indices.
    ToSome(Vec<usize>, Down),
    /// Further hosts join the job, with tree indices from this one on. Some may be known already.
    Grow(u32, Vec<HostSlice>),
    /// A world will be started here or below. If it has a part here: prepare that, then hand in
    /// [`Input::Prepared`].
    Prepare(Box<Announced>),
    /// Start the ranks of that world that run here, then hand in [`Input::WorldStarted`].
    StartWorld(Rank),
    /// Kill the processes of that world here. Hand in [`Input::Exited`] for each of its ranks here.
    EndWorld(Rank),
    /// All ranks of that world have ended.
    ForgetWorld(Rank),
    /// The ends of its ranks, before the world is forgotten or the job is over. At the root.
    WorldEnded(WorldEnds),
    /// An action that concerns spawns.
    Spawn(SpawnOutput),
    /// Send the signal to the process of that rank.
    Interrupt(Rank, u8),
    /// That rank has failed, and the ranks of its world that use PMI get an event.
    Dead(Rank),
    /// Send this to the debuggers of those of these ranks that run here. The debuggers of all these
    /// ranks here and below must answer.
    Debug(RankSet, String),
    /// Renew the key-value space of the first world and the PMI sessions of its ranks, then hand in
    /// [`Input::Restarted`].
    Restart,
    /// Report to the console that the programs can be started again. At the root.
    ReportRestarted,
    /// Report the first failure. At the root.
    ReportFailed {
        /// The host, if the failure happened on one host.
        host: Option<DaemonName>,
        failure: Failure,
    },
    /// Report the crash of a process of that rank. At the root.
    ReportCrashed(Rank, Crash),
    /// Show a line to the user. At the root.
    ReportNotice(String),
    /// Report these events of the job to the daemon, in this order. At the root.
    Events(Vec<Recorded>),
    /// Process ids of ranks of any host. At the root.
    Pids(Vec<(Rank, u32)>),
    /// Report to the console that everything is stopped. At the root.
    ReportSuspended,
    /// Write the rest of the output, then hand in [`Input::Drained`].
    Drain,
    /// Discard the rest of the output.
    DiscardOutput,
    /// Clean up what the job left on this host, then hand in [`Input::CleanedUp`].
    CleanUp,
    /// No object of the job is left on any host: report this exit code to the console, and end. At
    /// the root.
    Finish(u8),
    /// No rank was started, and no object of the job is left: end without a message to the console,
    /// which then submits the job again. At the root.
    Withdraw,
    /// No object of the job is left here and below: send the waiting messages, and end. Not at the
    /// root.
    Leave,
}

/// The decisions for the whole job.
#[derive(Debug)]
struct Root {
    job: Job,
    spawns: RootSpawns,
}

/// One manager of a job. The module's documentation describes it.
#[derive(Debug)]
pub struct Manager {
    branch: Branch,
    spawns: Spawns,
    root: Option<Root>,
    outputs: VecDeque<Output>,
}

impl Manager {
    /// A manager of a job that will start next.
    ///
    /// # Panics
    /// If the host slices have no such index.
    pub fn new(config: &Config) -> Self {
        let branch = Branch::new(config);
        let is_root = branch.is_root();
        Self {
            branch,
            spawns: Spawns::new(is_root),
            root: is_root.then(|| Root {
                job: Job::new(config),
                spawns: RootSpawns::new(config.spawns.clone(), config.size),
            }),
            outputs: VecDeque::new(),
        }
    }

    /// Handles inputs that do not concern a rank.
    fn handle_other(&mut self, now: Time, input: Input) {
        let branch = &mut self.branch;
        match input {
            Input::Ready => branch.answer_here(Question::Ready),
            Input::Started => branch.answer_here(Question::Started),
            Input::TreeStopped => branch.answer_here(Question::Stopped),
            Input::TreeGone => branch.answer_here(Question::Gone),
            Input::Drained => branch.answer_here(Question::Drained),
            Input::CleanedUp => branch.answer_here(Question::CleanedUp),
            Input::StartFailed(failure) => branch.start_failed(failure),
            Input::SignalRefused(problem) => branch.failed(Failure::Suite { problem }),
            Input::LeftRunning(processes) => branch.failed(Failure::LeftRunning { processes }),
            Input::OutputFailed(problem) => branch.failed(Failure::OutputFailed { problem }),
            Input::Notice(text) => branch.send_up(Up::Notice { text }),
            Input::Elsewhere(place, problem) => branch.elsewhere(place, problem),
            Input::Kill => branch.kill_here(),
            Input::CutOff => self.at_root(Job::withdraw),
            Input::FromParent(down) => branch.receive_command(down),
            Input::FromChild(tree_index, up) => branch.receive(now, tree_index, up),
            Input::ChildLost(tree_index, problem) => branch.child_lost(tree_index, problem, false),
            Input::ChildClosed(tree_index, problem) => branch.child_lost(tree_index, problem, true),
            Input::ManagerEnded(host, end) => {
                self.at_root(|job| job.manager_ended(now, &host, end))
            }
            Input::ParentLost(_) => branch.parent_lost(),
            Input::Missing(members) => branch.missing(members),
            Input::HostsChanged { changes, found } => {
                self.at_root(|job| job.hosts_changed(now, changes, found));
            }
            Input::ReportEvents => self.at_root(|job| job.recorder.report_all()),
            Input::Registered => self.registered(),
            Input::Spawn(input) => self.handle_spawn(now, input),
            Input::Met(first, group) => self.at_root(|job| job.met(first, group)),
            Input::ConnectedFailed { job, code, problem } => {
                let failure = Failure::ConnectedJob { job, code, problem };
                self.at_root(|job| job.connected_failed(now, failure));
            }
            Input::Prepared(first) => branch.answer_here(Question::Prepared(first)),
            Input::WorldStarted(first) => branch.answer_here(Question::WorldStarted(first)),
            Input::WorldFailed(first, failure) => branch.world_failed(first, failure),
            Input::Debug(ranks, line) => self.at_root(|job| job.debug(ranks, line)),
            Input::Restart => self.at_root(Job::restart),
            Input::Restarted => branch.answer_here(Question::Restarted),
            Input::Signal(signal) => self.at_root(|job| job.signal_groups(now, signal)),
            Input::SignalProcesses(signal) => self.at_root(|job| job.signal_processes(now, signal)),
            Input::Retire(count) => self.at_root(|job| job.retire(count)),
            Input::Resize(columns, lines) => self.at_root(|job| job.resize(now, columns, lines)),
            Input::Interrupt => self.at_root(|job| job.interrupt(now, SIGINT)),
            Input::HangUp => self.at_root(|job| job.interrupt(now, SIGHUP)),
            Input::Suspend => self.at_root(|job| job.suspend(now)),
            Input::Resume => self.at_root(Job::resume),
            Input::GoOn => self.at_root(Job::release_held),
            Input::ConsoleLost => self.at_root(|job| job.console_lost(now)),
            Input::OutputClosed => self.at_root(|job| job.output_closed(now)),
            Input::DrainGoesOn => self.at_root(|job| job.drain_goes_on(now)),
            // `report_of` takes them.
            Input::Pids(_)
            | Input::Exited(..)
            | Input::Initialized(_)
            | Input::Finalized(_)
            | Input::EnteredFence(_)
            | Input::EnteredGroup(..)
            | Input::Aborted(..)
            | Input::BrokeProtocol(..)
            | Input::Uses(..)
            | Input::Alone(..)
            | Input::Crashed(..)
            | Input::WorldConnection { .. }
            | Input::InterruptRank { .. } => {}
        }
    }

    /// The time at which [`Machine::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let root = self.root.as_ref();
        let job = root.and_then(|root| root.job.poll_timeout());
        let spawns = root.and_then(|root| root.spawns.next_deadline(&root.job));
        self.branch.poll_timeout().into_iter().chain(job).chain(spawns).min()
    }

    /// The end of a rank, or that it never started. Only the root has it.
    pub fn end_of(&self, rank: Rank) -> RankEnd {
        self.job().map_or(RankEnd::NotStarted, |job| job.end_of(rank))
    }

    /// The present exit code of `mpirun`. Only the root has it; 0 elsewhere.
    pub fn exit_code(&self) -> u8 {
        self.job().map_or(0, Job::exit_code)
    }

    /// The first failure. Only the root has it.
    pub fn failure(&self) -> Option<&Failure> {
        self.job().and_then(Job::failure)
    }

    fn job(&self) -> Option<&Job> {
        self.root.as_ref().map(|root| &root.job)
    }

    /// Handles an input of the console, which only the root has.
    fn at_root(&mut self, decide: impl FnOnce(&mut Job)) {
        if let Some(root) = &mut self.root {
            decide(&mut root.job);
        }
    }
}

impl Machine for Manager {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        if let Input::Exited(rank, _) = &input {
            self.spawns.forget(*rank);
        }
        let branch = &mut self.branch;
        match report_of(input) {
            Ok(report) => branch.receive_here(now, report),
            Err(input) => self.handle_other(now, *input),
        }
        self.settle(now);
    }

    /// [`Machine::end_turn`] sends reports that are due.
    fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.branch.handle_timeout(now);
        if let Some(Root { job, spawns }) = &mut self.root {
            job.handle_timeout(now);
            spawns.expire(now);
        }
        self.settle(now);
    }

    /// Reports to the parent what the ranks here and below did since the last call.
    fn end_turn(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.branch.flush();
        self.at_root(Job::report_events);
        self.with_spawns(|spawns, job| {
            spawns.place_next(now, job);
            spawns.report(now, job);
        });
        self.settle(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

/// The report about a rank that an input stands for, if it is one.
fn report_of(input: Input) -> Result<Up, Box<Input>> {
    Ok(match input {
        Input::Pids(pids) => Up::Pids { pids },
        Input::Exited(rank, end) => Up::Exited { ends: vec![(rank, end)] },
        Input::Initialized(rank) => Up::Initialized { ranks: one(rank) },
        Input::Finalized(rank) => Up::Finalized { ranks: one(rank) },
        Input::EnteredFence(rank) => Up::Entered { ranks: one(rank) },
        Input::EnteredGroup(rank, group) => Up::EnteredGroup { group, ranks: one(rank) },
        Input::Aborted(rank, code, message) => Up::Aborted { rank, code, message },
        Input::BrokeProtocol(rank, problem) => Up::BrokeProtocol { rank, problem },
        Input::Uses(rank, library) => Up::Uses { rank, library },
        Input::Alone(rank, library) => Up::Alone { rank, library },
        Input::Crashed(rank, crash) => Up::Crashed { rank, crash },
        Input::WorldConnection { from, number, joined } => {
            Up::WorldConnection { from, number, joined }
        }
        Input::InterruptRank { from, rank, signal } => Up::Interrupt { from, rank, signal },
        other => return Err(other.into()),
    })
}

fn one(rank: Rank) -> RankSet {
    RankSet::from_ranges(vec![(rank.0, rank.0)])
}
