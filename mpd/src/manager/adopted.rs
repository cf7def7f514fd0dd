//! A process that ran before its job: a program that was started alone and has called for a process
//! manager. It is rank 0 of a job of one, on the connection that it opened for that.
//!
//! It is no child of ours, so it is held and signaled by a pidfd, and how it ends is not known, only that it
//! did. It may outlive its job: once it has finalized and closed its connection, it is nobody's business
//! here. Until then it is a rank like others, and is killed with its job.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mpd_io::adopt_inherited;
use mpd_io::pidfd::Pidfd;
use mpd_job::manager::Input;
use mpd_wire::Rank;
use mpd_wire::job::{Failure, JobSpec, RankEnd};
use mpd_wire::message::Phase;

use super::clients::{Client, End};
use super::{ADOPTED, Process};

/// The rank that it is.
const RANK: Rank = Rank(0);

/// What concerns it before it is a rank, and when it was seen to have ended.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    /// The process that is to be the one rank, until it is.
    pub(super) arrived: Option<Arrived>,
    /// An event says that it has ended.
    pub(super) ended: bool,
}

impl Adoption {
    /// What there is to adopt for the manager at `place`.
    pub(super) fn of(spec: &JobSpec, place: usize) -> Result<Self> {
        let arrived = (spec.adopted && place == 0).then(Arrived::inherit).transpose()?;
        Ok(Self { arrived, ended: false })
    }
}

/// One that is to become a rank.
#[derive(Debug)]
pub(super) struct Arrived {
    pmi: UnixStream,
    process: Adopted,
}

impl Arrived {
    /// Takes over what the daemon passed: descriptors 8 its PMI connection, 9 its pidfd.
    fn inherit() -> Result<Self> {
        let inherit = |number| adopt_inherited(number).context("no process was passed");
        let (pmi, pidfd): (OwnedFd, OwnedFd) = (inherit(8)?, inherit(9)?);
        let pidfd = Pidfd::received(pidfd).context("the process that was passed")?;
        // Nothing but bytes goes over it, so it does not matter of which family it is.
        let pmi = UnixStream::from(pmi);
        Ok(Self { pmi, process: Adopted { pidfd, has_aborted: false } })
    }

    /// Makes it a client. What it said is told by events from now on.
    fn settle(self, client: &mut Client, registry: &Registry, token: usize) -> io::Result<()> {
        let Self { pmi, process } = self;
        pmi.set_nonblocking(true)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        let of_pmi = Token(token + End::Pmi.offset());
        registry.register(&mut SourceFd(&pmi.as_raw_fd()), of_pmi, both)?;
        let end = process.pidfd.as_raw_fd();
        registry.register(&mut SourceFd(&end), Token(ADOPTED), Interest::READABLE)?;
        client.take_over(pmi, process);
        Ok(())
    }
}

/// One that is a rank.
#[derive(Debug)]
pub(crate) struct Adopted {
    pidfd: Pidfd,
    has_aborted: bool,
}

impl Adopted {
    /// Its number, if it has not ended.
    pub(crate) fn number(&self) -> Option<u32> {
        self.pidfd.pid().map(|pid| pid.as_raw().unsigned_abs())
    }

    /// It calls for the end of the job, and will end by itself, with a code that its user sees.
    pub(crate) const fn has_aborted(&mut self) {
        self.has_aborted = true;
    }

    /// Signals it alone: the processes of its group are its user's.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        if self.has_aborted && signal == libc::SIGTERM {
            return Ok(());
        }
        self.pidfd.signal(signal)
    }
}

impl Process {
    /// The process that was passed becomes a rank.
    pub(super) fn adopt(&mut self, arrived: Arrived) -> Result<(), Failure> {
        let Some(world) = self.worlds.of(RANK) else { return Ok(()) };
        let mut client = Client::of_singleton(world.facts(RANK, self.spec.universe_size));
        let token = self.clients.next_token();
        if let Err(e) = arrived.settle(&mut client, self.poll.registry(), token) {
            let problem = format!("cannot listen to the program that was running: {e}");
            return Err(Failure::Suite { problem });
        }
        self.begin_span(Phase::Run, Some(RANK));
        self.clients.insert(RANK, client);
        self.answering.push(RANK);
        // That it called for us is use of PMI, whatever it says next.
        self.post(Input::Initialized(RANK));
        Ok(())
    }

    /// Looks whether it has ended, after an event that says so.
    pub(super) fn look_after_adopted(&mut self) {
        if !std::mem::take(&mut self.adoption.ended) {
            return;
        }
        let adopted = self.clients.get(RANK).and_then(Client::adopted);
        if adopted.is_some_and(|adopted| adopted.pidfd.is_over()) {
            // What it said last counts: it may have finalized just before.
            self.serve_pmi_to_the_end(RANK);
            self.release_adopted();
        }
    }

    /// It has ended, or is no part of the job any more.
    pub(super) fn release_adopted(&mut self) {
        let Some(adopted) = self.clients.get_mut(RANK).and_then(Client::release) else { return };
        let end = adopted.pidfd.as_raw_fd();
        let _ = self.poll.registry().deregister(&mut SourceFd(&end));
        self.timers.stop(super::Timer::PmiLost(RANK));
        self.end_span(Phase::Run, Some(RANK));
        // Its code is its parent's. Whether it ended as it should shows in whether it finalized.
        self.post(Input::Exited(RANK, RankEnd::Exited(0)));
    }

    /// Whether the process is still there, so that the job is.
    pub(super) fn has_adopted(&self) -> bool {
        self.clients.get(RANK).and_then(Client::adopted).is_some()
    }

    /// It ends with the job, if it is still part of it.
    pub(super) fn kill_adopted(&mut self) {
        self.adoption.arrived = None;
        let adopted = self.clients.get(RANK).and_then(Client::adopted);
        if adopted.is_some_and(|adopted| adopted.signal(libc::SIGKILL).is_err()) {
            // It has just ended, or has become another user's.
            self.release_adopted();
        }
    }

    /// It goes on together with what was stopped with it.
    pub(super) fn continue_adopted(&self) {
        if let Some(adopted) = self.clients.get(RANK).and_then(Client::adopted) {
            let _ = adopted.signal(libc::SIGCONT);
        }
    }
}
