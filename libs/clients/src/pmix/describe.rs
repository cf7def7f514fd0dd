//! The facts about a world for its PMIx clients, from its placement.

use std::path::{Path, PathBuf};

use mpd_placement::locality::list;
use mpd_wire::Rank;
use mpd_wire::job::World as Numbers;
use pmix_proto::connect::equal_in_constant_time;
use pmix_proto::environment::{Settings, variables};
use pmix_proto::job_info::{Job as Facts, Node, Program, Rank as Placed};
use pmix_proto::view::Proc;

use super::world_info::WorldInfo;
use crate::job::Job;
use crate::universe;
use crate::worlds::World;

/// The namespace of the servers. It must not hold a dot or a semicolon.
const SERVER: &str = "mpd";

/// The namespace of a world: a secret of the job, and the number of the world.
pub(super) fn namespace(job: &Job, number: u32) -> String {
    format!("mpd-{}-{number}", job.pmix_secret)
}

/// The number of a world of this job, by its namespace.
pub(super) fn number_of(job: &Job, name: &[u8]) -> Option<u32> {
    let number = std::str::from_utf8(name).ok()?.rsplit('-').next()?.parse().ok()?;
    equal_in_constant_time(namespace(job, number).as_bytes(), name).then_some(number)
}

/// The secret part of a namespace of any job.
pub(super) fn secret_in(name: &str) -> Option<&str> {
    let (secret, number) = name.strip_prefix("mpd-")?.rsplit_once('-')?;
    let is_secret = secret.len() == 32 && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_secret && number.parse::<u32>().is_ok()).then_some(secret)
}

/// The process of a rank of this job.
pub(super) fn proc_of(job: &Job, numbers: &Numbers, rank: Rank) -> Proc {
    Proc::new(namespace(job, numbers.number), numbers.own(rank).0)
}

/// The directory for the files of a world's MPI library. Open MPI 4 removes it at its end.
pub(super) fn directory(job: &Job, number: u32) -> PathBuf {
    let base = job.directory.as_deref().unwrap_or_else(|| Path::new(&job.order.tmpdir));
    base.join(format!("pmix-{number}"))
}

/// What a world is to a PMIx client on this host. Its hosts are those with ranks of it, in the order of the tree. Also
/// returns the number of this host among them.
pub(super) fn facts(job: &Job, world: &WorldInfo) -> (Facts, Option<u32>) {
    let number = world.numbers.number;
    let foreign = world.foreign.as_ref();
    let parts: Vec<_> = world.parts.0.iter().filter(|(_, ranks)| !ranks.is_empty()).collect();
    let mut ranks = vec![Placed::default(); world.numbers.size as usize];
    let mut nodes = Vec::new();
    let mut own = None;
    for (at, (tree_index, there)) in (0_u32..).zip(&parts) {
        // A host of another job is known by its name.
        let name = foreign.map_or_else(
            || job.host_at(*tree_index as usize),
            |foreign| foreign.hosts.get(*tree_index as usize).cloned().unwrap_or_default(),
        );
        let is_here = match foreign {
            Some(_) => name == job.host(),
            None => *tree_index as usize == job.tree_index(),
        };
        for rank in there.ranks().filter(|rank| world.numbers.contains(*rank)) {
            let cpus = job.worlds.of(rank).filter(|_| is_here).map(|world| world.cpus_of(rank));
            let placed = &mut ranks[world.numbers.own(rank).index()];
            *placed = bound(job, at, cpus.unwrap_or_default());
        }
        if is_here {
            own = Some(at);
        }
        nodes.push(Node {
            name: name.into_bytes(),
            processes_before: if foreign.is_some() { 0 } else { before(job, number, *tree_index) },
            is_oversubscribed: is_here && is_crowded(job),
        });
    }
    let apps = world.programs.iter();
    let apps = apps.map(|(size, directory)| Program { size: *size, directory: directory.clone() });
    let facts = Facts {
        namespace: foreign
            .map_or_else(|| namespace(job, number), |foreign| foreign.namespace.clone())
            .into_bytes(),
        server: SERVER.into(),
        universe_size: foreign.is_none().then(|| universe::size(job, world.numbers.size)),
        parent: world.parent.map(|(number, rank)| Proc::new(namespace(job, number), rank.0)),
        directory: directory(job, number).into_os_string().into_encoded_bytes(),
        nodes,
        apps: apps.collect(),
        ranks,
    };
    (facts, own)
}

/// A rank on a node. Only ranks of this host have known CPUs, and only if they are bound.
fn bound(job: &Job, node: u32, cpus: &[u32]) -> Placed {
    if cpus.is_empty() {
        return Placed { node, ..Placed::default() };
    }
    Placed {
        node,
        cpuset: Some(list(cpus.iter().copied()).into_bytes()),
        locality: job.host_facts.topology().locality(cpus).map(String::into_bytes),
    }
}

/// Whether more ranks run here than this host has CPUs, or than the job may use.
fn is_crowded(job: &Job) -> bool {
    let here: usize = job.worlds.all().map(|world| world.here.len()).sum();
    // One CPU is always there, and their number may take many system calls.
    job.spec.allowance.has_fewer_cpus_than(here)
        || here > 1 && here > job.host_facts.cpus() as usize
}

/// How many ranks of earlier worlds run at a tree index, as far as this host knows them.
fn before(job: &Job, number: u32, tree_index: u32) -> u32 {
    let earlier = job.worlds.all().filter(|world| world.numbers.number < number);
    earlier.map(|world| world.parts.at(tree_index as usize).count()).sum()
}

/// The variables that lead a rank to this manager by PMIx; none if it does not listen.
pub fn variables_of(job: &Job, world: &World, rank: Rank) -> Vec<(&'static str, String)> {
    let Some(port) = job.pmix_port else { return Vec::new() };
    let directory = directory(job, world.numbers.number);
    variables(&Settings {
        namespace: &namespace(job, world.numbers.number),
        rank: world.numbers.own(rank).0,
        server: SERVER,
        port,
        hostname: &job.host(),
        directory: &directory.to_string_lossy(),
    })
}
