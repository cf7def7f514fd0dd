//! Spawns: a rank asks its manager for further processes, that one the root, and the root its daemon
//! where they go. Hosts that the job does not have yet join it. What is started, and what the spawner
//! gets as its answer, is the machine's to say; the order of requests is [`SpawnQueue`]'s.
//!
//! | module | has |
//! |---|---|
//! | [`info`] | the hints of a spawn |
//! | [`order`] | what travels of a spawn |

mod info;
mod order;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use mpd_job::manager::{Input, Manager, SpawnQueue};
use mpd_machine::Time;
use mpd_wire::Rank;
use mpd_wire::job::SpawnWish;
use mpd_wire::job::{Bytes, JobSpec, Notice, Parts, SpawnOutcome, World as Numbers};
use mpd_wire::message::{
    Down, Gathering, JobNews, Launch, ManagerReport, Placing, TreeKind, WorldPiece, pieces,
};
use pmi_proto::{SpawnRequest, Ticket};

use self::order::Order;
use super::context::{Job, Turn};
use super::event::{Event, ForLinks};
use super::links::End;
use super::pmi::Asker;
use super::worlds::World;

/// `MPI_ERR_SPAWN` of MPICH and its descendants: of a process that `soft` has left out.
const ERR_SPAWN: i32 = 42;

/// A request at the root.
#[derive(Debug)]
struct Request {
    spawner: Rank,
    order: Order,
    bytes: Bytes,
}

/// A spawned world that is to be started here or below.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) world: World,
    /// What its key-value space holds beforehand.
    pub(super) preput: Vec<(Bytes, Bytes)>,
    /// Its programs are known, so that its ranks can be started.
    pub(super) is_known: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Spawns {
    /// By spawner here: the request to answer, and the error code of each process that it has asked for, if all goes
    /// well.
    asked: BTreeMap<Rank, (Ticket, Vec<i32>)>,
    /// What further threads of spawners want.
    waiting: VecDeque<(Asker, SpawnRequest)>,
    /// Pieces from below and from above that are not whole yet.
    from_below: Gathering,
    from_above: Gathering,
    /// What is known of worlds that are about to be announced.
    arrived: BTreeMap<Rank, Bytes>,
    /// At the root.
    queue: SpawnQueue<Request>,
}

impl Spawns {
    pub(super) fn new(job: &Job) -> Self {
        Self {
            asked: BTreeMap::new(),
            waiting: VecDeque::new(),
            from_below: Gathering::default(),
            from_above: Gathering::default(),
            arrived: BTreeMap::new(),
            queue: SpawnQueue::new(job.spec.size()),
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.queue.deadline()
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>, machine: &Manager) {
        if let Some(first) = self.queue.expire(turn.now()) {
            refuse(turn, first.spawner, "the daemon here does not answer");
            self.place_next(turn, machine);
        }
    }

    // ----- for the spawner -----

    /// A rank here wants further processes.
    pub(super) fn ask(
        &mut self,
        turn: &mut Turn<'_>,
        machine: &Manager,
        (asker, request): (Asker, SpawnRequest),
    ) {
        let (rank, ticket) = asker;
        if self.asked.contains_key(&rank) {
            // Bounded by what a session lets its client have open.
            return self.waiting.push_back((asker, request));
        }
        match order_of(turn.job, rank, &request) {
            Ok(order) => {
                self.asked.insert(rank, (ticket, error_codes(&request, &order)));
                self.pass_on(turn, machine, (rank, order.encode()));
            }
            Err(problem) => {
                let text = format!("spawn by rank {}: {problem}", turn.job.name_of(rank));
                turn.post(Input::Notice(text));
                turn.report(Event::SpawnAnswer(asker, Err("cannot_spawn")));
            }
        }
    }

    /// What came of a spawn by a rank here.
    pub(super) fn answered(
        &mut self,
        turn: &mut Turn<'_>,
        machine: &Manager,
        (rank, outcome): (Rank, SpawnOutcome),
    ) {
        let Some((ticket, errors)) = self.asked.remove(&rank) else { return };
        let spawned = match outcome {
            SpawnOutcome::Done { kvsname } => Ok((kvsname, errors)),
            // With success and nothing but error codes, a library whose caller has not asked for those waits for
            // processes that never come.
            SpawnOutcome::Failed { .. } => Err("cannot_spawn"),
        };
        turn.report(Event::SpawnAnswer((rank, ticket), spawned));
        while !self.asked.contains_key(&rank) {
            let next = self.waiting.iter().position(|((other, _), _)| *other == rank);
            let Some(next) = next.and_then(|at| self.waiting.remove(at)) else { return };
            self.ask(turn, machine, next);
        }
    }

    /// That rank has ended, or starts once more.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.asked.remove(&rank);
        self.waiting.retain(|((other, _), _)| *other != rank);
    }

