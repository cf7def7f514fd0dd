use proptest::prelude::*;

use mpd_wire::job::SpawnBlock;

use super::*;
use mpd_wire::job::Misfit;

const FIVE: &str = "h1 h2 h3 h4 h5";

fn name(text: &str) -> DaemonName {
    DaemonName::new(text).unwrap()
}

/// `h1:2 h2:4-` as a ring in this order; `-` marks a draining host.
fn ring(text: &str) -> Vec<Candidate> {
    let member = |(ordinal, word): (u64, &str)| {
        let (word, draining) = word.strip_suffix('-').map_or((word, false), |word| (word, true));
        let (member, ncpus) = word.split_once(':').unwrap_or((word, "1"));
        let ncpus = ncpus.parse().unwrap();
        Candidate { draining, ..Candidate::new(name(member), ncpus, ordinal) }
    };
    (1..).zip(text.split_whitespace()).map(member).collect()
}

/// `a:4 b` as a list of hosts.
fn list(text: &str) -> Vec<HostChoice> {
    let host = |word: &str| match word.split_once(':') {
        Some((name, slots)) => HostChoice::new(name.into(), slots.parse().ok()),
        None => HostChoice::new(word.into(), None),
    };
    text.split_whitespace().map(host).collect()
}

const fn block(size: u32) -> SpawnBlock {
    SpawnBlock { size, hosts: None, policy: None }
}

fn on(size: u32, hosts: &str) -> SpawnBlock {
    SpawnBlock { hosts: Some(list(hosts)), ..block(size) }
}

/// A job, with the data that its root manager keeps from one spawn to the next.
struct Job {
    members: Vec<Candidate>,
    request: SpawnPlacement,
    /// The former ordinal of [`SpawnPlacement::last`].
    stood: Option<u64>,
}

impl Job {
    /// A job whose first world is a single process on the first host.
    fn new(members: &str, policy: SpawnPolicy) -> Self {
        let members = ring(members);
        let first = members[0].member.clone();
        let request = SpawnPlacement {
            blocks: Vec::new(),
            policy,
            hosts: Vec::new(),
            exclude: Vec::new(),
            last: Some(first.clone()),
            running: vec![(first, 1)],
            blocked: Vec::new(),
            limit: None,
            nevertheless: false,
            lost: Vec::new(),
            here_first: true,
        };
        Self { members, request, stood: None }
    }

    fn rr(members: &str) -> Self {
        Self::new(members, SpawnPolicy::RoundRobin)
    }

    fn place(&mut self, blocks: Vec<SpawnBlock>) -> Result<SpawnPlacing, PlacementError> {
        self.request.blocks = blocks;
        place_spawn(&self.request, &self.members, &self.members[0].member, self.stood)
    }

    fn try_spawn(&mut self, blocks: Vec<SpawnBlock>) -> Result<SpawnPlaced, PlacementError> {
        let placed = match self.place(blocks)? {
            SpawnPlacing::Placed(placed) => placed,
            SpawnPlacing::Full => panic!("no room"),
        };
        for host in &placed.hosts {
            let running = &mut self.request.running;
            match running.iter_mut().find(|(member, _)| *member == host.member) {
                Some((_, count)) => *count += host.ranks.count(),
                None => running.push((host.member.clone(), host.ranks.count())),
            }
        }
        self.request.last = Some(placed.last.clone());
        Ok(placed)
    }

    fn spawn(&mut self, blocks: Vec<SpawnBlock>) -> String {
        let placed = self.try_spawn(blocks).unwrap();
        super::super::rank_map(placed.hosts.iter().map(|host| (&host.member, &host.ranks)))
    }

    fn problem(&mut self, blocks: Vec<SpawnBlock>) -> String {
        self.try_spawn(blocks).unwrap_err().to_string()
    }

