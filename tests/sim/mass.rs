//! Large rings: they form, a scatter takes a bounded number of steps, and the loss of half of the hosts at once does
//! no lasting harm. `MPD_SIM_MASS=N` also tests rings of N hosts. Rings of thousands begin formed; `MPD_SIM_VAST=N`
//! gives their size.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use mpd_ring::Input;
use mpd_wire::DaemonName;

use crate::checks;
use crate::sweep::number;
use crate::world::{MS, SECOND, Start, World};

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

/// Whether each of these hosts has exactly the others in its list, in one order, and is linked to the next one.
fn is_whole(world: &World, group: &[usize]) -> bool {
    let first = world.ring(group[0]);
    let order = first.members();
    let wanted: BTreeSet<&DaemonName> = group.iter().map(|&host| &world.hosts[host].name).collect();
    if order.len() != group.len() || !order.iter().all(|name| wanted.contains(name)) {
        return false;
    }
    let following = order.iter().zip(order.iter().cycle().skip(1));
    let following: BTreeMap<&DaemonName, &DaemonName> = following.collect();
    group.iter().all(|&host| {
        let ring = world.ring(host);
        let rhs = ring.rhs().map(|(_, name)| name);
        let lhs = ring.lhs().and_then(|(_, name)| following.get(name).copied());
        ring.digest() == first.digest()
            && rhs == following.get(ring.name()).copied()
            && lhs == Some(ring.name())
    })
}

/// Runs until these hosts are a whole ring; returns the time in seconds.
fn until_formed(world: &mut World, groups: &[&[usize]]) -> f64 {
    let from = world.now;
    while !groups.iter().all(|group| is_whole(world, group)) {
        world.pass(SECOND / 4);
        assert!(world.now - from < 600 * SECOND, "the ring does not heal");
    }
    assert!(world.watch.violations.is_empty(), "{:?}", world.watch.violations);
    (world.now - from) as f64 / 1e6
}

/// A scatter and a lap; both must be complete.
fn reaches_all(world: &mut World, host: usize) {
    let before = world.watch.replies;
    world.scatter(host, b"to all");
    world.pass(9 * SECOND);
    let mut expected = before;
    expected[0] += 1;
    assert_eq!(world.watch.replies, expected, "whole, partial, home, lost, published, not");
}

/// A line about a step of a test, with the simulated and the real time.
#[expect(clippy::print_stdout, reason = "the times of a large run are for people")]
fn told(began: Instant, world: &World, what: &str, seconds: f64) {
    let (real, at) = (began.elapsed().as_secs_f64(), world.now as f64 / 1e6);
    let size = world.hosts.len();
    println!("{size}: {what} after {seconds:.1} s (at {at:.0} s, {real:.0} s of real time)");
}

/// A formed ring in which single hosts lose power. Returns the hosts that are left.
fn with_deaths(size: usize, began: Instant) -> (World, Vec<usize>) {
    let mut world = World::new(12, size);
    world.watch.sparse = true;
    world.latency = 2 * MS;
    world.boot_formed();
    let all: Vec<usize> = (0..size).collect();
    let formed = until_formed(&mut world, &[&all]);
    told(began, &world, "formed", formed);
    // Time for the chords.
    world.pass(6 * SECOND);
    reaches_all(&mut world, size / 2);
    let steps = world.watch.most_hops;
    assert!(steps <= size.next_power_of_two().ilog2(), "{steps} steps in a ring of {size}");
    let dead: BTreeSet<usize> = (0..size).filter(|host| host % 97 == 5).collect();
    dead.iter().for_each(|&host| world.power_off(host));
    let left: Vec<usize> = all.iter().copied().filter(|host| !dead.contains(host)).collect();
    let healed = until_formed(&mut world, &[&left]);
    told(began, &world, &format!("whole without {}", dead.len()), healed);
    // Not more than the silence, the attempts to connect, and the way of the news round the ring.
    assert!(healed < 15.0, "whole after {healed} s");
    reaches_all(&mut world, left[1]);
    (world, left)
}

fn wanted(default: usize) -> usize {
    number("MPD_SIM_VAST").map_or(default, |size| usize::try_from(size).expect("a size"))
}

#[test]
fn a_ring_of_thousands_heals_after_deaths() {
    with_deaths(wanted(1500), Instant::now());
}

#[test]
fn a_large_ring_that_was_parted_into_many_pieces_becomes_one_again() {
    let began = Instant::now();
    let (mut world, left) = with_deaths(wanted(300), began);
    // Racks of 32 hosts, alternately on the one and on the other side.
    let (one, other): (Vec<usize>, Vec<usize>) = left.iter().partition(|&&host| host / 32 % 2 == 0);
    let reach = |world: &mut World, reach: bool| {
        for &a in &one {
            for &b in &other {
                world.set_reach(a, b, reach);
                world.set_reach(b, a, reach);
            }
        }
        world.kick();
    };
    reach(&mut world, false);
    let parted = until_formed(&mut world, &[&one, &other]);
    told(began, &world, "two rings", parted);
    reach(&mut world, true);
    let merged = until_formed(&mut world, &[&left]);
    told(began, &world, "one ring again", merged);
    world.pass(6 * SECOND);
    reaches_all(&mut world, left[0]);
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
