//! Processes that clients spawn.

use mpd_wire::job::World as Numbers;
use pmix_proto::{Answer, Spawn, Status};

use super::Pmix;
use super::waiter::Waiter;
use crate::caller::{Caller, ClientSpawn};
use crate::output::Output;
use crate::turn::Turn;

impl Pmix {
    /// A client wants further processes.
    pub(super) fn spawn(&mut self, turn: &mut Turn<'_>, waiter: Waiter, spawn: Spawn) {
        let Some(rank) = self.rank_of(waiter.0) else { return };
        let Spawn { mut request, environments, hints } = spawn;
        for command in &mut request.commands {
            // Those of the program count more, so they come later.
            command.info.splice(0..0, hints.iter().cloned());
        }
        // The variables that each rank has from its manager replace those of a spawner's whole environment.
        let spawn = ClientSpawn { request, variables: environments };
        let caller = (rank, waiter.1);
        self.spawning.insert(caller, waiter);
        turn.report(Output::Spawn(caller, spawn));
    }

    /// The answer to a spawn: the name of the world's key-value space, if it runs. Returns whether a client here has
    /// asked for it.
    pub(crate) fn spawned(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        kvsname: Option<&str>,
    ) -> bool {
        let Some(waiter) = self.spawning.remove(&caller) else { return false };
        let number =
            kvsname.and_then(|name| Numbers::number_of(name.as_bytes(), &turn.job.order.kvsname));
        let Some(number) = number else {
            self.answer(waiter, Answer::Done(Status::FAILED_TO_LAUNCH));
            return true;
        };
        self.answer_spawned(turn, waiter, number);
        true
    }
}
