//! One scenario for each rule of the ring: it succeeds, and fails without the rule.

use std::collections::BTreeSet;

use mpd_ring::{Input, Rules};
use mpd_wire::{DaemonName, Standing};

use crate::checks;
use crate::world::{SECOND, Start, World};

/// A ring of `size` from a host file, settled.
fn booted(size: usize, rules: Rules) -> World {
    let mut world = World::new(7, size);
    world.rules = rules;
    for host in 0..size {
        let seeds = (0..size).collect();
        world.boot(host, &Start { ordinal: Some(host as u64), seeds, ..Start::default() });
    }
    // Without widening, or without a rule, large rings form slowly.
    world.pass(10 * SECOND);
    assert!(is_whole(&world, 0..size), "the ring must be whole at first");
    world
}

/// A ring of `size` daemons that know only their entry.
fn entered(size: usize, rules: Rules) -> World {
    let mut world = World::new(7, size);
    world.rules = rules;
    for host in 0..size {
        let entry = if host == 0 { Vec::new() } else { vec![0] };
        world.boot(host, &Start { entry, ..Start::default() });
        world.pass(SECOND);
    }
    world.pass(5 * SECOND);
    assert!(is_whole(&world, 0..size), "the ring must be whole at first");
    world
}

fn is_whole(world: &World, hosts: impl IntoIterator<Item = usize>) -> bool {
    let group: BTreeSet<usize> = hosts.into_iter().collect();
    checks::after_calm(world, &group).is_empty()
}

fn cut(world: &mut World, one: usize, two: usize) {
    world.set_reach(one, two, false);
    world.set_reach(two, one, false);
}

fn heal(world: &mut World) {
    world.reach.iter_mut().for_each(|row| row.fill(true));
    world.kick();
}

/// The scenario succeeds with all rules, and fails without this one.
fn needs(without: Rules, story: impl Fn(Rules) -> bool) {
    assert!(story(Rules::default()), "by all rules");
    assert!(!story(without), "without the rule");
}

#[test]
fn an_entry_does_not_change_the_position_from_the_host_file() {
    let mut world = World::new(7, 4);
    world.boot(0, &Start { ordinal: Some(0), ..Start::default() });
    for host in [3, 1, 2] {
        let start = Start { ordinal: Some(host as u64), entry: vec![0], ..Start::default() };
        world.boot(host, &start);
        world.pass(SECOND);
    }
    world.pass(3 * SECOND);
    assert!(is_whole(&world, 0..4));
    let names = [0, 1, 2, 3].map(|host| world.hosts[host].name.clone());
    assert_eq!(world.ring(0).members(), names);
}

#[test]
fn r1_every_member_merges_two_records_of_one_incarnation_equally() {
    let story = |rules| {
        let mut world = World::new(7, 3);
        world.rules = rules;
        cut(&mut world, 0, 1);
        // h2 is first with h0, then, without memory, with h1; then it never returns.
        world.boot(0, &Start::default());
        world.boot(1, &Start { seeds: vec![0], ..Start::default() });
        for entry in [0, 1] {
            world.power_on(2);
            world.boot(2, &Start { entry: vec![entry], ..Start::default() });
            world.pass(3 * SECOND);
            world.power_off(2);
            world.pass(10 * SECOND);
        }
        heal(&mut world);
        world.pass(10 * SECOND);
        let gone = &world.hosts[2].name;
        let [one, two] = [0, 1].map(|host| world.ring(host).record(gone).expect("a record"));
        assert_eq!((one.standing, two.standing), (Standing::Dead, Standing::Dead));
        assert!(is_whole(&world, 0..2));
        one == two
    };
    needs(Rules { whole_order: false, ..Rules::default() }, story);
}

