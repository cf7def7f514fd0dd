//! The times of the machines.
//!
//! The owner of an allocation stops using a slot before the slot's host gives it to another allocation. No message
//! between them is needed for this. The host holds the slot for longer (`hold`) than the owner can use it without a
//! confirmation. The owner's time is the sum of three: without an answer of the host (`belief`), without a daemon
//! (`reconnect`), and after the restart of the daemon (`restart`).

use std::time::Duration;

/// The times of the machines. All daemons of a ring have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often the machines look at their deadlines while there is work.
    pub tick: Duration,
    /// When a message without an answer is sent again.
    pub again: Duration,
    /// How long a reservation holds.
    pub reservation: Duration,
    /// How long a new dispenser collects requests and reports before it grants slots.
    pub settle: Duration,
    /// How long a dispenser waits for the report of a host before it grants slots of others.
    pub gather: Duration,
    /// How often a dispenser looks again at hosts and at the owners of requests that wait.
    pub review: Duration,
    /// How long a requester tries to have its slots confirmed.
    pub confirm: Duration,
    /// How often a requester confirms its slots again.
    pub renew: Duration,
    /// How long a requester believes in slots of a host that does not answer.
    pub belief: Duration,
    /// How long a new daemon waits for the owners of its allocations. An owner waits as long for a new daemon.
    pub reconnect: Duration,
    /// How long a new daemon believes in slots that no host has confirmed to it; less than `belief`.
    pub restart: Duration,
    /// How long a host holds slots that are not confirmed again.
    pub hold: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            tick: Duration::from_millis(250),
            again: seconds(1),
            reservation: seconds(2),
            settle: seconds(1),
            gather: Duration::from_millis(1500),
            review: seconds(5),
            confirm: seconds(4),
            renew: seconds(2),
            belief: seconds(7),
            reconnect: seconds(15),
            restart: seconds(5),
            hold: seconds(28),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_holds_a_slot_for_longer_than_any_owner_believes_in_it() {
        let t = Timing::default();
        assert!(t.hold >= t.belief + t.reconnect + t.restart + t.tick * 2);
        assert!(t.restart < t.belief && t.renew * 3 < t.belief && t.confirm < t.belief);
        assert!(t.settle + t.gather.max(t.again) < Duration::from_secs(3));
    }
}
