//! All hosts of the simulation, and its events in the order of time.

use std::collections::BTreeMap;

use mpd_leftovers::record::JobRecord;
use mpd_sansio::Time;
use mpd_tests::random::Random;
use mpd_wire::JobId;
use mpd_wire::job::RankEnd;
use mpd_wire::message::{JobInput, JobNews, ManagerReport};

use super::consoles::Console;
use super::facts::Facts;
use super::manager::{Effect, ForManager, Manager, Refusal};
use super::network::Connection;
use super::programs::Program;
use super::schedule::{JobPlan, Schedule};
use crate::kernel::{INIT, Kernel};
use crate::world::{MS, World};

/// A message between processes of a host takes this long, in microseconds. So each pair of processes has an order.
pub(super) const LOCAL: u64 = 100;

/// An event. Those of a frozen host wait.
#[derive(Debug)]
pub(super) enum Event {
    /// For the manager of this process id.
    Manager(usize, i32, ForManager),
    /// A manager of that job reports to its daemon.
    Report(usize, JobId, ManagerReport),
    /// A child of the daemon has ended, or a manager of an earlier daemon.
    Died(usize, i32, Option<JobId>, RankEnd),
    /// A manager without a daemon looks for one.
    Register(usize, i32),
    /// The helper of this process id removes the processes that a job has left.
    Sweep(usize, JobId, i32),
    /// A console submits its job.
    Submit(usize),
    /// A console gets this from the manager of this process id, or the end of the connection.
    News(usize, i32, Option<JobNews>),
    /// A console looks at its deadlines.
    Console(usize),
    /// A stopped console continues.
    Continued(usize),
    /// The process of a rank does its next step.
    Step(usize, i32),
    /// The process of a rank reads bytes.
    Heard(usize, i32, Vec<u8>),
    /// A signal to stop has its effect.
    Stops(usize, i32),
    /// A connection arrives at the host of the parent.
    Dialed(u64),
    /// The refusal arrives.
    Refused(u64),
    /// The next packet of a side arrives.
    Arrival(u64, usize),
}

/// What a host has besides its daemon.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) kernel: Kernel,
    /// The process of the daemon.
    pub(super) daemon: i32,
    pub(super) managers: BTreeMap<i32, Manager>,
    /// The records of jobs on its disk.
    pub(super) records: BTreeMap<JobId, JobRecord>,
    pub(super) is_frozen: bool,
    /// Events of the frozen host.
    pub(super) backlog: Vec<Event>,
    pub(super) refusal: Refusal,
}

#[derive(Debug)]
pub(super) struct Suite {
    pub(super) world: World,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    pub(super) dice: Random,
    pub(super) hosts: Vec<Host>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) last_connection: u64,
    pub(super) jobs: Vec<JobPlan>,
    pub(super) consoles: Vec<Console>,
    /// By host and process.
    pub(super) programs: BTreeMap<(usize, i32), Program>,
    pub(super) facts: Vec<Facts>,
    pub(super) violations: Vec<String>,
    /// The console of the job whose root manager is about to start, and the encoded specification.
    pub(super) submitted: Option<(usize, Vec<u8>)>,
    /// Jobs that begin before this time may miss hosts or daemons.
    pub(super) trouble_until: u64,
    /// When a cut or a freeze began that lasts.
    pub(super) silent_since: Option<u64>,
}

impl Suite {
    pub(super) fn new(schedule: &Schedule, records: bool) -> Self {
        let mut world = World::new(schedule.seed, schedule.hosts);
        (world.has_nodes, world.has_managers) = (true, true);
        world.trace.records = records;
        let host = |_| Host {
            kernel: Kernel::new(),
            daemon: INIT,
            managers: BTreeMap::new(),
            records: BTreeMap::new(),
            is_frozen: false,
            backlog: Vec::new(),
            refusal: Refusal::default(),
        };
        Self {
            hosts: (0..schedule.hosts).map(host).collect(),
            world,
            events: BTreeMap::new(),
            sequence: 0,
            dice: Random::new(schedule.seed ^ 0x5eed),
            connections: BTreeMap::new(),
            last_connection: 0,
            jobs: schedule.jobs.clone(),
            consoles: Vec::new(),
            programs: BTreeMap::new(),
            facts: schedule.jobs.iter().map(|_| Facts::default()).collect(),
            violations: Vec::new(),
            submitted: None,
            trouble_until: 0,
            silent_since: None,
        }
    }

    // ----- time -----

