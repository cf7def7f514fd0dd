//! Random operations on the members: at the end one ring exists, and no other process is left.

use std::collections::BTreeSet;

use mpd_tests::random::Random;

use mpd_tests::surroundings::tell;

use crate::rig::{number, up};

#[test]
fn after_any_operations_all_hosts_list_one_ring() {
    let Some(mut rig) = up() else { return };
    let (operations, seed) = (number("MPD_RIG_OPERATIONS", 30), number("MPD_RIG_SEED", 1));
    tell(&format!("rig: {operations} operations, MPD_RIG_SEED={seed}"));
    let mut random = Random::new(seed);
    rig.boot(&[]);
    let hosts = rig.all();
    rig.heals("booted", &hosts);
    let mut live: BTreeSet<String> = hosts.iter().cloned().collect();
    let mut off: BTreeSet<String> = BTreeSet::new();
    for operation in 0..operations {
        let host = hosts[random.below(hosts.len())].clone();
        let is_live = live.contains(&host);
        // An entering daemon needs a live member.
        let others: Vec<String> = live.iter().filter(|other| **other != host).cloned().collect();
        let chance = random.below(3);
        tell(&format!(
            "{operation}: {host} {}",
            if is_live { ["exit", "kill -9", "power cut"][chance] } else { "added" }
        ));
        match (is_live, chance) {
            (true, _) if others.len() < 2 => {}
            (true, 0) => {
                rig.run(&others[0], &["mpdexit", &host]);
                live.remove(&host);
            }
            (true, 1) => {
                rig.kill_daemon(&host);
                live.remove(&host);
            }
            (true, _) => {
                rig.control(&["kill", &host]);
                live.remove(&host);
                off.insert(host.clone());
            }
            (false, _) => {
                if off.remove(&host) {
                    rig.control(&["boot", &host]);
                    rig.can_log_in(&others[0], &host);
                }
                let file = rig.file("one", &format!("{host}\n"));
                rig.run(&others[0], &["mpdboot", "--add", "-f", &file]);
                live.insert(host.clone());
            }
        }
        if operation % 10 == 9 {
            let now: Vec<String> = live.iter().cloned().collect();
            rig.heals(&format!("after {} operations", operation + 1), &now);
        }
    }
    let last: Vec<String> = live.iter().cloned().collect();
    rig.heals("at the end", &last);
    for host in off {
        rig.control(&["boot", &host]);
    }
    rig.ends(&last[0]);
}
