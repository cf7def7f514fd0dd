//! Signals for processes, through the daemon: each process is a job with an alias.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use mpd_io::ring::console::{Console, ConsoleError};
use mpd_io::ring::rundir::RunDir;
use mpd_requests::{Error, RequestId, ToProgram};
use mpd_wire::message::{JobOrder, JobRef, RingRequest};

/// A signal for one process, or the order to kill it.
#[derive(Debug)]
struct Order {
    /// The number of the call; 0: no call waits for it.
    number: u64,
    id: RequestId,
    request: RingRequest,
    /// The connection, when the order is sent.
    console: Option<Console>,
}

/// The signals that are under way.
#[derive(Debug, Default)]
pub(super) struct Orders {
    orders: Vec<Order>,
    /// By call: why it has failed, if it has.
    calls: BTreeMap<u64, Option<Error>>,
}

impl Orders {
    /// Adds a signal for these jobs.
    pub(super) fn add(&mut self, number: u64, signal: u8, jobs: Vec<(RequestId, String)>) {
        self.calls.insert(number, None);
        let order = |(id, alias)| {
            let job = JobRef::Alias(alias);
            let request =
                RingRequest::Job { job, order: JobOrder::Signal { signal, single: false } };
            Order { number, id, request, console: None }
        };
        self.orders.extend(jobs.into_iter().map(order));
    }

    /// Adds the order to kill a process.
    pub(super) fn kill(&mut self, id: RequestId, alias: String) {
        let request = RingRequest::Job { job: JobRef::Alias(alias), order: JobOrder::Kill };
        self.orders.push(Order { number: 0, id, request, console: None });
    }

    /// Sends signals to the processes that have started. `is_started`: `None` for a process that has ended.
    pub(super) fn pass(&mut self, rundir: &RunDir, is_started: impl Fn(RequestId) -> Option<bool>) {
        let calls = &mut self.calls;
        self.orders.retain_mut(|order| {
            if order.console.is_some() {
                return true;
            }
            match is_started(order.id) {
                None => return false,
                Some(false) => return true,
                Some(true) => {}
            }
            match Console::ask(rundir, order.request.clone()) {
                Ok(console) => order.console = Some(console),
                Err(error) => {
                    failed(order.number, calls, &error);
                    return false;
                }
            }
            true
        });
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.orders.iter().filter_map(|order| order.console.as_ref()).map(|console| console.as_fd())
    }

    /// The answers for calls whose signals are all sent.
    pub(super) fn answers(&mut self) -> Vec<ToProgram> {
        let calls = &mut self.calls;
        self.orders.retain_mut(|order| {
            let Some(console) = &mut order.console else { return true };
            match console.answer(Some(Duration::ZERO)) {
                Err(ConsoleError::Silent(_)) => return true,
                // A refusal: the job has ended meanwhile, and no process is left for the signal.
                Ok(_) | Err(ConsoleError::Refused(_)) => {}
                Err(error) => {
                    failed(order.number, calls, &error);
                }
            }
            false
        });
        let is_done = |number: &u64| !self.orders.iter().any(|order| order.number == *number);
        let done: Vec<u64> = calls.keys().copied().filter(is_done).collect();
        let answer = |number: u64| {
            let error = calls.remove(&number).flatten();
            ToProgram::Answer { number, error }
        };
        done.into_iter().map(answer).collect()
    }
}

fn failed(number: u64, calls: &mut BTreeMap<u64, Option<Error>>, error: &ConsoleError) {
    if let Some(call) = calls.get_mut(&number) {
        *call = Some(Error::Daemon(error.to_string()));
    }
}
