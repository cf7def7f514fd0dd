//! Spawns: a rank asks its manager for further processes. The manager asks the root, and the root asks its daemon
//! for hosts. Hosts that are new in the job join it. The machine decides what is started and how the spawner is
//! answered. [`SpawnQueue`] decides the order of requests.
//!
//! | module | has |
//! |---|---|
//! | [`info`] | the hints of a spawn |
//! | [`order`] | the encoded order of a spawn |
//! | [`request`] | a spawn that waits at the root |
//! | [`state`] | the state of the spawns, for listings |

mod info;
mod order;
mod request;
mod state;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use mpd_job::manager::{Input, MAX_WAITING, Manager, SpawnQueue};
use mpd_machine::Time;
use mpd_wire::Rank;
use mpd_wire::job::{Argset, SpawnBlock, SpawnOptions, SpawnPlacement};
use mpd_wire::job::{Bytes, JobSpec, Notice, Parts, SpawnOutcome, World as Numbers};
use mpd_wire::message::{
    Down, Gathering, JobNews, Launch, ManagerReport, Placing, TreeKind, WorldPiece, pieces,
};
use pmi_proto::{SpawnRequest, Ticket};

use self::order::SpawnOrder;
use self::request::Request;
use self::state::Reports;
use super::announced::Announced;
use super::caller::{Caller, Wish};
use super::context::{Job, Turn};
use super::event::{Event, ForLinks};
use super::links::LinkEnd;
use super::worlds::{Spawner, World};

/// `MPI_ERR_SPAWN` of MPICH and its descendants: the error code of a process that `soft` has left out.
const ERR_SPAWN: i32 = 42;

/// The spawns of ranks here, and at the root the queue of all spawns.
#[derive(Debug)]
pub(super) struct Spawns {
    /// By spawner here: the request to answer, and the error code of each process for an answer of success.
    asked: BTreeMap<Rank, (Ticket, Vec<i32>)>,
    /// Requests of further threads of spawners.
    waiting: VecDeque<(Caller, Wish)>,
    /// Incomplete requests of children and orders of the parent.
    from_children: Gathering,
    from_parent: Gathering,
    /// Complete orders of worlds that are not announced yet.
    arrived: BTreeMap<Rank, Bytes>,
    /// Only at the root.
    queue: SpawnQueue<Request>,
    reports: Reports,
}

impl Spawns {
    pub(super) fn new(job: &Job) -> Self {
        Self {
            asked: BTreeMap::new(),
            waiting: VecDeque::new(),
            from_children: Gathering::default(),
            from_parent: Gathering::default(),
            arrived: BTreeMap::new(),
            queue: SpawnQueue::new(job.spec.size()),
            reports: Reports::default(),
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.queue.deadline().into_iter().chain(self.reports.next_deadline()).min()
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>, machine: &Manager) {
        if let Some((spawner, _)) = self.queue.expire(turn.now()) {
            refuse(turn, spawner, "the daemon here does not answer");
            self.place_next(turn, machine);
        }
    }

    // ----- for the spawner -----

    /// Handles the spawn of a rank here.
    pub(super) fn ask(
        &mut self,
        turn: &mut Turn<'_>,
        machine: &Manager,
        (caller, wish): (Caller, Wish),
    ) {
        let (rank, ticket) = caller;
        if self.asked.contains_key(&rank) {
            // Bounded by the number of open requests of a session.
            return self.waiting.push_back((caller, wish));
        }
        match order_of(turn.job, rank, &wish) {
            Ok(order) => {
                self.asked.insert(rank, (ticket, error_codes(&wish.request, &order)));
                self.pass_on(turn, machine, (rank, order.encode()));
            }
            Err(problem) => {
                let text = format!("spawn by rank {}: {problem}", turn.job.name_of(rank));
                turn.post(Input::Notice(text));
                turn.report(Event::SpawnAnswer(caller, Err("cannot_spawn")));
            }
        }
    }

    /// Answers the spawn of a rank here.
    pub(super) fn answered(
        &mut self,
        turn: &mut Turn<'_>,
        machine: &Manager,
        (rank, outcome): (Rank, SpawnOutcome),
    ) {
        let Some((ticket, errors)) = self.asked.remove(&rank) else { return };
        let spawned = match outcome {
            SpawnOutcome::Done { kvsname } => Ok((kvsname, errors)),
            // Success with only error codes would hang some libraries: if the caller does not ask for error codes,
            // they wait for the processes.
            SpawnOutcome::Failed { .. } => Err("cannot_spawn"),
        };
        turn.report(Event::SpawnAnswer((rank, ticket), spawned));
        while !self.asked.contains_key(&rank) {
            let next = self.waiting.iter().position(|((other, _), _)| *other == rank);
            let Some(next) = next.and_then(|at| self.waiting.remove(at)) else { return };
            self.ask(turn, machine, next);
        }
    }

    /// Forgets the requests of a rank that has ended, or starts again.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.asked.remove(&rank);
        self.waiting.retain(|((other, _), _)| *other != rank);
    }

