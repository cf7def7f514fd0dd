//! Invariants that are valid at all times, and invariants that are valid after the faults have stopped.

use std::collections::{BTreeMap, BTreeSet};

use mpd_ring::{MAX_CANDIDATES, Output, Publication, RequestId, Ring};
use mpd_wire::message::ScatterId;
use mpd_wire::{DaemonName, Instance, Record, Standing};

use crate::daemon::Daemon;
use crate::names::{Published, names_agree};
use crate::world::{SECOND, World};

/// A request is answered by its deadline; a frozen daemon answers when it thaws.
type Version = (u64, Standing, Instance, u64);

#[derive(Debug)]
struct Request {
    host: usize,
    incarnation: u32,
    at: u64,
}

/// The observations so far. Violations are collected, not thrown: the schedule reports the first.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) violations: Vec<String>,
    /// Lists are compared with their earlier versions; off for rings of hundreds.
    pub(crate) sparse: bool,
    seen: BTreeMap<usize, (u64, BTreeMap<DaemonName, Version>)>,
    /// The highest incarnation that the owner itself ever had.
    owned: BTreeMap<DaemonName, u64>,
    requests: BTreeMap<RequestId, Request>,
    delivered: BTreeSet<(usize, u32, ScatterId)>,
    pub(crate) names: Published,
    pub(crate) changed: u64,
    pub(crate) most_hops: u32,
    /// Answered requests: whole scatters, partial ones, returned laps, lost laps, names published, names refused.
    pub(crate) replies: [u64; 6],
}

impl Watch {
    fn violation(&mut self, now: u64, host: usize, text: &str) {
        self.violations.push(format!("{:.3} h{host}: {text}", now as f64 / 1e6));
    }

    pub(crate) fn after_step(&mut self, now: u64, host: usize, incarnation: u32, ring: &Ring) {
        self.descriptors_stay_bounded(now, host, ring);
        let _ = incarnation;
        let revision = self.seen.get(&host).map(|(revision, _)| *revision);
        if revision == Some(ring.revision()) {
            return;
        }
        self.changed = now;
        if self.sparse {
            self.seen.insert(host, (ring.revision(), BTreeMap::new()));
        } else {
            self.records_never_go_back(now, host, ring);
            self.only_the_owner_raises(now, host, ring);
        }
    }

    /// A member's (incarnation, standing, instance, position) of any name never decreases.
    fn records_never_go_back(&mut self, now: u64, host: usize, ring: &Ring) {
        let old = self.seen.remove(&host).unwrap_or_default().1;
        let mut new = BTreeMap::new();
        for r in ring.records() {
            let version = (r.incarnation, r.standing, r.instance, r.position);
            if old.get(&r.name).is_some_and(|before| *before > version) {
                self.violation(now, host, &format!("the record of {} went back", r.name));
            }
            new.insert(r.name.clone(), version);
        }
        if old.keys().any(|name| !new.contains_key(name)) {
            self.violation(now, host, "a record vanished");
        }
        self.seen.insert(host, (ring.revision(), new));
    }

    /// Daemons that wait have agreed to these first records.
    pub(crate) fn agreed(&mut self, records: &[Record]) {
        for record in records {
            let owned = self.owned.entry(record.name.clone()).or_default();
            *owned = (*owned).max(record.incarnation);
        }
    }

    /// The incarnation of a member rises only at that member.
    fn only_the_owner_raises(&mut self, now: u64, host: usize, ring: &Ring) {
        for r in ring.records() {
            let owned = self.owned.entry(r.name.clone()).or_default();
            if r.name == *ring.name() {
                *owned = (*owned).max(r.incarnation);
            } else if r.incarnation > *owned + u64::from(r.standing == Standing::Departed) {
                let text = format!("knows an incarnation of {} that it never had", r.name);
                self.violation(now, host, &text);
            }
        }
    }

    fn descriptors_stay_bounded(&mut self, now: u64, host: usize, ring: &Ring) {
        // A few are always permitted, and members are costly to count at each step.
        if ring.descriptors() <= 16 {
            return;
        }
        let members = ring.live_count().max(2);
        let bound = 16 + 4 * members.ilog2() as usize + 2 * MAX_CANDIDATES + members;
        if ring.descriptors() > bound {
            self.violation(now, host, &format!("{} descriptors", ring.descriptors()));
        }
    }

    pub(crate) fn asked(&mut self, request: RequestId, host: usize, incarnation: u32, at: u64) {
        self.requests.insert(request, Request { host, incarnation, at });
    }

    /// A scatter or a lap is answered once.
    pub(crate) fn replied(&mut self, host: usize, now: u64, output: &Output) {
        self.names.said(host, output);
        let (request, kind) = match output {
            Output::Scattered { request, missing, .. } => {
                (request, usize::from(!missing.is_empty()))
            }
            Output::LapsHome { request, .. } => (request, 2),
            Output::LapLost { request, .. } => (request, 3),
            Output::Refused(request) => (request, 1),
            Output::Published { request, result } => {
                (request, if *result == Publication::Done { 4 } else { 5 })
            }
            Output::Unpublished { request, .. } => {
                self.requests.remove(request);
                return;
            }
            _ => return,
        };
        self.replies[kind] += 1;
        match self.requests.remove(request) {
            Some(asked) if asked.host == host => {}
            Some(_) | None => self.violation(now, host, "answered a request twice"),
        }
    }

