//! The resources of a manager before it knows its job.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use anyhow::{Context, Result};
use log::LevelFilter;
use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};
use mpd_io::clock::{Clock, wall};
use mpd_io::process::cgroup::Cgroup;
use mpd_io::process::oom;
use mpd_io::process::signals::Signals;
use mpd_joblink::Timing;
use mpd_manager::{News, Sign, Trace};
use mpd_wire::message::StartJob;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::Pid;

use super::links::{Branches, Config};
use super::tokens::{FIRST_LINK, SIGNALS};
use super::upstream::Daemon;
use crate::limits;
use crate::notes::Notes;

/// What a process has that is a manager, or of which managers are copies.
pub(super) struct Prepared {
    pub(super) level: LevelFilter,
    /// `/dev/null`, for reading and writing: the output of a rank may go there.
    null: OwnedFd,
    /// The process of the daemon.
    parent: Pid,
    /// How readily the kernel kills this process for lack of memory, if that is known.
    readiness: Option<i16>,
}

impl Prepared {
    /// Prepares this process. Copies of it inherit everything.
    pub(super) fn new(level: LevelFilter) -> Result<Self> {
        limits::raise_descriptor_limit();
        limits::lift_cpu_limit();
        // Our own files get explicit modes. Ranks get the mask of their user.
        umask(Mode::empty());
        let readiness = oom_readiness();
        limits::protect_memory()?;
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.context("cannot open /dev/null")?.into();
        // Both are read once.
        let _ = (limits::own(0), mpd_io::process::signals::not_default());
        Ok(Self { level, null, parent: Pid::parent(), readiness })
    }
}

/// How readily the kernel kills this process for lack of memory, if that is known.
fn oom_readiness() -> Option<i16> {
    let inherited = oom::readiness().ok()?;
    // The setting of root's daemon is only for that daemon.
    let is_reset = inherited < 0 && oom::set_readiness(0).is_ok();
    Some(if is_reset { 0 } else { inherited })
}

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
    pub(super) fn new(prepared: Prepared) -> Result<Self> {
        let Prepared { null, parent, readiness, .. } = prepared;
        let poll = Poll::new().context("cannot make an event queue")?;
        let listener = mpd_io::network::tcp::listen(Some(Ipv4Addr::LOCALHOST.into()), 0).ok();
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
    pub(super) sign: Sign,
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
        let trace = Trace::start(began, wall(), clock.now());
        let sign = Sign::new(clock.now());
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
            sign,
            parent,
            readiness,
            notes,
            cgroup,
        })
    }
}
