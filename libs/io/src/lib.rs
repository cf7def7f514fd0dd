//! Descriptors: everything in the suite that reads, writes, waits, signals or spawns.
//!
//! Nothing here decides. Owners in the programs translate readiness and bytes into inputs of the pure machines of the
//! other crates, and perform their outputs with the functions of this crate. Rules for every owner:
//!
//! - One descriptor, one owner, closed by drop. All are close-on-exec.
//! - mio is edge-triggered: an owner reads until `WouldBlock`, or remembers that more may be there.
//! - `O_NONBLOCK` is never set on an inherited 0, 1 or 2: other processes share the flag.
//! - All `unsafe` of the daemons and consoles is in `raw.rs`, except for the symbols that debuggers find in `mpirun`.

pub mod addresses;
pub mod alone;
mod caught;
pub mod cgroup;
pub mod clock;
pub mod conn;
pub mod console;
pub mod control;
pub mod cpus;
pub mod digest;
pub mod farend;
pub mod gpus;
pub mod identity;
mod inherited;
pub mod input;
pub mod ipc;
pub mod keyfile;
pub mod leftovers;
pub mod link;
pub mod listed;
pub mod locate;
pub mod logging;
pub mod made;
mod names;
pub mod oom;
pub mod outgoing;
pub mod output;
pub mod ownfile;
pub mod passing;
pub mod pidfd;
pub mod plain_terminal;
pub mod priority;
pub mod private_sockets;
mod procfile;
pub mod progress;
pub mod pty;
pub mod pty_relay;
pub mod random;
pub mod recording;
pub mod registered;
pub mod ringname;
pub mod rings;
pub mod rundir;
pub mod scarce;
pub mod screen;
pub mod search;
pub mod session_share;
pub mod shm;
pub mod siblings;
pub mod signals;
pub mod slots;
mod sockdiag;
pub mod spawn;
mod stat;
pub mod status;
pub mod sweep;
pub mod tcp;
pub mod terminal;
pub mod thishost;
pub mod tracer;
pub mod tree;
pub mod trust;
pub mod unnamed;
pub mod unread;
pub mod usage;
pub mod wait;
pub mod watch;

#[expect(unsafe_code, reason = "the one place for it; each block says why it is sound")]
mod raw;

pub use raw::{
    Copied, adopt_inherited, begin, close_inherited, close_standard_at_exec, closed_at_start,
    copy_beside, default_signal, ignore_signal, part_large_blocks, place_for_exec, prepare_memory,
    remove_variables, trim_memory, with_enough_stack,
};
