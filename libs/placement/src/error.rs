//! The reasons why ranks cannot be placed, as messages for the user.

use std::fmt;

use mpd_wire::DaemonName;
use mpd_wire::job::{MAX_HOST_SLICES, Misfit};

/// Most names of a longer list that a message shows.
const SHOWN: usize = 20;

/// The ranks cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Requested hosts are not in the ring.
    #[error(
        "not in the ring: {}; choose from {}, or start daemons there with mpdboot",
        Names(names),
        Names(members)
    )]
    Unknown {
        /// The names as written.
        names: Vec<String>,
        /// The members of the ring.
        members: Vec<DaemonName>,
    },
    /// A short name, or an address, that several members have.
    #[error("{name} can be any of {}; write the whole name", Names(members))]
    Ambiguous {
        /// The name as written.
        name: String,
        /// The members that have it.
        members: Vec<DaemonName>,
    },
    /// Every host that could be used is excluded.
    #[error("no host is left for the job: all of {} are excluded", Names(.0))]
    NobodyLeft(Vec<DaemonName>),
    /// Every host that could be used is draining.
    #[error(
        "no host is left for the job: {} take no new processes (mpddrain); name them to use them \
         nevertheless",
        Names(.0)
    )]
    Draining(Vec<DaemonName>),
    /// No host can take spawned processes.
    #[error(
        "no host is left for spawned processes{}{}{}",
        Why("draining (mpddrain)", draining),
        Why("excluded", excluded),
        Why("lost to this job", lost)
    )]
    NobodyTakes {
        /// Hosts that are draining.
        draining: Vec<DaemonName>,
        /// Hosts that the job excludes.
        excluded: Vec<DaemonName>,
        /// Hosts that the job has lost.
        lost: Vec<DaemonName>,
    },
    /// The request contradicts itself.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The programs of a group's ranks have different hosts.
    #[error(
        "ranks {low}-{high} are one group, but their programs have different hosts; make the \
         number of processes of each program a multiple of the group's"
    )]
    Group {
        /// The group's first rank.
        low: u32,
        /// Its last rank.
        high: u32,
    },
    /// More ranks than the limit of a host.
    #[error("{ranks} processes on {member} are more than its limit of {max} (max_slots)")]
    Limit {
        /// The host.
        member: DaemonName,
        /// The ranks there.
        ranks: u32,
        /// Its limit.
        max: u32,
    },
    /// More ranks than slots, which the user refuses.
    #[error(
        "{given} processes for {room} slots; without -nooversubscribe they would share the hosts"
    )]
    Crowded {
        /// The ranks or groups.
        given: u64,
        /// The slots for them.
        room: u64,
    },
    /// More hosts than a job may have.
    #[error("{0} hosts are more than the {MAX_HOST_SLICES} that a job may have; put more on each")]
    TooManyHosts(usize),
    /// The console's host is not among the members: an error of the caller.
    #[error("{0} is not a member of its own ring")]
    Origin(DaemonName),
}

/// One of several reasons; it prints nothing if its list is empty.
struct Why<'a>(&'a str, &'a [DaemonName]);

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1.is_empty() { Ok(()) } else { write!(f, "; {}: {}", self.0, Names(self.1)) }
    }
}

/// Names with commas, as many as a message shows.
pub(super) struct Names<'a, T>(pub(super) &'a [T]);

impl<T: fmt::Display> fmt::Display for Names<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.0.iter().take(SHOWN).enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{name}")?;
        }
        match self.0.len().checked_sub(SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, " and {more} more"),
        }
    }
}
