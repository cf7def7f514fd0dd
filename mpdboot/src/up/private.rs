//! `mpdboot --private`, for an mpirun that wants a ring for its job alone.
//!
//! Its standard input has the two lines of the ring's key, which is in no file, then lines of a host file.
//! When all hosts are in the ring, it says [`UP`] on standard output. If one cannot be had it does not, and
//! exits; what was started leaves by itself when mpirun ends its private daemon.

use std::io::{Read as _, Write as _};

use anyhow::{Context as _, Result};
use mpd_io::keyfile;
use mpd_proto::channel::KeyText;
use mpd_proto::hosts::{HostEntry, MAX_FILE, parse_file};

/// All are in the ring.
const UP: &str = "up\n";

/// Lines of the key.
const KEY_LINES: usize = 2;

/// What mpirun wants.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) key: KeyText,
    pub(super) hosts: Vec<HostEntry>,
}

/// Reads standard input.
pub(super) fn read() -> Result<Wanted> {
    const MAX: u64 = MAX_FILE as u64 + keyfile::MAX_SIZE;
    let failed = "--private is for mpirun: a key and hosts are wanted on standard input";
    let mut text = Vec::new();
    std::io::stdin().take(MAX).read_to_end(&mut text).context(failed)?;
    let mut ends = (1..).zip(&text).filter(|&(_, &byte)| byte == b'\n').map(|(end, _)| end);
    let hosts = text.split_off(ends.nth(KEY_LINES - 1).context(failed)?);
    let key = KeyText::parse(text).context(failed)?;
    Ok(Wanted { key, hosts: parse_file(&hosts).context("the hosts for the job")? })
}

/// Says that the ring is there.
pub(super) fn say_up() -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(UP.as_bytes()).and_then(|()| out.flush()).context("cannot tell mpirun")
}
