//! The start of ranks: checks first, then a few ranks in each turn of the loop.

use std::ffi::CString;
use std::os::fd::AsFd as _;

use mpd_clients::{Client, Job, World, variables_of};
use mpd_ending::Input as Ending;
use mpd_io::clean_up::leftovers::BeforeStart;
use mpd_io::files::logging::plain;
use mpd_io::host::cpus::CpuMask;
use mpd_io::process::priority;
use mpd_io::process::spawn::{Extra, LowNumbers, SpawnError, Step};
use mpd_job::manager::Input;
use mpd_placement::gpus::Gpus;
use mpd_placement::locality::list;
use mpd_wire::job::{Failure, RankEnd};
use mpd_wire::message::Phase;
use mpd_wire::{Rank, RankSet};

use super::Ranks;
use super::adoption::{Arrived, RANK};
use super::descriptors::PMI_FD;
use super::prepare::{self, Launch, Prepared};
use super::process::{Given, MAX_RANKS_ENLARGED, RankProcess, StartError};
use super::ranks_context::RanksContext;
use super::resources;
use super::starting::Starting;
use crate::manager::context::Turn;
use crate::manager::ending::groups::Groups;
use crate::manager::ending::number_of;
use crate::manager::event::{Descriptors, Event, ForStdio};
use crate::manager::links::staging::Staging;

/// Most ranks here that are started without low numbers for their descriptors. The copies of few descriptors take less time
/// than the moves.
const MAX_RANKS_WITHOUT_LOW: usize = 16;

/// Most ranks of a world that are started in one turn.
const STARTS_PER_TURN: usize = 8;

impl Ranks {
    /// The first phase: checks the ranks here, unless a `problem` is already known.
    pub(in crate::manager) fn get_ready(
        &mut self,
        turn: &mut Turn<'_>,
        problem: Option<String>,
        staging: Option<&Staging>,
    ) {
        turn.begin(Phase::Checks, None);
        let prepared = match problem {
            Some(problem) => Err(Failure::Suite { problem }),
            None if self.adoption.arrived.is_some() => Ok(Prepared::default()),
            None => self.prepare(turn, Rank(0), staging),
        };
        match prepared {
            Err(failure) => turn.post(Input::StartFailed(failure)),
            Ok(prepared) => {
                self.keep(turn, Rank(0), prepared);
                turn.end(Phase::Checks, None);
                turn.begin(Phase::Ready, None);
                turn.post(Input::Ready);
            }
        }
    }

    /// Prepares the ranks of a spawned world that run here. The ranks of an unknown world cannot be started.
    pub(in crate::manager) fn prepare_world(
        &mut self,
        turn: &mut Turn<'_>,
        first: Rank,
        is_known: bool,
    ) {
        if turn.job.worlds.of(first).is_none_or(|world| world.here.is_empty()) {
            return;
        }
        let prepared = if is_known {
            self.prepare(turn, first, None)
        } else {
            // The order was checked at its origin.
            let problem = "the order of the world is malformed".to_owned();
            Err(Failure::Suite { problem })
        };
        match prepared {
            Err(failure) => turn.post(Input::WorldFailed(first, failure)),
            Ok(prepared) => self.keep(turn, first, prepared),
        }
        turn.post(Input::Prepared(first));
    }

    fn keep(&mut self, turn: &mut Turn<'_>, first: Rank, prepared: Prepared) {
        let Prepared { launches, bindings, gpus } = prepared;
        turn.report(Event::Bound(first, bindings));
        let reports = turn.job.spec.placement.report_bindings;
        let cpus = reports.then(|| mpd_io::host::cpus::allowed().unwrap_or_default());
        let running = self.table.len();
        self.starting.insert(first, Starting { launches, gpus, running, cpus, next: None });
        if let Some(text) = gpus.and_then(|gpus| shared_gpus(turn, first, running, gpus)) {
            turn.post(Input::Notice(text));
        }
    }

    fn prepare(
        &self,
        turn: &Turn<'_>,
        first: Rank,
        staging: Option<&Staging>,
    ) -> Result<Prepared, Failure> {
        let job = turn.job;
        let Some(world) = job.worlds.of(first) else { return Ok(Prepared::default()) };
        let own: Vec<Rank> = world.here.iter().map(|&rank| world.numbers.own(rank)).collect();
        let context = RanksContext {
            spec: &world.spec,
            order: &job.order,
            running: self.table.len(),
            is_added: !job.is_first(first),
            has_parent: world.spawner.is_some(),
            debug: job.spec.debug.as_ref(),
            daemon: self.daemon,
        };
        prepare::prepare(context, &own, job.directory.as_deref(), staging)
    }

