//! Large rings: they form, a scatter takes a bounded number of steps, and the loss of half of the hosts at once does
//! no lasting harm. `MPD_SIM_MASS=N` also tests rings of N hosts.

use std::collections::BTreeSet;

use mpd_ring::Input;

use crate::checks;
use crate::sweep::number;
use crate::world::{SECOND, Start, World};

fn booted(size: usize) -> World {
    let mut world = World::new(11, size);
    world.watch.sparse = size > 64;
    let seeds: Vec<usize> = (0..size).collect();
    for host in 0..size {
        let start = Start { ordinal: Some(host as u64), seeds: seeds.clone(), ..Start::default() };
        world.boot(host, &start);
    }
    world
}

fn violations(world: &World, hosts: impl Iterator<Item = usize>) -> Vec<String> {
    assert!(world.watch.violations.is_empty(), "{:?}", world.watch.violations);
    let group: BTreeSet<usize> = hosts.collect();
    checks::after_calm(world, &group)
}

/// Runs until the ring of these hosts is whole; returns the time.
fn until_whole(world: &mut World, hosts: impl Iterator<Item = usize> + Clone) -> u64 {
    let from = world.now;
    while !violations(world, hosts.clone()).is_empty() {
        world.pass(SECOND / 4);
        assert!(world.now - from < 60 * SECOND, "{:?}", violations(world, hosts.clone()));
    }
    world.now - from
}

fn story(size: usize) -> String {
    let mut world = booted(size);
    let boot = until_whole(&mut world, 0..size);
    // Time for the chords.
    world.pass(6 * SECOND);
    world.scatter(size / 2, b"to all");
    world.publish(size / 2, "service");
    world.lap(0, 1, false);
    world.pass(9 * SECOND);
    let steps = world.watch.most_hops;
    assert!(steps <= size.next_power_of_two().ilog2(), "{steps} steps in a ring of {size}");
    assert_eq!(
        world.watch.replies,
        [1, 0, 1, 0, 1, 0],
        "whole, partial, home, lost, published, not"
    );
    let lost = size / 2;
    (1..=lost).for_each(|host| world.power_off(host));
    let healed = until_whole(&mut world, (0..size).filter(|host| !(1..=lost).contains(host)));
    assert!(healed < 15 * SECOND, "{lost} of {size} lost, healed after {healed} us");
    let (boot, healed) = (boot as f64 / 1e6, healed as f64 / 1e6);
    format!(
        "{size}: whole after {boot:.1} s, {steps} steps; {lost} lost, whole after {healed:.1} s"
    )
}

#[test]
fn large_rings_form_scatter_in_few_steps_and_survive_the_loss_of_half() {
    let wanted = number("MPD_SIM_MASS").map(|size| usize::try_from(size).expect("a size"));
    for size in [1, 2, 3, 5, 16, 64].into_iter().chain(wanted) {
        println!("{}", story(size));
    }
}

#[test]
fn without_chords_a_scatter_passes_all_members_in_one_round() {
    const SIZE: usize = 200;
    let mut world = booted(SIZE);
    until_whole(&mut world, 0..SIZE);
    world.latency = 1000;
    world.scatter(0, b"to all");
    // Requested only once, because the second round begins after 3 s.
    world.pass(2 * SECOND);
    assert_eq!(world.watch.replies[..2], [1, 0], "whole, partial");
    let steps = world.watch.most_hops;
    assert!(steps > SIZE.ilog2(), "there were chords: {steps} steps");
}

#[test]
fn the_last_member_forms_a_ring_of_one() {
    let mut world = booted(5);
    until_whole(&mut world, 0..5);
    (1..5).for_each(|host| world.input(host, Input::Leave));
    world.pass(SECOND);
    assert_eq!(violations(&world, 0..1), Vec::<String>::new());
}
