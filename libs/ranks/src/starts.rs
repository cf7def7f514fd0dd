//! The start of ranks: checks first, then a few ranks in each turn of the loop.

use mpd_clients::World;
use mpd_ending::SignalTarget;
use mpd_job::manager::Input as JobInput;
use mpd_placement::gpus::Gpus;
use mpd_wire::job::{Failure, RankEnd};
use mpd_wire::message::Phase;
use mpd_wire::{Rank, RankSet};

use crate::checks::check;
use crate::environment::{arguments, variables};
use crate::errand::{Batch, Errand, Waiting};
use crate::failures::{StartProblem, start_failure};
use crate::input::Started;
use crate::launch::Checked;
use crate::output::{Action, Output, Question, Start};
use crate::ranks::{Context, Ranks, Search, Starting};
use crate::shim::Shim;
use crate::table::{ADOPTED, Process, RankState};
use crate::world_context::WorldContext;

/// Most ranks of a world that are started in one turn.
const STARTS_PER_TURN: usize = 8;

/// Most ranks here that are started without low numbers for their descriptors. The copies of few descriptors take less time
/// than the moves.
pub(crate) const MAX_RANKS_WITHOUT_LOW: usize = 16;

/// Most ranks with enlarged pipes. A user has 64 MiB for all pipes before the kernel makes new ones very small.
const MAX_RANKS_ENLARGED: usize = 32;

const SIGKILL: i32 = 9;

impl Ranks {
    // ----- checks -----

    pub(crate) fn check(&mut self, context: Context<'_>, problem: Option<String>) {
        let checked = match problem {
            Some(problem) => Err(Failure::Suite { problem }),
            None if self.arrived => Ok(Checked::default()),
            None => self.check_world(context, Rank(0)),
        };
        self.limit(context, Rank(0), checked);
    }

    /// The ranks of an unknown world cannot be started.
    pub(crate) fn prepare(&mut self, context: Context<'_>, first: Rank, is_known: bool) {
        if context.job.worlds.of(first).is_none_or(|world| world.here.is_empty()) {
            return;
        }
        let checked = if is_known {
            self.check_world(context, first)
        } else {
            // The order was checked at its origin.
            let problem = "the order of the world is malformed".to_owned();
            Err(Failure::Suite { problem })
        };
        self.limit(context, first, checked);
    }

    /// Limits the job after all other checks, before its first process on this host. The adopted process is in no group.
    fn limit(&mut self, context: Context<'_>, first: Rank, checked: Result<Checked, Failure>) {
        let Context { job, .. } = context;
        let has_ranks = job.worlds.of(first).is_some_and(|world| !world.here.is_empty());
        let is_due = job.spec.allowance.is_bounded() && !self.is_confined && !self.arrived;
        match checked {
            Ok(checked) if is_due && has_ranks => {
                let waiting = Waiting::Limits(first, Box::new(checked));
                self.ask(Question::Limit(job.spec.allowance), waiting);
            }
            checked => self.end_checks(context, first, checked),
        }
    }

    pub(crate) fn end_limits(
        &mut self,
        context: Context<'_>,
        first: Rank,
        (checked, limited): (Checked, Result<(), String>),
    ) {
        self.is_confined = limited.is_ok();
        let limited = limited.map_err(|problem| Failure::Suite { problem });
        self.end_checks(context, first, limited.map(|()| checked));
    }

    fn check_world(&self, context: Context<'_>, first: Rank) -> Result<Checked, Failure> {
        let Context { job, host, .. } = context;
        let Some(world) = job.worlds.of(first) else { return Ok(Checked::default()) };
        let own: Vec<Rank> = world.here.iter().map(|&rank| world.numbers.own(rank)).collect();
        let context = WorldContext {
            job,
            host,
            spec: &world.spec,
            running: self.table.len(),
            is_added: !job.is_first(first),
            has_parent: world.spawner.is_some(),
            daemon: self.daemon,
        };
        check(context, &own)
    }

    fn end_checks(&mut self, context: Context<'_>, first: Rank, checked: Result<Checked, Failure>) {
        let is_first = first == Rank(0);
        match checked {
            Err(failure) if is_first => return self.post(JobInput::StartFailed(failure)),
            Err(failure) => self.post(JobInput::WorldFailed(first, failure)),
            Ok(Checked { launches, bindings, gpus }) => {
                let running = self.table.len();
                self.report(Output::Bound(first, bindings));
                self.report(Output::Act(Action::Prepared(first, launches)));
                self.starting.insert(first, Starting { running, gpus, next: None });
                let world = context.job.worlds.of(first);
                let shared = world.zip(gpus).and_then(|(world, gpus)| {
                    shared_gpus(&context.job.order.host, world, running, gpus)
                });
                shared.into_iter().for_each(|text| self.notice(text));
            }
        }
        if is_first {
            self.report(Output::End(Phase::Checks, None));
            self.report(Output::Begin(Phase::Ready, None));
            self.post(JobInput::Ready);
        } else {
            self.post(JobInput::Prepared(first));
        }
    }

