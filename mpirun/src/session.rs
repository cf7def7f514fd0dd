//! The process of one `mpirun`: its event loop, which passes inputs to [`crate::run`] and carries
//! out the outputs.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, Result};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use mpd_debug::numbers::Numbers;
use mpd_io::clock::Clock;
use mpd_io::network::watch::watch;
use mpd_io::process::oom;
use mpd_io::process::signals::Signals;
use mpd_io::process::tree;
use mpd_io::terminal::controlling;
use mpd_sansio::Pump;
use mpd_wire::RankSet;
use mpd_wire::job::exit;
use nix::sys::signal::{Signal, raise};
use nix::unistd::Pid;

use crate::caught::Caught;
use crate::cli::Run as Job;
use crate::debug::{self, SessionAction};
use crate::feed::{BACKGROUND_INTERVAL, Fed, Feed};
use crate::launch::{Passed, Submitted};
use crate::link::Link;
use crate::messages::{Messages, RETRY};
use crate::opened::Opened;
use crate::reports::Reports;
use crate::run::{Beside, Input, Output, Run, Settings, Sight};
use crate::{mpir, processes};

/// Time for the debugger of crashed ranks to restore the terminal and stop.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// How long a private daemon may take to end after its job.
const PRIVATE_PATIENCE: Duration = Duration::from_secs(30);

/// How long the manager, and then a private daemon, may take to end if the job has not started and is not wanted any
/// more.
const HURRIED: Duration = Duration::from_millis(750);

const CONN: Token = Token(0);
const SIGNALS: Token = Token(1);
const STDIN: Token = Token(2);
const OPENED: Token = Token(3);

/// The result of a job.
#[derive(Debug)]
pub struct Finished {
    /// Exit code.
    pub code: u8,
    /// The files of the job; some may be incomplete.
    pub reports: Reports,
    pump: Pump<Run>,
}

impl Finished {
    /// The state machine, for reports.
    pub const fn run(&self) -> &Run {
        self.pump.machine()
    }

    /// The state machine and the files.
    pub const fn parts(&mut self) -> (&Run, &mut Reports) {
        (self.pump.machine(), &mut self.reports)
    }
}

struct Console<'a> {
    job: &'a Job,
    pump: Pump<Run>,
    clock: Clock,
    poll: Poll,
    link: Link,
    caught: Caught,
    stdin: Feed,
    /// The debug console, if the job is debugged.
    debug_console: Option<Box<dyn debug::Beside>>,
    /// The debugger for crashed ranks, while it has the terminal.
    opened: Option<Opened>,
    messages: Messages,
    reports: Reports,
    code: u8,
    /// Whether to wait for the ends of other processes, or for how long not.
    parting: Parting,
}

/// How this process parts from the manager and the private daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parting {
    /// It waits until they have ended.
    Waits,
    /// It waits for a moment: the job has not started and is not wanted any more.
    Hurries,
    /// It does not wait: one of them is silent.
    Abandons,
}

/// Runs the console until the job has ended.
///
/// # Errors
/// When an operation of this process fails; the closed connection then ends the job.
pub fn accompany(
    name: &str,
    job: &Job,
    submitted: Submitted,
    passed: Passed,
    pipes: Option<[OwnedFd; 2]>,
    signals: Signals,
) -> Result<Finished> {
    let spec = &job.spec;
    let began = oom::log_time();
    let poll = Poll::new().context("cannot make an event queue")?;
    let clock = Clock::start();
    let numbers = || job.numbers.clone().unwrap_or_else(|| Numbers::of_job(spec.size()));
    let debug_console = job.debug.as_ref().zip(pipes);
    let debug_console = debug_console.map(|(options, pipes)| {
        debug::beside(options, (numbers(), clock.now()), pipes, poll.registry())
    });
    let link = Link::new(submitted, passed, poll.registry(), CONN)?;
    let has_pty = spec.argsets.iter().any(|argset| argset.pty.is_some());
    let mut session = Console {
        job,
        pump: Pump::new(Run::new(settings(job))),
        clock,
        poll,
        link,
        caught: Caught::new(signals, has_pty),
        stdin: Feed::none(),
        debug_console: debug_console.transpose()?,
        opened: None,
        messages: Messages::new(name, !job.quiet && job.debug.is_none()),
        reports: Reports::default(),
        code: 0,
        parting: Parting::Waits,
    };
    session.register()?;
    while !session.run().is_over() {
        session.turn()?;
    }
    session.explain_loss(began);
    session.wait_for_close();
    let own = session
        .debug_console
        .as_mut()
        .and_then(|debug_console| debug_console.close(session.clock.now()));
    let code = own.unwrap_or(session.code);
    let patience = match session.parting {
        Parting::Waits => Some(PRIVATE_PATIENCE),
        Parting::Hurries => Some(HURRIED),
        Parting::Abandons => None,
    };
    if let Some(left) = patience.and_then(|patience| session.link.close(patience)) {
        session.messages.print(&left);
        session.messages.flush();
    }
    Ok(Finished { code, reports: session.reports, pump: session.pump })
}

