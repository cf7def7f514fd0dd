//! Processor time for daemons and managers: they need little of it, but soon.
//!
//! Beside hundreds of ranks that poll, a process that is like them gets a few milliseconds a second, and whoever
//! listens to it takes its host for lost.

use std::time::Duration;

use crate::raw;

/// The niceness of a server, if the system lets it have one below zero (a root's, or one with `RLIMIT_NICE`).
const NICENESS: i32 = -10;

/// For how long it wants a processor at a time. Who asks for little gets it sooner (Linux 6.12 and later).
const SLICE: Duration = Duration::from_micros(200);

/// Our niceness, if we are scheduled by the rules for ordinary processes.
pub fn niceness() -> Option<i8> {
    raw::niceness().and_then(|nice| i8::try_from(nice).ok())
}

/// Whether a child of this process may have that niceness.
pub fn may_have(niceness: i8) -> bool {
    raw::may_have_niceness(niceness.into())
}

/// Asks for it. Who was given a niceness keeps it, and children never inherit what is asked for here. What the system
/// refuses is done without.
pub fn of_a_server() {
    match raw::niceness() {
        Some(0) if raw::schedule(NICENESS, SLICE).is_ok() => {}
        Some(nice @ 0..) => {
            let _ = raw::schedule(nice, SLICE);
        }
        // It is somebody's will, as are other rules than those for ordinary processes.
        Some(_) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_niceness_is_always_permitted_and_looking_changes_nothing() {
        let own = niceness().unwrap();
        assert!(may_have(own.max(0)) && may_have(19));
        let less = may_have(-20);
        assert_eq!(niceness(), Some(own));
        assert_eq!(less, may_have(-20), "it is the same at the next look");
    }
}
