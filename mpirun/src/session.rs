//! The process of one `mpirun`: its loop, which passes what happens to [`crate::run`] and does what that decides.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, Result};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use mpd_debug::numbers::Numbers;
use mpd_io::clock::Clock;
use mpd_io::signals::Signals;
use mpd_io::terminal;
use mpd_io::watch::watch;
use mpd_machine::Pump;
use mpd_wire::RankSet;
use nix::sys::signal::{Signal, raise};

use crate::caught::Caught;
use crate::cli::Run as Job;
use crate::debug::{self, Order};
use crate::feed::{BACKGROUND_INTERVAL, Fed, Feed};
use crate::launch::{Passed, Submitted};
use crate::link::Link;
use crate::messages::{Messages, RETRY};
use crate::opened::Opened;
use crate::reports::Reports;
use crate::run::{Beside, Input, Output, Run, Settings};
use crate::{mpir, processes};

const CONN: Token = Token(0);
const SIGNALS: Token = Token(1);
const STDIN: Token = Token(2);
const OPENED: Token = Token(3);

/// What came of a job.
#[derive(Debug)]
pub struct Finished {
    /// Exit code.
    pub code: u8,
    /// Its files, some of which may not be whole yet.
    pub reports: Reports,
    pump: Pump<Run>,
}

impl Finished {
    /// The machine, for reports.
    pub const fn run(&self) -> &Run {
        self.pump.machine()
    }

    /// The same, and the files.
    pub const fn parts(&mut self) -> (&Run, &mut Reports) {
        (self.pump.machine(), &mut self.reports)
    }
}

struct Session<'a> {
    job: &'a Job,
    pump: Pump<Run>,
    clock: Clock,
    poll: Poll,
    link: Link,
    caught: Caught,
    stdin: Feed,
    /// What is there beside if the job is debugged.
    desk: Option<Box<dyn debug::Beside>>,
    /// The debugger that has the terminal.
    opened: Option<Opened>,
    messages: Messages,
    reports: Reports,
    code: u8,
}

/// Accompanies the job to its end.
///
/// # Errors
/// When this process cannot do its part; the job is ended by the closing of the connection.
pub fn accompany(
    name: &str,
    job: &Job,
    (submitted, passed, pipes): (Submitted, Passed, Option<[OwnedFd; 2]>),
    signals: Signals,
) -> Result<Finished> {
    let spec = &job.spec;
    let poll = Poll::new().context("cannot make an event queue")?;
    let clock = Clock::start();
    let numbers = || job.numbers.clone().unwrap_or_else(|| Numbers::of_job(spec.size()));
    let desk = job.debug.as_ref().zip(pipes);
    let desk = desk
        .map(|(wish, pipes)| debug::beside(wish, (numbers(), clock.now()), pipes, poll.registry()));
    let link = Link::new(submitted, passed, (poll.registry(), CONN))?;
    let has_pty = spec.argsets.iter().any(|argset| argset.pty.is_some());
    let mut session = Session {
        job,
        pump: Pump::new(Run::new(settings(job))),
        clock,
        poll,
        link,
        caught: Caught::new(signals, has_pty),
        stdin: Feed::none(),
        desk: desk.transpose()?,
        opened: None,
        messages: Messages::new(name),
        reports: Reports::default(),
        code: 0,
    };
    session.register()?;
    while !session.run().is_over() {
        session.turn()?;
    }
    session.wait_for_close();
    let own = session.desk.as_mut().and_then(|desk| desk.close(session.clock.now()));
    let code = own.unwrap_or(session.code);
    session.link.close();
    Ok(Finished { code, reports: session.reports, pump: session.pump })
}

fn settings(job: &Job) -> Settings {
    let Job { spec, is_silent, verbose, trace, debug, .. } = job;
    Settings {
        size: spec.size(),
        goes_on: spec.on_failure == mpd_wire::job::OnFailure::Continue,
        is_silent: *is_silent,
        verbose: *verbose,
        terminal: io::stderr().is_terminal(),
        adopted: spec.adopted,
        hops: trace.hops,
        hold: spec.hold,
        beside: match debug {
            None => Beside::Nothing,
            Some(wish) if wish.stacks.is_some() => Beside::Survey,
            Some(_) => Beside::Prompt,
        },
    }
}

