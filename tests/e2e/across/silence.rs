//! Managers of other hosts that are stopped: before they have their job, and while a failed job ends.

use std::fs;
use std::time::{Duration, Instant};

use mpd_tests::random::Random;
use nix::sys::signal::Signal;

use crate::members::Members;
use crate::process::{self, Process};
use crate::run::{Running, sample, wait_until};
use crate::suite::tell;

/// Hosts of the job that ends: two levels of the job tree.
const HOSTS: usize = 19;
const FULL_HOSTS: usize = 256;

/// The durations between hosts are shorter by this factor.
const SCALE: u32 = 4;

/// The sum of the waits for one silent host, see docs/ending.md, "Waits at the end of a failed job". They are the grace,
/// the kill, the silence, the clean-up, and the close of the connection.
const SUM: Duration = Duration::from_millis(500 + 500 + 8000 / SCALE as u64 + 2000 + 2000);

/// The time that the processes of all hosts may take on one busy machine, besides the waits.
const BUSY: Duration = Duration::from_secs(10);

#[test]
fn a_stopped_manager_in_waiting_of_another_host_is_replaced() {
    let ring = Members::new().option(&["--ncpus", "2", "--waiting", "1"]).with(3);
    for _ in 0..sample(2, 20) {
        let daemon = ring.process(2);
        wait_until("a manager in waiting", || daemon.manager_in_waiting().is_some());
        let waiting = daemon.manager_in_waiting().expect("a manager in waiting");
        waiting.stop();
        let arguments = ["-ppn", "1", "-n", "3", "echo", "ran"];
        let output = ring.mpirun(1, &arguments).deadline(60).output();
        output.code(0).prints("ran\nran\nran\n");
        wait_until("the stopped manager is dead", || Process::is_gone(waiting.pid));
        ring.only_daemons_are_left();
    }
}

/// A job with a rank on each host; rank 1 fails when the file `fail` exists.
const RANK: &str = "if [ $PMI_RANK = 1 ]; then until [ -e $0/fail ]; do sleep 0.05; done; exit 3; fi; \
                    trap 'echo >>$0/term' TERM; echo >>$0/ready; while :; do sleep 0.05; done";

struct Round<'a> {
    ring: &'a Members,
    directory: String,
    job: Running,
}

impl<'a> Round<'a> {
    fn start(ring: &'a Members, hosts: usize, name: &str) -> Self {
        let directory = ring.suite.new_directory(name);
        let count = hosts.to_string();
        let arguments = ["-ppn", "1", "-n", &count, "sh", "-c", RANK, &directory];
        let job = ring.mpirun(1, &arguments).deadline(600).start();
        let round = Self { ring, directory, job };
        wait_until("all ranks are ready", || round.lines("ready") == hosts - 1);
        round
    }

    fn lines(&self, name: &str) -> usize {
        fs::read_to_string(format!("{}/{name}", self.directory)).unwrap_or_default().lines().count()
    }

    fn fail(&self) -> Instant {
        fs::write(format!("{}/fail", self.directory), "").expect("a file");
        Instant::now()
    }

    /// The job ends in time, and nothing is left when the stopped manager continues. Returns how long the end took.
    fn ends(self, failed: Instant, stopped: Option<&Process>, what: &str) -> Duration {
        let output = self.job.wait();
        let took = failed.elapsed();
        tell(&format!("{what}: the end took {took:.1?}"));
        assert!(took < SUM + BUSY, "{what}: the end took {took:?}");
        assert!([3, 125].contains(&output.exit_code().unwrap_or(-1)), "{what}: {output}");
        stopped.iter().for_each(|stopped| process::send(stopped.pid, Signal::SIGCONT));
        self.ring.only_daemons_are_left();
        took
    }
}

#[test]
fn a_failed_job_ends_within_the_sum_of_its_waits_when_a_manager_is_stopped_at_any_of_them() {
    let hosts = sample(HOSTS, FULL_HOSTS);
    let ring = Members::new().option(&["--ncpus", "1"]).faster(SCALE).with(hosts);
    let round = Round::start(&ring, hosts, "undisturbed");
    let failed = round.fail();
    let undisturbed = round.ends(failed, None, "undisturbed");
    let mut random = Random::new(7);
    // A manager of the first level that has children, and one of the second.
    for index in [2, hosts] {
        let round = Round::start(&ring, hosts, &format!("before.{index}"));
        let manager = ring.manager(index);
        manager.stop();
        let failed = round.fail();
        round.ends(failed, Some(&manager), "stopped before the failure");
        let round = Round::start(&ring, hosts, &format!("grace.{index}"));
        let manager = ring.manager(index);
        let failed = round.fail();
        wait_until("ranks have SIGTERM", || round.lines("term") > 0);
        manager.stop();
        round.ends(failed, Some(&manager), "stopped in the grace");
        for at in 0..sample(1, 5) {
            let round = Round::start(&ring, hosts, &format!("end.{index}.{at}"));
            let manager = ring.manager(index);
            let failed = round.fail();
            let moment = after_the_kill(&mut random, undisturbed);
            while failed.elapsed() < moment {
                std::thread::yield_now();
            }
            manager.stop();
            round.ends(failed, Some(&manager), &format!("stopped after {moment:?}"));
        }
    }
}

/// A moment between the kill and the end of `mpirun`, in each of the waits that follow each other.
fn after_the_kill(random: &mut Random, undisturbed: Duration) -> Duration {
    let kill = Duration::from_millis(480);
    let rest = undisturbed.saturating_sub(kill).as_millis();
    kill + Duration::from_millis(random.below(rest.max(1) as usize) as u64)
}
