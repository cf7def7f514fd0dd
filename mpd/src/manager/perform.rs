//! One match: every output of the job's machine, performed.

use std::path::PathBuf;

use mpd_io::cgroup::Cgroup;
use mpd_io::rundir::RunDir;
use mpd_io::{priority, tree};
use mpd_job::manager::{Input, Output};
use mpd_placement::rank_map;
use mpd_wire::job::{Failure, Notice, RankEnd, World, exit};
use mpd_wire::message::{Down, JobNews, MAX_RUN, Phase, StartJob};
use mpd_wire::{DaemonName, Rank, RankSet};

use super::branches::End;
use super::deadly::Whom;
use super::{Process, Timer};

/// Ends per message, so that a frame stays far below its bound.
const ENDS_PER_MESSAGE: usize = 4096;

impl Process {
    /// Performs one output. What follows from it for the machine is posted.
    pub(super) fn perform(&mut self, output: Output) {
        match output {
            Output::TellStarted => self.tell_started(),
            Output::Go => self.go(),
            Output::SignalRanks(number) => self.signal(number.into(), Whom::Group),
            Output::SignalProcesses(number) => self.signal(number.into(), Whom::Process),
            Output::Resize(columns, lines) => {
                if let Some(window) = &self.window {
                    window.set((columns, lines));
                }
                self.signal(libc::SIGWINCH, Whom::Group);
            }
            Output::StopTree => {
                self.stopping = true;
                tree::stop_descendants();
                self.timers.set(Timer::Stopping(0), self.now());
            }
            Output::ContinueTree => self.continue_tree(),
            Output::LetGo => {
                self.held = false;
                self.talking.extend(self.clients.started().map(|(rank, _)| rank));
                self.let_crashed_go();
            }
            Output::KillTree => self.kill_tree(),
            Output::ReleaseFence(first) => self.release_fence(first),
            Output::ReleaseGroup(first, group) => self.release_group(first, &group),
            Output::ToChildren(word) => {
                if word == Down::Go {
                    self.trace.go(self.now());
                }
                self.send_down(&word);
            }
            Output::ToSome(places, word) => self.send_to(&places, &word),
            Output::Grow(from, shares) => self.grow(from, shares),
            Output::Prepare(world, parts) => self.prepare_world(world, &parts),
            Output::StartWorld(first) => self.start_world(first),
            Output::EndWorld(first) => self.end_world(first),
            Output::ForgetWorld(first) => self.forget_world(first),
            Output::WorldEnded(ended) => self.world_ended(&ended),
            Output::Spawned(rank, outcome) => self.spawn_answered(rank, &outcome),
            Output::Interrupt(rank, signal) => self.interrupt_rank(rank, signal),
            Output::Dead(rank) => self.note_dead(rank),
            Output::Debug(ranks, line) => self.tell_debuggers(&ranks, &line),
            Output::Restart => self.restart(),
            Output::TellCrashed(rank, crash) => {
                self.console.tell(&JobNews::Crashed { rank, crash });
            }
            Output::TellRestarted => self.console.tell(&JobNews::Restarted),
            Output::GiveUp(place) => self.give_up_below(place),
            Output::ToParent(word) => self.send_up(word),
            Output::Pids(pids) => self.learn_pids(&pids),
            Output::TellNotice(text) => {
                self.console.tell(&JobNews::Notice(Notice::major(text)));
            }
            Output::TellFailed { host, failure } => self.tell_failed(host, failure),
            Output::TellSuspended => self.console.tell(&JobNews::Suspended),
            Output::Drain => {
                self.begin_span(Phase::Drain, None);
                self.start_draining();
            }
            Output::DiscardOutput => self.discard_output(),
            Output::Tidy => self.tidy_up(),
            Output::Finish(code) => self.finish(code),
            Output::Withdraw => self.over = Some(exit::SUITE),
            Output::Leave => {
                self.branches.close(End::Parent);
                self.over = Some(0);
            }
        }
    }

