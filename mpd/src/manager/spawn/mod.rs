//! Spawns: a rank asks its manager for further processes, that one the root, and the root its daemon
//! where they go. Hosts that the job does not have yet join it. What is started, and what the spawner
//! hears, is the machine's to say.

mod info;
mod order;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_job::manager::{Input, WorldPlan};
use mpd_machine::Time;
use mpd_wire::job::{
    Bytes, JobSpec, MAX_RANKS_EVER, Notice, Parts, Share, SpawnOutcome, SpawnWish, World as Numbers,
};
use mpd_wire::message::{
    Gathering, JobNews, Launch, MAX_TREE_FRAME, ManagerReport, Placing, TreeKind, WorldPiece,
    pieces,
};
use mpd_wire::{DaemonName, Rank, RankSet};
use pmi_proto::{Answer, SpawnRequest, Spawned, Ticket};

pub(super) use self::order::Order;
use super::attributes::Asker;
use super::branches::End;
use super::{Process, Timer};

/// How long the daemon, or the one after it, may take to say where processes go.
const PATIENCE: Duration = Duration::from_secs(15);

/// Most bytes of who runs what of one world, and most hosts that join at once: what a message between
/// managers holds.
const MAX_PARTS: usize = MAX_TREE_FRAME - 1024;
const MAX_JOINING: usize = 1000;

/// `MPI_ERR_SPAWN` of MPICH and its descendants: of a process that `soft` has left out.
const ERR_SPAWN: i32 = 42;

/// Spawns under way.
#[derive(Debug, Default)]
pub(super) struct Spawning {
    /// By spawner here: whom to answer, and the error code of each process that it has asked for, if all goes
    /// well.
    asked: BTreeMap<Rank, (Ticket, Vec<i32>)>,
    /// What threads of theirs want next.
    waiting: VecDeque<(Asker, SpawnRequest)>,
    /// Pieces from below and from above that are not whole yet.
    from_below: Gathering,
    from_above: Gathering,
    /// What is known of worlds that are about to be announced.
    arrived: BTreeMap<Rank, Bytes>,
    root: Root,
}

/// What only the root has to do.
#[derive(Debug, Default)]
struct Root {
    queue: VecDeque<Request>,
    /// The first of the queue is being placed, under that number, and until then.
    placing: Option<(u32, Time)>,
    requests: u32,
    /// Worlds that were spawned so far, and the ranks of those.
    worlds: u32,
    ranks: u32,
    /// The host that was used last.
    last: Option<DaemonName>,
}

#[derive(Debug)]
struct Request {
    spawner: Rank,
    order: Order,
    bytes: Bytes,
}

impl Spawning {
    /// What is known of a world that is to be started.
    pub(super) fn take_arrived(&mut self, first: Rank) -> Option<Bytes> {
        self.arrived.remove(&first)
    }

    /// The same, for those below.
    pub(super) fn arrived(&self, first: Rank) -> Option<&Bytes> {
        self.arrived.get(&first)
    }

    /// That rank has ended.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.asked.remove(&rank);
        self.waiting.retain(|((other, _), _)| *other != rank);
    }
}

impl Process {
    // ----- for the spawner -----

    /// A rank here wants further processes.
    pub(super) fn ask_for_spawn(&mut self, (rank, ticket): Asker, request: SpawnRequest) {
        if self.spawning.asked.contains_key(&rank) {
            // Bounded by what a session lets its client have open.
            return self.spawning.waiting.push_back(((rank, ticket), request));
        }
        match self.order_of(rank, &request) {
            Ok(order) => {
                self.spawning.asked.insert(rank, (ticket, error_codes(&request, &order)));
                self.pass_on_spawn(rank, &order.encode());
            }
            Err(problem) => {
                let text = format!("spawn by rank {}: {problem}", self.name_of(rank));
                self.post(Input::Notice(text));
                self.answer((rank, ticket), Answer::Spawned(Err("cannot_spawn")));
            }
        }
    }

