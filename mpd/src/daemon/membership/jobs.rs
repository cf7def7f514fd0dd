//! What consoles ask about jobs, and what is done about it where the jobs are.

use mpd_ring::RequestId;
use mpd_stdio::feed::TooManyRanges;
use mpd_stdio::input::MAX_RANKS;
use mpd_wire::message::{
    Answer, ConsoleReply, HostedPart, JobPart, JobRef, ManagerOrder, Order, OrderAnswer,
};
use mpd_wire::{DaemonName, RankSet, frame};

use crate::daemon::jobs::{Jobs, Root};
use crate::daemon::membership::asks::Wanted;
use crate::daemon::membership::{Errand, Hands, Membership};

impl Membership {
    /// A console wants the jobs of the ring.
    pub(super) fn list_jobs(&mut self, console: usize) {
        let wanted = Wanted::Jobs { page: 0, missing: Vec::new() };
        self.scatter(console, wanted, &Order::ListJobs { page: 0 });
    }

    /// One page of every host came in.
    pub(super) fn listed(
        &mut self,
        request: RequestId,
        page: u32,
        answers: &[Answer],
        missing: Vec<DaemonName>,
    ) {
        let Some(console) = self.asks.end(request) else { return };
        let me = self.pump.machine().name().clone();
        let listed = self.page(page, answers, |host, answer| match answer {
            OrderAnswer::Jobs { jobs, more } => Some(((host.clone(), jobs), more)),
            _ => None,
        });
        let more = listed.more;
        self.post_page(console, listed, &missing, |hosts, missing, more| {
            let jobs = hosts.into_iter().flat_map(|(host, jobs)| hosted(host, jobs)).collect();
            ConsoleReply::Jobs { me: me.clone(), jobs, missing, more }
        });
        if more {
            let page = page + 1;
            let wanted = Wanted::Jobs { page, missing };
            self.scatter(console, wanted, &Order::ListJobs { page });
        }
    }

    /// A console wants something of a job: the order goes to all, since anybody may have its root.
    pub(super) fn order_job(
        &mut self,
        console: usize,
        job: JobRef,
        order: impl FnOnce(JobRef) -> Order,
    ) {
        let job = job.as_asked_of(self.pump.machine().name());
        let order = order(job.clone());
        self.scatter(console, Wanted::Job(job), &order);
    }

    /// Tells the root managers of a job that are here.
    pub(super) fn obey_job(
        &mut self,
        hands: &Hands<'_>,
        job: &JobRef,
        order: &ManagerOrder,
    ) -> OrderAnswer {
        match errands(hands.jobs, job, order) {
            Ok(errands) => {
                self.errands.extend(errands);
                OrderAnswer::Done
            }
            Err(answer) => answer,
        }
    }
}

/// What the root managers of a job that are here are to be told, or why they are not.
pub(crate) fn errands(
    jobs: &Jobs,
    job: &JobRef,
    order: &ManagerOrder,
) -> Result<Vec<Errand>, OrderAnswer> {
    let roots = jobs.roots(job);
    if roots.is_empty() {
        return Err(OrderAnswer::NoSuchJob);
    }
    if let Some(problem) = roots.iter().find_map(|root| obstacle(root, order)) {
        return Err(OrderAnswer::Failed { problem });
    }
    let errand = |Root { job, .. }| {
        log::info!("job {job}: {order:?} by request");
        Errand { job, order: order.clone(), link: None }
    };
    Ok(roots.into_iter().map(errand).collect())
}

/// Why a root manager cannot carry out an order.
fn obstacle(root: &Root, order: &ManagerOrder) -> Option<String> {
    let job = &root.job;
    if !root.connected {
        return Some(format!("job {job}: its manager has no daemon just now; try again"));
    }
    let ManagerOrder::SwitchStdin { ranks } = order else { return None };
    let Some((can, size)) = &root.receivers else {
        return Some(format!("job {job} has not started all its ranks yet; try again"));
    };
    let problem = cannot_receive(ranks, can, *size)?;
    Some(format!("job {job}: {problem}"))
}

/// Why not all of `ranks` can be given standard input.
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

pub(crate) fn hosted(host: DaemonName, jobs: Vec<JobPart>) -> impl Iterator<Item = HostedPart> {
    jobs.into_iter().map(move |part| HostedPart { host: host.clone(), part })
}

pub(crate) fn no_such_job(job: &JobRef) -> String {
    format!("no {job}; 'mpdlistjobs' lists them")
}

/// What a console is told of an order about a job.
pub(super) fn outcome(job: &JobRef, answers: &[Answer], missing: Vec<DaemonName>) -> ConsoleReply {
    let mut found = false;
    let mut failed = None;
    for answer in answers {
        match frame::decode_message(answer.answer.as_bytes()) {
            Ok(OrderAnswer::Done) => found = true,
            Ok(OrderAnswer::Failed { problem }) => failed = Some(problem),
            _ => {}
        }
    }
    let names: Vec<&str> = missing.iter().map(DaemonName::as_str).collect();
    match failed {
        Some(problem) => ConsoleReply::Refused { problem },
        // Who has an id has it alone; others may have the same alias.
        None if found && matches!(job, JobRef::Id(_) | JobRef::Private(_)) => {
            ConsoleReply::Done { missing: Vec::new() }
        }
        None if found => ConsoleReply::Done { missing },
        None if names.is_empty() => ConsoleReply::Refused { problem: no_such_job(job) },
        None => ConsoleReply::Refused {
            problem: format!(
                "no {job} where daemons answered; no answer from {}",
                names.join(", ")
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::membership::orders::payload_of;

    fn name(text: &str) -> DaemonName {
        DaemonName::new(text).unwrap()
    }

    fn told(job: &JobRef, answers: &[OrderAnswer], missing: &[&str]) -> ConsoleReply {
        let answer = |answer| Answer { name: name("h"), answer: payload_of(answer) };
        let answers: Vec<Answer> = answers.iter().map(answer).collect();
        outcome(job, &answers, missing.iter().map(|text| name(text)).collect())
    }

    #[test]
    fn standard_input_goes_to_ranks_that_are_there_and_have_a_pipe() {
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

    #[test]
    fn a_job_that_was_found_is_done_and_one_that_nobody_has_is_refused() {
        let id = JobRef::Id("3@h1".parse().unwrap());
        let alias = JobRef::Alias("x".to_owned());
        let (here, not_here) = (OrderAnswer::Done, OrderAnswer::NoSuchJob);
        let done = |missing: &[&str]| ConsoleReply::Done {
            missing: missing.iter().map(|text| name(text)).collect(),
        };
        let both = [not_here.clone(), here];
        assert_eq!(told(&id, &both, &["h9"]), done(&[]));
        assert_eq!(told(&alias, &both, &["h9"]), done(&["h9"]), "h9 may have another one");
        let refused = |reply| match reply {
            ConsoleReply::Refused { problem } => problem,
            other => panic!("{other:?}"),
        };
        assert!(refused(told(&id, std::slice::from_ref(&not_here), &[])).contains("no job 3@h1"));
        assert!(refused(told(&alias, &[not_here], &["h9"])).contains("no answer from h9"));
        let failed = OrderAnswer::Failed { problem: "try again".to_owned() };
        assert_eq!(refused(told(&id, &[failed], &[])), "try again");
    }
}
