use proptest::prelude::*;

use mpd_wire::job::{Group, group_of};

use super::*;
use mpd_wire::Rank;
use mpd_wire::job::{Argset, Binding, Notice, PlacementSpec, RankOrder};

pub(crate) fn candidate(name: &str, ncpus: u32, ordinal: u64) -> Candidate {
    let address = |port| Address::new(&format!("{}-ib:{port}", name.to_lowercase())).unwrap();
    let member = DaemonName::new(name).unwrap();
    Candidate { addresses: vec![address(7000)], ..Candidate::new(member, ncpus, ordinal) }
}

/// `h1:2 h2:4` as a ring in this order.
fn ring(text: &str) -> Vec<Candidate> {
    let member = |(ordinal, word): (u64, &str)| {
        let (name, ncpus) = word.split_once(':').unwrap_or((word, "1"));
        candidate(name, ncpus.parse().unwrap(), ordinal)
    };
    (0..).zip(text.split(' ')).map(member).collect()
}

/// `a:4 b` as a list of hosts.
fn list(text: &str) -> Vec<HostChoice> {
    let host = |word: &str| match word.split_once(':') {
        Some((name, slots)) => HostChoice::new(name.into(), slots.parse().ok()),
        None => HostChoice::new(word.into(), None),
    };
    text.split_whitespace().map(host).collect()
}

fn program(size: u32, hosts: Option<&str>) -> Argset {
    Argset {
        size,
        program: b"p".to_vec(),
        directory: b"/".to_vec(),
        search: Vec::new(),
        umask: 0,
        hosts: hosts.map(list),
        ..Argset::default()
    }
}

fn job(argsets: Vec<Argset>, placement: PlacementSpec) -> JobSpec {
    JobSpec {
        argsets,
        environments: vec![Vec::new()],
        tmpdir: b"/tmp".to_vec(),
        placement,
        ..JobSpec::default()
    }
}

fn plain() -> PlacementSpec {
    PlacementSpec::default()
}

fn on(hosts: &str) -> PlacementSpec {
    PlacementSpec { hosts: list(hosts), ..plain() }
}

fn placed_from(origin: &str, members: &str, spec: &JobSpec) -> Result<Placed, PlacementError> {
    spec.check().unwrap();
    place(spec, &ring(members), &DaemonName::new(origin).unwrap())
}

fn map_of(placed: &Placed) -> String {
    rank_map(placed.hosts.iter().map(|host| (&host.member, &host.ranks)))
}

/// The map of `size` ranks started from the first of `members`.
fn map(size: u32, members: &str, request: PlacementSpec) -> String {
    let origin = members.split([':', ' ']).next().unwrap();
    let spec = job(vec![program(size, None)], request);
    map_of(&placed_from(origin, members, &spec).unwrap())
}

fn problem(members: &str, request: PlacementSpec) -> String {
    let origin = members.split([':', ' ']).next().unwrap();
    let spec = job(vec![program(4, None)], request);
    placed_from(origin, members, &spec).unwrap_err().to_string()
}

fn notices(size: u32, members: &str, request: PlacementSpec) -> Vec<Notice> {
    let origin = members.split([':', ' ']).next().unwrap();
    placed_from(origin, members, &job(vec![program(size, None)], request)).unwrap().notices
}

#[test]
fn hosts_fill_in_ring_order_from_the_consoles_host_and_begin_again() {
    assert_eq!(map(7, "a:2 b:4 c:2", plain()), "(a:0-1)(b:2-5)(c:6)");
    assert_eq!(map(11, "a:2 b:4 c:2", plain()), "(a:0-1,8-9)(b:2-5,10)(c:6-7)");
    assert_eq!(map(1, "a:2 b:4", plain()), "(a:0)");
    let from_the_middle = placed_from("b", "a:2 b:2 c:2", &job(vec![program(5, None)], plain()));
    assert_eq!(map_of(&from_the_middle.unwrap()), "(b:0-1)(c:2-3)(a:4)");
}

