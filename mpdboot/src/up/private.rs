//! `mpdboot --private`, for an mpirun that needs a ring for its job.
//!
//! Standard input has the two lines of the ring's key, which is in no file, then lines of a host
//! file, and an empty line. If standard input ends before the ring is complete, mpirun has ended.
//! When all hosts are in the ring, a line on standard output reports it: [`UP`]. If any host fails,
//! that line is missing. Started daemons leave when mpirun ends its private daemon.

use std::io::{Write as _, stdin, stdout};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mpd_boot::drive::Driver;
use mpd_channel::KeyText;
use mpd_io::ring::rundir::RunDir;
use mpd_placement::hosts::{HostEntry, MAX_FILE, parse_file};
use nix::errno::Errno;
use nix::unistd::read;

use super::end::StepEnd;
use super::ring;
use crate::cli::EXIT_PARTIAL;
use crate::report::{Fate, Row};

/// Reports that all hosts are in the ring.
const UP: &str = "up\n";

/// Time for agents to detect that their daemons have left.
const GRACE: Duration = Duration::from_secs(3);

/// Number of lines of the key.
const KEY_LINES: usize = 2;

/// The request of mpirun.
#[derive(Debug)]
pub(super) struct PrivateBoot {
    pub(super) key: KeyText,
    pub(super) hosts: Vec<HostEntry>,
}

/// Reads standard input up to the empty line.
pub(super) fn read_request() -> Result<PrivateBoot> {
    const MAX: usize = MAX_FILE + 4096;
    let failed = "--private is for mpirun: it needs a key and hosts on standard input";
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
    Ok(PrivateBoot { key, hosts: parse_file(&hosts).context("the hosts for the job")? })
}

/// Reports to mpirun if the ring is complete and this host's daemon lists all members. The remote
/// shells stay until mpirun ends. Ending them earlier would slow the start of the job, and some
/// hosts kill the processes of a login when it ends.
pub(super) fn deliver(
    driver: Driver<'_>,
    waits_for_end: bool,
    rundir: &RunDir,
    rows: &mut [Row],
    patience: Duration,
) -> Result<StepEnd> {
    ring::verify(rundir, rows, patience)?;
    if is_whole(rows) {
        let mut out = stdout().lock();
        out.write_all(UP.as_bytes())
            .and_then(|()| out.flush())
            .context("cannot report to mpirun")?;
        let kept = driver.into_kept();
        let mut buffer = [0; 64];
        while matches!(read(stdin().as_fd(), &mut buffer), Ok(1..) | Err(Errno::EINTR)) {}
        // Dropping a child kills it.
        let deadline = Instant::now() + GRACE;
        if waits_for_end {
            kept.into_iter().for_each(|child| child.wait(deadline));
        }
    }
    Ok(StepEnd::Done)
}

fn is_whole(rows: &[Row]) -> bool {
    rows.iter().all(|row| row.fate == Fate::InRing)
}

pub(super) fn exit_code(rows: &[Row], end: &StepEnd) -> ExitCode {
    match end {
        StepEnd::Signal(signal) => ExitCode::from(128 + u8::try_from(*signal).unwrap_or(0)),
        StepEnd::Done | StepEnd::Failed if is_whole(rows) => ExitCode::SUCCESS,
        StepEnd::Done | StepEnd::Failed => ExitCode::from(EXIT_PARTIAL),
    }
}
