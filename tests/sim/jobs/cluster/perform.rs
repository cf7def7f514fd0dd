//! The outputs of managers, applied to hosts and links.

use super::super::{SIGHUP, SIGINT, SIGTERM};
use super::Cluster;
use super::links::Message;
use super::tasks::Task;
use mpd_clients::{FromJob, Input};
use mpd_job::manager::Output;
use mpd_wire::message::Down;
use mpd_wire::{Rank, RankSet};
impl Cluster {
    pub(super) fn perform_outputs(&mut self, tree_index: usize) {
        while let Some(output) = self.hosts[tree_index].manager.next(self.now) {
            self.note(tree_index, '<', &output);
            self.perform(tree_index, output);
        }
    }

    pub(super) fn signal_ranks(&mut self, tree_index: usize, signal: u8) {
        let host = &mut self.hosts[tree_index];
        if matches!(signal, SIGHUP | SIGINT | SIGTERM) {
            for process in host.processes.values_mut() {
                // Some ignore the signal.
                if !self.dice.one_in(4) {
                    process.doomed = Some(signal);
                }
            }
        }
    }

    pub(super) fn release_fence(&mut self, tree_index: usize, first: Rank) {
        if tree_index == 0 && first == Rank(0) {
            self.releases += 1;
            (self.at_release)(self);
        }
        if self.hosts[tree_index].speakers.is_some() {
            return self.give(tree_index, Input::Job(FromJob::ReleaseFence(first)));
        }
        let here = self.hosts[tree_index].parts.get(&first).cloned();
        let here = here.unwrap_or_else(|| RankSet::below(self.size));
        let processes = self.hosts[tree_index].processes.iter_mut();
        let released = processes.filter(|(rank, _)| here.contains(Rank(**rank)));
        released.for_each(|(_, process)| process.inside = false);
    }

    /// A spawn without an answer of a daemon is refused only if no daemon has answered in time. An answer is for its own
    /// question, so it places all processes.
    fn check_notice(&self, text: &str) {
        assert!(self.unanswered || !text.contains("does not answer"), "{text}");
        assert!(!text.contains("has not placed all"), "{text}");
    }

    fn finish(&mut self, tree_index: usize) {
        (self.at_finish)(self);
        self.leave(tree_index);
    }

    pub(super) fn perform(&mut self, tree_index: usize, output: Output) {
        let Some(output) = self.perform_by_clients(tree_index, output) else { return };
        let host = &mut self.hosts[tree_index];
        match output {
            Output::Go => {
                assert!(self.started, "the console must know before ranks run");
                host.went = true;
                self.give_task(tree_index, Task::Spawn);
            }
            Output::ToChildren(down) => {
                let tree_indices = self.host_slices.children(tree_index).collect();
                self.send_down(tree_indices, &down);
            }
            Output::ToParent(up) => self.send_to_parent(tree_index, up),
            Output::SignalRanks(signal) | Output::SignalProcesses(signal) => {
                self.signal_ranks(tree_index, signal);
            }
            Output::StopTree => {
                host.stopped = true;
                self.give_task(tree_index, Task::Stop);
            }
            Output::ContinueTree => host.stopped = false,
            Output::KillTree => {
                host.owed.retain(|task| !matches!(task, Task::Prepare(_) | Task::Begin(_)));
                host.owed.remove(&Task::Spawn);
                self.give_task(tree_index, Task::Kill);
            }
            Output::ReleaseFence(first) => self.release_fence(tree_index, first),
            Output::ReleaseGroup(..) => {}
            Output::Drain => self.give_task(tree_index, Task::Drain),
            Output::DiscardOutput => {
                if tree_index == 0 {
                    self.reader_stopped = false;
                }
            }
            Output::CleanUp => self.give_task(tree_index, Task::CleanUp),
            Output::ReportFailed { host, failure } => self.reported_failures.push((host, failure)),
            Output::ToSome(tree_indices, down) => self.send_down(tree_indices, &down),
            Output::ReportStarted => {
                let under_way = self
                    .hosts
                    .iter()
                    .any(|host| host.from_parent.contains(&Message::Control(Down::Go)));
                assert!(!under_way, "the console must know before all others");
                self.started = true;
            }
            Output::Withdraw => {
                self.withdrawn = true;
                self.finish(tree_index);
            }
            Output::ReportNotice(text) => self.check_notice(&text),
            Output::Interrupt(..)
            | Output::Dead(_)
            | Output::ReadPmi
            | Output::ReleaseCrashed
            | Output::GiveUp(_)
            | Output::ReportSuspended
            | Output::Pids(_)
            | Output::Events(_) => {}
            Output::Finish(code) => {
                assert_eq!(self.finish.replace(code), None, "only once");
                self.finish(tree_index);
            }
            Output::Leave => self.leave(tree_index),
            output => self.perform_world(tree_index, output),
        }
    }
}
