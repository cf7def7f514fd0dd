//! The end of a job's processes on one host, and the clean-up afterwards.
//!
//! **Purpose.** [`Ending`] decides which processes are stopped, signalled and killed, and in which order. It decides which
//! files of `/dev/shm` are the job's, and which of them are removed at the end. The manager performs each
//! [`Action`] in its order. It answers each [`Question`] before it takes anything else. Other outputs are for the machines and
//! parts beside this one.
//!
//! **Users.** The node of a manager (`libs/manager/`); system calls are in `mpd/src/manager/ending/`. `mpd-io` lists files of shared memory and finds their users, and the
//! helper that removes leftovers after a manager's death judges files by [`named_files`] as well.
//!
//! **Must not know.** System calls, `/proc`, descriptors, clocks; the life of the job (`mpd-job`). Which System V object is
//! the job's is decided in `mpd-leftovers`.
//!
//! # The order of I/O
//!
//! The users of shared memory are known only while they live. So a process that a signal will end is kept still first.
//! Then a helper notes what the job uses, and only then the signal is sent. Otherwise objects that a process makes
//! between the last look and its end would belong to no known process. Without a control group only processes that
//! the signal will end are stopped. The others run on, and so do all below them. In a control group all are frozen for that time.
//!
//! The order of outputs and questions is the order of system calls:
//!
//! 1. A running helper and the search for MPI libraries end before processes are noted: both start descendants.
//! 2. One look at the processes asks for the own children first. Then it freezes the group, if there is one, and reads
//!    its members when it is frozen. Then it asks for the children of each process that became still. Last it judges new
//!    processes one by one: rank, effect of the signal, SIGSTOP. Each is judged before the next one is asked for.
//! 3. After the stop, or after [`PATIENCE`], the search for new files begins. The signal follows when the helper has
//!    ended, or at the deadline. A second, different signal gets a stop of its own behind the first one.
//! 4. A kill notes the clocks and all living processes first. An empty group is removed, and another one is killed. Only
//!    then the children are killed, round by round.
//! 5. Stopped processes continue after the pending actions, and then the group runs again. A kill continues none, and
//!    lets the group run after it was killed. The user's continue comes behind that; a kill drops it.
//! 6. A process that is about to be reaped is noted before it is reaped: until then its number is its own.
//! 7. The clean-up claims files by name and looks for users of the files that are left. Then it removes System V objects, files
//!    of shared memory, registered paths, objects of groups of ranks, and the job's directory, in this order. Then it removes
//!    the control group and, last, the record: until then a daemon can do the rest.
//!
//! | module | has |
//! |---|---|
//! | `ending` | the machine, and the way of inputs |
//! | `killing` | signals, and the kill |
//! | `cleaning` | searches for users of files, and the clean-up |
//! | `errand` | steps that follow each other, with questions between them |
//! | `still` | the processes that are kept still |
//! | `shm`, `named` | which files of `/dev/shm` are the job's |
//! | `noted` | what was noted about the job |
//! | `input`, `output` | what the owner reports and answers, and what it performs |
//! | `signals`, `signal_target` | the kinds of signals, and the processes that get them |
//! | `text` | processes in messages, and lines of the log |
#![forbid(unsafe_code)]

mod cleaning;
mod ending;
mod errand;
#[cfg(test)]
mod fixture;
mod input;
mod killing;
mod named;
mod noted;
mod output;
mod shm;
mod signal_target;
mod signals;
mod still;
#[cfg(test)]
mod tests;
mod text;

pub use ending::{Beginning, Ending};
pub use input::{Answer, Completeness, Input, Killing};
pub use output::{Action, FileKind, Output, Question};

pub use mpd_wire::Pid;
pub use shm::{ShmFile, Sorted, User, named_files, sort};
pub use signal_target::SignalTarget;
pub use text::{Level, Line, names_of};

use std::time::Duration;

/// How long a signal waits until everything is stopped and noted. A kill waits this long for the stop, and again for the notes.
pub const PATIENCE: Duration = Duration::from_millis(250);

/// How long the end of a job waits for the helper. Files whose users are unknown then stay.
pub const HELPER_PATIENCE: Duration = Duration::from_secs(2);

/// How long processes that refuse the kill may take to end. A control group may kill them, and `sudo` ends after
/// its child.
pub const IMMUNE_PATIENCE: Duration = Duration::from_secs(1);

/// How long a stop of everything waits. After that, a process in an uninterruptible system call is ignored.
pub const STOP_PATIENCE: Duration = Duration::from_secs(1);
