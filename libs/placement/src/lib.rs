//! The host of each rank: a pure function of the specification and the members of the ring.
//!
//! A host has *slots*: the number of `-ppn`, otherwise the number after its name (`h1:4`),
//! otherwise its daemon's number of CPUs. Hosts are taken in the order of the list. Without a list
//! they are taken in ring order from the console's host. A host takes as many ranks as it has
//! slots, and then the next host follows. With `-rr` each host takes one rank in turn, as long as
//! it has free slots. When all slots are taken, the order begins again. More ranks than slots are
//! allowed. A minor notice reports them if there was a choice of hosts.
//!
//! Ranks of one group (`-g K`: 0 to K-1, K to 2K-1 …) are placed together. A host has room for as
//! many groups as fit its slots, and for at least one. If the number of ranks is no multiple of K,
//! the last group is smaller.
//!
//! Programs without hosts of their own continue where the previous such program ended. The same
//! holds for programs with equal lists. A new list begins with its first host. Slots there that the
//! job has already taken count.
//!
//! A host may have a limit, and the job may refuse more ranks than slots. Both are errors if they do not hold.
//!
//! A *draining* host gets new processes only if it is named.
//!
//! Slots that allocations *hold* do not count, unless the list gives the number of slots. A host whose slots are all held
//! is used only if it is named, or if this is so for all hosts. A major notice reports that.
//!
//! This crate does not use instances, managers or links: the daemon makes [`mpd_wire::job::HostSlices`]
//! of the result.
//!
//! **Users.** The daemon that accepts a job, and the programs that read host files.
//!
//! **Must not know.** Links, processes, files: the text of a host file and the members of the ring
//! come in as values.
//!
//! | module | subject |
//! |---|---|
//! | [`place`] | the host of each rank |
//! | [`spawn`] | the host of each spawned process |
//! | [`allocation`] | the hosts of a batch job |
//! | [`binding`] | the CPUs of each rank |
//! | [`cpu_list`] | lists of CPUs as users write them |
//! | [`rank_file`] | rank files of Open MPI |
//! | [`gpus`] | the GPUs of each rank |
//! | [`description`] | CPUs as parts of a host, for people |
//! | [`locality`] | the position of these CPUs in the topology |
//! | [`hints`] | the hints of a spawn |
//! | [`hosts`] | the host file, and lists of hosts with ranges |
//! | `universe` | the universe size of a job |
//! | [`soft`] | the numbers of processes with which a program can run |
//! | `session` | the share of a session among those of a host |
//! | `members` | the members in ring order, and the meaning of a host's name |
//! | `pool` | a list of hosts that take groups of ranks in turn |
//! | `error` | [`PlacementError`]: the reasons why ranks cannot be placed |
#![forbid(unsafe_code)]

pub mod allocation;
pub mod binding;
pub mod cpu;
pub mod cpu_list;
pub mod description;
mod error;
pub mod gpus;
pub mod hints;
pub mod hosts;
mod load;
pub mod locality;
mod members;
mod pool;
pub mod rank_file;
mod session;
pub mod soft;
pub mod spawn;
#[cfg(test)]
mod test_machine;
#[cfg(test)]
mod tests;
mod universe;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

pub use error::PlacementError;
pub use load::{HostLoad, by_load};
pub use members::{gpus_of, is_alike};
pub use session::niceness_of_session;

use error::Names;
use members::Members;
use mpd_wire::job::{HostChoice, JobSpec, MAX_HOST_SLICES, Notice, PlacementSpec};
use mpd_wire::{Address, DaemonName, RankSet};
use pool::Pool;

/// A member of the ring that can run ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub member: DaemonName,
    /// The addresses of its daemon, the best first.
    pub addresses: Vec<Address>,
    /// Ranks that it takes before another host is preferred.
    pub ncpus: u32,
    /// Its position in ring order.
    pub ordinal: u64,
    /// Whether it gets new processes only if it is named.
    pub draining: bool,
    /// Slots that allocations hold.
    pub held: u32,
    /// Its load and speed, if they matter.
    pub load: HostLoad,
}

