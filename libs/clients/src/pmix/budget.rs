//! The budget of each rank: what its client makes this manager keep.
//!
//! What lasts is counted in the [`ledger`](super::ledger) and in the data that the rank has committed, and is refused beyond
//! the budget. The session counts the requests that wait for their answers.

use mpd_job::manager::Input;
use mpd_wire::Rank;
use pmix_proto::limits::MAX_RANK_BYTES;

use super::Pmix;
use crate::job::Job;
use crate::turn::Turn;

impl Pmix {
    /// What is kept for a rank besides its commits: what was charged, its groups, and its entries in collective operations
    /// whose requests were answered.
    pub(super) fn kept_beside(&self, rank: Rank) -> usize {
        let number = self.running.connection(rank);
        let connection = number.and_then(|number| self.clients.connections.get(&number));
        let groups = connection.map_or(0, |connection| connection.session.group_bytes());
        self.ledger.of(rank) + self.collectives.abandoned(rank) + groups
    }

    /// The bytes that are kept for a rank, except for its waiting requests.
    fn lasting(&self, job: &Job, rank: Rank) -> usize {
        let committed = || {
            let (first, own) = self.collective(job, rank)?;
            Some(self.worlds_data.get(&first)?.modex.bytes(own))
        };
        self.kept_beside(rank) + committed().unwrap_or(0)
    }

    /// Whether so many more bytes may be kept for a rank.
    pub(super) fn has_budget(&self, job: &Job, rank: Rank, bytes: usize) -> bool {
        self.lasting(job, rank) + bytes <= MAX_RANK_BYTES
    }

    /// Counts bytes that are kept for a rank as long as the job runs.
    pub(super) fn charge(&mut self, job: &Job, rank: Rank, bytes: usize) {
        self.ledger.add(rank, bytes);
        self.recount(job, rank);
    }

    /// Tells the user, once for each rank, why a client is not read.
    pub(super) fn note_over_budget(&mut self, turn: &mut Turn<'_>, number: usize) {
        let Some(rank) = self.rank_of(number) else { return };
        if self.ledger.reported.insert(rank) {
            let (name, most) = (turn.job.name_of(rank), MAX_RANK_BYTES >> 20);
            turn.post(Input::Notice(format!(
                "rank {name}: its PMIx requests wait for answers and take {most} MiB; MPD reads further ones when some \
                 of them are answered"
            )));
        }
    }

    /// Tells the session of a rank what is kept for it besides its groups, which the session counts.
    pub(super) fn recount(&mut self, job: &Job, rank: Rank) {
        let lasting = self.lasting(job, rank);
        let number = self.running.connection(rank);
        if let Some(connection) =
            number.and_then(|number| self.clients.connections.get_mut(&number))
        {
            let groups = connection.session.group_bytes();
            connection.session.set_lasting(lasting.saturating_sub(groups));
        }
    }
}
