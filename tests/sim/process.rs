//! The process around a node: its consoles, the managers of its jobs, and its disk.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mpd_alloc::data::AllocNews;
use mpd_alloc::exchange::{self, Reply};
use mpd_daemon::{
    At, Entrance, Facts, HookEnd, Input, Kernel, Member, Membership, Node, Output, RingAction,
    RingEvent, RingIdentity, Saved, SlotsImage,
};
use mpd_jobtable::{Input as JobInput, ManagerMessage, Secrets};
use mpd_ring::{Output as RingOutput, Ring};
use mpd_sansio::{Pump, Time};
use mpd_wire::job::{Cookie, HostSlice, HostSlices, JobKey};
use mpd_wire::message::{
    ConsoleReply, HostUse, JobOrder, Launch, ManagerOrder, ManagerReport, NameAnswer,
    NameOperation, RingRequest,
};
use mpd_wire::{ConsoleId, DaemonName, JobId, RankSet};

use crate::managers::{DIED, Jobs, Managers, table};
use crate::world::SECOND;

/// The time of day at the beginning, in microseconds.
const WALL: u64 = 1_000_000 * SECOND;

/// The longest time until the last answer to a request. A list of members may take 5 s to show the effect of an order.
const BOUND: u64 = 20 * SECOND;

/// Most turns without a pause.
const MOST_TURNS: u32 = 1000;

/// Slots of each host.
pub(crate) const SLOTS: u32 = 2;

/// The consoles that submit jobs have this number and greater ones.
pub(crate) const SUBMITTERS: ConsoleId = ConsoleId(1 << 20);

/// The user of all daemons.
pub(crate) const UID: u32 = 1000;

/// What a daemon leaves on its host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    ring: Option<Vec<u8>>,
    slots: Option<Vec<u8>>,
    /// What is written is lost, and the files stay as they are.
    pub(crate) is_full: bool,
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

/// The kernel of a host, as a node asks it.
#[derive(Debug)]
struct HostKernel {
    wall_us: u64,
    /// The first half of all random bytes, and the number of those that were asked for.
    own: [u8; 8],
    count: Cell<u32>,
}

/// A daemon looks at its deadlines in these steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Rests,
    HasLooked,
    IsInTurn,
}

/// A node and its process.
#[derive(Debug)]
pub(crate) struct Process {
    node: Node,
    kernel: HostKernel,
    jobs: Jobs,
    /// Outputs about jobs, if the managers are simulated. Without that, the process pretends them.
    pub(crate) for_managers: Option<VecDeque<Output>>,
    /// Whether the last of these outputs is a question. The node takes nothing before the answer.
    pub(crate) is_asking: bool,
    disk: Disk,
    pub(crate) consoles: BTreeMap<ConsoleId, Console>,
    last_console: usize,
    /// Requests of managers about names, with their times.
    names: BTreeMap<u32, (u64, JobId)>,
    last_name: u32,
    /// The other hosts of jobs that are to start here.
    launches: VecDeque<BTreeSet<DaemonName>>,
    launching: Option<(JobId, BTreeSet<DaemonName>)>,
    launched: BTreeMap<JobId, Launched>,
    /// Results of outputs, for the node.
    results: VecDeque<Input>,
    /// Whether the node must look at its deadlines and its queues.
    is_due: bool,
    stage: Stage,
    /// The time of the last turn, and the number of turns at that time.
    turns: (Time, u32),
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

impl HostKernel {
    fn at(&mut self, now: Time) -> At<'_> {
        self.wall_us = wall(now);
        At { now, kernel: self }
    }
}

