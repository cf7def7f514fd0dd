//! System calls: what in the suite opens, reads, writes, waits, signals or spawns.
//!
//! Nothing here decides. Owners in the programs translate readiness and bytes into inputs of the pure machines of the
//! other crates, and perform their outputs with the functions of this crate. Rules for every owner:
//!
//! - One descriptor, one owner, closed by drop. All are close-on-exec.
//! - mio is edge-triggered: an owner reads until `WouldBlock`, or remembers that more may be there.
//! - `O_NONBLOCK` is never set on an inherited 0, 1 or 2: other processes share the flag.
//! - All `unsafe` of the daemons and consoles is in `raw.rs` and `raw/`, except for the symbols that debuggers find in `mpirun`.
//!
//! | folder | subject |
//! |---|---|
//! | [`process`] | processes: started, found, watched, signalled, and what the kernel says about them |
//! | [`host`] | this host: CPUs, GPUs, names, random bits, and calls for which memory is scarce |
//! | [`network`] | sockets: connections of frames, links of the ring, passed descriptors |
//! | [`files`] | standard streams without blocking, key files, logs, files of users |
//! | [`parallel`] | work that waits, for many items at a time |
//! | [`ring`] | the way to the daemon: run directories, sockets, consoles |
//! | [`clean_up`] | what a job may leave, and its removal |
//! | [`terminal`] | the own terminal, and pseudo-terminals for programs |

pub mod clean_up;
pub mod clock;
pub mod files;
pub mod host;
pub mod network;
pub mod parallel;
pub mod process;
pub mod ring;
pub mod terminal;
pub mod wait;

#[expect(unsafe_code, reason = "the one place for it; each block says why it is sound")]
mod raw;

pub use raw::{
    Copied, adopt_inherited, begin, close_inherited, close_standard_at_exec, closed_at_start,
    copy_beside, default_signal, ignore_signal, part_large_blocks, place_for_exec, prepare_memory,
    remove_variables, trim_memory, with_enough_stack,
};
