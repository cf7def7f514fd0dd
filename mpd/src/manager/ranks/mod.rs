//! The processes of the ranks of this host. The machine of `mpd-ranks` decides, in the node; this module answers its questions
//! and performs its actions, in their order.
//!
//! | module | has |
//! |---|---|
//! | [`answers`] | the answers to the machine's questions |
//! | [`launches`], [`resources`] | what ranks are started with, and the report of their CPUs |
//! | [`process`], [`descriptors`] | the process of a rank, its descriptors, and their tokens |
//! | [`confinement`] | limits of the job's control group |
//! | [`shims`] | the control sockets of launcher shims |
//! | [`adoption`] | a process that ran before its job |
//! | [`readiness`] | the order in which processes are killed when memory runs out |

mod adoption;
mod answers;
mod confinement;
mod descriptors;
mod launches;
mod process;
mod readiness;
mod resources;
mod shims;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use anyhow::Result;
use mpd_clients::Client;
use mpd_io::files::logging::plain;
use mpd_io::process::cgroup::Cgroup;
use mpd_io::process::session_share::set_niceness;
use mpd_io::process::signals::{send, send_to_group};
use mpd_io::process::spawn::LowNumbers;
use mpd_io::process::tree;
use mpd_job::manager::Input as JobInput;
use mpd_ranks::{Action, Input, Line, Sent, Slot, Way};
use mpd_wire::Rank;

use self::adoption::Adoption;
use self::descriptors::PMI_FD;
pub(super) use self::descriptors::RankDescriptor;
use self::launches::Prepared;
use self::process::Ends;
pub(super) use self::process::end_of;
use self::readiness::Readiness;
use self::shims::Shims;
use super::context::Turn;
use super::event::Descriptors;
use super::pmi_socket::PmiSocket;
use crate::mpi_users::Search;
use mpd_io::process::identity::process_of;

/// What the actions of the machine concern.
#[derive(Debug)]
pub(super) struct Ranks {
    /// What the ranks of each world are started with, by its first rank.
    prepared: BTreeMap<Rank, Prepared>,
    /// The descriptors of the rank that was just started.
    ends: Option<Ends>,
    shims: Shims,
    adoption: Adoption,
    search: Option<Search>,
    /// The control group in which they are started, if there is one.
    cgroup: Option<Rc<Cgroup>>,
    /// Present while there are many ranks.
    low: Option<LowNumbers>,
    readiness: Readiness,
    /// The system has refused a niceness of the session.
    is_refused: bool,
}

