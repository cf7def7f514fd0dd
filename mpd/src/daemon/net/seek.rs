//! Job links: connections between managers, which never listen themselves. They come in at the daemon's
//! port, wait until the manager that they ask for can be spoken to, prove their job's key, and go to it.
//!
//! One whose manager does not come is closed by the handshake's deadline, and until then it is a
//! stranger like any other that has not proved itself.

use std::os::fd::{AsRawFd as _, OwnedFd};

use mio::Registry;
use mio::unix::SourceFd;
use mpd_channel::hello::Mark;
use mpd_channel::{HandshakeError, Key};
use mpd_wire::Instance;

use crate::daemon::net::{Net, Stage};

impl Net {
    /// Links that wait for a manager, and for which one.
    pub(crate) fn seekers(&self) -> Vec<(usize, Instance)> {
        let seeking = |token: &usize| match self.lines.get(token)?.stage {
            Stage::Seeking(manager) => Some((*token, manager)),
            _ => None,
        };
        self.timed.iter().filter_map(seeking).collect()
    }

    /// Takes such a link out, if it was made with the key of the manager's job: its hello, in hexadecimal
    /// digits, and the connection. Else it is closed.
    pub(crate) fn pass_on(
        &mut self,
        registry: &Registry,
        token: usize,
        key: &Key,
    ) -> Option<(String, OwnedFd)> {
        let line = self.lines.get_mut(&token)?;
        let hello = match line.link.prove(key) {
            Ok(hello) if self.hellos.is_new(Mark::of(&hello)) => hello,
            Ok(_) => {
                self.lose(token, &HandshakeError::Repeated.into());
                return None;
            }
            Err(e) => {
                self.lose(token, &e);
                return None;
            }
        };
        let line = self.lines.remove(&token)?;
        let _ = registry.deregister(&mut SourceFd(&line.link.as_raw_fd()));
        let digits = mpd_wire::hex::encode(&hello);
        Some((digits, line.link.into_stream().into()))
    }
}
