//! `mpirun -d`: the terminal's part of the parallel debugger. What is decided is decided by
//! [`mpd_debug::front::Front`]; here are the options, the user's terminal or files, and the pipes on which the
//! job's lines come, instead of our own output. `survey` does without a user.

mod beside;
mod desk;
mod editor;
mod lines;
mod pipes;
mod plain;
mod survey;
mod terminal;
mod wish;

use std::os::fd::OwnedFd;

use anyhow::Result;
use mio::Registry;
use mpd_debug::numbers::Numbers;
use mpd_machine::Time;

pub(crate) use beside::{Beside, NAME, Order};
use desk::Desk;
use survey::Asking;
pub use wish::{Form, Wish};
pub(crate) use wish::{attached, is_own};

/// What it stands for.
pub(crate) const MEANS: [&str; 1] = ["-d"];

/// What is wanted beside a job whose ranks are called so and speak on `pipes`.
///
/// # Errors
/// A file of commands or the terminal cannot be used.
pub(crate) fn beside(
    wish: &Wish,
    named: (Numbers, Time),
    pipes: [OwnedFd; 2],
    registry: &Registry,
) -> Result<Box<dyn Beside>> {
    Ok(match wish.stacks {
        Some(form) => Box::new(Asking::new(form, named, pipes, registry)?),
        None => Box::new(Desk::new(wish, named.0, pipes, registry)?),
    })
}
