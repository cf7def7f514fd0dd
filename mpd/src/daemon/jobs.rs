//! The jobs of this host: their ids, their managers, and what happens when a manager is gone.
//!
//! A manager that says `ended` left nothing. One that dies without a word leaves orphans: they become
//! our children, since we are the next subreaper up, and are killed until none is left. An adopted
//! manager (started by a former daemon) is no child of ours; what it leaves is found by control group
//! or cookie, by a helper process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use mpd_io::cgroup::Cgroup;
use mpd_io::conn::Conn;
use mpd_io::rundir::RunDir;
use mpd_io::spawn::{Spawn, own_environment};
use mpd_io::tree::{self, Dead};
use mpd_proto::frame::Kind;
use mpd_proto::job::{JobKey, JobSpec, Shares};
use mpd_proto::message::{ConsoleReply, JobRecord, JobSummary, ManagerOrder, StartJob};
use mpd_proto::ring::{DaemonName, Instance};
use mpd_proto::{JobId, Time};
use nix::unistd::Pid;

use crate::daemon::peers::Peers;

/// How often managers of a former daemon that have not registered are looked for: they try every second.
const ADOPTION_INTERVAL: Duration = Duration::from_secs(1);

/// Between two looks at orphans that are being killed.
const KILL_INTERVAL: Duration = Duration::from_millis(2);

/// A job as its console submitted it.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) spec: JobSpec,
    pub(crate) encoded: Vec<u8>,
    pub(crate) outputs: [OwnedFd; 2],
}

#[derive(Debug)]
struct Job {
    record: JobRecord,
    /// Unknown for a job of a former daemon whose manager has not registered yet.
    manager: Option<Pid>,
    /// Whether the manager is our child, so that its orphans come to us.
    ours: bool,
    ended: bool,
}

/// The table of jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    name: String,
    host: String,
    rundir: Option<RunDir>,
    jobs: BTreeMap<u64, Job>,
    last: u64,
    /// Processes of ours that are no managers: they sweep, or start lost members.
    helpers: BTreeSet<Pid>,
    /// Orphans of a dead manager are being killed.
    killing: Option<Time>,
    /// When to look again whether managers that have not registered live.
    next_look: Option<Time>,
}

impl Jobs {
    pub(crate) fn new(name: &str, host: &str, rundir: Option<RunDir>) -> Self {
        Self {
            name: name.to_owned(),
            host: host.to_owned(),
            rundir,
            jobs: BTreeMap::new(),
            last: 0,
            helpers: BTreeSet::new(),
            killing: None,
            next_look: None,
        }
    }

