//! The manager's connection to the daemon of its host.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use mio::{Registry, Token};
use mpd_channel::hello::HELLO;
use mpd_io::network::conn::{Conn, Filled};
use mpd_io::process::cgroup::Cgroup;
use mpd_io::ring::rundir::RunDir;
use mpd_wire::frame;
use mpd_wire::frame::{InvalidFrame, Kind};
use mpd_wire::hex;
use mpd_wire::job::MAX_SPEC;
use mpd_wire::message::{JobOrder, ManagerOrder, ManagerReport, Opening, StartJob, VERSION};

use crate::manager::tokens::DAEMON;

/// How long the daemon may take to hand over a job it has already read.
const JOB_PATIENCE_MS: u16 = 30_000;

#[derive(Debug)]
pub(crate) enum DaemonMessage {
    /// An order that needs no descriptor.
    Order(ManagerOrder),
    /// The connection of a manager of this job, and its hello.
    Link(OwnedFd, Vec<u8>),
}

/// A job from the daemon.
#[derive(Debug)]
pub(crate) struct HandOver {
    pub(crate) order: StartJob,
    /// For the root: the encoded specification.
    pub(crate) encoded: Vec<u8>,
    /// The record of the job, which is locked.
    pub(crate) record: OwnedFd,
    /// The control group of the job, if it has one.
    pub(crate) cgroup: Option<Cgroup>,
    /// For the root.
    pub(crate) passed: Option<Passed>,
    /// Whether this process existed before the job.
    pub(crate) has_waited: bool,
}

/// The descriptors of a root manager.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) console: OwnedFd,
    pub(crate) outputs: [OwnedFd; 2],
    /// The PMI connection and the pidfd of the process that becomes the job's one rank.
    pub(crate) adopted: Option<[OwnedFd; 2]>,
}

/// The connection to the daemon.
#[derive(Debug)]
pub(crate) struct Daemon {
    conn: Option<Conn>,
    pub(crate) ready: bool,
    /// The daemon has refused this manager.
    pub(crate) refused: bool,
}

impl Daemon {
    pub(crate) fn new(connection: OwnedFd) -> Self {
        let conn = Conn::new(UnixStream::from(connection));
        Self { conn: Some(conn), ready: true, refused: false }
    }

    /// Blocks until there is a job, without a limit. `None`: the daemon has closed the connection before. The manager
    /// has no other work.
    pub(crate) fn receive_job(&mut self) -> Result<Option<HandOver>> {
        let conn = self.conn.as_mut().context("no daemon")?;
        let mut filled = conn.fill()?;
        let has_waited = filled == Filled::Empty && !conn.is_partial();
        if has_waited {
            filled = conn.wait_without_limit()?;
        }
        let mut handed: Option<HandOver> = None;
        loop {
            match (conn.next_frame()?, &mut handed) {
                (Some((Kind::Control, payload)), None) => {
                    let order = match frame::decode_message(payload)? {
                        ManagerOrder::Start(start) => *start,
                        ManagerOrder::Kill | ManagerOrder::Job(JobOrder::Kill) => {
                            bail!("killed before the start")
                        }
                        _ => bail!("an unexpected order"),
                    };
                    handed = Some(HandOver::begin(conn, order, has_waited)?);
                }
                (Some((Kind::Spec, payload)), Some(handed)) => {
                    handed.encoded.extend_from_slice(payload);
                }
                (Some(_), _) => bail!("an unexpected frame"),
                (None, None) if filled == Filled::Closed => return Ok(None),
                (None, _) if filled == Filled::Closed => bail!("the daemon closed the connection"),
                (None, _) => filled = conn.wait(JOB_PATIENCE_MS)?.context("no data in time")?,
            }
            if handed.as_ref().map(HandOver::is_whole).transpose()?.unwrap_or_default() {
                return Ok(handed);
            }
        }
    }

    pub(crate) const fn is_connected(&self) -> bool {
        self.conn.is_some()
    }

