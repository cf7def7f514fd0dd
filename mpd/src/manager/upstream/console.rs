//! The root manager's connection to the console of its job. Other managers have no console; their messages to it
//! are dropped.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use mio::{Registry, Token};
use mpd_io::network::conn::{Conn, Filled};
use mpd_wire::frame;
use mpd_wire::frame::{InvalidFrame, Kind};
use mpd_wire::message::{JobInput, JobNews};

use crate::manager::tokens::CONSOLE;

#[derive(Debug)]
pub(crate) enum ConsoleMessage {
    Input(JobInput),
    /// Standard input; empty means its end.
    Stdin(Vec<u8>),
    /// An order of this kind, which is unknown here.
    Unknown(String),
}

/// The connection to the console.
#[derive(Debug, Default)]
pub(crate) struct Console {
    conn: Option<Conn>,
    pub(crate) ready: bool,
    open: bool,
    /// Writing has failed. The console is lost as soon as its last messages are read. What is queued waits for the end of
    /// the job, when writing may succeed again.
    is_write_broken: bool,
}

impl Console {
    /// The connection that the daemon passed.
    pub(crate) fn new(fd: OwnedFd) -> Self {
        let conn = Conn::new(UnixStream::from(fd));
        Self { conn: Some(conn), ready: true, open: true, is_write_broken: false }
    }

    /// Has the queue report the console's messages.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn watch(&self, registry: &Registry) -> std::io::Result<()> {
        self.conn.as_ref().map_or(Ok(()), |conn| conn.watch(registry, Token(CONSOLE)))
    }

    /// Has the queue report when the rest can be written.
    pub(crate) fn watch_writing(&mut self, registry: &Registry) {
        let watched = self.conn.as_mut().map(|conn| conn.watch_writing(registry, Token(CONSOLE)));
        self.ready |= matches!(watched, Some(Err(_)));
    }

    /// Closes the connection, since nothing more is to be said. A console that could not be reached gets what is queued, if
    /// it can be reached now.
    pub(crate) fn close(&mut self) {
        if let Some(mut conn) = self.conn.take() {
            let _ = conn.flush();
        }
    }

    /// Queues news.
    pub(crate) fn report(&mut self, news: &JobNews) {
        if let Some(conn) = &mut self.conn {
            conn.send(news);
        }
    }

    /// Reads the waiting messages. The flag is `false` if the console is gone.
    pub(crate) fn receive(&mut self) -> (Vec<ConsoleMessage>, bool) {
        let mut received = Vec::new();
        let Some(conn) = &mut self.conn else { return (received, true) };
        let filled = conn.fill();
        loop {
            let problem = match conn.next_frame() {
                Ok(Some((Kind::Stdin, bytes))) => {
                    received.push(ConsoleMessage::Stdin(bytes.to_vec()));
                    continue;
                }
                Ok(Some((Kind::Control, payload))) => match frame::decode_message(payload) {
                    Ok(input) => {
                        received.push(ConsoleMessage::Input(input));
                        continue;
                    }
                    Err(InvalidFrame::Unknown(kind)) => {
                        conn.skip(&kind);
                        received.push(ConsoleMessage::Unknown(kind));
                        continue;
                    }
                    Err(e) => e.to_string(),
                },
                Ok(Some((Kind::Spec, _))) => "a second job".to_owned(),
                Ok(Some((Kind::Unknown(code), _))) => {
                    conn.skip_frame(code);
                    continue;
                }
                Ok(None) => break,
                Err(e) => e.to_string(),
            };
            log::warn!("the console broke the protocol: {problem}");
            self.open = false;
            self.ready = false;
            return (received, false);
        }
        self.ready = matches!(filled, Ok(Filled::More));
        if let Err(e) = &filled {
            log::warn!("cannot read from the console: {e}");
        }
        let is_read = matches!(filled, Ok(Filled::Empty));
        let is_gone = matches!(filled, Ok(Filled::Closed) | Err(_));
        let open = !(is_gone || is_read && self.is_write_broken);
        self.open &= open;
        (received, open)
    }

    /// Whether data can be read without waiting.
    pub(crate) const fn has_work(&self) -> bool {
        self.ready && self.open
    }

    /// Writes what is queued.
    pub(crate) fn flush(&mut self) {
        if let (Some(conn), false) = (&mut self.conn, self.is_write_broken)
            && let Err(e) = conn.flush()
        {
            log::warn!("cannot write to the console: {e}");
            self.is_write_broken = true;
            self.ready = true;
        }
    }

    /// Bytes that the console has not accepted yet.
    pub(crate) fn waiting(&self) -> usize {
        self.conn.as_ref().map_or(0, Conn::queued)
    }

    /// Whether the console is connected and messages for it are queued.
    pub(crate) fn waits(&self) -> bool {
        self.open
            && !self.is_write_broken
            && self.conn.as_ref().is_some_and(|conn| conn.queued() > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::Shutdown;

    use super::*;

    #[test]
    fn a_console_to_which_nothing_can_be_written_is_lost_after_its_last_messages() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut console = Console::new(ours.into());
        theirs.shutdown(Shutdown::Read).unwrap();
        let mut frame = Vec::new();
        frame::encode_message(&JobInput::Interrupt, &mut frame);
        theirs.write_all(&frame).unwrap();
        console.report(&JobNews::Suspended);
        console.flush();
        assert!(console.has_work(), "it is looked at without an event");
        let (messages, open) = console.receive();
        assert!(matches!(messages[..], [ConsoleMessage::Input(JobInput::Interrupt)]));
        assert!(!open && !console.has_work() && !console.waits());
    }
}
