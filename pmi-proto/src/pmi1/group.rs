//! Groups of the barriers of PMI-1.2, as clients write them: `WORLD:7`, `NODE:0`, `0,2,5:31`.

use std::collections::BTreeSet;

use crate::error::{ProtocolError, excerpt};
use crate::keyval::parse_number;
use crate::limits::MAX_GROUP_RUNS;

/// What a barrier of PMI-1.2 is for. Ranks that name equal groups meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BarrierGroup {
    /// Which ranks meet.
    pub members: GroupMembers,
    /// Tells barriers of the same ranks apart; any number, by the client.
    pub tag: i32,
}

/// Which ranks meet in a barrier of PMI-1.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupMembers {
    /// All of the world.
    World,
    /// Those of the world on the client's node.
    Node,
    /// These, numbered in the world; the client is one of them.
    Ranks(BTreeSet<u32>),
}

impl BarrierGroup {
    /// What a barrier without a group is for.
    pub(crate) const WORLD: Self = Self { members: GroupMembers::World, tag: 0 };

    /// Reads what `rank` of a world of `size` has written. A missing tag is 0, and a rank that is named
    /// twice is named once.
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

/// How many runs of consecutive numbers there are.
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
    fn what_is_no_group_of_the_client_s_world_is_refused() {
        for text in
            ["", ":", ":3", "2,", "world:0", "2,8:0", "0,1:0", "2:x", "2:0:0", "2;3", "-2:0"]
        {
            let error = BarrierGroup::parse(text.as_bytes(), 2, 8).unwrap_err();
            assert_eq!(error, ProtocolError::BadGroup { group: text.to_owned() });
        }
    }

    #[test]
    fn a_group_has_so_many_ranks_as_its_world_and_so_many_runs_as_a_message() {
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
