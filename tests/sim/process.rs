//! The process around a node: its consoles, the managers of its jobs, and its disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mpd_alloc::data::AllocNews;
use mpd_alloc::exchange::{self, Reply};
use mpd_daemon::{
    Announcement, Demand, Entrance, Facts, HookEnd, Input, JobsHere, ManagerMessage, Marked,
    Membership, NameRequest, Node, Output, RingIdentity, Root, Saved, SlotsImage, Turn,
};
use mpd_ring::{Output as RingOutput, Ring};
use mpd_sansio::{Pump, Time};
use mpd_wire::job::{Cookie, HostSlice, HostSlices, JobKey};
use mpd_wire::message::{
    ConsoleReply, HostUse, JobOrder, JobPart, JobRef, Launch, ManagerOrder, NameAnswer,
    NameOperation, RingRequest, ScatterId,
};
use mpd_wire::{DaemonName, Instance, JobId, RankSet};

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

/// A job with a manager on the host.
#[derive(Clone, Debug)]
pub(crate) struct JobHere {
    pub(crate) job: JobId,
    pub(crate) tree_index: usize,
    /// The process of the manager, unless it has not registered with this daemon yet.
    pub(crate) manager: Option<i32>,
    pub(crate) is_connected: bool,
    pub(crate) has_ended: bool,
}

