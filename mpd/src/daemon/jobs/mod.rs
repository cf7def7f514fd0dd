//! The jobs of this host: the processes, files and descriptors around their table ([`JobTable`]), which decides.
//!
//! This module gives events to the table, performs its outputs in their order, and answers its questions.
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

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use anyhow::{Error, Result};
use mpd_io::clock::Clock;
use mpd_io::host::random;
use mpd_io::network::conn::Conn;
use mpd_io::process::cgroup::Cgroup;
use mpd_io::process::identity::{number_of, process_of, user_name};
use mpd_io::process::spawn::Fate;
use mpd_io::process::tree::{self, Dead};
use mpd_io::process::usage;
use mpd_io::ring::rundir::RunDir;
use mpd_jobtable::listing::shortened;
use mpd_jobtable::{Beginning, Event, Given, Input, JobTable, Output, Sample, Secrets, planned};
use mpd_sansio::Time;
use mpd_wire::job::{HostSlices, JobSpec, ManagerEnd, Notice};
use mpd_wire::message::{HostUse, JobPart, Launch, RunUse, Span};
use mpd_wire::{JobId, Pid};
use nix::sys::signal::{Signal, kill};
use nix::unistd::geteuid;

use crate::daemon::jobs::fork_server::ForkServer;
use crate::daemon::jobs::records::Records;
use crate::daemon::lines;
use crate::daemon::submission::Submission;

pub(crate) use start::first_manager;

/// What a new manager gets besides its order.
#[derive(Default)]
struct Lent<'a> {
    /// For the root: the connection of the console, its standard output and its standard error. Then those of the process
    /// that becomes the job's one rank, if there is one.
    descriptors: Vec<BorrowedFd<'a>>,
    spec: &'a [u8],
}

/// The table of jobs, and what its outputs concern.
#[derive(Debug)]
pub(crate) struct Jobs {
    table: JobTable,
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
    /// The result of a start, until its caller takes it.
    started: Option<Result<(), String>>,
    events: VecDeque<Event>,
    clock: Clock,
}

impl Jobs {
    /// `first`: the manager that waits for the only job of a private ring. Without a run directory, records are in memory.
    pub(crate) fn new(
        beginning: Beginning,
        rundir: Option<RunDir>,
        first: Option<(nix::unistd::Pid, Conn)>,
        clock: Clock,
    ) -> Self {
        let reserve = first.map(|(pid, conn)| (number_of(pid), conn));
        let beginning = Beginning {
            // A directory service may take long to answer.
            user: rundir.is_some().then(own_user),
            rundir: rundir.as_ref().map(|rundir| rundir.path().display().to_string()),
            first: reserve.as_ref().map(|(pid, _)| *pid),
            ..beginning
        };
        Self {
            table: JobTable::new(beginning, clock.now()),
            records: Records::new(rundir),
            files: BTreeMap::new(),
            group: None,
            fork_server: None,
            reserve: reserve.into_iter().collect(),
            connections: Vec::new(),
            awaited: BTreeMap::new(),
            last_fate: None,
            started: None,
            events: VecDeque::new(),
            clock,
        }
    }

    /// The decisions, for queries.
    pub(crate) const fn table(&self) -> &JobTable {
        &self.table
    }

    // ----- inputs -----

    /// Gives the table an input, and performs its outputs. [`Jobs::next_event`] then has those for others.
    pub(crate) fn give(&mut self, now: Time, input: Input) {
        self.give_lending(now, input, &Lent::default());
    }

    fn give_lending(&mut self, now: Time, input: Input, lent: &Lent<'_>) {
        self.table.handle(now, input);
        self.settle(now, lent);
    }

    /// Does what is due.
    pub(crate) fn turn(&mut self, now: Time) {
        self.collect(now);
        self.table.handle_timeout(now);
        self.settle(now, &Lent::default());
    }

    /// Collects the copies that the fork server has made.
    fn collect(&mut self, now: Time) {
        while let Some(copied) = self.fork_server.as_mut().and_then(ForkServer::next_manager) {
            let copied = copied.map(|(pid, conn)| {
                let pid = number_of(pid);
                self.reserve.insert(pid, conn);
                pid
            });
            self.give(now, Input::Copied(copied.map_err(text)));
        }
    }

    /// Takes over the jobs of an earlier daemon.
    pub(crate) fn adopt_records(&mut self, now: Time) {
        let mut records = Vec::new();
        for (record, file) in self.records.read() {
            self.files.insert(record.job.clone(), file);
            records.push(record);
        }
        self.give(now, Input::Found(records));
    }

    /// Reaps a child. `false`: none is dead.
    pub(crate) fn reap(&mut self, now: Time) -> bool {
        let Dead::Child(child) = tree::next_dead() else { return false };
        let fate = tree::reap(child);
        let pid = number_of(child);
        if let Some(awaited) = self.awaited.get_mut(&pid) {
            *awaited = fate.or(Some(Fate::Killed { signal: libc::SIGKILL, core: false }));
        }
        self.fork_server.iter_mut().for_each(|server| server.forget(child));
        self.collect(now);
        self.last_fate = fate;
        self.give(now, Input::ChildDied(pid, fate.and_then(end_of)));
        self.reserve.remove(&pid);
        true
    }

    /// Adds a child that is reaped and never killed.
    pub(crate) fn add_helper(&mut self, now: Time, pid: nix::unistd::Pid) {
        self.give(now, Input::Helper(number_of(pid)));
    }

