//! The means to drive the state machines of the suite: time, timers, and the pump.
//!
//! **Purpose.** A *machine* holds decisions. Its owner calls `handle(now, input)` or `handle_timeout(now)`, takes
//! `poll_output()` until it is `None` before the next call, and sleeps no longer than `poll_timeout()`. A
//! [`Pump`] keeps this order for an owner that receives inputs while it performs outputs. The event loops of
//! the programs, the simulators and the tests drive the same machines in this way.
//!
//! **Users.** Every pure crate with a machine in it, and the programs that own one.
//!
//! **Must not know.** Clocks, descriptors, messages, jobs, the ring. The caller passes the time as a value.
//!
//! | item | subject |
//! |---|---|
//! | [`Time`] | a point in time, counted from an epoch that the owner chose |
//! | [`Agenda`] | the errands of a machine that asks questions |
//! | [`Timers`] | at most one deadline for each key |
//! | [`Pump`], [`Machine`] | a machine, and its queue of inputs |
//! | [`Observer`], [`Step`] | sees every step of a pump |
//! | [`state`] | the state of a machine as text for a console |
//! | [`Stagger`] | connection attempts to the addresses of one peer |
#![forbid(unsafe_code)]

mod agenda;
mod pump;
mod stagger;
pub mod state;
mod time;
mod timers;

pub use agenda::Agenda;
pub use pump::{Machine, Observer, Pump, Step, UNDRAINED};
pub use stagger::Stagger;
pub use time::Time;
pub use timers::Timers;
