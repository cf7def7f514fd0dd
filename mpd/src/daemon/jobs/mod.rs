//! The jobs of this host: their ids, their managers, and the clean-up after a manager that died.
//!
//! A manager that reports `ended` leaves nothing. The processes of a manager that dies without this report become
//! children of this daemon, which is the next subreaper. The daemon kills them until none is left. A manager that
//! an earlier daemon started is not a child of this daemon. A helper process finds its processes by control group
//! or cookie. The helper also removes what the manager has noted.

mod children;
mod deaths;
mod fork_server;
mod handover;
mod here;
mod job;
mod records;
mod silent;
mod start;
mod top;
mod waiting;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use mpd_daemon::listing::shortened;
use mpd_daemon::{Demand, JobsHere as _, MeetingRequest, NameRequest, Spawn};
use mpd_io::clock::Clock;
use mpd_io::host::random;
use mpd_io::network::conn::Conn;
use mpd_io::process::identity::user_name;
use mpd_io::process::spawn::Fate;
use mpd_io::ring::rundir::RunDir;
use mpd_sansio::Time;
use mpd_wire::job::{Cookie, HostSlices, JobKey, JobSpec, MAX_RANKS, Notice};
use mpd_wire::message::{
    ConsoleReply, HostLimits, HostUse, JobRef, JobSummary, Launch, MAX_RUNS, ManagerReport,
    Opening, RankRun, RunUse, Span, SpawnState, launch_tmpdir,
};
use mpd_wire::{DaemonName, Instance, JobId, Rank, RankSet};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::daemon::jobs::children::Children;
use crate::daemon::jobs::job::{Given, Job, Part};
use crate::daemon::jobs::records::Records;
use crate::daemon::jobs::silent::SilentManagers;
use crate::daemon::submission::Submission;

pub(crate) use start::first_manager;
pub(crate) use waiting::Waiting;

/// How often to look for managers of an earlier daemon that have not registered. They try every second.
const ADOPTION_INTERVAL: Duration = Duration::from_secs(1);

/// The table of jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    name: String,
    /// The instance of this daemon, in the ids of its jobs.
    instance: Instance,
    host: String,
    /// The user of these jobs, once it was asked for.
    user: OnceCell<String>,
    records: Records,
    jobs: BTreeMap<JobId, Job>,
    /// Number of the last job that this daemon, or an earlier one, accepted.
    last: u64,
    /// Connections of new managers, until the loop takes them.
    connections: Vec<(JobId, Conn)>,
    children: Children,
    waiting: Waiting,
    silent: SilentManagers,
    limits: HostLimits,
    /// When to check again whether unregistered managers live.
    next_look: Option<Time>,
    /// The time of samples of usage.
    clock: Clock,
}

impl Jobs {
    pub(crate) fn new(
        (name, instance): (&str, Instance),
        host: &str,
        rundir: Option<RunDir>,
        waiting: Waiting,
    ) -> Self {
        let jobs = Self {
            name: name.to_owned(),
            instance,
            host: host.to_owned(),
            user: OnceCell::new(),
            records: Records::new(rundir),
            jobs: BTreeMap::new(),
            last: 0,
            connections: Vec::new(),
            children: Children::default(),
            waiting,
            silent: SilentManagers::default(),
            limits: HostLimits::default(),
            next_look: None,
            clock: Clock::start(),
        };
        // A directory service may take long to answer. A daemon for one job is rarely asked.
        if jobs.records.rundir().is_some() {
            jobs.user();
        }
        jobs
    }

    /// Sets what this host has for ranks.
    pub(crate) const fn set_limits(&mut self, limits: HostLimits) {
        self.limits = limits;
    }

    fn user(&self) -> &str {
        self.user.get_or_init(|| shortened(&user_name(geteuid().as_raw())))
    }

