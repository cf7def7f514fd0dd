//! The allocation in which a job runs (`mpdalloc`), and the wait for one (`-wait`).
//!
//! A variable or an option only names the allocation. The daemon of this host reports its slots, if it belongs to this user.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::anyhow;
use mpd_alloc::data::MAX_PATTERNS;
use mpd_io::ring::slots;
pub use mpd_io::ring::slots::VARIABLE;
use mpd_wire::job::{HostChoice, JobSpec};

use crate::once::Once;
use crate::ring_options::RingOptions;
use crate::usage::Usage;

/// The slots of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub id: String,
    /// Its hosts in order, each once, with their slots.
    pub hosts: Vec<HostChoice>,
}

/// The wait for slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The number of processes.
    count: u32,
    /// The slots for each of them.
    width: u32,
    /// The host of each slot in turn, as `mpdalloc --hosts` reads it; empty: any host.
    hosts: String,
    /// The job is refused if it would have to wait.
    now: bool,
}

/// The given options about slots.
#[derive(Debug, Default)]
pub(crate) struct SlotOptions {
    pub(crate) alloc: Once<String>,
    pub(crate) wait: bool,
    pub(crate) now: bool,
}

/// The slots of an allocation, by the daemon of this host.
///
/// # Errors
/// The daemon is not there, or refuses, as a text.
pub fn granted(ring_options: &RingOptions, alloc: &str) -> Result<Held, String> {
    let rundir = ring_options.rundir().map_err(|e| format!("{e:#}"))?;
    let (id, parts) = slots::granted(&rundir, alloc).map_err(|e| e.to_string())?;
    let mut hosts: Vec<HostChoice> = Vec::new();
    for part in parts {
        let name = part.host.to_string();
        match hosts.iter_mut().find(|known| known.name == name) {
            Some(known) => known.slots = known.slots.map(|sum| sum.saturating_add(part.slots)),
            None => hosts.push(HostChoice::new(name, Some(part.slots))),
        }
    }
    Ok(Held { id: id.to_string(), hosts })
}

/// Notes in the environments of a job which allocation it uses. What this process has inherited is about another job.
pub(crate) fn note(held: Option<&Held>, spec: &mut JobSpec) {
    let prefix = format!("{}=", slots::USED_VARIABLE).into_bytes();
    for environment in &mut spec.environments {
        environment.retain(|variable| !variable.starts_with(&prefix));
        environment.extend(held.map(|held| [&prefix[..], held.id.as_bytes()].concat()));
    }
}

impl Held {
    /// The room for processes that take `width` slots each.
    ///
    /// # Errors
    /// No host of the allocation has room for one.
    pub(crate) fn in_processes_of(mut self, width: u32) -> Result<Self, Usage> {
        let width = width.max(1);
        for host in &mut self.hosts {
            host.slots = host.slots.map(|slots| slots / width);
        }
        self.hosts.retain(|host| host.slots != Some(0));
        if self.hosts.is_empty() {
            let id = self.id;
            return Err(Usage::new(format!(
                "each process takes {width} slots (-bind-to), and no host of allocation {id} has so many"
            )));
        }
        Ok(self)
    }

    /// Restricts a job to these slots. Its own hosts can only be fewer, with fewer slots.
    ///
    /// # Errors
    /// The job names a host that is not in the allocation.
    pub(crate) fn restrict(&self, spec: &mut JobSpec) -> Result<(), Usage> {
        spec.placement.hosts = self.within(&spec.placement.hosts)?;
        for argset in &mut spec.argsets {
            if let Some(hosts) = &argset.hosts {
                argset.hosts = Some(self.within(hosts)?);
            }
        }
        Ok(())
    }

    fn within(&self, named: &[HostChoice]) -> Result<Vec<HostChoice>, Usage> {
        if named.is_empty() {
            return Ok(self.hosts.clone());
        }
        let restricted = |named: &HostChoice| {
            let held = self.hosts.iter().find(|held| is_alike(&held.name, &named.name));
            let held = held.ok_or_else(|| {
                let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
                let (id, host) = (&self.id, &named.name);
                Usage::new(format!(
                    "{host} is not in allocation {id}, which has {}",
                    names.join(", ")
                ))
            })?;
            let slots = named.slots.map_or(held.slots, |slots| held.slots.map(|h| h.min(slots)));
            Ok(HostChoice { name: held.name.clone(), slots, ..named.clone() })
        };
        named.iter().map(restricted).collect()
    }
}

/// Whether two names can belong to one host: they are equal, or one is the short form of the other.
fn is_alike(one: &str, other: &str) -> bool {
    let label = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    one == other || (label(one) == label(other) && !(one.contains('.') && other.contains('.')))
}

