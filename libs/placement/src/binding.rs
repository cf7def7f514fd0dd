//! The CPUs of each rank of a host: a pure function of the requested binding, the CPUs that the job
//! may use there, and the number of ranks.
//!
//! A *core* is its allowed CPUs (hardware threads). Parts are counted as hwloc counts them: socket by socket, within a socket node
//! by node, then cache by cache and core by core, each by its lowest CPU. If sockets share nodes, nodes come first. With C cores and n ranks, counted on the host from 0:
//!
//! - `core`: rank i has core i, and with more ranks than cores the count begins again;
//! - `hwthread`: the same with hardware threads, core by core;
//! - `slots`: rank i has the cores from i*C/n up to (i+1)*C/n, so that all cores are used and none
//!   is shared; with more ranks than cores as for `core`;
//! - `numa`, `socket`, `l3cache`: rank i has all cores of the part with core i*C/n. Neighbours are
//!   therefore in one part, and the ranks are spread evenly.
//!
//! With a *width* of k, rank i has the k units from i*k on, in a circle. If the ranks of a host are to be bound only *if there
//! is room*, and there are more ranks than cores (or threads) for them, none is bound.
//!
//! Ranks that are spawned later count behind those that run on the host.
//!
//! Lists of CPUs that the user names take the place of all that. They belong to the ranks of the host in turn, or to the
//! ranks of the job. Where only some CPUs count, an unbound rank has all of these.
//!
//! With a *spread* over P parts in blocks of b, rank i belongs to part i/b modulo P. With equal shares, each part has n/P
//! consecutive ranks, and the first n mod P parts have one more, as long as they have the cores. A number of neighbouring parts can count as one. Each rank
//! gets the next units of its part. If the part is smaller than that, it gets the units from the one that contains the
//! beginning of the part.

use std::collections::{BTreeMap, BTreeSet};

use mpd_wire::Rank;
use mpd_wire::job::{Binding, CpuChoices, PlacementSpec, Spread};

