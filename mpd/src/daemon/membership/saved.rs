//! The ring on disk: a daemon that is started again finds its port, its ring and the others there, so
//! that islands that all lost their memory still meet (R5). Whoever stood there and was not heard of
//! since stays there: it may be looked for by the next daemon in vain, but is not lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpd_io::rundir::{self, RunDir};
use mpd_machine::Time;
use mpd_ring::{Ring, Seed};
use mpd_wire::{Address, DaemonName, MAX_MEMBERS, Standing};
use serde::{Deserialize, Serialize};

/// From one writing to the next. The first change is written at once: who dies right after it entered
/// is to be found again.
const PAUSE: Duration = Duration::from_secs(1);

/// Largest file that is read: 8192 members with 8 addresses each fit.
const MAX_SIZE: u64 = 8 << 20;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    ring: String,
    name: String,
    port: u16,
    members: Vec<Member>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    name: String,
    ordinal: u64,
    addresses: Vec<Address>,
}

/// What a former daemon left.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) port: Option<u16>,
    pub(super) entries: Vec<Address>,
    pub(super) seeds: Vec<Seed>,
}

/// The file, and what it has of the ring.
#[derive(Debug)]
pub(super) struct Saved {
    path: PathBuf,
    ring: String,
    /// Those whom the daemon before knew.
    former: Vec<Member>,
    /// Of the list as it was written.
    revision: Option<u64>,
    written: Option<Time>,
    write_at: Option<Time>,
    forgotten: bool,
}

impl Saved {
    /// The file of this run directory, and what is in it if it is about this ring and daemon.
    pub(super) fn open(rundir: &RunDir, ring: &str, name: &str) -> (Self, Before) {
        let path = rundir.path().join("ring.json");
        let image = read(&path).filter(|image| image.ring == ring && image.name == name);
        let before = image.as_ref().map_or_else(Before::default, |image| image.before(name));
        let former = image.map(|image| image.members).unwrap_or_default();
        let ring = ring.to_owned();
        let (revision, written, write_at) = (None, None, None);
        (Self { path, ring, former, revision, written, write_at, forgotten: false }, before)
    }

    /// The user said where to enter: the ring before does not matter.
    pub(super) fn forget_former(&mut self) {
        self.former.clear();
    }

    pub(super) const fn next_deadline(&self) -> Option<Time> {
        self.write_at
    }

    /// Writes the ring if it changed, not too often. For one that is in the ring: until then what the
    /// daemon before knew is better.
    pub(super) fn turn(&mut self, now: Time, ring: &Ring, port: u16) {
        if self.revision != Some(ring.revision()) && self.write_at.is_none() {
            self.write_at = Some(self.written.map_or(now, |at| now.max(at + PAUSE)));
        }
        if self.write_at.is_some_and(|at| at <= now) {
            self.save(now, ring, port);
        }
    }

    /// Writes the ring unless it is written already.
    pub(super) fn save(&mut self, now: Time, ring: &Ring, port: u16) {
        if self.forgotten || self.revision == Some(ring.revision()) {
            return;
        }
        self.write_at = None;
        self.written = Some(now);
        self.revision = Some(ring.revision());
        let image = Image::of(ring, &self.ring, port, &self.former);
        let text = serde_json::to_vec(&image).expect("a list serialises");
        if let Err(e) = rundir::replace(&self.path, &text) {
            log::warn!("cannot write {}: {e}", self.path.display());
        }
        // Many who entered at once left their traces.
        mpd_io::trim_memory();
    }

    /// This daemon leaves for good: nobody is to be looked for.
    pub(super) fn forget(&mut self) {
        self.forgotten = true;
        self.write_at = None;
        let _ = fs::remove_file(&self.path);
    }
}

impl Image {
    fn of(ring: &Ring, ring_name: &str, port: u16, former: &[Member]) -> Self {
        let there = ring.records().filter(|r| r.standing != Standing::Departed);
        let member = |r: &mpd_wire::Record| Member {
            name: r.name.to_string(),
            ordinal: r.ordinal,
            addresses: r.addresses.clone(),
        };
        let known =
            |name: &str| DaemonName::new(name).is_ok_and(|name| ring.record(&name).is_some());
        let silent = former.iter().filter(|member| !known(&member.name));
        Self {
            ring: ring_name.to_owned(),
            name: ring.name().to_string(),
            port,
            members: there.map(member).chain(silent.cloned()).take(MAX_MEMBERS).collect(),
        }
    }

    fn before(&self, name: &str) -> Before {
        let others = self.members.iter().filter(|m| m.name != name);
        let mut before = Before { port: Some(self.port), ..Before::default() };
        for other in others {
            for address in &other.addresses {
                before.seeds.push(Seed { ordinal: other.ordinal, address: address.clone() });
                before.entries.push(address.clone());
            }
        }
        before
    }
}

fn read(path: &Path) -> Option<Image> {
    let size = fs::metadata(path).ok()?.len();
    let text = (size <= MAX_SIZE).then(|| fs::read(path).ok())??;
    match serde_json::from_slice(&text) {
        Ok(image) => Some(image),
        Err(e) => {
            log::warn!("{}: {e}; not used", path.display());
            None
        }
    }
}
