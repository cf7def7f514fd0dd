//! The reports to the console and to the daemon. They cover the start of the job, the processes and ends of its ranks, and
//! the timeline of its launch.
//!
//! | module | has |
//! |---|---|
//! | [`ends`], [`pids`] | the end and the process of each rank |
//! | [`sign`] | the sign of life for the daemon |
//! | [`trace`] | the spans of the timeline |

mod ends;
mod pids;
mod sign;
mod trace;

use std::time::Duration;

use mpd_clients::Job;
use mpd_events::Recorded;
use mpd_job::manager::WorldEnds;
use mpd_sansio::{Time, Timers};
use mpd_stdio::machine::Input as Stdio;
use mpd_wire::job::{Failure, Notice, RankEnd};
use mpd_wire::message::{
    JobEvent, JobNews, MAX_RUN, MAX_SPANS, ManagerReport, Phase, Span, StartJob, Up,
};
use mpd_wire::{DaemonName, Rank};

use self::ends::ends_of;
use self::pids::Pids;
pub use self::sign::Sign;
pub use self::trace::Trace;
use crate::event::{Event, Mark};
use crate::output::Output;
use crate::turn::Turn;

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

/// What the manager has before it knows its job.
#[derive(Debug)]
pub struct Beginning {
    /// The number of this process.
    pub manager: u32,
    pub trace: Trace,
    pub sign: Sign,
    /// Whether the daemon lives. It may have died during the wait for the specification.
    pub has_daemon: bool,
}

/// The state of the reports.
#[derive(Debug)]
pub(crate) struct Upstream {
    manager: u32,
    pids: Pids,
    trace: Trace,
    sign: Sign,
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
    /// The exit code, once the last message was sent.
    over: Option<u8>,
}

impl Upstream {
    /// The reports of a job that begins now.
    pub(crate) fn new(now: Time, job: &Job, beginning: Beginning) -> Self {
        let (size, is_root) = (job.spec.size(), job.is_root());
        let Beginning { manager, trace, sign, has_daemon } = beginning;
        let mut timers = Timers::default();
        if !has_daemon {
            timers.set(Timer::Daemon, now + REGISTER_INTERVAL);
        }
        Self {
            manager,
            // Only the root has all process ids.
            pids: Pids::of(if is_root { size } else { 0 }, is_root && job.spec.report_ends),
            trace,
            sign,
            hops: None,
            notices: job.order.notices.clone(),
            ends_left_out: 0,
            notices_left_out: 0,
            finishing: None,
            timers,
            over: None,
        }
    }

    /// The exit code, once everything is over.
    pub(crate) const fn over(&self) -> Option<u8> {
        self.over
    }

    /// Ends this manager.
    pub(crate) fn end(&mut self, code: u8) {
        self.over = Some(code);
    }

    /// Whether the end of the job waits for its daemon to read the last events.
    pub(crate) fn awaits_daemon(&self) -> bool {
        self.timers.is_set(Timer::Events)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.timers.next().into_iter().chain(self.sign.at()).min()
    }

    pub(crate) fn expire(&mut self, turn: &mut Turn<'_>) {
        let now = turn.at.now;
        if self.sign.is_due(now) {
            turn.queue.daemon(ManagerReport::Begun);
            turn.queue.perform(Output::FlushDaemon);
            turn.queue.console(JobNews::Begun { manager: self.manager });
        }
        while let Some(timer) = self.timers.pop_expired(now) {
            match timer {
                Timer::Daemon if turn.job.order.rundir.is_some() => {
                    turn.queue.perform(Output::Register);
                }
                Timer::Launched => self.finish_late(turn),
                Timer::Daemon | Timer::Events => {}
            }
        }
    }

    /// Looks for a daemon after [`REGISTER_INTERVAL`].
    pub(crate) fn look_for_daemon(&mut self, now: Time) {
        self.timers.set(Timer::Daemon, now + REGISTER_INTERVAL);
    }

    /// Notes that the daemon gets a report.
    pub(crate) const fn note_report(&mut self) {
        self.sign.given();
    }

    // ----- the start, and lines for the user -----

