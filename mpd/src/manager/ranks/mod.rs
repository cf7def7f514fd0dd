//! The processes of the ranks of this host: their start, their signals and their ends.
//!
//! | module | has |
//! |---|---|
//! | [`start`], [`prepare`], [`wrap`], [`process`] | the start: turns, checks, executed program, descriptors |
//! | [`starting`], [`ranks_context`] | the ranks of one world while they are started |
//! | [`descriptors`] | the descriptors of a rank, and their tokens |
//! | [`table`] | the process and the tokens of each rank |
//! | [`shim`] | the launcher shims before ranks: orders and reports |
//! | [`adopted`], [`adoption`] | a process that ran before its job |
//! | [`alone`] | ranks whose MPI library does not speak PMI |
//! | [`memory`] | the order in which processes are killed when memory runs out |
//! | [`reaping`] | when to look for dead children |
//! | [`cpu_share`] | the weight of the ranks among other sessions |
//! | [`report`] | reports to the daemon for listings of jobs |

mod adopted;
mod adoption;
mod alone;
mod cpu_share;
mod descriptors;
mod memory;
mod prepare;
mod process;
mod ranks_context;
mod reaping;
mod report;
mod resources;
mod shim;
mod start;
mod starting;
mod table;
#[cfg(test)]
mod tests;
mod wrap;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use mpd_clients::{Client, FromJob};
use mpd_ending::{Input as Ending, SignalTarget};
use mpd_io::process::cgroup::Cgroup;
use mpd_io::process::spawn::LowNumbers;
use mpd_io::process::tree;
use mpd_job::manager::Input;
use mpd_sansio::{Time, Timers};
use mpd_wire::job::RankEnd;
use mpd_wire::message::{MAX_DEBUG_LINE, Phase};
use mpd_wire::{Rank, RankSet};
use nix::unistd::Pid;

use self::adopted::Adopted;
use self::adoption::{Adoption, RANK};
use self::alone::Alone;
use self::cpu_share::CpuShare;
pub(super) use self::descriptors::RankDescriptor;
use self::memory::{Cause, Memory};
pub(super) use self::prepare::check_files;
use self::process::{Handle, RankProcess, end_of};
use self::reaping::Reaping;
use self::shim::{Reports, Shim};
use self::starting::Starting;
use self::table::Table;
use super::context::Turn;
use super::ending::groups::Groups;
use super::event::{Descriptors, Event, ForStdio};
use super::pmi_socket::PmiSocket;
use super::tokens::FIRST_RANK;

/// Most crashes of all ranks of a host that are reported, besides held ones.
const MAX_CRASHES: u32 = 64;

/// The time before the first search for ranks that run alone. A rank has hardly initialised its MPI library before, and
/// many jobs are over, which then need no helper.
const FIRST_SEARCH: Duration = Duration::from_millis(60);

/// The interval to the next search. Later intervals double, up to 10 s.
const NEXT_SEARCH: Duration = Duration::from_millis(80);

/// Most ranks that one look examines. The next look examines further ones. The ranks of a world usually run the same
/// program, so the first look decides.
const RANKS_PER_LOOK: usize = 64;

/// How often that interval is doubled.
const MOST_DOUBLINGS: u8 = 7;

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

/// The processes of the ranks here.
#[derive(Debug)]
pub(super) struct Ranks {
    table: Table,
    /// Worlds that are being started here, by their first rank.
    starting: BTreeMap<Rank, Starting>,
    cgroup: Option<Rc<Cgroup>>,
    groups: Rc<Groups>,
    daemon: Pid,
    /// Present while there are many ranks.
    low: Option<LowNumbers>,
    /// The size of the ranks' terminals, once it has changed.
    size: Option<(u16, u16)>,
    memory: Memory,
    cpu_share: CpuShare,
    adoption: Adoption,
    alone: Alone,
    /// Ranks whose shim has reported something, or accepts more orders.
    reporting: Vec<Rank>,
    /// Values of niceness that ranks here may not have, as reported.
    unpermitted: BTreeSet<i8>,
    /// The number of reported crashes.
    crashes: u32,
    reaping: Reaping,
    /// Look for the MPI libraries of ranks for the n-th time.
    looks: Timers<u8>,
    /// The first rank that such a look is to examine.
    examined: Rank,
}

