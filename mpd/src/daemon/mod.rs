//! The daemon process: one loop over its Unix socket, its port, the connections to them, its children and signals.
//!
//! Each resource has one owner: [`peers`] has the connections of consoles and managers, [`jobs`] the jobs and the
//! children, [`membership`] everything of the ring, over the links of [`net`]. Owners do not call each other. They
//! return events, and this loop routes each event to one owner. A console, a manager or another daemon can close
//! its own connection, never the daemon.

mod acceptor;
mod agent;
mod guests;
mod jobs;
mod lines;
mod listening;
mod membership;
mod net;
mod peers;
mod ready;
mod ringless;
mod search;
pub(crate) mod status;
mod submission;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use mpd_daemon::{Announcement, Demand, Input, LocalNames, Plan};
use mpd_io::adopt_inherited;
use mpd_io::clock::{Clock, wall};
use mpd_io::host::cpus;
use mpd_io::host::random;
use mpd_io::network::conn::Conn;
use mpd_io::process::identity::number_of;
use mpd_io::process::oom;
use mpd_io::process::pidfd::Pidfd;
use mpd_io::process::priority;
use mpd_io::process::signals::Signals;
use mpd_io::process::tree;
use mpd_io::ring::rundir::RunDir;
use mpd_jobtable::{Beginning, Event as JobEvent, Input as JobInput, ManagerMessage};
use mpd_sansio::Time;
use mpd_wire::job::Notice;
use mpd_wire::message::{
    ConsoleReply, HostLimits, ManagerOrder, ManagerReport, MeetingAnswer, Phase, RingRequest, Span,
};
use mpd_wire::{Instance, JobId};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::cli::Cli;
use crate::daemon::acceptor::{Acceptor, PER_TURN};
use crate::daemon::agent::Agent;
use crate::daemon::guests::Guests;
use crate::daemon::jobs::{Jobs, first_manager};
use crate::daemon::listening::{Leftover, Listening};
use crate::daemon::membership::{Membership, Turn};
use crate::daemon::peers::{Event, Peers};
use crate::daemon::ready::Ready;
use crate::daemon::submission::Submission;
use crate::limits;

const LISTENER: Token = Token(0);
const SIGNALS: Token = Token(1);
const PORT: Token = Token(2);
const GUESTS: Token = Token(3);
const AGENT: Token = Token(4);
const HOLDER: Token = Token(5);

/// How long managers wait for a job in a ring that ends when it is idle, if no job is on this host.
const REST: Duration = Duration::from_secs(10);

/// How long a daemon that ends with a batch job waits for the managers of its jobs.
const LAST_JOBS: Duration = Duration::from_secs(5);

/// How long an acceptor rests when descriptors have run out.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

const SIGNALS_CAUGHT: [Signal; 4] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD];

pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    limits::keep_owner_permissions();
    // Members that enter get whole lists of members. Large blocks are returned to the system after use.
    mpd_io::part_large_blocks();
    let descriptor = if cli.private { 4 } else { 3 };
    let reported =
        cli.report_ready.then(|| adopt_inherited(descriptor)).transpose()?.map(File::from);
    let mut ready = Ready::new(reported, cli)?;
    let result = Daemon::start(cli).and_then(|daemon| daemon.serve(&mut ready));
    if let Err(error) = &result {
        let problem = mpd_io::files::logging::one_line(&format!("{error:#}"));
        ready.report(&problem);
        if let Some(nonce) = &cli.nonce {
            agent::refuse(nonce, &problem);
        }
    }
    result
}

struct Daemon {
    poll: Poll,
    clock: Clock,
    signals: Signals,
    listening: Option<Listening>,
    /// Only in a private ring.
    guests: Option<Guests>,
    /// Only if mpdboot started this daemon, until it is in the ring.
    agent: Option<Agent>,
    /// The process whose end ends this daemon, if there is one.
    holder: Option<Pidfd>,
    peers: Peers,
    jobs: Jobs,
    /// `None` in a private ring of one.
    membership: Option<Membership>,
    /// The published names in a private ring of one.
    names: LocalNames,
    /// Signals may be waiting.
    signalled: bool,
    ending: bool,
}

