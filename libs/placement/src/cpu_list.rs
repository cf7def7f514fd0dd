//! Lists of CPUs as users write them, and the CPUs that they name on a host.
//!
//! ```text
//! LIST = RANK,RANK,...      the CPUs of the first rank, of the second rank ...
//! RANK = RANGE+RANGE+...
//! RANGE = 3, 4-7            CPUs by the system's numbers
//!         c3, c4-7          cores of the host, counted as for `-bind-to core`
//!         s1, s0-1          whole sockets
//!         s1c0, s1c2-3      cores of a socket
//! ```

use std::fmt::Write as _;

use mpd_wire::job::{CpuChoice, CpuNumbers, CpuRange, MAX_CPU};

use crate::cpu::{Cpu, parts};
use crate::locality::list;
use mpd_wire::job::Binding;

/// Most lists on a command line.
const MAX_LISTS: usize = 65_536;

/// A list of CPUs cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuProblem {
    /// The text is not a list.
    #[error("{0:?} is no list of CPUs, like 0-3+8, c0-1 for cores, or s0c1 for a core of a socket")]
    Text(String),
    /// A range names parts that the host does not have, or that the job may not use.
    #[error("{0} is not available; the CPUs here are {1}")]
    Missing(String, String),
}

/// The CPUs of each rank.
///
/// # Errors
/// The part that is wrong.
pub fn parse(text: &str) -> Result<Vec<CpuChoice>, CpuProblem> {
    let ranks = text.split(',').map(|rank| {
        let ranges = rank.split('+').map(|range| {
            parse_range(range).ok_or_else(|| CpuProblem::Text(range.chars().take(60).collect()))
        });
        ranges.collect::<Result<Vec<CpuRange>, CpuProblem>>().map(CpuChoice)
    });
    ranks.take(MAX_LISTS).collect()
}

/// The CPUs of a list as one set.
///
/// # Errors
/// The part that is wrong.
pub fn parse_set(text: &str) -> Result<CpuChoice, CpuProblem> {
    let all = parse(text)?;
    Ok(CpuChoice(all.into_iter().flat_map(|choice| choice.0).collect()))
}

fn parse_range(text: &str) -> Option<CpuRange> {
    let (of, numbers) = match text.strip_prefix('s') {
        Some(rest) => match rest.split_once('c') {
            Some((socket, numbers)) => (CpuNumbers::CoresOf(number(socket)?), numbers),
            None => (CpuNumbers::Sockets, rest),
        },
        None => match text.strip_prefix('c') {
            Some(numbers) => (CpuNumbers::Cores, numbers),
            None => (CpuNumbers::System, text),
        },
    };
    let (low, high) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let (low, high) = (number(low)?, number(high)?);
    (low <= high).then_some(CpuRange { of, low, high })
}

/// A number of a CPU.
pub(crate) fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok())?.filter(|&number| number <= MAX_CPU)
}

fn show_range(range: CpuRange) -> String {
    let mut text = match range.of {
        CpuNumbers::System => String::new(),
        CpuNumbers::Cores => "c".to_owned(),
        CpuNumbers::CoresOf(socket) => format!("s{socket}c"),
        CpuNumbers::Sockets => "s".to_owned(),
    };
    // Writing to a String cannot fail.
    let _ = match range.low == range.high {
        true => write!(text, "{}", range.low),
        false => write!(text, "{}-{}", range.low, range.high),
    };
    text
}

pub fn show(choice: &CpuChoice) -> String {
    choice.0.iter().copied().map(show_range).collect::<Vec<_>>().join("+")
}

/// The CPUs of a choice, in order, each once. `allowed` are those that the job may use.
///
/// # Errors
/// A range that names anything else.
pub(crate) fn resolve(choice: &CpuChoice, allowed: &[Cpu]) -> Result<Vec<u32>, CpuProblem> {
    let mut found = Vec::new();
    for &range in &choice.0 {
        let cpus = resolve_range(range, allowed).ok_or_else(|| {
            let here = list(allowed.iter().map(|cpu| cpu.number));
            CpuProblem::Missing(format!("CPU {}", show_range(range)), here)
        })?;
        found.extend(cpus);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn resolve_range(range: CpuRange, allowed: &[Cpu]) -> Option<Vec<u32>> {
    let units = match range.of {
        CpuNumbers::System => {
            let is_there = |number: &u32| allowed.iter().any(|cpu| cpu.number == *number);
            return (range.low..=range.high).map(|n| Some(n).filter(is_there)).collect();
        }
        CpuNumbers::Cores => parts(allowed, Binding::Core),
        CpuNumbers::Sockets => parts(allowed, Binding::Socket),
        CpuNumbers::CoresOf(socket) => {
            let sockets = parts(allowed, Binding::Socket);
            parts(sockets.get(socket as usize)?, Binding::Core)
        }
    };
    let units = units.get(range.low as usize..=range.high as usize)?;
    Some(units.iter().flatten().map(|cpu| cpu.number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_machine::machine;

    fn cpus(text: &str) -> Result<Vec<Vec<u32>>, String> {
        let all = parse(text).map_err(|e| e.to_string())?;
        all.iter().map(|one| resolve(one, &machine()).map_err(|e| e.to_string())).collect()
    }

    #[test]
    fn each_rank_has_its_list_of_threads_cores_or_sockets() {
        assert_eq!(cpus("0,2,4-5").unwrap(), [vec![0], vec![2], vec![4, 5]]);
        assert_eq!(cpus("1+0,2-3+7").unwrap(), [vec![0, 1], vec![2, 3, 7]]);
        assert_eq!(
            cpus("c0,c2-3,s1c1,s0,s0-1").unwrap()[..4],
            [vec![0, 4], vec![2, 3, 6, 7], vec![3, 7], vec![0, 1, 4, 5]]
        );
        assert_eq!(cpus("s0-1").unwrap()[0].len(), 8);
    }

    #[test]
    fn a_list_is_shown_as_it_was_written() {
        let text = "0-3+8,c1,s1c0-1,s0";
        let shown: Vec<String> = parse(text).unwrap().iter().map(show).collect();
        assert_eq!(shown.join(","), text);
        assert_eq!(show(&parse_set("0,2-3").unwrap()), "0+2-3");
    }

    #[test]
    fn a_wrong_text_and_a_missing_cpu_are_named() {
        for text in ["", "0,", "a", "3-1", "c", "s", "s0c", "1--2", "+", "65536", "-1", "0x3"] {
            assert!(cpus(text).unwrap_err().contains("is no list of CPUs"), "{text}");
        }
        assert_eq!(cpus("6-9").unwrap_err(), "CPU 6-9 is not available; the CPUs here are 0-7");
        assert_eq!(cpus("0+c4").unwrap_err(), "CPU c4 is not available; the CPUs here are 0-7");
        assert!(cpus("s2").is_err() && cpus("s1c2").is_err());
    }
}
