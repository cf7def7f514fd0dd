//! What the process does for the node.

use mpd_alloc::data::{AllocRequest, Strings};
use mpd_jobtable::{Line, ManagerMessage};
use mpd_ring::{Connect, LinkId, Token};
use mpd_wire::message::{ConsoleReply, Launch, RingMessage, ScatterId};
use mpd_wire::{Address, DaemonName};

/// A run of the hook of a site's scheduler. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookId(pub u64);

/// An action of the process.
#[derive(Debug)]
pub enum Output {
    /// Connect to a daemon. The answer is [`mpd_ring::Input::LinkUp`] or [`mpd_ring::Input::ConnectFailed`].
    Connect(Connect),
    /// End an attempt to connect. No answer follows.
    Abandon(Token),
    Send(LinkId, RingMessage),
    /// Close a link after its last message. No answer follows.
    Close(LinkId),
    /// Close all links, and begin no more attempts.
    CloseAll,
    /// Measure the time to a daemon for a console. The answer is [`crate::Input::Pinged`].
    Ping {
        console: usize,
        /// The member that must answer; `None`: any daemon of the ring.
        name: Option<DaemonName>,
        /// The addresses of the member, or the one that the user gave.
        addresses: Vec<Address>,
        /// The target as the user gave it, for [`crate::not_pingable`].
        target: String,
    },
    /// Answer a console. If it is gone or does not read: [`crate::Input::ConsoleGone`].
    Answer {
        console: usize,
        /// The answer.
        reply: ConsoleReply,
        /// Whether it is the last one.
        is_last: bool,
    },
    /// Send a message to a manager here.
    ToManager(ManagerMessage),
    /// Start the manager of a host slice. The answer is [`crate::Input::ManagerStarted`].
    StartManager {
        /// The order that asks for it.
        order: ScatterId,
        /// The job.
        launch: Box<Launch>,
        /// The position of the host slice in the tree of the job.
        tree_index: usize,
    },
    /// Have the managers here count output, for the next [`Output::Measure`].
    CountOutput,
    /// Measure how much of this host is used. With a page, also measure how much the ranks of the page use. The answer
    /// is [`crate::Input::Measured`].
    Measure {
        /// The order that asks for it.
        order: ScatterId,
        page: Option<u32>,
    },
    /// Start the helper that starts a lost member again. [`crate::Input::HelperEnded`] follows, also if it cannot start.
    StartHelper(DaemonName),
    /// Start the scheduler's hook. [`crate::Input::HookEnded`] follows.
    StartHook {
        /// The number of the run.
        hook: HookId,
        /// The request that it sees.
        request: Box<AllocRequest>,
        /// The user's strings that it sees.
        strings: Strings,
    },
    /// Kill the processes of a hook. [`crate::Input::HookEnded`] follows.
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
    /// Write a line of the log.
    Log(Line),
}