    pub(super) fn now(&self) -> Time {
        self.world.time()
    }

    pub(super) fn push(&mut self, after: u64, event: Event) {
        self.push_at(self.world.now + after, event);
    }

    pub(super) fn push_at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((at.max(self.world.now), self.sequence), event);
    }

    /// Runs until the time `until`.
    pub(super) fn run(&mut self, until: u64) {
        loop {
            let own = self.events.first_key_value().map(|((at, _), _)| *at);
            let next = [own, self.world.next_at()].into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= until) else { break };
            if own == Some(at) {
                let ((at, _), event) = self.events.pop_first().expect("an event");
                self.world.now = at;
                self.happen(event);
            } else {
                self.world.step();
            }
            self.serve_daemons();
        }
        self.world.now = until;
    }

    fn happen(&mut self, event: Event) {
        if let Some(host) = self.host_of(&event)
            && self.hosts[host].is_frozen
        {
            return self.hosts[host].backlog.push(event);
        }
        match event {
            Event::Manager(host, pid, input) => self.give(host, pid, input),
            Event::Report(host, job, report) => self.take_report(host, &job, report),
            Event::Died(host, pid, job, end) => self.lose_child(host, pid, job, end),
            Event::Register(host, pid) => self.register(host, pid),
            Event::Sweep(host, job, helper) => self.sweep(host, &job, helper),
            Event::Submit(job) => self.submit(job),
            Event::News(job, manager, news) => self.tell_console(job, manager, news),
            Event::Console(job) => self.wake_console(job),
            Event::Continued(job) => self.continue_console(job),
            Event::Step(host, pid) => self.step(host, pid),
            Event::Heard(host, pid, bytes) => self.hear(host, pid, &bytes),
            Event::Stops(host, pid) => self.hosts[host].kernel.settle(pid),
            Event::Dialed(connection) => self.dialed(connection),
            Event::Refused(connection) => self.refused(connection),
            Event::Arrival(connection, side) => self.arrive(connection, side),
        }
        (0..self.hosts.len()).for_each(|host| self.bury(host));
    }

    /// The host on which an event happens.
    fn host_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Manager(host, ..)
            | Event::Report(host, ..)
            | Event::Died(host, ..)
            | Event::Register(host, _)
            | Event::Sweep(host, ..)
            | Event::Step(host, _)
            | Event::Heard(host, ..)
            | Event::Stops(host, _) => Some(*host),
            Event::Submit(job)
            | Event::News(job, ..)
            | Event::Console(job)
            | Event::Continued(job) => Some(self.consoles[*job].host),
            Event::Dialed(id) => self.connections.get(id).map(|it| it.ends[1].0),
            Event::Refused(id) => self.connections.get(id).map(|it| it.ends[0].0),
            Event::Arrival(id, side) => self.connections.get(id).map(|it| it.ends[1 - side].0),
        }
    }

    pub(super) fn say(&mut self, host: usize, text: &str) {
        let numbers = [self.world.now, host as u64, text.len() as u64];
        self.world.trace.fold(&numbers);
        let name = self.world.hosts[host].name.clone();
        self.world.trace.say(self.world.now, &name, text);
    }

    pub(super) fn violate(&mut self, text: String) {
        self.violations.push(format!("{:.3} {text}", self.world.now as f64 / 1e6));
    }

    // ----- managers -----

    /// Gives a manager an input, and performs its effects.
    pub(super) fn give(&mut self, host: usize, pid: i32, input: ForManager) {
        let now = self.now();
        let of = &mut self.hosts[host];
        let Some(manager) = of.managers.get_mut(&pid) else { return };
        if matches!(input, ForManager::Time) && manager.alarm > self.world.now {
            return;
        }
        let text = (self.world.trace.records && !matches!(input, ForManager::Time))
            .then(|| format!("manager {pid} > {input:?}"));
        manager.alarm = u64::MAX;
        let mut effects = Vec::new();
        manager.take((now, &mut of.kernel), of.refusal, &mut effects, input);
        let (over, deadline) = (manager.over(), manager.deadline());
        let (job, console) = (manager.job().clone(), manager.console);
        if let Some(text) = text {
            self.say(host, &text);
        }
        for effect in effects {
            self.perform(host, pid, (&job, console), effect);
        }
        if let Some(code) = over {
            self.leave(host, pid, code);
        } else if let Some(deadline) = deadline {
            let at = u64::try_from((deadline - Time::ZERO).as_micros()).expect("a time");
            // A deadline of now was handled.
            let at = at.max(self.world.now + 1);
            let manager = self.hosts[host].managers.get_mut(&pid).expect("it lives");
            manager.alarm = at;
            self.push_at(at, Event::Manager(host, pid, ForManager::Time));
        }
    }

    fn perform(
        &mut self,
        host: usize,
        pid: i32,
        (job, console): (&JobId, Option<usize>),
        effect: Effect,
    ) {
        match effect {
            Effect::Packet(connection, packet) => self.send(connection, (host, pid), packet),
            Effect::Dial(to, parent) => self.dial((host, pid), to, parent),
            Effect::News(news) => {
                if let Some(console) = console {
                    self.push(LOCAL, Event::News(console, pid, Some(news)));
                }
            }
            Effect::Register => self.push(LOCAL, Event::Register(host, pid)),
            Effect::Report(report) => self.report(host, pid, report),
            Effect::Heard(rank, bytes) => self.push(LOCAL, Event::Heard(host, rank, bytes)),
            Effect::Read(rank, stream, count) => {
                let is_its = |console: &Console| console.job.as_ref() == Some(job);
                if let Some(job) = self.consoles.iter().position(is_its) {
                    *self.facts[job].read.entry((rank, stream.index())).or_default() += count;
                }
            }
            Effect::Shown(sink, bytes) => {
                let job = console.expect("only the root has outputs");
                self.show((host, pid), job, sink, &bytes);
            }
            Effect::Started { pid: rank, rank: number, first, own, space } => {
                self.begin_program((host, pid), (rank, number), (first, own), space, job);
            }
            Effect::Stops(process) => {
                let after = self.dice.below(3000) as u64;
                self.push(after, Event::Stops(host, process));
            }
            Effect::Helper(helper) => {
                let after = MS + self.dice.below(20_000) as u64;
                self.push(after, Event::Manager(host, pid, ForManager::Helper(helper)));
            }
        }
    }

    /// A manager ends after its last messages.
    fn leave(&mut self, host: usize, pid: i32, code: u8) {
        let Some(manager) = self.hosts[host].managers.get(&pid) else { return };
        let (job, unlinked) = (manager.job().clone(), manager.is_unlinked());
        self.say(host, &format!("manager {pid} of {job} ends with {code}"));
        self.hosts[host].records.remove(&job);
        self.report(host, pid, ManagerReport::Ended { code, unlinked });
        self.hosts[host].kernel.die(pid, RankEnd::Exited(code));
    }

    /// A manager reports to its daemon, if there is one.
    pub(super) fn report(&mut self, host: usize, pid: i32, report: ManagerReport) {
        let manager = self.hosts[host].managers.get(&pid);
        if let Some(manager) = manager.filter(|manager| manager.common.is_registered) {
            let job = manager.job().clone();
            self.push(LOCAL, Event::Report(host, job, report));
        }
    }

    pub(super) fn pass_to_manager(&mut self, job: usize, input: JobInput) {
        let console = &self.consoles[job];
        if let Some(manager) = console.manager {
            let event = Event::Manager(console.host, manager, ForManager::FromConsole(input));
            self.push(LOCAL, event);
        }
    }

    // ----- processes -----

    /// Handles the deaths of processes.
    pub(super) fn bury(&mut self, host: usize) {
        loop {
            let died = std::mem::take(&mut self.hosts[host].kernel.died);
            if died.is_empty() {
                return;
            }
            died.into_iter().for_each(|died| self.bury_one(host, died));
        }
    }

    fn bury_one(&mut self, host: usize, (pid, parent, end): (i32, i32, RankEnd)) {
        self.set_writer(host, pid, false);
        self.end_program(host, pid, end);
        let daemon = self.hosts[host].daemon;
        if let Some(manager) = self.hosts[host].managers.remove(&pid) {
            self.close_links((host, pid));
            if let Some(console) = manager.console {
                self.push(LOCAL, Event::News(console, pid, None));
            }
            let job = manager.common.is_registered.then(|| manager.job().clone());
            self.push(2 * LOCAL, Event::Died(host, pid, job, end));
        } else if parent == daemon && daemon != INIT {
            self.push(2 * LOCAL, Event::Died(host, pid, None, end));
        }
        if self.hosts[host].managers.contains_key(&parent) {
            self.push(2 * LOCAL, Event::Manager(host, parent, ForManager::Child));
        } else {
            // Daemons and init reap at once.
            self.hosts[host].kernel.reap(pid);
        }
    }
}
