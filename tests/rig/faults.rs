//! The end of a job after the failure of a process, of a host, or of a cable between hosts.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use mpd_tests::random::Random;
use mpd_tests::surroundings::{program, skip, tell};
use mpd_tests::waiting::comes_true;
use nix::sys::signal::Signal;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::GetUsize;

use crate::hosts::counted;
use crate::jobs::booted;
use crate::process;
use crate::rig::{Rig, RigOptions, number, without};
use crate::run::{Output, sample, wait_until};

const STEP: [usize; 2] = [20, 0];

/// Fails unless `mpirun` ended within the limit and named the lost host.
fn ended_for(output: &Output, host: &str, took: Duration) {
    output.code(125).says(&[host]);
    counted(&output.stdout, false);
    assert!(took < Duration::from_secs(40), "10 s are promised, it took {took:?}");
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

#[test]
fn a_manager_killed_on_any_host_ends_the_job_and_leaves_nothing() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let tree = program("t-tree").display().to_string();
    let ranks = 2 * hosts.len();
    let mut worst = Duration::ZERO;
    for lost in &hosts {
        // In addition to its ranks, each host has hidden grandchildren.
        let arguments = ["-np", &ranks.to_string(), "-ppn", "2", &tree, "2", "20", "200"];
        let job = rig.mpirun(&hosts[0], &arguments).start();
        wait_until("all trees have begun", || job.stdout().matches("tree ").count() == ranks);
        let begin = Instant::now();
        process::send(rig.manager(lost).expect("a manager").pid, Signal::SIGKILL);
        let output = job.wait();
        let took = begin.elapsed();
        output.code(125);
        if *lost != hosts[0] {
            output.says(&[lost]);
        }
        rig.is_clean(&format!("manager of {lost} killed"), &hosts);
        worst = worst.max(begin.elapsed());
        assert!(took < Duration::from_secs(20), "2 s are promised, it took {took:?}");
    }
    rig.figure(&format!("kill -9 of a manager: all gone after {} at most", seconds(worst)));
    rig.ends(&hosts[0]);
}

#[test]
fn a_restarted_daemon_removes_ranks_after_daemon_and_manager_were_killed() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let ranks = 2 * hosts.len();
    let tree = program("t-tree").display().to_string();
    for lost in [&hosts[3], &hosts[0]] {
        let arguments = ["-np", &ranks.to_string(), "-ppn", "2", &tree, "2", "20", "200"];
        let job = rig.mpirun(&hosts[0], &arguments).start();
        wait_until("all trees have begun", || job.stdout().matches("tree ").count() == ranks);
        for found in rig.processes(std::slice::from_ref(lost)) {
            if found.process.runs("mpd") {
                process::send(found.process.pid, Signal::SIGKILL);
            }
        }
        job.wait().code(125);
        rig.is_clean("the others", &without(&hosts, &[lost]));
        let begin = Instant::now();
        rig.run(lost, &["mpd", "--daemon"]);
        rig.is_clean(&format!("daemon and manager of {lost} killed"), &hosts);
        rig.figure(&format!("gone {} after a daemon was started again", seconds(begin.elapsed())));
        rig.heals("the daemon is back", &hosts);
    }
    rig.ends(&hosts[0]);
}

#[test]
fn a_killed_mpirun_leaves_no_process_on_any_host() {
    let Some((rig, hosts)) = booted(RigOptions::default()) else { return };
    let ranks = 2 * hosts.len();
    let mut worst = Duration::ZERO;
    for round in 0..3 {
        let job = rig.counts(&hosts[round], "steps", ranks, STEP);
        let other = rig.counts(&hosts[0], "other", 2, STEP);
        let begin = Instant::now();
        process::send(job.console(&rig).pid, Signal::SIGKILL);
        let of_job = |rig: &Rig| rig.strays(&hosts).iter().any(|line| line.contains("/steps "));
        wait_until("its ranks are gone", || !of_job(&rig));
        worst = worst.max(begin.elapsed());
        drop(job.running.wait());
        other.ends_whole(2);
        rig.is_clean("console killed", &hosts);
    }
    rig.figure(&format!("kill -9 of mpirun: ranks gone after {} at most", seconds(worst)));
    rig.ends(&hosts[0]);
}

