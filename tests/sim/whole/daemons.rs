//! The jobs of the daemons: submissions, and managers that start, report, die and register.

use mpd_daemon::{
    Announcement, Demand, Input, JobsHere as _, ManagerMessage, NameRequest, Plan, Spawn,
};
use mpd_wire::job::{Cookie, JobKey, JobSpec, ManagerEnd, RankEnd};
use mpd_wire::message::{
    HostLimits, JobOrder, JobRef, Launch, ManagerOrder, ManagerReport, RingRequest, StartJob,
};
use mpd_wire::{Instance, JobId};

use super::manager::{ForManager, Manager};
use super::suite::{Event, LOCAL, Suite};
use crate::daemons::allocate;
use crate::kernel::{INIT, Process};
use crate::process::{ForManagers, JobHere, job_of};
use crate::world::{MS, SECOND, Start};

/// How often a daemon looks for managers that have not registered.
const LOOK_INTERVAL: u64 = SECOND;

const SIGKILL: RankEnd = RankEnd::Signaled { signal: 9, core: false };

impl Suite {
    // ----- daemons -----

    /// A daemon starts, and finds the records of the daemon before it.
    pub(super) fn boot(&mut self, host: usize) {
        if self.world.hosts[host].ring.is_some() || !self.world.hosts[host].powered {
            return;
        }
        let seeds = (0..self.hosts.len()).collect();
        let ordinal = Some(host as u64);
        self.world.boot(host, &Start { ordinal, seeds, ..Start::default() });
        let of = &mut self.hosts[host];
        let daemon = Process { is_subreaper: true, ..Process::child_of(INIT) };
        of.daemon = of.kernel.start(daemon);
        let known = of.records.iter().map(|(job, (tree_index, _))| JobHere {
            job: job.clone(),
            tree_index: *tree_index,
            manager: None,
            is_connected: false,
            has_ended: false,
        });
        let known: Vec<JobHere> = known.collect();
        if let Some(process) = self.world.process(host) {
            process.jobs.0 = known;
        }
        self.push(LOCAL, Event::Look(host));
    }

    /// The daemon dies. Its managers continue.
    pub(super) fn kill_daemon(&mut self, host: usize) {
        if self.world.hosts[host].ring.is_none() {
            return;
        }
        self.world.kill(host);
        let of = &mut self.hosts[host];
        let daemon = std::mem::replace(&mut of.daemon, INIT);
        of.kernel.die(daemon, SIGKILL);
        let managers: Vec<i32> = of.managers.keys().copied().collect();
        for pid in managers {
            let manager = self.hosts[host].managers.get_mut(&pid).expect("a manager");
            if std::mem::take(&mut manager.common.is_registered) {
                self.push(LOCAL, Event::Manager(host, pid, ForManager::DaemonGone));
            }
        }
    }

    /// Performs what daemons have for managers.
    pub(super) fn serve_daemons(&mut self) {
        for host in 0..self.hosts.len() {
            while let Some(next) = self.world.process(host).and_then(|process| {
                process.for_managers.as_mut().and_then(std::collections::VecDeque::pop_front)
            }) {
                match next {
                    ForManagers::Start { order, launch, tree_index } => {
                        let job = launch.job.clone();
                        let result = self.start_branch(host, &launch, tree_index);
                        self.tell_daemon(host, Input::ManagerStarted { order, job, result });
                    }
                    ForManagers::Order(message) => self.pass_on(host, message),
                }
            }
        }
    }

    pub(super) fn tell_daemon(&mut self, host: usize, input: Input) {
        let now = self.now();
        if let Some(process) = self.world.process(host) {
            process.handle(now, input);
            self.world.perform(host);
        }
    }

    fn pass_on(&mut self, host: usize, ManagerMessage { job, order }: ManagerMessage) {
        let process = self.world.process(host).expect("the daemon has spoken");
        let here = process.jobs.get_mut(&job).filter(|here| here.is_connected);
        if let Some(pid) = here.and_then(|here| here.manager) {
            self.push(LOCAL, Event::Manager(host, pid, ForManager::Order(order)));
        }
    }

    // ----- the start of jobs -----

    /// A console submits its job to the daemon of its host.
    pub(super) fn submit(&mut self, job: usize) {
        let (now, console) = (self.now(), &self.consoles[job]);
        if console.is_over() {
            return;
        }
        let (host, spec) = (console.host, self.jobs[job].spec());
        let instance = self.random_instance();
        let Some(process) = self.world.process(host) else {
            return self.refuse(job, "no daemon");
        };
        let plan = process.node().place(now, &spec, instance);
        match plan {
            Ok(plan) => self.launch(job, host, &spec, plan),
            Err(problem) => self.refuse(job, &problem.to_string()),
        }
    }

