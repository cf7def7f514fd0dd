//! The part of a manager that the root and all others have: it passes commands to the children, collects their answers,
//! and passes reports of ranks to the parent.
//!
//! A command ([`Down`]) is performed here and sent to the children. A question is answered to the parent when this
//! manager and all children have answered. A lost child counts as having answered. The root's answers go to its job.
//!
//! ```text
//!              Go             Kill            all gone           Clean up             all cleaned up
//! Preparing ------> Running --------> Ending ----------> Gone -----------> CleaningUp ---------> Over
//!     |                                 ^
//!     +---------------------------------+
//! ```
//!
//! A manager that loses its parent performs the remaining steps alone: it becomes the root of its subtree and discards
//! the output.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::manager::fence::Reduce;
use crate::manager::groups::GroupEntries;
use crate::manager::reports::Reports;
use crate::manager::{Config, Output};
use mpd_sansio::Time;
use mpd_wire::job::{Failure, HostSlices, MpiLibrary, Parts, SpawnOutcome, World};
use mpd_wire::message::{Down, MAX_LISTED, Up};
use mpd_wire::{DaemonName, Rank, RankSet};

#[derive(Debug)]
pub(super) enum BranchOutput {
    /// For the own process.
    Perform(Output),
    /// For the parent; at the root for the job.
    Report(Up),
    /// For the children at these tree indices: the announcement of a world.
    Announce(Vec<usize>, World, Parts),
    /// A world will be started here or below.
    Prepare(World, Parts),
    /// The result of the spawn of a rank here.
    Spawned(Rank, SpawnOutcome),
}

/// A question that a manager answers for itself and its subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    Ready,
    Started,
    Stopped,
    Gone,
    Drained,
    CleanedUp,
    Restarted,
    /// Of the world with that first rank.
    Prepared(Rank),
    /// Of the world with that first rank.
    WorldStarted(Rank),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Preparing,
    Running,
    Ending,
    Gone,
    CleaningUp,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Reachable, or about to connect.
    Living,
    /// Out of reach.
    Lost,
    /// It has sent its last report.
    Left,
}

/// A child manager.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) tree_index: usize,
    member: DaemonName,
    standing: Standing,
    /// Whether it has reported that it is ready.
    ready: bool,
    /// The ranks of its subtree.
    pub(super) ranks: RankSet,
    /// The hosts of its subtree.
    pub(super) members: BTreeSet<DaemonName>,
}

/// A world with ranks in the subtree of this manager.
#[derive(Debug)]
pub(super) struct Branching {
    pub(super) world: World,
    /// The ranks of this host.
    pub(super) here: RankSet,
    /// The tree indices of the children with ranks in their subtrees.
    pub(super) children: Vec<usize>,
    pub(super) reduce: Reduce,
    pub(super) entries: GroupEntries,
    /// The MPI libraries that were reported to the parent.
    pub(super) libraries: BTreeSet<MpiLibrary>,
}

/// One manager's part in the tree.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) tree_index: usize,
    /// The number of ranks of the first world.
    size: u32,
    pub(super) member: DaemonName,
    pub(super) host_slices: HostSlices,
    /// The worlds by their first ranks.
    pub(super) worlds: BTreeMap<Rank, Branching>,
    /// The ranks of this host, of all worlds.
    pub(super) ranks: RankSet,
    pub(super) children: Vec<Child>,
    phase: Phase,
    /// The tree indices whose answer is missing, among them the own one.
    pub(super) questions: BTreeMap<Question, BTreeSet<usize>>,
    /// The number of the last command to stop.
    round: u32,
    /// The processes of this host are being killed, by a command or by a decision of this host.
    dying: bool,
    /// No process of this host is left.
    dead: bool,
    /// The parent is lost.
    orphan: bool,
    reports: Reports,
    outputs: VecDeque<BranchOutput>,
}

