//! The connections to the console and to the daemon, and the reports to them. The reports cover the start of the
//! job, the processes and ends of its ranks, and the timeline of its launch.
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

use mio::Registry;
use mpd_clients as clients;
use mpd_events::Recorded;
use mpd_job::manager::spawns::SpawnInput;
use mpd_job::manager::{Input, WorldEnds};
use mpd_machine::{Time, Timers};
use mpd_wire::job::{Crash, Failure, Notice, RankEnd, World};
use mpd_wire::message::{
    JobEvent, JobInput, JobNews, MAX_RUN, MAX_SPANS, ManagerOrder, ManagerReport, Phase, Span,
    StartJob, Up,
};
use mpd_wire::{DaemonName, Rank, RankSet};

pub(super) use self::console::Console;
pub(super) use self::daemon::{Daemon, DaemonMessage, HandOver, Passed};
use self::pids::Pids;
pub(super) use self::trace::Trace;
use super::context::{Job, Turn};
use super::event::{Event, ForLinks, ForStdio, Mark};

/// Ends per message, so that a frame stays far below its limit.
const ENDS_PER_MESSAGE: usize = 4096;

/// Most unread bytes of a console before ends of spawned ranks, and lines for the user, are left out.
const MAX_UNREPORTED: usize = 16 << 20;

/// The time between two attempts to find a daemon.
const REGISTER_INTERVAL: Duration = Duration::from_secs(1);

/// How long the end of a job waits for the daemon's report of the launch, if the user wants the timeline.
const LAUNCHED_PATIENCE: Duration = Duration::from_secs(2);

/// How long the end of a job waits for its daemon to read the last events.
const EVENTS_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Look for a daemon.
    Daemon,
    /// Stop waiting for the daemon's report of the launch.
    Launched,
    /// Stop waiting for the daemon to read the last events.
    Events,
}