    /// Starts the ranks of this host turn by turn, since all hosts are ready.
    pub(in crate::manager) fn go(&mut self, turn: &mut Turn<'_>) {
        turn.report(Event::Going);
        self.report_niceness(turn, turn.job.spec.niceness, "mpirun's");
        self.start_world(Rank(0));
    }

    /// Starts the ranks of a world that run here turn by turn.
    pub(in crate::manager) fn start_world(&mut self, first: Rank) {
        self.starting.entry(first).or_default().next = Some(0);
    }

    /// Starts no more ranks of a spawned world that cannot be started. Returns its ranks that run here, which are to be
    /// killed.
    pub(in crate::manager) fn end_world(&mut self, turn: &mut Turn<'_>, first: Rank) -> RankSet {
        let Some(world) = turn.job.worlds.of(first) else { return RankSet::default() };
        self.starting.remove(&first);
        let (started, others): (Vec<Rank>, Vec<Rank>) =
            world.here.iter().partition(|&&rank| self.table.get(rank).is_some());
        for rank in others {
            turn.post(Input::Exited(rank, RankEnd::NotStarted));
        }
        started.into_iter().collect()
    }

    /// Forgets a spawned world whose ranks have ended.
    pub(in crate::manager) fn forget_world(&mut self, first: Rank) {
        self.starting.remove(&first);
    }

    /// Whether ranks are still to be started.
    pub(in crate::manager) fn is_any_starting(&self) -> bool {
        self.starting.values().any(|starting| starting.next.is_some())
    }

    /// Whether ranks of a world are still to be started.
    pub(super) fn is_starting(&self, first: Rank) -> bool {
        self.starting.get(&first).is_some_and(|starting| starting.next.is_some())
    }

    /// Starts the next few ranks of each world, unless everything is stopped.
    pub(in crate::manager) fn start_some(&mut self, turn: &mut Turn<'_>, is_busy: bool) {
        if is_busy {
            return;
        }
        let due = self.starting.iter().filter_map(|(&first, it)| Some((first, it.next?)));
        for (first, begin) in due.collect::<Vec<_>>() {
            self.start_some_of(turn, first, begin);
        }
    }

    fn start_some_of(&mut self, turn: &mut Turn<'_>, first: Rank, begin: usize) {
        let Some(world) = turn.job.worlds.of(first) else { return };
        let end = world.here.len().min(begin + STARTS_PER_TURN);
        let some = &world.here[begin..end];
        let is_continued = end < world.here.len();
        if begin == 0 && first != Rank(0) && turn.job.spec.spawn.nice_step != 0 {
            self.report_niceness(turn, world.spec.niceness, "that of their level");
        }
        if begin == 0 {
            self.cpu_share.fit(self.table.children() + world.here.len());
        }
        if some.len() > 1 {
            self.memory.begin_starts();
        }
        if self.low.is_none() && self.table.len() + world.here.len() > MAX_RANKS_WITHOUT_LOW {
            self.low = LowNumbers::new(PMI_FD + 1, turn.null)
                .inspect_err(|e| {
                    log::warn!("ranks start slowly, without low numbers for descriptors: {e}")
                })
                .ok();
        }
        let started = some.iter().try_for_each(|&rank| self.start_one(turn, world, rank));
        self.memory.end_starts();
        let cleared = self.low.as_ref().map_or(Ok(()), |low| low.clear(turn.null));
        if let Err(e) = cleared {
            // They hold pipes of ranks open, whose ends would not be seen.
            log::error!("cannot clear the low numbers for descriptors: {e}");
            self.low = None;
        }
        if let Err(failure) = started {
            self.starting.entry(first).or_default().stop();
            return start_failed(turn, first, failure);
        }
        self.starting.entry(first).or_default().next = is_continued.then_some(end);
        let number = |rank: &Rank| self.table.get(*rank).map_or(0, |process| process.number);
        let pids: Vec<(Rank, u32)> = some.iter().map(|rank| (*rank, number(rank))).collect();
        if !turn.job.spec.adopted {
            turn.report(ForStdio::Begun(some.to_vec()));
        }
        turn.post(Input::Pids(pids));
        if is_continued {
            return;
        }
        if first == Rank(0) {
            turn.end(Phase::Go, None);
            self.report_all(turn);
            self.watch_alone(turn);
            turn.post(Input::Started);
        } else {
            self.report_world(turn, world);
            turn.post(Input::WorldStarted(first));
        }
    }

