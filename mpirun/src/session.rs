//! The process of one `mpirun`: its loop and its descriptors. Decisions are [`crate::run`]'s.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use mio::unix::SourceFd;
use mio::{Events, Interest as Watch, Poll, Token};
use mpd_debug::numbers::Numbers;
use mpd_io::clock::Clock;
use mpd_io::conn::{Conn, Filled};
use mpd_io::input::Input as Stdin;
use mpd_io::logging::plain;
use mpd_io::pidfd::Pidfd;
use mpd_io::signals::{self, Signals};
use mpd_io::watch::watch;
use mpd_io::{pty, terminal};
use mpd_wire::frame::Kind;
use mpd_wire::message::{ConsoleReply, JobNews};
use mpd_wire::{RankSet, frame};
use nix::sys::signal::{Signal, raise};
use nix::unistd::Pid;

use crate::cli::Run as Job;
use crate::debug::{self, Beside, Order};
use crate::launch::{self, Passed, Submission, Submitted};
use crate::messages::{Messages, RETRY};
use crate::opened::Opened;
use crate::private::Private;
use crate::reports::Reports;
use crate::run::{Input, Output, Run, Settings};
use crate::{mpir, processes};

const CONN: Token = Token(0);
const SIGNALS: Token = Token(1);
const STDIN: Token = Token(2);
const OPENED: Token = Token(3);

/// How often a terminal that is not ours is looked at again while input waits in it.
const BACKGROUND_INTERVAL: Duration = Duration::from_millis(200);

/// How long a daemon that was killed may take to end.
const DYING: Duration = Duration::from_millis(500);

/// Signals that are passed on to the job, unless they were ignored when we were started (`nohup`).
const CAUGHT: [i32; 9] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// Catches the signals that are passed on. Before the job exists, so that none is missed.
///
/// # Errors
/// When a signal cannot be caught.
pub fn catch_signals() -> Result<Signals> {
    let ignored = signals::ignored();
    let wanted: Vec<i32> = CAUGHT.into_iter().filter(|s| ignored >> (s - 1) & 1 == 0).collect();
    Signals::catch(&wanted).context("cannot catch signals")
}

/// What came of a job.
#[derive(Debug)]
pub struct Finished {
    /// Exit code.
    pub code: u8,
    /// The machine, for reports.
    pub run: Run,
    /// Its files, some of which may not be whole yet.
    pub reports: Reports,
}

struct Session<'a> {
    job: &'a Job,
    messages: Messages,
    reports: Reports,
    poll: Poll,
    clock: Clock,
    run: Run,
    conn: Conn,
    /// The daemons that were started for the job.
    private: Private,
    /// What goes with the job, until it has started.
    passed: Option<Passed>,
    conn_ready: bool,
    closed: bool,
    signals: Signals,
    had_terminal: bool,
    /// Whether ranks have terminals, which follow ours.
    has_pty: bool,
    stdin: Option<Stdin>,
    stdin_ready: bool,
    code: Option<u8>,
    /// What is there beside if the job is debugged.
    desk: Option<Box<dyn Beside>>,
    /// Ranks that the debugger is to be opened at when the terminal is ours.
    to_open: Option<RankSet>,
    /// The debugger that has the terminal.
    opened: Option<Opened>,
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
    let Job { spec, is_silent, verbose, trace, debug, .. } = job;
    let settings = Settings {
        size: spec.size(),
        goes_on: spec.on_failure == mpd_wire::job::OnFailure::Continue,
        is_silent: *is_silent,
        verbose: *verbose,
        terminal: io::stderr().is_terminal(),
        adopted: spec.adopted,
        hops: trace.hops,
        hold: spec.hold,
    };
    let wants_stdin = spec.stdin_switch || spec.stdin.count_below(spec.size()) > 0;
    let Submitted { conn, private } = submitted;
    let poll = Poll::new().context("cannot make an event queue")?;
    let clock = Clock::start();
    let numbers = || job.numbers.clone().unwrap_or_else(|| Numbers::of_job(spec.size()));
    let desk = debug
        .as_ref()
        .zip(pipes)
        .map(|(wish, pipes)| debug::beside(wish, (numbers(), clock.now()), pipes, poll.registry()));
    let mut session = Session {
        job,
        messages: Messages::new(name),
        reports: Reports::default(),
        poll,
        clock,
        run: Run::new(settings),
        conn,
        private,
        passed: Some(passed),
        conn_ready: true,
        closed: false,
        signals,
        had_terminal: terminal::is_there(),
        has_pty: spec.argsets.iter().any(|argset| argset.pty.is_some()),
        stdin: None,
        stdin_ready: true,
        code: None,
        desk: desk.transpose()?,
        to_open: None,
        opened: None,
    };
    session.register(wants_stdin)?;
    while session.code.is_none() || session.opened.is_some() {
        session.turn()?;
    }
    session.wait_for_close();
    let own = session.desk.as_mut().and_then(|desk| desk.close(session.clock.now()));
    let code = own.or(session.code).unwrap_or(0);
    let finished = Finished { code, run: session.run, reports: session.reports };
    drop(session.conn);
    session.private.wait();
    Ok(finished)
}

