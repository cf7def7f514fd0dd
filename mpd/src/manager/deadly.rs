//! Signals that may be the end of ranks, and the end of every process of the job here.
//!
//! Who uses which shared memory is known only while it lives. So whoever such a signal will end is stopped, a helper
//! notes what the job uses, and only then it is sent: what a process made between a look and its end would be
//! nobody's. Who survives the signal notices nothing: it is not stopped, nor is anything below it.

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::time::Duration;

use mpd_io::signals::takes_effect;
use mpd_io::tree::{self, Dead, Stopped};
use mpd_job::manager::Input;
use mpd_machine::Time;
use mpd_wire::job::RankEnd;
use mpd_wire::message::Phase;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgid};

use super::{Process, Timer};

/// Between two rounds of killing, a round follows at once when a child has ended; or between two looks whether
/// everything is stopped.
const INTERVAL: Duration = Duration::from_millis(2);

/// How long a signal waits because not everything is stopped and noted. A kill waits that long for each.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long processes that refuse the kill may take to end: a control group may kill them, and `sudo` ends after its child.
const IMMUNE_PATIENCE: Duration = Duration::from_secs(1);

/// Most processes that a message names.
const MAX_NAMED: usize = 8;

/// Whom of a rank a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// Its process group.
    Group,
    /// Its process alone.
    Process,
}

/// How far what is to be done is.
#[derive(Debug, Default)]
pub(super) struct Deadly {
    step: Step,
    /// In the order in which it is to be done; nothing twice.
    due: VecDeque<Due>,
    stopped: Stopped,
    /// Whoever is found is killed.
    kills: bool,
    /// When killing began.
    since: Time,
    /// Processes that cannot be killed. The user has been told.
    survivors: BTreeSet<Pid>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    None,
    /// Processes are being stopped. At that time it goes on in any case, as below.
    Stop(Time),
    /// A helper looks what they use.
    Note(Time),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Signal(i32, Whom),
    Continue,
    Kill,
}

impl Deadly {
    /// Whether something is to happen.
    pub(super) fn is_coming(&self) -> bool {
        self.step != Step::None || self.kills
    }

    /// Whether all are killed, or will be.
    pub(super) fn is_kill(&self) -> bool {
        self.kills || self.due.contains(&Due::Kill)
    }

    /// To be asked when no child is left to reap. Whether no child is left that can be killed; true once.
    pub(super) fn all_are_gone(&mut self, dead: Dead) -> bool {
        let left = || tree::children(Pid::this()).iter().any(|pid| !self.survivors.contains(pid));
        let are_gone = dead == Dead::NoChildren || !self.survivors.is_empty() && !left();
        are_gone && std::mem::take(&mut self.kills)
    }

    /// A process is about to be reaped.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.stopped.forget(pid);
    }

    /// As with the kernel, a signal that has not arrived does not arrive twice.
    fn add(&mut self, due: Due) {
        if !self.due.contains(&due) {
            self.due.push_back(due);
        }
    }
}

/// Whether a signal ends programs that are not prepared for it.
fn is_deadly(signal: i32) -> bool {
    use libc::{SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH};
    // Nothing is sent with 0.
    !matches!(
        signal,
        0 | SIGWINCH | SIGCONT | SIGCHLD | SIGURG | SIGSTOP | SIGTSTP | SIGTTIN | SIGTTOU
    )
}

impl Process {
    /// Sends a signal to all ranks that run here.
    pub(super) fn signal(&mut self, signal: i32, whom: Whom) {
        if self.deadly.step == Step::None {
            if is_deadly(signal) {
                self.stop_doomed(signal, whom);
            }
            if self.deadly.stopped.is_empty() {
                let refused = self.send(signal, whom);
                return self.tell_refused(signal, &refused);
            }
            self.begin_stop();
        }
        self.deadly.add(Due::Signal(signal, whom));
        self.go_on_ending();
    }

    /// Lets every process of the job here go on that was stopped, after what is still to be done.
    pub(super) fn continue_tree(&mut self) {
        self.stopping = false;
        self.deadly.add(Due::Continue);
        self.go_on_ending();
    }

    /// Kills every process of the job here, and whoever else appears among the descendants.
    pub(super) fn kill_tree(&mut self) {
        self.staging = None;
        self.worlds.stop_starting();
        // Lines wait no longer for ranks that will never begin.
        self.expect_all();
        self.ending = true;
        if !self.deadly.is_kill() {
            self.begin_span(Phase::Kill, None);
            self.kill_adopted();
            self.deadly.add(Due::Kill);
            self.begin_stop();
        }
        self.go_on_ending();
    }

    fn begin_stop(&mut self) {
        // One that is at work is a descendant, too. The next one finds what it would have.
        self.shm_helper = None;
        self.alone.pause();
        self.deadly.step = Step::Stop(self.now() + PATIENCE);
    }