impl Ranks {
    /// An empty table. `adopted`: the PMI connection and the pidfd of a running process.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(place: Place, adopted: Option<[OwnedFd; 2]>) -> Result<Self> {
        let Place { cgroup, readiness, groups, daemon } = place;
        Ok(Self {
            table: Table::new(FIRST_RANK),
            starting: BTreeMap::new(),
            cgroup,
            groups,
            daemon,
            low: None,
            size: None,
            memory: Memory::begin(readiness),
            cpu_share: CpuShare::default(),
            adoption: Adoption::of(adopted)?,
            alone: Alone::default(),
            reporting: Vec::new(),
            unpermitted: BTreeSet::new(),
            crashes: 0,
            reaping: Reaping::default(),
            looks: Timers::default(),
            examined: Rank(0),
        })
    }

    /// The rank and the descriptor of a token.
    pub(super) fn of_token(&self, token: usize) -> Option<(Rank, RankDescriptor)> {
        self.table.of_token(token)
    }

    /// The rank of a child.
    pub(super) fn of_pid(&self, pid: Pid) -> Option<Rank> {
        self.table.of_pid(pid)
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.looks.next().into_iter().chain(self.reaping.due()).min()
    }

    // ----- signals -----

    /// Sends a signal to all ranks. Returns the processes that belong to another user now, since the kernel refuses
    /// to signal them.
    pub(super) fn signal(&mut self, signal: i32, target: &SignalTarget) -> Vec<Pid> {
        let mut refused = Vec::new();
        for (_, process) in self.table.all_mut().filter(|(rank, _)| target.means(*rank)) {
            if let Err(e) = process.signal(signal, target)
                && e.kind() == ErrorKind::PermissionDenied
                && let Some(pid) = process.child()
                && !tree::is_dead(pid)
            {
                refused.push(pid);
            }
        }
        refused
    }

    /// Sends a signal to the process of one rank.
    pub(super) fn signal_one(&mut self, rank: Rank, signal: i32) {
        if let Some(process) = self.table.get_mut(rank) {
            let _ = process.signal(signal, &SignalTarget::Process);
        }
    }

    /// Sets the size of the terminals of ranks.
    pub(super) fn resize(&mut self, turn: &mut Turn<'_>, size: (u16, u16)) {
        self.size = Some(size);
        self.shims().for_each(|shim| shim.resize(size));
        turn.report(Ending::Signal(libc::SIGWINCH, SignalTarget::Group));
    }

    // ----- ends -----

    /// Notes that a descriptor of a rank has ended: most likely the rank ends.
    pub(super) fn note_descriptor_end(&mut self, rank: Rank) {
        self.reaping.note_end(rank);
    }

    /// Children that most likely have ended, to be looked at by their numbers.
    pub(super) fn take_dying(&mut self) -> Vec<Pid> {
        let dying = self.reaping.take_dying().into_iter();
        dying.filter_map(|rank| self.table.get(rank)?.child()).collect()
    }

    /// Whether to ask the kernel now for any dead child. Otherwise that is due later.
    pub(super) fn asks_for_dead(&mut self, now: Time) -> bool {
        self.reaping.asks(now, self.table.children())
    }

    /// Whether a question for dead children is due that was put off.
    pub(super) fn has_dead_due(&self, now: Time) -> bool {
        self.reaping.due().is_some_and(|due| due <= now)
    }

    /// Reaps a rank. Its last requests and reports must have been read.
    pub(super) fn reap(&mut self, turn: &mut Turn<'_>, pid: Pid, is_kill: bool) {
        let Some(rank) = self.table.of_pid(pid) else {
            tree::reap(pid);
            return;
        };
        self.read_shim(turn, rank);
        let shim = self.table.get_mut(rank).and_then(|process| process.shim.take());
        let fate = tree::reap(pid);
        self.table.forget_pid(pid);
        if let Some((step, errno)) = shim.as_ref().and_then(Shim::failure) {
            report_not_started(turn, rank, (step, errno));
        }
        // A shim's child has another number.
        let number = shim.is_none().then_some(pid);
        let end = shim.and_then(|shim| shim.end()).unwrap_or_else(|| end_of(fate));
        if !is_kill && matches!(end, RankEnd::Signaled { signal: 9, .. }) {
            self.explain(turn, rank, number);
        }
        self.note_end(turn, rank, (Some(end), is_kill));
    }

    /// Gives up a child that cannot be killed.
    pub(super) fn lose(&mut self, turn: &mut Turn<'_>, pid: Pid) {
        if let Some(rank) = self.table.forget_pid(pid) {
            self.note_end(turn, rank, (Some(RankEnd::Lost), true));
        }
    }

    /// Notes that a rank has no process any more. `is_kill`: all ranks are being killed.
    fn note_end(
        &mut self,
        turn: &mut Turn<'_>,
        rank: Rank,
        (end, is_kill): (Option<RankEnd>, bool),
    ) {
        turn.end(Phase::Run, Some(rank));
        if let Some(process) = self.table.get_mut(rank) {
            process.handle = None;
        }
        if !is_kill {
            self.cpu_share.fit(self.table.children());
        }
        turn.report(Event::Ended(rank));
        self.retire(turn, rank);
        if let Some(end) = end {
            turn.post(Input::Exited(rank, end));
        }
    }

    /// Notes that both output streams of a rank have ended.
    pub(super) fn end_output(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        if let Some(process) = self.table.get_mut(rank) {
            process.is_silent = true;
            self.retire(turn, rank);
        }
    }

    /// Removes a rank of a spawned world that has ended completely, and frees its resources.
    fn retire(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let is_over = |process: &RankProcess| process.handle.is_none() && process.is_silent;
        if !turn.job.is_first(rank) && self.table.get(rank).is_some_and(is_over) {
            self.table.remove(rank);
            self.free_low_numbers();
            turn.report(Event::Retired(rank));
        }
    }

    /// Reports to the user that the kernel has killed a rank for lack of memory.
    fn explain(&mut self, turn: &mut Turn<'_>, rank: Rank, pid: Option<Pid>) {
        let Some(cause) = self.memory.cause_of(pid) else { return };
        let (host, name) = (turn.job.host(), turn.job.name_of(rank));
        turn.post(Input::Notice(match cause {
            Cause::Certain => format!(
                "host {host}: memory ran out: the kernel has killed rank {name} (dmesg on that host has details)"
            ),
            Cause::Possible => format!(
                "host {host}: the kernel has killed a process for lack of memory since the job began, perhaps of rank {name} \
                 (dmesg on that host names it)"
            ),
        }));
    }

    // ----- launcher shims -----

    fn shims(&mut self) -> impl Iterator<Item = &mut Shim> {
        self.table.all_mut().filter_map(|(_, process)| process.shim.as_mut())
    }

    /// Notes an event: the shim of a rank has reported something, or accepts more orders.
    pub(super) fn mark_shim(&mut self, rank: Rank) {
        self.reporting.push(rank);
    }

    /// Whether reports can be read now.
    pub(super) const fn has_work(&self) -> bool {
        !self.reporting.is_empty()
    }

    pub(super) fn serve_shims(&mut self, turn: &mut Turn<'_>) {
        for rank in std::mem::take(&mut self.reporting) {
            self.read_shim(turn, rank);
        }
    }

    /// Reads the waiting reports of a rank's shim.
    pub(super) fn read_shim(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let Some(process) = self.table.get_mut(rank) else { return };
        let Some(shim) = &mut process.shim else { return };
        let Reports { crashes, marks, are_more } = shim.exchange().unwrap_or_else(|e| {
            log::warn!("rank {}: its shim broke the protocol: {e}", turn.job.name_of(rank));
            process.shim = None;
            Reports::default()
        });
        if are_more {
            self.reporting.push(rank);
        }
        for mut crash in crashes {
            if crash.held || self.crashes < MAX_CRASHES {
                self.crashes += u32::from(!crash.held);
                crash.shorten();
                turn.post(Input::Crashed(rank, crash));
            }
        }
        for (after, text) in marks {
            turn.report(ForStdio::Mark(rank, after, text));
        }
    }

    /// Notes that a mark of a rank's debugger was passed on.
    pub(super) fn grant_mark(&mut self, rank: Rank) {
        let shim = self.table.get_mut(rank).and_then(|process| process.shim.as_mut());
        shim.into_iter().for_each(Shim::grant_mark);
    }

    /// Lets the held crashed processes die.
    pub(super) fn release_crashed(&mut self) {
        self.shims().for_each(Shim::continue_held);
    }

    /// Sends a command of the console to the debuggers of those ranks that run here.
    pub(super) fn command(&mut self, turn: &mut Turn<'_>, ranks: &RankSet, line: &str) {
        if line.len() > MAX_DEBUG_LINE || line.contains('\n') {
            return log::warn!("a command of {} bytes for debuggers is malformed", line.len());
        }
        if !matches!(line.split(' ').nth(1), Some("input" | "eof")) {
            // `input` and `eof` have no answer.
            turn.report(ForStdio::Asked(ranks.clone()));
        }
        for (rank, process) in self.table.all_mut() {
            let debugger = process.shim.as_mut().filter(|shim| shim.is_debugger());
            if let Some(shim) = debugger.filter(|_| ranks.contains(rank))
                && !shim.command(line)
            {
                let text = format!("rank {rank}: its debugger takes no commands");
                turn.post(Input::Notice(text));
            }
        }
    }

    /// Gives each debugged rank a new PMI connection, since all programs start again under their debuggers.
    pub(super) fn reconnect(&mut self, turn: &mut Turn<'_>) {
        // Spawned ranks end with the run that has spawned them.
        let tokens = self.table.tokens().filter(|(rank, _)| turn.job.is_first(*rank));
        let tokens: Vec<_> = tokens.collect();
        for (rank, token) in tokens {
            let shim = self.table.get_mut(rank).and_then(|process| process.shim.as_mut());
            let Some(shim) = shim.filter(|shim| shim.is_debugger()) else { continue };
            let token = RankDescriptor::pmi_token(token);
            let connected = shim.connect();
            let connected = connected.and_then(|pmi| PmiSocket::watch(turn.registry, token, pmi));
            match connected {
                Ok(pmi) => turn.hand_over(Descriptors::Pmi(rank, Client::Debugged, pmi)),
                Err(e) => {
                    let problem = mpd_io::files::logging::plain(&e);
                    let text = format!("rank {rank}: its program will not find PMI: {problem}");
                    turn.post(Input::Notice(text));
                }
            }
        }
        turn.post(Input::Restarted);
    }

    // ----- a process that ran before its job -----

    /// Notes an event: the adopted process has ended.
    pub(super) const fn mark_adopted(&mut self) {
        self.adoption.ended = true;
    }

    /// The adopted rank, if its end was detected since the last call.
    pub(super) fn take_ended_adopted(&mut self) -> Option<Rank> {
        let is_marked = std::mem::take(&mut self.adoption.ended);
        let adopted = self.table.get(RANK).and_then(RankProcess::adopted);
        adopted.filter(|adopted| is_marked && adopted.is_over()).map(|_| RANK)
    }

    /// Whether the adopted process still belongs to the job, so that the job continues.
    pub(super) fn has_adopted(&self) -> bool {
        self.table.get(RANK).and_then(RankProcess::adopted).is_some()
    }

    /// Notes that the adopted rank has called `MPI_Abort`.
    pub(super) fn note_abort(&mut self, rank: Rank) {
        let adopted = self.table.get_mut(rank).and_then(RankProcess::adopted_mut);
        adopted.into_iter().for_each(Adopted::has_aborted);
    }

    /// Removes the adopted process, which has ended or left the job.
    pub(super) fn release_adopted(&mut self, turn: &mut Turn<'_>) {
        let Some(process) = self.table.get_mut(RANK).filter(|it| it.adopted().is_some()) else {
            return;
        };
        if let Some(Handle::Adopted(adopted)) = process.handle.take() {
            adopted.forget(turn.registry);
        }
        turn.report(FromJob::Ended(RANK));
        turn.end(Phase::Run, Some(RANK));
        // Only its parent gets its exit code. The machine knows whether it finalized.
        turn.post(Input::Exited(RANK, RankEnd::Exited(0)));
    }

    /// Kills the adopted process, if it still belongs to the job.
    pub(super) fn kill_adopted(&mut self, turn: &mut Turn<'_>) {
        self.adoption.arrived = None;
        let adopted = self.table.get(RANK).and_then(RankProcess::adopted);
        if adopted.is_some_and(|adopted| adopted.signal(libc::SIGKILL).is_err()) {
            // The process has just ended, or belongs to another user now.
            self.release_adopted(turn);
        }
    }

    /// Continues the adopted process.
    pub(super) fn continue_adopted(&self) {
        if let Some(adopted) = self.table.get(RANK).and_then(RankProcess::adopted) {
            let _ = adopted.signal(libc::SIGCONT);
        }
    }

    // ----- ranks that run alone -----

    /// Begins to look for ranks that run alone, since all ranks here were started. In a world of one rank, a rank alone
    /// is normal. Of ranks under our debugger the user decides.
    fn watch_alone(&mut self, turn: &Turn<'_>) {
        let spec = &turn.job.spec;
        if spec.size() > 1 && spec.debug.is_none() && !spec.allow_alone {
            self.looks.set(0, turn.now() + FIRST_SEARCH);
        }
    }

    /// Looks for ranks that run alone, if it is time. `is_idle`: no process is being stopped or ended.
    pub(super) fn expire(&mut self, turn: &mut Turn<'_>, is_idle: bool) {
        let now = turn.now();
        while let Some(looks) = self.looks.pop_expired(now) {
            if self.alone.is_decided() {
                return;
            }
            if is_idle {
                let some = self.table.next_children(&mut self.examined, RANKS_PER_LOOK);
                let first = some.into_iter().filter(|(rank, _)| turn.job.is_first(*rank));
                self.alone.search(first.collect(), turn.registry, turn.null);
            }
            self.looks.set((looks + 1).min(MOST_DOUBLINGS), now + NEXT_SEARCH * (1 << looks));
        }
    }

    /// Takes the finding of a helper that has ended.
    pub(super) fn receive_search(&mut self, turn: &mut Turn<'_>) {
        if let Some((rank, library)) = self.alone.take_found() {
            log::info!("rank {}: uses {library} without PMI", turn.job.name_of(rank));
            turn.post(Input::Alone(rank, library));
        }
    }

    /// Ends the search for ranks without PMI, since a rank of the first world has used PMI.
    pub(super) fn note_pmi_use(&mut self) {
        self.alone.end();
    }

    /// Ends a running helper, since processes are about to be stopped.
    pub(super) fn pause_search(&mut self) {
        self.alone.pause();
    }

    /// Stops starting and searching, since all processes here are about to be killed.
    pub(super) fn stop_starting(&mut self) {
        self.starting.values_mut().for_each(Starting::stop);
        self.alone.end();
    }
}

/// The user gets a notice of a program that its shim could not start.
fn report_not_started(turn: &mut Turn<'_>, rank: Rank, (step, errno): (&str, i32)) {
    let argset = turn.job.worlds.of(rank).map(|world| {
        let argset = &world.spec.argsets[world.argset_of(rank)];
        String::from_utf8_lossy(&argset.program).into_owned()
    });
    let text = format!(
        "host {}: rank {} cannot execute {} ({step}): {}",
        turn.job.host(),
        turn.job.name_of(rank),
        argset.unwrap_or_default(),
        mpd_io::files::logging::plain(&std::io::Error::from_raw_os_error(errno)),
    );
    turn.post(Input::Notice(text));
}
