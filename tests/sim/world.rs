//! Simulated hosts, network and time; the rings of the daemons are the real ones.
//!
//! The network is above the channel: connections carry ordered messages with delay. A cut holds them back, like a
//! kernel that retransmits. After three seconds without acknowledgement the waiting side resets its connection. One
//! seeded generator determines everything.

use std::collections::{BTreeMap, BTreeSet};

use mpd_ring::{
    Connect, DialFailure, Input, LinkId, Output, Peer, Purpose, RequestId, Ring, Rules, Timing,
    Token,
};
use mpd_sansio::Time;
use mpd_tests::random::Random;
use mpd_wire::message::{Payload, ScatterId};
use mpd_wire::names::{Claim, Hold};
use mpd_wire::{Address, DaemonName, Instance, JobId};

use crate::checks::Watch;
use crate::daemon::Daemon;
use crate::network::{Connection, Packet};
use crate::process::Disk;
use crate::trace::Trace;

/// From one microsecond to the next millisecond, in the world's unit.
pub(crate) const MS: u64 = 1000;
pub(crate) const SECOND: u64 = 1000 * MS;

/// The configuration of a host's daemon at its start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    /// Its position in the host file.
    pub(crate) ordinal: Option<u64>,
    /// Hosts to enter through.
    pub(crate) entry: Vec<usize>,
    /// Hosts of its host file.
    pub(crate) seeds: Vec<usize>,
    /// Whether it waits to be introduced.
    pub(crate) waits: bool,
    /// The address that it assumes to be its own, if not the right one.
    pub(crate) address: Option<Address>,
}

/// An entry of the event queue.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Alarm {
        host: usize,
        incarnation: u32,
    },
    Syn(u64),
    Refusal(u64, DialFailure),
    Established(u64),
    Arrival {
        connection: u64,
        side: usize,
    },
    Unacknowledged {
        connection: u64,
        side: usize,
        since: u64,
    },
    Answer {
        host: usize,
        incarnation: u32,
        id: ScatterId,
    },
    /// The daemon learns the address at which its peers see it.
    Learn {
        host: usize,
        incarnation: u32,
    },
    /// Messages of the host take longer by this delay from now on.
    Clog {
        host: usize,
        extra: u64,
    },
}

/// One machine.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: DaemonName,
    /// Its current address.
    pub(crate) address: Address,
    /// A name that always resolves to its current address, as in host files.
    pub(crate) alias: Address,
    pub(crate) moves: u32,
    pub(crate) powered: bool,
    pub(crate) frozen: bool,
    pub(crate) ring: Option<Daemon>,
    /// What its daemons have saved, if they are whole nodes.
    pub(crate) disk: Disk,
    pub(crate) instance: Instance,
    /// Counts its daemons.
    pub(crate) incarnation: u32,
    pub(crate) ends: BTreeMap<LinkId, (u64, usize)>,
    pub(crate) dials: BTreeMap<Token, u64>,
    /// Inputs that arrived while it was frozen.
    pub(crate) backlog: Vec<Input>,
    pub(crate) alarm: u64,
    /// Extra delay of all its messages.
    pub(crate) clog: u64,
}

/// The whole simulation.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) connections: BTreeMap<u64, Connection>,
    /// `reach[a][b]`: messages of a reach b.
    pub(crate) reach: Vec<Vec<bool>>,
    pub(crate) random: Random,
    pub(crate) rules: Rules,
    /// Whether daemons are whole nodes; else they are the machine of the ring alone.
    pub(crate) has_nodes: bool,
    /// Whether the managers of their jobs are simulated.
    pub(crate) has_managers: bool,
    /// The counts of nodes that have ended.
    pub(crate) counts: [u64; 3],
    /// The hosts that have had a manager of another daemon's job.
    pub(crate) started: BTreeSet<(DaemonName, JobId)>,
    pub(crate) timing: Timing,
    /// Maximum delay in microseconds; the minimum is a tenth of it.
    pub(crate) latency: u64,
    pub(crate) watch: Watch,
    pub(crate) trace: Trace,
    last_id: u64,
    last_request: u64,
}

