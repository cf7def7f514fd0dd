//! One command starts the ring, every host lists it, and the ring survives the loss of hosts.

use std::time::Instant;

use mpd_tests::surroundings::tell;

use crate::rig::{Rig, RigOptions, kills_first, up, up_as, without};

#[test]
fn mpdboot_raises_a_ring_that_every_host_lists_in_file_order() {
    let Some(rig) = up() else { return };
    let others = rig.circle()[1..].join(" ");
    let ssh = format!("for host in {others}; do ssh $host true & done; wait");
    let begin = Instant::now();
    rig.run(&rig.entry(), &["sh", "-c", &ssh]);
    let bare = begin.elapsed();
    let boot = rig.boot(&[]);
    tell(&format!(
        "rig of {}, entry {}: mpdboot {:.2} s, bare parallel ssh {:.2} s, ratio {:.2}",
        rig.hosts(),
        rig.entry(),
        boot.as_secs_f64(),
        bare.as_secs_f64(),
        boot.as_secs_f64() / bare.as_secs_f64()
    ));
    let hosts = rig.booted();
    for (at, host) in hosts.iter().enumerate() {
        let listed = rig.run(host, &["mpdtrace"]);
        let mut wanted = hosts.clone();
        wanted.rotate_left(at);
        assert_eq!(listed.lines().collect::<Vec<_>>(), wanted, "as {host} lists it");
    }
    let laps = rig.run(&hosts[0], &["mpdringtest", "10"]);
    assert!(laps.starts_with("time for 10 loops = "), "{laps}");
    rig.ends(&hosts[1]);
}

#[test]
fn a_ring_of_more_hosts_than_remote_shells_starts_runs_a_job_and_ends() {
    // mpdboot has 32 remote shells, so some of these hosts start others.
    let options = RigOptions { hosts: Some(40), ..RigOptions::default() };
    let Some(rig) = up_as(options) else { return };
    let took = rig.boot(&[]);
    tell(&format!("40 hosts booted in {:.2} s", took.as_secs_f64()));
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let all = sorted(&rig.all().join("\n"));
    assert_eq!(sorted(&rig.run("h1", &["mpdtrace"])), all);
    let job = ["mpirun", "-n", "40", "-ppn", "1", "hostname"];
    assert_eq!(sorted(&rig.run("h1", &job)), all);
    rig.ends("h40");
}

#[test]
fn a_host_that_is_powered_on_again_returns_without_a_command() {
    let Some(mut rig) = up() else { return };
    let hosts = rig.circle();
    rig.boot(&["--keep"]);
    rig.heals("booted with --keep", &hosts);
    // The booting host and its daemon, the first one, have no special role.
    let kill_daemon = |rig: &Rig, host: &str| {
        rig.kill_daemon(host);
        rig.heals(&format!("kill -9 of the daemon of {host}, started again"), &hosts);
    };
    if kills_first() {
        kill_daemon(&rig, &hosts[0]);
    }
    for lost in [&hosts[2], &hosts[0]] {
        rig.control(&["kill", lost]);
        rig.heals(&format!("power cut of {lost}"), &without(&hosts, &[lost]));
        rig.control(&["boot", lost]);
        rig.heals(&format!("{lost} powered on again"), &hosts);
    }
    kill_daemon(&rig, &hosts[1]);
    rig.ends(&hosts[3]);
}

#[test]
fn mpdboot_adds_hosts_and_replaces_a_ring_and_mpdexit_removes_hosts() {
    let Some(rig) = up() else { return };
    let hosts = rig.circle();
    let entry = rig.entry();
    let few = rig.host_file(&hosts[..4]);
    rig.run(&entry, &["mpdboot", "-f", &few]);
    rig.heals("booted", &hosts[..4]);
    let again = rig.exec(&entry, &["mpdboot", "-f", &few]);
    assert_eq!(again.status.code(), Some(1), "{}", crate::rig::text(&again));
    assert!(crate::rig::text(&again).contains("--replace"), "{}", crate::rig::text(&again));
    let more = rig.file("more", &(hosts[4..].join("\n") + "\n"));
    rig.run(&entry, &["mpdboot", "--add", "-f", &more]);
    rig.heals("the others added", &hosts);
    let (asked, leaver) = (&hosts[4], &hosts[1]);
    rig.run(asked, &["mpdexit", leaver]);
    rig.heals(&format!("{leaver} leaves on request"), &without(&hosts, &[leaver]));
    let all = rig.host_file(&rig.all());
    rig.run(&entry, &["mpdboot", "--replace", "-f", &all]);
    rig.heals("replaced", &hosts);
    rig.ends(&entry);
}
