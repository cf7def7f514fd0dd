//! The jobs of this host: the processes, files and descriptors around their table, which decides in the node.
//!
//! This module performs the outputs of the table in their order, and answers its questions.
//!
//! | module | has |
//! |---|---|
//! | [`answers`] | the answers to the table's questions |
//! | [`fork_server`], [`start`] | the processes that become managers |
//! | [`records`] | the files of the jobs |

mod answers;
mod fork_server;
mod records;
mod start;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::Path;

use anyhow::Error;
use mpd_io::network::conn::Conn;
use mpd_io::process::cgroup::Cgroup;
use mpd_io::process::identity::{number_of, process_of};
use mpd_io::process::spawn::Fate;
use mpd_io::process::tree::{self, Dead};
use mpd_io::process::usage;
use mpd_io::ring::rundir::RunDir;
use mpd_jobtable::{Action, JobTable, Sample};
use mpd_leftovers::record::JobRecord;
use mpd_sansio::Time;
use mpd_wire::job::ManagerEnd;
use mpd_wire::message::{HostUse, RunUse};
use mpd_wire::{JobId, Pid};
use nix::sys::signal::{Signal, kill};

use crate::daemon::jobs::fork_server::ForkServer;
use crate::daemon::jobs::records::Records;

pub(crate) use start::first_manager;

/// What a new manager gets besides its order.
#[derive(Default)]
pub(crate) struct Lent<'a> {
    /// For the root: the connection of the console, its standard output and its standard error. Then those of the process
    /// that becomes the job's one rank, if there is one.
    pub(crate) descriptors: Vec<BorrowedFd<'a>>,
    pub(crate) spec: &'a [u8],
}

/// What the outputs of the table concern.
#[derive(Debug)]
pub(crate) struct Jobs {
    records: Records,
    /// The files of the records. Managers add their notes to them.
    files: BTreeMap<JobId, File>,
    /// The control group of the job that is about to start.
    group: Option<Cgroup>,
    fork_server: Option<ForkServer>,
    /// The connections of managers in waiting.
    reserve: BTreeMap<Pid, Conn>,
    /// Connections of new managers, until the loop takes them.
    connections: Vec<(JobId, Conn)>,
    /// Helpers that are awaited, and how they have ended.
    awaited: BTreeMap<Pid, Option<Fate>>,
    /// How the last child that was reaped has ended.
    last_fate: Option<Fate>,
}

impl Jobs {
    /// `first`: the manager that waits for the only job of a private ring. Without a run directory, records are in memory.
    pub(crate) fn new(rundir: Option<RunDir>, first: Option<(Pid, Conn)>) -> Self {
        Self {
            records: Records::new(rundir),
            files: BTreeMap::new(),
            group: None,
            fork_server: None,
            reserve: first.into_iter().collect(),
            connections: Vec::new(),
            awaited: BTreeMap::new(),
            last_fate: None,
        }
    }

    /// The records that an earlier daemon has left. Their files stay open.
    pub(crate) fn read_records(&mut self) -> Vec<JobRecord> {
        let mut records = Vec::new();
        for (record, file) in self.records.read() {
            self.files.insert(record.job.clone(), file);
            records.push(record);
        }
        records
    }

    // ----- children -----

    /// Reaps a child. `None`: none is dead. [`Jobs::forget`] follows when the table knows it.
    pub(crate) fn reap(&mut self) -> Option<(Pid, Option<ManagerEnd>)> {
        let Dead::Child(child) = tree::next_dead() else { return None };
        let fate = tree::reap(child);
        let pid = number_of(child);
        if let Some(awaited) = self.awaited.get_mut(&pid) {
            *awaited = fate.or(Some(Fate::Killed { signal: libc::SIGKILL, core: false }));
        }
        self.fork_server.iter_mut().for_each(|server| server.forget(child));
        self.last_fate = fate;
        Some((pid, fate.and_then(end_of)))
    }

