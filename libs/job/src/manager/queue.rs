//! Requests for spawned processes at the root. The daemon places one request at a time, and each world gets numbers
//! that no earlier world had.

use std::collections::VecDeque;
use std::time::Duration;

use crate::manager::WorldPlan;
use mpd_machine::Time;
use mpd_wire::job::{HostSlice, HostSlices, MAX_RANKS_EVER, Parts, World};
use mpd_wire::message::MAX_TREE_FRAME;
use mpd_wire::{DaemonName, Rank, RankSet};

/// The longest time for the placement by a daemon, including the daemon's successor.
pub const PLACING_PATIENCE: Duration = Duration::from_secs(15);

/// Most bytes of the parts of one world, and most hosts that join at once, so that they fit a message between managers.
const MAX_PARTS: usize = MAX_TREE_FRAME - 1024;
const MAX_JOINING: usize = 1000;

/// Requests of type `T`, in the order of arrival.
#[derive(Debug)]
pub struct SpawnQueue<T> {
    waiting: VecDeque<T>,
    /// The first waiting request is being placed: its number, and the deadline.
    placing: Option<(u32, Time)>,
    requests: u32,
    /// The number of worlds that were spawned so far.
    worlds: u32,
    /// The number of the next rank.
    next: u32,
    /// The host that was used last.
    last: Option<DaemonName>,
}

impl<T> SpawnQueue<T> {
    /// The queue of a job that begins with `size` ranks.
    pub const fn new(size: u32) -> Self {
        Self {
            waiting: VecDeque::new(),
            placing: None,
            requests: 0,
            worlds: 0,
            next: size,
            last: None,
        }
    }

    /// Adds a request.
    pub fn push(&mut self, request: T) {
        self.waiting.push_back(request);
    }

    /// Begins to place the next request, unless one is being placed. `takes_worlds` says whether a world could be
    /// started now. Returns whether a placement has begun: see [`SpawnQueue::placing`].
    pub fn begin_next(&mut self, now: Time, takes_worlds: bool) -> bool {
        if self.placing.is_some() || self.waiting.is_empty() || !takes_worlds {
            return false;
        }
        self.requests = self.requests.wrapping_add(1);
        self.placing = Some((self.requests, now + PLACING_PATIENCE));
        true
    }

    /// The request that is being placed, and the number of the question to the daemon.
    pub fn placing(&self) -> Option<(u32, &T)> {
        Some((self.placing?.0, self.waiting.front()?))
    }

    /// The deadline for the daemon's answer.
    pub fn deadline(&self) -> Option<Time> {
        self.placing.map(|(_, until)| until)
    }

    /// The daemon has answered the question of that number. Returns the request, which leaves the queue. `None` if the
    /// number is another one, or if no world can be started now: then the question is asked again later.
    pub fn answered(&mut self, number: u32, takes_worlds: bool) -> Option<T> {
        if self.placing.is_none_or(|(asked, _)| asked != number) {
            return None;
        }
        self.placing = None;
        if takes_worlds { self.waiting.pop_front() } else { None }
    }

    /// The request that no daemon has answered in time, which leaves the queue.
    pub fn expire(&mut self, now: Time) -> Option<T> {
        self.placing.filter(|(_, until)| *until <= now)?;
        self.placing = None;
        self.waiting.pop_front()
    }

    /// The host that was used last for a spawned process.
    pub const fn last(&self) -> Option<&DaemonName> {
        self.last.as_ref()
    }

    /// The plan of a world of `size` ranks. It has the numbers of the world, and the daemon's placement by tree index.
    /// `last` is the host that the daemon used last, `hosts` are the hosts of the job.
    ///
    /// # Errors
    /// A message for the user: there is no plan.
    pub fn plan(
        &mut self,
        (spawner, size): (Rank, u32),
        kvsname: &str,
        hosts: &HostSlices,
        (placed, last): (Vec<HostSlice>, DaemonName),
    ) -> Result<WorldPlan, String> {
        self.last = Some(last);
        let first = self.next;
        if size > MAX_RANKS_EVER - first {
            return Err(format!("the job has had {first} processes and cannot have {size} more"));
        }
        self.worlds += 1;
        self.next += size;
        let world = World { number: self.worlds, first: Rank(first), size };
        let (parts, joining) = parts_of(&world, hosts, placed);
        if !parts.are_of(&world) {
            return Err("the daemon here has not placed all of it".to_owned());
        }
        let bytes = serde_json::to_vec(&parts).map_or(usize::MAX, |bytes| bytes.len());
        if bytes > MAX_PARTS || joining.len() > MAX_JOINING {
            let problem = "it is spread over too many places for one message; spawn fewer at once";
            return Err(problem.to_owned());
        }
        let kvsname = world.kvsname(kvsname);
        Ok(WorldPlan { world, parts, spawner, kvsname, joining })
    }
}

