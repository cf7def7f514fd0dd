//! What every manager does, the root or not: carry commands down, gather answers from below, pass words
//! of ranks up.
//!
//! A command ([`Down`]) is performed here and sent to the managers directly below. A question is
//! answered upwards once the answers from here and from all below are in; a manager that was lost has
//! nothing left to answer for. At the root, upwards is the job.
//!
//! ```text
//!              Go             Kill            all gone           Tidy             all tidied
//! Preparing ------> Running --------> Ending ----------> Gone -----------> Tidying ---------> Over
//!     |                                 ^
//!     +---------------------------------+
//! ```
//!
//! A manager that loses the one above does the rest of this walk alone: it is the root of what is left,
//! and throws the output away.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::manager::fence::Reduce;
use crate::manager::groups::GroupEntries;
use crate::manager::words::Words;
use crate::manager::{Config, Output};
use mpd_machine::Time;
use mpd_wire::job::{Failure, Shares, World};
use mpd_wire::message::{Down, MAX_LISTED, Up};
use mpd_wire::{DaemonName, Rank, RankSet};

/// What a branch wants.
#[derive(Debug)]
pub(super) enum Say {
    /// Of its own process.
    Do(Output),
    /// Of the manager above, or at the root of the job.
    Up(Up),
}

/// What a manager answers for itself and all below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    Ready,
    Started,
    Stopped,
    Gone,
    Drained,
    Tidied,
    Restarted,
    /// Of the world of that first rank.
    Prepared(Rank),
    /// The same.
    Begun(Rank),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Preparing,
    Running,
    Ending,
    Gone,
    Tidying,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Reachable, or about to connect.
    Living,
    /// Out of reach.
    Lost,
    /// It said its last word.
    Left,
}

/// A manager directly below.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) place: usize,
    member: DaemonName,
    standing: Standing,
    /// Whether it said that it is ready.
    ready: bool,
    /// The ranks there and below.
    pub(super) ranks: RankSet,
    /// The hosts there and below.
    pub(super) members: BTreeSet<DaemonName>,
}

/// A world with ranks here or below.
#[derive(Debug)]
pub(super) struct Branching {
    pub(super) world: World,
    /// The ranks here.
    pub(super) here: RankSet,
    /// The places directly below with ranks there or further below.
    pub(super) below: Vec<usize>,
    pub(super) reduce: Reduce,
    pub(super) entries: GroupEntries,
}

/// One manager's place in the tree.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) place: usize,
    /// Ranks of the first world.
    size: u32,
    pub(super) member: DaemonName,
    pub(super) shares: Shares,
    /// By first rank.
    pub(super) worlds: BTreeMap<Rank, Branching>,
    /// The ranks here, of all worlds.
    pub(super) ranks: RankSet,
    pub(super) children: Vec<Child>,
    phase: Phase,
    /// Who still has to answer, own place among them.
    pub(super) questions: BTreeMap<Question, BTreeSet<usize>>,
    /// Of the last command to stop.
    round: u32,
    /// The processes of this host are being killed, by command or on this host's own account.
    dying: bool,
    /// None of them is left.
    dead: bool,
    /// The manager above is lost.
    orphan: bool,
    words: Words,
    says: VecDeque<Say>,
}

impl Branch {
    /// # Panics
    /// If the shares have no such place.
    pub(super) fn new(config: &Config<'_>) -> Self {
        let &Config { shares, place, .. } = config;
        let share = shares.get(place).expect("a place of the shares");
        let children = shares.children(place).filter_map(|below| Child::at(shares, below));
        // Who joined later finds the job running.
        let is_late = place > 0 && share.ranks.is_empty();
        let mut branch = Self {
            place,
            size: config.size,
            member: share.member.clone(),
            shares: shares.clone(),
            worlds: BTreeMap::new(),
            ranks: share.ranks.clone(),
            children: children.collect(),
            phase: if is_late { Phase::Running } else { Phase::Preparing },
            questions: BTreeMap::new(),
            round: 0,
            dying: false,
            dead: false,
            orphan: false,
            words: Words::default(),
            says: VecDeque::new(),
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
            below: branch.children.iter().map(|child| child.place).collect(),
            reduce: branch.reduce_of(&shares.ranks_below(place)),
            entries: GroupEntries::default(),
        };
        branch.worlds.insert(Rank(0), first);
        branch
    }

    /// At the root the fences are kept by the job.
    pub(super) fn reduce_of(&self, ranks: &RankSet) -> Reduce {
        if self.is_root() { Reduce::of(&RankSet::none()) } else { Reduce::of(ranks) }
    }

    pub(super) const fn is_root(&self) -> bool {
        self.place == 0
    }

    /// The next thing that the branch wants.
    pub(super) fn poll_say(&mut self) -> Option<Say> {
        self.says.pop_front()
    }

