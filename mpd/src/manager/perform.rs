//! One match: every output of the job's machine, performed.

use std::path::PathBuf;

use mpd_io::rundir::RunDir;
use mpd_io::tree;
use mpd_proto::Rank;
use mpd_proto::job::Failure;
use mpd_proto::manager::{Input, Output};
use mpd_proto::message::{JobNews, Phase, StartJob};
use mpd_proto::ring::DaemonName;
use nix::sys::signal::Signal;

use super::{Process, Timer};

/// Ends per message, so that a frame stays far below its bound.
const ENDS_PER_MESSAGE: usize = 4096;

impl Process {
    pub(super) fn perform_outputs(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            self.perform(output);
        }
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Go => self.go(),
            Output::SignalRanks(number) => {
                // Many a rank does not survive it.
                self.tidy.shm.note();
                if let Ok(signal) = Signal::try_from(i32::from(number)) {
                    self.clients.started().for_each(|(_, client)| client.signal(signal));
                }
            }
            Output::StopTree => {
                tree::stop_descendants();
                self.timers.set(Timer::Stopping(0), self.now());
            }
            Output::ContinueTree => tree::continue_descendants(),
            Output::KillTree => self.kill_tree(),
            Output::ReleaseFence => self.release_fence(),
            Output::ToChildren(word) => self.send_down(&word),
            Output::ToParent(word) => self.send_up(word),
            Output::Pids(pids) => self.learn_pids(&pids),
            Output::TellNotice(text) => self.console.tell(&JobNews::Notice { text }),
            Output::TellFailed { host, failure } => self.tell_failed(host, failure),
            Output::TellSuspended => self.console.tell(&JobNews::Suspended),
            Output::Drain => {
                self.begin_span(Phase::Drain, None);
                self.start_draining();
            }
            Output::DiscardOutput => self.discard_output(),
            Output::Tidy => self.tidy_up(),
            Output::Finish(code) => self.finish(code),
            Output::Leave => self.over = Some(0),
        }
    }

    /// Everybody is ready: the ranks of this host are started turn by turn.
    fn go(&mut self) {
        self.end_span(Phase::Ready, None);
        self.begin_span(Phase::Go, None);
        self.trace.note_go(self.clock.now());
        let StartJob { job, host, .. } = self.order.clone();
        self.console.tell(&JobNews::Started { job, host });
        self.offer_credit();
        self.starting = Some(0);
        self.timers.set(Timer::Shm(0), self.now() + super::FIRST_LOOK);
    }

    fn kill_tree(&mut self) {
        self.staging = None;
        self.starting = None;
        self.killing = true;
        self.begin_span(Phase::Kill, None);
        self.tidy.note();
        if let Some(group) = &self.cgroup {
            group.kill();
        }
        self.kill_round();
    }

    fn tell_failed(&mut self, host: Option<DaemonName>, failure: Failure) {
        let own = self.order.shares.get(0).map(|share| &share.member);
        let host = match host {
            Some(name) if Some(&name) != own => name.to_string(),
            _ => self.order.host.clone(),
        };
        self.console.tell(&JobNews::Failed { host, failure });
    }

    /// No process of the job lives here: what else it left goes.
    fn tidy_up(&mut self) {
        self.begin_span(Phase::Tidy, None);
        self.tidy.remove();
        if let Some(group) = self.cgroup.take() {
            let _ = group.remove();
        }
        if let Some(rundir) = &self.order.rundir {
            // Nothing is left that a later daemon would have to know.
            let rundir = RunDir::at(PathBuf::from(rundir));
            let _ = std::fs::remove_file(rundir.record(&self.order.job));
        }
        self.end_span(Phase::Tidy, None);
        self.tell_trace();
        self.tell(Input::Tidied);
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
            let ranks = (0..).map(Rank).zip(&self.pids);
            let ends: Vec<_> = ranks.map(|(rank, &pid)| (pid, self.machine.end_of(rank))).collect();
            let firsts = (0..self.spec.size()).step_by(ENDS_PER_MESSAGE);
            for (first, part) in firsts.zip(ends.chunks(ENDS_PER_MESSAGE)) {
                self.console.tell(&JobNews::Ends { first: Rank(first), ends: part.to_vec() });
            }
        }
        self.console.tell(&JobNews::Ended { code });
        self.over = Some(code);
    }
}