    /// No manager has been told to start its ranks yet. What a rank says can make the user send a signal, and
    /// without this word the console submits the job once more if we die.
    fn tell_started(&mut self) {
        let StartJob { job, host, .. } = &self.order;
        self.console.tell(&JobNews::Started { job: job.clone(), host: host.clone() });
        self.console.flush();
    }

    /// Everybody is ready: the ranks of this host are started turn by turn.
    fn go(&mut self) {
        self.trace.go(self.now());
        self.tell_where();
        self.offer_credit();
        self.tell_niceness();
        self.start_world(Rank(0));
        if !self.is_root() && !self.order.shares.children(self.order.place as usize).is_empty() {
            // When those below begin, only the root learns.
            self.expect_all();
        }
        self.timers.set(Timer::Shm(0), self.now() + super::FIRST_LOOK);
        self.watch_loners();
    }

    /// The user hears of a niceness that the ranks of this host cannot have.
    fn tell_niceness(&mut self) {
        let Some(wanted) = self.spec.niceness.filter(|&nice| !priority::may_have(nice)) else {
            return;
        };
        let own = priority::niceness().unwrap_or(0).max(0);
        let text = format!(
            "host {}: ranks have niceness {own}: the daemon there is not permitted to give them mpirun's, {wanted}",
            self.order.host
        );
        self.post(Input::Notice(text));
    }

    /// What the user hears of placement. The map stands before all that ranks print.
    fn tell_where(&mut self) {
        for notice in std::mem::take(&mut self.order.notices) {
            self.console.tell(&JobNews::Notice(notice));
        }
        if self.order.place == 0 && self.spec.placement.print_rank_map {
            let hosts = self.order.shares.iter().map(|share| (&share.member, &share.ranks));
            self.outputs.say(&format!("{}\n", rank_map(hosts)));
        }
    }

    fn tell_failed(&mut self, host: Option<DaemonName>, failure: Failure) {
        let host = host.map_or_else(|| self.order.host.clone(), |name| name.to_string());
        self.console.tell(&JobNews::Failed { host, failure });
    }

    /// No process of the job lives here: what else it left goes.
    fn tidy_up(&mut self) {
        self.begin_span(Phase::Tidy, None);
        self.tidy_shm();
    }

    pub(super) fn tidied(&mut self) {
        self.end_span(Phase::Tidy, None);
        self.tell_trace();
        self.post(Input::Tidied);
    }

    /// Which process runs each rank, for debuggers that find the job through its console.
    pub(super) fn tell_processes(&mut self) {
        for share in self.order.shares.iter() {
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

    /// The last words, when nothing of the job is left anywhere.
    pub(super) fn finish(&mut self, code: u8) {
        if self.awaits_launched(code) {
            return;
        }
        if self.spec.trace {
            self.console.tell(&self.tell_hops());
        }
        if self.spec.report_ends {
            if self.ends_left_out > 0 {
                self.console.tell(&JobNews::EndsLeftOut { ranks: self.ends_left_out });
            }
            let end = |rank: Rank| (self.pids.get(rank), self.pump.machine().end_of(rank));
            for share in self.order.shares.iter() {
                let news = ends_of(&share.member.to_string(), None, &share.ranks, end);
                news.iter().for_each(|news| self.console.tell(news));
            }
        }
        self.console.tell(&JobNews::Ended { code });
        self.over = Some(code);
    }
}

/// What the console is told of the ends of ranks of one host; `end` knows the process id and the end of each.
pub(super) fn ends_of(
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

/// Nothing is left that a later daemon would have to know.
pub(super) fn forget(order: &StartJob, cgroup: Option<Cgroup>) {
    if let Some(group) = cgroup {
        let _ = group.remove();
    }
    if let Some(rundir) = &order.rundir {
        let rundir = RunDir::at(PathBuf::from(rundir));
        let _ = std::fs::remove_file(rundir.record(&order.job));
    }
}
