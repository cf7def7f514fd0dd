//! Processes on the hosts of a rig: those of the suite, jobs and their remains.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mpd_tests::surroundings::{program, tell};
use mpd_tests::waiting::comes_true_slowly;
use nix::sys::signal::Signal;

use crate::process::{self, Process};
use crate::rig::Rig;
use crate::run::{Output, Run, Running, wait_until};

/// How long a job may take until its end.
pub(crate) const DEADLINE: u64 = 120;
/// How long the remains of a job may exist, unless a test sets another limit; the promise is a tenth of it.
const LEAVE: Duration = Duration::from_secs(40);
/// Each look reads all processes of the machine.
const PAUSE: Duration = Duration::from_millis(30);

/// A process on a host.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) host: String,
    pub(crate) process: Process,
}

/// A job whose console is on a host.
pub(crate) struct Job {
    pub(crate) running: Running,
    pub(crate) host: String,
    /// A common directory of its ranks: `t-steps` reports there that it is ready, and waits there for its end.
    pub(crate) directory: PathBuf,
}

impl Rig {
    /// Every living process on these hosts, except the processes of the rig itself.
    pub(crate) fn processes(&self, hosts: &[String]) -> Vec<Found> {
        let mut spaces = BTreeMap::new();
        for host in hosts {
            if let Ok(space) = fs::read_link(format!("/proc/{}/ns/pid", self.first(host))) {
                spaces.insert(space, host);
            }
        }
        let mut found = Vec::new();
        for process in Process::all() {
            let space = fs::read_link(format!("/proc/{}/ns/pid", process.pid));
            if let Ok(space) = space
                && let Some(host) = spaces.get(&space)
                && !process.name.starts_with("sshd")
            {
                found.push(Found { host: (*host).clone(), process });
            }
        }
        found
    }

    /// The processes of these hosts other than their daemons.
    pub(crate) fn strays(&self, hosts: &[String]) -> Vec<String> {
        let all = self.processes(hosts).into_iter();
        all.filter(|found| !found.process.is_daemon() && !found.process.is_waiting())
            .map(|found| format!("{}: {}", found.host, found.process))
            .collect()
    }

    /// Waits until these hosts run only their daemons; returns the time that this took.
    pub(crate) fn is_clean(&self, what: &str, hosts: &[String]) -> Duration {
        let begin = Instant::now();
        let mut left = Vec::new();
        let clean = comes_true_slowly(PAUSE, LEAVE, || {
            left = self.strays(hosts);
            left.is_empty()
        });
        assert!(clean, "{what}: left:\n{}\n{}", left.join("\n"), self.logs(hosts));
        begin.elapsed()
    }

    /// The ends of the logs of these daemons.
    pub(crate) fn logs(&self, hosts: &[String]) -> String {
        let log = |host: &String| {
            let path = format!("/proc/{}/root/tmp/mpd-0-{host}/mpd.log", self.first(host));
            let text = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(12).collect();
            let lines: Vec<&str> = lines.into_iter().rev().collect();
            format!("-- log of {host}\n{}", lines.join("\n"))
        };
        hosts.iter().map(log).collect::<Vec<_>>().join("\n")
    }

    /// The only manager on a host.
    pub(crate) fn manager(&self, host: &str) -> Option<Process> {
        let here = self.processes(&[host.to_owned()]);
        here.into_iter().map(|found| found.process).find(Process::is_manager)
    }

    /// `mpirun` on a host, to be started in its own process group, so that a test can stop and continue it.
    /// (Not by bash: with `set -m`, its `wait -f` may loop forever for a job that has ended.)
    pub(crate) fn mpirun(&self, host: &str, arguments: &[&str]) -> Run {
        let mut command = self.script();
        command.args(["exec", host, "t-run", "group", "mpirun"]).args(arguments);
        Run::new(command).deadline(DEADLINE)
    }