    /// Processes on each host, in the order of the ring.
    fn counts(&self) -> Vec<u32> {
        let on = |member| self.request.running.iter().find(|(name, _)| name == member);
        self.members.iter().map(|one| on(&one.member).map_or(0, |(_, count)| *count)).collect()
    }

    fn spawned(&self) -> Vec<u32> {
        let mut counts = self.counts();
        counts[0] -= 1;
        counts
    }
}

#[test]
fn twenty_spawns_of_one_and_one_of_twenty_give_each_of_five_hosts_four() {
    let mut job = Job::rr(FIVE);
    for _ in 0..20 {
        job.spawn(vec![block(1)]);
    }
    assert_eq!(job.spawned(), [4; 5]);
    let mut job = Job::rr(FIVE);
    assert_eq!(
        job.spawn(vec![block(20)]),
        "(h2:0,5,10,15)(h3:1,6,11,16)(h4:2,7,12,17)(h5:3,8,13,18)(h1:4,9,14,19)"
    );
    assert_eq!(job.request.last, Some(name("h1")));
}

#[test]
fn a_spawn_continues_where_the_previous_spawn_of_another_size_ended() {
    let mut job = Job::rr(FIVE);
    assert_eq!(job.spawn(vec![block(3)]), "(h2:0)(h3:1)(h4:2)");
    assert_eq!(job.spawn(vec![block(1)]), "(h5:0)");
    assert_eq!(job.spawn(vec![block(1), block(2)]), "(h1:0)(h2:1)(h3:2)");
    assert_eq!(job.spawn(vec![block(6)]), "(h4:0,5)(h5:1)(h1:2)(h2:3)(h3:4)");
    assert_eq!(job.counts(), [3, 3, 3, 3, 2]);
}

/// Like a program that computes a Fibonacci number by spawning itself twice.
fn fib(job: &mut Job, n: u32) {
    if n > 1 {
        job.spawn(vec![block(1)]);
        fib(job, n - 1);
        job.spawn(vec![block(1)]);
        fib(job, n - 2);
    }
}

#[test]
fn processes_of_a_spawn_tree_are_spread_evenly_whichever_rank_spawns() {
    let mut job = Job::rr(FIVE);
    fib(&mut job, 6);
    assert_eq!(job.counts(), [5; 5]);
    let mut job = Job::rr(FIVE);
    fib(&mut job, 13);
    assert_eq!(job.counts(), [151, 151, 151, 150, 150]);
    let mut job = Job::rr(FIVE);
    for _ in 0..38 {
        job.spawn(vec![block(1)]);
    }
    assert_eq!(job.counts(), [8, 8, 8, 8, 7], "39 processes that look for primes");
}

#[test]
fn without_a_host_used_before_the_order_begins_where_the_first_world_would() {
    let mut job = Job::rr("a b c");
    job.request.last = None;
    assert_eq!(job.spawn(vec![block(2)]), "(a:0)(b:1)");
    job.request.last = None;
    job.request.here_first = false;
    assert_eq!(job.spawn(vec![block(2)]), "(b:0)(c:1)");
}

#[test]
fn a_host_that_has_left_the_ring_does_not_change_the_order() {
    let mut job = Job::rr("a b c d");
    job.spawn(vec![block(2)]);
    assert_eq!(job.request.last, Some(name("c")));
    let c = job.members.remove(2);
    job.stood = Some(c.ordinal);
    assert_eq!(job.spawn(vec![block(1)]), "(d:0)");
    job.request.last = Some(name("z"));
    job.stood = Some(9);
    assert_eq!(job.spawn(vec![block(2)]), "(a:0)(b:1)", "the first comes behind the last");
    job.request.last = Some(name("forgotten"));
    job.stood = None;
    assert_eq!(job.spawn(vec![block(1)]), "(a:0)");
}

