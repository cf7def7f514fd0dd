//! CPU time for daemons and managers: they need little of it, but soon.
//!
//! On a host with hundreds of busy ranks, a process of ordinary priority gets a few milliseconds per second. Its peers
//! would then declare the host lost.

use std::time::Duration;

use nix::unistd::{Pid, getsid};

use crate::process::session_share;
use crate::raw;

/// The niceness of a server, if the system permits it: a negative one needs root or `RLIMIT_NICE`.
const NICENESS: i32 = -10;

/// The time slice of a server. A process with a short slice is scheduled sooner (Linux 6.12 and later).
const SLICE: Duration = Duration::from_micros(200);

/// The niceness of this process; `None` under another scheduling policy than the ordinary one.
pub fn niceness() -> Option<i8> {
    raw::niceness().and_then(|nice| i8::try_from(nice).ok())
}

/// Whether a child of this process may have that niceness.
pub fn may_have(niceness: i8) -> bool {
    raw::may_have_niceness(niceness.into())
}

/// Requests niceness and slice of a server. A niceness that was set for this process stays, and children never inherit
/// the request. A refusal of the system is ignored.
pub fn of_a_server() {
    match raw::niceness() {
        Some(0) if raw::schedule(NICENESS, SLICE).is_ok() => {}
        Some(nice @ 0..) => {
            let _ = raw::schedule(nice, SLICE);
        }
        // A niceness or scheduling policy that a user has chosen stays.
        Some(_) | None => {}
    }
}

/// Gives the session of a server the most weight, if this process leads it: it would wait for a session of many ranks
/// otherwise. A refusal of the system is ignored.
pub fn of_a_servers_session() {
    if getsid(None) == Ok(Pid::this()) {
        let _ = session_share::set_niceness(mpd_placement::niceness_of_session(usize::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_niceness_is_always_permitted_and_the_question_changes_nothing() {
        let own = niceness().unwrap();
        assert!(may_have(own.max(0)) && may_have(19));
        let less = may_have(-20);
        assert_eq!(niceness(), Some(own));
        assert_eq!(less, may_have(-20), "it is the same at the next look");
    }
}
