//! A daemon without a ring: its answers to managers and consoles. It knows only its own host.

use mpd_jobtable::listing::hosted;
use mpd_jobtable::{JobTable, ManagerMessage, NoRoot, by_request, manager_messages, no_such_job};
use mpd_sansio::Time;
use mpd_wire::message::{ConsoleReply, JobOrder, JobRef, MeetingAnswer, RingRequest};
use mpd_wire::{ConsoleId, DaemonName};

use crate::demand::Demand;
use crate::guests::REFUSAL;
use crate::local_names::LocalNames;
use crate::output::Output;
use crate::spawns;

/// The answer to a console that wants the events of the job.
const NO_EVENTS: &str = "the events of a job are followed through a ring of daemons, and this job has none: start a \
                         ring with 'mpdboot', or a daemon with 'mpd --daemon', before the job";

/// What a daemon without a ring has besides its jobs.
#[derive(Debug, Default)]
pub(crate) struct Alone {
    names: LocalNames,
}

impl Alone {
    /// Answers a manager. `cpus` counts the CPUs of this host.
    pub(crate) fn serve(
        &mut self,
        now: Time,
        name: &str,
        demand: Demand,
        cpus: impl FnOnce() -> u32,
    ) -> Vec<Output> {
        let (messages, lines) = match demand {
            Demand::Name(request) => self.names.serve(now, request),
            Demand::Spawn(spawn) => (spawns::answers(name, spawn, cpus), Vec::new()),
            Demand::Meeting(request) => (vec![request.answered(MeetingAnswer::Gone)], Vec::new()),
            Demand::Cancel(_) | Demand::ManagerEnded { .. } | Demand::Events { .. } => {
                return Vec::new();
            }
        };
        let lines = lines.into_iter().map(Output::Log);
        lines.chain(messages.into_iter().map(Output::ToManager)).collect()
    }
}

/// Answers a console.
pub(crate) fn answer(jobs: &JobTable, console: ConsoleId, request: RingRequest) -> Vec<Output> {
    match request {
        RingRequest::Jobs => listing(jobs, console),
        RingRequest::Job { job, order } => pass(jobs, console, &job, &order),
        RingRequest::JobEvents { .. } => vec![refused(console, NO_EVENTS)],
        // `guests::check_guest` lists the refused requests.
        _ => vec![refused(console, REFUSAL)],
    }
}

fn listing(jobs: &JobTable, console: ConsoleId) -> Vec<Output> {
    let Ok(me) = DaemonName::new(jobs.name()) else { return vec![refused(console, "no name")] };
    let mut answers = Vec::new();
    for page in 0.. {
        let (parts, more) = jobs.listing(page);
        let jobs = hosted(me.clone(), parts).collect();
        let reply = ConsoleReply::Jobs { me: me.clone(), jobs, missing: Vec::new(), more };
        answers.push(Output::Answer { console, reply, is_last: !more });
        if !more {
            break;
        }
    }
    answers
}

fn pass(jobs: &JobTable, console: ConsoleId, job: &JobRef, order: &JobOrder) -> Vec<Output> {
    let messages = match manager_messages(jobs, job, order) {
        Ok(messages) => messages,
        Err(NoRoot::Refused(problem)) => return vec![refused(console, &problem)],
        Err(NoRoot::Unknown) => return vec![refused(console, &no_such_job(job))],
    };
    let line = |message: &ManagerMessage| Output::Log(by_request(&message.job, order));
    let mut outputs: Vec<Output> = messages.iter().map(line).collect();
    let reply = ConsoleReply::Done { missing: Vec::new() };
    outputs.push(Output::Answer { console, reply, is_last: true });
    outputs.extend(messages.into_iter().map(Output::ToManager));
    outputs
}

/// The last answer to a console: a refusal.
pub(crate) fn refused(console: ConsoleId, problem: &str) -> Output {
    let reply = ConsoleReply::Refused { problem: problem.to_owned() };
    Output::Answer { console, reply, is_last: true }
}
