//! What the process reports to the node.

use mpd_jobtable::Input as JobInput;
use mpd_ring::Input as RingInput;
use mpd_wire::job::JobSpec;
use mpd_wire::message::{ConsoleReply, HostUse, RingRequest, RunUse, ScatterId};
use mpd_wire::{ConsoleId, DaemonName, Record};

use crate::allocations::HookEnd;
use crate::output::HookId;

/// An event.
#[derive(Debug)]
pub enum Input {
    /// Of the jobs of this host and their managers, or the answer to [`crate::Output::Ask`].
    Jobs(JobInput),
    /// Of the ring. A daemon without a ring has no such events.
    Ring(RingEvent),
    /// A console asks.
    Asked {
        console: ConsoleId,
        request: RingRequest,
    },
    /// A console asks for the state of this daemon.
    Status {
        console: ConsoleId,
    },
    ConsoleGone(ConsoleId),
    /// A console submits a job. [`crate::Output::HandOver`] follows, or an answer with the reason of a refusal.
    Submitted(Box<Submitted>),
    /// A signal, or the end of the process that holds this daemon: it is to leave and end.
    Signalled,
}

/// A job that a console submits. It has been checked.
#[derive(Debug)]
pub struct Submitted {
    pub console: ConsoleId,
    /// In a private ring, the process that gives the job its id.
    pub process: Option<u32>,
    pub spec: JobSpec,
    /// The size of the encoded specification.
    pub spec_bytes: u32,
    /// A line for the user.
    pub notice: Option<String>,
}

/// An event of the ring.
#[derive(Debug)]
pub enum RingEvent {
    /// Of a link.
    Link(RingInput),
    /// The answer to [`crate::RingAction::Ping`].
    Pinged {
        console: ConsoleId,
        /// The measured time, or why there is none.
        reply: ConsoleReply,
    },
    /// Something was refused at a link, for the log.
    Refused(String),
    /// The list of members has come.
    Introduced(Vec<Record>),
    /// A console has read everything that was sent to it.
    ConsoleRead(ConsoleId),
    /// Root has set or removed the mark that drains this host for all users.
    HostMarked(bool),
    /// The answer to [`crate::RingAction::Measure`].
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
