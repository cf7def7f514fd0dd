//! `mpdboot --private`, for an mpirun that wants a ring for its job alone.
//!
//! Its standard input has the two lines of the ring's key, which is in no file, then those of a host file,
//! and an empty one. If it ends before the ring is there, nobody waits any more. When all hosts are in the
//! ring, a line on standard output says so: [`UP`]. If one cannot be had there is none; what was started
//! leaves by itself when mpirun ends its private daemon.

use std::io::{Write as _, stdin, stdout};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mpd_channel::KeyText;
use mpd_io::rundir::RunDir;
use mpd_placement::hosts::{HostEntry, MAX_FILE, parse_file};
use nix::errno::Errno;
use nix::unistd::read;

use super::end::End;
use super::ring;
use crate::cli::EXIT_PARTIAL;
use crate::drive::Driver;
use crate::report::{Fate, Row};

/// All are in the ring.
const UP: &str = "up\n";

/// How long agents may take to see that their daemons have left.
const GRACE: Duration = Duration::from_secs(3);

/// Lines of the key.
const KEY_LINES: usize = 2;

/// What mpirun wants.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) key: KeyText,
    pub(super) hosts: Vec<HostEntry>,
}

/// Reads standard input up to the empty line.
pub(super) fn order() -> Result<Wanted> {
    const MAX: usize = MAX_FILE + 4096;
    let failed = "--private is for mpirun: a key and hosts are wanted on standard input";
    let mut text = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while !text.ends_with(b"\n\n") {
        match read(stdin().as_fd(), &mut buffer) {
            Ok(n) if n > 0 && text.len() < MAX => text.extend_from_slice(&buffer[..n]),
            Err(Errno::EINTR) => {}
            Ok(_) | Err(_) => bail!(failed),
        }
    }
    let mut ends = (1..).zip(&text).filter(|&(_, &byte)| byte == b'\n').map(|(end, _)| end);
    let hosts = text.split_off(ends.nth(KEY_LINES - 1).context(failed)?);
    let key = KeyText::parse(text).context(failed)?;
    Ok(Wanted { key, hosts: parse_file(&hosts).context("the hosts for the job")? })
}

/// Tells mpirun if all are there and known here. The remote shells stay until mpirun has no more use for
/// the ring: their ends would cost the hosts the time in which the job begins, and some hosts kill what is
/// left of a login.
pub(super) fn deliver(
    driver: Driver<'_>,
    waits_for_end: bool,
    rundir: &RunDir,
    rows: &mut [Row],
    patience: Duration,
) -> Result<End> {
    ring::verify(rundir, rows, patience)?;
    if is_whole(rows) {
        let mut out = stdout().lock();
        out.write_all(UP.as_bytes()).and_then(|()| out.flush()).context("cannot tell mpirun")?;
        let kept = driver.into_kept();
        let mut buffer = [0; 64];
        while matches!(read(stdin().as_fd(), &mut buffer), Ok(1..) | Err(Errno::EINTR)) {}
        // Dropping kills.
        let deadline = Instant::now() + GRACE;
        if waits_for_end {
            kept.into_iter().for_each(|child| child.wait(deadline));
        }
    }
    Ok(End::Done)
}

fn is_whole(rows: &[Row]) -> bool {
    rows.iter().all(|row| row.fate == Fate::InRing)
}

pub(super) fn exit_code(rows: &[Row], end: &End) -> ExitCode {
    match end {
        End::Signal(signal) => ExitCode::from(128 + u8::try_from(*signal).unwrap_or(0)),
        End::Done | End::Failed if is_whole(rows) => ExitCode::SUCCESS,
        End::Done | End::Failed => ExitCode::from(EXIT_PARTIAL),
    }
}
