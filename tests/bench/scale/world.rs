//! Simulated hosts with the real ring machines and the real managers of a job. A host has one CPU, which handles one
//! message after the other, and one network interface, which sends one after the other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use mpd_job::manager::spawns::SpawnSettings;
use mpd_job::manager::{Config, Input as JobInput, Manager, Output as JobOutput};
use mpd_ring::{
    Connect, DialFailure, Formed, Input, LinkId, Output, Peer, RequestId, Ring, RingConfig, Rules,
    Timing, Token,
};
use mpd_sansio::{Pump, Time};
use mpd_wire::job::{AbortScope, HostSlice, HostSlices, OnFailure, RankEnd};
use mpd_wire::message::{Down, Payload, RingMessage, ScatterId, Up};
use mpd_wire::{Instance, Rank, RankSet};

use super::costs::{Costs, record, sealed};

/// From one host to another.
const LATENCY_US: f64 = 50.0;
/// Bytes that a network interface sends in a microsecond: 10 Gbit/s.
const BYTES_PER_US: f64 = 1250.0;
/// Bytes of a small message of the job tree.
const SMALL: usize = 100;

type Us = f64;

/// CPU time of the sender and of the receiver of a message.
#[derive(Clone, Copy, Debug)]
struct Cost {
    out: Us,
    inward: Us,
}

impl Cost {
    const fn each(us: Us) -> Self {
        Self { out: us, inward: us }
    }
}

#[derive(Debug)]
enum Event {
    /// A daemon's timer.
    Alarm(usize),
    /// A connection is up; which side learns it, with which token.
    LinkUp {
        host: usize,
        link: LinkId,
        token: Option<Token>,
        peer: usize,
        purpose: mpd_ring::Purpose,
    },
    /// Bytes arrived, and the event follows when the CPU has handled them.
    Arrived {
        host: usize,
        cost: Us,
        event: Box<Self>,
    },
    /// A message of the ring is handled.
    Message {
        host: usize,
        link: LinkId,
        message: Box<RingMessage>,
    },
    Closed {
        host: usize,
        link: LinkId,
    },
    Refused {
        host: usize,
        token: Token,
    },
    /// The answer of a daemon to an order.
    Answer {
        host: usize,
        id: ScatterId,
    },
    /// The manager of this host has started.
    Managed(usize),
    /// An input of a manager.
    Job {
        host: usize,
        input: Box<JobInput>,
    },
    /// The specification has arrived at this host.
    Spec(usize),
}

struct Host {
    ring: Pump<Ring>,
    manager: Option<Pump<Manager>>,
    managed: bool,
    spec: bool,
    alive: bool,
    /// The far ends of its links.
    ends: BTreeMap<LinkId, (usize, LinkId)>,
    alarm: Us,
    busy: Us,
    sending: Us,
    messages: u64,
    bytes: u64,
}

/// What a phase took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Phase {
    pub(crate) seconds: f64,
    pub(crate) messages: f64,
    pub(crate) most_messages: u64,
    pub(crate) bytes: f64,
    pub(crate) most_bytes: u64,
}

pub(crate) struct World {
    costs: Costs,
    now: Us,
    sequence: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    hosts: Vec<Host>,
    host_slices: HostSlices,
    spec: usize,
    last_link: u64,
    /// The times at which something was over: the scatter, the go, the start of all ranks, the job, the lap.
    pub(crate) scattered: Option<Us>,
    pub(crate) depth: u32,
    started: usize,
    pub(crate) all_started: Option<Us>,
    pub(crate) finished: Option<Us>,
    pub(crate) lap: Option<Us>,
}

fn time(us: Us) -> Time {
    Time::from_micros(us as u64)
}

