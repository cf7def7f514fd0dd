//! The end of a job that follows from the facts: which exit codes and causes are possible.

use std::collections::BTreeSet;

use mpd_wire::Rank;
use mpd_wire::job::{Failure, RankEnd, exit};

use super::consoles::Console;
use super::facts::Facts;
use super::schedule::JobPlan;

const KILLED: u8 = 137;
const ABORTED: u8 = 5;
/// Of a rank that has left others waiting.
const LEFT_WAITING: u8 = 1;

/// What is wrong with the end of a job.
pub(super) fn judge(job: usize, plan: &JobPlan, facts: &Facts, console: &Console) -> Vec<String> {
    if console.is_lost {
        return Vec::new();
    }
    let Some(code) = console.code else {
        return vec![format!("console {job} has not ended: {facts:?}")];
    };
    let mut wrong = Vec::new();
    let possible = possible_codes(facts);
    if facts.is_clean() && code != 0 {
        wrong.push(format!("console {job} has code {code} without a cause"));
    } else if !possible.contains(&code) {
        wrong.push(format!("console {job} has code {code}, possible are {possible:?}"));
    }
    if code == 0 {
        wrong.extend(why_no_success(plan, facts).map(|why| format!("console {job} has 0: {why}")));
    }
    if console.ended.is_some_and(|ended| ended != code) {
        wrong.push(format!("console {job} has {code}, its manager said {:?}", console.ended));
    }
    match &console.failures[..] {
        [] => {}
        [(host, failure)] => {
            if !has_happened(failure, facts) {
                wrong.push(format!("console {job} hears of {failure:?} on {host}: {facts:?}"));
            }
            if console.ended.is_some() && failure.exit_code() != code {
                wrong.push(format!("console {job} has {code} after {failure:?}"));
            }
        }
        more => wrong.push(format!("console {job} hears of several failures: {more:?}")),
    }
    wrong
}

fn possible_codes(facts: &Facts) -> BTreeSet<u8> {
    let mut codes = BTreeSet::from([0]);
    codes.extend(facts.ends_of_own.values().map(|end| end.code()));
    let signals = facts.killed.values().chain(&facts.signals).chain(&facts.ordered_signals);
    codes.extend(signals.map(|signal| exit::SIGNAL_BASE + signal));
    codes.extend(facts.has_aborted.then_some(ABORTED));
    codes.extend(facts.is_kill_ordered.then_some(KILLED));
    let suite = facts.refused || facts.refused_starts || facts.lost_manager || facts.is_disturbed;
    codes.extend(suite.then_some(exit::SUITE));
    codes.extend(facts.lacked_programs.then_some(exit::NOT_FOUND));
    codes.extend(facts.has_strays.then_some(LEFT_WAITING));
    // A second ^C, or the time after the first one, kills the ranks; the code does not change.
    codes
}

/// Why a job with these facts cannot have succeeded.
fn why_no_success(plan: &JobPlan, facts: &Facts) -> Option<String> {
    // The processes of a spawn whose start fails on one host are killed on the others.
    let size = plan.size();
    let spawn_may_fail = facts.refused_starts
        || facts.lacked_programs
        || facts.is_disturbed
        || facts.has_refused_spawn;
    let counts = |rank: &Rank| rank.0 < size || !spawn_may_fail;
    let mut failed =
        facts.ends.iter().filter(|(rank, end)| **end != RankEnd::Exited(0) && counts(rank));
    if let Some((rank, end)) = failed.next() {
        return Some(format!("rank {rank}: {end}"));
    }
    if facts.has_aborted {
        return Some("a rank has aborted".to_owned());
    }
    let has_not_ended = |rank: &&Rank| !facts.ends.contains_key(rank) && counts(rank);
    let mut unended = facts.started.iter().filter(has_not_ended);
    if let Some(rank) = unended.next() {
        return Some(format!("rank {rank} has not ended"));
    }
    (0..size)
        .find(|rank| !facts.started.contains(&Rank(*rank)))
        .map(|rank| format!("rank {rank} has not run"))
}

/// Whether a reported failure did happen.
fn has_happened(failure: &Failure, facts: &Facts) -> bool {
    match failure {
        // Numbers of ranks in a spawned world are not those of the job.
        Failure::InWorld { failure, .. } => match &**failure {
            Failure::Rank { end, .. } => facts.ends.values().any(|it| it == end),
            failure => has_happened(failure, facts),
        },
        Failure::Rank { rank, end } => facts.ends.get(rank) == Some(end),
        Failure::Aborted { code, .. } => facts.has_aborted && *code == i32::from(ABORTED),
        Failure::Interrupted { signal } => facts.signals.contains(signal),
        Failure::Killed => facts.is_kill_ordered,
        Failure::HostLost { .. } => {
            facts.is_disturbed || facts.lost_manager || facts.refused_starts
        }
        Failure::Suite { .. } => facts.refused_starts || facts.is_disturbed || facts.lost_manager,
        Failure::CannotExecute { missing, .. } => *missing && facts.lacked_programs,
        Failure::NotFinalized { .. }
        | Failure::NotInitialized { .. }
        | Failure::LeftOthersWaiting { .. } => !facts.is_clean(),
        Failure::RanAlone { .. }
        | Failure::TwoLibraries { .. }
        | Failure::BrokeProtocol { .. }
        | Failure::OutputClosed
        | Failure::OutputFailed { .. }
        | Failure::TimedOut { .. }
        | Failure::ConnectedJob { .. }
        | Failure::LeftRunning { .. } => false,
    }
}
