//! The CPUs of each rank of a host: a pure function of the requested binding, the CPUs that the job
//! may use there, and the number of ranks.
//!
//! A *core* is its allowed CPUs (hardware threads). Cores are counted node by node, and within a
//! node by their lowest CPU. With C cores and n ranks, counted on the host from 0:
//!
//! - `core`: rank i has core i, and with more ranks than cores the count begins again;
//! - `slots`: rank i has the cores from i*C/n up to (i+1)*C/n, so that all cores are used and none
//!   is shared; with more ranks than cores as for `core`;
//! - `numa`: rank i has all cores of the node of core i*C/n. Neighbours are therefore on one node,
//!   and the ranks are spread evenly.

use std::collections::BTreeMap;

use mpd_wire::job::Binding;

/// A CPU that the job may use, with its core and node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpu {
    /// Its NUMA node.
    pub node: u32,
    /// Its core: any number that no other core of the host has.
    pub core: u32,
    /// Its number.
    pub number: u32,
}

/// The CPUs to which each rank of a host is bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    sets: Vec<Vec<u32>>,
    /// An index of the CPU sets for each rank, by the rank's number on this host.
    of_rank: Vec<usize>,
}

impl Bindings {
    /// Binds `ranks` ranks. Without an allowed CPU no rank is bound.
    pub fn plan(binding: Binding, allowed: &[Cpu], ranks: usize) -> Self {
        let cores = cores(allowed);
        let count = cores.len();
        if count == 0 {
            return Self::default();
        }
        // The first core of a rank's host slice. No overflow: both factors are far below 2^32.
        let host_slice = |rank: usize| rank * count / ranks;
        match binding {
            Binding::None => Self::default(),
            Binding::Slots if ranks <= count => {
                let joined =
                    |rank| cores[host_slice(rank)..host_slice(rank + 1)].iter().map(|c| &c.cpus);
                let sets = (0..ranks).map(|rank| sorted(joined(rank).flatten())).collect();
                Self { sets, of_rank: (0..ranks).collect() }
            }
            Binding::Core | Binding::Slots => {
                let of_rank = (0..ranks).map(|rank| rank % count).collect();
                Self { sets: cores.into_iter().map(|core| core.cpus).collect(), of_rank }
            }
            Binding::Numa => {
                let nodes = nodes(allowed);
                let place = |node: u32| nodes.keys().position(|&known| known == node);
                let place = |rank| place(cores[host_slice(rank)].node).unwrap_or(0);
                let of_rank = (0..ranks).map(place).collect();
                Self { sets: nodes.into_values().collect(), of_rank }
            }
        }
    }

    /// The CPUs of the rank with this number on the host, in order; empty if the rank is not bound.
    pub fn cpus(&self, local: usize) -> &[u32] {
        let set = self.of_rank.get(local).and_then(|&at| self.sets.get(at));
        set.map_or(&[], Vec::as_slice)
    }
}

struct Core {
    node: u32,
    cpus: Vec<u32>,
}

/// The cores in the order in which ranks get them.
fn cores(allowed: &[Cpu]) -> Vec<Core> {
    let mut cores: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for cpu in allowed {
        cores.entry((cpu.node, cpu.core)).or_default().push(cpu.number);
    }
    let core = |((node, _), cpus): (_, Vec<u32>)| Core { node, cpus: sorted(&cpus) };
    let mut cores: Vec<Core> = cores.into_iter().map(core).collect();
    cores.sort_by_key(|core| (core.node, core.cpus[0]));
    cores
}

fn nodes(allowed: &[Cpu]) -> BTreeMap<u32, Vec<u32>> {
    let mut nodes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for cpu in allowed {
        nodes.entry(cpu.node).or_default().push(cpu.number);
    }
    nodes.values_mut().for_each(|cpus| *cpus = sorted(&*cpus));
    nodes
}

fn sorted<'a>(cpus: impl IntoIterator<Item = &'a u32>) -> Vec<u32> {
    let mut cpus: Vec<u32> = cpus.into_iter().copied().collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Two nodes of two cores of two threads, numbered as Linux does: the second threads come last.
    fn machine() -> Vec<Cpu> {
        (0..8).map(|number| Cpu { node: number % 4 / 2, core: number % 4, number }).collect()
    }

    fn plan(binding: Binding, allowed: &[Cpu], ranks: usize) -> Vec<Vec<u32>> {
        let bindings = Bindings::plan(binding, allowed, ranks);
        (0..ranks).map(|rank| bindings.cpus(rank).to_vec()).collect()
    }

    #[test]
    fn a_core_is_all_its_threads_and_the_count_begins_again() {
        let bound = plan(Binding::Core, &machine(), 5);
        assert_eq!(bound, [[0, 4], [1, 5], [2, 6], [3, 7], [0, 4]]);
    }

    #[test]
    fn slots_divide_all_cores_among_the_ranks() {
        let machine = machine();
        assert_eq!(plan(Binding::Slots, &machine, 2), [[0, 1, 4, 5], [2, 3, 6, 7]]);
        assert_eq!(plan(Binding::Slots, &machine, 3), [vec![0, 4], vec![1, 5], vec![2, 3, 6, 7]]);
        assert_eq!(plan(Binding::Slots, &machine, 6), plan(Binding::Core, &machine, 6));
    }

    #[test]
    fn ranks_are_spread_evenly_over_nodes_neighbours_together() {
        let (first, second) = ([0, 1, 4, 5], [2, 3, 6, 7]);
        let machine = machine();
        assert_eq!(plan(Binding::Numa, &machine, 2), [first, second]);
        assert_eq!(plan(Binding::Numa, &machine, 4), [first, first, second, second]);
        assert_eq!(plan(Binding::Numa, &machine, 6), [first, first, first, second, second, second]);
    }

    #[test]
    fn cpus_that_the_job_may_not_use_do_not_count() {
        let allowed: Vec<Cpu> =
            machine().into_iter().filter(|cpu| [1, 2, 5].contains(&cpu.number)).collect();
        assert_eq!(plan(Binding::Core, &allowed, 3), [vec![1, 5], vec![2], vec![1, 5]]);
        assert_eq!(plan(Binding::Numa, &allowed, 2), [vec![1, 5], vec![2]]);
        assert_eq!(plan(Binding::Core, &[], 2), [[0; 0]; 2]);
        assert_eq!(plan(Binding::None, &allowed, 2), [[0; 0]; 2]);
    }

    proptest! {
        #[test]
        fn every_rank_is_bound_to_allowed_cpus_and_slots_use_each_once(
            cpus in prop::collection::btree_map(0..300_u32, (0..4_u32, 0..50_u32), 1..80),
            ranks in 1..200_usize,
        ) {
            let allowed: Vec<Cpu> = cpus
                .iter()
                .map(|(&number, &(node, core))| Cpu { node, core: core * 4 + node, number })
                .collect();
            for binding in [Binding::Core, Binding::Numa, Binding::Slots] {
                let bound = plan(binding, &allowed, ranks);
                prop_assert!(bound.iter().all(|set| !set.is_empty()));
                prop_assert!(bound.iter().flatten().all(|cpu| cpus.contains_key(cpu)));
            }
            if ranks <= cores(&allowed).len() {
                let bound = plan(Binding::Slots, &allowed, ranks).concat();
                let distinct: BTreeSet<u32> = bound.iter().copied().collect();
                prop_assert_eq!((bound.len(), distinct.len()), (cpus.len(), cpus.len()));
            }
        }
    }
}