#[test]
fn r2_a_frozen_daemon_refutes_its_death_after_the_thaw() {
    let story = |rules| {
        let mut world = entered(3, rules);
        world.freeze(1);
        world.pass(10 * SECOND);
        assert!(!is_whole(&world, 0..3), "it is declared dead");
        world.thaw(1);
        world.pass(10 * SECOND);
        is_whole(&world, 0..3)
    };
    needs(Rules { refute: false, ..Rules::default() }, story);
}

#[test]
fn r2_a_daemon_without_memory_returns_to_its_former_position() {
    let story = |rules| {
        let mut world = entered(4, rules);
        world.kill(1);
        world.pass(5 * SECOND);
        world.boot(1, &Start { entry: vec![3], ..Start::default() });
        world.pass(10 * SECOND);
        let order: Vec<String> = world.ring(0).members().into_iter().map(Into::into).collect();
        is_whole(&world, 0..4) && order == ["h0", "h1", "h2", "h3"]
    };
    needs(Rules { refute: false, ..Rules::default() }, story);
}

#[test]
fn r3_a_daemon_that_loses_its_rhs_connects_to_the_next() {
    let story = |rules| {
        let mut world = booted(4, rules);
        world.power_off(1);
        world.pass(10 * SECOND);
        is_whole(&world, [0, 2, 3])
    };
    needs(Rules { reknit: false, ..Rules::default() }, story);
}

#[test]
fn r3_a_daemon_dials_many_lost_neighbours_in_parallel() {
    let story = |rules| {
        let mut world = booted(24, rules);
        (1..21).for_each(|host| world.power_off(host));
        world.pass(15 * SECOND);
        is_whole(&world, [0, 21, 22, 23])
    };
    needs(Rules { widen: false, ..Rules::default() }, story);
}

#[test]
fn r4_two_separated_halves_merge_when_the_network_is_whole() {
    let story = |rules| {
        let mut world = entered(4, rules);
        for (one, two) in [(0, 1), (0, 3), (2, 1), (2, 3)] {
            cut(&mut world, one, two);
        }
        world.pass(15 * SECOND);
        assert!(is_whole(&world, [0, 2]) && is_whole(&world, [1, 3]), "two rings");
        heal(&mut world);
        world.pass(10 * SECOND);
        is_whole(&world, 0..4)
    };
    needs(Rules { probe_dead: false, ..Rules::default() }, story);
}

#[test]
fn r5_daemons_restarted_without_memory_merge_through_the_host_file() {
    let story = |rules| {
        let mut world = World::new(7, 4);
        world.rules = rules;
        for (one, two) in [(0, 1), (0, 3), (2, 1), (2, 3)] {
            cut(&mut world, one, two);
        }
        // h2 and h3 enter by hand; only the two first daemons have the file.
        for host in [0, 1] {
            world.boot(host, &Start { seeds: vec![0, 1], ..Start::default() });
            world.boot(host + 2, &Start { entry: vec![host], ..Start::default() });
        }
        world.pass(5 * SECOND);
        heal(&mut world);
        world.pass(10 * SECOND);
        is_whole(&world, 0..4)
    };
    needs(Rules { probe_seeds: false, ..Rules::default() }, story);
}

#[test]
fn r6_two_neighbours_that_cannot_connect_change_their_positions() {
    let story = |rules| {
        let mut world = booted(5, rules);
        cut(&mut world, 1, 2);
        world.pass(20 * SECOND);
        let since = world.now;
        world.pass(10 * SECOND);
        is_whole(&world, 0..5) && world.watch.changed < since
    };
    needs(Rules { reseat: false, ..Rules::default() }, story);
}

#[test]
fn r5_two_daemons_with_new_addresses_merge_through_the_host_file() {
    let mut world = World::new(7, 2);
    (0..2).for_each(|host| world.readdress(host));
    for host in 0..2 {
        let start = Start { ordinal: Some(host as u64), seeds: vec![0, 1], ..Start::default() };
        world.boot(host, &start);
    }
    world.pass(5 * SECOND);
    assert!(is_whole(&world, 0..2), "the ring must be whole at first");
    cut(&mut world, 0, 1);
    (0..2).for_each(|host| world.readdress(host));
    world.pass(15 * SECOND);
    assert!(is_whole(&world, [0]) && is_whole(&world, [1]), "two rings");
    heal(&mut world);
    world.pass(10 * SECOND);
    assert!(is_whole(&world, 0..2));
}

