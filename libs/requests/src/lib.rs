//! Requests for processes on the slots of a ring: first the slots, later the processes.
//!
//! ```no_run
//! use mpd_requests::{Session, State, Wanted};
//!
//! let session = Session::new()?;
//! let requests = session.allocate(&Wanted { count: 2, ..Wanted::default() })?;
//! let mut left = requests.clone();
//! while !left.is_empty() {
//!     for (index, status) in session.wait_some(&left)? {
//!         if status.state == State::Granted {
//!             session.set_exec(left[index], b"/bin/hostname")?;
//!             session.start(left[index])?;
//!         }
//!     }
//!     left.retain(|request| session.is_known(*request));
//! }
//! # Ok::<(), mpd_requests::Error>(())
//! ```
//!
//! The program gets no thread, no signal handler and no child. A helper process, `mpdalloc --serve`, holds the slots and starts the
//! processes. It ends with the program, and everything that it has started ends with it.
//!
//! **Parts.** [`Session`] and the connection to the helper use descriptors. All other files decide, and use none:
//!
//! | part | side | decides |
//! |---|---|---|
//! | [`Table`] | program | the state of each request, which calls are allowed, and which completions wait |
//! | [`Call`] | helper | what became of the requests of one call, and which slots it still needs |
//! | [`Events`] | program | the events of a job that wait, and how many may be under way |
//! | [`frame`] | both | the bytes |
//!
//! ```text
//! waiting ── granted ──► granted ── start ──► running ── exited ──► over
//!    └────── cancelled ─────┴── cancelled, lost ─┴── cancelled, lost ─┘
//! ```
//!
//! **Users.** `libmpd`, `mpdalloc --serve`, and programs in Rust.
//!
//! **Must not know.** Daemons and clocks.

mod call;
mod error;
mod event;
pub mod frame;
mod helper;
mod session;
mod table;

pub use call::{Call, Slot};
pub use error::Error;
pub use event::{AHEAD, Event, EventKind, Events};
pub use helper::Places;
pub use session::Session;
pub use table::{State, Status, Table};

use mpd_frame::Versions;
use serde::{Deserialize, Serialize};

/// The versions of the messages that this release reads.
pub const VERSION: Versions = Versions::only(2);
/// Most requests of one call.
pub const MAX_REQUESTS: usize = 4096;
/// Most bytes in one string for a scheduler.
pub const MAX_STRING: usize = 1024;

/// A request, as program and helper number it. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

impl RequestId {
    /// The request that many places behind this one.
    #[must_use]
    pub const fn plus(self, index: usize) -> Self {
        Self(self.0.saturating_add(index as u64))
    }
}

/// How the slots of one call are granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hardness {
    /// Each request for itself, as soon as a slot is free for it; all of them in the end.
    #[default]
    Hard,
    /// All together.
    Gang,
    /// Those for which a slot is free. The rest is cancelled.
    Soft,
}

/// What one call requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The number of processes.
    pub count: u32,
    /// How they are granted.
    pub hardness: Hardness,
    /// The pattern of the host of each process; empty: any host.
    pub nodes: Vec<String>,
    /// The pattern of the architecture.
    pub arch: Option<String>,
    /// The string for the scheduler about the whole call.
    pub global: Option<String>,
    /// The string for the scheduler about each process; empty: there are none.
    pub local: Vec<String>,
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The process exited with this code.
    Exited(u8),
    /// A signal ended the process.
    Signaled(u8),
    /// The request was cancelled, or a soft one got no slot.
    Cancelled,
    /// The slot, the host, the daemon or the helper is lost; or the process could not be started, with the exit code of
    /// `mpirun`.
    Lost(u8),
}

/// A message to the helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToHelper {
    /// The first message. It is answered with [`ToProgram::Answer`] number 0.
    Hello(Versions),
    /// Request slots. It is answered when the daemon has the request.
    Allocate {
        /// The number of the answer.
        number: u64,
        /// The first request; the others follow it.
        first: RequestId,
        /// What is requested.
        wanted: Wanted,
    },
    /// Start the process of a granted request.
    Start {
        id: RequestId,
        /// The program.
        path: Vec<u8>,
        arguments: Vec<Vec<u8>>,
        /// Whether its start shall be reported.
        reports_start: bool,
    },
    /// Send a signal to running processes. It is answered when it is sent.
    Signal {
        /// The number of the answer.
        number: u64,
        /// The name or the number of the signal.
        signal: String,
        ids: Vec<RequestId>,
    },
    /// End a request.
    Cancel(RequestId),
    /// Send the events of a job. It is answered when the daemon has the request, and replaces an earlier one.
    Notify {
        /// The number of the answer, and of the subscription.
        number: u64,
        /// The job, as `mpdwatch --job` takes it.
        job: String,
        /// The bits of the wanted events, see [`EventKind::bit`]; 0 ends the subscription.
        wanted: u32,
        /// The number of the first event; 0: the first one that is kept.
        from: u64,
    },
    /// The program has taken events, so that further ones may be sent.
    Taken {
        subscription: u64,
        /// How many.
        count: u32,
    },
}

/// A message of the helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToProgram {
    /// The answer to the message with this number.
    Answer {
        number: u64,
        /// Why it failed.
        error: Option<Error>,
    },
    /// An allocation has its slots: those of a call, or the slot of one request.
    Granted {
        first: RequestId,
        /// The allocation, as `mpdqueue` lists it.
        alloc: String,
        /// The host of each request.
        hosts: Vec<String>,
    },
    /// The requests of an allocation are refused.
    Refused {
        first: RequestId,
        /// How many they are.
        count: u32,
        why: String,
    },
    /// The process runs.
    Started(RequestId),
    /// The request is over.
    Ended(RequestId, End),
    /// Events of a job.
    Events {
        /// The number of the call that wanted them.
        subscription: u64,
        /// The events, in their order.
        events: Vec<Event>,
    },
    /// No further event will come, although the job has not ended.
    EventsFailed {
        /// The number of the call.
        subscription: u64,
        why: String,
    },
}
