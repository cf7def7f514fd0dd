//! What the process reports to the node.

use mpd_ring::Input as RingInput;
use mpd_wire::message::{ConsoleReply, HostUse, JobEvent, RingRequest, RunUse, ScatterId};
use mpd_wire::{DaemonName, JobId, Record};

use crate::allocations::HookEnd;
use crate::demand::Demand;
use crate::launch::Announcement;
use crate::output::HookId;

/// An event.
#[derive(Debug)]
pub enum Input {
    /// An event of a link.
    Link(RingInput),
    /// The answer to [`crate::Output::Ping`].
    Pinged {
        console: usize,
        /// The measured time, or why there is none.
        reply: ConsoleReply,
    },
    /// Something was refused at a link, for the log.
    Refused(String),
    /// The list of members has come.
    Introduced(Vec<Record>),
    /// A console asks.
    Asked {
        console: usize,
        request: RingRequest,
    },
    /// A console has read everything that was sent to it.
    ConsoleRead(usize),
    ConsoleGone(usize),
    /// A manager of this host asks.
    Demanded(Demand),
    /// A job was started here, and has hosts elsewhere.
    Announced(Announcement),
    /// The root manager of a job here reports events.
    Events {
        job: JobId,
        /// Its next events.
        events: Vec<JobEvent>,
    },
    /// Root has set or removed the mark that drains this host for all users.
    HostMarked(bool),
    /// A signal asks this daemon to leave.
    Signalled,
    /// The answer to [`crate::Output::StartManager`].
    ManagerStarted {
        order: ScatterId,
        job: JobId,
        /// Why the manager did not start; a text for people.
        result: Result<(), String>,
    },
    /// The answer to [`crate::Output::Measure`].
    Measured {
        order: ScatterId,
        /// The use of this host, as it was measured.
        host: HostUse,
        /// If a page was asked for: its ranks, and whether there is another page.
        ranks: Option<(Vec<RunUse>, bool)>,
    },
    /// The helper of this member has ended, or could not start.
    HelperEnded(DaemonName),
    /// A run of the scheduler's hook has ended, or could not start.
    HookEnded {
        /// The run.
        hook: HookId,
        /// How it ended.
        end: HookEnd,
    },
}