    /// Forgets all requests, since all programs start again.
    pub(super) fn restart(&mut self) {
        self.asked.clear();
        self.waiting.clear();
    }

    // ----- on the way -----

    /// Sends a request to the root.
    fn pass_on(&mut self, turn: &mut Turn<'_>, machine: &Manager, (spawner, bytes): (Rank, Bytes)) {
        if turn.job.is_root() {
            return self.take_request(turn, machine, (spawner, bytes));
        }
        for piece in pieces(spawner, &bytes) {
            turn.report(ForLinks::Bytes(LinkEnd::Parent, TreeKind::World, piece));
        }
    }

    /// Takes a piece of a child's request, or of the parent's order.
    pub(super) fn take_piece(
        &mut self,
        turn: &mut Turn<'_>,
        machine: &Manager,
        (from, payload): (LinkEnd, Vec<u8>),
    ) {
        let Some(piece) = WorldPiece::read(&payload) else {
            return log::warn!("received a malformed piece of a world");
        };
        match from {
            LinkEnd::Child(_) if !turn.job.is_root() => {
                turn.report(ForLinks::Bytes(LinkEnd::Parent, TreeKind::World, payload));
            }
            LinkEnd::Child(_) => match self.from_children.take(&piece) {
                Ok(Some(bytes)) => self.take_request(turn, machine, (piece.of, bytes)),
                Ok(None) => {}
                Err(e) => refuse(turn, Some(piece.of), &e.to_string()),
            },
            LinkEnd::Parent => match self.from_parent.take(&piece) {
                Ok(Some(bytes)) => drop(self.arrived.insert(piece.of, bytes)),
                Ok(None) => {}
                Err(e) => log::error!("the world that begins with rank {}: {e}", piece.of),
            },
        }
    }

    /// Sends a world's order and then its announcement to the children at these tree indices.
    pub(super) fn announce(
        &self,
        turn: &mut Turn<'_>,
        tree_indices: Vec<usize>,
        (world, parts): (Numbers, Parts),
    ) {
        let known = self.arrived.get(&world.first).map_or(&[][..], Vec::as_slice);
        for piece in pieces(world.first, known) {
            for &tree_index in &tree_indices {
                turn.report(ForLinks::Bytes(
                    LinkEnd::Child(tree_index),
                    TreeKind::World,
                    piece.clone(),
                ));
            }
        }
        turn.report(ForLinks::DownNow(tree_indices, Down::World { world, parts }));
    }

    /// Prepares a world that is to be started in this subtree.
    pub(super) fn prepare(&mut self, turn: &mut Turn<'_>, numbers: Numbers, parts: Parts) {
        let job = turn.job;
        let arrived = self.arrived.remove(&numbers.first);
        let order = arrived.and_then(|bytes| SpawnOrder::decode(&bytes).ok());
        let order = order.filter(|order| order.spec.size() == numbers.size);
        let names = (numbers, numbers.kvsname(&job.order.kvsname));
        let announced = match order {
            // A world without an order is not started.
            None => Announced {
                world: World::new(names, Rc::clone(&job.spec), &job.order, parts),
                preput: Vec::new(),
                is_known: false,
            },
            Some(order) => {
                let preput = order.preput();
                let (inherits, appnums) = (order.inherits.clone(), order.appnums.clone());
                let generation = order.generation;
                let spawner = Spawner { kvsname: order.parent.clone(), rank: order.rank };
                let spawner = Some(spawner).filter(|_| !order.of_user);
                let spec = Rc::new(order.completed_by(&job.spec));
                let world = World::new(names, spec, &job.order, parts);
                let world = World { inherits, appnums, spawner, generation, ..world };
                Announced { world, preput, is_known: true }
            }
        };
        turn.report(Event::Announced(Box::new(announced)));
    }

    // ----- at the root -----

