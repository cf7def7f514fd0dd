//! Connections that have not yet said what they are, consoles submitting a job, and managers.
//!
//! A connection is worth nothing before its peer's uid is known to be ours. Whatever a peer sends
//! that is not expected closes that connection and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_io::clock::wall;
use mpd_io::conn::{Conn, Filled};
use mpd_machine::Time;
use mpd_wire::frame::Kind;
use mpd_wire::job::{JobSpec, MAX_SPEC, Notice};
use mpd_wire::message::{ConsoleReply, ManagerReport, Opening, Phase, RingRequest, Span, VERSION};
use mpd_wire::{JobId, frame};
use nix::unistd::geteuid;

use crate::daemon::guests;
use crate::daemon::jobs::{Jobs, Spawn, Submission};
use crate::daemon::membership::{Announcement, Errand, Hands, Membership};
use crate::daemon::placement::{self, Plan};

/// A peer that has not finished its request after this long is closed.
const OPENING_PATIENCE: Duration = Duration::from_secs(10);

/// Connections that may be open at once, managers not counted: this many, and never so many that
/// links and jobs lack descriptors.
const MAX_CONSOLES: usize = 4096;
const MIN_CONSOLES: usize = 8;

/// A watching console that leaves so much unread is closed, and one that is told of all jobs, which may
/// be much at once.
const MAX_UNREAD: usize = 1 << 20;
const MAX_UNREAD_JOBS: usize = 32 << 20;

/// Tokens below are the daemon's own.
const FIRST_TOKEN: usize = 16;

/// What a connection is at present.
#[derive(Debug)]
enum State {
    /// Nothing said yet, by the mpirun of a private ring: it submits when all hosts are there.
    Owner,
    /// Nothing said yet.
    ExpectOpening,
    /// A console whose specification is coming.
    ExpectSpec { wanted: usize, got: Vec<u8> },
    /// A console that waits for what the ring answers.
    Asking,
    /// Answered; closes when the answer is written.
    Leaving,
    /// The manager of this job.
    Manager(JobId),
}

/// Which way a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By the socket of the run directory.
    Standing,
    /// Inherited, from the mpirun that a private ring is for: this process.
    Owner(u32),
    /// By the socket of a private ring, from this process.
    Guest(u32),
}

impl Way {
    /// The process that a job in a private ring is named by.
    const fn console(self) -> Option<u32> {
        match self {
            Self::Standing => None,
            Self::Owner(pid) | Self::Guest(pid) => Some(pid),
        }
    }

    const fn is_guest(self) -> bool {
        matches!(self, Self::Guest(_))
    }
}

#[derive(Debug)]
struct Peer {
    conn: Conn,
    way: Way,
    state: State,
    since: Time,
}

/// All connections, by token. Tokens are never used twice, so a late event hits nobody.
#[derive(Debug)]
pub(crate) struct Peers {
    most_consoles: usize,
    peers: BTreeMap<usize, Peer>,
    /// The mpirun that a private ring is for, until its job has it.
    owner: Option<usize>,
    /// Whether a debugger would find its job.
    findable: bool,
    next: usize,
    ready: BTreeSet<usize>,
}

/// What is to happen to a peer after it was served.
enum Verdict {
    Keep,
    Close,
    /// It wants something of the ring.
    Ask(RingRequest),
    /// It is the manager's now.
    HandOver(Box<Submission>),
}

impl Peers {
    /// None yet, in a process that may have so many descriptors.
    pub(crate) fn new(descriptors: u64) -> Self {
        let most = usize::try_from(descriptors / 4).unwrap_or(MAX_CONSOLES);
        Self {
            most_consoles: most.clamp(MIN_CONSOLES, MAX_CONSOLES),
            peers: BTreeMap::new(),
            owner: None,
            findable: true,
            next: 0,
            ready: BTreeSet::new(),
        }
    }

    /// Takes a fresh connection, `guest` if it came by the socket of a private ring.
    pub(crate) fn add(
        &mut self,
        registry: &Registry,
        conn: Conn,
        guest: bool,
        now: Time,
    ) -> io::Result<()> {
        let consoles = self.peers.values().filter(|p| !p.is_manager()).count();
        if consoles >= self.most_consoles {
            return Err(io::Error::other("too many connections"));
        }
        let peer = conn.peer()?;
        let uid = peer.uid();
        if uid != geteuid().as_raw() {
            return Err(io::Error::other(format!("uid {uid} is not ours")));
        }
        let way = if guest { Way::Guest(peer.pid().unsigned_abs()) } else { Way::Standing };
        self.insert(registry, (conn, way), State::ExpectOpening, now).map(|_| ())
    }

