//! Signals that may be the end of ranks, and the end of every process of the job here.
//!
//! Who uses which shared memory is known only while it lives. So before such a signal the processes of the job are
//! stopped, a helper notes what they use, and only then it is sent: what a process made between a look and its end
//! would be nobody's.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use mpd_io::tree;
use mpd_proto::Time;
use mpd_proto::message::Phase;
use nix::unistd::Pid;

use super::clients::Client;
use super::{Process, Timer};

/// Between two rounds of killing, a round follows at once when a child has ended; or between two looks whether
/// everything is stopped.
const INTERVAL: Duration = Duration::from_millis(2);

/// How long a signal waits because not everything is stopped, and then because not everything is noted.
const PATIENCE: Duration = Duration::from_millis(250);

/// How a signal is sent to a rank.
pub(super) type Send = fn(&Client, i32);

/// How far what is to be sent is.
#[derive(Debug, Default)]
pub(super) struct Deadly {
    step: Step,
    /// In the order in which it is to happen.
    due: VecDeque<Due>,
    /// These continue once it has happened.
    stopped: BTreeSet<Pid>,
    /// Whoever is found is killed.
    kills: bool,
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

#[derive(Clone, Copy, Debug)]
enum Due {
    Signal(i32, Send),
    Kill,
}

impl Deadly {
    /// Whether something is to happen.
    pub(super) fn is_coming(&self) -> bool {
        self.step != Step::None || self.kills
    }

    /// Whether all are killed, or will be.
    pub(super) fn is_kill(&self) -> bool {
        self.kills || self.due.iter().any(|due| matches!(due, Due::Kill))
    }

    /// To be asked when there is no child. True once.
    pub(super) fn all_are_gone(&mut self) -> bool {
        std::mem::take(&mut self.kills)
    }
}

/// What a signal does to a program that is not prepared for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// It does not end.
    None,
    /// It ends. That is not why it is sent.
    Death,
    /// It ends, as it is meant to.
    End,
}

fn effect(signal: i32) -> Effect {
    use libc::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    use libc::{SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH};
    match signal {
        SIGWINCH | SIGCONT | SIGCHLD | SIGURG | SIGSTOP | SIGTSTP | SIGTTIN | SIGTTOU => {
            Effect::None
        }
        SIGHUP | SIGINT | SIGQUIT | SIGTERM => Effect::End,
        _ => Effect::Death,
    }
}

impl Process {
    /// Sends a signal to all ranks that run here.
    pub(super) fn signal(&mut self, signal: i32, send: Send) {
        match effect(signal) {
            Effect::None => return self.send(signal, send),
            Effect::End if self.deadly.step == Step::None => {
                // One that is at work is a descendant, too. The next one finds what it would have.
                self.shm_helper = None;
                self.deadly.stopped = tree::stop_unnoticed();
                self.deadly.step = Step::Stop(self.now() + PATIENCE);
            }
            Effect::Death if self.deadly.step == Step::None => {
                self.note_shm();
            }
            Effect::End | Effect::Death => {}
        }
        self.deadly.due.push_back(Due::Signal(signal, send));
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
            self.shm_helper = None;
            tree::stop_descendants();
            self.deadly.step = Step::Stop(self.now() + PATIENCE);
            self.deadly.due.push_back(Due::Kill);
        }
        self.go_on_ending();
    }

    /// To be called when a helper has ended, and now and then.
    pub(super) fn go_on_ending(&mut self) {
        let now = self.now();
        if let Step::Stop(until) = self.deadly.step
            && (now >= until || self.all_are_stopped())
        {
            self.note_shm();
        }
        let waits = match self.deadly.step {
            Step::None => false,
            Step::Stop(_) => true,
            Step::Note(until) => now < until && self.shm_helper.is_some(),
        };
        if !waits {
            self.deadly.step = Step::None;
            self.do_what_is_due();
        }
        if self.deadly.kills {
            tree::kill_children(|_| false);
        }
        if waits || self.deadly.kills {
            self.timers.set(Timer::Deadly, now + INTERVAL);
        }
        if self.deadly.kills {
            self.reap();
        }
    }

    /// What uses shared memory at this moment is found out, if there is any that is new.
    fn note_shm(&mut self) {
        self.find_new_shm();
        self.deadly.step = Step::Note(self.now() + PATIENCE);
    }

    fn all_are_stopped(&self) -> bool {
        if self.deadly.is_kill() {
            tree::descendants_are_stopped()
        } else {
            tree::are_stopped(&self.deadly.stopped)
        }
    }

    fn do_what_is_due(&mut self) {
        while let Some(due) = self.deadly.due.pop_front() {
            match due {
                Due::Signal(signal, send) => self.send(signal, send),
                Due::Kill => {
                    self.deadly.kills = true;
                    self.tidy.note();
                    if let Some(group) = &self.cgroup {
                        group.kill();
                    }
                }
            }
        }
        let stopped = std::mem::take(&mut self.deadly.stopped);
        if !self.deadly.kills && !self.stopping && !stopped.is_empty() {
            tree::continue_those(&stopped);
        }
    }

    fn send(&self, signal: i32, send: Send) {
        self.clients.started().for_each(|(_, client)| send(client, signal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_differ_in_what_they_are_sent_for() {
        assert_eq!(effect(libc::SIGTERM), Effect::End);
        assert_eq!(effect(libc::SIGUSR1), Effect::Death);
        assert_eq!(effect(libc::SIGRTMAX()), Effect::Death);
        assert_eq!(effect(libc::SIGTSTP), Effect::None);
    }
}
