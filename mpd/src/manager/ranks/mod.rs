//! The processes of the ranks of this host: which there are, their signals and their ends.
//!
//! | module | has |
//! |---|---|
//! | [`start`], [`prepare`], [`wrap`], [`process`] | how they are started: turn by turn, checked beforehand, what is executed, with which descriptors |
//! | [`table`] | which rank has which process and tokens |
//! | [`watch`] | ranks whose crash is caught |
//! | [`adopted`] | a process that ran before its job |
//! | [`alone`] | ranks whose MPI library does not speak PMI |
//! | [`memory`] | which processes end first when memory runs out |
//! | [`window`] | the size of ranks' terminals |
//! | [`report`] | what the daemon gets for lists of jobs |

mod adopted;
mod alone;
mod memory;
mod prepare;
mod process;
mod report;
mod start;
mod table;
mod watch;
mod window;
mod wrap;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use anyhow::Result;
use mio::Registry;
use mpd_io::tree;
use mpd_job::manager::Input;
use mpd_machine::{Time, Timers};
use mpd_wire::Rank;
use mpd_wire::job::RankEnd;
use mpd_wire::message::Phase;
use nix::unistd::Pid;

use self::adopted::{Adopted, Adoption, RANK};
use self::alone::Alone;
use self::memory::Memory;
pub(super) use self::prepare::check_files;
use self::process::{Handle, RankProcess, connect, end_of, watch_pmi};
use self::start::Starting;
pub(super) use self::table::End;
use self::table::Table;
use self::watch::{MAX_TOLD, Watcher};
use self::window::Window;
use super::context::{FIRST_LOOK, Job, Turn};
use super::event::{Client, Event};
use super::tokens::FIRST_RANK;

/// Intervals between looks for ranks that run alone are doubled so often, up to 10 s.
const MOST_DOUBLINGS: u8 = 9;

/// Whom of a rank a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// Its process group.
    Group,
    /// Its process alone.
    Process,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Ranks {
    table: Table,
    /// By the first rank of their world: those that are started here.
    starting: BTreeMap<Rank, Starting>,
    cgroup: Option<OwnedFd>,
    /// Of the terminals of ranks, if some have one.
    window: Option<Window>,
    memory: Memory,
    adoption: Adoption,
    alone: Alone,
    /// Ranks whose watcher has written something.
    reporting: Vec<Rank>,
    /// Crashes that were reported.
    crashes: u32,
    /// Look which MPI libraries ranks use, for the n-th time.
    looks: Timers<u8>,
}

