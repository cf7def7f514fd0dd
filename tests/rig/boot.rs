//! One command raises the ring, wherever it is asked from everybody lists it, and it keeps itself.

use std::time::Instant;

use mpd_tests::surroundings::tell;

use crate::rig::{up, without};

#[test]
fn mpdboot_raises_the_ring_and_every_host_lists_it_in_the_order_of_the_file() {
    let Some(rig) = up() else { return };
    let hosts = rig.all();
    let ssh = format!("for i in $(seq 2 {}); do ssh h$i true & done; wait", rig.hosts());
    let begin = Instant::now();
    rig.run("h1", &["sh", "-c", &ssh]);
    let bare = begin.elapsed();
    let begin = Instant::now();
    rig.boot(&[]);
    let boot = begin.elapsed();
    tell(&format!(
        "rig of {}: mpdboot {:.2} s, bare parallel ssh {:.2} s, ratio {:.2}",
        rig.hosts(),
        boot.as_secs_f64(),
        bare.as_secs_f64(),
        boot.as_secs_f64() / bare.as_secs_f64()
    ));
    rig.heals("booted", &hosts);
    for (at, host) in hosts.iter().enumerate() {
        let listed = rig.run(host, &["mpdtrace"]);
        let mut wanted = hosts.clone();
        wanted.rotate_left(at);
        assert_eq!(listed.lines().collect::<Vec<_>>(), wanted, "as {host} lists it");
    }
    let laps = rig.run("h1", &["mpdringtest", "10"]);
    assert!(laps.starts_with("time for 10 loops = "), "{laps}");
    rig.ends("h2");
}

#[test]
fn a_host_that_is_powered_on_again_is_back_without_a_command() {
    let Some(mut rig) = up() else { return };
    let hosts = rig.all();
    rig.boot(&["--keep"]);
    rig.heals("booted with --keep", &hosts);
    // The booting host is a host like others.
    for lost in ["h3", "h1"] {
        rig.control(&["kill", lost]);
        rig.heals(&format!("power cut of {lost}"), &without(&hosts, &[lost]));
        rig.control(&["boot", lost]);
        rig.heals(&format!("{lost} powered on again"), &hosts);
    }
    rig.kill_daemon("h2");
    rig.heals("kill -9 of the daemon of h2, started again by its neighbour", &hosts);
    rig.ends("h4");
}

#[test]
fn hosts_can_be_added_and_taken_away_and_the_ring_replaced() {
    let Some(rig) = up() else { return };
    let hosts = rig.all();
    let few = rig.host_file(&hosts[..4]);
    rig.run("h1", &["mpdboot", "-f", &few]);
    rig.heals("booted", &hosts[..4]);
    let again = rig.exec("h1", &["mpdboot", "-f", &few]);
    assert_eq!(again.status.code(), Some(1), "{}", crate::rig::text(&again));
    assert!(crate::rig::text(&again).contains("--replace"), "{}", crate::rig::text(&again));
    let more = rig.file("more", &(hosts[4..].join("\n") + "\n"));
    rig.run("h1", &["mpdboot", "--add", "-f", &more]);
    rig.heals("four added", &hosts);
    rig.run("h5", &["mpdexit", "h2"]);
    rig.heals("h2 told to leave", &without(&hosts, &["h2"]));
    let all = rig.host_file(&hosts);
    rig.run("h1", &["mpdboot", "--replace", "-f", &all]);
    rig.heals("replaced", &hosts);
    rig.ends("h1");
}
