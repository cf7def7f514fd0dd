//! Hosts with their daemons, owners with their requests, and messages that are late, lost, or sent twice.
//!
//! The members that a daemon knows follow the truth with a delay of its own, as in a ring that detects deaths. After each
//! event the world checks each host: it gives no more slots away than it has, and all owners together believe in no more.

use std::collections::{BTreeMap, BTreeSet};

use mpd_alloc::data::{AllocId, AllocMessage, AllocNews, AllocRequest, Part, Why};
use mpd_alloc::{Allocator, Config, Input, Member, Output, OwnerId, Resume, Saved, Timing};
use mpd_sansio::{Pump, Time};
use mpd_tests::random::Random;
use mpd_wire::{DaemonName, Instance};

pub(super) const SECOND: u64 = 1_000_000;
/// Wall-clock time at the beginning, in microseconds.
const WALL: u64 = 1_000_000 * SECOND;
/// How long an owner looks for a new daemon.
const RECONNECT: u64 = 15 * SECOND;
/// The longest time until a daemon knows of a change of the members.
const DETECTION: usize = 6_000_000;

/// An event of the world.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Deliver {
        to: usize,
        from: usize,
        message: AllocMessage,
    },
    /// A daemon learns the members.
    Learn(usize),
    Start(usize),
    Ready(usize, u8),
    /// The daemon dies; the owners of its host do not.
    KillDaemon(usize),
    /// The host dies with its owners.
    KillHost(usize),
    /// The hosts are divided into two groups, by bits.
    Divide(u64),
    /// An owner makes its request.
    Begin(usize),
    /// An owner ends, whatever it has.
    End(usize),
    /// A user cancels the request of an owner.
    Cancel(usize),
    /// An owner gives some of its slots back.
    Keep(usize),
    /// An owner looks for its daemon.
    Reconnect(usize),
    /// From now on nothing goes wrong.
    Calm,
}

pub(super) struct Host {
    pub(super) daemon: Option<Pump<Allocator>>,
    pub(super) slots: u32,
    life: u8,
    started: u64,
    saved: Saved,
    group: u64,
}

/// A process that wants slots.
pub(super) struct Owner {
    pub(super) host: usize,
    pub(super) request: AllocRequest,
    pub(super) holds_for: u64,
    /// Whether the request can be granted if all slots are free.
    pub(super) is_possible: bool,
    id: Option<AllocId>,
    ticket: Option<u64>,
    pub(super) why: Option<Why>,
    /// The number of its connection, if it has one.
    connection: Option<u64>,
    lost_daemon: u64,
    resumes: bool,
    /// The slots in which it believes.
    pub(super) believes: Option<BTreeMap<usize, u32>>,
    pub(super) grants: u32,
    pub(super) is_over: bool,
}

pub(super) struct World {
    pub(super) hosts: Vec<Host>,
    pub(super) owners: Vec<Owner>,
    pub(super) dice: Random,
    pub(super) now: u64,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    connections: BTreeMap<u64, usize>,
    pub(super) is_calm: bool,
    pub(super) lines: Option<Vec<String>>,
    pub(super) steps: u64,
    pub(super) grants: u64,
}

pub(super) fn name(host: usize) -> DaemonName {
    DaemonName::new(&format!("h{}", host + 1)).expect("a name")
}

fn number(name: &DaemonName) -> usize {
    name.as_str()[1..].parse::<usize>().expect("a host") - 1
}

impl World {
    pub(super) fn new(dice: Random, slots: &[u32]) -> Self {
        let host = |&slots: &u32| Host {
            daemon: None,
            slots,
            life: 0,
            started: 0,
            saved: Saved::default(),
            group: 0,
        };
        let mut world = Self {
            hosts: slots.iter().map(host).collect(),
            owners: Vec::new(),
            dice,
            now: 0,
            events: BTreeMap::new(),
            sequence: 0,
            connections: BTreeMap::new(),
            is_calm: false,
            lines: None,
            steps: 0,
            grants: 0,
        };
        (0..slots.len()).for_each(|host| world.at(0, Event::Start(host)));
        world
    }