    /// A job of `ranks` ranks, two on each host, that count in a directory of this name, after all have reported.
    pub(crate) fn counts(&self, host: &str, name: &str, ranks: usize, how: [usize; 2]) -> Job {
        let job = self.begins(host, name, &[], ranks, how);
        job.is_ready(ranks);
        job
    }

    /// The same with more options; the caller waits for its ranks later.
    pub(crate) fn begins(
        &self,
        host: &str,
        name: &str,
        options: &[&str],
        ranks: usize,
        how: [usize; 2],
    ) -> Job {
        let directory = self.share().join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).expect("a directory");
        let steps = program("t-steps").display().to_string();
        let place = directory.display().to_string();
        let [ranks, pause, width] = [ranks, how[0], how[1]].map(|number| number.to_string());
        let mut arguments = options.to_vec();
        arguments.extend(["-np", &ranks, "-ppn", "2", &steps, &place, &pause, &width]);
        let running = self.mpirun(host, &arguments).start();
        Job { running, host: host.to_owned(), directory }
    }

    /// Prints a figure of this rig.
    pub(crate) fn figure(&self, text: &str) {
        tell(&format!("rig of {}: {text}", self.hosts()));
    }
}

impl Job {
    /// Waits until that many ranks have started.
    pub(crate) fn is_ready(&self, ranks: usize) {
        let ready = |rank| self.directory.join(format!("ready.{rank}")).exists();
        let all = comes_true_slowly(PAUSE, LEAVE, || (0..ranks).all(ready));
        assert!(all, "not all of {ranks} ranks have begun: {}", self.running.stderr());
    }

    /// Asks the ranks to end.
    pub(crate) fn stop(&self) {
        fs::write(self.directory.join("stop"), "").expect("the file that ends it");
    }

    /// The process of its `mpirun`.
    pub(crate) fn console(&self, rig: &Rig) -> Process {
        let mut found = None;
        wait_until("mpirun is there", || {
            let here = rig.processes(std::slice::from_ref(&self.host)).into_iter();
            found = here.map(|found| found.process).find(|process| {
                let shell = Process::read(process.parent);
                process.runs("mpirun") && shell.is_some_and(|s| s.parent == self.running.pid())
            });
            found.is_some()
        });
        found.expect("just seen")
    }

    /// `^Z`: waits until all processes are stopped.
    pub(crate) fn suspend(&self, rig: &Rig) -> Process {
        let console = self.console(rig);
        process::send(console.pid, Signal::SIGTSTP);
        wait_until("mpirun is stopped", || {
            Process::read(console.pid).is_some_and(|process| process.is_stopped())
        });
        console
    }

    /// Waits for the end of ranks that were asked to stop, and checks that the output has all numbers.
    pub(crate) fn ends_whole(self, ranks: usize) -> Output {
        self.stop();
        let output = self.running.wait();
        output.code(0);
        assert_eq!(counted(&output.stdout, true), ranks, "ranks that ended, of {output}");
        output
    }
}

/// Checks that the lines of each rank are in sequence; returns the number of ranks with complete output.
pub(crate) fn counted(bytes: &[u8], whole: bool) -> usize {
    let mut next: BTreeMap<usize, u64> = BTreeMap::new();
    let mut ended = 0;
    let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        // The last line of a lost rank may be incomplete.
        let last = lines.peek().is_none();
        if last && (line.is_empty() || !whole) {
            break;
        }
        let text = String::from_utf8_lossy(line);
        let arguments: Vec<&str> = text.split_whitespace().collect();
        let number = |at: usize| arguments.get(at).and_then(|word| word.parse::<u64>().ok());
        let rank = number(0).unwrap_or_else(|| panic!("whose line is '{text}'?"));
        let expected = next.entry(usize::try_from(rank).expect("a rank")).or_default();
        if arguments.get(1) == Some(&"end") {
            assert_eq!(number(2), Some(*expected), "the last line of rank {rank}");
            *expected = u64::MAX;
            ended += 1;
        } else {
            assert_eq!(number(1), Some(*expected), "the next line of rank {rank}");
            *expected += 1;
        }
    }
    ended
}

/// The median of some times.
pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
