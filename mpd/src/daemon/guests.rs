//! Consoles that find a private ring by its socket in the run directory: what they may ask for, and the end of
//! their debuggers with the job.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use mpd_io::listed::Listed;
use mpd_machine::Time;
use mpd_wire::JobId;
use mpd_wire::job::JobSpec;
use mpd_wire::message::{ManagerOrder, Opening, RingRequest};

use crate::daemon::door::Door;
use crate::daemon::errand::Errand;
use crate::daemon::jobs::Jobs;

/// What a guest is told who wants something else.
pub(super) const REFUSAL: &str = "this daemon runs the job of one mpirun: it lists, signals and kills that job, switches \
                       its standard input, and runs debuggers of it, and nothing else";

/// See the module.
#[derive(Debug)]
pub(super) struct Guests {
    /// The mpirun that the ring is for.
    owner: u32,
    listed: Option<Listed>,
    door: Door,
    /// Debuggers that were told to end.
    seen_off: BTreeSet<JobId>,
}

impl Guests {
    /// Of the ring that the process `owner` began. Without a `directory`, and where it cannot be used, nobody comes.
    /// `removes_rundir`: see [`Listed::open`].
    pub(super) fn of(owner: u32, directory: Option<&Path>, removes_rundir: bool) -> Self {
        let open = |directory| Listed::open(directory, owner, removes_rundir);
        let listed = directory.map(open).transpose().unwrap_or_else(|error| {
            log::info!("consoles do not find this job: {error}");
            None
        });
        let mut door = Door::new("guest");
        // An event tells of the first one.
        door.ignore();
        Self { owner, listed, door, seen_off: BTreeSet::new() }
    }

    /// Whether consoles can find the ring.
    pub(super) const fn are_let_in(&self) -> bool {
        self.listed.is_some()
    }

    /// The listening socket.
    pub(super) fn listener(&self) -> Option<RawFd> {
        self.listed.as_ref().map(|listed| listed.listener().as_raw_fd())
    }

    pub(super) const fn door(&mut self) -> &mut Door {
        &mut self.door
    }

    /// The same, to look at.
    pub(super) const fn waiting(&self) -> &Door {
        &self.door
    }

    /// The next one who waits.
    pub(super) fn next(&mut self, now: Time) -> Option<UnixStream> {
        let listener = self.listed.as_ref()?.listener();
        self.door.next(now, || listener.accept()).map(|(stream, _)| stream)
    }

    /// Messages to the managers of debuggers: they end once their target job has ended.
    pub(super) fn see_off(&mut self, jobs: &Jobs) -> Vec<Errand> {
        let left = jobs.others_than_of(self.owner);
        let untold: Vec<JobId> =
            left.into_iter().filter(|job| self.seen_off.insert(job.clone())).collect();
        let end = |job| Errand::new(job, ManagerOrder::Kill);
        untold.into_iter().map(end).collect()
    }
}

/// Whether a guest may open with this. A submission is looked at once more when it is whole.
pub(super) fn check(opening: &Opening) -> Result<(), String> {
    match opening {
        Opening::Ring { request, .. } => match request {
            RingRequest::Jobs
            | RingRequest::KillJob { .. }
            | RingRequest::SignalJob { .. }
            | RingRequest::SwitchStdin { .. } => Ok(()),
            RingRequest::Describe
            | RingRequest::Lap { .. }
            | RingRequest::Census
            | RingRequest::Exit { .. }
            | RingRequest::ExitAll
            | RingRequest::Drain { .. }
            | RingRequest::Names
            | RingRequest::Top
            | RingRequest::Watch
            | RingRequest::Ping { .. } => Err(REFUSAL.to_owned()),
        },
        Opening::Submit { .. } => Ok(()),
        Opening::Status { .. } | Opening::Register { .. } => Err(REFUSAL.to_owned()),
    }
}

/// Whether a guest may submit this: debuggers that attach to processes, and no other job.
pub(super) fn check_job(spec: &JobSpec) -> Result<(), String> {
    match &spec.debug {
        Some(debug) if !debug.attach.is_empty() => Ok(()),
        _ => Err(REFUSAL.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use mpd_wire::message::{JobRef, VERSION};

    use super::*;

    #[test]
    fn a_guest_may_list_signal_kill_switch_input_and_submit_and_nothing_else() {
        let job = || JobRef::Private(1);
        let ranks = mpd_wire::RankSet::all();
        let ring = |request| Opening::Ring { version: VERSION, request };
        let fine = [
            ring(RingRequest::Jobs),
            ring(RingRequest::KillJob { job: job() }),
            ring(RingRequest::SignalJob { job: job(), signal: 9, single: true }),
            ring(RingRequest::SwitchStdin { job: job(), ranks }),
            Opening::Submit { version: VERSION, spec_bytes: 1 },
        ];
        assert!(fine.iter().all(|opening| check(opening).is_ok()));
        let bad = [
            ring(RingRequest::ExitAll),
            ring(RingRequest::Exit { member: None }),
            ring(RingRequest::Describe),
            ring(RingRequest::Names),
            Opening::Status { version: VERSION },
        ];
        assert!(bad.iter().all(|opening| check(opening).is_err()));
    }
}