/// The parts of a world by tree index, and the hosts that have to join the job.
fn parts_of(world: &World, hosts: &HostSlices, placed: Vec<HostSlice>) -> (Parts, Vec<HostSlice>) {
    let mut parts = Vec::new();
    let mut joining: Vec<HostSlice> = Vec::new();
    for host_slice in placed {
        let in_job = |rank: u32| world.in_job(Rank(rank)).0;
        let ranges = host_slice.ranks.ranges().iter();
        let ranks = ranges.map(|&(low, high)| (in_job(low), in_job(high))).collect();
        let tree_index = hosts.tree_index_of(&host_slice.member).unwrap_or_else(|| {
            // The daemon knows the addresses of all hosts.
            joining.push(HostSlice { ranks: RankSet::none(), addresses: Vec::new(), ..host_slice });
            hosts.len() + joining.len() - 1
        });
        parts.push((u32::try_from(tree_index).unwrap_or(u32::MAX), RankSet::from_ranges(ranks)));
    }
    (Parts(parts), joining)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::tests::{host_slices, name};

    const LATER: Duration = Duration::from_secs(1);

    /// A daemon's answer: the hosts of these numbers run these ranks of the world.
    fn placed(hosts: &[(usize, u32, u32)]) -> (Vec<HostSlice>, DaemonName) {
        let template = host_slices(1, 1).get(0).unwrap().clone();
        let host_slice = |&(host, low, high): &(usize, u32, u32)| HostSlice {
            member: name(host),
            ranks: RankSet::from_ranges(vec![(low, high)]),
            ..template.clone()
        };
        let placed: Vec<HostSlice> = hosts.iter().map(host_slice).collect();
        let last = placed.last().unwrap().member.clone();
        (placed, last)
    }

    #[test]
    fn requests_are_placed_one_after_the_other_and_only_while_worlds_can_be_started() {
        let mut queue = SpawnQueue::new(4);
        let now = Time::ZERO;
        assert!(!queue.begin_next(now, true), "there is none");
        queue.push('a');
        queue.push('b');
        assert!(!queue.begin_next(now, false));
        assert!(queue.begin_next(now, true) && !queue.begin_next(now, true));
        assert_eq!(queue.placing(), Some((1, &'a')));
        assert_eq!(queue.answered(7, true), None, "another question");
        assert_eq!(queue.answered(1, false), None, "it is asked again");
        assert!(queue.begin_next(now, true));
        assert_eq!(queue.answered(1, true), None, "an answer to the first question");
        assert_eq!((queue.answered(2, true), queue.placing()), (Some('a'), None));
        assert!(queue.begin_next(now, true));
        assert_eq!(queue.expire(now + LATER), None);
        assert_eq!(queue.expire(now + PLACING_PATIENCE), Some('b'));
        assert_eq!((queue.deadline(), queue.begin_next(now, true)), (None, false));
    }

    #[test]
    fn worlds_get_numbers_that_none_had_and_hosts_that_the_job_lacks_join_it() {
        let mut queue = SpawnQueue::<()>::new(4);
        let hosts = host_slices(2, 2);
        let both = placed(&[(1, 0, 0), (5, 1, 2)]);
        let mut plan = |size, placed| queue.plan((Rank(3), size), "kvs", &hosts, placed);
        let first = plan(3, both).unwrap();
        assert_eq!(first.world, World { number: 1, first: Rank(4), size: 3 });
        let ranges = |low, high| RankSet::from_ranges(vec![(low, high)]);
        assert_eq!(first.parts, Parts(vec![(1, ranges(4, 4)), (2, ranges(5, 6))]));
        assert_eq!(first.joining.len(), 1);
        let second = plan(1, placed(&[(1, 0, 0)])).unwrap();
        assert_eq!(second.world, World { number: 2, first: Rank(7), size: 1 });
        assert!(plan(2, placed(&[(1, 0, 0)])).unwrap_err().contains("not placed all"));
        let all = MAX_RANKS_EVER;
        assert!(plan(all, placed(&[(1, 0, all - 1)])).unwrap_err().contains("cannot have"));
    }
}
