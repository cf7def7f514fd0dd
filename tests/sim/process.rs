//! The process around a node: its consoles, the managers of its jobs, and its disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mpd_alloc::data::AllocNews;
use mpd_alloc::exchange::{self, Reply};
use mpd_daemon::{
    Announcement, Demand, Entrance, Facts, HookEnd, Input, Membership, NameRequest, Node, Output,
    RingIdentity, Saved, SlotsImage, Turn,
};
use mpd_jobtable::{Event, Input as JobInput, ManagerMessage};
use mpd_ring::{Output as RingOutput, Ring};
use mpd_sansio::{Pump, Time};
use mpd_wire::job::{Cookie, HostSlice, HostSlices, JobKey};
use mpd_wire::message::{
    ConsoleReply, HostUse, JobOrder, Launch, ManagerOrder, NameAnswer, NameOperation, RingRequest,
    ScatterId,
};
use mpd_wire::{DaemonName, JobId, RankSet};

use crate::managers::{Jobs, Managers};
use crate::world::SECOND;

/// The time of day at the beginning, in microseconds.
const WALL: u64 = 1_000_000 * SECOND;

/// The longest time until the last answer to a request. A list of members may take 5 s to show the effect of an order.
const BOUND: u64 = 20 * SECOND;

/// Most turns without a pause.
const MOST_TURNS: u32 = 1000;

/// Slots of each host.
pub(crate) const SLOTS: u32 = 2;

/// The user of all daemons.
pub(crate) const UID: u32 = 1000;

/// What a daemon leaves on its host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    ring: Option<Vec<u8>>,
    slots: Option<Vec<u8>>,
    /// What runs there, and the records of jobs.
    pub(crate) managers: Managers,
}

/// A console with its request.
#[derive(Debug)]
pub(crate) struct Console {
    asked: u64,
    /// Whether the request may wait for others, as one for slots does.
    is_open: bool,
    is_answered: bool,
    pub(crate) replies: Vec<ConsoleReply>,
    /// The slots in which it believes.
    pub(crate) slots: BTreeMap<DaemonName, u32>,
}

/// A job that was started here and has hosts elsewhere.
#[derive(Debug)]
pub(crate) struct Launched {
    at: u64,
    /// Its other hosts, without those of which the root manager knows that they have no manager.
    pub(crate) members: BTreeSet<DaemonName>,
}

/// What the managers of a host have to do, if they are simulated.
#[derive(Debug)]
pub(crate) enum ForManagers {
    Start { order: ScatterId, launch: Box<Launch>, tree_index: usize },
    Order(ManagerMessage),
}

/// A node and its process.
#[derive(Debug)]
pub(crate) struct Process {
    node: Node,
    pub(crate) jobs: Jobs,
    /// For simulated managers. Without them, the process pretends them.
    pub(crate) for_managers: Option<VecDeque<ForManagers>>,
    disk: Disk,
    pub(crate) consoles: BTreeMap<usize, Console>,
    last_console: usize,
    /// Requests of managers about names, with their times.
    names: BTreeMap<u32, (u64, JobId)>,
    last_name: u32,
    launched: BTreeMap<JobId, Launched>,
    /// The jobs of other daemons that have had a manager here, until the world takes them.
    pub(crate) started: Vec<JobId>,
    /// Results of outputs, for the node.
    results: VecDeque<Input>,
    /// Whether the node must look at its deadlines and its queues.
    is_due: bool,
    /// The time of the last turn, and the number of turns at that time.
    turns: (Time, u32),
    /// Whether a turn has begun.
    is_in_turn: bool,
    /// Whether the node has left the ring.
    is_over: bool,
    /// Whether a console believes in other slots than before.
    pub(crate) slots_changed: bool,
    pub(crate) violations: Vec<String>,
    /// For the trace.
    pub(crate) lines: Vec<String>,
    /// Last answers to consoles, answers about names, and grants of slots.
    pub(crate) counts: [u64; 3],
}

