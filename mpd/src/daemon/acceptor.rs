//! The state of a listening socket: whether connections may wait, and a rest when descriptors have run out.

use std::io;

use mpd_jobtable::Throttle;
use mpd_sansio::Time;

use crate::daemon::lines;

/// Most connections taken in one turn.
pub(crate) const PER_TURN: usize = 64;

/// The state of a listening socket whose events are edge-triggered.
#[derive(Debug)]
pub(crate) struct Acceptor {
    /// The kind of the peers, for the log.
    peers: &'static str,
    /// Connections may be waiting to be accepted.
    ready: bool,
    /// Descriptors have run out, so accepting rests for a moment.
    resting: bool,
    exhausted: Throttle,
}

impl Acceptor {
    /// Connections may be waiting already.
    pub(crate) fn new(peers: &'static str) -> Self {
        Self { peers, ready: true, resting: false, exhausted: Throttle::default() }
    }

    /// An event reports a waiting connection.
    pub(crate) const fn mark_ready(&mut self) {
        self.ready = true;
    }

    /// Leaves the waiting connections alone.
    pub(crate) const fn mark_idle(&mut self) {
        self.ready = false;
    }

    /// Whether connections can be accepted now.
    pub(crate) const fn has_work(&self) -> bool {
        self.ready && !self.resting
    }

    /// Whether to try again in a moment.
    pub(crate) const fn is_resting(&self) -> bool {
        self.ready && self.resting
    }

    /// The next connection, which `accept` accepts; ends a rest.
    pub(crate) fn next<T>(
        &mut self,
        now: Time,
        accept: impl FnOnce() -> io::Result<T>,
    ) -> Option<T> {
        self.resting = false;
        if !self.ready {
            return None;
        }
        match accept() {
            Ok(one) => return Some(one),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.ready = false,
            Err(e) => {
                self.resting = true;
                let text = format_args!("cannot accept a {}: {e}", self.peers);
                lines::write_all(self.exhausted.warn(now, text));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acceptor_rests_when_descriptors_have_run_out_and_waits_when_no_connection_waits() {
        let mut acceptor = Acceptor::new("guest");
        let fails = |kind: io::ErrorKind| move || Err::<(), _>(kind.into());
        assert!(acceptor.has_work());
        assert_eq!(acceptor.next(Time::ZERO, || Ok(7)), Some(7));
        assert_eq!(acceptor.next(Time::ZERO, fails(io::ErrorKind::Other)), None);
        assert!(acceptor.is_resting() && !acceptor.has_work());
        assert_eq!(acceptor.next(Time::ZERO, fails(io::ErrorKind::WouldBlock)), None);
        assert!(!acceptor.is_resting() && !acceptor.has_work());
        assert_eq!(acceptor.next(Time::ZERO, || Ok(7)), None);
        acceptor.mark_ready();
        assert!(acceptor.has_work());
    }
}
