//! The ring on disk: a daemon that is started again finds its port, its ring and the others there, so
//! that islands that all lost their memory still meet (R5).

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpd_proto::Time;
use mpd_proto::ring::{Address, Ring, Seed, Standing};
use serde::{Deserialize, Serialize};

/// Changes are gathered for that long before they are written.
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

#[derive(Debug, Serialize, Deserialize)]
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
    /// Of the list as it was written.
    revision: Option<u64>,
    write_at: Option<Time>,
    forgotten: bool,
}

impl Saved {
    /// The file of this run directory, and what is in it if it is about this ring and daemon.
    pub(super) fn open(rundir: &mpd_io::rundir::RunDir, ring: &str, name: &str) -> (Self, Before) {
        let path = rundir.path().join("ring.json");
        let before = read(&path)
            .filter(|image| image.ring == ring && image.name == name)
            .map_or_else(Before::default, |image| image.before(name));
        let ring = ring.to_owned();
        (Self { path, ring, revision: None, write_at: None, forgotten: false }, before)
    }

    pub(super) const fn next_deadline(&self) -> Option<Time> {
        self.write_at
    }

    /// Writes the ring if it changed a while ago.
    pub(super) fn turn(&mut self, now: Time, ring: &Ring, port: u16) {
        if self.forgotten {
            return;
        }
        if self.revision != Some(ring.revision()) && self.write_at.is_none() {
            self.write_at = Some(now + PAUSE);
        }
        if self.write_at.is_some_and(|at| at <= now) {
            self.write_at = None;
            self.revision = Some(ring.revision());
            let image = Image::of(ring, &self.ring, port);
            if let Err(e) = write(&self.path, &image) {
                log::warn!("cannot write {}: {e}", self.path.display());
            }
            // Many who entered at once left their traces.
            mpd_io::trim_memory();
        }
    }

    /// This daemon leaves for good: nobody is to be looked for.
    pub(super) fn forget(&mut self) {
        self.forgotten = true;
        self.write_at = None;
        let _ = fs::remove_file(&self.path);
    }
}

impl Image {
    fn of(ring: &Ring, ring_name: &str, port: u16) -> Self {
        let there = ring.records().filter(|r| r.standing != Standing::Departed);
        let member = |r: &mpd_proto::ring::Record| Member {
            name: r.name.to_string(),
            ordinal: r.ordinal,
            addresses: r.addresses.clone(),
        };
        Self {
            ring: ring_name.to_owned(),
            name: ring.name().to_string(),
            port,
            members: there.map(member).collect(),
        }
    }

    fn before(self, name: &str) -> Before {
        let others = self.members.into_iter().filter(|m| m.name != name);
        let mut before = Before { port: Some(self.port), ..Before::default() };
        for other in others {
            for address in other.addresses {
                before.seeds.push(Seed { ordinal: other.ordinal, address: address.clone() });
                before.entries.push(address);
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

/// Whole or not at all: a daemon may be killed at any time.
fn write(path: &Path, image: &Image) -> std::io::Result<()> {
    let temporary = path.with_extension("json.new");
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec(image)?)?;
    fs::rename(&temporary, path)
}
