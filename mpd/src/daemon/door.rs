//! Where connections come in: whether somebody waits there, and a rest when descriptors have run out.

use std::io;

use mpd_machine::Time;

use crate::daemon::throttle::Throttle;

/// Most connections taken in one turn.
pub(crate) const PER_TURN: usize = 64;

/// The state of a listening socket, whose events come once.
#[derive(Debug)]
pub(crate) struct Door {
    /// Who comes in, for the log.
    whom: &'static str,
    /// Connections may be waiting to be accepted.
    knocked: bool,
    /// Out of descriptors: accepting rests for a moment.
    resting: bool,
    exhausted: Throttle,
}

impl Door {
    /// One at which somebody may be waiting already.
    pub(crate) fn new(whom: &'static str) -> Self {
        Self { whom, knocked: true, resting: false, exhausted: Throttle::default() }
    }

    /// An event came.
    pub(crate) const fn knock(&mut self) {
        self.knocked = true;
    }

    /// Whoever waits is left waiting.
    pub(crate) const fn ignore(&mut self) {
        self.knocked = false;
    }

    /// Whether there is something to do without waiting.
    pub(crate) const fn has_work(&self) -> bool {
        self.knocked && !self.resting
    }

    /// Whether to try again in a moment.
    pub(crate) const fn is_resting(&self) -> bool {
        self.knocked && self.resting
    }

    /// The next one who waits, by way of `accept`; ends a rest.
    pub(crate) fn next<T>(
        &mut self,
        now: Time,
        accept: impl FnOnce() -> io::Result<T>,
    ) -> Option<T> {
        self.resting = false;
        if !self.knocked {
            return None;
        }
        match accept() {
            Ok(one) => return Some(one),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.knocked = false,
            Err(e) => {
                self.resting = true;
                self.exhausted.warn(now, format_args!("cannot accept a {}: {e}", self.whom));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_rests_when_descriptors_have_run_out_and_waits_when_nobody_is_there() {
        let mut door = Door::new("guest");
        let fails = |kind: io::ErrorKind| move || Err::<(), _>(kind.into());
        assert!(door.has_work());
        assert_eq!(door.next(Time::ZERO, || Ok(7)), Some(7));
        assert_eq!(door.next(Time::ZERO, fails(io::ErrorKind::Other)), None);
        assert!(door.is_resting() && !door.has_work());
        assert_eq!(door.next(Time::ZERO, fails(io::ErrorKind::WouldBlock)), None);
        assert!(!door.is_resting() && !door.has_work());
        assert_eq!(door.next(Time::ZERO, || Ok(7)), None);
        door.knock();
        assert!(door.has_work());
    }
}
