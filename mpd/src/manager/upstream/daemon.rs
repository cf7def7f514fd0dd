//! The manager's connection to the daemon of its host.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_channel::hello::HELLO;
use mpd_io::adopt_inherited;
use mpd_io::conn::{Conn, Filled};
use mpd_io::rundir::RunDir;
use mpd_wire::frame;
use mpd_wire::frame::Kind;
use mpd_wire::hex;
use mpd_wire::job::MAX_SPEC;
use mpd_wire::message::{
    ConsoleReply, ManagerOrder, ManagerReport, MeetingAnswer, NameAnswer, Opening, Payload,
    Placing, Span, StartJob, VERSION,
};
use mpd_wire::{DaemonName, JobId, RankSet};

use crate::manager::tokens::DAEMON;

/// How long the daemon may take to hand over a job it has already read.
const JOB_PATIENCE_MS: u16 = 30_000;

/// A message of the daemon.
#[derive(Debug)]
pub(crate) enum DaemonMessage {
    Kill,
    Signal {
        signal: u8,
        /// Only the ranks' own processes.
        single: bool,
    },
    /// The new receivers of standard input.
    SwitchStdin(RankSet),
    /// The connection of a manager of this job, and its hello.
    Link(OwnedFd, Vec<u8>),
    CountOutput,
    /// A user requests the state of the machine.
    State(u32),
    Missing(Vec<(DaemonName, String)>),
    /// The duration of the scatter, and its depth.
    Launched(Span, u32),
    /// The placement of spawned processes.
    Placed(u32, Placing),
    /// The answer to a request about a name.
    Named(u32, NameAnswer),
    /// The answer to a request about other jobs.
    Met(u32, MeetingAnswer),
    /// Bytes of the root manager of another job.
    Passed(JobId, Payload),
    /// This name belongs to that job now.
    NameLost(String, Option<JobId>),
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
    /// Takes over descriptor 3.
    pub(crate) fn inherit() -> Result<Self> {
        let fd = adopt_inherited(3).context("a manager is started by its daemon only")?;
        let conn = Conn::new(UnixStream::from(fd))?;
        Ok(Self { conn: Some(conn), ready: true, refused: false })
    }

    /// Blocks until the order to start has arrived, for the root with the encoded specification. The manager has no
    /// other work before.
    pub(crate) fn receive_job(&mut self) -> Result<(StartJob, Vec<u8>)> {
        let conn = self.conn.as_mut().context("no daemon")?;
        let mut order: Option<StartJob> = None;
        let mut encoded = Vec::new();
        let mut closed = false;
        loop {
            if let Some(start) = &order {
                let wanted = start.spec_bytes as usize;
                if encoded.len() > wanted || wanted > MAX_SPEC {
                    bail!("a specification of the wrong size");
                }
                if encoded.len() == wanted {
                    return Ok((start.clone(), encoded));
                }
            }
            match conn.next_frame()? {
                Some((Kind::Control, payload)) if order.is_none() => {
                    match frame::decode_message(payload)? {
                        ManagerOrder::Start(start) => order = Some(*start),
                        ManagerOrder::Kill => bail!("killed before the start"),
                        _ => bail!("an unexpected order"),
                    }
                }
                Some((Kind::Spec, payload)) if order.is_some() => {
                    encoded.extend_from_slice(payload);
                }
                Some(_) => bail!("an unexpected frame"),
                None if closed => bail!("the daemon closed the connection"),
                None => {
                    closed =
                        conn.wait(JOB_PATIENCE_MS)?.context("no data in time")? == Filled::Closed;
                }
            }
        }
    }

    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.conn.as_ref().map(AsRawFd::as_raw_fd)
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
                Ok(Some((_, payload))) => match frame::decode_message(payload) {
                    Ok(order) => messages.extend(message_of(order, conn)),
                    Err(_) => {
                        let refusal = frame::decode_message::<ConsoleReply>(payload);
                        self.refused |= matches!(refusal, Ok(ConsoleReply::Refused { .. }));
                    }
                },
                Ok(None) => return,
                Err(e) => {
                    log::warn!("the daemon broke the protocol: {e}");
                    self.conn = None;
                }
            }
        }
    }

    pub(crate) const fn has_work(&self) -> bool {
        self.ready
    }

    /// Writes what is queued.
    pub(crate) fn flush(&mut self) {
        if let Some(conn) = &mut self.conn {
            let _ = conn.flush();
        }
    }

    /// Queues a report.
    pub(crate) fn report(&mut self, report: &ManagerReport) {
        if let Some(conn) = &mut self.conn {
            conn.send(report);
        }
    }

    /// Connects to the daemon of `rundir` and registers. `false` if no daemon answers.
    pub(crate) fn register(&mut self, registry: &Registry, rundir: &str, order: &StartJob) -> bool {
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
        let both = Interest::READABLE | Interest::WRITABLE;
        let watched = registry.register(&mut SourceFd(&conn.as_raw_fd()), Token(DAEMON), both);
        if conn.flush().is_err() || watched.is_err() {
            return false;
        }
        self.conn = Some(conn);
        true
    }
}

fn message_of(order: ManagerOrder, conn: &mut Conn) -> Option<DaemonMessage> {
    Some(match order {
        ManagerOrder::Kill => DaemonMessage::Kill,
        ManagerOrder::Signal { signal, single } => DaemonMessage::Signal { signal, single },
        ManagerOrder::SwitchStdin { ranks } => DaemonMessage::SwitchStdin(ranks),
        ManagerOrder::CountOutput => DaemonMessage::CountOutput,
        ManagerOrder::State { request } => DaemonMessage::State(request),
        ManagerOrder::Missing { members } => DaemonMessage::Missing(members),
        ManagerOrder::Launched { scatter, depth } => DaemonMessage::Launched(scatter, depth),
        ManagerOrder::Placed { request, outcome } => DaemonMessage::Placed(request, outcome),
        ManagerOrder::Named { request, answer } => DaemonMessage::Named(request, answer),
        ManagerOrder::Met { request, answer } => DaemonMessage::Met(request, answer),
        ManagerOrder::Passed { from, payload } => DaemonMessage::Passed(from, payload),
        ManagerOrder::NameLost { name, to } => DaemonMessage::NameLost(name, to),
        ManagerOrder::Link { hello } => {
            let connection = conn.take_descriptor()?;
            let mut bytes = [0; HELLO];
            hex::decode(&hello, &mut bytes)?;
            DaemonMessage::Link(connection, bytes.to_vec())
        }
        ManagerOrder::Start(_) => return None,
    })
}