    /// Takes the connection of the mpirun that this private daemon is for, the process `pid`. Consoles find
    /// the ring if it is `findable`.
    pub(crate) fn add_owner(
        &mut self,
        registry: &Registry,
        conn: Conn,
        (pid, findable): (u32, bool),
        now: Time,
    ) -> io::Result<()> {
        self.findable = findable;
        self.owner = Some(self.insert(registry, (conn, Way::Owner(pid)), State::Owner, now)?);
        Ok(())
    }

    fn insert(
        &mut self,
        registry: &Registry,
        (conn, way): (Conn, Way),
        state: State,
        now: Time,
    ) -> io::Result<usize> {
        let token = FIRST_TOKEN + self.next;
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&conn.as_raw_fd()), Token(token), interest)?;
        self.next += 1;
        self.peers.insert(token, Peer { conn, way, state, since: now });
        self.ready.insert(token);
        Ok(token)
    }

    /// An event came for `token`.
    pub(crate) fn mark_ready(&mut self, token: Token) {
        if self.peers.contains_key(&token.0) {
            self.ready.insert(token.0);
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether the mpirun of a private ring is still to submit its job, or to hear why it cannot.
    pub(crate) fn has_owner(&self) -> bool {
        self.owner.is_some_and(|token| self.peers.contains_key(&token))
    }

    /// When the next unfinished opening runs out of patience.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let waiting = self.peers.values().filter(|p| p.is_timed());
        waiting.map(|p| p.since + OPENING_PATIENCE).min()
    }

    /// Listens to the managers that were started.
    pub(crate) fn welcome_managers(&mut self, registry: &Registry, jobs: &mut Jobs, now: Time) {
        for (job, conn) in jobs.take_connections() {
            let came = (conn, Way::Standing);
            if let Err(e) = self.insert(registry, came, State::Manager(job.clone()), now) {
                log::error!("cannot listen to the manager of job {job}: {e}");
                jobs.manager_closed(&job);
            }
        }
    }

    /// Closes the connection of the manager of `job`.
    pub(crate) fn drop_manager(&mut self, job: &JobId) {
        self.peers.retain(|_, p| !p.is_manager_of(job));
    }

    /// Reads what the manager of `job` said before it ended.
    pub(crate) fn drain_manager(&mut self, job: &JobId, jobs: &mut Jobs) {
        if let Some(peer) = self.peers.values_mut().find(|p| p.is_manager_of(job)) {
            let _ = peer.serve(jobs);
        }
    }

    /// Says something to the manager of `job`, with what belongs to it.
    pub(crate) fn tell_manager(&mut self, errand: Errand) {
        let Errand { job, order, link } = errand;
        let Some(peer) = self.peers.values_mut().find(|p| p.is_manager_of(&job)) else {
            return log::warn!("job {job}: its manager cannot be spoken to now");
        };
        let sent = peer.conn.send_with(&order, link.into_iter().collect());
        // A connection that broke is found when it is read.
        if let Err(e) = sent.and_then(|()| peer.conn.flush()) {
            log::warn!("job {job}: cannot speak to its manager: {e}");
        }
    }

    /// Serves every ready peer once and closes those that took too long.
    pub(crate) fn turn(
        &mut self,
        registry: &Registry,
        jobs: &mut Jobs,
        mut ring: Option<&mut Membership>,
        now: Time,
    ) {
        for token in std::mem::take(&mut self.ready) {
            let Some(mut peer) = self.peers.remove(&token) else { continue };
            match peer.serve(jobs) {
                (Verdict::Keep, more) => {
                    self.peers.insert(token, peer);
                    if more {
                        self.ready.insert(token);
                    }
                }
                (Verdict::Close, _) => {
                    if let State::Manager(job) = &peer.state {
                        jobs.manager_closed(job);
                    }
                    if let (false, Some(ring)) = (peer.is_manager(), &mut ring) {
                        ring.forget_console(token);
                    }
                }
                (Verdict::Ask(request), _) => match &mut ring {
                    Some(ring) => {
                        peer.state = State::Asking;
                        self.peers.insert(token, peer);
                        ring.ask(&mut Hands { registry, jobs, now }, token, request);
                    }
                    None => {
                        let (replies, errands) = guests::answer(jobs, request);
                        replies.iter().for_each(|reply| peer.conn.send(reply));
                        peer.state = State::Leaving;
                        self.peers.insert(token, peer);
                        self.ready.insert(token);
                        errands.into_iter().for_each(|errand| self.tell_manager(errand));
                    }
                },
                (Verdict::HandOver(mut submission), _) => {
                    if !self.findable {
                        submission.hold_nothing();
                    }
                    let _ = registry.deregister(&mut SourceFd(&peer.conn.as_raw_fd()));
                    let hands = Hands { registry, jobs, now };
                    let result = submit(hands, ring.as_deref_mut(), &peer, &submission);
                    if let Err(problem) = result {
                        log::warn!("job refused: {problem:#}");
                        let problem = format!("{problem:#}");
                        peer.conn.send(&ConsoleReply::Refused { problem });
                        let came = (peer.conn, peer.way);
                        let inserted = self.insert(registry, came, State::Leaving, now);
                        if self.owner == Some(token) {
                            self.owner = inserted.ok();
                        }
                    }
                }
            }
        }
        self.peers.retain(|_, p| !p.is_timed() || now.since(p.since) < OPENING_PATIENCE);
    }

    /// Sends what the ring answers a console; the last answer ends it. `false`: it is not there, or
    /// does not read.
    pub(crate) fn answer(
        &mut self,
        token: usize,
        reply: &ConsoleReply,
        last: bool,
        now: Time,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(&token) else { return false };
        if peer.conn.try_send(reply).is_err() {
            let problem = "the ring is too large for one answer".to_owned();
            peer.conn.send(&ConsoleReply::Refused { problem });
        }
        if last {
            peer.state = State::Leaving;
            peer.since = now;
        }
        let most = match reply {
            ConsoleReply::Jobs { .. } => MAX_UNREAD_JOBS,
            _ => MAX_UNREAD,
        };
        if peer.conn.flush().is_err() || (!last && peer.conn.queued() > most) {
            self.peers.remove(&token);
            return false;
        }
        if last {
            self.ready.insert(token);
        }
        true
    }
}

