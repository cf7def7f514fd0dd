//! `mpirun -d`: the terminal's part of the parallel debugger. What is decided is decided by
//! [`mpd_debug::front::Front`]; here are the options, the user's terminal or files, and the pipes on which the
//! job's lines come, instead of our own output. `survey` does without a user.

mod desk;
mod editor;
mod lines;
mod pipes;
mod plain;
mod survey;
mod terminal;
mod wish;

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use anyhow::Result;
use mio::{Interest, Registry, Token};
use mpd_debug::numbers::Numbers;
use mpd_io::input::Input as Stream;
use mpd_io::watch::watch;
use mpd_machine::Time;
use mpd_wire::RankSet;
use mpd_wire::message::JobInput;

use desk::Desk;
use survey::Asking;
pub use wish::{Form, Wish};
pub(crate) use wish::{attached, is_own};

/// What the program is called where it is the debugger.
pub(crate) const NAME: &str = "mpigdb";

/// What it stands for.
pub(crate) const MEANS: [&str; 1] = ["-d"];

/// What the session is to do.
#[derive(Debug)]
pub(crate) enum Order {
    /// Tell the manager.
    Send(JobInput),
    /// End the job at once.
    Kill,
}

/// What a session owns beside its connection if its job's ranks are debuggers.
pub(crate) trait Beside {
    /// Something has happened to a descriptor.
    fn wake(&mut self, token: Token);

    /// Does what can be done now.
    fn turn(&mut self, now: Time);

    /// How long there is nothing to do: until a time, or until so long from now.
    fn wait(&self) -> (Option<Time>, Option<Duration>);

    /// ^C; whether that is all that is to come of it.
    fn interrupt(&mut self, now: Time) -> bool;

    /// ^Z: stops this process alone, and comes back when it goes on.
    fn stop(&mut self);

    /// The programs can be started again.
    fn restarted(&mut self, now: Time);

    /// A line of ours for the user.
    fn note(&mut self, text: &str);

    /// What the session is to do next.
    fn next_order(&mut self) -> Option<Order>;

    /// The job is over: shows what is left of its words. Our exit code, if the job's own means nothing.
    fn close(&mut self, now: Time) -> Option<u8>;
}

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

fn register(registry: &Registry, stream: &Stream, token: Token) -> io::Result<()> {
    if stream.is_always_ready() {
        return Ok(());
    }
    watch(registry, stream.as_raw_fd(), token, Interest::READABLE)
}

/// One rank or several, in words.
fn named(ranks: &RankSet) -> String {
    let plural = if ranks.count() == 1 { "" } else { "s" };
    format!("rank{plural} {ranks}")
}
