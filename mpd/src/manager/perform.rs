//! One match: every output of the job's machine, performed.

use std::path::PathBuf;

use mpd_io::rundir::RunDir;
use mpd_io::tree;
use mpd_proto::Rank;
use mpd_proto::manager::{Input, Output};
use mpd_proto::message::JobNews;
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
            Output::Go => self.starting = Some(0),
            Output::SignalRanks(number) => {
                // Many a rank does not survive it.
                self.tidy.shm.note();
                if let Ok(signal) = Signal::try_from(i32::from(number)) {
                    self.clients.iter().for_each(|client| client.signal(signal));
                }
            }
            Output::StopTree => {
                tree::stop_descendants();
                self.timers.set(Timer::Stopping(0), self.now());
            }
            Output::ContinueTree => tree::continue_descendants(),
            Output::KillTree => {
                self.starting = None;
                self.killing = true;
                self.tidy.note();
                if let Some(group) = &self.cgroup {
                    group.kill();
                }
                self.kill_round();
            }
            Output::ReleaseFence => self.release_fence(),
            Output::TellFailed { host: _, failure } => {
                let host = self.order.host.clone();
                self.links.console.send(&JobNews::Failed { host, failure });
            }
            Output::TellSuspended => self.links.console.send(&JobNews::Suspended),
            Output::Drain => self.start_draining(),
            Output::DiscardOutput => self.outputs.discard(),
            Output::Tidy => {
                self.tidy.remove();
                if let Some(group) = self.cgroup.take() {
                    let _ = group.remove();
                }
                self.tell(Input::Tidied);
            }
            Output::Finish(code) => self.finish(code),
            Output::TellNotice(text) => self.links.console.send(&JobNews::Notice { text }),
            // There is no other host yet.
            Output::ToChildren(_) | Output::ToParent(_) | Output::Pids(_) | Output::Leave => {}
        }
    }

    /// The last words, when nothing of the job is left.
    fn finish(&mut self, code: u8) {
        if let Some(rundir) = &self.order.rundir {
            // Nothing is left that a later daemon would have to know.
            let rundir = RunDir::at(PathBuf::from(rundir));
            let _ = std::fs::remove_file(rundir.record(self.order.job.number()));
        }
        if self.spec.report_ends {
            let ends: Vec<_> = (0..self.spec.size())
                .map(|r| {
                    let pid = self.clients.get(Rank(r).index()).map_or(0, |c| c.number);
                    (pid, self.machine.end_of(Rank(r)))
                })
                .collect();
            let firsts = (0..self.spec.size()).step_by(ENDS_PER_MESSAGE);
            for (first, part) in firsts.zip(ends.chunks(ENDS_PER_MESSAGE)) {
                self.links.console.send(&JobNews::Ends { first: Rank(first), ends: part.to_vec() });
            }
        }
        self.links.console.send(&JobNews::Ended { code });
        self.over = Some(code);
    }
}