impl Branch {
    /// # Panics
    /// If there is no host slice at the tree index.
    pub(super) fn new(config: &Config) -> Self {
        let &Config { ref host_slices, tree_index, .. } = config;
        let host_slice = host_slices.get(tree_index).expect("a tree index of the host slices");
        let children = host_slices
            .children(tree_index)
            .filter_map(|children| Child::at(host_slices, children));
        // A host that joins later finds the job running.
        let is_late = tree_index > 0 && host_slice.ranks.is_empty();
        let mut branch = Self {
            tree_index,
            size: config.size,
            member: host_slice.member.clone(),
            host_slices: host_slices.clone(),
            worlds: BTreeMap::new(),
            ranks: host_slice.ranks.clone(),
            children: children.collect(),
            phase: if is_late { Phase::Running } else { Phase::Preparing },
            questions: BTreeMap::new(),
            round: 0,
            dying: false,
            dead: false,
            orphan: false,
            reports: Reports::default(),
            outputs: VecDeque::new(),
        };
        if is_late {
            branch.push(Output::Go);
            return branch;
        }
        branch.ask(Question::Ready);
        branch.ask(Question::Started);
        let first = Branching {
            world: World::of_job(config.size),
            here: branch.ranks.clone(),
            children: branch.children.iter().map(|child| child.tree_index).collect(),
            reduce: branch.reduce_of(&host_slices.subtree_ranks(tree_index)),
            entries: GroupEntries::default(),
            libraries: BTreeSet::new(),
        };
        branch.worlds.insert(Rank(0), first);
        branch
    }

    /// The collection of fence entries. At the root it stays empty, because the job has the fences.
    pub(super) fn reduce_of(&self, ranks: &RankSet) -> Reduce {
        if self.is_root() { Reduce::of(&RankSet::none()) } else { Reduce::of(ranks) }
    }

    pub(super) const fn is_root(&self) -> bool {
        self.tree_index == 0
    }

    /// The next output of the branch.
    pub(super) fn poll_output(&mut self) -> Option<BranchOutput> {
        self.outputs.pop_front()
    }

