//! The configuration of a daemon's part in a ring, and the bounds that are the same for all
//! daemons.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use mpd_wire::{Address, DaemonName, Instance, MAX_MEMBERS};

/// Distance between the positions of neighbours in the host file: room for 32 halvings.
pub const GAP: u64 = 1 << 32;
/// Most candidates tried at once for a new rhs (R3).
pub const MAX_CANDIDATES: usize = 64;
/// Most dead members and seeds searched at one time (R4, R5).
pub const MAX_PROBES: usize = 4;
/// Most daemons dialed back at one time (R7).
pub const MAX_PROOFS: usize = 32;
/// Most accepted ring links. One is in use; the others are about to be closed.
pub const MAX_RING_GUESTS: usize = 8;
/// Most accepted links for entry and probing.
pub const MAX_GUESTS: usize = 96;
/// Most accepted chords: log2 of [`MAX_MEMBERS`], and as many that are about to be closed.
pub const MAX_CHORD_GUESTS: usize = 32;
/// Most bytes of a scatter's payload: a frame holds it in base 64 with room for the names.
pub const MAX_PAYLOAD: usize = 512 * 1024;
/// Most bytes of names in one message, beside a payload or answers. [`MAX_MEMBERS`] names of usual
/// length take fewer. The next round asks the members that a scatter cannot name.
pub const MAX_NAMED: usize = 256 * 1024;
/// Most bytes of answers in one message. The next round asks again for answers that do not fit.
pub const MAX_GATHERED: usize = 512 * 1024;
/// Most bytes of one member's answer.
pub const MAX_ANSWER: usize = 4096;
/// Most scatters and laps of one daemon that are in progress.
pub const MAX_REQUESTS: usize = 64;
/// Most scatters of other daemons that one daemon carries.
pub const MAX_CARRIED: usize = 1024;
/// Most forwarding steps of a scatter: one for each member while there are no chords.
pub const MAX_HOPS: u32 = MAX_MEMBERS as u32;
/// Most laps that wait for a new rhs.
pub const MAX_PARKED_LAPS: usize = 16;

/// The configuration of a daemon's part in a ring.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingConfig {
    /// The daemon's name, unique in the ring.
    pub name: DaemonName,
    /// The daemon's instance: random.
    pub instance: Instance,
    /// The addresses under which others reach it; [`crate::Input::Readdress`] changes them.
    pub addresses: Vec<Address>,
    /// Processes that this host takes before placement prefers another. The ring only passes the
    /// number on.
    pub ncpus: u32,
    /// Its line in the host file, if it was booted from one; `None` places it behind all others.
    pub ordinal: Option<u64>,
    /// Addresses of members through which to enter, tried in turn. If empty, the daemon begins a
    /// ring of one.
    pub entry: Vec<Address>,
    /// Hosts that may run a daemon of the ring (R5).
    pub seeds: Vec<Seed>,
    /// Whether the daemon waits for [`crate::Input::Introduce`] instead of looking for members.
    #[serde(default)]
    pub waits: bool,
    /// The durations.
    pub timing: Timing,
    /// Seed of the generator for jitter and choices: random.
    pub chance: u64,
    /// The rules in force.
    #[doc(hidden)]
    #[serde(skip)]
    pub rules: Rules,
}

/// A host that may run a daemon of this ring, from the host file or from the list saved by the
/// previous ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// Its line in the file.
    pub ordinal: u64,
    /// The address of its daemon.
    pub address: Address,
}

/// Durations of the ring. Tests divide them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// The interval between pulses. The search for the dead has the same interval.
    pub pulse: Duration,
    /// After this silence a neighbour gets no new work.
    pub suspect: Duration,
    /// After this silence the rhs is declared dead.
    pub dead: Duration,
    /// The time in which a connection must come up.
    pub connect: Duration,
    /// A daemon that is woken this much too late declares that it stalled.
    pub stall: Duration,
    /// The time for which an accuser is remembered (R6).
    pub accusers: Duration,
    /// The time for which the list must be unchanged before chords are opened.
    pub settle: Duration,
    /// Deadline of a scatter.
    pub scatter: Duration,
    /// Deadline of one lap.
    pub lap: Duration,
    /// The time for which departed members are remembered.
    pub departed: Duration,
    /// The time for which dead members are remembered and searched.
    pub dead_memory: Duration,
    /// The time for which entries are tried before a daemon with seeds begins alone.
    pub entry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            pulse: second,
            suspect: second * 3,
            dead: second * 5,
            connect: second,
            stall: second * 2,
            accusers: second * 15,
            settle: second * 2,
            scatter: second * 10,
            lap: second * 10,
            departed: second * (24 * 3600),
            dead_memory: second * (24 * 3600),
            entry: second * 5,
        }
    }
}

impl Timing {
    /// Divides all durations by `divisor`, except the memories of the dead and departed. For tests.
    #[must_use]
    pub fn faster(&self, divisor: u32) -> Self {
        Self {
            pulse: self.pulse / divisor,
            suspect: self.suspect / divisor,
            dead: self.dead / divisor,
            connect: self.connect / divisor,
            stall: self.stall / divisor,
            accusers: self.accusers / divisor,
            settle: self.settle / divisor,
            scatter: self.scatter / divisor,
            lap: self.lap / divisor,
            departed: self.departed,
            dead_memory: self.dead_memory,
            entry: self.entry / divisor,
        }
    }
}

/// The rules in force. All are in force, except in the scenarios that show the effect of each rule.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per rule")]
pub struct Rules {
    /// R1: further fields order records of equal incarnation.
    pub whole_order: bool,
    /// R2: the owner refutes.
    pub refute: bool,
    /// R3: a daemon that cannot reach its rhs takes the next one.
    pub reknit: bool,
    /// R3: several candidates are tried at once.
    pub widen: bool,
    /// R4: dead members are searched.
    pub probe_dead: bool,
    /// R5: seeds are searched.
    pub probe_seeds: bool,
    /// R6: a daemon that is accused twice moves.
    pub reseat: bool,
    /// R7: a peer counts when it is a member that was reached.
    pub prove: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            whole_order: true,
            refute: true,
            reknit: true,
            widen: true,
            probe_dead: true,
            probe_seeds: true,
            reseat: true,
            prove: true,
        }
    }
}
