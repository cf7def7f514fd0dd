//! The console of one job, as decisions only: signals and news in, requests and lines out.
//!
//! The process around it ([`crate::session`]) owns the descriptors. Standard output and error of the
//! ranks do not pass through here: the root manager writes them to our descriptors itself.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use mpd_proto::job::{Failure, RankEnd, exit};
use mpd_proto::message::{JobInput, JobNews};
use mpd_proto::{JobId, RankSet, Time};

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
    /// The job was refused.
    Refused(String),
    /// The connection closed.
    Closed,
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
    /// Tell the job's id.
    pub verbose: bool,
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
    untold: Option<(Time, String)>,
    forwarded: BTreeSet<i32>,
    credit: usize,
    stdin_wanted: bool,
    suspending: bool,
    just_continued: bool,
    /// Something other than the end of a rank went wrong.
    cut_short: bool,
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
            untold: None,
            forwarded: BTreeSet::new(),
            credit: 0,
            stdin_wanted: true,
            suspending: false,
            just_continued: false,
            cut_short: false,
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
            Input::Refused(problem) => {
                self.outputs.push_back(Output::Print(problem));
                self.finish(exit::SUITE);
            }
            Input::Closed => {
                let job =
                    self.job.as_ref().map_or_else(String::new, |(id, _)| format!(" of job {id}"));
                let problem = format!("the manager{job} died, and the job with it");
                self.outputs.push_back(Output::Print(problem));
                self.finish(exit::SUITE);
            }
        }
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
                if !self.settings.goes_on || !matches!(failure.bare(), Failure::Rank { .. }) {
                    self.outputs.push_back(Output::ShowAbort(self.told(&failure)));
                    self.forget_crashed();
                }
                self.cut_short |= !matches!(failure.bare(), Failure::Rank { .. });
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
            JobNews::Notice { text } => self.outputs.push_back(Output::Print(text)),
            JobNews::Ended { code } => self.finish(code),
        }
    }

    /// What a failure is called. Of a program that ran before its job only its parent knows the code.
    fn told(&self, failure: &Failure) -> String {
        match failure {
            Failure::NotFinalized { rank } if self.settings.adopted => {
                format!("rank {rank}: ended without MPI_Finalize; the job was ended")
            }
            failure => failure.to_string(),
        }
    }

    /// A single program that exits as it likes, a reader that left, and a signal that the user sent
    /// are no news to the user.
    fn is_worth_telling(&self, failure: &Failure) -> bool {
        match failure.bare() {
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
mod tests {
    use mpd_proto::{Rank, RankSet};

    use super::*;
    use crate::ends::Ended;

    fn run(size: u32) -> Run {
        let mut run = Run::new(Settings {
            size,
            goes_on: false,
            verbose: false,
            adopted: false,
            hops: false,
            hold: false,
        });
        assert_eq!(told(&mut run, started()), []);
        run
    }

    fn started() -> Input {
        let job = JobId::new(1, "h1").unwrap();
        Input::News(JobNews::Started { job, host: "h1".into() })
    }

    #[test]
    fn of_sizes_that_came_before_the_job_the_last_one_is_told() {
        let (size, no) = (1, false);
        let settings = Settings { size, goes_on: no, verbose: no, adopted: no, hops: no, hold: no };
        let mut run = Run::new(settings);
        assert_eq!(told(&mut run, Input::Resized(80, 24)), []);
        assert_eq!(told(&mut run, Input::Resized(90, 25)), []);
        let resize = |columns, lines| Output::Send(JobInput::Resize { columns, lines });
        assert_eq!(told(&mut run, started()), [resize(90, 25)]);
        assert_eq!(told(&mut run, Input::Resized(91, 26)), [resize(91, 26)]);
    }

    #[test]
    fn before_the_start_an_end_means_leaving_and_the_rest_is_held() {
        let mut run = Run::new(Settings {
            size: 1,
            goes_on: false,
            verbose: false,
            adopted: false,
            hops: false,
            hold: false,
        });
        assert_eq!(told(&mut run, Input::Signal(SIGTSTP)), []);
        assert_eq!(told(&mut run, started()), [Output::Send(JobInput::Suspend)]);
        let mut run = Run::new(Settings {
            size: 1,
            goes_on: false,
            verbose: false,
            adopted: false,
            hops: false,
            hold: false,
        });
        assert_eq!(told(&mut run, Input::Signal(SIGTERM)), [Output::Leave(143)]);
    }

    fn all_of(run: &mut Run, input: Input) -> Vec<Output> {
        run.handle(Time::ZERO, input);
        std::iter::from_fn(|| run.poll_output()).collect()
    }

    /// What there is to do but for debuggers.
    fn told(run: &mut Run, input: Input) -> Vec<Output> {
        let outputs = all_of(run, input);
        outputs.into_iter().filter(|output| !matches!(output, Output::ShowAbort(_))).collect()
    }

    fn failed(end: RankEnd) -> Input {
        let failure = Failure::Rank { rank: Rank(1), end };
        Input::News(JobNews::Failed { host: "h1".into(), failure })
    }

    #[test]
    fn a_job_that_is_held_goes_on_once_all_its_processes_were_shown() {
        let mut run = run(2);
        run.settings.hold = true;
        let told_of = |rank: u32| {
            let host = mpd_proto::ring::DaemonName::new("h1").unwrap();
            let ranks = [Rank(rank)].into_iter().collect();
            Input::News(JobNews::Processes { host, ranks, pids: vec![100 + rank] })
        };
        assert_eq!(told(&mut run, told_of(1)), []);
        let shown = [Output::ShowProcesses, Output::Send(JobInput::GoOn)];
        assert_eq!(told(&mut run, told_of(0)), shown);
        assert_eq!(told(&mut run, told_of(0)), []);
    }

    fn held(rank: u32) -> Input {
        let crash = mpd_proto::job::Crash::held(11);
        Input::News(JobNews::Crashed { rank: Rank(rank), crash })
    }

    #[test]
    fn the_debugger_opens_at_crashed_ranks_and_what_is_held_dies_when_it_is_left() {
        let mut run = run(1);
        assert_eq!(told(&mut run, held(0)), []);
        assert_eq!(run.poll_timeout(), None, "the ring does not know the rank yet");
        let host = mpd_proto::ring::DaemonName::new("h1").unwrap();
        let ranks = RankSet::below(1);
        let processes = JobNews::Processes { host, ranks: ranks.clone(), pids: vec![7] };
        told(&mut run, Input::News(processes));
        run.handle_timeout(run.poll_timeout().unwrap());
        let who = "rank 0 of host h1: SIGSEGV; the debugger opens there, the job ends when you quit it (q)";
        assert_eq!(run.poll_output(), Some(Output::Print(who.into())));
        assert_eq!(run.poll_output(), Some(Output::Debug(ranks)));
        assert_eq!(told(&mut run, Input::Signal(SIGTSTP)), [Output::Stop], "the job is not");
        assert_eq!(told(&mut run, Input::Signal(SIGCONT)), []);
        run.debugged(Time::ZERO, true);
        assert_eq!(run.poll_output(), Some(Output::Send(JobInput::GoOn)));
    }

    #[test]
    fn no_debugger_opens_where_the_job_is_about_to_end() {
        for end in [Input::Signal(SIGINT), failed(RankEnd::Exited(7))] {
            let mut run = run(2);
            assert_eq!(told(&mut run, held(0)), []);
            assert!(told(&mut run, end).contains(&Output::Send(JobInput::GoOn)));
            assert_eq!(told(&mut run, held(1)), [Output::Send(JobInput::GoOn)]);
        }
    }

    #[test]
    fn debuggers_are_shown_a_failure_that_ends_the_job_at_once() {
        let why = Output::ShowAbort("rank 1: exited with code 7".into());
        assert_eq!(all_of(&mut run(2), failed(RankEnd::Exited(7))), [why]);
        let mut goes_on = run(2);
        goes_on.settings.goes_on = true;
        let told = all_of(&mut goes_on, failed(RankEnd::Exited(7)));
        assert!(!told.iter().any(|output| matches!(output, Output::ShowAbort(_))), "{told:?}");
    }

    #[test]
    fn a_failure_is_told_with_the_end_of_the_job() {
        let mut run = run(2);
        assert_eq!(told(&mut run, failed(RankEnd::Exited(7))), []);
        assert_eq!(
            told(&mut run, Input::News(JobNews::Ended { code: 7 })),
            [Output::Print("host h1: rank 1: exited with code 7".into()), Output::Finish(7)]
        );
    }

    #[test]
    fn a_failure_is_told_after_a_second_even_if_the_end_does_not_come() {
        let mut run = run(2);
        told(&mut run, failed(RankEnd::Exited(7)));
        run.handle_timeout(Time::ZERO + TELL_AFTER);
        assert!(matches!(run.poll_output(), Some(Output::Print(_))));
        assert_eq!(run.poll_timeout(), None);
    }

    #[test]
    fn what_the_user_did_himself_is_not_told() {
        let mut run = run(2);
        assert_eq!(told(&mut run, Input::Signal(SIGINT)), [Output::Send(JobInput::Interrupt)]);
        told(&mut run, failed(RankEnd::Signaled { signal: 2, core: false }));
        let end = Input::News(JobNews::Ended { code: 130 });
        assert_eq!(told(&mut run, end), [Output::Finish(130)]);
    }

    #[test]
    fn stop_comes_only_when_the_job_is_suspended_and_our_own_return_is_told_once() {
        let mut run = run(2);
        assert_eq!(told(&mut run, Input::Signal(SIGTSTP)), [Output::Send(JobInput::Suspend)]);
        assert_eq!(told(&mut run, Input::News(JobNews::Suspended)), [Output::Stop]);
        run.continued();
        assert_eq!(run.poll_output(), Some(Output::Send(JobInput::Resume)));
        assert_eq!(told(&mut run, Input::Signal(SIGCONT)), []);
        let forwarded = Output::Send(JobInput::Signal { signal: 18 });
        assert_eq!(told(&mut run, Input::Signal(SIGCONT)), [forwarded]);
    }

    #[test]
    fn a_hang_up_ends_the_job_only_if_the_terminal_is_gone() {
        let mut run = run(2);
        let forwarded = Output::Send(JobInput::Signal { signal: 1 });
        assert_eq!(told(&mut run, Input::Signal(SIGHUP)), [forwarded]);
        assert_eq!(told(&mut run, Input::TerminalGone), [Output::Send(JobInput::HangUp)]);
    }

    #[test]
    fn what_the_terminal_sends_reaches_a_program_without_us() {
        let settings = Settings {
            size: 1,
            goes_on: false,
            verbose: false,
            adopted: true,
            hops: false,
            hold: false,
        };
        let mut run = Run::new(settings);
        assert_eq!(told(&mut run, Input::Signal(SIGINT)), []);
        assert_eq!(told(&mut run, started()), []);
        for input in [Input::Signal(SIGQUIT), Input::Signal(SIGWINCH), Input::TerminalGone] {
            assert_eq!(told(&mut run, input), []);
        }
        let ended = Output::Send(JobInput::Signal { signal: 15 });
        assert_eq!(told(&mut run, Input::Signal(SIGTERM)), [ended]);
        // What it has spawned stops with it, and we do not.
        let suspend = Output::Send(JobInput::Suspend);
        assert_eq!(told(&mut run, Input::Signal(SIGTSTP)), [suspend]);
        assert_eq!(told(&mut run, Input::News(JobNews::Suspended)), []);
        let resume = Output::Send(JobInput::Resume);
        assert_eq!(told(&mut run, Input::Signal(SIGCONT)), [resume]);
        // It died of what its user did.
        let failure = Failure::NotFinalized { rank: Rank(0) };
        told(&mut run, Input::News(JobNews::Failed { host: "h1".into(), failure }));
        let end = Input::News(JobNews::Ended { code: 1 });
        assert_eq!(told(&mut run, end), [Output::Finish(1)]);
    }

    #[test]
    fn ends_of_several_hosts_are_in_rank_order() {
        let mut run = run(4);
        let ends = |host: &str, ranks: [u32; 2]| {
            let ends = ranks.map(|rank| (100 + rank, RankEnd::Exited(0))).to_vec();
            let ranks = RankSet::from_iter(ranks.map(Rank));
            Input::News(JobNews::Ends { host: host.into(), world: None, ranks, ends })
        };
        told(&mut run, ends("h1", [0, 3]));
        told(&mut run, ends("h2", [1, 2]));
        told(&mut run, Input::News(JobNews::Ended { code: 0 }));
        let ended = |ended: &Ended| (ended.rank.0, ended.host.clone(), ended.pid);
        let ended: Vec<_> = run.ends().first().iter().map(ended).collect();
        let expected = [(0, "h1"), (1, "h2"), (2, "h2"), (3, "h1")];
        assert_eq!(ended, expected.map(|(rank, host)| (rank, host.to_owned(), 100 + rank)));
    }

    #[test]
    fn a_connection_that_closes_before_the_end_is_a_failure_of_the_suite() {
        let mut run = run(1);
        let outputs = told(&mut run, Input::Closed);
        assert_eq!(outputs.last(), Some(&Output::Finish(exit::SUITE)));
    }
}
