//! The console of one job, as decisions only: signals and news in, requests and lines out.
//!
//! The process around it ([`crate::session`]) owns the descriptors. Standard output and error of the
//! ranks do not pass through here: the root manager writes them to our descriptors itself.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use mpd_machine::Time;
use mpd_wire::job::{Failure, Notice, RankEnd, exit};
use mpd_wire::message::{JobInput, JobNews};
use mpd_wire::{JobId, RankSet};

use crate::crashes::Crashes;
use crate::ends::Ends;
use crate::held::Held;
use crate::processes::Processes;
use crate::trace::{Hops, Timeline};

/// A failure is told with the end of the job, when the ranks' last words are out, but no later than
/// this after it was known.
pub const TELL_AFTER: Duration = Duration::from_secs(1);

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGTSTP: i32 = 20;
const SIGWINCH: i32 = 28;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The manager said something.
    News(JobNews),
    /// A signal came.
    Signal(i32),
    /// SIGWINCH came, and the terminal has this size: columns, lines.
    Resized(u16, u16),
    /// SIGHUP came because the terminal is gone.
    TerminalGone,
    /// Standard input cannot be read to its end, for this reason.
    StdinLost(String),
    /// The job was refused.
    Refused(String),
    /// The connection closed, behind a whole message.
    Closed,
    /// What came is no message, or only the beginning of one.
    Garbled,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Tell the manager.
    Send(JobInput),
    /// Show all processes of the job to those who want to know: [`Run::processes`].
    ShowProcesses,
    /// Show that the job is being ended, and why.
    ShowAbort(String),
    /// Open the debugger at these ranks, which crashed and are held, and come back with [`Run::debugged`].
    Debug(RankSet),
    /// Stop this process, and come back with [`Run::continued`].
    Stop,
    /// A line for the user, without the program's name in front.
    Print(String),
    /// Submit the job once more: whoever was to start it has died, and no rank of it has run.
    Resubmit,
    /// Write the reports; the job is over.
    Finish(u8),
    /// Close the connection and go: the job was not running yet, and ends by that.
    Leave(u8),
}

/// How much the user wants to hear, and what was submitted.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Ranks of the job.
    pub size: u32,
    /// Failures do not end the job: they are told at once.
    pub goes_on: bool,
    /// Failures of ranks are not told: Hydra's `-disable-auto-cleanup` says nothing of them.
    pub is_silent: bool,
    /// Tell the job's id, and print minor notices.
    pub verbose: bool,
    /// Standard error is a terminal: print minor notices.
    pub terminal: bool,
    /// The one rank is a program that has started us, and is in our process group.
    pub adopted: bool,
    /// Tell how many times the words of the launch were passed on.
    pub hops: bool,
    /// The job is held until its processes were shown.
    pub hold: bool,
}

/// The console's machine.
#[derive(Debug)]
pub struct Run {
    settings: Settings,
    job: Option<(JobId, String)>,
    /// It has started, or has failed before.
    decided: bool,
    resubmitted: bool,
    untold: Option<(Time, String)>,
    forwarded: BTreeSet<i32>,
    credit: usize,
    stdin_wanted: bool,
    suspending: bool,
    just_continued: bool,
    /// Something other than the end of a rank went wrong.
    cut_short: bool,
    /// The ranks had less of standard input than there was.
    stdin_lost: bool,
    ends: Ends,
    processes: Processes,
    timeline: Timeline,
    crashes: Crashes,
    /// Those that the debugger is to open at.
    crashed: Held,
    finished: bool,
    /// What is to be said once the manager listens.
    held: Vec<JobInput>,
    outputs: VecDeque<Output>,
}

