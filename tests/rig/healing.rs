//! A ring after failures of hosts, daemons and cables: it becomes whole by itself.

use std::time::{Duration, Instant};

use crate::rig::{Rig, up, without};

/// A rig with a ring, and its members in ring order, beginning with the host of `mpdboot`.
fn booted() -> Option<(Rig, Vec<String>)> {
    let rig = up()?;
    rig.boot(&[]);
    let hosts = rig.booted();
    Some((rig, hosts))
}

/// A sample of hosts: the host of `mpdboot`, its neighbour, and a distant host.
fn some(hosts: &[String]) -> [String; 3] {
    [0, 1, hosts.len() / 2].map(|at| hosts[at].clone())
}

#[test]
fn a_killed_daemon_is_detected_at_once_and_returns_to_its_position() {
    let Some((rig, hosts)) = booted() else { return };
    let mut worst = Duration::ZERO;
    for lost in some(&hosts) {
        let rest = without(&hosts, &[&lost]);
        let begin = Instant::now();
        rig.kill_daemon(&lost);
        rig.heals(&format!("kill -9 of the daemon of {lost}"), &rest);
        worst = worst.max(begin.elapsed());
        rig.run(&lost, &["mpd", "--daemon"]);
        rig.heals(&format!("the daemon of {lost} started again"), &hosts);
        let listed = rig.run(&hosts[2], &["mpdtrace"]);
        let mut wanted = hosts.clone();
        wanted.rotate_left(2);
        assert_eq!(listed.lines().collect::<Vec<_>>(), wanted, "every host has its old position");
    }
    assert!(worst < Duration::from_secs(10), "1 s is promised, it took {worst:?}");
    rig.ends(&hosts[0]);
}

#[test]
fn the_ring_is_whole_seconds_after_a_power_cut_of_any_host() {
    let Some((mut rig, mut left)) = booted() else { return };
    for lost in some(&left) {
        left = without(&left, &[&lost]);
        rig.control(&["kill", &lost]);
        let took = rig.heals(&format!("power cut of {lost}"), &left);
        assert!(took < Duration::from_secs(40), "8 s are promised, it took {took:?}");
    }
    rig.ends(&left[0]);
}

#[test]
fn the_ring_is_whole_seconds_after_a_power_cut_of_neighbours() {
    let Some((mut rig, hosts)) = booted() else { return };
    // Half of a small rig, eight adjacent hosts of a large one.
    let lost: Vec<String> = hosts.iter().skip(2).take((rig.hosts() / 2).min(8)).cloned().collect();
    for host in &lost {
        rig.control(&["kill", host]);
    }
    let names: Vec<&str> = lost.iter().map(String::as_str).collect();
    let rest = without(&hosts, &names);
    let took = rig.heals(&format!("power cut of {} adjacent hosts", lost.len()), &rest);
    assert!(took < Duration::from_secs(60), "12 s are promised, it took {took:?}");
    rig.ends(&rest[0]);
}

#[test]
fn a_frozen_host_leaves_the_ring_and_returns_after_the_thaw() {
    let Some((mut rig, hosts)) = booted() else { return };
    let still = &hosts[2];
    rig.control(&["freeze", still]);
    rig.heals(&format!("{still} stands still"), &without(&hosts, &[still]));
    rig.control(&["thaw", still]);
    rig.heals(&format!("{still} goes on"), &hosts);
    rig.ends(still);
}

#[test]
fn the_ring_is_whole_after_a_cable_is_cut_and_after_its_repair() {
    let Some((mut rig, hosts)) = booted() else { return };
    let lost = &hosts[1];
    for fault in ["cut", "mute", "deaf"] {
        rig.control(&[fault, lost]);
        rig.heals(&format!("{fault} of {lost}"), &without(&hosts, &[lost]));
        rig.control(&["heal"]);
        rig.heals(&format!("{fault} of {lost} mended"), &hosts);
    }
    rig.ends(lost);
}

#[test]
fn a_partition_makes_two_rings_which_merge_after_it_heals() {
    let Some((mut rig, hosts)) = booted() else { return };
    let (one, two) = hosts.split_at(hosts.len() / 2);
    let mut arguments = vec!["split"];
    arguments.extend(one.iter().map(String::as_str));
    rig.control(&arguments);
    rig.heals("the first half", one);
    rig.heals("the second half", two);
    assert_eq!(rig.run(&one[0], &["mpdtrace"]).lines().count(), one.len());
    assert_eq!(rig.run(&two[0], &["mpdtrace"]).lines().count(), two.len());
    rig.control(&["heal"]);
    let took = rig.heals("the halves together again", &hosts);
    assert!(took < Duration::from_secs(80), "25 s are promised, it took {took:?}");
    rig.ends(&hosts[0]);
}
