//! Killing a running program.
//!
//! SIGKILL ends the program, and gdb usually reports its end as a stop. While gdb resumes the
//! program's threads, a thread that is already gone is an error to gdb. This error ends the command
//! in progress. gdb then treats the program as stopped and never looks for its end. Therefore the
//! driver sends gdb's own `kill`: at once after such an error, otherwise after a while.

use super::{DIES, Driver, KILL, Kind, Output, Phase, Program};
use mpd_sansio::Time;

/// The progress of killing a running program.
#[derive(Debug, Default)]
pub(super) struct Killing {
    /// SIGKILL was sent, and the end is not reported yet.
    pub(super) is_on: bool,
    until: Option<Time>,
    /// The token of gdb's own `kill`, until it is answered.
    asked: Option<u32>,
}

impl Killing {
    pub(super) const fn deadline(&self) -> Option<Time> {
        self.until
    }

    /// Whether errors that gdb reports result from the kill.
    pub(super) const fn explains_errors(&self) -> bool {
        self.is_on || self.asked.is_some()
    }
}

impl Driver {
    /// Kills the program if it runs. The mark of the resulting end answers the command.
    pub(super) fn kill_running(&mut self, serial: u32) -> bool {
        let (Program::Running, Some((pid, _))) = (&self.program, self.process) else {
            return false;
        };
        self.last_serial = self.last_serial.max(serial);
        self.unanswered.push(serial);
        self.send_kill(pid);
        true
    }

    pub(super) fn send_kill(&mut self, pid: u32) {
        self.killing.is_on = true;
        self.pending_text.killing = true;
        self.outputs.push_back(Output::Signal(pid, KILL));
    }

    pub(super) fn kill_stopped(&mut self, serial: u32) {
        if self.process.is_some() {
            let token = self.send_console(b"kill");
            return self.hold(serial, token, Kind::Kill);
        }
        self.program = Program::Idle;
        self.answer(Some(serial));
    }

    /// gdb will not report the end, or not as an end.
    pub(super) fn have_gdb_kill(&mut self) {
        if self.killing.asked.is_none() {
            self.killing.asked = Some(self.send_console(b"kill"));
        }
    }

    /// Whether this was the answer to gdb's own `kill`. With either result gdb has released the
    /// program.
    pub(super) fn kill_answered(&mut self, token: u32) -> bool {
        if self.killing.asked != Some(token) {
            return false;
        }
        self.killing.asked = None;
        if self.killing.is_on {
            self.process_ended();
            self.killed();
            self.settled();
        }
        true
    }

    /// The program is gone, as requested.
    pub(super) fn killed(&mut self) {
        self.finish_texts();
        self.pending_text.killing = false;
        self.killing.is_on = false;
        self.killing.until = None;
        self.program = Program::Idle;
        self.report(b'~', b"[program killed]");
    }

    pub(super) fn watch_kill(&mut self, now: Time) {
        if self.killing.is_on && self.phase == Phase::Ready {
            self.killing.until.get_or_insert(now + DIES);
        } else {
            self.killing.until = None;
        }
    }

    pub(super) fn kill_timeout(&mut self, now: Time) {
        if self.killing.until.is_none_or(|until| until > now) {
            return;
        }
        // An operation that keeps gdb from reading `kill` must be interrupted.
        if self.killing.asked.is_some() {
            self.outputs.push_back(Output::InterruptGdb);
        }
        self.have_gdb_kill();
        self.killing.until = Some(now + DIES);
    }
}
