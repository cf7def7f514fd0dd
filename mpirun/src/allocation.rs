//! The hosts that a batch system allocated to this process: Slurm, PBS, LSF, Grid Engine, OAR, Cobalt, PJM. They are
//! read from the batch system's variables and files.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mpd_io::logging::plain;
use mpd_placement::hosts::{is_host_name, parse_list};
use mpd_wire::job::{HostChoice, MAX_HOSTS};

use crate::caller::Caller;
use crate::configfile;
use crate::usage::Usage;

#[cfg(test)]
mod tests;

/// Hosts in their order, each once, with their numbers of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The hosts.
    pub hosts: Vec<HostChoice>,
}

impl Allocation {
    /// The allocation of this process, if there is one.
    ///
    /// # Errors
    /// A variable or file of the batch system is not valid.
    pub fn find(caller: &Caller) -> Result<Option<Self>, Usage> {
        let Some((origin, hosts)) = report(caller) else { return Ok(None) };
        let hosts = hosts.and_then(sound).map_err(|problem| {
            let advice = "name the hosts with -hosts, or unset the variable";
            Usage::new(format!("the batch system's {origin}: {problem}; {advice}"))
        })?;
        Ok(Some(Self { hosts }))
    }

    /// The number of slots of all hosts; `None` if a host has no limit.
    pub fn slots(&self) -> Option<u32> {
        let add = |sum: u32, host: &HostChoice| Some(sum.saturating_add(host.slots?));
        self.hosts.iter().try_fold(0, add)
    }
}

/// Whether this process runs in a Slurm allocation.
pub fn is_slurm(caller: &Caller) -> bool {
    set(caller, "SLURM_JOB_ID").is_some()
}

type Hosts = Result<Vec<HostChoice>, String>;

/// The hosts, and the name of the variable that lists them.
fn report(caller: &Caller) -> Option<(&'static str, Hosts)> {
    let has = |name| set(caller, name).is_some();
    if let (true, Some(nodes)) = (is_slurm(caller), set(caller, "SLURM_JOB_NODELIST")) {
        let tasks = set(caller, "SLURM_TASKS_PER_NODE");
        let counts = tasks.or_else(|| set(caller, "SLURM_JOB_CPUS_PER_NODE"));
        return Some(("SLURM_JOB_NODELIST", slurm(nodes, counts)));
    }
    let from_file = |name, parse: fn(&str) -> Hosts| {
        let path = set(caller, name)?;
        Some((name, contents(caller, path).and_then(|text| parse(&text))))
    };
    if let Some(found) = from_file("PBS_NODEFILE", one_per_slot) {
        return Some(found);
    }
    if has("LSB_JOBID") {
        let pairs = || Some(("LSB_MCPU_HOSTS", pairs(set(caller, "LSB_MCPU_HOSTS")?)));
        let words = || Some(("LSB_HOSTS", one_per_slot(set(caller, "LSB_HOSTS")?)));
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

fn set<'a>(caller: &'a Caller, name: &str) -> Option<&'a str> {
    let value = caller.variable(name.as_bytes()).filter(|value| !value.is_empty())?;
    // Text that is not UTF-8 becomes a name that no host can have.
    Some(str::from_utf8(value).unwrap_or("?"))
}

fn contents(caller: &Caller, path: &str) -> Result<String, String> {
    let path = caller.directory.join(Path::new(std::ffi::OsStr::from_bytes(path.as_bytes())));
    let failed = |e| format!("{}: cannot read it: {}", path.display(), plain(&e));
    Ok(String::from_utf8_lossy(&configfile::read(&path).map_err(failed)?).into_owned())
}

/// Parses a list of hosts like `n[001-003,7],m1` with the slots of each, like `2(x3),1,4`.
fn slurm(nodes: &str, counts: Option<&str>) -> Hosts {
    let names = parse_list(nodes).map_err(|e| e.to_string())?;
    let counts = counts.map(|text| {
        let wrong = || format!("{text:?} is not a number for each of its {} nodes", names.len());
        repeated(text, names.len()).ok_or_else(wrong)
    });
    let mut counts = counts.transpose()?.into_iter().flatten();
    Ok(names.into_iter().map(|name| HostChoice::new(name.host, counts.next())).collect())
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
    Ok(summed(text.split_ascii_whitespace().map(|name| (name, 1))))
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
    Ok(summed(words.iter().step_by(2).copied().zip(counts)))
}

/// Parses lines `HOST SLOTS QUEUE PROCESSORS`.
fn grid_engine(text: &str) -> Hosts {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split_ascii_whitespace();
        let Some(name) = words.next() else { continue };
        let slots = words.next().and_then(|word| word.parse::<u32>().ok());
        hosts.push((name, slots.ok_or_else(|| format!("line {number} is not 'HOST SLOTS ...'"))?));
    }
    Ok(summed(hosts.into_iter()))
}

/// Each host once, in the order of first occurrence, with the sum of its slots.
fn summed<'a>(all: impl Iterator<Item = (&'a str, u32)>) -> Vec<HostChoice> {
    let mut hosts: Vec<HostChoice> = Vec::new();
    let mut places = BTreeMap::new();
    for (name, count) in all {
        let place = *places.entry(name).or_insert(hosts.len());
        match hosts.get_mut(place) {
            Some(host) => host.slots = host.slots.map(|slots| slots.saturating_add(count)),
            None => hosts.push(HostChoice::new(name.to_owned(), Some(count))),
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
