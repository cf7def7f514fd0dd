//! The job's console: signals, `^C`, stops, and the loss of the console.

use crate::manager::job::{Job, Phase, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, Timer};
use crate::manager::{FAILURE_GRACE, INTERRUPT_GRACE, Output, STOP_GRACE};
use mpd_sansio::Time;
use mpd_wire::job::Failure;
use mpd_wire::message::Down;

const SIGWINCH: u8 = 28;

impl Job {
    pub(super) fn signal_groups(&mut self, now: Time, signal: u8) {
        self.signal(now, signal, Down::Signal { signal });
    }

    pub(super) fn signal_processes(&mut self, now: Time, signal: u8) {
        self.signal(now, signal, Down::SignalProcesses { signal });
    }

    /// Sends a signal. It is kept until all ranks have started. A signal that requests the end also ends the wait for a
    /// reader that does not read.
    fn signal(&mut self, now: Time, signal: u8, command: Down) {
        match self.phase {
            // A signal that is pending already is not kept twice, as with the kernel's signals.
            Phase::Preparing | Phase::Starting if self.early.contains(&command) => {}
            Phase::Preparing | Phase::Starting => self.early.push(command),
            Phase::Running | Phase::Ending => self.command(command),
            Phase::Killing | Phase::Draining | Phase::CleaningUp | Phase::Over => {}
        }
        if matches!(signal, SIGTERM | SIGQUIT | SIGHUP) {
            self.final_failure.get_or_insert(Failure::Interrupted { signal });
            self.hurry(now);
        }
    }

    /// Sends a new size of the terminal. Of sizes that came before all ranks had started, only the last one is kept.
    pub(super) fn resize(&mut self, now: Time, columns: u16, lines: u16) {
        self.early.retain(|early| !matches!(early, Down::Resize { .. }));
        self.signal(now, SIGWINCH, Down::Resize { columns, lines });
    }

    /// `^C` or a hang-up.
    pub(super) fn interrupt(&mut self, now: Time, signal: u8) {
        let again = self.wanted_end.is_some();
        self.wanted_end.get_or_insert(signal);
        self.final_failure.get_or_insert(Failure::Interrupted { signal });
        self.hurry(now);
        if self.phase < Phase::Running {
            self.fail(None, Failure::Interrupted { signal });
            self.kill();
        } else if again && signal == SIGINT {
            self.kill();
        } else if matches!(self.phase, Phase::Running | Phase::Ending) {
            self.command(Down::Signal { signal });
            self.resume();
            if self.phase == Phase::Running {
                self.phase = Phase::Ending;
                self.timers.set(Timer::Terminate, now + INTERRUPT_GRACE);
            }
        }
    }

    pub(super) fn suspend(&mut self, now: Time) {
        match self.phase {
            // The stop follows when all ranks have started.
            Phase::Preparing | Phase::Starting => self.suspended = true,
            Phase::Running if !self.suspended => {
                self.suspended = true;
                self.command(Down::Signal { signal: SIGTSTP });
                self.timers.set(Timer::Stop, now + STOP_GRACE);
            }
            // The stop is in progress; the answer will come.
            Phase::Running if !self.stopped => {}
            // All processes are stopped already, or about to end: the console may stop at once.
            Phase::Running
            | Phase::Ending
            | Phase::Killing
            | Phase::Draining
            | Phase::CleaningUp
            | Phase::Over => self.emit(Output::ReportSuspended),
        }
    }

    pub(super) fn resume(&mut self) {
        self.stopped = false;
        if std::mem::replace(&mut self.suspended, false) && self.phase >= Phase::Running {
            self.timers.stop(Timer::Stop);
            self.command(Down::Continue);
        }
    }

    /// The console no longer holds the ranks. The start of the last ones may not be known here yet.
    pub(super) fn release_held(&mut self) {
        match self.phase {
            Phase::Preparing | Phase::Starting => self.early.push(Down::GoOn),
            _ => self.command(Down::GoOn),
        }
    }

    pub(super) fn console_lost(&mut self, now: Time) {
        self.fail(None, Failure::Suite { problem: "the connection to mpirun is lost".to_owned() });
        self.discard(now);
        self.terminate(now, FAILURE_GRACE);
    }
}
