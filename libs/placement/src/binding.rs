//! The CPUs of each rank of a host: a pure function of the requested binding, the CPUs that the job
//! may use there, and the number of ranks.
//!
//! A *core* is its allowed CPUs (hardware threads). Cores are counted node by node, and within a
//! node by their lowest CPU. With C cores and n ranks, counted on the host from 0:
//!
//! - `core`: rank i has core i, and with more ranks than cores the count begins again;
//! - `hwthread`: the same with hardware threads, core by core;
//! - `slots`: rank i has the cores from i*C/n up to (i+1)*C/n, so that all cores are used and none
//!   is shared; with more ranks than cores as for `core`;
//! - `numa`, `socket`, `l3cache`: rank i has all cores of the part with core i*C/n. Neighbours are
//!   therefore in one part, and the ranks are spread evenly.
//!
//! With a *width* of k, rank i has the k cores or threads from i*k on.
//!
//! Lists of CPUs that the user names take the place of all that. They belong to the ranks of the host in turn, or to the
//! ranks of the job. Where only some CPUs count, an unbound rank has all of these.
//!
//! With a *spread* over P parts in blocks of b, rank i belongs to part i/b modulo P. Each rank gets
//! the next unit of its part, or all of the larger unit that contains the part.

use std::collections::{BTreeMap, BTreeSet};

use mpd_wire::Rank;
use mpd_wire::job::{Binding, CpuChoices, PlacementSpec, Spread};

use crate::cpu_list::{self, CpuProblem};

/// A CPU that the job may use, and what it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpu {
    /// Its NUMA node.
    pub node: u32,
    /// Its socket.
    pub socket: u32,
    /// Its cache of the last level: any number that no other such cache of the host has.
    pub cache: u32,
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
    /// Binds these ranks of a host. Without an allowed CPU no rank is bound.
    ///
    /// # Errors
    /// The user names CPUs that the host does not have, or that the job may not use.
    pub fn plan(
        request: &PlacementSpec,
        allowed: &[Cpu],
        ranks: &[Rank],
    ) -> Result<Self, CpuProblem> {
        let chosen = &request.cpus;
        if allowed.is_empty() {
            return Ok(Self::default());
        }
        if !chosen.lists.is_empty() {
            return Self::listed(chosen, allowed, ranks);
        }
        let Some(only) = &chosen.only else {
            return Ok(Self::planned(request, allowed, ranks.len()));
        };
        let only = cpu_list::resolve(only, allowed)?;
        if request.binding == Binding::None {
            return Ok(Self { sets: vec![only], of_rank: vec![0; ranks.len()] });
        }
        let counts = |cpu: &&Cpu| only.contains(&cpu.number);
        let left: Vec<Cpu> = allowed.iter().filter(counts).copied().collect();
        Ok(Self::planned(request, &left, ranks.len()))
    }

    /// Binds ranks by lists of the user.
    fn listed(chosen: &CpuChoices, allowed: &[Cpu], ranks: &[Rank]) -> Result<Self, CpuProblem> {
        let count = chosen.lists.len();
        let of_rank = ranks.iter().enumerate().map(|(local, rank)| match chosen.by_rank {
            true => rank.0 as usize,
            false => local % count,
        });
        let of_rank: Vec<usize> = of_rank.collect();
        let used: BTreeSet<usize> = of_rank.iter().copied().collect();
        let mut sets = vec![Vec::new(); count];
        for at in used.into_iter().filter(|&at| at < count) {
            sets[at] = cpu_list::resolve(&chosen.lists[at], allowed)?;
        }
        Ok(Self { sets, of_rank })
    }

    /// Binds ranks to units.
    fn planned(request: &PlacementSpec, allowed: &[Cpu], ranks: usize) -> Self {
        let cores = parts(allowed, Binding::Core);
        let width = request.width.max(1) as usize;
        match (request.binding, request.spread) {
            (Binding::None, _) => Self::default(),
            (unit, Some(spread)) => Self::spread(allowed, (unit, width), spread, ranks),
            (Binding::Slots, None) if ranks <= cores.len() => Self::slots(&cores, ranks),
            (Binding::Slots, None) => Self::in_turn(&cores, 1, ranks),
            (unit @ (Binding::Core | Binding::Thread), None) => {
                Self::in_turn(&parts(allowed, unit), width, ranks)
            }
            (unit @ (Binding::Numa | Binding::Socket | Binding::Cache), None) => {
                Self::evenly(allowed, unit, ranks)
            }
        }
    }

    /// Gives each rank the next units.
    fn in_turn(units: &[Vec<Cpu>], width: usize, ranks: usize) -> Self {
        let taken = |rank| next(units, width, rank);
        Self { sets: (0..ranks).map(taken).collect(), of_rank: (0..ranks).collect() }
    }

    /// Gives each rank an equal share of the cores.
    fn slots(cores: &[Vec<Cpu>], ranks: usize) -> Self {
        let share = |rank| rank * cores.len() / ranks;
        let joined = |rank| numbers(cores[share(rank)..share(rank + 1)].iter().flatten());
        Self { sets: (0..ranks).map(joined).collect(), of_rank: (0..ranks).collect() }
    }

    /// Gives neighbours one part, and spreads the ranks over the parts by their numbers of cores.
    fn evenly(allowed: &[Cpu], unit: Binding, ranks: usize) -> Self {
        let cores = parts(allowed, Binding::Core);
        let parts = parts(allowed, unit);
        let of_core = |core: &[Cpu]| parts.iter().position(|part| part.contains(&core[0]));
        // No overflow: both factors are far below 2^32.
        let of_rank =
            (0..ranks).map(|rank| of_core(&cores[rank * cores.len() / ranks]).unwrap_or(0));
        let of_rank = of_rank.collect();
        Self { sets: parts.iter().map(numbers).collect(), of_rank }
    }

    /// Lets ranks use the parts in turn.
    fn spread(
        allowed: &[Cpu],
        (unit, width): (Binding, usize),
        spread: Spread,
        ranks: usize,
    ) -> Self {
        let over = parts(allowed, spread.over);
        let inside: Vec<Vec<Vec<Cpu>>> = over
            .iter()
            .map(|part| match is_larger(unit, spread.over) {
                // The whole unit that contains the part.
                true => vec![around(allowed, unit, part[0])],
                false => parts(part, unit),
            })
            .collect();
        let mut seen = vec![0; over.len()];
        let sets = (0..ranks).map(|rank| {
            let at = rank / spread.block.max(1) as usize % over.len();
            seen[at] += 1;
            next(&inside[at], width, seen[at] - 1)
        });
        Self { sets: sets.collect(), of_rank: (0..ranks).collect() }
    }

    /// The CPUs of the rank with this number on the host, in order; empty if the rank is not bound.
    pub fn cpus(&self, local: usize) -> &[u32] {
        let set = self.of_rank.get(local).and_then(|&at| self.sets.get(at));
        set.map_or(&[], Vec::as_slice)
    }
}