impl Kernel for HostKernel {
    fn random(&self) -> Result<[u8; 16], String> {
        self.count.set(self.count.get() + 1);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.own);
        bytes[8..12].copy_from_slice(&self.count.get().to_be_bytes());
        Ok(bytes)
    }

    fn secrets(&self) -> Result<Secrets, String> {
        let random = self.random()?;
        let mut key = [0; 32];
        key[..16].copy_from_slice(&random);
        Ok(Secrets { key, cookie: random, kvsname: random })
    }

    fn pid(&self) -> u32 {
        1
    }

    fn cpus(&self) -> u32 {
        2
    }

    fn user(&self) -> String {
        "user".to_owned()
    }

    fn wall_us(&self) -> u64 {
        self.wall_us
    }
}

impl Process {
    /// `waiting`: how many managers wait for jobs.
    pub(crate) fn new(now: Time, pump: Pump<Ring>, mut disk: Disk, waiting: u8) -> Self {
        let name = pump.machine().name().clone();
        let instance = pump.machine().record(&name).expect("its own record").instance;
        let read = |text: &Vec<u8>| serde_json::from_slice(text).expect("a record");
        let (saved, before) = Saved::new(disk.ring.as_ref().map(read), "", name.as_str());
        let image = disk.slots.as_ref().map(|text| serde_json::from_slice(text).expect("a record"));
        let slots = SlotsImage::of_earlier(image, &name);
        let membership = Membership {
            entrance: Entrance::new(now, PULSE, false, Vec::new()),
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
        let member = Member::new((now, wall(now)), pump, facts, membership, slots);
        let managers = std::mem::take(&mut disk.managers);
        let jobs = table(now, name.as_str(), instance, waiting);
        let own = instance.to_bytes()[..8].try_into().expect("8 bytes");
        Self {
            node: Node::new(jobs, Some(member)),
            kernel: HostKernel { wall_us: 0, own, count: Cell::new(0) },
            jobs: Jobs::new(now, instance, managers),
            for_managers: None,
            is_asking: false,
            disk,
            consoles: BTreeMap::new(),
            last_console: 0,
            names: BTreeMap::new(),
            last_name: 0,
            launches: VecDeque::new(),
            launching: None,
            launched: BTreeMap::new(),
            results: VecDeque::new(),
            is_due: true,
            stage: Stage::Rests,
            turns: (now, 0),
            is_over: false,
            slots_changed: false,
            violations: Vec::new(),
            lines: Vec::new(),
            counts: [0; 3],
        }
    }

    /// The same process with two jobs.
    pub(crate) fn with_jobs(mut self) -> Self {
        self.launches.extend([BTreeSet::new(), BTreeSet::new()]);
        self
    }

    /// The same process with simulated managers.
    pub(crate) fn with_managers(mut self) -> Self {
        self.jobs.next.clear();
        Self { for_managers: Some(VecDeque::new()), ..self }
    }

    pub(crate) fn ring(&self) -> &Ring {
        self.node.ring().expect("a ring")
    }

    pub(crate) const fn fill_disk(&mut self, is_full: bool) {
        self.disk.is_full = is_full;
    }

    pub(crate) fn into_disk(self) -> Disk {
        Disk { managers: self.jobs.into_host(), ..self.disk }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        [self.node.next_deadline(), self.jobs.deadline()].into_iter().flatten().min()
    }

    pub(crate) fn handle(&mut self, now: Time, input: Input) {
        // An answer belongs to the step that has asked.
        self.is_due |= !matches!(input, Input::Jobs(JobInput::Answer(_)));
        self.node.handle(self.kernel.at(now), input);
    }

    pub(crate) const fn wake(&mut self) {
        self.is_due = true;
    }

    /// The next output for the world.
    pub(crate) fn next(&mut self, now: Time) -> Option<RingOutput> {
        while !self.is_asking {
            if let Some(output) = self.node.poll_turn(self.kernel.at(now)) {
                if let Some(output) = self.perform(now, output) {
                    return Some(output);
                }
            } else if !self.go_on(now) {
                self.note_jobs();
                return std::mem::take(&mut self.is_over).then(|| self.end());
            }
        }
        None
    }

    /// Takes the next step. `false`: there is none.
    fn go_on(&mut self, now: Time) -> bool {
        if let Some(result) = self.results.pop_front() {
            self.handle(now, result);
        } else if let Some(input) = self.jobs.next.pop_front() {
            self.handle(now, Input::Jobs(input));
        } else if let Some(members) = self.launches.pop_front() {
            self.start(now, members);
        } else if self.jobs.turn(now) {
            self.is_due = true;
        } else if self.stage == Stage::HasLooked {
            self.node.begin_turn(self.kernel.at(now), true);
            self.node.turn(self.kernel.at(now), false);
            self.stage = Stage::IsInTurn;
        } else if std::mem::take(&mut self.is_due) {
            self.turns = (now, if self.turns.0 == now { self.turns.1 + 1 } else { 0 });
            assert!(self.turns.1 < MOST_TURNS, "the node never rests");
            self.node.look_at_jobs(self.kernel.at(now));
            self.stage = Stage::HasLooked;
        } else if self.stage == Stage::IsInTurn {
            self.stage = Stage::Rests;
            self.node.end_turn(self.kernel.at(now));
            self.is_due = self.node.has_work();
        } else {
            return false;
        }
        true
    }

    /// Notes what has happened to the jobs.
    fn note_jobs(&mut self) {
        self.violations.append(&mut self.jobs.violations);
        self.lines.append(&mut self.jobs.lines);
        // The jobs that are over here need no answers.
        let table = self.node.jobs();
        self.launched.retain(|job, _| table.is_running(job));
        self.names.retain(|_, (_, job)| table.is_running(job));
    }

    /// The jobs of other daemons that have got a manager here since the last call.
    pub(crate) fn take_started(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.jobs.started)
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
        if let Some(for_managers) = &mut self.for_managers {
            let is_for_managers = match &output {
                Output::Answer { console, .. } => *console >= SUBMITTERS,
                Output::Ring(_) => false,
                _ => true,
            };
            if is_for_managers {
                self.is_asking = matches!(output, Output::Ask(_));
                for_managers.push_back(output);
                return None;
            }
        }
        match output {
            Output::Ask(question) => {
                let answer = self.jobs.answer(now, question);
                self.jobs.next.push_front(JobInput::Answer(answer));
            }
            Output::Perform(action) => self.jobs.perform(now, action),
            Output::LastReports(job) => self.jobs.bury(job),
            Output::Registered { connection, result } => {
                self.jobs.registered(now, connection, &result);
            }
            Output::HandOver(_) => {
                if let Some((job, members)) = self.launching.take().filter(|(_, m)| !m.is_empty()) {
                    self.launched.insert(job, Launched { at: micros(now), members });
                }
            }
            Output::Answer { console, reply, is_last } => self.answer(console, reply, is_last),
            Output::ToManager(message) => self.tell_manager(now, message),
            Output::Log(line) => {
                if line.text.ends_with(DIED) && line.text.starts_with("job ") {
                    self.violations.push("a job fails with a manager in waiting".to_owned());
                }
                self.lines.push(line.text);
            }
            Output::Ring(action) => return self.act(now, action),
        }
        None
    }

