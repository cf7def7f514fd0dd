//! Placement by load and by speed. All rig hosts have one kernel and so one load. Each gets a `/proc/loadavg` of its own
//! here, and its daemon reads that.

use std::collections::BTreeMap;

use crate::jobs::booted;
use crate::rig::{Rig, RigOptions};

const IDLE: &str = "0.00 0.00 0.00 1/100 1\n";
const BUSY: &str = "64.00 64.00 64.00 65/100 1\n";

/// How many ranks each host gets, in the order of `hosts`.
fn ranks(rig: &Rig, hosts: &[String], options: &[&str]) -> Vec<usize> {
    let output = rig.mpirun(&hosts[0], &[options, &["hostname"]].concat()).output();
    output.code(0);
    let lines = output.out();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    lines.lines().for_each(|host| *counts.entry(host).or_default() += 1);
    hosts.iter().map(|host| counts.get(host.as_str()).copied().unwrap_or(0)).collect()
}

#[test]
fn twenty_processes_avoid_a_loaded_host_and_a_host_of_twice_the_speed_gets_twice_as_many() {
    let Some((rig, hosts)) = booted(RigOptions { hosts: Some(5), ..RigOptions::default() }) else {
        return;
    };
    let (idle, busy) = (rig.file("idle", IDLE), rig.file("busy", BUSY));
    for host in &hosts {
        let load = if *host == hosts[2] { &busy } else { &idle };
        rig.run(host, &["mount", "--bind", load, "/proc/loadavg"]);
    }
    let tasks = ["-n", "20", "-placement", "load"];
    assert_eq!(ranks(&rig, &hosts, &tasks), [5, 5, 0, 5, 5], "a loaded host");
    assert_eq!(ranks(&rig, &hosts, &["-n", "20"]).iter().sum::<usize>(), 20);

    rig.run(&hosts[2], &["umount", "/proc/loadavg"]);
    rig.run(&hosts[2], &["mount", "--bind", &idle, "/proc/loadavg"]);
    // A list names each host, and one of them is faster.
    let lines = hosts.iter().map(|host| {
        let speed = if *host == hosts[1] { " speed=2" } else { "" };
        format!("{host}:4{speed}\n")
    });
    let list = rig.file("speeds", &lines.collect::<String>());
    let tasks = ["-n", "24", "-f", &list, "-placement", "load"];
    assert_eq!(ranks(&rig, &hosts, &tasks), [4, 8, 4, 4, 4], "speed=2");

    rig.is_clean("after the jobs", &hosts);
    rig.ends(&hosts[0]);
}
