//! Placement by load and speed: each rank goes to the host whose CPUs will be the least busy with it.
//!
//! The busyness of a host is its processes, those of others and those of the job, divided by the number of its CPUs
//! or slots and by its speed. So of two idle hosts, one with twice the speed gets twice as many ranks.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::members::{Listed, Members};
use crate::{Candidate, PlacementError};
use mpd_wire::DaemonName;
use mpd_wire::job::{HostChoice, PlacementSpec};

/// The speed of an ordinary host.
const ORDINARY: u32 = 100;

/// The load of a host, in hundredths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLoad {
    /// Average number of its running and runnable processes, times 100.
    pub running: u64,
    /// Its speed; an ordinary host has 100.
    pub speed: u32,
}

impl Default for HostLoad {
    fn default() -> Self {
        Self { running: 0, speed: ORDINARY }
    }
}

/// How busy a host is: processes for each CPU of an ordinary host. Both numbers are in hundredths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busyness {
    pub(crate) processes: u64,
    pub(crate) power: u64,
}

impl Busyness {
    pub(crate) fn new(processes: u64, slots: u32, speed: u32) -> Self {
        Self { processes, power: u64::from(slots.max(1)) * u64::from(speed.max(1)) }
    }
}

impl Ord for Busyness {
    fn cmp(&self, other: &Self) -> Ordering {
        let crossed =
            |one: &Self, other: &Self| u128::from(one.processes) * u128::from(other.power);
        crossed(self, other).cmp(&crossed(other, self))
    }
}

impl PartialOrd for Busyness {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Busyness {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Busyness {}

/// The hosts for `size` ranks by load and speed, each with the number of its ranks as slots. They are in the order of
/// the request, or in ring order.
///
/// # Errors
/// [`PlacementError`], for the user.
pub fn by_load(
    size: u32,
    request: &PlacementSpec,
    members: &[Candidate],
    origin: &DaemonName,
) -> Result<Vec<HostChoice>, PlacementError> {
    let members = Members::new(members, origin, request.here_first, &request.exclude)?;
    let mut hosts: Vec<Listed> = Vec::new();
    for host in members.listed(&request.hosts)? {
        match hosts.iter_mut().find(|known| known.member == host.member) {
            // A batch system's list has a line for every slot.
            Some(known) => known.slots = Some(known.slots.unwrap_or(1) + host.slots.unwrap_or(1)),
            None => hosts.push(host),
        }
    }
    let with = |place: usize, ranks: u32| {
        let host = &hosts[place];
        let load = members.get(host.member).load;
        let processes = load.running + 100 * u64::from(ranks);
        let slots = host.slots.unwrap_or(host.ncpus);
        Reverse((Busyness::new(processes, slots, host.speed.unwrap_or(load.speed)), place))
    };
    let mut ranks = vec![0; hosts.len()];
    let mut next: BinaryHeap<_> = (0..hosts.len()).map(|place| with(place, 1)).collect();
    for _ in 0..size {
        // If all hosts have as many ranks as they may have, the placement reports it.
        let Some(Reverse((_, place))) = next.pop() else { break };
        ranks[place] += 1;
        if hosts[place].max.is_none_or(|max| ranks[place] < max) {
            next.push(with(place, ranks[place] + 1));
        }
    }
    let used = hosts.iter().zip(ranks).filter(|(_, ranks)| *ranks > 0);
    let choice = |(host, ranks): (&Listed, u32)| HostChoice {
        max: host.max,
        ..HostChoice::new(members.get(host.member).member.to_string(), Some(ranks))
    };
    Ok(used.map(choice).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::candidate;

    /// The ranks of each host of `list`, of members with four CPUs each and these loads in hundredths.
    fn ranks(size: u32, list: &[HostChoice], loads: &[(u64, u32)]) -> Vec<(String, u32)> {
        let members: Vec<Candidate> = (1..)
            .zip(loads)
            .map(|(number, &(running, speed))| Candidate {
                load: HostLoad { running, speed },
                ..candidate(&format!("h{number}"), 4, number)
            })
            .collect();
        let request = PlacementSpec { hosts: list.to_vec(), ..PlacementSpec::default() };
        let hosts = by_load(size, &request, &members, &members[0].member).unwrap();
        hosts.into_iter().map(|host| (host.name, host.slots.unwrap())).collect()
    }

    fn pairs(list: &[(&str, u32)]) -> Vec<(String, u32)> {
        list.iter().map(|&(name, ranks)| (name.to_owned(), ranks)).collect()
    }

    #[test]
    fn twenty_ranks_avoid_a_host_that_is_loaded_by_others() {
        let loads = [(0, 100), (800, 100), (0, 100), (0, 100), (0, 100)];
        let expected = pairs(&[("h1", 5), ("h3", 5), ("h4", 5), ("h5", 5)]);
        assert_eq!(ranks(20, &[], &loads), expected);
        let little = [(0, 100), (100, 100), (0, 100)];
        assert_eq!(ranks(8, &[], &little), pairs(&[("h1", 3), ("h2", 2), ("h3", 3)]));
    }

    #[test]
    fn a_host_of_twice_the_speed_gets_twice_as_many_ranks() {
        assert_eq!(ranks(21, &[], &[(0, 100), (0, 200)]), pairs(&[("h1", 7), ("h2", 14)]));
        let fast = HostChoice { speed: Some(200), ..HostChoice::new("h1".into(), None) };
        let list = [fast, HostChoice::new("h2".into(), None)];
        let both = [(0, 100), (0, 100)];
        assert_eq!(ranks(21, &list, &both), pairs(&[("h1", 14), ("h2", 7)]));
        let one = |slots| HostChoice::new("h2".into(), Some(slots));
        let list = [HostChoice::new("h1".into(), Some(1)), one(1), one(2)];
        assert_eq!(ranks(20, &list, &both), pairs(&[("h1", 5), ("h2", 15)]), "slots count");
    }

    #[test]
    fn no_host_gets_more_ranks_than_its_limit() {
        let few = HostChoice { max: Some(2), ..HostChoice::new("h1".into(), None) };
        let list = [few, HostChoice::new("h2".into(), None)];
        assert_eq!(ranks(9, &list, &[(0, 100), (0, 100)]), pairs(&[("h1", 2), ("h2", 7)]));
    }
}
