//! The interface between the session and the part that serves a job of debuggers.

use std::io;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use mio::{Interest, Registry, Token};
use mpd_io::files::input::Input as Stream;
use mpd_io::network::watch::watch;
use mpd_sansio::Time;
use mpd_wire::RankSet;
use mpd_wire::message::JobInput;

/// Name of the program in the debugger's messages.
pub(crate) const NAME: &str = "mpigdb";

/// A request to the session.
#[derive(Debug)]
pub(crate) enum SessionAction {
    /// Send this to the manager.
    Send(JobInput),
    /// End the job at once.
    Kill,
}

/// The part of the process that serves a job whose ranks are debuggers.
pub(crate) trait Beside {
    /// Handles readiness of a descriptor.
    fn wake(&mut self, token: Token);

    /// Does the pending work.
    fn turn(&mut self, now: Time);

    /// How long there is no work: until a time, or for a duration.
    fn wait(&self) -> (Option<Time>, Option<Duration>);

    /// Handles ^C.
    fn interrupt(&mut self, now: Time);

    /// Handles ^Z: stops only this process, and returns when it is continued.
    fn stop(&mut self);

    /// Handles the report that the programs can be started again.
    fn restarted(&mut self, now: Time);

    /// Shows a line of mpirun to the user.
    fn note(&mut self, text: &str);

    /// The next request to the session.
    fn next_order(&mut self) -> Option<SessionAction>;

    /// Handles the end of the job: shows the remaining output. Returns an exit code that replaces
    /// the job's.
    fn close(&mut self, now: Time) -> Option<u8>;
}

/// Registers a stream with the event queue, unless the stream is always ready.
pub(super) fn register(registry: &Registry, stream: &Stream, token: Token) -> io::Result<()> {
    if stream.is_always_ready() {
        return Ok(());
    }
    watch(registry, stream.as_raw_fd(), token, Interest::READABLE)
}

/// The ranks as text for people, in singular or plural.
pub(super) fn named(ranks: &RankSet) -> String {
    let plural = if ranks.count() == 1 { "" } else { "s" };
    format!("rank{plural} {ranks}")
}
