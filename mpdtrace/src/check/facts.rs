//! The facts about this host: names, addresses, key, run directory, limits, programs. Each question
//! has a deadline. The module `judge` decides what the facts mean.

use std::net::IpAddr;
use std::path::PathBuf;

use mpd_io::files::key_file::KeyFile;
use mpd_io::network::addresses;
use mpd_io::parallel;
use mpd_io::process::search;
use mpd_io::ring::rundir::RunDir;
use mpd_wire::message::RingView;
use nix::sys::resource::{Resource, getrlimit};

use crate::{ask, lookup, remote};

/// Most addresses whose names are looked up.
const MAX_REVERSE: usize = 4;

/// The facts about this host.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The host name that the kernel has.
    pub host: String,
    /// The addresses that the host name resolves to.
    pub forward: Result<Vec<IpAddr>, String>,
    /// The names of those addresses; `None` for an address without a name. Addresses that could not
    /// be looked up are left out.
    pub reverse: Vec<(IpAddr, Option<String>)>,
    /// Interfaces that are up, except loopback, with their addresses.
    pub interfaces: Vec<(String, IpAddr)>,
    /// The lines of `/etc/hosts` that give this host a loopback address.
    pub loopback_lines: Vec<String>,
    /// The key file.
    pub key: KeyFact,
    /// Path of the run directory.
    pub rundir: PathBuf,
    /// The daemon of the run directory.
    pub daemon: DaemonFact,
    /// Limits of this user.
    pub limits: Limits,
    /// Path of the remote shell, if it is in `PATH`.
    pub shell: Option<PathBuf>,
}

/// The key file.
#[derive(Clone, Debug)]
pub enum KeyFact {
    /// The file holds a key with this short id.
    Sound(PathBuf, String),
    /// The file does not exist.
    Absent(PathBuf),
    /// The file cannot be used; the text says how to repair that.
    Unsound(String),
}

/// The daemon of the run directory.
#[derive(Clone, Debug)]
pub enum DaemonFact {
    /// No daemon runs.
    Absent {
        /// Whether a dead daemon left its socket.
        stale: bool,
    },
    /// The directory cannot be used; the text says how to repair that.
    Unsafe(String),
    /// The daemon answers.
    Alive(Box<RingView>),
    /// The daemon refuses to answer, for this reason.
    Refusing(String),
    /// The daemon runs, but does not answer, or its answer does not fit.
    Mute(String),
}

/// Soft limits of this process; `None` for no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub descriptors: Option<u64>,
    /// Number of processes of this user.
    pub processes: Option<u64>,
}

impl Facts {
    /// Collects all facts.
    pub fn gather(rundir: &RunDir) -> Self {
        let host = nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned();
        let forward = lookup::addresses(&host);
        let known: Vec<IpAddr> = forward.iter().flatten().take(MAX_REVERSE).copied().collect();
        let names = parallel::each(&known, MAX_REVERSE, reverse);
        Self {
            reverse: known.into_iter().zip(names).filter_map(|(a, n)| Some((a, n?))).collect(),
            forward,
            interfaces: interfaces(),
            loopback_lines: loopback_lines(&host),
            key: key(),
            rundir: rundir.path().to_owned(),
            daemon: daemon(rundir),
            limits: Limits {
                descriptors: limit(Resource::RLIMIT_NOFILE),
                processes: limit(Resource::RLIMIT_NPROC),
            },
            shell: search::in_path("ssh"),
            host,
        }
    }
}

/// The name of an address by `getent`, which uses the name services that this host is configured
/// for. `Some(None)` if the address has no name; `None` if `getent` is missing or does not answer
/// in time.
fn reverse(address: &IpAddr) -> Option<Option<String>> {
    const NOT_FOUND: i32 = 2;
    let line = ["getent".to_owned(), "hosts".to_owned(), address.to_string()];
    let ended = remote::run(&line, lookup::PATIENCE).ok()?;
    match ended.status.code() {
        Some(0) => Some(ended.out.split_whitespace().nth(1).map(str::to_owned)),
        Some(NOT_FOUND) => Some(None),
        _ => None,
    }
}

fn interfaces() -> Vec<(String, IpAddr)> {
    // An IPv4 network may have only link-local addresses; --ifhn chooses one.
    let is_link_local = |ip: &IpAddr| matches!(ip, IpAddr::V4(four) if four.is_link_local());
    let mut all = addresses::interfaces();
    all.retain(|(_, ip)| addresses::is_reachable(ip) || is_link_local(ip));
    all
}

fn loopback_lines(host: &str) -> Vec<String> {
    let text = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let names_us = |line: &&str| {
        let mut fields = line.split('#').next().unwrap_or_default().split_whitespace();
        let address = fields.next().and_then(|field| field.parse::<IpAddr>().ok());
        address.is_some_and(|ip| ip.is_loopback()) && fields.any(|field| field == host)
    };
    text.lines().filter(names_us).map(|line| line.trim().to_owned()).collect()
}

fn key() -> KeyFact {
    let file = match KeyFile::resolve(None) {
        Ok(file) => file,
        Err(error) => return KeyFact::Unsound(error.to_string()),
    };
    let path = file.path().to_owned();
    match file.load() {
        Ok(Some(text)) => KeyFact::Sound(path, text.keys().connect().id().to_string()),
        Ok(None) => KeyFact::Absent(path),
        Err(error) => KeyFact::Unsound(error.to_string()),
    }
}

fn daemon(rundir: &RunDir) -> DaemonFact {
    match rundir.connect() {
        Ok(Some(_)) => {}
        Ok(None) => return DaemonFact::Absent { stale: rundir.socket().exists() },
        Err(error) => return DaemonFact::Unsafe(error.to_string()),
    }
    match ask::describe(rundir, ask::PATIENCE) {
        Ok(view) => DaemonFact::Alive(Box::new(view)),
        Err(error) => match error.refusal() {
            Some(text) => DaemonFact::Refusing(text.to_owned()),
            None => DaemonFact::Mute(error.to_string()),
        },
    }
}

fn limit(resource: Resource) -> Option<u64> {
    getrlimit(resource).ok().map(|(soft, _)| soft).filter(|soft| *soft != libc::RLIM_INFINITY)
}
