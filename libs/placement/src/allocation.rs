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

/// Whether srun reaches only some hosts of the allocation: those of the first component of a heterogeneous job.
pub fn has_components(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    is_slurm(variable) && components(variable) > 1
}

type Hosts = Result<Vec<HostChoice>, String>;

/// The hosts, and the name of the variable that lists them.
type Found = (&'static str, Hosts);

/// Steps with numbers from here on are no steps of `srun`: the shell of `salloc` and the batch script, which have the
/// whole job.
const FIRST_RESERVED_STEP: u32 = 0xffff_fff0;

/// Most components of a heterogeneous job of Slurm.
const MAX_COMPONENTS: usize = 128;

fn report(sources: &Sources<'_>) -> Option<Found> {
    let set = |name: &str| (sources.variable)(name).filter(|value| !value.is_empty());
    if let Some(found) = is_slurm(sources.variable).then(|| of_slurm(&set)).flatten() {
        return Some(found);
    }
    let from_file = |name, parse: fn(&str) -> Hosts| {
        let path = set(name)?;
        Some((name, (sources.file)(&path).and_then(|text| parse(&text))))
    };
    if let Some(found) = from_file("PBS_NODEFILE", one_per_slot) {
        return Some(found);
    }
    if set("LSB_JOBID").is_some() {
        let found = [
            from_file("LSB_DJOB_HOSTFILE", one_per_slot),
            set("LSB_MCPU_HOSTS").map(|text| ("LSB_MCPU_HOSTS", pairs(&text))),
            set("LSB_HOSTS").map(|text| ("LSB_HOSTS", one_per_slot(&text))),
        ];
        if let Some(found) = first_usable(found.into_iter().flatten()) {
            return Some(found);
        }
    }
    from_file("PE_HOSTFILE", grid_engine)
        .or_else(|| from_file("OAR_NODEFILE", one_per_slot))
        .or_else(|| from_file("OAR_NODE_FILE", one_per_slot))
        .or_else(|| from_file("COBALT_NODEFILE", one_per_host))
        .or_else(|| from_file("PJM_O_NODEINF", one_per_host))
}

/// The first source that names a host; if none does, the first one.
fn first_usable(found: impl Iterator<Item = Found>) -> Option<Found> {
    let has_host = |(_, hosts): &Found| {
        hosts.as_ref().is_ok_and(|hosts| hosts.iter().any(|host| host.slots != Some(0)))
    };
    let mut unusable = Vec::new();
    for next in found {
        if has_host(&next) {
            return Some(next);
        }
        unusable.push(next);
    }
    unusable.into_iter().next()
}

/// The hosts of the step that contains the process, or of the job.
fn of_slurm(set: &dyn Fn(&str) -> Option<String>) -> Option<Found> {
    let job = of_slurm_job(set);
    let number = set("SLURM_STEP_ID").or_else(|| set("SLURM_STEPID"));
    let number = number.and_then(|number| number.parse::<u32>().ok());
    if let (Some(..FIRST_RESERVED_STEP), Some(nodes)) = (number, set("SLURM_STEP_NODELIST")) {
        let step = slurm(&nodes, &[set("SLURM_STEP_TASKS_PER_NODE")]);
        // A script may have inherited the variables of a step of another job.
        let is_of_job = |hosts: &[HostChoice]| match &job {
            Some((_, Ok(all))) => {
                let all: BTreeSet<&str> = all.iter().map(|host| host.name.as_str()).collect();
                hosts.iter().all(|host| all.contains(host.name.as_str()))
            }
            _ => true,
        };
        if step.as_ref().map_or(true, |hosts| is_of_job(hosts)) {
            return Some(("SLURM_STEP_NODELIST", step));
        }
    }
    job
}

/// The hosts of all components of the job.
fn of_slurm_job(set: &dyn Fn(&str) -> Option<String>) -> Option<Found> {
    const COUNTS: [&str; 2] = ["SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"];
    let all: Vec<(String, Vec<Option<String>>)> = (0..components(set))
        .filter_map(|number| {
            let of = |name: &str| {
                let value = |kind| set(&format!("{name}_{kind}_GROUP_{number}"));
                value("HET").or_else(|| value("PACK"))
            };
            Some((of("SLURM_JOB_NODELIST")?, COUNTS.map(of).to_vec()))
        })
        .collect();
    if all.is_empty() {
        let nodes = set("SLURM_JOB_NODELIST")?;
        return Some(("SLURM_JOB_NODELIST", slurm(&nodes, &COUNTS.map(set))));
    }
    let hosts =
        all.iter().map(|(nodes, counts)| slurm(nodes, counts)).collect::<Result<Vec<_>, _>>();
    let hosts = hosts.map(|hosts| {
        let hosts = hosts.concat();
        summed(hosts.iter().map(|host| (host.name.as_str(), host.slots)))
    });
    Some(("SLURM_JOB_NODELIST_HET_GROUP_*", hosts))
}

/// The number of components of a heterogeneous job; 0 for other jobs.
fn components(set: &dyn Fn(&str) -> Option<String>) -> usize {
    let number = set("SLURM_HET_SIZE").or_else(|| set("SLURM_PACK_SIZE"));
    number.and_then(|number| number.parse().ok()).unwrap_or(0).min(MAX_COMPONENTS)
}

/// Parses a list of hosts like `n[001-003,7],m1` with the slots of each, like `2(x3),1,4`. Of several lists of slots,
/// the first one with a number for each host counts: a step changes some variables of its job, and others not.
fn slurm(nodes: &str, counts: &[Option<String>]) -> Hosts {
    let names = parse_list(nodes).map_err(|e| e.to_string())?;
    let given = || counts.iter().flatten();
    let numbers = given().find_map(|text| repeated(text, names.len()));
    if let (None, Some(text)) = (&numbers, given().next()) {
        return Err(format!("{text:?} is not a number for each of its {} nodes", names.len()));
    }
    let mut numbers = numbers.into_iter().flatten();
    Ok(summed(names.iter().map(|name| (name.host.as_str(), numbers.next()))))
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