    fn take_request(
        &mut self,
        turn: &mut Turn<'_>,
        machine: &Manager,
        (spawner, bytes): (Rank, Bytes),
    ) {
        match SpawnOrder::decode(&bytes) {
            Ok(order) => {
                let (size, is_awaited) = (order.spec.size(), order.is_of_mpi());
                let request = Request { size, is_awaited, order: bytes.into() };
                self.enqueue(turn, machine, (Some(spawner), request));
            }
            Err(e) => refuse(turn, Some(spawner), &e.to_string()),
        }
    }

    fn enqueue(
        &mut self,
        turn: &mut Turn<'_>,
        machine: &Manager,
        (spawner, request): (Option<Rank>, Request),
    ) {
        if self.queue.push(spawner, request) {
            self.place_next(turn, machine);
        } else {
            let problem = format!("{MAX_WAITING} spawns of this job are waiting already");
            refuse(turn, spawner, &problem);
        }
    }

    /// A user requests further processes of the job's last program. They are a world without a parent.
    pub(super) fn enlarge(&mut self, turn: &mut Turn<'_>, machine: &Manager, count: u32) {
        match growth_of(turn.job, count) {
            Ok(order) => {
                let order = order.encode().into();
                let request = Request { order, size: count, is_awaited: false };
                self.enqueue(turn, machine, (None, request));
            }
            Err(problem) => refuse(turn, None, &problem),
        }
    }

    /// Asks the daemon where to place the first request of the queue, unless one is being placed. The request waits
    /// while ranks of an earlier start are missing, while everything is stopped, or while the hosts have no free slot.
    pub(super) fn place_next(&mut self, turn: &mut Turn<'_>, machine: &Manager) {
        self.queue.retain(|rank| machine.lives(rank));
        if self.queue.begin_next(turn.now(), machine.takes_worlds(), machine.freed()) {
            self.ask_for_placement(turn, machine);
        }
    }

    /// Reports the state of the spawns if it has changed.
    pub(super) fn report(&mut self, turn: &mut Turn<'_>, machine: &Manager) {
        self.reports.report(turn, machine, &self.queue);
    }

    /// A daemon has adopted this manager: it gets the state of the spawns, and the question that has no answer.
    pub(super) fn registered(&mut self, turn: &mut Turn<'_>, machine: &Manager) {
        self.reports.begin_again();
        self.ask_for_placement(turn, machine);
    }

    /// Asks the daemon for a placement, or asks the next daemon again.
    fn ask_for_placement(&self, turn: &mut Turn<'_>, machine: &Manager) {
        let Some((request, first)) = self.queue.placing() else { return };
        // It was checked when it came.
        let Ok(first) = SpawnOrder::decode(&first.order) else { return };
        let Job { spec, order, .. } = turn.job;
        let member = |tree_index: usize| {
            order.host_slices.get(tree_index).map(|host_slice| host_slice.member.clone())
        };
        let last_of_job = || {
            let last = Rank(spec.size().saturating_sub(1));
            member(order.host_slices.tree_index_of_rank(last)?)
        };
        let running = machine.living_at().into_iter();
        let blocked = machine.blocked(self.queue.waiting().filter_map(|(spawner, _)| spawner));
        let tree_indices = 0..order.host_slices.len();
        let placement = SpawnPlacement {
            blocks: first.blocks,
            policy: spec.spawn.policy,
            hosts: spec.placement.hosts.clone(),
            exclude: spec.placement.exclude.clone(),
            last: self.queue.last().cloned().or_else(last_of_job),
            running: running.filter_map(|(at, n)| Some((member(at)?, n))).collect(),
            blocked: blocked.at.iter().filter_map(|&(at, n)| Some((member(at)?, n))).collect(),
            limit: spec.spawn.limit,
            nevertheless: blocked.everywhere,
            lost: tree_indices.filter(|&at| machine.is_lost(at)).filter_map(member).collect(),
            here_first: spec.placement.here_first,
        };
        turn.send_to_daemon(ManagerReport::Place { request, placement });
    }

    /// Handles the placement from the daemon.
    pub(super) fn placed(
        &mut self,
        turn: &mut Turn<'_>,
        machine: &Manager,
        (number, outcome): (u32, Placing),
    ) {
        if outcome == Placing::Full {
            return self.queue.found_full(turn.now(), number);
        }
        let takes_worlds = machine.takes_worlds();
        let Some((spawner, request)) = self.queue.answered(number, takes_worlds) else { return };
        match outcome {
            Placing::Done { host_slices, last } => {
                let (kvsname, hosts) = (&turn.job.order.kvsname, &turn.job.order.host_slices);
                let asked = (spawner, request.size, request.is_awaited);
                match self.queue.plan(asked, kvsname, hosts, (host_slices, last)) {
                    Ok(plan) => {
                        // A world that the machine refused was never announced.
                        self.arrived.clear();
                        self.arrived.insert(plan.world.first, request.order.into());
                        turn.post(Input::Spawn(plan));
                    }
                    Err(problem) => refuse(turn, spawner, &problem),
                }
            }
            Placing::Failed(problem) => refuse(turn, spawner, &problem),
            Placing::Full => {}
        }
        self.place_next(turn, machine);
    }
}