#[test]
fn a_power_cut_of_a_host_ends_the_job_with_its_name() {
    let Some((mut rig, hosts)) = booted(RigOptions::default()) else { return };
    let ranks = 2 * hosts.len();
    let mut left = hosts.clone();
    for lost in [&hosts[2], &hosts[hosts.len() - 1]] {
        let job = rig.counts(&hosts[0], "steps", 2 * left.len(), STEP);
        let begin = Instant::now();
        rig.control(&["kill", lost]);
        left = without(&left, &[lost]);
        let output = job.running.wait();
        let took = begin.elapsed();
        ended_for(&output, lost, took);
        rig.is_clean(&format!("power cut of {lost}"), &left);
        rig.figure(&format!(
            "power cut of {lost} under {ranks} ranks: mpirun ended after {}, all clean after {}",
            seconds(took),
            seconds(begin.elapsed())
        ));
        rig.heals("the rest", &left);
    }
    rig.ends(&hosts[0]);
}

#[test]
fn a_power_cut_of_the_consoles_host_ends_the_job_everywhere() {
    let Some((mut rig, hosts)) = booted(RigOptions::default()) else { return };
    let job = rig.counts(&hosts[1], "steps", 2 * hosts.len(), STEP);
    let begin = Instant::now();
    rig.control(&["kill", &hosts[1]]);
    let rest = without(&hosts, &[&hosts[1]]);
    rig.is_clean("power cut of the console's host", &rest);
    let took = begin.elapsed();
    rig.figure(&format!("power cut of the console's host: all clean after {}", seconds(took)));
    drop(job);
    rig.heals("the rest", &rest);
    rig.ends(&rest[0]);
}

#[test]
fn a_cable_cut_for_five_seconds_does_not_affect_a_job() {
    let Some((mut rig, hosts)) = booted(RigOptions::default()) else { return };
    let ranks = 2 * hosts.len();
    // The output of all ranks together does not grow with the number of hosts: the machine has time for the cable.
    let job = rig.counts(&hosts[0], "steps", ranks, [5 * hosts.len().div_ceil(8), 200]);
    rig.control(&["cut", &hosts[3]]);
    std::thread::sleep(Duration::from_secs(5));
    rig.control(&["heal", &hosts[3]]);
    let healed = Instant::now();
    let before = job.running.stdout().lines().filter(|l| l.starts_with("6 ")).count();
    let continues =
        || job.running.stdout().lines().filter(|l| l.starts_with("6 ")).count() > before + 10;
    assert!(
        comes_true(Duration::from_secs(60), continues),
        "nothing more from rank 6 of h4: {}",
        job.running.stderr()
    );
    rig.figure(&format!("5 s cut: output again {} after it was healed", seconds(healed.elapsed())));
    job.ends_whole(ranks);
    rig.heals("after the cut", &hosts);
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

/// The value since Linux 6.15, as in `mpd_io::network::tcp`.
const TCP_RTO_MAX_MS: libc::c_int = 44;

#[derive(Clone, Copy)]
struct RtoMax;
nix::getsockopt_impl!(RtoMax, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, usize, GetUsize);

/// Whether this kernel limits the pause between retransmissions of a connection.
fn retransmission_is_bounded() -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    getsockopt(&listener, RtoMax).is_ok()
}

/// The number of jobs of a group, and the pause between their starts.
const GROUP: usize = 30;
const STAGGER: Duration = Duration::from_millis(30);
/// A cut that lasted longer, including the time to cut and to heal, is not a short cut.
const LONGEST_CUT: Duration = Duration::from_millis(5500);

