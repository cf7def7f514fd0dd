//! The processes of the ranks of this host. The machine of `mpd-ranks` decides; this module answers its questions and
//! performs its outputs, in their order.
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
//! | [`this_host`] | what the machine reads of this host |

mod adoption;
mod answers;
mod confinement;
mod descriptors;
mod launches;
mod process;
mod readiness;
mod resources;
mod shims;
#[cfg(test)]
mod tests;
mod this_host;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use anyhow::Result;
use mpd_clients::{Client, FromJob};
use mpd_ending::{Input as Ending, SignalTarget};
use mpd_io::files::logging::plain;
use mpd_io::process::cgroup::Cgroup;
use mpd_io::process::oom;
use mpd_io::process::session_share::set_niceness;
use mpd_io::process::signals::{send, send_to_group};
use mpd_io::process::spawn::LowNumbers;
use mpd_io::process::tree;
use mpd_job::manager::Input as JobInput;
use mpd_ranks::{self as machine, Beginning, Context, Input, Line, Output, Sent, Way};
use mpd_sansio::Time;
use mpd_wire::Rank;
use mpd_wire::message::Phase;
use nix::unistd::Pid;

use self::adoption::Adoption;
use self::descriptors::PMI_FD;
pub(super) use self::descriptors::RankDescriptor;
use self::launches::Prepared;
use self::process::{Ends, end_of};
use self::readiness::Readiness;
use self::shims::Shims;
use self::this_host::{ThisHost, descriptor_limit};
use super::context::Turn;
use super::ending::groups::Groups;
use super::event::{Descriptors, Event, ForStdio};
use super::links::staging::Staging;
use super::pmi_socket::PmiSocket;
use crate::mpi_users::Search;
use mpd_io::process::identity::{number_of, process_of};

/// What the ranks of this host have in common.
#[derive(Debug)]
pub(super) struct Place {
    /// The control group in which they are started, if there is one.
    pub(super) cgroup: Option<Rc<Cgroup>>,
    /// How readily the kernel kills this manager for lack of memory.
    pub(super) readiness: Option<i16>,
    /// The shared objects of groups of ranks.
    pub(super) groups: Rc<Groups>,
    /// The daemon that started this process.
    pub(super) daemon: Pid,
}

/// The machine, and what its outputs concern.
#[derive(Debug)]
pub(super) struct Ranks {
    machine: machine::Ranks,
    /// What the ranks of each world are started with, by its first rank.
    prepared: BTreeMap<Rank, Prepared>,
    /// The descriptors of the rank that was just started.
    ends: Option<Ends>,
    shims: Shims,
    adoption: Adoption,
    search: Option<Search>,
    cgroup: Option<Rc<Cgroup>>,
    groups: Rc<Groups>,
    /// Present while there are many ranks.
    low: Option<LowNumbers>,
    readiness: Readiness,
}

