//! The jobs of one host, as their daemon knows them.
//!
//! **Purpose.** [`JobTable`] decides which managers exist: which of them gets a job, when another one is made in advance,
//! and what follows when one is silent or dead. It decides which children of the daemon are killed, and which records are
//! removed. It has what managers report, for the node of the daemon and for consoles. The daemon performs each [`Output`]
//! in its order. It answers each [`Question`] before it gives the table anything else.
//!
//! **Users.** The node of the daemon (`mpd-daemon`), which owns the table.
//!
//! **Must not know.** System calls, `/proc`, descriptors, clocks; the ring, except for the most bytes of an answer.
//!
//! # The end of a manager
//!
//! A manager that reports `ended` leaves nothing. The processes of a manager that dies without this report become
//! children of this daemon, which is the next subreaper. The daemon kills them until none is left. A manager that
//! an earlier daemon started is not a child of this daemon. A helper process finds the processes of that
//! dead manager by control group or cookie. The helper also removes what the manager has noted.
//!
//! # The order of I/O
//!
//! The order of outputs and questions is the order of system calls:
//!
//! 1. A start takes the managers in waiting that the fork server has made meanwhile. It makes the control group, then the
//!    record, and then gives both to a manager. A manager in waiting that died is passed over. A start that fails removes
//!    the record, and then the group.
//! 2. A turn makes a manager in waiting, looks at silent managers, kills orphans, and last looks for managers of an
//!    earlier daemon. So a helper that the last step starts is known before the next turn kills children.
//! 3. The last reports of a dead manager are read before its job is forgotten. The helper starts before the table takes
//!    anything else, so it is never an orphan.
//!
//! | module | has |
//! |---|---|
//! | `table` | the machine, and the way of inputs and answers |
//! | `errand` | steps that follow each other, with questions between them |
//! | `start` | new jobs, and the handing over to their managers |
//! | `deaths` | managers that died, and jobs of an earlier daemon |
//! | `reports` | what managers report, and consoles that ask them |
//! | `queries` | what the node of the daemon reads |
//! | `roots` | orders to root managers, and why they are refused |
//! | `waiting` | managers in waiting |
//! | `silent` | managers that have given no sign |
//! | `children` | helpers and orphans |
//! | `states` | consoles that wait for a manager's state |
//! | `listing`, `top` | jobs and usage, in pages |
//! | `job`, `manager_message` | an entry of the table, a message to a manager |
//! | `line`, `throttle` | lines of the log |
//! | `input`, `output` | what the owner reports and answers, and what it performs |
#![forbid(unsafe_code)]

mod children;
mod deaths;
mod errand;
mod input;
mod job;
mod line;
pub mod listing;
mod manager_message;
mod output;
mod queries;
mod reports;
mod roots;
mod silent;
mod start;
mod states;
mod table;
#[cfg(test)]
mod tests;
mod throttle;
mod top;
mod waiting;

pub use children::DeadManager;
pub use input::{Answer, Given, Input, RecordState};
pub use line::{Level, Line};
pub use manager_message::ManagerMessage;
pub use output::{Action, Event, Output, Question};
pub use queries::{Marked, Root};
pub use roots::{NoRoot, by_request, is_unregistered, manager_messages, no_such_job};
pub use start::{Secrets, planned};
pub use table::{Beginning, JobTable};
pub use throttle::Throttle;
pub use top::Sample;
