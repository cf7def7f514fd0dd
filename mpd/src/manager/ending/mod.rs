//! The end of processes of the job here: signals that may end ranks, stops, the kill of every process, and the
//! clean-up afterwards.
//!
//! The users of shared memory are known only while they live. So a process that a signal will end is kept still first.
//! Then a helper notes what the job uses, and only then the signal is sent. Otherwise objects that a process makes
//! between the last look and its end would belong to no known process. Without a control group a process that survives
//! the signal is not stopped, nor are its descendants. In a control group all are frozen for that time.
//!
//! The ranks are lent to this owner: a signal must reach them between the stop and the end of the stop.
//!
//! | module | does |
//! |---|---|
//! | [`shm`] | has helpers find the users of shared memory |
//! | [`clean_up`], [`groups`] | the job's directory, System V objects, shared memory; objects of groups of ranks |

mod clean_up;
pub(super) mod groups;
mod helpers;
mod removal;
mod shm;

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use mpd_io::cgroup::Cgroup;
use mpd_io::rundir::RunDir;
use mpd_io::signals;
use mpd_io::still::Still;
use mpd_io::tree::{self, Candidate, Dead, Stopped};
use mpd_job::manager::Input;
use mpd_leftovers::record::Registered;
use mpd_machine::{Time, Timers};
use mpd_wire::message::{Phase, StartJob};
use nix::unistd::{Pid, getpgid};

pub(super) use self::clean_up::{CleanUp, Elsewhere};
use self::helpers::Helpers;
use super::context::Turn;
use super::event::Event;
use super::ranks::{Ranks, SignalTarget};

/// The least time between two rounds of killing, or between two checks whether everything is stopped. A round of
/// killing follows at once when a child has ended.
const INTERVAL: Duration = Duration::from_millis(1);

/// The time between two such rounds or checks is at least this often the time of the first: with thousands of processes
/// one takes milliseconds.
const SHARE: u32 = 3;

/// The most time between two such rounds or checks. The first one reads the state of each process, and takes much
/// longer than the others.
const MAX_INTERVAL: Duration = Duration::from_millis(4);

/// The time between two such rounds while the system does not list the children.
const UNLISTED_INTERVAL: Duration = Duration::from_millis(100);

/// How long a signal waits until everything is stopped and noted. A kill waits this long for each of the two.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long processes that refuse the kill may take to end. A control group may kill them, and `sudo` ends after
/// its child.
const IMMUNE_PATIENCE: Duration = Duration::from_secs(1);

/// Most processes in a message.
const MAX_NAMED: usize = 8;

/// How long a stop of everything waits. After that, a process in an uninterruptible system call is ignored.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Continue with waiting signals, or with killing.
    Next,
    /// Check whether everything is stopped.
    Stopping,
    /// Look for the n-th time for new files of /dev/shm that the job uses.
    Shm(u8),
    /// Stop waiting for the users of the files that are left.
    ShmUsers,
    /// Stop holding fences until the users of new files are known.
    Fences,
}

/// The pending signals and stops, the kill, and the clean-up.
#[derive(Debug)]
pub(super) struct Ending {
    step: Step,
    /// Pending actions in order, each at most once.
    due: VecDeque<Due>,
    still: Still,
    /// Whether every process that is found is killed.
    kills: bool,
    /// When killing began.
    since: Time,
    /// Processes that cannot be killed. The user has a message about them.
    survivors: BTreeSet<Pid>,
    /// Everything here is stopped or about to be stopped, so nothing is started. Until that time processes that are
    /// not stopped are waited for.
    halt: Option<(Stopped, Time)>,
    helpers: Helpers,
    clean_up: CleanUp,
    cgroup: Option<Rc<Cgroup>>,
    timers: Timers<Timer>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    None,
    /// Processes are being stopped. At that time the next step begins in any case.
    Stop(Time),
    /// A helper looks for what they use. At that time the next step begins in any case.
    Note(Time),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Due {
    Signal(i32, SignalTarget),
    Continue,
    Kill,
}

impl Ending {
    pub(super) fn new(clean_up: CleanUp, cgroup: Option<Rc<Cgroup>>) -> Self {
        Self {
            step: Step::None,
            due: VecDeque::new(),
            still: Still::default(),
            kills: false,
            since: Time::ZERO,
            survivors: BTreeSet::new(),
            halt: None,
            helpers: Helpers::default(),
            clean_up,
            cgroup,
            timers: Timers::default(),
        }
    }

    /// Whether everything here is stopped or about to be stopped.
    pub(super) const fn is_stopping(&self) -> bool {
        self.halt.is_some()
    }