impl Run {
    /// The console of a job that was just submitted.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            processes: Processes::of(settings.size),
            job: None,
            decided: false,
            resubmitted: false,
            untold: None,
            forwarded: BTreeSet::new(),
            credit: 0,
            stdin_wanted: true,
            suspending: false,
            just_continued: false,
            cut_short: false,
            stdin_lost: false,
            ends: Ends::default(),
            timeline: Timeline::default(),
            crashes: Crashes::default(),
            crashed: Held::default(),
            finished: false,
            held: Vec::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. Drain [`Run::poll_output`] before the next.
    pub fn handle(&mut self, now: Time, input: Input) {
        if self.finished {
            return;
        }
        match input {
            Input::News(news) => self.news(now, news),
            Input::Signal(signal) => self.signal(signal),
            Input::Resized(columns, lines) => {
                self.forwarded.insert(SIGWINCH);
                self.held.retain(|held| !matches!(held, JobInput::Resize { .. }));
                self.send(JobInput::Resize { columns, lines });
            }
            Input::TerminalGone if self.settings.adopted => self.signal(SIGHUP),
            Input::TerminalGone => {
                self.forwarded.insert(SIGHUP);
                self.send(JobInput::HangUp);
            }
            Input::StdinLost(problem) => {
                if !std::mem::replace(&mut self.stdin_lost, true) {
                    self.cut_short = true;
                    let text = format!("cannot read standard input: {problem}");
                    self.outputs.push_back(Output::Print(text));
                }
            }
            Input::Refused(problem) => {
                self.outputs.push_back(Output::Print(problem));
                self.finish(exit::SUITE);
            }
            Input::Closed if !self.decided && !std::mem::replace(&mut self.resubmitted, true) => {
                (self.credit, self.stdin_wanted) = (0, true);
                if self.settings.verbose {
                    let text = "the daemon died before the job started; the job is submitted again";
                    self.outputs.push_back(Output::Print(text.to_owned()));
                }
                self.outputs.push_back(Output::Resubmit);
            }
            Input::Closed => self.lose_job(match &self.job {
                Some((id, _)) => format!("the manager of job {id} died, and the job with it"),
                None if self.decided => {
                    "the manager of the job died, and the job with it".to_owned()
                }
                None => "the daemon died twice before the job started; no rank has run".to_owned(),
            }),
            Input::Garbled => self.lose_job(
                "what the daemon or the manager said cannot be understood; \
                 mpd and mpirun must be of one release"
                    .to_owned(),
            ),
        }
    }

    fn lose_job(&mut self, problem: String) {
        self.outputs.push_back(Output::Print(problem));
        self.finish(exit::SUITE);
    }

    /// A signal has come, and will be an input behind what was said before it.
    pub fn note_signal(&mut self, signal: i32) {
        self.forwarded.insert(signal);
    }

