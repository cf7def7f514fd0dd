//! The end of processes of the job here: signals that may end ranks, stops, the kill of every process, and what is
//! removed afterwards.
//!
//! Who uses which shared memory is known only while it lives. So a process that a signal will end is stopped first, a
//! helper notes what the job uses, and only then the signal is sent: what a process made between a look and its end
//! would belong to no known process. A process that survives the signal is not stopped, nor is anything below it.
//!
//! The ranks are lent to this owner: a signal must reach them between the stop and the end of the stop.
//!
//! | module | does |
//! |---|---|
//! | [`shm`] | has helpers look which processes use which shared memory |
//! | [`tidy`], [`groups`] | the job's directory, System V objects, shared memory; what groups of ranks share |

mod groups;
mod shm;
mod tidy;

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use mpd_io::cgroup::Cgroup;
use mpd_io::rundir::RunDir;
use mpd_io::signals::takes_effect;
use mpd_io::tree::{self, Dead, Stopped};
use mpd_job::manager::Input;
use mpd_machine::{Time, Timers};
use mpd_wire::message::{Phase, StartJob};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgid};

pub(super) use self::groups::Groups;
use self::shm::Helpers;
pub(super) use self::tidy::Tidy;
use super::context::Turn;
use super::event::Event;
use super::ranks::{Ranks, Whom};

/// Between two rounds of killing, a round follows at once when a child has ended; or between two looks whether
/// everything is stopped.
const INTERVAL: Duration = Duration::from_millis(2);

/// How long a signal waits because not everything is stopped and noted. A kill waits that long for each.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long processes that refuse the kill may take to end: a control group may kill them, and `sudo` ends after its child.
const IMMUNE_PATIENCE: Duration = Duration::from_secs(1);

/// Most processes that a message names.
const MAX_NAMED: usize = 8;

