//! The daemon's TCP port and all links through it: accepting, connecting and handshakes. Links report
//! [`NetEvent`]s. This module does not know the ring.
//!
//! Job links, the connections between managers, also come in here, since managers never listen. A job link waits
//! until its manager is connected to this daemon and the link proves its job's key. Then it is passed to that
//! manager.

mod admit;
mod dial;
mod line;
mod myself;
pub(crate) mod port;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_channel::handshake::{Opening, PATIENCE, Reception};
use mpd_channel::hello::Mark;
use mpd_channel::{ChannelError, HandshakeError, Instance, Key, Purpose, Repeats, Responder};
use mpd_io::host::random;
use mpd_io::network::link::{CHUNK, Link, LinkError, LinkReport};
use mpd_jobtable::Throttle;
use mpd_ring::{DialFailure, LinkId, Peer};
use mpd_sansio::Time;
use mpd_wire::DaemonName;
use mpd_wire::frame::{self, InvalidFrame};
use mpd_wire::message::{Greeting, RingMessage};

use crate::daemon::lines;
use crate::daemon::net::dial::{Attempts, DialStep};
use crate::daemon::net::line::{Line, Stage, failure, ring_purpose};
use crate::daemon::net::port::Port;

pub(crate) use dial::{AttemptId, DialRequest, Dialed};
pub(crate) use myself::Myself;

/// The tokens of links begin here.
pub(crate) const FIRST_TOKEN: usize = 1 << 40;

/// Most bytes that wait for a peer. A peer with more is lost.
const MAX_QUEUED: usize = 16 << 20;

/// How long a closing link may take to send its last message.
const CLOSING_PATIENCE: Duration = Duration::from_secs(1);

/// An event of the links.
#[derive(Debug)]
pub(crate) enum NetEvent {
    /// A peer has proved itself and sent its greeting.
    Up {
        link: LinkId,
        peer: Peer,
        purpose: mpd_ring::Purpose,
        /// The attempt, if we connected.
        dialed: Option<Dialed>,
        /// The other end.
        remote: SocketAddr,
        /// The address under which the peer sees us.
        seen: Option<IpAddr>,
    },
    /// A connection of this attempt reaches this daemon.
    Mirrored(AttemptId),
    Message(LinkId, RingMessage),
    Closed(LinkId),
    /// An attempt has failed; the text is for people.
    Failed(AttemptId, DialFailure, String),
}

/// All links, by token. A token is never used twice, so a late event is ignored.
#[derive(Debug)]
pub(crate) struct Net {
    myself: Myself,
    port: Port,
    lines: BTreeMap<usize, Line>,
    /// All links with a deadline; others may be among them.
    timed: BTreeSet<usize>,
    attempts: Attempts,
    next: usize,
    /// Links to read, and whether their peers closed.
    ready: Vec<(usize, bool)>,
    buffer: Vec<u8>,
    unflushed: Vec<usize>,
    events: VecDeque<NetEvent>,
    max_under_way: usize,
    /// The time of the turn under way.
    now: Time,
    strangers: Throttle,
    /// Marks of the first messages that were answered.
    hellos: Repeats,
}

impl Net {
    pub(crate) fn new(myself: Myself, port: Port, descriptors: u64) -> Self {
        Self {
            myself,
            port,
            lines: BTreeMap::new(),
            timed: BTreeSet::new(),
            attempts: Attempts::default(),
            next: FIRST_TOKEN,
            ready: Vec::new(),
            buffer: vec![0; CHUNK],
            unflushed: Vec::new(),
            events: VecDeque::new(),
            max_under_way: admit::limit(descriptors),
            now: Time::ZERO,
            strangers: Throttle::default(),
            hellos: Repeats::default(),
        }
    }

    pub(crate) const fn port(&self) -> &Port {
        &self.port
    }

    pub(crate) const fn port_mut(&mut self) -> &mut Port {
        &mut self.port
    }