#[test]
fn a_limit_of_a_host_and_a_refusal_of_crowded_slots_are_errors() {
    let mut limited = on("a:2 b:2");
    limited.hosts[1].max = Some(3);
    let fits = job(vec![program(7, None)], limited.clone());
    assert_eq!(map_of(&placed_from("a", "a b", &fits).unwrap()), "(a:0-1,4-5)(b:2-3,6)");
    let most = job(vec![program(8, None)], limited);
    let error = placed_from("a", "a b", &most).unwrap_err().to_string();
    assert_eq!(error, "4 processes on b are more than its limit of 3 (max_slots)");
    let strict = |hosts| PlacementSpec { strict: true, ..on(hosts) };
    assert_eq!(map(4, "a:2 b:2", strict("a b")), "(a:0-1)(b:2-3)");
    let error = problem("a:2 b:1", strict("a b"));
    assert!(error.starts_with("4 processes for 3 slots"), "{error}");
    assert!(problem("a:3", strict("a")).starts_with("4 processes for 3 slots"));
}

#[test]
fn the_gpus_of_a_host_are_found_by_its_name() {
    let mut hosts = list("a.x b localhost");
    (hosts[0].gpus, hosts[2].gpus) = (Some(4), Some(2));
    let gpus = |name, is_origin| gpus_of(&hosts, &DaemonName::new(name).unwrap(), is_origin);
    assert_eq!((gpus("a", false), gpus("b", false), gpus("c", false)), (Some(4), None, None));
    assert_eq!((gpus("b", true), gpus("c", true)), (Some(2), Some(2)));
}

#[test]
fn draining_hosts_are_left_out_unless_they_are_named() {
    let drained = |name: &str, size, request: PlacementSpec| {
        let mut members = ring("a:2 b:2 c:2");
        members.iter_mut().filter(|m| m.member.as_str() == name).for_each(|m| m.draining = true);
        let spec = job(vec![program(size, None)], request);
        place(&spec, &members, &DaemonName::new("a").unwrap()).unwrap()
    };
    assert_eq!(map_of(&drained("b", 5, plain())), "(a:0-1,4)(c:2-3)");
    let without_its_own = drained("a", 3, plain());
    assert_eq!(map_of(&without_its_own), "(b:0-1)(c:2)");
    assert_eq!(without_its_own.hosts[0].member.as_str(), "a", "the root is there nevertheless");
    let named = drained("b", 3, on("b a"));
    assert_eq!(map_of(&named), "(a:2)(b:0-1)");
    let reported = "draining, and used because you named them: b";
    assert_eq!(named.notices, [Notice::major(reported.into())]);
    assert!(drained("b", 1, on("a b")).notices.is_empty());
}

#[test]
fn slots_that_allocations_hold_are_used_last_and_with_a_notice() {
    let with_held = |held: [u32; 3]| {
        let mut members = ring("a:2 b:2 c:2");
        members.iter_mut().zip(held).for_each(|(member, held)| member.held = held);
        members
    };
    let place = |size, held, request: PlacementSpec| {
        let members = with_held(held);
        place(&job(vec![program(size, None)], request), &members, &members[0].member).unwrap()
    };
    assert_eq!(map_of(&place(3, [1, 0, 0], plain())), "(a:0)(b:1-2)");
    // Slots without a hold are shared before held ones are used.
    assert_eq!(map_of(&place(4, [2, 1, 2], plain())), "(b:0-3)");
    let all = place(3, [2, 2, 2], plain());
    assert_eq!(map_of(&all), "(a:0-1)(b:2)");
    let text = "allocations hold all slots ('mpdqueue'), and this job shares them on a, b";
    assert_eq!(all.notices, [Notice::major(text.to_owned())]);
    // Named hosts are used, and a list with slots knows why.
    assert_eq!(map_of(&place(3, [0, 2, 1], on("b c"))), "(b:0-1)(c:2)");
    assert_eq!(place(2, [2, 2, 2], on("a:2")).notices, []);
}

#[test]
fn a_job_that_names_no_host_is_refused_if_all_hosts_are_draining() {
    let mut members = ring("a b");
    members.iter_mut().for_each(|member| member.draining = true);
    let spec = job(vec![program(1, None)], plain());
    let problem = place(&spec, &members, &DaemonName::new("a").unwrap()).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "no host is left for the job: a, b take no new processes (mpddrain); name them to use them \
         nevertheless"
    );
}

#[test]
fn with_1_the_ring_begins_behind_the_consoles_host_which_stays_the_root() {
    let behind = PlacementSpec { here_first: false, ..plain() };
    let placed = placed_from("b", "a b c", &job(vec![program(2, None)], behind.clone())).unwrap();
    assert_eq!(map_of(&placed), "(c:0)(a:1)");
    assert_eq!(placed.hosts[0].member.as_str(), "b");
    assert!(placed.hosts[0].ranks.is_empty());
    assert_eq!(map(3, "a b c", behind.clone()), "(a:2)(b:0)(c:1)");
    assert_eq!(map(3, "a", behind), "(a:0-2)", "alone there is nobody behind");
}