    /// Gives up the low numbers for descriptors when few ranks are left.
    pub(super) fn free_low_numbers(&mut self) {
        if self.table.len() <= MAX_RANKS_WITHOUT_LOW {
            self.low = None;
        }
    }

    fn start_one(&mut self, turn: &mut Turn<'_>, world: &World, rank: Rank) -> Result<(), Failure> {
        if let Some(arrived) = self.adoption.arrived.take() {
            return self.adopt(turn, arrived);
        }
        let is_first = turn.job.is_first(rank);
        if is_first {
            turn.begin(Phase::Spawn, Some(rank));
        }
        let (spec, order) = (&turn.job.spec, &turn.job.order);
        let (own, local) = (world.numbers.own(rank), world.local(rank));
        let Some(starting) = self.starting.get(&world.numbers.first) else { return Ok(()) };
        let Starting { launches, gpus, running, cpus: reported, .. } = starting;
        let Launch { spawn, shim } = &launches[&world.argset_of(rank)];
        let variables = variables_of_rank(
            (turn.job, &self.groups),
            world,
            rank,
            gpus.map(|gpus| (gpus, *running)),
        );
        let cpus = CpuMask::of(world.cpus_of(rank));
        let argset = &world.spec.argsets[world.argset_of(rank)];
        let arguments = prepare::arguments_of((&world.spec, order), (own, local));
        let fed = is_first && (spec.stdin_switch || spec.stdin.contains(rank));
        let extra = Extra {
            variables: &variables,
            arguments: arguments.as_deref().unwrap_or_default(),
            cpus: cpus.as_ref(),
            closed: spec.closed_in(argset, fed),
            low: self.low.as_ref(),
        };
        let given = Given {
            fed,
            shim: *shim,
            size: self.size,
            joined: spec.output.joined,
            muted: is_first && !spec.output.keeps(rank),
            enlarge: self.table.len() + world.here.len() <= MAX_RANKS_ENLARGED,
            null: turn.null,
            cgroup: self.cgroup.as_ref().map(|group| group.as_fd()),
        };
        let token = self.table.next_token();
        let before = BeforeStart::now();
        let started = RankProcess::start(turn.registry, (extra, token), spawn, given);
        let begin = before.begin();
        turn.end(Phase::Spawn, Some(rank));
        let failed = |error: StartError| start_failure(world, rank, &error);
        let (process, ends) = started.map_err(failed)?;
        let ends = ends.map_err(|error| failed(error.into()));
        if let Some(pid) = process.child() {
            self.memory.put_first(pid);
            if is_first {
                turn.begin(Phase::Run, Some(rank));
            }
            turn.report(Ending::Started(number_of(pid), begin));
            if let Some(all) = reported {
                let (name, host) = (turn.job.name_of(rank), &turn.job.order.host);
                turn.post(Input::Notice(resources::report(&name, host, pid, all)));
            }
        }
        self.table.insert(rank, process);
        let ends = ends?;
        turn.hand_over(Descriptors::Pipes(rank, Box::new(ends.pipes)));
        turn.hand_over(Descriptors::Pmi(rank, ends.client, ends.pmi));
        Ok(())
    }

    /// Reports to the user, once, that ranks of this host cannot have a niceness; `whose` it is.
    fn report_niceness(&mut self, turn: &mut Turn<'_>, wanted: Option<i8>, whose: &str) {
        let Some(wanted) = wanted.filter(|&nice| !priority::may_have(nice)) else { return };
        if !self.unpermitted.insert(wanted) {
            return;
        }
        let own = priority::niceness().unwrap_or(0).max(0);
        let text = format!(
            "host {}: ranks have niceness {own}: the daemon there is not permitted to give them {whose}, {wanted}",
            turn.job.order.host
        );
        turn.post(Input::Notice(text));
    }

