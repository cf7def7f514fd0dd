//! The job information that a rank gets at its start. It depends only on the job, on the node of the rank, and on the
//! encoding.
//!
//! All versions of libpmix can read the blobs for ranks (`pmix.pblob`). PMIx 2, 3 and 4.1 cannot read the arrays for
//! ranks (`pmix.pdata`), so they are not sent.

use crate::encoding::{Data, DataType, Encoding, Value, Writer};
use crate::message::write_pairs;
use crate::view::{Info, Pair, Proc, View};

/// The facts about a job that its ranks need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The namespace of the job.
    pub namespace: Vec<u8>,
    /// The namespace of the servers.
    pub server: Vec<u8>,
    /// The number of processes for which the universe has room; `None` means the size of the job.
    pub universe_size: Option<u32>,
    /// The process that spawned the job.
    pub parent: Option<Proc>,
    /// The directory for temporary files.
    pub directory: Vec<u8>,
    /// The hosts, in the order of their numbers.
    pub nodes: Vec<Node>,
    /// The programs, in the order of their numbers. The ranks of a program are consecutive.
    pub apps: Vec<Program>,
    pub ranks: Vec<Rank>,
}

/// A host of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The name of the host, which is `PMIX_HOSTNAME` of its ranks.
    pub name: Vec<u8>,
    /// The number of processes of connected jobs on the host.
    pub processes_before: u32,
    /// Whether the host runs more processes than it has processors.
    pub is_oversubscribed: bool,
}

/// A program of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The number of its ranks.
    pub size: u32,
    /// The working directory.
    pub directory: Vec<u8>,
}

/// A rank of the job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rank {
    /// The number of the rank's host.
    pub node: u32,
    /// The processors to which the rank is bound, in the form of libpmix.
    pub cpuset: Option<Vec<u8>>,
    /// The positions of these processors in the topology, in the form of libpmix.
    pub locality: Option<Vec<u8>>,
}

/// The encoded pairs for a client on `node`. `None`: the client is not on a host of the job.
pub fn describe(job: &Job, node: Option<u32>, encoding: Encoding) -> Vec<u8> {
    let layout = Layout::of(job);
    let mut pairs = about_job(job, &layout);
    pairs.extend(about_own_node(job, &layout, node));
    pairs.extend(about_nodes(job, &layout));
    if encoding == Encoding::Fixed {
        pairs.push(map_blob(job, &layout, encoding));
    }
    pairs.extend(about_apps(job, &layout));
    pairs.extend((0_u32..).zip(&job.ranks).map(|(number, rank)| {
        Pair::new("pmix.pblob", Value::bytes(rank_blob(job, &layout, number, rank, encoding)))
    }));
    write_pairs(encoding, &pairs)
}

/// The data of one process in the answers to `get` and `connect`: the process, and its encoded pairs.
pub fn blob(encoding: Encoding, proc: &Proc, pairs: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(encoding);
    writer.one(Proc::KIND, &proc.data());
    writer.encoded(pairs);
    writer.into_bytes()
}

/// The encoded answer to `job-info`, in the form in which `connect` delivers it for another namespace.
pub fn answer(encoding: Encoding, namespace: &[u8], info: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(encoding);
    writer.one(DataType::STRING, &Data::Text(Some(namespace.to_vec())));
    writer.encoded(info);
    writer.into_bytes()
}

/// The nodes and programs of the ranks.
struct Layout {
    /// The ranks of each node.
    peers: Vec<Vec<u32>>,
    /// The position of each rank among the ranks of its node.
    local_ranks: Vec<u32>,
    /// The first rank of each program.
    first_ranks: Vec<u32>,
}

impl Layout {
    fn of(job: &Job) -> Self {
        let mut peers = vec![Vec::new(); job.nodes.len()];
        let mut local_ranks = Vec::with_capacity(job.ranks.len());
        for (number, rank) in (0_u32..).zip(&job.ranks) {
            let Some(peers) = peers.get_mut(rank.node as usize) else {
                debug_assert!(false, "rank {number} runs on no host of the job");
                local_ranks.push(0);
                continue;
            };
            local_ranks.push(count(peers));
            peers.push(number);
        }
        let starts = job.apps.iter().scan(0_u32, |next, app| {
            let first = *next;
            *next = next.saturating_add(app.size);
            Some(first)
        });
        Self { peers, local_ranks, first_ranks: starts.collect() }
    }

    fn app_of(&self, rank: u32) -> usize {
        self.first_ranks.partition_point(|first| *first <= rank).saturating_sub(1)
    }
}

fn about_job(job: &Job, layout: &Layout) -> Vec<Pair> {
    let size = count(&job.ranks);
    let names: Vec<_> = job.nodes.iter().map(|node| node.name.as_slice()).collect();
    let mut pairs = vec![
        Pair::new("pmix.job.size", Value::u32(size)),
        Pair::new("pmix.max.size", Value::u32(size)),
        Pair::new("pmix.univ.size", Value::u32(job.universe_size.unwrap_or(size).max(size))),
        Pair::new("pmix.num.nodes", Value::u32(count(&job.nodes))),
        Pair::new("pmix.job.napps", Value::u32(count(&job.apps))),
        Pair::new("pmix.jobid", Value::text(job.namespace.as_slice())),
        Pair::new("pmix.srv.nspace", Value::text(job.server.as_slice())),
        Pair::new("pmix.srv.rank", Value::rank(0)),
        Pair::new("pmix.tmpdir", Value::text(job.directory.as_slice())),
        Pair::new("pmix.nsdir", Value::text(job.directory.as_slice())),
        Pair::new("pmix.nlist", Value::text(names.join(&b','))),
    ];
    if job.parent.is_some() {
        pairs.push(Pair::new("pmix.spawned", Value::bool(true)));
    }
    if job.apps.len() > 1 {
        let sizes: Vec<_> = job.apps.iter().map(|app| app.size).collect();
        pairs.push(Pair::new("OMPI_APP_SIZES", Value::text(list(&sizes, " "))));
        pairs.push(Pair::new("OMPI_FIRST_RANKS", Value::text(list(&layout.first_ranks, " "))));
    }
    pairs
}

