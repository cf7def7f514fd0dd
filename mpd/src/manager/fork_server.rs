//! `mpdfork`, the fork server of a daemon: each manager in waiting is a copy of it.
//!
//! The start of a program takes many times as long as a copy of a running one. The C library asks for the features of the
//! processor then, which is slow on virtual machines. The fork server was started once. It has no job, and no secret
//! of the ring or of a job was ever in its memory. For each request it makes a copy that is a child of the daemon.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use log::LevelFilter;
use mpd_io::passing::{self, Passed};
use mpd_io::{Copied, adopt_inherited, copy_beside, priority};

use super::begin;
use super::means::Prepared;

/// Serves the daemon on descriptor 3 until that closes the connection. Each request is a byte with a connection for a
/// manager. The answer is the manager's process, or a negated errno, as four bytes in the order of this machine.
/// In a copy, this is a manager.
pub(crate) fn run(level: LevelFilter) -> Result<ExitCode> {
    let prepared = Prepared::new(level)?;
    mpd_channel::prepare();
    priority::of_a_server();
    let daemon = adopt_inherited(3).context("a fork server is started by its daemon only")?;
    let mut daemon = UnixStream::from(daemon);
    loop {
        let connection = match passing::wait(&daemon).context("cannot read requests")? {
            Passed::Message(_, Some(connection)) => connection,
            Passed::Message(_, None) | Passed::Nothing => continue,
            Passed::Closed => return Ok(ExitCode::SUCCESS),
        };
        let answer = match copy_beside() {
            Ok(Copied::Copy) => {
                drop(daemon);
                return begin::run_copy(connection, prepared);
            }
            Ok(Copied::Original(copy)) => copy.as_raw(),
            Err(error) => -error.raw_os_error().unwrap_or(libc::EAGAIN),
        };
        // The end of the manager closes its connection only if no one else has it.
        drop(connection);
        if daemon.write_all(&answer.to_ne_bytes()).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}