/// Asks the daemon for managers on the hosts that joined at the tree indices from `from` on.
pub(super) fn announce_growth(turn: &mut Turn<'_>, from: usize) {
    let order = &turn.job.order;
    let launch = Launch {
        job: order.job.clone(),
        key: order.key.clone(),
        cookie: order.cookie.clone(),
        kvsname: order.kvsname.clone(),
        tmpdir: order.tmpdir.clone(),
        host_slices: order.host_slices.clone(),
        universe: order.universe,
        first: u32::try_from(from).unwrap_or(u32::MAX),
    };
    turn.send_to_daemon(ManagerReport::Grow { launch: Box::new(launch) });
}

/// At the root: refuses a spawn of a rank or of a user.
fn refuse(turn: &mut Turn<'_>, spawner: Option<Rank>, problem: &str) {
    let text = match spawner {
        Some(spawner) => format!("spawn by rank {}: {problem}", turn.job.name_of(spawner)),
        None => format!("growth: {problem}"),
    };
    turn.send_to_console(JobNews::Notice(Notice::major(text)));
    if let Some(spawner) = spawner {
        turn.post(Input::SpawnRefused(spawner));
    }
}

/// The order of further processes of the job's last program.
///
/// # Errors
/// Why it is impossible; a text for people.
fn growth_of(job: &Job, count: u32) -> Result<SpawnOrder, String> {
    let argset = job.spec.argsets.last().ok_or("the job has no program")?;
    if job.spec.adopted || job.spec.debug.is_some() {
        return Err("only a job that mpirun started without a debugger can grow".to_owned());
    }
    let order = SpawnOrder {
        spec: JobSpec {
            argsets: vec![Argset { size: count, environment: 0, ..argset.clone() }],
            environments: vec![Vec::new(); 2],
            tmpdir: job.spec.tmpdir.clone(),
            niceness: job.spec.niceness,
            ..JobSpec::default()
        },
        parent: job.order.kvsname.clone(),
        rank: Rank(0),
        of_user: true,
        generation: 0,
        inherits: vec![argset.environment],
        appnums: vec![None],
        blocks: vec![SpawnBlock { size: count, hosts: argset.hosts.clone(), policy: None }],
    };
    order.spec.check().map_err(|e| e.to_string())?;
    Ok(order)
}

/// The order of a rank's spawn.
///
/// # Errors
/// Why it is impossible; a text for people.
fn order_of(job: &Job, rank: Rank, wish: &Wish) -> Result<SpawnOrder, String> {
    let Wish { request, variables } = wish;
    let world = job.worlds.of(rank).ok_or("it has ended")?;
    let generation = generation_of_child(world.generation, &job.spec.spawn)?;
    let argset = world.argset_of(rank);
    let parent = &world.spec.argsets[argset];
    let inherited = world.inherits.get(argset).copied().unwrap_or(0);
    let mut order = SpawnOrder {
        spec: JobSpec {
            tmpdir: job.spec.tmpdir.clone(),
            niceness: niceness_of_child(&world.spec, job.spec.spawn.nice_step),
            ..JobSpec::default()
        },
        parent: world.kvsname.clone(),
        rank: world.numbers.own(rank),
        of_user: false,
        generation,
        inherits: vec![inherited; request.commands.len()],
        appnums: Vec::new(),
        blocks: Vec::new(),
    };
    for (number, command) in (0..).zip(&request.commands) {
        let mut wanted = info::program_of(command, parent)?;
        wanted.argset.environment = number;
        wanted.variables.extend(variables.get(number as usize).into_iter().flatten().cloned());
        order.spec.argsets.push(wanted.argset);
        order.spec.environments.push(wanted.variables);
        order.appnums.push(wanted.appnum);
        order.blocks.push(wanted.block);
    }
    let pair = |(key, value): &(Bytes, Bytes)| [key, &b"="[..], value].concat();
    order.spec.environments.push(request.preput.iter().map(pair).collect());
    order.spec.check().map_err(|e| e.to_string())?;
    Ok(order)
}

