//! The command line of `mpd`, and its exit codes.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use log::LevelFilter;
use mpd_io::keyfile;
use mpd_io::ringname::RingName;
use mpd_io::rundir::{RunDir, host_name};
use mpd_wire::Instance;

/// The daemon could not start, or there is none to ask.
pub(crate) const EXIT_FAILURE: u8 = 1;

/// Start the MPD daemon of this host.
///
/// The daemon enters the ring of the daemon named by --join, or begins a ring of one that others may
/// enter. Daemons of one ring prove to each other that they hold the same key; nobody else gets a word.
/// To raise daemons on many hosts, use mpdboot.
///
/// The daemon waits on a socket that only its user can reach, and starts a manager process for every
/// job that mpirun submits. It ends by mpdexit and mpdallexit, and on SIGTERM, SIGINT and SIGHUP
/// (with --keep, others start it again then); running jobs are not hurt by its end and register with the next daemon.
///
/// Exit codes: 0 for a tidy end, 1 when the daemon could not start (the reason is on standard error)
/// or, with --status, when no daemon is running, 2 for a wrong command line.
#[derive(Debug, Parser)]
#[command(name = "mpd", version, after_help = AFTER_HELP, disable_help_flag = true)]
pub(crate) struct Cli {
    /// Go to the background; return once the daemon is in the ring, or say why it is not
    #[arg(long, short = 'd')]
    pub(crate) daemon: bool,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,

    /// Enter the ring of these daemons, whichever answers first in this order
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) join: Vec<String>,

    /// Enter the ring of the daemon of this host; with -p
    #[arg(
        short = 'h',
        long,
        value_name = "HOST",
        requires = "entry_port",
        conflicts_with = "join"
    )]
    pub(crate) host: Option<String>,

    /// The port of the daemon at -h
    #[arg(short = 'p', long, value_name = "PORT", requires = "host")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) entry_port: Option<u16>,

    /// Listen on this port [default: the one of the daemon before, else any]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,

    /// Listen on this interface only, given by name or address [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) ifhn: Option<String>,

    /// File of the ring's key, made if there is none [default: $MPD_KEY_FILE, /etc/mpd/key for root,
    /// else ~/.mpd.key]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// Print the port as mpd_port=N once this daemon is in the ring; with --daemon
    #[arg(long, short = 'e', requires = "daemon")]
    pub(crate) echo: bool,

    /// Place in listings and placement [default: behind all others]
    #[arg(long, value_name = "N")]
    pub(crate) ordinal: Option<u64>,

    /// Start lost members again by this plan of mpdboot's
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,

    /// Name of this daemon in job ids and messages [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Which of your rings on this host [default: $MPD_RING, $MPD_CON_EXT, the batch job's id]
    #[arg(long, value_name = "NAME")]
    pub(crate) ring: Option<String>,

    /// Directory of socket, lock and job records
    #[arg(long, value_name = "DIR")]
    pub(crate) rundir: Option<PathBuf>,

    /// Processes that this host takes before another is preferred [default: its CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ncpus: Option<u32>,

    /// Write the log to this file [default: standard error; with --daemon RUNDIR/mpd.log]
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,

    /// Log more (twice: everything)
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Print the state of the running daemon as one line of JSON
    #[arg(long, conflicts_with = "daemon")]
    pub(crate) status: bool,

    #[arg(long, hide = true, value_name = "DIR")]
    generate_docs: Option<PathBuf>,

    /// A ring of one for one mpirun: serve the connection on descriptor 3, then leave.
    #[arg(long, hide = true, requires = "owner")]
    pub(crate) private: bool,

    /// With --private: the process id of the mpirun, by which its job is named.
    #[arg(long, hide = true, value_name = "PID", requires = "private")]
    pub(crate) owner: Option<u32>,

    /// With --private: consoles find this ring in this directory.
    #[arg(long, hide = true, value_name = "DIR", requires = "private")]
    pub(crate) listed: Option<PathBuf>,

    /// With --listed: the run directory above it goes with the last private ring, if nothing else is in it.
    #[arg(long, hide = true, requires = "listed")]
    pub(crate) removes_rundir: bool,

    /// With --private: others may enter, and all leave when this one does.
    #[arg(long, hide = true, requires = "private", requires = "ring")]
    pub(crate) open: bool,

    /// In the private ring that the daemon of this life began: leave when that one is gone.
    #[arg(long, hide = true, value_name = "INSTANCE", conflicts_with = "private")]
    pub(crate) launched_by: Option<Instance>,

    /// Tell readiness on descriptor 3; with --private on descriptor 4.
    #[arg(long, hide = true)]
    pub(crate) tell_ready: bool,

    #[arg(long, hide = true)]
    manager: bool,

    /// Remove what is left of the job whose record is open at descriptor 0.
    #[arg(long, hide = true)]
    sweep: bool,

    /// With --sweep: the job's manager lived until now.
    #[arg(long, hide = true, requires = "sweep")]
    just_died: bool,

    /// With --sweep: remove this file at the end.
    #[arg(long, hide = true, value_name = "FILE")]
    record_file: Option<PathBuf>,
}