#[test]
fn a_daemon_with_a_new_address_returns_when_it_learns_the_address() {
    let mut world = entered(4, Rules::default());
    for host in [1, 2, 1] {
        world.readdress(host);
        world.pass(20 * SECOND);
        assert!(is_whole(&world, 0..4));
        let address = &world.hosts[host].address;
        let record = world.ring(0).record(&world.hosts[host].name).expect("a record");
        assert_eq!(record.addresses, std::slice::from_ref(address));
    }
}

/// Two hosts whose daemons have the same name, and a third; all start at once. Returns the running ones later.
fn doubles(seed: u64, entries: [Vec<usize>; 3]) -> (World, Vec<usize>) {
    let mut world = World::new(seed, 3);
    world.hosts[1].name = world.hosts[0].name.clone();
    for (host, entry) in entries.into_iter().enumerate().rev() {
        world.boot(host, &Start { entry, ..Start::default() });
    }
    world.pass(30 * SECOND);
    let running: Vec<usize> = world.running().into_iter().filter(|host| *host < 2).collect();
    // From here on, hosts are found by their names.
    world.hosts[1 - running[0]].name = DaemonName::new("nobody").expect("a name");
    (world, running)
}

#[test]
fn of_two_newcomers_of_one_name_that_join_each_other_one_stays() {
    for seed in 0..64 {
        let (_, running) = doubles(seed, [vec![1], vec![0], vec![]]);
        assert_eq!(running.len(), 1, "seed {seed}");
    }
}

#[test]
fn of_two_simultaneous_newcomers_of_one_name_one_enters() {
    for seed in 0..64 {
        for entries in [[vec![1, 2], vec![0, 2], vec![]], [vec![2], vec![2], vec![]]] {
            let (world, running) = doubles(seed, entries);
            assert_eq!(running.len(), 1, "seed {seed}");
            assert!(is_whole(&world, [running[0], 2]), "seed {seed}");
        }
    }
}

#[test]
fn a_newcomer_with_a_taken_name_ends_through_any_entry() {
    for seed in 0..64 {
        let mut world = World::new(seed, 3);
        world.hosts[2].name = world.hosts[0].name.clone();
        world.boot(0, &Start { seeds: vec![0, 1, 2], ..Start::default() });
        world.boot(1, &Start { entry: vec![0], ..Start::default() });
        world.pass(3 * SECOND);
        world.boot(2, &Start { entry: vec![1], ..Start::default() });
        world.pass(20 * SECOND);
        assert_eq!(world.running(), BTreeSet::from([0, 1]), "seed {seed}");
        assert!(is_whole(&world, [0, 1]), "seed {seed}");
    }
}

#[test]
fn r5_two_departed_daemons_that_return_separately_merge() {
    // Each has the other as departed, and no other member could correct it.
    let mut world = booted(4, Rules::default());
    let file =
        |host| Start { ordinal: Some(host as u64), seeds: (0..4).collect(), ..Start::default() };
    world.input(1, Input::Leave);
    world.input(2, Input::Leave);
    world.pass(SECOND);
    for (one, two) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
        cut(&mut world, one, two);
    }
    for host in [1, 2] {
        world.boot(host, &file(host));
    }
    world.pass(10 * SECOND);
    assert!(is_whole(&world, [0, 1]) && is_whole(&world, [2, 3]), "two rings");
    world.power_off(0);
    world.power_off(3);
    heal(&mut world);
    world.pass(20 * SECOND);
    assert!(is_whole(&world, [1, 2]));
}