/// The connections to console and daemon, and the state of the reports.
#[derive(Debug)]
pub(super) struct Upstream {
    console: Console,
    daemon: Daemon,
    pids: Pids,
    trace: Trace,
    /// Forwarding steps of the launch, as the daemon reported.
    hops: Option<u32>,
    /// Notices of the placement, for the console.
    notices: Vec<Notice>,
    /// Number of ends of spawned ranks that were left out, since the console did not read.
    ends_left_out: u64,
    /// The same for lines for the user.
    notices_left_out: u64,
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
            // Only the root has all process ids.
            pids: Pids::of(if is_root { size } else { 0 }, is_root && job.spec.report_ends),
            trace,
            hops: None,
            notices: job.order.notices.clone(),
            ends_left_out: 0,
            notices_left_out: 0,
            finishing: None,
            timers: Timers::default(),
        }
    }

    /// Has the poll report the console. Looks for a daemon if the first one has died.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn begin(&mut self, now: Time, registry: &Registry) -> std::io::Result<()> {
        if !self.daemon.is_connected() {
            // The daemon died during the wait for the specification.
            self.timers.set(Timer::Daemon, now + REGISTER_INTERVAL);
        }
        self.console.watch(registry)
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

    /// Whether messages for the console are still queued, or the job's last events for the daemon.
    pub(super) fn waits(&self) -> bool {
        self.console.waits() || (self.timers.is_set(Timer::Events) && self.daemon.waits())
    }

    /// Writes what is queued, and has the poll report when the rest can be written.
    pub(super) fn flush(&mut self, registry: &Registry) {
        self.console.flush();
        self.console.watch_writing(registry);
        self.daemon.flush();
        self.daemon.watch_writing(registry);
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.next().into_iter().chain(self.daemon.next_sign()).min()
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now();
        if self.daemon.give_sign(now) {
            self.console.report(&JobNews::Begun { manager: std::process::id() });
        }
        while let Some(timer) = self.timers.pop_expired(now) {
            match timer {
                Timer::Daemon => self.look_for_daemon(turn),
                Timer::Launched => self.finish_late(turn),
                Timer::Events => {}
            }
        }
    }

    // ----- from the console -----

    pub(super) fn serve_console(&mut self, turn: &mut Turn<'_>) {
        if !self.console.has_work() {
            return;
        }
        let (received, open) = self.console.receive();
        for message in received {
            match message {
                console::ConsoleMessage::Input(input) => match input_of(input) {
                    Some(input) => turn.report(Event::Input(input)),
                    None => self.console.report(&JobNews::Echo),
                },
                console::ConsoleMessage::Stdin(bytes) => turn.report(ForStdio::Stdin(bytes)),
                console::ConsoleMessage::Unknown(kind) => {
                    let release = env!("CARGO_PKG_VERSION");
                    let text = format!(
                        "the job's manager of release {release} does not know the order '{kind}'"
                    );
                    self.report_notice(text);
                }
            }
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
        let (messages, is_connected) = self.daemon.receive();
        for message in messages {
            match message {
                DaemonMessage::Link(fd, hello) => turn.report(ForLinks::Connected(fd, hello)),
                DaemonMessage::Order(order) => self.take_order(turn, order),
            }
        }
        if is_connected {
            return;
        }
        if self.daemon.refused {
            log::warn!("the new daemon does not know this job; the job continues without a daemon");
        } else {
            log::info!("the daemon is gone");
            self.timers.set(Timer::Daemon, turn.now() + REGISTER_INTERVAL);
            turn.report(ForLinks::DaemonGone);
        }
    }

    fn take_order(&mut self, turn: &mut Turn<'_>, order: ManagerOrder) {
        turn.report(match order {
            ManagerOrder::Kill => Event::Input(Input::Kill),
            ManagerOrder::Job(order) => Event::Order(order),
            ManagerOrder::Missing { members } => Event::Input(Input::Missing(members)),
            ManagerOrder::HostsChanged { changes, found } => {
                Event::Input(Input::HostsChanged { changes, found })
            }
            ManagerOrder::ManagerEnded { member, end } => {
                Event::Input(Input::ManagerEnded(member, end))
            }
            ManagerOrder::ReportEvents => Event::Input(Input::ReportEvents),
            ManagerOrder::CountOutput => ForStdio::CountOutput.into(),
            ManagerOrder::State { request } => Event::State(request),
            ManagerOrder::Placed { request, outcome } => {
                Event::Input(Input::Spawn(SpawnInput::Placed(request, outcome)))
            }
            ManagerOrder::Named { request, answer } => {
                clients::Input::Named(request, answer).into()
            }
            ManagerOrder::Met { request, answer } => {
                clients::Input::Meeting(mpd_meeting::Input::Answer(request, answer)).into()
            }
            ManagerOrder::Passed { from, payload } => {
                clients::Input::Meeting(mpd_meeting::Input::Passed(from, payload)).into()
            }
            ManagerOrder::NameLost { name, to } => clients::Input::NameLost(name, to).into(),
            ManagerOrder::NameRefused(refusal) => clients::Input::NameRefused(refusal).into(),
            ManagerOrder::Launched { scatter, depth } => {
                return self.launched(turn, scatter, depth);
            }
            // The first has been carried out before, and the second came with a connection.
            ManagerOrder::Start(_) | ManagerOrder::Link { .. } => return,
            // The connection has noted it.
            ManagerOrder::Refused { .. } => return,
        });
    }

    /// Registers with the daemon of this ring, or tries again after [`REGISTER_INTERVAL`].
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

    pub(super) fn send_to_console(&mut self, news: &JobNews) {
        self.console.report(news);
    }

    pub(super) fn send_to_daemon(&mut self, report: &ManagerReport) {
        self.daemon.report(report);
    }

    /// Reports the start to the console. Must be called before any manager gets the command to start its ranks.
    /// Output of a rank can make the user send a signal. Without this report the console would submit the job again
    /// if this manager died.
    pub(super) fn report_started(&mut self, turn: &Turn<'_>) {
        let StartJob { job, host, .. } = &turn.job.order;
        self.console.report(&JobNews::Started {
            job: job.clone(),
            host: host.clone(),
            manager: std::process::id(),
        });
        self.console.flush();
    }

    pub(super) fn report_failed(
        &mut self,
        turn: &Turn<'_>,
        host: Option<DaemonName>,
        failure: Failure,
    ) {
        let host = host.map_or_else(|| turn.job.order.host.clone(), |name| name.to_string());
        self.console.report(&JobNews::Failed { host, failure });
    }

    pub(super) fn report_crashed(&mut self, rank: Rank, crash: Crash) {
        self.console.report(&JobNews::Crashed { rank, crash });
    }

    /// Bytes that the console has not accepted yet.
    pub(super) fn console_waiting(&self) -> usize {
        self.console.waiting()
    }

    /// Sends a line for the user. Ranks of any host may cause such lines, and the console may read none.
    pub(super) fn report_notice(&mut self, text: String) {
        if self.console.waiting() > MAX_UNREPORTED {
            self.notices_left_out += 1;
            return;
        }
        self.report_left_out();
        self.console.report(&JobNews::Notice(Notice::major(text)));
    }

    fn report_left_out(&mut self) {
        let count = std::mem::take(&mut self.notices_left_out);
        if count > 0 {
            let text = format!("{count} lines were left out here, since mpirun did not take them");
            self.console.report(&JobNews::Notice(Notice::major(text)));
        }
    }

    /// Sends the notices of the placement to the user, before the ranks of this host are started.
    pub(super) fn go(&mut self, turn: &Turn<'_>) {
        self.trace.go(turn.now());
        for notice in std::mem::take(&mut self.notices) {
            self.console.report(&JobNews::Notice(notice));
        }
    }

    // ----- processes and ends of ranks -----

    /// Stores the processes of ranks; only the root has all.
    pub(super) fn learn_pids(&mut self, turn: &mut Turn<'_>, pids: Vec<(Rank, u32)>) {
        if self.pids.store(&pids) {
            self.report_processes(turn);
        }
        turn.report(ForStdio::Running(pids));
    }

    /// At the root: reports events of the job to the daemon.
    pub(super) fn report_events(&mut self, events: Vec<Recorded>) {
        let event = |Recorded { number, at, change }| JobEvent {
            number,
            at_us: self.trace.wall_at(at),
            change,
        };
        let events = events.into_iter().map(event).collect();
        self.daemon.report(&ManagerReport::Events { events });
    }

    /// Reports the process of each rank, for debuggers that find the job through its console.
    fn report_processes(&mut self, turn: &Turn<'_>) {
        for host_slice in turn.job.order.host_slices.iter() {
            let all: Vec<Rank> =
                host_slice.ranks.ranks().filter(|&rank| self.pids.get(rank) != 0).collect();
            for part in all.chunks(MAX_RUN) {
                self.console.report(&JobNews::Processes {
                    host: host_slice.member.clone(),
                    ranks: part.iter().copied().collect(),
                    pids: part.iter().map(|&rank| self.pids.get(rank)).collect(),
                });
            }
        }
    }

    /// At the root: reports the ends of the ranks of a spawned world.
    pub(super) fn world_ended(&mut self, turn: &mut Turn<'_>, ended: &WorldEnds) {
        turn.report(ForStdio::Unreported(ended.unreported()));
        if turn.job.spec.report_ends {
            self.report_ends(turn, ended);
        }
        self.pids.forget(&ended.world);
    }

    fn report_ends(&mut self, turn: &Turn<'_>, ended: &WorldEnds) {
        if self.console.waiting() > MAX_UNREPORTED {
            self.ends_left_out += u64::from(ended.world.size);
            return;
        }
        for (tree_index, ranks) in &ended.parts.0 {
            let host = turn.job.host_at(*tree_index as usize);
            let end = |rank: Rank| (self.pids.get(rank), ended.end_of(rank));
            let news = ends_of(&host, Some(ended.world), ranks, end);
            news.iter().for_each(|news| self.console.report(news));
        }
    }

    /// Sends the last message, after nothing of the job is left on any host. `ends` are those of the first world,
    /// if they are to be reported.
    pub(super) fn finish(&mut self, turn: &mut Turn<'_>, code: u8, ends: Vec<RankEnd>) {
        self.finishing = Some((code, ends));
        if turn.job.spec.trace && self.hops.is_none() && turn.job.order.host_slices.len() > 1 {
            self.timers.set(Timer::Launched, turn.now() + LAUNCHED_PATIENCE);
        } else {
            self.finish_late(turn);
        }
    }

    /// Sends the last message without a further wait.
    fn finish_late(&mut self, turn: &mut Turn<'_>) {
        let Some((code, ends)) = self.finishing.take() else { return };
        self.timers.stop(Timer::Launched);
        let host_slices = &turn.job.order.host_slices;
        if turn.job.spec.trace {
            self.console.report(&JobNews::Hops {
                hosts: u32::try_from(host_slices.len()).unwrap_or(u32::MAX),
                scatter: self.hops,
                tree: host_slices.subtree_depth(0),
            });
        }
        self.report_left_out();
        if turn.job.spec.report_ends {
            if self.ends_left_out > 0 {
                self.console.report(&JobNews::EndsLeftOut { ranks: self.ends_left_out });
            }
            let end_of =
                |rank: Rank| ends.get(rank.index()).copied().unwrap_or(RankEnd::NotStarted);
            let end = |rank: Rank| (self.pids.get(rank), end_of(rank));
            for host_slice in host_slices.iter() {
                let news = ends_of(&host_slice.member.to_string(), None, &host_slice.ranks, end);
                news.iter().for_each(|news| self.console.report(news));
            }
        }
        self.console.report(&JobNews::Ended { code });
        if self.daemon.waits() {
            self.timers.set(Timer::Events, turn.now() + EVENTS_PATIENCE);
        }
        turn.report(Event::Over(code));
    }

    /// Closes the connection to the console, which has all messages, and sends the last report to the daemon.
    pub(super) fn end(&mut self, code: u8, unlinked: bool) {
        self.console.close();
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

    /// Sends the spans. Only the end of this manager is reported after them.
    pub(super) fn end_trace(&mut self, turn: &mut Turn<'_>) {
        if turn.job.spec.trace {
            let spans = self.trace.take(turn.now());
            self.pass_spans(turn, turn.job.order.tree_index, &spans);
        }
    }

    /// Takes spans of a manager in the subtree of `child`.
    pub(super) fn take_spans(
        &mut self,
        turn: &mut Turn<'_>,
        (child, tree_index): (usize, u32),
        times: (u64, u64),
        spans: Vec<Span>,
    ) {
        let job = turn.job;
        if job.spec.trace && job.order.host_slices.subtree(child).contains(&(tree_index as usize)) {
            let spans = self.trace.translated(turn.now(), child, times, spans);
            self.pass_spans(turn, tree_index, &spans);
        }
    }

    fn pass_spans(&mut self, turn: &mut Turn<'_>, tree_index: u32, spans: &[Span]) {
        let Some(host_slice) = turn.job.order.host_slices.get(tree_index as usize) else { return };
        for spans in spans.chunks(MAX_SPANS) {
            let spans = spans.to_vec();
            if turn.job.is_root() {
                self.console.report(&JobNews::Trace { host: host_slice.member.clone(), spans });
            } else {
                let (received_us, reported_us) =
                    (self.trace.go_us(), self.trace.wall_at(turn.now()));
                turn.report(ForLinks::UpIfRoom(Up::Trace {
                    tree_index,
                    received_us,
                    reported_us,
                    spans,
                }));
            }
        }
    }

    /// Takes the daemon's report of the launch.
    fn launched(&mut self, turn: &mut Turn<'_>, scatter: Span, depth: u32) {
        self.hops = Some(depth);
        if turn.job.spec.trace {
            self.pass_spans(turn, turn.job.order.tree_index, &[scatter]);
        }
        self.finish_late(turn);
    }
}

/// The input for the job's machine; `None` for an echo.
fn input_of(input: JobInput) -> Option<Input> {
    Some(match input {
        JobInput::Signal { signal } => Input::Signal(signal),
        JobInput::Resize { columns, lines } => Input::Resize(columns, lines),
        JobInput::Interrupt => Input::Interrupt,
        JobInput::HangUp => Input::HangUp,
        JobInput::Suspend => Input::Suspend,
        JobInput::Resume => Input::Resume,
        JobInput::Debug { ranks, line } => Input::Debug(ranks, line),
        JobInput::Restart => Input::Restart,
        JobInput::GoOn => Input::GoOn,
        JobInput::Echo => return None,
    })
}

/// The ends of ranks of one host for the console; `end` returns the process id and the end of a rank.
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