    /// Whether processes are about to be stopped or ended.
    pub(super) fn is_busy(&self) -> bool {
        self.step != Step::None || self.kills || self.is_stopping()
    }

    /// Whether all processes are being killed, or will be.
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
                Timer::Next => self.proceed(turn, ranks),
                Timer::Stopping => self.look_at_stopping(turn),
                Timer::Shm(checks) => self.look_at_shm(turn, checks),
                Timer::ShmUsers => self.expire_shm_users(turn),
                Timer::Fences => self.release_fences_now(turn),
            }
        }
    }

    // ----- processes that start and end -----

    /// Notes a process of the job that was started, at that time if it is known.
    pub(super) fn remember(&mut self, pid: Pid, begin: Option<u64>) {
        self.clean_up.remember(pid, begin);
    }

    /// Notes a world whose ranks may run here, by its key-value space.
    pub(super) fn add_world(&mut self, kvsname: &str) {
        self.clean_up.add_world(kvsname);
    }

    /// Notes what a program has registered for removal at the end of the job.
    pub(super) fn register(&mut self, registered: Registered) {
        self.clean_up.register(registered);
    }

    /// Notes a process that is about to be reaped.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.clean_up.note_end(pid);
        self.still.forget(pid);
        self.halt.iter_mut().for_each(|(stopped, _)| stopped.forget(pid));
    }

    /// No child is left to reap, and no adopted process. Ends the kill if no process is left.
    pub(super) fn all_are_reaped(&mut self, turn: &mut Turn<'_>, dead: Dead) {
        let left = || tree::own_children().iter().any(|pid| !self.survivors.contains(pid));
        let are_gone = dead == Dead::NoChildren || !self.survivors.is_empty() && !left();
        if are_gone && std::mem::take(&mut self.kills) {
            self.timers.stop(Timer::Next);
            turn.end(Phase::Kill, None);
            turn.post(Input::TreeGone);
        }
    }

    // ----- stop -----

    /// Stops every process of the job here.
    pub(super) fn stop(&mut self, turn: &mut Turn<'_>) {
        self.halt = Some((Stopped::default(), turn.now() + STOP_PATIENCE));
        self.look_at_stopping(turn);
    }

    fn look_at_stopping(&mut self, turn: &mut Turn<'_>) {
        let began = turn.now();
        let Some((stopped, until)) = &mut self.halt else { return };
        if stopped.advance(|_| true) || began >= *until {
            turn.post(Input::TreeStopped);
        } else {
            self.timers.set(Timer::Stopping, after(turn, began));
        }
    }

    /// Continues every stopped process of the job here, after the pending actions.
    pub(super) fn continue_all(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        self.halt = None;
        self.add(Due::Continue);
        self.proceed(turn, ranks);
    }

    // ----- signals and the kill -----

    /// Sends a signal to all ranks that run here.
    pub(super) fn signal(
        &mut self,
        turn: &mut Turn<'_>,
        ranks: &mut Ranks,
        (signal, target): (i32, SignalTarget),
    ) {
        if self.step != Step::None {
            self.add(Due::Signal(signal, target));
            return self.proceed(turn, ranks);
        }
        let began = turn.now();
        if is_terminating(signal) {
            self.still = Still::begin(self.cgroup.as_ref());
            self.stop_affected(ranks, signal, &target);
        }
        if self.still.is_empty() {
            let refused = ranks.signal(signal, &target);
            return report_refused(turn, signal, &refused);
        }
        self.begin_stop(turn, ranks);
        self.add(Due::Signal(signal, target));
        self.timers.set(Timer::Next, after(turn, began));
    }

    /// Kills every process of the job here, and each further one that appears among the descendants.
    pub(super) fn kill(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        turn.report(Event::Killing);
        if !self.is_kill() {
            turn.begin(Phase::Kill, None);
            ranks.kill_adopted(turn);
            self.add(Due::Kill);
            if self.step == Step::None {
                self.still = Still::begin(self.cgroup.as_ref());
            }
            // Processes that survive a signal are killed.
            self.still.judge_again();
            self.begin_stop(turn, ranks);
        }
        self.proceed(turn, ranks);
    }

    /// Adds a pending action. Like a pending signal of the kernel, it is not added twice.
    fn add(&mut self, due: Due) {
        if !self.due.contains(&due) {
            self.due.push_back(due);
        }
    }

    fn begin_stop(&mut self, turn: &Turn<'_>, ranks: &mut Ranks) {
        // A running helper is a descendant, too. The next helper finds what this one would have found.
        self.helpers.stop();
        ranks.pause_search();
        self.step = Step::Stop(turn.now() + PATIENCE);
    }

    /// Takes the next step if it is due. To be called when a helper has ended, and at the timer [`Timer::Next`].
    fn proceed(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        let now = turn.now();
        if let Step::Stop(until) = self.step
            && (self.all_are_stopped(ranks) || now >= until)
        {
            self.find_new_shm(turn);
            let until = if self.is_kill() { now + PATIENCE } else { until };
            self.step = Step::Note(until);
        }
        let next = match self.step {
            Step::Stop(_) => Some(after(turn, now)),
            Step::Note(until) if now < until && self.helpers.are_running() => Some(until),
            Step::None | Step::Note(_) => {
                self.step = Step::None;
                self.perform_due(turn, ranks);
                None
            }
        };
        if self.kills {
            let began = turn.now();
            let killing = tree::kill_children(|pid| self.survivors.contains(&pid));
            self.give_up(turn, killing.immune);
            let next = match killing.found_any {
                true => after(turn, began),
                // The last child may just have been reaped. Otherwise the system does not list them now: at least the
                // ranks are known.
                false => {
                    ranks.signal(libc::SIGKILL, &SignalTarget::Group);
                    now + UNLISTED_INTERVAL
                }
            };
            self.timers.set(Timer::Next, next);
            turn.report(Event::Reap);
        } else if let Some(at) = next {
            self.timers.set(Timer::Next, at);
        }
    }

    /// Gives up processes that still refuse the kill: they belong to another user now.
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

    /// Stops each process that the signal will end, and whose parent will end as well. Whether all are stopped.
    fn stop_affected(&mut self, ranks: &Ranks, signal: i32, target: &SignalTarget) -> bool {
        self.still.advance(|process| is_affected(process, ranks, (signal, target)))
    }

    /// Whether all processes to be stopped are stopped.
    fn all_are_stopped(&mut self, ranks: &Ranks) -> bool {
        match self.due.front().cloned() {
            _ if self.is_kill() => self.still.advance(|_| true),
            Some(Due::Signal(signal, target)) => self.stop_affected(ranks, signal, &target),
            _ => true,
        }
    }

    fn perform_due(&mut self, turn: &mut Turn<'_>, ranks: &mut Ranks) {
        let mut continues = false;
        while let Some(due) = self.due.pop_front() {
            match due {
                Due::Signal(signal, target) => {
                    report_refused(turn, signal, &ranks.signal(signal, &target));
                }
                Due::Continue => continues = true,
                Due::Kill => {
                    self.kills = true;
                    self.since = turn.now();
                    self.note_living();
                    // An empty group needs no kill, and its removal proves that it is empty.
                    self.cgroup = self.cgroup.take().filter(|group| group.remove_empty().is_err());
                    self.cgroup.iter().for_each(|group| group.kill());
                }
            }
        }
        let still = std::mem::take(&mut self.still);
        if !self.kills && !self.is_stopping() {
            still.resume();
        }
        if continues {
            tree::continue_descendants();
            ranks.continue_adopted();
        }
    }

    /// Notes all processes, before they are killed.
    fn note_living(&mut self) {
        if self.still.is_complete() {
            self.clean_up.note(self.still.pids());
        } else {
            self.clean_up.note(tree::descendants());
        }
    }

    /// Reports that the clean-up is complete; a later daemon needs nothing of this job.
    fn forget_job(&mut self, turn: &mut Turn<'_>) {
        forget(&turn.job.order, self.cgroup.take().as_deref());
        turn.end(Phase::Cleanup, None);
        turn.report(Event::TraceEnds);
        turn.post(Input::CleanedUp);
    }
}