impl Ranks {
    /// No rank runs yet. Those that are started are put into the control group, if there is one.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(job: &Job, cgroup: Option<OwnedFd>) -> Result<Self> {
        Ok(Self {
            table: Table::new(FIRST_RANK),
            starting: BTreeMap::new(),
            cgroup,
            window: Window::of(&job.spec)?,
            memory: Memory::begin(),
            adoption: Adoption::of(&job.spec, job.place())?,
            alone: Alone::default(),
            reporting: Vec::new(),
            crashes: 0,
            looks: Timers::default(),
        })
    }

    /// Which rank has that token, and for which of its descriptors.
    pub(super) fn of_token(&self, token: usize) -> Option<(Rank, End)> {
        self.table.of_token(token)
    }

    /// The rank that a child of ours is.
    pub(super) fn of_pid(&self, pid: Pid) -> Option<Rank> {
        self.table.of_pid(pid)
    }

    /// Children of ours that are ranks.
    pub(super) fn pids(&self) -> BTreeSet<Pid> {
        self.table.pids().collect()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.looks.next()
    }

    // ----- signals -----

    /// Sends a signal to all ranks. Returns those that have become another user's: the kernel refuses to signal them.
    pub(super) fn signal(&self, signal: i32, whom: Whom) -> Vec<Pid> {
        let mut refused = Vec::new();
        for (_, process) in self.table.all() {
            if let Err(e) = process.signal(signal, whom)
                && e.kind() == ErrorKind::PermissionDenied
                && let Some(pid) = process.child()
                && tree::lives(pid)
            {
                refused.push(pid);
            }
        }
        refused
    }

    /// Sends a signal to the process of one rank.
    pub(super) fn signal_one(&self, rank: Rank, signal: i32) {
        if let Some(process) = self.table.get(rank) {
            let _ = process.signal(signal, Whom::Process);
        }
    }

    /// The terminals of ranks have so many columns and lines from now on.
    pub(super) fn resize(&self, turn: &mut Turn<'_>, size: (u16, u16)) {
        if let Some(window) = &self.window {
            window.set(size);
        }
        turn.report(Event::SignalAll(libc::SIGWINCH));
    }

    // ----- ends -----

    /// Reaps a rank. What it said before was read.
    pub(super) fn reap(&mut self, turn: &mut Turn<'_>, pid: Pid, is_kill: bool) {
        let Some(rank) = self.table.of_pid(pid) else {
            tree::reap(pid);
            return;
        };
        self.hear_watcher(turn, rank);
        if let Some(process) = self.table.get_mut(rank) {
            process.watcher = None;
        }
        let status = tree::reap(pid);
        self.table.forget_pid(pid);
        self.bury(turn, rank, (status.and_then(end_of), is_kill));
    }

    /// A process of ours cannot be killed: it is not waited for.
    pub(super) fn lose(&mut self, turn: &mut Turn<'_>, pid: Pid) {
        if let Some(rank) = self.table.forget_pid(pid) {
            self.bury(turn, rank, (Some(RankEnd::Lost), true));
        }
    }

    /// A rank is no process of ours any more. `is_kill`: all of them are being killed.
    fn bury(&mut self, turn: &mut Turn<'_>, rank: Rank, (end, is_kill): (Option<RankEnd>, bool)) {
        turn.end(Phase::Run, Some(rank));
        if let Some(process) = self.table.get_mut(rank) {
            process.handle = None;
        }
        turn.report(Event::Ended(rank));
        self.retire(turn, rank);
        if let Some(end) = end {
            if !is_kill {
                self.explain(turn, rank, end);
            }
            turn.post(Input::Exited(rank, end));
        }
    }

    /// Both output streams of a rank have ended.
    pub(super) fn fall_silent(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        if let Some(process) = self.table.get_mut(rank) {
            process.is_silent = true;
            self.retire(turn, rank);
        }
    }

    /// Nothing more comes of a rank of a spawned world: what it took here is given back.
    fn retire(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let is_over = |process: &RankProcess| process.handle.is_none() && process.is_silent;
        if !turn.job.is_first(rank) && self.table.get(rank).is_some_and(is_over) {
            self.table.remove(rank);
            turn.report(Event::Retired(rank));
        }
    }

    /// A rank that the kernel killed for want of memory cannot say so itself.
    fn explain(&mut self, turn: &mut Turn<'_>, rank: Rank, end: RankEnd) {
        if !matches!(end, RankEnd::Signaled { signal: 9, .. }) {
            return;
        }
        let Some(kills) = self.memory.new_kills() else { return };
        let text = format!(
            "host {}: memory ran out: the kernel has killed {} since the job began, rank {} most likely \
             among them (dmesg there tells)",
            turn.job.host(),
            match kills {
                1 => "a process".to_owned(),
                many => format!("{many} processes"),
            },
            turn.job.name_of(rank),
        );
        turn.post(Input::Notice(text));
    }

    // ----- crashes -----

    /// An event says that a rank's watcher has written something.
    pub(super) fn mark_watcher(&mut self, rank: Rank) {
        self.reporting.push(rank);
    }

    pub(super) fn hear_watchers(&mut self, turn: &mut Turn<'_>) {
        for rank in std::mem::take(&mut self.reporting) {
            self.hear_watcher(turn, rank);
        }
    }

    fn hear_watcher(&mut self, turn: &mut Turn<'_>, rank: Rank) {
        let watcher = self.table.get_mut(rank).and_then(|process| process.watcher.as_mut());
        for mut crash in watcher.map(Watcher::hear).unwrap_or_default() {
            if crash.held || self.crashes < MAX_TOLD {
                self.crashes += u32::from(!crash.held);
                crash.shorten();
                turn.post(Input::Crashed(rank, crash));
            }
        }
    }

    /// What has crashed here and was stopped by its watcher may die.
    pub(super) fn release_crashed(&mut self) {
        let watchers = self.table.all_mut().filter_map(|(_, process)| process.watcher.as_mut());
        watchers.for_each(Watcher::go_on);
    }

    // ----- a process that ran before its job -----

    /// An event says that the adopted process has ended.
    pub(super) const fn mark_adopted(&mut self) {
        self.adoption.ended = true;
    }

    /// The adopted rank, if it was seen to have ended since the last call.
    pub(super) fn take_ended_adopted(&mut self) -> Option<Rank> {
        let is_marked = std::mem::take(&mut self.adoption.ended);
        let adopted = self.table.get(RANK).and_then(RankProcess::adopted);
        adopted.filter(|adopted| is_marked && adopted.is_over()).map(|_| RANK)
    }

    /// Whether the adopted process is still there, so that the job is.
    pub(super) fn has_adopted(&self) -> bool {
        self.table.get(RANK).and_then(RankProcess::adopted).is_some()
    }

    /// The adopted rank has called for the end of the job.
    pub(super) fn note_abort(&mut self, rank: Rank) {
        let adopted = self.table.get_mut(rank).and_then(RankProcess::adopted_mut);
        adopted.into_iter().for_each(Adopted::has_aborted);
    }

    /// The adopted process has ended, or is no part of the job any more.
    pub(super) fn release_adopted(&mut self, turn: &mut Turn<'_>) {
        let Some(process) = self.table.get_mut(RANK).filter(|it| it.adopted().is_some()) else {
            return;
        };
        if let Some(Handle::Adopted(adopted)) = process.handle.take() {
            adopted.forget(turn.registry);
        }
        turn.report(Event::Released(RANK));
        turn.end(Phase::Run, Some(RANK));
        // Its code is its parent's. Whether it ended as it should shows in whether it finalized.
        turn.post(Input::Exited(RANK, RankEnd::Exited(0)));
    }

    /// The adopted process ends with the job, if it is still part of it.
    pub(super) fn kill_adopted(&mut self, turn: &mut Turn<'_>) {
        self.adoption.arrived = None;
        let adopted = self.table.get(RANK).and_then(RankProcess::adopted);
        if adopted.is_some_and(|adopted| adopted.signal(libc::SIGKILL).is_err()) {
            // It has just ended, or has become another user's.
            self.release_adopted(turn);
        }
    }

    /// The adopted process goes on together with what was stopped with it.
    pub(super) fn continue_adopted(&self) {
        if let Some(adopted) = self.table.get(RANK).and_then(RankProcess::adopted) {
            let _ = adopted.signal(libc::SIGCONT);
        }
    }

    // ----- ranks that run alone -----

    /// The ranks run. A rank of a world of one is rank 0 of 1, and ranks under our debugger are the user's to judge.
    fn watch_loners(&mut self, turn: &Turn<'_>) {
        let spec = &turn.job.spec;
        if spec.size() > 1 && spec.debug.is_none() && !spec.allow_alone {
            self.looks.set(0, turn.now() + FIRST_LOOK);
        }
    }

    /// It is time for the next look. `is_idle`: processes may be looked at.
    pub(super) fn expire(&mut self, turn: &mut Turn<'_>, is_idle: bool) {
        let now = turn.now();
        while let Some(looks) = self.looks.pop_expired(now) {
            if self.alone.is_decided() {
                return;
            }
            if is_idle {
                let first = self.table.all().filter(|(rank, _)| turn.job.is_first(*rank));
                let living = first.filter_map(|(rank, process)| Some((rank, process.child()?)));
                self.alone.search(living.collect(), turn.registry, turn.null);
            }
            let next = (looks + 1).min(MOST_DOUBLINGS);
            self.looks.set(next, now + FIRST_LOOK * (1 << next));
        }
    }

    /// Takes what the helper has found, if it has ended.
    pub(super) fn hear_of_loners(&mut self, turn: &mut Turn<'_>) {
        if let Some((rank, library)) = self.alone.take_found() {
            log::info!("rank {}: uses {library} without PMI", turn.job.name_of(rank));
            turn.post(Input::Alone(rank, library));
        }
    }

    /// A rank of the first world has spoken PMI, so none is looked for that does not.
    pub(super) fn note_speaker(&mut self) {
        self.alone.end();
    }

    /// Processes are about to be stopped, and the helper is one of them.
    pub(super) fn pause_search(&mut self) {
        self.alone.pause();
    }

    /// All that runs here is about to be killed: nothing more is started or looked for.
    pub(super) fn stop_starting(&mut self) {
        self.starting.values_mut().for_each(Starting::stop);
        self.alone.end();
    }

    // ----- programs that are debugged -----

    /// All programs start once more under their debuggers: each gets a new PMI connection.
    pub(super) fn reconnect(&mut self, turn: &mut Turn<'_>) {
        for (rank, process) in self.table.all().filter(|(_, process)| process.handle.is_some()) {
            let (Some(control), Some(token)) = (&process.control, self.table.token_of(rank)) else {
                continue;
            };
            match reconnect(turn.registry, control, token) {
                Ok(pmi) => turn.report(Event::Pmi(rank, Client::Debugged, pmi)),
                Err(e) => {
                    let problem = mpd_io::logging::plain(&e);
                    let text = format!("rank {rank}: its program will not find PMI: {problem}");
                    turn.post(Input::Notice(text));
                }
            }
        }
        turn.post(Input::Restarted);
    }
}

fn reconnect(
    registry: &Registry,
    control: &std::os::unix::net::UnixStream,
    token: usize,
) -> std::io::Result<std::os::unix::net::UnixStream> {
    let pmi = connect(control)?;
    watch_pmi(registry, token, &pmi)?;
    Ok(pmi)
}