    /// The time at which [`Branch::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.worlds.values().filter_map(|world| world.reduce.poll_timeout()).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.worlds.values_mut().for_each(|world| world.reduce.handle_timeout(now));
    }

    /// Reports what ranks did since the last call.
    pub(super) fn flush(&mut self) {
        self.flush_reports();
        let due: Vec<RankSet> =
            self.worlds.values_mut().map(|world| world.reduce.take_due()).collect();
        for ranks in due.iter().flat_map(|due| due.parts(MAX_LISTED)) {
            self.push_up(Up::Entered { ranks });
        }
        let entries: Vec<Up> =
            self.worlds.values_mut().flat_map(|world| world.entries.take()).collect();
        entries.into_iter().for_each(|up| self.push_up(up));
    }

    /// A command of the parent; the root ignores it.
    pub(super) fn receive_command(&mut self, down: Down) {
        if !self.is_root() {
            self.command(down);
        }
    }

    /// Handles a command of the parent or of the job. A command that does not fit the phase is ignored.
    pub(super) fn command(&mut self, down: Down) {
        match (down, self.phase) {
            (Down::Go, Phase::Preparing) => {
                self.phase = Phase::Running;
                self.pass_down(Down::Go);
                self.perform(Output::Go);
            }
            (Down::Kill, Phase::Preparing | Phase::Running) => self.kill(),
            (Down::Drain, Phase::Gone) => self.drain(),
            (down @ Down::Discard, phase) if phase < Phase::Over => {
                self.pass_down(down);
                self.push(Output::DiscardOutput);
            }
            (down @ Down::CleanUp, Phase::Gone) => {
                self.phase = Phase::CleaningUp;
                self.questions.clear();
                self.pass_down(down);
                self.ask(Question::CleanedUp);
                self.push(Output::CleanUp);
            }
            (down, Phase::Running) => self.command_running(down),
            (
                _,
                Phase::Preparing | Phase::Ending | Phase::Gone | Phase::CleaningUp | Phase::Over,
            ) => {}
        }
    }

    /// A command to the ranks, while the job runs.
    fn command_running(&mut self, down: Down) {
        match down {
            Down::Signal { signal } => {
                self.pass_down(down);
                self.perform(Output::SignalRanks(signal));
            }
            Down::SignalProcesses { signal } => {
                self.pass_down(down);
                self.perform(Output::SignalProcesses(signal));
            }
            Down::Resize { columns, lines } => {
                self.pass_down(down);
                self.perform(Output::Resize(columns, lines));
            }
            Down::Stop { round } => {
                self.round = round;
                self.pass_down(down);
                self.ask(Question::Stopped);
                self.perform(Output::StopTree);
                if self.dying {
                    self.answer(Question::Stopped, self.tree_index);
                }
            }
            Down::Continue => {
                self.questions.remove(&Question::Stopped);
                self.pass_down(down);
                self.perform(Output::ContinueTree);
            }
            Down::GoOn => {
                self.pass_down(down);
                self.perform(Output::ReadPmi);
                self.perform(Output::ReleaseCrashed);
            }
            Down::Debug { ranks, line } => self.command_debuggers(&ranks, line),
            Down::Restart => self.restart(),
            of_worlds => self.command_worlds(of_worlds),
        }
    }

    /// The processes of this host have completed the step that the question is about.
    pub(super) fn answer_here(&mut self, question: Question) {
        match question {
            Question::Gone => {
                self.dead = true;
                self.answer(question, self.tree_index);
            }
            // The processes were continued in the meantime.
            Question::Stopped
                if self.phase == Phase::Running && !self.questions.contains_key(&question) =>
            {
                self.perform(Output::ContinueTree);
            }
            // This host answers this question only after its children.
            Question::Drained if !self.drains_here() => {}
            Question::Ready
            | Question::Started
            | Question::Stopped
            | Question::Drained
            | Question::CleanedUp
            | Question::Restarted
            | Question::Prepared(_)
            | Question::WorldStarted(_) => self.answer(question, self.tree_index),
        }
    }

    /// The daemon of this host, or a process that may signal its processes, requests the end of the job. The root
    /// gets this as a failure before it gets the ends of the ranks. The ranks here end without the root's command.
    pub(super) fn kill_here(&mut self) {
        if self.phase >= Phase::CleaningUp {
            return;
        }
        self.send_up(Up::Failed { member: self.member.clone(), failure: Failure::Killed });
        if !self.is_root() && !std::mem::replace(&mut self.dying, true) {
            self.push(Output::KillTree);
        }
    }

    /// A check or a start on this host failed before all ranks ran.
    pub(super) fn start_failed(&mut self, failure: Failure) {
        self.send_up(Up::StartFailed { member: self.member.clone(), failure });
    }

    /// A failure of this host that is not one of a rank.
    pub(super) fn failed(&mut self, failure: Failure) {
        self.send_up(Up::Failed { member: self.member.clone(), failure });
    }

    /// A report about ranks of this host.
    pub(super) fn receive_here(&mut self, now: Time, up: Up) {
        if let Some(up) = confined(up, &self.ranks) {
            self.pass_up(now, up);
        }
    }

    /// A report of a child. Parts about ranks and hosts outside the child's subtree are ignored.
    pub(super) fn receive(&mut self, now: Time, tree_index: usize, up: Up) {
        let Some(child) = self.children.iter_mut().find(|child| child.is_living_at(tree_index))
        else {
            return;
        };
        match up {
            Up::Ready => {
                child.ready = true;
                self.answer(Question::Ready, tree_index);
            }
            Up::Started => self.answer(Question::Started, tree_index),
            Up::Stopped { round } if round == self.round => {
                self.answer(Question::Stopped, tree_index)
            }
            Up::Stopped { .. } => {}
            Up::Gone => self.answer(Question::Gone, tree_index),
            Up::Drained => self.answer(Question::Drained, tree_index),
            Up::CleanedUp => {
                if self.questions.get(&Question::CleanedUp).is_some_and(|q| q.contains(&tree_index))
                {
                    child.standing = Standing::Left;
                    self.answer(Question::CleanedUp, tree_index);
                }
            }
            Up::Prepared { first } => {
                child.ready = true;
                self.answer(Question::Prepared(first), tree_index);
            }
            Up::WorldStarted { first } => self.answer(Question::WorldStarted(first), tree_index),
            Up::Restarted => self.answer(Question::Restarted, tree_index),
            Up::StartFailed { ref member, .. }
            | Up::WorldFailed { ref member, .. }
            | Up::Failed { ref member, .. }
            | Up::Elsewhere { ref member, .. }
            | Up::Lost { ref member, .. } => {
                if child.members.contains(member) {
                    self.send_up(up);
                }
            }
            Up::Notice { .. } => self.send_up(up),
            Up::Pids { .. }
            | Up::Exited { .. }
            | Up::Initialized { .. }
            | Up::Finalized { .. }
            | Up::Entered { .. }
            | Up::EnteredGroup { .. }
            | Up::Aborted { .. }
            | Up::Interrupt { .. }
            | Up::WorldConnection { .. }
            | Up::Uses { .. }
            | Up::Alone { .. }
            | Up::Crashed { .. }
            | Up::BrokeProtocol { .. } => {
                if let Some(up) = confined(up, &child.ranks) {
                    self.pass_up(now, up);
                }
            }
            // These are for the process, not for the machine.
            Up::Lacks { .. }
            | Up::Trace { .. }
            | Up::StdinCredit { .. }
            | Up::StdinUnwanted { .. }
            | Up::Looked { .. }
            | Up::Pulse => {}
        }
    }

    /// A child cannot be reached. It counts as having answered all questions except those of the start, which its loss
    /// ends. The job fails only if reports or output of that subtree are missing.
    pub(super) fn child_lost(&mut self, tree_index: usize, problem: String, closed: bool) {
        let has_reported = self.has_reported(tree_index);
        let Some(child) = self.children.iter_mut().find(|child| child.is_living_at(tree_index))
        else {
            return;
        };
        child.standing = Standing::Lost;
        let member = child.member.clone();
        if !has_reported {
            self.send_up(Up::Lost { member, problem, closed });
        }
        let start = [Question::Ready, Question::Started];
        let asked: Vec<Question> =
            self.questions.keys().copied().filter(|question| !start.contains(question)).collect();
        for question in asked {
            self.answer(question, tree_index);
        }
    }

    /// Whether the ends and the output of all ranks in that subtree have arrived. The managers there perform the
    /// remaining steps without a link.
    fn has_reported(&self, tree_index: usize) -> bool {
        let drained = self.questions.get(&Question::Drained);
        self.phase >= Phase::CleaningUp
            || drained.is_some_and(|waiting| !waiting.contains(&tree_index))
    }

    /// Hosts that the daemon could not reach with the job. Some may have it nevertheless. That is certain if a host
    /// above them is ready, because a manager is ready only with its whole subtree. For the root.
    pub(super) fn missing(&mut self, members: Vec<(DaemonName, String)>) {
        if !self.is_root() {
            return;
        }
        for (member, problem) in members {
            let over = self.children.iter().find(|child| child.members.contains(&member));
            match over.map(|child| (child.tree_index, child.ready, child.member == member)) {
                Some((tree_index, false, true)) => {
                    self.push(Output::GiveUp(tree_index));
                    self.child_lost(tree_index, problem, false);
                }
                Some((_, false, false)) => {
                    self.send_up(Up::Lost { member, problem, closed: false });
                }
                Some((_, true, _)) | None => {}
            }
        }
    }

    /// The job's directory here is in this place.
    pub(super) fn elsewhere(&mut self, place: String, problem: String) {
        self.send_up(Up::Elsewhere { member: self.member.clone(), place, problem });
    }

    /// The parent cannot be reached: output is discarded and the ranks are killed.
    pub(super) fn parent_lost(&mut self) {
        if self.is_root() || std::mem::replace(&mut self.orphan, true) {
            return;
        }
        self.command(Down::Discard);
        self.command(Down::Kill);
        self.command(Down::CleanUp);
    }

    fn kill(&mut self) {
        self.phase = Phase::Ending;
        self.questions.clear();
        for world in self.worlds.values_mut() {
            world.reduce.release();
            world.entries.clear();
        }
        self.pass_down(Down::Kill);
        self.ask(Question::Gone);
        if !std::mem::replace(&mut self.dying, true) {
            self.push(Output::KillTree);
        }
        if self.dead {
            self.answer(Question::Gone, self.tree_index);
        }
    }

    fn drain(&mut self) {
        if !self.questions.contains_key(&Question::Drained) {
            self.pass_down(Down::Drain);
            self.ask(Question::Drained);
            if self.drains_here() {
                self.push(Output::Drain);
            }
        }
    }

    /// Whether the output of all children is here, so that only this host's drain is missing.
    fn drains_here(&self) -> bool {
        let waiting = self.questions.get(&Question::Drained);
        waiting.is_some_and(|waiting| waiting.iter().eq([&self.tree_index]))
    }

    pub(super) fn ask(&mut self, question: Question) {
        let waiting =
            self.living_children().map(|child| child.tree_index).chain([self.tree_index]).collect();
        self.questions.insert(question, waiting);
    }

    pub(super) fn living_children(&self) -> impl Iterator<Item = &Child> {
        self.children.iter().filter(|child| child.standing == Standing::Living)
    }

    /// Takes the answer of one tree index. After the last one the answer goes to the parent.
    pub(super) fn answer(&mut self, question: Question, tree_index: usize) {
        let Some(waiting) = self.questions.get_mut(&question) else { return };
        if !waiting.remove(&tree_index) {
            return;
        }
        if !waiting.is_empty() {
            if tree_index != self.tree_index && question == Question::Drained && self.drains_here()
            {
                self.push(Output::Drain);
            }
            return;
        }
        match question {
            Question::Ready => self.send_up(Up::Ready),
            Question::Started => self.send_up(Up::Started),
            Question::Stopped => self.send_up(Up::Stopped { round: self.round }),
            Question::Gone => {
                self.phase = Phase::Gone;
                self.send_up(Up::Gone);
                if self.orphan {
                    self.command(Down::CleanUp);
                }
            }
            Question::Drained => self.send_up(Up::Drained),
            Question::Prepared(first) => self.send_up(Up::Prepared { first }),
            Question::WorldStarted(first) => self.send_up(Up::WorldStarted { first }),
            Question::Restarted => self.send_up(Up::Restarted),
            Question::CleanedUp => {
                self.phase = Phase::Over;
                self.send_up(Up::CleanedUp);
                if !self.is_root() {
                    self.push(Output::Leave);
                }
            }
        }
    }

    /// Adds a report of ranks to those that go up at the end of the turn; at the root it goes up at once.
    fn pass_up(&mut self, now: Time, up: Up) {
        let restarting = self.questions.get(&Question::Restarted);
        if let Up::Entered { ranks } | Up::EnteredGroup { ranks, .. } = &up
            && restarting.is_some_and(|waiting| !waiting.is_empty())
            && ranks.ranks().next().is_some_and(|rank| rank.0 < self.size)
        {
            // This entry belongs to the earlier run. Entries of the next run come only after all hosts have restarted.
            return;
        }
        if self.is_root() {
            self.send_up(up);
            return;
        }
        match up {
            Up::Pids { pids } => self.reports.add_pids(pids),
            Up::Initialized { ranks } => {
                if self.reports.has_finalized(&ranks) {
                    self.flush_reports();
                }
                self.reports.add_initialized(&ranks);
            }
            Up::Finalized { ranks } => self.reports.add_finalized(&ranks),
            Up::Exited { ends } => {
                for &(rank, _) in &ends {
                    if let Some(world) = self.world_of(rank) {
                        world.reduce.leave(rank);
                    }
                }
                self.reports.add_ends(ends);
            }
            Up::Entered { ranks } if self.phase == Phase::Running => {
                let first = ranks.ranks().next();
                if let Some(world) = first.and_then(|rank| self.world_of(rank)) {
                    world.reduce.enter(now, &ranks);
                }
            }
            Up::EnteredGroup { group, ranks } if self.phase == Phase::Running => {
                let first = ranks.ranks().next();
                if let Some(world) = first.and_then(|rank| self.world_of(rank)) {
                    world.entries.add(group, &ranks);
                }
            }
            Up::Entered { .. } | Up::EnteredGroup { .. } => {}
            // One rank of each kind is enough for the root.
            Up::Uses { rank, library } => {
                let world = self.world_of(rank);
                if world.is_some_and(|world| world.libraries.insert(library)) {
                    self.send_up(Up::Uses { rank, library });
                }
            }
            other => self.send_up(other),
        }
    }

    /// Sends a report to the parent, after the collected reports of ranks.
    pub(super) fn send_up(&mut self, up: Up) {
        self.flush_reports();
        self.push_up(up);
    }

    fn flush_reports(&mut self) {
        for up in self.reports.take() {
            self.push_up(up);
        }
    }

    fn push_up(&mut self, up: Up) {
        if !self.orphan {
            self.outputs.push_back(BranchOutput::Report(up));
        }
    }

    pub(super) fn pass_down(&mut self, down: Down) {
        if self.living_children().next().is_some() {
            self.push(Output::ToChildren(down));
        }
    }

    /// An output that has no meaning for processes that are being killed.
    pub(super) fn perform(&mut self, output: Output) {
        self.emit_if_living(BranchOutput::Perform(output));
    }

    /// The same for an output that is not for the process alone.
    pub(super) fn emit_if_living(&mut self, output: BranchOutput) {
        if !self.dying {
            self.emit(output);
        }
    }

    pub(super) fn push(&mut self, output: Output) {
        self.emit(BranchOutput::Perform(output));
    }

    pub(super) fn emit(&mut self, output: BranchOutput) {
        self.outputs.push_back(output);
    }
}

