//! Steps that follow each other, with questions between them.
//!
//! An [`Errand`] is a step that is still to be done. A [`Waiting`] says what the answer to the open question is for. While
//! a question is open, no errand is done.

use mpd_wire::Rank;
use mpd_wire::job::Failure;

use crate::launch::Checked;

/// Some ranks of a world that are started in one turn, by their places among those that run here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// The first rank of the world.
    pub(crate) first: Rank,
    /// The place of the first rank of the batch.
    pub(crate) begin: usize,
    /// The place of the next rank to be started.
    pub(crate) next: usize,
    /// The place behind the last rank of the batch.
    pub(crate) end: usize,
}

/// A step to be done.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    /// Start some ranks of the world, from that place on.
    StartSome(Rank, usize),
    /// Start the next rank of the batch.
    StartNext(Batch),
    /// The batch is over, because all are started or because of the failure.
    EndBatch(Batch, Option<Failure>),
    /// Send the commands that wait for the debugger of a rank.
    SendCommands(Rank),
}

/// What the answer to the open question is for.
#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    /// The limits of the job, as the last check of the world.
    Limits(Rank, Box<Checked>),
    /// The start of the next rank of the batch.
    Start(Batch),
    /// A piece of a command for the debugger of a rank.
    Command(Rank),
    /// The start of the helper.
    Search,
    /// The kill of the adopted process.
    KillAdopted,
}
