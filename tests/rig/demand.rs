//! Rings that mpirun starts for one job, over real ssh, from a host without a daemon.

use std::time::{Duration, Instant};

use mpd_tests::surroundings::tell;

use crate::rig::{up, without};

/// A job on the other hosts prints its hosts and leaves nothing anywhere.
#[test]
fn a_job_on_named_hosts_runs_without_a_ring_and_leaves_none() {
    let Some(mut rig) = up() else { return };
    let entry = rig.entry();
    let mut others = without(&rig.all(), &[&entry]);
    others.sort();
    let (list, count) = (others.join(","), others.len().to_string());
    let arguments = ["mpirun", "-hosts", &list, "-ppn", "1", "-n", &count, "hostname"];
    let ssh = format!("for host in {}; do ssh $host true & done; wait", others.join(" "));
    let mut times = [Duration::ZERO; 2];
    for _ in 0..3 {
        let begin = Instant::now();
        let printed = rig.run(&entry, &arguments);
        times[0] += begin.elapsed();
        let mut printed: Vec<&str> = printed.lines().collect();
        printed.sort_unstable();
        assert_eq!(printed, others);
        rig.nothing_is_left();
        let begin = Instant::now();
        rig.run(&entry, &["sh", "-c", &ssh]);
        times[1] += begin.elapsed();
    }
    let [ours, bare] = times.map(|time| time.as_secs_f64() / 3.0);
    tell(&format!(
        "job on {count} hosts without a ring {ours:.2} s, bare parallel ssh {bare:.2} s"
    ));
    // A host that is off prevents the job.
    let lost = others[0].clone();
    rig.control(&["kill", &lost]);
    let refused = rig.exec(&entry, &arguments);
    assert_eq!(refused.status.code(), Some(125), "{}", crate::rig::text(&refused));
    assert!(crate::rig::text(&refused).contains(&format!("host {lost}")));
    rig.nothing_is_left();
}
