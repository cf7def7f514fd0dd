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

mod helper;
mod session;

pub use helper::Places;
pub use mpd_handle::{Error, Event, EventKind, Hardness, RequestId, State, Status, Wanted};
pub use session::Session;