impl Process {
    /// `waiting`: how many managers wait for jobs.
    pub(crate) fn new(now: Time, pump: Pump<Ring>, mut disk: Disk, waiting: u8) -> Self {
        let name = pump.machine().name().clone();
        let read = |text: &Vec<u8>| serde_json::from_slice(text).expect("a record");
        let (saved, before) = Saved::new(disk.ring.as_ref().map(read), "", name.as_str());
        let image = disk.slots.as_ref().map(|text| serde_json::from_slice(text).expect("a record"));
        let slots = SlotsImage::of_earlier(image, &name);
        let membership = Membership {
            entrance: Entrance { addresses: Vec::new(), patience: PATIENCE, give_up: None },
            saved,
            former: before.names,
            kept: None,
            lease: None,
        };
        let facts = Facts {
            identity: RingIdentity { name: String::new(), key: "0".to_owned() },
            release: "0".to_owned(),
            pid: 1,
            uid: UID,
            arch: "x".to_owned(),
            cpus: 2,
            speed_hundredths: None,
            has_hook: false,
        };
        let node = Node::new((now, wall(now)), pump, facts, membership, slots);
        let instance = node.ring().record(node.ring().name()).expect("its own record").instance;
        let managers = std::mem::take(&mut disk.managers);
        let jobs = Jobs::new(now, (name.as_str(), instance, waiting), managers);
        Self {
            node,
            jobs,
            for_managers: None,
            disk,
            consoles: BTreeMap::new(),
            last_console: 0,
            names: BTreeMap::new(),
            last_name: 0,
            launched: BTreeMap::new(),
            started: Vec::new(),
            results: VecDeque::new(),
            is_due: true,
            turns: (now, 0),
            is_in_turn: false,
            is_over: false,
            slots_changed: false,
            violations: Vec::new(),
            lines: Vec::new(),
            counts: [0; 3],
        }
    }

    /// The same process with two jobs.
    pub(crate) fn with_jobs(mut self, now: Time) -> Self {
        for _ in 0..2 {
            self.launch(now, BTreeSet::new());
        }
        self
    }

    /// The same process with simulated managers.
    pub(crate) fn with_managers(self) -> Self {
        Self { for_managers: Some(VecDeque::new()), ..self }
    }

