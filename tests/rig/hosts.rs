//! What runs on the hosts of a rig: the processes of the suite there, jobs and what is left of them.

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

/// How long a job may take to come to its end.
const DEADLINE: u64 = 120;
/// How long what is left of a job may take to be gone, if a test says nothing else: promised is a tenth.
const LEAVE: Duration = Duration::from_secs(40);
/// Looking goes through all processes of the machine.
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
    /// What its ranks were given to meet in: `t-steps` says there that it is ready and looks for its end.
    pub(crate) directory: PathBuf,
}

impl Rig {
    /// Every living process on these hosts, but for what makes a host of them.
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

    /// What there is on these hosts besides their daemons.
    pub(crate) fn strays(&self, hosts: &[String]) -> Vec<String> {
        let all = self.processes(hosts).into_iter();
        all.filter(|found| !found.process.is_daemon())
            .map(|found| format!("{}: {}", found.host, found.process))
            .collect()
    }

    /// Waits until these hosts run nothing but their daemons; says how long that took.
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

    /// The last words of the daemons there.
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

    /// The one manager on a host.
    pub(crate) fn manager(&self, host: &str) -> Option<Process> {
        let here = self.processes(&[host.to_owned()]);
        here.into_iter().map(|found| found.process).find(Process::is_manager)
    }

    /// `mpirun` on a host, to be started: in a process group of its own, so that it may be stopped and continued.
    /// (Not by bash: with `set -m`, its `wait -f` may spin for ever over a job that has ended.)
    pub(crate) fn mpirun(&self, host: &str, words: &[&str]) -> Run {
        let mut command = self.script();
        command.args(["exec", host, "t-run", "group", "mpirun"]).args(words);
        Run::new(command).deadline(DEADLINE)
    }

    /// A job of `ranks` ranks that count in a directory of this name, two on each host, begun: all have said so.
    pub(crate) fn counts(&self, host: &str, name: &str, ranks: usize, how: [usize; 2]) -> Job {
        let job = self.begins(host, name, &[], ranks, how);
        job.is_ready(ranks);
        job
    }

    /// The same, with more options, and whoever waits for its ranks does so later.
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
        let mut words = options.to_vec();
        words.extend(["-np", &ranks, "-ppn", "2", &steps, &place, &pause, &width]);
        let running = self.mpirun(host, &words).start();
        Job { running, host: host.to_owned(), directory }
    }

    /// Says a figure of this rig.
    pub(crate) fn figure(&self, text: &str) {
        tell(&format!("rig of {}: {text}", self.hosts()));
    }
}

impl Job {
    /// Waits until that many ranks have begun.
    pub(crate) fn is_ready(&self, ranks: usize) {
        let ready = |rank| self.directory.join(format!("ready.{rank}")).exists();
        let all = comes_true_slowly(PAUSE, LEAVE, || (0..ranks).all(ready));
        assert!(all, "not all of {ranks} ranks have begun: {}", self.running.stderr());
    }

    /// Tells the ranks to end.
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

    /// `^Z`: waits until all is stopped.
    pub(crate) fn suspend(&self, rig: &Rig) -> Process {
        let console = self.console(rig);
        process::send(console.pid, Signal::SIGTSTP);
        wait_until("mpirun is stopped", || {
            Process::read(console.pid).is_some_and(|process| process.is_stopped())
        });
        console
    }

    /// The end of ranks that were told to stop: all they counted is there.
    pub(crate) fn ends_whole(self, ranks: usize) -> Output {
        self.stop();
        let output = self.running.wait();
        output.code(0);
        assert_eq!(counted(&output.stdout, true), ranks, "ranks that ended, of {output}");
        output
    }
}

/// Checks that the lines of each rank follow each other; gives the number of ranks that were heard to their end.
pub(crate) fn counted(bytes: &[u8], whole: bool) -> usize {
    let mut next: BTreeMap<usize, u64> = BTreeMap::new();
    let mut ended = 0;
    let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        // What a lost rank said last may lack its end.
        let last = lines.peek().is_none();
        if last && (line.is_empty() || !whole) {
            break;
        }
        let text = String::from_utf8_lossy(line);
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        let rank = number(0).unwrap_or_else(|| panic!("whose line is '{text}'?"));
        let expected = next.entry(usize::try_from(rank).expect("a rank")).or_default();
        if words.get(1) == Some(&"end") {
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