    /// Performs an action for the ring, or returns it if it is for the world.
    fn act(&mut self, now: Time, action: RingAction) -> Option<RingOutput> {
        let mut tell = |event| self.results.push_back(Input::Ring(event));
        match action {
            RingAction::Connect(connect) => return Some(RingOutput::Connect(connect)),
            RingAction::Abandon(token) => return Some(RingOutput::Abandon(token)),
            RingAction::Send(link, message) => return Some(RingOutput::Send(link, message)),
            RingAction::Close(link) => return Some(RingOutput::Close(link)),
            RingAction::CloseAll => self.is_over = true,
            RingAction::Ping { console, target, .. } => {
                tell(RingEvent::Pinged { console, reply: mpd_daemon::not_pingable(&target) });
            }
            RingAction::Measure { order, page } => {
                let ranks = page.map(|page| {
                    let (samples, more) = self.node.jobs().usage(now, page);
                    (samples.into_iter().map(|sample| sample.run).collect(), more)
                });
                tell(RingEvent::Measured { order, host: measured(now), ranks });
            }
            RingAction::StartHelper(member) => tell(RingEvent::HelperEnded(member)),
            RingAction::StartHook { hook, .. } => {
                tell(RingEvent::HookEnded { hook, end: HookEnd::Exited(0, None) });
            }
            RingAction::SaveRing(_) | RingAction::SaveSlots(_) if self.disk.is_full => {}
            RingAction::SaveRing(text) => self.disk.ring = Some(text),
            RingAction::ForgetRing { .. } => self.disk.ring = None,
            RingAction::SaveSlots(text) => self.disk.slots = Some(text),
            RingAction::ForgetSlots => self.disk.slots = None,
            RingAction::KillHook(_) => {}
        }
        None
    }