#[test]
fn ranks_per_host_count_instead_of_slots() {
    let two = PlacementSpec { per_host: Some(2), ..plain() };
    assert_eq!(map(5, "a:8 b c:8", two.clone()), "(a:0-1)(b:2-3)(c:4)");
    let listed = PlacementSpec { per_host: Some(2), ..on("b:5 a b") };
    assert_eq!(map(4, "a:8 b", listed), "(a:2-3)(b:0-1)", "and each host counts once");
}

#[test]
fn in_turn_a_host_takes_ranks_until_its_slots_are_full() {
    let turns = |request| PlacementSpec { order: RankOrder::RoundRobin, ..request };
    assert_eq!(map(6, "a:2 b:4 c:1", turns(plain())), "(a:0,3)(b:1,4-5)(c:2)");
    assert_eq!(map(9, "a:2 b:4 c:1", turns(plain())), "(a:0,3,7)(b:1,4-6,8)(c:2)");
    assert_eq!(map(4, "a:8 b:8", turns(on("b a"))), "(a:1,3)(b:0,2)");
}

#[test]
fn groups_of_two_on_211_hosts_make_422_ranks() {
    let members: Vec<String> = (0..211).map(|n| format!("h{n}")).collect();
    let request = PlacementSpec { group: Some(2), ..plain() };
    let spec = job(vec![program(422, None)], request);
    let placed = placed_from("h0", &members.join(" "), &spec).unwrap();
    for (number, host) in (0..).zip(&placed.hosts) {
        assert_eq!(host.ranks.ranges(), [(2 * number, 2 * number + 1)]);
    }
    assert_eq!(placed.hosts.len(), 211);
    assert!(placed.notices.is_empty());
}

#[test]
fn a_host_has_room_for_whole_groups_and_the_last_group_may_be_small() {
    let groups = |k, request| PlacementSpec { group: Some(k), ..request };
    assert_eq!(map(7, "a:5 b:3", groups(2, plain())), "(a:0-3,6)(b:4-5)");
    assert_eq!(map(6, "a:2 b:2", groups(3, plain())), "(a:0-2)(b:3-5)", "one group fits anywhere");
    assert_eq!(map(9, "a:9 b:9", groups(2, on("b:4 a"))), "(a:4-8)(b:0-3)");
    let turns = PlacementSpec { order: RankOrder::RoundRobin, ..groups(2, plain()) };
    assert_eq!(map(8, "a:4 b:4", turns), "(a:0-1,4-5)(b:2-3,6-7)");
}

#[test]
fn the_group_of_a_rank_is_counted_over_the_whole_job() {
    let request = PlacementSpec { group: Some(4), ..plain() };
    let spec = job(vec![program(3, None), program(7, None)], request);
    let group = |rank| group_of(&spec, Rank(rank));
    assert_eq!(group(5), Some(Group { number: 1, rank: 1, size: 4 }));
    assert_eq!(group(9), Some(Group { number: 2, rank: 1, size: 2 }), "the last one is smaller");
    assert_eq!(group(10), None, "no rank of this job");
    assert_eq!(group_of(&job(vec![program(3, None)], plain()), Rank(1)), None);
}

#[test]
fn listed_hosts_are_taken_in_their_order_with_the_slots_given_there() {
    assert_eq!(map(6, "a:1 b:2 c:1", on("c:3 b")), "(c:0-2,5)(b:3-4)");
    let placed = placed_from("a", "a b c", &job(vec![program(2, None)], on("c b"))).unwrap();
    let names: Vec<&str> = placed.hosts.iter().map(|host| host.member.as_str()).collect();
    assert_eq!(names, ["a", "c", "b"], "the root first, though it runs nothing");
    assert_eq!(placed.hosts[1].addresses, ring("a b c")[2].addresses);
}

#[test]
fn a_list_with_a_line_for_every_slot_is_understood() {
    assert_eq!(map(4, "a:8 b:8", on("a a b b")), "(a:0-1)(b:2-3)");
    assert_eq!(map(4, "a:8 b:8", on("a b a b")), "(a:0,2)(b:1,3)", "its order is kept");
    let turns = PlacementSpec { order: RankOrder::RoundRobin, ..on("a a b b") };
    assert_eq!(map(4, "a:8 b:8", turns), "(a:0,2)(b:1,3)");
}

