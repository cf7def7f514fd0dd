//! The hosts that a batch system gave us, as its variables and files tell: Slurm, PBS, LSF, Grid Engine.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mpd_io::logging::plain;
use mpd_placement::hosts::{is_host_name, parse_list};
use mpd_wire::job::{HostWish, MAX_HOSTS};

use crate::caller::Caller;
use crate::configfile;
use crate::usage::Usage;

#[cfg(test)]
mod tests;

/// Hosts in their order, each once, with room for so many ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The hosts.
    pub hosts: Vec<HostWish>,
}

impl Allocation {
    /// The one that this process is in, if any.
    ///
    /// # Errors
    /// What the batch system tells makes no sense.
    pub fn find(caller: &Caller) -> Result<Option<Self>, Usage> {
        let Some((origin, hosts)) = tell(caller) else { return Ok(None) };
        let hosts = hosts.and_then(sound).map_err(|problem| {
            let advice = "name the hosts with -hosts, or unset the variable";
            Usage::new(format!("the batch system's {origin}: {problem}; {advice}"))
        })?;
        Ok(Some(Self { hosts }))
    }

    /// Room for ranks in all, if every host has a limit.
    pub fn slots(&self) -> Option<u32> {
        let add = |sum: u32, host: &HostWish| Some(sum.saturating_add(host.slots?));
        self.hosts.iter().try_fold(0, add)
    }
}

/// Whether Slurm runs us.
pub fn is_slurm(caller: &Caller) -> bool {
    set(caller, "SLURM_JOB_ID").is_some()
}

type Hosts = Result<Vec<HostWish>, String>;

/// The hosts, and the variable that tells them.
fn tell(caller: &Caller) -> Option<(&'static str, Hosts)> {
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
    if let (true, Some(found)) = (has("PBS_JOBID"), from_file("PBS_NODEFILE", one_per_slot)) {
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
}

fn set<'a>(caller: &'a Caller, name: &str) -> Option<&'a str> {
    let value = caller.variable(name.as_bytes()).filter(|value| !value.is_empty())?;
    // What is not text becomes a word that no host can have.
    Some(str::from_utf8(value).unwrap_or("?"))
}

fn contents(caller: &Caller, path: &str) -> Result<String, String> {
    let path = caller.directory.join(Path::new(std::ffi::OsStr::from_bytes(path.as_bytes())));
    let failed = |e| format!("{}: cannot read it: {}", path.display(), plain(&e));
    Ok(String::from_utf8_lossy(&configfile::read(&path).map_err(failed)?).into_owned())
}

/// `n[001-003,7],m1` with `2(x3),1,4`: a list of hosts, and how many ranks each takes.
fn slurm(nodes: &str, counts: Option<&str>) -> Hosts {
    let names = parse_list(nodes).map_err(|e| e.to_string())?;
    let counts = counts.map(|text| {
        let wrong = || format!("{text:?} is not a number for each of its {} nodes", names.len());
        repeated(text, names.len()).ok_or_else(wrong)
    });
    let mut counts = counts.transpose()?.into_iter().flatten();
    Ok(names.into_iter().map(|name| HostWish { name: name.host, slots: counts.next() }).collect())
}

/// The numbers of `2(x3),1`, if they are exactly so many.
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

/// A word for each slot: `h1 h1 h2`.
fn one_per_slot(text: &str) -> Hosts {
    Ok(summed(text.split_ascii_whitespace().map(|name| (name, 1))))
}

/// `h1 4 h2 2`.
fn pairs(text: &str) -> Hosts {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let pair = |pair: &[&'_ str]| match pair {
        [_, count] => count.parse::<u32>().ok(),
        _ => None,
    };
    let counts = words.chunks(2).map(pair).collect::<Option<Vec<u32>>>();
    let counts = counts.ok_or("names and numbers in turn are wanted")?;
    Ok(summed(words.iter().step_by(2).copied().zip(counts)))
}

/// Lines `HOST SLOTS QUEUE PROCESSORS`.
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

/// Each host once, where it stood first.
fn summed<'a>(all: impl Iterator<Item = (&'a str, u32)>) -> Vec<HostWish> {
    let mut hosts: Vec<HostWish> = Vec::new();
    let mut places = BTreeMap::new();
    for (name, count) in all {
        let place = *places.entry(name).or_insert(hosts.len());
        match hosts.get_mut(place) {
            Some(host) => host.slots = host.slots.map(|slots| slots.saturating_add(count)),
            None => hosts.push(HostWish { name: name.to_owned(), slots: Some(count) }),
        }
    }
    hosts
}

/// What can be hosts of a job. One without slots is none for us.
fn sound(mut hosts: Vec<HostWish>) -> Hosts {
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