/// Hidden roles whose words are those of others, options and all: `--debugger GDB PROGRAM [ARGUMENT…]`,
/// `--debugger GDB --attach PID`, `--debuggee PROGRAM [ARGUMENT…]`, `--catch GDB PROGRAM [ARGUMENT…]`,
/// `--hold TRACER PROGRAM [ARGUMENT…]`, `--held PROGRAM [ARGUMENT…]`, `--shm-users family|anybody INODE…`,
/// `--mpi-users PID…`.
pub(crate) const DEBUGGER: &str = "--debugger";
pub(crate) const DEBUGGEE: &str = "--debuggee";
pub(crate) const CATCHER: &str = "--catch";
/// What a watcher of crashes is called among processes.
pub(crate) const WATCHER_NAME: &str = "mpdcatch";
pub(crate) const HOLDER: &str = "--hold";
pub(crate) const HELD: &str = "--held";
pub(crate) const SHM_USERS: &str = "--shm-users";
pub(crate) const MPI_USERS: &str = "--mpi-users";

/// What stands behind `role` on the command line, if that is the first word.
pub(crate) fn words_behind(role: &str) -> Option<Vec<OsString>> {
    let mut words = std::env::args_os().skip(1);
    (words.next()? == role).then(|| words.collect())
}

const AFTER_HELP: &str = "\
The run directory is --rundir, else $MPD_RUNDIR, else $XDG_RUNTIME_DIR/mpd, else /tmp/mpd-UID-HOST;
the last two with -RING behind for a ring that has a name. A daemon started again in its run directory
finds the others of its ring by the list that its predecessor kept there, and takes its old place.
MPD_LOG sets what is logged (error, warn, info, debug, trace).";

/// What a process of this executable is.
pub(crate) enum Role {
    Manager,
    /// With the file to remove at the end; and whether the manager lived until now.
    Sweeper(Option<PathBuf>, bool),
    Docs(PathBuf),
    Status,
    /// Starts the daemon in the background.
    Starter,
    Daemon,
}

impl Cli {
    pub(crate) fn role(&self) -> Role {
        match self {
            Self { manager: true, .. } => Role::Manager,
            Self { sweep: true, .. } => Role::Sweeper(self.record_file.clone(), self.just_died),
            Self { generate_docs: Some(directory), .. } => Role::Docs(directory.clone()),
            Self { status: true, .. } => Role::Status,
            Self { daemon: true, .. } => Role::Starter,
            Self { .. } => Role::Daemon,
        }
    }

    /// Whether the ring is made for one job, and gone after it without a trace.
    pub(crate) const fn is_private(&self) -> bool {
        self.private || self.launched_by.is_some()
    }

    /// Whether the key stands on standard input.
    pub(crate) fn has_key_on_input(&self) -> bool {
        self.key.as_deref().is_some_and(|path| path.as_os_str() == keyfile::STANDARD_INPUT)
    }

    pub(crate) fn ring_name(&self) -> Result<RingName> {
        Ok(RingName::resolve(self.ring.as_deref())?)
    }

    pub(crate) fn rundir(&self) -> Result<RunDir> {
        Ok(RunDir::resolve(self.rundir.clone(), &self.ring_name()?, &host_name()))
    }

    /// Where to enter, as `HOST:PORT`.
    pub(crate) fn entries(&self) -> Vec<String> {
        match (&self.host, self.entry_port) {
            (Some(host), Some(port)) if host.contains(':') => vec![format!("[{host}]:{port}")],
            (Some(host), Some(port)) => vec![format!("{host}:{port}")],
            _ => self.join.clone(),
        }
    }

    pub(crate) fn level(&self) -> LevelFilter {
        match (self.verbose, self.private || self.manager) {
            (0, true) => LevelFilter::Warn,
            (0, false) => LevelFilter::Info,
            (1, _) => LevelFilter::Debug,
            _ => LevelFilter::Trace,
        }
    }
}