    /// A member acts once on a scatter.
    pub(crate) fn delivered(&mut self, host: usize, incarnation: u32, id: ScatterId, hops: u32) {
        self.most_hops = self.most_hops.max(hops);
        if !self.delivered.insert((host, incarnation, id)) {
            self.violations.push(format!("h{host} acted twice on {id:?}"));
        }
    }

    pub(crate) fn forget_daemon(&mut self, host: usize) {
        self.seen.remove(&host);
        self.names.forget_daemon(host);
    }
}

/// Checks every invariant after a calm time, among the daemons of `group`.
pub(crate) fn after_calm(world: &World, group: &BTreeSet<usize>) -> Vec<String> {
    let mut violations = Vec::new();
    let checks = [
        lists_equal_the_reachable,
        draining_hosts_are_known,
        links_agree,
        one_cycle,
        nothing_is_pending,
        names_agree,
    ];
    for check in checks {
        violations.extend(check(world, group));
    }
    violations
}

/// Checks that the daemons of `group` are one ring, after a calm time.
pub(crate) fn one_ring(world: &World, group: &BTreeSet<usize>) -> Vec<String> {
    let checks = [lists_equal_the_reachable, draining_hosts_are_known, links_agree, one_cycle];
    checks.into_iter().flat_map(|check| check(world, group)).collect()
}

/// The list of every daemon has as live exactly the running and reachable daemons.
pub(crate) fn lists_equal_the_reachable(world: &World, group: &BTreeSet<usize>) -> Vec<String> {
    let expected: BTreeSet<DaemonName> =
        group.iter().map(|&host| world.hosts[host].name.clone()).collect();
    let mut violations = Vec::new();
    for &host in group {
        let listed: BTreeSet<DaemonName> = world.ring(host).members().into_iter().collect();
        if listed != expected {
            violations.push(format!("h{host} lists {}", names(&listed)));
        }
    }
    if !violations.is_empty() {
        violations.push(format!("expected {}", names(&expected)));
    }
    violations
}

/// Every daemon knows which daemons drain.
fn draining_hosts_are_known(world: &World, group: &BTreeSet<usize>) -> Vec<String> {
    let drains = |host: usize, of: usize| {
        let record = world.ring(host).record(&world.hosts[of].name);
        record.is_some_and(|record| record.draining)
    };
    let wrong = |&host: &usize| {
        let unlike = group.iter().find(|&&of| drains(host, of) != drains(of, of))?;
        Some(format!("h{host} does not know whether h{unlike} is draining"))
    };
    group.iter().filter_map(wrong).collect()
}

fn names(names: &BTreeSet<DaemonName>) -> String {
    names.iter().map(DaemonName::as_str).collect::<Vec<_>>().join(" ")
}

/// A daemon's rhs has that daemon as its lhs, and both hold one end of the same link.
fn links_agree(world: &World, group: &BTreeSet<usize>) -> Vec<String> {
    let mut violations = Vec::new();
    for &host in group.iter().filter(|_| group.len() > 1) {
        let ring = world.ring(host);
        let Some((link, rhs)) = ring.rhs() else {
            violations.push(format!("h{host} has no rhs"));
            continue;
        };
        let wanted = ring.members().get(1).cloned();
        if wanted.as_ref() != Some(rhs) {
            violations.push(format!("h{host} is linked to {rhs} and should be to {wanted:?}"));
        }
        let other = world.hosts.iter().position(|machine| machine.name == *rhs);
        let Some(other) = other.filter(|other| group.contains(other)) else { continue };
        let connection = |of: usize, link| world.hosts[of].ends.get(&link).map(|(id, _)| *id);
        let theirs = world.ring(other).lhs().map(|(link, _)| link);
        let theirs = theirs.and_then(|link| connection(other, link));
        if theirs.is_none() || connection(host, link) != theirs {
            violations.push(format!("h{host} and its rhs {rhs} disagree on their link"));
        }
    }
    violations
}

/// From rhs to rhs, every daemon is visited once.
fn one_cycle(world: &World, group: &BTreeSet<usize>) -> Vec<String> {
    let Some(&first) = group.first() else { return Vec::new() };
    let mut at = first;
    let mut met = BTreeSet::new();
    while met.insert(at) {
        let ring = world.hosts[at].ring.as_ref().map(Daemon::machine);
        let rhs = ring.and_then(Ring::rhs).map(|(_, name)| name.clone());
        let next = world.hosts.iter().position(|machine| Some(&machine.name) == rhs.as_ref());
        at = next.unwrap_or(at);
    }
    if at == first && met == *group {
        Vec::new()
    } else {
        vec![format!("the cycle from h{first} meets {met:?}")]
    }
}

/// No request, no scatter, no lap and no connection beyond the bound is left.
fn nothing_is_pending(world: &World, group: &BTreeSet<usize>) -> Vec<String> {
    let mut violations = Vec::new();
    let log = group.len().max(2).ilog2() as usize;
    for &host in group {
        let ring = world.ring(host);
        if ring.pending() > 0 {
            violations.push(format!("h{host} has {} requests under way", ring.pending()));
        }
        if ring.descriptors() > 16 + 2 * log {
            violations.push(format!("h{host} has {} descriptors", ring.descriptors()));
        }
    }
    for (id, asked) in &world.watch.requests {
        let same = world.hosts[asked.host].incarnation == asked.incarnation;
        if same && world.now - asked.at > 12 * SECOND {
            violations.push(format!("{id:?} of h{} was never answered", asked.host));
        }
    }
    violations
}