    /// When [`Branch::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.worlds.values().filter_map(|world| world.reduce.poll_timeout()).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.worlds.values_mut().for_each(|world| world.reduce.handle_timeout(now));
    }

    /// Tells what ranks did since the last time.
    pub(super) fn flush(&mut self) {
        self.flush_words();
        let due: Vec<RankSet> =
            self.worlds.values_mut().map(|world| world.reduce.take_due()).collect();
        for ranks in due.iter().flat_map(|due| due.parts(MAX_LISTED)) {
            self.push_up(Up::Entered { ranks });
        }
        let entries: Vec<Up> =
            self.worlds.values_mut().flat_map(|world| world.entries.take()).collect();
        entries.into_iter().for_each(|up| self.push_up(up));
    }

    /// A command, of the manager above or of the job. One that makes no sense now is ignored.
    pub(super) fn command(&mut self, down: Down) {
        match down {
            Down::Go if self.phase == Phase::Preparing => {
                self.phase = Phase::Running;
                self.pass_down(Down::Go);
                self.perform(Output::Go);
            }
            Down::Signal { signal } if self.phase == Phase::Running => {
                self.pass_down(down);
                self.perform(Output::SignalRanks(signal));
            }
            Down::SignalProcesses { signal } if self.phase == Phase::Running => {
                self.pass_down(down);
                self.perform(Output::SignalProcesses(signal));
            }
            Down::Resize { columns, lines } if self.phase == Phase::Running => {
                self.pass_down(down);
                self.perform(Output::Resize(columns, lines));
            }
            Down::Stop { round } if self.phase == Phase::Running => {
                self.round = round;
                self.pass_down(down);
                self.ask(Question::Stopped);
                self.perform(Output::StopTree);
                if self.dying {
                    self.answer(Question::Stopped, self.place);
                }
            }
            Down::Continue if self.phase == Phase::Running => {
                self.questions.remove(&Question::Stopped);
                self.pass_down(down);
                self.perform(Output::ContinueTree);
            }
            Down::GoOn if self.phase == Phase::Running => {
                self.pass_down(down);
                self.perform(Output::ReadPmi);
                self.perform(Output::ReleaseCrashed);
            }
            Down::Grow { .. }
            | Down::World { .. }
            | Down::Release { .. }
            | Down::ReleaseGroup { .. }
            | Down::GoWorld { .. }
            | Down::EndWorld { .. }
            | Down::Forget { .. }
            | Down::Spawned { .. }
            | Down::Interrupt { .. }
            | Down::Dead { .. }
                if self.phase == Phase::Running =>
            {
                self.command_worlds(down);
            }
            Down::Debug { ranks, line } if self.phase == Phase::Running => {
                self.command_debuggers(&ranks, line);
            }
            Down::Restart if self.phase == Phase::Running => self.restart(),
            Down::Kill if self.phase < Phase::Ending => self.kill(),
            Down::Drain if self.phase == Phase::Gone => self.drain(),
            Down::Discard if self.phase < Phase::Over => {
                self.pass_down(down);
                self.push(Output::DiscardOutput);
            }
            Down::Tidy if self.phase == Phase::Gone => {
                self.phase = Phase::Tidying;
                self.questions.clear();
                self.pass_down(down);
                self.ask(Question::Tidied);
                self.push(Output::Tidy);
            }
            // One that makes no sense now, or is for the process and not for the machine.
            _ => {}
        }
    }

    /// This host's own processes have done what was asked.
    pub(super) fn answer_here(&mut self, question: Question) {
        match question {
            Question::Gone => {
                self.dead = true;
                self.answer(question, self.place);
            }
            // Everything was let go on in the meantime.
            Question::Stopped
                if self.phase == Phase::Running && !self.questions.contains_key(&question) =>
            {
                self.perform(Output::ContinueTree);
            }
            // Not asked here before the others have answered.
            Question::Drained if !self.drains_here() => {}
            Question::Ready
            | Question::Started
            | Question::Stopped
            | Question::Drained
            | Question::Tidied
            | Question::Restarted
            | Question::Prepared(_)
            | Question::Begun(_) => self.answer(question, self.place),
        }
    }

    /// The daemon of this host, or whoever may signal its processes, wants the job to end. The root
    /// learns of it as of a failure, before it learns how the ranks ended; the ranks here do not wait
    /// for its command.
    pub(super) fn kill_here(&mut self) {
        if self.phase >= Phase::Tidying {
            return;
        }
        self.say(Up::Failed { member: self.member.clone(), failure: Failure::Killed });
        if !self.is_root() && !std::mem::replace(&mut self.dying, true) {
            self.push(Output::KillTree);
        }
    }

    /// Something failed on this host before its ranks were all there.
    pub(super) fn start_failed(&mut self, failure: Failure) {
        self.say(Up::StartFailed { member: self.member.clone(), failure });
    }

    /// Something other than a rank failed on this host.
    pub(super) fn failed(&mut self, failure: Failure) {
        self.say(Up::Failed { member: self.member.clone(), failure });
    }

    /// A word about ranks of this host.
    pub(super) fn hear_here(&mut self, now: Time, up: Up) {
        if let Some(up) = confined(up, &self.ranks) {
            self.pass_up(now, up);
        }
    }

    /// A word from a manager directly below. What is not its to say is ignored.
    pub(super) fn hear(&mut self, now: Time, place: usize, up: Up) {
        let Some(child) = self.children.iter_mut().find(|child| child.is_living_at(place)) else {
            return;
        };
        match up {
            Up::Ready => {
                child.ready = true;
                self.answer(Question::Ready, place);
            }
            Up::Started => self.answer(Question::Started, place),
            Up::Stopped { round } if round == self.round => self.answer(Question::Stopped, place),
            Up::Stopped { .. } => {}
            Up::Gone => self.answer(Question::Gone, place),
            Up::Drained => self.answer(Question::Drained, place),
            Up::Tidied => {
                if self.questions.get(&Question::Tidied).is_some_and(|q| q.contains(&place)) {
                    child.standing = Standing::Left;
                    self.answer(Question::Tidied, place);
                }
            }
            Up::Prepared { first } => {
                child.ready = true;
                self.answer(Question::Prepared(first), place);
            }
            Up::Begun { first } => self.answer(Question::Begun(first), place),
            Up::Restarted => self.answer(Question::Restarted, place),
            Up::StartFailed { ref member, .. }
            | Up::WorldFailed { ref member, .. }
            | Up::Failed { ref member, .. }
            | Up::Lost { ref member, .. } => {
                if child.members.contains(member) {
                    self.say(up);
                }
            }
            Up::Notice { .. } => self.say(up),
            Up::Pids { .. }
            | Up::Exited { .. }
            | Up::Initialized { .. }
            | Up::Finalized { .. }
            | Up::Entered { .. }
            | Up::EnteredGroup { .. }
            | Up::Aborted { .. }
            | Up::Interrupt { .. }
            | Up::Bond { .. }
            | Up::Alone { .. }
            | Up::Crashed { .. }
            | Up::BrokeProtocol { .. } => {
                if let Some(up) = confined(up, &child.ranks) {
                    self.pass_up(now, up);
                }
            }
            // Of the process, not of the machine.
            Up::Lacks { .. }
            | Up::Trace { .. }
            | Up::StdinCredit { .. }
            | Up::StdinUnwanted { .. }
            | Up::Pulse => {}
        }
    }

    /// A manager directly below is out of reach: it has answered whatever it is asked from now on,
    /// but for the start, which it ends. The job fails only if something of that manager is missing.
    pub(super) fn child_lost(&mut self, place: usize, problem: String) {
        let has_reported = self.has_reported(place);
        let Some(child) = self.children.iter_mut().find(|child| child.is_living_at(place)) else {
            return;
        };
        child.standing = Standing::Lost;
        let member = child.member.clone();
        if !has_reported {
            self.say(Up::Lost { member, problem });
        }
        let start = [Question::Ready, Question::Started];
        let asked: Vec<Question> =
            self.questions.keys().copied().filter(|question| !start.contains(question)).collect();
        for question in asked {
            self.answer(question, place);
        }
    }

    /// Whether the ends and the output of all ranks at that place and below have arrived. What is left to
    /// do there, the manager does without a link as well.
    fn has_reported(&self, place: usize) -> bool {
        let drained = self.questions.get(&Question::Drained);
        self.phase >= Phase::Tidying || drained.is_some_and(|waiting| !waiting.contains(&place))
    }

    /// Hosts that could not be told of the job. Some may have been told all the same: those above
    /// whom all are ready, for they are ready too.
    pub(super) fn missing(&mut self, members: Vec<(DaemonName, String)>) {
        for (member, problem) in members {
            let over = self.children.iter().find(|child| child.members.contains(&member));
            match over.map(|child| (child.place, child.ready, child.member == member)) {
                Some((place, false, true)) => {
                    self.push(Output::GiveUp(place));
                    self.child_lost(place, problem);
                }
                Some((_, false, false)) => self.say(Up::Lost { member, problem }),
                Some((_, true, _)) | None => {}
            }
        }
    }

    /// The manager above is out of reach: nobody wants the output or the job any more.
    pub(super) fn parent_lost(&mut self) {
        if self.is_root() || std::mem::replace(&mut self.orphan, true) {
            return;
        }
        self.command(Down::Discard);
        self.command(Down::Kill);
        self.command(Down::Tidy);
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
            self.answer(Question::Gone, self.place);
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

    /// Whether all output from below is here, and the question is how it goes on.
    fn drains_here(&self) -> bool {
        let waiting = self.questions.get(&Question::Drained);
        waiting.is_some_and(|waiting| waiting.iter().eq([&self.place]))
    }

    pub(super) fn ask(&mut self, question: Question) {
        let waiting = self.living_children().map(|child| child.place).chain([self.place]).collect();
        self.questions.insert(question, waiting);
    }

    pub(super) fn living_children(&self) -> impl Iterator<Item = &Child> {
        self.children.iter().filter(|child| child.standing == Standing::Living)
    }

    /// One place answers. With the last one the answer goes up.
    pub(super) fn answer(&mut self, question: Question, place: usize) {
        let Some(waiting) = self.questions.get_mut(&question) else { return };
        if !waiting.remove(&place) {
            return;
        }
        if !waiting.is_empty() {
            if place != self.place && question == Question::Drained && self.drains_here() {
                self.push(Output::Drain);
            }
            return;
        }
        match question {
            Question::Ready => self.say(Up::Ready),
            Question::Started => self.say(Up::Started),
            Question::Stopped => self.say(Up::Stopped { round: self.round }),
            Question::Gone => {
                self.phase = Phase::Gone;
                self.say(Up::Gone);
                if self.orphan {
                    self.command(Down::Tidy);
                }
            }
            Question::Drained => self.say(Up::Drained),
            Question::Prepared(first) => self.say(Up::Prepared { first }),
            Question::Begun(first) => self.say(Up::Begun { first }),
            Question::Restarted => self.say(Up::Restarted),
            Question::Tidied => {
                self.phase = Phase::Over;
                self.say(Up::Tidied);
                if !self.is_root() {
                    self.push(Output::Leave);
                }
            }
        }
    }

    /// Takes a word of ranks along, by the turn; at the root at once.
    fn pass_up(&mut self, now: Time, up: Up) {
        let restarting = self.questions.get(&Question::Restarted);
        if let Up::Entered { ranks } | Up::EnteredGroup { ranks, .. } = &up
            && restarting.is_some_and(|waiting| !waiting.is_empty())
            && ranks.ranks().next().is_some_and(|rank| rank.0 < self.size)
        {
            // It is of the run before; of the next one none comes before all have begun anew.
            return;
        }
        if self.is_root() {
            self.say(up);
            return;
        }
        match up {
            Up::Pids { pids } => self.words.add_pids(pids),
            Up::Initialized { ranks } => {
                if self.words.has_finalized(&ranks) {
                    self.flush_words();
                }
                self.words.add_initialized(&ranks);
            }
            Up::Finalized { ranks } => self.words.add_finalized(&ranks),
            Up::Exited { ends } => {
                for &(rank, _) in &ends {
                    if let Some(world) = self.world_of(rank) {
                        world.reduce.leave(rank);
                    }
                }
                self.words.add_ends(ends);
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
            other => self.say(other),
        }
    }

    /// Says something upwards, behind what ranks did before.
    pub(super) fn say(&mut self, up: Up) {
        self.flush_words();
        self.push_up(up);
    }

    fn flush_words(&mut self) {
        for up in self.words.take() {
            self.push_up(up);
        }
    }

    fn push_up(&mut self, up: Up) {
        if !self.orphan {
            self.says.push_back(Say::Up(up));
        }
    }

    pub(super) fn pass_down(&mut self, down: Down) {
        if self.living_children().next().is_some() {
            self.push(Output::ToChildren(down));
        }
    }

    /// Something for processes that are not being killed.
    pub(super) fn perform(&mut self, output: Output) {
        if !self.dying {
            self.push(output);
        }
    }

    pub(super) fn push(&mut self, output: Output) {
        self.says.push_back(Say::Do(output));
    }
}

impl Child {
    pub(super) fn at(shares: &Shares, place: usize) -> Option<Self> {
        let below = shares.subtree(place);
        let members = below.into_iter().filter_map(|p| shares.get(p)).map(|s| s.member.clone());
        Some(Self {
            place,
            member: shares.get(place)?.member.clone(),
            standing: Standing::Living,
            ready: false,
            ranks: shares.ranks_below(place),
            members: members.collect(),
        })
    }

    fn is_living_at(&self, place: usize) -> bool {
        self.place == place && self.standing == Standing::Living
    }
}

/// The part of a word that is about `ranks`; none if nothing is left.
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
        | Up::Alone { rank, .. }
        | Up::Crashed { rank, .. }
        | Up::Bond { from: rank, .. }
        | Up::Interrupt { from: rank, .. } => known(rank),
        // Not of ranks: see `Branch::hear`.
        _ => true,
    };
    something.then_some(up)
}