impl Candidate {
    /// A member without known addresses that takes new processes, and of which nothing is held or loaded.
    pub fn new(member: DaemonName, ncpus: u32, ordinal: u64) -> Self {
        Self {
            member,
            addresses: Vec::new(),
            ncpus,
            ordinal,
            draining: false,
            held: 0,
            load: HostLoad::default(),
        }
    }
}

/// The hosts of a job's ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The console's host, with or without ranks, then the others by their lowest rank.
    pub hosts: Vec<PlacedHost>,
    /// Notices for the user, a line each; mostly empty.
    pub notices: Vec<Notice>,
    /// The universe size.
    pub universe: u32,
}

/// One host and its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedHost {
    /// The daemon of the host.
    pub member: DaemonName,
    /// The addresses of the daemon, the best first.
    pub addresses: Vec<Address>,
    /// The ranks that run there.
    pub ranks: RankSet,
}

/// Places the ranks of `spec`, which has passed [`JobSpec::check`], on `members`. Each member
/// occurs once. `origin` is the console's host, one of the members.
///
/// # Errors
/// [`PlacementError`], for the user.
pub fn place(
    spec: &JobSpec,
    members: &[Candidate],
    origin: &DaemonName,
) -> Result<Placed, PlacementError> {
    let members =
        Members::new(members, origin, spec.placement.here_first, &spec.placement.exclude)?;
    let universe = universe::size(spec, &members)?;
    let mut places = Places::new(spec, members);
    let size = spec.size();
    let group = spec.placement.group.unwrap_or(1).max(1);
    let mut lists = Lists::new(spec);
    let mut low = 0;
    while low < size {
        let high = low.saturating_add(group).min(size) - 1;
        let list = lists.of_rank(low);
        if (low + 1..=high).any(|rank| lists.of_rank(rank) != list) {
            return Err(PlacementError::Group { low, high });
        }
        places.take(list, lists.distinct[list], low, high)?;
        low = high + 1;
    }
    places.finish(universe)
}

/// The map of ranks to hosts on one line, in the given order: `(h1:0-3)(h2:4,6)`. Hosts without
/// ranks are left out.
pub fn rank_map<'a>(hosts: impl IntoIterator<Item = (&'a DaemonName, &'a RankSet)>) -> String {
    let with_ranks = hosts.into_iter().filter(|(_, ranks)| !ranks.is_empty());
    with_ranks.map(|(member, ranks)| format!("({member}:{ranks})")).collect()
}

/// The lists of hosts of the programs: each list once, with a number.
struct Lists<'a> {
    distinct: Vec<&'a [HostChoice]>,
    /// For each argset the end of its ranks, and the number of its list.
    argsets: Vec<(u32, usize)>,
    /// The argset of the latest requested rank.
    at: usize,
}

impl<'a> Lists<'a> {
    fn new(spec: &'a JobSpec) -> Self {
        let mut all = Self { distinct: Vec::new(), argsets: Vec::new(), at: 0 };
        let mut numbers = BTreeMap::new();
        let mut end = 0;
        for argset in &spec.argsets {
            let number = *numbers.entry(argset.hosts.as_deref()).or_insert_with_key(|own| {
                all.distinct.push(own.unwrap_or(&spec.placement.hosts));
                all.distinct.len() - 1
            });
            end += argset.size;
            all.argsets.push((end, number));
        }
        all
    }

    /// The list of `rank`, which must not be lower than in the previous call.
    fn of_rank(&mut self, rank: u32) -> usize {
        while self.argsets[self.at].0 <= rank {
            self.at += 1;
        }
        self.argsets[self.at].1
    }
}

/// The ranks of a member so far.
#[derive(Clone, Debug, Default)]
struct Taken {
    groups: u32,
    ranges: Vec<(u32, u32)>,
    /// Most ranks, by the lists that name the member.
    max: Option<u32>,
    /// Its ranks use slots that allocations hold.
    shares: bool,
}

impl Taken {
    fn ranks(&self) -> u32 {
        self.ranges.iter().map(|(low, high)| high - low + 1).sum()
    }
}

struct Places<'a> {
    request: &'a PlacementSpec,
    members: Members<'a>,
    /// The pools, by the number of the list.
    pools: BTreeMap<usize, Pool>,
    /// The ranks so far, by the number of the member.
    taken: Vec<Taken>,
}

