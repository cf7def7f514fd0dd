//! The result of an order that went to all members. Pure.

use mpd_jobtable::no_such_job;
use mpd_wire::DaemonName;
use mpd_wire::message::{Answer, ConsoleReply, JobRef, OrderAnswer};

use crate::request::read_payload;

/// The reply to a console that ordered something about a job.
pub(crate) fn outcome(job: &JobRef, answers: &[Answer], missing: Vec<DaemonName>) -> ConsoleReply {
    let mut found = false;
    let mut failed = None;
    let mut unaware: Vec<&str> = Vec::new();
    for answer in answers {
        match read_payload(&answer.answer) {
            Ok(OrderAnswer::Done) => found = true,
            Ok(OrderAnswer::Failed { problem }) => failed = Some(problem),
            Ok(OrderAnswer::Unknown) | Err(_) => unaware.push(answer.name.as_str()),
            Ok(
                OrderAnswer::NoSuchJob
                | OrderAnswer::Found { .. }
                | OrderAnswer::Jobs { .. }
                | OrderAnswer::Top { .. }
                | OrderAnswer::Load { .. }
                | OrderAnswer::Slots(_)
                | OrderAnswer::Events(_)
                | OrderAnswer::MemberDescription { .. },
            ) => {}
        }
    }
    let names: Vec<&str> = missing.iter().map(DaemonName::as_str).collect();
    match failed {
        Some(problem) => ConsoleReply::Refused { problem },
        // Only one job has this id. Several jobs may have the same alias.
        None if found && matches!(job, JobRef::Id(_) | JobRef::Private(_)) => {
            ConsoleReply::Done { missing: Vec::new() }
        }
        None if found => ConsoleReply::Done { missing },
        None if !unaware.is_empty() => ConsoleReply::Refused {
            problem: format!(
                "no {job} where daemons know this order; of another release: {}",
                unaware.join(", ")
            ),
        },
        None if names.is_empty() => ConsoleReply::Refused { problem: no_such_job(job) },
        None => ConsoleReply::Refused {
            problem: format!(
                "no {job} where daemons answered; no answer from {}",
                names.join(", ")
            ),
        },
    }
}

/// The members that could not carry out an order, each with its reason; `None`: all could.
pub(crate) fn failures(answers: &[Answer]) -> Option<String> {
    let failure = |answer: &Answer| {
        let OrderAnswer::Failed { problem } = read_payload(&answer.answer).ok()? else {
            return None;
        };
        Some(format!("{}: {problem}", answer.name))
    };
    let lines: Vec<String> = answers.iter().filter_map(failure).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::payload_of;

    fn name(text: &str) -> DaemonName {
        DaemonName::new(text).unwrap()
    }

    fn reported(job: &JobRef, answers: &[OrderAnswer], missing: &[&str]) -> ConsoleReply {
        let answer = |answer| Answer { name: name("h"), answer: payload_of(answer) };
        let answers: Vec<Answer> = answers.iter().map(answer).collect();
        outcome(job, &answers, missing.iter().map(|text| name(text)).collect())
    }

    #[test]
    fn an_order_about_a_found_job_is_done_and_about_an_unknown_job_is_refused() {
        let id = JobRef::Id("3@h1".parse().unwrap());
        let alias = JobRef::Alias("x".to_owned());
        let (here, not_here) = (OrderAnswer::Done, OrderAnswer::NoSuchJob);
        let done = |missing: &[&str]| ConsoleReply::Done {
            missing: missing.iter().map(|text| name(text)).collect(),
        };
        let both = [not_here.clone(), here];
        assert_eq!(reported(&id, &both, &["h9"]), done(&[]));
        assert_eq!(reported(&alias, &both, &["h9"]), done(&["h9"]), "h9 may have another one");
        let refused = |reply| match reply {
            ConsoleReply::Refused { problem } => problem,
            other => panic!("{other:?}"),
        };
        assert!(
            refused(reported(&id, std::slice::from_ref(&not_here), &[])).contains("no job 3@h1")
        );
        assert!(refused(reported(&alias, &[not_here], &["h9"])).contains("no answer from h9"));
        let failed = OrderAnswer::Failed { problem: "try again".to_owned() };
        assert_eq!(refused(reported(&id, &[failed], &[])), "try again");
    }

    #[test]
    fn daemons_that_do_not_know_an_order_are_named_unless_another_one_has_carried_it_out() {
        let id = JobRef::Id("3@h1".parse().unwrap());
        let answers = [OrderAnswer::NoSuchJob, OrderAnswer::Unknown];
        let problem = "no job 3@h1 where daemons know this order; of another release: h".to_owned();
        assert_eq!(reported(&id, &answers, &[]), ConsoleReply::Refused { problem });
        let answers = [OrderAnswer::Unknown, OrderAnswer::Done];
        assert_eq!(reported(&id, &answers, &[]), ConsoleReply::Done { missing: Vec::new() });
    }
}
