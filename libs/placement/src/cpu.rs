//! A CPU of a host, and the parts of a host to which CPUs belong.

use std::collections::BTreeMap;

use mpd_wire::job::Binding;

/// A CPU that the job may use, and what it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpu {
    /// Its NUMA node.
    pub node: u32,
    pub socket: u32,
    /// Its cache of the last level: any number that no other such cache of the host has.
    pub cache: u32,
    /// Its core: any number that no other core of the host has.
    pub core: u32,
    pub number: u32,
}

/// The parts of this kind, in the order in which ranks get them.
pub(crate) fn parts(cpus: &[Cpu], kind: Binding) -> Vec<Vec<Cpu>> {
    let mut at = BTreeMap::new();
    let mut parts: Vec<Vec<Cpu>> = Vec::new();
    for cpu in in_order(cpus) {
        let at = *at.entry(key(cpu, kind)).or_insert(parts.len());
        if at == parts.len() {
            parts.push(Vec::new());
        }
        parts[at].push(cpu);
    }
    parts
}

/// The CPUs in the order of the parts to which they belong.
fn in_order(cpus: &[Cpu]) -> Vec<Cpu> {
    const KINDS: [Binding; 4] = [Binding::Socket, Binding::Numa, Binding::Cache, Binding::Core];
    let lowest = KINDS.map(|kind| {
        let mut lowest = BTreeMap::new();
        for cpu in cpus {
            let number = lowest.entry(key(*cpu, kind)).or_insert(cpu.number);
            *number = cpu.number.min(*number);
        }
        lowest
    });
    let nodes_are_larger = lowest[1].len() < lowest[0].len();
    let mut ordered = cpus.to_vec();
    ordered.sort_by_cached_key(|cpu| {
        let of = |at: usize| lowest[at][&key(*cpu, KINDS[at])];
        let (first, second) = if nodes_are_larger { (1, 0) } else { (0, 1) };
        (of(first), of(second), of(2), of(3), cpu.number)
    });
    ordered
}

/// Equal for CPUs of one part.
fn key(cpu: Cpu, kind: Binding) -> (u32, u32, u32) {
    match kind {
        Binding::Thread => (cpu.node, cpu.core, cpu.number),
        Binding::Core => (cpu.node, cpu.core, 0),
        Binding::Cache => (cpu.node, cpu.cache, 0),
        Binding::Numa => (cpu.node, 0, 0),
        Binding::Socket => (cpu.socket, 0, 0),
        Binding::None | Binding::Slots => (0, 0, 0),
    }
}
