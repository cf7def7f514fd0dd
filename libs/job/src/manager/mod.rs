//! The life of one job on the tree of its managers.
//!
//! [`Manager`] holds every decision of a manager process; the process itself only owns descriptors.
//! It does not read output, speak PMI or look at processes: it is told, and says what to do. Every
//! manager is a `branch` of the tree: it carries commands down and words up. The one on the console's
//! host is the root, which decides for all ranks what is commanded: the `job`. A job of one host is a
//! tree of one.

mod branch;
mod debug;
mod fence;
mod groups;
mod job;
mod queue;
mod roll;
mod spawns;
#[cfg(test)]
mod tests;
mod words;
mod worlds;

use std::collections::VecDeque;
use std::time::Duration;

use crate::manager::branch::{Branch, Question, Say};
use crate::manager::job::{Act, Job, SIGHUP, SIGINT};
use mpd_machine::{Machine, Time, UNDRAINED};
use mpd_wire::job::{
    Crash, Failure, OnFailure, Parts, RankEnd, Share, Shares, SpawnOutcome, World,
};
use mpd_wire::message::{Down, FenceGroup, Up};
use mpd_wire::{DaemonName, Rank, RankSet};

pub use self::queue::{PLACING_PATIENCE, SpawnQueue};

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
    /// Its ranks are debuggers, whose programs come and go.
    pub debugged: bool,
}

/// A world that the root has found a place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldPlan {
    /// Which: numbers and ranks that no world had before.
    pub world: World,
    /// Who runs what of it.
    pub parts: Parts,
    /// Who asked for it.
    pub spawner: Rank,
    /// The name of its key-value space.
    pub kvsname: String,
    /// Hosts that join the job for it.
    pub joining: Vec<Share>,
}

/// How a world that was spawned has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldEnds {
    /// Which.
    pub world: World,
    /// Who ran what of it.
    pub parts: Parts,
    /// The end of each of its ranks, in order.
    pub ends: Vec<RankEnd>,
}

impl WorldEnds {
    /// How a rank, numbered through the job, has ended.
    pub fn end_of(&self, rank: Rank) -> RankEnd {
        self.ends.get(self.world.own(rank).index()).copied().unwrap_or(RankEnd::NotStarted)
    }

    /// Ranks that have not come to an end of their own, so that nobody says when their output has ended.
    pub fn unheard(&self) -> Vec<Rank> {
        let is_unheard = |end: RankEnd| matches!(end, RankEnd::NotStarted | RankEnd::Lost);
        self.world.ranks().ranks().filter(|&rank| is_unheard(self.end_of(rank))).collect()
    }
}

/// What happened. Words about ranks are about those of this host.
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
    /// A rank uses this MPI library, which does not speak PMI.
    Alone(Rank, String),
    /// A process of a rank crashed; before its end.
    Crashed(Rank, Crash),
    /// A rank entered the fence.
    EnteredFence(Rank),
    /// A rank entered the fence of a group.
    EnteredGroup(Rank, FenceGroup),
    /// A rank asked for the end of the job.
    Aborted(Rank, i32, String),
    /// A rank's PMI connection cannot be continued.
    BrokeProtocol(Rank, String),
    /// The console forwards a signal, or somebody sends one.
    Signal(u8),
    /// The same for the ranks' own processes, without the others of their groups.
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
    /// The console holds the job no longer, or what has crashed of it.
    GoOn,
    /// The console's connection closed.
    ConsoleLost,
    /// The daemon asks for the end of the job.
    Kill,
    /// The daemon of this host has died, and managers directly below have not connected by way of it.
    CutOff,
    /// Standard output cannot be written any more: its reader closed it.
    OutputClosed,
    /// Output cannot be written, in the system's words.
    OutputFailed(String),
    /// Every process of the job is stopped, after [`Output::StopTree`].
    TreeStopped,
    /// Why ranks cannot receive a signal that asks them to end.
    SignalRefused(String),
    /// These processes cannot be killed, after [`Output::KillTree`]. The manager does not wait for them.
    LeftRunning(String),
    /// No descendant lives that can be killed, after [`Output::KillTree`].
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
    /// A world is to be started. For the root.
    Spawn(WorldPlan),
    /// What that rank wanted spawned has no place. For the root.
    SpawnRefused(Rank),
    /// All that can be checked here of a world is well, or was told to have failed.
    Prepared(Rank),
    /// Every rank of a world that is to run here was started, or was told to have failed.
    Begun(Rank),
    /// Something of a world cannot be started here.
    WorldFailed(Rank, Failure),
    /// A rank here says that its world and another one, by its number, share their fate or do not.
    Bond {
        /// Who says so.
        from: Rank,
        /// The number of the other world.
        number: u32,
        /// Whether they do.
        joined: bool,
    },
    /// The console says something to the debuggers of these ranks. For the root.
    Debug(RankSet, String),
    /// The programs of a job that is debugged have ended and are to be started once more. For the root.
    Restart,
    /// All is as before the first start, after [`Output::Restart`].
    Restarted,
    /// A rank here wants another one of the job signaled.
    InterruptRank {
        /// Who wants it.
        from: Rank,
        /// Whom.
        rank: Rank,
        /// The signal's number.
        signal: u8,
    },
}