/// Starts a group of jobs of one second, each with a rank on two hosts. `fault` runs when all ranks have
/// started. Returns one line for each failed job.
fn group_of_jobs(
    rig: &mut Rig,
    on: [&str; 2],
    round: usize,
    fault: impl FnOnce(&mut Rig, Instant),
) -> Vec<String> {
    let directory = rig.share().join(format!("begun-{round}"));
    std::fs::create_dir(&directory).expect("a directory");
    let place = directory.display().to_string();
    let hosts = on.join(",");
    let begin = Instant::now();
    let mut jobs = Vec::new();
    for job in 0..GROUP {
        std::thread::sleep(
            (STAGGER * u32::try_from(job).expect("few")).saturating_sub(begin.elapsed()),
        );
        let rank = format!(": >{place}/{job}.$PMI_RANK; sleep 1; echo ok");
        let arguments = ["-hosts", &hosts, "-ppn", "1", "-n", "2", "bash", "-c", &rank];
        jobs.push(rig.mpirun(on[0], &arguments).start());
    }
    let begun = |job, rank| directory.join(format!("{job}.{rank}")).exists();
    wait_until("all ranks have begun", || {
        let mut jobs = jobs.iter_mut().enumerate();
        jobs.all(|(job, running)| running.has_ended() || (begun(job, 0) && begun(job, 1)))
    });
    fault(rig, begin);
    let mut failed = Vec::new();
    for (job, running) in jobs.into_iter().enumerate() {
        let output = running.wait();
        if output.exit_code() != Some(0) || output.out() != "ok\nok\n" {
            failed.push(format!("group {round}, job {job}: {output}"));
        }
    }
    failed
}

/// A random time between two bounds, in milliseconds.
fn drawn(random: &mut Random, least: usize, most: usize) -> Duration {
    Duration::from_millis((least + random.below(most - least + 1)) as u64)
}

#[test]
fn a_short_cable_cut_while_jobs_end_fails_no_job() {
    if !retransmission_is_bounded() {
        return skip("short cuts while jobs end: the kernel has no TCP_RTO_MAX_MS (Linux 6.15)");
    }
    let Some((mut rig, hosts)) = booted(RigOptions { hosts: Some(4), ..RigOptions::default() })
    else {
        return;
    };
    let (groups, seed) = (sample(1, 10), number("MPD_RIG_SEED", 1));
    tell(&format!("rig: {groups} groups, MPD_RIG_SEED={seed}"));
    let mut random = Random::new(seed);
    let [console, other] = [&hosts[0], &hosts[2]];
    let (mut failed, mut counted) = (Vec::new(), 0);
    for round in 0..3 * groups {
        let moment = drawn(&mut random, 1250, 1550);
        let length = drawn(&mut random, 4400, 4900);
        let mut lasted = Duration::ZERO;
        let lost = group_of_jobs(&mut rig, [console, other], round, |rig, begin| {
            std::thread::sleep(moment.saturating_sub(begin.elapsed()));
            let cut = Instant::now();
            rig.control(&["cut", other]);
            std::thread::sleep(length);
            rig.control(&["heal"]);
            lasted = cut.elapsed();
        });
        tell(&format!("group {round}: cut at {moment:?} for {}", seconds(lasted)));
        rig.is_clean(&format!("after group {round}"), &hosts);
        rig.heals(&format!("after group {round}"), &hosts);
        // A busy machine may heal the cable so late that the promise does not apply.
        if lasted < LONGEST_CUT {
            failed.extend(lost);
            counted += 1;
        }
        if counted == groups {
            break;
        }
    }
    assert!(counted > 0, "no cut was short: the machine is too busy");
    rig.figure(&format!("cuts while jobs end: {} of {} failed", failed.len(), counted * GROUP));
    assert!(failed.is_empty(), "{}\n{}", failed.join("\n"), rig.logs(&hosts));
    rig.ends(&hosts[0]);
}

