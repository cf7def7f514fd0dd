//! The daemon's TCP port: the listening socket, and the addresses under which others reach it.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

use anyhow::{Context, Result};
use mpd_io::network::addresses;
use mpd_io::network::tcp;
use mpd_sansio::Time;
use mpd_wire::{Address, MAX_ADDRESSES};

use crate::daemon::acceptor::Acceptor;

/// Most learned addresses; a new one replaces the oldest.
const MAX_LEARNED: usize = 2;

/// The value of an address under which a peer sees us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The address is known, or useless to others.
    Nothing,
    /// An interface of this host has the address.
    Own(IpAddr),
    /// A device on the way translates addresses, or the peer lies. A connection to the address decides.
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
    /// Addresses under which others see us, the newest first.
    learned: Vec<IpAddr>,
    acceptor: Acceptor,
}

/// What the user, or the earlier daemon, requires of the port.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortOptions {
    /// `--port`: the only port to use.
    pub(crate) number: Option<u16>,
    /// The port that others may remember; used if it is free.
    pub(crate) preferred: Option<u16>,
    /// `--ifhn`.
    pub(crate) interface: Option<String>,
    /// The address of a daemon to which this one will connect.
    pub(crate) towards: Option<SocketAddr>,
}

impl Port {
    pub(crate) fn open(options: &PortOptions) -> Result<Self> {
        let only = match &options.interface {
            Some(name) => addresses::resolve(name).context("--ifhn")?.into_iter().next(),
            None => None,
        };
        let listener = listen(only, options)?;
        listener.set_nonblocking(true)?;
        let number = listener.local_addr()?.port();
        let mut own: Vec<IpAddr> = only.into_iter().collect();
        if own.is_empty() {
            own.extend(options.towards.and_then(addresses::towards));
            own.extend(addresses::own());
            let mut seen = std::collections::BTreeSet::new();
            own.retain(|address| seen.insert(*address));
            own.truncate(MAX_ADDRESSES / 2);
        }
        let (learned, acceptor) = (Vec::new(), Acceptor::new("connection"));
        Ok(Self { listener, number, only, own, learned, acceptor })
    }

    pub(crate) const fn number(&self) -> u16 {
        self.number
    }

    /// The address from which our own connections start, if the user chose an interface.
    pub(crate) const fn source(&self) -> Option<IpAddr> {
        self.only
    }

    pub(crate) const fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    pub(crate) const fn acceptor_mut(&mut self) -> &mut Acceptor {
        &mut self.acceptor
    }

    /// The next waiting connection.
    pub(crate) fn accept(&mut self, now: Time) -> Option<(TcpStream, SocketAddr)> {
        self.acceptor.next(now, || self.listener.accept())
    }

    /// Whether a connection to `address` would reach this daemon.
    pub(crate) fn is_own(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let here = self.own.contains(&ip)
            || self.learned.contains(&ip)
            || (self.only.is_none() && ip.is_loopback());
        address.port() == self.number && here
    }

    /// The addresses under which others reach us, the best first.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        let text = |ip: &IpAddr| Address::new(&SocketAddr::new(*ip, self.number).to_string());
        self.learned.iter().chain(&self.own).filter_map(|ip| text(ip).ok()).collect()
    }

    /// Judges an address under which a peer sees us.
    pub(crate) fn judge(&self, seen: IpAddr) -> Seen {
        let seen = seen.to_canonical();
        let is_known = self.own.contains(&seen) || self.learned.contains(&seen);
        if self.only.is_some() || is_known || !addresses::is_reachable(&seen) {
            return Seen::Nothing;
        }
        let here = addresses::interfaces().iter().any(|(_, own)| own.to_canonical() == seen);
        if here { Seen::Own(seen) } else { Seen::Foreign(SocketAddr::new(seen, self.number)) }
    }

    /// Adds an address that leads here as our best one. `false` if it is known.
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

fn listen(only: Option<IpAddr>, options: &PortOptions) -> Result<TcpListener> {
    let at = |number: u16| match only {
        Some(address) => format!("{address} port {number}"),
        None => format!("port {number}"),
    };
    if let Some(number) = options.number {
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
    let remembered = options.preferred.and_then(|number| tcp::listen(only, number).ok());
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
