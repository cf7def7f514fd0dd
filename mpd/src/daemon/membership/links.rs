//! The links of the ring. Their events become events for the node. The module also learns the addresses under which other
//! members see this daemon.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use mio::Registry;
use mpd_channel::Key;
use mpd_daemon::{Foreign, RingEvent};
use mpd_ring::{Input as RingInput, Peer, Token};
use mpd_sansio::Time;
use mpd_wire::job::JobKey;
use mpd_wire::message::ConsoleReply;
use mpd_wire::{Address, ConsoleId, DaemonName};

use crate::daemon::acceptor::PER_TURN;
use crate::daemon::net::port::Seen;
use crate::daemon::net::{AttemptId, DialRequest, Dialed, Net, NetEvent};

/// How long a ping waits. People and scripts ask whether a host lives, and want to know at once.
const PING_PATIENCE: Duration = Duration::from_millis(900);

/// The purpose of an attempt of [`Net`].
#[derive(Clone, Debug)]
enum Goal {
    Ring(Token),
    /// The ping of a console, and the time of its beginning.
    Ping(ConsoleId, Time),
    /// A test whether this foreign address leads here.
    Mirror(IpAddr),
}

impl Goal {
    /// When it has taken too long.
    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Ping(_, began) => Some(*began + PING_PATIENCE),
            Self::Ring(_) | Self::Mirror(_) => None,
        }
    }
}

/// The links, and the attempts to connect.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) net: Net,
    goals: BTreeMap<AttemptId, Goal>,
    last_attempt: u64,
    /// Foreign addresses under which others see us.
    foreign: Foreign<IpAddr>,
    /// Why the last attempt for the ring failed.
    last_failure: String,
    events: VecDeque<RingEvent>,
}

impl Links {
    pub(super) fn new(net: Net) -> Self {
        Self {
            net,
            goals: BTreeMap::new(),
            last_attempt: 0,
            foreign: Foreign::default(),
            last_failure: String::new(),
            events: VecDeque::new(),
        }
    }

    pub(crate) fn last_failure(&self) -> &str {
        &self.last_failure
    }

    /// Whether work can be done without waiting.
    pub(crate) fn has_work(&self) -> bool {
        self.net.has_work() || !self.events.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let pings = self.goals.values().filter_map(Goal::deadline);
        pings.chain(self.net.next_deadline()).min()
    }

    /// Accepts connections, a bounded number a turn.
    pub(crate) fn accept(&mut self, registry: &Registry, now: Time) {
        for _ in 0..PER_TURN {
            let Some((stream, remote)) = self.net.port_mut().accept(now) else { return };
            self.net.accept(registry, now, stream, remote);
        }
    }

    /// Reads every link that is ready. See [`Links::next`].
    pub(crate) fn read(&mut self, registry: &Registry, now: Time) {
        self.net.turn(registry, now);
        let is_late = |goal: &Goal| goal.deadline().is_some_and(|at| at <= now);
        let late = self.goals.iter().find(|(_, goal)| is_late(goal)).map(|(id, _)| *id);
        if let Some(id) = late
            && let Some(Goal::Ping(console, _)) = self.goals.remove(&id)
        {
            self.net.abandon(id);
            let limit = PING_PATIENCE.as_secs_f32();
            let problem =
                format!("no answer within {limit} s: frozen, busy, or behind a slow network");
            let reply = ConsoleReply::Refused { problem };
            self.events.push_back(RingEvent::Pinged { console, reply });
        }
    }