    // ----- which ranks are started -----

    pub(crate) fn go(&mut self, context: Context<'_>) {
        self.report(Output::Going);
        self.report_niceness(context, context.job.spec.niceness, "mpirun's");
        self.start_world(Rank(0));
    }

    pub(crate) fn start_world(&mut self, first: Rank) {
        self.starting.entry(first).or_default().next = Some(0);
    }

    pub(crate) fn end_world(&mut self, context: Context<'_>, first: Rank) {
        let Some(world) = context.job.worlds.of(first) else { return };
        self.forget_world(first);
        let (started, others): (Vec<Rank>, Vec<Rank>) =
            world.here.iter().partition(|&&rank| self.table.get(rank).is_some());
        for rank in others {
            self.post(JobInput::Exited(rank, RankEnd::NotStarted));
        }
        if !started.is_empty() {
            let started: RankSet = started.into_iter().collect();
            self.report(Output::Signal(SIGKILL, SignalTarget::Groups(started)));
        }
    }

    pub(crate) fn forget_world(&mut self, first: Rank) {
        self.starting.remove(&first);
        self.report(Output::Act(Action::ForgetPrepared(first)));
    }

    /// Stops starting and searching, since all processes here are about to be killed.
    pub(crate) fn stop_starting(&mut self) {
        self.starting.values_mut().for_each(|starting| starting.next = None);
        self.end_search(Search::Decided);
    }

    /// Whether ranks of a world are still to be started.
    pub(crate) fn is_starting(&self, first: Rank) -> bool {
        self.starting.get(&first).is_some_and(|starting| starting.next.is_some())
    }

    /// Starts the next few ranks of each world.
    pub(crate) fn start_some(&mut self) {
        let due = self.starting.iter().filter_map(|(&first, it)| Some((first, it.next?)));
        for (first, begin) in due.collect::<Vec<_>>() {
            self.agenda.add(Errand::StartSome(first, begin));
        }
    }

    pub(crate) fn start_some_of(&mut self, context: Context<'_>, first: Rank, begin: usize) {
        let Some(world) = context.job.worlds.of(first) else { return };
        let here = world.here.len();
        let end = here.min(begin + STARTS_PER_TURN);
        if begin == 0 && first != Rank(0) && context.job.spec.spawn.nice_step != 0 {
            self.report_niceness(context, world.spec.niceness, "that of their level");
        }
        if begin == 0 {
            self.fit_share(self.table.children() + here);
        }
        let are_many = self.table.len() + here > MAX_RANKS_WITHOUT_LOW;
        self.report(Output::Act(Action::BeginStarts { are_several: end - begin > 1, are_many }));
        self.agenda.follow([Errand::StartNext(Batch { first, begin, next: begin, end })]);
    }

    // ----- one rank -----

    pub(crate) fn start_next(&mut self, context: Context<'_>, batch: Batch) {
        let Some(world) = context.job.worlds.of(batch.first) else { return };
        if batch.next == batch.end {
            return self.agenda.follow([Errand::EndBatch(batch, None)]);
        }
        if self.arrived {
            self.arrived = false;
            return self.ask(Question::Adopt(self.table.next_slot()), Waiting::Start(batch));
        }
        let rank = world.here[batch.next];
        let (spec, is_first) = (&context.job.spec, context.job.is_first(rank));
        if is_first {
            self.report(Output::Begin(Phase::Spawn, Some(rank)));
        }
        let starting = self.starting.get(&batch.first).copied().unwrap_or_default();
        let gpus = starting.gpus.map(|gpus| (gpus, starting.running));
        let argset = world.argset_of(rank);
        let is_fed = is_first && (spec.stdin_switch || spec.stdin.contains(rank));
        let start = Start {
            rank,
            first: batch.first,
            slot: self.table.next_slot(),
            argset,
            variables: variables(context, world, rank, gpus),
            arguments: arguments(context.job, world, rank),
            is_confined: self.is_confined,
            closed: spec.closed_in(&world.spec.argsets[argset], is_fed),
            is_fed,
            is_muted: is_first && !spec.output.keeps(rank),
            enlarge: self.table.len() + world.here.len() <= MAX_RANKS_ENLARGED,
            size: self.size,
        };
        self.ask(Question::Start(start), Waiting::Start(batch));
    }

