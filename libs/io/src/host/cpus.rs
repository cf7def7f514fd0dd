//! The CPUs that this process may use, and the parts of the host to which they belong.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use mpd_placement::cpu::Cpu;
use mpd_placement::locality::{Position, Topology};
use nix::unistd::Pid;

use crate::process::procfile;
use crate::process::status::{self, field};

const SYSTEM: &str = "/sys/devices/system";

/// More CPUs than any kernel supports. A list with a higher number is invalid.
const MAX_CPUS: u32 = 1 << 16;

/// More caches than a CPU has: two of the first level, and one of each further level.
const MAX_CACHES: u32 = 6;

/// A mask of CPUs in the kernel's format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuMask(Vec<libc::c_ulong>);

impl CpuMask {
    /// The mask of these CPUs; `None` for an empty list.
    pub fn of(cpus: &[u32]) -> Option<Self> {
        let bits = libc::c_ulong::BITS;
        let mut words = vec![0; (cpus.iter().max()? / bits) as usize + 1];
        for cpu in cpus {
            words[(cpu / bits) as usize] |= 1 << (cpu % bits);
        }
        Some(Self(words))
    }

    /// The machine words of the mask, the lowest CPUs first.
    pub(crate) fn words(&self) -> &[libc::c_ulong] {
        &self.0
    }
}

/// How many CPUs this process may use, by its mask and its quota of CPU time; 1 if that is unknown.
pub fn count() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

/// Whether this process may use fewer CPUs than that. One CPU is always there, and [`count`] takes many system calls.
pub fn are_fewer_than(number: usize) -> bool {
    number > 1 && number > count() as usize
}

/// The CPUs that this process may use, by control group and mask. If the system does not describe their topology, each
/// CPU counts as a core, and all are one node, one socket and one cache.
///
/// # Errors
/// The system does not list the CPUs.
pub fn allowed() -> io::Result<Vec<Cpu>> {
    // The system call needs a buffer as large as the kernel's own masks, and no call gives that size.
    let status = procfile::record("/proc/self/status")?;
    let list = field(&status, "Cpus_allowed_list:");
    let numbers = list.and_then(numbers).ok_or(io::ErrorKind::InvalidData)?;
    Ok(described(Path::new(SYSTEM), &numbers))
}

/// These CPUs, as a directory like `/sys/devices/system` describes them.
pub fn described(system: &Path, numbers: &[u32]) -> Vec<Cpu> {
    let nodes = nodes(system);
    let cpu = |&number: &u32| Cpu {
        node: nodes.get(&number).copied().unwrap_or(0),
        socket: socket(system, number).unwrap_or(0),
        cache: cache(system, number).unwrap_or(0),
        core: core(system, number).unwrap_or(number),
        number,
    };
    numbers.iter().map(cpu).collect()
}

/// The CPUs that a process may use; `None` if the process is gone or the system does not tell.
pub fn of_process(pid: Pid) -> Option<Vec<u32>> {
    field(&status::of(pid), "Cpus_allowed_list:").and_then(numbers)
}

/// The topology of the CPUs that this process may use, as far as the system describes it. It has no CPUs if the system does
/// not list them.
pub fn topology() -> Topology {
    let cpus = allowed().unwrap_or_default();
    Topology::new(cpus.into_iter().map(|cpu| position(Path::new(SYSTEM), cpu)).collect())
}

fn position(system: &Path, cpu: Cpu) -> Position {
    let directory = system.join(format!("cpu/cpu{}", cpu.number));
    let mut caches = [None; 3];
    // The kernel numbers the caches of a CPU without gaps: two of level 1, and one for each further level.
    for index in 0.. {
        let cache = directory.join(format!("cache/index{index}"));
        let Ok(level) = fs::read_to_string(cache.join("level")) else { break };
        let kind = fs::read_to_string(cache.join("type")).unwrap_or_default();
        let level = level.trim().parse::<usize>().ok().and_then(|level| level.checked_sub(1));
        let at = level.filter(|_| kind.trim() != "Instruction");
        if let Some(cache_of_level) = at.and_then(|at| caches.get_mut(at)) {
            *cache_of_level = lowest(&cache.join("shared_cpu_list"));
        }
    }
    Position { cpu, package: lowest(&directory.join("topology/core_siblings_list")), caches }
}

/// The lowest CPU of the core that a CPU is part of.
fn core(system: &Path, cpu: u32) -> Option<u32> {
    lowest(&system.join(format!("cpu/cpu{cpu}/topology/thread_siblings_list")))
}