#[test]
fn hosts_of_the_job_that_have_left_the_ring_are_skipped_in_their_order() {
    let mut job = Job::rr("a b c d e");
    job.request.hosts = list("a d c b");
    assert_eq!(job.spawn(vec![block(2)]), "(d:0)(c:1)");
    job.members.remove(2);
    assert_eq!(job.spawn(vec![block(1)]), "(b:0)");
    job.request.last = Some(name("c"));
    assert_eq!(job.spawn(vec![block(4)]), "(b:0,3)(a:1)(d:2)");
    job.request.hosts = list("c x");
    assert!(job.problem(vec![block(1)]).starts_with("not in the ring: c, x; choose from a,"));
}

#[test]
fn hosts_of_a_block_restrict_it_and_are_taken_in_their_order() {
    let mut job = Job::rr(FIVE);
    assert_eq!(job.spawn(vec![on(3, "h5 h3")]), "(h5:0,2)(h3:1)");
    assert_eq!(job.spawn(vec![on(1, "h5 h3")]), "(h3:0)", "h5 was used last");
    assert_eq!(job.spawn(vec![block(1)]), "(h4:0)");
    assert_eq!(job.spawn(vec![on(2, "h2 h1 h2"), block(1)]), "(h2:0,2)(h1:1)");
    let unknown = job.problem(vec![block(1), on(1, "h2 nowhere")]);
    assert_eq!(
        unknown,
        "not in the ring: nowhere; choose from h1, h2, h3, h4, h5, or start daemons there with mpdboot"
    );
    assert_eq!(job.problem(vec![block(0)]), Misfit::NoRanks.to_string());
}

#[test]
fn the_least_loaded_host_gets_the_next_process_and_the_cursor_decides_ties() {
    let mut job = Job::new("a:1 b:2 c:4", SpawnPolicy::Load);
    assert_eq!(job.spawn(vec![block(2)]), "(b:0)(c:1)");
    // The loads are 1, 1/2 and 1/4. c takes one process and is level with b. The cursor is at c, so
    // b takes the next.
    assert_eq!(job.spawn(vec![block(3)]), "(c:0,2)(b:1)");
    assert_eq!(job.counts(), [1, 2, 3]);
    job.request.running = vec![(name("a"), 0), (name("b"), 9), (name("c"), 9)];
    assert_eq!(job.spawn(vec![block(3)]), "(a:0-2)", "9/4 are more than 2");
    let mut equal = Job::new(FIVE, SpawnPolicy::Load);
    for _ in 0..24 {
        equal.spawn(vec![block(1)]);
    }
    assert_eq!(equal.counts(), [5; 5]);
}

#[test]
fn with_a_limit_a_spawn_waits_for_slots_that_no_working_process_occupies() {
    for policy in SpawnPolicy::ALL {
        let mut job = Job::new("a b:2 c", policy);
        job.request.limit = Some(1);
        assert_eq!(
            job.place(vec![block(4)]),
            Ok(SpawnPlacing::Full),
            "the first process occupies a"
        );
        job.spawn(vec![block(3)]);
        assert_eq!(job.counts(), [1, 2, 1]);
        assert_eq!(job.place(vec![block(1)]), Ok(SpawnPlacing::Full));
        job.request.blocked = vec![(name("b"), 1), (name("a"), 1)];
        job.spawn(vec![block(2)]);
        assert_eq!(job.counts(), [2, 3, 1]);
        assert_eq!(job.place(vec![on(1, "c")]), Ok(SpawnPlacing::Full));
        job.members.extend(ring("d"));
        job.spawn(vec![block(1)]);
        assert_eq!(job.counts(), [2, 3, 1, 1], "a host has joined");
        job.request.limit = Some(2);
        job.spawn(vec![block(5)]);
        assert_eq!(job.counts(), [3, 5, 2, 2], "two for each slot");
    }
}