impl Session<'_> {
    fn register(&mut self, wants_stdin: bool) -> Result<()> {
        let registry = self.poll.registry();
        let both = Watch::READABLE | Watch::WRITABLE;
        registry.register(&mut SourceFd(&self.conn.as_raw_fd()), CONN, both)?;
        registry.register(&mut SourceFd(&self.signals.as_raw_fd()), SIGNALS, Watch::READABLE)?;
        if wants_stdin {
            let fd = io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
            let stdin = Stdin::new(fd).context("standard input")?;
            if !stdin.is_always_ready() {
                watch(registry, stdin.as_raw_fd(), STDIN, Watch::READABLE)
                    .context("standard input")?;
            }
            // What can never be read is known before the job, however soon that ends.
            let unreadable = match stdin.is_always_ready() {
                true => stdin.read(&mut []).err(),
                false => None,
            };
            self.stdin = Some(stdin);
            if let Some(e) = unreadable {
                self.tell(Input::StdinLost(plain(&e)));
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
                CONN => self.conn_ready = true,
                STDIN => self.stdin_ready = true,
                token => self.desk.iter_mut().for_each(|desk| desk.wake(token)),
            }
        }
        let signals = self.signals.pending();
        if !signals.is_empty() {
            // Whoever sends one may have seen what ranks said: that there is a job has come before.
            self.conn_ready = true;
        }
        // And what we hear of may have come of one.
        signals.iter().for_each(|&signal| self.run.note_signal(signal));
        self.hear();
        for signal in signals {
            let gone = signal == libc::SIGHUP && self.had_terminal && !terminal::is_there();
            if signal == libc::SIGTSTP && !terminal::has_job_control() {
                // Nobody could wake us.
                continue;
            }
            if self.opened.is_some() && self.leave_to_debugger(signal) {
                continue;
            }
            let ends = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP].contains(&signal);
            if ends && self.to_open.take().is_some() {
                // Nobody is going to look any more.
                self.run.debugged(self.clock.now(), false);
                self.perform();
            }
            let size = self.has_pty.then(pty::own_size).flatten();
            let input = match (signal, size) {
                _ if gone => Input::TerminalGone,
                (libc::SIGWINCH, Some((columns, lines))) => Input::Resized(columns, lines),
                _ => Input::Signal(signal),
            };
            let is_taken = match &mut self.desk {
                // Before there is a job it has no ranks that could be interrupted.
                Some(desk) if signal == libc::SIGINT && self.run.job().is_some() => {
                    desk.interrupt(self.clock.now())
                }
                // The programs are gdb's to stop and to continue.
                Some(desk) if signal == libc::SIGTSTP => {
                    desk.stop();
                    true
                }
                Some(_) => signal == libc::SIGCONT,
                None => false,
            };
            if !is_taken {
                self.tell(input);
            }
        }
        self.feed();
        self.serve_desk();
        self.run.handle_timeout(self.clock.now());
        self.perform();
        self.look_after_debugger();
        self.perform();
        self.reports.go_on();
        self.reports.take_problems().iter().for_each(|problem| self.messages.print(problem));
        self.messages.flush();
        if !self.closed && self.conn.flush().is_err() {
            // What the manager said last is still to be read.
            self.conn_ready = true;
        }
        Ok(())
    }

    fn wait(&self) -> Option<Duration> {
        if self.conn_ready {
            return Some(Duration::ZERO);
        }
        let mut waits = vec![self.run.poll_timeout().map(|at| self.clock.until(at))];
        let is_writing = self.messages.is_waiting() || self.reports.is_waiting();
        waits.push(is_writing.then_some(RETRY));
        waits.push(self.to_open.is_some().then_some(BACKGROUND_INTERVAL));
        if let Some((due, wait)) = self.desk.as_ref().map(|desk| desk.wait()) {
            waits.extend([due.map(|at| self.clock.until(at)), wait]);
        }
        if let (Some(stdin), true) = (&self.stdin, self.can_feed()) {
            let background = stdin.is_in_background();
            waits.push(Some(if background { BACKGROUND_INTERVAL } else { Duration::ZERO }));
        }
        waits.into_iter().flatten().min()
    }

    fn can_feed(&self) -> bool {
        self.stdin_ready && self.opened.is_none() && self.run.stdin_credit() > 0
    }

    /// Reads standard input as far as there is credit.
    fn feed(&mut self) {
        while self.can_feed() {
            let Some(stdin) = &self.stdin else { return };
            if stdin.is_in_background() {
                return;
            }
            let mut buffer = [0; frame::BULK_CHUNK];
            let most = buffer.len().min(self.run.stdin_credit());
            match stdin.read(&mut buffer[..most]) {
                Ok(0) => return self.end_stdin(),
                Ok(n) => {
                    self.conn.send_frame(Kind::Stdin, &buffer[..n]);
                    self.run.sent_stdin(n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    // What waits in a terminal that is not ours makes no new event.
                    self.stdin_ready = stdin.is_in_background();
                    return;
                }
                Err(e) => {
                    self.tell(Input::StdinLost(plain(&e)));
                    return self.end_stdin();
                }
            }
        }
    }

    fn end_stdin(&mut self) {
        self.conn.send_frame(Kind::Stdin, &[]);
        self.stdin = None;
    }

    /// Reads what the manager, or before it the daemon, has to say.
    fn hear(&mut self) {
        if !std::mem::take(&mut self.conn_ready) || self.closed {
            return;
        }
        let filled = self.conn.fill();
        while let Some(input) = self.next_input() {
            self.tell(input);
        }
        match filled {
            Ok(Filled::More) => self.conn_ready = true,
            Ok(Filled::Empty) => {}
            Ok(Filled::Closed) => {
                self.closed = true;
                let is_whole = !self.conn.is_partial();
                self.tell(if is_whole { Input::Closed } else { Input::Garbled });
            }
            Err(_) => {
                self.closed = true;
                self.tell(Input::Garbled);
            }
        }
    }

    fn next_input(&mut self) -> Option<Input> {
        let payload = match self.conn.next_frame() {
            Ok(Some((Kind::Control, payload))) => payload,
            Ok(None) => return None,
            Ok(Some(_)) | Err(_) => return Some(Input::Garbled),
        };
        if let Ok(news) = frame::decode_message::<JobNews>(payload) {
            return Some(Input::News(news));
        }
        Some(match frame::decode_message(payload) {
            Ok(ConsoleReply::Refused { problem }) => Input::Refused(problem),
            Ok(_) | Err(_) => Input::Garbled,
        })
    }

    /// What the user and the debuggers said, and what comes of it.
    fn serve_desk(&mut self) {
        let Some(desk) = &mut self.desk else { return };
        desk.turn(self.clock.now());
        while let Some(order) = self.desk.as_mut().and_then(|desk| desk.next_order()) {
            match order {
                Order::Send(input) => self.conn.send(&input),
                // As ^C ends a job that is not debugged, at once.
                Order::Kill => (0..2).for_each(|_| self.tell(Input::Signal(libc::SIGINT))),
            }
        }
    }

    fn tell(&mut self, input: Input) {
        if let (Some(desk), Input::News(JobNews::Restarted)) = (&mut self.desk, &input) {
            return desk.restarted(self.clock.now());
        }
        self.run.handle(self.clock.now(), input);
        if self.run.job().is_some() {
            self.passed = None;
        }
        self.perform();
    }

    fn perform(&mut self) {
        while let Some(output) = self.run.poll_output() {
            match output {
                Output::Send(input) => self.conn.send(&input),
                Output::ShowProcesses => self.show_processes(),
                Output::ShowAbort(why) => mpir::show_abort(&why),
                Output::Print(text) => match &mut self.desk {
                    Some(desk) => desk.note(&text),
                    None => self.messages.print(&text),
                },
                Output::Debug(ranks) => {
                    if !terminal::is_ours() {
                        self.messages.print("it waits for the foreground (fg)");
                    }
                    self.to_open = Some(ranks);
                }
                Output::Resubmit => self.resubmit(),
                Output::Finish(code) => {
                    self.passed = None;
                    self.code = Some(code);
                }
                Output::Leave(code) => {
                    self.passed = None;
                    self.conn.finish();
                    self.code = Some(code);
                }
                Output::Stop => {
                    let _ = self.conn.flush();
                    let _ = raise(Signal::SIGSTOP);
                    self.run.continued();
                }
            }
        }
    }

    /// Waits until a daemon that is dying has ended. The kernel closes the connections of a process before
    /// its listening socket, which would accept the job once more.
    fn await_the_daemons_end(&self) {
        let Ok(pid) = self.conn.peer().map(|peer| Pid::from_raw(peer.pid())) else { return };
        // A private daemon has a socket that this process made.
        if pid != Pid::this()
            && let Ok(daemon) = Pidfd::open(pid)
        {
            daemon.wait(DYING);
        }
    }

    /// To the daemon that is here now, or to private ones.
    fn resubmit(&mut self) {
        self.await_the_daemons_end();
        let Some(passed) = &self.passed else { return };
        let submission = launch::submit(self.job, passed, &mut self.signals);
        let submission = submission.and_then(|submission| match submission {
            Submission::Done(Submitted { conn, private }) => {
                let both = Watch::READABLE | Watch::WRITABLE;
                self.poll.registry().register(&mut SourceFd(&conn.as_raw_fd()), CONN, both)?;
                Ok(Ok((conn, private)))
            }
            Submission::Interrupted(signal) => Ok(Err(signal)),
        });
        match submission {
            Ok(Ok((conn, private))) => {
                // The former daemon leaves when nobody is connected to it.
                self.conn = conn;
                std::mem::replace(&mut self.private, private).wait();
                (self.closed, self.conn_ready) = (false, true);
            }
            Ok(Err(signal)) => self.tell(Input::Signal(signal)),
            Err(error) => self.tell(Input::Refused(format!("{error:#}"))),
        }
    }

    /// What the terminal sends while a debugger is open is for that; what ends us, ends it, too.
    fn leave_to_debugger(&self, signal: i32) -> bool {
        match signal {
            libc::SIGTSTP => {
                // The shell waits for us to stop with it.
                let _ = raise(Signal::SIGSTOP);
                true
            }
            libc::SIGINT | libc::SIGQUIT | libc::SIGWINCH | libc::SIGCONT => true,
            libc::SIGTERM | libc::SIGHUP => {
                self.opened.iter().for_each(Opened::end);
                false
            }
            _ => false,
        }
    }

    /// Opens the debugger as soon as the terminal is ours, and sees when it has ended.
    fn look_after_debugger(&mut self) {
        if let Some(could_be_had) = self.opened.as_ref().and_then(Opened::has_ended) {
            self.opened = None;
            self.run.debugged(self.clock.now(), could_be_had);
        }
        if self.opened.is_some() || self.code.is_some() || !terminal::is_ours() {
            return;
        }
        let Some(ranks) = self.to_open.take() else { return };
        if let Err(error) = self.open_debugger(&ranks) {
            self.messages.print(&format!("cannot open the debugger: {error:#}"));
            self.run.debugged(self.clock.now(), false);
        }
    }

    fn open_debugger(&mut self, ranks: &RankSet) -> Result<()> {
        let (job, _) = self.run.job().context("there is no job yet")?;
        let on_crash = self.job.spec.on_crash.as_ref().context("nobody wants one")?;
        self.messages.flush();
        let opened = Opened::at(&self.job.place, job, ranks, &on_crash.gdb)?;
        watch(self.poll.registry(), opened.as_raw_fd(), OPENED, Watch::READABLE)?;
        self.opened = Some(opened);
        Ok(())
    }

    /// To debuggers, at whose breakpoint this may wait, and in a file.
    fn show_processes(&mut self) {
        let (spec, processes) = (&self.job.spec, self.run.processes());
        let programs = processes::programs(spec);
        let wanted = self.job.trace.proctable.as_deref();
        let file = wanted.map(|path| (path, processes.render(spec, &programs)));
        mpir::show(processes.hosts(), programs, &processes.table(spec));
        // Whoever waits for the file finds the table in our memory.
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
        while (!self.closed || self.messages.is_waiting()) && self.clock.now() < until {
            self.messages.flush();
            let _ = self.conn.flush();
            match self.conn.fill() {
                Ok(Filled::Closed) | Err(_) => self.closed = true,
                Ok(_) => {}
            }
            while let Ok(Some(_)) = self.conn.next_frame() {}
            let wait = self.clock.until(until);
            let wait = if self.messages.is_waiting() { wait.min(RETRY) } else { wait };
            if !self.closed || self.messages.is_waiting() {
                let _ = self.poll.poll(&mut events, Some(wait));
            }
            self.signals.pending();
        }
    }
}
