//! The search for the daemons of `--join`: names become addresses, before anything is served.
//!
//! With `--patience` a name may still be unknown, and its host may still be down, as in a container that starts before
//! the others. The search then continues until a daemon's port accepts a connection. The pauses grow up to 5 s. A signal
//! ends the search.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mpd_io::network::addresses;
use mpd_io::process::signals::Signals;
use mpd_wire::Address;

use crate::cli::Cli;

/// The first pause; each further one is twice as long, up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long a host may take to accept a connection.
const CONNECT: Duration = Duration::from_millis(500);

/// Most addresses that one attempt tries to reach. The name of a service may have thousands.
const MAX_TRIED: usize = 8;

/// When to try again. Pure.
#[derive(Debug)]
struct Pauses {
    next: Duration,
    left: Duration,
}

impl Pauses {
    const fn new(patience: Duration) -> Self {
        Self { next: FIRST_PAUSE, left: patience }
    }

    /// The next pause, after `spent` since the last call; `None` when the time is over.
    fn next(&mut self, spent: Duration) -> Option<Duration> {
        self.left = self.left.saturating_sub(spent);
        if self.left.is_zero() {
            return None;
        }
        let pause = self.next.min(self.left);
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        Some(pause)
    }
}

/// The addresses of the daemons through which to enter; empty if this daemon begins a ring.
///
/// # Errors
/// No daemon was found, or a signal came.
pub(super) fn entries(cli: &Cli, signals: &mut Signals) -> Result<Vec<Address>> {
    let entries = cli.entries();
    let names = split(&entries)?;
    let Some(patience) = cli.patience.filter(|_| !names.is_empty()) else {
        return found(resolve(&names));
    };
    let mut pauses = Pauses::new(Duration::from_secs(patience.into()));
    let mut last = String::new();
    let mut since = Instant::now();
    loop {
        let (addresses, problem) = resolve(&names);
        let problem = match reach(&addresses) {
            Ok(()) => return found((addresses, problem)),
            Err(unreached) => problem.filter(|_| addresses.is_empty()).unwrap_or(unreached),
        };
        let problem = problem.to_string();
        if problem != last {
            log::warn!("--join {}: {problem}; trying again", entries.join(","));
            last = problem;
        }
        let spent = since.elapsed();
        since = Instant::now();
        let Some(pause) = pauses.next(spent) else { break };
        rest(pause, signals)?;
    }
    if cli.or_begin {
        log::info!("no daemon answered in {patience} s; beginning a ring");
        return Ok(Vec::new());
    }
    bail!(
        "--join {}: no daemon answered in {patience} s (--patience); at last: {last}",
        entries.join(",")
    );
}

fn split(entries: &[String]) -> Result<Vec<(&str, u16)>> {
    let split = |entry| {
        addresses::split_port(entry)
            .with_context(|| format!("--join {entry:?}: expected HOST:PORT"))
    };
    entries.iter().map(String::as_str).map(split).collect()
}

/// The numeric addresses of these names, and the last problem.
fn resolve(names: &[(&str, u16)]) -> (Vec<SocketAddr>, Option<io::Error>) {
    let (mut all, mut problem) = (Vec::new(), None);
    for &(host, port) in names {
        match addresses::resolve(host) {
            Ok(found) => all.extend(found.into_iter().map(|ip| SocketAddr::new(ip, port))),
            Err(e) => problem = Some(e),
        }
    }
    (all, problem)
}

fn found((addresses, problem): (Vec<SocketAddr>, Option<io::Error>)) -> Result<Vec<Address>> {
    match problem {
        Some(problem) if addresses.is_empty() => return Err(problem.into()),
        Some(problem) => log::warn!("--join: {problem}"),
        None => {}
    }
    let text = |address: &SocketAddr| Address::new(&address.to_string());
    Ok(addresses.iter().map(text).collect::<Result<_, _>>()?)
}

/// Whether one of these ports accepts a connection. No daemon of this process listens yet.
fn reach(addresses: &[SocketAddr]) -> io::Result<()> {
    let mut problem = io::Error::other("the name has no address");
    for address in addresses.iter().take(MAX_TRIED) {
        match TcpStream::connect_timeout(address, CONNECT) {
            Ok(_) => return Ok(()),
            Err(e) => problem = io::Error::new(e.kind(), format!("{address}: {e}")),
        }
    }
    Err(problem)
}

/// Waits; a signal other than the end of a child is an error.
fn rest(pause: Duration, signals: &mut Signals) -> Result<()> {
    let deadline = Instant::now() + pause;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        signals.wait(left);
        let ending = signals.pending().into_iter().find(|&signal| signal != libc::SIGCHLD);
        if let Some(signal) = ending {
            bail!("signal {signal} came before this daemon was in the ring");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_end_with_the_patience() {
        let mut pauses = Pauses::new(Duration::from_secs(60));
        let mut all = Vec::new();
        while let Some(pause) = pauses.next(all.last().copied().unwrap_or_default()) {
            all.push(pause);
        }
        assert_eq!(all[..4], [250, 500, 1000, 2000].map(Duration::from_millis));
        assert!(all.iter().all(|pause| *pause <= LONGEST_PAUSE));
        assert_eq!(all.iter().sum::<Duration>(), Duration::from_secs(60));
        assert_eq!(Pauses::new(Duration::ZERO).next(Duration::ZERO), None);
    }

    #[test]
    fn a_port_that_accepts_is_reached_and_another_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed: SocketAddr = "127.0.0.1:1".parse().unwrap();
        assert!(reach(&[closed, open]).is_ok());
        let problem = reach(&[closed]).unwrap_err().to_string();
        assert!(problem.starts_with("127.0.0.1:1: "), "{problem}");
        assert!(reach(&[]).is_err());
    }
}
