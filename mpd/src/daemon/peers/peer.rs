//! One connection: its socket, and the frames that arrive there.

use std::os::fd::OwnedFd;

use mpd_daemon::{Connection, Input, Taken};
use mpd_io::network::conn::{Conn, Filled};
use mpd_jobtable::Input as JobInput;
use mpd_wire::message::ConsoleReply;
use mpd_wire::{ConsoleId, JobId, Pid};

/// What happens to a connection after it was served.
#[derive(Debug)]
pub(super) enum Verdict {
    Keep,
    Close,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) conn: Conn,
    pub(super) connection: Connection<OwnedFd>,
    /// A manager was sent more than its job.
    pub(super) has_more: bool,
}

impl Peer {
    pub(super) fn is_manager_of(&self, job: &JobId) -> bool {
        self.connection.manager() == Some(job)
    }

    /// Whether its manager has not read its whole job, to which nothing was added.
    pub(super) const fn is_unread(&self) -> bool {
        self.conn.is_reset() && !self.has_more
    }

    /// Reads once and appends the events of this connection, whose token is `token`. The flag is set if unread data
    /// may be left.
    pub(super) fn serve(&mut self, token: ConsoleId, events: &mut Vec<Input>) -> (Verdict, bool) {
        // A peer that is gone may have sent something before.
        let _ = self.conn.flush();
        let filled = match self.conn.fill() {
            Ok(filled) => filled,
            Err(e) => {
                log::debug!("reading from a peer: {e}");
                return (Verdict::Close, false);
            }
        };
        loop {
            match self.take_frame() {
                Ok(None) => break,
                Ok(Some(Taken::Frame)) => {}
                Ok(Some(Taken::Passes)) => {
                    let passed = std::iter::from_fn(|| self.conn.take_descriptor()).collect();
                    self.connection.pass(passed);
                }
                Ok(Some(Taken::Skipped(kind))) => self.conn.skip(&kind),
                Ok(Some(Taken::Report(input))) => events.push(input),
                // A job whose console is gone does not start. Its console may have waited for a stopped daemon.
                Ok(Some(Taken::Asks(Input::Submitted(_)))) if filled == Filled::Closed => {
                    return (Verdict::Close, false);
                }
                Ok(Some(Taken::Asks(input))) => {
                    events.push(input);
                    return (Verdict::Keep, false);
                }
                Ok(Some(Taken::Registers(opening))) => {
                    let pid = Pid(self.conn.peer().map_or(0, |p| p.pid()));
                    let registers = JobInput::Registers { connection: token, opening, pid };
                    events.push(Input::Jobs(registers));
                    return (Verdict::Keep, false);
                }
                Err(problem) => {
                    if self.connection.manager().is_some() {
                        log::warn!("closing a connection: {problem}");
                        return (Verdict::Close, false);
                    }
                    self.refuse(problem);
                    break;
                }
            }
        }
        if filled == Filled::Closed || (filled == Filled::Empty && self.conn.flush().is_err()) {
            return (Verdict::Close, false);
        }
        let done = self.connection.is_leaving() && self.conn.queued() == 0;
        (if done { Verdict::Close } else { Verdict::Keep }, filled == Filled::More)
    }

    /// Refuses what this connection sent.
    pub(super) fn refuse(&mut self, problem: String) {
        log::warn!("closing a connection: {problem}");
        self.conn.send(&ConsoleReply::Refused { problem });
        self.connection.refuse();
    }

    /// Takes one frame. `None`: no whole frame is buffered, or none is read any more.
    fn take_frame(&mut self) -> Result<Option<Taken>, String> {
        if self.connection.is_leaving() {
            return Ok(None);
        }
        let Some((kind, payload)) = self.conn.next_frame().map_err(|e| e.to_string())? else {
            return Ok(None);
        };
        self.connection.take(kind, payload).map(Some)
    }
}
