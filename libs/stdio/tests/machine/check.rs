//! What the console must have: each byte of each rank once and in order, and no line torn.
//!
//! Each byte of a stream of a rank has its number, and a bit that depends on its position. So a byte that is lost, doubled
//! or moved is found.

use std::collections::BTreeMap;

use mpd_wire::{Rank, RankSet, Stream};

const FIRST: u8 = 128;

/// Lines of each stream of each rank, without newlines.
pub(crate) type Lines = BTreeMap<(Rank, Stream), Vec<Vec<u8>>>;

/// A byte of a stream of a rank.
pub(crate) const fn symbol(rank: Rank, stream: Stream, bit: bool) -> u8 {
    FIRST + ((rank.0 as u8) << 2) + ((stream.index() as u8) << 1) + bit as u8
}

fn writer(symbol: u8) -> (Rank, Stream) {
    let number = symbol - FIRST;
    (Rank(u32::from(number >> 2)), Stream::BOTH[usize::from(number >> 1 & 1)])
}

/// Checks lines that are not merged; each may have the label of its rank. The hosts of `lost` ranks were lost.
pub(crate) fn whole_lines(consoles: &[Vec<u8>], wrote: &Lines, lost: &RankSet, has_labels: bool) {
    let mut next: BTreeMap<(Rank, Stream), usize> = BTreeMap::new();
    let mut of_lost: BTreeMap<(Rank, Stream), Vec<u8>> = BTreeMap::new();
    for line in consoles.iter().flat_map(|bytes| bytes.split(|&byte| byte == b'\n')) {
        let label = line.iter().take_while(|&&byte| byte < FIRST).count();
        let mut text = Vec::new();
        for &byte in &line[label..] {
            assert!(byte >= FIRST, "a label within a line");
            let key = writer(byte);
            if lost.contains(key.0) {
                of_lost.entry(key).or_default().push(byte);
            } else {
                text.push(byte);
            }
        }
        let Some(&first) = text.first() else { continue };
        let key = writer(first);
        let nth = next.entry(key).or_default();
        assert!(wrote[&key].get(*nth) == Some(&text), "line {nth} of {key:?} is torn");
        *nth += 1;
        let expected = if has_labels { format!("{}: ", key.0) } else { String::new() };
        assert_eq!(String::from_utf8_lossy(&line[..label]), expected);
    }
    for (key, lines) in wrote {
        let shown = next.get(key).copied().unwrap_or(0);
        let shown_of_lost = of_lost.remove(key).unwrap_or_default();
        if lost.contains(key.0) {
            assert!(lines.concat().starts_with(&shown_of_lost), "{key:?} of a lost host");
        } else {
            assert_eq!(shown, lines.len(), "lines of {key:?}");
        }
    }
}

/// Checks merged lines, each with the set of its ranks.
pub(crate) fn merged_lines(consoles: [&[u8]; 2], wrote: &Lines, lost: &RankSet) {
    let mut shown: Lines = BTreeMap::new();
    for (bytes, stream) in consoles.into_iter().zip(Stream::BOTH) {
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let label = line.iter().take_while(|&&byte| byte < FIRST).count();
            let ranks = std::str::from_utf8(&line[..label]).unwrap();
            let ranks: RankSet = ranks.strip_suffix(": ").unwrap().parse().unwrap();
            for rank in ranks.ranks() {
                shown.entry((rank, stream)).or_default().push(line[label..].to_vec());
            }
        }
    }
    for (key, lines) in wrote {
        let shown = shown.remove(key).unwrap_or_default();
        if !lost.contains(key.0) {
            assert!(shown == *lines, "lines of {key:?}: {} of {}", shown.len(), lines.len());
        } else if let Some((last, whole)) = shown.split_last() {
            let is_begun = lines.get(whole.len()).is_some_and(|line| line.starts_with(last));
            assert!(lines.starts_with(whole) && is_begun, "{key:?} of a lost host");
        }
    }
    assert!(shown.is_empty(), "output of ranks that wrote nothing");
}