/// Whether a signal has its default effect on a process.
fn is_affected(process: &Candidate, ranks: &Ranks, (signal, target): (i32, &SignalTarget)) -> bool {
    let is_rank = |pid| ranks.of_pid(pid).is_some_and(|rank| target.means(rank));
    let is_meant = match target {
        SignalTarget::Group | SignalTarget::Groups(_) => {
            getpgid(Some(process.pid())).is_ok_and(is_rank)
        }
        SignalTarget::Process => is_rank(process.pid()),
    };
    is_meant && process.takes_effect(signal)
}

/// When a round that began at that time, and ends now, is to be repeated.
fn after(turn: &Turn<'_>, began: Time) -> Time {
    let now = turn.now();
    now + ((now - began) * SHARE).clamp(INTERVAL, MAX_INTERVAL)
}

/// Reports a refused signal that asks to end, since it would otherwise have no visible effect.
fn report_refused(turn: &mut Turn<'_>, signal: i32, processes: &[Pid]) {
    if !processes.is_empty() && asks_to_end(signal) {
        let problem = format!("cannot send {} to {}", signals::name(signal), names_of(processes));
        turn.post(Input::SignalRefused(problem));
    }
}

/// Removes the control group of the job here and its record in the run directory.
pub(super) fn forget(order: &StartJob, cgroup: Option<&Cgroup>) {
    if let Some(group) = cgroup {
        let _ = group.remove();
    }
    if let Some(rundir) = &order.rundir {
        let rundir = RunDir::at(PathBuf::from(rundir));
        let _ = std::fs::remove_file(rundir.record(&order.job));
    }
}

