//! The resources of a manager before it knows its job.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use anyhow::{Context, Result};
use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};
use mpd_io::cgroup::Cgroup;
use mpd_io::clock::Clock;
use mpd_io::signals::Signals;
use mpd_job::joblink::Timing;
use mpd_wire::message::StartJob;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::links::{Branches, Config, News};
use super::tokens::{FIRST_LINK, SIGNALS};
use super::upstream::{Daemon, Trace};
use crate::notes::Notes;

/// The resources of a manager that do not depend on its job. One in waiting has them before there is a job.
pub(super) struct Beforehand {
    poll: Poll,
    /// `/dev/null`, for reading.
    null: OwnedFd,
    /// For PMIx clients. Without one, a later attempt reports the reason.
    listener: Option<TcpListener>,
    /// The process of the daemon that started this one.
    parent: Pid,
    /// How readily the kernel kills this process for lack of memory, if that is known.
    readiness: Option<i16>,
}

impl Beforehand {
    pub(super) fn new(parent: Pid, readiness: Option<i16>) -> Result<Self> {
        // The output of a rank may go there too.
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.context("cannot open /dev/null")?.into();
        let poll = Poll::new().context("cannot make an event queue")?;
        let listener = mpd_io::tcp::listen(Some(Ipv4Addr::LOCALHOST.into()), 0).ok();
        // Both are read once.
        let _ = (crate::limits::own(0), mpd_io::signals::not_default());
        Ok(Self { poll, null, listener, parent, readiness })
    }
}

/// The resources of a manager before it has the specification of its job.
pub(super) struct Means {
    pub(super) poll: Poll,
    pub(super) null: OwnedFd,
    pub(super) listener: Option<TcpListener>,
    pub(super) clock: Clock,
    pub(super) signals: Signals,
    pub(super) branches: Branches,
    pub(super) daemon: Daemon,
    /// News of the parent that arrived before the specification.
    pub(super) early: Vec<News>,
    pub(super) trace: Trace,
    pub(super) parent: Pid,
    pub(super) readiness: Option<i16>,
    pub(super) notes: Notes,
    pub(super) cgroup: Option<Rc<Cgroup>>,
}

impl Means {
    pub(super) fn new(
        daemon: Daemon,
        order: &StartJob,
        (began, beforehand): (u64, Beforehand),
        (notes, cgroup): (Notes, Option<Cgroup>),
    ) -> Result<Self> {
        let Beforehand { poll, null, listener, parent, readiness } = beforehand;
        // A manager in waiting ends at these signals.
        let caught = [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
        let signals = Signals::block(&caught).context("cannot catch signals")?;
        let branches = Branches::new(Config {
            key: order.key.clone(),
            host_slices: order.host_slices.clone(),
            tree_index: order.tree_index as usize,
            timing: Timing::default().faster(crate::scale::divisor()?),
            first_token: FIRST_LINK,
        })?;
        let fd = signals.as_raw_fd();
        poll.registry().register(&mut SourceFd(&fd), Token(SIGNALS), Interest::READABLE)?;
        daemon.watch(poll.registry())?;
        let clock = Clock::start();
        let trace = Trace::start(began, clock.now());
        let early = Vec::new();
        let cgroup = cgroup.map(Rc::new);
        Ok(Self {
            poll,
            null,
            listener,
            clock,
            signals,
            branches,
            daemon,
            early,
            trace,
            parent,
            readiness,
            notes,
            cgroup,
        })
    }
}
