//! What root managers of different jobs tell each other about their PMIx clients.

use mpd_wire::bounded::at_most;
use mpd_wire::job::{Bytes, MAX_HOST_SLICES, MAX_RANKS, Parts, World as Numbers};
use mpd_wire::message::Payload;
use mpd_wire::{JobId, Rank, RankSet};
use serde::{Deserialize, Serialize};

use super::describe;
use super::world_info::{Foreign, WorldInfo};
use crate::job::Job;

/// Most programs of a world, and most worlds of a description.
const MAX_LISTED: usize = 2048;

/// A message to the root manager of a connected job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ForeignMessage {
    /// A request for what a rank of the receiver's job has committed. It is answered when the rank has committed this
    /// key, or has ended, or after a time.
    Ask { namespace: String, rank: u32, key: Payload },
    /// The answer: the committed pairs, encoded, if the key is among them; otherwise the status of PMIx for the client.
    Answer { namespace: String, rank: u32, key: Payload, found: Option<Payload>, status: i32 },
}

/// A world of the sender's job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Described {
    pub(super) namespace: String,
    size: u32,
    /// The hosts, and the ranks on each, as numbered in the world.
    #[serde(deserialize_with = "at_most::<_, _, MAX_HOST_SLICES>")]
    hosts: Vec<(String, RankSet)>,
    /// The number of ranks and the directory of each program.
    #[serde(deserialize_with = "at_most::<_, _, MAX_LISTED>")]
    programs: Vec<(u32, Bytes)>,
}

/// The worlds of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Description(
    #[serde(deserialize_with = "at_most::<_, _, MAX_LISTED>")] pub(super) Vec<Described>,
);

impl Described {
    /// A world of this job, for others.
    pub(super) fn of(job: &Job, info: &WorldInfo) -> Self {
        let own = |ranks: &RankSet| {
            let first = info.numbers.first.0;
            let range = |&(low, high): &(u32, u32)| (low - first, high - first);
            RankSet::from_ranges(ranks.ranges().iter().map(range).collect())
        };
        let parts = info.parts.0.iter().filter(|(_, ranks)| ranks.is_within(&info.numbers.ranks()));
        let hosts = parts.map(|(at, ranks)| (job.host_at(*at as usize), own(ranks)));
        Self {
            namespace: describe::namespace(job, info.numbers.number),
            size: info.numbers.size,
            hosts: hosts.collect(),
            programs: info.programs.clone(),
        }
    }

    /// How many ranks it has, if it makes sense.
    pub(super) fn checked_size(&self) -> Option<u32> {
        let hosts = (0..).zip(&self.hosts).map(|(at, (_, ranks))| (at, ranks.clone()));
        let world = Numbers { number: 0, first: Rank(0), size: self.size };
        let programs: u64 = self.programs.iter().map(|(size, _)| u64::from(*size)).sum();
        let is_sound = (1..=MAX_RANKS).contains(&self.size)
            && Parts(hosts.collect()).are_of(&world)
            && programs == u64::from(self.size);
        is_sound.then_some(self.size)
    }

    /// The world, with numbers of this job from `first` on.
    pub(super) fn numbered(self, job: &JobId, first: u32) -> WorldInfo {
        let shifted = |ranks: &RankSet| {
            let range = |&(low, high): &(u32, u32)| (low + first, high + first);
            RankSet::from_ranges(ranks.ranges().iter().map(range).collect())
        };
        let parts = (0..).zip(&self.hosts).map(|(at, (_, ranks))| (at, shifted(ranks)));
        WorldInfo {
            numbers: Numbers { number: first, first: Rank(first), size: self.size },
            parts: Parts(parts.collect()),
            programs: self.programs,
            parent: None,
            foreign: Some(Foreign {
                job: job.clone(),
                namespace: self.namespace,
                hosts: self.hosts.into_iter().map(|(host, _)| host).collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(size: u32, hosts: &[(&str, &str)]) -> Described {
        let hosts = hosts.iter().map(|(host, ranks)| ((*host).into(), ranks.parse().unwrap()));
        Described {
            namespace: "mpd-1f-0".into(),
            size,
            hosts: hosts.collect(),
            programs: vec![(size, b"/tmp".to_vec())],
        }
    }

    #[test]
    fn a_world_of_another_job_gets_numbers_that_no_rank_here_has() {
        let world = described(3, &[("h1", "0,2"), ("h2", "1")]);
        assert_eq!(world.checked_size(), Some(3));
        let info = world.numbered(&"7@h1".parse().unwrap(), 1 << 31);
        assert_eq!(info.parts.tree_index_of(Rank((1 << 31) + 1)), Some(1));
        assert!(info.parts.are_of(&info.numbers));
        assert_eq!(info.foreign.unwrap().hosts, ["h1", "h2"]);
    }

    #[test]
    fn a_description_that_does_not_add_up_is_refused() {
        for bad in [
            described(0, &[]),
            described(3, &[("h1", "0-1")]),
            described(2, &[("h1", "0-1"), ("h2", "1")]),
            described(MAX_RANKS + 1, &[("h1", &format!("0-{MAX_RANKS}"))]),
            Described { programs: Vec::new(), ..described(1, &[("h1", "0")]) },
        ] {
            assert_eq!(bad.checked_size(), None, "{bad:?}");
        }
    }
}
