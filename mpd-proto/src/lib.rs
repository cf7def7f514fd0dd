//! What daemons, managers and consoles say to each other, and how a job behaves: decisions only.
//!
//! Nothing here touches a descriptor, a clock, the environment or a file. Every machine is driven by
//! its owner in the same way: the owner calls `handle(now, input)` or `handle_timeout(now)`, then
//! drains `poll_output()` until it is `None` before the next call, and sleeps no longer than
//! `poll_timeout()`. [`pump`] keeps this order for owners that learn of inputs while they perform outputs. The real event loops and the tests drive the very same types.
//!
//! | module | subject |
//! |---|---|
//! | [`stagger`] | several addresses of one peer, tried one after the other |
//! | [`id`], [`rankset`], [`time`], [`timers`] | the small words: job ids, ranks, sets of ranks, time |
//! | [`debug`] | the debugger of a whole job: its front, between the user and the debuggers of the ranks |
//! | [`channel`] | the authenticated channel between hosts: keys, handshake, sealed frames |
//! | [`debug`] | a rank under a debugger: GDB/MI, and the driver that speaks it |
//! | [`frame`] | bytes to frames on every stream of the suite |
//! | [`message`] | the typed messages, one enum per channel and direction |
//! | [`hosts`] | the host file, and lists of hosts with ranges |
//! | [`job`] | what a job is: its specification, the end of its ranks, its exit code |
//! | [`joblink`] | one end of a link between two managers: classes, bounds, pulses |
//! | [`leftovers`] | which System V objects and files in `/dev/shm` are the job's |
//! | [`manager`] | the life of one job on one host |
//! | [`pump`] | a machine and the inputs that wait for it: what every owner drives its machine with |
//! | [`placement`] | which rank runs on which host, and where spawned processes go |
//! | [`ring`] | one daemon's membership of the ring, scatters and laps |
//! | [`soft`] | the numbers of processes that a program can be run with |
//! | [`stdio`] | whole lines out, bounded bytes in |
#![forbid(unsafe_code)]

mod bounded;
pub mod channel;
pub mod debug;
pub mod frame;
pub mod hex;
pub mod hosts;
pub mod id;
pub mod job;
pub mod joblink;
pub mod leftovers;
pub mod manager;
pub mod message;
pub mod placement;
pub mod pump;
pub mod rankset;
pub mod ring;
pub mod soft;
pub mod stagger;
pub mod stdio;
pub mod time;
pub mod timers;

pub use id::{JobId, Rank};
pub use rankset::RankSet;
pub use time::Time;