/// What the process has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Tell the console, before anything else is done, that ranks may run from now on. At the root.
    TellStarted,
    /// Everybody is ready: spawn the ranks of this host, then say [`Input::Started`].
    Go,
    /// Send this to every manager directly below that is not lost.
    ToChildren(Down),
    /// Send this to the manager above.
    ToParent(Up),
    /// The manager at this place, directly below, will not come: wait for no link and no output of it.
    GiveUp(usize),
    /// Send the signal to the process group of every rank that lives.
    SignalRanks(u8),
    /// Send the signal to the process of every rank that lives, and to nobody else of its group.
    SignalProcesses(u8),
    /// The terminals of ranks have this size from now on: columns, lines. Send SIGWINCH as for
    /// [`Output::SignalRanks`].
    Resize(u16, u16),
    /// Stop every descendant, then say [`Input::TreeStopped`].
    StopTree,
    /// Continue every descendant.
    ContinueTree,
    /// Read what ranks of the first world say by PMI, if that was not read yet.
    ReadPmi,
    /// Ranks that crashed and were stopped for the user may die.
    ReleaseCrashed,
    /// Kill every descendant until none is left, then say [`Input::TreeGone`].
    KillTree,
    /// Every rank of this world that waits in the fence may go on.
    ReleaseFence(Rank),
    /// Every rank of the world with this first rank that waits in the fence of that group may go on.
    ReleaseGroup(Rank, FenceGroup),
    /// Send this to the managers at these places, directly below.
    ToSome(Vec<usize>, Down),
    /// Further hosts join the job, at the places from here on; some may be known already.
    Grow(u32, Vec<Share>),
    /// A world is to be started here or below. If something of it runs here: prepare, then say
    /// [`Input::Prepared`].
    Prepare(World, Parts),
    /// Start the ranks of that world that run here, then say [`Input::Begun`].
    StartWorld(Rank),
    /// Kill what runs here of that world; say [`Input::Exited`] of each rank that was to run here.
    EndWorld(Rank),
    /// All ranks of that world have ended.
    ForgetWorld(Rank),
    /// How they have; before the world is forgotten, or the job is over. At the root.
    WorldEnded(WorldEnds),
    /// Tell a rank here what came of its spawn.
    Spawned(Rank, SpawnOutcome),
    /// Send the signal to the process of that rank.
    Interrupt(Rank, u8),
    /// That rank has failed, and those of its world that use PMI are to hear.
    Dead(Rank),
    /// Say this to the debuggers of those of these ranks that run here; something is expected of all of
    /// them that run here and below.
    Debug(RankSet, String),
    /// Begin the key-value space of the first world and the PMI sessions of its ranks anew, then say
    /// [`Input::Restarted`].
    Restart,
    /// Tell the console that the programs can be started once more. At the root.
    TellRestarted,
    /// The first failure is known. At the root.
    TellFailed {
        /// Where it happened, if it happened on one host.
        host: Option<DaemonName>,
        /// What.
        failure: Failure,
    },
    /// A process of that rank crashed. At the root.
    TellCrashed(Rank, Crash),
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
    /// Nothing has started, and nothing is left anywhere: end without a word to the console, which then
    /// submits the job once more. At the root.
    Withdraw,
    /// Nothing is left here and below: send what is to be sent, and end. Not at the root.
    Leave,
}