    fn launch(&mut self, job: usize, host: usize, spec: &JobSpec, plan: Plan) {
        let Plan { host_slices, universe, .. } = plan;
        self.last_job += 1;
        let number = self.last_job;
        let process = self.world.process(host).expect("a daemon");
        let launch = Launch {
            job: job_of(process.node().ring(), number),
            key: JobKey::from_bytes([u8::try_from(number % 250).expect("a byte"); 32]),
            cookie: Cookie::from_bytes([2; 16]),
            kvsname: format!("kvs{number}"),
            tmpdir: "/tmp".into(),
            host_slices,
            universe,
            first: 0,
        };
        let announcement = Announcement::new(&launch, false).expect("a short list");
        self.facts[job].placed_on(&launch.host_slices);
        let started = self.start_manager(host, &launch, 0, Some((job, spec.encode())));
        match started {
            Ok(pid) => {
                self.consoles[job].job = Some(launch.job.clone());
                self.consoles[job].manager = Some(pid);
            }
            Err(problem) => return self.refuse(job, &problem),
        }
        if let Some(announcement) = announcement {
            self.tell_daemon(host, Input::Announced(announcement));
        }
    }

    fn start_branch(
        &mut self,
        host: usize,
        launch: &Launch,
        tree_index: usize,
    ) -> Result<(), String> {
        let process = self.world.process(host).expect("the daemon has spoken");
        match process.jobs.get_mut(&launch.job).map(|here| here.tree_index == tree_index) {
            Some(true) => Ok(()),
            Some(false) => Err("the leftovers of an earlier job".to_owned()),
            None => self.start_manager(host, launch, tree_index, None).map(drop),
        }
    }

    fn start_manager(
        &mut self,
        host: usize,
        launch: &Launch,
        tree_index: usize,
        root: Option<(usize, Vec<u8>)>,
    ) -> Result<i32, String> {
        let now = self.now();
        let of = &mut self.hosts[host];
        if of.refuses_forks {
            return Err("cannot start a manager".to_owned());
        }
        let process = Process { is_subreaper: true, ..Process::child_of(of.daemon) };
        let pid = of.kernel.start(process);
        let order = StartJob {
            job: launch.job.clone(),
            cookie: launch.cookie.clone(),
            kvsname: launch.kvsname.clone(),
            host: format!("h{host}"),
            cgroup: None,
            rundir: Some("/run".to_owned()),
            tmpdir: launch.tmpdir.clone(),
            key: launch.key.clone(),
            host_slices: launch.host_slices.clone(),
            universe: launch.universe,
            limits: HostLimits::default(),
            tree_index: u32::try_from(tree_index).expect("few hosts"),
            spec_bytes: 0,
            adopts: false,
            notices: Vec::new(),
            spans: Vec::new(),
        };
        of.records.insert(launch.job.clone(), (tree_index, pid));
        of.managers.insert(pid, Manager::new(now, pid, order, root));
        let process = self.world.process(host).expect("a daemon");
        process.jobs.0.push(JobHere {
            job: launch.job.clone(),
            tree_index,
            manager: Some(pid),
            is_connected: true,
            has_ended: false,
        });
        self.say(host, &format!("manager {pid} of {} starts at {tree_index}", launch.job));
        let after = MS + self.dice.below(5000) as u64;
        self.push(after, Event::Manager(host, pid, ForManager::Time));
        Ok(pid)
    }

