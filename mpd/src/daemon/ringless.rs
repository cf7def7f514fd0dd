//! Answers for consoles by a daemon without a ring, which knows only its own host.

use mpd_daemon::{NoRoot, by_request, manager_messages, no_such_job};
use mpd_jobtable::ManagerMessage;
use mpd_jobtable::listing::hosted;
use mpd_wire::DaemonName;
use mpd_wire::message::{ConsoleReply, JobOrder, JobRef, RingRequest};

use crate::daemon::guests::REFUSAL;
use crate::daemon::jobs::Jobs;
use crate::daemon::lines;

/// The answer to a console that wants the events of the job.
const ALONE: &str = "the events of a job are followed through a ring of daemons, and this job has none: start a ring \
                     with 'mpdboot', or a daemon with 'mpd --daemon', before the job";

/// The replies to the console, and messages to managers.
pub(super) fn answer(
    jobs: &mut Jobs,
    request: RingRequest,
) -> (Vec<ConsoleReply>, Vec<ManagerMessage>) {
    match request {
        RingRequest::Jobs => (listing(jobs), Vec::new()),
        RingRequest::Job { job, order } => pass(jobs, &job, &order),
        RingRequest::JobEvents { .. } => (vec![refused(ALONE)], Vec::new()),
        // `guests::check` lists the refused requests.
        _ => (vec![refused(REFUSAL)], Vec::new()),
    }
}

fn listing(jobs: &mut Jobs) -> Vec<ConsoleReply> {
    let Ok(me) = DaemonName::new(jobs.table().name()) else { return vec![refused("no name")] };
    let mut replies = Vec::new();
    for page in 0.. {
        let (parts, more) = jobs.listing(page);
        let parts = hosted(me.clone(), parts).collect();
        replies.push(ConsoleReply::Jobs { me: me.clone(), jobs: parts, missing: Vec::new(), more });
        if !more {
            break;
        }
    }
    replies
}

fn pass(jobs: &Jobs, job: &JobRef, order: &JobOrder) -> (Vec<ConsoleReply>, Vec<ManagerMessage>) {
    match manager_messages(jobs.table(), job, order) {
        Ok(manager_messages) => {
            let line = |message: &ManagerMessage| by_request(&message.job, order);
            lines::write_all(manager_messages.iter().map(line));
            (vec![ConsoleReply::Done { missing: Vec::new() }], manager_messages)
        }
        Err(NoRoot::Refused(problem)) => (vec![refused(&problem)], Vec::new()),
        Err(NoRoot::Unknown) => (vec![refused(&no_such_job(job))], Vec::new()),
    }
}

fn refused(problem: &str) -> ConsoleReply {
    ConsoleReply::Refused { problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use mpd_io::clock::Clock;
    use mpd_jobtable::Beginning;
    use mpd_wire::message::HostLimits;

    use super::*;

    #[test]
    fn a_daemon_without_jobs_lists_none_and_knows_none() {
        let beginning = Beginning {
            name: "h1".to_owned(),
            instance: mpd_wire::Instance::from_bytes([1; 16]),
            host: "h1".to_owned(),
            user: None,
            rundir: None,
            limits: HostLimits::default(),
            wanted: 0,
            patience: None,
            first: None,
            inherited: Vec::new(),
        };
        let mut jobs = Jobs::new(beginning, None, None, Clock::start());
        let (replies, manager_messages) = answer(&mut jobs, RingRequest::Jobs);
        let [ConsoleReply::Jobs { me, jobs: parts, more: false, .. }] = &replies[..] else {
            panic!("{replies:?}");
        };
        assert_eq!((me.as_str(), parts.len(), manager_messages.len()), ("h1", 0, 0));
        let kill = RingRequest::Job { job: JobRef::Private(7), order: JobOrder::Kill };
        let (replies, manager_messages) = answer(&mut jobs, kill);
        assert!(manager_messages.is_empty());
        assert_eq!(replies, [refused("no job p7; 'mpdlistjobs' lists them")]);
        let (replies, _) = answer(&mut jobs, RingRequest::ExitAll);
        assert_eq!(replies, [refused(REFUSAL)]);
    }
}