    fn order_of(&self, rank: Rank, request: &SpawnRequest) -> Result<Order, String> {
        let world = self.worlds.of(rank).ok_or("it has ended")?;
        let argset = world.argset_of(rank);
        let parent = &world.spec.argsets[argset];
        let inherited = world.inherits.get(argset).copied().unwrap_or(0);
        let mut order = Order {
            spec: JobSpec {
                tmpdir: self.spec.tmpdir.clone(),
                spawn_policy: self.spec.spawn_policy,
                niceness: self.spec.niceness,
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

    /// What came of a spawn by a rank here.
    pub(super) fn spawn_answered(&mut self, rank: Rank, outcome: &SpawnOutcome) {
        let Some((ticket, errors)) = self.spawning.asked.remove(&rank) else { return };
        let spawned = match outcome {
            SpawnOutcome::Done { kvsname } => Ok(Spawned { jobid: kvsname, errors: &errors }),
            // With success and nothing but error codes, a library that nobody has asked for those waits for
            // processes that never come.
            SpawnOutcome::Failed { .. } => Err("cannot_spawn"),
        };
        self.answer((rank, ticket), Answer::Spawned(spawned));
        while !self.spawning.asked.contains_key(&rank) {
            let waiting = &mut self.spawning.waiting;
            let next = waiting.iter().position(|((other, _), _)| *other == rank);
            let Some((asker, request)) = next.and_then(|at| waiting.remove(at)) else { return };
            self.ask_for_spawn(asker, request);
        }
    }

    // ----- on the way -----

    /// To the root, wherever that is.
    fn pass_on_spawn(&mut self, spawner: Rank, bytes: &[u8]) {
        if self.is_root() {
            return self.take_request(spawner, bytes.to_vec());
        }
        for piece in pieces(spawner, bytes) {
            self.branches.send_bytes(End::Parent, TreeKind::World, &piece);
        }
    }

    /// A piece of a request from below, or of an order from above.
    pub(super) fn take_world_piece(&mut self, from: End, payload: &[u8]) {
        let Some(piece) = WorldPiece::read(payload) else {
            return log::warn!("a piece of a world that is none");
        };
        match from {
            End::Child(_) if !self.is_root() => {
                self.branches.send_bytes(End::Parent, TreeKind::World, payload);
            }
            End::Child(_) => match self.spawning.from_below.take(&piece) {
                Ok(Some(bytes)) => self.take_request(piece.of, bytes),
                Ok(None) => {}
                Err(e) => self.refuse_spawn(piece.of, &e.to_string()),
            },
            End::Parent => match self.spawning.from_above.take(&piece) {
                Ok(Some(bytes)) => drop(self.spawning.arrived.insert(piece.of, bytes)),
                Ok(None) => {}
                Err(e) => log::error!("the world that begins with rank {}: {e}", piece.of),
            },
        }
    }

    // ----- at the root -----

    fn take_request(&mut self, spawner: Rank, bytes: Bytes) {
        match Order::decode(&bytes) {
            Ok(order) => {
                self.spawning.root.queue.push_back(Request { spawner, order, bytes });
                self.place_next();
            }
            Err(e) => self.refuse_spawn(spawner, &e.to_string()),
        }
    }

    fn refuse_spawn(&mut self, spawner: Rank, problem: &str) {
        let text = format!("spawn by rank {}: {problem}", self.name_of(spawner));
        self.console.tell(&JobNews::Notice(Notice::major(text)));
        self.post(Input::SpawnRefused(spawner));
    }

    /// Asks the daemon where the first of the queue goes, unless it is asked already.
    pub(super) fn place_next(&mut self) {
        let root = &mut self.spawning.root;
        // A rank may be quick, and others not started yet; or everything is stopped.
        if root.placing.is_some() || root.queue.is_empty() || !self.pump.machine().takes_worlds() {
            return;
        }
        root.requests = root.requests.wrapping_add(1);
        let until = self.now() + PATIENCE;
        self.spawning.root.placing = Some((self.spawning.root.requests, until));
        self.timers.set(Timer::Spawn, until);
        self.ask_for_place();
    }

    /// Asks, or asks the next daemon again.
    pub(super) fn ask_for_place(&mut self) {
        let root = &self.spawning.root;
        let (Some((request, _)), Some(first)) = (root.placing, root.queue.front()) else { return };
        let member = |place: usize| self.order.shares.get(place).map(|share| share.member.clone());
        let last_of_job = || {
            let last = Rank(self.spec.size().saturating_sub(1));
            member(self.order.shares.place_of_rank(last)?)
        };
        let running = self.pump.machine().living_at();
        let places = 0..self.order.shares.len();
        let wish = SpawnWish {
            blocks: first.order.blocks.clone(),
            policy: self.spec.spawn_policy,
            hosts: self.spec.placement.hosts.clone(),
            exclude: self.spec.placement.exclude.clone(),
            last: root.last.clone().or_else(last_of_job),
            running: running.into_iter().filter_map(|(at, n)| Some((member(at)?, n))).collect(),
            lost: places.filter(|&at| self.pump.machine().is_lost(at)).filter_map(member).collect(),
            here_first: self.spec.placement.here_first,
        };
        self.daemon.report(&ManagerReport::Place { request, wish });
        self.daemon.flush();
    }

    /// The daemon says where processes go.
    pub(super) fn placed(&mut self, request: u32, outcome: Placing) {
        if self.spawning.root.placing.is_none_or(|(asked, _)| asked != request) {
            return;
        }
        self.spawning.root.placing = None;
        self.timers.stop(Timer::Spawn);
        if !self.pump.machine().takes_worlds() {
            // It is asked for again when it can be used.
            return;
        }
        if let Some(first) = self.spawning.root.queue.pop_front() {
            match outcome {
                Placing::Done { shares, last } => {
                    self.spawning.root.last = Some(last);
                    self.begin_world(first, shares);
                }
                Placing::Failed(problem) => self.refuse_spawn(first.spawner, &problem),
            }
        }
        self.place_next();
    }

    /// No daemon has said where processes go.
    pub(super) fn placing_is_due(&mut self) {
        self.spawning.root.placing = None;
        if let Some(first) = self.spawning.root.queue.pop_front() {
            self.refuse_spawn(first.spawner, "the daemon here does not answer");
        }
        self.place_next();
    }

    fn begin_world(&mut self, request: Request, shares: Vec<Share>) {
        let Request { spawner, order, bytes } = request;
        let root = &mut self.spawning.root;
        let size = order.spec.size();
        let first = self.spec.size() + root.ranks;
        if size > MAX_RANKS_EVER - first {
            let problem = format!("the job has had {first} processes and cannot have {size} more");
            return self.refuse_spawn(spawner, &problem);
        }
        root.worlds += 1;
        root.ranks += size;
        let world = Numbers { number: root.worlds, first: Rank(first), size };
        let (parts, joining) = self.parts_of(&world, shares);
        if !parts.are_of(&world) {
            return self.refuse_spawn(spawner, "the daemon here has not placed all of it");
        }
        let told = serde_json::to_vec(&parts).map_or(usize::MAX, |bytes| bytes.len());
        if told > MAX_PARTS || joining.len() > MAX_JOINING {
            let problem = "it is spread over too many places for one message; spawn fewer at once";
            return self.refuse_spawn(spawner, problem);
        }
        // A world that the machine refused was never announced.
        self.spawning.arrived.clear();
        self.spawning.arrived.insert(world.first, bytes);
        let kvsname = world.kvsname(&self.order.kvsname);
        self.post(Input::Spawn(WorldPlan { world, parts, spawner, kvsname, joining }));
    }

    /// By the places of the job what the daemon said by hosts; and hosts that are new.
    fn parts_of(&self, world: &Numbers, shares: Vec<Share>) -> (Parts, Vec<Share>) {
        let mut parts = Vec::new();
        let mut joining: Vec<Share> = Vec::new();
        let number = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        for share in shares {
            let ranges = share.ranks.ranges().iter();
            let in_job = |rank: u32| world.in_job(Rank(rank)).0;
            let ranks = ranges.map(|&(low, high)| (in_job(low), in_job(high))).collect();
            let ranks = RankSet::from_ranges(ranks);
            let place = self.order.shares.place_of(&share.member).unwrap_or_else(|| {
                // The daemon knows the addresses of all.
                joining.push(Share { ranks: RankSet::none(), addresses: Vec::new(), ..share });
                self.order.shares.len() + joining.len() - 1
            });
            parts.push((number(place), ranks));
        }
        (Parts(parts), joining)
    }

    /// Hosts that joined at the places from `from` on are to start managers.
    fn announce_growth(&mut self, from: usize) {
        let order = &self.order;
        let launch = Launch {
            job: order.job.clone(),
            key: order.key.clone(),
            cookie: order.cookie.clone(),
            kvsname: order.kvsname.clone(),
            tmpdir: order.tmpdir.clone(),
            shares: order.shares.clone(),
            first: u32::try_from(from).unwrap_or(u32::MAX),
        };
        self.daemon.report(&ManagerReport::Grow { launch: Box::new(launch) });
        self.daemon.flush();
    }

    // ----- everywhere -----

    /// Further hosts have joined the job. Who has joined last knows some of them already.
    pub(super) fn grow(&mut self, from: u32, shares: Vec<Share>) {
        let known = self.order.shares.len();
        if let Err(e) = self.order.shares.join(from, shares) {
            return log::error!("hosts cannot join: {e}");
        }
        let me = self.order.place as usize;
        let mine: Vec<usize> =
            self.order.shares.children(me).filter(|place| *place >= known).collect();
        let encoded = if mine.is_empty() { Vec::new() } else { self.spec.encode() };
        for place in mine {
            let now = self.now();
            let Some(share) = self.order.shares.get(place) else { continue };
            match self.branches.add_child(now, place, share) {
                Ok(()) => {
                    self.flows.add(place, self.spec.size());
                    self.send_specification(place, &encoded);
                }
                Err(e) => log::error!("{e:#}"),
            }
        }
        if self.is_root() {
            self.announce_growth(known);
        }
    }
}

/// For each process that was asked for, in order: libraries count them.
fn error_codes(request: &SpawnRequest, order: &Order) -> Vec<i32> {
    let mut errors = Vec::new();
    for (command, block) in request.commands.iter().zip(&order.blocks) {
        errors.extend((0..command.size).map(|n| if n < block.size { 0 } else { ERR_SPAWN }));
    }
    errors
}
