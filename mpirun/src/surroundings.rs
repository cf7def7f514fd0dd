//! The hosts on which a job would run, and the CPUs of this host, for `-dry-run`. The daemon of this host is asked for
//! its ring. Without one, the hosts are those of the private ring that the job would start. Nothing is started.

use std::collections::BTreeMap;
use std::time::Duration;

use mpd_io::host::cpus;
use mpd_io::host::this_host::{self, Machines};
use mpd_io::network::addresses;
use mpd_io::ring::console::{self, Console, ConsoleError};
use mpd_io::ring::rundir::{Found, host_name};
use mpd_placement::cpu::Cpu;
use mpd_placement::hosts::HostEntry;
use mpd_placement::{Candidate, HostLoad};
use mpd_wire::message::{ConsoleReply, HostTop, MemberView, RingRequest, RingView};
use mpd_wire::{DaemonName, Standing};

use crate::ring_options::RingOptions;

/// Time for the daemon of this host to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for all members of the ring to answer. It exceeds the daemon's own deadline of 10 s.
const RING_PATIENCE: Duration = Duration::from_secs(15);
/// The longest time for the lookups of all names together.
const LOOKUPS: Duration = Duration::from_secs(5);

/// The origin of the job's daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// They run already.
    Standing,
    /// The job starts them.
    Private,
}

/// Addresses of a host, or the resolver's error.
pub type Addresses = Result<Vec<String>, String>;

/// What a dry run needs to know of the hosts.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Whether a daemon runs on this host.
    pub kind: RingKind,
    /// The member that is this host.
    pub here: DaemonName,
    /// The members of the ring.
    pub members: Vec<Candidate>,
    /// The addresses of members, as far as they are known or were looked up.
    pub addresses: BTreeMap<DaemonName, Addresses>,
    /// Members with an unknown number of CPUs. The number of this host stands for it.
    pub assumed: Vec<DaemonName>,
    /// In a private ring: names of hosts that the list has under an earlier name, and that name.
    pub others: BTreeMap<String, String>,
    /// The CPUs of this host that a job may use; empty if the system does not list them.
    pub cpus: Vec<Cpu>,
}

impl Surroundings {
    /// The members that take processes, in ring order from this host.
    pub(crate) fn in_ring_order(mut self) -> Vec<HostEntry> {
        self.members.sort_by_key(|candidate| candidate.ordinal);
        let own = self.members.iter().position(|candidate| candidate.member == self.here);
        self.members.rotate_left(own.unwrap_or(0));
        let taking = self.members.iter().filter(|candidate| !candidate.draining);
        taking.map(|it| HostEntry::named(it.member.to_string(), Some(it.ncpus))).collect()
    }
}

/// Reads the surroundings of a job. `hosts` are those of its private ring.
///
/// # Errors
/// The reason why the job could not find its daemon, as a text.
pub fn read(ring_options: &RingOptions, hosts: &[HostEntry]) -> Result<Surroundings, String> {
    let rundir = ring_options.rundir().map_err(|e| format!("{e:#}"))?;
    match rundir.find() {
        Ok(Found::Daemon(_)) => {
            console::describe(&rundir, PATIENCE).map(standing).map_err(|e| e.to_string())
        }
        Err(e) if rundir.is_explicit() => Err(e.to_string()),
        Ok(_) | Err(_) => match ring_options.missing_daemon(&rundir) {
            Some(error) => Err(format!("{error:#}")),
            None => private(hosts),
        },
    }
}

/// The hosts of the ring that runs already, with their loads. A host that does not answer counts as idle.
///
/// # Errors
/// There is no ring, or it does not answer, as a text.
pub fn loaded(ring_options: &RingOptions) -> Result<Surroundings, String> {
    let rundir = ring_options.rundir().map_err(|e| format!("{e:#}"))?;
    let failed = |e: ConsoleError| format!("cannot ask the ring for its load: {e}");
    let mut all = standing(console::describe(&rundir, PATIENCE).map_err(failed)?);
    let mut console = Console::ask(&rundir, RingRequest::Top).map_err(failed)?;
    loop {
        match console.answer(Some(RING_PATIENCE)).map_err(failed)? {
            ConsoleReply::Top { hosts, more, .. } => {
                for HostTop { host, machine, .. } in hosts {
                    if let Some(known) = all.members.iter_mut().find(|it| it.member == host) {
                        let (running, speed) = (machine.load_hundredths, machine.speed_hundredths);
                        known.load = HostLoad { running, speed };
                    }
                }
                if !more {
                    return Ok(all);
                }
            }
            _ => return Err(failed(ConsoleError::Unfit)),
        }
    }
}