    /// Reports the start to the console. Must be called before any manager gets the command to start its ranks.
    /// Output of a rank can make the user send a signal. Without this report the console would submit the job again
    /// if this manager died.
    pub(crate) fn report_started(&mut self, turn: &mut Turn<'_>) {
        let StartJob { job, host, .. } = &turn.job.order;
        turn.queue.console(JobNews::Started {
            job: job.clone(),
            host: host.clone(),
            manager: self.manager,
        });
        turn.queue.perform(Output::FlushConsole);
    }

    pub(crate) fn report_failed(
        &mut self,
        turn: &mut Turn<'_>,
        host: Option<DaemonName>,
        failure: Failure,
    ) {
        let host = host.map_or_else(|| turn.job.order.host.clone(), |name| name.to_string());
        turn.queue.console(JobNews::Failed { host, failure });
    }

    /// Sends a line for the user. Ranks of any host may cause such lines, and the console may read none.
    pub(crate) fn report_notice(&mut self, turn: &mut Turn<'_>, text: String) {
        if turn.at.facts.console_waiting() > MAX_UNREPORTED {
            self.notices_left_out += 1;
            return;
        }
        self.report_left_out(turn);
        turn.queue.notice(text);
    }

    fn report_left_out(&mut self, turn: &mut Turn<'_>) {
        let count = std::mem::take(&mut self.notices_left_out);
        if count > 0 {
            let text = format!("{count} lines were left out here, since mpirun did not take them");
            turn.queue.notice(text);
        }
    }

    /// Sends the notices of the placement to the user, before the ranks of this host are started.
    pub(crate) fn go(&mut self, turn: &mut Turn<'_>) {
        self.trace.go(turn.at.now);
        for notice in std::mem::take(&mut self.notices) {
            turn.queue.console(JobNews::Notice(notice));
        }
    }

    // ----- processes and ends of ranks -----

    /// Stores the processes of ranks; only the root has all.
    pub(crate) fn learn_pids(&mut self, turn: &mut Turn<'_>, pids: Vec<(Rank, u32)>) {
        if self.pids.store(&pids) {
            self.report_processes(turn);
        }
        turn.queue.perform(Stdio::Running(pids));
    }

    /// At the root: reports events of the job to the daemon.
    pub(crate) fn report_events(&mut self, turn: &mut Turn<'_>, events: Vec<Recorded>) {
        let event = |Recorded { number, at, change }| JobEvent {
            number,
            at_us: self.trace.wall_at(at),
            change,
        };
        let events = events.into_iter().map(event).collect();
        turn.queue.daemon(ManagerReport::Events { events });
    }

    /// Reports the process of each rank, for debuggers that find the job through its console.
    fn report_processes(&mut self, turn: &mut Turn<'_>) {
        for host_slice in turn.job.order.host_slices.iter() {
            let all: Vec<Rank> =
                host_slice.ranks.ranks().filter(|&rank| self.pids.get(rank) != 0).collect();
            for part in all.chunks(MAX_RUN) {
                turn.queue.console(JobNews::Processes {
                    host: host_slice.member.clone(),
                    ranks: part.iter().copied().collect(),
                    pids: part.iter().map(|&rank| self.pids.get(rank)).collect(),
                });
            }
        }
    }

    /// At the root: reports the ends of the ranks of a spawned world.
    pub(crate) fn world_ended(&mut self, turn: &mut Turn<'_>, ended: &WorldEnds) {
        turn.queue.perform(Stdio::Unreported(ended.unreported()));
        if turn.job.spec.report_ends {
            self.report_ends(turn, ended);
        }
        self.pids.forget(&ended.world);
    }

    fn report_ends(&mut self, turn: &mut Turn<'_>, ended: &WorldEnds) {
        if turn.at.facts.console_waiting() > MAX_UNREPORTED {
            self.ends_left_out += u64::from(ended.world.size);
            return;
        }
        for (tree_index, ranks) in &ended.parts.0 {
            let host = turn.job.host_at(*tree_index as usize);
            let end = |rank: Rank| (self.pids.get(rank), ended.end_of(rank));
            let news = ends_of(&host, Some(ended.world), ranks, end);
            news.into_iter().for_each(|news| turn.queue.console(news));
        }
    }