    /// The next event.
    pub(crate) fn pop(&mut self) -> Option<NetEvent> {
        self.events.pop_front()
    }

    /// An event of the link `token`.
    pub(crate) fn mark_ready(&mut self, token: Token, hung_up: bool) {
        if self.lines.contains_key(&token.0) {
            self.make_ready(token.0, hung_up);
        }
    }

    fn make_ready(&mut self, token: usize, hung_up: bool) {
        match self.ready.iter_mut().find(|(known, _)| *known == token) {
            Some((_, known)) => *known |= hung_up,
            None => self.ready.push((token, hung_up)),
        }
    }

    /// Whether work can be done without waiting.
    pub(crate) fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.events.is_empty()
    }

    /// Whether all last messages are sent.
    pub(crate) fn is_quiet(&self) -> bool {
        let closing = |line: &&Line| matches!(line.stage, Stage::Closing { .. });
        self.lines.values().filter(closing).all(|line| line.link.is_drained())
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let timed = self.timed.iter().filter_map(|token| self.lines.get(token));
        let lines = timed.filter_map(|line| match line.stage {
            Stage::Handshake | Stage::Seeking(_) => line.link.deadline(),
            Stage::ExpectGreeting { until, .. } | Stage::Closing { until } => Some(until),
            Stage::Up => None,
        });
        lines.chain(self.attempts.next_deadline()).chain(self.strangers.next_deadline()).min()
    }

    /// Adds an accepted connection.
    pub(crate) fn accept(
        &mut self,
        registry: &Registry,
        now: Time,
        stream: TcpStream,
        remote: SocketAddr,
    ) {
        self.now = now;
        let from = remote.ip().to_canonical();
        self.make_room(from);
        if self.note_own(remote) {
            log::debug!("{remote}: connected to ourselves");
        }
        let reception = match random::bytes() {
            Ok(nonce) => Reception { me: self.myself.instance, nonce, deadline: now + PATIENCE },
            Err(e) => return log::error!("cannot answer {remote}: {e}"),
        };
        let responder = Responder::for_daemon(self.myself.keys.clone(), reception);
        match Link::accept(stream, remote, responder) {
            Ok(link) => {
                let line = Line::new(link, None, now, from);
                if let Err(e) = self.insert(registry, line) {
                    log::warn!("cannot serve {remote}: {e}");
                }
            }
            Err(e) => log::debug!("{remote}: {e}"),
        }
    }

    /// Keeps the handshakes of strangers within their limits.
    fn make_room(&mut self, from: IpAddr) {
        let stranger = |line: &Line| {
            line.attempt.is_none() && matches!(line.stage, Stage::Handshake | Stage::Seeking(_))
        };
        let under_way: Vec<(usize, IpAddr)> = (self.timed.iter())
            .filter_map(|token| self.lines.get(token).map(|line| (*token, line)))
            .filter(|(_, line)| stranger(line))
            .map(|(token, line)| (token, line.from))
            .collect();
        if let Some(token) = admit::evicted(&under_way, from, self.max_under_way, random64()) {
            log::debug!("too many handshakes under way: dropped one");
            self.lines.remove(&token);
        }
    }

    fn insert(&mut self, registry: &Registry, line: Line) -> io::Result<()> {
        let token = self.next;
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&line.link.as_raw_fd()), Token(token), interest)?;
        self.next += 1;
        self.lines.insert(token, line);
        self.timed.insert(token);
        self.make_ready(token, true);
        Ok(())
    }

    /// Queues a message; [`Net::flush`] sends it.
    pub(crate) fn send(&mut self, link: LinkId, message: &RingMessage) {
        let Some((token, line)) = self.line(link) else { return };
        let result = line.link.send(&frame::compact::to_vec(message));
        let lost = line.link.queued() > MAX_QUEUED;
        self.unflushed.push(token);
        if let Err(e) = result {
            self.lose(token, &e);
        } else if lost {
            let e = LinkError::Broken(io::Error::other("it does not read our messages"));
            self.lose(token, &e);
        }
    }

    /// Sends `bye`, then closes.
    pub(crate) fn close(&mut self, now: Time, link: LinkId) {
        if let Some((token, line)) = self.line(link) {
            line.link.finish();
            line.stage = Stage::Closing { until: now + CLOSING_PATIENCE };
            line.attempt = None;
            self.timed.insert(token);
            self.make_ready(token, true);
        }
    }

    /// Closes all links and begins no more attempts.
    pub(crate) fn close_all(&mut self, now: Time) {
        self.attempts = Attempts::default();
        self.lines.retain(|_, line| matches!(line.stage, Stage::Up | Stage::Closing { .. }));
        let up = |(token, line): (&usize, &Line)| {
            matches!(line.stage, Stage::Up).then_some(LinkId(*token as u64))
        };
        for link in self.lines.iter().filter_map(up).collect::<Vec<_>>() {
            self.close(now, link);
        }
    }

    fn line(&mut self, link: LinkId) -> Option<(usize, &mut Line)> {
        let token = usize::try_from(link.0).ok()?;
        self.lines.get_mut(&token).map(|line| (token, line))
    }

    /// Writes queued data.
    pub(crate) fn flush(&mut self) {
        let mut unflushed = std::mem::take(&mut self.unflushed);
        for token in unflushed.drain(..) {
            if let Some(line) = self.lines.get_mut(&token)
                && let Err(e) = line.link.flush()
            {
                self.lose(token, &e);
            }
        }
        if self.unflushed.is_empty() {
            self.unflushed = unflushed;
        }
    }

    /// Reads every ready link once, then handles deadlines.
    pub(crate) fn turn(&mut self, registry: &Registry, now: Time) {
        self.now = now;
        let mut received = Vec::new();
        let mut ready = std::mem::take(&mut self.ready);
        for (token, hung_up) in ready.drain(..) {
            let Some(line) = self.lines.get_mut(&token) else { continue };
            let result = line.link.turn(&mut self.buffer, hung_up, &mut received);
            for report in received.drain(..) {
                self.receive(token, now, report);
            }
            match result {
                Ok(true) => self.make_ready(token, true),
                Ok(false) => {}
                Err(e) => self.lose(token, &e),
            }
        }
        if self.ready.is_empty() {
            // The memory of the list is used again.
            self.ready = ready;
        }
        self.expire(now);
        self.dial_due(registry, now);
    }

    fn receive(&mut self, token: usize, now: Time, received: LinkReport) {
        let Some(line) = self.lines.get_mut(&token) else { return };
        match (received, &line.stage) {
            (LinkReport::Connected, _) => line.connected = now,
            (LinkReport::Hello(mark), Stage::Handshake) => {
                let admitted = line.link.admit(self.hellos.is_new(mark));
                match admitted {
                    Ok(()) => self.make_ready(token, true),
                    Err(e) => self.lose(token, &e),
                }
            }
            (LinkReport::Established { .. }, Stage::Handshake)
                if self.attempts.mirrors(line.attempt) =>
            {
                // Only this process can have proved that it is this process.
                self.mirrored(token);
            }
            (LinkReport::Established { peer, purpose, .. }, Stage::Handshake) => {
                let until = now + PATIENCE;
                line.stage = Stage::ExpectGreeting { peer, purpose, until };
                let greeting = self.myself.greeting(line.from);
                let json = serde_json::to_vec(&greeting).expect("message serialises");
                if let Err(e) = line.link.send(&json) {
                    self.lose(token, &e);
                }
                self.unflushed.push(token);
            }
            (LinkReport::Frame(frame), &Stage::ExpectGreeting { peer, purpose, .. }) => {
                let wanted = line.attempt.and_then(|id| self.attempts.wanted(id));
                match self.myself.check(&frame, wanted) {
                    Ok(greeting) => self.up(token, peer, purpose, &greeting),
                    Err(problem) => self.dismiss(token, now, problem),
                }
            }
            (LinkReport::Frame(frame), Stage::Up) => match frame::compact::decode_message(&frame) {
                Ok(message) => {
                    let link = LinkId(token as u64);
                    self.events.push_back(NetEvent::Message(link, message));
                }
                Err(InvalidFrame::Unknown(kind)) => {
                    let (name, remote) = (line.shown_name(), line.link.remote());
                    let what = format_args!(
                        "{name} ({remote}): skipped a message of a kind that is unknown here: {kind}"
                    );
                    lines::write_all(self.strangers.warn(now, what));
                }
                Err(e) => self.refuse(token, &e),
            },
            (LinkReport::FindManager(manager), _) => {
                line.stage = Stage::Seeking(mpd_wire::Instance::from_bytes(*manager.as_bytes()));
            }
            (LinkReport::Frame(_) | LinkReport::Established { .. } | LinkReport::Hello(_), _) => {}
        }
    }

    fn up(&mut self, token: usize, peer: Instance, purpose: Purpose, greeting: &Greeting) {
        let Some(line) = self.lines.get_mut(&token) else { return };
        let Some(purpose) = ring_purpose(purpose) else { return };
        line.stage = Stage::Up;
        line.name = Some(greeting.name.clone());
        let (remote, connected) = (line.link.remote(), line.connected);
        let attempt = line.attempt.take();
        let seen = greeting.seen.parse().ok();
        let peer = Peer {
            name: greeting.name.clone(),
            instance: mpd_wire::Instance::from_bytes(*peer.as_bytes()),
        };
        let dialed = attempt.map(|attempt| self.won(attempt, token, remote, connected));
        log::debug!("{remote}: is {} ({purpose:?})", peer.name);
        let link = LinkId(token as u64);
        self.events.push_back(NetEvent::Up { link, peer, purpose, dialed, remote, seen });
    }

    /// Closes a link to a peer that has the key and does not belong here. The peer has our greeting, so it also
    /// knows the reason.
    fn dismiss(&mut self, token: usize, now: Time, problem: String) {
        let Some(line) = self.lines.get_mut(&token) else { return };
        let attempt = line.attempt.take();
        let remote = line.link.remote();
        lines::write_all(self.strangers.warn(self.now, format_args!("{remote}: {problem}")));
        self.close(now, LinkId(token as u64));
        if let Some(attempt) = attempt {
            self.attempt_failed(attempt, remote, DialFailure::NotProved, &problem);
        }
    }

    fn lose(&mut self, token: usize, error: &LinkError) {
        let Some(line) = self.lines.remove(&token) else { return };
        let remote = line.link.remote();
        match (line.stage, line.attempt) {
            (Stage::Up, _) => {
                self.log_peer(remote, line.name.as_ref(), error);
                self.events.push_back(NetEvent::Closed(LinkId(token as u64)));
            }
            (Stage::Closing { .. }, _) => {}
            (
                Stage::Handshake | Stage::Seeking(_) | Stage::ExpectGreeting { .. },
                Some(attempt),
            ) => {
                self.attempt_failed(attempt, remote, failure(error), &error.to_string());
            }
            (Stage::Handshake | Stage::Seeking(_) | Stage::ExpectGreeting { .. }, None) => {
                self.log_stranger(remote, error);
            }
        }
    }

    /// Closes a link whose peer sent a malformed message.
    fn refuse(&mut self, token: usize, problem: &InvalidFrame) {
        let problem = format!("refused a frame: {problem}");
        let Some(line) = self.lines.get(&token) else { return };
        let what = format_args!("{} ({}): {problem}", line.shown_name(), line.link.remote());
        lines::write_all(self.strangers.warn(self.now, what));
        self.lose(token, &LinkError::Broken(io::Error::other(problem)));
    }

    /// Logs the end of a member's link. Frames that are not the peer's are logged as warnings.
    fn log_peer(&mut self, remote: SocketAddr, name: Option<&DaemonName>, error: &LinkError) {
        let name = name.map_or("", DaemonName::as_str);
        match error {
            LinkError::Channel(ChannelError::Truncated) | LinkError::Broken(_) | LinkError::Bye => {
                log::debug!("{name} ({remote}): {error}");
            }
            _ => lines::write_all(
                self.strangers.warn(self.now, format_args!("{name} ({remote}): {error}")),
            ),
        }
    }

    /// Logs the end of a stranger's link. The throttle keeps a flood of strangers small.
    fn log_stranger(&mut self, remote: SocketAddr, error: &LinkError) {
        match error {
            LinkError::Handshake(
                HandshakeError::Stranger
                | HandshakeError::Version(_)
                | HandshakeError::Malformed
                | HandshakeError::Repeated
                | HandshakeError::AnotherInstance,
            ) => lines::write_all(self.strangers.warn(self.now, format_args!("{remote}: {error}"))),
            _ => log::debug!("{remote}: {error}"),
        }
    }

    /// Begins an attempt.
    pub(crate) fn dial(
        &mut self,
        registry: &Registry,
        now: Time,
        id: AttemptId,
        request: DialRequest,
    ) {
        self.attempts.begin(now, id, request, |address| self.port.is_own(address));
        self.dial_next(registry, now, id);
    }

    /// Begins an attempt that succeeds, with [`NetEvent::Mirrored`], if this very process answers.
    pub(crate) fn mirror(
        &mut self,
        registry: &Registry,
        now: Time,
        id: AttemptId,
        address: SocketAddr,
    ) {
        self.attempts.begin_mirror(now, id, self.myself.instance, address);
        self.dial_next(registry, now, id);
    }

    /// Handles the success of an attempt of [`Net::mirror`].
    fn mirrored(&mut self, token: usize) {
        let Some(id) = self.lines.remove(&token).and_then(|line| line.attempt) else { return };
        self.abandon(id);
        self.events.push_back(NetEvent::Mirrored(id));
    }

    /// Whether the connection from `remote` is one of our own attempts. Then that attempt has reached this daemon.
    fn note_own(&mut self, remote: SocketAddr) -> bool {
        let same = |end: SocketAddr| {
            end.port() == remote.port() && end.ip().to_canonical() == remote.ip().to_canonical()
        };
        let ours = |line: &Line| line.attempt.filter(|_| line.link.local().is_some_and(same));
        let found = self.lines.values().find_map(ours);
        found.iter().for_each(|id| self.attempts.reached_ourselves(*id));
        found.is_some()
    }

    /// Gives an attempt up.
    pub(crate) fn abandon(&mut self, id: AttemptId) {
        self.attempts.end(id);
        self.drop_others(id, None);
    }

    fn dial_due(&mut self, registry: &Registry, now: Time) {
        for id in self.attempts.ids() {
            self.dial_next(registry, now, id);
        }
    }

    /// Connects to the addresses that are due: the next one that does not fail at once.
    fn dial_next(&mut self, registry: &Registry, now: Time, id: AttemptId) {
        while let Some(step) = self.attempts.next_due(now, id) {
            if let Err((why, problem)) = self.connect(registry, now, step) {
                self.attempt_failed(id, step.address, why, &problem);
            }
        }
        self.give_up_if_over(id);
    }

    fn connect(
        &mut self,
        registry: &Registry,
        now: Time,
        step: DialStep,
    ) -> Result<(), (DialFailure, String)> {
        let helpless = |e: io::Error| (DialFailure::NoMeans, e.to_string());
        // A daemon does not answer a hello of its own instance.
        let me = if step.mirror {
            Instance::from_bytes(random::bytes().map_err(helpless)?).unwrap_or(self.myself.instance)
        } else {
            self.myself.instance
        };
        let opening = Opening {
            key: self.myself.keys.connect().clone(),
            me,
            peer: step.peer,
            purpose: step.purpose,
            nonce: random::bytes().map_err(helpless)?,
            deadline: now + PATIENCE,
        };
        let from = self.port.source();
        let link =
            Link::dial(step.address, from, opening).map_err(|e| (failure(&e), e.to_string()))?;
        let line = Line::new(link, Some(step.attempt), now, step.address.ip().to_canonical());
        self.insert(registry, line).map_err(helpless)
    }

    /// The link `token` of this attempt is up: drops its other links.
    fn won(&mut self, id: AttemptId, token: usize, address: SocketAddr, connected: Time) -> Dialed {
        self.attempts.end(id);
        self.drop_others(id, Some(token));
        Dialed { attempt: id, address, connected }
    }

    fn drop_others(&mut self, id: AttemptId, winner: Option<usize>) {
        self.lines.retain(|token, line| line.attempt != Some(id) || Some(*token) == winner);
    }

    /// Notes that a connection of this attempt has failed.
    fn attempt_failed(
        &mut self,
        id: AttemptId,
        address: SocketAddr,
        why: DialFailure,
        problem: &str,
    ) {
        self.attempts.attempt_failed(id, address, why, problem);
        self.give_up_if_over(id);
    }

    fn give_up_if_over(&mut self, id: AttemptId) {
        if let Some((why, problem)) = self.attempts.end_if_over(id) {
            self.drop_others(id, None);
            self.events.push_back(NetEvent::Failed(id, why, problem));
        }
    }

    /// Job links that wait for a manager, each with the manager. The handshake's deadline closes a link whose
    /// manager does not connect. Until then it counts as an unproved stranger.
    pub(crate) fn seekers(&self) -> Vec<(usize, mpd_wire::Instance)> {
        let seeking = |token: &usize| match self.lines.get(token)?.stage {
            Stage::Seeking(manager) => Some((*token, manager)),
            _ => None,
        };
        self.timed.iter().filter_map(seeking).collect()
    }

    /// Takes such a link out if it was made with the key of the manager's job, else closes it. Returns its hello in
    /// hexadecimal digits and the connection.
    pub(crate) fn pass_on(
        &mut self,
        registry: &Registry,
        token: usize,
        key: &Key,
    ) -> Option<(String, OwnedFd)> {
        let line = self.lines.get_mut(&token)?;
        let hello = match line.link.prove(key) {
            Ok(hello) if self.hellos.is_new(Mark::of(&hello)) => hello,
            Ok(_) => {
                self.lose(token, &HandshakeError::Repeated.into());
                return None;
            }
            Err(e) => {
                self.lose(token, &e);
                return None;
            }
        };
        let line = self.lines.remove(&token)?;
        let _ = registry.deregister(&mut SourceFd(&line.link.as_raw_fd()));
        let digits = mpd_wire::hex::encode(&hello);
        Some((digits, line.link.into_stream().into()))
    }

    fn expire(&mut self, now: Time) {
        lines::write_all(self.strangers.turn(now));
        let mut late = Vec::new();
        self.timed
            .retain(|token| self.lines.get(token).is_some_and(|l| !matches!(l.stage, Stage::Up)));
        for token in &self.timed {
            let Some(line) = self.lines.get_mut(token) else { continue };
            match line.stage {
                Stage::Handshake | Stage::Seeking(_) => {
                    if line.link.deadline().is_some_and(|at| at <= now)
                        && let Err(e) = line.link.expire(now)
                    {
                        late.push((*token, e));
                    }
                }
                Stage::ExpectGreeting { until, .. } | Stage::Closing { until } if until <= now => {
                    late.push((*token, HandshakeError::TimedOut.into()));
                }
                Stage::ExpectGreeting { .. } | Stage::Closing { .. } | Stage::Up => {}
            }
        }
        for (token, error) in late {
            self.lose(token, &error);
        }
    }
}

fn random64() -> u64 {
    // Without randomness any choice is good enough.
    random::bytes().map_or(0, u64::from_ne_bytes)
}
