//! The jobs of this host: their ids, their managers, and what happens when a manager is gone.
//!
//! A manager that says `ended` left nothing. One that dies without a word leaves orphans: they become
//! our children, since we are the next subreaper up, and are killed until none is left. An adopted
//! manager (started by a former daemon) is no child of ours; what it leaves is found by control group
//! or cookie, by a helper process. That one also removes what the manager has noted.

mod children;
mod job;
mod listing;
mod records;
mod roots;
mod start;
mod top;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mpd_io::cgroup::Cgroup;
use mpd_io::clock::Clock;
use mpd_io::conn::Conn;
use mpd_io::rundir::{RunDir, user_name};
use mpd_job::record::JobRecord;
use mpd_machine::Time;
use mpd_wire::frame::Kind;
use mpd_wire::job::{Cookie, JobKey, JobSpec, MAX_RANKS, Notice, Shares};
use mpd_wire::message::{
    ConsoleReply, HostUse, JobPart, JobRef, JobSummary, Launch, MAX_RUNS, ManagerOrder,
    ManagerReport, Opening, OrderAnswer, RankRun, RunUse, Span, StartJob,
};
use mpd_wire::{Instance, JobId, Rank, RankSet};
use nix::unistd::{Pid, geteuid};

use crate::daemon::demand::Demand;
use crate::daemon::errand::Errand;
use crate::daemon::jobs::children::Children;
use crate::daemon::jobs::job::{Job, Part};
use crate::daemon::jobs::records::Records;
use crate::daemon::jobs::roots::Root;
use crate::daemon::names::Wish;
use crate::daemon::spawns::Spawn;
use crate::daemon::submission::Submission;

pub(crate) use listing::hosted;
pub(crate) use roots::no_such_job;

/// How often managers of a former daemon that have not registered are looked for: they try every second.
const ADOPTION_INTERVAL: Duration = Duration::from_secs(1);

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
    children: Children,
    /// When to look again whether managers that have not registered live.
    next_look: Option<Time>,
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
            children: Children::default(),
            next_look: None,
            clock: Clock::start(),
        }
    }

    /// The name of this daemon.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether no job, helper or orphan is left.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.children.is_idle()
    }

    /// A process of ours that is to be left alone, and reaped.
    pub(crate) fn add_helper(&mut self, pid: Pid) {
        self.children.add_helper(pid);
    }

    /// Whether it still runs.
    pub(crate) fn is_helper(&self, pid: Pid) -> bool {
        self.children.is_helper(pid)
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
        console: BorrowedFd<'_>,
        submission: &Submission,
        (notices, spans): (Vec<Notice>, Vec<Span>),
    ) -> Result<()> {
        let [stdout, stderr] = &submission.outputs;
        let console = [console, stdout.as_fd(), stderr.as_fd()];
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

    /// Handles the report of a manager. Returns what the table of jobs cannot do.
    pub(crate) fn report(&mut self, job: JobId, report: ManagerReport) -> Option<Demand> {
        match report {
            ManagerReport::Ranks { alias, runs } => self.running(&job, alias, runs),
            ManagerReport::Forgotten { first } => self.forgotten(&job, first),
            ManagerReport::Receivers { can, size } => self.can_receive(&job, can, size),
            ManagerReport::Written { counts } => self.written(&job, counts),
            ManagerReport::Name { request, wish } => {
                return Some(Demand::Name(Wish { job, request, wish }));
            }
            ManagerReport::Place { request, wish } => {
                return Some(Demand::Spawn(Spawn::Place { job, request, wish }));
            }
            ManagerReport::Grow { launch } => return Some(Demand::Spawn(Spawn::Grow(launch))),
            ManagerReport::Ended { code, unlinked } => {
                let is_known = self.ended(&job, code);
                return (is_known && unlinked).then_some(Demand::Cancel(job));
            }
        }
        None
    }

    /// The manager of a job says what runs of it. What is too much is left out.
    fn running(&mut self, id: &JobId, alias: Option<String>, runs: Vec<RankRun>) {
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
    fn forgotten(&mut self, id: &JobId, first: Rank) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let is_it = |run: &RankRun| run.world.is_some_and(|world| world.first == first);
        for run in job.runs.extract_if(.., |run| is_it(run)) {
            job.written.forget(&run.ranks);
        }
    }

    /// Jobs whose managers are to count, and have nothing to count for us yet.
    pub(crate) fn uncounted(&mut self) -> Vec<JobId> {
        let mut all = Vec::new();
        for (id, job) in &mut self.jobs {
            if job.connected && !job.runs.is_empty() && job.written.ask() {
                all.push(id.clone());
            }
        }
        all
    }

    /// A manager has counted.
    fn written(&mut self, id: &JobId, counts: Vec<(Rank, u64)>) {
        let now = self.clock.now();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let known = |rank: &Rank| job.runs.iter().any(|run| run.ranks.contains(*rank));
        job.written.add(now, counts.into_iter().filter(|(rank, _)| known(rank)));
    }

    /// This machine now, a page of what is used on it, and whether there is a next one.
    pub(crate) fn usage(&self, page: u32) -> (HostUse, Vec<RunUse>, bool) {
        let rows = self.jobs.iter().flat_map(|(id, job)| {
            job.runs.iter().map(move |run| top::Row {
                job: id,
                alias: job.alias.as_deref(),
                user: &self.user,
                manager: job.manager,
                written: &job.written,
                run,
            })
        });
        top::usage(&rows.collect::<Vec<_>>(), self.clock.now(), page)
    }

    /// The root manager of a job says which ranks can be given standard input.
    fn can_receive(&mut self, id: &JobId, ranks: RankSet, size: u32) {
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

    /// Messages to the root managers of a job on this host, or the reason why there are none.
    pub(crate) fn errands(
        &self,
        meant: &JobRef,
        order: &ManagerOrder,
    ) -> Result<Vec<Errand>, OrderAnswer> {
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
        roots::errands(self.jobs.iter().filter_map(root).collect(), order)
    }

    /// The manager of `job` says that its job is over and nothing is left. Whether the job is known.
    fn ended(&mut self, id: &JobId, code: u8) -> bool {
        let Some(job) = self.jobs.get_mut(id) else { return false };
        log::info!("job {id} ended with {code}");
        job.ended = true;
        true
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

    /// Reaps children up to the next dead manager and returns the job of that manager. The caller handles its last
    /// reports, then calls [`Jobs::manager_died`].
    pub(crate) fn reap(&mut self) -> Option<JobId> {
        loop {
            let pid = self.children.reap()?;
            let is_it = |(id, job): (&JobId, &Job)| (job.manager == Some(pid)).then(|| id.clone());
            if let Some(id) = self.jobs.iter().find_map(is_it) {
                return Some(id);
            }
        }
    }

    /// The manager of a job was reaped. Its last reports were handled before this call.
    pub(crate) fn manager_died(&mut self, id: &JobId, now: Time) {
        self.forget(id);
        self.children.expect_orphans(now);
    }

    /// What is due: orphans to kill, managers that never registered.
    pub(crate) fn turn(&mut self, now: Time) {
        self.children.kill_orphans(now, self.jobs.values().filter_map(|job| job.manager));
        if self.next_look.is_some_and(|at| at <= now) {
            self.look_for_managers(now);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        [self.children.next_deadline(), self.next_look].into_iter().flatten().min()
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
            Ok(pid) => self.children.add_helper(pid),
            Err(e) => log::error!("job {id}: cannot remove what it left: {e:#}"),
        }
    }
}
