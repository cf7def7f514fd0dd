//! Spawns: a rank asks its manager for further processes, the manager asks the root, and the root asks its daemon for
//! hosts. The order of a spawn goes down to the hosts that start its processes, before its announcement.
//!
//! ```text
//! spawner's manager                root                          managers of the new world
//! Asked --- pieces of the order --> queue --> Place
//!                                     |  <--- Placed
//!                                     +--- pieces of the order, Down::World --> Prepare
//! Answer <------ Down::Spawned -------+
//! ```
//!
//! The job (`job.rs`) decides whether and when a placed world is started, and how its spawner is answered.
//!
//! | module | subject |
//! |---|---|
//! | `hex` | bytes in a recording |
//! | [`order`] | the encoded order of a spawn |
//! | `root` | the requests of all ranks, at the root |
//! | `queue` | the order of requests, and the numbers of worlds |
//! | `reports` | the state of the spawns, for listings |
//! | `recorded` | inputs without the environments of programs |

mod hex;
pub mod order;
mod queue;
pub(super) mod recorded;
mod reports;
mod request;
mod root;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use mpd_wire::Rank;
use mpd_wire::job::{Bytes, HostChoice, Parts, SpawnOutcome, SpawnPlacement, SpawnPolicy, World};
use mpd_wire::message::{Gathering, Placing, SpawnState, WorldPiece, pieces};
use pmi_proto::Ticket;
use serde::{Deserialize, Serialize};

use self::order::SpawnOrder;
pub(super) use self::root::RootSpawns;
use crate::manager::{LinkEnd, WorldPlan};

/// A rank that waits for an answer, and the number of its request.
pub type Caller = (Rank, Ticket);

/// The settings of a job for the spawns of its ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnSettings {
    /// The name of the job's key-value space.
    pub kvsname: String,
    /// See [`SpawnPlacement::policy`].
    pub policy: SpawnPolicy,
    /// See [`SpawnPlacement::limit`].
    pub limit: Option<u32>,
    /// See [`SpawnPlacement::hosts`].
    pub hosts: Vec<HostChoice>,
    /// See [`SpawnPlacement::exclude`].
    pub exclude: Vec<String>,
    /// See [`SpawnPlacement::here_first`].
    pub here_first: bool,
}

/// An input about spawns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SpawnInput {
    /// A rank here requests further processes.
    Asked {
        /// The rank and its request.
        caller: Caller,
        /// The encoded [`SpawnOrder`].
        #[serde(with = "hex")]
        order: Bytes,
        /// The error code of each requested process, for an answer of success.
        errors: Vec<i32>,
    },
    /// A user requests further processes, by an encoded [`SpawnOrder`]. For the root.
    Grow(#[serde(with = "hex")] Bytes),
    /// A piece of a child's request, or of the parent's order: a [`WorldPiece`].
    Piece(LinkEnd, #[serde(with = "hex")] Bytes),
    /// The daemon's answer to the question of that number. For the root.
    Placed(u32, Placing),
}

/// An action for the process that concerns spawns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpawnOutput {
    /// Send this piece over the link, in order with commands about worlds.
    Piece(LinkEnd, Bytes),
    /// Answer a rank here: with the name of the world's key-value space and an error code for each requested process, or
    /// with PMI's word for the error.
    Answer(Caller, Result<(String, Vec<i32>), &'static str>),
    /// Ask the daemon for hosts, by a question of that number. At the root.
    Place(u32, Box<SpawnPlacement>),
    /// Report the state of the spawns to the daemon. At the root.
    Report(SpawnState),
}

/// A spawned world that is to be started in this subtree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    pub world: World,
    /// The ranks of each manager.
    pub parts: Parts,
    /// Its programs. A world without them is not started.
    pub order: Option<SpawnOrder>,
}

/// A consequence of an input.
#[derive(Debug)]
pub(super) enum SpawnAct {
    /// For the process.
    Emit(SpawnOutput),
    /// A complete request for the root: the spawner, and the encoded order.
    Request(Rank, Bytes),
    /// A notice for the user.
    Notice(String),
    /// The root refuses a request, for that reason.
    Refuse(Option<Rank>, String),
    /// The root starts this world.
    Start(WorldPlan, Bytes),
}

/// The bytes of an order that waits. Their text for people is their number: they have environments.
struct Waiting(Box<[u8]>);

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// A request of a rank.
#[derive(Debug)]
struct Asked {
    caller: Caller,
    order: Waiting,
    errors: Vec<i32>,
}

/// The spawns of ranks here, and the orders of worlds that begin here or below.
#[derive(Debug)]
pub(super) struct Spawns {
    is_root: bool,
    /// By spawner here: the request to answer, and the error codes for an answer of success.
    asked: BTreeMap<Rank, (Ticket, Vec<i32>)>,
    /// Requests of further threads of spawners.
    waiting: VecDeque<Asked>,
    /// Incomplete requests of children, at the root.
    from_children: Gathering,
    /// Incomplete orders of the parent.
    from_parent: Gathering,
    /// Complete orders of worlds that are not announced yet.
    arrived: BTreeMap<Rank, Waiting>,
    acts: VecDeque<SpawnAct>,
}