impl World {
    /// `size` hosts `h0` …, all powered, none with a daemon.
    pub(crate) fn new(seed: u64, size: usize) -> Self {
        let host = |i: usize| Host {
            name: DaemonName::new(&format!("h{i}")).expect("a name"),
            address: Address::new(&format!("h{i}:1")).expect("an address"),
            alias: Address::new(&format!("h{i}:1")).expect("an address"),
            moves: 0,
            powered: true,
            frozen: false,
            ring: None,
            disk: Disk::default(),
            instance: Instance::from_bytes([0; 16]),
            incarnation: 0,
            ends: BTreeMap::new(),
            dials: BTreeMap::new(),
            backlog: Vec::new(),
            alarm: u64::MAX,
            clog: 0,
        };
        Self {
            now: SECOND,
            sequence: 0,
            queue: BTreeMap::new(),
            hosts: (0..size).map(host).collect(),
            connections: BTreeMap::new(),
            reach: vec![vec![true; size]; size],
            random: Random::new(seed),
            rules: Rules::default(),
            has_nodes: false,
            has_managers: false,
            counts: [0; 3],
            started: BTreeSet::new(),
            timing: Timing::default(),
            latency: 20 * MS,
            watch: Watch::default(),
            trace: Trace::default(),
            last_id: 0,
            last_request: 0,
        }
    }

    pub(crate) fn time(&self) -> Time {
        Time::from_micros(self.now)
    }