impl World {
    /// A formed ring, with all links.
    pub(crate) fn formed(size: usize, spec: usize, costs: Costs) -> Self {
        let count = u32::try_from(size).expect("a size");
        let list = Formed::new((0..count).map(record));
        let start = 1e6;
        let host = |number: u32| {
            let own = record(number);
            let config = RingConfig {
                name: own.name,
                instance: own.instance,
                addresses: own.addresses,
                ncpus: own.ncpus,
                ordinal: Some(own.ordinal),
                entry: Vec::new(),
                waits: false,
                seeds: Vec::new(),
                timing: Timing::default(),
                chance: u64::from(number) + 1,
                rules: Rules::default(),
            };
            Host {
                ring: Pump::new(Ring::formed(time(start), config, &list)),
                manager: None,
                managed: false,
                spec: false,
                alive: true,
                ends: BTreeMap::new(),
                alarm: f64::MAX,
                busy: start,
                sending: start,
                messages: 0,
                bytes: 0,
            }
        };
        let first = Instance::from_bytes([9; 16]);
        let host_slice = |number: u32| HostSlice {
            member: record(number).name,
            manager: first.plus(number),
            addresses: Vec::new(),
            ranks: RankSet::from_ranges(vec![(number, number)]),
        };
        let slices = (0..count).map(host_slice).collect();
        let mut host_slices = HostSlices::new(slices, count).expect("host slices");
        let addresses: BTreeMap<_, _> =
            (0..count).map(record).map(|record| (record.name, record.addresses)).collect();
        host_slices.address(|member| addresses.get(member).cloned());
        let mut world = Self {
            costs,
            now: start,
            sequence: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            hosts: (0..count).map(host).collect(),
            host_slices,
            spec,
            last_link: 0,
            scattered: None,
            depth: 0,
            started: 0,
            all_started: None,
            finished: None,
            lap: None,
        };
        (0..size).for_each(|host| world.perform(host));
        // Time for the neighbours and the chords.
        world.run_until(|_| false, 8e6);
        world
    }

    /// The time in microseconds.
    pub(crate) const fn now(&self) -> Us {
        self.now
    }

    fn size(&self) -> usize {
        self.hosts.len()
    }

    /// Runs until `done`, for at most this time. Returns what that took.
    pub(crate) fn run_until(&mut self, done: impl Fn(&Self) -> bool, most: Us) -> Phase {
        let begin = self.now;
        for host in &mut self.hosts {
            (host.messages, host.bytes) = (0, 0);
        }
        while !done(self) {
            let Some(Reverse((at, sequence))) = self.queue.peek().copied() else { break };
            let at = at as f64 / 1e3;
            if at > begin + most {
                self.now = begin + most;
                break;
            }
            self.queue.pop();
            self.now = self.now.max(at);
            let event = self.events.remove(&sequence).expect("an event");
            self.happen(event);
        }
        let count = self.hosts.len() as f64;
        let sum = |of: fn(&Host) -> u64| self.hosts.iter().map(of).sum::<u64>() as f64 / count;
        let most = |of: fn(&Host) -> u64| self.hosts.iter().map(of).max().unwrap_or(0);
        Phase {
            seconds: (self.now - begin) / 1e6,
            messages: sum(|host| host.messages),
            most_messages: most(|host| host.messages),
            bytes: sum(|host| host.bytes),
            most_bytes: most(|host| host.bytes),
        }
    }

