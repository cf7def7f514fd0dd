//! The console of one job as a state machine: signals and messages are inputs; requests and lines
//! are outputs.
//!
//! The process ([`crate::session`]) owns the descriptors. Standard output and error of the ranks
//! are not part of this machine, because the root manager writes them to mpirun's descriptors.

mod debugger;
mod failures;
mod interface;
mod signals;
mod silence;
mod start;
mod stdin;
mod stops;
pub(crate) mod waits;

use std::collections::VecDeque;

use mpd_sansio::Time;
use mpd_sansio::{Machine, UNDRAINED};
use mpd_wire::JobId;
use mpd_wire::job::{Failure, Notice, exit};
use mpd_wire::message::{JobInput, JobNews};

use crate::ends::Ends;
use crate::processes::Processes;
use crate::trace::{Hops, Timeline};
use debugger::{Debugger, Turn};
use failures::Failures;
pub use failures::REPORT_AFTER;
pub use interface::{Beside, Input, Output, Settings};
use signals::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGWINCH};
pub use silence::Sight;
use silence::{Due, Finding, Silence};
use start::{Closed, Start};
use stdin::Stdin;
use stops::Stops;

/// The state machine of the console.
#[derive(Debug)]
pub struct Run {
    settings: Settings,
    start: Start,
    stdin: Stdin,
    silence: Silence,
    stops: Stops,
    failures: Failures,
    /// The debugger for crashed ranks that are held.
    debugger: Debugger,
    ends: Ends,
    processes: Processes,
    timeline: Timeline,
    finished: bool,
    outputs: VecDeque<Output>,
}

