//! The root manager's connection to the console of its job. The other managers have none: what is said
//! here goes nowhere then.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use anyhow::Result;
use mpd_io::conn::{Conn, Filled};
use mpd_wire::frame;
use mpd_wire::frame::Kind;
use mpd_wire::message::{JobInput, JobNews};

/// Something the console sent.
#[derive(Debug)]
pub(crate) enum Heard {
    Input(JobInput),
    /// Standard input; empty means its end.
    Stdin(Vec<u8>),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Console {
    conn: Option<Conn>,
    pub(crate) ready: bool,
    open: bool,
    /// It takes no more words; what it said last is still to be read.
    deaf: bool,
}

impl Console {
    /// The connection that the daemon handed on.
    ///
    /// # Errors
    /// The descriptor is no socket.
    pub(crate) fn new(fd: OwnedFd) -> Result<Self> {
        let conn = Conn::new(UnixStream::from(fd))?;
        Ok(Self { conn: Some(conn), ready: true, open: true, deaf: false })
    }

    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.conn.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Queues news.
    pub(crate) fn tell(&mut self, news: &JobNews) {
        if let Some(conn) = &mut self.conn {
            conn.send(news);
        }
    }

    /// Reads what is there: what it said, and whether it is still there.
    pub(crate) fn hear(&mut self) -> (Vec<Heard>, bool) {
        let mut heard = Vec::new();
        let Some(conn) = &mut self.conn else { return (heard, true) };
        let filled = conn.fill();
        loop {
            let problem = match conn.next_frame() {
                Ok(Some((Kind::Stdin, bytes))) => {
                    heard.push(Heard::Stdin(bytes.to_vec()));
                    continue;
                }
                Ok(Some((Kind::Control, payload))) => match frame::decode_message(payload) {
                    Ok(input) => {
                        heard.push(Heard::Input(input));
                        continue;
                    }
                    Err(e) => e.to_string(),
                },
                Ok(Some((Kind::Spec, _))) => "a second job".to_owned(),
                Ok(None) => break,
                Err(e) => e.to_string(),
            };
            log::warn!("the console broke the protocol: {problem}");
            self.open = false;
            self.ready = false;
            return (heard, false);
        }
        self.ready = matches!(filled, Ok(Filled::More));
        let open = !matches!(filled, Ok(Filled::Closed) | Err(_));
        self.open &= open;
        (heard, open)
    }

    /// Whether there is something to read without waiting.
    pub(crate) const fn has_work(&self) -> bool {
        self.ready && self.open
    }

    /// Writes what is queued.
    pub(crate) fn flush(&mut self) {
        if let (Some(conn), false) = (&mut self.conn, self.deaf)
            && conn.flush().is_err()
        {
            self.deaf = true;
            self.ready = true;
        }
    }

    /// Bytes that it has not taken yet.
    pub(crate) fn waiting(&self) -> usize {
        self.conn.as_ref().map_or(0, Conn::queued)
    }

    /// Whether it is there and has not yet taken all that was said.
    pub(crate) fn waits(&self) -> bool {
        self.open && !self.deaf && self.conn.as_ref().is_some_and(|conn| conn.queued() > 0)
    }
}