impl Daemon {
    fn start(cli: &Cli) -> Result<Self> {
        let host = mpd_io::ring::rundir::host_name();
        let name = cli.name.clone().unwrap_or_else(|| host.clone());
        if !mpd_wire::is_daemon_name(&name) {
            bail!("{name:?} cannot be a daemon's name: letters, digits and . _ - : only (--name)");
        }
        let (rundir, waiting) = (cli.rundir()?, cli.waiting()?);
        let is_alone = cli.private && !cli.open;
        // From here on files exist that the daemon removes at its end.
        let mut signals = Signals::block(&SIGNALS_CAUGHT).context("cannot catch signals")?;
        let serving =
            (!is_alone).then(|| Listening::begin(&rundir, Leftover::of(cli))).transpose()?;
        begin_log(cli, &name, &rundir)?;
        // A program that becomes this daemon by exec may have children.
        let inherited = if is_alone { Vec::new() } else { tree::own_children() };
        // The job is about to come, and its manager gets ready meanwhile.
        let first = is_alone.then(first_manager).and_then(Result::ok);
        limits::raise_descriptor_limit();
        limits::lift_cpu_limit();
        priority::of_a_server();
        if !is_alone {
            priority::of_a_servers_session();
        }
        be_the_last_victim();
        tree::become_subreaper().context("cannot become a subreaper")?;
        limits::protect_memory()?;
        let poll = Poll::new().context("cannot make an event queue")?;
        poll.registry().register(
            &mut SourceFd(&signals.as_raw_fd()),
            SIGNALS,
            Interest::READABLE,
        )?;
        let entries = search::entries(cli, &mut signals)?;
        let clock = Clock::start();
        let kept = serving.is_some().then(|| rundir.clone());
        let instance = membership::new_instance()?;
        let inherited = inherited.into_iter().map(number_of).collect();
        let of_jobs = begin_table(cli, &name, host, Instance::from_bytes(*instance.as_bytes()));
        let of_jobs = Beginning { wanted: waiting, inherited, ..of_jobs };
        let mut jobs = Jobs::new(of_jobs, kept, first, clock);
        let mut peers = Peers::new(limits::descriptor_limit());
        let mut membership = None;
        if let Some(listening) = &serving {
            let fd = listening.as_raw_fd();
            poll.registry().register(&mut SourceFd(&fd), LISTENER, Interest::READABLE)?;
            let ring = Membership::start(cli, (&name, instance), &rundir, entries, clock.now())?;
            let fd = ring.port().as_raw_fd();
            poll.registry().register(&mut SourceFd(&fd), PORT, Interest::READABLE)?;
            membership = Some(ring);
            jobs.adopt_records(clock.now());
        }
        let guests =
            cli.owner.map(|owner| begin_private(cli, owner, &poll, &mut peers, clock.now()));
        let guests = guests.transpose()?;
        let holder = cli.held_by.map(|pid| hold(pid, &poll)).transpose()?;
        std::env::set_current_dir("/")?;
        let agent = begin_agent(cli, &poll, membership.as_ref())?;
        Ok(Self {
            poll,
            clock,
            signals,
            listening: serving,
            guests,
            agent,
            holder,
            peers,
            jobs,
            membership,
            names: LocalNames::default(),
            signalled: false,
            ending: false,
        })
    }