impl Run {
    /// The console of a newly submitted job.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            start: Start::default(),
            stdin: Stdin::default(),
            silence: Silence::new(settings.size, settings.limit),
            stops: Stops::default(),
            failures: Failures::new(settings),
            debugger: Debugger::new(settings.continues_on_failure),
            ends: Ends::default(),
            processes: Processes::of(settings.size),
            timeline: Timeline::default(),
            finished: false,
            outputs: VecDeque::new(),
        }
    }

    /// The time for [`Run::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let opening = self.debugger.due().filter(|_| self.processes.is_whole());
        let silence = (!self.finished).then(|| self.silence.poll_timeout()).flatten();
        [self.failures.due(), opening, silence].into_iter().flatten().min()
    }

    /// Bytes of standard input that may be sent now. While a debugger is open, the input belongs to
    /// the debugger.
    pub const fn stdin_credit(&self) -> usize {
        if self.debugger.is_open() { 0 } else { self.stdin.credit() }
    }

    /// Whether a debugger waits for the terminal. The caller then sends [`Input::Terminal`] when
    /// this process has it.
    pub const fn wants_terminal(&self) -> bool {
        self.debugger.wants_terminal()
    }

    /// Whether job and debugger have ended.
    pub const fn is_over(&self) -> bool {
        self.finished && !self.debugger.is_open()
    }

    /// The job's id and host, once they are known.
    pub const fn job(&self) -> Option<&(JobId, String)> {
        self.start.job()
    }

    /// The ends of the ranks, if they were requested and the job is over.
    pub const fn ends(&self) -> &Ends {
        &self.ends
    }

    /// The known processes of the ranks.
    pub const fn processes(&self) -> &Processes {
        &self.processes
    }

    /// The timeline of hosts and ranks, if it was requested and the job is over.
    pub const fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Whether the job ended for another reason than the ends of its ranks.
    pub const fn was_cut_short(&self) -> bool {
        self.failures.cut_short
    }

    fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    fn print(&mut self, text: impl Into<String>) {
        self.push(Output::Print(text.into()));
    }

    /// Sends `input` to the manager, now or when the manager can receive it.
    fn send(&mut self, input: JobInput) {
        let now = self.start.send(input);
        self.outputs.extend(now.map(Output::Send));
    }

    /// Releases the held processes, if `is_let_go`.
    fn let_go(&mut self, is_let_go: bool) {
        if is_let_go {
            self.push(Output::Send(JobInput::GoOn));
        }
    }

    // ----- the manager -----

    fn news(&mut self, now: Time, news: JobNews) {
        self.start.note(&news);
        self.silence.heard(now);
        match news {
            JobNews::Started { job, host, manager } => {
                self.silence.started(now, manager);
                if self.settings.verbose {
                    self.print(format!("job {job} on {host}"));
                }
                self.push(Output::Started);
                let waiting = self.start.begun(job, host);
                self.outputs.extend(waiting.into_iter().map(Output::Send));
            }
            JobNews::Processes { host, ranks, pids } => {
                if self.processes.add(host.as_str(), &ranks, &pids) {
                    self.push(Output::ShowProcesses);
                    self.let_go(self.settings.hold);
                }
            }
            JobNews::Refused { problem } => self.lose_job(problem),
            JobNews::Begun { manager } => self.silence.begun(manager),
            JobNews::StdinCredit { bytes } => self.stdin.grant(bytes),
            JobNews::StdinUnwanted => self.stdin.unwanted(),
            JobNews::Restarted => self.push(Output::Restarted),
            JobNews::Crashed { rank, crash } if crash.held => {
                let is_let_go = self.debugger.add(now, rank, crash.signal);
                self.let_go(is_let_go);
            }
            JobNews::Crashed { rank, crash } => self.failures.crashes.add(rank, &crash),
            JobNews::Suspended => {
                // This process continues although the adopted program stops, because no shell would
                // continue it after that program is killed.
                if self.stops.suspended() && !self.settings.adopted {
                    self.push(Output::Stop);
                }
            }
            JobNews::Failed { host, failure } => self.failed(now, &host, &failure),
            JobNews::Ended { code } => self.finish(code),
            report => self.report(report),
        }
    }

    fn failed(&mut self, now: Time, host: &str, failure: &Failure) {
        if let Some(why) = self.failures.add(now, host, failure) {
            self.push(Output::ShowAbort(why));
            self.forget_crashed();
        }
    }

    /// Handles messages that are only shown to the user.
    fn report(&mut self, news: JobNews) {
        match news {
            JobNews::Ends { host, world, ranks, ends } => self.ends.add(&host, world, &ranks, ends),
            JobNews::EndsLeftOut { ranks } => self.ends.leave_out(ranks),
            JobNews::Trace { host, spans } => self.timeline.add(host, spans),
            JobNews::Hops { hosts, scatter, tree } => {
                let hops = Hops { hosts, scatter, tree };
                self.timeline.hops = Some(hops);
                if self.settings.hops {
                    self.print(hops.line());
                }
            }
            JobNews::Staging { sent, bytes, done, hosts } => {
                let text = || staging_text(sent, bytes, done, hosts);
                self.push(Output::Progress((sent < bytes).then(text)));
            }
            JobNews::Notice(Notice { text, minor })
                if !minor || self.settings.terminal || self.settings.verbose =>
            {
                self.print(text);
            }
            // A minor notice; the caller has handled the other messages.
            _ => {}
        }
    }

    fn closed(&mut self, now: Time) {
        match self.start.closed() {
            Closed::Resubmit => {
                self.stdin.restart();
                self.silence.restart(now);
                if self.settings.verbose {
                    self.print(
                        "the daemon, or the manager of the job, died before the job started; the job is \
                         submitted again",
                    );
                }
                self.push(Output::Resubmit);
            }
            Closed::Lost(problem) => self.lose_job(problem),
        }
    }

    fn lose_job(&mut self, problem: impl Into<String>) {
        self.print(problem);
        self.finish(exit::SUITE);
    }

    fn report_failures(&mut self) {
        self.outputs.extend(self.failures.lines().map(Output::Print));
    }

    fn finish(&mut self, code: u8) {
        let code = if self.stdin.is_lost() && code == 0 { exit::SUITE } else { code };
        self.debugger.finish();
        self.report_failures();
        self.ends.sort();
        self.finished = true;
        self.push(Output::Finish(code));
    }

    // ----- the user -----

    fn stdin_lost(&mut self, problem: &str) {
        if self.stdin.lose() {
            self.failures.cut_short = true;
            self.print(format!("cannot read standard input: {problem}"));
        }
    }

    /// Handles a signal: it concerns the owner of the terminal, otherwise the job.
    fn signal(&mut self, now: Time, signal: i32) {
        self.failures.note_signal(signal);
        if self.debugger.is_open() && self.leave_to_debugger(signal) || self.finished {
            return;
        }
        if signals::ends(signal) {
            // The user no longer wants the debugger.
            let is_let_go = self.debugger.give_up(now);
            self.let_go(is_let_go);
        }
        if !self.leave_to_beside(signal) {
            self.signal_job(now, signal);
        }
    }

    /// While a debugger is open, signals of the terminal concern the debugger. A signal that ends
    /// the job also ends the debugger.
    fn leave_to_debugger(&mut self, signal: i32) -> bool {
        match signal {
            // Its keys stop the debugger. This process stops after it.
            SIGTSTP => self.push(Output::Stop),
            SIGINT | SIGQUIT | SIGWINCH | SIGCONT => {}
            _ if signals::ends(signal) => {
                self.push(Output::EndDebugger);
                return false;
            }
            _ => return false,
        }
        true
    }

    /// Whether the part beside the job has handled the signal.
    fn leave_to_beside(&mut self, signal: i32) -> bool {
        match (self.settings.beside, signal) {
            (Beside::Nothing, _) => false,
            // Before the job has started, there are no ranks to interrupt.
            (beside, SIGINT) if self.job().is_some() => {
                self.push(Output::Interrupt);
                beside == Beside::Prompt
            }
            // gdb stops and continues the programs.
            (_, SIGTSTP) => {
                self.push(Output::Stop);
                true
            }
            (_, signal) => signal == SIGCONT,
        }
    }

    fn signal_job(&mut self, now: Time, signal: i32) {
        if self.settings.adopted && matches!(signal, SIGINT | SIGQUIT | SIGHUP | SIGWINCH) {
            // The terminal has sent the signal to the program, too; the program decides how to
            // react.
            return;
        }
        if self.debugger.is_any() && matches!(signal, SIGTSTP | SIGCONT) {
            // Otherwise the held processes would continue with the others.
            let _ = self.stops.is_own();
            self.outputs.extend((signal == SIGTSTP).then_some(Output::Stop));
            return;
        }
        if signals::ends(signal) {
            self.forget_crashed();
            if self.job().is_none() {
                self.finished = true;
                return self.push(Output::Leave(128 + u8::try_from(signal).unwrap_or(0)));
            }
        }
        let input = match signal {
            SIGINT => JobInput::Interrupt,
            SIGTSTP => {
                self.stops.ask();
                JobInput::Suspend
            }
            SIGCONT if self.settings.adopted => JobInput::Resume,
            // The end of this process's own stop was an input before.
            SIGCONT if self.stops.is_own() => return,
            _ => JobInput::Signal { signal: u8::try_from(signal).unwrap_or(0) },
        };
        self.send(input);
        if signals::ends(signal) {
            self.end_requested(now, signal);
        }
    }

    /// The user has requested the end of a job that has started.
    fn end_requested(&mut self, now: Time, signal: i32) {
        if self.silence.end_requested(now, 128 + u8::try_from(signal).unwrap_or(0)) {
            self.push(Output::Send(JobInput::Echo));
        }
    }

    /// Handles the state of a silent process.
    fn looked(&mut self, now: Time, sight: Option<Sight>) {
        let job = self.start.job().map(|(id, _)| id);
        match self.silence.looked(now, sight, job) {
            Finding::Nothing => {}
            Finding::Name(text) => self.print(text),
            Finding::Leave(text, code) => {
                self.debugger.finish();
                self.report_failures();
                self.print(text);
                self.finished = true;
                self.push(Output::Abandon(code));
            }
        }
    }

    fn resized(&mut self, columns: u16, lines: u16) {
        self.failures.note_signal(SIGWINCH);
        if !self.debugger.is_open() {
            self.send(JobInput::Resize { columns, lines });
        }
    }

    fn terminal_gone(&mut self, now: Time) {
        if self.settings.adopted {
            return self.signal(now, SIGHUP);
        }
        self.failures.note_signal(SIGHUP);
        if self.debugger.is_open() {
            self.push(Output::EndDebugger);
        }
        let is_let_go = self.debugger.give_up(now);
        self.let_go(is_let_go);
        self.send(JobInput::HangUp);
        if self.job().is_some() {
            self.end_requested(now, SIGHUP);
        }
    }

    fn continued(&mut self) {
        if self.stops.continued() {
            self.push(Output::Send(JobInput::Resume));
        }
    }

    /// Ends the job at once, as two ^C end a job without debugger.
    fn kill(&mut self, now: Time) {
        self.failures.note_signal(SIGINT);
        (0..2).for_each(|_| self.signal_job(now, SIGINT));
    }

    // ----- the debugger of crashed ranks -----

    /// Handles the coming end of the job: held processes are released, except those of an open
    /// debugger.
    fn forget_crashed(&mut self) {
        let is_let_go = self.debugger.forget();
        self.let_go(is_let_go);
    }

    fn want_debugger(&mut self, now: Time) {
        let Some(crashes) = self.debugger.want(now, &self.processes) else { return };
        let end =
            if self.settings.continues_on_failure { "the job continues" } else { "the job ends" };
        self.print(format!("{crashes}; the debugger opens there, {end} when you quit it (q)"));
        self.push(Output::WantTerminal);
    }

    fn terminal(&mut self, is_ours: bool) {
        match self.debugger.terminal(is_ours) {
            Some(Turn::Open(ranks)) => self.push(Output::OpenDebugger(ranks)),
            Some(Turn::Waits) => self.print("it waits for the foreground (fg)"),
            None => {}
        }
    }

    fn debugger_ended(&mut self, now: Time, was_session: bool) {
        let is_let_go = self.debugger.ended(now, was_session);
        self.let_go(is_let_go && !self.finished);
    }
}