/// The pairs that libraries look up without the name of a node.
fn about_own_node(job: &Job, layout: &Layout, node: Option<u32>) -> Vec<Pair> {
    let Some(number) = node else { return Vec::new() };
    let at = number as usize;
    let (Some(node), Some(peers)) = (job.nodes.get(at), layout.peers.get(at)) else {
        return Vec::new();
    };
    let Some(first) = peers.first() else { return Vec::new() };
    let mut pairs = vec![
        Pair::new("pmix.lpeers", Value::text(list(peers, ","))),
        Pair::new("pmix.local.size", Value::u32(count(peers))),
        Pair::new("pmix.node.size", Value::u32(count(peers).saturating_add(node.processes_before))),
        Pair::new("pmix.lldr", Value::rank(*first)),
    ];
    // Open MPI 5 tests only whether the key exists.
    if node.is_oversubscribed {
        pairs.push(Pair::new("pmix.ndosub", Value::bool(true)));
    }
    pairs
}

fn about_nodes(job: &Job, layout: &Layout) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (number, (node, peers)) in (0_u32..).zip(job.nodes.iter().zip(&layout.peers)) {
        let Some(first) = peers.first() else { continue };
        let size = count(peers).saturating_add(node.processes_before);
        let infos = [
            Info::new("pmix.hname", Value::text(node.name.as_slice())),
            Info::new("pmix.nodeid", Value::u32(number)),
            Info::new("pmix.node.size", Value::u32(size)),
            Info::new("pmix.local.size", Value::u32(count(peers))),
            Info::new("pmix.lpeers", Value::text(list(peers, ","))),
            Info::new("pmix.lldr", Value::rank(*first)),
        ];
        pairs.push(Pair::new("pmix.node.arr", Value::array_of(&infos)));
    }
    pairs
}

fn about_apps(job: &Job, layout: &Layout) -> Vec<Pair> {
    let apps = (0_u32..).zip(job.apps.iter().zip(&layout.first_ranks));
    let about = |(number, (app, first)): (u32, (&Program, &u32))| {
        let infos = [
            Info::new("pmix.appnum", Value::u32(number)),
            Info::new("pmix.app.size", Value::u32(app.size)),
            Info::new("pmix.aldr", Value::rank(*first)),
            Info::new("pmix.wdir", Value::text(app.directory.as_slice())),
        ];
        Pair::new("pmix.app.arr", Value::array_of(&infos))
    };
    apps.map(about).collect()
}

/// The ranks of each node, in the only form that PMIx up to 3.1.4 can read.
fn map_blob(job: &Job, layout: &Layout, encoding: Encoding) -> Pair {
    let mut writer = Writer::new(encoding);
    writer.one(DataType::SIZE, &Data::Unsigned(job.nodes.len() as u64));
    for (node, peers) in job.nodes.iter().zip(&layout.peers) {
        let pair = Pair::new(node.name.as_slice(), Value::text(list(peers, ",")));
        writer.one(Pair::KIND, &pair.data());
    }
    Pair::new("pmix.mblob", Value::bytes(writer.into_bytes()))
}

fn rank_blob(job: &Job, layout: &Layout, number: u32, rank: &Rank, encoding: Encoding) -> Vec<u8> {
    let node = job.nodes.get(rank.node as usize);
    let app = layout.app_of(number);
    let first = layout.first_ranks.get(app).copied().unwrap_or(0);
    let local = layout.local_ranks.get(number as usize).copied().unwrap_or(0);
    let before = node.map_or(0, |node| node.processes_before);
    let mut pairs = vec![
        Pair::new("pmix.lrank", small(local)),
        Pair::new("pmix.nrank", small(local.saturating_add(before))),
        Pair::new("pmix.appnum", Value::u32(u32::try_from(app).unwrap_or(0))),
        Pair::new("pmix.apprank", Value::rank(number.saturating_sub(first))),
        Pair::new("pmix.grank", Value::rank(number)),
        Pair::new("pmix.nodeid", Value::u32(rank.node)),
    ];
    if let Some(node) = node {
        pairs.push(Pair::new("pmix.hname", Value::text(node.name.as_slice())));
    }
    if let Some(cpuset) = &rank.cpuset {
        pairs.push(Pair::new("pmix.cpuset", Value::text(cpuset.as_slice())));
    }
    if let Some(locality) = &rank.locality {
        pairs.push(Pair::new("pmix.locstr", Value::text(locality.as_slice())));
    }
    // A fact about each rank, not about the job: MPICH looks it up for its own rank only.
    if let Some(parent) = &job.parent {
        pairs.push(Pair::new("pmix.parent", parent.value()));
    }
    let mut writer = Writer::new(encoding);
    writer.one(DataType::RANK, &Data::Unsigned(number.into()));
    writer.encoded(&write_pairs(encoding, &pairs));
    writer.into_bytes()
}

/// The number of a rank within its node, which has 16 bits.
fn small(number: u32) -> Value {
    Value::u16(u16::try_from(number).unwrap_or(u16::MAX))
}

fn count<T>(all: &[T]) -> u32 {
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}

fn list(numbers: &[u32], separator: &str) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(separator)
}