    fn random_instance(&mut self) -> Instance {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.dice.bits().to_be_bytes());
        Instance::from_bytes(bytes)
    }

    // ----- managers -----

    pub(super) fn take_report(&mut self, host: usize, job: &JobId, report: ManagerReport) {
        let first = Ok(self.random_instance());
        let Some(process) = self.world.process(host) else { return };
        let Some(here) = process.jobs.get_mut(job).filter(|here| here.is_connected) else { return };
        let job = job.clone();
        let demand = match report {
            ManagerReport::Name { request, operation } => {
                Demand::Name(NameRequest::new(job, request, operation, || Ok([7; 16])))
            }
            ManagerReport::Place { request, placement } => {
                let placement = Box::new(placement);
                Demand::Spawn(Spawn::Place { job, request, placement, first })
            }
            ManagerReport::Grow { launch } => Demand::Spawn(Spawn::Grow(launch)),
            ManagerReport::Ended { unlinked, .. } => {
                here.has_ended = true;
                if !unlinked {
                    return;
                }
                Demand::Cancel(job)
            }
            _ => return,
        };
        self.tell_daemon(host, Input::Demanded(demand));
    }

    /// A manager has died. The daemon removes what it left, unless it had ended.
    pub(super) fn lose_manager(
        &mut self,
        host: usize,
        job: &JobId,
        pid: i32,
        end: Option<RankEnd>,
    ) {
        let Some(process) = self.world.process(host) else { return };
        let is_branch = process.jobs.has_branch(job);
        let is_it = |here: &JobHere| here.job == *job && here.manager == Some(pid);
        let Some(at) = process.jobs.0.iter().position(is_it) else { return };
        let here = process.jobs.0.remove(at);
        if here.has_ended {
            return;
        }
        if let Some(end) = end.and_then(manager_end).filter(|_| is_branch) {
            let job = job.clone();
            self.tell_daemon(host, Input::Demanded(Demand::ManagerEnded { job, end }));
        }
        self.push(20 * MS, Event::Sweep(host, job.clone()));
    }

    /// A manager without a daemon looks for the next one.
    pub(super) fn register(&mut self, host: usize, pid: i32) {
        let Some(manager) = self.hosts[host].managers.get_mut(&pid) else { return };
        let job = manager.job().clone();
        let Some(process) = self.world.process(host) else {
            let input = ForManager::Registered(false);
            return self.push(LOCAL, Event::Manager(host, pid, input));
        };
        let is_cancelled = process.node().is_cancelled(&job) && process.jobs.has_branch(&job);
        // A daemon that does not know the job refuses it.
        let Some(here) = process.jobs.get_mut(&job) else { return };
        (here.manager, here.is_connected) = (Some(pid), true);
        manager.common.is_registered = true;
        self.say(host, &format!("manager {pid} of {job} registers"));
        self.push(LOCAL, Event::Manager(host, pid, ForManager::Registered(true)));
        if is_cancelled {
            let order = ForManager::Order(ManagerOrder::Kill);
            self.push(LOCAL, Event::Manager(host, pid, order));
        }
    }

    /// The daemon looks for the managers of an earlier daemon that have not registered.
    pub(super) fn look_for_managers(&mut self, host: usize) {
        let Some(process) = self.world.process(host) else { return };
        let of = &self.hosts[host];
        let mut gone = Vec::new();
        process.jobs.0.retain(|here| {
            let record = of.records.get(&here.job);
            let lives = record.is_some_and(|(_, pid)| of.managers.contains_key(pid));
            let stays = here.manager.is_some() || lives;
            gone.extend((!stays).then(|| here.job.clone()));
            stays
        });
        let is_waiting = process.jobs.0.iter().any(|here| here.manager.is_none());
        gone.into_iter().for_each(|job| self.push(LOCAL, Event::Sweep(host, job)));
        if is_waiting {
            self.push(LOOK_INTERVAL, Event::Look(host));
        }
    }

    /// Kills the processes of a job whose manager on the host is gone, until none is left.
    pub(super) fn sweep(&mut self, host: usize, job: &JobId) {
        let left = self.programs.iter().filter(|((at, _), program)| {
            *at == host
                && program.job_id == *job
                && !self.hosts[host].managers.contains_key(&program.manager)
        });
        let left: Vec<i32> = left.map(|((_, pid), _)| *pid).collect();
        if left.is_empty() {
            self.hosts[host].records.remove(job);
            return;
        }
        left.into_iter().for_each(|pid| self.hosts[host].kernel.die(pid, SIGKILL));
        self.push(10 * MS, Event::Sweep(host, job.clone()));
    }

    // ----- orders of users -----

    /// A user orders something about a job through the daemon of this host.
    pub(super) fn order(&mut self, host: usize, job: usize, order: JobOrder) {
        let Some(id) = self.consoles.get(job).and_then(|console| console.job.clone()) else {
            return;
        };
        if self.hosts[host].is_frozen {
            return;
        }
        let facts = &mut self.facts[job];
        match &order {
            JobOrder::Kill => facts.is_kill_ordered = true,
            JobOrder::Signal { signal, .. } => _ = facts.ordered_signals.insert(*signal),
            JobOrder::Grow { .. } => facts.has_grown = true,
            other => panic!("not simulated: {other:?}"),
        }
        let request = RingRequest::Job { job: JobRef::Id(id), order };
        self.request(host, request, false);
    }

    /// A program asks for slots, and holds them.
    pub(super) fn hold(&mut self, host: usize, count: u32) {
        if !self.hosts[host].is_frozen {
            self.request(host, allocate(count), true);
        }
    }

    /// All programs of a host that hold slots end.
    pub(super) fn release(&mut self, host: usize) {
        let now = self.now();
        let process = self.world.process(host);
        let consoles = process.map(|process| process.consoles.keys().copied().collect::<Vec<_>>());
        for console in consoles.into_iter().flatten().filter(|_| !self.hosts[host].is_frozen) {
            let process = self.world.process(host).expect("it has consoles");
            process.close(now, console);
            self.world.perform(host);
        }
    }

    fn request(&mut self, host: usize, request: RingRequest, is_open: bool) {
        let now = self.now();
        if let Some(process) = self.world.process(host) {
            process.ask(now, request, is_open);
            self.world.perform(host);
        }
    }
}

/// How a manager has ended, for the root manager of its job. An exit with 0 explains nothing.
fn manager_end(end: RankEnd) -> Option<ManagerEnd> {
    match end {
        RankEnd::Signaled { signal, core } => Some(ManagerEnd::Signaled { signal, core }),
        RankEnd::Exited(0) | RankEnd::NotStarted | RankEnd::Lost => None,
        RankEnd::Exited(code) => Some(ManagerEnd::Exited(code)),
    }
}
