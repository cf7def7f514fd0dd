//! The resources of a manager before it knows its job.

use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};
use mpd_io::clock::Clock;
use mpd_io::signals::Signals;
use mpd_job::joblink::Timing;
use mpd_wire::message::StartJob;
use nix::unistd::Pid;

use super::links::{Branches, Config, News};
use super::tokens::{DAEMON, FIRST_LINK, SIGNALS};
use super::upstream::{Daemon, Trace};
use crate::notes::Notes;

/// The resources of a manager before it knows its job.
pub(super) struct Means {
    pub(super) poll: Poll,
    pub(super) clock: Clock,
    pub(super) signals: Signals,
    pub(super) branches: Branches,
    pub(super) daemon: Daemon,
    /// News of the parent that arrived before the specification.
    pub(super) early: Vec<News>,
    pub(super) trace: Trace,
    /// The process of the daemon that started this one.
    pub(super) parent: Pid,
    /// How readily the kernel kills this process for lack of memory, if that is known.
    pub(super) readiness: Option<i16>,
    pub(super) notes: Notes,
}

impl Means {
    pub(super) fn new(
        daemon: Daemon,
        order: &StartJob,
        (began, parent, readiness): (u64, Pid, Option<i16>),
        notes: Notes,
    ) -> Result<Self> {
        let caught = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
        let signals = Signals::catch(&caught).context("cannot catch signals")?;
        let poll = Poll::new().context("cannot make an event queue")?;
        let branches = Branches::new(Config {
            key: order.key.clone(),
            host_slices: order.host_slices.clone(),
            tree_index: order.tree_index as usize,
            timing: Timing::default().faster(crate::scale::divisor()?),
            first_token: FIRST_LINK,
        })?;
        let readable = Interest::READABLE;
        let fd = signals.as_raw_fd();
        poll.registry().register(&mut SourceFd(&fd), Token(SIGNALS), readable)?;
        if let Some(fd) = daemon.descriptor() {
            let both = readable | Interest::WRITABLE;
            poll.registry().register(&mut SourceFd(&fd), Token(DAEMON), both)?;
        }
        let clock = Clock::start();
        let trace = Trace::start(began, clock.now());
        let early = Vec::new();
        Ok(Self { poll, clock, signals, branches, daemon, early, trace, parent, readiness, notes })
    }
}
