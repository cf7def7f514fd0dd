//! The jobs of this host: their ids, their managers, and what happens when a manager is gone.
//!
//! A manager that says `ended` left nothing. One that dies without a word leaves orphans: they become
//! our children, since we are the next subreaper up, and are killed until none is left. An adopted
//! manager (started by a former daemon) is no child of ours; what it leaves is found by control group
//! or cookie, by a helper process. That one also removes what the manager has noted.

mod listing;
mod records;
mod start;
mod top;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mpd_io::cgroup::Cgroup;
use mpd_io::clock::Clock;
use mpd_io::conn::Conn;
use mpd_io::rundir::{RunDir, user_name};
use mpd_io::tree::{self, Dead};
use mpd_job::record::JobRecord;
use mpd_machine::Time;
use mpd_wire::frame::Kind;
use mpd_wire::job::{Cookie, JobKey, JobSpec, MAX_RANKS, Notice, Shares, SpawnWish};
use mpd_wire::message::{
    ConsoleReply, JobPart, JobRef, JobSummary, Launch, MAX_RUNS, ManagerOrder, NameAnswer,
    NameWish, Opening, RankRun, Span, StartJob,
};
use mpd_wire::{Instance, JobId, Rank, RankSet};
use nix::unistd::{Pid, geteuid};

use crate::daemon::jobs::records::Records;
use crate::daemon::membership::Errand;
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
    /// PMI connection and pidfd of a process that is to be its one rank.
    pub(crate) adopted: Option<[OwnedFd; 2]>,
    /// A line for its user.
    pub(crate) notice: Option<String>,
}

impl Submission {
    /// Ranks that crash are not held, since a debugger would not find them.
    pub(crate) fn hold_nothing(&mut self) {
        let Some(on_crash) = self.spec.on_crash.as_mut().filter(|on_crash| on_crash.hold) else {
            return;
        };
        on_crash.hold = false;
        self.encoded = self.spec.encode();
        let text = "no debugger will open at a crash: the run directory cannot be used, so it would not find the job";
        self.notice = Some(text.to_owned());
    }
}

/// A job with a manager on this host.
#[derive(Debug)]
struct Job {
    record: JobRecord,
    /// The record and what the manager adds to it.
    file: File,
    /// Unknown for a job of a former daemon whose manager has not registered yet.
    part: Option<Part>,
    /// Whether the manager can be spoken to.
    connected: bool,
    /// Unknown for a job of a former daemon whose manager has not registered yet.
    manager: Option<Pid>,
    /// What its user calls it, and its ranks here, as its manager says.
    alias: Option<String>,
    runs: Vec<RankRun>,
    /// At the root: the ranks that can be given standard input, and how many ranks there are.
    receivers: Option<(RankSet, u32)>,
    written: top::Written,
    /// Whether the manager is our child, so that its orphans come to us.
    ours: bool,
    ended: bool,
}

/// What a manager has to do with the others of its job.
#[derive(Debug)]
struct Part {
    /// 0 is the root.
    place: u32,
    /// For whom job links ask.
    manager: Instance,
    key: JobKey,
}

/// A job whose root manager is here.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) job: JobId,
    /// Whether it can be spoken to.
    pub(crate) connected: bool,
    /// The ranks that can be given standard input, and how many ranks there are, once that is known.
    pub(crate) receivers: Option<(RankSet, u32)>,
}

/// Something about a name.
#[derive(Debug)]
pub(crate) struct Wish {
    /// Whose, and the number that its manager gave it.
    pub(crate) job: JobId,
    pub(crate) request: u32,
    pub(crate) wish: NameWish,
}

impl Wish {
    /// What its manager is to be told.
    pub(crate) fn answered(self, answer: NameAnswer) -> Errand {
        let order = ManagerOrder::Named { request: self.request, answer };
        Errand { job: self.job, order, link: None }
    }
}

/// What a root manager wants for processes that its ranks spawn.
#[derive(Debug)]
pub(crate) enum Spawn {
    /// To know where they go.
    Place {
        /// Whose, and the number that its manager gave it.
        job: JobId,
        request: u32,
        wish: SpawnWish,
    },
    /// Managers on further hosts.
    Grow(Box<Launch>),
}

