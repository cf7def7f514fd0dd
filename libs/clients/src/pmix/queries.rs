//! Questions of clients about the system. What is not known here has no answer, which is no error.

use std::collections::BTreeSet;

use mpd_wire::Rank;
use pmix_proto::encoding::Value;
use pmix_proto::view::{Info, Query};

use super::world_info::WorldInfo;
use super::{Pmix, describe};
use crate::job::Job;
use crate::turn::Turn;

/// Most answers to one request.
const MAX_ANSWERS: usize = 64;

impl Pmix {
    /// The answers that are known, each key once.
    pub(super) fn known_answers(
        &self,
        turn: &Turn<'_>,
        rank: Rank,
        queries: &[Query],
    ) -> Vec<Info> {
        let keys: BTreeSet<&[u8]> =
            queries.iter().flat_map(|query| &query.keys).map(Vec::as_slice).collect();
        let answer = |key| Some(Info::new(key, self.answer_to(turn.job, rank, key)?));
        keys.into_iter().filter_map(answer).take(MAX_ANSWERS).collect()
    }

    fn answer_to(&self, job: &Job, rank: Rank, key: &[u8]) -> Option<Value> {
        Some(match key {
            b"pmix.qry.ns" => {
                let worlds = job.worlds.all().map(|world| world.numbers.number);
                let names: Vec<String> =
                    worlds.map(|number| describe::namespace(job, number)).collect();
                Value::text(names.join(","))
            }
            // There are no sets of processes.
            b"pmix.qry.psetnum" => Value::u32(0),
            b"pmix.qry.psets" => Value::text(""),
            b"pmix.rm.name" => Value::text("MPD"),
            b"pmix.rm.version" => Value::text(env!("CARGO_PKG_VERSION")),
            b"pmix.job.size" | b"pmix.univ.size" | b"pmix.num.nodes" | b"pmix.job.napps" => {
                let world = job.worlds.of(rank)?;
                let info = WorldInfo::of(job, world);
                let (facts, _) = describe::facts(job, &info);
                let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
                Value::u32(match key {
                    b"pmix.num.nodes" => count(facts.nodes.len()),
                    b"pmix.job.napps" => count(facts.apps.len()),
                    b"pmix.univ.size" => facts.universe_size?,
                    _ => count(facts.ranks.len()),
                })
            }
            _ => return None,
        })
    }
}