    /// The next event.
    pub(super) fn next(&mut self, registry: &Registry, now: Time) -> Option<RingEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let event = self.net.pop()?;
            self.take(registry, now, event);
        }
    }

    /// Connects for the ring.
    pub(super) fn connect(
        &mut self,
        registry: &Registry,
        now: Time,
        token: Token,
        request: DialRequest,
    ) {
        let id = self.goal(Goal::Ring(token));
        self.net.dial(registry, now, id, request);
    }

    /// Connects for a console that measures the time.
    pub(super) fn ping(
        &mut self,
        registry: &Registry,
        now: Time,
        console: ConsoleId,
        request: DialRequest,
    ) {
        let id = self.goal(Goal::Ping(console, now));
        self.net.dial(registry, now, id, request);
    }

    /// Ends an attempt of [`Links::connect`].
    pub(super) fn abandon(&mut self, token: Token) {
        let is_it = |goal: &Goal| matches!(goal, Goal::Ring(t) if *t == token);
        let found = self.goals.iter().find(|(_, goal)| is_it(goal)).map(|(id, _)| *id);
        if let Some(id) = found {
            self.goals.remove(&id);
            self.net.abandon(id);
        }
    }

    /// Removes a job link that was made with this key. Returns its hello and the connection.
    pub(super) fn pass_on(
        &mut self,
        registry: &Registry,
        seeker: usize,
        key: &JobKey,
    ) -> Option<(String, OwnedFd)> {
        self.net.pass_on(registry, seeker, &Key::from(key))
    }

    fn goal(&mut self, goal: Goal) -> AttemptId {
        self.last_attempt += 1;
        let id = AttemptId(self.last_attempt);
        self.goals.insert(id, goal);
        id
    }

    fn input(&mut self, input: RingInput) {
        self.events.push_back(RingEvent::Link(input));
    }

    fn take(&mut self, registry: &Registry, now: Time, event: NetEvent) {
        match event {
            NetEvent::Up { link, peer, purpose, dialed, remote, seen } => {
                self.learn(registry, now, &peer.name, seen);
                let goal = dialed.and_then(|dialed| self.goals.remove(&dialed.attempt));
                let token = match (dialed, goal) {
                    (None, _) => None,
                    (Some(_), Some(Goal::Ring(token))) => Some(token),
                    (Some(dialed), Some(Goal::Ping(console, began))) => {
                        if let Some(reply) = pong(began, now, &dialed, &peer) {
                            self.events.push_back(RingEvent::Pinged { console, reply });
                        }
                        return self.net.close(now, link);
                    }
                    (Some(_), Some(Goal::Mirror(_)) | None) => return self.net.close(now, link),
                };
                if let Some(from) = address_of(remote) {
                    self.input(RingInput::LinkUp { link, token, peer, purpose, from });
                }
            }
            NetEvent::Message(link, message) => self.input(RingInput::Received(link, message)),
            NetEvent::Closed(link) => self.input(RingInput::LinkClosed(link)),
            NetEvent::Failed(attempt, why, problem) => match self.goals.remove(&attempt) {
                Some(Goal::Ring(token)) => {
                    self.last_failure = problem;
                    self.input(RingInput::ConnectFailed(token, why));
                }
                Some(Goal::Ping(console, _)) => {
                    let reply = ConsoleReply::Refused { problem };
                    self.events.push_back(RingEvent::Pinged { console, reply });
                }
                Some(Goal::Mirror(address)) => {
                    let why = format!("{address} is not an address of this daemon: {problem}");
                    self.events.push_back(RingEvent::Refused(why));
                }
                None => {}
            },
            NetEvent::Mirrored(attempt) => {
                if let Some(Goal::Mirror(address)) = self.goals.remove(&attempt) {
                    self.readdress(address);
                }
            }
        }
    }

    /// Handles the address `seen` under which the peer `by` sees us.
    fn learn(&mut self, registry: &Registry, now: Time, by: &DaemonName, seen: Option<IpAddr>) {
        match seen.map_or(Seen::Nothing, |seen| self.net.port().judge(seen)) {
            Seen::Nothing => {}
            Seen::Own(address) => self.readdress(address),
            Seen::Foreign(address) => {
                if self.foreign.is_due(now, address.ip()) {
                    log::info!("{by} sees this host as {}: trying that address", address.ip());
                    let id = self.goal(Goal::Mirror(address.ip()));
                    self.net.mirror(registry, now, id, address);
                }
            }
        }
    }

    /// Adds an address under which others reach us.
    fn readdress(&mut self, address: IpAddr) {
        if self.net.port_mut().learn(address) {
            log::info!("others see this host as {address}");
            let addresses = self.net.port().addresses();
            self.input(RingInput::Readdress(addresses));
        }
    }
}

/// The numeric form of addresses.
pub(super) fn numeric(addresses: &[Address]) -> Vec<SocketAddr> {
    addresses.iter().filter_map(|address| address.as_str().parse().ok()).collect()
}

/// The other end of a connection, as the ring writes addresses.
fn address_of(remote: SocketAddr) -> Option<Address> {
    Address::new(&SocketAddr::new(remote.ip().to_canonical(), remote.port()).to_string()).ok()
}

/// The answer to a ping that `peer` answered.
fn pong(began: Time, now: Time, dialed: &Dialed, peer: &Peer) -> Option<ConsoleReply> {
    let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
    Some(ConsoleReply::Pong {
        name: peer.name.clone(),
        instance: peer.instance,
        address: Address::new(&dialed.address.to_string()).ok()?,
        connect_us: micros(dialed.connected.since(began)),
        total_us: micros(now.since(began)),
    })
}
