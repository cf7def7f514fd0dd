//! The jobs of the daemons: submissions, and managers that start, report, die and register.

use mpd_daemon::{Announcement, Demand, Input, Plan};
use mpd_jobtable::{
    Answer, Event as TableEvent, Given, Input as TableInput, ManagerMessage, Output, Question,
    RecordState,
};
use mpd_sansio::Time;
use mpd_wire::job::{Cookie, JobKey, JobSpec, ManagerEnd, RankEnd};
use mpd_wire::message::{
    JobOrder, JobRef, Launch, ManagerOrder, ManagerReport, Opening, RingRequest, VERSION,
};
use mpd_wire::{Instance, JobId, Pid};

use super::manager::{ForManager, Manager};
use super::suite::{Event, LOCAL, Suite};
use crate::daemons::allocate;
use crate::kernel::{INIT, Process, State};
use crate::process::{ForManagers, job_of};
use crate::world::{MS, Start};

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
        let records = of.records.values().cloned().collect();
        of.look_at = u64::MAX;
        self.give_table(host, TableInput::Found(records));
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
                        self.give_table(host, TableInput::StartBranch(launch, tree_index));
                        let result = self.started.take().expect("a result");
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
        let managers = &self.hosts[host].managers;
        let is_its = |manager: &Manager| *manager.job() == job && manager.common.is_registered;
        let pid = managers.iter().find(|(_, manager)| is_its(manager)).map(|(pid, _)| *pid);
        if let Some(pid) = pid {
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
        let id = launch.job.clone();
        self.submitted = Some((job, spec.encode()));
        self.give_table(host, TableInput::StartRoot(Box::new(launch), Given::default()));
        if let Err(problem) = self.started.take().expect("a result") {
            return self.refuse(job, &problem);
        }
        self.consoles[job].manager = self.manager_of(host, &id);
        self.consoles[job].job = Some(id);
        if let Some(announcement) = announcement {
            self.tell_daemon(host, Input::Announced(announcement));
        }
    }

    fn random_instance(&mut self) -> Instance {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.dice.bits().to_be_bytes());
        Instance::from_bytes(bytes)
    }

    // ----- managers -----

    pub(super) fn take_report(&mut self, host: usize, job: &JobId, report: ManagerReport) {
        let input = TableInput::Reported { job: job.clone(), report };
        self.give_table(host, input);
    }

    /// A child of the daemon was reaped. The connection of a manager closes first.
    pub(super) fn lose_child(&mut self, host: usize, pid: i32, job: Option<JobId>, end: RankEnd) {
        if let Some(job) = job {
            self.give_table(host, TableInput::ManagerClosed(job));
        }
        self.give_table(host, TableInput::ChildDied(Pid(pid), manager_end(end)));
    }

    /// A manager without a daemon looks for the next one.
    pub(super) fn register(&mut self, host: usize, pid: i32) {
        let Some(manager) = self.hosts[host].managers.get(&pid) else { return };
        let opening = Opening::Register {
            version: VERSION,
            job: manager.job().clone(),
            cookie: manager.order().cookie.clone(),
            tree_index: manager.order().tree_index,
            manager: manager.instance(),
            key: manager.order().key.clone(),
        };
        if self.world.process(host).is_none() {
            let input = ForManager::Registered(false);
            return self.push(LOCAL, Event::Manager(host, pid, input));
        }
        let connection = usize::try_from(pid).expect("a process");
        self.give_table(host, TableInput::Registers { connection, opening, pid: Pid(pid) });
    }

    /// A daemon that does not know the job refuses its manager.
    fn registered(&mut self, host: usize, connection: usize, result: Result<JobId, String>) {
        let pid = i32::try_from(connection).expect("a process");
        let (Ok(job), Some(manager)) = (result, self.hosts[host].managers.get_mut(&pid)) else {
            return;
        };
        manager.common.is_registered = true;
        self.say(host, &format!("manager {pid} of {job} registers"));
        self.push(LOCAL, Event::Manager(host, pid, ForManager::Registered(true)));
        let process = self.world.process(host).expect("a daemon");
        if process.node().is_cancelled(&job) && process.jobs.table.has_branch(&job) {
            let order = ForManager::Order(ManagerOrder::Kill);
            self.push(LOCAL, Event::Manager(host, pid, order));
        }
    }

    /// A helper kills the processes of a job whose manager on the host is gone, until none is left.
    pub(super) fn sweep(&mut self, host: usize, job: &JobId, helper: i32) {
        if !self.hosts[host].kernel.lives(helper) {
            return;
        }
        let left = self.programs.iter().filter(|((at, _), program)| {
            *at == host
                && program.job_id == *job
                && !self.hosts[host].managers.contains_key(&program.manager)
        });
        let left: Vec<i32> = left.map(|((_, pid), _)| *pid).collect();
        if left.is_empty() {
            self.hosts[host].records.remove(job);
            return self.hosts[host].kernel.die(helper, RankEnd::Exited(0));
        }
        left.into_iter().for_each(|pid| self.hosts[host].kernel.die(pid, SIGKILL));
        self.push(10 * MS, Event::Sweep(host, job.clone(), helper));
    }

    // ----- the table of jobs -----

    /// Does what is due in the table of jobs.
    pub(super) fn look_at_table(&mut self, host: usize) {
        let now = self.now();
        self.hosts[host].look_at = u64::MAX;
        if let Some(process) = self.world.process(host) {
            process.jobs.table.handle_timeout(now);
            self.settle_table(host);
        }
    }

    fn give_table(&mut self, host: usize, input: TableInput) {
        let now = self.now();
        if let Some(process) = self.world.process(host) {
            process.jobs.table.handle(now, input);
            self.settle_table(host);
        }
    }

    /// Performs what the table wants, then what follows for others.
    fn settle_table(&mut self, host: usize) {
        let mut events = Vec::new();
        while let Some(process) = self.world.process(host)
            && let Some(output) = process.jobs.table.poll_output()
        {
            match output {
                Output::Ask(question) => {
                    let answer = self.answer_table(host, question);
                    let now = self.now();
                    let process = self.world.process(host).expect("a daemon");
                    process.jobs.table.handle(now, TableInput::Answer(answer));
                }
                Output::Event(event) => events.push(event),
                Output::RemoveRecord(job) => _ = self.hosts[host].records.remove(&job),
                Output::Kill(Pid(pid)) => _ = self.hosts[host].kernel.send(pid, 9),
                Output::Log(line) => self.say(host, &line.text),
                // Jobs here have no groups, and no manager waits.
                Output::CloseRecord(_)
                | Output::RemoveGroup(_)
                | Output::Terminate(_)
                | Output::LeftBehind(_)
                | Output::Guard { .. }
                | Output::GiveUpCopies
                | Output::DropForkServer
                | Output::EndWaiting => {}
            }
        }
        events.into_iter().for_each(|event| self.take_event(host, event));
        let Some(process) = self.world.process(host) else { return };
        if let Some(due) = process.jobs.table.poll_timeout() {
            let due = u64::try_from((due - Time::ZERO).as_micros()).expect("a time");
            // A deadline of now was handled, or follows at once.
            let due = due.max(self.world.now + 1);
            if due < self.hosts[host].look_at {
                self.hosts[host].look_at = due;
                self.push_at(due, Event::Look(host));
            }
        }
    }

    fn take_event(&mut self, host: usize, event: TableEvent) {
        match event {
            TableEvent::Started(result) => self.started = Some(result),
            TableEvent::ToManager(message) => self.pass_on(host, message),
            TableEvent::Registered { connection, result } => {
                self.registered(host, connection, result);
            }
            TableEvent::Reported { job, report } => {
                let random = self.random_instance().to_bytes();
                if let Some(demand) = Demand::of(job, report, || Ok(random)) {
                    self.tell_daemon(host, Input::Demanded(demand));
                }
            }
            TableEvent::Cancelled(job) => {
                self.tell_daemon(host, Input::Demanded(Demand::Cancel(job)));
            }
            TableEvent::ManagerEnded { job, end } => {
                self.tell_daemon(host, Input::Demanded(Demand::ManagerEnded { job, end }));
            }
            TableEvent::ManagerDied(job) => {
                self.give_table(host, TableInput::ManagerGone { job, is_unread: false });
            }
            // No console asks for the state of a manager.
            TableEvent::Answer { .. } => {}
        }
    }

    fn answer_table(&mut self, host: usize, question: Question) -> Answer {
        let of = &mut self.hosts[host];
        match question {
            Question::MakeGroup => Answer::Group(None),
            Question::WriteRecord(record) => {
                of.records.insert(record.job.clone(), record);
                Answer::Done(Ok(()))
            }
            Question::HandOver { order, .. } => Answer::Started(self.start_manager(host, *order)),
            Question::IsStopped(Pid(pid)) => {
                let process = of.kernel.processes.get(&pid);
                Answer::Is(process.is_some_and(|process| process.state == State::Stopped))
            }
            Question::RanOutOfMemory(_) => Answer::Is(false),
            Question::Record(job) => Answer::Record(match of.records.contains_key(&job) {
                false => RecordState::Gone,
                true if self.manager_of(host, &job).is_some() => RecordState::Held,
                true => RecordState::Free,
            }),
            Question::Sweep { job, .. } => {
                let helper = of.kernel.start(Process::child_of(of.daemon));
                self.push(20 * MS, Event::Sweep(host, job, helper));
                Answer::Started(Ok(Pid(helper)))
            }
            Question::Children => {
                let children = of.kernel.children_of(of.daemon);
                Answer::Pids(children.into_iter().map(Pid).collect())
            }
            Question::Orphans(unknown, _) => Answer::Pids(unknown),
            Question::KillChildren(spared) => {
                Answer::Pids(of.kernel.kill_children(of.daemon, &spared).immune)
            }
            Question::StartForkServer | Question::RequestCopy => panic!("no manager waits"),
        }
    }

    fn start_manager(&mut self, host: usize, order: ManagerOrder) -> Result<Pid, String> {
        let now = self.now();
        let root = self.submitted.take();
        let ManagerOrder::Start(order) = order else { panic!("{order:?}") };
        let of = &mut self.hosts[host];
        if of.refuses_forks {
            return Err("cannot start a manager".to_owned());
        }
        let process = Process { is_subreaper: true, ..Process::child_of(of.daemon) };
        let pid = of.kernel.start(process);
        let text = format!("manager {pid} of {} starts at {}", order.job, order.tree_index);
        of.managers.insert(pid, Manager::new(now, pid, *order, root));
        self.say(host, &text);
        let after = MS + self.dice.below(5000) as u64;
        self.push(after, Event::Manager(host, pid, ForManager::Time));
        // It says within half a second that it has begun.
        let job = self.hosts[host].managers[&pid].job().clone();
        self.push(100 * after, Event::Report(host, job, ManagerReport::Begun));
        Ok(Pid(pid))
    }

    fn manager_of(&self, host: usize, job: &JobId) -> Option<i32> {
        let managers = &self.hosts[host].managers;
        managers.iter().find(|(_, manager)| manager.job() == job).map(|(pid, _)| *pid)
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

/// How a child of the daemon has ended.
fn manager_end(end: RankEnd) -> Option<ManagerEnd> {
    match end {
        RankEnd::Signaled { signal, core } => Some(ManagerEnd::Signaled { signal, core }),
        RankEnd::NotStarted | RankEnd::Lost => None,
        RankEnd::Exited(code) => Some(ManagerEnd::Exited(code)),
    }
}
