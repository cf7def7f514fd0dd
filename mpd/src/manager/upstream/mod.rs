//! The connections to the console and to the daemon. The node decides what is reported to them.

mod console;
mod daemon;

use mio::Registry;
use mpd_job::manager::Input;
use mpd_wire::message::ManagerReport;

pub(super) use self::console::Console;
use self::console::ConsoleMessage;
pub(super) use self::daemon::{Daemon, DaemonMessage, HandOver, Passed};
use super::context::Turn;
use super::event::{Descriptors, Event};

/// The connections to console and daemon.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) console: Console,
    pub(super) daemon: Daemon,
}

impl Upstream {
    pub(super) const fn has_work(&self) -> bool {
        self.console.has_work() || self.daemon.has_work()
    }

    /// Writes what is queued, and has the poll report when the rest can be written.
    pub(super) fn flush(&mut self, registry: &Registry) {
        self.console.flush();
        self.console.watch_writing(registry);
        self.daemon.flush();
        self.daemon.watch_writing(registry);
    }

    /// Reads the messages of the console.
    pub(super) fn serve_console(&mut self, turn: &mut Turn<'_>) {
        if !self.console.has_work() {
            return;
        }
        let (received, open) = self.console.receive();
        for message in received {
            match message {
                ConsoleMessage::Input(input) => turn.report(Event::Console(input)),
                ConsoleMessage::Stdin(bytes) => {
                    turn.report(mpd_stdio::machine::Input::Stdin(bytes))
                }
                ConsoleMessage::Unknown(kind) => turn.report(Event::UnknownOrder(kind)),
            }
        }
        if !open {
            turn.post(Input::ConsoleLost);
        }
    }

    /// Reads the messages of the daemon.
    pub(super) fn serve_daemon(&mut self, turn: &mut Turn<'_>) {
        if !self.daemon.has_work() {
            return;
        }
        let (messages, is_connected) = self.daemon.receive();
        for message in messages {
            match message {
                DaemonMessage::Link(fd, hello) => turn.hand_over(Descriptors::Link(fd, hello)),
                DaemonMessage::Order(order) => turn.report(Event::Daemon(order)),
            }
        }
        if is_connected {
            return;
        }
        if self.daemon.refused {
            log::warn!("the new daemon does not know this job; the job continues without a daemon");
        } else {
            log::info!("the daemon is gone");
            turn.report(Event::DaemonGone);
        }
    }

    /// Registers with the daemon of this ring, and reports whether that has succeeded.
    pub(super) fn register(&mut self, turn: &mut Turn<'_>) {
        let is_registered = self.daemon.register(turn.registry, &turn.job.order);
        if is_registered {
            log::info!("registered with the new daemon");
        }
        turn.report(Event::Registered(is_registered));
    }

    /// Closes the connection to the console, which has all messages, and sends the last report to the daemon.
    pub(super) fn end(&mut self, code: u8, unlinked: bool) {
        self.console.close();
        self.daemon.report(&ManagerReport::Ended { code, unlinked });
        self.daemon.flush();
    }
}