/// Starts the job here, and has the other hosts told of it. The console is its manager's then.
fn submit(
    mut hands: Hands<'_>,
    ring: Option<&mut Membership>,
    console: &Peer,
    submission: &Submission,
) -> anyhow::Result<()> {
    let (jobs, spec) = (&mut hands.jobs, &submission.spec);
    let began_us = wall();
    let Plan { shares, mut notices } = match &ring {
        Some(ring) => ring.place(spec)?,
        None if spec.adopted => placement::adopted(jobs.name(), None)?,
        None => placement::alone(jobs.name(), spec)?,
    };
    let took_us = wall().saturating_sub(began_us);
    let placement = Span { phase: Phase::Placement, rank: None, began_us, took_us };
    notices.extend(submission.notice.clone().map(Notice::major));
    let launch = jobs.plan(jobs.new_id(console.way.console())?, spec, shares)?;
    let announcement = Announcement::new(&launch, spec.trace)?;
    let spans = spec.trace.then_some(placement).into_iter().collect();
    jobs.start_root(&launch, &console.conn, submission, (notices, spans))?;
    if let (Some(ring), Some(announcement)) = (ring, announcement) {
        ring.announce(&mut hands, announcement);
    }
    Ok(())
}

impl Peer {
    const fn is_manager(&self) -> bool {
        matches!(self.state, State::Manager(_))
    }

    fn is_manager_of(&self, job: &JobId) -> bool {
        matches!(&self.state, State::Manager(of) if of == job)
    }

    /// Whether it has only so long to say what it wants, or to read the answer.
    const fn is_timed(&self) -> bool {
        !matches!(self.state, State::Manager(_) | State::Asking | State::Owner)
    }

    /// Reads and answers. The flag says that more may be there to read.
    fn serve(&mut self, jobs: &mut Jobs) -> (Verdict, bool) {
        // Whoever is gone may have said something before.
        let _ = self.conn.flush();
        let filled = match self.conn.fill() {
            Ok(filled) => filled,
            Err(e) => {
                log::debug!("reading from a peer: {e}");
                return (Verdict::Close, false);
            }
        };
        loop {
            match self.take_frame(jobs) {
                Ok(Some(Verdict::Keep)) => {}
                Ok(Some(verdict)) => return (verdict, false),
                Ok(None) => break,
                Err(problem) => {
                    log::warn!("closing a connection: {problem}");
                    if self.is_manager() {
                        return (Verdict::Close, false);
                    }
                    self.refuse(problem);
                    break;
                }
            }
        }
        if filled == Filled::Closed || (filled == Filled::Empty && self.conn.flush().is_err()) {
            return (Verdict::Close, false);
        }
        let done = matches!(self.state, State::Leaving) && self.conn.queued() == 0;
        (if done { Verdict::Close } else { Verdict::Keep }, filled == Filled::More)
    }

