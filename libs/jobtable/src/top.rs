//! The usage of the ranks of this host, in pages that fit an answer to the ring.

use std::collections::BTreeMap;
use std::ops::Range;

use mpd_ring::MAX_ANSWER;
use mpd_sansio::Time;
use mpd_wire::message::{RankRun, RankUse, RunUse};
use mpd_wire::{JobId, Pid, Rank, RankSet};

use crate::listing;

/// Bytes of a page. The rest of an answer is the usage of the machine and the frame around it.
const PAGE: usize = MAX_ANSWER - 448;

/// Most bytes of a rank.
const RANK: usize = 192;

/// The bytes that the ranks of a job have written, as their manager counted last.
#[derive(Debug, Default)]
pub(crate) struct Written {
    counts: BTreeMap<Rank, u64>,
    at: Option<Time>,
    /// The manager was asked and has not answered yet.
    asked: bool,
}

impl Written {
    /// Whether to ask the manager now: it has not been asked yet.
    pub(crate) fn ask(&mut self) -> bool {
        !std::mem::replace(&mut self.asked, true)
    }

    /// Stores the counts of the manager.
    pub(crate) fn add(&mut self, now: Time, counts: impl Iterator<Item = (Rank, u64)>) {
        self.counts.extend(counts);
        self.at = Some(now);
        self.asked = false;
    }

    /// Forgets ranks that have ended for good.
    pub(crate) fn forget(&mut self, ranks: &RankSet) {
        self.counts.retain(|rank, _| !ranks.contains(*rank));
    }
}

/// A run of a job, with the data of the job.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) job: &'a JobId,
    pub(crate) alias: Option<&'a str>,
    /// The user of the job.
    pub(crate) user: &'a str,
    pub(crate) manager: Option<Pid>,
    pub(crate) written: &'a Written,
    pub(crate) run: &'a RankRun,
}

/// A run on a page of usage. Its owner fills in what the ranks use.
#[derive(Debug)]
pub struct Sample {
    pub run: RunUse,
    /// The parent of the ranks.
    pub manager: Option<Pid>,
}

/// A page of the usage of `rows`, and whether there is another page.
pub(crate) fn page(rows: &[Row<'_>], now: Time, page: u32) -> (Vec<Sample>, bool) {
    let heads: Vec<RunUse> = rows.iter().map(|row| head(row, now)).collect();
    let sizes = heads.iter().zip(rows).map(|(head, row)| (bytes(head), row.run.pids.len()));
    let (slices, more) = slices(sizes, page);
    let sample = |(at, range): (usize, _)| Sample {
        run: RunUse { ranks: ranks(&rows[at], range), ..heads[at].clone() },
        manager: rows[at].manager,
    };
    (slices.into_iter().map(sample).collect(), more)
}

fn head(row: &Row<'_>, now: Time) -> RunUse {
    RunUse {
        world: row.run.world,
        job: row.job.clone(),
        alias: row.alias.map(listing::shortened),
        user: row.user.to_owned(),
        program: row.run.program.clone(),
        at_us: micros(now),
        counted_us: row.written.at.map(micros),
        ranks: Vec::new(),
    }
}

/// The ranks, as if their processes were gone.
fn ranks(row: &Row<'_>, range: Range<usize>) -> Vec<RankUse> {
    let pairs = row.run.ranks.ranks().zip(&row.run.pids).skip(range.start).take(range.len());
    let rank_use = |(rank, &pid)| {
        let written = row.written.counts.get(&rank).copied().unwrap_or(0);
        RankUse { rank, pid, state: 'X', cpu_ms: 0, memory_kib: 0, processes: 0, written }
    };
    pairs.map(rank_use).collect()
}

/// The runs of one page, each with a range of its ranks, and whether there is another page. `runs` has the bytes
/// and the number of ranks of each run.
fn slices(
    runs: impl Iterator<Item = (usize, usize)>,
    wanted: u32,
) -> (Vec<(usize, Range<usize>)>, bool) {
    let (mut page, mut room) = (0, PAGE);
    let mut taken = Vec::new();
    for (at, (head, ranks)) in runs.enumerate() {
        let mut from = 0;
        while from < ranks {
            let fit = room.saturating_sub(head) / RANK;
            if fit == 0 && room < PAGE {
                page += 1;
                room = PAGE;
                continue;
            }
            if page > wanted {
                return (taken, true);
            }
            // A head that leaves no room gets a page with one rank.
            let to = ranks.min(from + fit.max(1));
            if page == wanted {
                taken.push((at, from..to));
            }
            room = room.saturating_sub(head + (to - from) * RANK);
            from = to;
        }
    }
    (taken, false)
}

fn bytes(head: &RunUse) -> usize {
    // Our own structs serialise; see frame::encode_message.
    serde_json::to_vec(head).expect("a listing serialises").len() + 1
}

fn micros(at: Time) -> u64 {
    u64::try_from(at.since(Time::ZERO).as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use mpd_wire::message::{HostUse, OrderAnswer};

    use super::*;

    fn everything(runs: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let mut seen = Vec::new();
        for page in 0.. {
            let (slices, more) = slices(runs.iter().copied(), page);
            let bytes: usize = slices.iter().map(|(at, r)| runs[*at].0 + r.len() * RANK).sum();
            assert!(slices.len() <= 1 || bytes <= PAGE, "page {page} has {bytes} bytes");
            seen.extend(slices.into_iter().flat_map(|(at, range)| range.map(move |i| (at, i))));
            if !more {
                return seen;
            }
        }
        unreachable!("there is a last page")
    }

    #[test]
    fn every_rank_is_on_one_page_and_pages_have_their_size() {
        for runs in [&[][..], &[(100, 1)], &[(100, 200)], &[(900, 3); 40], &[(100, 0), (3000, 9)]] {
            let seen = everything(runs);
            let all =
                runs.iter().enumerate().flat_map(|(at, run)| (0..run.1).map(move |i| (at, i)));
            assert!(all.eq(seen), "{runs:?}");
        }
    }

    #[test]
    fn the_largest_rank_and_machine_fit_the_room_that_is_reserved_for_them() {
        let most = u64::MAX;
        let rank = RankUse {
            rank: Rank(u32::MAX),
            pid: u32::MAX,
            state: 'X',
            cpu_ms: most,
            memory_kib: most,
            processes: u32::MAX,
            written: most,
        };
        assert!(serde_json::to_vec(&rank).unwrap().len() < RANK);
        let machine = HostUse {
            at_us: most,
            cpus: u32::MAX,
            speed_hundredths: u32::MAX,
            load_hundredths: most,
            busy_ms: most,
            memory_kib: most,
            available_kib: most,
        };
        let answer = OrderAnswer::Top { machine, runs: Vec::new(), more: false };
        assert!(serde_json::to_vec(&answer).unwrap().len() <= MAX_ANSWER - PAGE);
    }
}