impl Machine for Run {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        match input {
            // The debugger may run longer than the job.
            Input::Signal(signal) => self.signal(now, signal),
            Input::DebuggerEnded { was_session } => self.debugger_ended(now, was_session),
            Input::TerminalGone if self.finished => {
                self.outputs.extend(self.debugger.is_open().then_some(Output::EndDebugger));
            }
            _ if self.finished => {}
            Input::News(news) => self.news(now, news),
            Input::SignalSeen(signal) => self.failures.note_signal(signal),
            Input::StopForever => self.failures.note_signal(SIGTSTP),
            Input::Resized(columns, lines) => self.resized(columns, lines),
            Input::TerminalGone => self.terminal_gone(now),
            Input::Continued => self.continued(),
            Input::Terminal { is_ours } => self.terminal(is_ours),
            Input::Kill => self.kill(now),
            Input::StdinSent(bytes) => self.stdin.sent(bytes),
            Input::StdinLost(problem) => self.stdin_lost(&problem),
            Input::Refused(problem) => self.lose_job(problem),
            Input::Cut(code) => {
                self.finished = true;
                self.push(Output::Leave(code));
            }
            Input::Closed => self.closed(now),
            Input::Looked(sight) => self.looked(now, sight),
            Input::Broken => self.lose_job(self.start.broken()),
            Input::Garbled => self.lose_job(
                "a message of the daemon or the manager is not valid; \
                 mpd and mpirun must have the same release",
            ),
        }
    }

    /// Reports a failure at its time, and opens the debugger for crashed ranks.
    fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        if self.failures.due().is_some_and(|at| at <= now) {
            self.report_failures();
        }
        if !self.finished {
            let due = self.silence.due(now);
            self.outputs.extend(due.map(|due| match due {
                Due::Look => Output::Look(self.silence.manager()),
                Due::Ask => Output::Send(JobInput::Echo),
            }));
        }
        // Before all ranks have started, the ring cannot locate them.
        if self.processes.is_whole() {
            self.want_debugger(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

/// The progress of programs on their way, in bytes and hosts.
fn staging_text(sent: u64, bytes: u64, done: u32, hosts: u32) -> String {
    const KIB: u64 = 1024;
    const MANY: u64 = 10 * KIB * KIB;
    let (unit, name) = if bytes < MANY { (KIB, "KiB") } else { (KIB * KIB, "MiB") };
    let (sent, bytes) = (sent / unit, bytes.div_ceil(unit));
    format!("sends the programs: {sent} of {bytes} {name}, {done} of {hosts} hosts have them")
}

#[cfg(test)]
mod tests;