/// Whether a signal ends programs that do not handle it.
fn is_terminating(signal: i32) -> bool {
    use libc::{SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH};
    // Signal 0 sends nothing.
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
    use std::path::Path;

    use mpd_wire::job::JobSpec;

    use super::*;
    use crate::manager::fixture;
    use crate::notes::Notes;

    #[test]
    fn signals_that_do_not_end_processes_are_known() {
        assert!(
            is_terminating(libc::SIGTERM)
                && is_terminating(libc::SIGUSR1)
                && is_terminating(libc::SIGRTMAX())
        );
        assert!(
            !is_terminating(0) && !is_terminating(libc::SIGTSTP) && !is_terminating(libc::SIGCONT)
        );
    }

    /// The owner of a job of which nothing was made.
    fn ending(directory: &Path) -> Ending {
        let record = std::fs::File::create(directory.join("record")).unwrap();
        let (clean_up, made) =
            CleanUp::start(directory, (&JobSpec::default(), &[]), Notes::new(record));
        made.unwrap();
        Ending::new(clean_up, None)
    }

    #[test]
    fn the_kill_is_over_once_when_no_child_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let (mut common, mut ending) = (fixture::common("true"), ending(directory.path()));
        ending.all_are_reaped(&mut common.turn(), Dead::NoChildren);
        assert_eq!(fixture::inputs(&mut common), [], "no kill was ordered");
        ending.kills = true;
        assert!(ending.is_kill() && ending.is_busy());
        ending.all_are_reaped(&mut common.turn(), Dead::None);
        assert_eq!(fixture::inputs(&mut common), [], "children live");
        ending.all_are_reaped(&mut common.turn(), Dead::NoChildren);
        assert_eq!(fixture::inputs(&mut common), [Input::TreeGone]);
        ending.all_are_reaped(&mut common.turn(), Dead::NoChildren);
        assert_eq!(fixture::inputs(&mut common), []);
    }

    #[test]
    fn processes_that_refuse_the_kill_are_named_after_a_second() {
        let directory = tempfile::tempdir().unwrap();
        let (mut common, mut ending) = (fixture::common("true"), ending(directory.path()));
        ending.since = common.clock.now();
        ending.give_up(&mut common.turn(), vec![Pid::this()]);
        assert_eq!(fixture::inputs(&mut common), [], "they may still end");
        ending.since = Time::ZERO;
        ending.give_up(&mut common.turn(), vec![Pid::this()]);
        let own = names_of(&[Pid::this()]);
        assert_eq!(fixture::inputs(&mut common), [Input::LeftRunning(own)]);
        assert!(ending.survivors.contains(&Pid::this()));
    }

    #[test]
    fn a_signal_that_waits_does_not_wait_twice() {
        let directory = tempfile::tempdir().unwrap();
        let mut ending = ending(directory.path());
        for due in
            [Due::Signal(2, SignalTarget::Group), Due::Kill, Due::Signal(2, SignalTarget::Group)]
        {
            ending.add(due);
        }
        assert_eq!(ending.due, [Due::Signal(2, SignalTarget::Group), Due::Kill]);
        assert!(ending.is_kill());
    }

    #[test]
    fn a_refused_request_to_end_is_reported_and_another_refused_signal_is_not() {
        let mut common = fixture::common("true");
        report_refused(&mut common.turn(), libc::SIGUSR1, &[Pid::this()]);
        report_refused(&mut common.turn(), libc::SIGTERM, &[]);
        assert_eq!(fixture::inputs(&mut common), []);
        report_refused(&mut common.turn(), libc::SIGTERM, &[Pid::this()]);
        let problem = format!("cannot send SIGTERM to {}", names_of(&[Pid::this()]));
        assert_eq!(fixture::inputs(&mut common), [Input::SignalRefused(problem)]);
    }
}
