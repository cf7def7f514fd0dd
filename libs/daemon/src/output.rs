//! What the process does for the node.

use mpd_alloc::data::{AllocRequest, Strings};
use mpd_jobtable::{Action, Line, ManagerMessage, Question};
use mpd_ring::{Connect, LinkId, Token};
use mpd_wire::message::{ConsoleReply, RingMessage, ScatterId};
use mpd_wire::{Address, ConsoleId, DaemonName, JobId};

/// A run of the hook of a site's scheduler. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookId(pub u64);

/// An action of the process.
#[derive(Debug)]
pub enum Output {
    // Jobs.
    /// Answer this now, with `mpd_jobtable::Input::Answer`. It is the last output of a call.
    Ask(Question),
    /// Do this for the jobs of this host.
    Perform(Action),
    /// The manager of this job is dead. Give its last reports, and then `mpd_jobtable::Input::ManagerGone`.
    LastReports(JobId),
    /// The answer to `mpd_jobtable::Input::Registers`: the job of the manager, or a text for people.
    Registered { connection: ConsoleId, result: Result<JobId, String> },
    /// The job of this console has started: its root manager has the connection now.
    HandOver(ConsoleId),

    // Consoles and managers.
    /// Answer a console. If it is gone or does not read: [`crate::Input::ConsoleGone`].
    Answer {
        console: ConsoleId,
        /// The answer.
        reply: ConsoleReply,
        /// Whether it is the last one.
        is_last: bool,
    },
    /// Send a message to a manager here.
    ToManager(ManagerMessage),

    /// Do this for the ring.
    Ring(RingAction),
    /// Write a line of the log.
    Log(Line),
}

/// An action for the ring.
#[derive(Debug)]
pub enum RingAction {
    /// Connect to a daemon. The answer is [`mpd_ring::Input::LinkUp`] or [`mpd_ring::Input::ConnectFailed`].
    Connect(Connect),
    /// End an attempt to connect. No answer follows.
    Abandon(Token),
    Send(LinkId, RingMessage),
    /// Close a link after its last message. No answer follows.
    Close(LinkId),
    /// Close all links, and begin no more attempts.
    CloseAll,
    /// Measure the time to a daemon for a console. The answer is [`crate::RingEvent::Pinged`].
    Ping {
        console: ConsoleId,
        /// The member that must answer; `None`: any daemon of the ring.
        name: Option<DaemonName>,
        /// The addresses of the member, or the one that the user gave.
        addresses: Vec<Address>,
        /// The target as the user gave it, for [`crate::not_pingable`].
        target: String,
    },
    /// Measure how much of this host is used. With a page, also measure how much the ranks of the page use. The answer
    /// is [`crate::RingEvent::Measured`].
    Measure {
        /// The order that asks for it.
        order: ScatterId,
        page: Option<u32>,
    },
    /// Start the helper that starts a lost member again. [`crate::RingEvent::HelperEnded`] follows, also if it cannot start.
    StartHelper(DaemonName),
    /// Start the scheduler's hook. [`crate::RingEvent::HookEnded`] follows.
    StartHook {
        /// The number of the run.
        hook: HookId,
        /// The request that it sees.
        request: Box<AllocRequest>,
        /// The user's strings that it sees.
        strings: Strings,
    },
    /// Kill the processes of a hook. [`crate::RingEvent::HookEnded`] follows.
    KillHook(HookId),
    /// Replace the record of the ring with these bytes.
    SaveRing(Vec<u8>),
    /// Remove the record of the ring: this daemon leaves for good. With `key` also the key of this ring alone.
    ForgetRing {
        /// Whether the key goes too.
        key: bool,
    },
    /// Replace the record of the slots with these bytes.
    SaveSlots(Vec<u8>),
    /// Remove the record of the slots: they are lost.
    ForgetSlots,
}
