//! `mpirun -d`: the terminal part of the parallel debugger. [`mpd_debug::prompt::Prompt`] makes the
//! decisions. This module has the options, the user's terminal or files, and the pipes with the
//! job's output. `survey` handles `-stacks`, which needs no user.

mod beside;
mod debug_console;
mod editor;
mod lines;
mod options;
mod pipes;
mod plain;
mod survey;
mod terminal;

use std::os::fd::OwnedFd;

use anyhow::Result;
use mio::Registry;
use mpd_debug::numbers::Numbers;
use mpd_sansio::Time;

pub(crate) use beside::{Beside, NAME, SessionAction};
use debug_console::DebugConsole;
pub use options::{DebugOptions, Form};
pub(crate) use options::{attached, is_own};
use survey::Asking;

/// The options that `mpigdb` stands for.
pub(crate) const MEANS: [&str; 1] = ["-d"];

/// The part that serves a job of debuggers. Its ranks have these labels and write to `pipes`.
///
/// # Errors
/// A file of commands or the terminal cannot be used.
pub(crate) fn beside(
    options: &DebugOptions,
    named: (Numbers, Time),
    pipes: [OwnedFd; 2],
    registry: &Registry,
) -> Result<Box<dyn Beside>> {
    Ok(match options.stacks {
        Some(form) => Box::new(Asking::new(form, named, pipes, registry)?),
        None => Box::new(DebugConsole::new(options, named.0, pipes, registry)?),
    })
}