/// One manager of a job. See the module.
#[derive(Debug)]
pub struct Manager {
    branch: Branch,
    /// At the root.
    job: Option<Job>,
    outputs: VecDeque<Output>,
}

impl Manager {
    /// A manager of a job about to start.
    ///
    /// # Panics
    /// If the shares have no such place.
    pub fn new(config: Config<'_>) -> Self {
        let branch = Branch::new(&config);
        let job = branch.is_root().then(|| Job::new(&config));
        Self { branch, job, outputs: VecDeque::new() }
    }

    /// What is no word of a rank.
    fn handle_other(&mut self, now: Time, input: Input) {
        let branch = &mut self.branch;
        match input {
            Input::Ready => branch.answer_here(Question::Ready),
            Input::Started => branch.answer_here(Question::Started),
            Input::TreeStopped => branch.answer_here(Question::Stopped),
            Input::TreeGone => branch.answer_here(Question::Gone),
            Input::Drained => branch.answer_here(Question::Drained),
            Input::Tidied => branch.answer_here(Question::Tidied),
            Input::StartFailed(failure) => branch.start_failed(failure),
            Input::SignalRefused(problem) => branch.failed(Failure::Suite { problem }),
            Input::LeftRunning(processes) => branch.failed(Failure::LeftRunning { processes }),
            Input::OutputFailed(problem) => branch.failed(Failure::OutputFailed { problem }),
            Input::Notice(text) => branch.say(Up::Notice { text }),
            Input::Kill => branch.kill_here(),
            Input::CutOff => self.at_root(Job::withdraw),
            Input::FromParent(down) if !branch.is_root() => branch.command(down),
            Input::FromParent(_) => {}
            Input::FromChild(place, up) => branch.hear(now, place, up),
            Input::ChildLost(place, problem) => branch.child_lost(place, problem),
            Input::ParentLost(_) => branch.parent_lost(),
            Input::Missing(members) if branch.is_root() => branch.missing(members),
            Input::Missing(_) => {}
            Input::Spawn(plan) => self.at_root(|job| job.spawn(plan)),
            Input::SpawnRefused(spawner) => self.at_root(|job| job.refuse_spawn(spawner)),
            Input::Prepared(first) => branch.answer_here(Question::Prepared(first)),
            Input::Begun(first) => branch.answer_here(Question::Begun(first)),
            Input::WorldFailed(first, failure) => branch.world_failed(first, failure),
            Input::Debug(ranks, line) => self.at_root(|job| job.debug(ranks, line)),
            Input::Restart => self.at_root(Job::restart),
            Input::Restarted => branch.answer_here(Question::Restarted),
            Input::Signal(signal) => {
                self.at_root(|job| job.signal(now, signal, Down::Signal { signal }));
            }
            Input::SignalProcesses(signal) => {
                self.at_root(|job| job.signal(now, signal, Down::SignalProcesses { signal }));
            }
            Input::Resize(columns, lines) => {
                self.at_root(|job| job.resize(now, Down::Resize { columns, lines }));
            }
            Input::Interrupt => self.at_root(|job| job.interrupt(now, SIGINT)),
            Input::HangUp => self.at_root(|job| job.interrupt(now, SIGHUP)),
            Input::Suspend => self.at_root(|job| job.suspend(now)),
            Input::Resume => self.at_root(Job::resume),
            Input::GoOn => self.at_root(Job::go_on),
            Input::ConsoleLost => self.at_root(|job| job.console_lost(now)),
            Input::OutputClosed => self.at_root(|job| job.output_closed(now)),
            Input::DrainGoesOn => self.at_root(|job| job.drain_goes_on(now)),
            // Words of ranks.
            _ => {}
        }
    }

    /// Says upwards what the ranks here and below did since the last time. Call once at the end of each
    /// turn through [`Pump::advance`](mpd_machine::Pump::advance).
    pub fn flush(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.branch.flush();
        self.settle(now);
    }

