//! What happens to a ring when hosts, daemons and cables fail: it is whole again by itself.

use std::time::{Duration, Instant};

use crate::rig::{Rig, up, without};

/// A rig with a ring, and its members as they follow each other, the host it was booted from first.
fn booted() -> Option<(Rig, Vec<String>)> {
    let rig = up()?;
    rig.boot(&[]);
    let hosts = rig.booted();
    Some((rig, hosts))
}

/// Whoever is told of nothing else: the host the ring was booted from, one beside it, one far away.
fn some(hosts: &[String]) -> [String; 3] {
    [0, 1, hosts.len() / 2].map(|at| hosts[at].clone())
}

#[test]
fn a_daemon_killed_is_missed_at_once_and_back_in_its_place_when_started_again() {
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
        assert_eq!(listed.lines().collect::<Vec<_>>(), wanted, "everybody in the old place");
    }
    assert!(worst < Duration::from_secs(10), "1 s is promised, it took {worst:?}");
    rig.ends(&hosts[0]);
}

#[test]
fn a_power_cut_of_any_host_heals_in_seconds() {
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
fn a_power_cut_of_neighbours_heals_in_seconds() {
    let Some((mut rig, hosts)) = booted() else { return };
    // Half of a small rig, eight adjacent ones of a large one.
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
fn a_host_that_stood_still_is_out_and_back() {
    let Some((mut rig, hosts)) = booted() else { return };
    let still = &hosts[2];
    rig.control(&["freeze", still]);
    rig.heals(&format!("{still} stands still"), &without(&hosts, &[still]));
    rig.control(&["thaw", still]);
    rig.heals(&format!("{still} goes on"), &hosts);
    rig.ends(still);
}

#[test]
fn a_cable_cut_both_ways_or_one_way_heals_and_so_does_its_mending() {
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
fn halves_that_are_parted_are_two_rings_and_become_one_again() {
    let Some((mut rig, hosts)) = booted() else { return };
    let (one, two) = hosts.split_at(hosts.len() / 2);
    let mut words = vec!["split"];
    words.extend(one.iter().map(String::as_str));
    rig.control(&words);
    rig.heals("the first half", one);
    rig.heals("the second half", two);
    assert_eq!(rig.run(&one[0], &["mpdtrace"]).lines().count(), one.len());
    assert_eq!(rig.run(&two[0], &["mpdtrace"]).lines().count(), two.len());
    rig.control(&["heal"]);
    let took = rig.heals("the halves together again", &hosts);
    assert!(took < Duration::from_secs(80), "25 s are promised, it took {took:?}");
    rig.ends(&hosts[0]);
}