    /// Makes the adopted process a rank.
    fn adopt(&mut self, turn: &mut Turn<'_>, arrived: Arrived) -> Result<(), Failure> {
        let settled = arrived.settle(turn.registry, self.table.next_token());
        let (process, pmi) = settled.map_err(|e| {
            let problem = format!("cannot watch the program that was running: {e}");
            Failure::Suite { problem }
        })?;
        turn.begin(Phase::Run, Some(RANK));
        self.table.insert(RANK, process);
        turn.hand_over(Descriptors::Pipes(RANK, Box::default()));
        turn.hand_over(Descriptors::Pmi(RANK, Client::Adopted, pmi));
        // Its request for a process manager is a use of PMI.
        turn.post(Input::Initialized(RANK));
        Ok(())
    }
}

/// The variables that differ from rank to rank. With the GPUs comes the number of ranks that use GPUs before.
fn variables_of_rank(
    (job, groups): (&Job, &Groups),
    world: &World,
    rank: Rank,
    gpus: Option<(Gpus, usize)>,
) -> Vec<CString> {
    let (own, local) = (world.numbers.own(rank), world.local(rank));
    let mut variables = prepare::variables_of((&world.spec, groups), own, local);
    variables.extend(prepare::lines_of(variables_of(job, world, rank)));
    variables.extend(prepare::lines_of(prepare::variables_of_binding(world.cpus_of(rank))));
    let string = prepare::variable_of_scheduler(&world.spec, own);
    variables.extend(prepare::lines_of(string.into_iter().collect()));
    if let Some((gpus, running)) = gpus {
        let of_gpus = prepare::variables_of_gpus(&world.spec, (own, running + local), gpus);
        variables.extend(prepare::lines_of(of_gpus));
    }
    variables
}

/// A line for the user if ranks of a world share GPUs of this host with each other, or with those that run already.
fn shared_gpus(turn: &Turn<'_>, first: Rank, running: usize, gpus: Gpus) -> Option<String> {
    let world = turn.job.worlds.of(first)?;
    let (ranks, each) = (running + world.here.len(), world.spec.placement.gpus?);
    let host = &turn.job.order.host;
    let count = gpus.count();
    let what = if count == 1 { "GPU" } else { "GPUs" };
    gpus.are_shared(ranks, each)
        .then(|| format!("host {host}: {ranks} ranks with {each} each share {count} {what}"))
}

fn start_failed(turn: &mut Turn<'_>, first: Rank, failure: Failure) {
    if first == Rank(0) {
        turn.post(Input::StartFailed(failure));
    } else {
        turn.post(Input::WorldFailed(first, failure));
        turn.post(Input::WorldStarted(first));
    }
}

fn start_failure(world: &World, rank: Rank, error: &StartError) -> Failure {
    let argset = &world.spec.argsets[world.argset_of(rank)];
    let cpus = world.cpus_of(rank);
    let rank = world.numbers.own(rank);
    let program = String::from_utf8_lossy(&argset.program).into_owned();
    let problem = match error {
        StartError::Spawn(SpawnError::Child { step: Step::Exec, error }) => {
            let missing = matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR));
            return Failure::CannotExecute { rank, program, problem: plain(error), missing };
        }
        StartError::Spawn(SpawnError::Child { step: Step::Directory, error }) => {
            prepare::cannot_enter(&argset.directory, error)
        }
        StartError::Spawn(SpawnError::Child { step: Step::Binding, error }) => {
            let cpus = list(cpus.iter().copied());
            format!("cannot bind rank {rank} to the CPUs {cpus}: {}", plain(error))
        }
        StartError::Spawn(SpawnError::Child { step, error }) => {
            format!("cannot prepare rank {rank} ({step:?}): {}", plain(error))
        }
        StartError::Spawn(SpawnError::Fork(error)) => {
            let advice = match error.raw_os_error() {
                Some(libc::EAGAIN) => {
                    " (the limit of processes is reached: ulimit -u, or pids.max of a control group)"
                }
                _ => "",
            };
            format!("cannot start a process for rank {rank}: {}{advice}", plain(error))
        }
        StartError::Spawn(SpawnError::Descriptor(error)) | StartError::Descriptors(error) => {
            format!("cannot make the pipes of rank {rank}: {}", plain(error))
        }
    };
    Failure::Suite { problem }
}