/// The generation of a world that one of `generation` spawns.
///
/// # Errors
/// The chain of spawns is as long as it may be; a text for people.
fn generation_of_child(generation: u32, options: &SpawnOptions) -> Result<u32, String> {
    let longest = options.longest_chain();
    if generation >= longest {
        return Err(format!(
            "the chain of spawns has {longest} worlds already, each spawned by the one before; if that is right, raise the bound with -spawn-depth N"
        ));
    }
    Ok(generation + 1)
}

/// The niceness of processes that a process of `parent` spawns.
fn niceness_of_child(parent: &JobSpec, step: i8) -> Option<i8> {
    match (parent.niceness, step) {
        (niceness, 0) => niceness,
        (niceness, step) => Some(niceness.unwrap_or(0).saturating_add(step).clamp(-20, 19)),
    }
}

/// An error code for each requested process, in order, since libraries count them.
fn error_codes(request: &SpawnRequest, order: &SpawnOrder) -> Vec<i32> {
    let mut errors = Vec::new();
    for (command, block) in request.commands.iter().zip(&order.blocks) {
        errors.extend((0..command.size).map(|n| if n < block.size { 0 } else { ERR_SPAWN }));
    }
    errors
}

#[cfg(test)]
mod tests {
    use mpd_wire::job::Limit;

    use super::*;

    #[test]
    fn a_hundred_thousand_queued_spawns_of_an_mpi_program_take_less_than_a_hundred_mebibytes() {
        let job = order::tests::spec(&[&["PATH=/usr/bin"]], 1);
        let limit = |resource| Limit { resource, soft: u64::MAX, hard: u64::MAX };
        let parent = Argset {
            directory: b"/home/user/projects/solver/run-0001".to_vec(),
            search: b"/opt/mpi/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
                .to_vec(),
            limits: (0..16).map(limit).collect(),
            ..job.argsets[0].clone()
        };
        let command = pmi_proto::SpawnCommand {
            program: b"/home/user/projects/solver/fib".to_vec(),
            args: vec![b"13".to_vec()],
            size: 1,
            info: Vec::new(),
        };
        let mut order = order::tests::order();
        let wanted = info::program_of(&command, &parent).unwrap();
        order.inherits.truncate(1);
        order.appnums = vec![wanted.appnum];
        order.blocks = vec![wanted.block];
        order.spec.argsets = vec![wanted.argset];
        // MPICH passes the address of the spawner.
        let port = format!("PARENT_ROOT_PORT_NAME=tag#0$connentry#{}$", "0".repeat(96));
        order.spec.environments = vec![Vec::new(), vec![port.into_bytes()]];
        let mut queue = SpawnQueue::new(1);
        let mut bytes = 0;
        for rank in 0..100_000 {
            let request = Request { order: order.encode().into(), size: 1, is_awaited: true };
            bytes += request.order.len() + 2 * size_of::<(Option<Rank>, Request)>();
            assert!(queue.push(Some(Rank(rank)), request));
        }
        assert!(bytes < 100_000 * 1024, "a request takes {} bytes", bytes / 100_000);
        assert!(SpawnOrder::decode(&queue.waiting().next().unwrap().1.order).is_ok());
    }

    #[test]
    fn a_chain_of_spawns_ends_at_its_bound_with_the_option_that_raises_it() {
        let options = |depth| SpawnOptions { depth, ..SpawnOptions::default() };
        assert_eq!(generation_of_child(0, &options(None)), Ok(1));
        assert_eq!(generation_of_child(99, &options(None)), Ok(100));
        let refused = generation_of_child(100, &options(None)).unwrap_err();
        assert!(refused.contains("100 worlds") && refused.contains("-spawn-depth"), "{refused}");
        assert_eq!(generation_of_child(100, &options(Some(101))), Ok(101));
        assert!(generation_of_child(1, &options(Some(1))).is_err());
    }

    #[test]
    fn each_level_of_spawns_has_a_higher_niceness_up_to_the_highest() {
        let of = |niceness| JobSpec { niceness, ..JobSpec::default() };
        assert_eq!(niceness_of_child(&of(Some(3)), 0), Some(3));
        assert_eq!(niceness_of_child(&of(None), 0), None);
        assert_eq!(niceness_of_child(&of(Some(3)), 5), Some(8));
        assert_eq!(niceness_of_child(&of(Some(18)), 5), Some(19));
        assert_eq!(niceness_of_child(&of(Some(0)), -3), Some(-3));
    }
}
