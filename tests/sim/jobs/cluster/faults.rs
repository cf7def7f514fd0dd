//! Faults, and actions of the user.

use mpd_job::manager::Input;
use mpd_job::manager::spawns::SpawnInput;
use mpd_wire::Rank;
use mpd_wire::job::RankEnd;

use super::super::name;
use super::Cluster;
use super::tasks::Task;

/// A fault, or an action of the user.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The check before the start finds a problem.
    CheckFails(usize),
    /// Spawning the second rank fails.
    SpawnFails(usize),
    /// A manager dies, and its ranks with it.
    Crash(usize),
    /// The link of a manager to its parent breaks; both live.
    Cut(usize),
    /// A host never receives the job.
    Missing(usize),
    /// A rank ends like this, on any host.
    Ends(Rank, RankEnd),
    Console(Input),
    Here(usize, Input),
    /// The reader of the output stops reading.
    ReaderStops,
    /// A rank spawns so many processes.
    Spawn(Rank, u32),
    /// A user requests so many processes.
    Grow(u32),
}

/// The moment at which the start of a world fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorldFault {
    Preparing,
    Beginning,
}

impl Cluster {
    pub(crate) fn apply_fault(&mut self, fault: Fault) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("fault: {fault:?}"));
        }
        match fault {
            Fault::CheckFails(tree_index) => self.hosts[tree_index].fails = Some(Task::Check),
            Fault::SpawnFails(tree_index) => self.hosts[tree_index].fails = Some(Task::Spawn),
            Fault::Crash(tree_index) => self.crash(tree_index),
            Fault::Cut(tree_index) => self.lose(tree_index),
            Fault::Missing(tree_index) => {
                if !self.hosts[tree_index].ready {
                    self.crash(tree_index);
                    let members = vec![(name(tree_index), "no answer".to_owned())];
                    self.turn(0, Input::Missing(members));
                }
            }
            Fault::Ends(rank, end) => {
                let tree_index = self.host_slices.tree_index_of_rank(rank).unwrap();
                self.end(tree_index, rank, end);
                self.end_turn(tree_index);
            }
            Fault::Console(input) => {
                self.console_lost |= input == Input::ConsoleLost;
                self.interrupted |= matches!(input, Input::Interrupt | Input::Signal(_));
                self.suspended = match input {
                    Input::Suspend => true,
                    Input::Resume => false,
                    _ => self.suspended,
                };
                self.turn(0, input);
            }
            Fault::Here(tree_index, input) => self.turn(tree_index, input),
            Fault::ReaderStops => self.reader_stopped = true,
            Fault::Spawn(spawner, size) => self.spawn(spawner, size),
            Fault::Grow(size) => {
                let order = self.order(size);
                self.turn(0, Input::Spawn(SpawnInput::Grow(order)));
            }
        }
    }

    /// Performs a user action that lets the job continue. False if no action is possible.
    pub(crate) fn help(&mut self) -> bool {
        if self.suspended {
            self.apply_fault(Fault::Console(Input::Resume));
            true
        } else if self.reader_stopped && self.hosts[0].owed.contains(&Task::Drain) {
            self.apply_fault(Fault::Console(Input::Interrupt));
            true
        } else {
            false
        }
    }
}