    /// To be called when a helper has ended, and now and then.
    pub(super) fn go_on_ending(&mut self) {
        let now = self.now();
        if let Step::Stop(until) = self.deadly.step
            && (now >= until || self.all_are_stopped())
        {
            self.find_new_shm();
            let until = if self.deadly.is_kill() { now + PATIENCE } else { until };
            self.deadly.step = Step::Note(until);
        }
        let next = match self.deadly.step {
            Step::Stop(_) => Some(now + INTERVAL),
            Step::Note(until) if now < until && self.shm_helper.is_some() => Some(until),
            Step::None | Step::Note(_) => {
                self.deadly.step = Step::None;
                self.do_what_is_due();
                None
            }
        };
        if self.deadly.kills {
            let immune = tree::kill_children(|pid| self.deadly.survivors.contains(&pid));
            self.give_up(immune);
            self.timers.set(Timer::Deadly, now + INTERVAL);
            self.reap();
        } else if let Some(at) = next {
            self.timers.set(Timer::Deadly, at);
        }
    }

    /// The manager does not wait longer for processes that have become another user's.
    fn give_up(&mut self, immune: Vec<Pid>) {
        if immune.is_empty() || self.now() < self.deadly.since + IMMUNE_PATIENCE {
            return;
        }
        self.post(Input::LeftRunning(names_of(&immune)));
        for pid in immune {
            self.deadly.survivors.insert(pid);
            if let Some(rank) = self.by_pid.remove(&pid) {
                self.bury(rank, Some(RankEnd::Lost));
            }
        }
    }

    /// Stops whoever that signal will end, if who started it ends, too. Says whether there are new ones.
    fn stop_doomed(&mut self, signal: i32, whom: Whom) -> bool {
        let ranks: BTreeSet<Pid> = self.by_pid.keys().copied().collect();
        self.deadly.stopped.add(|pid| {
            let is_meant = match whom {
                Whom::Group => getpgid(Some(pid)).is_ok_and(|group| ranks.contains(&group)),
                Whom::Process => ranks.contains(&pid),
            };
            is_meant && takes_effect(pid, signal)
        })
    }

    /// Whether all that are to be stopped are. Who was forking has a child that was not found before.
    fn all_are_stopped(&mut self) -> bool {
        let found = match self.deadly.due.front() {
            _ if self.deadly.is_kill() => self.deadly.stopped.add(|_| true),
            Some(&Due::Signal(signal, whom)) => self.stop_doomed(signal, whom),
            _ => false,
        };
        !found && self.deadly.stopped.are_still()
    }

    fn do_what_is_due(&mut self) {
        let mut continues = false;
        let mut refused = Vec::new();
        while let Some(due) = self.deadly.due.pop_front() {
            match due {
                Due::Signal(signal, whom) => refused.push((signal, self.send(signal, whom))),
                Due::Continue => continues = true,
                Due::Kill => {
                    self.deadly.kills = true;
                    self.deadly.since = self.now();
                    self.tidy.note();
                    if let Some(group) = &self.cgroup {
                        group.kill();
                    }
                }
            }
        }
        let stopped = std::mem::take(&mut self.deadly.stopped);
        if !self.deadly.kills && !self.stopping {
            stopped.go_on();
        }
        if continues {
            tree::continue_descendants();
            self.continue_adopted();
        }
        // The answer may be another signal: this is last.
        for (signal, processes) in refused {
            self.tell_refused(signal, &processes);
        }
    }

    /// Returns the ranks that have become another user's: the kernel refuses to signal them.
    fn send(&self, signal: i32, whom: Whom) -> Vec<Pid> {
        let mut refused = Vec::new();
        for (_, client) in self.clients.started() {
            let sent = match whom {
                Whom::Group => client.signal(signal),
                Whom::Process => client.signal_alone(signal),
            };
            if let Err(e) = sent
                && e.kind() == ErrorKind::PermissionDenied
                && let Some(pid) = client.child()
                && tree::lives(pid)
            {
                refused.push(pid);
            }
        }
        refused
    }

    /// A request to end that a rank cannot receive would otherwise have no effect, and nobody would know why.
    fn tell_refused(&mut self, signal: i32, processes: &[Pid]) {
        if !processes.is_empty() && asks_to_end(signal) {
            let name = Signal::try_from(signal).map_or("the signal", Signal::as_str);
            let problem = format!("cannot send {name} to {}", names_of(processes));
            self.post(Input::SignalRefused(problem));
        }
    }
}

/// Whether a signal asks a program to end.
fn asks_to_end(signal: i32) -> bool {
    matches!(signal, libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM)
}

/// Processes as a message names them.
fn names_of(processes: &[Pid]) -> String {
    let names: Vec<String> =
        processes.iter().take(MAX_NAMED).map(|&pid| tree::describe(pid)).collect();
    let more = match processes.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_end_nobody_are_known() {
        assert!(
            is_deadly(libc::SIGTERM) && is_deadly(libc::SIGUSR1) && is_deadly(libc::SIGRTMAX())
        );
        assert!(!is_deadly(0) && !is_deadly(libc::SIGTSTP) && !is_deadly(libc::SIGCONT));
    }
}
