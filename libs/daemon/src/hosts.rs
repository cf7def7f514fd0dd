//! Changes of the hosts of the ring, for the events of jobs.

use std::collections::{BTreeMap, BTreeSet};

use mpd_jobtable::ManagerMessage;
use mpd_ring::Ring;
use mpd_wire::message::{HostChange, HostTurn, MAX_HOST_CHANGES, ManagerOrder};
use mpd_wire::{DaemonName, Instance, JobId, Record, Standing};

use crate::effect::Effect;

/// A live host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Host {
    instance: Instance,
    draining: bool,
}

/// The live hosts as the jobs here know them.
#[derive(Debug)]
pub(crate) struct Hosts {
    known: BTreeMap<DaemonName, Host>,
    /// Whether this daemon is in the ring, with the members that it found there.
    is_member: bool,
    /// Hosts that an earlier daemon knew and this one has not found yet.
    former: BTreeSet<DaemonName>,
    revision: Option<u64>,
}

/// Differences between two lists of members.
#[derive(Debug, Default, PartialEq, Eq)]
struct Differences {
    changes: Vec<HostChange>,
    /// Hosts of an earlier daemon that have been found again.
    found: Vec<DaemonName>,
}

impl Hosts {
    /// Before this daemon is in the ring. An earlier one knew the `former` hosts.
    pub(crate) const fn new(former: BTreeSet<DaemonName>) -> Self {
        Self { known: BTreeMap::new(), is_member: false, former, revision: None }
    }

    /// Messages to the root managers of these jobs about the changes since the last call. The members that this daemon
    /// finds when it enters are no change.
    pub(crate) fn report(
        &mut self,
        ring: &Ring,
        is_entered: bool,
        roots: impl FnOnce() -> Vec<JobId>,
    ) -> Vec<Effect> {
        if !is_entered || self.revision == Some(ring.revision()) {
            return Vec::new();
        }
        self.revision = Some(ring.revision());
        let orders = orders(&self.differences(ring.records()));
        let mut effects = Vec::new();
        if orders.is_empty() {
            return effects;
        }
        for job in roots() {
            let message = |order: &ManagerOrder| ManagerMessage::new(job.clone(), order.clone());
            effects.extend(orders.iter().map(message).map(Effect::Report));
        }
        effects
    }

    fn differences<'a>(&mut self, records: impl Iterator<Item = &'a Record>) -> Differences {
        let (hosts, departed) = live(records);
        let known = std::mem::replace(&mut self.known, hosts.clone());
        let was_member = std::mem::replace(&mut self.is_member, true);
        let mut differences = Differences::default();
        let changes = &mut differences.changes;
        let mut add = |host: &DaemonName, to| changes.push(HostChange { host: host.clone(), to });
        for (name, before) in &known {
            match hosts.get(name) {
                Some(host) if host.instance == before.instance => {}
                None if departed.contains(name) => add(name, HostTurn::Left),
                Some(_) | None => add(name, HostTurn::Lost),
            }
        }
        for (name, host) in &hosts {
            let before = known.get(name).filter(|before| before.instance == host.instance);
            if before.is_none() && (self.former.remove(name) || !was_member) {
                differences.found.push(name.clone());
                continue;
            }
            if before.is_none() {
                add(name, HostTurn::Added);
            }
            match (before.is_some_and(|before| before.draining), host.draining) {
                (false, true) => add(name, HostTurn::Draining),
                (true, false) => add(name, HostTurn::Undrained),
                (true, true) | (false, false) => {}
            }
        }
        differences
    }
}

/// The live hosts of a list of members, and the departed ones.
fn live<'a>(
    records: impl Iterator<Item = &'a Record>,
) -> (BTreeMap<DaemonName, Host>, BTreeSet<DaemonName>) {
    let (mut hosts, mut departed) = (BTreeMap::new(), BTreeSet::new());
    for record in records {
        let Record { name, instance, draining, standing, .. } = record;
        match standing {
            Standing::Live => {
                hosts.insert(name.clone(), Host { instance: *instance, draining: *draining });
            }
            Standing::Departed => {
                departed.insert(name.clone());
            }
            Standing::Dead => {}
        }
    }
    (hosts, departed)
}