    /// The programs of all ranks start once more.
    pub(super) fn restart(&mut self) {
        self.asked.clear();
        self.waiting.clear();
    }

    // ----- on the way -----

    /// To the root, wherever that is.
    fn pass_on(&mut self, turn: &mut Turn<'_>, machine: &Manager, (spawner, bytes): (Rank, Bytes)) {
        if turn.job.is_root() {
            return self.take_request(turn, machine, (spawner, bytes));
        }
        for piece in pieces(spawner, &bytes) {
            turn.report(ForLinks::Bytes(End::Parent, TreeKind::World, piece));
        }
    }

    /// A piece of a request from below, or of an order from above.
    pub(super) fn take_piece(
        &mut self,
        turn: &mut Turn<'_>,
        machine: &Manager,
        (from, payload): (End, Vec<u8>),
    ) {
        let Some(piece) = WorldPiece::read(&payload) else {
            return log::warn!("a piece of a world that is none");
        };
        match from {
            End::Child(_) if !turn.job.is_root() => {
                turn.report(ForLinks::Bytes(End::Parent, TreeKind::World, payload));
            }
            End::Child(_) => match self.from_below.take(&piece) {
                Ok(Some(bytes)) => self.take_request(turn, machine, (piece.of, bytes)),
                Ok(None) => {}
                Err(e) => refuse(turn, piece.of, &e.to_string()),
            },
            End::Parent => match self.from_above.take(&piece) {
                Ok(Some(bytes)) => drop(self.arrived.insert(piece.of, bytes)),
                Ok(None) => {}
                Err(e) => log::error!("the world that begins with rank {}: {e}", piece.of),
            },
        }
    }

    /// The managers below at these places get a world's order, and then its announcement.
    pub(super) fn announce(
        &self,
        turn: &mut Turn<'_>,
        places: Vec<usize>,
        (world, parts): (Numbers, Parts),
    ) {
        let known = self.arrived.get(&world.first).map_or(&[][..], Vec::as_slice);
        for piece in pieces(world.first, known) {
            for &place in &places {
                turn.report(ForLinks::Bytes(End::Child(place), TreeKind::World, piece.clone()));
            }
        }
        turn.report(ForLinks::DownNow(places, Down::World { world, parts }));
    }