/// What a manager gets besides its order.
struct Given<'a> {
    /// The console, its output and its error.
    console: [BorrowedFd<'a>; 3],
    /// What is passed on of a process that is to be its one rank.
    adopted: &'a [OwnedFd],
    spec: &'a [u8],
    notices: Vec<Notice>,
    spans: Vec<Span>,
}

/// The table of jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    name: String,
    host: String,
    /// Whose jobs these are.
    user: String,
    records: Records,
    jobs: BTreeMap<JobId, Job>,
    /// Number of the last job that this daemon, or one before it, accepted.
    last: u64,
    /// Connections of new managers, until somebody listens to them.
    connections: Vec<(JobId, Conn)>,
    /// Processes of ours that are no managers: they sweep, or start lost members.
    helpers: BTreeSet<Pid>,
    /// Orphans of a dead manager are being killed.
    killing: Option<Time>,
    /// When to look again whether managers that have not registered live.
    next_look: Option<Time>,
    /// Jobs that ended before all their managers had connected, of which the ring is to be told.
    unlinked: Vec<JobId>,
    /// What ranks here want about names.
    wishes: Vec<Wish>,
    /// What root managers here want for processes to be spawned.
    spawns: Vec<Spawn>,
    /// For samples of what is used.
    clock: Clock,
}

impl Jobs {
    pub(crate) fn new(name: &str, host: &str, rundir: Option<RunDir>) -> Self {
        Self {
            name: name.to_owned(),
            host: host.to_owned(),
            user: listing::shortened(&user_name(geteuid().as_raw())),
            records: Records::new(rundir),
            jobs: BTreeMap::new(),
            last: 0,
            connections: Vec::new(),
            helpers: BTreeSet::new(),
            killing: None,
            next_look: None,
            unlinked: Vec::new(),
            wishes: Vec::new(),
            spawns: Vec::new(),
            clock: Clock::start(),
        }
    }