    /// The name of this daemon.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether no job, helper or orphan is left.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.children.is_idle()
    }

    /// Adds a child that is reaped and never killed.
    pub(crate) fn add_helper(&mut self, pid: Pid) {
        self.children.add_helper(pid);
    }

    /// Adds a helper whose end [`Self::take_fate`] reports.
    pub(crate) fn await_helper(&mut self, pid: Pid) {
        self.children.await_helper(pid);
    }

    /// How an awaited helper has ended, once.
    pub(crate) fn take_fate(&mut self, pid: Pid) -> Option<Fate> {
        self.children.take_fate(pid)
    }

    /// Whether this helper still runs.
    pub(crate) fn is_helper(&self, pid: Pid) -> bool {
        self.children.is_helper(pid)
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

    /// The id of a new job. In a private ring, `console` is the process that submits it.
    pub(crate) fn new_id(&self, console: Option<u32>) -> Result<JobId> {
        let Some(console) = console else {
            return Ok(JobId::new(self.last + 1, &self.name)?.of(self.instance));
        };
        let id = JobId::private(console, &self.name)?.of(self.instance);
        match self.jobs.contains_key(&id) {
            true => bail!("job {id} is running already"),
            false => Ok(id),
        }
    }

    /// A new job of this daemon, with the data that its managers need, for [`Jobs::start_root`] and for the other
    /// hosts.
    pub(crate) fn plan(
        &self,
        id: JobId,
        spec: &JobSpec,
        (host_slices, universe): (HostSlices, Option<u32>),
    ) -> Result<(Launch, Option<Notice>)> {
        let (tmpdir, problem) = launch_tmpdir(&spec.tmpdir);
        let (key, cookie, kvsname) = random::three::<32, 16, 16>()?;
        let launch = Launch {
            job: id,
            key: JobKey::from_bytes(key),
            cookie: Cookie::from_bytes(cookie),
            kvsname: format!("kvs_{}", mpd_wire::hex::encode(&kvsname)),
            tmpdir,
            host_slices,
            universe,
            first: 0,
        };
        let notice = problem.map(|problem| {
            Notice::major(format!("{problem}; the job's directories are in {}", launch.tmpdir))
        });
        Ok((launch, notice))
    }

    /// Starts the root manager of a planned job and gives it the console.
    pub(crate) fn start_root(
        &mut self,
        launch: &Launch,
        console: BorrowedFd<'_>,
        submission: &Submission,
        (notices, spans): (Vec<Notice>, Vec<Span>),
        now: Time,
    ) -> Result<()> {
        let passed = submission.outputs.iter().chain(submission.adopted.iter().flatten());
        let descriptors = std::iter::once(console).chain(passed.map(|fd| fd.as_fd())).collect();
        let spec = &submission.encoded;
        self.start(launch, 0, Given { descriptors, spec, notices, spans }, now)?;
        if !launch.job.is_private() {
            self.last = self.last.max(launch.job.number());
        }
        if let Some(job) = self.jobs.get_mut(&launch.job) {
            job.alias.clone_from(&submission.spec.alias);
        }
        Ok(())
    }

    /// Starts the manager of our host slice of a job that another daemon accepted. Does nothing if it runs already.
    pub(crate) fn start_branch(
        &mut self,
        launch: &Launch,
        tree_index: usize,
        now: Time,
    ) -> Result<()> {
        launch.check()?;
        if let Some(known) = self.jobs.get(&launch.job) {
            let record = &known.record;
            if (&record.cookie, record.tree_index as usize) == (&launch.cookie, tree_index) {
                return Ok(());
            }
            bail!("the leftovers of an earlier job {} are still being removed", launch.job);
        }
        self.start(launch, tree_index, Given::default(), now)?;
        self.silent.set_launch(launch, tree_index);
        Ok(())
    }

    /// Connections of managers that were started since the last call.
    pub(crate) fn take_connections(&mut self) -> Vec<(JobId, Conn)> {
        std::mem::take(&mut self.connections)
    }

    /// The job of the manager that a job link asks for, and the key of its links, if that manager is connected.
    pub(crate) fn find_manager(&self, wanted: Instance) -> Option<(&JobId, &JobKey)> {
        let (id, job) = self.jobs.iter().find(|(_, job)| {
            job.connected && job.part.as_ref().is_some_and(|part| part.manager == wanted)
        })?;
        Some((id, &job.part.as_ref()?.key))
    }

    /// Handles the report of a manager. Returns a request that the table of jobs cannot serve.
    pub(crate) fn report(
        &mut self,
        job: JobId,
        report: ManagerReport,
        now: Time,
    ) -> Option<Demand> {
        self.silent.heard(&job);
        match report {
            ManagerReport::Begun => {}
            ManagerReport::Ranks { alias, held, runs } => self.running(&job, (alias, held), runs),
            ManagerReport::Spawns { state } => self.spawning(&job, state),
            ManagerReport::Forgotten { first } => self.forgotten(&job, first),
            ManagerReport::Receivers { can, size } => self.can_receive(&job, can, size),
            ManagerReport::Written { counts } => self.written(&job, counts),
            ManagerReport::Name { request, operation } => {
                let salt = || random::bytes().map_err(|error| error.to_string());
                return Some(Demand::Name(NameRequest::new(job, request, operation, salt)));
            }
            // Only root managers speak to those of other jobs.
            ManagerReport::Meeting { request, operation } if self.root(&job).is_some() => {
                return Some(Demand::Meeting(MeetingRequest { job, request, operation }));
            }
            ManagerReport::Meeting { .. } => {}
            ManagerReport::Place { request, placement } => {
                let placement = Box::new(placement);
                let first = random::bytes().map(Instance::from_bytes).map_err(|e| e.to_string());
                return Some(Demand::Spawn(Spawn::Place { job, request, placement, first }));
            }
            ManagerReport::Grow { launch } => return Some(Demand::Spawn(Spawn::Grow(launch))),
            // The loop routes them.
            ManagerReport::State { .. } | ManagerReport::Events { .. } => {}
            ManagerReport::Ended { code, unlinked } => {
                let is_known = self.ended(&job, code);
                self.waiting.job_has_ended(now);
                return (is_known && unlinked).then_some(Demand::Cancel(job));
            }
        }
        None
    }

    /// Adds ranks that the manager of a job reports. Ranks beyond the limits are left out of listings.
    fn running(&mut self, id: &JobId, (alias, held): (Option<String>, bool), runs: Vec<RankRun>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        (job.alias, job.held) = (alias, held);
        let mut ranks: usize = job.runs.iter().map(|run| run.pids.len()).sum();
        for mut run in runs.into_iter().filter(RankRun::is_sound) {
            ranks += run.pids.len();
            if ranks > MAX_RANKS as usize || job.runs.len() >= MAX_RUNS {
                return log::warn!("job {id}: too many ranks here to list them all");
            }
            run.program = shortened(&run.program);
            job.runs.push(run);
        }
    }

    /// Stores the state of the spawns of a job.
    fn spawning(&mut self, id: &JobId, mut state: SpawnState) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        for ready in &mut state.ready {
            ready.program = shortened(&ready.program);
        }
        job.spawns = Some(state);
    }

    /// Removes a spawned world that has ended.
    fn forgotten(&mut self, id: &JobId, first: Rank) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let is_it = |run: &RankRun| run.world.is_some_and(|world| world.first == first);
        for run in job.runs.extract_if(.., |run| is_it(run)) {
            job.written.forget(&run.ranks);
        }
    }

    /// The jobs whose managers are to count output now. A manager that is counting already is left out.
    pub(crate) fn jobs_to_count(&mut self) -> Vec<JobId> {
        let mut all = Vec::new();
        for (id, job) in &mut self.jobs {
            if job.connected && !job.runs.is_empty() && job.written.ask() {
                all.push(id.clone());
            }
        }
        all
    }

    /// Stores the counts of a manager.
    fn written(&mut self, id: &JobId, counts: Vec<(Rank, u64)>) {
        let now = self.clock.now();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let known = |rank: &Rank| job.runs.iter().any(|run| run.ranks.contains(*rank));
        job.written.add(now, counts.into_iter().filter(|(rank, _)| known(rank)));
    }

    /// The usage of this machine, a page of the usage of ranks, and whether there is another page.
    pub(crate) fn usage(&self, page: u32) -> (HostUse, Vec<RunUse>, bool) {
        let rows = self.jobs.iter().flat_map(|(id, job)| {
            job.runs.iter().map(move |run| top::Row {
                job: id,
                alias: job.alias.as_deref(),
                user: self.user(),
                manager: job.manager,
                written: &job.written,
                run,
            })
        });
        top::usage(&rows.collect::<Vec<_>>(), self.clock.now(), page)
    }

    /// Stores which ranks can receive standard input, as the root manager reports.
    fn can_receive(&mut self, id: &JobId, ranks: RankSet, size: u32) {
        if let Some(job) = self.jobs.get_mut(id) {
            job.receivers = Some((ranks, size));
        }
    }

    /// The jobs that were submitted here, except the job of the process `console`; none while that job runs.
    pub(crate) fn other_jobs_than(&self, console: u32) -> Vec<JobId> {
        let is_its = |id: &JobId| JobRef::Private(console).means(id, None);
        if self.jobs.keys().any(is_its) {
            return Vec::new();
        }
        self.jobs.values().filter(|job| job.is_root()).map(|job| job.record.job.clone()).collect()
    }

    /// The job here that `wanted` means, if its manager is connected.
    ///
    /// # Errors
    /// Why there is no such job; a text for people.
    pub(crate) fn manager_of(&self, wanted: &JobRef) -> Result<JobId, String> {
        let me = DaemonName::new(&self.name).map_err(|e| e.to_string())?;
        let wanted = wanted.clone().as_asked_of(&me);
        let is_meant = |(id, job): &(&JobId, &Job)| wanted.means(id, job.alias.as_deref());
        let found: Vec<(&JobId, &Job)> = self.jobs.iter().filter(is_meant).collect();
        match found[..] {
            [] => {
                Err(format!("no {wanted} on this host; 'mpdlistjobs' lists the hosts of each job"))
            }
            [(id, job)] if job.connected => Ok(id.clone()),
            [(id, _)] => {
                Err(format!("job {id}: its manager is not connected to a daemon now; try again"))
            }
            _ => Err(format!("{wanted} means several jobs; name one by its id")),
        }
    }

    /// Handles the report that a job is over and has left nothing. Whether the job is known.
    fn ended(&mut self, id: &JobId, code: u8) -> bool {
        let Some(job) = self.jobs.get_mut(id) else { return false };
        log::info!("job {id} ended with {code}");
        job.ended = true;
        true
    }

    /// Handles the closed connection of a manager.
    pub(crate) fn manager_closed(&mut self, id: &JobId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.connected = false;
        // A child is removed when it is reaped. The manager of an earlier daemon is removed now.
        if !job.is_child {
            self.forget(id);
        }
    }

    /// Takes over a manager that had no daemon and registers.
    pub(crate) fn adopt(&mut self, opening: Opening, pid: i32) -> Result<JobId, String> {
        let Opening::Register { job: id, cookie, tree_index, manager, key, .. } = opening else {
            return Err("a manager registers itself".to_owned());
        };
        match self.jobs.get_mut(&id) {
            Some(known)
                if (&known.record.cookie, known.record.tree_index) == (&cookie, tree_index) =>
            {
                log::info!("job {id} adopted, manager {pid}");
                known.manager = Some(Pid::from_raw(pid));
                known.part = Some(Part { tree_index, manager, key });
                known.connected = true;
                known.runs.clear();
                known.spawns = None;
                known.written = top::Written::default();
                Ok(id)
            }
            _ => Err(format!("job {id} is not known here")),
        }
    }

    /// Takes over the jobs of an earlier daemon, and sweeps those whose manager is gone.
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
                held: false,
                runs: Vec::new(),
                spawns: None,
                receivers: None,
                written: top::Written::default(),
                is_child: false,
                ended: false,
                record,
                file,
            };
            self.jobs.insert(job.record.job.clone(), job);
        }
        self.look_for_managers(now);
    }

    /// Sweeps the jobs whose manager has neither registered nor lives.
    fn look_for_managers(&mut self, now: Time) {
        let unregistered = |(id, job): (&JobId, &Job)| job.manager.is_none().then(|| id.clone());
        let waiting: Vec<JobId> = self.jobs.iter().filter_map(unregistered).collect();
        self.next_look = (!waiting.is_empty()).then(|| now + ADOPTION_INTERVAL);
        for id in waiting {
            if !self.records.has(&id) {
                // The manager has ended properly while there was no daemon: it removes the record last.
                self.jobs.remove(&id);
            } else if self.records.is_free(&id) {
                self.forget(&id);
            }
        }
    }

    /// The jobs whose managers have given no sign in time. What these have sent is to be read before the next turn.
    pub(crate) fn silent(&self, now: Time) -> Vec<JobId> {
        self.silent.due(now)
    }

    /// Notes children that this process had before it became a daemon. They are reaped and never killed.
    pub(crate) fn inherit(&mut self, children: Vec<Pid>) {
        self.children.inherit(children);
    }

    /// Asks all managers to end their jobs, and starts none.
    pub(crate) fn terminate(&mut self) {
        self.waiting.stop();
        for pid in self.jobs.values().filter_map(|job| job.manager) {
            let _ = kill(pid, Signal::SIGTERM);
        }
    }

    /// Does what is due: kills orphans, looks for managers that have not registered.
    pub(crate) fn turn(&mut self, now: Time) {
        if self.waiting.turn(now) {
            for job in self.jobs.values() {
                if let (Some(group), Some(manager)) = (&job.record.cgroup, job.manager) {
                    self.waiting.guard(Path::new(group), manager);
                }
            }
        }
        self.silent.expire(now);
        let managers = self.jobs.values().filter_map(|job| job.manager);
        let all = managers.chain(self.waiting.pids());
        if self.children.kill_orphans(now, all, self.waiting.is_copying()) {
            self.waiting.forsake();
        }
        if self.next_look.is_some_and(|at| at <= now) {
            self.look_for_managers(now);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.children.next_deadline(),
            self.next_look,
            self.waiting.next_deadline(),
            self.silent.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }
}
