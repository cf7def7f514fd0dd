//! What this host says of itself: names, addresses, key, run directory, limits, programs. Each
//! question has a deadline; nothing is judged here.

use std::net::IpAddr;
use std::path::PathBuf;

use mpd_io::keyfile::KeyFile;
use mpd_io::rundir::RunDir;
use mpd_io::{addresses, search};
use mpd_wire::message::RingView;
use nix::sys::resource::{Resource, getrlimit};

use crate::{ask, lookup, remote};

/// Most addresses whose names are asked for.
const MAX_REVERSE: usize = 4;

/// All that is known of this host.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What the kernel calls it.
    pub host: String,
    /// What that name resolves to.
    pub forward: Result<Vec<IpAddr>, String>,
    /// The names of those addresses, as far as there is a way to ask: `None` where there is no name.
    pub reverse: Vec<(IpAddr, Option<String>)>,
    /// Addresses of interfaces that are up, loopback left out, with the interface.
    pub interfaces: Vec<(String, IpAddr)>,
    /// The lines of `/etc/hosts` that give this host a loopback address.
    pub loopback_lines: Vec<String>,
    /// The key.
    pub key: KeyFact,
    /// The run directory.
    pub rundir: PathBuf,
    /// The daemon there.
    pub daemon: DaemonFact,
    /// Descriptors and processes this user may have; `None` for no limit.
    pub limits: Limits,
    /// Where the remote shell is.
    pub shell: Option<PathBuf>,
}

/// The key file.
#[derive(Clone, Debug)]
pub enum KeyFact {
    /// It holds a key with this short id.
    Sound(PathBuf, String),
    /// There is none.
    Absent(PathBuf),
    /// It cannot be used; the text says how to mend that.
    Unsound(String),
}

/// The daemon of the run directory.
#[derive(Clone, Debug)]
pub enum DaemonFact {
    /// There is none; whether it left its socket.
    Absent {
        /// A socket without a daemon is there.
        stale: bool,
    },
    /// The directory cannot be used; the text says how to mend that.
    Unsafe(String),
    /// It answers.
    Alive(Box<RingView>),
    /// It answers that it cannot say, and why.
    Refusing(String),
    /// It is there and has not answered as it should.
    Mute(String),
}

/// Soft limits of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Descriptors.
    pub descriptors: Option<u64>,
    /// Processes of this user.
    pub processes: Option<u64>,
}

impl Facts {
    /// Looks at everything.
    pub fn gather(rundir: &RunDir) -> Self {
        let host = nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned();
        let forward = lookup::addresses(&host);
        let known: Vec<IpAddr> = forward.iter().flatten().take(MAX_REVERSE).copied().collect();
        let names = remote::each(&known, MAX_REVERSE, reverse);
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

/// The name of an address by `getent`, which asks whatever this host is configured to ask. `None`
/// when there is no such program or no answer in time, `Some(None)` when there is no name.
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
    // A network of IPv4 may have link-local addresses only, and --ifhn chooses one.
    let is_link_local = |ip: &IpAddr| matches!(ip, IpAddr::V4(four) if four.is_link_local());
    let mut all = addresses::interfaces();
    all.retain(|(_, ip)| addresses::is_reachable(ip) || is_link_local(ip));
    all
}

fn loopback_lines(host: &str) -> Vec<String> {
    let text = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let names_us = |line: &&str| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
        address.is_some_and(|ip| ip.is_loopback()) && words.any(|word| word == host)
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
    getrlimit(resource).ok().map(|(soft, _)| soft).filter(|soft| *soft != nix::libc::RLIM_INFINITY)
}
