//! The position of CPUs in the topology of a host, in the form in which ranks of Open MPI compare their positions.

use std::collections::{BTreeMap, BTreeSet};

use mpd_wire::RankSet;

use crate::cpu::Cpu;

/// The parts of a host to which a CPU belongs. A package and a cache are known by their lowest CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The CPU, its core and its NUMA node.
    pub cpu: Cpu,
    /// The package (socket), if the system describes packages.
    pub package: Option<u32>,
    /// The caches of levels 1, 2 and 3, as far as the CPU has them.
    pub caches: [Option<u32>; 3],
}

/// The parts of a host. Parts of a kind are numbered from 0, neighbours together.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// By kind: its abbreviation in the text, and for each CPU the number of the part to which it belongs.
    kinds: Vec<(&'static str, BTreeMap<u32, u32>)>,
}

impl Topology {
    /// The parts to which these CPUs belong.
    pub fn new(mut positions: Vec<Position>) -> Self {
        positions.sort_by_key(|it| {
            let [first, second, third] = it.caches;
            (it.package, third, second, first, it.cpu.core, it.cpu.number)
        });
        let numbered = |(kind, part): (_, fn(&Position) -> Option<u32>)| {
            let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
            let parts = positions.iter().filter_map(|it| {
                let (part, next) = (part(it)?, u32::try_from(numbers.len()).unwrap_or(u32::MAX));
                Some((it.cpu.number, *numbers.entry(part).or_insert(next)))
            });
            (kind, parts.collect())
        };
        Self { kinds: KINDS.into_iter().map(numbered).collect() }
    }

    /// The parts to which some of these CPUs belong, as `NM0:SK0:L30:L20-1:L10-1:CR0-1:HT0-1`. `None` if no CPU is known.
    pub fn locality(&self, cpus: &[u32]) -> Option<String> {
        let texts = self.kinds.iter().filter_map(|(kind, numbers)| {
            let parts: BTreeSet<u32> =
                cpus.iter().filter_map(|cpu| numbers.get(cpu).copied()).collect();
            (!parts.is_empty()).then(|| format!("{kind}{}", list(parts)))
        });
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| texts.join(":"))
    }
}

/// The number of the part of one kind to which a CPU belongs, if the system describes that kind.
type PartOf = fn(&Position) -> Option<u32>;

/// The kinds of parts: NUMA nodes, packages, caches, cores and hardware threads.
const KINDS: [(&str, PartOf); 7] = [
    ("NM", |it| Some(it.cpu.node)),
    ("SK", |it| it.package),
    ("L3", |it| it.caches[2]),
    ("L2", |it| it.caches[1]),
    ("L1", |it| it.caches[0]),
    ("CR", |it| Some(it.cpu.core)),
    ("HT", |it| Some(it.cpu.number)),
];

/// Numbers as a list with ranges, such as `0-3,8`.
pub fn list(numbers: impl IntoIterator<Item = u32>) -> String {
    // Lists of ranks have the same notation.
    RankSet::from_ranges(numbers.into_iter().map(|number| (number, number)).collect()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packages of two cores of two threads. A package is a node and has a cache of level 3. The CPUs alternate
    /// between the packages, and the second threads come last.
    fn machine() -> Topology {
        let position = |number: u32| {
            let (core, package) = (number % 4, number % 2);
            Position {
                cpu: Cpu { node: package + 4, socket: package, cache: package, core, number },
                package: Some(package),
                caches: [Some(core), Some(core), Some(package)],
            }
        };
        Topology::new((0..8).map(position).collect())
    }

    #[test]
    fn a_bound_rank_has_the_parts_of_its_cpus() {
        let machine = machine();
        let locality = |cpus: &[u32]| machine.locality(cpus).unwrap();
        assert_eq!(locality(&[0, 4]), "NM0:SK0:L30:L20:L10:CR0:HT0-1");
        // The second core of the first package.
        assert_eq!(locality(&[6]), "NM0:SK0:L30:L21:L11:CR1:HT3");
        assert_eq!(locality(&[1]), "NM1:SK1:L31:L22:L12:CR2:HT4");
        assert_eq!(locality(&[0, 1]), "NM0-1:SK0-1:L30-1:L20,2:L10,2:CR0,2:HT0,4");
        assert_eq!((machine.locality(&[]), machine.locality(&[99])), (None, None));
    }

    #[test]
    fn kinds_that_the_system_does_not_describe_are_left_out() {
        let cpu = Cpu { node: 0, socket: 0, cache: 7, core: 7, number: 7 };
        let position = Position { cpu, package: None, caches: [None, None, Some(7)] };
        let topology = Topology::new(vec![position]);
        assert_eq!(topology.locality(&[7]).as_deref(), Some("NM0:L30:CR0:HT0"));
    }

    #[test]
    fn lists_of_numbers_have_ranges() {
        assert_eq!(list([3, 0, 1, 2, 8]), "0-3,8");
    }
}