#[test]
fn excluded_hosts_get_no_rank() {
    let without = |names: &[&str], request: PlacementSpec| PlacementSpec {
        exclude: names.iter().map(|&name| name.into()).collect(),
        ..request
    };
    assert_eq!(map(3, "a b c", without(&["b"], plain())), "(a:0,2)(c:1)");
    assert_eq!(map(3, "a b c", without(&["a", "c"], on("a b c"))), "(b:0-2)");
    assert_eq!(map(2, "a b c", without(&["localhost"], plain())), "(b:0)(c:1)");
    assert_eq!(map(2, "a b", without(&["z"], on("z b"))), "(b:0-1)", "z is not missed");
    assert_eq!(
        notices(2, "a b", without(&["z"], plain())),
        [Notice::major("excluded, but not in the ring anyway: z".into())]
    );
    assert_eq!(
        problem("a b c", without(&["a", "b"], on("b a"))),
        "no host is left for the job: all of b, a are excluded"
    );
}

#[test]
fn a_name_may_be_short_or_whole_or_an_address() {
    let members = "n1.x.org n2.x.org n2.y.org m3 10.0.0.7";
    for (written, meant) in [
        ("n1", "n1.x.org"),
        ("n1.x.org", "n1.x.org"),
        ("n2.y.org", "n2.y.org"),
        ("m3.x.org", "m3"),
        ("n2.y.org-ib", "n2.y.org"),
        ("10.0.0.7", "10.0.0.7"),
        ("localhost", "n1.x.org"),
        ("127.0.0.1", "n1.x.org"),
    ] {
        assert_eq!(map(1, members, on(written)), format!("({meant}:0)"), "{written}");
    }
    assert_eq!(
        problem(members, on("n2")),
        "n2 can be any of n2.x.org, n2.y.org; write the whole name"
    );
    for unknown in ["n1.z.org", "n", "10", "10.0.0.8", "M3"] {
        assert!(problem(members, on(unknown)).starts_with("not in the ring: "), "{unknown}");
    }
}

#[test]
fn an_error_names_the_unknown_hosts_and_the_members() {
    assert_eq!(
        problem("a b", on("x a y")),
        "not in the ring: x, y; choose from a, b, or start daemons there with mpdboot"
    );
    let many: Vec<String> = (0..25).map(|n| format!("h{n}")).collect();
    assert!(problem(&many.join(" "), on("x")).contains("h18, h19 and 5 more, or"));
    let stranger =
        place(&job(vec![program(1, None)], plain()), &ring("a"), &DaemonName::new("b").unwrap());
    assert!(matches!(stranger, Err(PlacementError::Origin(_))));
}

#[test]
fn more_ranks_than_slots_make_a_minor_notice() {
    let reported = |text: &str| [Notice::minor(text.into())];
    let five = reported("5 processes share 2 hosts with slots for 4");
    assert_eq!(notices(5, "a:2 b:2", plain()), five);
    assert!(notices(4, "a:2 b:2", plain()).is_empty());
    assert_eq!(notices(9, "a:2", plain()), reported("9 processes share a with slots for 2"));
    let named = notices(9, "a:2 b:2", on("b"));
    assert_eq!(named, reported("9 processes share b with slots for 2"));
    let groups = PlacementSpec { group: Some(2), ..plain() };
    assert_eq!(notices(5, "a b", groups), reported("3 groups share 2 hosts with slots for 2"));
}

#[test]
fn a_program_continues_where_the_previous_one_ended() {
    let spec = job(vec![program(3, None), program(2, None)], plain());
    assert_eq!(map_of(&placed_from("a", "a:2 b:2 c:2", &spec).unwrap()), "(a:0-1)(b:2-3)(c:4)");
}

#[test]
fn a_program_with_hosts_of_its_own_leaves_the_others_their_slots() {
    let spec = job(vec![program(1, Some("b")), program(4, None)], plain());
    assert_eq!(map_of(&placed_from("a", "a:2 b:2 c:2", &spec).unwrap()), "(a:1-2)(b:0,3)(c:4)");
    let both = job(vec![program(2, Some("a")), program(2, Some("a b"))], on("c"));
    assert_eq!(map_of(&placed_from("a", "a:2 b:2 c:2", &both).unwrap()), "(a:0-1)(b:2-3)");
    let every = job(vec![program(3, Some(""))], on("c"));
    assert_eq!(map_of(&placed_from("a", "a b c", &every).unwrap()), "(a:0)(b:1)(c:2)");
}

