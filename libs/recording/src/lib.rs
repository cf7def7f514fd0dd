//! Recordings of the inputs of a machine, and their replay.
//!
//! **Purpose.** A recording has everything that a machine needs to decide once more as it did: the
//! configuration, each input with its time, and a digest of the outputs. A replay gives the same
//! inputs to the same machine, shows the outputs, and reports the first step whose outputs differ.
//! A developer can so repeat a bug of a live daemon or manager.
//!
//! **Users.** The daemon and the manager write recordings through [`Recorder`], an observer of
//! their pumps. `mpd --replay` reads them. The simulators check that replays agree.
//!
//! **Must not know.** Which machines exist: each machine implements [`Recorded`]. Files and clocks:
//! the owner gives a [`Sink`].
//!
//! A recording has no secrets. [`Recorded::entry`] leaves out keys and everything that the machine
//! does not read itself, such as the orders of daemons with the environments of programs.
//!
//! | module | subject |
//! |---|---|
//! | `format` | the lines of a recording |
//! | `write` | [`Recorder`]: writes a recording while the machine runs |
//! | `read` | [`Lines`]: reads a file of any content |
//! | `replay` | [`replay`]: runs the machine with the recorded inputs |
#![forbid(unsafe_code)]

mod format;
mod read;
mod replay;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;

use mpd_sansio::{Machine, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use format::{FORMAT, Header, MAX_LINE, MAX_RECORDING, Origin};
pub use read::{InvalidRecording, Lines};
pub use replay::{End, Options, Replayed, replay};
pub use write::{Recorder, Sink};

/// A machine whose inputs can be recorded.
pub trait Recorded: Machine<Input: fmt::Debug, Output: fmt::Debug> + fmt::Debug + Sized {
    /// The name of the machine in the header of a recording.
    const NAME: &'static str;
    /// The configuration from which the machine is made.
    type Start: Serialize + DeserializeOwned;
    /// An input without secrets.
    type Entry: Serialize + DeserializeOwned;

    /// The machine that a recording begins with.
    ///
    /// # Errors
    /// The reason why no machine can have this configuration.
    fn begin(now: Time, start: Self::Start) -> Result<Self, String>;

    /// The recorded form of an input that the machine is about to take.
    fn entry(&self, input: &Self::Input) -> Self::Entry;

    /// The input of an entry. The machine decides with it as with the recorded input.
    fn input(entry: Self::Entry) -> Self::Input;

    /// The time at which [`Machine::handle_timeout`] is due.
    fn next_timeout(&self) -> Option<Time>;

    /// Writes an output as text, for the digest and for people. The text must have no secrets, and
    /// nothing that [`Recorded::entry`] leaves out.
    ///
    /// # Errors
    /// Those of the writer.
    fn write_output(output: &Self::Output, to: &mut impl fmt::Write) -> fmt::Result {
        write!(to, "{output:?}")
    }
}