    /// Sends the last message, after nothing of the job is left on any host. `ends` are those of the first world,
    /// if they are to be reported.
    pub(crate) fn finish(&mut self, turn: &mut Turn<'_>, code: u8, ends: Vec<RankEnd>) {
        self.finishing = Some((code, ends));
        if turn.job.spec.trace && self.hops.is_none() && turn.job.order.host_slices.len() > 1 {
            self.timers.set(Timer::Launched, turn.at.now + LAUNCHED_PATIENCE);
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
            turn.queue.console(JobNews::Hops {
                hosts: u32::try_from(host_slices.len()).unwrap_or(u32::MAX),
                scatter: self.hops,
                tree: host_slices.subtree_depth(0),
            });
        }
        self.report_left_out(turn);
        if turn.job.spec.report_ends {
            if self.ends_left_out > 0 {
                turn.queue.console(JobNews::EndsLeftOut { ranks: self.ends_left_out });
            }
            let end_of =
                |rank: Rank| ends.get(rank.index()).copied().unwrap_or(RankEnd::NotStarted);
            let end = |rank: Rank| (self.pids.get(rank), end_of(rank));
            for host_slice in host_slices.iter() {
                let news = ends_of(&host_slice.member.to_string(), None, &host_slice.ranks, end);
                news.into_iter().for_each(|news| turn.queue.console(news));
            }
        }
        turn.queue.console(JobNews::Ended { code });
        if turn.at.facts.daemon_waits() {
            self.timers.set(Timer::Events, turn.at.now + EVENTS_PATIENCE);
        }
        self.over = Some(code);
    }

    // ----- the timeline -----

    pub(crate) fn mark(&mut self, mark: Mark, at: Time, phase: Phase, rank: Option<Rank>) {
        match mark {
            Mark::Begin => self.trace.begin(at, phase, rank),
            Mark::End => self.trace.end(at, phase, rank),
        }
    }

    pub(crate) fn go_passed_on(&mut self, at: Time) {
        self.trace.go(at);
    }

    /// Sends the spans. Only the end of this manager is reported after them.
    pub(crate) fn end_trace(&mut self, turn: &mut Turn<'_>) {
        if turn.job.spec.trace {
            let spans = self.trace.take(turn.at.now);
            self.pass_spans(turn, turn.job.order.tree_index, &spans);
        }
    }

    /// Takes spans of a manager in the subtree of `child`.
    pub(crate) fn take_spans(
        &mut self,
        turn: &mut Turn<'_>,
        (child, tree_index): (usize, u32),
        times: (u64, u64),
        spans: Vec<Span>,
    ) {
        let job = turn.job;
        if job.spec.trace && job.order.host_slices.subtree(child).contains(&(tree_index as usize)) {
            let spans = self.trace.translated(turn.at.now, child, times, spans);
            self.pass_spans(turn, tree_index, &spans);
        }
    }

    fn pass_spans(&mut self, turn: &mut Turn<'_>, tree_index: u32, spans: &[Span]) {
        let Some(host_slice) = turn.job.order.host_slices.get(tree_index as usize) else { return };
        for spans in spans.chunks(MAX_SPANS) {
            let spans = spans.to_vec();
            if turn.job.is_root() {
                turn.queue.console(JobNews::Trace { host: host_slice.member.clone(), spans });
            } else {
                let (received_us, reported_us) =
                    (self.trace.go_us(), self.trace.wall_at(turn.at.now));
                turn.queue.report(Event::UpIfRoom(Up::Trace {
                    tree_index,
                    received_us,
                    reported_us,
                    spans,
                }));
            }
        }
    }

    /// Takes the daemon's report of the launch.
    pub(crate) fn launched(&mut self, turn: &mut Turn<'_>, scatter: Span, depth: u32) {
        self.hops = Some(depth);
        if turn.job.spec.trace {
            self.pass_spans(turn, turn.job.order.tree_index, &[scatter]);
        }
        self.finish_late(turn);
    }
}