    /// Adds an owner, which makes its request at this time.
    pub(super) fn add_owner(
        &mut self,
        host: usize,
        request: AllocRequest,
        (begins, holds_for, is_possible): (u64, u64, bool),
    ) {
        self.at(begins, Event::Begin(self.owners.len()));
        self.owners.push(Owner {
            host,
            request,
            holds_for,
            is_possible,
            id: None,
            ticket: None,
            why: None,
            connection: None,
            lost_daemon: 0,
            resumes: false,
            believes: None,
            grants: 0,
            is_over: false,
        });
    }

    /// Something happens after this time.
    pub(super) fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((time.max(self.now), self.sequence), event);
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:11.6} {}", self.now as f64 / SECOND as f64, text()));
        }
    }

    /// Lets everything happen up to this time.
    pub(super) fn run_until(&mut self, end: u64) {
        loop {
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let due = |host: &Host| {
                let at = host.daemon.as_ref()?.machine().poll_timeout()?;
                Some(host.started + micros(at))
            };
            let deadline = self.hosts.iter().filter_map(due).min();
            let next = event.into_iter().chain(deadline).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            self.steps += 1;
            if event == Some(next) {
                let (_, event) = self.events.pop_first().expect("an event");
                self.happen(event);
            } else {
                for host in 0..self.hosts.len() {
                    let now = self.local(host);
                    if due(&self.hosts[host]).is_some_and(|at| at <= self.now) {
                        self.daemon(host).expect("it is due").handle_timeout(now);
                        self.perform(host);
                    }
                }
            }
            self.check();
        }
        self.now = self.now.max(end);
    }

    fn happen(&mut self, event: Event) {
        self.note(|| format!("{event:?}"));
        match event {
            Event::Deliver { to, from, message } => {
                if self.hosts[to].group == self.hosts[from].group {
                    self.give(to, Input::Received(name(from), message));
                }
            }
            Event::Learn(host) => {
                let members = self.members_of(host);
                self.give(host, Input::Members(members));
            }
            Event::Start(host) => self.start(host),
            Event::Ready(host, life) if self.hosts[host].life == life => {
                self.give(host, Input::Ready);
            }
            Event::Ready(..) => {}
            Event::KillDaemon(host) => self.kill_daemon(host),
            Event::KillHost(host) => {
                self.kill_daemon(host);
                for owner in 0..self.owners.len() {
                    if self.owners[owner].host == host && self.owners[owner].id.is_some() {
                        self.finish(owner);
                    }
                }
            }
            Event::Divide(groups) => {
                for (host, of) in self.hosts.iter_mut().enumerate() {
                    of.group = groups >> host & 1;
                }
                self.members_change();
            }
            Event::Begin(owner) => self.begin(owner),
            Event::End(owner) => self.end(owner),
            Event::Cancel(owner) => {
                let Owner { host, id, request, .. } = &self.owners[owner];
                if let (host, Some(id)) = (*host, id.clone()) {
                    let uid = request.uid;
                    self.give(host, Input::Cancel(id, uid));
                }
            }
            Event::Keep(owner) => self.keep(owner),
            Event::Reconnect(owner) => self.reconnect(owner),
            Event::Calm => self.is_calm = true,
        }
    }

    fn local(&self, host: usize) -> Time {
        Time::from_micros(self.now - self.hosts[host].started)
    }

    fn daemon(&mut self, host: usize) -> Option<&mut Pump<Allocator>> {
        self.hosts[host].daemon.as_mut()
    }

    fn start(&mut self, host: usize) {
        if self.hosts[host].daemon.is_some() {
            return;
        }
        let now = self.now;
        let of = &mut self.hosts[host];
        of.life += 1;
        of.started = now;
        let config = Config {
            name: name(host),
            arch: "x86_64".to_owned(),
            life: WALL + now,
            timing: Timing::default(),
            saved: of.saved.clone(),
        };
        of.daemon = Some(Pump::new(Allocator::new(Time::ZERO, config)));
        let life = of.life;
        self.perform(host);
        let ready = now + self.dice.below(SECOND as usize) as u64;
        self.at(ready, Event::Ready(host, life));
        self.members_change();
    }

    fn kill_daemon(&mut self, host: usize) {
        if self.hosts[host].daemon.take().is_none() {
            return;
        }
        self.members_change();
        for owner in 0..self.owners.len() {
            let of = &mut self.owners[owner];
            if of.host == host
                && let Some(connection) = of.connection.take()
            {
                of.lost_daemon = self.now;
                self.connections.remove(&connection);
                self.at(self.now + SECOND / 2, Event::Reconnect(owner));
            }
        }
    }

    /// Every daemon learns the members again, each at its own time.
    fn members_change(&mut self) {
        for host in 0..self.hosts.len() {
            let delay = if self.dice.one_in(2) { DETECTION } else { DETECTION / 20 };
            let at = self.now + self.dice.below(delay) as u64;
            self.at(at, Event::Learn(host));
        }
    }

    fn members_of(&self, host: usize) -> Vec<Member> {
        let group = self.hosts[host].group;
        let live = self.hosts.iter().enumerate();
        let live = live.filter(|(_, of)| of.daemon.is_some() && of.group == group);
        let member = |(number, of): (usize, &Host)| Member {
            name: name(number),
            instance: Instance::from_bytes([number as u8 * 16 + of.life; 16]),
            ordinal: number as u64,
            slots: of.slots,
            draining: false,
        };
        live.map(member).collect()
    }

    fn give(&mut self, host: usize, input: Input) {
        if let Some(daemon) = self.daemon(host) {
            daemon.post(input);
            self.perform(host);
        }
    }

    fn perform(&mut self, host: usize) {
        let now = self.local(host);
        while let Some(output) = self.daemon(host).and_then(|daemon| daemon.next(now)) {
            self.note(|| format!("h{}: {output:?}", host + 1));
            match output {
                Output::Save(saved) => self.hosts[host].saved = *saved,
                Output::Send(to, message) => self.send(host, number(&to), message),
                Output::Tell(owner, news) => self.tell(owner, news),
                Output::Refused(_, problem) => panic!("refused: {problem}"),
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, message: AllocMessage) {
        let copies = match (self.is_calm, self.dice.below(40)) {
            (true, _) => 1,
            (_, 0) => 0,
            (_, 1) => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let late = !self.is_calm && self.dice.one_in(100);
            let delay = if late { 5_000_000 } else { 20_000 };
            let at = self.now + 100 + self.dice.below(delay) as u64;
            self.at(at, Event::Deliver { to, from, message: message.clone() });
        }
    }

    /// The next number of a connection.
    fn connect(&mut self, owner: usize) -> OwnerId {
        self.sequence += 1;
        self.connections.insert(self.sequence, owner);
        self.owners[owner].connection = Some(self.sequence);
        OwnerId(self.sequence)
    }

    fn begin(&mut self, owner: usize) {
        if self.owners[owner].is_over {
            return;
        }
        let (host, request) = (self.owners[owner].host, self.owners[owner].request.clone());
        if self.hosts[host].daemon.is_none() {
            return self.at(self.now + SECOND, Event::Begin(owner));
        }
        let connection = self.connect(owner);
        self.give(host, Input::Request(connection, request));
    }

    fn reconnect(&mut self, owner: usize) {
        let of = &self.owners[owner];
        if of.is_over || of.connection.is_some() {
            return;
        }
        if self.now - of.lost_daemon >= RECONNECT {
            return self.finish(owner);
        }
        let (host, Some(id)) = (of.host, of.id.clone()) else { return self.finish(owner) };
        if self.hosts[host].daemon.is_none() {
            let again = (self.now + SECOND / 2).min(of.lost_daemon + RECONNECT);
            return self.at(again, Event::Reconnect(owner));
        }
        let (request, ticket) = (of.request.clone(), of.ticket);
        let resume = Resume { id, request, ticket, is_granted: of.believes.is_some() };
        self.owners[owner].resumes = true;
        let connection = self.connect(owner);
        self.give(host, Input::Resume(connection, resume));
    }

    /// The owner believes in fewer slots before it says so.
    fn keep(&mut self, owner: usize) {
        let of = &mut self.owners[owner];
        let Some(believes) = of.believes.as_mut().filter(|_| of.connection.is_some()) else {
            return;
        };
        for slots in believes.values_mut() {
            *slots = self.dice.below(*slots as usize + 1) as u32;
        }
        believes.retain(|_, slots| *slots > 0);
        let part = |(&host, &slots): (&usize, &u32)| Part { host: name(host), slots };
        let parts = believes.iter().map(part).collect();
        if let (host, Some(id)) = (of.host, of.id.clone()) {
            let uid = of.request.uid;
            self.give(host, Input::Keep(id, uid, parts));
        }
    }

    fn end(&mut self, owner: usize) {
        let (host, connection) = (self.owners[owner].host, self.owners[owner].connection);
        self.finish(owner);
        if let Some(connection) = connection {
            self.give(host, Input::OwnerGone(OwnerId(connection)));
        }
    }

    /// The owner wants nothing any more.
    fn finish(&mut self, owner: usize) {
        let of = &mut self.owners[owner];
        of.is_over = true;
        of.believes = None;
        if let Some(connection) = of.connection.take() {
            self.connections.remove(&connection);
        }
    }

    fn tell(&mut self, owner: OwnerId, news: AllocNews) {
        let Some(&owner) = self.connections.get(&owner.0) else { return };
        let of = &mut self.owners[owner];
        match news {
            AllocNews::Waiting { id, ticket, why } => {
                assert!(of.believes.is_none(), "a granted request waits again");
                (of.id, of.ticket, of.why) = (Some(id), ticket, Some(why));
            }
            AllocNews::Granted { parts, .. } => {
                let resumes = std::mem::take(&mut of.resumes);
                let mut hosts = BTreeMap::new();
                for Part { host, slots } in &parts {
                    *hosts.entry(number(host)).or_insert(0) += slots;
                }
                if of.believes.is_none() {
                    of.grants += 1;
                    self.grants += 1;
                    assert_eq!(of.grants, 1, "granted twice");
                    of.assert_fits(&parts);
                    let end = self.now + of.holds_for;
                    self.at(end, Event::End(owner));
                } else {
                    assert!(resumes, "granted again");
                }
                self.owners[owner].believes = Some(hosts);
            }
            AllocNews::Lost { host, .. } => {
                // The slots there may be those that it gave back.
                of.believes.as_mut().expect("an allocation").remove(&number(&host));
            }
            AllocNews::Over { .. } => self.finish(owner),
        }
    }

    fn check(&self) {
        for (number, host) in self.hosts.iter().enumerate() {
            if let Some(daemon) = &host.daemon {
                let (slots, used) = daemon.machine().slots();
                assert!(used <= host.slots, "h{} gives {used} of {slots} away", number + 1);
            }
            let believed = self.owners.iter().filter_map(|owner| owner.believes.as_ref());
            let believed: u32 = believed.filter_map(|hosts| hosts.get(&number)).sum();
            assert!(
                believed <= host.slots,
                "owners believe in {believed} of {} slots of h{}",
                host.slots,
                number + 1
            );
        }
    }

    /// Holds of allocations that no owner has.
    pub(super) fn lost_slots(&self) -> BTreeSet<(usize, AllocId)> {
        let living = self.owners.iter().filter(|owner| !owner.is_over);
        let living: BTreeSet<&AllocId> = living.filter_map(|owner| owner.id.as_ref()).collect();
        let held = self.hosts.iter().enumerate().filter_map(|(number, host)| {
            let holds = host.daemon.as_ref()?.machine().holds();
            let lost = holds.filter(|(id, _)| !living.contains(id));
            Some(lost.map(move |(id, _)| (number, id.clone())).collect::<Vec<_>>())
        });
        held.flatten().collect()
    }
}

impl Owner {
    /// The slots are as many as requested, on hosts that fit.
    fn assert_fits(&self, parts: &[Part]) {
        use mpd_alloc::data::Hardness;
        let slots = parts.iter().map(|part| part.slots).sum::<u32>();
        match &self.request.hardness {
            Hardness::Hard => assert_eq!(slots, self.request.slots()),
            _ => assert!((1..=self.request.slots()).contains(&slots)),
        }
        let width = self.request.width;
        assert!(parts.iter().all(|part| part.slots.is_multiple_of(width)), "{parts:?}");
        let each = parts.iter().flat_map(|part| (0..part.slots / width).map(move |_| &part.host));
        for (slot, host) in each.enumerate() {
            if let Some(pattern) = self.request.hosts.iter().cycle().nth(slot) {
                assert!(pattern.fits(host.as_str()), "slot {slot} on {host}");
            }
        }
    }
}

fn micros(time: Time) -> u64 {
    u64::try_from(time.since(Time::ZERO).as_micros()).expect("a time")
}
