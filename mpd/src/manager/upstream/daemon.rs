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
    ConsoleReply, ManagerOrder, ManagerReport, NameAnswer, Opening, Placing, Span, StartJob,
    VERSION,
};
use mpd_wire::{DaemonName, JobId, RankSet};

use crate::manager::tokens::DAEMON;

/// How long the daemon may take to hand over a job it has already read.
const JOB_PATIENCE_MS: u16 = 30_000;

/// What the daemon wants.
#[derive(Debug)]
pub(crate) enum Told {
    Kill,
    Signal {
        signal: u8,
        /// Only the ranks' own processes.
        single: bool,
    },
    /// Who receives standard input from now on.
    SwitchStdin(RankSet),
    /// A manager of this job connected: the connection, and its hello.
    Link(OwnedFd, Vec<u8>),
    CountOutput,
    Missing(Vec<(DaemonName, String)>),
    /// How long the scatter took, and its depth.
    Launched(Span, u32),
    /// Where spawned processes go.
    Placed(u32, Placing),
    /// What came of something about a name.
    Named(u32, NameAnswer),
    /// That name is that job's.
    NameLost(String, JobId),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Daemon {
    conn: Option<Conn>,
    pub(crate) ready: bool,
    /// It does not want us.
    pub(crate) refused: bool,
}

impl Daemon {
    /// Takes over descriptor 3.
    pub(crate) fn inherit() -> Result<Self> {
        let fd = adopt_inherited(3).context("a manager is started by its daemon only")?;
        let conn = Conn::new(UnixStream::from(fd))?;
        Ok(Self { conn: Some(conn), ready: true, refused: false })
    }

    /// Waits for the order to start, and the encoded specification if it is the root's. Before that
    /// there is nothing else to do.
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
                        _ => bail!("an order that is not expected here"),
                    }
                }
                Some((Kind::Spec, payload)) if order.is_some() => {
                    encoded.extend_from_slice(payload);
                }
                Some(_) => bail!("a frame that is not expected here"),
                None if closed => bail!("the daemon closed the connection"),
                None => {
                    closed = conn.wait(JOB_PATIENCE_MS)?.context("silence")? == Filled::Closed;
                }
            }
        }
    }

    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.conn.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Reads what it wants; `false`: it is gone.
    pub(crate) fn hear(&mut self) -> (Vec<Told>, bool) {
        let mut told = Vec::new();
        self.ready = false;
        // What came with the job may be links already, and no more is read before those are taken.
        self.take_orders(&mut told);
        let Some(conn) = &mut self.conn else { return (told, true) };
        let filled = conn.fill();
        self.take_orders(&mut told);
        match filled {
            Ok(Filled::Empty) => {}
            Ok(Filled::More) => self.ready = true,
            Ok(Filled::Closed) => self.conn = None,
            Err(e) => {
                log::warn!("the daemon cannot be heard: {e}");
                self.conn = None;
            }
        }
        (told, self.conn.is_some())
    }

    fn take_orders(&mut self, told: &mut Vec<Told>) {
        while let Some(conn) = &mut self.conn {
            match conn.next_frame() {
                Ok(Some((_, payload))) => match frame::decode_message(payload) {
                    Ok(order) => told.extend(understood(order, conn)),
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

    /// Connects to the daemon of `rundir` and registers; whether there was one.
    pub(crate) fn register(&mut self, registry: &Registry, rundir: &str, order: &StartJob) -> bool {
        let rundir = RunDir::at(PathBuf::from(rundir));
        let Ok(Some(mut conn)) = rundir.connect() else { return false };
        let Some(share) = order.shares.get(order.place as usize) else { return false };
        conn.send(&Opening::Register {
            version: VERSION,
            job: order.job.clone(),
            cookie: order.cookie.clone(),
            place: order.place,
            manager: share.manager,
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

fn understood(order: ManagerOrder, conn: &mut Conn) -> Option<Told> {
    Some(match order {
        ManagerOrder::Kill => Told::Kill,
        ManagerOrder::Signal { signal, single } => Told::Signal { signal, single },
        ManagerOrder::SwitchStdin { ranks } => Told::SwitchStdin(ranks),
        ManagerOrder::CountOutput => Told::CountOutput,
        ManagerOrder::Missing { members } => Told::Missing(members),
        ManagerOrder::Launched { scatter, depth } => Told::Launched(scatter, depth),
        ManagerOrder::Placed { request, outcome } => Told::Placed(request, outcome),
        ManagerOrder::Named { request, answer } => Told::Named(request, answer),
        ManagerOrder::NameLost { name, to } => Told::NameLost(name, to),
        ManagerOrder::Link { hello } => {
            let connection = conn.take_descriptor()?;
            let mut bytes = [0; HELLO];
            hex::decode(&hello, &mut bytes)?;
            Told::Link(connection, bytes.to_vec())
        }
        ManagerOrder::Start(_) => return None,
    })
}
