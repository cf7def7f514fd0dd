//! Job links: connections between managers by way of a daemon's port. The manager here is this test,
//! which registers for a job that the daemon finds on disk.

use std::fs::File;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use mpd_io::conn::{Conn, Filled};
use mpd_io::rundir::RunDir;
use mpd_proto::JobId;
use mpd_proto::frame;
use mpd_proto::job::JobKey;
use mpd_proto::message::{JobRecord, ManagerOrder, Opening, VERSION};
use mpd_proto::ring::Instance;

use crate::attacker::{Claim, JOB_LINK, M2, connect, key_in, rest};
use crate::members::{Member, Members};

const MANAGER: [u8; 16] = [5; 16];
const KEY: [u8; 32] = [6; 32];
const COOKIE: &str = "0123456789abcdef0123456789abcdef-1";

/// A daemon with a job of a former one whose manager has not registered yet.
struct Orphaned {
    ring: Members,
    member: Member,
    job: JobId,
    /// As long as it is locked the manager lives.
    _record: File,
}

impl Orphaned {
    fn new() -> Self {
        let ring = Members::new();
        let rundir = RunDir::at(ring.rundir(1));
        rundir.prepare().expect("a run directory");
        let job: JobId = "7@elsewhere".parse().expect("an id");
        let record = JobRecord {
            job: job.clone(),
            cookie: COOKIE.to_owned(),
            cgroup: None,
            tmpdir: ring.suite.path("tmp/none").display().to_string(),
        };
        let mut file = File::create(rundir.record(&job)).expect("a record");
        file.write_all(&serde_json::to_vec(&record).expect("JSON")).expect("a record");
        file.lock().expect("a lock");
        let member = ring.start(1);
        Self { ring, member, job, _record: file }
    }

    /// The manager, as it registers.
    fn register(&self) -> Conn {
        let socket = RunDir::at(self.ring.rundir(1)).socket();
        let stream = UnixStream::connect(socket).expect("a daemon");
        let mut conn = Conn::new(stream).expect("a connection");
        conn.send(&Opening::Register {
            version: VERSION,
            job: self.job.clone(),
            cookie: COOKIE.to_owned(),
            place: 1,
            manager: Instance::from_bytes(MANAGER),
            key: JobKey::from_bytes(KEY),
        });
        conn.flush().expect("it takes a word");
        conn
    }

    /// A job link to the manager of this instance, its hello sent.
    fn link(&self, key: [u8; 32], manager: [u8; 16]) -> TcpStream {
        let mut claim = Claim::new(key, JOB_LINK, 3);
        claim.hello.to = manager;
        let mut stream = connect(self.member.address);
        stream.write_all(&claim.m1()).expect("it listens");
        stream
    }
}

impl Drop for Orphaned {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(RunDir::at(self.ring.rundir(1)).record(&self.job));
    }
}

/// Waits for a link; its hello, and the connection.
fn passed(manager: &mut Conn) -> (Vec<u8>, TcpStream) {
    loop {
        let Some((_, payload)) = manager.next_frame().expect("frames") else {
            assert_ne!(manager.wait(30_000).expect("a daemon"), None, "no link came");
            continue;
        };
        let Ok(ManagerOrder::Link { hello }) = frame::decode_message(payload) else {
            panic!("not a link: {}", String::from_utf8_lossy(payload));
        };
        let byte = |i: usize| u8::from_str_radix(&hello[2 * i..2 * i + 2], 16).expect("digits");
        let hello = (0..hello.len() / 2).map(byte).collect();
        let stream = manager.take_descriptor().expect("its connection");
        return (hello, stream.into());
    }
}

#[test]
fn a_job_link_reaches_its_manager_with_its_hello_and_nothing_else() {
    let host = Orphaned::new();
    let mut manager = host.register();
    let mut far = host.link(KEY, MANAGER);
    let (hello, mut near) = passed(&mut manager);
    let mut claim = Claim::new(KEY, JOB_LINK, 3);
    claim.hello.to = MANAGER;
    assert_eq!(hello, claim.m1());
    near.write_all(&[7; M2]).expect("it is open");
    drop(near);
    assert_eq!(rest(&mut far), [7; M2], "the daemon has neither spoken nor closed");
}

#[test]
fn a_job_link_waits_for_its_manager_to_register() {
    let host = Orphaned::new();
    let links = [host.link(KEY, MANAGER), host.link(KEY, MANAGER), host.link(KEY, MANAGER)];
    host.ring.lap(1);
    let mut manager = host.register();
    for _ in &links {
        passed(&mut manager);
    }
}

#[test]
fn a_job_link_with_another_key_gets_no_byte_and_its_manager_hears_nothing() {
    let host = Orphaned::new();
    let mut manager = host.register();
    assert!(rest(&mut host.link([9; 32], MANAGER)).is_empty());
    let ring_key = key_in(&host.ring.suite.path("home/key"));
    assert!(rest(&mut host.link(ring_key, MANAGER)).is_empty(), "the ring's key is another one");
    assert_eq!(manager.fill().expect("a daemon"), Filled::Empty);
}

#[test]
fn a_job_link_for_a_manager_that_never_comes_is_closed_without_a_byte() {
    let host = Orphaned::new();
    let mut waiting = [host.link(KEY, [4; 16]), host.link(KEY, MANAGER)];
    for link in &mut waiting {
        assert!(rest(link).is_empty());
    }
}
