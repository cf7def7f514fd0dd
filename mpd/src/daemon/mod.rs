//! The daemon process: one loop over its Unix socket, its port, the connections to them, its children and signals.
//!
//! The [`Node`] decides. Each resource has one owner: [`peers`] has the connections of consoles and managers, [`jobs`] the
//! files and processes of jobs, [`membership`] everything of the ring, over the links of [`net`]. Owners do not call each
//! other. They return events for the node, and this loop takes each output of the node to one owner. A console, a manager or
//! another daemon can close its own connection, never the daemon.

mod acceptor;
mod agent;
mod guests;
mod jobs;
mod kernel;
mod lines;
mod listening;
mod membership;
mod net;
mod peers;
mod ready;
mod search;
pub(crate) mod status;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use mpd_daemon::{Input, Node, Output, RingEvent};
use mpd_io::adopt_inherited;
use mpd_io::clock::Clock;
use mpd_io::network::conn::Conn;
use mpd_io::process::identity::number_of;
use mpd_io::process::oom;
use mpd_io::process::pidfd::Pidfd;
use mpd_io::process::priority;
use mpd_io::process::signals::Signals;
use mpd_io::process::tree;
use mpd_io::ring::rundir::RunDir;
use mpd_jobtable::{Answer, Beginning, Input as JobInput, JobTable, ManagerMessage, Question};
use mpd_sansio::Time;
use mpd_wire::message::{ConsoleReply, HostLimits};
use mpd_wire::{ConsoleId, Instance};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::cli::Cli;
use crate::daemon::acceptor::{Acceptor, PER_TURN};
use crate::daemon::agent::Agent;
use crate::daemon::guests::Guests;
use crate::daemon::jobs::{Jobs, Lent, first_manager};
use crate::daemon::kernel::{at, own_user};
use crate::daemon::listening::{Leftover, Listening};
use crate::daemon::membership::{Links, Membership, Turn};
use crate::daemon::peers::Peers;
use crate::daemon::ready::Ready;
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
    node: Node,
    jobs: Jobs,
    /// `None` in a private ring of one.
    membership: Option<Membership>,
    /// What follows from outputs, for the node.
    inbox: VecDeque<Input>,
    /// In a turn: answers of the ring, each with the flag whether it is the last one. They are sent after it.
    answers: VecDeque<(ConsoleId, ConsoleReply, bool)>,
    /// Also messages to managers, and the connections that are passed with them.
    messages: VecDeque<(ManagerMessage, Option<OwnedFd>)>,
    /// Signals may be waiting.
    signalled: bool,
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
        watch(&poll, signals.as_raw_fd(), SIGNALS)?;
        let entries = search::entries(cli, &mut signals)?;
        let clock = Clock::start();
        let kept = serving.is_some().then(|| rundir.clone());
        let instance = membership::new_instance()?;
        let inherited = inherited.into_iter().map(number_of).collect();
        let reserve = first.map(|(pid, conn)| (number_of(pid), conn));
        let beginning = Beginning {
            user: kept.is_some().then(own_user),
            rundir: kept.as_ref().map(|rundir| rundir.path().display().to_string()),
            wanted: waiting,
            first: reserve.as_ref().map(|(pid, _)| *pid),
            inherited,
            ..begin_table(cli, &name, host, Instance::from_bytes(*instance.as_bytes()))
        };
        let table = JobTable::new(beginning, clock.now());
        let jobs = Jobs::new(kept, reserve);
        let begin = |listening: &Listening| {
            watch(&poll, listening.as_raw_fd(), LISTENER)?;
            let begun = Membership::start(cli, (&name, instance), &rundir, entries, clock.now())?;
            watch(&poll, begun.1.links.net.port().as_raw_fd(), PORT)?;
            anyhow::Ok(begun)
        };
        let (member, membership) = serving.as_ref().map(begin).transpose()?.unzip();
        let node = Node::new(table, member);
        let mut daemon = Self {
            poll,
            clock,
            signals,
            listening: serving,
            guests: None,
            agent: None,
            holder: None,
            peers: Peers::new(limits::descriptor_limit()),
            node,
            jobs,
            membership,
            inbox: VecDeque::new(),
            answers: VecDeque::new(),
            messages: VecDeque::new(),
            signalled: false,
        };
        daemon.meet(cli)?;
        Ok(daemon)
    }

    /// Takes over the jobs of an earlier daemon, and the connections with which this one was started.
    fn meet(&mut self, cli: &Cli) -> Result<()> {
        if self.listening.is_some() {
            let records = self.jobs.read_records();
            self.give(Input::Jobs(JobInput::Found(records)));
        }
        if let Some(owner) = cli.owner {
            self.guests =
                Some(begin_private(cli, owner, &self.poll, &mut self.peers, self.clock.now())?);
        }
        self.holder = cli.held_by.map(|pid| hold(pid, &self.poll)).transpose()?;
        std::env::set_current_dir("/")?;
        self.agent = begin_agent(cli, &self.poll, &self.node)?;
        Ok(())
    }

    fn serve(mut self, ready: &mut Ready) -> Result<ExitCode> {
        log::info!("serving, pid {}", std::process::id());
        let mut events = Events::with_capacity(256);
        loop {
            self.take_signals();
            self.accept();
            self.serve_peers();
            self.look_for_silent();
            self.look_at_jobs();
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
        self.give(Input::Jobs(JobInput::Terminate));
        while !self.node.jobs().is_idle() && self.clock.now() < deadline {
            let next = self.node.jobs().poll_timeout().map_or(deadline, |at| at.min(deadline));
            self.signals.wait(self.clock.until(next));
            self.signalled = true;
            self.take_signals();
            self.look_at_jobs();
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
            PORT => self
                .membership
                .iter_mut()
                .for_each(|m| m.links.net.port_mut().acceptor_mut().mark_ready()),
            Token(number) if number >= net::FIRST_TOKEN => {
                self.membership.iter_mut().for_each(|m| m.links.net.mark_ready(token, hung_up));
            }
            token => self.peers.mark_ready(token),
        }
    }

    fn is_over(&self) -> bool {
        let is_quiet = self.membership.as_ref().is_none_or(|m| m.links.net.is_quiet());
        self.node.is_over(self.clock.now(), is_quiet, self.is_needed())
    }

    /// Gives the ring its turn, and sends its answers to consoles.
    fn ring_turn(&mut self, ready: &mut Ready) -> Result<()> {
        let is_needed = self.is_needed();
        if self.membership.is_none() {
            return Ok(());
        }
        if let (Some(agent), Some(ring)) = (&mut self.agent, self.node.ring())
            && let Some(records) = agent.take_list(&ring.newcomer())
        {
            self.give(Input::Ring(RingEvent::Introduced(records)));
        }
        let now = self.clock.now();
        self.turn(now, is_needed);
        while let Some((console, reply, last)) = self.answers.pop_front() {
            if !self.peers.answer(console, &reply, last, now) {
                self.give(Input::ConsoleGone(console));
            }
        }
        for console in self.node.full_consoles() {
            if self.peers.has_read(console) {
                self.give(Input::Ring(RingEvent::ConsoleRead(console)));
            }
        }
        let is_deserted = self.agent.as_ref().is_some_and(Agent::is_deserted);
        if ready.is_deserted() || (is_deserted && !self.node.has_entered()) {
            bail!("the process that started this daemon ended before the daemon was in the ring");
        }
        let Some(membership) = &self.membership else { return Ok(()) };
        if self.node.has_entered() {
            ready.entered(membership.links.net.port().number())?;
            if let Some(agent) = self.agent.take() {
                let addresses = membership.links.net.port().addresses();
                agent.entered(addresses, self.poll.registry()).context("cannot leave mpdboot")?;
            }
            // The reader of the pipe ends now, and with it a remote shell. So mpdboot must have the report before.
            ready.release();
        }
        match self.node.failure(now, membership.links.last_failure()) {
            Some(problem) => bail!("{problem}"),
            None => Ok(()),
        }
    }

    /// Does everything that is due for the ring: reads the links, gives the node the time, writes the links.
    fn turn(&mut self, now: Time, is_needed: bool) {
        self.with_membership(now, |membership, turn| membership.collect(turn));
        self.node.begin_turn(at(now), is_needed);
        self.settle_turn(now);
        self.with_membership(now, |membership, turn| membership.links.read(turn.registry, now));
        self.settle_turn(now);
        let has_data = self.membership.as_ref().is_some_and(|m| m.links.has_work());
        self.node.turn(at(now), has_data);
        self.settle_turn(now);
        if let Some(membership) = &mut self.membership {
            let links = membership.take_job_links(self.poll.registry(), self.node.jobs());
            self.messages.extend(links.into_iter().map(|(message, link)| (message, Some(link))));
        }
        self.node.end_turn(at(now));
        self.settle_turn(now);
        self.with_membership(now, |membership, _| membership.links.net.flush());
    }

    fn with_membership(&mut self, now: Time, act: impl FnOnce(&mut Membership, Turn<'_>)) {
        if let Some(membership) = &mut self.membership {
            let (registry, table) = (self.poll.registry(), self.node.jobs());
            act(membership, Turn { registry, jobs: &mut self.jobs, table, now });
        }
    }

    /// Performs all outputs of the node in a turn, and gives it what follows and the events of the links. Returns when none is left.
    fn settle_turn(&mut self, now: Time) {
        loop {
            while let Some(output) = self.node.poll_turn(at(now)) {
                match output {
                    Output::Answer { console, reply, is_last } => {
                        self.answers.push_back((console, reply, is_last));
                    }
                    Output::ToManager(message) => self.messages.push_back((message, None)),
                    other => self.perform(other, now),
                }
            }
            let input = self.inbox.pop_front().or_else(|| {
                let membership = self.membership.as_mut()?;
                membership.next(self.poll.registry(), now)
            });
            let Some(input) = input else { return };
            self.node.handle(at(now), input);
        }
    }

    /// Adds the connections of started managers, and sends messages to managers.
    fn send_to_managers(&mut self) {
        for (job, conn) in self.jobs.take_connections() {
            let (registry, now) = (self.poll.registry(), self.clock.now());
            if let Err(e) = self.peers.add_manager(registry, job.clone(), conn, now) {
                log::error!("cannot watch the connection of the manager of job {job}: {e}");
                self.give(Input::Jobs(JobInput::ManagerClosed(job)));
            }
        }
        if let (Some(guests), false) = (&self.guests, self.peers.has_owner()) {
            self.give(Input::Jobs(JobInput::OwnerGone(guests.owner())));
        }
        for (message, link) in std::mem::take(&mut self.messages) {
            self.peers.send_to_manager(message, link);
        }
    }

    /// Whether a ring that ends by itself is in use.
    fn is_needed(&self) -> bool {
        let is_of_site = self.listening.as_ref().is_some_and(Listening::is_of_site);
        let has_console = is_of_site && self.peers.has_consoles();
        self.node.is_needed(self.peers.has_owner(), has_console)
    }

    fn wait(&self) -> Option<Duration> {
        let links = self.membership.as_ref().map(|m| &m.links);
        let consoles = self.listening.as_ref().map(Listening::acceptor);
        let guests = self.guests.as_ref().map(Guests::acceptor);
        let port = links.map(|links| links.net.port().acceptor());
        let acceptors = || [consoles, guests, port].into_iter().flatten();
        if acceptors().any(Acceptor::has_work)
            || self.peers.has_work()
            || links.is_some_and(Links::has_work)
            || self.node.has_work()
        {
            return Some(Duration::ZERO);
        }
        let resting = acceptors().any(Acceptor::is_resting);
        let deadlines = [
            self.peers.next_deadline(),
            self.node.next_deadline(),
            links.and_then(Links::next_deadline),
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
        for signal in self.signals.pending() {
            if signal == libc::SIGCHLD {
                self.reap();
            } else {
                log::info!("ending on signal {signal}");
                self.give(Input::Signalled);
            }
        }
    }

    /// The process that holds this daemon has ended.
    fn lose_holder(&mut self) {
        if self.holder.take().is_some() {
            log::info!("ending with the process that holds this daemon");
            self.give(Input::Signalled);
        }
    }

    fn reap(&mut self) {
        while let Some((pid, end)) = self.jobs.reap() {
            self.give(Input::Jobs(JobInput::ChildDied(pid, end)));
            self.jobs.forget(pid);
        }
    }

    /// Reads what managers have sent that seem to be silent. This process may have been stopped meanwhile.
    fn look_for_silent(&mut self) {
        for job in self.node.jobs().silent(self.clock.now()) {
            self.peers.reports(&job).into_iter().for_each(|input| self.give(input));
        }
    }

    fn look_at_jobs(&mut self) {
        let now = self.clock.now();
        self.node.look_at_jobs(at(now));
        self.settle(now);
    }

    /// Serves the connections that are ready.
    fn serve_peers(&mut self) {
        self.peers.turn(self.clock.now()).into_iter().for_each(|input| self.give(input));
    }

    // ----- the node -----

    /// Gives the node an input, and performs what follows at once.
    fn give(&mut self, input: Input) {
        let now = self.clock.now();
        self.node.handle(at(now), input);
        self.settle(now);
    }

    /// Performs all outputs of the node that do not wait for a turn, and gives it what follows.
    fn settle(&mut self, now: Time) {
        loop {
            while let Some(output) = self.node.poll_output() {
                self.perform(output, now);
            }
            let Some(input) = self.inbox.pop_front() else { return };
            self.node.handle(at(now), input);
        }
    }

    fn perform(&mut self, output: Output, now: Time) {
        match output {
            Output::Ask(question) => {
                let answer = self.answer(question);
                self.inbox.push_front(Input::Jobs(JobInput::Answer(answer)));
            }
            Output::Perform(action) => self.jobs.perform(action),
            Output::LastReports(job) => {
                let (reports, is_unread) = self.peers.last_reports(&job);
                self.inbox.extend(reports);
                self.inbox.push_back(Input::Jobs(JobInput::ManagerGone { job, is_unread }));
            }
            Output::Registered { connection, result } => self.peers.registered(connection, result),
            Output::HandOver(console) => self.peers.hand_over(self.poll.registry(), console),
            Output::Answer { console, reply, is_last } => {
                self.peers.answer(console, &reply, is_last, now);
            }
            Output::ToManager(message) => self.peers.send_to_manager(message, None),
            Output::Ring(action) => {
                self.with_membership(now, |membership, turn| membership.perform(turn, action));
            }
            Output::Log(line) => lines::write(&line),
        }
    }

    /// Answers a question of the table of jobs. A root manager gets what its console has passed.
    fn answer(&mut self, question: Question) -> Answer {
        let console = self.node.submitter();
        let handed = console.and_then(|console| self.peers.handed(console));
        if matches!(question, Question::HandOver { .. }) && console.is_some() && handed.is_none() {
            return Answer::Started(Err("the console is gone".to_owned()));
        }
        let lent = handed.map(|(console, handed)| {
            let passed = handed.outputs.iter().chain(handed.adopted.iter().flatten());
            let passed = passed.map(|fd| fd.as_fd());
            let descriptors = std::iter::once(console).chain(passed).collect();
            Lent { descriptors, spec: &handed.encoded }
        });
        self.jobs.answer(question, &lent.unwrap_or_default())
    }

    fn accept(&mut self) {
        self.accept_consoles();
        self.accept_guests();
        if let Some(Membership { links, .. }) = &mut self.membership {
            match self.node.accepts() {
                true => links.accept(self.poll.registry(), self.clock.now()),
                false => links.net.port_mut().acceptor_mut().mark_idle(),
            }
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

/// Has the queue report input.
fn watch(poll: &Poll, fd: RawFd, token: Token) -> io::Result<()> {
    poll.registry().register(&mut SourceFd(&fd), token, Interest::READABLE)
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
    watch(poll, holder.as_raw_fd(), HOLDER)?;
    Ok(holder)
}

/// Takes the streams of a daemon that mpdboot has started, and reports that it waits if it does.
fn begin_agent(cli: &Cli, poll: &Poll, node: &Node) -> Result<Option<Agent>> {
    let begin = |nonce| Agent::begin(nonce, poll.registry(), AGENT);
    let agent = cli.nonce.as_deref().map(begin).transpose().context("cannot wait for mpdboot")?;
    if let (Some(agent), Some(ring), true) = (&agent, node.ring(), cli.waits) {
        agent.ready(ring.newcomer());
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
        watch(poll, fd, GUESTS)?;
    }
    let stream = UnixStream::from(adopt_inherited(3).context("--private is for mpirun")?);
    let owner = (owner, guests.are_findable());
    peers.add_owner(poll.registry(), Conn::new(stream), owner, now)?;
    Ok(guests)
}