    /// Whether no job, helper or orphan is left.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.helpers.is_empty() && self.killing.is_none()
    }

    /// A process of ours that is to be left alone, and reaped.
    pub(crate) fn add_helper(&mut self, pid: Pid) {
        self.helpers.insert(pid);
    }

    /// Whether it still runs.
    pub(crate) fn is_helper(&self, pid: Pid) -> bool {
        self.helpers.contains(&pid)
    }

    /// Jobs that have a manager here, or had one that is being cleaned up after.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.jobs.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn status(&self) -> ConsoleReply {
        let summary = |job: &Job| JobSummary {
            job: job.record.job.clone(),
            manager: job.manager.map_or(0, |pid| pid.as_raw().unsigned_abs()),
        };
        ConsoleReply::Status {
            name: self.name.clone(),
            pid: std::process::id(),
            jobs: self.jobs.values().map(summary).collect(),
        }
    }

    /// Starts the manager of a new job and gives it the console. Returns our end of its socket.
    pub(crate) fn start(
        &mut self,
        console: &mut Conn,
        submission: Submission,
    ) -> Result<(Conn, u64)> {
        let number = self.last + 1;
        let cookie = mpd_io::random::hex128()?;
        let tmpdir = PathBuf::from(std::ffi::OsStr::from_bytes(&submission.spec.tmpdir));
        let cgroup = Cgroup::create(&format!("mpd-{cookie}"));
        let record = JobRecord {
            job: JobId::new(number, &self.name)?,
            cgroup: cgroup.as_ref().map(|g| g.path().display().to_string()),
            tmpdir: tmpdir.join(format!("mpd-job-{cookie}")).display().to_string(),
            cookie,
        };
        let (ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
        let mut manager = Conn::new(ours)?;
        let order = ManagerOrder::Start(Box::new(self.order(&record, &submission)?));
        let lock = self.write_record(number, &record)?;
        let started = spawn_manager(&record.job, &theirs, console, &submission.outputs, lock);
        let pid = match started {
            Ok(pid) => pid,
            Err(e) => {
                self.forget_record(number);
                cgroup.iter().for_each(|g| drop(g.remove()));
                return Err(e);
            }
        };
        self.last = number;
        log::info!("job {} started, manager {pid}", record.job);
        manager.send(&order);
        manager.send_bulk(Kind::Spec, &submission.encoded);
        if let Err(e) = manager.flush() {
            log::warn!("job {}: {e}", record.job);
        }
        let job = Job { record, manager: Some(pid), ours: true, ended: false };
        self.jobs.insert(number, job);
        Ok((manager, number))
    }

    fn order(&self, record: &JobRecord, submission: &Submission) -> Result<StartJob> {
        Ok(StartJob {
            job: record.job.clone(),
            cookie: record.cookie.clone(),
            kvsname: format!("kvs_{}", mpd_io::random::hex128()?),
            host: self.host.clone(),
            cgroup: record.cgroup.clone(),
            rundir: self.rundir.as_ref().map(|r| r.path().display().to_string()),
            tmpdir: record.tmpdir.clone(),
            key: JobKey::from_bytes(mpd_io::random::bytes()?),
            shares: Shares::alone(
                DaemonName::new(&self.name)?,
                Instance::from_bytes(mpd_io::random::bytes()?),
                submission.spec.size(),
            ),
            place: 0,
            spec_bytes: u32::try_from(submission.encoded.len())?,
        })
    }

    /// The manager of `number` says that its job is over and nothing is left.
    pub(crate) fn ended(&mut self, number: u64, code: u8) {
        if let Some(job) = self.jobs.get_mut(&number) {
            log::info!("job {} ended with {code}", job.record.job);
            job.ended = true;
        }
    }

    /// The connection of a manager closed.
    pub(crate) fn manager_closed(&mut self, number: u64) {
        // A child of ours is gone when it is reaped; an adopted one is gone now.
        if self.jobs.get(&number).is_some_and(|job| !job.ours) {
            self.forget(number);
        }
    }

    /// A manager of a former daemon registers.
    pub(crate) fn adopt(&mut self, job: &JobId, cookie: &str, pid: i32) -> Result<u64, String> {
        let number = job.number();
        match self.jobs.get_mut(&number) {
            Some(known) if known.record.job == *job && known.record.cookie == cookie => {
                log::info!("job {job} adopted, manager {pid}");
                known.manager = Some(Pid::from_raw(pid));
                Ok(number)
            }
            _ => Err(format!("job {job} is not known here")),
        }
    }

    /// Reads the records of a former daemon's jobs, and sweeps those whose manager is gone.
    pub(crate) fn adopt_records(&mut self, now: Time) {
        let Some(rundir) = &self.rundir else { return };
        for entry in fs::read_dir(rundir.jobs()).into_iter().flatten().flatten() {
            let record = fs::read(entry.path())
                .ok()
                .and_then(|bytes| serde_json::from_slice::<JobRecord>(&bytes).ok());
            let Some(record) = record else {
                log::warn!("{}: not a job record, removed", entry.path().display());
                let _ = fs::remove_file(entry.path());
                continue;
            };
            let number = record.job.number();
            self.last = self.last.max(number);
            self.jobs.insert(number, Job { record, manager: None, ours: false, ended: false });
        }
        self.look_for_managers(now);
    }

    /// Jobs whose manager has neither registered nor lives are swept.
    fn look_for_managers(&mut self, now: Time) {
        let unregistered = |(number, job): (&u64, &Job)| job.manager.is_none().then_some(*number);
        let waiting: Vec<u64> = self.jobs.iter().filter_map(unregistered).collect();
        self.next_look = (!waiting.is_empty()).then(|| now + ADOPTION_INTERVAL);
        for number in waiting {
            let path = self.record_path(number);
            let free = path.and_then(|p| File::open(p).ok()).is_none_or(|f| f.try_lock().is_ok());
            if free {
                self.forget(number);
            }
        }
    }

    /// Reaps children: managers, helpers, and orphans of managers that died.
    pub(crate) fn reap(&mut self, peers: &mut Peers, now: Time) {
        while let Dead::Child(pid) = tree::next_dead() {
            tree::reap(pid);
            if self.helpers.remove(&pid) {
                continue;
            }
            let number = self.jobs.iter().find(|(_, j)| j.manager == Some(pid)).map(|(n, _)| *n);
            if let Some(number) = number {
                // Its last word may still be unread.
                peers.drain_manager(number, self);
                peers.drop_manager(number);
                self.forget(number);
                self.killing = Some(now);
            }
        }
    }

    /// What is due: orphans to kill, managers that never registered.
    pub(crate) fn turn(&mut self, now: Time) {
        if self.killing.is_some_and(|at| at <= now) {
            self.kill_orphans(now);
        }
        if self.next_look.is_some_and(|at| at <= now) {
            self.look_for_managers(now);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        [self.killing, self.next_look].into_iter().flatten().min()
    }

    /// Our children that are neither managers nor helpers are orphans of a manager that died.
    fn kill_orphans(&mut self, now: Time) {
        let mut known: BTreeSet<Pid> = self.jobs.values().filter_map(|j| j.manager).collect();
        known.extend(&self.helpers);
        let orphans = tree::children(Pid::this()).iter().any(|pid| !known.contains(pid));
        self.killing = orphans.then(|| now + KILL_INTERVAL);
        if orphans {
            tree::kill_children(|pid| known.contains(&pid));
        }
    }

    /// The manager of a job is gone. If it did not say that all is well, what it left is removed.
    fn forget(&mut self, number: u64) {
        let Some(job) = self.jobs.remove(&number) else { return };
        if job.ended {
            self.forget_record(number);
            return;
        }
        log::warn!("job {}: its manager died; removing what it left", job.record.job);
        match spawn_sweeper(&job.record, self.record_path(number)) {
            Ok(pid) => {
                self.helpers.insert(pid);
            }
            Err(e) => log::error!("job {}: cannot remove what it left: {e:#}", job.record.job),
        }
    }

    fn record_path(&self, number: u64) -> Option<PathBuf> {
        self.rundir.as_ref().map(|rundir| rundir.record(number))
    }

    /// Writes the record of a job and locks it. The manager inherits the lock, which the kernel lifts
    /// when it is gone: so a later daemon knows whether a manager lives.
    fn write_record(&self, number: u64, record: &JobRecord) -> Result<Option<File>> {
        let Some(path) = self.record_path(number) else { return Ok(None) };
        let failed = || format!("cannot write {}", path.display());
        let mut file = File::create(&path).with_context(failed)?;
        file.write_all(&serde_json::to_vec(record)?).with_context(failed)?;
        file.try_lock().with_context(failed)?;
        Ok(Some(file))
    }

    fn forget_record(&self, number: u64) {
        if let Some(path) = self.record_path(number) {
            let _ = fs::remove_file(path);
        }
    }
}

fn null() -> Result<OwnedFd> {
    let mut options = fs::OpenOptions::new();
    Ok(options.read(true).write(true).open("/dev/null").context("cannot open /dev/null")?.into())
}

/// Descriptors of a manager: 3 the daemon, 4 the console, 5 and 6 the console's output and error, 7 the
/// locked record.
fn spawn_manager(
    job: &JobId,
    daemon: &UnixStream,
    console: &Conn,
    outputs: &[OwnedFd; 2],
    lock: Option<File>,
) -> Result<Pid> {
    let null = null()?;
    let lock_fd = lock.as_ref().map_or(null.as_fd(), |lock| lock.as_fd());
    let argv =
        [b"mpdman".to_vec(), b"--manager".to_vec(), b"--name".to_vec(), job.to_string().into()];
    let spawn = Spawn::new(b"/proc/self/exe", argv, own_environment())?;
    let stderr = std::io::stderr();
    let descriptors = [
        null.as_fd(),
        null.as_fd(),
        stderr.as_fd(),
        daemon.as_fd(),
        console.as_fd(),
        outputs[0].as_fd(),
        outputs[1].as_fd(),
        lock_fd,
    ];
    spawn.start(&descriptors, &[], None).context("cannot start a manager")
}

fn spawn_sweeper(record: &JobRecord, file: Option<PathBuf>) -> Result<Pid> {
    let null = null()?;
    let record = serde_json::to_vec(record)?;
    let mut argv = vec![b"mpd".to_vec(), b"--sweep".to_vec(), record];
    if let Some(file) = file {
        argv.extend([b"--record-file".to_vec(), file.into_os_string().into_vec()]);
    }
    let spawn = Spawn::new(b"/proc/self/exe", argv, own_environment())?;
    let stderr = std::io::stderr();
    spawn
        .start(&[null.as_fd(), null.as_fd(), stderr.as_fd()], &[], None)
        .context("cannot start a helper")
}
