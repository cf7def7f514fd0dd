//! Which rank runs on which host: a pure function of the specification and the members of the ring.
//!
//! A host has *slots*: what `-ppn` says, else what stands behind its name (`h1:4`), else its daemon's
//! number of CPUs. Hosts come in the order in which they are listed; without a list in ring order
//! from the console's host. A host takes as many ranks as it has slots, then the next one does; with
//! `-rr` each takes one in turn, as long as it has slots. When all slots are taken everything begins
//! again. More ranks than slots are allowed; a minor notice reports them if there were hosts to choose from.
//!
//! Ranks of one group (`-g K`: 0 to K-1, K to 2K-1 …) are placed together, and a host has room for as
//! many groups as fit its slots, but for one at least. If the number of ranks is no multiple of K the
//! last group is smaller.
//!
//! Programs without hosts of their own, and those with equal ones, go on where the one before them
//! ended. A list that is new begins with its first host; slots that the job has taken there already
//! count.
//!
//! A host that is *draining* gets new processes only where it is named.
//!
//! Nothing here knows of instances, managers or links: [`mpd_wire::job::Shares`] are made of the result.
//!
//! **Users.** The daemon that accepts a job, and the programs that read host files.
//!
//! **Must not know.** Links, processes, files: the text of a host file and the members of the ring come in as values.
//!
//! | module | subject |
//! |---|---|
//! | [`place`] | which rank runs on which host |
//! | [`spawn`] | which spawned process runs on which host |
//! | [`binding`] | which CPUs a rank is bound to |
//! | [`hosts`] | the host file, and lists of hosts with ranges |
//! | [`soft`] | the numbers of processes that a program can be run with |
#![forbid(unsafe_code)]

pub mod binding;
mod error;
pub mod hosts;
mod members;
mod pool;
pub mod soft;
pub mod spawn;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

pub use error::PlacementError;

use error::Names;
use members::Members;
use mpd_wire::job::{HostWish, JobSpec, MAX_SHARES, Notice, PlacementSpec};
use mpd_wire::{Address, DaemonName, RankSet};
use pool::Pool;

/// A member of the ring that can run ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub member: DaemonName,
    /// Where it is reached, the best first.
    pub addresses: Vec<Address>,
    /// Ranks that it takes before another is preferred.
    pub ncpus: u32,
    /// Its place in ring order.
    pub ordinal: u64,
    /// Whether it gets new processes only where it is named.
    pub draining: bool,
}

/// Where the ranks of a job run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The console's host, with or without ranks, then the others by their lowest rank.
    pub hosts: Vec<PlacedHost>,
    /// What the user should hear, a line each, mostly nothing.
    pub notices: Vec<Notice>,
}

/// One host's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedHost {
    /// The daemon there.
    pub member: DaemonName,
    /// Where it is reached, the best first.
    pub addresses: Vec<Address>,
    /// The ranks that run there.
    pub ranks: RankSet,
}

/// Places the ranks of `spec`, which has passed [`JobSpec::check`], on `members`, each of which is
/// there once. `origin` is the console's host, one of them.
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
        places.take(list, lists.distinct[list], (low, high))?;
        low = high + 1;
    }
    places.finish()
}

/// Which ranks run where, on one line: `(h1:0-3)(h2:4,6)`, in the order given; hosts without ranks
/// are left out.
pub fn rank_map<'a>(hosts: impl IntoIterator<Item = (&'a DaemonName, &'a RankSet)>) -> String {
    let with_ranks = hosts.into_iter().filter(|(_, ranks)| !ranks.is_empty());
    with_ranks.map(|(member, ranks)| format!("({member}:{ranks})")).collect()
}

/// The lists of hosts that the programs have, each once and by its number.
struct Lists<'a> {
    distinct: Vec<&'a [HostWish]>,
    /// Where the ranks of each argset end, and its list.
    argsets: Vec<(u32, usize)>,
    /// The argset of the rank asked for last.
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

    /// The list of `rank`, which is none before the one asked for last.
    fn of_rank(&mut self, rank: u32) -> usize {
        while self.argsets[self.at].0 <= rank {
            self.at += 1;
        }
        self.argsets[self.at].1
    }
}

/// What a member has got so far.
#[derive(Clone, Debug, Default)]
struct Taken {
    groups: u32,
    ranges: Vec<(u32, u32)>,
}

struct Places<'a> {
    wish: &'a PlacementSpec,
    members: Members<'a>,
    /// By the number of the list.
    pools: BTreeMap<usize, Pool>,
    /// By the number of the member.
    taken: Vec<Taken>,
}

impl<'a> Places<'a> {
    fn new(spec: &'a JobSpec, members: Members<'a>) -> Self {
        let taken = vec![Taken::default(); members.len()];
        Self { wish: &spec.placement, members, pools: BTreeMap::new(), taken }
    }

    /// Gives the ranks `low` to `high` to the next host of a list.
    fn take(
        &mut self,
        number: usize,
        list: &[HostWish],
        (low, high): (u32, u32),
    ) -> Result<(), PlacementError> {
        let pool = match self.pools.entry(number) {
            Entry::Occupied(pool) => pool.into_mut(),
            Entry::Vacant(place) => {
                let taken = |member: usize| self.taken[member].groups;
                place.insert(Pool::new(&self.members.listed(list)?, self.wish, taken))
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

    /// What is to be said of draining hosts, which were named if they have ranks.
    fn notice(&self) -> Option<Notice> {
        let has_ranks = |&member: &usize| !self.taken[member].ranges.is_empty();
        let is_draining = |&member: &usize| self.members.get(member).draining;
        let used =
            (0..self.members.len()).filter(|member| has_ranks(member) && is_draining(member));
        let names = self.members.names(used);
        let text = || format!("draining, and used because you named them: {}", Names(&names));
        (!names.is_empty()).then(text).map(Notice::major)
    }

    fn finish(self) -> Result<Placed, PlacementError> {
        let crowd = self.pools.values().find_map(Pool::notice);
        let notices = self.members.notice().into_iter().chain(crowd).chain(self.notice()).collect();
        let origin = self.members.origin();
        let mut hosts: Vec<(usize, Taken)> = self.taken.into_iter().enumerate().collect();
        hosts.retain(|(member, taken)| *member == origin || !taken.ranges.is_empty());
        if hosts.len() > MAX_SHARES {
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
        Ok(Placed { hosts: placed.collect(), notices })
    }
}
