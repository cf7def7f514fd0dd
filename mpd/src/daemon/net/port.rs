//! The daemon's TCP port: where it listens, and under which addresses others reach it.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

use anyhow::{Context, Result};
use mpd_io::{addresses, tcp};
use mpd_machine::Time;
use mpd_wire::{Address, MAX_ADDRESSES};

use crate::daemon::door::Door;

/// More addresses than these are not learned: the oldest gives way.
const MAX_LEARNED: usize = 2;

/// What an address is worth under which a peer sees us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It is known, or of no use to others.
    Nothing,
    /// An interface of this host has it.
    Own(IpAddr),
    /// Somebody translates addresses on the way, or the peer lies: only a connection there can tell.
    Foreign(SocketAddr),
}

/// A listening port.
#[derive(Debug)]
pub(crate) struct Port {
    listener: TcpListener,
    number: u16,
    /// The one interface that the user chose.
    only: Option<IpAddr>,
    own: Vec<IpAddr>,
    /// Under which others see us, the newest first.
    learned: Vec<IpAddr>,
    door: Door,
}

/// What the user, or the daemon before us, wants of the port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    /// `--port`: this one or none.
    pub(crate) number: Option<u16>,
    /// The port that others may remember: if it is free.
    pub(crate) rather: Option<u16>,
    /// `--ifhn`.
    pub(crate) interface: Option<String>,
    /// Somebody that we shall speak to.
    pub(crate) towards: Option<SocketAddr>,
}

impl Port {
    pub(crate) fn open(wish: &Wish) -> Result<Self> {
        let only = match &wish.interface {
            Some(name) => addresses::resolve(name).context("--ifhn")?.into_iter().next(),
            None => None,
        };
        let listener = listen(only, wish)?;
        listener.set_nonblocking(true)?;
        let number = listener.local_addr()?.port();
        let mut own: Vec<IpAddr> = only.into_iter().collect();
        if own.is_empty() {
            own.extend(wish.towards.and_then(addresses::towards));
            own.extend(addresses::own());
            let mut seen = std::collections::BTreeSet::new();
            own.retain(|address| seen.insert(*address));
            own.truncate(MAX_ADDRESSES / 2);
        }
        let (learned, door) = (Vec::new(), Door::new("connection"));
        Ok(Self { listener, number, only, own, learned, door })
    }

    pub(crate) const fn number(&self) -> u16 {
        self.number
    }

    /// The address that our own connections start from, if it matters.
    pub(crate) const fn source(&self) -> Option<IpAddr> {
        self.only
    }

    pub(crate) const fn door(&self) -> &Door {
        &self.door
    }

    pub(crate) const fn door_mut(&mut self) -> &mut Door {
        &mut self.door
    }

    /// The next connection that waits.
    pub(crate) fn accept(&mut self, now: Time) -> Option<(TcpStream, SocketAddr)> {
        self.door.next(now, || self.listener.accept())
    }

    /// Whether a connection to `address` would come back here.
    pub(crate) fn is_own(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let here = self.own.contains(&ip)
            || self.learned.contains(&ip)
            || (self.only.is_none() && ip.is_loopback());
        address.port() == self.number && here
    }

    /// Where others reach us, the best first.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        let text = |ip: &IpAddr| Address::new(&SocketAddr::new(*ip, self.number).to_string());
        self.learned.iter().chain(&self.own).filter_map(|ip| text(ip).ok()).collect()
    }

    /// A peer sees us under `seen`: whether that would be a new address of ours, and how sure it is.
    pub(crate) fn judge(&self, seen: IpAddr) -> Seen {
        let seen = seen.to_canonical();
        let is_known = self.own.contains(&seen) || self.learned.contains(&seen);
        if self.only.is_some() || is_known || !addresses::is_reachable(&seen) {
            return Seen::Nothing;
        }
        let here = addresses::interfaces().iter().any(|(_, own)| own.to_canonical() == seen);
        if here { Seen::Own(seen) } else { Seen::Foreign(SocketAddr::new(seen, self.number)) }
    }

    /// This address leads here: it becomes our best one.
    pub(crate) fn learn(&mut self, address: IpAddr) -> bool {
        if self.learned.contains(&address) {
            return false;
        }
        self.learned.insert(0, address);
        self.learned.truncate(MAX_LEARNED);
        true
    }
}

impl AsRawFd for Port {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}

fn listen(only: Option<IpAddr>, wish: &Wish) -> Result<TcpListener> {
    let at = |number: u16| match only {
        Some(address) => format!("{address} port {number}"),
        None => format!("port {number}"),
    };
    if let Some(number) = wish.number {
        return tcp::listen(only, number).map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse => anyhow::anyhow!(
                "{} is taken by another program on this host; choose another with --port",
                at(number)
            ),
            io::ErrorKind::AddrNotAvailable => anyhow::anyhow!(
                "{} is not an address of this host; choose one with --ifhn",
                only.map(|a| a.to_string()).unwrap_or_default()
            ),
            _ => anyhow::anyhow!("cannot listen on {}: {e}", at(number)),
        });
    }
    let remembered = wish.rather.and_then(|number| tcp::listen(only, number).ok());
    match remembered {
        Some(listener) => Ok(listener),
        None => tcp::listen(only, 0).map_err(|e| match (e.kind(), only) {
            (io::ErrorKind::AddrNotAvailable, Some(address)) => {
                anyhow::anyhow!("{address} is not an address of this host (--ifhn)")
            }
            _ => anyhow::anyhow!("cannot listen on a port: {e}"),
        }),
    }
}