    /// Tells a failure whose time has come.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.untold.as_ref().is_some_and(|(at, _)| *at <= now) {
            self.tell();
        }
        // Before all were started the ring cannot say where they are.
        if self.processes.is_whole()
            && let Some(opening) = self.crashed.open(now, &self.processes)
        {
            let end = if self.settings.goes_on { "the job goes on" } else { "the job ends" };
            let text = format!("the debugger opens there, {end} when you quit it (q)");
            self.outputs.push_back(Output::Print(format!("{}; {text}", opening.who)));
            self.outputs.push_back(Output::Debug(opening.ranks));
        }
    }

    /// The debugger of [`Output::Debug`] was left, or could not be had.
    pub fn debugged(&mut self, now: Time, could_be_had: bool) {
        if self.crashed.close(now, could_be_had, self.settings.goes_on) {
            self.outputs.push_back(Output::Send(JobInput::GoOn));
        }
    }

    /// The job is about to end: nobody is to look at what is held, unless somebody does already.
    fn forget_crashed(&mut self) {
        if self.crashed.forget() {
            self.outputs.push_back(Output::Send(JobInput::GoOn));
        }
    }

    /// When [`Run::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let opening = self.crashed.due().filter(|_| self.processes.is_whole());
        [self.untold.as_ref().map(|(at, _)| *at), opening].into_iter().flatten().min()
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// This process was stopped by [`Output::Stop`] and goes on.
    pub fn continued(&mut self) {
        self.just_continued = true;
        self.outputs.push_back(Output::Send(JobInput::Resume));
    }

    /// Bytes of standard input that may be sent now.
    pub const fn stdin_credit(&self) -> usize {
        if self.stdin_wanted { self.credit } else { 0 }
    }

    /// Whether anybody wants standard input now. That can change.
    pub const fn wants_stdin(&self) -> bool {
        self.stdin_wanted
    }

    /// That many bytes were sent.
    pub const fn sent_stdin(&mut self, bytes: usize) {
        self.credit = self.credit.saturating_sub(bytes);
    }

    /// The job's id and host, once they are known.
    pub const fn job(&self) -> Option<&(JobId, String)> {
        self.job.as_ref()
    }

    /// How the ranks ended, if that was asked for and the job is over.
    pub const fn ends(&self) -> &Ends {
        &self.ends
    }

    /// Which process runs each rank, as far as it was told.
    pub const fn processes(&self) -> &Processes {
        &self.processes
    }

    /// What hosts and ranks did when, if it was asked for and the job is over.
    pub const fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Whether the job ended for another reason than the ends of its ranks.
    pub const fn was_cut_short(&self) -> bool {
        self.cut_short
    }

    fn news(&mut self, now: Time, news: JobNews) {
        self.decided |= matches!(
            news,
            JobNews::Started { .. } | JobNews::Failed { .. } | JobNews::Ended { .. }
        );
        match news {
            JobNews::Started { job, host } => {
                if self.settings.verbose {
                    self.outputs.push_back(Output::Print(format!("job {job} on {host}")));
                }
                self.job = Some((job, host));
                self.outputs.extend(self.held.drain(..).map(Output::Send));
            }
            JobNews::Processes { host, ranks, pids } => {
                if self.processes.add(host.as_str(), &ranks, &pids) {
                    self.outputs.push_back(Output::ShowProcesses);
                    let go_on = self.settings.hold.then_some(Output::Send(JobInput::GoOn));
                    self.outputs.extend(go_on);
                }
            }
            JobNews::StdinCredit { bytes } => {
                self.stdin_wanted = true;
                self.credit += bytes as usize;
            }
            // The debugger has asked for it.
            JobNews::StdinUnwanted => self.stdin_wanted = false,
            JobNews::Restarted => {}
            JobNews::Crashed { rank, crash } if crash.held => {
                if self.crashed.add(now, rank, crash.signal) {
                    self.outputs.push_back(Output::Send(JobInput::GoOn));
                }
            }
            JobNews::Crashed { rank, crash } => self.crashes.add(rank, &crash),
            JobNews::Suspended => {
                // We go on beside a program that stops: nobody would wake us when it is killed.
                if std::mem::take(&mut self.suspending) && !self.settings.adopted {
                    self.outputs.push_back(Output::Stop);
                }
            }
            JobNews::Failed { host, failure } => {
                let is_of_rank =
                    matches!(failure.bare(), Failure::Rank { .. } | Failure::NotFinalized { .. });
                if !self.settings.goes_on || !is_of_rank {
                    self.outputs.push_back(Output::ShowAbort(self.told(&failure)));
                    self.forget_crashed();
                }
                let is_end_of_rank = matches!(failure.bare(), Failure::Rank { .. });
                self.cut_short |= !(is_end_of_rank || self.settings.goes_on && is_of_rank);
                if self.is_worth_telling(&failure) {
                    let place =
                        if failure.names_host() { format!("host {host}: ") } else { String::new() };
                    let wait = if self.settings.goes_on { Duration::ZERO } else { TELL_AFTER };
                    self.untold = Some((now + wait, format!("{place}{}", self.told(&failure))));
                }
            }
            JobNews::Ends { host, world, ranks, ends } => self.ends.add(&host, world, &ranks, ends),
            JobNews::EndsLeftOut { ranks } => self.ends.leave_out(ranks),
            JobNews::Trace { host, spans } => self.timeline.add(host, spans),
            JobNews::Hops { hosts, scatter, tree } => {
                let hops = Hops { hosts, scatter, tree };
                self.timeline.hops = Some(hops);
                if self.settings.hops {
                    self.outputs.push_back(Output::Print(hops.line()));
                }
            }
            JobNews::Notice(Notice { text, minor }) => {
                if !minor || self.settings.terminal || self.settings.verbose {
                    self.outputs.push_back(Output::Print(text));
                }
            }
            JobNews::Ended { code } => self.finish(code),
        }
    }

    /// What a failure is called. Of a program that ran before its job only its parent knows the code.
    fn told(&self, failure: &Failure) -> String {
        match failure {
            Failure::NotFinalized { rank } if self.settings.adopted => {
                format!("rank {rank}: ended without MPI_Finalize; the job was ended")
            }
            Failure::NotFinalized { rank } if self.settings.goes_on => {
                format!("rank {rank}: exited with code 0 after MPI_Init without MPI_Finalize")
            }
            failure => failure.to_string(),
        }
    }

    /// A single program that exits as it likes, a reader that left, and a signal that the user sent
    /// are no news to the user.
    fn is_worth_telling(&self, failure: &Failure) -> bool {
        match failure.bare() {
            Failure::Rank { .. } | Failure::NotFinalized { .. } | Failure::Aborted { .. }
                if self.settings.is_silent && !self.settings.verbose =>
            {
                false
            }
            Failure::Rank { end: RankEnd::Exited(_), .. } => {
                self.settings.size > 1 || failure != failure.bare()
            }
            Failure::Rank { end: RankEnd::Signaled { signal, .. }, .. } => {
                !self.forwarded.contains(&i32::from(*signal))
            }
            Failure::NotFinalized { .. } if self.settings.adopted => {
                ![SIGINT, SIGQUIT, SIGHUP].iter().any(|signal| self.forwarded.contains(signal))
            }
            Failure::OutputClosed | Failure::Interrupted { .. } => false,
            _ => true,
        }
    }

    fn tell(&mut self) {
        self.outputs.extend(self.crashes.lines().map(Output::Print));
        if let Some((_, text)) = self.untold.take() {
            self.outputs.push_back(Output::Print(text));
        }
    }

    fn finish(&mut self, code: u8) {
        let code = if self.stdin_lost && code == 0 { exit::SUITE } else { code };
        let _ = self.crashed.forget();
        self.tell();
        self.ends.sort();
        self.finished = true;
        self.outputs.push_back(Output::Finish(code));
    }

    fn signal(&mut self, signal: i32) {
        self.forwarded.insert(signal);
        if self.settings.adopted && matches!(signal, SIGINT | SIGQUIT | SIGHUP | SIGWINCH) {
            // The terminal has sent it to the program, too, which decides what becomes of it.
            return;
        }
        if self.crashed.is_any() && matches!(signal, SIGTSTP | SIGCONT) {
            // Whatever is held would go on with the others.
            self.just_continued = false;
            self.outputs.extend((signal == SIGTSTP).then_some(Output::Stop));
            return;
        }
        if matches!(signal, SIGINT | SIGTERM | SIGHUP | SIGQUIT) {
            self.forget_crashed();
        }
        let input = match signal {
            SIGINT => JobInput::Interrupt,
            SIGTSTP => {
                self.suspending = true;
                JobInput::Suspend
            }
            SIGCONT if self.settings.adopted => JobInput::Resume,
            // Our own coming back from a stop is told by `continued`.
            SIGCONT if std::mem::take(&mut self.just_continued) => return,
            _ => JobInput::Signal { signal: u8::try_from(signal).unwrap_or(0) },
        };
        let ends = matches!(signal, SIGINT | SIGTERM | SIGHUP | SIGQUIT);
        if self.job.is_none() && ends {
            self.finished = true;
            self.outputs.push_back(Output::Leave(128 + u8::try_from(signal).unwrap_or(0)));
        } else {
            self.send(input);
        }
    }

    /// Before the job has started nobody listens who could act on it.
    fn send(&mut self, input: JobInput) {
        if self.job.is_some() {
            self.outputs.push_back(Output::Send(input));
        } else {
            self.held.push(input);
        }
    }
}

#[cfg(test)]
mod tests;
