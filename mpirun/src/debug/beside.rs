//! What the session has beside its connection if the job's ranks are debuggers.

use std::io;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use mio::{Interest, Registry, Token};
use mpd_io::input::Input as Stream;
use mpd_io::watch::watch;
use mpd_machine::Time;
use mpd_wire::RankSet;
use mpd_wire::message::JobInput;

/// What the program is called where it is the debugger.
pub(crate) const NAME: &str = "mpigdb";

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

    /// ^C.
    fn interrupt(&mut self, now: Time);

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

/// Watches a stream, if it is not always ready.
pub(super) fn register(registry: &Registry, stream: &Stream, token: Token) -> io::Result<()> {
    if stream.is_always_ready() {
        return Ok(());
    }
    watch(registry, stream.as_raw_fd(), token, Interest::READABLE)
}

/// One rank or several, in words.
pub(super) fn named(ranks: &RankSet) -> String {
    let plural = if ranks.count() == 1 { "" } else { "s" };
    format!("rank{plural} {ranks}")
}