/// The differences in orders of bounded size.
fn orders(differences: &Differences) -> Vec<ManagerOrder> {
    let Differences { changes, found } = differences;
    let found = found
        .chunks(MAX_HOST_CHANGES)
        .map(|found| ManagerOrder::HostsChanged { changes: Vec::new(), found: found.to_vec() });
    let changes = changes
        .chunks(MAX_HOST_CHANGES)
        .map(|changes| ManagerOrder::HostsChanged { changes: changes.to_vec(), found: Vec::new() });
    found.chain(changes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, instance: u8, standing: Standing, draining: bool) -> Record {
        Record {
            name: DaemonName::new(name).unwrap(),
            instance: Instance::from_bytes([instance; 16]),
            standing,
            draining,
            ..crate::tests::record()
        }
    }

    fn differences(
        hosts: &mut Hosts,
        records: &[Record],
    ) -> (Vec<(String, HostTurn)>, Vec<String>) {
        let Differences { changes, found } = hosts.differences(records.iter());
        let changes = changes.into_iter().map(|change| (change.host.to_string(), change.to));
        (changes.collect(), found.iter().map(ToString::to_string).collect())
    }

    fn named(list: &[(&str, HostTurn)]) -> Vec<(String, HostTurn)> {
        list.iter().map(|(name, to)| ((*name).to_owned(), *to)).collect()
    }

    #[test]
    fn each_transition_of_a_host_is_one_change_and_the_first_members_are_none() {
        use HostTurn::{Added, Draining, Left, Lost, Undrained};
        use Standing::{Dead, Departed, Live};
        let mut hosts = Hosts::new(BTreeSet::new());
        let mut next = |records: &[Record]| differences(&mut hosts, records).0;
        let h1 = record("h1", 1, Live, false);
        let all = [h1.clone(), record("h2", 2, Live, false), record("h3", 3, Live, true)];
        assert_eq!(next(&all), []);
        assert_eq!(next(&all), []);
        let all = [h1.clone(), record("h2", 2, Live, true), record("h3", 3, Live, false)];
        assert_eq!(next(&all), named(&[("h2", Draining), ("h3", Undrained)]));
        let all = [h1.clone(), record("h2", 2, Dead, true), record("h3", 3, Departed, false)];
        assert_eq!(next(&all), named(&[("h2", Lost), ("h3", Left)]));
        assert_eq!(next(&all), []);
        let all = [h1.clone(), record("h2", 4, Live, true), record("h4", 5, Live, false)];
        assert_eq!(next(&all), named(&[("h2", Added), ("h2", Draining), ("h4", Added)]));
        let all = [h1, record("h2", 6, Live, true)];
        let expected = [("h2", Lost), ("h4", Lost), ("h2", Added), ("h2", Draining)];
        assert_eq!(next(&all), named(&expected));
    }

    #[test]
    fn a_new_daemon_finds_the_hosts_of_the_earlier_one_again_and_adds_the_others() {
        use HostTurn::{Added, Lost};
        use Standing::{Dead, Live};
        let mut hosts = Hosts::new(BTreeSet::from([DaemonName::new("h2").unwrap()]));
        let h1 = record("h1", 1, Live, false);
        let (changes, found) = differences(&mut hosts, std::slice::from_ref(&h1));
        assert_eq!((changes, found), (Vec::new(), vec!["h1".to_owned()]));
        let all = [h1.clone(), record("h2", 2, Live, false), record("h3", 3, Live, false)];
        let (changes, found) = differences(&mut hosts, &all);
        assert_eq!((changes, found), (named(&[("h3", Added)]), vec!["h2".to_owned()]));
        let all = [h1.clone(), record("h2", 2, Dead, false), record("h3", 3, Live, false)];
        assert_eq!(differences(&mut hosts, &all).0, named(&[("h2", Lost)]));
        let all = [h1, record("h2", 4, Live, false), record("h3", 3, Live, false)];
        let (changes, found) = differences(&mut hosts, &all);
        assert_eq!((changes, found), (named(&[("h2", Added)]), Vec::new()));
    }
}
