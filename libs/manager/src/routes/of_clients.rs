//! Routes outputs of the machine of the clients that do not concern their connections.

use mpd_clients::{LinkOutput, Output as ClientsOutput};
use mpd_ending::Input as Ending;
use mpd_ranks::Input as Ranks;

use crate::node::Node;
use crate::output::{ForLinks, Work};
use crate::spawning;

impl Node {
    pub(super) fn take_of_clients(&mut self, output: ClientsOutput) {
        match output {
            ClientsOutput::Job(input) => self.machine.post(input),
            ClientsOutput::Daemon(report) => self.queue.daemon(report),
            ClientsOutput::Links(LinkOutput::Up(message)) => self.perform(ForLinks::Up(message)),
            ClientsOutput::Links(LinkOutput::DownNow(tree_indices, command)) => {
                self.perform(ForLinks::DownNow(tree_indices, command));
            }
            ClientsOutput::Links(LinkOutput::Bytes(to, kind, bytes)) => {
                self.perform(ForLinks::Bytes(to, kind, bytes));
            }
            ClientsOutput::Links(LinkOutput::Broken(end, problem)) => self.break_off(end, problem),
            ClientsOutput::Spawn(caller, spawn) => {
                spawning::ask(&self.job, &mut self.queue, caller, &spawn);
            }
            ClientsOutput::Signal(rank, signal) => self.perform(Work::Signal(rank, signal)),
            ClientsOutput::Speaks => self.perform(Ranks::UsesPmi),
            ClientsOutput::Aborts(rank) => self.perform(Ranks::Aborts(rank)),
            ClientsOutput::Leaves => self.perform(Ranks::AdoptedLeft),
            ClientsOutput::ToRemove(registered) => self.perform(Ending::Register(registered)),
            // The owner of the connections performs these at once.
            ClientsOutput::FenceBegins
            | ClientsOutput::FenceEnds
            | ClientsOutput::Resume(_)
            | ClientsOutput::ResumeAll
            | ClientsOutput::Probe(_)
            | ClientsOutput::Close(_)
            | ClientsOutput::Rest
            | ClientsOutput::Listen
            | ClientsOutput::MakeDirectory(_)
            | ClientsOutput::Log(..) => {}
        }
    }
}