    pub(crate) fn push(&mut self, at: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), happening);
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// From sending to arrival.
    pub(crate) fn delay(&mut self, from: usize) -> u64 {
        let span = usize::try_from(self.latency).expect("a short time");
        self.latency / 10 + self.random.below(span) as u64 + self.hosts[from].clog
    }

    /// Both directions.
    pub(crate) fn connected(&self, a: usize, b: usize) -> bool {
        self.reach[a][b] && self.reach[b][a]
    }

    /// The number of a request that is now with the daemon of `host`.
    pub(crate) fn request(
        &mut self,
        host: usize,
        make: impl FnOnce(RequestId) -> Input,
    ) -> RequestId {
        self.last_request += 1;
        let request = RequestId(self.last_request);
        if self.hosts[host].ring.is_some() {
            self.watch.asked(request, host, self.hosts[host].incarnation, self.now);
        }
        self.input(host, make(request));
        request
    }

    /// Passes an input to a daemon, or keeps it for the thaw.
    pub(crate) fn input(&mut self, host: usize, input: Input) {
        let now = self.time();
        let machine = &mut self.hosts[host];
        if machine.frozen {
            machine.backlog.push(input);
            return;
        }
        let Some(ring) = machine.ring.as_mut() else { return };
        let kind = self.trace.input(self.now, &machine.name, &input);
        self.watch.names.given(host, &input);
        ring.post(now, input);
        self.trace.fold(&[self.now, host as u64, kind]);
        self.perform(host);
    }

    /// Cuts or restores the direction from `from` to `to`.
    pub(crate) fn set_reach(&mut self, from: usize, to: usize, reach: bool) {
        if from != to {
            self.reach[from][to] = reach;
        }
    }

    /// Runs until the time `until`.
    pub(crate) fn run(&mut self, until: u64) {
        while self.next_at().is_some_and(|at| at <= until) {
            self.step();
        }
        self.now = until;
    }

    /// The time of the next happening.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next happening.
    pub(crate) fn step(&mut self) {
        if let Some(((at, _), happening)) = self.queue.pop_first() {
            self.now = at;
            self.happen(happening);
        }
    }

    /// Runs for that long.
    pub(crate) fn pass(&mut self, micros: u64) {
        self.run(self.now + micros);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Alarm { host, incarnation } => self.alarm(host, incarnation),
            Happening::Syn(connection) => self.syn(connection),
            Happening::Refusal(connection, failure) => self.refused(connection, failure),
            Happening::Established(connection) => self.established(connection),
            Happening::Arrival { connection, side } => self.arrive(connection, side),
            Happening::Unacknowledged { connection, side, since } => {
                self.unacknowledged(connection, side, since);
            }
            Happening::Answer { host, incarnation, id } => {
                if self.hosts[host].incarnation == incarnation {
                    let answer = self.answer_of(host, id);
                    self.input(host, answer);
                }
            }
            Happening::Learn { host, incarnation } => {
                if self.hosts[host].incarnation == incarnation {
                    let addresses = vec![self.hosts[host].address.clone()];
                    self.input(host, Input::Readdress(addresses));
                }
            }
            Happening::Clog { host, extra } => self.hosts[host].clog = extra,
        }
    }

    fn alarm(&mut self, host: usize, incarnation: u32) {
        let now = self.time();
        let machine = &mut self.hosts[host];
        if machine.incarnation != incarnation || machine.alarm != self.now {
            return;
        }
        machine.alarm = u64::MAX;
        if machine.frozen {
            return;
        }
        let Some(ring) = machine.ring.as_mut() else { return };
        if ring.deadline().is_some_and(|due| due <= now) {
            ring.handle_timeout(now);
            self.trace.fold(&[self.now, host as u64, 0]);
        }
        self.perform(host);
    }

    pub(crate) fn set_alarm(&mut self, host: usize) {
        let (now, start) = (self.now, Time::ZERO);
        let machine = &mut self.hosts[host];
        let Some(ring) = machine.ring.as_ref() else { return };
        let Some(due) = ring.deadline() else { return };
        let due = u64::try_from((due - start).as_micros()).expect("a time").max(now);
        if due < machine.alarm {
            machine.alarm = due;
            let incarnation = machine.incarnation;
            self.push(due, Happening::Alarm { host, incarnation });
        }
    }

    /// Performs the outputs of the daemon of `host`.
    pub(crate) fn perform(&mut self, host: usize) {
        let now = self.time();
        while let Some(output) = self.hosts[host].ring.as_mut().and_then(|ring| ring.next(now)) {
            match output {
                Output::Connect(Connect { token, instance, addresses, purpose, .. }) => {
                    self.connect(host, token, instance, &addresses, purpose);
                }
                Output::Abandon(token) => {
                    self.hosts[host].dials.remove(&token);
                }
                Output::Send(link, message) => {
                    if let Some(&(connection, side)) = self.hosts[host].ends.get(&link) {
                        self.send(connection, side, Packet::Message(message));
                    }
                }
                Output::Close(link) => {
                    if let Some((connection, side)) = self.hosts[host].ends.remove(&link) {
                        self.end(connection, side);
                    }
                }
                Output::Deliver { id, hops, .. } => {
                    let incarnation = self.hosts[host].incarnation;
                    self.watch.delivered(host, incarnation, id, hops);
                    self.answer(host, incarnation, id);
                }
                Output::Scattered { .. }
                | Output::LapsHome { .. }
                | Output::LapLost { .. }
                | Output::Published { .. }
                | Output::Unpublished { .. }
                | Output::NameLost { .. }
                | Output::Refused(_) => {
                    self.trace.output(self.now, &self.hosts[host].name, &output);
                    self.watch.replied(host, self.now, &output);
                }
                Output::Event(event) => {
                    self.trace.event(self.now, &self.hosts[host].name, &event);
                }
                Output::Over => {
                    self.take_violations(host);
                    self.lose_slots_of(host);
                    // Links that came up in the same moment and were not reported to the daemon yet.
                    for (connection, side) in self.forget_daemon(host) {
                        self.end(connection, side);
                    }
                }
            }
        }
        self.set_alarm(host);
        self.take_violations(host);
        let machine = &self.hosts[host];
        if let Some(ring) = &machine.ring {
            self.watch.after_step(self.now, host, machine.incarnation, ring.machine());
        }
    }

    /// A daemon answers most orders while it still performs outputs, and some later.
    fn answer(&mut self, host: usize, incarnation: u32, id: ScatterId) {
        if self.random.one_in(4) {
            let at = self.now + self.delay(host);
            return self.push(at, Happening::Answer { host, incarnation, id });
        }
        let (answer, now) = (self.answer_of(host, id), self.time());
        if let Some(ring) = &mut self.hosts[host].ring {
            ring.post(now, answer);
        }
    }

    fn answer_of(&self, host: usize, id: ScatterId) -> Input {
        Input::Answered(id, self.hosts[host].name.as_str().as_bytes().into())
    }

    pub(crate) fn forget_daemon(&mut self, host: usize) -> Vec<(u64, usize)> {
        let machine = &mut self.hosts[host];
        if let Some(Daemon::Node(process)) = machine.ring.take() {
            (0..3).for_each(|kind| self.counts[kind] += process.counts[kind]);
            machine.disk = process.into_disk();
        }
        machine.incarnation += 1;
        machine.frozen = false;
        machine.backlog.clear();
        machine.dials.clear();
        self.watch.forget_daemon(host);
        std::mem::take(&mut self.hosts[host].ends).into_values().collect()
    }

    fn connect(
        &mut self,
        host: usize,
        token: Token,
        wanted: Option<Instance>,
        addresses: &[Address],
        purpose: Purpose,
    ) {
        let there = |at: &Address| {
            // The address of host 3 is h3:1, or h3.N:1 after its moves.
            let number = at.as_str().strip_prefix('h')?;
            let end = number.find(|c: char| !c.is_ascii_digit())?;
            let host: usize = number[..end].parse().ok()?;
            let machine = self.hosts.get(host)?;
            (machine.address == *at || machine.alias == *at).then_some(host)
        };
        let to = addresses.iter().find_map(there);
        let id = self.next_id();
        let Some(to) = to else { return };
        let incarnations = [self.hosts[host].incarnation, 0];
        let connection = Connection::new([host, to], incarnations, token, purpose, wanted);
        self.connections.insert(id, connection);
        self.hosts[host].dials.insert(token, id);
        let at = self.now + self.delay(host);
        if to == host {
            self.push(at, Happening::Refusal(id, DialFailure::Myself));
        } else if self.connected(host, to) && self.hosts[to].powered {
            self.push(at, Happening::Syn(id));
        }
    }

    pub(crate) fn peer(&self, host: usize) -> Peer {
        Peer { name: self.hosts[host].name.clone(), instance: self.hosts[host].instance }
    }

    /// An operation on a host, for the trace.
    pub(crate) fn note(&mut self, host: usize, what: &str, detail: u64) {
        self.trace.fold(&[self.now, host as u64, what.len() as u64, detail]);
        self.trace.say(self.now, &self.hosts[host].name, what);
    }

    /// Hosts whose daemon runs.
    pub(crate) fn running(&self) -> BTreeSet<usize> {
        (0..self.hosts.len()).filter(|&host| self.hosts[host].ring.is_some()).collect()
    }

    /// The ring of `host`, which must run.
    pub(crate) fn ring(&self, host: usize) -> &Ring {
        self.hosts[host].ring.as_ref().expect("a running daemon").machine()
    }

    pub(crate) fn scatter(&mut self, host: usize, bytes: &[u8]) -> RequestId {
        let payload = Payload::from(bytes);
        self.request(host, |request| Input::Scatter(request, payload))
    }

    /// A separate job publishes a name through the daemon of `host`.
    pub(crate) fn publish(&mut self, host: usize, name: &str) -> JobId {
        let number = self.last_request + 1;
        let job = JobId::new(number, self.hosts[host].name.as_str()).expect("a job");
        let value = format!("port {number}");
        let (name, hold) = (name.to_owned(), Hold::Job);
        let claim = Claim { name, value, job: job.clone(), lock: None, hold };
        self.watch.names.asked(RequestId(number), &claim);
        self.request(host, |request| Input::Publish { request, claim });
        job
    }

    pub(crate) fn unpublish(&mut self, host: usize, name: &str, job: JobId) {
        let name = name.to_owned();
        self.request(host, |request| Input::Unpublish { request, name, job, key: None });
    }

    pub(crate) fn lap(&mut self, host: usize, laps: u32, trace: bool) -> RequestId {
        self.request(host, |request| Input::Lap { request, laps, trace })
    }
}
