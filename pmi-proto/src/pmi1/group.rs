//! Groups of the barriers of PMI-1.2, as clients write them: `WORLD:7`, `NODE:0`, `0,2,5:31`.

use std::collections::BTreeSet;

use crate::error::{ProtocolError, excerpt};
use crate::keyval::parse_number;
use crate::limits::MAX_GROUP_RUNS;

/// The group and tag of a barrier of PMI-1.2. Ranks that name equal groups meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BarrierGroup {
    /// The ranks that meet.
    pub members: GroupMembers,
    /// Distinguishes barriers of the same ranks; the client chooses any number.
    pub tag: i32,
}

/// The ranks that meet in a barrier of PMI-1.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupMembers {
    /// All of the world.
    World,
    /// The ranks of the world on the client's node.
    Node,
    /// These ranks, numbered in the world; the client is one of them.
    Ranks(BTreeSet<u32>),
}

impl BarrierGroup {
    /// The group of a barrier without a named group.
    pub(crate) const WORLD: Self = Self { members: GroupMembers::World, tag: 0 };

    /// Parses the text of `rank` in a world of `size` ranks. A missing tag is 0. A rank that is named twice counts
    /// once.
    ///
    /// # Errors
    /// [`ProtocolError::BadGroup`] if the text is no group, names a rank that is not in the world, does
    /// not name `rank`, or has more than [`MAX_GROUP_RUNS`] runs of consecutive ranks.
    pub(crate) fn parse(text: &[u8], rank: u32, size: u32) -> Result<Self, ProtocolError> {
        Self::read(text, size)
            .filter(|group| group.may_be_named_by(rank))
            .ok_or_else(|| ProtocolError::BadGroup { group: excerpt(text) })
    }

    fn read(text: &[u8], size: u32) -> Option<Self> {
        let colon = text.iter().position(|&byte| byte == b':');
        let (members, tag) = match colon {
            Some(at) => (&text[..at], parse_number(&text[at + 1..])?),
            None => (text, 0),
        };
        let members = match members {
            b"WORLD" => GroupMembers::World,
            b"NODE" => GroupMembers::Node,
            list => {
                let ranks = list.split(|&byte| byte == b',').map(parse_number::<u32>);
                let ranks: Option<BTreeSet<u32>> =
                    ranks.map(|rank| rank.filter(|&rank| rank < size)).collect();
                GroupMembers::Ranks(ranks?)
            }
        };
        Some(Self { members, tag })
    }

    fn may_be_named_by(&self, rank: u32) -> bool {
        match &self.members {
            GroupMembers::World | GroupMembers::Node => true,
            GroupMembers::Ranks(ranks) => ranks.contains(&rank) && runs(ranks) <= MAX_GROUP_RUNS,
        }
    }
}

/// The number of runs of consecutive numbers.
fn runs(ranks: &BTreeSet<u32>) -> usize {
    ranks.iter().filter(|&&rank| rank == 0 || !ranks.contains(&(rank - 1))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks<const N: usize>(ranks: [u32; N], tag: i32) -> BarrierGroup {
        BarrierGroup { members: GroupMembers::Ranks(ranks.into()), tag }
    }

    #[test]
    fn groups_are_read_as_clients_write_them() {
        let world = |tag| BarrierGroup { members: GroupMembers::World, tag };
        let node = |tag| BarrierGroup { members: GroupMembers::Node, tag };
        let cases = [
            ("WORLD:0", BarrierGroup::WORLD),
            ("WORLD", world(0)),
            ("WORLD:2147483647", world(i32::MAX)),
            ("NODE:-2147483648", node(i32::MIN)),
            ("0,2,5:31", ranks([0, 2, 5], 31)),
            ("5,2,0:31", ranks([0, 2, 5], 31)),
            ("2,2,7", ranks([2, 7], 0)),
            ("2:1", ranks([2], 1)),
        ];
        for (text, group) in cases {
            assert_eq!(BarrierGroup::parse(text.as_bytes(), 2, 8), Ok(group), "{text}");
        }
    }

    #[test]
    fn an_invalid_group_or_one_of_another_world_is_refused() {
        for text in
            ["", ":", ":3", "2,", "world:0", "2,8:0", "0,1:0", "2:x", "2:0:0", "2;3", "-2:0"]
        {
            let error = BarrierGroup::parse(text.as_bytes(), 2, 8).unwrap_err();
            assert_eq!(error, ProtocolError::BadGroup { group: text.to_owned() });
        }
    }

    #[test]
    fn a_group_has_at_most_the_ranks_of_its_world_and_the_runs_of_a_message() {
        let list = |ranks: &mut dyn Iterator<Item = u32>| {
            ranks.map(|rank| rank.to_string()).collect::<Vec<_>>().join(",")
        };
        let most = u32::try_from(MAX_GROUP_RUNS).unwrap();
        let parse = |text: String| BarrierGroup::parse(text.as_bytes(), 0, 1 << 20);
        assert!(parse(list(&mut (0..10_000))).is_ok());
        assert!(parse(list(&mut (0..most).map(|rank| 2 * rank))).is_ok());
        assert!(parse(list(&mut (0..=most).map(|rank| 2 * rank))).is_err());
    }
}