#[test]
fn a_group_is_not_split_between_programs_on_different_hosts() {
    let request = PlacementSpec { group: Some(2), ..plain() };
    let torn = job(vec![program(3, Some("a")), program(3, Some("b"))], request.clone());
    assert_eq!(
        placed_from("a", "a b", &torn).unwrap_err(),
        PlacementError::Group { low: 2, high: 3 }
    );
    let whole = job(vec![program(2, Some("a")), program(3, Some("b"))], request.clone());
    assert_eq!(map_of(&placed_from("a", "a b", &whole).unwrap()), "(a:0-1)(b:2-4)");
    let shared = job(vec![program(3, None), program(3, None)], request);
    assert!(placed_from("a", "a b", &shared).is_ok());
}

#[test]
fn impossible_requests_are_refused_before_placement() {
    let bad = |request| job(vec![program(1, None)], request).check().unwrap_err().to_string();
    assert_eq!(
        bad(PlacementSpec { per_host: Some(3), group: Some(2), ..plain() }),
        "3 processes on each host cannot be groups of 2: make it a multiple"
    );
    for zero in [
        PlacementSpec { per_host: Some(0), ..plain() },
        PlacementSpec { group: Some(0), ..plain() },
        on("a:0"),
    ] {
        assert!(bad(zero).contains("must be at least 1"));
    }
    assert_eq!(bad(on("-x")), "\"-x\" is not the name of a host");
    assert!(job(vec![program(1, Some("a/b"))], plain()).check().is_err());
}

#[test]
fn the_number_of_hosts_is_limited() {
    let hosts = MAX_HOST_SLICES + 1;
    let members: Vec<String> = (0..hosts).map(|n| format!("h{n}")).collect();
    let spec = job(vec![program(u32::try_from(hosts).unwrap(), None)], plain());
    let result = placed_from("h0", &members.join(" "), &spec);
    assert_eq!(result.err(), Some(PlacementError::TooManyHosts(hosts)));
}

/// The hosts in the order in which one lap gives them groups, computed in the simple way.
fn lap(members: &[Candidate], request: &PlacementSpec) -> Vec<DaemonName> {
    let slots = |c: &Candidate| request.per_host.unwrap_or(c.ncpus) / request.group.unwrap_or(1);
    let mut lap = Vec::new();
    match request.order {
        RankOrder::BySlot => {
            for c in members {
                lap.extend((0..slots(c).max(1)).map(|_| c.member.clone()));
            }
        }
        RankOrder::RoundRobin => {
            for turn in 0..64 {
                let has_room = |c: &&Candidate| slots(c).max(1) > turn;
                lap.extend(members.iter().filter(has_room).map(|c| c.member.clone()));
            }
        }
    }
    lap
}