    /// Adds a helper whose end [`Self::take_fate`] reports.
    pub(crate) fn await_helper(&mut self, now: Time, pid: nix::unistd::Pid) {
        self.add_helper(now, pid);
        self.awaited.insert(number_of(pid), None);
    }

    /// How an awaited helper has ended, once.
    pub(crate) fn take_fate(&mut self, pid: nix::unistd::Pid) -> Option<Fate> {
        let pid = number_of(pid);
        let fate = (*self.awaited.get(&pid)?)?;
        self.awaited.remove(&pid);
        Some(fate)
    }

    /// Whether this helper still runs.
    pub(crate) fn is_helper(&self, pid: nix::unistd::Pid) -> bool {
        self.table.is_helper(number_of(pid))
    }

    // ----- new jobs -----

    /// A new job of this daemon, with the data that its managers need. `console`: see [`JobTable::new_id`].
    pub(crate) fn plan(
        &self,
        console: Option<u32>,
        spec: &JobSpec,
        placed: (HostSlices, Option<u32>),
    ) -> Result<(Launch, Option<Notice>)> {
        let id = self.table.new_id(console).map_err(Error::msg)?;
        let (key, cookie, kvsname) = random::three()?;
        Ok(planned(id, spec, placed, Secrets { key, cookie, kvsname }))
    }

    /// Starts the root manager of a planned job and gives it the console.
    pub(crate) fn start_root(
        &mut self,
        launch: Launch,
        console: BorrowedFd<'_>,
        submission: &Submission,
        (notices, spans): (Vec<Notice>, Vec<Span>),
        now: Time,
    ) -> Result<()> {
        let passed = submission.outputs.iter().chain(submission.adopted.iter().flatten());
        let descriptors = std::iter::once(console).chain(passed.map(|fd| fd.as_fd())).collect();
        let given = Given {
            alias: submission.spec.alias.clone(),
            spec_bytes: u32::try_from(submission.encoded.len())?,
            adopts: submission.adopted.is_some(),
            notices,
            spans,
        };
        let lent = Lent { descriptors, spec: &submission.encoded };
        self.collect(now);
        self.give_lending(now, Input::StartRoot(Box::new(launch), given), &lent);
        self.started.take().unwrap_or(Ok(())).map_err(Error::msg)
    }

    /// Starts the manager of our host slice of a job that another daemon accepted. Does nothing if it runs already.
    ///
    /// # Errors
    /// A text for people.
    pub(crate) fn start_branch(
        &mut self,
        launch: Box<Launch>,
        tree_index: usize,
        now: Time,
    ) -> Result<(), String> {
        self.collect(now);
        self.give(now, Input::StartBranch(launch, tree_index));
        self.started.take().unwrap_or(Ok(()))
    }

    /// Connections of managers that were started since the last call.
    pub(crate) fn take_connections(&mut self) -> Vec<(JobId, Conn)> {
        std::mem::take(&mut self.connections)
    }

    // ----- what consoles ask -----

    /// A page of the jobs, and whether there is another page.
    pub(crate) fn listing(&mut self, page: u32) -> (Vec<JobPart>, bool) {
        if self.table.user().is_none() {
            self.table.set_user(own_user());
        }
        self.table.listing(page)
    }

    /// The usage of this machine, a page of the usage of ranks, and whether there is another page.
    pub(crate) fn usage(&self, page: u32) -> (HostUse, Vec<RunUse>, bool) {
        let now = self.clock.now();
        let at_us = u64::try_from(now.since(Time::ZERO).as_micros()).unwrap_or(u64::MAX);
        let machine = HostUse { at_us, ..usage::of_host() };
        let (samples, more) = self.table.usage(now, page);
        (machine, samples.into_iter().map(measured).collect(), more)
    }

    // ----- outputs -----

    /// The next event for other parts of the daemon.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Performs all outputs, and answers each question before the table takes anything else.
    fn settle(&mut self, now: Time, lent: &Lent<'_>) {
        while let Some(output) = self.table.poll_output() {
            if let Output::Ask(question) = output {
                let answer = self.answer(question, lent);
                self.table.handle(now, Input::Answer(answer));
            } else {
                self.perform(output);
            }
        }
        self.group = None;
    }

    fn perform(&mut self, output: Output) {
        match output {
            // The caller has answered it.
            Output::Ask(_) => {}
            Output::Event(Event::Started(result)) => self.started = Some(result),
            Output::Event(event) => self.events.push_back(event),
            Output::Log(line) => lines::write(&line),
            Output::RemoveRecord(job) => {
                self.records.remove(&job);
                self.files.remove(&job);
            }
            Output::CloseRecord(job) => drop(self.files.remove(&job)),
            Output::RemoveGroup(path) => self.remove_group(path.as_ref()),
            Output::Kill(pid) => drop(kill(process_of(pid), Signal::SIGKILL)),
            Output::Terminate(pid) => drop(kill(process_of(pid), Signal::SIGTERM)),
            Output::LeftBehind(pid) => {
                let process = tree::describe(process_of(pid));
                log::info!("cannot kill {process}, which a job left behind");
            }
            Output::Guard { group, manager } => self.guard(group.as_ref(), manager),
            Output::GiveUpCopies => self.fork_server.iter_mut().for_each(ForkServer::forsake),
            Output::DropForkServer => self.fork_server = None,
            Output::EndWaiting => {
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

/// The user of this process, as listings show it.
fn own_user() -> String {
    shortened(&user_name(geteuid().as_raw()))
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
