//! The daemon process: one loop over the listener, its peers, its children and signals.
//!
//! It decides little: who may speak ([`peers`]), which job gets which id ([`jobs`]). A console or
//! manager can close its own connection, never the daemon.

mod jobs;
mod peers;
pub(crate) mod status;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use mpd_io::clock::Clock;
use mpd_io::conn::Conn;
use mpd_io::rundir::RunDir;
use mpd_io::signals::Signals;
use mpd_io::{adopt_inherited, tree};
use nix::fcntl::Flock;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::cli::Cli;
use crate::daemon::jobs::Jobs;
use crate::daemon::peers::Peers;
use crate::start::READY;

const LISTENER: Token = Token(0);
const SIGNALS: Token = Token(1);

/// How long the listener rests when descriptors have run out.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

const SIGNALS_CAUGHT: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD];

pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    let told = cli.tell_ready.then(|| adopt_inherited(3)).transpose()?.map(File::from);
    let result = Daemon::start(cli);
    if let Some(mut told) = told {
        let word = match &result {
            Ok(_) => READY.to_owned(),
            Err(error) => mpd_io::logging::one_line(&format!("{error:#}")),
        };
        told.write_all(word.as_bytes()).context("nobody waits for the daemon")?;
    }
    result?.serve()
}

struct Daemon {
    poll: Poll,
    clock: Clock,
    signals: Signals,
    listening: Option<Listening>,
    peers: Peers,
    jobs: Jobs,
    ending: bool,
}

/// A ring that others can reach; a private one has none of this.
struct Listening {
    listener: UnixListener,
    rundir: RunDir,
    _lock: Flock<File>,
    /// Connections may be waiting to be accepted.
    ready: bool,
}

impl Daemon {
    fn start(cli: &Cli) -> Result<Self> {
        let host = mpd_io::rundir::host_name();
        let name = cli.name.clone().unwrap_or_else(|| host.clone());
        if !mpd_proto::id::is_daemon_name(&name) {
            bail!("{name:?} cannot be a daemon's name: letters, digits and . _ - : only (--name)");
        }
        let rundir = cli.rundir()?;
        let serving = if cli.private { None } else { Some(rundir.serve()?) };
        let log_file = match (&cli.log_file, cli.tell_ready) {
            (None, true) => Some(rundir.path().join("mpd.log")),
            (file, _) => file.clone(),
        };
        mpd_io::logging::start(&format!("mpd {name}"), cli.level(), log_file.as_deref())
            .with_context(|| {
                format!("cannot open the log {}", log_file.unwrap_or_default().display())
            })?;
        raise_descriptor_limit();
        tree::become_subreaper().context("cannot become a subreaper")?;
        nix::sys::prctl::set_dumpable(false).context("cannot close /proc to others")?;
        let signals = Signals::catch(&SIGNALS_CAUGHT).context("cannot catch signals")?;
        let poll = Poll::new().context("cannot make an event queue")?;
        poll.registry().register(
            &mut SourceFd(&signals.as_raw_fd()),
            SIGNALS,
            Interest::READABLE,
        )?;
        let clock = Clock::start();
        let mut jobs = Jobs::new(&name, &host, serving.is_some().then(|| rundir.clone()));
        let mut peers = Peers::default();
        let mut listening = None;
        match serving {
            Some((lock, listener)) => {
                listener.set_nonblocking(true)?;
                let fd = listener.as_raw_fd();
                poll.registry().register(&mut SourceFd(&fd), LISTENER, Interest::READABLE)?;
                listening = Some(Listening { listener, rundir, _lock: lock, ready: true });
                jobs.adopt_records(clock.now());
            }
            None => {
                let stream =
                    UnixStream::from(adopt_inherited(3).context("--private is for mpirun")?);
                peers.add(poll.registry(), Conn::new(stream)?, clock.now())?;
            }
        }
        std::env::set_current_dir("/")?;
        Ok(Self { poll, clock, signals, listening, peers, jobs, ending: false })
    }

    fn serve(mut self) -> Result<ExitCode> {
        log::info!("serving, pid {}", std::process::id());
        let mut events = Events::with_capacity(256);
        while !self.ending && (self.listening.is_some() || self.is_needed()) {
            let wait = self.wait();
            match self.poll.poll(&mut events, wait) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                result => result.context("cannot wait for events")?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.listening.iter_mut().for_each(|l| l.ready = true),
                    SIGNALS => {}
                    token => self.peers.mark_ready(token),
                }
            }
            self.take_signals();
            self.accept();
            self.peers.turn(self.poll.registry(), &mut self.jobs, self.clock.now());
            self.jobs.turn(self.clock.now());
        }
        self.end();
        Ok(ExitCode::SUCCESS)
    }

    /// A private daemon stays while its mpirun or a job of it is there.
    fn is_needed(&self) -> bool {
        !self.peers.is_empty() || !self.jobs.is_idle()
    }

    fn wait(&self) -> Option<Duration> {
        if self.peers.has_work() {
            return Some(Duration::ZERO);
        }
        let resting = self.listening.as_ref().is_some_and(|l| l.ready);
        let deadlines = [self.peers.next_deadline(), self.jobs.next_deadline()];
        deadlines
            .into_iter()
            .flatten()
            .map(|at| self.clock.until(at))
            .chain(resting.then_some(EXHAUSTED_PAUSE))
            .min()
    }

    fn take_signals(&mut self) {
        for signal in self.signals.pending() {
            if signal == libc::SIGCHLD {
                self.jobs.reap(&mut self.peers, self.clock.now());
            } else {
                log::info!("ending on signal {signal}");
                self.ending = true;
            }
        }
    }

    /// Accepts what waits, a bounded number a turn. Out of descriptors: rest, try again later.
    fn accept(&mut self) {
        const PER_TURN: usize = 64;
        let Some(listening) = &mut self.listening else { return };
        for _ in 0..PER_TURN {
            if !listening.ready {
                return;
            }
            match listening.listener.accept() {
                Ok((stream, _)) => {
                    let added = Conn::new(stream).and_then(|conn| {
                        self.peers.add(self.poll.registry(), conn, self.clock.now())
                    });
                    if let Err(e) = added {
                        log::warn!("cannot serve a connection: {e}");
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => listening.ready = false,
                Err(e) => {
                    log::warn!("cannot accept a connection: {e}");
                    return;
                }
            }
        }
    }

    /// A tidy end: the next daemon finds no stale socket, managers notice and wait for it.
    fn end(&mut self) {
        if let Some(listening) = &self.listening {
            let _ = fs::remove_file(listening.rundir.socket());
        }
    }
}

/// Every rank costs its manager descriptors: the hard limit is ours to use. Ranks get the user's.
pub(crate) fn raise_descriptor_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && let Err(e) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        log::warn!("cannot raise the limit of open files to {hard}: {e}");
    }
}
