//! The value of `PMI_process_mapping`: the node of each rank.
//!
//! The form is `(vector,(first node,nodes,ranks per node),…)`, with ranks in order. Libraries read further forms, but
//! not in the same way. So this module writes only the common form: every rank is listed, nodes are numbered from 0
//! without gaps, and no abbreviation is used. It does not know hosts: the caller gives two names of one machine the
//! same number.

use std::collections::BTreeMap;

use crate::limits::{MAX_MAPPED_RANKS, MAX_MAPPING};

/// The mapping for ranks on these nodes, in order of rank.
///
/// Nodes are renumbered from 0 in order of first use, so the input may use any numbers. `None` if there are no ranks,
/// or if the placement is so irregular that the text passes [`MAX_MAPPING`] bytes. Clients without a mapping compare
/// host names instead.
pub fn encode(nodes_of_ranks: &[u32]) -> Option<String> {
    if nodes_of_ranks.is_empty() {
        return None;
    }
    let mut text = String::from(BEGIN);
    for block in blocks(&renumbered(nodes_of_ranks)) {
        text += &format!(",({},{},{})", block.first, block.nodes, block.ranks_per_node);
        if text.len() >= MAX_MAPPING {
            return None;
        }
    }
    text.push(')');
    Some(text)
}

/// The node of each rank, in order of rank.
///
/// # Errors
///
/// The text has not the form that [`encode`] writes, or has more than [`MAX_MAPPED_RANKS`] ranks.
pub fn decode(text: &str) -> Result<Vec<u32>, InvalidMapping> {
    let inner = text
        .strip_prefix(BEGIN)
        .and_then(|rest| rest.strip_suffix(')'))
        .ok_or(InvalidMapping::NotAVector)?;
    let mut nodes_of_ranks = Vec::new();
    let mut rest = inner;
    while !rest.is_empty() {
        let (block, after) = rest
            .strip_prefix(",(")
            .and_then(|rest| rest.split_once(')'))
            .ok_or(InvalidMapping::NotABlock)?;
        deal(parse_block(block)?, &mut nodes_of_ranks)?;
        rest = after;
    }
    Ok(nodes_of_ranks)
}

/// Why a text is no process mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMapping {
    /// It does not read `(vector…)`.
    #[error("a process mapping reads (vector,...)")]
    NotAVector,
    /// A block does not read `(a,b,c)` with three numbers, the last two above 0.
    #[error("a block of a process mapping reads (first node,nodes,ranks per node)")]
    NotABlock,
    /// It has more ranks, or higher nodes, than any job.
    #[error("a process mapping of more than {MAX_MAPPED_RANKS} ranks")]
    TooManyRanks,
}

/// `ranks_per_node` ranks on each of `nodes` nodes, beginning with node `first`.
#[derive(Debug, Clone, Copy)]
struct Block {
    first: u32,
    nodes: u32,
    ranks_per_node: u32,
}

fn renumbered(nodes_of_ranks: &[u32]) -> Vec<u32> {
    let mut numbers = BTreeMap::new();
    nodes_of_ranks
        .iter()
        .map(|node| {
            let next = numbers.len() as u32;
            *numbers.entry(*node).or_insert(next)
        })
        .collect()
}

/// Collects runs of ranks on one node, then merges neighbouring runs of one length on consecutive nodes.
fn blocks(nodes_of_ranks: &[u32]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for run in nodes_of_ranks.chunk_by(|a, b| a == b) {
        let (node, length) = (run[0], run.len() as u32);
        match blocks.last_mut() {
            Some(last) if last.ranks_per_node == length && last.first + last.nodes == node => {
                last.nodes += 1;
            }
            _ => blocks.push(Block { first: node, nodes: 1, ranks_per_node: length }),
        }
    }
    blocks
}

fn parse_block(text: &str) -> Result<Block, InvalidMapping> {
    let mut numbers = text.split(',').map(str::parse);
    match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(nodes)), Some(Ok(ranks_per_node)), None)
            if nodes > 0 && ranks_per_node > 0 =>
        {
            Ok(Block { first, nodes, ranks_per_node })
        }
        _ => Err(InvalidMapping::NotABlock),
    }
}

