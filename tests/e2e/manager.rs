//! A manager played by the test: it registers for a job that a daemon found on disk.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::net::UnixStream;

use mpd_io::network::conn::Conn;
use mpd_io::ring::rundir::RunDir;
use mpd_leftovers::record::JobRecord;
use mpd_wire::job::{Cookie, JobKey};
use mpd_wire::message::{ManagerOrder, Opening, VERSION};
use mpd_wire::{Instance, JobId, frame};

use crate::members::{Member, Members};

pub(crate) const MANAGER: [u8; 16] = [5; 16];
pub(crate) const KEY: [u8; 32] = [6; 32];
const COOKIE: Cookie = Cookie::from_bytes([7; 16]);

/// A daemon with a job of an earlier daemon whose manager has not registered yet.
pub(crate) struct Orphaned {
    pub(crate) ring: Members,
    pub(crate) member: Member,
    pub(crate) job: JobId,
    tree_index: u32,
    /// The manager counts as living while this file is locked.
    _record: File,
}

impl Orphaned {
    /// Prepares a job whose manager at `tree_index` is this test.
    pub(crate) fn new(job: &str, tree_index: u32) -> Self {
        let ring = Members::new();
        let rundir = RunDir::at(ring.rundir(1));
        rundir.prepare().expect("a run directory");
        let job: JobId = job.parse().expect("an id");
        let record = JobRecord { job: job.clone(), cookie: COOKIE, tree_index, cgroup: None };
        let mut file = File::create(rundir.record(&job)).expect("a record");
        file.write_all(&serde_json::to_vec(&record).expect("JSON")).expect("a record");
        file.lock().expect("a lock");
        let member = ring.start(1);
        Self { ring, member, job, tree_index, _record: file }
    }

    /// The connection of the manager after it has registered.
    pub(crate) fn register(&self) -> Conn {
        let socket = RunDir::at(self.ring.rundir(1)).socket();
        let stream = UnixStream::connect(socket).expect("a daemon");
        let mut conn = Conn::new(stream);
        conn.send(&Opening::Register {
            version: VERSION,
            job: self.job.clone(),
            cookie: COOKIE,
            tree_index: self.tree_index,
            manager: Instance::from_bytes(MANAGER),
            key: JobKey::from_bytes(KEY),
        });
        conn.flush().expect("it accepts a message");
        conn
    }
}

impl Drop for Orphaned {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(RunDir::at(self.ring.rundir(1)).record(&self.job));
    }
}

/// The next order from the daemon.
pub(crate) fn order(manager: &mut Conn) -> ManagerOrder {
    loop {
        if let Some((_, payload)) = manager.next_frame().expect("frames") {
            return frame::decode_message(payload).expect("an order");
        }
        assert_ne!(manager.wait(30_000).expect("a daemon"), None, "no order came");
    }
}