    /// When [`Machine::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let job = self.job.as_ref().and_then(Job::poll_timeout);
        self.branch.poll_timeout().into_iter().chain(job).min()
    }

    /// How a rank ended, or that it never started. Only the root knows.
    pub fn end_of(&self, rank: Rank) -> RankEnd {
        self.job.as_ref().map_or(RankEnd::NotStarted, |job| job.end_of(rank))
    }

    /// The exit code that `mpirun` would have now. Only the root knows; 0 elsewhere.
    pub fn exit_code(&self) -> u8 {
        self.job.as_ref().map_or(0, Job::exit_code)
    }

    /// Whether a world could be started now. For the root.
    pub fn takes_worlds(&self) -> bool {
        self.job.as_ref().is_some_and(Job::takes_worlds)
    }

    /// The place of a rank of any world that lives. Only the root knows.
    pub fn place_of(&self, rank: Rank) -> Option<usize> {
        self.job.as_ref().and_then(|job| job.place_of(rank))
    }

    /// How many ranks live at each place that has some. Only the root knows.
    pub fn living_at(&self) -> Vec<(usize, u32)> {
        self.job.as_ref().map(Job::living_at).unwrap_or_default()
    }

    /// Whether a host's manager is out of reach. Only the root knows of all.
    pub fn is_lost(&self, place: usize) -> bool {
        self.job.as_ref().is_some_and(|job| job.is_lost(place))
    }

    /// What the console did: only the root has one.
    fn at_root(&mut self, decide: impl FnOnce(&mut Job)) {
        if let Some(job) = &mut self.job {
            decide(job);
        }
    }

    /// Carries words to the job and its commands to the branch until both are content.
    fn settle(&mut self, now: Time) {
        loop {
            if let Some(say) = self.branch.poll_say() {
                match (say, &mut self.job) {
                    (Say::Do(output), _) => self.outputs.push_back(output),
                    (Say::Up(up), Some(job)) => job.hear(now, up),
                    (Say::Up(up), None) => self.outputs.push_back(Output::ToParent(up)),
                }
            } else {
                match self.job.as_mut().and_then(Job::poll_act) {
                    Some(Act::Command(down)) => self.branch.command(down),
                    Some(Act::Tell(output)) => self.outputs.push_back(output),
                    None => return,
                }
            }
        }
    }
}

impl Machine for Manager {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        let branch = &mut self.branch;
        match word_of(input) {
            Ok(word) => branch.hear_here(now, word),
            Err(input) => self.handle_other(now, input),
        }
        self.settle(now);
    }

    /// What is due upwards is said by [`Manager::flush`].
    fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        self.branch.handle_timeout(now);
        if let Some(job) = &mut self.job {
            job.handle_timeout(now);
        }
        self.settle(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

/// The word of a rank of this host that an input is, if it is one.
fn word_of(input: Input) -> Result<Up, Input> {
    Ok(match input {
        Input::Pids(pids) => Up::Pids { pids },
        Input::Exited(rank, end) => Up::Exited { ends: vec![(rank, end)] },
        Input::Initialized(rank) => Up::Initialized { ranks: one(rank) },
        Input::Finalized(rank) => Up::Finalized { ranks: one(rank) },
        Input::EnteredFence(rank) => Up::Entered { ranks: one(rank) },
        Input::EnteredGroup(rank, group) => Up::EnteredGroup { group, ranks: one(rank) },
        Input::Aborted(rank, code, message) => Up::Aborted { rank, code, message },
        Input::BrokeProtocol(rank, problem) => Up::BrokeProtocol { rank, problem },
        Input::Alone(rank, library) => Up::Alone { rank, library },
        Input::Crashed(rank, crash) => Up::Crashed { rank, crash },
        Input::Bond { from, number, joined } => Up::Bond { from, number, joined },
        Input::InterruptRank { from, rank, signal } => Up::Interrupt { from, rank, signal },
        other => return Err(other),
    })
}

fn one(rank: Rank) -> RankSet {
    RankSet::from_ranges(vec![(rank.0, rank.0)])
}
