//! The hosts that a batch system allocated to a process: Slurm, PBS, LSF, Grid Engine, OAR, Cobalt, PJM. They are
//! read from the batch system's variables and files.

use std::collections::{BTreeMap, BTreeSet};

use mpd_wire::job::{HostChoice, MAX_HOSTS};

use crate::hosts::{is_host_name, parse_list};

/// The sources of a process: its variables and its files.
pub struct Sources<'a> {
    /// The value of a variable. Text that is not UTF-8 becomes a name that no host can have.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The contents of a file, or a text for people.
    pub file: &'a dyn Fn(&str) -> Result<String, String>,
}

/// A variable or file of the batch system is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the batch system's {origin}: {problem}")]
pub struct InvalidAllocation {
    origin: &'static str,
    problem: String,
}

/// The hosts in their order, each once, with their numbers of slots; `None` outside of an allocation.
///
/// # Errors
/// [`InvalidAllocation`].
pub fn find(sources: &Sources<'_>) -> Result<Option<Vec<HostChoice>>, InvalidAllocation> {
    let Some((origin, hosts)) = report(sources) else { return Ok(None) };
    hosts.and_then(sound).map(Some).map_err(|problem| InvalidAllocation { origin, problem })
}

/// Whether the process runs in a Slurm allocation.
pub fn is_slurm(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    variable("SLURM_JOB_ID").is_some_and(|id| !id.is_empty())
}

type Hosts = Result<Vec<HostChoice>, String>;

/// The hosts, and the name of the variable that lists them.
fn report(sources: &Sources<'_>) -> Option<(&'static str, Hosts)> {
    let set = |name: &str| (sources.variable)(name).filter(|value| !value.is_empty());
    if let (true, Some(nodes)) = (is_slurm(sources.variable), set("SLURM_JOB_NODELIST")) {
        let tasks = set("SLURM_TASKS_PER_NODE");
        let counts = tasks.or_else(|| set("SLURM_JOB_CPUS_PER_NODE"));
        return Some(("SLURM_JOB_NODELIST", slurm(&nodes, counts.as_deref())));
    }
    let from_file = |name, parse: fn(&str) -> Hosts| {
        let path = set(name)?;
        Some((name, (sources.file)(&path).and_then(|text| parse(&text))))
    };
    if let Some(found) = from_file("PBS_NODEFILE", one_per_slot) {
        return Some(found);
    }
    if set("LSB_JOBID").is_some() {
        let pairs = || Some(("LSB_MCPU_HOSTS", pairs(&set("LSB_MCPU_HOSTS")?)));
        let words = || Some(("LSB_HOSTS", one_per_slot(&set("LSB_HOSTS")?)));
        let found = from_file("LSB_DJOB_HOSTFILE", one_per_slot).or_else(pairs).or_else(words);
        if found.is_some() {
            return found;
        }
    }
    from_file("PE_HOSTFILE", grid_engine)
        .or_else(|| from_file("OAR_NODEFILE", one_per_slot))
        .or_else(|| from_file("OAR_NODE_FILE", one_per_slot))
        .or_else(|| from_file("COBALT_NODEFILE", one_per_host))
        .or_else(|| from_file("PJM_O_NODEINF", one_per_host))
}

/// Parses a list of hosts like `n[001-003,7],m1` with the slots of each, like `2(x3),1,4`.
fn slurm(nodes: &str, counts: Option<&str>) -> Hosts {
    let names = parse_list(nodes).map_err(|e| e.to_string())?;
    let counts = counts.map(|text| {
        let wrong = || format!("{text:?} is not a number for each of its {} nodes", names.len());
        repeated(text, names.len()).ok_or_else(wrong)
    });
    let mut counts = counts.transpose()?.into_iter().flatten();
    Ok(summed(names.iter().map(|name| (name.host.as_str(), counts.next()))))
}

/// The numbers in text like `2(x3),1`, if there are exactly `wanted`.
fn repeated(text: &str, wanted: usize) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for word in text.split(',') {
        let (number, times) = match word.split_once("(x") {
            Some((number, times)) => (number, times.strip_suffix(')')?.parse().ok()?),
            None => (word, 1),
        };
        if times > wanted - numbers.len() {
            return None;
        }
        numbers.extend(std::iter::repeat_n(number.parse::<u32>().ok()?, times));
    }
    (numbers.len() == wanted).then_some(numbers)
}

/// Parses a list with one name per slot: `h1 h1 h2`.
fn one_per_slot(text: &str) -> Hosts {
    Ok(summed(text.split_ascii_whitespace().map(|name| (name, Some(1)))))
}

/// Parses a list of hosts whose numbers of slots are unknown. Lines of PJM may have more words after the host.
fn one_per_host(text: &str) -> Hosts {
    let mut seen = BTreeSet::new();
    let names = text.lines().filter_map(|line| line.split_ascii_whitespace().next());
    let names = names.filter(|&name| seen.insert(name));
    Ok(names.map(|name| HostChoice::new(name.to_owned(), None)).collect())
}

/// Parses pairs of name and slots: `h1 4 h2 2`.
fn pairs(text: &str) -> Hosts {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let pair = |pair: &[&'_ str]| match pair {
        [_, count] => count.parse::<u32>().ok(),
        _ => None,
    };
    let counts = words.chunks(2).map(pair).collect::<Option<Vec<u32>>>();
    let counts = counts.ok_or("it must have names and numbers in turn")?;
    Ok(summed(words.iter().step_by(2).copied().zip(counts.into_iter().map(Some))))
}

/// Parses lines `HOST SLOTS QUEUE PROCESSORS`.
fn grid_engine(text: &str) -> Hosts {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split_ascii_whitespace();
        let Some(name) = words.next() else { continue };
        let slots = words.next().and_then(|word| word.parse::<u32>().ok());
        let wrong = || format!("line {number} is not 'HOST SLOTS ...'");
        hosts.push((name, Some(slots.ok_or_else(wrong)?)));
    }
    Ok(summed(hosts.into_iter()))
}

/// Each host once, in the order of first occurrence, with the sum of its slots if they are known.
fn summed<'a>(all: impl Iterator<Item = (&'a str, Option<u32>)>) -> Vec<HostChoice> {
    let mut hosts: Vec<HostChoice> = Vec::new();
    let mut places = BTreeMap::new();
    for (name, count) in all {
        let place = *places.entry(name).or_insert(hosts.len());
        match hosts.get_mut(place) {
            Some(host) => {
                let both = host.slots.zip(count);
                host.slots = both.map(|(slots, more)| slots.saturating_add(more));
            }
            None => hosts.push(HostChoice::new(name.to_owned(), count)),
        }
    }
    hosts
}

/// Checks the hosts of a job. Hosts without slots are removed.
fn sound(mut hosts: Vec<HostChoice>) -> Hosts {
    hosts.retain(|host| host.slots != Some(0));
    if let Some(bad) = hosts.iter().find(|host| !is_host_name(&host.name)) {
        return Err(format!("{:?} is not the name of a host", bad.name));
    }
    match hosts.len() {
        0 => Err("there is no host in it".to_owned()),
        1..=MAX_HOSTS => Ok(hosts),
        _ => Err(format!("more than {MAX_HOSTS} hosts")),
    }
}
