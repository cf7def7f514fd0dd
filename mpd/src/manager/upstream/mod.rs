//! The connections to the console and to the daemon, and what is reported there: the start of the job, the
//! processes and ends of its ranks, the timeline of its launch.
//!
//! | module | has |
//! |---|---|
//! | [`console`], [`daemon`] | the connections |
//! | [`pids`] | the process of each rank |
//! | [`trace`] | the spans of the timeline |

mod console;
mod daemon;
mod pids;
mod trace;

use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_job::manager::{Input, WorldEnds};
use mpd_machine::{Time, Timers};
use mpd_wire::job::{Crash, Failure, Notice, RankEnd, World};
use mpd_wire::message::{
    JobInput, JobNews, MAX_RUN, MAX_SPANS, ManagerReport, Phase, Span, StartJob, Up,
};
use mpd_wire::{DaemonName, Rank, RankSet};

pub(super) use self::console::Console;
pub(super) use self::daemon::{Daemon, Told};
use self::pids::Pids;
pub(super) use self::trace::Trace;
use super::context::{Job, Turn};
use super::event::{Event, ForLinks, ForStdio, Mark};

/// Ends per message, so that a frame stays far below its bound.
const ENDS_PER_MESSAGE: usize = 4096;

/// Bytes that a console has not read yet beyond which it gets no ends of spawned ranks.
const MAX_UNHEARD: usize = 16 << 20;

/// Between two attempts to find a daemon.
const REGISTER_INTERVAL: Duration = Duration::from_secs(1);

/// How long the end of a job waits for the daemon to say how the launch went, if that is wanted.
const LAUNCHED_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Look for a daemon.
    Daemon,
    /// Wait no longer for what the daemon says of the launch.
    Launched,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Upstream {
    console: Console,
    daemon: Daemon,
    pids: Pids,
    trace: Trace,
    /// Forwarding steps of the launch, when the daemon has said so.
    hops: Option<u32>,
    /// Of the placement, for the console.
    notices: Vec<Notice>,
    /// Ends of spawned ranks that the console did not get, since it did not read.
    ends_left_out: u64,
    /// The exit code of the job and the ends of its ranks, while the daemon's report of the launch is awaited.
    finishing: Option<(u8, Vec<RankEnd>)>,
    timers: Timers<Timer>,
}

impl Upstream {
    pub(super) fn new(console: Console, daemon: Daemon, trace: Trace, job: &Job) -> Self {
        let (size, is_root) = (job.spec.size(), job.is_root());
        Self {
            console,
            daemon,
            // Only the root knows all.
            pids: Pids::of(if is_root { size } else { 0 }, is_root && job.spec.report_ends),
            trace,
            hops: None,
            notices: job.order.notices.clone(),
            ends_left_out: 0,
            finishing: None,
            timers: Timers::default(),
        }
    }

