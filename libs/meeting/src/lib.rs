//! Ranks of several jobs meet: they connect, disconnect, or synchronise. The root manager of each job has one machine.
//!
//! **Purpose.** The members of each job first meet in a fence of their own (`mpd-job`). Then the root
//! managers speak to each other, through their daemons: each finds the other jobs by the marks of their namespaces. The
//! root of the lowest namespace coordinates: the others report the arrival of their members to it, and it tells all of
//! them when every job has arrived. A meeting ends by that, by its timeout, or by the end of one of its jobs.
//!
//! Jobs are linked from their first frame on until one of them ends. A daemon answers each frame, so the end of a job is
//! noticed even when its manager could not report it. The report says how the job has ended, and whether it was
//! connected: a connected job may share its fate.
//!
//! **Users.** The root manager of a job, in `mpd`.
//!
//! **Must not know.** What the members tell each other: descriptions and messages are bytes here. PMIx, the job tree, the
//! ring, descriptors.
#![forbid(unsafe_code)]

mod frame;
mod link;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use mpd_machine::{Machine, Time, UNDRAINED};
use mpd_wire::JobId;
use mpd_wire::job::namespace_mark;
use mpd_wire::message::{MeetingAnswer, MeetingOperation, Payload};

use frame::{BYE, CONNECTED, FAILED, Frame, Message, RESET};
pub use frame::{Cause, Party};
use link::Link;

/// Most jobs that one job is linked to.
pub const MAX_JOBS: usize = 256;
/// Most meetings that wait at a time.
pub const MAX_MEETINGS: usize = 1024;
/// Most arrivals of one job that are kept for later meetings.
const MAX_EARLY: usize = 256;
/// Most messages of a job that are kept until it is connected.
const MAX_HELD: usize = 1024;
/// Most bytes in the name of a meeting.
const MAX_KEY: usize = 256;

/// How often a job is asked for that others wait for or are connected to.
const PROBE: Duration = Duration::from_secs(2);
/// How often a job is asked for that no member waits for.
const SLOW_PROBE: Duration = Duration::from_secs(30);
/// When a frame is sent again that was not acknowledged, and a request that failed is repeated.
const AGAIN: Duration = Duration::from_secs(1);
/// The time after which a job that cannot be reached counts as ended.
const PATIENCE: Duration = Duration::from_secs(20);

/// An input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// All members of this job have arrived.
    Assembled(Assembly),
    /// The daemon's answer to a request.
    Answer(u32, MeetingAnswer),
    /// Bytes of the root manager of that job.
    Passed(JobId, Payload),
    /// Send this to the owner of a connected job.
    Tell(JobId, Vec<u8>),
    /// The daemon has died. No job is lost until there is another one.
    DaemonLost,
    /// There is a new daemon, which has no request of ours.
    DaemonReplaced,
    /// This job ends, and its failure if it has failed. Nothing is sent afterwards.
    End(Option<Cause>),
}

/// The members of this job in one meeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// The name of the meeting, the same in all jobs.
    pub key: String,
    /// The secret parts of the namespaces of all jobs of the meeting, that of this job among them.
    pub secrets: BTreeSet<String>,
    /// The time that the members give.
    pub timeout: Option<Duration>,
    /// Whether all members of this job live.
    pub is_whole: bool,
    /// What the other jobs have to know of this one.
    pub info: Vec<u8>,
    /// What the meeting does to the connections of the jobs.
    pub effect: Effect,
}

/// What a meeting does to the connections of its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// They are connected afterwards.
    Connect,
    /// They are no longer connected, as far as this connection goes.
    Disconnect,
    /// Nothing.
    None,
}

/// Why a meeting failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No job of this user has one of the namespaces.
    Unknown,
    /// One of the jobs has ended, or cannot be reached.
    Lost,
    /// The time is over.
    Timeout,
    /// A limit is reached.
    Full,
}

/// An action for the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A request for the daemon.
    Ask(u32, MeetingOperation),
    /// A meeting is over: the other jobs with their descriptions, or why it failed.
    Met(String, Result<Vec<(JobId, Party)>, Failure>),
    /// Bytes of the owner of a connected job.
    Told(JobId, Vec<u8>),
    /// That job is no longer connected.
    Disconnected(JobId),
    /// That job has ended, or the link to it.
    Gone(JobId, Ended),
}

/// The end of another job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why, if it has failed or has ended without a report.
    pub failure: Option<Cause>,
    /// Whether the jobs were connected, as far as both know. False if only the link has ended.
    pub was_connected: bool,
}

