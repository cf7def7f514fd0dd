//! The saved ring. A daemon that is started again reads its port, its ring and the other members from it. So parts
//! of a ring whose daemons all ended can meet again (R5). Members of the earlier daemon that have not appeared
//! since stay in the file. The next daemon may look for them without success, but they are not lost.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpd_io::keyfile::KeyFile;
use mpd_io::rundir::{self, RunDir};
use mpd_machine::Time;
use mpd_ring::{Ring, Seed};
use mpd_wire::{Address, DaemonName, MAX_MEMBERS, Standing};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The time from one writing to the next. The first change is written at once, so that a daemon that dies right
/// after it entered finds the ring again.
const PAUSE: Duration = Duration::from_secs(1);

/// Largest file that is read: [`MAX_MEMBERS`] with 8 numeric addresses each fit.
const MAX_SIZE: u64 = 16 << 20;

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

/// The saved data of an earlier daemon.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) port: Option<u16>,
    pub(super) entries: Vec<Address>,
    pub(super) seeds: Vec<Seed>,
    /// The names of the other members.
    pub(super) names: BTreeSet<DaemonName>,
}

/// The file and its content.
#[derive(Debug)]
pub(super) struct Saved {
    path: PathBuf,
    ring: String,
    /// The members that the earlier daemon knew.
    former: Vec<Member>,
    /// The revision of the written list.
    revision: Option<u64>,
    written: Option<Time>,
    write_at: Option<Time>,
    forgotten: bool,
    /// The key file, if it is of this ring alone.
    key: Option<KeyFile>,
}

impl Saved {
    /// Opens the file of this run directory. Its content is used only for the same ring and daemon.
    pub(super) fn open(rundir: &RunDir, ring: &str, name: &str) -> (Self, Before) {
        let path = rundir.path().join("ring.json");
        let image =
            read::<Image>(&path, MAX_SIZE).filter(|image| image.ring == ring && image.name == name);
        let before = image.as_ref().map_or_else(Before::default, |image| image.before(name));
        let former = image.map(|image| image.members).unwrap_or_default();
        let ring = ring.to_owned();
        let (revision, written, write_at) = (None, None, None);
        let (forgotten, key) = (false, None);
        (Self { path, ring, former, revision, written, write_at, forgotten, key }, before)
    }

    /// The ring has a key of its own, in this file.
    pub(super) fn note_key(&mut self, key: KeyFile) {
        self.key = Some(key);
    }

    /// Forgets the earlier ring, since the user named the daemons through which to enter.
    pub(super) fn forget_former(&mut self) {
        self.former.clear();
    }

    pub(super) const fn next_deadline(&self) -> Option<Time> {
        self.write_at
    }

    /// Writes the ring after a change, at most once a second. Must be called only in the ring; before that, the
    /// data of the earlier daemon are better.
    pub(super) fn turn(&mut self, now: Time, ring: &Ring, port: u16) {
        if self.revision != Some(ring.revision()) && self.write_at.is_none() {
            self.write_at = Some(self.written.map_or(now, |at| now.max(at + PAUSE)));
        }
        if self.write_at.is_some_and(|at| at <= now) {
            self.save(now, ring, port);
        }
    }

    /// Writes the ring unless it is already written.
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
        // Members that entered together leave much free memory.
        mpd_io::trim_memory();
    }

    /// Whether this daemon leaves for good.
    pub(super) const fn is_forgotten(&self) -> bool {
        self.forgotten
    }

    /// Removes the file: this daemon leaves for good.
    pub(super) fn forget(&mut self) {
        self.forgotten = true;
        self.write_at = None;
        let _ = fs::remove_file(&self.path);
    }

    /// Also removes the key of this ring alone: the whole ring ends, and other users know this key.
    pub(super) fn forget_with_key(&mut self) {
        self.forget();
        if let Some(Err(error)) = self.key.take().map(|key| key.remove()) {
            log::warn!("the key of this ring stays: {error}");
        }
    }
}

impl Image {
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

/// Reads a file of the run directory. An invalid file is reported and not used, nor is one with more than `max` bytes.
pub(super) fn read<T: DeserializeOwned>(path: &Path, max: u64) -> Option<T> {
    let size = fs::metadata(path).ok()?.len();
    let text = (size <= max).then(|| fs::read(path).ok())??;
    match serde_json::from_slice(&text) {
        Ok(image) => Some(image),
        Err(e) => {
            log::warn!("{}: {e}; not used", path.display());
            None
        }
    }
}
