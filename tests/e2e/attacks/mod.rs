//! Attacks by processes that can reach a daemon's port, its socket or its files. The letters and numbers are
//! those of docs/GUARANTEES.md.

mod budgets;
mod channel;
mod floods;
mod launches;
mod leftovers;
mod names;
mod outsiders;
mod pmix_port;
mod secrets;

use std::net::SocketAddr;

use mpd_wire::message::{RingMessage, RingRequest};
use mpd_wire::{DaemonName, Instance, Record, Standing};

use crate::attacker::{Claim, Guest, JOIN, encoded, key_in};
use crate::members::Members;
use crate::naive::Bytes32;
use crate::process::Process;

/// A ring with the facts that an attacker knows about it.
struct Target {
    ring: Members,
    key: Bytes32,
    claims: u32,
}

impl Target {
    fn of(count: usize) -> Self {
        Self::ring(Members::of(count))
    }

    fn ring(ring: Members) -> Self {
        let key = key_in(&ring.suite.path("home/key"));
        Self { ring, key, claims: 0 }
    }

    /// The address of the first daemon's listener.
    fn port_address(&self) -> SocketAddr {
        self.ring.member(1).address
    }

    fn daemon(&self) -> Process {
        self.ring.process(1)
    }

    /// A claim with a new instance, except after 256 claims.
    fn claim(&mut self, purpose: u8) -> Claim {
        self.claims += 2;
        let mut claim = Claim::new(self.key, purpose, self.claims.to_le_bytes()[0]);
        // The daemon does not answer a hello that it has received before.
        claim.hello.nonce[..4].copy_from_slice(&self.claims.to_le_bytes());
        claim
    }

    fn guest(&mut self) -> Guest {
        let claim = self.claim(JOIN);
        Guest::enter(self.port_address(), &claim, "guest", "")
    }

    /// Whether the first daemon ever read a record of an invented member: it logs this at the end of the link.
    fn has_read_ghosts(&self) -> bool {
        self.clean_log().contains("refused records from guest")
    }

    /// The first daemon's log, after a check that no byte in it could drive a terminal or forge a line.
    fn clean_log(&self) -> String {
        let log = self.ring.log(1);
        let raw = log.chars().find(|c| c.is_control() && *c != '\n');
        assert!(raw.is_none(), "{raw:?} in the log: {log:?}");
        log
    }
}

/// A record of an invented member.
fn ghost() -> Vec<u8> {
    let record = Record {
        name: DaemonName::new("ghost").expect("a name"),
        incarnation: 1,
        standing: Standing::Dead,
        instance: Instance::from_bytes([9; 16]),
        position: 77,
        ordinal: 77,
        ncpus: 1,
        draining: false,
        addresses: Vec::new(),
        by: None,
        age_s: 0,
    };
    encoded(&RingMessage::update(vec![record]))
}

fn ping(to: SocketAddr) -> RingRequest {
    RingRequest::Ping { target: to.to_string() }
}

fn pulse() -> Vec<u8> {
    encoded(&RingMessage::Pulse { digest: 1 })
}
