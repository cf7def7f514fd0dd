//! Jobs over several daemons of this machine; each daemon represents a host.

mod crowds;
mod draining;
mod ends;
mod failures;
mod growing;
mod growth;
mod input;
mod libraries;
mod library_spawn;
mod links;
mod many_spawns;
mod names;
mod output;
mod placement;
mod pmi;
mod restarts;
mod scarce;
mod signals;
mod silence;
mod spawn;
mod spawn_limit;
mod spawn_tree;
mod stopped;
mod tree;
mod world_files;

use std::time::Duration;

use mpd_tests::waiting::comes_true_slowly;

use crate::members::Members;
use crate::process::Process;
use crate::run::{Run, Running, wait_until};
use crate::signals::Recorders;

/// Number of ranks that a host gets before the next host does.
const SLOTS: usize = 2;

/// Hosts d1 to d4, in the ring, without any job.
pub(crate) fn ring() -> Members {
    roomy().with(4)
}

/// Hosts d1 to dCOUNT, in the ring, each started by `start`.
pub(crate) fn ring_by(count: usize, start: impl Fn(&Members, usize)) -> Members {
    let ring = roomy();
    (1..=count).for_each(|index| start(&ring, index));
    ring.agree();
    ring
}

/// No host yet; each host will have [`SLOTS`] slots.
fn roomy() -> Members {
    Members::new().option(&["--ncpus", &SLOTS.to_string()])
}

impl Members {
    /// `mpirun -n COUNT` of a helper program, on d1.
    fn ranks(&self, count: usize, helper: &str, arguments: &[&str]) -> Run {
        self.mpirun(1, &["-n", &count.to_string(), &self.suite.program(helper)]).args(arguments)
    }

    /// A job of `t-signals` after the given options, all of whose processes are ready.
    fn recorders(&self, ranks: usize, options: &[&str], name: &str) -> (Recorders<'_>, Running) {
        let recorders = Recorders::new(&self.suite, ranks, name);
        let directory = recorders.directory.display().to_string();
        let run = self.mpirun(1, options).args(["-n", &ranks.to_string()]);
        let run = run.arg(self.suite.program("t-signals")).args([&directory, "60", "child"]);
        let job = run.deadline(60).start();
        recorders.wait_until_ready();
        (recorders, job)
    }

    /// No process or file of any job is left on any host, and no daemon has ended.
    pub(crate) fn only_daemons_are_left(&self) {
        let pids: Vec<i32> = self.indices().iter().map(|&index| self.process(index).pid).collect();
        self.suite.gone(&pids);
    }

    /// The manager that this daemon has started for the only job.
    fn manager(&self, index: usize) -> Process {
        let daemon = self.process(index);
        let mut found = None;
        // The daemon's children are read directly, because some tests need the manager as soon as it exists.
        wait_until(&format!("a manager on d{index}"), || {
            found = daemon.children().into_iter().find(Process::is_manager);
            found.is_some()
        });
        found.expect("it was found")
    }
}

/// Upper bound for the private memory of each process of the suite, regardless of written or unread data.
const MOST_KIB: u64 = 8 * 1024;

/// Descriptors and anonymous KiB of processes, once they no longer change.
fn settled(processes: &[Process]) -> Vec<(usize, u64)> {
    let sizes = || -> Vec<_> {
        processes.iter().map(|process| (process.descriptors(), process.anonymous_kib())).collect()
    };
    let mut last = Vec::new();
    let are_stable = comes_true_slowly(Duration::from_millis(200), Duration::from_secs(15), || {
        let now = sizes();
        std::mem::replace(&mut last, now.clone()) == now
    });
    assert!(are_stable, "the sizes keep changing: {last:?}");
    last
}