fn deal(block: Block, nodes_of_ranks: &mut Vec<u32>) -> Result<(), InvalidMapping> {
    let ranks = u64::from(block.nodes) * u64::from(block.ranks_per_node);
    let end = block.first.checked_add(block.nodes).ok_or(InvalidMapping::TooManyRanks)?;
    if nodes_of_ranks.len() as u64 + ranks > MAX_MAPPED_RANKS as u64 {
        return Err(InvalidMapping::TooManyRanks);
    }
    for node in block.first..end {
        nodes_of_ranks.extend(std::iter::repeat_n(node, block.ranks_per_node as usize));
    }
    Ok(())
}

const BEGIN: &str = "(vector";

#[cfg(test)]
mod tests {
    use super::*;

    const A: u32 = 70;
    const B: u32 = 3;

    #[test]
    fn known_placements_have_the_mapping_that_libraries_accept() {
        let table: &[(&[u32], &str)] = &[
            (&[A, A, A, A], "(vector,(0,1,4))"),
            (&[A, A, B, B], "(vector,(0,2,2))"),
            (&[A, B, A, B], "(vector,(0,2,1),(0,2,1))"),
            (&[A, A, A, B], "(vector,(0,1,3),(1,1,1))"),
            (&[A, B, B, B], "(vector,(0,1,1),(1,1,3))"),
            (&[A, B, B, A], "(vector,(0,1,1),(1,1,2),(0,1,1))"),
            (&[A, A, B, B, B], "(vector,(0,1,2),(1,1,3))"),
            (&[B], "(vector,(0,1,1))"),
        ];
        for (nodes, text) in table {
            assert_eq!(encode(nodes).as_deref(), Some(*text));
            assert_eq!(decode(text), Ok(renumbered(nodes)));
        }
    }

    #[test]
    fn nodes_are_numbered_by_first_use_for_any_input_numbers() {
        assert_eq!(encode(&[1, 1, 0, 0]).as_deref(), Some("(vector,(0,2,2))"));
        assert_eq!(encode(&[u32::MAX, 9]).as_deref(), Some("(vector,(0,2,1))"));
    }

    #[test]
    fn a_mapping_that_starts_on_another_node_can_be_read() {
        assert_eq!(decode("(vector,(1,1,2),(0,1,2))"), Ok(vec![1, 1, 0, 0]));
    }

    #[test]
    fn a_regular_placement_has_a_short_mapping_at_any_size() {
        let nodes: Vec<u32> = (0..100_000).map(|rank| rank / 50).collect();
        assert_eq!(encode(&nodes).as_deref(), Some("(vector,(0,2000,50))"));
    }

    #[test]
    fn no_mapping_is_made_for_no_ranks_or_beyond_the_limit() {
        assert_eq!(encode(&[]), None);
        // Runs of two and one alternate: no two of them merge, and each has eight bytes.
        let irregular = |runs: usize| -> Vec<u32> {
            [0, 0, 1].into_iter().cycle().take(runs / 2 * 3 + runs % 2 * 2).collect()
        };
        assert_eq!(encode(&irregular(111)).unwrap().len(), 896);
        assert_eq!(encode(&irregular(112)), None);
    }

    #[test]
    fn other_forms_are_refused() {
        let table = [
            ("", InvalidMapping::NotAVector),
            ("vector,(0,1,1)", InvalidMapping::NotAVector),
            ("(vector,0)", InvalidMapping::NotABlock),
            ("(vector,(0,1))", InvalidMapping::NotABlock),
            ("(vector,(0,1,1,1))", InvalidMapping::NotABlock),
            ("(vector,(0,0,1))", InvalidMapping::NotABlock),
            ("(vector,(0,1,-1))", InvalidMapping::NotABlock),
            ("(vector, (0,1,1))", InvalidMapping::NotABlock),
            ("(vector,(0,1000000,1000000))", InvalidMapping::TooManyRanks),
            ("(vector,(4294967295,4294967295,4294967295))", InvalidMapping::TooManyRanks),
        ];
        for (text, error) in table {
            assert_eq!(decode(text), Err(error), "{text}");
        }
    }
}