fn settings(job: &Job) -> Settings {
    let Job { spec, is_silent, verbose, trace, debug, .. } = job;
    Settings {
        size: spec.size(),
        limit: spec.timeout,
        continues_on_failure: spec.on_failure == mpd_wire::job::OnFailure::Continue,
        is_silent: *is_silent,
        verbose: *verbose,
        terminal: io::stderr().is_terminal() && job.debug.is_none(),
        adopted: spec.adopted,
        hops: trace.hops,
        hold: spec.hold,
        beside: match debug {
            None => Beside::Nothing,
            Some(options) if options.stacks.is_some() => Beside::Survey,
            Some(_) => Beside::Prompt,
        },
    }
}

impl Console<'_> {
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
                self.report(Input::StdinLost(problem));
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
                SIGNALS => self.caught.signals.note_readable(),
                token => self
                    .debug_console
                    .iter_mut()
                    .for_each(|debug_console| debug_console.wake(token)),
            }
        }
        if self.run().poll_timeout().is_some_and(|at| at <= self.clock.now()) {
            // What has arrived is no silence.
            self.link.wake();
        }
        self.receive();
        self.feed();
        self.serve_debug_console();
        self.pump.handle_timeout(self.clock.now());
        self.drain();
        self.look_after_debugger();
        self.reports.resume();
        self.reports.take_problems().iter().for_each(|problem| self.messages.print(problem));
        self.messages.flush();
        self.link.flush(self.poll.registry());
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
        if let Some((due, wait)) =
            self.debug_console.as_ref().map(|debug_console| debug_console.wait())
        {
            waits.extend([due.map(|at| self.clock.until(at)), wait]);
        }
        waits.into_iter().flatten().min()
    }

    /// Reads messages of the manager, and signals.
    fn receive(&mut self) {
        let signals = self.caught.signals.pending();
        if !signals.is_empty() {
            // The sender of a signal may have seen output of ranks. The message about the start,
            // which was sent before, is read first.
            self.link.wake();
        }
        // The messages may report the effect of a signal, so the signals are announced first.
        signals.iter().for_each(|&signal| self.pump.post(Input::SignalSeen(signal)));
        self.link.receive().into_iter().for_each(|input| self.pump.post(input));
        self.drain();
        for signal in signals {
            self.report(self.caught.input(signal));
        }
    }

    /// Reads standard input as far as there is credit.
    fn feed(&mut self) {
        while let Some(fed) = self.stdin.read(self.run().stdin_credit()) {
            match fed {
                Fed::Bytes(bytes) => {
                    self.link.send_stdin(&bytes);
                    self.report(Input::StdinSent(bytes.len()));
                }
                Fed::End => self.link.send_stdin(&[]),
                Fed::Lost(problem) => {
                    self.report(Input::StdinLost(problem));
                    self.link.send_stdin(&[]);
                }
            }
        }
    }

    /// Handles events of the user and of the debuggers.
    fn serve_debug_console(&mut self) {
        let Some(debug_console) = &mut self.debug_console else { return };
        debug_console.turn(self.clock.now());
        while let Some(order) =
            self.debug_console.as_mut().and_then(|debug_console| debug_console.next_order())
        {
            match order {
                SessionAction::Send(input) => self.link.send(&input),
                SessionAction::Kill => self.report(Input::Kill),
            }
        }
    }

    /// Reports that the kernel has killed a manager of this host for lack of memory, if the job was lost.
    fn explain_loss(&mut self, began: Duration) {
        const MANAGER: &str = "mpdman";
        if !self.link.is_closed() || self.code != exit::SUITE {
            return;
        }
        for victim in oom::victims(began).into_iter().flatten() {
            if victim.name == MANAGER {
                let pid = victim.pid;
                self.messages
                    .print(&format!("memory ran out: the kernel has killed manager {pid}"));
            }
        }
    }

    fn report(&mut self, input: Input) {
        self.pump.post(input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.pump.next(self.clock.now()) {
            self.perform(output);
        }
    }

    /// Carries out an output. Results are posted as inputs and never handled here.
    fn perform(&mut self, output: Output) {
        let now = self.clock.now();
        match output {
            Output::Send(input) => self.link.send(&input),
            Output::Started => {
                self.messages.progress(None);
                self.link.keep();
            }
            Output::Progress(text) => self.messages.progress(text.as_deref()),
            Output::ShowProcesses => self.show_processes(),
            Output::ShowAbort(why) => mpir::show_abort(&why),
            Output::Print(text) => match &mut self.debug_console {
                Some(debug_console) => debug_console.note(&text),
                None => self.messages.print(&text),
            },
            Output::WantTerminal => {
                self.pump.post(Input::Terminal { is_ours: controlling::is_ours() });
            }
            Output::OpenDebugger(ranks) => self.open_debugger(&ranks),
            Output::EndDebugger => self.opened.iter().for_each(Opened::end),
            Output::Interrupt => {
                self.debug_console.iter_mut().for_each(|debug_console| debug_console.interrupt(now))
            }
            Output::Restarted => {
                self.debug_console.iter_mut().for_each(|debug_console| debug_console.restarted(now))
            }
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
                self.parting = Parting::Hurries;
            }
            Output::Look(manager) => {
                let pid = manager.or_else(|| self.link.daemon());
                let sight = pid.and_then(|pid| {
                    let is_stopped = tree::is_suspended(Pid::from_raw(pid.cast_signed()))?;
                    Some(Sight { pid, is_stopped })
                });
                self.pump.post(Input::Looked(sight));
            }
            Output::Abandon(code) => {
                self.link.keep();
                self.link.finish();
                self.code = code;
                self.parting = Parting::Abandons;
            }
        }
    }

    /// Stops this process; returns when it is continued.
    fn stop(&mut self) {
        self.link.flush(self.poll.registry());
        // The shell waits for the stop of this process only. A debugger that stops after the SIGCONT
        // of the shell would stay stopped.
        self.opened.iter().for_each(|opened| opened.wait_for_stop(STOP_PATIENCE));
        match &mut self.debug_console {
            Some(debug_console) => debug_console.stop(),
            None => drop(raise(Signal::SIGSTOP)),
        }
        self.pump.post(Input::Continued);
    }

    /// Detects the end of the debugger, and whether a waiting debugger can have the terminal.
    fn look_after_debugger(&mut self) {
        if let Some(was_session) = self.opened.as_ref().and_then(Opened::has_ended) {
            self.opened = None;
            self.report(Input::DebuggerEnded { was_session });
        }
        if self.run().wants_terminal() && controlling::is_ours() {
            self.report(Input::Terminal { is_ours: true });
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
        let on_crash =
            self.job.spec.on_crash.as_ref().context("the job has no option -on-crash")?;
        let opened = Opened::at(&self.job.ring_options, job, ranks, &on_crash.gdb)?;
        watch(self.poll.registry(), opened.as_raw_fd(), OPENED, Interest::READABLE)?;
        Ok(opened)
    }

    /// Publishes the processes to debuggers, at whose breakpoint this may wait, and writes the
    /// file.
    fn show_processes(&mut self) {
        let (spec, processes) = (&self.job.spec, self.pump.machine().processes());
        let programs = processes::programs(spec);
        let wanted = self.job.trace.proctable.as_deref();
        let file = wanted.map(|path| (path, processes.render(spec, &programs)));
        mpir::show(processes.hosts(), programs, &processes.table(spec));
        // A tool that waits for the file can then find the table in memory.
        if let Some((path, text)) = file {
            self.reports.write(path, text);
        }
        mpir::report_spawned();
    }

    /// Waits until the manager ends and closes the connection: then no process of the job is left.
    fn wait_for_close(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let patience = match self.parting {
            Parting::Waits => PATIENCE,
            Parting::Hurries => HURRIED,
            Parting::Abandons => Duration::ZERO,
        };
        let until = self.clock.now() + patience;
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