impl Session<'_> {
    const fn run(&self) -> &Run {
        self.pump.machine()
    }

    fn register(&mut self) -> Result<()> {
        let spec = &self.job.spec;
        let registry = self.poll.registry();
        let signals = self.caught.signals.as_raw_fd();
        registry.register(&mut SourceFd(&signals), SIGNALS, Interest::READABLE)?;
        if spec.stdin_switch || spec.stdin.count_below(spec.size()) > 0 {
            let (stdin, unreadable) = Feed::open(registry, STDIN)?;
            self.stdin = stdin;
            if let Some(problem) = unreadable {
                self.tell(Input::StdinLost(problem));
            }
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<()> {
        let mut events = Events::with_capacity(16);
        match self.poll.poll(&mut events, self.wait()) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => result.context("cannot wait for events")?,
        }
        for event in &events {
            match event.token() {
                CONN => self.link.wake(),
                STDIN => self.stdin.wake(),
                token => self.desk.iter_mut().for_each(|desk| desk.wake(token)),
            }
        }
        self.hear();
        self.feed();
        self.serve_desk();
        self.pump.handle_timeout(self.clock.now());
        self.drain();
        self.look_after_debugger();
        self.reports.go_on();
        self.reports.take_problems().iter().for_each(|problem| self.messages.print(problem));
        self.messages.flush();
        self.link.flush();
        Ok(())
    }

    fn wait(&self) -> Option<Duration> {
        if self.link.is_ready() {
            return Some(Duration::ZERO);
        }
        let run = self.run();
        let is_writing = self.messages.is_waiting() || self.reports.is_waiting();
        let mut waits = vec![
            run.poll_timeout().map(|at| self.clock.until(at)),
            is_writing.then_some(RETRY),
            run.wants_terminal().then_some(BACKGROUND_INTERVAL),
            self.stdin.wait(run.stdin_credit()),
        ];
        if let Some((due, wait)) = self.desk.as_ref().map(|desk| desk.wait()) {
            waits.extend([due.map(|at| self.clock.until(at)), wait]);
        }
        waits.into_iter().flatten().min()
    }

    /// What the manager says, and the signals.
    fn hear(&mut self) {
        let signals = self.caught.signals.pending();
        if !signals.is_empty() {
            // Who sends one may have seen what ranks said: that there is a job has come before.
            self.link.wake();
        }
        // And what we hear of may have come of one.
        signals.iter().for_each(|&signal| self.pump.post(Input::SignalSeen(signal)));
        self.link.hear().into_iter().for_each(|input| self.pump.post(input));
        self.drain();
        for signal in signals {
            self.tell(self.caught.input(signal));
        }
    }

    /// Reads standard input as far as there is credit.
    fn feed(&mut self) {
        while let Some(fed) = self.stdin.read(self.run().stdin_credit()) {
            match fed {
                Fed::Bytes(bytes) => {
                    self.link.send_stdin(&bytes);
                    self.tell(Input::StdinSent(bytes.len()));
                }
                Fed::End => self.link.send_stdin(&[]),
                Fed::Lost(problem) => {
                    self.tell(Input::StdinLost(problem));
                    self.link.send_stdin(&[]);
                }
            }
        }
    }

    /// What the user and the debuggers said, and what comes of it.
    fn serve_desk(&mut self) {
        let Some(desk) = &mut self.desk else { return };
        desk.turn(self.clock.now());
        while let Some(order) = self.desk.as_mut().and_then(|desk| desk.next_order()) {
            match order {
                Order::Send(input) => self.link.send(&input),
                Order::Kill => self.tell(Input::Kill),
            }
        }
    }

    fn tell(&mut self, input: Input) {
        self.pump.post(input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.pump.next(self.clock.now()) {
            self.perform(output);
        }
    }

    /// Does what was decided. What comes of it is posted, and never handled here.
    fn perform(&mut self, output: Output) {
        let now = self.clock.now();
        match output {
            Output::Send(input) => self.link.send(&input),
            Output::Started => self.link.keep(),
            Output::ShowProcesses => self.show_processes(),
            Output::ShowAbort(why) => mpir::show_abort(&why),
            Output::Print(text) => match &mut self.desk {
                Some(desk) => desk.note(&text),
                None => self.messages.print(&text),
            },
            Output::WantTerminal => {
                self.pump.post(Input::Terminal { is_ours: terminal::is_ours() });
            }
            Output::OpenDebugger(ranks) => self.open_debugger(&ranks),
            Output::EndDebugger => self.opened.iter().for_each(Opened::end),
            Output::Interrupt => self.desk.iter_mut().for_each(|desk| desk.interrupt(now)),
            Output::Restarted => self.desk.iter_mut().for_each(|desk| desk.restarted(now)),
            Output::Stop => self.stop(),
            Output::Resubmit => {
                let signals = &mut self.caught.signals;
                let failed = self.link.resubmit(self.job, signals, self.poll.registry());
                failed.into_iter().for_each(|input| self.pump.post(input));
            }
            Output::Finish(code) => {
                self.link.keep();
                self.code = code;
            }
            Output::Leave(code) => {
                self.link.keep();
                self.link.finish();
                self.code = code;
            }
        }
    }

    /// Stops this process, and comes back when it goes on.
    fn stop(&mut self) {
        self.link.flush();
        match &mut self.desk {
            Some(desk) => desk.stop(),
            None => drop(raise(Signal::SIGSTOP)),
        }
        self.pump.post(Input::Continued);
    }

    /// Sees when the debugger has ended, and whether one that waits can have the terminal.
    fn look_after_debugger(&mut self) {
        if let Some(was_session) = self.opened.as_ref().and_then(Opened::has_ended) {
            self.opened = None;
            self.tell(Input::DebuggerEnded { was_session });
        }
        if self.run().wants_terminal() && terminal::is_ours() {
            self.tell(Input::Terminal { is_ours: true });
        }
    }

    fn open_debugger(&mut self, ranks: &RankSet) {
        self.messages.flush();
        match self.opened_at(ranks) {
            Ok(opened) => self.opened = Some(opened),
            Err(error) => {
                self.messages.print(&format!("cannot open the debugger: {error:#}"));
                self.pump.post(Input::DebuggerEnded { was_session: false });
            }
        }
    }

    fn opened_at(&self, ranks: &RankSet) -> Result<Opened> {
        let (job, _) = self.run().job().context("there is no job yet")?;
        let on_crash = self.job.spec.on_crash.as_ref().context("none is wanted")?;
        let opened = Opened::at(&self.job.place, job, ranks, &on_crash.gdb)?;
        watch(self.poll.registry(), opened.as_raw_fd(), OPENED, Interest::READABLE)?;
        Ok(opened)
    }

    /// To debuggers, at whose breakpoint this may wait, and in a file.
    fn show_processes(&mut self) {
        let (spec, processes) = (&self.job.spec, self.pump.machine().processes());
        let programs = processes::programs(spec);
        let wanted = self.job.trace.proctable.as_deref();
        let file = wanted.map(|path| (path, processes.render(spec, &programs)));
        mpir::show(processes.hosts(), programs, &processes.table(spec));
        // Who waits for the file finds the table in our memory.
        if let Some((path, text)) = file {
            self.reports.write(path, text);
        }
        mpir::tell_spawned();
    }

    /// The manager closes the connection by ending: then nothing of the job is left.
    fn wait_for_close(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let until = self.clock.now() + PATIENCE;
        let mut events = Events::with_capacity(16);
        while (!self.link.is_closed() || self.messages.is_waiting()) && self.clock.now() < until {
            self.messages.flush();
            self.link.drain();
            let wait = self.clock.until(until);
            let wait = if self.messages.is_waiting() { wait.min(RETRY) } else { wait };
            if !self.link.is_closed() || self.messages.is_waiting() {
                let _ = self.poll.poll(&mut events, Some(wait));
            }
            self.caught.signals.pending();
        }
    }
}
