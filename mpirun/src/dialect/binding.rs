//! The option `--cpu-bind` of PALS and of Slurm.

use std::collections::BTreeSet;

use mpd_placement::locality::list;

use super::cpus::{lists, masks, repeated, round_robin, user, wrong};
use super::language::Facts;
use super::translation::{Translation, words};

/// A unit by a name of Slurm or PALS.
fn unit(name: &str) -> Option<&'static str> {
    Some(match name {
        "none" | "no" => "none",
        "core" | "cores" => "core",
        "thread" | "threads" | "hwthread" => "hwthread",
        "numa" | "ldoms" => "numa",
        "socket" | "sockets" => "socket",
        _ => return None,
    })
}

/// `--depth N` of PALS: so many CPUs for each rank, in the order of their numbers.
pub(super) fn depth(values: &[&str], caller: &dyn Facts) -> Translation {
    let depth = values[0].parse::<usize>().ok().filter(|&depth| depth > 0);
    let depth = depth.ok_or_else(|| "it must be a number above 0".to_owned())?;
    let mut cpus: Vec<u32> = caller.cpus().iter().map(|cpu| cpu.number).collect();
    cpus.sort_unstable();
    if cpus.len() < depth {
        return Err(format!("this host has {} CPUs", cpus.len()));
    }
    let rank = |cpus: &[u32]| cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
    Ok(user(&cpus.chunks_exact(depth).map(rank).collect::<Vec<_>>().join(",")))
}

/// `--cpu-bind` of PALS.
pub(super) fn pals(values: &[&str], caller: &dyn Facts) -> Translation {
    let value = values[0];
    if let Some((word @ ("verbose" | "v" | "quiet" | "q"), rest)) = value.split_once(',') {
        let mut made = pals(&[rest], caller)?;
        if word.starts_with('v') {
            made.extend(words(&["-report-bindings"]));
        }
        return Ok(made);
    }
    match value.split_once(':').unwrap_or((value, "")) {
        // An option for the depth comes first.
        ("depth", "") => depth(&["1"], caller),
        ("list", text) => Ok(user(&lists(text, ':')?)),
        ("mask", text) => {
            let masks = masks(text.split([':', ',']));
            Ok(user(&masks.ok_or_else(|| wrong(text))?))
        }
        (name, "") => match unit(name) {
            Some(unit) => Ok(words(&["-bind-to", unit])),
            None => Err(format!("the method '{name}' is not available")),
        },
        (method, _) => Err(format!("the method '{method}' is not available")),
    }
}

/// The CPUs of a NUMA node of this host, by the number that the system gives it.
fn of_node(number: u32, caller: &dyn Facts) -> Result<String, String> {
    let all = caller.cpus();
    let nodes: BTreeSet<u32> = all.iter().map(|cpu| cpu.node).collect();
    if !nodes.contains(&number) {
        let known = list(nodes);
        return Err(format!("there is no NUMA node {number}; this host has {known}"));
    }
    let cpus = all.iter().filter(|cpu| cpu.node == number).map(|cpu| cpu.number);
    Ok(list(cpus).replace(',', "+"))
}

/// The CPUs of the NUMA nodes of a hexadecimal mask.
fn of_nodes(mask: &str, caller: &dyn Facts) -> Result<String, String> {
    let nodes = masks(std::iter::once(mask)).ok_or_else(|| wrong(mask))?;
    let mut all = Vec::new();
    for range in nodes.split('+') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong(mask));
        for node in number(low)?..=number(high)? {
            all.push(of_node(node, caller)?);
        }
    }
    Ok(all.join("+"))
}

/// `--cpu-bind` of Slurm: `[verbose,|quiet,]METHOD`. The result is the unit, and other words of ours.
pub(super) fn slurm(
    text: &str,
    caller: &dyn Facts,
) -> Result<(Option<&'static str>, Vec<String>), String> {
    let mut made = Vec::new();
    let mut value = text;
    if let Some((word @ ("verbose" | "v" | "quiet" | "q"), rest)) = value.split_once(',') {
        if word.starts_with('v') {
            made = words(&["-report-bindings"]);
        }
        value = rest;
    }
    made.extend(match value.split_once(':').unwrap_or((value, "")) {
        ("verbose" | "v", "") => words(&["-report-bindings"]),
        ("quiet" | "q", "") => Vec::new(),
        ("map_cpu", text) => {
            let cpus = repeated(text)?;
            match cpus.iter().all(|cpu| cpu.parse::<u16>().is_ok()) {
                true => user(&cpus.join(",")),
                false => return Err(wrong(text)),
            }
        }
        ("mask_cpu", text) => {
            let found = masks(repeated(text)?.into_iter());
            user(&found.ok_or_else(|| wrong(text))?)
        }
        ("rank", "") => vec!["-bind-to".to_owned(), round_robin(caller)],
        ("map_ldom", text) => {
            let node = |word: &&str| match word.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16).map_err(|_| wrong(text)),
                None => word.parse().map_err(|_| wrong(text)),
            };
            let nodes = repeated(text)?;
            let lists = nodes.iter().map(|word| of_node(node(word)?, caller));
            user(&lists.collect::<Result<Vec<_>, _>>()?.join(","))
        }
        ("mask_ldom", text) => {
            let nodes = repeated(text)?;
            let lists = nodes.iter().map(|mask| of_nodes(mask, caller));
            user(&lists.collect::<Result<Vec<_>, _>>()?.join(","))
        }
        // The tasks use the NUMA nodes in turn; see `Layout::slurm_bind`.
        ("rank_ldom", "") => return Ok((Some("numa"), made)),
        (method, rest) => match unit(method).filter(|_| rest.is_empty()) {
            Some(unit) => return Ok((Some(unit), made)),
            None => return Err(format!("the method '{method}' is not available")),
        },
    });
    Ok((None, made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpd_placement::cpu::Cpu;

    /// A host whose NUMA nodes have the numbers 0 and 8.
    #[derive(Debug)]
    struct Power;

    impl Facts for Power {
        fn variable(&self, _: &[u8]) -> Option<&[u8]> {
            None
        }

        fn variables(&self, _: &[u8]) -> Vec<String> {
            Vec::new()
        }

        fn cpus(&self) -> Vec<Cpu> {
            let cpu = |number| {
                let node = if number < 2 { 0 } else { 8 };
                Cpu { node, socket: node, cache: node, core: number, number }
            };
            (0..4).map(cpu).collect()
        }

        fn has_program(&self, _: &str) -> bool {
            false
        }

        fn has_library(&self, _: &str) -> bool {
            false
        }
    }

    #[test]
    fn a_numa_node_has_the_number_that_the_system_gives_it() {
        let words = |text| slurm(text, &Power).map(|(_, words)| words.join(" "));
        assert_eq!(words("map_ldom:8,0").unwrap(), "-bind-to user:2-3,0-1");
        assert_eq!(words("mask_ldom:0x100").unwrap(), "-bind-to user:2-3");
        assert!(words("map_ldom:1").unwrap_err().contains("there is no NUMA node 1"));
    }
}
