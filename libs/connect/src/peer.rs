//! Other jobs: the links to their root managers, requests to the daemon, and their ends.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mpd_sansio::Time;
use mpd_wire::JobId;
use mpd_wire::message::{MeetingAnswer, MeetingOperation, Payload};

use crate::found::Found;
use crate::frame::{BYE, CONNECTED, Cause, FAILED, Frame, Message, Party, RESET};
use crate::link::Link;
use crate::{AGAIN, Ended, Failure, MAX_JOBS, MAX_KEY, Meetings, Output, PATIENCE};

/// Most arrivals of one job that are kept for later meetings.
const MAX_EARLY: usize = 256;
/// Most messages of a job that are kept until it is connected.
const MAX_HELD: usize = 1024;

/// How often a job is asked for that others wait for or are connected to.
const PROBE: Duration = Duration::from_secs(2);
/// How often a job is asked for that no member waits for.
const SLOW_PROBE: Duration = Duration::from_secs(30);

/// The root manager of another job.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) link: Link,
    /// How often the jobs were connected, less how often they were disconnected.
    pub(crate) connections: u32,
    /// Arrivals at meetings that are not complete, by name.
    pub(crate) early: BTreeMap<String, (u32, Party)>,
    /// Messages that came before the connection was complete.
    pub(crate) held: VecDeque<Payload>,
    /// Since when its daemon has not answered; `None` if it has answered last.
    pub(crate) silent_since: Option<Time>,
    /// When it was last written to.
    asked: Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Find(String),
    Pass(JobId),
}

/// The result of [`Meetings::make_peer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerAddition {
    New,
    Known,
    Full,
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

impl Request {
    fn is_to(&self, job: &JobId) -> bool {
        matches!(self, Self::Pass(to) if to == job)
    }
}

impl Ended {
    /// The end of a link to a job that may still run.
    pub(crate) fn of_link() -> Self {
        let failure = Some(Cause::unreported("the link to it has ended"));
        Self { failure, was_connected: false }
    }
}

impl Meetings {
    /// When a peer needs attention.
    pub(crate) fn due(&self, job: &JobId, peer: &Peer) -> Time {
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

    pub(crate) fn ask(&mut self, request: Request, operation: MeetingOperation) {
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

    pub(crate) fn answered(&mut self, now: Time, request: u32, answer: MeetingAnswer) {
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

    /// Makes a link to a job, unless there is one.
    pub(crate) fn make_peer(&mut self, now: Time, job: &JobId) -> PeerAddition {
        if self.peers.contains_key(job) {
            return PeerAddition::Known;
        }
        if self.peers.len() >= MAX_JOBS {
            return PeerAddition::Full;
        }
        self.peers.insert(job.clone(), Peer::new(now));
        PeerAddition::New
    }

    pub(crate) fn send(&mut self, now: Time, to: &JobId, message: &Message) {
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

    pub(crate) fn probe(&mut self, now: Time, to: &JobId) {
        if let Some(frame) = self.peers.get_mut(to).map(|peer| peer.link.again(now)) {
            self.pass(now, to, frame);
        }
    }

    pub(crate) fn passed(&mut self, now: Time, from: &JobId, payload: &Payload) {
        let Some(frame) = Frame::read(payload.as_bytes()) else { return };
        if frame.flags & RESET != 0 {
            return self.lose(now, from, Ended::of_link());
        }
        if frame.flags & BYE != 0 {
            let failure = (frame.flags & FAILED != 0).then(|| Cause::read(frame.bytes));
            let was_connected = frame.flags & CONNECTED != 0 && self.is_connected(from);
            return self.lose(now, from, Ended { failure, was_connected });
        }
        if self.make_peer(now, from) == PeerAddition::Full {
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
                self.completed(from, &key, attempt, parties);
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
    pub(crate) fn end(&mut self, now: Time, failure: Option<&Cause>) {
        let cause = failure.map(Cause::write).unwrap_or_default();
        for job in self.peers.keys().cloned().collect::<Vec<_>>() {
            let failed = if failure.is_some() { FAILED } else { 0 };
            let connected = if self.is_connected(&job) { CONNECTED } else { 0 };
            let frame = Frame { bytes: &cause, ..Frame::bare(BYE | failed | connected) };
            self.pass(now, &job, frame.write());
        }
        self.has_ended = true;
    }

    pub(crate) fn review_peers(&mut self, now: Time) {
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