    /// Has the poll report the console under this token. Looks for a daemon if the first one has died.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn begin(
        &mut self,
        now: Time,
        registry: &Registry,
        console: Token,
    ) -> std::io::Result<()> {
        if self.daemon.descriptor().is_none() {
            // It died while the specification was awaited.
            self.timers.set(Timer::Daemon, now + REGISTER_INTERVAL);
        }
        let Some(fd) = self.console.descriptor() else { return Ok(()) };
        registry.register(&mut SourceFd(&fd), console, Interest::READABLE | Interest::WRITABLE)
    }

    pub(super) const fn mark_console(&mut self) {
        self.console.ready = true;
    }

    pub(super) const fn mark_daemon(&mut self) {
        self.daemon.ready = true;
    }

    pub(super) const fn has_work(&self) -> bool {
        self.console.has_work() || self.daemon.has_work()
    }

    /// Whether the console has not taken yet all that was said.
    pub(super) fn waits(&self) -> bool {
        self.console.waits()
    }

    pub(super) fn flush(&mut self) {
        self.console.flush();
        self.daemon.flush();
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now();
        while let Some(timer) = self.timers.pop_expired(now) {
            match timer {
                Timer::Daemon => self.look_for_daemon(turn),
                Timer::Launched => self.finish_late(turn),
            }
        }
    }

    // ----- from the console -----

    pub(super) fn serve_console(&mut self, turn: &mut Turn<'_>) {
        if !self.console.has_work() {
            return;
        }
        let (heard, open) = self.console.hear();
        for message in heard {
            turn.report(match message {
                console::Heard::Input(input) => Event::Input(input_of(input)),
                console::Heard::Stdin(bytes) => ForStdio::Stdin(bytes).into(),
            });
        }
        if !open {
            turn.post(Input::ConsoleLost);
        }
    }

    // ----- from the daemon -----

    pub(super) fn serve_daemon(&mut self, turn: &mut Turn<'_>) {
        if !self.daemon.has_work() {
            return;
        }
        let (told, there) = self.daemon.hear();
        for order in told {
            turn.report(match order {
                Told::Kill => Event::Input(Input::Kill),
                Told::Signal { signal, single: false } => Event::Input(Input::Signal(signal)),
                Told::Signal { signal, single: true } => {
                    Event::Input(Input::SignalProcesses(signal))
                }
                Told::Missing(members) => Event::Input(Input::Missing(members)),
                Told::SwitchStdin(ranks) => ForStdio::SwitchStdin(ranks).into(),
                Told::CountOutput => ForStdio::CountOutput.into(),
                Told::Placed(request, outcome) => Event::Placed(request, outcome),
                Told::Named(request, answer) => Event::Named(request, answer),
                Told::NameLost(name, to) => Event::NameLost(name, to),
                Told::Link(fd, hello) => ForLinks::Connected(fd, hello).into(),
                Told::Launched(scatter, depth) => {
                    self.launched(turn, scatter, depth);
                    continue;
                }
            });
        }
        if there {
            return;
        }
        if self.daemon.refused {
            log::warn!("the new daemon does not know this job; it goes on without");
        } else {
            log::info!("the daemon is gone");
            self.timers.set(Timer::Daemon, turn.now() + REGISTER_INTERVAL);
            turn.report(ForLinks::DaemonGone);
        }
    }

    /// Registers with the daemon of this ring, now or a second later.
    fn look_for_daemon(&mut self, turn: &mut Turn<'_>) {
        let order = &turn.job.order;
        let Some(rundir) = &order.rundir else { return };
        if self.daemon.register(turn.registry, rundir, order) {
            log::info!("registered with the new daemon");
            turn.report(Event::Registered);
        } else {
            self.timers.set(Timer::Daemon, turn.now() + REGISTER_INTERVAL);
        }
    }

    // ----- to both -----

    pub(super) fn tell_console(&mut self, news: &JobNews) {
        self.console.tell(news);
    }

    pub(super) fn tell_daemon(&mut self, report: &ManagerReport) {
        self.daemon.report(report);
    }

    /// No manager has been told to start its ranks yet. What a rank says can make the user send a signal, and
    /// without this message the console submits the job once more if we die.
    pub(super) fn tell_started(&mut self, turn: &Turn<'_>) {
        let StartJob { job, host, .. } = &turn.job.order;
        self.console.tell(&JobNews::Started { job: job.clone(), host: host.clone() });
        self.console.flush();
    }

    pub(super) fn tell_failed(
        &mut self,
        turn: &Turn<'_>,
        host: Option<DaemonName>,
        failure: Failure,
    ) {
        let host = host.map_or_else(|| turn.job.order.host.clone(), |name| name.to_string());
        self.console.tell(&JobNews::Failed { host, failure });
    }

    pub(super) fn tell_crashed(&mut self, rank: Rank, crash: Crash) {
        self.console.tell(&JobNews::Crashed { rank, crash });
    }

    pub(super) fn tell_notice(&mut self, text: String) {
        self.console.tell(&JobNews::Notice(Notice::major(text)));
    }

    /// The ranks of this host are about to be started: the user gets the notices of their placement.
    pub(super) fn go(&mut self, turn: &Turn<'_>) {
        self.trace.go(turn.now());
        for notice in std::mem::take(&mut self.notices) {
            self.console.tell(&JobNews::Notice(notice));
        }
    }

    // ----- processes and ends of ranks -----

    /// The root learns which process runs each rank.
    pub(super) fn learn_pids(&mut self, turn: &mut Turn<'_>, pids: Vec<(Rank, u32)>) {
        if self.pids.learn(&pids) {
            self.tell_processes(turn);
        }
        turn.report(ForStdio::Running(pids));
    }

    /// Which process runs each rank, for debuggers that find the job through its console.
    fn tell_processes(&mut self, turn: &Turn<'_>) {
        for share in turn.job.order.shares.iter() {
            let all: Vec<Rank> =
                share.ranks.ranks().filter(|&rank| self.pids.get(rank) != 0).collect();
            for part in all.chunks(MAX_RUN) {
                self.console.tell(&JobNews::Processes {
                    host: share.member.clone(),
                    ranks: part.iter().copied().collect(),
                    pids: part.iter().map(|&rank| self.pids.get(rank)).collect(),
                });
            }
        }
    }

    /// At the root: this is how the ranks of a spawned world have ended.
    pub(super) fn world_ended(&mut self, turn: &mut Turn<'_>, ended: &WorldEnds) {
        turn.report(ForStdio::Unheard(ended.unheard()));
        if turn.job.spec.report_ends {
            self.tell_ends(turn, ended);
        }
        self.pids.forget(&ended.world);
    }

    fn tell_ends(&mut self, turn: &Turn<'_>, ended: &WorldEnds) {
        if self.console.waiting() > MAX_UNHEARD {
            self.ends_left_out += u64::from(ended.world.size);
            return;
        }
        for (place, ranks) in &ended.parts.0 {
            let host = turn.job.host_at(*place as usize);
            let end = |rank: Rank| (self.pids.get(rank), ended.end_of(rank));
            let news = ends_of(&host, Some(ended.world), ranks, end);
            news.iter().for_each(|news| self.console.tell(news));
        }
    }

    /// The last message, when nothing of the job is left anywhere. The ends are those of the first world, if
    /// they are to be reported.
    pub(super) fn finish(&mut self, turn: &mut Turn<'_>, code: u8, ends: Vec<RankEnd>) {
        self.finishing = Some((code, ends));
        if turn.job.spec.trace && self.hops.is_none() && turn.job.order.shares.len() > 1 {
            self.timers.set(Timer::Launched, turn.now() + LAUNCHED_PATIENCE);
        } else {
            self.finish_late(turn);
        }
    }

    /// Nothing is waited for any more.
    fn finish_late(&mut self, turn: &mut Turn<'_>) {
        let Some((code, ends)) = self.finishing.take() else { return };
        self.timers.stop(Timer::Launched);
        let shares = &turn.job.order.shares;
        if turn.job.spec.trace {
            self.console.tell(&JobNews::Hops {
                hosts: u32::try_from(shares.len()).unwrap_or(u32::MAX),
                scatter: self.hops,
                tree: shares.depth_below(0),
            });
        }
        if turn.job.spec.report_ends {
            if self.ends_left_out > 0 {
                self.console.tell(&JobNews::EndsLeftOut { ranks: self.ends_left_out });
            }
            let end_of =
                |rank: Rank| ends.get(rank.index()).copied().unwrap_or(RankEnd::NotStarted);
            let end = |rank: Rank| (self.pids.get(rank), end_of(rank));
            for share in shares.iter() {
                let news = ends_of(&share.member.to_string(), None, &share.ranks, end);
                news.iter().for_each(|news| self.console.tell(news));
            }
        }
        self.console.tell(&JobNews::Ended { code });
        turn.report(Event::Over(code));
    }

    /// The process ends.
    pub(super) fn end(&mut self, code: u8, unlinked: bool) {
        self.daemon.report(&ManagerReport::Ended { code, unlinked });
        self.daemon.flush();
    }

    // ----- the timeline -----

    pub(super) fn mark(&mut self, mark: Mark, at: Time, phase: Phase, rank: Option<Rank>) {
        match mark {
            Mark::Begin => self.trace.begin(at, phase, rank),
            Mark::End => self.trace.end(at, phase, rank),
        }
    }

    pub(super) fn go_passed_on(&mut self, at: Time) {
        self.trace.go(at);
    }

    /// The last report of this manager but for its end.
    pub(super) fn end_trace(&mut self, turn: &mut Turn<'_>) {
        if turn.job.spec.trace {
            let spans = self.trace.take(turn.now());
            self.pass_spans(turn, turn.job.order.place, &spans);
        }
    }

    /// Spans of a manager below, by way of the one at `child`.
    pub(super) fn take_spans(
        &mut self,
        turn: &mut Turn<'_>,
        (child, place): (usize, u32),
        times: (u64, u64),
        spans: Vec<Span>,
    ) {
        let job = turn.job;
        if job.spec.trace && job.order.shares.subtree(child).contains(&(place as usize)) {
            let spans = self.trace.translated(turn.now(), child, times, spans);
            self.pass_spans(turn, place, &spans);
        }
    }

    fn pass_spans(&mut self, turn: &mut Turn<'_>, place: u32, spans: &[Span]) {
        let Some(share) = turn.job.order.shares.get(place as usize) else { return };
        for spans in spans.chunks(MAX_SPANS) {
            let spans = spans.to_vec();
            if turn.job.is_root() {
                self.console.tell(&JobNews::Trace { host: share.member.clone(), spans });
            } else {
                let (heard_us, told_us) = (self.trace.go_us(), self.trace.wall_at(turn.now()));
                turn.report(ForLinks::UpIfRoom(Up::Trace { place, heard_us, told_us, spans }));
            }
        }
    }

    /// The daemon says how the launch went.
    fn launched(&mut self, turn: &mut Turn<'_>, scatter: Span, depth: u32) {
        self.hops = Some(depth);
        if turn.job.spec.trace {
            self.pass_spans(turn, turn.job.order.place, &[scatter]);
        }
        self.finish_late(turn);
    }
}

fn input_of(input: JobInput) -> Input {
    match input {
        JobInput::Signal { signal } => Input::Signal(signal),
        JobInput::Resize { columns, lines } => Input::Resize(columns, lines),
        JobInput::Interrupt => Input::Interrupt,
        JobInput::HangUp => Input::HangUp,
        JobInput::Suspend => Input::Suspend,
        JobInput::Resume => Input::Resume,
        JobInput::Debug { ranks, line } => Input::Debug(ranks, line),
        JobInput::Restart => Input::Restart,
        JobInput::GoOn => Input::GoOn,
    }
}

/// What the console gets of the ends of ranks of one host; `end` knows the process id and the end of each.
fn ends_of(
    host: &str,
    world: Option<World>,
    ranks: &RankSet,
    end: impl Fn(Rank) -> (u32, RankEnd),
) -> Vec<JobNews> {
    let all: Vec<Rank> = ranks.ranks().collect();
    let news = |part: &[Rank]| JobNews::Ends {
        host: host.to_owned(),
        world,
        ranks: part.iter().copied().collect(),
        ends: part.iter().map(|&rank| end(rank)).collect(),
    };
    all.chunks(ENDS_PER_MESSAGE).map(news).collect()
}