    /// A world that runs here or below is to be started.
    pub(super) fn prepare(&mut self, turn: &mut Turn<'_>, numbers: Numbers, parts: Parts) {
        let job = turn.job;
        let arrived = self.arrived.remove(&numbers.first);
        let order = arrived.and_then(|bytes| Order::decode(&bytes).ok());
        let order = order.filter(|order| order.spec.size() == numbers.size);
        let called = (numbers, numbers.kvsname(&job.order.kvsname));
        let announced = match order {
            // One of which nothing is known will not be started.
            None => Announced {
                world: World::new(called, Rc::clone(&job.spec), &job.order, parts),
                preput: Vec::new(),
                is_known: false,
            },
            Some(order) => {
                let preput = order.preput();
                let (inherits, appnums) = (order.inherits.clone(), order.appnums.clone());
                let spawner = Some(order.parent.clone());
                let spec = Rc::new(order.with_environment_of(&job.spec));
                let world = World::new(called, spec, &job.order, parts);
                let world = World { inherits, appnums, spawner, ..world };
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
        match Order::decode(&bytes) {
            Ok(order) => {
                self.queue.push(Request { spawner, order, bytes });
                self.place_next(turn, machine);
            }
            Err(e) => refuse(turn, spawner, &e.to_string()),
        }
    }

    /// Asks the daemon where the first of the queue goes, unless it is asked already. A rank may be quick, and others not
    /// started yet; or everything is stopped: then it waits.
    pub(super) fn place_next(&mut self, turn: &mut Turn<'_>, machine: &Manager) {
        if self.queue.begin_next(turn.now(), machine.takes_worlds()) {
            self.ask_for_place(turn, machine);
        }
    }

    /// Asks, or asks the next daemon again.
    pub(super) fn ask_for_place(&self, turn: &mut Turn<'_>, machine: &Manager) {
        let Some((request, first)) = self.queue.placing() else { return };
        let Job { spec, order, .. } = turn.job;
        let member = |place: usize| order.shares.get(place).map(|share| share.member.clone());
        let last_of_job = || {
            let last = Rank(spec.size().saturating_sub(1));
            member(order.shares.place_of_rank(last)?)
        };
        let running = machine.living_at().into_iter();
        let places = 0..order.shares.len();
        let wish = SpawnWish {
            blocks: first.order.blocks.clone(),
            policy: spec.spawn_policy,
            hosts: spec.placement.hosts.clone(),
            exclude: spec.placement.exclude.clone(),
            last: self.queue.last().cloned().or_else(last_of_job),
            running: running.filter_map(|(at, n)| Some((member(at)?, n))).collect(),
            lost: places.filter(|&at| machine.is_lost(at)).filter_map(member).collect(),
            here_first: spec.placement.here_first,
        };
        turn.tell_daemon(ManagerReport::Place { request, wish });
    }

    /// The daemon says where processes go.
    pub(super) fn placed(
        &mut self,
        turn: &mut Turn<'_>,
        machine: &Manager,
        (number, outcome): (u32, Placing),
    ) {
        let Some(request) = self.queue.answered(number, machine.takes_worlds()) else { return };
        match outcome {
            Placing::Done { shares, last } => {
                let Request { spawner, order, bytes } = request;
                let (kvsname, hosts) = (&turn.job.order.kvsname, &turn.job.order.shares);
                let asked = (spawner, order.spec.size());
                match self.queue.plan(asked, kvsname, hosts, (shares, last)) {
                    Ok(plan) => {
                        // A world that the machine refused was never announced.
                        self.arrived.clear();
                        self.arrived.insert(plan.world.first, bytes);
                        turn.post(Input::Spawn(plan));
                    }
                    Err(problem) => refuse(turn, spawner, &problem),
                }
            }
            Placing::Failed(problem) => refuse(turn, request.spawner, &problem),
        }
        self.place_next(turn, machine);
    }
}

/// Hosts that joined at the places from `from` on are to start managers.
pub(super) fn announce_growth(turn: &mut Turn<'_>, from: usize) {
    let order = &turn.job.order;
    let launch = Launch {
        job: order.job.clone(),
        key: order.key.clone(),
        cookie: order.cookie.clone(),
        kvsname: order.kvsname.clone(),
        tmpdir: order.tmpdir.clone(),
        shares: order.shares.clone(),
        first: u32::try_from(from).unwrap_or(u32::MAX),
    };
    turn.tell_daemon(ManagerReport::Grow { launch: Box::new(launch) });
}

/// At the root: what that rank wanted is not started.
fn refuse(turn: &mut Turn<'_>, spawner: Rank, problem: &str) {
    let text = format!("spawn by rank {}: {problem}", turn.job.name_of(spawner));
    turn.tell_console(JobNews::Notice(Notice::major(text)));
    turn.post(Input::SpawnRefused(spawner));
}

/// What a rank here wants, as it travels.
///
/// # Errors
/// Why it cannot be had, for people.
fn order_of(job: &Job, rank: Rank, request: &SpawnRequest) -> Result<Order, String> {
    let world = job.worlds.of(rank).ok_or("it has ended")?;
    let argset = world.argset_of(rank);
    let parent = &world.spec.argsets[argset];
    let inherited = world.inherits.get(argset).copied().unwrap_or(0);
    let mut order = Order {
        spec: JobSpec {
            tmpdir: job.spec.tmpdir.clone(),
            spawn_policy: job.spec.spawn_policy,
            niceness: job.spec.niceness,
            ..JobSpec::default()
        },
        parent: world.kvsname.clone(),
        inherits: vec![inherited; request.commands.len()],
        appnums: Vec::new(),
        blocks: Vec::new(),
    };
    for (number, command) in (0..).zip(&request.commands) {
        let mut wanted = info::understand(command, parent)?;
        wanted.argset.environment = number;
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

/// For each process that was asked for, in order: libraries count them.
fn error_codes(request: &SpawnRequest, order: &Order) -> Vec<i32> {
    let mut errors = Vec::new();
    for (command, block) in request.commands.iter().zip(&order.blocks) {
        errors.extend((0..command.size).map(|n| if n < block.size { 0 } else { ERR_SPAWN }));
    }
    errors
}