/// A waiting meeting.
#[derive(Debug)]
struct Meeting {
    assembly: Assembly,
    /// Tells the uses of the name apart.
    attempt: u32,
    deadline: Option<Time>,
    /// Whether the coordinator knows of our arrival.
    is_reported: bool,
}

/// A job of a namespace.
#[derive(Debug)]
enum Found {
    /// It is being looked for, until that time.
    Asked {
        until: Time,
    },
    /// The request is repeated then.
    Again {
        at: Time,
        until: Time,
    },
    Yes(JobId),
}

/// The root manager of another job.
#[derive(Debug)]
struct Peer {
    link: Link,
    /// How often the jobs were connected, less how often they were disconnected.
    connections: u32,
    /// Arrivals at meetings that are not complete, by name.
    early: BTreeMap<String, (u32, Party)>,
    /// Messages that came before the connection was complete.
    held: VecDeque<Payload>,
    /// Since when its daemon has not answered; `None` if it has answered last.
    silent_since: Option<Time>,
    /// When it was last written to.
    asked: Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Request {
    Find(String),
    Pass(JobId),
}

/// The result of [`Meetings::make_peer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    New,
    Known,
    Full,
}

/// The meetings of one job's ranks with those of other jobs.
#[derive(Debug)]
pub struct Meetings {
    /// The secret part of the own namespaces.
    secret: String,
    meetings: BTreeMap<String, Meeting>,
    found: BTreeMap<String, Found>,
    peers: BTreeMap<JobId, Peer>,
    requests: BTreeMap<u32, Request>,
    last_request: u32,
    last_attempt: u32,
    /// Whether there is a daemon.
    has_daemon: bool,
    has_ended: bool,
    outputs: VecDeque<Output>,
}

impl Meetings {
    /// The meetings of the job with this secret in its namespaces.
    pub const fn new(secret: String) -> Self {
        Self {
            secret,
            meetings: BTreeMap::new(),
            found: BTreeMap::new(),
            peers: BTreeMap::new(),
            requests: BTreeMap::new(),
            last_request: 0,
            last_attempt: 0,
            has_daemon: true,
            has_ended: false,
            outputs: VecDeque::new(),
        }
    }