    /// Closes the connection of a child that was reaped, if it waited for a job.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.reserve.remove(&pid);
    }

    /// Has [`Self::take_fate`] report the end of a helper.
    pub(crate) fn await_helper(&mut self, pid: nix::unistd::Pid) {
        self.awaited.insert(number_of(pid), None);
    }

    /// How an awaited helper has ended, once.
    pub(crate) fn take_fate(&mut self, pid: nix::unistd::Pid) -> Option<Fate> {
        let pid = number_of(pid);
        let fate = (*self.awaited.get(&pid)?)?;
        self.awaited.remove(&pid);
        Some(fate)
    }

    /// Connections of managers that were started since the last call.
    pub(crate) fn take_connections(&mut self) -> Vec<(JobId, Conn)> {
        std::mem::take(&mut self.connections)
    }

    /// Performs an output of the table.
    pub(crate) fn perform(&mut self, action: Action) {
        match action {
            Action::RemoveRecord(job) => {
                self.records.remove(&job);
                self.files.remove(&job);
            }
            Action::CloseRecord(job) => drop(self.files.remove(&job)),
            Action::RemoveGroup(path) => self.remove_group(path.as_ref()),
            Action::Kill(pid) => drop(kill(process_of(pid), Signal::SIGKILL)),
            Action::Terminate(pid) => drop(kill(process_of(pid), Signal::SIGTERM)),
            Action::LeftBehind(pid) => {
                let process = tree::describe(process_of(pid));
                log::info!("cannot kill {process}, which a job left behind");
            }
            Action::Guard { group, manager } => self.guard(group.as_ref(), manager),
            Action::GiveUpCopies => self.fork_server.iter_mut().for_each(ForkServer::forsake),
            Action::DropForkServer => self.fork_server = None,
            Action::EndWaiting => {
                self.reserve.clear();
                self.fork_server = None;
            }
        }
    }

    /// Removes the control group of the job that was about to start, or of one that has started.
    fn remove_group(&mut self, path: &Path) {
        let new = self.group.take().filter(|group| group.path() == path);
        let group = new.or_else(|| Cgroup::open(path).ok());
        group.iter().for_each(|group| drop(group.remove()));
    }

    fn guard(&mut self, group: &Path, manager: Pid) {
        let server = self.fork_server.as_mut();
        if let Some(Err(e)) = server.map(|server| server.guard(group, process_of(manager))) {
            log::debug!("{}: it is not guarded: {e}", group.display());
        }
    }
}

/// The usage of this machine, a page of the usage of ranks, and whether there is another page.
pub(crate) fn usage(table: &JobTable, now: Time, page: u32) -> (HostUse, Vec<RunUse>, bool) {
    let at_us = u64::try_from(now.since(Time::ZERO).as_micros()).unwrap_or(u64::MAX);
    let machine = HostUse { at_us, ..usage::of_host() };
    let (samples, more) = table.usage(now, page);
    (machine, samples.into_iter().map(measured).collect(), more)
}

/// Fills in what the ranks of a run use.
fn measured(Sample { mut run, manager }: Sample) -> RunUse {
    for rank in &mut run.ranks {
        let process = i32::try_from(rank.pid).ok().map(Pid).zip(manager);
        let found =
            process.and_then(|(pid, parent)| usage::of_tree(process_of(pid), process_of(parent)));
        if let Some(found) = found {
            rank.state = found.state;
            rank.cpu_ms = found.cpu_ms;
            rank.memory_kib = found.memory_kib;
            rank.processes = found.processes;
        }
    }
    run
}

fn end_of(fate: Fate) -> Option<ManagerEnd> {
    match fate {
        Fate::Killed { signal, core } => {
            Some(ManagerEnd::Signaled { signal: signal.try_into().ok()?, core })
        }
        Fate::Stopped => None,
        Fate::Exited(code) => Some(ManagerEnd::Exited(code)),
    }
}

/// An error with its causes, for people.
fn text(error: Error) -> String {
    format!("{error:#}")
}