#[test]
fn slots_of_the_list_count_for_the_limit_and_a_spawn_that_must_not_wait_exceeds_it() {
    let mut job = Job::rr("a:8 b:8");
    (job.request.limit, job.request.hosts) = (Some(1), list("a:1 b:1"));
    assert_eq!(job.spawn(vec![block(1)]), "(b:0)");
    assert_eq!(job.place(vec![block(2)]), Ok(SpawnPlacing::Full));
    job.request.nevertheless = true;
    assert_eq!(job.spawn(vec![block(2)]), "(a:0)(b:1)");
}

#[test]
fn by_load_a_faster_host_gets_more_and_one_that_others_use_fewer() {
    let mut job = Job::new("a b c", SpawnPolicy::Load);
    job.members[1].load.speed = 200;
    // One process of another job, and the one of this job.
    job.members[0].load.running = 200;
    job.spawn(vec![block(20)]);
    // With the other process a has 6 for one CPU, b has 10 and c 6: 6, 5 and 6 at the speed of each.
    assert_eq!(job.counts(), [5, 10, 6]);
    let fast = HostChoice { speed: Some(300), ..HostChoice::new("c".into(), None) };
    let own = SpawnBlock { hosts: Some(vec![list("b").remove(0), fast]), ..block(4) };
    job.request.running.clear();
    job.spawn(vec![own]);
    assert_eq!(job.counts(), [0, 2, 2]);
}

#[test]
fn blocked_processes_are_no_load() {
    let mut job = Job::new("a b", SpawnPolicy::Load);
    job.request.running = vec![(name("a"), 3), (name("b"), 2)];
    job.request.blocked = vec![(name("a"), 2)];
    assert_eq!(job.spawn(vec![block(1)]), "(a:0)");
}

#[test]
fn packing_fills_the_host_used_last_then_the_next_and_begins_again() {
    let mut job = Job::new("a:2 b:3 c:2", SpawnPolicy::Pack);
    assert_eq!(job.spawn(vec![block(3)]), "(a:0)(b:1-2)");
    assert_eq!(job.spawn(vec![block(1)]), "(b:0)");
    assert_eq!(job.spawn(vec![block(3)]), "(c:0-1)(a:2)");
    assert_eq!(job.spawn(vec![block(2)]), "(a:0)(b:1)");
    job.request.running = vec![(name("a"), 4), (name("b"), 1), (name("c"), 4)];
    assert_eq!(job.spawn(vec![block(6)]), "(b:0-4)(c:5)", "what has ended makes room");
}

#[test]
fn packing_counts_the_slots_given_in_a_list() {
    let mut job = Job::new("a b c", SpawnPolicy::RoundRobin);
    let packed = |size, hosts| SpawnBlock { policy: Some(SpawnPolicy::Pack), ..on(size, hosts) };
    assert_eq!(job.spawn(vec![packed(6, "c:4 b:1")]), "(c:0-3,5)(b:4)");
    assert_eq!(job.spawn(vec![packed(3, "b b a")]), "(b:0,2)(a:1)");
}

#[test]
fn draining_excluded_and_lost_hosts_get_no_process_and_the_order_stays() {
    let mut job = Job::rr("a b- c d e");
    job.request.exclude = vec!["d".to_owned()];
    job.request.lost = vec![name("e")];
    assert_eq!(job.spawn(vec![block(3)]), "(c:0,2)(a:1)");
    job.request.last = Some(name("b"));
    assert_eq!(job.spawn(vec![block(1)]), "(c:0)", "the one behind b");
    assert_eq!(
        job.problem(vec![on(1, "e b d")]),
        "no host is left for spawned processes; draining (mpddrain): b; excluded: d; lost to this job: e"
    );
    let mut job = Job::rr("a- b-");
    assert_eq!(
        job.problem(vec![block(1)]),
        "no host is left for spawned processes; draining (mpddrain): a, b"
    );
}

fn any_policy() -> impl Strategy<Value = SpawnPolicy> {
    prop::sample::select(SpawnPolicy::ALL.to_vec())
}

