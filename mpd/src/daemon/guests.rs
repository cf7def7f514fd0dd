//! Consoles that find a private ring by its socket in the run directory, and the requests that they may send.

use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use mpd_io::ring::private_socket::Listed;
use mpd_sansio::Time;
use mpd_wire::job::JobSpec;
use mpd_wire::message::{Opening, RingRequest};

use crate::daemon::acceptor::Acceptor;

/// The answer to any other request of a guest.
pub(super) const REFUSAL: &str = "this daemon runs the job of one mpirun: it lists and follows that job, \
                       carries out orders to it, prints its state, and runs debuggers of it, and nothing else";

/// The socket of a private ring for consoles.
#[derive(Debug)]
pub(super) struct Guests {
    /// The process id of the mpirun that the ring is for.
    owner: u32,
    listed: Option<Listed>,
    acceptor: Acceptor,
}

impl Guests {
    /// The socket of the ring that the process `owner` began. Without a usable `directory` there is no socket and
    /// no guest. `removes_rundir`: see [`Listed::open`].
    pub(super) fn of(owner: u32, directory: Option<&Path>, removes_rundir: bool) -> Self {
        let open = |directory| Listed::open(directory, owner, removes_rundir);
        let listed = directory.map(open).transpose().unwrap_or_else(|error| {
            log::info!("consoles do not find this job: {error}");
            None
        });
        let mut acceptor = Acceptor::new("guest");
        // An event reports the first connection.
        acceptor.mark_idle();
        Self { owner, listed, acceptor }
    }

    /// The process id of the mpirun that the ring is for.
    pub(super) const fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether consoles can find the ring.
    pub(super) const fn are_findable(&self) -> bool {
        self.listed.is_some()
    }

    /// The listening socket.
    pub(super) fn listener(&self) -> Option<RawFd> {
        self.listed.as_ref().map(|listed| listed.listener().as_raw_fd())
    }

    pub(super) const fn acceptor_mut(&mut self) -> &mut Acceptor {
        &mut self.acceptor
    }

    pub(super) const fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    /// The next connection of a guest.
    pub(super) fn next(&mut self, now: Time) -> Option<UnixStream> {
        let listener = self.listed.as_ref()?.listener();
        self.acceptor.next(now, || listener.accept()).map(|(stream, _)| stream)
    }
}

/// Whether a guest may open with this. [`check_job`] checks a submission when it is complete.
pub(super) fn check(opening: &Opening) -> Result<(), String> {
    match opening {
        Opening::Ring { request, .. } => match request {
            RingRequest::Jobs
            | RingRequest::Job { .. }
            | RingRequest::JobEvents { .. }
            | RingRequest::State { job: Some(_) } => Ok(()),
            RingRequest::Describe
            | RingRequest::Lap { .. }
            | RingRequest::Census
            | RingRequest::Exit { .. }
            | RingRequest::ExitAll
            | RingRequest::Drain { .. }
            | RingRequest::Names
            | RingRequest::Slots(_)
            | RingRequest::Top
            | RingRequest::Introduce { .. }
            | RingRequest::Seek { .. }
            | RingRequest::Watch
            | RingRequest::State { job: None }
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
    use mpd_wire::message::{JobOrder, JobRef, VERSION};

    use super::*;

    #[test]
    fn a_guest_may_list_signal_kill_switch_input_and_submit_and_nothing_else() {
        let job = || JobRef::Private(1);
        let ranks = mpd_wire::RankSet::all();
        let ring = |request| Opening::Ring { version: VERSION, request };
        let fine = [
            ring(RingRequest::Jobs),
            ring(RingRequest::Job { job: job(), order: JobOrder::Kill }),
            ring(RingRequest::Job {
                job: job(),
                order: JobOrder::Signal { signal: 9, single: true },
            }),
            ring(RingRequest::Job { job: job(), order: JobOrder::SwitchStdin { ranks } }),
            ring(RingRequest::State { job: Some(job()) }),
            Opening::Submit { version: VERSION, spec_bytes: 1 },
        ];
        assert!(fine.iter().all(|opening| check(opening).is_ok()));
        let bad = [
            ring(RingRequest::ExitAll),
            ring(RingRequest::Exit { member: None }),
            ring(RingRequest::Describe),
            ring(RingRequest::Names),
            ring(RingRequest::State { job: None }),
            Opening::Status { version: VERSION },
        ];
        assert!(bad.iter().all(|opening| check(opening).is_err()));
    }
}