/// The jobs of a host.
#[derive(Debug, Default)]
pub(crate) struct Jobs(pub(crate) Vec<JobHere>);

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
    /// For simulated managers. Without them, each job has a manager that starts and ends at once.
    pub(crate) for_managers: Option<VecDeque<ForManagers>>,
    disk: Disk,
    pub(crate) consoles: BTreeMap<usize, Console>,
    last_console: usize,
    /// Requests of managers about names, with their times.
    names: BTreeMap<u32, u64>,
    last_name: u32,
    launched: BTreeMap<JobId, Launched>,
    last_job: u64,
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
    pub(crate) fn new(now: Time, pump: Pump<Ring>, disk: Disk) -> Self {
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
        let roots = [1, 2].map(|number| JobHere::pretended(job_of(node.ring(), number), 0));
        Self {
            node,
            jobs: Jobs(roots.to_vec()),
            for_managers: None,
            disk,
            consoles: BTreeMap::new(),
            last_console: 0,
            names: BTreeMap::new(),
            last_name: 0,
            launched: BTreeMap::new(),
            last_job: 2,
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

    /// The same process with simulated managers. It has no job yet.
    pub(crate) fn with_managers(self) -> Self {
        Self { jobs: Jobs::default(), for_managers: Some(VecDeque::new()), ..self }
    }

    pub(crate) const fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) fn into_disk(self) -> Disk {
        self.disk
    }

    pub(crate) fn handle(&mut self, now: Time, input: Input) {
        let turn = Turn { now, wall_us: wall(now), jobs: &self.jobs };
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
                let turn = Turn { now, wall_us: wall(now), jobs: &self.jobs };
                self.node.begin_turn(turn, true);
                self.node.turn(turn, false);
                self.is_in_turn = true;
            } else if std::mem::take(&mut self.is_in_turn) {
                self.node.end_turn(Turn { now, wall_us: wall(now), jobs: &self.jobs });
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
            Output::ToManager(message) => self.tell_manager(message),
            Output::StartManager { order, launch, tree_index } if self.for_managers.is_some() => {
                self.for_managers.iter_mut().for_each(|queue| {
                    let launch = launch.clone();
                    queue.push_back(ForManagers::Start { order, launch, tree_index });
                });
            }
            Output::StartManager { order, launch, .. } => {
                if self.jobs.is_running(&launch.job) {
                    self.violations.push(format!("a second manager of {}", launch.job));
                }
                self.jobs.0.push(JobHere::pretended(launch.job.clone(), 1));
                self.started.push(launch.job.clone());
                let result = Ok(());
                self.results.push_back(Input::ManagerStarted { order, job: launch.job, result });
            }
            Output::Measure { order, page } => {
                let ranks = page.map(|_| (Vec::new(), false));
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
            Output::CountOutput | Output::KillHook(_) | Output::Log(_) => {}
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
        let Some(job) = self.jobs.connected_roots().into_iter().next() else { return };
        self.last_name += 1;
        self.names.insert(self.last_name, micros(now));
        let request = NameRequest::new(job, self.last_name, operation, || Ok([7; 16]));
        self.handle(now, Input::Demanded(Demand::Name(request)));
    }

    /// A job with its root manager here starts on these other hosts.
    pub(crate) fn launch(&mut self, now: Time, members: BTreeSet<DaemonName>) {
        let ring = self.node.ring();
        self.last_job += 1;
        let job = job_of(ring, self.last_job);
        let all = std::iter::once(ring.name()).chain(&members);
        let host_slice = |(rank, member): (u32, &DaemonName)| HostSlice {
            member: member.clone(),
            manager: Instance::from_bytes([7; 16]).plus(rank),
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
        self.jobs.0.push(JobHere::pretended(job.clone(), 0));
        if let Some(announcement) = Announcement::new(&launch, false).expect("a short list") {
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

    /// The manager of a job here gets a message.
    fn tell_manager(&mut self, message: ManagerMessage) {
        if let Some(queue) = &mut self.for_managers {
            return queue.push_back(ForManagers::Order(message));
        }
        let ManagerMessage { job, order } = message;
        match order {
            ManagerOrder::Job(JobOrder::Kill) | ManagerOrder::Kill => {
                if self.jobs.root(&job).is_some() {
                    self.results.push_back(Input::Demanded(Demand::Cancel(job.clone())));
                }
                self.jobs.0.retain(|here| here.job != job);
                self.launched.remove(&job);
            }
            ManagerOrder::Missing { members } => {
                let known = self.launched.get_mut(&job).map(|launched| &mut launched.members);
                let known = known.into_iter();
                known.for_each(|known| known.retain(|one| !members.iter().any(|(m, _)| m == one)));
            }
            ManagerOrder::Named { request, answer } => {
                self.counts[1] += u64::from(!matches!(answer, NameAnswer::Later(_)));
                if self.names.remove(&request).is_none() {
                    self.violations.push(format!("name request {request} is answered twice"));
                }
            }
            _ => {}
        }
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
        for (request, _) in self.names.extract_if(.., |_, asked| is_late(*asked)) {
            self.violations.push(format!("name request {request} gets no answer"));
        }
    }
}

/// See [`Entrance::patience`]; no daemon here gives up.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// A job of this daemon. A later daemon of the host has other ones.
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

impl JobHere {
    fn pretended(job: JobId, tree_index: usize) -> Self {
        Self { job, tree_index, manager: Some(1), is_connected: true, has_ended: false }
    }
}

impl Jobs {
    pub(crate) fn get_mut(&mut self, job: &JobId) -> Option<&mut JobHere> {
        self.0.iter_mut().find(|here| here.job == *job)
    }

    fn running(&self) -> impl Iterator<Item = &JobHere> {
        self.0.iter().filter(|here| !here.has_ended)
    }

    fn running_roots(&self) -> impl Iterator<Item = &JobHere> {
        self.running().filter(|here| here.tree_index == 0)
    }
}

impl JobsHere for Jobs {
    fn count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("few jobs")
    }

    fn listing(&self, _: u32) -> (Vec<JobPart>, bool) {
        let part = |here: &JobHere| JobPart {
            job: here.job.clone(),
            alias: None,
            user: "user".to_owned(),
            manager: 1,
            runs: Vec::new(),
            spawns: None,
        };
        (self.0.iter().map(part).collect(), false)
    }

    fn ranks_without_allocation(&self) -> u32 {
        0
    }

    fn are_known(&self) -> bool {
        self.0.iter().all(|here| here.manager.is_some())
    }

    fn is_running(&self, job: &JobId) -> bool {
        self.running().any(|here| here.job == *job)
    }

    fn has_branch(&self, job: &JobId) -> bool {
        self.running().any(|here| here.job == *job && here.tree_index > 0)
    }

    fn root(&self, job: &JobId) -> Option<bool> {
        self.running_roots().find(|here| here.job == *job).map(|here| here.is_connected)
    }

    fn roots(&self, meant: &JobRef) -> Vec<Root> {
        let root = |here: &JobHere| Root {
            job: here.job.clone(),
            connected: here.is_connected,
            receivers: None,
            running: None,
        };
        self.running_roots().filter(|here| meant.means(&here.job, None)).map(root).collect()
    }

    fn connected_roots(&self) -> Vec<JobId> {
        let connected = self.running_roots().filter(|here| here.is_connected);
        connected.map(|here| here.job.clone()).collect()
    }

    fn unregistered_root(&self) -> Option<JobId> {
        self.running_roots().find(|here| here.manager.is_none()).map(|here| here.job.clone())
    }

    fn find_by_mark(&self, _: &str) -> Marked {
        Marked::None
    }
}
