//! Requests for spawned processes at the root, of ranks and of users. The daemon places one request at a time, and each world gets numbers
//! that no earlier world had.

use std::collections::VecDeque;
use std::time::Duration;

use crate::manager::WorldPlan;
use mpd_sansio::Time;
use mpd_wire::job::{HostSlice, HostSlices, MAX_RANKS_EVER, Parts, World};
use mpd_wire::message::MAX_TREE_FRAME;
use mpd_wire::{DaemonName, Rank, RankSet};

/// The longest time for the placement by a daemon, including the daemon's successor.
pub(super) const PLACING_PATIENCE: Duration = Duration::from_secs(15);

/// Most bytes of the parts of one world, and most hosts that join at once, so that they fit a message between managers.
const MAX_PARTS: usize = MAX_TREE_FRAME - 1024;
const MAX_JOINING: usize = 1000;

/// Most waiting requests. A rank has at most one here.
pub(super) const MAX_WAITING: usize = 1 << 17;

/// After this time, hosts that had no free slot are asked again, since others may have joined.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Requests of type `T`, in the order of arrival, each with its spawner; `None`: a user.
#[derive(Debug)]
pub(super) struct SpawnQueue<T> {
    waiting: VecDeque<(Option<Rank>, T)>,
    /// The first waiting request is being placed.
    placing: Option<PlacingNow>,
    /// The first waiting request had no room.
    full: Option<Full>,
    requests: u32,
    /// Counts the changes of the list of waiting requests.
    changes: u64,
    /// The number of worlds that were spawned so far.
    worlds: u32,
    /// The number of the next rank.
    next: u32,
    /// The host that was used last.
    last: Option<DaemonName>,
}

/// A question to the daemon.
#[derive(Clone, Copy, Debug)]
struct PlacingNow {
    number: u32,
    until: Time,
    /// The count of freed slots when it was asked.
    freed: u64,
}

/// No host had a free slot.
#[derive(Clone, Copy, Debug)]
struct Full {
    /// The count of freed slots at the question.
    freed: u64,
    again: Time,
}

impl<T> SpawnQueue<T> {
    /// The queue of a job that begins with `size` ranks.
    pub(super) const fn new(size: u32) -> Self {
        Self {
            waiting: VecDeque::new(),
            placing: None,
            full: None,
            requests: 0,
            changes: 0,
            worlds: 0,
            next: size,
            last: None,
        }
    }

    /// Adds a request of `spawner`. Returns whether there is room for it.
    #[must_use]
    pub(super) fn push(&mut self, spawner: Option<Rank>, request: T) -> bool {
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        self.waiting.push_back((spawner, request));
        self.changes += 1;
        // The spawner is blocked now, so its slot is free.
        self.full = None;
        true
    }

    /// Begins to place the next request, unless one is being placed. `takes_worlds` says whether a world could be
    /// started now. A request that had no room is placed again when `freed`, the count of freed slots, has grown, and
    /// after [`ASK_AGAIN`]. Returns whether a placement has begun: see [`SpawnQueue::placing`].
    pub(super) fn begin_next(&mut self, now: Time, takes_worlds: bool, freed: u64) -> bool {
        let is_full = self.full.is_some_and(|full| full.freed == freed && now < full.again);
        if self.placing.is_some() || self.waiting.is_empty() || !takes_worlds || is_full {
            return false;
        }
        self.requests = self.requests.wrapping_add(1);
        self.full = None;
        self.placing =
            Some(PlacingNow { number: self.requests, until: now + PLACING_PATIENCE, freed });
        true
    }

    /// The request that is being placed, and the number of the question to the daemon.
    pub(super) fn placing(&self) -> Option<(u32, &T)> {
        Some((self.placing?.number, &self.waiting.front()?.1))
    }

    /// The waiting requests with their spawners, in order.
    pub(super) fn waiting(&self) -> impl ExactSizeIterator<Item = (Option<Rank>, &T)> {
        self.waiting.iter().map(|(spawner, request)| (*spawner, request))
    }

    /// Counts the changes of [`SpawnQueue::waiting`].
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// The deadline for the daemon's answer, or the time of the next question. There is none while no world could be
    /// started.
    pub(super) fn deadline(&self, takes_worlds: bool) -> Option<Time> {
        let again = self.full.filter(|_| takes_worlds).map(|full| full.again);
        self.placing.map(|placing| placing.until).or(again)
    }

    /// The daemon has answered the question of that number. Returns the request, which leaves the queue. `None` if the
    /// number is another one, or if no world can be started now: then the question is asked again later.
    pub(super) fn answered(
        &mut self,
        number: u32,
        takes_worlds: bool,
    ) -> Option<(Option<Rank>, T)> {
        self.placing.filter(|placing| placing.number == number)?;
        self.placing = None;
        if takes_worlds { self.pop() } else { None }
    }

    /// The daemon has answered the question of that number: no host has a free slot.
    pub(super) fn found_full(&mut self, now: Time, number: u32) {
        if let Some(placing) = self.placing.filter(|placing| placing.number == number) {
            self.placing = None;
            self.full = Some(Full { freed: placing.freed, again: now + ASK_AGAIN });
        }
    }

    /// The request that no daemon has answered in time, which leaves the queue.
    pub(super) fn expire(&mut self, now: Time) -> Option<(Option<Rank>, T)> {
        self.placing.filter(|placing| placing.until <= now)?;
        self.placing = None;
        self.pop()
    }

    fn pop(&mut self) -> Option<(Option<Rank>, T)> {
        self.changes += 1;
        self.full = None;
        self.waiting.pop_front()
    }