impl Wait {
    /// The slots for this job.
    ///
    /// # Errors
    /// The job has an option of placement that a request for slots cannot express.
    pub(crate) fn of(spec: &JobSpec, now: bool) -> Result<Self, Usage> {
        let placement = &spec.placement;
        let contradicts =
            |option| Usage::syntax(format!("-wait and {option} contradict each other"));
        if placement.per_host.is_some() {
            return Err(contradicts("-ppn"));
        }
        if placement.group.is_some() {
            return Err(contradicts("-g"));
        }
        if !placement.exclude.is_empty() {
            return Err(contradicts("-exclude"));
        }
        if spec.argsets.iter().any(|argset| argset.hosts.is_some()) {
            return Err(contradicts("-host"));
        }
        // A process that is bound to several CPUs takes as many slots.
        let (count, width) = (spec.size(), placement.width.max(1));
        Ok(Self { count, width, hosts: patterns(&placement.hosts), now })
    }

    /// Replaces this process by `mpdalloc`, which runs the same command line with the slots.
    ///
    /// # Errors
    /// The program cannot be executed. Otherwise it does not return.
    pub fn begin(&self, ring_options: &RingOptions, quiet: bool) -> anyhow::Error {
        let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("mpirun"));
        let mut words = std::env::args_os();
        let name = words.next().unwrap_or_default();
        let name = Path::new(&name).file_name().unwrap_or(OsStr::new("mpirun")).to_owned();
        let program = own.with_file_name("mpdalloc");
        let mut command = Command::new(&program);
        let caller = name.to_str().unwrap_or("mpirun");
        command.arg(format!("--caller={caller}"));
        command.arg(format!("--slots={}", self.count)).args(quiet.then_some("--quiet"));
        command.args(self.now.then_some("--now"));
        if self.width > 1 {
            command.arg(format!("--each={}", self.width));
        }
        if !self.hosts.is_empty() {
            command.arg(format!("--hosts={}", self.hosts));
        }
        command.args(ring_options.words_for_consoles());
        let error = command.arg("--").arg(own.with_file_name(name)).args(words).exec();
        anyhow!("cannot execute {}: {error}", program.display())
    }
}

/// The named hosts as patterns: a host with N slots N times, or any of the hosts if a number is missing.
fn patterns(hosts: &[HostChoice]) -> String {
    let total: u32 =
        hosts.iter().map(|host| host.slots.unwrap_or(u32::MAX)).fold(0, u32::saturating_add);
    let names = hosts.iter().map(|host| host.name.as_str());
    if total as usize > MAX_PATTERNS {
        return names.collect::<Vec<_>>().join("+");
    }
    let each = hosts
        .iter()
        .flat_map(|host| std::iter::repeat_n(host.name.as_str(), host.slots.unwrap_or(0) as usize));
    each.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(name: &str, slots: Option<u32>) -> HostChoice {
        HostChoice::new(name.to_owned(), slots)
    }

    #[test]
    fn a_job_in_an_allocation_can_only_use_fewer_of_its_slots() {
        let hosts = vec![choice("h1", Some(4)), choice("h2.a", Some(2))];
        let held = Held { id: "a3@h1".to_owned(), hosts: hosts.clone() };
        assert_eq!(held.within(&[]).unwrap(), hosts);
        let fewer = held.within(&[choice("h2", Some(8)), choice("h1", Some(1))]).unwrap();
        assert_eq!(fewer, [choice("h2.a", Some(2)), choice("h1", Some(1))]);
        assert_eq!(held.within(&[choice("h1", None)]).unwrap(), [choice("h1", Some(4))]);
        let error = held.within(&[choice("h3", None)]).unwrap_err().to_string();
        assert!(error.contains("h3 is not in allocation a3@h1, which has h1, h2.a"), "{error}");
    }

    #[test]
    fn a_job_notes_its_own_allocation_and_not_that_of_its_caller() {
        let inherited = vec![vec![b"A=b".to_vec(), b"MPD_ALLOC_USED=a1@h9".to_vec()]];
        let mut spec = JobSpec { environments: inherited, ..JobSpec::default() };
        note(Some(&Held { id: "a3@h1".to_owned(), hosts: Vec::new() }), &mut spec);
        assert_eq!(spec.environments[0], [b"A=b".to_vec(), b"MPD_ALLOC_USED=a3@h1".to_vec()]);
        note(None, &mut spec);
        assert_eq!(spec.environments[0], [b"A=b".to_vec()]);
    }

    #[test]
    fn processes_that_are_bound_to_several_cpus_take_as_many_slots() {
        let hosts = vec![choice("h1", Some(5)), choice("h2", Some(1)), choice("h3", Some(2))];
        let held = Held { id: "a3@h1".to_owned(), hosts };
        let wide = held.clone().in_processes_of(2).unwrap();
        assert_eq!(wide.hosts, [choice("h1", Some(2)), choice("h3", Some(1))]);
        let error = held.in_processes_of(8).unwrap_err().to_string();
        assert!(error.contains("each process takes 8 slots (-bind-to), and no host of"), "{error}");
    }

    #[test]
    fn named_hosts_become_the_pattern_of_each_slot() {
        assert_eq!(patterns(&[]), "");
        assert_eq!(patterns(&[choice("a", Some(2)), choice("b", Some(1))]), "a,a,b");
        assert_eq!(patterns(&[choice("a", Some(2)), choice("b", None)]), "a+b");
        assert_eq!(patterns(&[choice("a", Some(300)), choice("b", Some(1))]), "a+b");
    }
}