    fn push(&mut self, at: Us, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse(((at.max(self.now) * 1e3) as u64, self.sequence)));
        self.events.insert(self.sequence, event);
    }

    /// The CPU of a host works for that long; returns the time at which it is done.
    fn work(&mut self, host: usize, from: Us, us: f64) -> Us {
        let host = &mut self.hosts[host];
        host.busy = host.busy.max(from) + us;
        host.busy
    }

    /// Sends that many bytes. The event happens when the receiver has handled them.
    fn carry(&mut self, (from, to): (usize, usize), bytes: usize, cost: Cost, event: Event) {
        let Cost { out, inward } = cost;
        let done = self.work(from, self.now, out);
        let sender = &mut self.hosts[from];
        sender.sending = sender.sending.max(done) + bytes as f64 / BYTES_PER_US;
        sender.messages += 1;
        sender.bytes += bytes as u64;
        let arrived = sender.sending + LATENCY_US;
        self.push(arrived, Event::Arrived { host: to, cost: inward, event: Box::new(event) });
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Alarm(host) => {
                if self.hosts[host].alarm <= self.now {
                    self.hosts[host].alarm = f64::MAX;
                    let now = time(self.now);
                    let ring = &mut self.hosts[host].ring;
                    if ring.machine().poll_timeout().is_some_and(|due| due <= now) {
                        ring.handle_timeout(now);
                    }
                    self.perform(host);
                }
            }
            Event::LinkUp { host, link, token, peer, purpose } => {
                let of = record(u32::try_from(peer).expect("a host"));
                let peer = Peer { name: of.name, instance: of.instance };
                let from = of.addresses[0].clone();
                self.post(host, Input::LinkUp { link, token, peer, purpose, from });
            }
            Event::Message { host, link, message } => {
                self.post(host, Input::Received(link, *message))
            }
            Event::Closed { host, link } => self.post(host, Input::LinkClosed(link)),
            Event::Refused { host, token } => {
                self.post(host, Input::ConnectFailed(token, DialFailure::Refused));
            }
            Event::Answer { host, id } => {
                let answer = Payload::from(&b"\x64done"[..]);
                self.post(host, Input::Answered(id, answer));
            }
            Event::Arrived { host, cost, event } => {
                let at = self.work(host, self.now, cost);
                self.push(at, *event);
            }
            Event::Managed(host) => self.managed(host),
            Event::Spec(host) => {
                self.hosts[host].spec = true;
                self.job(host, JobInput::Ready);
                self.pass_spec(host);
            }
            Event::Job { host, input } => self.job(host, *input),
        }
    }

    fn post(&mut self, host: usize, input: Input) {
        if self.hosts[host].alive {
            self.hosts[host].ring.post(input);
            self.perform(host);
        }
    }

    fn perform(&mut self, host: usize) {
        while let Some(output) = self.hosts[host].ring.next(time(self.now)) {
            match output {
                Output::Connect(Connect { token, name, purpose, .. }) => {
                    let to = name.and_then(|name| name.as_str()[4..].parse::<usize>().ok());
                    let Some(to) = to else { continue };
                    if self.hosts[to].alive {
                        self.connect(host, to, token, purpose);
                    } else {
                        // Its kernel refuses the connection.
                        let at = self.now + 2.0 * LATENCY_US;
                        self.push(at, Event::Refused { host, token });
                    }
                }
                Output::Send(link, message) => {
                    let Some(&(to, far)) = self.hosts[host].ends.get(&link) else { continue };
                    let (bytes, cost) = self.cost_of(&message);
                    let event = Event::Message { host: to, link: far, message: Box::new(message) };
                    self.carry((host, to), bytes, cost, event);
                }
                Output::Close(link) => {
                    if let Some((to, far)) = self.hosts[host].ends.remove(&link) {
                        self.hosts[to].ends.remove(&far);
                        self.push(self.now + LATENCY_US, Event::Closed { host: to, link: far });
                    }
                }
                Output::Deliver { id, payload, .. } => {
                    if payload.as_bytes().len() > 1000 && host > 0 {
                        self.start_manager(host);
                    }
                    self.push(self.now, Event::Answer { host, id });
                }
                Output::Scattered { missing, depth, .. } => {
                    assert!(missing.is_empty(), "{} members did not answer", missing.len());
                    (self.scattered, self.depth) = (Some(self.now), depth);
                }
                Output::LapsHome { .. } => self.lap = Some(self.now),
                Output::LapLost { .. } | Output::Refused(_) => panic!("{output:?}"),
                Output::Abandon(_)
                | Output::Published { .. }
                | Output::Unpublished { .. }
                | Output::NameLost { .. }
                | Output::Event(_)
                | Output::Over => {}
            }
        }
        let due = self.hosts[host].ring.machine().poll_timeout();
        let due = due.map_or(f64::MAX, |due| (due - Time::ZERO).as_micros() as f64).max(self.now);
        if due < self.hosts[host].alarm {
            self.hosts[host].alarm = due;
            self.push(due, Event::Alarm(host));
        }
    }

    fn connect(&mut self, from: usize, to: usize, token: Token, purpose: mpd_ring::Purpose) {
        let [near, far] = [1, 2].map(|side| LinkId(self.last_link + side));
        self.last_link += 2;
        self.hosts[from].ends.insert(near, (to, far));
        self.hosts[to].ends.insert(far, (from, near));
        let up = self.now + 2.0 * LATENCY_US;
        let opened =
            Event::LinkUp { host: from, link: near, token: Some(token), peer: to, purpose };
        let accepted = Event::LinkUp { host: to, link: far, token: None, peer: from, purpose };
        // The acceptor learns of the link before any message comes by it.
        self.push(up - 0.5 * LATENCY_US, accepted);
        self.push(up, opened);
    }

    /// Bytes of a message, and the costs of its sender and of its receiver.
    fn cost_of(&self, message: &RingMessage) -> (usize, Cost) {
        let small = self.costs.hop / 2.0;
        let extra = (self.costs.member_of_scatter / 4.0 - small).max(0.0);
        match message {
            RingMessage::Scatter(scatter) => {
                let payload = scatter.payload.as_bytes().len();
                let empty = Payload::from(&b""[..]);
                let head = sealed(&RingMessage::Scatter(mpd_wire::message::Scatter {
                    payload: empty,
                    ..scatter.clone()
                }));
                let codec = self.costs.kib_of_scatter / 2.0 * payload as f64 / 1024.0;
                let each = small + extra + codec;
                (head + payload, Cost::each(each))
            }
            RingMessage::Gathered(_) => {
                let bytes = sealed(message);
                let codec = self.costs.kib_of_scatter / 2.0 * bytes as f64 / 1024.0;
                let each = small + extra + codec;
                (bytes, Cost::each(each))
            }
            RingMessage::Pulse { .. } => (70, Cost::each(small)),
            RingMessage::List { .. }
            | RingMessage::Update { .. }
            | RingMessage::Names { .. }
            | RingMessage::Lap(_) => {
                let bytes = sealed(message);
                let codec = self.costs.kib_of_scatter / 2.0 * bytes as f64 / 1024.0;
                (bytes, Cost::each(small + codec))
            }
        }
    }

    /// The console of host 0 submits a job with a rank on each host.
    pub(crate) fn launch(&mut self) {
        let order = mpd_wire::frame::compact::to_vec(&self.host_slices);
        self.start_manager(0);
        self.hosts[0].ring.post(Input::Scatter(RequestId(1), Payload::from(order.as_slice())));
        self.perform(0);
    }

    pub(crate) fn trace(&mut self) {
        self.hosts[0].ring.post(Input::Lap { request: RequestId(2), laps: 1, trace: true });
        self.perform(0);
    }

    /// The daemon of a host dies; the kernel closes its connections.
    pub(crate) fn kill(&mut self, host: usize) {
        self.hosts[host].alive = false;
        for (_, (to, far)) in std::mem::take(&mut self.hosts[host].ends) {
            self.hosts[to].ends.remove(&far);
            self.push(self.now + LATENCY_US, Event::Closed { host: to, link: far });
        }
    }

    /// Whether every living daemon has this number of live members.
    pub(crate) fn all_list(&self, members: usize) -> bool {
        let mut living = self.hosts.iter().filter(|host| host.alive);
        living.all(|host| host.ring.machine().live_count() == members)
    }

    fn start_manager(&mut self, host: usize) {
        let at = self.work(host, self.now, self.costs.host_until_ready);
        self.push(at, Event::Managed(host));
    }

    fn managed(&mut self, host: usize) {
        let size = u32::try_from(self.size()).expect("a size");
        let config = Config {
            host_slices: self.host_slices.clone(),
            tree_index: host,
            size,
            on_failure: OnFailure::default(),
            abort_scope: AbortScope::Job,
            limit: None,
            debugged: false,
            elastic: false,
            spawns: SpawnSettings::default(),
        };
        self.hosts[host].manager = Some(Pump::new(Manager::new(&config)));
        self.hosts[host].managed = true;
        if host == 0 {
            self.push(self.now, Event::Spec(0));
        } else if HostSlices::parent(host).is_some_and(|parent| self.hosts[parent].spec) {
            self.send_spec(host);
        }
    }

    /// The link of a child is up, and its parent has the specification.
    fn send_spec(&mut self, child: usize) {
        let parent = HostSlices::parent(child).expect("not the root");
        let each = self.costs.kib_of_spec / 2.0 * self.spec as f64 / 1024.0 + self.costs.hop / 2.0;
        // Connection and handshake come first.
        self.hosts[parent].sending = self.hosts[parent].sending.max(self.now + 3.0 * LATENCY_US);
        self.carry((parent, child), self.spec, Cost::each(each), Event::Spec(child));
    }

    fn pass_spec(&mut self, host: usize) {
        for child in self.host_slices.children(host) {
            if self.hosts[child].managed {
                self.send_spec(child);
            }
        }
    }

    fn job(&mut self, host: usize, input: JobInput) {
        let Some(manager) = &mut self.hosts[host].manager else { return };
        manager.post(input);
        self.perform_job(host);
        if let Some(manager) = &mut self.hosts[host].manager {
            manager.end_turn(time(self.now));
            self.perform_job(host);
        }
    }

    fn small(&mut self, from: usize, to: usize, input: JobInput) {
        let each = self.costs.hop / 2.0;
        let event = Event::Job { host: to, input: Box::new(input) };
        self.carry((from, to), SMALL, Cost::each(each), event);
    }

    fn down(&mut self, from: usize, children: Vec<usize>, down: &Down) {
        for child in children {
            self.small(from, child, JobInput::FromParent(down.clone()));
        }
    }

    fn perform_job(&mut self, host: usize) {
        let soon = |input| Event::Job { host, input: Box::new(input) };
        loop {
            let Some(manager) = &mut self.hosts[host].manager else { return };
            let Some(output) = manager.next(time(self.now)) else { return };
            match output {
                JobOutput::Go => {
                    let at = self.work(host, self.now, self.costs.rank);
                    self.push(at, soon(JobInput::Started));
                    let rank = Rank(u32::try_from(host).expect("a host"));
                    self.push(at, soon(JobInput::Exited(rank, RankEnd::Exited(0))));
                    self.started += 1;
                    if self.started == self.size() {
                        self.all_started = Some(at);
                    }
                }
                JobOutput::ToChildren(down) => {
                    self.down(host, self.host_slices.children(host).collect(), &down);
                }
                JobOutput::ToSome(children, down) => self.down(host, children, &down),
                JobOutput::ToParent(up) => {
                    let parent = HostSlices::parent(host).expect("not the root");
                    let up: Up = up;
                    self.small(host, parent, JobInput::FromChild(host, up));
                }
                JobOutput::StopTree => self.push(self.now, soon(JobInput::TreeStopped)),
                JobOutput::KillTree => self.push(self.now, soon(JobInput::TreeGone)),
                JobOutput::Drain => self.push(self.now, soon(JobInput::Drained)),
                JobOutput::CleanUp => self.push(self.now, soon(JobInput::CleanedUp)),
                JobOutput::ReportFailed { failure, .. } => panic!("the job failed: {failure:?}"),
                JobOutput::Finish(code) => {
                    assert_eq!(code, 0, "exit code");
                    self.finished = Some(self.now);
                    self.hosts[host].manager = None;
                }
                JobOutput::Leave | JobOutput::Withdraw => self.hosts[host].manager = None,
                _ => {}
            }
        }
    }
}