    /// When [`Machine::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.has_ended {
            return None;
        }
        let meetings = self.meetings.values().filter_map(|meeting| meeting.deadline);
        let found = self.found.values().filter_map(|found| match found {
            Found::Again { at, .. } => Some(*at),
            Found::Asked { until } => Some(*until),
            Found::Yes(_) => None,
        });
        let peers = self.peers.iter().filter(|_| self.has_daemon);
        meetings.chain(found).chain(peers.map(|(job, peer)| self.due(job, peer))).min()
    }

    /// When a peer needs attention.
    fn due(&self, job: &JobId, peer: &Peer) -> Time {
        let lost = peer.silent_since.map(|since| since + PATIENCE);
        if self.requests.values().any(|request| request.is_to(job)) {
            // The answer comes first.
            return lost.unwrap_or(peer.asked + PATIENCE);
        }
        let interval = match peer.link.unacknowledged() {
            Some(_) => AGAIN,
            None if self.is_watched(job, peer) => PROBE,
            None => SLOW_PROBE,
        };
        let next = peer.asked + interval;
        lost.map_or(next, |lost| lost.min(next))
    }

    /// Whether members wait for a job or are connected to it.
    fn is_watched(&self, job: &JobId, peer: &Peer) -> bool {
        peer.connections > 0
            || !peer.early.is_empty()
            || self.meetings.values().any(|meeting| self.concerns(meeting, job))
    }

    fn concerns(&self, meeting: &Meeting, job: &JobId) -> bool {
        let secrets = meeting.assembly.secrets.iter();
        secrets.filter_map(|secret| self.job_of(secret)).any(|other| other == job)
    }

    fn job_of(&self, secret: &str) -> Option<&JobId> {
        match self.found.get(secret)? {
            Found::Yes(job) => Some(job),
            Found::Asked { .. } | Found::Again { .. } => None,
        }
    }

    // ----- meetings -----

    fn assembled(&mut self, now: Time, assembly: Assembly) {
        let key = assembly.key.clone();
        let others = assembly.secrets.iter().filter(|secret| **secret != self.secret);
        let others: Vec<String> = others.cloned().collect();
        let is_full = self.meetings.len() >= MAX_MEETINGS
            || self.found.len() + others.len() > 2 * MAX_JOBS
            || key.len() > MAX_KEY;
        if is_full || self.meetings.contains_key(&key) {
            return self.outputs.push_back(Output::Met(key, Err(Failure::Full)));
        }
        self.last_attempt = self.last_attempt.wrapping_add(1);
        let deadline = assembly.timeout.map(|timeout| now + timeout);
        let attempt = self.last_attempt;
        let meeting = Meeting { assembly, attempt, deadline, is_reported: false };
        self.meetings.insert(key.clone(), meeting);
        for secret in others {
            if !self.found.contains_key(&secret) {
                self.found.insert(secret.clone(), Found::Asked { until: now + PATIENCE });
                self.find(secret);
            }
        }
        self.review(now, &key);
    }

    fn find(&mut self, secret: String) {
        let operation = MeetingOperation::Find { mark: namespace_mark(&secret) };
        self.ask(Request::Find(secret), operation);
    }

    /// Does the next step of a meeting, if all its jobs are known.
    fn review(&mut self, now: Time, key: &str) {
        let Some(meeting) = self.meetings.get(key) else { return };
        let others = meeting.assembly.secrets.iter().filter(|secret| **secret != self.secret);
        let others = others.map(|secret| Some((secret.clone(), self.job_of(secret)?.clone())));
        let Some(others) = others.collect::<Option<Vec<_>>>() else { return };
        let coordinator = meeting.assembly.secrets.first();
        if coordinator == Some(&self.secret) {
            return self.review_arrivals(now, key, &others);
        }
        let to = others.iter().find(|(secret, _)| Some(secret) == coordinator);
        let Some(to) = to.map(|(_, job)| job.clone()) else { return };
        let party = self.own_party(key);
        let Some(meeting) = self.meetings.get_mut(key) else { return };
        if !std::mem::replace(&mut meeting.is_reported, true) {
            let (key, attempt) = (key.to_owned(), meeting.attempt);
            self.send(now, &to, &Message::Arrived { key, attempt, party });
        }
    }

    fn own_party(&self, key: &str) -> Party {
        let assembly = self.meetings.get(key).map(|meeting| &meeting.assembly);
        Party {
            secret: self.secret.clone(),
            is_whole: assembly.is_some_and(|assembly| assembly.is_whole),
            info: Payload::from(assembly.map_or(&[][..], |assembly| &assembly.info)),
        }
    }

    /// At the coordinator: completes a meeting when the members of all jobs have arrived.
    fn review_arrivals(&mut self, now: Time, key: &str, others: &[(String, JobId)]) {
        let arrived = |(secret, job): &(String, JobId)| {
            let (_, party) = self.peers.get(job)?.early.get(key)?;
            (party.secret == *secret).then_some(())
        };
        if !others.iter().all(|other| arrived(other).is_some()) {
            return;
        }
        let own = self.own_party(key);
        let mut parties = Vec::new();
        for (_, job) in others {
            let peer = self.peers.get_mut(job);
            let early = peer.and_then(|peer| peer.early.remove(key));
            parties.extend(early.map(|(attempt, party)| (job.clone(), attempt, party)));
        }
        for (job, attempt, _) in &parties {
            let rest = parties.iter().filter(|(other, ..)| other != job);
            let rest = rest.map(|(_, _, party)| party.clone());
            let parties = std::iter::once(own.clone()).chain(rest).collect();
            let (key, attempt) = (key.to_owned(), *attempt);
            self.send(now, job, &Message::Complete { key, attempt, parties });
        }
        let parties = parties.into_iter().map(|(job, _, party)| (job, party)).collect();
        self.complete(key, parties);
    }

    fn complete(&mut self, key: &str, parties: Vec<(JobId, Party)>) {
        let Some(meeting) = self.meetings.remove(key) else { return };
        let jobs: Vec<JobId> = parties.iter().map(|(job, _)| job.clone()).collect();
        self.outputs.push_back(Output::Met(key.to_owned(), Ok(parties)));
        for job in jobs {
            let Some(peer) = self.peers.get_mut(&job) else { continue };
            match meeting.assembly.effect {
                Effect::Connect => {
                    peer.connections += 1;
                    for told in peer.held.drain(..) {
                        let told = told.as_bytes().to_vec();
                        self.outputs.push_back(Output::Told(job.clone(), told));
                    }
                }
                Effect::Disconnect if peer.connections == 1 => {
                    peer.connections = 0;
                    self.outputs.push_back(Output::Disconnected(job));
                }
                Effect::Disconnect => peer.connections = peer.connections.saturating_sub(1),
                Effect::None => {}
            }
        }
    }

    fn fail(&mut self, key: &str, failure: Failure) {
        if self.meetings.remove(key).is_some() {
            self.outputs.push_back(Output::Met(key.to_owned(), Err(failure)));
        }
        self.forget_unneeded();
    }

    /// Forgets namespaces that were looked for, and that no meeting needs.
    fn forget_unneeded(&mut self) {
        let meetings = &self.meetings;
        let is_needed = |secret: &String| {
            meetings.values().any(|meeting| meeting.assembly.secrets.contains(secret))
        };
        self.found.retain(|secret, found| matches!(found, Found::Yes(_)) || is_needed(secret));
    }

    /// The members of this job wait no longer: the coordinator learns it.
    fn withdraw(&mut self, now: Time, key: &str, failure: Failure) {
        let Some(meeting) = self.meetings.get(key) else { return };
        let coordinator = meeting.assembly.secrets.first();
        let coordinator = coordinator.and_then(|secret| self.job_of(secret)).cloned();
        if let Some(to) = coordinator.filter(|_| meeting.is_reported) {
            let message = Message::Withdrawn { key: key.to_owned(), attempt: meeting.attempt };
            self.send(now, &to, &message);
        }
        self.fail(key, failure);
    }

    fn fail_all_with(&mut self, now: Time, secret: &str, failure: Failure) {
        let meetings = self.meetings.iter();
        let failed = meetings.filter(|(_, meeting)| meeting.assembly.secrets.contains(secret));
        for key in failed.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.withdraw(now, &key, failure);
        }
    }

    // ----- requests to the daemon -----

    fn ask(&mut self, request: Request, operation: MeetingOperation) {
        self.last_request = self.last_request.wrapping_add(1);
        self.requests.insert(self.last_request, request);
        self.outputs.push_back(Output::Ask(self.last_request, operation));
    }

    fn pass(&mut self, now: Time, to: &JobId, payload: Payload) {
        if let Some(peer) = self.peers.get_mut(to) {
            peer.asked = now;
            peer.silent_since = peer.silent_since.or(Some(now));
        }
        let operation = MeetingOperation::Pass { to: to.clone(), payload };
        self.ask(Request::Pass(to.clone()), operation);
    }

    fn answered(&mut self, now: Time, request: u32, answer: MeetingAnswer) {
        match (self.requests.remove(&request), answer) {
            (Some(Request::Find(secret)), answer) => self.found_out(now, secret, answer),
            (Some(Request::Pass(job)), MeetingAnswer::Gone) => {
                self.lose_silent(now, &job, "it has ended without a report");
            }
            (Some(Request::Pass(job)), MeetingAnswer::Passed) => {
                if let Some(peer) = self.peers.get_mut(&job) {
                    peer.silent_since = None;
                }
            }
            (Some(Request::Pass(_)) | None, _) => {}
        }
    }

    fn found_out(&mut self, now: Time, secret: String, answer: MeetingAnswer) {
        let Some(found) = self.found.get_mut(&secret) else { return };
        let Found::Asked { until } = *found else { return };
        match answer {
            MeetingAnswer::Found(job) => {
                *found = Found::Yes(job.clone());
                match self.make_peer(now, &job) {
                    // The other job learns that it is waited for, so that it reports its end.
                    Made::New => self.probe(now, &job),
                    Made::Known => {}
                    Made::Full => {
                        self.found.remove(&secret);
                        return self.fail_all_with(now, &secret, Failure::Full);
                    }
                }
                let keys: Vec<String> = self.meetings.keys().cloned().collect();
                keys.iter().for_each(|key| self.review(now, key));
            }
            MeetingAnswer::Later(_) => *found = Found::Again { at: until.min(now + AGAIN), until },
            MeetingAnswer::Gone | MeetingAnswer::Passed => {
                self.found.remove(&secret);
                self.fail_all_with(now, &secret, Failure::Unknown);
            }
        }
    }

    // ----- other jobs -----

    /// Makes a link to a job, unless there is one.
    fn make_peer(&mut self, now: Time, job: &JobId) -> Made {
        if self.peers.contains_key(job) {
            return Made::Known;
        }
        if self.peers.len() >= MAX_JOBS {
            return Made::Full;
        }
        self.peers.insert(job.clone(), Peer::new(now));
        Made::New
    }

    fn send(&mut self, now: Time, to: &JobId, message: &Message) {
        let Some(peer) = self.peers.get_mut(to) else { return };
        if !peer.link.push(message) {
            return self.break_off(now, to);
        }
        self.flush(now, to);
    }

    fn flush(&mut self, now: Time, to: &JobId) {
        let frame = self.peers.get_mut(to).and_then(|peer| peer.link.next_frame(now));
        if let Some(frame) = frame {
            self.pass(now, to, frame);
        }
    }

    fn probe(&mut self, now: Time, to: &JobId) {
        if let Some(frame) = self.peers.get_mut(to).map(|peer| peer.link.again(now)) {
            self.pass(now, to, frame);
        }
    }

    fn passed(&mut self, now: Time, from: &JobId, payload: &Payload) {
        let Some(frame) = Frame::read(payload.as_bytes()) else { return };
        if frame.flags & RESET != 0 {
            return self.lose(now, from, Ended::of_link());
        }
        if frame.flags & BYE != 0 {
            let failure = (frame.flags & FAILED != 0).then(|| Cause::read(frame.bytes));
            let was_connected = frame.flags & CONNECTED != 0 && self.is_connected(from);
            return self.lose(now, from, Ended { failure, was_connected });
        }
        if self.make_peer(now, from) == Made::Full {
            return self.pass(now, from, Frame::bare(RESET).write());
        }
        let Some(peer) = self.peers.get_mut(from) else { return };
        peer.silent_since = None;
        match peer.link.take(&frame) {
            Some(Ok(messages)) => {
                for message in messages {
                    self.act(now, from, message);
                }
                self.flush(now, from);
            }
            Some(Err(_)) | None => self.break_off(now, from),
        }
    }

    /// Ends a link that cannot continue.
    fn break_off(&mut self, now: Time, job: &JobId) {
        self.pass(now, job, Frame::bare(RESET).write());
        self.lose(now, job, Ended::of_link());
    }

    fn is_connected(&self, job: &JobId) -> bool {
        self.peers.get(job).is_some_and(|peer| peer.connections > 0)
    }

    fn act(&mut self, now: Time, from: &JobId, message: Message) {
        let Some(peer) = self.peers.get_mut(from) else { return };
        match message {
            Message::Arrived { key, attempt, party } => {
                if key.len() > MAX_KEY || peer.early.len() >= MAX_EARLY {
                    return self.break_off(now, from);
                }
                peer.early.insert(key.clone(), (attempt, party));
                self.review(now, &key);
            }
            Message::Withdrawn { key, attempt } => {
                if peer.early.get(&key).is_some_and(|(of, _)| *of == attempt) {
                    peer.early.remove(&key);
                }
            }
            Message::Complete { key, attempt, parties } => {
                self.completed(from, (&key, attempt), parties);
            }
            Message::Told(told) if peer.connections > 0 => {
                self.outputs.push_back(Output::Told(from.clone(), told.as_bytes().to_vec()));
            }
            Message::Told(told) => {
                if peer.held.len() < MAX_HELD {
                    peer.held.push_back(told);
                }
            }
        }
    }

    /// The coordinator has completed a meeting.
    fn completed(&mut self, from: &JobId, (key, attempt): (&str, u32), parties: Vec<Party>) {
        let Some(meeting) = self.meetings.get(key) else { return };
        let coordinator = meeting.assembly.secrets.first();
        if meeting.attempt != attempt
            || coordinator.and_then(|secret| self.job_of(secret)) != Some(from)
        {
            return;
        }
        let is_member = |party: &Party| {
            party.secret != self.secret && meeting.assembly.secrets.contains(&party.secret)
        };
        let known = parties.into_iter().filter(is_member);
        let known = known.filter_map(|party| Some((self.job_of(&party.secret)?.clone(), party)));
        let known: BTreeMap<JobId, Party> = known.collect();
        if known.len() + 1 == meeting.assembly.secrets.len() {
            self.complete(key, known.into_iter().collect());
        }
    }

    /// A job has not reported its end.
    fn lose_silent(&mut self, now: Time, job: &JobId, why: &str) {
        let (failure, was_connected) = (Some(Cause::unreported(why)), self.is_connected(job));
        self.lose(now, job, Ended { failure, was_connected });
    }

    /// A job has ended, or the link to it.
    fn lose(&mut self, now: Time, job: &JobId, ended: Ended) {
        let Some(_) = self.peers.remove(job) else { return };
        self.requests.retain(|_, request| !request.is_to(job));
        let is_it = |found: &Found| matches!(found, Found::Yes(of) if of == job);
        let secrets = self.found.iter().filter(|(_, found)| is_it(found));
        for secret in secrets.map(|(secret, _)| secret.clone()).collect::<Vec<_>>() {
            self.found.remove(&secret);
            self.fail_all_with(now, &secret, Failure::Lost);
        }
        self.outputs.push_back(Output::Gone(job.clone(), ended));
    }

    /// This job ends. All linked jobs learn it.
    fn end(&mut self, now: Time, failure: Option<&Cause>) {
        let cause = failure.map(Cause::write).unwrap_or_default();
        for job in self.peers.keys().cloned().collect::<Vec<_>>() {
            let failed = if failure.is_some() { FAILED } else { 0 };
            let connected = if self.is_connected(&job) { CONNECTED } else { 0 };
            let frame = Frame { bytes: &cause, ..Frame::bare(BYE | failed | connected) };
            self.pass(now, &job, frame.write());
        }
        self.has_ended = true;
    }

    // ----- time -----

    fn expire_meetings(&mut self, now: Time) {
        let is_due = |meeting: &Meeting| meeting.deadline.is_some_and(|at| at <= now);
        let due = self.meetings.iter().filter(|(_, meeting)| is_due(meeting));
        for key in due.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.withdraw(now, &key, Failure::Timeout);
        }
    }

    fn expire_searches(&mut self, now: Time) {
        let mut over = Vec::new();
        let mut again = Vec::new();
        for (secret, found) in &mut self.found {
            match *found {
                Found::Asked { until } | Found::Again { until, .. } if until <= now => {
                    over.push(secret.clone());
                }
                Found::Again { at, until } if at <= now => {
                    *found = Found::Asked { until };
                    again.push(secret.clone());
                }
                _ => {}
            }
        }
        for secret in over {
            self.found.remove(&secret);
            self.requests.retain(|_, request| *request != Request::Find(secret.clone()));
            self.fail_all_with(now, &secret, Failure::Lost);
        }
        again.into_iter().for_each(|secret| self.find(secret));
    }

    fn review_peers(&mut self, now: Time) {
        let due = self.peers.iter().filter(|(job, peer)| self.due(job, peer) <= now);
        let due: Vec<(JobId, Option<Time>)> =
            due.map(|(job, peer)| (job.clone(), peer.silent_since)).collect();
        for (job, silent_since) in due {
            if silent_since.is_some_and(|since| since + PATIENCE <= now) {
                self.lose_silent(now, &job, "its daemon does not answer");
            } else {
                self.probe(now, &job);
            }
        }
    }
}

