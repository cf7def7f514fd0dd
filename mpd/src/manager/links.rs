//! The manager's connections: to the console of its job, and to the daemon of its host.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_io::adopt_inherited;
use mpd_io::conn::{Conn, Filled};
use mpd_io::rundir::RunDir;
use mpd_proto::frame::{self, Kind};
use mpd_proto::job::{JobSpec, MAX_SPEC};
use mpd_proto::message::{
    ConsoleReply, JobInput, ManagerOrder, ManagerReport, Opening, StartJob, VERSION,
};

use super::DAEMON;

/// How long the daemon may take to hand over a job it has already read.
const JOB_PATIENCE_MS: u16 = 30_000;

/// Something the console sent.
#[derive(Debug)]
pub(crate) enum Heard {
    Input(JobInput),
    /// Standard input; empty means its end.
    Stdin(Vec<u8>),
}

/// Both connections.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) console: Conn,
    pub(crate) console_ready: bool,
    console_open: bool,
    /// It takes no more words; what it said last is still to be read.
    console_deaf: bool,
    pub(crate) daemon: Option<Conn>,
    pub(crate) daemon_ready: bool,
    /// A daemon does not want us.
    pub(crate) refused: bool,
}

impl Links {
    /// Takes over descriptors 3 (daemon) and 4 (console).
    pub(crate) fn inherit() -> Result<Self> {
        let take = |number| -> Result<Conn> {
            let fd = adopt_inherited(number).context("a manager is started by its daemon only")?;
            Ok(Conn::new(UnixStream::from(fd))?)
        };
        Ok(Self {
            daemon: Some(take(3)?),
            console: take(4)?,
            console_ready: true,
            console_open: true,
            console_deaf: false,
            daemon_ready: true,
            refused: false,
        })
    }

    /// Waits for the order to start and the specification. Before that there is nothing else to do.
    pub(crate) fn receive_job(&mut self) -> Result<(StartJob, JobSpec)> {
        let daemon = self.daemon.as_mut().context("no daemon")?;
        let mut order = None;
        let mut encoded = Vec::new();
        let mut closed = false;
        loop {
            while let Some((kind, payload)) = daemon.next_frame()? {
                match (kind, &order) {
                    (Kind::Control, None) => match frame::decode_message(payload)? {
                        ManagerOrder::Start(start) => order = Some(*start),
                        ManagerOrder::Kill => bail!("killed before the start"),
                        _ => bail!("an order that is not expected here"),
                    },
                    (Kind::Spec, Some(_)) => encoded.extend_from_slice(payload),
                    _ => bail!("a frame that is not expected here"),
                }
                let Some(start) = &order else { continue };
                let wanted = start.spec_bytes as usize;
                if encoded.len() > wanted || wanted > MAX_SPEC {
                    bail!("a specification of the wrong size");
                }
                if encoded.len() == wanted {
                    let spec = JobSpec::decode(&encoded)?;
                    spec.check()?;
                    return Ok((start.clone(), spec));
                }
            }
            if closed {
                bail!("the daemon closed the connection");
            }
            closed = daemon.wait(JOB_PATIENCE_MS)?.context("silence")? == Filled::Closed;
        }
    }

    /// Reads the console's connection: what it said, and whether it is still there.
    pub(crate) fn hear_console(&mut self) -> (Vec<Heard>, bool) {
        let filled = self.console.fill();
        let mut heard = Vec::new();
        loop {
            match self.console.next_frame() {
                Ok(Some((Kind::Stdin, bytes))) => heard.push(Heard::Stdin(bytes.to_vec())),
                Ok(Some((Kind::Control, payload))) => match frame::decode_message(payload) {
                    Ok(input) => heard.push(Heard::Input(input)),
                    Err(e) => return self.console_broke(heard, &e.to_string()),
                },
                Ok(Some((Kind::Spec, _))) => return self.console_broke(heard, "a second job"),
                Ok(None) => break,
                Err(e) => return self.console_broke(heard, &e.to_string()),
            }
        }
        self.console_ready = matches!(filled, Ok(Filled::More));
        let open = !matches!(filled, Ok(Filled::Closed) | Err(_));
        self.console_open &= open;
        (heard, open)
    }

    fn console_broke(&mut self, heard: Vec<Heard>, problem: &str) -> (Vec<Heard>, bool) {
        log::warn!("the console broke the protocol: {problem}");
        self.console_open = false;
        self.console_ready = false;
        (heard, false)
    }

    /// Reads the daemon's connection: whether it wants the job killed.
    pub(crate) fn hear_daemon(&mut self) -> io::Result<(bool, Filled)> {
        let Some(daemon) = &mut self.daemon else { return Ok((false, Filled::Empty)) };
        let filled = daemon.fill()?;
        let mut kill = false;
        while let Some((_, payload)) = daemon.next_frame().map_err(io::Error::other)? {
            kill |= matches!(frame::decode_message(payload), Ok(ManagerOrder::Kill));
            let refusal = frame::decode_message::<ConsoleReply>(payload);
            self.refused |= matches!(refusal, Ok(ConsoleReply::Refused { .. }));
        }
        self.daemon_ready = filled == Filled::More;
        Ok((kill, filled))
    }

    pub(crate) const fn has_work(&self) -> bool {
        (self.console_ready && self.console_open) || self.daemon_ready
    }

    pub(crate) const fn console_is_open(&self) -> bool {
        self.console_open
    }

    /// Writes what is queued on both.
    pub(crate) fn flush(&mut self) {
        if !self.console_deaf && self.console.flush().is_err() {
            self.console_deaf = true;
            self.console_ready = true;
        }
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.flush();
        }
    }

    /// Whether the console is there and has not yet taken all that was said.
    pub(crate) fn console_waits(&self) -> bool {
        self.console_open && !self.console_deaf && self.console.queued() > 0
    }

    /// Tells the daemon that nothing is left, as the last word.
    pub(crate) fn report_end(&mut self, code: u8) {
        if let Some(daemon) = &mut self.daemon {
            daemon.send(&ManagerReport::Ended { code });
            let _ = daemon.flush();
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
        self.daemon = Some(conn);
        true
    }
}
