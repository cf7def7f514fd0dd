//! Requests for spawned processes at the root: one after the other is placed by the daemon, and gets numbers that no
//! world had before.

use std::collections::VecDeque;
use std::time::Duration;

use crate::manager::WorldPlan;
use mpd_machine::Time;
use mpd_wire::job::{MAX_RANKS_EVER, Parts, Share, Shares, World};
use mpd_wire::message::MAX_TREE_FRAME;
use mpd_wire::{DaemonName, Rank, RankSet};

/// How long the daemon, or the one after it, may take to say where processes go.
pub const PLACING_PATIENCE: Duration = Duration::from_secs(15);

/// Most bytes of who runs what of one world, and most hosts that join at once: what a message between
/// managers holds.
const MAX_PARTS: usize = MAX_TREE_FRAME - 1024;
const MAX_JOINING: usize = 1000;

/// Requests of type `T`, in the order in which they came.
#[derive(Debug)]
pub struct SpawnQueue<T> {
    waiting: VecDeque<T>,
    /// The first that waits is being placed, under that number, and until then.
    placing: Option<(u32, Time)>,
    requests: u32,
    /// Worlds that were spawned so far.
    worlds: u32,
    /// The number of the next rank.
    next: u32,
    /// The host that was used last.
    last: Option<DaemonName>,
}

impl<T> SpawnQueue<T> {
    /// That of a job which begins with so many ranks.
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

    /// A request has come.
    pub fn push(&mut self, request: T) {
        self.waiting.push_back(request);
    }

    /// Begins to place the next request, unless one is being placed. `takes_worlds`: a world could be started now.
    /// True if there is one: see [`SpawnQueue::placing`].
    pub fn begin_next(&mut self, now: Time, takes_worlds: bool) -> bool {
        if self.placing.is_some() || self.waiting.is_empty() || !takes_worlds {
            return false;
        }
        self.requests = self.requests.wrapping_add(1);
        self.placing = Some((self.requests, now + PLACING_PATIENCE));
        true
    }

    /// The request that is being placed, and the number under which the daemon is asked.
    pub fn placing(&self) -> Option<(u32, &T)> {
        Some((self.placing?.0, self.waiting.front()?))
    }

    /// Until when a daemon may answer.
    pub fn deadline(&self) -> Option<Time> {
        self.placing.map(|(_, until)| until)
    }

    /// The daemon has answered a question of that number. The request, which leaves the queue; nothing if that was not
    /// the question, or if no world could be started now: then the question is to be asked again later.
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

    /// The plan of a world of so many ranks: its numbers, and by the places of the job what the daemon said by hosts
    /// and by ranks of the world. `last` is the host that it used last, `hosts` are those of the job.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub fn plan(
        &mut self,
        (spawner, size): (Rank, u32),
        kvsname: &str,
        hosts: &Shares,
        (placed, last): (Vec<Share>, DaemonName),
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

/// Which places run what of a world, and hosts that the job does not have yet.
fn parts_of(world: &World, hosts: &Shares, placed: Vec<Share>) -> (Parts, Vec<Share>) {
    let mut parts = Vec::new();
    let mut joining: Vec<Share> = Vec::new();
    for share in placed {
        let in_job = |rank: u32| world.in_job(Rank(rank)).0;
        let ranges = share.ranks.ranges().iter();
        let ranks = ranges.map(|&(low, high)| (in_job(low), in_job(high))).collect();
        let place = hosts.place_of(&share.member).unwrap_or_else(|| {
            // The daemon knows the addresses of all.
            joining.push(Share { ranks: RankSet::none(), addresses: Vec::new(), ..share });
            hosts.len() + joining.len() - 1
        });
        parts.push((u32::try_from(place).unwrap_or(u32::MAX), RankSet::from_ranges(ranks)));
    }
    (Parts(parts), joining)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::tests::{name, shares};

    const LATER: Duration = Duration::from_secs(1);

    /// What a daemon says: the hosts of these numbers run these ranks of the world.
    fn placed(hosts: &[(usize, u32, u32)]) -> (Vec<Share>, DaemonName) {
        let template = shares(1, 1).get(0).unwrap().clone();
        let share = |&(host, low, high): &(usize, u32, u32)| Share {
            member: name(host),
            ranks: RankSet::from_ranges(vec![(low, high)]),
            ..template.clone()
        };
        let placed: Vec<Share> = hosts.iter().map(share).collect();
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
        let hosts = shares(2, 2);
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