impl Ended {
    /// The end of a link to a job that may still run.
    fn of_link() -> Self {
        let failure = Some(Cause::unreported("the link to it has ended"));
        Self { failure, was_connected: false }
    }
}

impl Request {
    fn is_to(&self, job: &JobId) -> bool {
        matches!(self, Self::Pass(to) if to == job)
    }
}

impl Peer {
    const fn new(now: Time) -> Self {
        Self {
            link: Link::new(now),
            connections: 0,
            early: BTreeMap::new(),
            held: VecDeque::new(),
            silent_since: None,
            asked: now,
        }
    }
}

impl Machine for Meetings {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        if self.has_ended {
            return;
        }
        match input {
            Input::Assembled(assembly) => self.assembled(now, assembly),
            Input::Answer(request, answer) => self.answered(now, request, answer),
            Input::Passed(from, payload) => self.passed(now, &from, &payload),
            Input::Tell(to, bytes) => {
                self.send(now, &to, &Message::Told(Payload::from(bytes.as_slice())));
            }
            Input::DaemonLost => {
                self.has_daemon = false;
                self.requests.clear();
            }
            Input::DaemonReplaced => {
                self.has_daemon = true;
                self.requests.clear();
                for found in self.found.values_mut() {
                    if let Found::Asked { until } = *found {
                        *found = Found::Again { at: now, until };
                    }
                }
                self.peers.values_mut().for_each(|peer| peer.silent_since = None);
            }
            Input::End(failure) => self.end(now, failure.as_ref()),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        if self.has_ended {
            return;
        }
        self.expire_meetings(now);
        self.expire_searches(now);
        if self.has_daemon {
            self.review_peers(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