impl<'a> Places<'a> {
    fn new(spec: &'a JobSpec, members: Members<'a>) -> Self {
        let taken = vec![Taken::default(); members.len()];
        Self { request: &spec.placement, members, pools: BTreeMap::new(), taken }
    }

    /// Gives the ranks `low` to `high` to the next host of a list.
    fn take(
        &mut self,
        number: usize,
        list: &[HostChoice],
        low: u32,
        high: u32,
    ) -> Result<(), PlacementError> {
        let pool = match self.pools.entry(number) {
            Entry::Occupied(pool) => pool.into_mut(),
            Entry::Vacant(place) => {
                let listed = self.members.listed(list)?;
                for host in &listed {
                    let max = &mut self.taken[host.member].max;
                    *max = (*max).or(host.max);
                    self.taken[host.member].shares |= host.shares;
                }
                let taken = |member: usize| self.taken[member].groups;
                place.insert(Pool::new(&listed, self.request, taken))
            }
        };
        let taken = &mut self.taken[pool.next()];
        taken.groups += 1;
        match taken.ranges.last_mut() {
            Some(last) if last.1 + 1 == low => last.1 = high,
            _ => taken.ranges.push((low, high)),
        }
        Ok(())
    }

    /// The notice about draining hosts that have ranks because they were named.
    fn notice(&self) -> Option<Notice> {
        let has_ranks = |&member: &usize| !self.taken[member].ranges.is_empty();
        let is_draining = |&member: &usize| self.members.get(member).draining;
        let used =
            (0..self.members.len()).filter(|member| has_ranks(member) && is_draining(member));
        let names = self.members.names(used);
        let text = || format!("draining, and used because you named them: {}", Names(&names));
        (!names.is_empty()).then(text).map(Notice::major)
    }

    /// The notice about hosts whose slots are all held, and that have ranks nevertheless.
    fn notice_of_shared(&self) -> Option<Notice> {
        let shares = |taken: &Taken| taken.shares && !taken.ranges.is_empty();
        let used = (0..self.members.len()).filter(|&member| shares(&self.taken[member]));
        let names = self.members.names(used);
        let text = || {
            format!(
                "allocations hold all slots ('mpdqueue'), and this job shares them on {}",
                Names(&names)
            )
        };
        (!names.is_empty()).then(text).map(Notice::major)
    }

    /// Checks the limits of hosts, and that no slot has several ranks if that is refused.
    fn check_limits(&self) -> Result<(), PlacementError> {
        for (member, taken) in self.taken.iter().enumerate() {
            let (ranks, max) = (taken.ranks(), taken.max.unwrap_or(u32::MAX));
            if ranks > max {
                let member = self.members.get(member).member.clone();
                return Err(PlacementError::Limit { member, ranks, max });
            }
        }
        match self.pools.values().find_map(Pool::excess).filter(|_| self.request.strict) {
            Some((given, room)) => Err(PlacementError::Crowded { given, room }),
            None => Ok(()),
        }
    }

    fn finish(self, universe: u32) -> Result<Placed, PlacementError> {
        self.check_limits()?;
        let name_of = |member: usize| self.members.get(member).member.to_string();
        let crowd = self.pools.values().find_map(|pool| pool.notice(name_of));
        let notices = self.members.notice().into_iter().chain(crowd).chain(self.notice());
        let notices = notices.chain(self.notice_of_shared()).collect();
        let origin = self.members.origin();
        let mut hosts: Vec<(usize, Taken)> = self.taken.into_iter().enumerate().collect();
        hosts.retain(|(member, taken)| *member == origin || !taken.ranges.is_empty());
        if hosts.len() > MAX_HOST_SLICES {
            return Err(PlacementError::TooManyHosts(hosts.len()));
        }
        hosts.sort_by_key(|(member, taken)| (*member != origin, taken.ranges.first().copied()));
        let placed = hosts.into_iter().map(|(member, taken)| {
            let Candidate { member, addresses, .. } = self.members.get(member);
            PlacedHost {
                member: member.clone(),
                addresses: addresses.clone(),
                ranks: RankSet::from_ranges(taken.ranges),
            }
        });
        Ok(Placed { hosts: placed.collect(), notices, universe })
    }
}
