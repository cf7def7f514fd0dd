//! What a daemon must be told to take part in a ring, and the bounds that are the same for all.

use std::time::Duration;

use mpd_wire::{Address, DaemonName, Instance, MAX_MEMBERS};

/// Distance between the positions of neighbours in the host file: room for 32 halvings.
pub const GAP: u64 = 1 << 32;
/// Most candidates tried at once for a new rhs (R3).
pub const MAX_CANDIDATES: usize = 64;
/// Most dead members and seeds looked for at one time (R4, R5).
pub const MAX_PROBES: usize = 4;
/// Most daemons dialed back at one time (R7).
pub const MAX_PROOFS: usize = 32;
/// Most accepted ring links: one is right, more are on their way out.
pub const MAX_RING_GUESTS: usize = 8;
/// Most accepted links for entry and probing.
pub const MAX_GUESTS: usize = 96;
/// Most accepted chords: log2 of [`MAX_MEMBERS`] and as many on their way out.
pub const MAX_CHORD_GUESTS: usize = 32;
/// Most bytes of a scatter's payload: a frame holds it in base 64 with room for the names.
pub const MAX_PAYLOAD: usize = 512 * 1024;
/// Most bytes of names in one message, beside a payload or answers. Those of [`MAX_MEMBERS`] of usual
/// length are fewer; whom a scatter cannot name is asked by the next round.
pub const MAX_NAMED: usize = 256 * 1024;
/// Most bytes of answers in one message. Those that do not fit are asked for again by the next round.
pub const MAX_GATHERED: usize = 512 * 1024;
/// Most bytes of one member's answer.
pub const MAX_ANSWER: usize = 4096;
/// Most scatters and laps that one daemon has under way.
pub const MAX_REQUESTS: usize = 64;
/// Most scatters of others that one daemon carries.
pub const MAX_CARRIED: usize = 1024;
/// Most forwarding steps of a scatter: before there are chords, one for each member.
pub const MAX_HOPS: u32 = MAX_MEMBERS as u32;
/// Most laps that wait for a new rhs.
pub const MAX_PARKED_LAPS: usize = 16;

/// A daemon's part in a ring.
#[derive(Clone, Debug)]
pub struct RingConfig {
    /// Its name, unique in the ring.
    pub name: DaemonName,
    /// This life of it: random.
    pub instance: Instance,
    /// Where others reach it; see also [`crate::Input::Readdress`].
    pub addresses: Vec<Address>,
    /// Processes it takes before another is preferred; for placement, the ring only tells it.
    pub ncpus: u32,
    /// Its place in the host file, if it was booted from one; none: behind all others.
    pub ordinal: Option<u64>,
    /// Members to enter through, tried in turn. None: begin as a ring of one.
    pub entry: Vec<Address>,
    /// Hosts that may have a daemon (R5).
    pub seeds: Vec<Seed>,
    /// Durations.
    pub timing: Timing,
    /// Seed of the jitter and the choices: random.
    pub chance: u64,
    /// Which rules are in force.
    #[doc(hidden)]
    pub rules: Rules,
}

/// A host that may have a daemon of this ring, from the host file or the list saved last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Its place in the file.
    pub ordinal: u64,
    /// Where its daemon would be reached.
    pub address: Address,
}

/// Durations of the ring. Tests scale them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From pulse to pulse; also the rhythm of looking for the dead.
    pub pulse: Duration,
    /// Silence of a neighbour after which it gets no new work.
    pub suspect: Duration,
    /// Silence of the rhs after which it is declared dead.
    pub dead: Duration,
    /// How long a connection may take to come up.
    pub connect: Duration,
    /// Being woken that much too late means that this daemon itself stood still.
    pub stall: Duration,
    /// How long an accuser is remembered (R6).
    pub accusers: Duration,
    /// Quiet time of the list before chords are opened.
    pub settle: Duration,
    /// Deadline of a scatter.
    pub scatter: Duration,
    /// Deadline of one lap.
    pub lap: Duration,
    /// How long departed members are remembered.
    pub departed: Duration,
    /// How long members that died and did not come back are remembered, and looked for.
    pub dead_memory: Duration,
    /// How long entries are tried before a daemon with seeds begins alone.
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
    /// All durations but the memories of the dead and departed divided by `divisor`, for tests.
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

/// The rules in force. All of them, except in the scenarios that show what each is for.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per rule")]
pub struct Rules {
    /// R1: ties of the incarnation are decided.
    pub whole_order: bool,
    /// R2: the owner refutes.
    pub refute: bool,
    /// R3: who cannot reach its rhs takes the next.
    pub reknit: bool,
    /// R3: several candidates at once.
    pub widen: bool,
    /// R4: the dead are looked for.
    pub probe_dead: bool,
    /// R5: the seeds are looked for.
    pub probe_seeds: bool,
    /// R6: who is accused twice moves.
    pub reseat: bool,
    /// R7: a peer counts once it is a member that was reached.
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