/// The CPUs of this host that a job may use; empty if the system does not list them.
pub fn allowed() -> Vec<Cpu> {
    cpus::allowed().unwrap_or_default()
}

fn standing(view: RingView) -> Surroundings {
    let live = view.members.iter().filter(|member| member.standing == Standing::Live);
    let host = |member: &MemberView| {
        let hosts = member.addresses.iter().map(|address| address.host().to_owned()).collect();
        (member.name.clone(), Ok(hosts))
    };
    Surroundings {
        kind: RingKind::Standing,
        addresses: live.clone().map(host).collect(),
        members: live
            .map(|member| Candidate {
                addresses: member.addresses.clone(),
                draining: member.draining,
                ..Candidate::new(member.name.clone(), member.ncpus, member.ordinal)
            })
            .collect(),
        here: view.me,
        assumed: Vec::new(),
        others: BTreeMap::new(),
        cpus: allowed(),
    }
}

/// The ring that a job without a standing daemon starts: this host, and one daemon on each other host.
fn private(hosts: &[HostEntry]) -> Result<Surroundings, String> {
    let own_name = host_name();
    let Machines { others, here } = this_host::machines(hosts, &own_name);
    let mut hosts = hosts.to_vec();
    hosts.retain(|entry| !others.contains_key(&entry.host));
    let is_ours = |entry: &HostEntry| here.as_ref() == Some(&entry.host);
    let own = hosts.iter().find(|entry| is_ours(entry));
    let name = own.map_or(own_name.as_str(), |own| match this_host::is_loopback(&own.host) {
        true => &own_name,
        false => &own.host,
    });
    let daemon = |name: &str| DaemonName::new(name).map_err(|e| format!("{name:?} is {e}"));
    let member = daemon(name)?;
    let count = cpus::count();
    let first = own.and_then(|own| own.ncpus).unwrap_or(count);
    let mut members = vec![Candidate::new(member.clone(), first, 1)];
    let mut assumed = Vec::new();
    let mut lookups = Vec::new();
    for (ordinal, entry) in (2..).zip(hosts.iter().filter(|entry| !is_ours(entry))) {
        let member = daemon(&entry.host)?;
        if members.iter().any(|known| known.member.as_str().eq_ignore_ascii_case(&entry.host)) {
            continue;
        }
        if entry.ncpus.is_none() {
            assumed.push(member.clone());
        }
        lookups.push(member.clone());
        members.push(Candidate::new(member, entry.ncpus.unwrap_or(count), ordinal));
    }
    let addresses = look_up(&lookups);
    let (kind, here) = (RingKind::Private, member);
    Ok(Surroundings { kind, here, members, addresses, assumed, others, cpus: allowed() })
}

/// The addresses of these hosts. A name for which the resolver has not answered in time is left out.
fn look_up(names: &[DaemonName]) -> BTreeMap<DaemonName, Addresses> {
    let hosts = names.iter().map(|name| name.as_str().to_owned()).collect();
    let found = addresses::look_up_all(hosts, LOOKUPS).into_iter();
    let found = found.filter_map(|(host, all)| {
        let texts = all.map(|all| all.iter().map(ToString::to_string).collect());
        Some((DaemonName::new(&host).ok()?, texts.map_err(|e| e.to_string())))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use mpd_placement::hosts::parse_list;

    use super::*;

    #[test]
    fn the_private_ring_has_this_host_and_each_named_host_once() {
        let named = parse_list("192.0.2.7:3,127.0.0.1:2,192.0.2.7,192.0.2.8").unwrap();
        let surroundings = private(&named).unwrap();
        let names: Vec<&str> = surroundings.members.iter().map(|c| c.member.as_str()).collect();
        assert_eq!(names, [surroundings.here.as_str(), "192.0.2.7", "192.0.2.8"]);
        let ncpus: Vec<u32> = surroundings.members.iter().map(|c| c.ncpus).collect();
        assert_eq!(ncpus, [2, 3, cpus::count()]);
        assert_eq!(surroundings.assumed, [DaemonName::new("192.0.2.8").unwrap()]);
        let address = surroundings.addresses.get(&DaemonName::new("192.0.2.7").unwrap());
        assert_eq!(address, Some(&Ok(vec!["192.0.2.7".to_owned()])));
    }
}