#[test]
fn both_sides_of_a_lasting_partition_end_the_job_before_it_heals() {
    let Some((mut rig, hosts)) = booted(RigOptions::default()) else { return };
    let job = rig.counts(&hosts[0], "steps", 2 * hosts.len(), STEP);
    let begin = Instant::now();
    let mut arguments = vec!["split"];
    arguments.extend(hosts[..hosts.len() / 2].iter().map(String::as_str));
    rig.control(&arguments);
    rig.is_clean("both sides of the partition", &hosts);
    let took = begin.elapsed();
    job.running.wait().code(125).says(&["lost"]);
    rig.figure(&format!("partition: both sides clean after {}", seconds(took)));
    std::thread::sleep(sample(Duration::ZERO, Duration::from_secs(60)).saturating_sub(took));
    rig.control(&["heal"]);
    rig.heals("healed", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn a_frozen_host_kills_its_part_of_the_job_after_the_thaw() {
    let Some((mut rig, hosts)) = booted(RigOptions::default()) else { return };
    let frozen = sample(Duration::from_secs(12), Duration::from_secs(60));
    // A branch of the tree, and the host of the root.
    for still in [&hosts[3], &hosts[0]] {
        let rest = without(&hosts, &[still]);
        let job = rig.counts(&hosts[0], "steps", 2 * hosts.len(), STEP);
        let begin = Instant::now();
        rig.control(&["freeze", still]);
        rig.is_clean(&format!("{still} stands still"), &rest);
        let others = begin.elapsed();
        std::thread::sleep(frozen.saturating_sub(others));
        let before = job.running.stdout();
        let thawed = Instant::now();
        rig.control(&["thaw", still]);
        rig.is_clean(&format!("{still} goes on"), std::slice::from_ref(still));
        let took = thawed.elapsed();
        let output = job.running.wait();
        output.code(125).says(&["lost"]);
        if *still != hosts[0] {
            assert_eq!(output.out(), before, "an ended job printed output");
        }
        rig.figure(&format!(
            "{still} frozen: the others clean after {}, itself {} after its thaw",
            seconds(others),
            seconds(took)
        ));
        rig.heals("all go on", &hosts);
    }
    rig.ends(&hosts[0]);
}

#[test]
fn a_fault_at_any_moment_of_a_start_ends_the_job_with_a_message() {
    let Some((mut rig, hosts)) = booted(RigOptions::default()) else { return };
    let seed: u64 = number("MPD_RIG_SEED", 1);
    let mut random = Random::new(seed);
    let ranks = 4 * hosts.len();
    for round in 0..sample(4, 40) {
        let moment = Duration::from_millis(random.below(60).try_into().expect("small"));
        let lost = hosts[1 + random.below(hosts.len() - 1)].clone();
        let fault = ["manager", "cut", "daemon", "freeze"][round % 4];
        let job = rig.begins(&hosts[0], "steps", &[], ranks, STEP);
        job.console(&rig);
        std::thread::sleep(moment);
        let what = format!("{fault} of {lost} {moment:?} after the start");
        match fault {
            "manager" => match rig.manager(&lost) {
                Some(manager) => process::send(manager.pid, Signal::SIGKILL),
                // The fault came before the manager started.
                None => job.stop(),
            },
            // The job may have survived the fault.
            "daemon" => {
                rig.kill_daemon(&lost);
                job.stop();
            }
            fault => rig.control(&[fault, &lost]),
        }
        let begin = Instant::now();
        let output = job.running.wait();
        assert!(matches!(output.exit_code(), Some(0 | 125)), "{what}: {output}");
        if output.exit_code() == Some(125) {
            output.says(&[&lost]);
        }
        let took = begin.elapsed();
        rig.control(&["heal"]);
        rig.control(&["thaw", &lost]);
        if fault == "daemon" {
            rig.run(&lost, &["mpd", "--daemon"]);
        }
        rig.is_clean(&what, &hosts);
        rig.figure(&format!("{what}: ended after {}", seconds(took)));
        rig.heals(&what, &hosts);
    }
    rig.ends(&hosts[0]);
}