    fn serve(mut self, ready: &mut Ready) -> Result<ExitCode> {
        log::info!("serving, pid {}", std::process::id());
        let mut events = Events::with_capacity(256);
        loop {
            self.take_signals();
            self.accept();
            self.serve_peers();
            self.look_for_silent();
            self.jobs.turn(self.clock.now());
            self.route_jobs(self.clock.now());
            self.ring_turn(ready)?;
            self.send_to_managers();
            if self.is_over() {
                break;
            }
            self.peers.watch_writing(self.poll.registry());
            let wait = self.wait();
            match self.poll.poll(&mut events, wait) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => events.clear(),
                result => result.context("cannot wait for events")?,
            }
            for event in &events {
                let hung_up = event.is_read_closed() || event.is_error();
                self.mark_ready(event.token(), hung_up);
            }
        }
        if self.listening.as_ref().is_some_and(Listening::ends_jobs) {
            self.end_jobs();
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Ends the jobs here, and waits for the end of their managers.
    fn end_jobs(&mut self) {
        let deadline = self.clock.now() + LAST_JOBS;
        self.jobs.give(self.clock.now(), JobInput::Terminate);
        while !self.jobs.table().is_idle() && self.clock.now() < deadline {
            let next = self.jobs.table().poll_timeout().map_or(deadline, |at| at.min(deadline));
            self.signals.wait(self.clock.until(next));
            self.signalled = true;
            self.take_signals();
            self.jobs.turn(self.clock.now());
            self.route_jobs(self.clock.now());
        }
    }

    fn mark_ready(&mut self, token: Token, hung_up: bool) {
        match token {
            LISTENER => self.listening.iter_mut().for_each(Listening::mark_ready),
            GUESTS => self.guests.iter_mut().for_each(|g| g.acceptor_mut().mark_ready()),
            SIGNALS => self.signalled = true,
            // `ring_turn` looks at the input itself.
            AGENT => {}
            HOLDER => self.lose_holder(),
            PORT => self.membership.iter_mut().for_each(Membership::mark_port_ready),
            Token(number) if number >= net::FIRST_TOKEN => {
                self.membership.iter_mut().for_each(|m| m.mark_ready(token, hung_up));
            }
            token => self.peers.mark_ready(token),
        }
    }

    fn is_over(&self) -> bool {
        match &self.membership {
            Some(membership) => membership.is_over(self.clock.now()),
            None => self.ending || !self.is_needed(),
        }
    }

    /// Gives the ring its turn, and sends its answers to consoles.
    fn ring_turn(&mut self, ready: &mut Ready) -> Result<()> {
        let is_needed = self.is_needed();
        let Some(membership) = &mut self.membership else { return Ok(()) };
        let now = self.clock.now();
        if let Some(agent) = &mut self.agent
            && let Some(records) = agent.take_list(&membership.node().newcomer())
        {
            membership.handle(&self.jobs, now, Input::Introduced(records));
        }
        let turn = Turn { registry: self.poll.registry(), jobs: &mut self.jobs, now };
        membership.turn(turn, is_needed);
        while let Some((console, reply, last)) = membership.next_answer() {
            if !self.peers.answer(console, &reply, last, now) {
                membership.handle(&self.jobs, now, Input::ConsoleGone(console));
            }
        }
        for console in membership.node().full_consoles() {
            if self.peers.has_read(console) {
                membership.handle(&self.jobs, now, Input::ConsoleRead(console));
            }
        }
        let is_deserted = self.agent.as_ref().is_some_and(Agent::is_deserted);
        if ready.is_deserted() || (is_deserted && !membership.node().has_entered()) {
            bail!("the process that started this daemon ended before the daemon was in the ring");
        }
        if membership.node().has_entered() {
            ready.entered(membership.port().number())?;
            if let Some(agent) = self.agent.take() {
                let addresses = membership.port().addresses();
                agent.entered(addresses, self.poll.registry()).context("cannot leave mpdboot")?;
            }
            // The reader of the pipe ends now, and with it a remote shell. So mpdboot must have the report before.
            ready.release();
        }
        match membership.failure(now) {
            Some(problem) => bail!("{problem}"),
            None => Ok(()),
        }
    }

    /// Adds the connections of started managers, and sends messages to managers.
    fn send_to_managers(&mut self) {
        for (job, conn) in self.jobs.take_connections() {
            let (registry, now) = (self.poll.registry(), self.clock.now());
            if let Err(e) = self.peers.add_manager(registry, job.clone(), conn, now) {
                log::error!("cannot watch the connection of the manager of job {job}: {e}");
                self.give(JobInput::ManagerClosed(job), now);
            }
        }
        if let (Some(guests), false) = (&self.guests, self.peers.has_owner()) {
            self.give(JobInput::OwnerGone(guests.owner()), self.clock.now());
        }
        self.route_jobs(self.clock.now());
        let manager_messages =
            std::iter::from_fn(|| self.membership.as_mut()?.next_manager_message());
        manager_messages.for_each(|(message, link)| self.peers.send_with_link(message, link));
    }

    /// Whether a ring that ends by itself is in use: its mpirun is connected, or a console of a user's ring on a site, or a
    /// job runs. `false` after a signal.
    fn is_needed(&self) -> bool {
        let is_of_site = self.listening.as_ref().is_some_and(Listening::is_of_site);
        let has_console = is_of_site && self.peers.has_consoles();
        !self.ending && (self.peers.has_owner() || has_console || !self.jobs.table().is_idle())
    }

    fn wait(&self) -> Option<Duration> {
        let membership = self.membership.as_ref();
        let consoles = self.listening.as_ref().map(Listening::acceptor);
        let guests = self.guests.as_ref().map(Guests::acceptor);
        let port = membership.map(|m| m.port().acceptor());
        let acceptors = || [consoles, guests, port].into_iter().flatten();
        if acceptors().any(Acceptor::has_work)
            || self.peers.has_work()
            || membership.is_some_and(Membership::has_work)
        {
            return Some(Duration::ZERO);
        }
        let resting = acceptors().any(Acceptor::is_resting);
        let deadlines = [
            self.peers.next_deadline(),
            self.jobs.table().poll_timeout(),
            membership.and_then(Membership::next_deadline),
        ];
        deadlines
            .into_iter()
            .flatten()
            .map(|at| self.clock.until(at))
            .chain(resting.then_some(EXHAUSTED_PAUSE))
            .min()
    }

    fn take_signals(&mut self) {
        if !std::mem::take(&mut self.signalled) {
            return;
        }
        let now = self.clock.now();
        for signal in self.signals.pending() {
            if signal == libc::SIGCHLD {
                self.reap(now);
            } else {
                log::info!("ending on signal {signal}");
                self.ending = true;
                self.tell_node(Input::Signalled, now);
            }
        }
    }

    /// The process that holds this daemon has ended.
    fn lose_holder(&mut self) {
        if self.holder.take().is_some() {
            log::info!("ending with the process that holds this daemon");
            self.ending = true;
            self.tell_node(Input::Signalled, self.clock.now());
        }
    }

    /// Passes an event to the node, if this daemon is for a ring.
    fn tell_node(&mut self, input: Input, now: Time) {
        if let Some(membership) = &mut self.membership {
            membership.handle(&self.jobs, now, input);
        }
    }

    fn reap(&mut self, now: Time) {
        while self.jobs.reap(now) {
            self.route_jobs(now);
        }
    }

    /// Reads what managers have sent that seem to be silent. This process may have been stopped meanwhile.
    fn look_for_silent(&mut self) {
        let now = self.clock.now();
        for job in self.jobs.table().silent(now) {
            for event in self.peers.reports(&job) {
                self.route(event, now);
            }
        }
    }

    /// Serves the connections that are ready.
    fn serve_peers(&mut self) {
        let now = self.clock.now();
        for event in self.peers.turn(now) {
            self.route(event, now);
        }
    }

    /// Routes an event of a connection to its owner.
    fn route(&mut self, event: Event, now: Time) {
        match event {
            Event::Report { job, report } => self.give(JobInput::Reported { job, report }, now),
            Event::ManagerClosed { job } => self.give(JobInput::ManagerClosed(job), now),
            Event::Registers { manager, opening, pid } => {
                let pid = mpd_wire::Pid(pid);
                self.give(JobInput::Registers { connection: manager, opening, pid }, now);
            }
            Event::Status { console } => {
                let reply = self.jobs.table().status(std::process::id());
                self.peers.answer(console, &reply, true, now);
            }
            Event::Asks { console, request } => self.ask(console, request, now),
            Event::Submits { console, process, submission } => {
                self.submit(console, process, &submission, now);
            }
            Event::Gone { console } => {
                self.give(JobInput::ConsoleGone(console), now);
                self.tell_node(Input::ConsoleGone(console), now);
            }
        }
    }

    /// Gives the table of jobs an input, and routes what follows.
    fn give(&mut self, input: JobInput, now: Time) {
        self.jobs.give(now, input);
        self.route_jobs(now);
    }

    /// Routes the events of the table of jobs to their owners.
    fn route_jobs(&mut self, now: Time) {
        while let Some(event) = self.jobs.next_event() {
            self.route_of_jobs(event, now);
        }
    }

    fn route_of_jobs(&mut self, event: JobEvent, now: Time) {
        match event {
            // Its caller takes it.
            JobEvent::Started(_) => {}
            JobEvent::ToManager(message) => self.peers.send_to_manager(message),
            JobEvent::Answer { console, reply, is_last } => {
                self.peers.answer(console, &reply, is_last, now);
            }
            JobEvent::Registered { connection, result } => {
                let cancelled = result.clone().ok().filter(|job| self.is_cancelled(job));
                self.peers.registered(connection, result);
                if let Some(job) = cancelled {
                    self.peers.send_to_manager(ManagerMessage::new(job, ManagerOrder::Kill));
                }
            }
            JobEvent::Reported { job, report: ManagerReport::Events { events } } => {
                self.tell_node(Input::Events { job, events }, now);
            }
            JobEvent::Reported { job, report } => {
                let bytes = || random::bytes().map_err(|error| error.to_string());
                if let Some(demand) = Demand::of(job, report, bytes) {
                    self.serve_manager(demand, now);
                }
            }
            JobEvent::Cancelled(job) => self.serve_manager(Demand::Cancel(job), now),
            JobEvent::ManagerEnded { job, end } => {
                self.serve_manager(Demand::ManagerEnded { job, end }, now);
            }
            JobEvent::ManagerDied(job) => {
                let (events, is_unread) = self.peers.last_reports(&job);
                for event in events {
                    self.route(event, now);
                }
                self.give(JobInput::ManagerGone { job, is_unread }, now);
            }
        }
    }

    /// Whether the job was cancelled before its manager here registered.
    fn is_cancelled(&self, job: &JobId) -> bool {
        self.jobs.table().has_branch(job)
            && self
                .membership
                .as_ref()
                .is_some_and(|membership| membership.node().is_cancelled(job))
    }

    /// Routes a request of a manager to the membership, or answers it if there is no ring.
    fn serve_manager(&mut self, demand: Demand, now: Time) {
        if let Some(membership) = &mut self.membership {
            return membership.handle(&self.jobs, now, Input::Demanded(demand));
        }
        match demand {
            Demand::Name(request) => {
                let (messages, lines) = self.names.serve(now, request);
                lines::write_all(lines);
                self.report_all(messages);
            }
            Demand::Spawn(spawn) => {
                self.report_all(mpd_daemon::answers(self.jobs.table().name(), spawn, cpus::count));
            }
            Demand::Meeting(request) => {
                self.peers.send_to_manager(request.answered(MeetingAnswer::Gone));
            }
            Demand::Cancel(_) | Demand::ManagerEnded { .. } => {}
        }
    }

    fn report_all(&mut self, manager_messages: Vec<ManagerMessage>) {
        manager_messages
            .into_iter()
            .for_each(|manager_message| self.peers.send_to_manager(manager_message));
    }

    /// Handles a console's request about the ring.
    fn ask(&mut self, console: usize, request: RingRequest, now: Time) {
        if let RingRequest::State { job: Some(job) } = request {
            return self.give(JobInput::StateAsked { console, job }, now);
        }
        if let Some(membership) = &mut self.membership {
            return membership.handle(&self.jobs, now, Input::Asked { console, request });
        }
        let (replies, manager_messages) = ringless::answer(&mut self.jobs, request);
        for (at, reply) in replies.iter().enumerate() {
            self.peers.answer(console, reply, at + 1 == replies.len(), now);
        }
        self.report_all(manager_messages);
    }

    /// Handles a submission. The root manager of the job gets the console, or the console gets the reason of a
    /// refusal.
    fn submit(&mut self, console: usize, process: Option<u32>, submission: &Submission, now: Time) {
        match self.launch(console, process, submission, now) {
            Ok(()) => self.peers.hand_over(self.poll.registry(), console),
            Err(problem) => {
                log::warn!("job refused: {problem:#}");
                let problem = format!("{problem:#}");
                self.peers.answer(console, &ConsoleReply::Refused { problem }, true, now);
            }
        }
    }

    /// Starts the job here and announces it to the other hosts.
    fn launch(
        &mut self,
        console: usize,
        process: Option<u32>,
        submission: &Submission,
        now: Time,
    ) -> Result<()> {
        let spec = &submission.spec;
        let name = self.jobs.table().name();
        let began_us = wall();
        let first = || Ok::<_, io::Error>(Instance::from_bytes(random::bytes()?));
        let Plan { host_slices, mut notices, universe } = match &self.membership {
            Some(membership) => membership.place(now, spec)?,
            None if spec.adopted => mpd_daemon::adopted_alone(name, spec, first()?)?,
            None => mpd_daemon::alone(name, spec, first()?, cpus::count)?,
        };
        let took_us = wall().saturating_sub(began_us);
        let placement = Span { phase: Phase::Placement, rank: None, began_us, took_us };
        notices.extend(submission.notice.clone().map(Notice::major));
        let (launch, notice) = self.jobs.plan(process, spec, (host_slices, universe))?;
        notices.extend(notice);
        let announcement = Announcement::new(&launch, spec.trace)?;
        let spans = spec.trace.then_some(placement).into_iter().collect();
        let console = self.peers.console(console).context("the console is gone")?;
        self.jobs.start_root(launch, console, submission, (notices, spans), now)?;
        if let (Some(membership), Some(announcement)) = (&mut self.membership, announcement) {
            membership.handle(&self.jobs, now, Input::Announced(announcement));
        }
        Ok(())
    }

    fn accept(&mut self) {
        self.accept_consoles();
        self.accept_guests();
        if let Some(membership) = &mut self.membership {
            membership.accept(self.poll.registry(), self.clock.now());
        }
    }

    /// Accepts waiting consoles, a bounded number a turn.
    fn accept_consoles(&mut self) {
        let Some(listening) = &mut self.listening else { return };
        for _ in 0..PER_TURN {
            let now = self.clock.now();
            let Some(stream) = listening.next(now) else { return };
            let registry = self.poll.registry();
            let added = self.peers.add(registry, Conn::new(stream), false, now);
            if let Err(e) = added {
                log::warn!("cannot serve a connection: {e}");
            }
        }
    }

    /// Accepts waiting consoles of a private ring, a bounded number a turn.
    fn accept_guests(&mut self) {
        let Some(guests) = &mut self.guests else { return };
        for _ in 0..PER_TURN {
            let now = self.clock.now();
            let Some(stream) = guests.next(now) else { return };
            let registry = self.poll.registry();
            let added = self.peers.add(registry, Conn::new(stream), true, now);
            if let Err(e) = added {
                log::warn!("cannot serve a console: {e}");
            }
        }
    }
}

/// What the table of jobs knows of this daemon by its arguments and its host.
fn begin_table(cli: &Cli, name: &str, host: String, instance: Instance) -> Beginning {
    Beginning {
        name: name.to_owned(),
        instance,
        host,
        user: None,
        rundir: None,
        limits: HostLimits { gpus: cli.gpus, max: cli.max_slots },
        wanted: 0,
        patience: cli.idle.map(|_| REST),
        first: None,
        inherited: Vec::new(),
    }
}

/// Begins the log: in the run directory if another process has started this daemon, else on standard error.
fn begin_log(cli: &Cli, name: &str, rundir: &RunDir) -> Result<()> {
    let log_file = match (&cli.log_file, cli.report_ready || cli.agent) {
        (None, true) => Some(rundir.path().join("mpd.log")),
        (file, _) => file.clone(),
    };
    mpd_io::files::logging::start(&format!("mpd {name}"), cli.level(), log_file.as_deref())
        .with_context(|| format!("cannot open the log {}", log_file.unwrap_or_default().display()))
}

/// Lets the kernel end other processes before a daemon of root when memory runs out.
fn be_the_last_victim() {
    if nix::unistd::geteuid().is_root() {
        // In a container even root may lack this permission.
        let _ = oom::lower_readiness(oom::OF_ROOTS_DAEMON);
    }
}

/// Waits for the end of the process that holds this daemon.
fn hold(pid: i32, poll: &Poll) -> Result<Pidfd> {
    let holder = Pidfd::open(Pid::from_raw(pid)).context("--held-by")?;
    poll.registry().register(&mut SourceFd(&holder.as_raw_fd()), HOLDER, Interest::READABLE)?;
    Ok(holder)
}

/// Takes the streams of a daemon that mpdboot has started, and reports that it waits if it does.
fn begin_agent(cli: &Cli, poll: &Poll, membership: Option<&Membership>) -> Result<Option<Agent>> {
    let begin = |nonce| Agent::begin(nonce, poll.registry(), AGENT);
    let agent = cli.nonce.as_deref().map(begin).transpose().context("cannot wait for mpdboot")?;
    if let (Some(agent), Some(membership), true) = (&agent, membership, cli.waits) {
        agent.ready(membership.node().newcomer());
    }
    Ok(agent)
}

/// Takes the connection of the mpirun `owner`, and opens the socket for consoles of its ring.
fn begin_private(
    cli: &Cli,
    owner: u32,
    poll: &Poll,
    peers: &mut Peers,
    now: Time,
) -> Result<Guests> {
    let guests = Guests::of(owner, cli.listed.as_deref(), cli.removes_rundir);
    if let Some(fd) = guests.listener() {
        poll.registry().register(&mut SourceFd(&fd), GUESTS, Interest::READABLE)?;
    }
    let stream = UnixStream::from(adopt_inherited(3).context("--private is for mpirun")?);
    let owner = (owner, guests.are_findable());
    peers.add_owner(poll.registry(), Conn::new(stream), owner, now)?;
    Ok(guests)
}
