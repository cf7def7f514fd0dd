//! The console's side of slots: questions and orders to the daemon of this host, and its answers.

use std::time::Duration;

use mpd_alloc::data::{AllocId, AllocNews, Part};
use mpd_alloc::exchange::{self, Ask, Reply};
use mpd_wire::message::{ConsoleReply, RingRequest};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::process::signals;
use crate::ring::console::{Console, ConsoleError};
use crate::ring::rundir::RunDir;

pub use mpd_alloc::variables::{LIST_VARIABLE, LOCAL_VARIABLE, USED_VARIABLE};

/// The longest time for an answer that another daemon gives.
const RING_PATIENCE: Duration = Duration::from_secs(15);

/// The environment variable with the allocation of a command. It only names the allocation: the daemon decides whether
/// this user may use it.
pub const VARIABLE: &str = "MPD_ALLOC";

/// The environment variable with the process that holds the slots.
pub const OWNER_VARIABLE: &str = "MPD_ALLOC_PID";

/// The environment variable with the string about a whole request, for schedulers.
pub const GLOBAL_VARIABLE: &str = "MPD_ALLOC_GLOBAL";

/// Lets the kernel kill this process when its parent dies, if the slots belong to the parent: without it they are free.
pub fn end_with_owner() {
    let owner = std::env::var(OWNER_VARIABLE).ok().and_then(|owner| owner.parse().ok());
    if let Some(owner) = owner.map(Pid::from_raw).filter(|owner| *owner == Pid::parent()) {
        end_with(owner, Signal::SIGKILL);
    }
}

/// Lets the kernel send this process a signal when its parent `owner` dies, also after an exec.
pub fn end_with(owner: Pid, signal: Signal) {
    let is_set = set_pdeathsig(signal).is_ok();
    if is_set && Pid::parent() != owner {
        // It died before.
        let _ = signals::send(Pid::this(), signal as i32);
    }
}

/// Connects to the daemon of `rundir` and asks.
///
/// # Errors
/// [`ConsoleError`].
pub fn ask(rundir: &RunDir, ask: &Ask) -> Result<Console, ConsoleError> {
    Console::ask(rundir, request(ask))
}

/// The request with this content.
pub fn request(ask: &Ask) -> RingRequest {
    RingRequest::Slots(exchange::encode(ask))
}

/// The next answer. Waits at most `patience`; if that is `None`, without a limit.
///
/// # Errors
/// [`ConsoleError`].
pub fn answer(console: &mut Console, patience: Option<Duration>) -> Result<Reply, ConsoleError> {
    match console.answer(patience)? {
        ConsoleReply::Slots(payload) => exchange::decode(&payload).map_err(|_| ConsoleError::Unfit),
        _ => Err(ConsoleError::Unfit),
    }
}

/// The slots of an allocation of this user, by the daemon of `rundir`.
///
/// # Errors
/// [`ConsoleError`].
pub fn granted(rundir: &RunDir, alloc: &str) -> Result<(AllocId, Vec<Part>), ConsoleError> {
    let mut console = ask(rundir, &Ask::Granted { alloc: alloc.to_owned() })?;
    match answer(&mut console, Some(RING_PATIENCE))? {
        Reply::News(AllocNews::Granted { id, parts }) => Ok((id, parts)),
        _ => Err(ConsoleError::Unfit),
    }
}