    fn refuse(&mut self, problem: String) {
        self.conn.send(&ConsoleReply::Refused { problem });
        self.state = State::Leaving;
    }

    /// Acts on one frame; `None` when there is none.
    fn take_frame(&mut self, jobs: &mut Jobs) -> Result<Option<Verdict>, String> {
        if matches!(self.state, State::Leaving) {
            return Ok(None);
        }
        let Some((kind, payload)) = self.conn.next_frame().map_err(|e| e.to_string())? else {
            return Ok(None);
        };
        match (&mut self.state, kind) {
            (State::Owner | State::ExpectOpening, Kind::Control) => {
                let opening = frame::decode_message(payload).map_err(|e| e.to_string())?;
                self.open(jobs, opening)
            }
            (State::ExpectSpec { wanted, got }, Kind::Spec) => {
                if got.len() + payload.len() > *wanted {
                    return Err("the specification is longer than announced".into());
                }
                got.extend_from_slice(payload);
                if got.len() < *wanted {
                    return Ok(Some(Verdict::Keep));
                }
                let encoded = std::mem::take(got);
                self.submit(encoded)
            }
            (State::Manager(job), Kind::Control) => {
                let report = frame::decode_message(payload).map_err(|e| e.to_string())?;
                match report {
                    ManagerReport::Ranks { alias, runs } => jobs.running(job, alias, runs),
                    ManagerReport::Forgotten { first } => jobs.forgotten(job, first),
                    ManagerReport::Receivers { can, size } => jobs.can_receive(job, can, size),
                    ManagerReport::Written { counts } => jobs.written(job, counts),
                    ManagerReport::Name { request, wish } => jobs.wishes(job, request, wish),
                    ManagerReport::Place { request, wish } => {
                        jobs.spawns(Spawn::Place { job: job.clone(), request, wish });
                    }
                    ManagerReport::Grow { launch } if launch.job == *job => {
                        jobs.spawns(Spawn::Grow(launch));
                    }
                    ManagerReport::Grow { .. } => return Err("another job cannot grow".into()),
                    ManagerReport::Ended { code, unlinked } => jobs.ended(job, code, unlinked),
                }
                Ok(Some(Verdict::Keep))
            }
            _ => Err("a frame that is not expected here".into()),
        }
    }

    fn open(&mut self, jobs: &mut Jobs, opening: Opening) -> Result<Option<Verdict>, String> {
        let (Opening::Submit { version, .. }
        | Opening::Status { version }
        | Opening::Ring { version, .. }
        | Opening::Register { version, .. }) = opening;
        if version != VERSION {
            return Err(format!(
                "this daemon speaks version {VERSION} and you speak {version}: use the programs that were installed with it"
            ));
        }
        if self.way.is_guest() {
            guests::check(&opening)?;
        }
        match opening {
            Opening::Submit { spec_bytes, .. } => {
                let wanted = spec_bytes as usize;
                if wanted == 0 || wanted > MAX_SPEC {
                    return Err(format!(
                        "arguments and environment of {wanted} bytes are more than the {MAX_SPEC} that a job may have"
                    ));
                }
                self.state = State::ExpectSpec { wanted, got: Vec::new() };
            }
            Opening::Status { .. } => {
                self.conn.send(&jobs.status());
                self.state = State::Leaving;
            }
            Opening::Ring { request, .. } => return Ok(Some(Verdict::Ask(request))),
            Opening::Register { .. } => {
                let pid = self.conn.peer().map_or(0, |p| p.pid());
                self.state = State::Manager(jobs.adopt(opening, pid)?);
            }
        }
        Ok(Some(Verdict::Keep))
    }

    fn submit(&mut self, encoded: Vec<u8>) -> Result<Option<Verdict>, String> {
        let spec = JobSpec::decode(&encoded).map_err(|e| e.to_string())?;
        spec.check().map_err(|e| e.to_string())?;
        if self.way.is_guest() {
            guests::check_job(&spec)?;
        }
        let (Some(stdout), Some(stderr)) =
            (self.conn.take_descriptor(), self.conn.take_descriptor())
        else {
            return Err("the console passed no standard output and error".into());
        };
        let outputs = [stdout, stderr];
        let adopted = match spec.adopted {
            false => None,
            true => match (self.conn.take_descriptor(), self.conn.take_descriptor()) {
                (Some(pmi), Some(process)) => Some([pmi, process]),
                _ => return Err("the console passed no process to be adopted".into()),
            },
        };
        Ok(Some(Verdict::HandOver(Box::new(Submission {
            spec,
            encoded,
            outputs,
            adopted,
            notice: None,
        }))))
    }
}
