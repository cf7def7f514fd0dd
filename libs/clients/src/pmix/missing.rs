//! Keys that a rank does not offer: how long a get waits for them, on the host of the rank.

use std::time::Duration;

use mpd_wire::Rank;
use pmix_proto::Status;
use pmix_proto::modex::View;

use super::peer_message::Found;
use super::pending_gets::{PendingGet, Requester};
use super::{Pmix, Timer};
use crate::job::Job;
use crate::turn::Turn;

/// How long another host or job waits for a key that is not among those that the rank has committed. The rank may commit
/// again.
const AFTER_COMMIT: Duration = Duration::from_secs(2);

/// How long a get waits for a rank that is connected and commits nothing. An MPI library may initialise its networks first.
const BEFORE_COMMIT: Duration = Duration::from_secs(60);

impl Pmix {
    /// Whether a rank of this host has committed. If so, it offers nothing more to processes of this host.
    pub(super) fn has_committed_here(&self, job: &Job, rank: Rank) -> bool {
        let Some((first, own)) = self.collective(job, rank) else { return false };
        let is_here = self.known_of(job, rank).is_some_and(|world| world.has_here(job, rank));
        is_here && self.worlds_data.get(&first).is_some_and(|data| data.modex.has(own))
    }

    /// A rank of this world whose data here have the key. Names of keys that all ranks share are looked up without a rank.
    pub(super) fn any_with_key(&self, job: &Job, number: u32, key: &[u8]) -> Option<Rank> {
        let world = self.known(job, number)?;
        let modex = &self.worlds_data.get(&world.numbers.first)?.modex;
        (0..world.numbers.size).map(|own| (own, world.numbers.in_job(Rank(own)))).find_map(
            |(own, rank)| {
                let view = if world.has_here(job, rank) { View::Local } else { View::Remote };
                modex.has_key(own, key, view).then_some(rank)
            },
        )
    }

    /// Lets a request wait, with a limit if its rank runs here.
    pub(super) fn wait_for_key(&mut self, turn: &Turn<'_>, mut pending_get: PendingGet) {
        let timer = match pending_get.requester {
            Requester::Client(waiter) => Timer::Answer(waiter),
            Requester::Host(_) | Requester::Job(_) => {
                Timer::Missing(*pending_get.number.get_or_insert_with(|| {
                    self.gets.numbered += 1;
                    self.gets.numbered
                }))
            }
        };
        if let Some(limit) = pending_get.rank.and_then(|rank| self.patience(turn.job, rank)) {
            self.timers.set_no_later(timer, turn.now() + limit);
        }
        self.gets.waiting.push(pending_get);
    }

    /// How long a request for a rank of this host may wait from now on. `None` if this host cannot tell. The rank runs
    /// elsewhere then, or has not begun to speak, or a debugger may hold it.
    fn patience(&self, job: &Job, rank: Rank) -> Option<Duration> {
        if self.running.is_debugged(rank) {
            return None;
        }
        match self.has_committed_here(job, rank) {
            true => Some(AFTER_COMMIT),
            false => self.running.connection(rank).is_some().then_some(BEFORE_COMMIT),
        }
    }

    /// The time of another host's or job's request is over. A rank that has committed does not have the key.
    pub(super) fn expire_missing(&mut self, turn: &mut Turn<'_>, number: u64) {
        let is_it = |get: &PendingGet| get.number == Some(number);
        let over: Vec<_> = self.gets.waiting.extract_if(.., |get| is_it(get)).collect();
        for PendingGet { requester, rank, key, .. } in over {
            let Some(rank) = rank else { continue };
            let status = match self.has_committed_here(turn.job, rank) {
                true => Status::NOT_FOUND,
                false => Status::TIMEOUT,
            };
            self.reply(turn, &requester, rank, &key, Err(status));
        }
    }

    /// Answers another host or job.
    pub(super) fn settle_other(
        &mut self,
        turn: &mut Turn<'_>,
        PendingGet { requester, number, key, .. }: PendingGet,
        rank: Rank,
        found: Found,
    ) {
        if let Some(number) = number {
            self.timers.stop(Timer::Missing(number));
        }
        self.reply(turn, &requester, rank, &key, found);
    }
}