    /// Has the queue report the daemon's messages.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn watch(&self, registry: &Registry) -> std::io::Result<()> {
        self.conn.as_ref().map_or(Ok(()), |conn| conn.watch(registry, Token(DAEMON)))
    }

    /// Reads the waiting messages; `false` if the daemon is gone.
    pub(crate) fn receive(&mut self) -> (Vec<DaemonMessage>, bool) {
        let mut messages = Vec::new();
        self.ready = false;
        // Data that arrived with the job may contain links. They are taken before more is read.
        self.take_orders(&mut messages);
        let Some(conn) = &mut self.conn else { return (messages, true) };
        let filled = conn.fill();
        self.take_orders(&mut messages);
        match filled {
            Ok(Filled::Empty) => {}
            Ok(Filled::More) => self.ready = true,
            Ok(Filled::Closed) => self.conn = None,
            Err(e) => {
                log::warn!("cannot read from the daemon: {e}");
                self.conn = None;
            }
        }
        (messages, self.conn.is_some())
    }

    fn take_orders(&mut self, messages: &mut Vec<DaemonMessage>) {
        while let Some(conn) = &mut self.conn {
            match conn.next_frame() {
                Ok(Some((Kind::Control, payload))) => match frame::decode_message(payload) {
                    Ok(ManagerOrder::Refused { problem }) => {
                        log::warn!("the daemon refuses this manager: {problem}");
                        self.refused = true;
                    }
                    Ok(order) => messages.extend(message_of(order, conn)),
                    Err(InvalidFrame::Unknown(kind)) => conn.skip(&kind),
                    Err(e) => self.drop_daemon(&e),
                },
                Ok(Some((Kind::Unknown(code), _))) => conn.skip_frame(code),
                Ok(Some((Kind::Spec | Kind::Stdin, _))) => conn.skip("bulk data"),
                Ok(None) => return,
                Err(e) => self.drop_daemon(&e),
            }
        }
    }

    /// Closes the connection to a daemon that broke the protocol. The manager registers again.
    fn drop_daemon(&mut self, problem: &InvalidFrame) {
        log::warn!("the daemon broke the protocol: {problem}");
        self.conn = None;
    }

    pub(crate) const fn has_work(&self) -> bool {
        self.ready
    }

    /// Writes what is queued.
    pub(crate) fn flush(&mut self) {
        if let Some(conn) = &mut self.conn
            && let Err(e) = conn.flush()
        {
            // The daemon then closes its end, which is noticed after its last messages are read.
            log::warn!("cannot write to the daemon: {e}");
            conn.finish();
            self.ready = true;
        }
    }

    /// Has the queue report when the rest can be written.
    pub(crate) fn watch_writing(&mut self, registry: &Registry) {
        let watched = self.conn.as_mut().map(|conn| conn.watch_writing(registry, Token(DAEMON)));
        self.ready |= matches!(watched, Some(Err(_)));
    }

    /// Whether reports are queued for a daemon that is connected.
    pub(crate) fn waits(&self) -> bool {
        self.conn.as_ref().is_some_and(|conn| conn.queued() > 0)
    }

    /// Queues a report.
    pub(crate) fn report(&mut self, report: &ManagerReport) {
        if let Some(conn) = &mut self.conn {
            conn.send(report);
        }
    }

    /// Connects to the daemon of the job's run directory and registers. `false` if no daemon answers.
    pub(crate) fn register(&mut self, registry: &Registry, order: &StartJob) -> bool {
        let Some(rundir) = &order.rundir else { return false };
        let rundir = RunDir::at(PathBuf::from(rundir));
        let Ok(Some(mut conn)) = rundir.connect() else { return false };
        let Some(host_slice) = order.host_slices.get(order.tree_index as usize) else {
            return false;
        };
        conn.send(&Opening::Register {
            version: VERSION,
            job: order.job.clone(),
            cookie: order.cookie.clone(),
            tree_index: order.tree_index,
            manager: host_slice.manager,
            key: order.key.clone(),
        });
        let watched = conn.watch(registry, Token(DAEMON));
        if conn.flush().is_err() || watched.is_err() {
            return false;
        }
        self.conn = Some(conn);
        true
    }
}

impl HandOver {
    /// Takes the descriptors of an order. Those of later messages are behind them.
    fn begin(conn: &mut Conn, order: StartJob, has_waited: bool) -> Result<Self> {
        let mut next = || conn.take_descriptor().context("the daemon passed too few descriptors");
        let record = next()?;
        let path = order.cgroup.as_ref().map(PathBuf::from);
        let cgroup = path.map(|path| Ok::<_, anyhow::Error>(Cgroup::adopt(path, next()?)));
        let cgroup = cgroup.transpose()?;
        let mut passed = None;
        if order.tree_index == 0 {
            let (console, outputs) = (next()?, [next()?, next()?]);
            let adopted = if order.adopts { Some([next()?, next()?]) } else { None };
            passed = Some(Passed { console, outputs, adopted });
        }
        Ok(Self { order, encoded: Vec::new(), record, cgroup, passed, has_waited })
    }

    /// Whether the specification is complete.
    fn is_whole(&self) -> Result<bool> {
        let wanted = self.order.spec_bytes as usize;
        if self.encoded.len() > wanted || wanted > MAX_SPEC {
            bail!("a specification of the wrong size");
        }
        Ok(self.encoded.len() == wanted)
    }
}

fn message_of(order: ManagerOrder, conn: &mut Conn) -> Option<DaemonMessage> {
    let ManagerOrder::Link { hello } = order else { return Some(DaemonMessage::Order(order)) };
    let connection = conn.take_descriptor()?;
    let mut bytes = [0; HELLO];
    hex::decode(&hello, &mut bytes)?;
    Some(DaemonMessage::Link(connection, bytes.to_vec()))
}