proptest! {
    #[test]
    fn every_rank_runs_once_on_the_host_that_the_simple_rule_gives(
        cpus in proptest::collection::vec(1u32..9, 1..12),
        size in 1u32..200,
        origin in any::<prop::sample::Index>(),
        (group, groups_per_host) in (proptest::option::of(1u32..5), proptest::option::of(1u32..4)),
        (turns, here_first) in (any::<bool>(), any::<bool>()),
        swap in any::<prop::sample::Index>(),
    ) {
        let mut members: Vec<Candidate> = (0..).zip(&cpus)
            .map(|(n, &cpus)| candidate(&format!("h{n}"), cpus, n))
            .collect();
        let at = origin.index(members.len());
        let name = members[at].member.clone();
        let request = PlacementSpec {
            group,
            per_host: groups_per_host.map(|n| n * group.unwrap_or(1)),
            order: if turns { RankOrder::RoundRobin } else { RankOrder::BySlot },
            here_first,
            ..plain()
        };
        let spec = job(vec![program(size, None)], request.clone());
        prop_assert_eq!(spec.check(), Ok(()));
        let placed = place(&spec, &members, &name).unwrap();

        let mut in_order = members.clone();
        in_order.rotate_left((at + usize::from(!here_first)) % cpus.len());
        let lap = lap(&in_order, &request);
        let mut seen = vec![0; size as usize];
        for host in &placed.hosts {
            for rank in host.ranks.ranks() {
                seen[rank.index()] += 1;
                let number = rank.0 / group.unwrap_or(1);
                prop_assert_eq!(&host.member, &lap[number as usize % lap.len()]);
            }
        }
        prop_assert!(seen.iter().all(|&times| times == 1));
        prop_assert_eq!(&placed.hosts[0].member, &name);
        prop_assert!(placed.hosts[1..].iter().all(|host| !host.ranks.is_empty()));

        let other = swap.index(members.len());
        members.swap(0, other);
        prop_assert_eq!(place(&spec, &members, &name).unwrap(), placed, "the order of the members does not matter");
    }

    #[test]
    fn with_any_lists_every_rank_runs_once_and_groups_stay_whole(
        lists in proptest::collection::vec(
            (1u32..20, proptest::option::of("([a-d](:[1-4])? ){0,6}")), 1..5),
        hosts in "([a-d](:[1-4])? ){0,6}",
        exclude in "[a-e]{0,2}",
        group in 1u32..4,
        turns in any::<bool>(),
    ) {
        let request = PlacementSpec {
            exclude: exclude.chars().map(String::from).collect(),
            group: Some(group),
            order: if turns { RankOrder::RoundRobin } else { RankOrder::BySlot },
            ..on(&hosts)
        };
        let argsets = lists.iter().map(|(size, hosts)| program(*size, hosts.as_deref())).collect();
        let spec = job(argsets, request);
        let Ok(placed) = placed_from("b", "a:2 b:3 c:1 d:4", &spec) else { return Ok(()) };
        let mut home = vec![None; spec.size() as usize];
        for host in &placed.hosts {
            prop_assert!(host.ranks.is_empty() || !exclude.contains(host.member.as_str()));
            for rank in host.ranks.ranks() {
                prop_assert_eq!(home[rank.index()].replace(&host.member), None);
                let own = spec.argsets[spec.argset_of(rank)].hosts.as_ref();
                let list = own.unwrap_or(&spec.placement.hosts);
                let listed = list.iter().any(|request| request.name == host.member.as_str());
                prop_assert!(list.is_empty() || listed);
            }
        }
        for group in home.chunks(group as usize) {
            prop_assert!(group[0].is_some() && group.iter().all(|member| *member == group[0]));
        }
    }
}

#[test]
fn ranks_that_are_bound_to_several_cpus_leave_room_for_each() {
    let two = || PlacementSpec { binding: Binding::Core, width: 2, ..plain() };
    assert_eq!(map(3, "h1:4 h2:4", two()), "(h1:0-1)(h2:2)");
    assert_eq!(map(3, "h1:1 h2:4", two()), "(h1:0)(h2:1-2)", "a host takes at least one");
    let named = PlacementSpec { hosts: list("h1:4 h2"), ..two() };
    assert_eq!(map(6, "h1:4 h2:4", named), "(h1:0-3)(h2:4-5)", "a given number is one of ranks");
}

#[test]
fn the_universe_is_the_given_size_or_the_slots_of_the_named_hosts_or_the_cpus_of_the_console_s_host()
 {
    let members = ring("h1:2 h2:8 h3:3");
    let of = |universe_size, hosts: &str, ranks| {
        let placement = PlacementSpec { hosts: list(hosts), ..plain() };
        let spec = JobSpec { universe_size, ..job(vec![program(ranks, None)], placement) };
        place(&spec, &members, &members[0].member).unwrap().universe
    };
    assert_eq!(of(Some(9), "h1:4 h2:2", 2), 9);
    assert_eq!(of(None, "h1:4 h2:2", 2), 6);
    assert_eq!(of(None, "h1:4 h2:2", 8), 8, "never smaller than the world");
    assert_eq!(of(None, "h1:4 localhost:3", 1), 4, "one host");
    assert_eq!(of(None, "h1:4 h2", 1), 12, "the other host has its own CPUs");
    assert_eq!(of(None, "", 1), 2);
    assert_eq!(of(Some(0), "h3", 1), 3, "without a bound");
    let own = job(vec![program(1, Some("h2")), program(1, Some("h3:1"))], plain());
    assert_eq!(place(&own, &members, &members[0].member).unwrap().universe, 9);
    let excluded = PlacementSpec { exclude: vec!["h2".into()], hosts: list("h2 h3"), ..plain() };
    let excluded = job(vec![program(1, None)], excluded);
    assert_eq!(place(&excluded, &members, &members[0].member).unwrap().universe, 3);
}
