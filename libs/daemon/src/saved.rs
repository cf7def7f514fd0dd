//! The saved ring. A daemon that is started again reads its port, its ring and the other members from it. So parts
//! of a ring whose daemons all ended can meet again (R5). Members of the earlier daemon that have not appeared
//! since stay in the file. The next daemon may look for them without success, but they are not lost.

use std::collections::BTreeSet;
use std::time::Duration;

use mpd_ring::{Ring, Seed};
use mpd_sansio::Time;
use mpd_wire::{Address, DaemonName, MAX_MEMBERS, Standing};
use serde::{Deserialize, Serialize};

/// The time from one writing to the next. The first change is written at once, so that a daemon that dies right
/// after it entered finds the ring again.
const PAUSE: Duration = Duration::from_secs(1);

/// The record of the ring.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RingImage {
    ring: String,
    name: String,
    port: u16,
    members: Vec<Member>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Member {
    name: String,
    ordinal: u64,
    addresses: Vec<Address>,
}

/// The saved data of an earlier daemon.
#[derive(Debug, Default)]
pub struct Before {
    pub port: Option<u16>,
    /// The addresses of the other members.
    entries: Vec<Address>,
    /// The same with the ordinals of the members.
    seeds: Vec<Seed>,
    /// The names of the other members.
    pub names: BTreeSet<DaemonName>,
}

/// What is saved, and when.
#[derive(Debug)]
pub struct Saved {
    ring: String,
    /// The port of this daemon.
    port: u16,
    /// The members that the earlier daemon knew.
    former: Vec<Member>,
    /// The revision of the written list.
    revision: Option<u64>,
    written: Option<Time>,
    write_at: Option<Time>,
    forgotten: bool,
}

impl Saved {
    /// The record of the earlier daemon, which is used only for the same ring and daemon.
    pub fn new(image: Option<RingImage>, ring: &str, name: &str) -> (Self, Before) {
        let image = image.filter(|image| image.ring == ring && image.name == name);
        let before = image.as_ref().map_or_else(Before::default, |image| image.before(name));
        let former = image.map(|image| image.members).unwrap_or_default();
        let ring = ring.to_owned();
        let (revision, written, write_at) = (None, None, None);
        (Self { ring, port: 0, former, revision, written, write_at, forgotten: false }, before)
    }

    /// Sets the port of this daemon.
    pub const fn set_port(&mut self, port: u16) {
        self.port = port;
    }

    /// The daemons through which to enter: those that the user has `named`, else those of the earlier ring. A daemon that
    /// waits for the list of members needs none.
    pub fn entries(
        &mut self,
        waits: bool,
        named: &[Address],
        before: &mut Before,
    ) -> (Vec<Address>, Vec<Seed>) {
        if !waits && named.is_empty() {
            return (std::mem::take(&mut before.entries), std::mem::take(&mut before.seeds));
        }
        self.former.clear();
        (if waits { Vec::new() } else { named.to_vec() }, Vec::new())
    }

    pub(crate) const fn next_deadline(&self) -> Option<Time> {
        self.write_at
    }

    /// The record to write after a change, at most once a second. Must be called only in the ring; before that, the
    /// data of the earlier daemon are better.
    pub(crate) fn turn(&mut self, now: Time, ring: &Ring) -> Option<Vec<u8>> {
        if self.revision != Some(ring.revision()) && self.write_at.is_none() {
            self.write_at = Some(self.written.map_or(now, |at| now.max(at + PAUSE)));
        }
        self.write_at.filter(|at| *at <= now)?;
        self.take(now, ring)
    }

    /// The record to write, unless it is already written.
    pub(crate) fn take(&mut self, now: Time, ring: &Ring) -> Option<Vec<u8>> {
        if self.forgotten || self.revision == Some(ring.revision()) {
            return None;
        }
        self.write_at = None;
        self.written = Some(now);
        self.revision = Some(ring.revision());
        let image = RingImage::of(ring, &self.ring, self.port, &self.former);
        // Our own structs serialise; see frame::encode_message.
        Some(serde_json::to_vec(&image).expect("a list serialises"))
    }

    /// Whether this daemon leaves for good.
    pub(crate) const fn is_forgotten(&self) -> bool {
        self.forgotten
    }

    /// This daemon leaves for good, and writes no record any more.
    pub(crate) const fn forget(&mut self) {
        self.forgotten = true;
        self.write_at = None;
    }
}

impl RingImage {
    fn of(ring: &Ring, ring_name: &str, port: u16, former: &[Member]) -> Self {
        let present = ring.records().filter(|r| r.standing != Standing::Departed);
        let member = |r: &mpd_wire::Record| Member {
            name: r.name.to_string(),
            ordinal: r.ordinal,
            addresses: r.addresses.clone(),
        };
        let known =
            |name: &str| DaemonName::new(name).is_ok_and(|name| ring.record(&name).is_some());
        let absent = former.iter().filter(|member| !known(&member.name));
        Self {
            ring: ring_name.to_owned(),
            name: ring.name().to_string(),
            port,
            members: present.map(member).chain(absent.cloned()).take(MAX_MEMBERS).collect(),
        }
    }

    fn before(&self, name: &str) -> Before {
        let others = self.members.iter().filter(|m| m.name != name);
        let mut before = Before { port: Some(self.port), ..Before::default() };
        for other in others {
            before.names.extend(DaemonName::new(&other.name));
            for address in &other.addresses {
                before.seeds.push(Seed { ordinal: other.ordinal, address: address.clone() });
                before.entries.push(address.clone());
            }
        }
        before
    }
}