    pub(crate) const fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) fn into_disk(self) -> Disk {
        Disk { managers: self.jobs.into_host(), ..self.disk }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let of_jobs = self.jobs.deadline().filter(|_| self.for_managers.is_none());
        [self.node.next_deadline(), of_jobs].into_iter().flatten().min()
    }

    pub(crate) fn handle(&mut self, now: Time, input: Input) {
        let turn = Turn { now, wall_us: wall(now), jobs: &self.jobs.table };
        self.node.handle(turn, input);
        self.is_due = true;
    }

    pub(crate) const fn wake(&mut self) {
        self.is_due = true;
    }

    /// The next output for the world.
    pub(crate) fn next(&mut self, now: Time) -> Option<RingOutput> {
        loop {
            if let Some(output) = self.node.poll_output() {
                if let Some(output) = self.perform(now, output) {
                    return Some(output);
                }
            } else if let Some(result) = self.results.pop_front() {
                self.handle(now, result);
            } else if std::mem::take(&mut self.is_due) {
                self.turns = (now, if self.turns.0 == now { self.turns.1 + 1 } else { 0 });
                assert!(self.turns.1 < MOST_TURNS, "the node never rests");
                if self.for_managers.is_none() {
                    self.jobs.turn(now);
                    self.route_jobs(now);
                }
                let turn = Turn { now, wall_us: wall(now), jobs: &self.jobs.table };
                self.node.begin_turn(turn, true);
                self.node.turn(turn, false);
                self.is_in_turn = true;
            } else if std::mem::take(&mut self.is_in_turn) {
                self.node.end_turn(Turn { now, wall_us: wall(now), jobs: &self.jobs.table });
                self.is_due = self.node.has_work();
            } else {
                return std::mem::take(&mut self.is_over).then(|| self.end());
            }
        }
    }

    /// The node has left the ring: every console has its last answer.
    fn end(&mut self) -> RingOutput {
        for (number, console) in &self.consoles {
            if !console.is_answered && !console.is_open {
                let text = format!("the daemon ends and console {number} has no last answer");
                self.violations.push(text);
            }
        }
        RingOutput::Over
    }

    /// Performs an output, or returns it if it is for the world.
    fn perform(&mut self, now: Time, output: Output) -> Option<RingOutput> {
        match output {
            Output::Connect(connect) => return Some(RingOutput::Connect(connect)),
            Output::Abandon(token) => return Some(RingOutput::Abandon(token)),
            Output::Send(link, message) => return Some(RingOutput::Send(link, message)),
            Output::Close(link) => return Some(RingOutput::Close(link)),
            Output::CloseAll => self.is_over = true,
            Output::Ping { console, target, .. } => {
                let reply = mpd_daemon::not_pingable(&target);
                self.results.push_back(Input::Pinged { console, reply });
            }
            Output::Answer { console, reply, is_last } => self.answer(console, reply, is_last),
            Output::ToManager(message) => self.tell_manager(now, message),
            Output::StartManager { order, launch, tree_index } if self.for_managers.is_some() => {
                let start = ForManagers::Start { order, launch, tree_index };
                self.for_managers.get_or_insert_default().push_back(start);
            }
            Output::StartManager { order, launch, tree_index } => {
                let job = launch.job.clone();
                let result = self.jobs.start_branch(now, launch, tree_index);
                self.started.extend(result.is_ok().then(|| job.clone()));
                self.route_jobs(now);
                self.results.push_back(Input::ManagerStarted { order, job, result });
            }
            Output::CountOutput if self.for_managers.is_some() => {}
            Output::CountOutput => {
                self.jobs.give(now, JobInput::CountOutput);
                self.route_jobs(now);
            }
            Output::Measure { order, page } => {
                let ranks = page.map(|page| {
                    let (samples, more) = self.jobs.table.usage(now, page);
                    (samples.into_iter().map(|sample| sample.run).collect(), more)
                });
                let host = measured(now);
                self.results.push_back(Input::Measured { order, host, ranks });
            }
            Output::StartHelper(member) => self.results.push_back(Input::HelperEnded(member)),
            Output::StartHook { hook, .. } => {
                let end = HookEnd::Exited(0, None);
                self.results.push_back(Input::HookEnded { hook, end });
            }
            Output::SaveRing(text) => self.disk.ring = Some(text),
            Output::ForgetRing { .. } => self.disk.ring = None,
            Output::SaveSlots(text) => self.disk.slots = Some(text),
            Output::ForgetSlots => self.disk.slots = None,
            Output::KillHook(_) | Output::Log(_) => {}
        }
        None
    }

    /// A new console asks. Returns its number.
    pub(crate) fn ask(&mut self, now: Time, request: RingRequest, is_open: bool) -> usize {
        self.last_console += 1;
        let console = self.last_console;
        let of = Console {
            asked: micros(now),
            is_open,
            is_answered: false,
            replies: Vec::new(),
            slots: BTreeMap::new(),
        };
        self.consoles.insert(console, of);
        self.lines.push(format!("> console {console} asks {request:?}"));
        self.handle(now, Input::Asked { console, request });
        console
    }

    /// A console ends, whatever it has.
    pub(crate) fn close(&mut self, now: Time, console: usize) {
        self.consoles.remove(&console);
        self.lines.push(format!("> console {console} ends"));
        self.handle(now, Input::ConsoleGone(console));
    }

    /// The manager of a job here asks about a name.
    pub(crate) fn ask_name(&mut self, now: Time, operation: NameOperation) {
        let Some(job) = self.jobs.table.connected_roots().into_iter().next() else { return };
        self.last_name += 1;
        self.names.insert(self.last_name, (micros(now), job.clone()));
        let request = NameRequest::new(job, self.last_name, operation, || Ok([7; 16]));
        self.handle(now, Input::Demanded(Demand::Name(request)));
    }

    /// A job with its root manager here starts on these other hosts.
    pub(crate) fn launch(&mut self, now: Time, members: BTreeSet<DaemonName>) {
        let ring = self.node.ring();
        let job = self.jobs.table.new_id(None).expect("a name");
        // Each manager has its own instance.
        let instance = ring.record(ring.name()).expect("its own record").instance;
        let first = u32::try_from(job.number() * 100).expect("few jobs");
        let all = std::iter::once(ring.name()).chain(&members);
        let host_slice = |(rank, member): (u32, &DaemonName)| HostSlice {
            member: member.clone(),
            manager: instance.plus(first + rank),
            addresses: Vec::new(),
            ranks: RankSet::from_ranges(vec![(rank, rank)]),
        };
        let list: Vec<HostSlice> = (0..).zip(all).map(host_slice).collect();
        let size = u32::try_from(list.len()).expect("few hosts");
        let launch = Launch {
            job: job.clone(),
            key: JobKey::from_bytes([1; 32]),
            cookie: Cookie::from_bytes([2; 16]),
            kvsname: "k".into(),
            tmpdir: "/tmp".into(),
            host_slices: HostSlices::new(list, size).expect("sound host slices"),
            universe: None,
            first: 0,
        };
        let is_started = self.jobs.start_root(now, launch.clone());
        self.route_jobs(now);
        if is_started
            && let Some(announcement) = Announcement::new(&launch, false).expect("a short list")
        {
            self.launched.insert(job, Launched { at: micros(now), members });
            self.handle(now, Input::Announced(announcement));
        }
    }

    fn answer(&mut self, number: usize, reply: ConsoleReply, is_last: bool) {
        let Some(console) = self.consoles.get_mut(&number) else { return };
        if console.is_answered {
            self.violations.push(format!("console {number} gets more than its last answer"));
        }
        console.is_answered |= is_last;
        self.counts[0] += u64::from(is_last);
        if let ConsoleReply::Slots(payload) = &reply
            && let Ok(Reply::News(news)) = exchange::decode(payload)
        {
            self.slots_changed = true;
            self.lines.push(format!("< console {number} hears {news:?}"));
            match news {
                AllocNews::Granted { parts, .. } => {
                    self.counts[2] += 1;
                    console.slots = parts.into_iter().map(|part| (part.host, part.slots)).collect();
                }
                AllocNews::Lost { host, .. } => drop(console.slots.remove(&host)),
                AllocNews::Over { .. } => console.slots.clear(),
                AllocNews::Waiting { .. } => {}
            }
        }
        console.replies.push(reply);
    }

    /// One of the managers here is killed.
    pub(crate) fn lose_manager(&mut self, now: Time) {
        self.jobs.lose_one(now);
        self.route_jobs(now);
        self.is_due = true;
    }

    /// Routes the events of the table of jobs.
    fn route_jobs(&mut self, now: Time) {
        while let Some(event) = self.jobs.events.pop_front() {
            match event {
                // The table's process takes these.
                Event::Started(_) | Event::ManagerDied(_) => {}
                Event::ToManager(message) => self.tell_manager(now, message),
                Event::Answer { console, reply, is_last } => self.answer(console, reply, is_last),
                Event::Registered { connection, result } => {
                    self.jobs.registered(now, connection, &result);
                    if let Ok(job) = result
                        && self.jobs.table.has_branch(&job)
                        && self.node.is_cancelled(&job)
                    {
                        self.tell_manager(now, ManagerMessage::new(job, ManagerOrder::Kill));
                    }
                }
                Event::Reported { job, report } => {
                    let demand = Demand::of(job, report, || Ok([7; 16]));
                    demand.into_iter().for_each(|demand| self.demand(now, demand));
                }
                Event::Cancelled(job) => self.demand(now, Demand::Cancel(job)),
                Event::ManagerEnded { job, end } => {
                    self.demand(now, Demand::ManagerEnded { job, end });
                }
            }
        }
        self.violations.append(&mut self.jobs.violations);
        self.lines.append(&mut self.jobs.lines);
        // The jobs that are over here need no answers.
        let table = &self.jobs.table;
        self.launched.retain(|job, _| table.is_running(job));
        self.names.retain(|_, (_, job)| table.is_running(job));
    }

    fn demand(&mut self, now: Time, demand: Demand) {
        self.handle(now, Input::Demanded(demand));
    }

    /// The manager of a job here gets a message.
    fn tell_manager(&mut self, now: Time, message: ManagerMessage) {
        if let Some(queue) = &mut self.for_managers {
            return queue.push_back(ForManagers::Order(message));
        }
        let ManagerMessage { job, order } = message;
        match order {
            ManagerOrder::Job(JobOrder::Kill) | ManagerOrder::Kill => {
                self.jobs.end(now, &job);
                self.route_jobs(now);
            }
            ManagerOrder::Missing { members } => {
                let known = self.launched.get_mut(&job).map(|launched| &mut launched.members);
                let known = known.into_iter();
                known.for_each(|known| known.retain(|one| !members.iter().any(|(m, _)| m == one)));
            }
            ManagerOrder::Named { request, answer } => {
                self.counts[1] += u64::from(!matches!(answer, NameAnswer::Later(_)));
                if self.names.remove(&request).is_none() && self.jobs.table.is_running(&job) {
                    self.violations.push(format!("name request {request} is answered twice"));
                }
            }
            _ => {}
        }
    }

    /// What is wrong with the jobs here in calm.
    pub(crate) fn after_calm(&self) -> Vec<String> {
        self.jobs.after_calm()
    }

    /// The jobs whose announcements are over, with the hosts that must have had a manager.
    pub(crate) fn take_launched(&mut self, now: u64) -> Vec<(JobId, BTreeSet<DaemonName>)> {
        let over = self.launched.extract_if(.., |_, launched| now > launched.at + BOUND);
        over.map(|(job, launched)| (job, launched.members)).collect()
    }

    /// Notes requests that were not answered in time.
    pub(crate) fn check_bounds(&mut self, now: u64) {
        let is_late = |asked: u64| now > asked + BOUND;
        for (number, console) in &mut self.consoles {
            if !console.is_answered && !console.is_open && is_late(console.asked) {
                // It is reported once.
                console.is_open = true;
                self.violations.push(format!("console {number} gets no last answer"));
            }
        }
        for (request, _) in self.names.extract_if(.., |_, (asked, _)| is_late(*asked)) {
            self.violations.push(format!("name request {request} gets no answer"));
        }
    }
}

/// See [`Entrance::patience`]; no daemon here gives up.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// The id of a job of the daemon with this ring.
pub(crate) fn job_of(ring: &Ring, number: u64) -> JobId {
    let instance = ring.record(ring.name()).expect("its own record").instance;
    JobId::new(number, ring.name().as_str()).expect("a job").of(instance)
}

fn micros(time: Time) -> u64 {
    u64::try_from(time.since(Time::ZERO).as_micros()).expect("a time")
}

fn wall(now: Time) -> u64 {
    WALL + micros(now)
}

fn measured(now: Time) -> HostUse {
    HostUse {
        at_us: micros(now),
        cpus: 2,
        load_hundredths: 0,
        speed_hundredths: 100,
        busy_ms: 0,
        memory_kib: 1,
        available_kib: 1,
    }
}
