//! What happens to a ring when hosts, daemons and cables fail: it is whole again by itself.

use std::time::{Duration, Instant};

use crate::rig::{Rig, up, without};

fn booted() -> Option<Rig> {
    let rig = up()?;
    rig.boot(&[]);
    rig.heals("booted", &rig.all());
    Some(rig)
}

/// Whoever is told of nothing else: the host the ring was booted from, one beside it, one far away.
fn some(rig: &Rig) -> Vec<String> {
    let far = rig.hosts() / 2 + 1;
    vec!["h1".into(), "h2".into(), format!("h{far}")]
}

#[test]
fn a_daemon_killed_is_missed_at_once_and_back_in_its_place_when_started_again() {
    let Some(rig) = booted() else { return };
    let hosts = rig.all();
    let mut worst = Duration::ZERO;
    for lost in some(&rig) {
        let rest = without(&hosts, &[&lost]);
        let begin = Instant::now();
        rig.kill_daemon(&lost);
        rig.heals(&format!("kill -9 of the daemon of {lost}"), &rest);
        worst = worst.max(begin.elapsed());
        rig.run(&lost, &["mpd", "--daemon"]);
        rig.heals(&format!("the daemon of {lost} started again"), &hosts);
        let listed = rig.run("h3", &["mpdtrace"]);
        let mut wanted = hosts.clone();
        wanted.rotate_left(2);
        assert_eq!(listed.lines().collect::<Vec<_>>(), wanted, "everybody in the old place");
    }
    assert!(worst < Duration::from_secs(10), "1 s is promised, it took {worst:?}");
    rig.ends("h1");
}

#[test]
fn a_power_cut_of_any_host_heals_in_seconds() {
    let Some(mut rig) = booted() else { return };
    let mut left = rig.all();
    for lost in some(&rig) {
        left = without(&left, &[&lost]);
        rig.control(&["kill", &lost]);
        let took = rig.heals(&format!("power cut of {lost}"), &left);
        assert!(took < Duration::from_secs(40), "8 s are promised, it took {took:?}");
    }
    rig.ends(&left[0].clone());
}

#[test]
fn a_power_cut_of_neighbours_heals_in_seconds() {
    let Some(mut rig) = booted() else { return };
    let hosts = rig.all();
    // Half of a small rig, eight adjacent ones of a large one.
    let lost: Vec<String> = hosts.iter().skip(2).take((rig.hosts() / 2).min(8)).cloned().collect();
    for host in &lost {
        rig.control(&["kill", host]);
    }
    let names: Vec<&str> = lost.iter().map(String::as_str).collect();
    let rest = without(&hosts, &names);
    let took = rig.heals(&format!("power cut of {} adjacent hosts", lost.len()), &rest);
    assert!(took < Duration::from_secs(60), "12 s are promised, it took {took:?}");
    rig.ends(&rest[0].clone());
}

#[test]
fn a_host_that_stood_still_is_out_and_back() {
    let Some(mut rig) = booted() else { return };
    let hosts = rig.all();
    rig.control(&["freeze", "h3"]);
    rig.heals("h3 stands still", &without(&hosts, &["h3"]));
    rig.control(&["thaw", "h3"]);
    rig.heals("h3 goes on", &hosts);
    rig.ends("h3");
}

#[test]
fn a_cable_cut_both_ways_or_one_way_heals_and_so_does_its_mending() {
    let Some(mut rig) = booted() else { return };
    let hosts = rig.all();
    for fault in ["cut", "mute", "deaf"] {
        rig.control(&[fault, "h2"]);
        rig.heals(&format!("{fault} of h2"), &without(&hosts, &["h2"]));
        rig.control(&["heal"]);
        rig.heals(&format!("{fault} of h2 mended"), &hosts);
    }
    rig.ends("h2");
}

#[test]
fn halves_that_are_parted_are_two_rings_and_become_one_again() {
    let Some(mut rig) = booted() else { return };
    let hosts = rig.all();
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
    rig.ends("h1");
}