    /// The name of this daemon.
    pub(crate) fn name(&self) -> &str {
        &self.name
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

    /// The id of a new job; `console` is the process that submits it, in a private ring.
    pub(crate) fn new_id(&self, console: Option<u32>) -> Result<JobId> {
        let Some(console) = console else { return Ok(JobId::new(self.last + 1, &self.name)?) };
        let id = JobId::private(console, &self.name)?;
        match self.jobs.contains_key(&id) {
            true => bail!("job {id} is running already"),
            false => Ok(id),
        }
    }

    /// A new job of this daemon: all that its managers must know, for [`Jobs::start_root`] and for the
    /// other hosts.
    pub(crate) fn plan(&self, id: JobId, spec: &JobSpec, shares: Shares) -> Result<Launch> {
        let tmpdir = std::str::from_utf8(&spec.tmpdir)
            .context("TMPDIR is not UTF-8 text; name another directory")?;
        let launch = Launch {
            job: id,
            key: JobKey::from_bytes(mpd_io::random::bytes()?),
            cookie: Cookie::from_bytes(mpd_io::random::bytes()?),
            kvsname: format!("kvs_{}", mpd_io::random::hex128()?),
            tmpdir: tmpdir.to_owned(),
            shares,
            first: 0,
        };
        launch.check()?;
        Ok(launch)
    }

    /// Starts the root manager of a planned job and gives it the console.
    pub(crate) fn start_root(
        &mut self,
        launch: &Launch,
        console: &Conn,
        submission: &Submission,
        (notices, spans): (Vec<Notice>, Vec<Span>),
    ) -> Result<()> {
        let [stdout, stderr] = &submission.outputs;
        let console = [console.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let adopted = submission.adopted.as_ref().map_or(&[][..], |passed| passed);
        let spec = &submission.encoded;
        self.start(launch, 0, Given { console, adopted, spec, notices, spans })?;
        if !launch.job.is_private() {
            self.last = self.last.max(launch.job.number());
        }
        if let Some(job) = self.jobs.get_mut(&launch.job) {
            job.alias.clone_from(&submission.spec.alias);
        }
        Ok(())
    }

    /// Starts the manager of our share of a job that another daemon accepted. One that is there already
    /// is left as it is.
    pub(crate) fn start_branch(&mut self, launch: &Launch, place: usize) -> Result<()> {
        launch.check()?;
        if let Some(known) = self.jobs.get(&launch.job) {
            let record = &known.record;
            if (&record.cookie, record.place as usize) == (&launch.cookie, place) {
                return Ok(());
            }
            bail!("what is left of an earlier job {} is still being removed", launch.job);
        }
        let null = start::null()?;
        let console = [null.as_fd(); 3];
        self.start(
            launch,
            place,
            Given { console, adopted: &[], spec: &[], notices: Vec::new(), spans: Vec::new() },
        )
    }

    fn start(&mut self, launch: &Launch, place: usize, given: Given<'_>) -> Result<()> {
        let share = launch.shares.get(place).context("no share at this place")?;
        let spec_bytes = u32::try_from(given.spec.len())?;
        let part =
            Part { place: u32::try_from(place)?, manager: share.manager, key: launch.key.clone() };
        // Everybody can read the name.
        let cgroup = Cgroup::create(&format!("mpd-{}", mpd_io::random::hex128()?));
        let record = JobRecord {
            job: launch.job.clone(),
            cookie: launch.cookie.clone(),
            place: part.place,
            cgroup: cgroup.as_ref().map(|g| g.path().display().to_string()),
        };
        let (ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
        let mut manager = Conn::new(ours)?;
        let written = self.records.write(&record);
        let passed = (given.console, given.adopted);
        let started = written.and_then(|file| {
            start::manager(&record.job, &theirs, passed, &file).map(|pid| (pid, file))
        });
        let (pid, file) = match started {
            Ok(started) => started,
            Err(e) => {
                self.records.remove(&record.job);
                cgroup.iter().for_each(|g| drop(g.remove()));
                return Err(e);
            }
        };
        log::info!("job {} started, manager {pid}", record.job);
        manager.send(&ManagerOrder::Start(Box::new(StartJob {
            spec_bytes,
            notices: given.notices,
            spans: given.spans,
            ..self.order(launch, &record, part.place)
        })));
        manager.send_bulk(Kind::Spec, given.spec);
        if let Err(e) = manager.flush() {
            log::warn!("job {}: {e}", record.job);
        }
        self.connections.push((record.job.clone(), manager));
        let job = Job {
            record,
            file,
            part: Some(part),
            connected: true,
            manager: Some(pid),
            alias: None,
            runs: Vec::new(),
            receivers: None,
            written: top::Written::default(),
            ours: true,
            ended: false,
        };
        self.jobs.insert(launch.job.clone(), job);
        Ok(())
    }

    fn order(&self, launch: &Launch, record: &JobRecord, place: u32) -> StartJob {
        StartJob {
            job: record.job.clone(),
            cookie: record.cookie.clone(),
            kvsname: launch.kvsname.clone(),
            host: self.host.clone(),
            cgroup: record.cgroup.clone(),
            rundir: self.records.rundir(),
            tmpdir: launch.tmpdir.clone(),
            key: launch.key.clone(),
            shares: launch.shares.clone(),
            place,
            spec_bytes: 0,
            notices: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// Connections of managers that were started since the last call.
    pub(crate) fn take_connections(&mut self) -> Vec<(JobId, Conn)> {
        std::mem::take(&mut self.connections)
    }

    /// The job of the manager that a job link asks for, and the key of its links, if that manager can be
    /// spoken to now.
    pub(crate) fn find_manager(&self, wanted: Instance) -> Option<(&JobId, &JobKey)> {
        let (id, job) = self.jobs.iter().find(|(_, job)| {
            job.connected && job.part.as_ref().is_some_and(|part| part.manager == wanted)
        })?;
        Some((id, &job.part.as_ref()?.key))
    }

    /// The manager of a job says what runs of it. What is too much is left out.
    pub(crate) fn running(&mut self, id: &JobId, alias: Option<String>, runs: Vec<RankRun>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.alias = alias;
        let mut ranks: usize = job.runs.iter().map(|run| run.pids.len()).sum();
        for mut run in runs.into_iter().filter(RankRun::is_sound) {
            ranks += run.pids.len();
            if ranks > MAX_RANKS as usize || job.runs.len() >= MAX_RUNS {
                return log::warn!("job {id}: too many ranks here to list them all");
            }
            run.program = listing::shortened(&run.program);
            job.runs.push(run);
        }
    }

    /// A spawned world has ended.
    pub(crate) fn forgotten(&mut self, id: &JobId, first: Rank) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let is_it = |run: &RankRun| run.world.is_some_and(|world| world.first == first);
        for run in job.runs.extract_if(.., |run| is_it(run)) {
            job.written.forget(&run.ranks);
        }
    }

    /// The root manager of a job says which ranks can be given standard input.
    pub(crate) fn can_receive(&mut self, id: &JobId, ranks: RankSet, size: u32) {
        if let Some(job) = self.jobs.get_mut(id) {
            job.receivers = Some((ranks, size));
        }
    }

    /// What runs here, in pages, and whether there is a next one.
    pub(crate) fn listing(&self, page: u32) -> (Vec<JobPart>, bool) {
        let part = |(id, job): (&JobId, &Job)| JobPart {
            job: id.clone(),
            alias: job.alias.as_deref().map(listing::shortened),
            user: self.user.clone(),
            manager: job.manager.map_or(0, |pid| pid.as_raw().unsigned_abs()),
            runs: job.runs.clone(),
        };
        listing::page(self.jobs.iter().map(part), page)
    }

    /// The jobs that were submitted here, but for the one that this console submitted; none if that one runs.
    pub(crate) fn others_than_of(&self, console: u32) -> Vec<JobId> {
        let is_its = |id: &JobId| JobRef::Private(console).means(id, None);
        if self.jobs.keys().any(is_its) {
            return Vec::new();
        }
        let is_root = |job: &&Job| job.part.as_ref().is_some_and(|part| part.place == 0);
        self.jobs.values().filter(is_root).map(|job| job.record.job.clone()).collect()
    }

    /// Jobs that are meant and whose root manager is here.
    pub(crate) fn roots(&self, meant: &JobRef) -> Vec<Root> {
        let root = |(id, job): (&JobId, &Job)| {
            // The root is where the job was accepted.
            let here = job.part.as_ref().map_or(id.daemon() == self.name, |part| part.place == 0);
            let found = here && !job.ended && meant.means(id, job.alias.as_deref());
            found.then(|| Root {
                job: id.clone(),
                connected: job.connected,
                receivers: job.receivers.clone(),
            })
        };
        self.jobs.iter().filter_map(root).collect()
    }

    /// The manager of `job` says that its job is over and nothing is left.
    pub(crate) fn ended(&mut self, id: &JobId, code: u8, unlinked: bool) {
        if let Some(job) = self.jobs.get_mut(id) {
            log::info!("job {id} ended with {code}");
            job.ended = true;
            if unlinked {
                self.unlinked.push(id.clone());
            }
        }
    }

    /// Jobs that ended before all their managers had connected, each told once.
    pub(crate) fn take_unlinked(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.unlinked)
    }

    /// The manager of `job` wants something about a name.
    pub(crate) fn wishes(&mut self, job: &JobId, request: u32, wish: NameWish) {
        self.wishes.push(Wish { job: job.clone(), request, wish });
    }

    /// What managers want about names, each told once.
    pub(crate) fn take_wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    /// A root manager wants something for processes to be spawned.
    pub(crate) fn spawns(&mut self, spawn: Spawn) {
        self.spawns.push(spawn);
    }

    /// What root managers want for processes to be spawned, each told once.
    pub(crate) fn take_spawns(&mut self) -> Vec<Spawn> {
        std::mem::take(&mut self.spawns)
    }

    /// Whether the job is not over here.
    pub(crate) fn goes_on(&self, id: &JobId) -> bool {
        self.jobs.get(id).is_some_and(|job| !job.ended)
    }

    /// Whether a manager of the job runs here that is not its root.
    pub(crate) fn has_branch(&self, id: &JobId) -> bool {
        let part = self.jobs.get(id).filter(|job| !job.ended).and_then(|job| job.part.as_ref());
        part.is_some_and(|part| part.place > 0)
    }

    /// The connection of a manager closed.
    pub(crate) fn manager_closed(&mut self, id: &JobId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.connected = false;
        // A child of ours is gone when it is reaped; an adopted one is gone now.
        if !job.ours {
            self.forget(id);
        }
    }

    /// A manager that had no daemon registers.
    pub(crate) fn adopt(&mut self, opening: Opening, pid: i32) -> Result<JobId, String> {
        let Opening::Register { job: id, cookie, place, manager, key, .. } = opening else {
            return Err("a manager registers itself".to_owned());
        };
        match self.jobs.get_mut(&id) {
            Some(known) if (&known.record.cookie, known.record.place) == (&cookie, place) => {
                log::info!("job {id} adopted, manager {pid}");
                known.manager = Some(Pid::from_raw(pid));
                known.part = Some(Part { place, manager, key });
                known.connected = true;
                known.runs.clear();
                known.written = top::Written::default();
                Ok(id)
            }
            _ => Err(format!("job {id} is not known here")),
        }
    }

    /// Takes over the jobs of a former daemon, and sweeps those whose manager is gone.
    pub(crate) fn adopt_records(&mut self, now: Time) {
        for (record, file) in self.records.read() {
            if record.job.daemon() == self.name && !record.job.is_private() {
                self.last = self.last.max(record.job.number());
            }
            let job = Job {
                part: None,
                connected: false,
                manager: None,
                alias: None,
                runs: Vec::new(),
                receivers: None,
                written: top::Written::default(),
                ours: false,
                ended: false,
                record,
                file,
            };
            self.jobs.insert(job.record.job.clone(), job);
        }
        self.look_for_managers(now);
    }

    /// Jobs whose manager has neither registered nor lives are swept.
    fn look_for_managers(&mut self, now: Time) {
        let unregistered = |(id, job): (&JobId, &Job)| job.manager.is_none().then(|| id.clone());
        let waiting: Vec<JobId> = self.jobs.iter().filter_map(unregistered).collect();
        self.next_look = (!waiting.is_empty()).then(|| now + ADOPTION_INTERVAL);
        for id in waiting {
            if !self.records.has(&id) {
                // Its manager has ended well without us: it removes the record last.
                self.jobs.remove(&id);
            } else if self.records.is_free(&id) {
                self.forget(&id);
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
            let is_it = |(id, job): (&JobId, &Job)| (job.manager == Some(pid)).then(|| id.clone());
            if let Some(id) = self.jobs.iter().find_map(is_it) {
                // Its last word may still be unread.
                peers.drain_manager(&id, self);
                peers.drop_manager(&id);
                self.forget(&id);
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

    /// Our children that are neither managers nor helpers are orphans of a manager that died. Those of another user
    /// cannot be killed and run on.
    fn kill_orphans(&mut self, now: Time) {
        let mut known: BTreeSet<Pid> = self.jobs.values().filter_map(|j| j.manager).collect();
        known.extend(&self.helpers);
        let immune = tree::kill_children(|pid| known.contains(&pid));
        let is_orphan = |pid: &Pid| !known.contains(pid) && !immune.contains(pid);
        let orphans = tree::children(Pid::this()).iter().any(is_orphan);
        self.killing = orphans.then(|| now + KILL_INTERVAL);
        for pid in immune.into_iter().filter(|_| !orphans) {
            log::info!("cannot kill {}, which a job left behind", tree::describe(pid));
        }
    }

    /// The manager of a job is gone. If it did not say that all is well, what it left is removed.
    fn forget(&mut self, id: &JobId) {
        let Some(job) = self.jobs.remove(id) else { return };
        if job.ended {
            self.records.remove(id);
            return;
        }
        log::warn!("job {id}: its manager died; removing what it left");
        // One of a former daemon that never registered may have died long ago.
        let just_died = job.manager.is_some();
        match start::sweeper(&job.file, self.records.path(id), just_died) {
            Ok(pid) => {
                self.helpers.insert(pid);
            }
            Err(e) => log::error!("job {id}: cannot remove what it left: {e:#}"),
        }
    }
}