impl Ranks {
    /// No rank runs. `readiness`: how readily the kernel kills this manager for lack of memory. `adopted`: the PMI
    /// connection and the pidfd of a running process.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(
        cgroup: Option<Rc<Cgroup>>,
        readiness: Option<i16>,
        adopted: Option<[OwnedFd; 2]>,
    ) -> Result<Self> {
        Ok(Self {
            prepared: BTreeMap::new(),
            ends: None,
            shims: Shims::default(),
            adoption: Adoption::of(adopted)?,
            search: None,
            cgroup,
            low: None,
            readiness: Readiness::new(readiness),
            is_refused: false,
        })
    }

    /// The finding of a helper that has ended.
    pub(super) fn receive_search(&mut self) -> Option<Input> {
        let found = self.search.as_mut()?.receive()?;
        self.search = None;
        Some(Input::SearchEnded(found))
    }

    // ----- signals -----

    /// Sends a signal to all ranks. Returns the processes that belong to another user now, since the kernel refuses
    /// to signal them.
    pub(super) fn signal(&mut self, signal: i32, ways: Vec<(Rank, Way)>) -> Vec<mpd_wire::Pid> {
        let mut refused = Vec::new();
        for (rank, way) in ways {
            let sent = self.send(rank, &way, signal);
            if let (Err(e), Way::Shim(_, pid) | Way::Process(pid) | Way::Group(pid)) = (sent, way)
                && e.kind() == ErrorKind::PermissionDenied
                && !tree::is_dead(process_of(pid))
            {
                refused.push(pid);
            }
        }
        refused
    }

    /// Sends a signal to a rank.
    pub(super) fn send(&mut self, rank: Rank, way: &Way, signal: i32) -> io::Result<()> {
        match way {
            Way::Shim(order, _) if self.shims.send(rank, order) == Sent::Yes => Ok(()),
            Way::Shim(_, pid) | Way::Group(pid) => send_to_group(process_of(*pid), signal),
            Way::Process(pid) => send(process_of(*pid), signal),
            Way::Adopted => self.adoption.rank().map_or(Ok(()), |pidfd| pidfd.signal(signal)),
            Way::None => Ok(()),
        }
    }

    /// Continues the adopted process.
    pub(super) fn continue_adopted(&self) {
        self.adoption.rank().into_iter().for_each(|pidfd| drop(pidfd.signal(libc::SIGCONT)));
    }

    // ----- ends -----

    /// Notes an event: the adopted process has ended.
    pub(super) const fn mark_adopted(&mut self) {
        if let Adoption::Rank(_, is_marked) = &mut self.adoption {
            *is_marked = true;
        }
    }

    /// Whether the end of the adopted process was detected since the last call.
    pub(super) fn take_adopted_end(&mut self) -> bool {
        match &mut self.adoption {
            Adoption::Rank(pidfd, is_marked) => std::mem::take(is_marked) && pidfd.is_over(),
            Adoption::None | Adoption::Arrived(_) => false,
        }
    }

    // ----- launcher shims -----

    /// Notes an event: the shim of a rank has reported something, or accepts more orders.
    pub(super) fn mark_shim(&mut self, rank: Rank) {
        self.shims.ready.push(rank);
    }

    /// Whether reports can be read now.
    pub(super) const fn has_work(&self) -> bool {
        !self.shims.ready.is_empty()
    }

    /// The ranks whose shims have reported something.
    pub(super) fn take_ready_shims(&mut self) -> Vec<Rank> {
        std::mem::take(&mut self.shims.ready)
    }

    /// The waiting reports of a rank's shim. `None` without a shim.
    pub(super) fn read_shim(&mut self, turn: &Turn<'_>, rank: Rank) -> Option<Input> {
        Some(match self.shims.exchange(rank)? {
            Ok(reports) => Input::Reports(rank, reports),
            Err(e) => {
                let name = turn.job.name_of(rank);
                log::warn!("rank {name}: its shim broke the protocol: {e}");
                Input::ShimBroken(rank)
            }
        })
    }

    /// Gives the program of a debugged rank a new PMI connection.
    fn reconnect(&mut self, turn: &mut Turn<'_>, (rank, slot): (Rank, Slot)) {
        let token = RankDescriptor::Pmi.token(slot);
        let connected = self.shims.connect(rank);
        match connected.and_then(|pmi| PmiSocket::watch(turn.registry, token, pmi)) {
            Ok(pmi) => turn.hand_over(Descriptors::Pmi(rank, Client::Debugged, pmi)),
            Err(e) => {
                let text = format!("rank {rank}: its program will not find PMI: {}", plain(&e));
                turn.post(JobInput::Notice(text));
            }
        }
    }

    // ----- actions -----

    /// Performs an action.
    pub(super) fn perform(&mut self, turn: &mut Turn<'_>, action: Action) {
        match action {
            Action::Prepared(first, launches) => self.keep(turn, first, launches),
            Action::BeginStarts { are_several, are_many } => {
                self.begin_starts(turn, are_several, are_many);
            }
            Action::HandOver(rank) => {
                if let Some(Ends { pipes, pmi, client }) = self.ends.take() {
                    turn.hand_over(Descriptors::Pipes(rank, Box::new(pipes)));
                    turn.hand_over(Descriptors::Pmi(rank, client, pmi));
                }
            }
            Action::EndStarts => self.end_starts(turn),
            Action::FreeLowNumbers => self.low = None,
            Action::SetNiceness(_) if self.is_refused => {}
            Action::SetNiceness(niceness) => {
                if let Err(e) = set_niceness(niceness) {
                    log::debug!("the ranks of this host have one session's share of its CPUs: {e}");
                    self.is_refused = true;
                    turn.report(Input::NicenessRefused);
                }
            }
            Action::ForgetPrepared(first) => drop(self.prepared.remove(&first)),

            Action::ReleaseAdopted => self.adoption.forget(turn.registry),
            Action::EndSearch => self.search = None,

            Action::Tell(rank, order) => drop(self.shims.send(rank, &order)),
            Action::Reconnect(rank, slot) => self.reconnect(turn, (rank, slot)),
            Action::DropShim(rank) => self.shims.remove(rank),

            Action::Log(line) => write(turn, &line),
        }
    }

    fn begin_starts(&mut self, turn: &Turn<'_>, are_several: bool, are_many: bool) {
        if are_several {
            self.readiness.begin_starts();
        }
        if self.low.is_none() && are_many {
            self.low = LowNumbers::new(PMI_FD + 1, turn.null)
                .inspect_err(|e| {
                    log::warn!("ranks start slowly, without low numbers for descriptors: {e}")
                })
                .ok();
        }
    }

    fn end_starts(&mut self, turn: &Turn<'_>) {
        self.readiness.end_starts();
        let cleared = self.low.as_ref().map_or(Ok(()), |low| low.clear(turn.null));
        if let Err(e) = cleared {
            // They hold pipes of ranks open, whose ends would not be seen.
            log::error!("cannot clear the low numbers for descriptors: {e}");
            self.low = None;
        }
    }
}

fn write(turn: &Turn<'_>, line: &Line) {
    match line {
        Line::MalformedCommand(bytes) => {
            log::warn!("a command of {bytes} bytes for debuggers is malformed");
        }
        Line::Alone(rank, library) => {
            log::info!("rank {}: uses {library} without PMI", turn.job.name_of(*rank));
        }
        Line::ShimStarted(pid) => log::debug!("the shim has started process {pid}"),
    }
}
