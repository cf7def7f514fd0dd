//! The facts that calls lend to the machine.

use std::collections::BTreeMap;

use mpd_io::clock;
use mpd_stdio::machine::{self as machine, Facts};
use mpd_stdio::silence::Task;
use mpd_wire::Rank;

use super::pipes::Pipes;
use crate::manager::context::{Job, Turn};

/// The job, and the processes that write to the pipes.
#[derive(Debug)]
pub(super) struct Here<'a> {
    pub(super) job: &'a Job,
    pub(super) pipes: &'a BTreeMap<Rank, Pipes>,
}

impl machine::Here for Here<'_> {
    fn name_of(&self, rank: Rank) -> String {
        self.job.name_of(rank)
    }

    fn tree_index_of(&self, rank: Rank) -> Option<usize> {
        self.job.worlds.of(rank).and_then(|world| world.parts.tree_index_of(rank))
    }

    fn writer(&self, rank: Rank) -> Vec<Task> {
        self.pipes.get(&rank).map(Pipes::writer).unwrap_or_default()
    }
}

pub(super) fn facts_of<'a>(turn: &Turn<'a>) -> Facts<'a> {
    let job = turn.job;
    Facts {
        now: turn.now(),
        wall: job.spec.output.timestamp.then(clock::wall),
        spec: &job.spec,
        order: &job.order,
    }
}