/// Between two looks whether everything is stopped, and how many there are: a process in the middle of
/// a system call that cannot be interrupted is not waited for any longer.
const STOP_INTERVAL: Duration = Duration::from_millis(2);
const MAX_STOP_LOOKS: u16 = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Go on with signals that wait, or with killing.
    Next,
    /// Look for the n-th time whether everything is stopped.
    Stopping(u16),
    /// Look which files of /dev/shm the job uses, for the n-th time.
    Shm(u8),
    /// Wait no longer for who uses the files that are left.
    ShmUsers,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Ending {
    step: Step,
    /// In the order in which it is to be done; nothing twice.
    due: VecDeque<Due>,
    stopped: Stopped,
    /// Every process that is found is killed.
    kills: bool,
    /// When killing began.
    since: Time,
    /// Processes that cannot be killed. The user has been told.
    survivors: BTreeSet<Pid>,
    /// Everything here is stopped, or about to be: nothing new is started.
    stopping: bool,
    helpers: Helpers,
    tidy: Tidy,
    cgroup: Option<Cgroup>,
    timers: Timers<Timer>,
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

impl Ending {
    pub(super) fn new(tidy: Tidy, cgroup: Option<Cgroup>) -> Self {
        Self {
            step: Step::None,
            due: VecDeque::new(),
            stopped: Stopped::default(),
            kills: false,
            since: Time::ZERO,
            survivors: BTreeSet::new(),
            stopping: false,
            helpers: Helpers::default(),
            tidy,
            cgroup,
            timers: Timers::default(),
        }
    }

    /// Whether everything here is stopped, or about to be.
    pub(super) const fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Whether processes are about to be stopped or ended.
    pub(super) fn is_busy(&self) -> bool {
        self.step != Step::None || self.kills || self.stopping
    }

    /// Whether all are killed, or will be.
    pub(super) fn is_kill(&self) -> bool {
        self.kills || self.due.contains(&Due::Kill)
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        let now = turn.now();
        while let Some(timer) = self.timers.pop_expired(now) {
            match timer {
                Timer::Next => self.go_on(turn, ranks),
                Timer::Stopping(looks) => self.look_at_stopping(turn, looks),
                Timer::Shm(looks) => self.look_at_shm(turn, looks),
                Timer::ShmUsers => self.shm_users_are_due(turn),
            }
        }
    }

    // ----- processes that start and end -----

    /// A process of the job was started.
    pub(super) fn remember(&mut self, pid: Pid) {
        self.tidy.remember(pid);
    }

    /// A process is about to be reaped.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.tidy.bury(pid);
        self.stopped.forget(pid);
    }

    /// No child is left to reap, and no adopted process. That may be the end of the kill.
    pub(super) fn none_is_dead(&mut self, turn: &mut Turn<'_>, dead: Dead) {
        let left = || tree::children(Pid::this()).iter().any(|pid| !self.survivors.contains(pid));
        let are_gone = dead == Dead::NoChildren || !self.survivors.is_empty() && !left();
        if are_gone && std::mem::take(&mut self.kills) {
            self.timers.stop(Timer::Next);
            turn.end(Phase::Kill, None);
            turn.post(Input::TreeGone);
        }
    }

    // ----- stop -----

    /// Stops every process of the job here.
    pub(super) fn stop(&mut self, turn: &Turn<'_>) {
        self.stopping = true;
        tree::stop_descendants();
        self.timers.set(Timer::Stopping(0), turn.now());
    }

    fn look_at_stopping(&mut self, turn: &mut Turn<'_>, looks: u16) {
        if looks >= MAX_STOP_LOOKS || tree::descendants_are_stopped() {
            turn.post(Input::TreeStopped);
        } else {
            self.timers.set(Timer::Stopping(looks + 1), turn.now() + STOP_INTERVAL);
        }
    }

    /// Lets every process of the job here go on that was stopped, after what is still to be done.
    pub(super) fn continue_all(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        self.stopping = false;
        self.add(Due::Continue);
        self.go_on(turn, ranks);
    }

    // ----- signals and the kill -----

    /// Sends a signal to all ranks that run here.
    pub(super) fn signal(
        &mut self,
        turn: &mut Turn<'_>,
        ranks: &mut Ranks,
        (signal, whom): (i32, Whom),
    ) {
        if self.step == Step::None {
            if is_deadly(signal) {
                self.stop_doomed(ranks, signal, whom);
            }
            if self.stopped.is_empty() {
                let refused = ranks.signal(signal, whom);
                return tell_refused(turn, signal, &refused);
            }
            self.begin_stop(turn, ranks);
        }
        self.add(Due::Signal(signal, whom));
        self.go_on(turn, ranks);
    }

    /// Kills every process of the job here, and each further one that appears among the descendants.
    pub(super) fn kill(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        turn.report(Event::Killing);
        if !self.is_kill() {
            turn.begin(Phase::Kill, None);
            ranks.kill_adopted(turn);
            self.add(Due::Kill);
            self.begin_stop(turn, ranks);
        }
        self.go_on(turn, ranks);
    }

    /// As with the kernel, a signal that has not arrived does not arrive twice.
    fn add(&mut self, due: Due) {
        if !self.due.contains(&due) {
            self.due.push_back(due);
        }
    }

    fn begin_stop(&mut self, turn: &Turn<'_>, ranks: &mut Ranks) {
        // A helper at work is a descendant, too. The next one finds what it would have.
        self.helpers.stop();
        ranks.pause_search();
        self.step = Step::Stop(turn.now() + PATIENCE);
    }

    /// To be called when a helper has ended, and now and then.
    fn go_on(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        let now = turn.now();
        if let Step::Stop(until) = self.step
            && (now >= until || self.all_are_stopped(ranks))
        {
            self.find_new_shm(turn);
            let until = if self.is_kill() { now + PATIENCE } else { until };
            self.step = Step::Note(until);
        }
        let next = match self.step {
            Step::Stop(_) => Some(now + INTERVAL),
            Step::Note(until) if now < until && self.helpers.are_at_work() => Some(until),
            Step::None | Step::Note(_) => {
                self.step = Step::None;
                self.do_what_is_due(turn, ranks);
                None
            }
        };
        if self.kills {
            let immune = tree::kill_children(|pid| self.survivors.contains(&pid));
            self.give_up(turn, immune);
            self.timers.set(Timer::Next, now + INTERVAL);
            turn.report(Event::Reap);
        } else if let Some(at) = next {
            self.timers.set(Timer::Next, at);
        }
    }

    /// The manager does not wait longer for processes that have become another user's.
    fn give_up(&mut self, turn: &mut Turn<'_>, immune: Vec<Pid>) {
        if immune.is_empty() || turn.now() < self.since + IMMUNE_PATIENCE {
            return;
        }
        turn.post(Input::LeftRunning(names_of(&immune)));
        for pid in immune {
            self.survivors.insert(pid);
            turn.report(Event::Unkillable(pid));
        }
    }

    /// Stops each process that the signal will end, if the one that started it ends, too. Says whether there are
    /// new ones.
    fn stop_doomed(&mut self, ranks: &Ranks, signal: i32, whom: Whom) -> bool {
        let ranks = ranks.pids();
        self.stopped.add(|pid| {
            let is_meant = match whom {
                Whom::Group => getpgid(Some(pid)).is_ok_and(|group| ranks.contains(&group)),
                Whom::Process => ranks.contains(&pid),
            };
            is_meant && takes_effect(pid, signal)
        })
    }

    /// Whether all that are to be stopped are. A process that was forking has a child that was not found before.
    fn all_are_stopped(&mut self, ranks: &Ranks) -> bool {
        let found = match self.due.front() {
            _ if self.is_kill() => self.stopped.add(|_| true),
            Some(&Due::Signal(signal, whom)) => self.stop_doomed(ranks, signal, whom),
            _ => false,
        };
        !found && self.stopped.are_still()
    }

    fn do_what_is_due(&mut self, turn: &mut Turn<'_>, ranks: &Ranks) {
        let mut continues = false;
        while let Some(due) = self.due.pop_front() {
            match due {
                Due::Signal(signal, whom) => {
                    tell_refused(turn, signal, &ranks.signal(signal, whom));
                }
                Due::Continue => continues = true,
                Due::Kill => {
                    self.kills = true;
                    self.since = turn.now();
                    self.tidy.note();
                    if let Some(group) = &self.cgroup {
                        group.kill();
                    }
                }
            }
        }
        let stopped = std::mem::take(&mut self.stopped);
        if !self.kills && !self.stopping {
            stopped.go_on();
        }
        if continues {
            tree::continue_descendants();
            ranks.continue_adopted();
        }
    }

    /// Nothing is left that a later daemon would have to know.
    fn forget_job(&mut self, turn: &mut Turn<'_>) {
        forget(&turn.job.order, self.cgroup.take());
        turn.end(Phase::Tidy, None);
        turn.report(Event::TraceEnds);
        turn.post(Input::Tidied);
    }
}

/// A request to end that a rank cannot receive would otherwise have no effect, and the user would not know why.
fn tell_refused(turn: &mut Turn<'_>, signal: i32, processes: &[Pid]) {
    if !processes.is_empty() && asks_to_end(signal) {
        let name = Signal::try_from(signal).map_or("the signal", Signal::as_str);
        let problem = format!("cannot send {name} to {}", names_of(processes));
        turn.post(Input::SignalRefused(problem));
    }
}

/// Removes the control group of the job here and its record in the run directory.
pub(super) fn forget(order: &StartJob, cgroup: Option<Cgroup>) {
    if let Some(group) = cgroup {
        let _ = group.remove();
    }
    if let Some(rundir) = &order.rundir {
        let rundir = RunDir::at(PathBuf::from(rundir));
        let _ = std::fs::remove_file(rundir.record(&order.job));
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
