//! The router: passes inputs and outputs between the machines of a manager, and to its process.

use mpd_sansio::Time;
use mpd_wire::message::{Down, Up};

use crate::manager::branch::BranchOutput;
use crate::manager::job::{Act, Job};
use crate::manager::spawns::{RootSpawns, SpawnAct, SpawnInput};
use crate::manager::{Manager, Output, Root};

impl Manager {
    /// Handles something that concerns the spawns of the whole job.
    pub(super) fn with_spawns(&mut self, decide: impl FnOnce(&mut RootSpawns, &Job)) {
        if let Some(Root { job, spawns }) = &mut self.root {
            decide(spawns, job);
        }
    }

    /// A new daemon has come, which has no event of the job and no question about a spawn.
    pub(super) fn registered(&mut self) {
        self.at_root(|job| job.recorder.repeat());
        self.with_spawns(|spawns, job| spawns.registered(job));
    }

    pub(super) fn handle_spawn(&mut self, now: Time, input: SpawnInput) {
        match input {
            SpawnInput::Asked { caller, order, errors } => self.spawns.ask(caller, order, errors),
            SpawnInput::Piece(from, payload) => self.spawns.take_piece(from, payload),
            SpawnInput::Grow(order) => self.with_spawns(|spawns, _| spawns.request(None, order)),
            SpawnInput::Placed(number, placing) => {
                self.with_spawns(|spawns, job| spawns.placed(now, job, (number, placing)));
            }
        }
    }

    /// Passes outputs of the branch, the job and the spawns to each other, or out, until none has more. An
    /// answer to a spawner keeps its place among the outputs of the branch.
    pub(super) fn settle(&mut self, now: Time) {
        loop {
            let of_root = |root: &mut Root| root.spawns.poll_act();
            if let Some(act) =
                self.spawns.poll_act().or_else(|| self.root.as_mut().and_then(of_root))
            {
                self.route_spawn(act);
            } else if let Some(output) = self.branch.poll_output() {
                self.route_branch(now, output);
            } else if let Some(act) = self.root.as_mut().and_then(|root| root.job.poll_act()) {
                match act {
                    Act::Command(down) => self.branch.command(down),
                    Act::Emit(output) => self.outputs.push_back(output),
                }
            } else {
                return;
            }
        }
    }

    fn route_branch(&mut self, now: Time, output: BranchOutput) {
        match output {
            BranchOutput::Report(up) => match &mut self.root {
                Some(root) => {
                    // Requests of the run before have arrived.
                    if up == Up::Restarted {
                        root.spawns.restart();
                    }
                    root.job.receive(now, up);
                }
                None => self.outputs.push_back(Output::ToParent(up)),
            },
            BranchOutput::Announce(tree_indices, world, parts) => {
                let pieces = self.spawns.announce(&tree_indices, world);
                self.outputs.extend(pieces.into_iter().map(Output::Spawn));
                self.outputs.push_back(Output::ToSome(tree_indices, Down::World { world, parts }));
            }
            BranchOutput::Prepare(world, parts) => {
                let announced = self.spawns.prepare(world, parts);
                self.outputs.push_back(Output::Prepare(Box::new(announced)));
            }
            BranchOutput::Spawned(rank, outcome) => self.spawns.answered(rank, outcome),
            BranchOutput::Perform(output) => {
                if output == Output::Restart {
                    self.spawns.restart();
                }
                self.outputs.push_back(output);
            }
        }
    }

    fn route_spawn(&mut self, act: SpawnAct) {
        match act {
            SpawnAct::Emit(output) => self.outputs.push_back(Output::Spawn(output)),
            SpawnAct::Request(spawner, order) => {
                self.with_spawns(|spawns, _| spawns.request(Some(spawner), order));
            }
            SpawnAct::Notice(text) => self.branch.send_up(Up::Notice { text }),
            SpawnAct::Refuse(spawner, problem) => {
                self.at_root(|job| job.refuse_request(spawner, &problem))
            }
            SpawnAct::Start(plan, order) => {
                self.spawns.begin(plan.world.first, order);
                self.at_root(|job| job.spawn(plan));
            }
        }
    }
}