/// The CPUs of the units `rank * width` and following, counted in a circle.
fn next(units: &[Vec<Cpu>], width: usize, rank: usize) -> Vec<u32> {
    let first = rank * width;
    let taken = (0..width.min(units.len())).map(|i| &units[(first + i) % units.len()]);
    numbers(taken.flatten())
}

/// The parts of this kind, in the order in which ranks get them. Cores and threads are ordered by node.
pub(crate) fn parts(cpus: &[Cpu], kind: Binding) -> Vec<Vec<Cpu>> {
    let mut parts: BTreeMap<(u32, u32, u32), Vec<Cpu>> = BTreeMap::new();
    for &cpu in cpus {
        parts.entry(key(cpu, kind)).or_default().push(cpu);
    }
    let mut parts: Vec<Vec<Cpu>> = parts.into_values().collect();
    let is_ordered_by_cpu = matches!(kind, Binding::Core | Binding::Cache);
    let lowest = |part: &Vec<Cpu>| part.iter().map(|cpu| cpu.number).min();
    if is_ordered_by_cpu {
        parts.sort_by_key(|part| (part[0].node, lowest(part)));
    }
    if kind == Binding::Thread {
        let first = |cpu: &Cpu| cpus.iter().filter(|c| c.core == cpu.core).map(|c| c.number).min();
        parts.sort_by_cached_key(|part| (part[0].node, first(&part[0]), part[0].number));
    }
    parts
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

/// Whether a unit is larger than a part of another kind.
fn is_larger(unit: Binding, than: Binding) -> bool {
    let size = |kind| match kind {
        Binding::Thread => 0,
        Binding::Core => 1,
        Binding::Cache => 2,
        Binding::Numa => 3,
        Binding::Socket => 4,
        Binding::None | Binding::Slots => 5,
    };
    size(unit) > size(than)
}

/// The whole unit that contains a CPU.
fn around(allowed: &[Cpu], unit: Binding, cpu: Cpu) -> Vec<Cpu> {
    let wanted = key(cpu, unit);
    allowed.iter().copied().filter(|&other| key(other, unit) == wanted).collect()
}

fn numbers<'a>(cpus: impl IntoIterator<Item = &'a Cpu>) -> Vec<u32> {
    let mut numbers: Vec<u32> = cpus.into_iter().map(|cpu| cpu.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::test_machine::machine;

    fn plan(binding: Binding, allowed: &[Cpu], ranks: usize) -> Vec<Vec<u32>> {
        planned(PlacementSpec { binding, ..PlacementSpec::default() }, allowed, ranks)
    }

    /// The CPUs of ranks that use parts in turn.
    fn spread(
        over: Binding,
        block: u32,
        (binding, width): (Binding, u32),
        ranks: usize,
    ) -> Vec<Vec<u32>> {
        let spread = Some(Spread { over, block });
        let request = PlacementSpec { binding, width, spread, ..PlacementSpec::default() };
        planned(request, &machine(), ranks)
    }

    fn planned(request: PlacementSpec, allowed: &[Cpu], ranks: usize) -> Vec<Vec<u32>> {
        let numbers: Vec<Rank> = (0..).map(Rank).take(ranks).collect();
        let bindings = Bindings::plan(&request, allowed, &numbers).unwrap();
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

    #[test]
    fn threads_are_counted_core_by_core_and_a_rank_may_have_several_units() {
        assert_eq!(plan(Binding::Thread, &machine(), 5), [[0], [4], [1], [5], [2]]);
        let wide = |binding, width| {
            let request = PlacementSpec { binding, width, ..PlacementSpec::default() };
            planned(request, &machine(), 3)
        };
        assert_eq!(wide(Binding::Core, 2), [[0, 1, 4, 5], [2, 3, 6, 7], [0, 1, 4, 5]]);
        assert_eq!(wide(Binding::Thread, 3), [[0, 1, 4], [2, 5, 6], [0, 3, 7]]);
        assert_eq!(wide(Binding::Core, 9)[0].len(), 8, "no more than there are");
    }

    #[test]
    fn ranks_use_parts_in_turn_or_in_blocks() {
        let core = (Binding::Core, 1);
        assert_eq!(spread(Binding::Socket, 1, core, 4), [[0, 4], [2, 6], [1, 5], [3, 7]]);
        assert_eq!(spread(Binding::Numa, 2, core, 4), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        let (first, second) = ([0, 1, 4, 5], [2, 3, 6, 7]);
        assert_eq!(spread(Binding::Socket, 1, (Binding::Socket, 1), 3), [first, second, first]);
        assert_eq!(spread(Binding::Core, 1, (Binding::Socket, 1), 3), [first, first, second]);
        assert_eq!(spread(Binding::Socket, 1, (Binding::Core, 2), 2), [first, second]);
        assert_eq!(spread(Binding::Cache, 1, (Binding::Thread, 1), 3), [[0], [2], [4]]);
    }

    #[test]
    fn ranks_have_the_lists_of_the_user_in_turn_or_by_their_number() {
        let lists = |text: &str, by_rank| CpuChoices {
            lists: cpu_list::parse(text).unwrap(),
            by_rank,
            only: None,
        };
        let request = |cpus| PlacementSpec { cpus, ..PlacementSpec::default() };
        let bound = planned(request(lists("0+1,3,c2", false)), &machine(), 4);
        assert_eq!(bound, [vec![0, 1], vec![3], vec![2, 6], vec![0, 1]]);
        let by_rank = request(lists("0,1,2,3", true));
        let bindings = Bindings::plan(&by_rank, &machine(), &[Rank(1), Rank(3), Rank(7)]).unwrap();
        assert_eq!((bindings.cpus(0), bindings.cpus(1)), (&[1][..], &[3][..]));
        assert!(bindings.cpus(2).is_empty(), "no list has this rank");
        let missing = Bindings::plan(&request(lists("0,9", false)), &machine(), &[Rank(0)]);
        assert!(missing.is_ok(), "no rank uses it");
        let missing = request(lists("9", false));
        let problem = Bindings::plan(&missing, &machine(), &[Rank(0)]).unwrap_err().to_string();
        assert_eq!(problem, "CPU 9 is not available; the CPUs here are 0-7");
    }

    #[test]
    fn only_some_cpus_may_count() {
        let only = cpu_list::parse_set("c0,c3").ok();
        let request = |binding| {
            let cpus = CpuChoices { only: only.clone(), ..CpuChoices::default() };
            PlacementSpec { binding, cpus, ..PlacementSpec::default() }
        };
        assert_eq!(planned(request(Binding::None), &machine(), 2), [[0, 3, 4, 7], [0, 3, 4, 7]]);
        assert_eq!(planned(request(Binding::Core), &machine(), 3), [[0, 4], [3, 7], [0, 4]]);
    }

    proptest! {
        #[test]
        fn every_rank_is_bound_to_allowed_cpus_and_slots_use_each_once(
            cpus in prop::collection::btree_map(0..300_u32, (0..4_u32, 0..50_u32), 1..80),
            ranks in 1..200_usize,
        ) {
            let allowed: Vec<Cpu> = cpus
                .iter()
                .map(|(&number, &(node, core))| {
                    let core = core * 4 + node;
                    Cpu { node, socket: node / 2, cache: core / 3 * 4 + node, core, number }
                })
                .collect();
            for binding in [
                Binding::Core,
                Binding::Numa,
                Binding::Slots,
                Binding::Thread,
                Binding::Cache,
                Binding::Socket,
            ] {
                let bound = plan(binding, &allowed, ranks);
                prop_assert!(bound.iter().all(|set| !set.is_empty()));
                prop_assert!(bound.iter().flatten().all(|cpu| cpus.contains_key(cpu)));
            }
            if ranks <= parts(&allowed, Binding::Core).len() {
                let bound = plan(Binding::Slots, &allowed, ranks).concat();
                let distinct: BTreeSet<u32> = bound.iter().copied().collect();
                prop_assert_eq!((bound.len(), distinct.len()), (cpus.len(), cpus.len()));
            }
        }
    }
}