    /// Removes the requests of spawners that have ended, unless the first one is being placed.
    pub(super) fn retain(&mut self, lives: impl Fn(Rank) -> bool) {
        if self.placing.is_none() {
            while self
                .waiting
                .front()
                .is_some_and(|(spawner, _)| spawner.is_some_and(|spawner| !lives(spawner)))
            {
                self.pop();
            }
        }
    }

    /// Forgets all requests, since all programs start again.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.changes += 1;
        (self.placing, self.full) = (None, None);
    }

    /// The host that was used last for a spawned process.
    pub(super) const fn last(&self) -> Option<&DaemonName> {
        self.last.as_ref()
    }

    /// The plan of a world of `size` ranks; `is_awaited` as in [`WorldPlan`]. It has the numbers of the world, and the daemon's placement by tree index.
    /// `last` is the host that the daemon used last, `hosts` are the hosts of the job.
    ///
    /// # Errors
    /// A message for the user: there is no plan.
    pub(super) fn plan(
        &mut self,
        (spawner, size, is_awaited): (Option<Rank>, u32, bool),
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
        Ok(WorldPlan { world, parts, spawner, kvsname, joining, is_awaited })
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
        assert!(!queue.begin_next(now, true, 0), "there is none");
        assert!(queue.push(Some(Rank(1)), 'a') && queue.push(Some(Rank(2)), 'b'));
        assert!(!queue.begin_next(now, false, 0));
        assert!(queue.begin_next(now, true, 0) && !queue.begin_next(now, true, 0));
        assert_eq!(queue.placing(), Some((1, &'a')));
        assert_eq!(queue.answered(7, true), None, "another question");
        assert_eq!(queue.answered(1, false), None, "it is asked again");
        assert!(queue.begin_next(now, true, 0));
        assert_eq!(queue.answered(1, true), None, "an answer to the first question");
        assert_eq!((queue.answered(2, true), queue.placing()), (Some((Some(Rank(1)), 'a')), None));
        assert!(queue.begin_next(now, true, 0));
        assert_eq!(queue.expire(now + LATER), None);
        assert_eq!(queue.expire(now + PLACING_PATIENCE), Some((Some(Rank(2)), 'b')));
        assert_eq!((queue.deadline(true), queue.begin_next(now, true, 0)), (None, false));
    }

    #[test]
    fn a_request_without_room_is_placed_again_when_a_slot_was_freed_and_after_a_second() {
        let mut queue = SpawnQueue::new(4);
        let now = Time::ZERO;
        assert!(queue.push(Some(Rank(1)), 'a') && queue.begin_next(now, true, 3));
        queue.found_full(now, 7);
        assert!(queue.placing().is_some(), "the answer to another question");
        queue.found_full(now, 1);
        assert_eq!((queue.placing(), queue.deadline(true)), (None, Some(now + ASK_AGAIN)));
        assert_eq!(queue.deadline(false), None, "nothing is asked then, so nothing is awaited");
        assert!(!queue.begin_next(now, true, 3));
        assert!(queue.begin_next(now, true, 4), "a slot was freed while the daemon answered");
        queue.found_full(now, 2);
        assert!(queue.begin_next(now + ASK_AGAIN, true, 4), "a host may have joined");
        queue.found_full(now, 3);
        assert!(
            queue.push(Some(Rank(2)), 'b') && queue.begin_next(now, true, 4),
            "rank 2 is blocked now"
        );
        assert_eq!(
            queue.answered(4, true),
            Some((Some(Rank(1)), 'a')),
            "the first request comes first"
        );
    }

    #[test]
    fn a_queue_without_requests_waits_for_nothing() {
        let mut queue = SpawnQueue::new(4);
        let now = Time::ZERO;
        let ask = |queue: &mut SpawnQueue<char>| {
            assert!(queue.push(Some(Rank(1)), 'a') && queue.begin_next(now, true, 0));
            queue.placing().map(|(number, _)| number).unwrap()
        };
        let number = ask(&mut queue);
        queue.found_full(now, number);
        queue.retain(|_| false);
        assert_eq!((queue.waiting().len(), queue.deadline(true)), (0, None));
        let number = ask(&mut queue);
        queue.clear();
        assert_eq!((queue.waiting().len(), queue.deadline(true)), (0, None));
        assert_eq!(queue.answered(number, true), None, "an answer to an earlier run");
    }

    #[test]
    fn requests_of_ended_spawners_leave_the_front_and_the_queue_is_bounded() {
        let mut queue = SpawnQueue::new(4);
        (1..=3).for_each(|rank| assert!(queue.push(Some(Rank(rank)), ())));
        queue.retain(|rank| rank == Rank(3));
        assert_eq!(queue.waiting().map(|(rank, ())| rank).collect::<Vec<_>>(), [Some(Rank(3))]);
        let mut rest = (0..).map(Rank);
        let refused = rest.find(|rank| !queue.push(Some(*rank), ()));
        assert_eq!((queue.waiting().len(), refused), (MAX_WAITING, Some(Rank(131_071))));
    }

    #[test]
    fn worlds_get_numbers_that_none_had_and_hosts_that_the_job_lacks_join_it() {
        let mut queue = SpawnQueue::<()>::new(4);
        let hosts = host_slices(2, 2);
        let both = placed(&[(1, 0, 0), (5, 1, 2)]);
        let mut plan =
            |size, placed| queue.plan((Some(Rank(3)), size, false), "kvs", &hosts, placed);
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