proptest! {
    #[test]
    fn no_host_gets_two_processes_more_than_another_in_any_sequence_of_spawns(
        hosts in 1..12_usize,
        spawns in prop::collection::vec(prop::collection::vec(1..20_u32, 1..4), 1..20),
        policy in prop::sample::select(vec![SpawnPolicy::RoundRobin, SpawnPolicy::Load]),
    ) {
        let names: Vec<String> = (1..=hosts).map(|host| format!("h{host}")).collect();
        let mut job = Job::new(&names.join(" "), policy);
        for sizes in spawns {
            job.spawn(sizes.into_iter().map(block).collect());
            let counts = job.counts();
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn every_rank_is_placed_once_and_only_on_allowed_hosts(
        hosts in prop::collection::vec((1..5_u32, 0..6_u8, 0..9_u32), 1..10),
        sizes in prop::collection::vec((1..30_u32, any_policy(), any::<bool>()), 1..6),
        last in 0..12_usize,
        limit in prop::option::of(1..12_u32),
        nevertheless in any::<bool>(),
    ) {
        let mut job = Job::rr("x");
        let member = |(host, (ncpus, fate, _)): (usize, &(u32, u8, u32))| Candidate {
            draining: *fate == 0,
            ..Candidate::new(name(&format!("h{host}")), *ncpus, host as u64)
        };
        job.members = hosts.iter().enumerate().map(member).collect();
        let named = |which: u8| {
            let fitting = job.members.iter().zip(&hosts).filter(|(_, host)| host.1 == which);
            fitting.map(|(member, _)| member.member.clone()).collect::<Vec<_>>()
        };
        let closed: Vec<DaemonName> = (0..3).flat_map(named).collect();
        job.request.exclude = named(1).iter().map(DaemonName::to_string).collect();
        job.request.lost = named(2);
        job.request.last = Some(name(&format!("h{last}")));
        job.stood = Some(last as u64);
        job.request.running =
            job.members.iter().zip(&hosts).map(|(m, host)| (m.member.clone(), host.2)).collect();
        let all: Vec<String> = job.members.iter().rev().map(|m| m.member.to_string()).collect();
        let blocks = sizes.iter().map(|&(size, policy, own)| SpawnBlock {
            size,
            hosts: own.then(|| list(&all.join(" "))),
            policy: Some(policy),
        });
        job.request.blocks = blocks.collect();
        (job.request.limit, job.request.nevertheless) = (limit, nevertheless);
        let place = || place_spawn(&job.request, &job.members, &job.members[0].member, job.stood);
        prop_assert_eq!(place(), place());
        match place() {
            Err(problem) => {
                prop_assert_eq!(closed.len(), job.members.len(), "{}", problem);
            }
            Ok(SpawnPlacing::Full) => {
                prop_assert!(limit.is_some() && !nevertheless);
            }
            Ok(SpawnPlacing::Placed(placed)) => {
                let most = |of: &PlacedHost| {
                    let at = job.members.iter().position(|m| m.member == of.member).unwrap();
                    hosts[at].2 + of.ranks.count() <= limit.unwrap_or(u32::MAX).saturating_mul(hosts[at].0)
                };
                prop_assert!(nevertheless || placed.hosts.iter().all(most));
                let mut ranks: Vec<u32> =
                    placed.hosts.iter().flat_map(|host| host.ranks.ranks()).map(|r| r.0).collect();
                ranks.sort_unstable();
                prop_assert!(ranks.into_iter().eq(0..job.request.size()));
                prop_assert!(placed.hosts.iter().all(|host| !closed.contains(&host.member)));
                let last = job.request.size() - 1;
                let holds = |host: &&PlacedHost| host.ranks.contains(mpd_wire::Rank(last));
                let holder = placed.hosts.iter().find(holds).unwrap();
                prop_assert_eq!(&holder.member, &placed.last);
            }
        }
    }
}
