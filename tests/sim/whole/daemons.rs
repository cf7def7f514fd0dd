//! The jobs of the daemons: submissions, and managers that start, report, die and register.

use mpd_daemon::{Input, Output, Submitted};
use mpd_jobtable::{Action, Answer, Input as TableInput, ManagerMessage, Question, RecordState};
use mpd_wire::job::{ManagerEnd, RankEnd};
use mpd_wire::message::{
    ConsoleReply, JobOrder, JobRef, ManagerOrder, ManagerReport, Opening, RingRequest, VERSION,
};
use mpd_wire::{ConsoleId, JobId, Pid};

use super::manager::{ForManager, Manager};
use super::suite::{Event, LOCAL, Suite};
use crate::daemons::allocate;
use crate::kernel::{INIT, Process, State};
use crate::process::SUBMITTERS;
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
        (0..self.hosts.len()).for_each(|host| self.serve(host));
    }

    /// Performs what the daemon of a host has for managers, in its order.
    fn serve(&mut self, host: usize) {
        while let Some(output) = self.world.process(host).and_then(|process| {
            process.for_managers.as_mut().and_then(std::collections::VecDeque::pop_front)
        }) {
            match output {
                Output::Ask(question) => {
                    let answer = self.answer_table(host, question);
                    let process = self.world.process(host).expect("it asks");
                    process.is_asking = false;
                    self.tell_daemon(host, Input::Jobs(TableInput::Answer(answer)));
                }
                Output::Perform(action) => self.act(host, action),
                Output::LastReports(job) => {
                    self.give_table(host, TableInput::ManagerGone { job, is_unread: false });
                }
                Output::Registered { connection, result } => {
                    self.registered(host, connection, result);
                }
                // Its manager has the console already.
                Output::HandOver(_) => {}
                Output::Answer { console, reply: ConsoleReply::Refused { problem }, .. } => {
                    self.submitted = None;
                    self.refuse(console.0 - SUBMITTERS.0, &problem);
                }
                Output::ToManager(message) => self.pass_on(host, message),
                Output::Log(line) => self.say(host, &line.text),
                Output::Answer { .. } | Output::Ring(_) => panic!("not for managers: {output:?}"),
            }
        }
    }

    fn act(&mut self, host: usize, action: Action) {
        match action {
            Action::RemoveRecord(job) => _ = self.hosts[host].records.remove(&job),
            Action::Kill(Pid(pid)) => _ = self.hosts[host].kernel.send(pid, 9),
            // Jobs here have no groups, and no manager waits.
            Action::CloseRecord(_)
            | Action::RemoveGroup(_)
            | Action::Terminate(_)
            | Action::LeftBehind(_)
            | Action::Guard { .. }
            | Action::GiveUpCopies
            | Action::DropForkServer
            | Action::EndWaiting => {}
        }
    }

    fn tell_daemon(&mut self, host: usize, input: Input) {
        let now = self.now();
        if let Some(process) = self.world.process(host) {
            process.handle(now, input);
            self.world.perform(host);
        }
    }

    fn give_table(&mut self, host: usize, input: TableInput) {
        self.tell_daemon(host, Input::Jobs(input));
        self.serve(host);
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
        let console = &self.consoles[job];
        if console.is_over() {
            return;
        }
        let (host, spec) = (console.host, self.jobs[job].spec());
        if self.world.process(host).is_none() {
            return self.refuse(job, "no daemon");
        }
        self.submitted = Some((job, spec.encode()));
        let (console, process) = (ConsoleId(SUBMITTERS.0 + job), None);
        let (spec_bytes, notice) = (0, None);
        let submitted = Submitted { console, process, spec, spec_bytes, notice };
        self.tell_daemon(host, Input::Submitted(Box::new(submitted)));
        self.serve(host);
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
        let connection = ConsoleId(usize::try_from(pid).expect("a process"));
        self.give_table(host, TableInput::Registers { connection, opening, pid: Pid(pid) });
    }

    /// A daemon that does not know the job refuses its manager.
    fn registered(
        &mut self,
        host: usize,
        ConsoleId(connection): ConsoleId,
        result: Result<JobId, String>,
    ) {
        let pid = i32::try_from(connection).expect("a process");
        let (Ok(job), Some(manager)) = (result, self.hosts[host].managers.get_mut(&pid)) else {
            return;
        };
        manager.common.is_registered = true;
        self.say(host, &format!("manager {pid} of {job} registers"));
        self.push(LOCAL, Event::Manager(host, pid, ForManager::Registered(true)));
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

    fn answer_table(&mut self, host: usize, question: Question) -> Answer {
        let of = &mut self.hosts[host];
        match question {
            Question::MakeGroup => Answer::Group(None),
            Question::WriteRecord(_) if of.refusal.records => {
                Answer::Done(Err("no space left on the device".to_owned()))
            }
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
            Question::StartForkServer | Question::RequestCopy | Question::Copies => {
                panic!("no manager waits")
            }
        }
    }

    fn start_manager(&mut self, host: usize, order: ManagerOrder) -> Result<Pid, String> {
        let now = self.now();
        let root = self.submitted.take();
        let ManagerOrder::Start(order) = order else { panic!("{order:?}") };
        if let Some((job, _)) = &root {
            self.facts[*job].placed_on(&order.host_slices);
        }
        let of = &mut self.hosts[host];
        if of.refusal.forks {
            return Err("cannot start a manager".to_owned());
        }
        let process = Process { is_subreaper: true, ..Process::child_of(of.daemon) };
        let pid = of.kernel.start(process);
        let text = format!("manager {pid} of {} starts at {}", order.job, order.tree_index);
        if let Some((job, _)) = &root {
            self.consoles[*job].manager = Some(pid);
            self.consoles[*job].job = Some(order.job.clone());
        }
        let terminal = root.as_ref().map(|(job, _)| self.jobs[*job].terminal);
        of.managers.insert(pid, Manager::new(now, pid, *order, (root, terminal)));
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
            JobOrder::Grow { .. } => {
                facts.has_grown = true;
                facts.has_strays |= self.jobs[job].connects();
            }
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