    /// A new console asks. Returns its number.
    pub(crate) fn ask(&mut self, now: Time, request: RingRequest, is_open: bool) -> ConsoleId {
        self.last_console += 1;
        let console = ConsoleId(self.last_console);
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
    pub(crate) fn close(&mut self, now: Time, console: ConsoleId) {
        self.consoles.remove(&console);
        self.lines.push(format!("> console {console} ends"));
        self.handle(now, Input::ConsoleGone(console));
    }

    /// The manager of a job here asks about a name.
    pub(crate) fn ask_name(&mut self, now: Time, operation: NameOperation) {
        let roots = self.node.jobs().connected_roots();
        // A manager that was stopped asks nothing.
        let Some(job) = roots.into_iter().find(|job| !self.jobs.is_stopped(job)) else { return };
        self.last_name += 1;
        let request = self.last_name;
        self.names.insert(request, (micros(now), job.clone()));
        let report = ManagerReport::Name { request, operation };
        self.handle(now, Input::Jobs(JobInput::Reported { job, report }));
    }

    /// A job with its root manager here starts on these other hosts.
    pub(crate) fn launch(&mut self, members: BTreeSet<DaemonName>) {
        self.launches.push_back(members);
    }

    fn start(&mut self, now: Time, members: BTreeSet<DaemonName>) {
        let ring = self.ring();
        let job = self.node.jobs().new_id(None).expect("a name");
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
        self.launching = Some((job, members));
        self.is_due = true;
        let at = self.kernel.at(now);
        self.node.start(at, SUBMITTERS, launch).expect("a short list");
    }

    fn answer(&mut self, number: ConsoleId, reply: ConsoleReply, is_last: bool) {
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
        self.is_due = true;
    }

    /// The manager of a job here gets a message.
    fn tell_manager(&mut self, now: Time, message: ManagerMessage) {
        let ManagerMessage { job, order } = message;
        match order {
            ManagerOrder::Job(JobOrder::Kill) | ManagerOrder::Kill => {
                self.jobs.end(now, &job);
            }
            ManagerOrder::Missing { members } => {
                let known = self.launched.get_mut(&job).map(|launched| &mut launched.members);
                let known = known.into_iter();
                known.for_each(|known| known.retain(|one| !members.iter().any(|(m, _)| m == one)));
            }
            ManagerOrder::Named { request, answer } => {
                self.counts[1] += u64::from(!matches!(answer, NameAnswer::Later(_)));
                if self.names.remove(&request).is_none() && self.node.jobs().is_running(&job) {
                    self.violations.push(format!("name request {request} is answered twice"));
                }
            }
            _ => {}
        }
    }

    /// What is wrong with the jobs here in calm.
    pub(crate) fn after_calm(&self) -> Vec<String> {
        self.jobs.after_calm(self.node.jobs())
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

/// The pulse of the ring; no daemon here gives up.
const PULSE: std::time::Duration = std::time::Duration::from_secs(1);

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
