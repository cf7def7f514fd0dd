//! What managers have the hosts and links do.

use super::super::{SIGHUP, SIGINT, SIGTERM};
use super::{Cluster, Task};
use mpd_job::manager::Output;
use mpd_wire::message::{Down, Up};
use mpd_wire::{Rank, RankSet};
impl Cluster {
    pub(super) fn perform_outputs(&mut self, place: usize) {
        while let Some(output) = self.hosts[place].manager.next(self.now) {
            self.note(place, '<', &output);
            self.perform(place, output);
        }
    }

    pub(super) fn signal_ranks(&mut self, place: usize, signal: u8) {
        let host = &mut self.hosts[place];
        if matches!(signal, SIGHUP | SIGINT | SIGTERM) {
            for process in host.processes.values_mut() {
                // Some do not care.
                if !self.dice.one_in(4) {
                    process.doomed = Some(signal);
                }
            }
        }
    }

    pub(super) fn release_fence(&mut self, place: usize, first: Rank) {
        if place == 0 && first == Rank(0) {
            self.releases += 1;
            (self.at_release)(self);
        }
        let here = self.hosts[place].parts.get(&first).cloned();
        let here = here.unwrap_or_else(|| RankSet::below(self.size));
        let processes = self.hosts[place].processes.iter_mut();
        let released = processes.filter(|(rank, _)| here.contains(Rank(**rank)));
        released.for_each(|(_, process)| process.inside = false);
    }

    pub(super) fn perform(&mut self, place: usize, output: Output) {
        let host = &mut self.hosts[place];
        match output {
            Output::Go => {
                assert!(self.started, "the console knows before ranks run");
                host.went = true;
                self.owe(place, Task::Spawn);
            }
            Output::ToChildren(down) => {
                let places = self.shares.children(place).collect();
                self.send_down(places, &down);
            }
            Output::ToParent(up) => {
                self.entries += usize::from(matches!(up, Up::Entered { .. }));
                if host.linked {
                    host.to_parent.push_back(up);
                }
            }
            Output::SignalRanks(signal) | Output::SignalProcesses(signal) => {
                self.signal_ranks(place, signal);
            }
            Output::StopTree => {
                host.stopped = true;
                self.owe(place, Task::Stop);
            }
            Output::ContinueTree => host.stopped = false,
            Output::KillTree => {
                host.owed.retain(|task| !matches!(task, Task::Prepare(_) | Task::Begin(_)));
                host.owed.remove(&Task::Spawn);
                self.owe(place, Task::Kill);
            }
            Output::ReleaseFence(first) => self.release_fence(place, first),
            Output::ReleaseGroup(..) => {}
            Output::Drain => self.owe(place, Task::Drain),
            Output::DiscardOutput => {
                if place == 0 {
                    self.reader_stopped = false;
                }
            }
            Output::Tidy => self.owe(place, Task::Tidy),
            Output::TellFailed { host, failure } => self.told.push((host, failure)),
            Output::ToSome(places, down) => self.send_down(places, &down),
            Output::TellStarted => {
                let under_way = self.hosts.iter().any(|host| host.from_parent.contains(&Down::Go));
                assert!(!under_way, "the console knows before all others");
                self.started = true;
            }
            Output::Withdraw => {
                self.withdrawn = true;
                (self.at_finish)(self);
                self.leave(place);
            }
            Output::Interrupt(..)
            | Output::Dead(_)
            | Output::ReadPmi
            | Output::ReleaseCrashed
            | Output::GiveUp(_)
            | Output::TellSuspended
            | Output::TellNotice(_)
            | Output::Pids(_) => {}
            Output::Finish(code) => {
                assert_eq!(self.finish.replace(code), None, "only once");
                (self.at_finish)(self);
                self.leave(place);
            }
            Output::Leave => self.leave(place),
            output => self.perform_world(place, output),
        }
    }
}
