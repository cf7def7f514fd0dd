//! Random kills of processes of the suite while jobs run: no process is left, and the ring is whole.

use std::time::Duration;

use mpd_tests::random::Random;
use mpd_tests::surroundings::tell;
use nix::sys::signal::Signal;

use crate::jobs::booted;
use crate::process;
use crate::rig::{RigOptions, number};
use crate::run::{comes_true, sample};

/// Maximum number of kills in one round.
const KILLS: usize = 3;

#[test]
fn random_kills_under_load_leave_no_process_and_a_whole_ring() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let (rounds, seed) = (number("MPD_RIG_ROUNDS", sample(20, 200)), number("MPD_RIG_SEED", 1));
    tell(&format!("rig: {rounds} rounds, MPD_RIG_SEED={seed}"));
    let mut random = Random::new(seed);
    let ranks = 2 * hosts.len();
    for round in 0..rounds {
        let from = [random.below(hosts.len()), random.below(hosts.len())];
        let names = ["one", "two"];
        let jobs = [0, 1].map(|at| {
            let how = [[20, 0], [2, 300]][at];
            rig.counts(&hosts[from[at]], names[at], ranks, how)
        });
        let mut killed = Vec::new();
        for _ in 0..=random.below(KILLS) {
            let mut candidates = rig.processes(&hosts);
            candidates.retain(|found| found.process.runs("mpd") || found.process.runs("mpirun"));
            let found = &candidates[random.below(candidates.len())];
            killed.push(format!("{}: {}", found.host, found.process));
            process::send(found.process.pid, Signal::SIGKILL);
        }
        for mut job in jobs {
            job.stop();
            if !comes_true(Duration::from_secs(60), || job.running.has_ended()) {
                let left = rig.strays(&hosts).join("\n");
                panic!("{killed:?}: {} hangs:\n{left}\n{}", job.host, rig.logs(&hosts));
            }
            let output = job.running.wait();
            // 0 is success, 125 a failure of the suite, and 137 an mpirun that was killed, as its shell reports it.
            let code = output.exit_code();
            assert!(matches!(code, Some(0 | 125 | 137)), "{killed:?}: {output}");
        }
        for host in &hosts {
            let daemons = rig.processes(std::slice::from_ref(host));
            if !daemons.iter().any(|found| found.process.is_daemon()) {
                rig.run(host, &["mpd", "--daemon"]);
            }
        }
        rig.is_clean(&format!("round {round}, killed {killed:?}"), &hosts);
        rig.heals(&format!("round {round}, {} killed", killed.len()), &hosts);
    }
    let count = ranks.to_string();
    let output = rig.mpirun(&hosts[0], &["-np", &count, "-ppn", "2", "hostname"]).output();
    assert_eq!(output.code(0).out().lines().count(), ranks);
    rig.ends(&hosts[0]);
}
