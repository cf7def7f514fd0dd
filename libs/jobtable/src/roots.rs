//! Orders to the root managers of a job, and the reasons to refuse them. Pure.

use mpd_job::manager::refusal_to_retire;
use mpd_stdio::feed::TooManyRanges;
use mpd_stdio::input::MAX_RANKS;
use mpd_wire::message::{JobOrder, JobRef, ManagerOrder, OrderAnswer};
use mpd_wire::{JobId, RankSet};

use crate::line::Line;
use crate::manager_message::ManagerMessage;
use crate::queries::Root;
use crate::table::JobTable;

/// Why an order goes to no root manager here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRoot {
    /// The job has no root manager here.
    Unknown,
    /// It cannot carry out the order; a text for people.
    Refused(String),
}

impl From<NoRoot> for OrderAnswer {
    fn from(no_root: NoRoot) -> Self {
        match no_root {
            NoRoot::Unknown => Self::NoSuchJob,
            NoRoot::Refused(problem) => Self::Failed { problem },
        }
    }
}

/// The messages that carry `order` to the root managers here of the job that `meant` means. [`by_request`] has the line
/// of the log for each.
///
/// # Errors
/// [`NoRoot`]
pub fn manager_messages(
    jobs: &JobTable,
    meant: &JobRef,
    order: &JobOrder,
) -> Result<Vec<ManagerMessage>, NoRoot> {
    let roots = jobs.roots(meant);
    if let (JobRef::Alias(_), [], Some(id)) = (meant, &roots[..], jobs.unregistered_root()) {
        return Err(NoRoot::Refused(is_unregistered(&id)));
    }
    if roots.is_empty() {
        return Err(NoRoot::Unknown);
    }
    if let Some(problem) = roots.iter().find_map(|root| refusal_of(root, order)) {
        return Err(NoRoot::Refused(problem));
    }
    let manager_message =
        |Root { job, .. }| ManagerMessage::new(job, ManagerOrder::Job(order.clone()));
    Ok(roots.into_iter().map(manager_message).collect())
}

/// The line of the log for an order that goes to the root manager of `job`.
pub fn by_request(job: &JobId, order: &JobOrder) -> Line {
    Line::info(format!("job {job}: {order}, by request"))
}

/// A job here whose manager has not registered with this daemon yet may be the one that is meant.
pub fn is_unregistered(job: &JobId) -> String {
    format!("the manager of job {job} is not connected to its new daemon yet; try again")
}

/// Why a root manager cannot carry out an order.
fn refusal_of(root: &Root, order: &JobOrder) -> Option<String> {
    let job = &root.job;
    if !root.connected {
        return Some(format!("job {job}: its manager is not connected to a daemon now; try again"));
    }
    let started = || {
        let receivers = root.receivers.as_ref();
        receivers.ok_or_else(|| format!("job {job} has not started all its ranks yet; try again"))
    };
    let problem = match order {
        JobOrder::Kill
        | JobOrder::Signal { .. }
        | JobOrder::Grow { .. }
        | JobOrder::Label { .. } => return None,
        JobOrder::SwitchStdin { ranks } => match started() {
            Ok((can, size)) => cannot_receive(ranks, can, *size)?,
            Err(problem) => return Some(problem),
        },
        // The manager decides again, with the ranks that run then.
        JobOrder::Retire { count } => match started() {
            Ok((_, size)) => refusal_to_retire(*count, root.running.unwrap_or(*size))?,
            Err(problem) => return Some(problem),
        },
    };
    Some(format!("job {job}: {problem}"))
}

/// Why some of `ranks` cannot receive standard input.
fn cannot_receive(ranks: &RankSet, can: &RankSet, size: u32) -> Option<String> {
    if ranks.to_string().len() > MAX_RANKS {
        return Some(TooManyRanges.to_string());
    }
    let all = *ranks == RankSet::all();
    let highest = ranks.ranges().last().map(|&(_, high)| high);
    if let Some(rank) = highest.filter(|&high| high >= size && !all) {
        return Some(format!(
            "there is no rank {rank}: the last one is {}",
            size.saturating_sub(1)
        ));
    }
    let mut wanted = ranks.ranks().take_while(|rank| rank.0 < size);
    let without = wanted.find(|&rank| !can.contains(rank))?;
    Some(format!(
        "rank {without} has no pipe for standard input: start the job with -stdin-switch, or name \
         only ranks that its -s named"
    ))
}

/// The reply to a console that names an unknown job.
pub fn no_such_job(job: &JobRef) -> String {
    format!("no {job}; 'mpdlistjobs' lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_retired_when_all_have_started_and_one_remains() {
        let why = |receivers, running| {
            let root = Root { job: "7@h1".parse().unwrap(), connected: true, receivers, running };
            refusal_of(&root, &JobOrder::Retire { count: 3 })
        };
        let four = Some((RankSet::none(), 4));
        assert!(why(None, None).unwrap().contains("has not started all its ranks yet"));
        assert_eq!(why(four.clone(), None), None);
        assert!(why(four.clone(), Some(3)).unwrap().contains("job 7@h1: these are all running"));
        assert_eq!(why(four, Some(12)), None);
    }

    #[test]
    fn standard_input_goes_to_existing_ranks_that_have_a_pipe() {
        let why = |ranks: &str, can: &str| {
            cannot_receive(&ranks.parse().unwrap(), &can.parse().unwrap(), 4)
        };
        for fine in ["all", "none", "0", "1-3"] {
            assert_eq!(why(fine, "0-3"), None, "{fine}");
        }
        assert!(why("0,2", "0").unwrap().contains("rank 2 has no pipe"));
        assert!(why("all", "0").unwrap().contains("rank 1 has no pipe"));
        assert!(why("3-9", "0-3").unwrap().contains("no rank 9: the last one is 3"));
    }
}