    pub(crate) fn end_start(
        &mut self,
        context: Context<'_>,
        batch: Batch,
        started: Result<Started, StartProblem>,
    ) {
        let Some(world) = context.job.worlds.of(batch.first) else { return };
        let rank = world.here[batch.next];
        self.report(Output::End(Phase::Spawn, Some(rank)));
        let started = match started {
            Ok(started) => started,
            Err(problem) => {
                let failure = start_failure(world, rank, problem);
                return self.agenda.follow([Errand::EndBatch(batch, Some(failure))]);
            }
        };
        let Started { pid, begin, shim, cpus, unwatched } = started;
        if context.job.is_first(rank) {
            self.report(Output::Begin(Phase::Run, Some(rank)));
        }
        self.report(Output::Started(pid, begin));
        cpus.into_iter().for_each(|text| self.notice(text));
        let mut state = RankState::of(Process::Child(pid), pid.0.unsigned_abs());
        state.shim = shim.map(Shim::new);
        // Without its pipes, its output never ends.
        if unwatched.is_none() {
            state.is_silent = false;
        }
        self.table.insert(rank, state);
        match unwatched {
            Some(problem) => {
                let failure = start_failure(world, rank, problem);
                self.agenda.follow([Errand::EndBatch(batch, Some(failure))]);
            }
            None => self.hand_over(batch, rank),
        }
    }

    pub(crate) fn end_adoption(&mut self, batch: Batch, number: Result<u32, Failure>) {
        let number = match number {
            Ok(number) => number,
            Err(failure) => return self.agenda.follow([Errand::EndBatch(batch, Some(failure))]),
        };
        self.report(Output::Begin(Phase::Run, Some(ADOPTED)));
        let adopted = Process::Adopted { has_aborted: false };
        self.table.insert(ADOPTED, RankState::of(adopted, number));
        self.hand_over(batch, ADOPTED);
        // Its request for a process manager is a use of PMI.
        self.post(JobInput::Initialized(ADOPTED));
    }

    fn hand_over(&mut self, batch: Batch, rank: Rank) {
        self.report(Output::Act(Action::HandOver(rank)));
        self.agenda.follow([Errand::StartNext(Batch { next: batch.next + 1, ..batch })]);
    }

    // ----- the end of a turn -----

    pub(crate) fn end_batch(
        &mut self,
        context: Context<'_>,
        batch: Batch,
        failure: Option<Failure>,
    ) {
        let Batch { first, begin, end, .. } = batch;
        let Some(world) = context.job.worlds.of(first) else { return };
        self.report(Output::Act(Action::EndStarts));
        let is_continued = failure.is_none() && end < world.here.len();
        self.starting.entry(first).or_default().next = is_continued.then_some(end);
        if let Some(failure) = failure {
            return self.fail(first, failure);
        }
        let some = &world.here[begin..end];
        let number = |rank: &Rank| self.table.get(*rank).map_or(0, |state| state.number);
        let pids = some.iter().map(|rank| (*rank, number(rank))).collect();
        if !context.job.spec.adopted {
            self.report(Output::OutputBegun(some.to_vec()));
        }
        self.post(JobInput::Pids(pids));
        if is_continued {
            return;
        }
        if first == Rank(0) {
            self.report(Output::End(Phase::Go, None));
            self.report_all(context.job);
            self.watch_alone(context);
            self.post(JobInput::Started);
        } else {
            self.report_world(context.job, world);
            self.post(JobInput::WorldStarted(first));
        }
    }

    fn fail(&mut self, first: Rank, failure: Failure) {
        if first == Rank(0) {
            self.post(JobInput::StartFailed(failure));
        } else {
            self.post(JobInput::WorldFailed(first, failure));
            self.post(JobInput::WorldStarted(first));
        }
    }

    /// Reports to the user, once, that ranks of this host cannot have a niceness; `whose` it is.
    fn report_niceness(&mut self, context: Context<'_>, wanted: Option<i8>, whose: &str) {
        let Context { job, host, .. } = context;
        let Some(wanted) = wanted.filter(|&nice| !host.may_have(nice)) else { return };
        if !self.unpermitted.insert(wanted) {
            return;
        }
        let own = host.niceness().unwrap_or(0).max(0);
        self.notice(format!(
            "host {}: ranks have niceness {own}: the daemon there is not permitted to give them {whose}, {wanted}",
            job.order.host
        ));
    }
}

/// A line for the user if ranks of a world share GPUs of this host with each other, or with those that run already.
fn shared_gpus(host: &str, world: &World, running: usize, gpus: Gpus) -> Option<String> {
    let (ranks, each) = (running + world.here.len(), world.spec.placement.gpus?);
    let count = gpus.count();
    let what = if count == 1 { "GPU" } else { "GPUs" };
    gpus.are_shared(ranks, each)
        .then(|| format!("host {host}: {ranks} ranks with {each} each share {count} {what}"))
}