impl Spawns {
    pub(super) fn new(is_root: bool) -> Self {
        Self {
            is_root,
            asked: BTreeMap::new(),
            waiting: VecDeque::new(),
            from_children: Gathering::default(),
            from_parent: Gathering::default(),
            arrived: BTreeMap::new(),
            acts: VecDeque::new(),
        }
    }

    pub(super) fn poll_act(&mut self) -> Option<SpawnAct> {
        self.acts.pop_front()
    }

    fn emit(&mut self, output: SpawnOutput) {
        self.acts.push_back(SpawnAct::Emit(output));
    }

    // ----- for the spawner -----

    /// Handles the spawn of a rank here.
    pub(super) fn ask(&mut self, caller: Caller, order: Bytes, errors: Vec<i32>) {
        let (rank, ticket) = caller;
        if self.asked.contains_key(&rank) {
            // Bounded by the number of open requests of a session.
            let order = Waiting(order.into());
            return self.waiting.push_back(Asked { caller, order, errors });
        }
        self.asked.insert(rank, (ticket, errors));
        if self.is_root {
            return self.acts.push_back(SpawnAct::Request(rank, order));
        }
        for piece in pieces(rank, &order) {
            self.emit(SpawnOutput::Piece(LinkEnd::Parent, piece));
        }
    }

    /// Answers the spawn of a rank here.
    pub(super) fn answered(&mut self, rank: Rank, outcome: SpawnOutcome) {
        let Some((ticket, errors)) = self.asked.remove(&rank) else { return };
        let spawned = match outcome {
            SpawnOutcome::Done { kvsname } => Ok((kvsname, errors)),
            // Success with only error codes would hang some libraries: if the caller does not ask for error codes,
            // they wait for the processes.
            SpawnOutcome::Failed { .. } => Err("cannot_spawn"),
        };
        self.emit(SpawnOutput::Answer((rank, ticket), spawned));
        let next = self.waiting.iter().position(|asked| asked.caller.0 == rank);
        if let Some(Asked { caller, order, errors }) = next.and_then(|at| self.waiting.remove(at)) {
            self.ask(caller, order.0.into(), errors);
        }
    }

    /// Forgets the requests of a rank that has ended.
    pub(super) fn forget(&mut self, rank: Rank) {
        self.asked.remove(&rank);
        self.waiting.retain(|asked| asked.caller.0 != rank);
    }

    /// Forgets all requests, since all programs start again.
    pub(super) fn restart(&mut self) {
        self.asked.clear();
        self.waiting.clear();
    }

    // ----- on the way -----

    /// Takes a piece of a child's request, or of the parent's order. Others are ignored.
    pub(super) fn take_piece(&mut self, from: LinkEnd, payload: Bytes) {
        let Some(piece) = WorldPiece::read(&payload) else { return };
        match from {
            LinkEnd::Child(_) if !self.is_root => {
                self.emit(SpawnOutput::Piece(LinkEnd::Parent, payload));
            }
            LinkEnd::Child(_) => match self.from_children.take(&piece) {
                Ok(Some(bytes)) => self.acts.push_back(SpawnAct::Request(piece.of, bytes)),
                Ok(None) => {}
                Err(e) => self.acts.push_back(SpawnAct::Refuse(Some(piece.of), e.to_string())),
            },
            LinkEnd::Parent => match self.from_parent.take(&piece) {
                Ok(Some(bytes)) => {
                    self.arrived.insert(piece.of, Waiting(bytes.into()));
                }
                Ok(None) => {}
                // The world is announced without an order, and so not started.
                Err(e) => {
                    let text = format!("the world that begins with rank {}: {e}", piece.of);
                    self.acts.push_back(SpawnAct::Notice(text));
                }
            },
        }
    }

    /// At the root: the order of a world that is about to be started. A world that was refused was never announced.
    pub(super) fn begin(&mut self, first: Rank, order: Bytes) {
        self.arrived.clear();
        self.arrived.insert(first, Waiting(order.into()));
    }

    /// The pieces of a world's order for the children at these tree indices, which get its announcement next.
    pub(super) fn announce(&self, tree_indices: &[usize], world: World) -> Vec<SpawnOutput> {
        let known = self.arrived.get(&world.first).map_or(&[][..], |order| &order.0);
        let piece = |piece: Bytes| {
            let to_child = move |&child| SpawnOutput::Piece(LinkEnd::Child(child), piece.clone());
            tree_indices.iter().map(to_child)
        };
        pieces(world.first, known).flat_map(piece).collect()
    }

    /// A world that is to be started in this subtree, with its programs.
    pub(super) fn prepare(&mut self, world: World, parts: Parts) -> Announced {
        let arrived = self.arrived.remove(&world.first);
        let order = arrived.and_then(|order| SpawnOrder::decode(&order.0).ok());
        let order = order.filter(|order| order.spec.size() == world.size);
        Announced { world, parts, order }
    }
}
