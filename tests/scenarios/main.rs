//! Transcripts of rings: commands, and the reports of the daemons.
//!
//! Each `*.txt` in this directory has lines `> COMMAND`; all other lines are the results. The test runs the commands
//! on the simulator and compares the results; `UPDATE=1` writes the actual ones. Lines with `#` at the beginning
//! of a file describe the scenario.

#[allow(dead_code, reason = "the stories use a part of the simulator")]
#[path = "../sim/checks.rs"]
mod checks;
#[allow(dead_code, reason = "the stories use a part of the simulator")]
#[path = "../sim/daemon.rs"]
mod daemon;
#[allow(dead_code, reason = "the stories use a part of the simulator")]
#[path = "../sim/hosts.rs"]
mod hosts;
#[allow(dead_code, reason = "the stories use a part of the simulator")]
#[path = "../sim/managers.rs"]
mod managers;
#[path = "../sim/names.rs"]
mod names;
#[allow(dead_code, reason = "the stories use a part of the simulator")]
#[path = "../sim/network.rs"]
mod network;
#[allow(dead_code, reason = "the stories use a part of the simulator")]
#[path = "../sim/process.rs"]
mod process;
#[allow(dead_code, reason = "the stories use a part of the simulator")]
#[path = "../sim/recordings.rs"]
mod recordings;
#[path = "../sim/trace.rs"]
mod trace;
#[allow(dead_code, reason = "the stories use a part of the simulator")]
#[path = "../sim/world.rs"]
mod world;

use std::fmt::Write;
use std::path::Path;

use mpd_ring::Input;
use mpd_wire::DaemonName;

use crate::world::{SECOND, Start, World};

#[test]
fn a_newcomer_enters_through_any_member() {
    play("entry");
}

#[test]
fn two_newcomers_that_enter_simultaneously_both_become_members() {
    play("two_at_once");
}

#[test]
fn the_ring_heals_after_a_kill_and_a_power_cut() {
    play("heal");
}

#[test]
fn two_halves_continue_and_merge_when_the_network_is_whole() {
    play("split_and_merge");
}

#[test]
fn a_member_that_leaves_counts_as_departed_and_is_not_probed() {
    play("leave");
}

#[test]
fn a_member_restarted_without_memory_returns_to_its_position() {
    play("restart");
}

#[test]
fn a_lap_during_a_loss_returns_or_is_reported_lost() {
    play("lap_during_loss");
}

#[test]
fn a_scatter_reaches_all_members_and_names_the_missing_ones() {
    play("scatter");
}

#[test]
fn a_published_name_is_known_to_all_until_its_job_or_daemon_ends() {
    play("names");
}

fn play(name: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let path = directory.join(format!("{name}.txt"));
    let script = std::fs::read_to_string(&path).expect("the transcript");
    let transcript = transcribe(&script);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, transcript).expect("write the transcript");
    } else {
        assert!(
            transcript == script,
            "{name}: UPDATE=1 writes this instead, if it is right:\n{transcript}"
        );
    }
}

/// The script with the results of its commands.
fn transcribe(script: &str) -> String {
    let mut world = World::new(1, 0);
    let mut transcript = String::new();
    for line in script.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            writeln!(transcript, "{line}").expect("a string takes it");
            perform(&mut world, command);
        } else if line.starts_with('#') {
            writeln!(transcript, "{line}").expect("a string takes it");
        }
        for line in std::mem::take(&mut world.trace.lines) {
            writeln!(transcript, "{line}").expect("a string takes it");
        }
    }
    assert!(world.watch.violations.is_empty(), "{:?}", world.watch.violations);
    transcript
}

fn perform(world: &mut World, command: &str) {
    let arguments: Vec<&str> = command.split_whitespace().collect();
    let host = |word: &str| word.strip_prefix('h').and_then(|n| n.parse().ok()).expect("a host");
    match arguments.as_slice() {
        ["hosts", count] => {
            *world = World::new(1, count.parse().expect("a number"));
            world.trace.records = true;
        }
        ["boot", who, options @ ..] => world.boot(host(who), &start(options, world.hosts.len())),
        ["run", seconds] => {
            let seconds: f64 = seconds.parse().expect("seconds");
            world.pass((seconds * SECOND as f64) as u64);
        }
        ["kill", who] => world.kill(host(who)),
        ["power-off", who] => world.power_off(host(who)),
        ["power-on", who] => world.power_on(host(who)),
        ["freeze", who] => world.freeze(host(who)),
        ["thaw", who] => world.thaw(host(who)),
        ["split", who @ ..] => {
            let one: Vec<usize> = who.iter().map(|word| host(word)).collect();
            let size = world.hosts.len();
            for two in (0..size).filter(|two| !one.contains(two)) {
                for &one in &one {
                    world.set_reach(one, two, false);
                    world.set_reach(two, one, false);
                }
            }
        }
        ["heal"] => {
            world.reach.iter_mut().for_each(|row| row.fill(true));
            world.kick();
        }
        ["leave", who] => world.input(host(who), Input::Leave),
        ["lap", who, laps] => {
            world.lap(host(who), laps.parse().expect("a number"), true);
        }
        ["scatter", who] => {
            world.scatter(host(who), b"a story");
        }
        ["publish", who, name] => {
            world.publish(host(who), name);
        }
        ["unpublish", who, name] => {
            let who = host(who);
            let claim = world.ring(who).lookup(name).map(|(_, claim)| claim.job.clone());
            world.unpublish(who, name, claim.expect("a published name"));
        }
        ["job-over", who, job] => {
            world.input(host(who), Input::JobOver(job.parse().expect("a job")));
        }
        ["names", who] => {
            let who = host(who);
            let names = world.ring(who).names().into_iter();
            let names = names.map(|(owner, claim)| {
                format!("{} = {} of {} by {owner}", claim.name, claim.value, claim.job)
            });
            let text = format!("< [{}]", names.collect::<Vec<_>>().join(", "));
            world.trace.say(world.now, &world.hosts[who].name, &text);
        }
        ["list", who] => {
            let who = host(who);
            let members = world.ring(who).members();
            let names: Vec<&str> = members.iter().map(DaemonName::as_str).collect();
            let text = format!("< {}", names.join(" "));
            world.trace.say(world.now, &world.hosts[who].name, &text);
        }
        _ => panic!("unknown command '{command}'"),
    }
}

fn start(options: &[&str], size: usize) -> Start {
    let host = |word: &&str| word.strip_prefix('h').and_then(|n| n.parse().ok()).expect("a host");
    match options {
        [] => Start::default(),
        ["via", entry @ ..] => {
            Start { entry: entry.iter().map(host).collect(), ..Start::default() }
        }
        ["as", ordinal] => Start {
            ordinal: Some(ordinal.parse().expect("a number")),
            seeds: (0..size).collect(),
            ..Start::default()
        },
        _ => panic!("boot HOST [via HOST... | as ORDINAL]"),
    }
}
