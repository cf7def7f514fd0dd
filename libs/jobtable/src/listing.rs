//! The jobs of this host, in pages that fit an answer to the ring. Pure.

use mpd_ring::MAX_ANSWER;
use mpd_wire::message::{HostedPart, JobPart, RankRun, SpawnState};
use mpd_wire::{DaemonName, RankSet};

/// Bytes of a page. The rest of an answer is the frame around it.
const PAGE: usize = MAX_ANSWER - 128;

/// Ranks that are always on one page.
const PIECE: usize = 64;

/// Waiting spawns that are always on one page.
const READY: usize = 4;

/// Most characters of a text that users choose, so that an entry fits a page.
const MAX_TEXT: usize = 100;

/// A text cut for listings.
pub fn shortened(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

/// One page of all parts, and whether there is another page.
pub fn page(parts: impl Iterator<Item = JobPart>, wanted: u32) -> (Vec<JobPart>, bool) {
    let mut page = 0;
    let mut room = PAGE;
    let mut taken: Vec<JobPart> = Vec::new();
    for piece in parts.flat_map(pieces) {
        // Our own enums serialise; see frame::encode_message.
        let size = serde_json::to_vec(&piece).expect("a listing serialises").len() + 1;
        if size > room {
            page += 1;
            room = PAGE;
        }
        room = room.saturating_sub(size);
        if page > wanted {
            return (taken, true);
        }
        if page == wanted {
            match taken.last_mut().filter(|last| last.job == piece.job) {
                Some(last) => add(last, piece),
                None => taken.push(piece),
            }
        }
    }
    (taken, false)
}

/// Adds the host of jobs.
pub fn hosted(host: DaemonName, jobs: Vec<JobPart>) -> impl Iterator<Item = HostedPart> {
    jobs.into_iter().map(move |part| HostedPart { host: host.clone(), part })
}

/// Adds another piece of the same part.
fn add(part: &mut JobPart, piece: JobPart) {
    part.runs.extend(piece.runs);
    if let Some(more) = piece.spawns {
        let spawns = part.spawns.get_or_insert_default();
        spawns.blocked = joined(&spawns.blocked, &more.blocked);
        spawns.ended = joined(&spawns.ended, &more.ended);
        spawns.ready.extend(more.ready);
        spawns.more_ready = spawns.more_ready.max(more.more_ready);
        spawns.running = spawns.running.max(more.running);
    }
}

fn joined(one: &RankSet, other: &RankSet) -> RankSet {
    RankSet::from_ranges(one.ranges().iter().chain(other.ranges()).copied().collect())
}

/// Splits the state of spawns into at least one piece.
fn pieces_of_spawns(state: SpawnState) -> Vec<SpawnState> {
    let (more_ready, running) = (state.more_ready, state.running);
    let ready = state.ready.chunks(READY).map(|some| SpawnState {
        ready: some.to_vec(),
        more_ready,
        running,
        ..SpawnState::default()
    });
    let some = |ranges: &[(u32, u32)]| RankSet::from_ranges(ranges.to_vec());
    let blocked = state.blocked.ranges().chunks(PIECE).map(|ranges| SpawnState {
        blocked: some(ranges),
        more_ready,
        running,
        ..SpawnState::default()
    });
    let ended = state.ended.ranges().chunks(PIECE).map(|ranges| SpawnState {
        ended: some(ranges),
        more_ready,
        running,
        ..SpawnState::default()
    });
    let mut all: Vec<SpawnState> = blocked.chain(ended).chain(ready).collect();
    if all.is_empty() {
        all.push(state);
    }
    all
}

/// Splits a part into parts of at most [`PIECE`] ranks or [`READY`] waiting spawns. A part with neither stays as it is.
fn pieces(mut part: JobPart) -> Vec<JobPart> {
    let runs = std::mem::take(&mut part.runs);
    let mut all: Vec<JobPart> = part
        .spawns
        .take()
        .into_iter()
        .flat_map(pieces_of_spawns)
        .map(|spawns| JobPart { spawns: Some(spawns), ..part.clone() })
        .collect();
    for run in &runs {
        let ranks: Vec<u32> = run.ranks.ranks().map(|rank| rank.0).collect();
        for (ranks, pids) in ranks.chunks(PIECE).zip(run.pids.chunks(PIECE)) {
            let run = RankRun {
                world: run.world,
                parent: run.parent,
                program: run.program.clone(),
                ranks: RankSet::from_ranges(ranks.iter().map(|rank| (*rank, *rank)).collect()),
                pids: pids.to_vec(),
            };
            all.push(JobPart { runs: vec![run], ..part.clone() });
        }
    }
    if all.is_empty() {
        all.push(part);
    }
    all
}

#[cfg(test)]
mod tests {
    use mpd_wire::Rank;
    use mpd_wire::frame::compact;
    use mpd_wire::message::{OrderAnswer, ReadySpawn};

    use super::*;

    /// A job whose texts take as much room as possible.
    fn part(number: u64, ranks: u32) -> JobPart {
        let worst = shortened(&"\u{1}".repeat(1000));
        let run = RankRun {
            world: None,
            parent: None,
            program: worst.clone(),
            ranks: RankSet::from_ranges((0..ranks).map(|rank| (rank * 2, rank * 2)).collect()),
            pids: (0..ranks).map(|rank| 4_000_000 + rank).collect(),
        };
        JobPart {
            job: format!("{number}@{}", "d".repeat(255)).parse().unwrap(),
            alias: Some(worst),
            user: "u".repeat(100),
            manager: 4_000_000,
            runs: if ranks > 0 { vec![run] } else { vec![] },
            spawns: None,
        }
    }

    #[test]
    fn every_rank_is_on_one_page_and_every_page_fits_an_answer() {
        let parts = [part(1, 0), part(2, 1), part(3, 1000), part(4, 64), part(5, 0)];
        let mut seen = Vec::new();
        let mut number = 0;
        loop {
            let (jobs, more) = page(parts.iter().cloned(), number);
            let answer = OrderAnswer::Jobs { jobs: jobs.clone(), more };
            let bytes = compact::to_vec(&answer).len();
            assert!(bytes <= MAX_ANSWER, "page {number} has {bytes} bytes");
            for job in jobs {
                assert!(job.runs.iter().all(RankRun::is_sound));
                seen.push((job.job.number(), 0, 0));
                for run in &job.runs {
                    let ranks = run.ranks.ranks().map(|rank| rank.0);
                    seen.extend(ranks.zip(&run.pids).map(|(r, p)| (job.job.number(), r + 1, *p)));
                }
            }
            number += 1;
            if !more {
                break;
            }
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 5 + 1 + 1000 + 64);
        assert_eq!(page(parts.iter().cloned(), number), (Vec::new(), false));
    }

    #[test]
    fn the_state_of_spawns_is_whole_over_all_pages() {
        let program = shortened(&"\u{1}".repeat(1000));
        let ready = |spawner| ReadySpawn {
            spawner: Some(Rank(spawner)),
            size: 1,
            program: program.clone(),
        };
        let state = SpawnState {
            blocked: RankSet::from_ranges((0..2000).map(|rank| (rank * 2, rank * 2)).collect()),
            ended: RankSet::from_ranges((0..500).map(|rank| (rank * 3, rank * 3)).collect()),
            ready: (0..100).map(ready).collect(),
            running: 9,
            more_ready: 7,
        };
        let whole = JobPart { spawns: Some(state.clone()), ..part(1, 1) };
        let mut joined: Option<JobPart> = None;
        for number in 0.. {
            let (jobs, more) = page(std::iter::once(whole.clone()), number);
            let answer = OrderAnswer::Jobs { jobs: jobs.clone(), more };
            assert!(compact::to_vec(&answer).len() <= MAX_ANSWER);
            for piece in jobs {
                match &mut joined {
                    Some(joined) => add(joined, piece),
                    None => joined = Some(piece),
                }
            }
            if !more {
                break;
            }
        }
        assert_eq!(joined, Some(whole));
        let idle = JobPart { spawns: Some(SpawnState::default()), ..part(1, 0) };
        assert_eq!(page(std::iter::once(idle.clone()), 0), (vec![idle], false));
    }

    #[test]
    fn a_few_jobs_of_ordinary_size_are_one_page() {
        let run = RankRun {
            world: None,
            parent: None,
            program: "/home/user/bin/solver".to_owned(),
            ranks: RankSet::below(64),
            pids: (0..64).map(|pid| 30_000 + pid).collect(),
        };
        let job = |number: u64| JobPart {
            job: format!("{number}@h1").parse().unwrap(),
            alias: None,
            user: "user".to_owned(),
            manager: 29_999,
            runs: vec![run.clone()],
            spawns: None,
        };
        let (jobs, more) = page((1..=5).map(job), 0);
        assert_eq!((jobs.len(), more), (5, false));
    }
}