impl Child {
    pub(super) fn at(host_slices: &HostSlices, tree_index: usize) -> Option<Self> {
        let children = host_slices.subtree(tree_index);
        let members =
            children.into_iter().filter_map(|p| host_slices.get(p)).map(|s| s.member.clone());
        Some(Self {
            tree_index,
            member: host_slices.get(tree_index)?.member.clone(),
            standing: Standing::Living,
            ready: false,
            ranks: host_slices.subtree_ranks(tree_index),
            members: members.collect(),
        })
    }

    fn is_living_at(&self, tree_index: usize) -> bool {
        self.tree_index == tree_index && self.standing == Standing::Living
    }
}

/// The part of a report that is about `ranks`; `None` if no part remains.
fn confined(mut up: Up, ranks: &RankSet) -> Option<Up> {
    let known = |rank: &Rank| ranks.contains(*rank);
    let something = match &mut up {
        Up::Pids { pids } => {
            pids.retain(|(rank, _)| known(rank));
            !pids.is_empty()
        }
        Up::Exited { ends } => {
            ends.retain(|(rank, _)| known(rank));
            !ends.is_empty()
        }
        Up::Initialized { ranks: some }
        | Up::Finalized { ranks: some }
        | Up::Entered { ranks: some }
        | Up::EnteredGroup { ranks: some, .. } => !some.is_empty() && some.is_within(ranks),
        Up::Aborted { rank, .. }
        | Up::BrokeProtocol { rank, .. }
        | Up::Uses { rank, .. }
        | Up::Alone { rank, .. }
        | Up::Crashed { rank, .. }
        | Up::WorldConnection { from: rank, .. }
        | Up::Interrupt { from: rank, .. } => known(rank),
        // The report is not about ranks; `Branch::receive` handles it.
        _ => true,
    };
    something.then_some(up)
}