impl Ranks {
    /// No rank runs. `adopted`: the PMI connection and the pidfd of a running process.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(place: Place, adopted: Option<[OwnedFd; 2]>) -> Result<Self> {
        let Place { cgroup, readiness, groups, daemon } = place;
        let readiness = Readiness::new(readiness);
        let (kills, began) = (oom::kills(), oom::log_time());
        Ok(Self {
            machine: machine::Ranks::new(Beginning {
                adopts: adopted.is_some(),
                began,
                kills,
                daemon: number_of(daemon),
            }),
            prepared: BTreeMap::new(),
            ends: None,
            shims: Shims::default(),
            adoption: Adoption::of(adopted)?,
            search: None,
            cgroup,
            groups,
            low: None,
            readiness,
        })
    }

    /// The rank and the descriptor of a token.
    pub(super) fn of_token(&self, token: usize) -> Option<(Rank, RankDescriptor)> {
        let (slot, descriptor) = RankDescriptor::of(token)?;
        Some((self.machine.at(slot)?, descriptor))
    }

    /// The rank of a child.
    pub(super) fn of_pid(&self, pid: Pid) -> Option<Rank> {
        self.machine.of_pid(number_of(pid))
    }

    /// Whether the adopted process still belongs to the job, so that the job continues.
    pub(super) fn has_adopted(&self) -> bool {
        self.machine.has_adopted()
    }

    /// Whether ranks are still to be started.
    pub(super) fn is_any_starting(&self) -> bool {
        self.machine.is_any_starting()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.machine.poll_timeout()
    }

    // ----- inputs -----

    /// Gives the machine an input, and performs its outputs.
    pub(super) fn give(&mut self, turn: &mut Turn<'_>, input: Input) {
        self.give_with(turn, None, input);
    }

    /// The first phase: checks the ranks here, unless a `problem` is already known. Some programs may have been brought.
    pub(super) fn check(
        &mut self,
        turn: &mut Turn<'_>,
        problem: Option<String>,
        staging: Option<&Staging>,
    ) {
        turn.begin(Phase::Checks, None);
        self.give_with(turn, staging, Input::Check(problem));
    }

    fn give_with(&mut self, turn: &mut Turn<'_>, staging: Option<&Staging>, input: Input) {
        self.call(turn, staging, |machine, context| machine.handle(context, input));
        self.settle(turn);
    }

    /// Lends the machine what a call needs.
    fn call(
        &mut self,
        turn: &Turn<'_>,
        staging: Option<&Staging>,
        act: impl FnOnce(&mut machine::Ranks, Context<'_>),
    ) {
        let directory = turn.job.directory.as_deref();
        let (groups, group) = (&self.groups, self.cgroup.as_deref());
        let host = ThisHost { staging, directory, groups, group };
        act(&mut self.machine, Context { now: turn.now(), job: turn.job, host: &host });
    }

    /// Starts the next few ranks, unless processes are being stopped or ended.
    pub(super) fn start_some(&mut self, turn: &mut Turn<'_>, is_busy: bool) {
        if self.is_any_starting() && !is_busy {
            self.give(turn, Input::Turn);
        }
    }

    /// Looks for ranks that run alone, if it is time. `is_idle`: no process is being stopped or ended.
    pub(super) fn expire(&mut self, turn: &mut Turn<'_>, is_idle: bool) {
        if self.machine.poll_timeout().is_some_and(|at| at <= turn.now()) {
            self.call(turn, None, |machine, context| machine.handle_timeout(context, is_idle));
            self.settle(turn);
        }
    }

    /// Takes the finding of a helper that has ended.
    pub(super) fn receive_search(&mut self, turn: &mut Turn<'_>) {
        if let Some(found) = self.search.as_mut().and_then(Search::receive) {
            self.search = None;
            self.give(turn, Input::SearchEnded(found));
        }
    }

    // ----- signals -----

    /// Sends a signal to all ranks. Returns the processes that belong to another user now, since the kernel refuses
    /// to signal them.
    pub(super) fn signal(&mut self, signal: i32, target: &SignalTarget) -> Vec<Pid> {
        let mut refused = Vec::new();
        for (rank, way) in self.machine.ways(signal, target).collect::<Vec<_>>() {
            let sent = self.send(rank, &way, signal);
            if let (Err(e), Way::Shim(_, pid) | Way::Process(pid) | Way::Group(pid)) = (sent, way)
                && e.kind() == ErrorKind::PermissionDenied
                && !tree::is_dead(process_of(pid))
            {
                refused.push(process_of(pid));
            }
        }
        refused
    }

    /// Sends a signal to the process of one rank.
    pub(super) fn signal_one(&mut self, rank: Rank, signal: i32) {
        if let Some(way) = self.machine.way_to(rank, signal) {
            let _ = self.send(rank, &way, signal);
        }
    }

    fn send(&mut self, rank: Rank, way: &Way, signal: i32) -> io::Result<()> {
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

    /// Notes that a descriptor of a rank has ended: most likely the rank ends.
    pub(super) fn note_descriptor_end(&mut self, rank: Rank) {
        self.machine.note_descriptor_end(rank);
    }

    /// Children that most likely have ended, to be looked at by their numbers.
    pub(super) fn take_dying(&mut self) -> Vec<Pid> {
        self.machine.take_dying().into_iter().map(process_of).collect()
    }

    /// Whether to ask the kernel now for any dead child. Otherwise that is due later.
    pub(super) fn asks_for_dead(&mut self, now: Time) -> bool {
        self.machine.asks_for_dead(now)
    }

    /// Whether a question for dead children is due that was put off.
    pub(super) fn has_dead_due(&self, now: Time) -> bool {
        self.machine.has_dead_due(now)
    }

    /// Reaps a child. The last requests of its client must have been read.
    pub(super) fn reap(&mut self, turn: &mut Turn<'_>, pid: Pid, is_kill: bool) {
        let rank = self.of_pid(pid);
        if let Some(rank) = rank {
            self.read_shim(turn, rank);
        }
        let fate = tree::reap(pid);
        if rank.is_some() {
            self.give(turn, Input::Reaped(number_of(pid), end_of(fate), is_kill));
        }
    }

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

    pub(super) fn serve_shims(&mut self, turn: &mut Turn<'_>) {
        for rank in std::mem::take(&mut self.shims.ready) {
            self.read_shim(turn, rank);
        }
    }

    /// Reads the waiting reports of a rank's shim.
    pub(super) fn read_shim(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let Some(reports) = self.shims.exchange(rank) else { return };
        let input = match reports {
            Ok(reports) => Input::Reports(rank, reports),
            Err(e) => {
                let name = turn.job.name_of(rank);
                log::warn!("rank {name}: its shim broke the protocol: {e}");
                Input::ShimBroken(rank)
            }
        };
        self.give(turn, input);
    }

    /// Gives the program of a debugged rank a new PMI connection.
    fn reconnect(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let Some(slot) = self.machine.slot_of(rank) else { return };
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

    // ----- outputs -----

    /// Performs all outputs, and answers each question before the machine takes anything else.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        let mut is_refused = false;
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Ask(question) => {
                    let answer = self.answer(turn, question);
                    let input = Input::Answer(answer);
                    self.call(turn, None, |machine, context| machine.handle(context, input));
                }
                // The machine learns of a refusal only after this loop.
                Output::SetNiceness(_) if is_refused => {}
                Output::SetNiceness(niceness) => {
                    if let Err(e) = set_niceness(niceness) {
                        log::debug!(
                            "the ranks of this host have one session's share of its CPUs: {e}"
                        );
                        is_refused = true;
                    }
                }
                other => self.perform(turn, other),
            }
        }
        if is_refused {
            let input = Input::NicenessRefused;
            self.call(turn, None, |machine, context| machine.handle(context, input));
        }
    }

    fn perform(&mut self, turn: &mut Turn<'_>, output: Output) {
        match output {
            // The caller has performed them.
            Output::Ask(_) | Output::SetNiceness(_) => {}

            Output::Prepared(first, bindings, launches) => {
                turn.report(Event::Bound(first, bindings));
                self.keep(turn, first, launches);
            }
            Output::BeginStarts { are_several, are_many } => {
                self.begin_starts(turn, are_several, are_many);
            }
            Output::HandOver(rank) => {
                if let Some(Ends { pipes, pmi, client }) = self.ends.take() {
                    turn.hand_over(Descriptors::Pipes(rank, Box::new(pipes)));
                    turn.hand_over(Descriptors::Pmi(rank, client, pmi));
                }
            }
            Output::EndStarts => self.end_starts(turn),
            Output::FreeLowNumbers => self.low = None,
            Output::ForgetPrepared(first) => drop(self.prepared.remove(&first)),

            Output::Signal(signal, target) => turn.report(Ending::Signal(signal, target)),
            Output::ReleaseAdopted => {
                self.adoption.forget(turn.registry);
                turn.report(FromJob::Ended(Rank(0)));
            }
            Output::EndSearch => self.search = None,

            Output::Tell(rank, order) => drop(self.shims.send(rank, &order)),
            Output::Reconnect(rank) => self.reconnect(turn, rank),
            Output::DropShim(rank) => self.shims.remove(rank),

            Output::Begin(phase, rank) => turn.begin(phase, rank),
            Output::End(phase, rank) => turn.end(phase, rank),
            Output::Going => turn.report(Event::Going),
            Output::Started(pid, begin) => turn.report(Ending::Started(pid, begin)),
            Output::OutputBegun(ranks) => turn.report(ForStdio::Begun(ranks)),
            Output::Asked(ranks) => turn.report(ForStdio::Asked(ranks)),
            Output::Mark(rank, after, text) => turn.report(ForStdio::Mark(rank, after, text)),
            Output::Ended(rank) => turn.report(Event::Ended(rank)),
            Output::Retired(rank) => turn.report(Event::Retired(rank)),
            Output::Job(input) => turn.post(input),
            Output::ToDaemon(report) => turn.send_to_daemon(report),
            Output::Log(line) => write(turn, &line),
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

/// Whether the root can have `files` files open for output, besides the descriptors of its own `ranks`.
///
/// # Errors
/// Why not.
pub(super) fn check_files(ranks: usize, files: usize) -> Result<(), String> {
    machine::check_files(ranks, files, descriptor_limit())
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