/// The lowest number of a list in a file.
fn lowest(path: &Path) -> Option<u32> {
    numbers(&fs::read_to_string(path).ok()?)?.first().copied()
}

fn socket(system: &Path, cpu: u32) -> Option<u32> {
    let file = system.join(format!("cpu/cpu{cpu}/topology/physical_package_id"));
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The lowest CPU that shares the cache of the last level with a CPU.
fn cache(system: &Path, cpu: u32) -> Option<u32> {
    let index = (0..MAX_CACHES)
        .rev()
        .map(|index| system.join(format!("cpu/cpu{cpu}/cache/index{index}/shared_cpu_list")));
    let list = index.into_iter().find_map(|file| fs::read_to_string(file).ok())?;
    numbers(&list)?.first().copied()
}

/// The node of each CPU.
fn nodes(system: &Path) -> BTreeMap<u32, u32> {
    let entries = fs::read_dir(system.join("node")).into_iter().flatten().flatten();
    let node = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse::<u32>().ok()?;
        let cpus = numbers(&fs::read_to_string(entry.path().join("cpulist")).ok()?)?;
        Some(cpus.into_iter().map(move |cpu| (cpu, number)))
    };
    entries.filter_map(node).flatten().collect()
}

/// The numbers of a list like `0-3,8`, in order.
fn numbers(list: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (low.parse::<u32>().ok()?, high.parse::<u32>().ok()?);
        if high >= MAX_CPUS {
            return None;
        }
        all.extend(low..=high);
    }
    all.sort_unstable();
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_parsed() {
        assert_eq!(numbers("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(numbers("\t5\n"), Some(vec![5]));
        assert_eq!(numbers("\n"), Some(vec![]), "a node of memory alone");
        assert_eq!((numbers("a"), numbers("0-4000000000")), (None, None));
    }

    #[test]
    fn masks_have_a_bit_for_each_cpu() {
        assert_eq!(CpuMask::of(&[0, 3, 65]).unwrap().words(), [0b1001, 0b10]);
        assert_eq!(CpuMask::of(&[]), None);
    }

    #[test]
    fn the_topology_is_read_from_sysfs() {
        let system = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = system.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("node/node0/cpulist", "0-1\n");
        file("node/node3/cpulist", "2-3\n");
        file("node/online", "0,3\n");
        file("cpu/cpu2/topology/thread_siblings_list", "0,2\n");
        file("cpu/cpu2/topology/physical_package_id", "1\n");
        file("cpu/cpu2/cache/index0/shared_cpu_list", "2\n");
        file("cpu/cpu2/cache/index3/shared_cpu_list", "1-3\n");
        assert_eq!((socket(system.path(), 2), socket(system.path(), 3)), (Some(1), None));
        assert_eq!((cache(system.path(), 2), cache(system.path(), 3)), (Some(1), None));
        let nodes = nodes(system.path());
        assert_eq!(nodes, [(0, 0), (1, 0), (2, 3), (3, 3)].into());
        assert_eq!((core(system.path(), 2), core(system.path(), 3)), (Some(0), None));
    }

    #[test]
    fn the_caches_and_the_package_of_a_cpu_are_read_from_sysfs() {
        let system = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = system.path().join("cpu/cpu3").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let caches = [("1", "Data", "3"), ("1", "Instruction", "1"), ("3", "Unified", "2-3")];
        for (index, (level, kind, shared)) in caches.into_iter().enumerate() {
            file(&format!("cache/index{index}/level"), &format!("{level}\n"));
            file(&format!("cache/index{index}/type"), &format!("{kind}\n"));
            file(&format!("cache/index{index}/shared_cpu_list"), &format!("{shared}\n"));
        }
        file("topology/core_siblings_list", "0-3\n");
        let cpu = Cpu { node: 0, socket: 0, cache: 2, core: 3, number: 3 };
        let read = position(system.path(), cpu);
        assert_eq!(read, Position { cpu, package: Some(0), caches: [Some(3), None, Some(2)] });
        let unknown = position(&system.path().join("none"), cpu);
        assert_eq!(unknown, Position { cpu, package: None, caches: [None; 3] });
    }

    #[test]
    fn this_process_may_use_a_cpu() {
        let cpus = allowed().unwrap();
        let numbers: Vec<u32> = cpus.iter().map(|cpu| cpu.number).collect();
        assert!(topology().locality(&numbers).is_some());
    }
}