use crate::cpu::{Cpu, parts};
use crate::cpu_list::{self, CpuProblem};

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

    /// Binds these ranks of a host as if they had been started together with `before` others, which keep what they have.
    ///
    /// # Errors
    /// As for [`Self::plan`].
    pub fn plan_after(
        request: &PlacementSpec,
        allowed: &[Cpu],
        before: usize,
        ranks: &[Rank],
    ) -> Result<Self, CpuProblem> {
        let all: Vec<Rank> =
            std::iter::repeat_n(Rank(0), before).chain(ranks.iter().copied()).collect();
        let mut bindings = Self::plan(request, allowed, &all)?;
        bindings.of_rank.drain(..before.min(bindings.of_rank.len()));
        Ok(bindings)
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
        let room = match request.binding {
            Binding::Thread => allowed.len(),
            _ => cores.len(),
        };
        let needed = match request.binding {
            Binding::Core | Binding::Thread => ranks * width,
            _ => ranks,
        };
        match (request.binding, request.spread) {
            _ if request.if_room && needed > room => Self::default(),
            (Binding::None, _) => Self::default(),
            (unit, Some(spread)) => Self::spread(allowed, (unit, width), spread, ranks),
            (Binding::Slots, None) if ranks <= cores.len() => Self::slots(&cores, ranks),
            (Binding::Slots, None) => Self::in_turn(&cores, 1, ranks),
            (unit @ (Binding::Numa | Binding::Socket | Binding::Cache), None) if width == 1 => {
                Self::evenly(allowed, unit, ranks)
            }
            (unit, None) => Self::in_turn(&parts(allowed, unit), width, ranks),
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
        let over = joined(parts(allowed, spread.over), spread.joined.max(1) as usize);
        let all = parts(allowed, unit);
        let inside: Vec<Vec<Vec<Cpu>>> = over
            .iter()
            .map(|part| match inside(part, &all) {
                few if few.len() < width => from(&all, part[0], width),
                inside => inside,
            })
            .collect();
        let shares = match spread.block {
            Some(_) => Vec::new(),
            None => {
                let fine = if unit == Binding::Thread { unit } else { Binding::Core };
                equal_shares(ranks, over.iter().map(|part| parts(part, fine).len() / width))
            }
        };
        let mut seen = vec![0; over.len()];
        let sets = (0..ranks).map(|rank| {
            let at = match spread.block {
                Some(block) => rank / block.max(1) as usize % over.len(),
                None => shares.iter().position(|&end| rank < end).unwrap_or(0),
            };
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

/// So many units in a circle, from the one that has a CPU.
fn from(units: &[Vec<Cpu>], cpu: Cpu, width: usize) -> Vec<Vec<Cpu>> {
    let first = units.iter().position(|unit| unit.contains(&cpu)).unwrap_or(0);
    (0..width.min(units.len())).map(|i| units[(first + i) % units.len()].clone()).collect()
}

/// Neighbouring parts as one, in a circle until all have been used equally often.
fn joined(parts: Vec<Vec<Cpu>>, number: usize) -> Vec<Vec<Cpu>> {
    let (count, number) = (parts.len(), number.min(parts.len()));
    if number == 1 {
        return parts;
    }
    let rounds = (1..=number).find(|round| round * count % number == 0).unwrap_or(1);
    let part = |i: usize| parts[i % count].iter().copied();
    let joined = |at: usize| (at * number..(at + 1) * number).flat_map(part).collect();
    (0..rounds * count / number).map(joined).collect()
}

/// The units of which a part has all CPUs, in the order of the part.
fn inside(part: &[Cpu], units: &[Vec<Cpu>]) -> Vec<Vec<Cpu>> {
    let of_cpu: BTreeMap<u32, usize> = (0..)
        .zip(units)
        .flat_map(|(at, unit)| unit.iter().map(move |cpu| (cpu.number, at)))
        .collect();
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let mut whole = Vec::new();
    for at in part.iter().filter_map(|cpu| of_cpu.get(&cpu.number).copied()) {
        let count = counts.entry(at).or_default();
        *count += 1;
        if *count == units[at].len() {
            whole.push(units[at].clone());
        }
    }
    whole
}

/// For each part the number of the first rank after its own, if the parts have equal shares of consecutive ranks. A part has no
/// more ranks than room, unless there is too little for all.
fn equal_shares(ranks: usize, rooms: impl Iterator<Item = usize>) -> Vec<usize> {
    let rooms: Vec<usize> = rooms.collect();
    let is_enough = rooms.iter().sum::<usize>() >= ranks;
    let (each, larger) = (ranks / rooms.len(), ranks % rooms.len());
    let share = |(at, &room): (usize, &usize)| {
        let wanted = each + usize::from(at < larger);
        if is_enough { wanted.min(room) } else { wanted }
    };
    let mut shares: Vec<usize> = rooms.iter().enumerate().map(share).collect();
    let mut left = ranks - shares.iter().sum::<usize>();
    for (share, room) in shares.iter_mut().zip(&rooms) {
        let more = left.min(room.saturating_sub(*share));
        *share += more;
        left -= more;
    }
    let mut end = 0;
    shares.iter_mut().for_each(|share| {
        end += *share;
        *share = end;
    });
    shares
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
        let spread = Some(Spread { over, block: Some(block), joined: 1 });
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
    fn ranks_that_are_spawned_later_count_behind_those_that_run() {
        let later = |binding, before| {
            let request = PlacementSpec { binding, ..PlacementSpec::default() };
            let ranks = [Rank(0), Rank(1)];
            let bindings = Bindings::plan_after(&request, &machine(), before, &ranks).unwrap();
            [bindings.cpus(0).to_vec(), bindings.cpus(1).to_vec(), bindings.cpus(2).to_vec()]
        };
        assert_eq!(later(Binding::Core, 1), [vec![1, 5], vec![2, 6], vec![]]);
        assert_eq!(later(Binding::Core, 3), [vec![3, 7], vec![0, 4], vec![]]);
        assert_eq!(later(Binding::Socket, 2), [vec![2, 3, 6, 7], vec![2, 3, 6, 7], vec![]]);
        assert!(later(Binding::None, 2).iter().all(Vec::is_empty));
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
    fn parts_can_have_equal_shares_of_the_ranks_or_count_as_one() {
        let of = |over, block, joined, ranks| {
            let spread = Some(Spread { over, block, joined });
            let request =
                PlacementSpec { binding: Binding::Core, spread, ..PlacementSpec::default() };
            planned(request, &machine(), ranks)
        };
        assert_eq!(of(Binding::Socket, None, 1, 3), [[0, 4], [1, 5], [2, 6]]);
        assert_eq!(of(Binding::Socket, Some(1), 2, 3), [[0, 4], [1, 5], [2, 6]]);
        assert_eq!(of(Binding::Core, Some(1), 2, 3), [[0, 4], [2, 6], [1, 5]]);
        let shares = |ranks, rooms: &[usize]| equal_shares(ranks, rooms.iter().copied());
        assert_eq!(shares(5, &[4, 4]), [3, 5]);
        assert_eq!(shares(6, &[4, 2]), [4, 6], "the second has no more room");
        assert_eq!(shares(6, &[2, 1, 2, 2]), [2, 3, 5, 6]);
        assert_eq!(shares(9, &[1, 1]), [5, 9], "there is too little room for all");
    }

    #[test]
    fn ranks_can_stay_unbound_on_a_host_with_too_few_cores() {
        let request =
            PlacementSpec { binding: Binding::Core, if_room: true, ..PlacementSpec::default() };
        assert_eq!(planned(request.clone(), &machine(), 4)[3], [3, 7]);
        assert_eq!(planned(request.clone(), &machine(), 5), [[0; 0]; 5]);
        let threads = PlacementSpec { binding: Binding::Thread, ..request };
        assert_eq!(planned(threads, &machine(), 5)[4], [2]);
    }

    #[test]
    fn parts_are_counted_by_sockets_and_caches_and_not_by_numbers() {
        // Two sockets, whose CPUs have even and odd numbers; neighbours in the caches are 4 apart.
        let cpu =
            |number| Cpu { node: 0, socket: number % 2, cache: number % 4, core: number, number };
        let machine: Vec<Cpu> = (0..8).map(cpu).collect();
        assert_eq!(plan(Binding::Core, &machine, 5), [[0], [4], [2], [6], [1]]);
        assert_eq!(plan(Binding::Socket, &machine, 2), [[0, 2, 4, 6], [1, 3, 5, 7]]);
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
