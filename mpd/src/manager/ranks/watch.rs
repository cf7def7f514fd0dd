//! Ranks whose crash is caught: what their watcher has found is told before their end. Where what crashes is
//! held, it is told at once, and the watcher waits for our word.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;

use mpd_wire::job::Crash;

/// Most bytes that a watcher may say.
const MAX_SAID: usize = 1 << 20;

/// Most crashes of one rank, and of all ranks of a host, that are told: each is some kilobytes. Those that are held are
/// all told.
const MAX_CRASHES: usize = 4;
pub(super) const MAX_TOLD: u32 = 64;

/// What lets go what a watcher holds.
const GO_ON: &[u8] = b"G";

/// The manager's side of a watcher.
#[derive(Debug)]
pub(super) struct Watcher {
    control: UnixStream,
    /// Said, and not told yet.
    said: Vec<u8>,
    /// How much it has said.
    bytes: usize,
    told: usize,
    /// It holds something.
    holds: bool,
}

impl Watcher {
    /// That of a rank. What it says can be read whenever something is there.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(control: UnixStream) -> io::Result<Self> {
        control.set_nonblocking(true)?;
        Ok(Self { control, said: Vec::new(), bytes: 0, told: 0, holds: false })
    }

    /// Where it says something.
    pub(super) fn descriptor(&self) -> RawFd {
        self.control.as_raw_fd()
    }

    /// Reads what there is, and takes out of it what is complete.
    pub(super) fn hear(&mut self) -> Vec<Crash> {
        let mut buffer = [0; 4096];
        while self.bytes < MAX_SAID {
            match self.control.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    self.bytes += count;
                    self.said.extend_from_slice(&buffer[..count]);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let mut words = serde_json::Deserializer::from_slice(&self.said).into_iter::<Crash>();
        let crashes: Vec<Crash> = words.by_ref().map_while(Result::ok).collect();
        // Where the first one stands that is not whole yet.
        let whole = words.byte_offset();
        self.said.drain(..whole);
        self.holds |= crashes.iter().any(|crash| crash.held);
        let (held, mut told): (Vec<_>, Vec<_>) = crashes.into_iter().partition(|crash| crash.held);
        if !held.is_empty() {
            // Each is a few bytes, and waits for a word of ours: none may go unheard.
            self.bytes = self.said.len();
        }
        told.truncate(MAX_CRASHES.saturating_sub(self.told));
        self.told += told.len();
        held.into_iter().chain(told).collect()
    }

    /// Lets go what it holds.
    pub(super) fn go_on(&mut self) {
        if std::mem::take(&mut self.holds) {
            // It waits for nothing else; if it is gone, so is what it held.
            let _ = self.control.write(GO_ON);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_told_once_it_is_whole_and_what_is_held_is_let_go_once() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut watcher = Watcher::new(ours).unwrap();
        let text = serde_json::to_vec(&Crash::held(11)).unwrap();
        theirs.write_all(&text[..5]).unwrap();
        assert_eq!(watcher.hear(), []);
        watcher.go_on();
        let mut buffer = [0; 8];
        assert!(theirs.read(&mut buffer).is_err(), "it holds nothing that we know of");
        theirs.write_all(&text[5..]).unwrap();
        theirs.write_all(&text).unwrap();
        assert_eq!(watcher.hear(), [Crash::held(11), Crash::held(11)]);
        assert_eq!(watcher.hear(), []);
        (0..2).for_each(|_| watcher.go_on());
        assert_eq!(theirs.read(&mut buffer).unwrap(), 1);
        (0..9).for_each(|_| theirs.write_all(&text).unwrap());
        assert_eq!(watcher.hear().len(), 9, "each waits for our word");
        let looked_at = Crash { held: false, ..Crash::held(11) };
        let text = serde_json::to_vec(&looked_at).unwrap();
        (0..9).for_each(|_| theirs.write_all(&text).unwrap());
        assert_eq!(watcher.hear().len(), MAX_CRASHES);
    }
}
