//! `mpdfarm`: many tasks over the slots of the hosts.
//!
//! `mpd-farm` decides; this module has the descriptors. `mpdfarm` starts one worker on each host, as a job of its own:
//! `site.rs` here, `worker.rs` there. Tasks come from `source.rs`, the hosts from `sight.rs`, and results go to `results.rs`.

pub mod cli;
mod joblog;
mod launcher;
mod results;
mod sight;
mod site;
mod source;
mod spool;
mod status;
pub mod worker;

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use mpd_farm::frame::{ToFarm, ToWorker};
use mpd_farm::{Close, Farm, HostId, Input, Options, Output, Task, TaskId, Verdict};
use mpd_io::clock::Clock;
use mpd_io::process::signals::Signals;
use mpd_io::wait;
use mpd_sansio::{Pump, Time};
use mpd_wire::frame::InvalidFrame;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;

use cli::FarmCli;
use joblog::{Found, JobLog, Recorded};
use results::{Form, Results};
use sight::{Place, Sight};
use site::Site;
use source::{Line, Source};
use status::{Counts, Status};

/// Tasks that wait for a host. No further ones are read then.
const MAX_WAITING: usize = 20_000;
/// The time for workers to end when nothing runs any more.
const FAREWELL: Duration = Duration::from_secs(15);

/// Which numbers the hosts have.
#[derive(Debug, Default)]
struct Names {
    names: Vec<String>,
    ids: BTreeMap<String, HostId>,
}

impl Names {
    fn id(&mut self, name: &str) -> HostId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = HostId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(name.to_owned());
        self.ids.insert(name.to_owned(), id);
        id
    }

    fn name(&self, id: HostId) -> &str {
        usize::try_from(id.0).ok().and_then(|at| self.names.get(at)).map_or("", |name| &name[..])
    }
}

/// What a worker has sent.
enum Message {
    /// Nothing more now.
    None,
    /// Nothing for the machine: output, which is kept already, or a message of a later release.
    Other,
    /// Something for the machine.
    Input(Input),
}

/// What the user asks of each worker.
struct Asked {
    /// The slots for tasks; `None`: those of the host.
    slots: Option<u32>,
    per_task: u32,
    /// In milliseconds; 0: no limit.
    limit_ms: u64,
}

/// A farm with its descriptors.
struct Session {
    pump: Pump<Farm>,
    clock: Clock,
    signals: Signals,
    place: Place,
    names: Names,
    sites: BTreeMap<HostId, Site>,
    sight: Sight,
    source: Source,
    results: Results,
    recorded: Recorded,
    status: Option<Status>,
    asked: Asked,
    /// Tasks that were read and not skipped, and those with a result.
    counts: (u64, u64),
    close: Option<Close>,
}

/// Runs a farm. Returns how it ended.
///
/// # Errors
/// The input, the ring or a file cannot be used. No task runs any more then.
pub fn run(cli: &FarmCli) -> Result<Close> {
    mpd_io::ignore_signal(libc::SIGPIPE);
    let mut session = Session::open(cli)?;
    let worked = session.work();
    let ended = session.farewell(worked.is_ok());
    let close = worked?;
    ended?;
    Ok(close)
}

impl Session {
    fn open(cli: &FarmCli) -> Result<Self> {
        let clock = Clock::start();
        let now = clock.now();
        // A pipe without a writer and a long job log take time, in which signals have their usual effects.
        let source = Source::open(cli)?;
        let (log, recorded) = match &cli.joblog {
            Some(path) => {
                JobLog::open(path, cli.resume).map(|(log, recorded)| (Some(log), recorded))?
            }
            None => (None, Recorded::default()),
        };
        let watched = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCHLD];
        let signals = Signals::block(&watched).context("cannot watch signals")?;
        let form = match &cli.output_dir {
            None => Form::Printed,
            Some(directory) => {
                let made = std::fs::create_dir_all(directory);
                made.with_context(|| format!("cannot make {}", directory.display()))?;
                Form::Files(directory.clone())
            }
        };
        let mut results = Results::new(form, cli.keep_order, cli.json, log)?;
        if recorded.count() > 0 {
            let failed = match recorded.failed() {
                0 => String::new(),
                failed => format!("; {failed} of them failed"),
            };
            results.warn(&format!(
                "{} tasks are in the job log and do not run again{failed}",
                recorded.count()
            ));
        }
        let status = cli.progress.then(|| Status::new(now, results.has_terminal()));
        let (sight, place) = Sight::open(cli, now)?;
        if sight.is_full() {
            if cli.now {
                bail!("the slots are not free now: allocations hold all of them ('mpdqueue')");
            }
            results.warn("waits: allocations hold all slots ('mpdqueue')");
        }
        let options = Options { per_task: cli.slots, retries: cli.retry, halt: cli.halt.0 };
        let limit_ms =
            cli.timeout.map_or(0, |limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        let asked = Asked { slots: cli.jobs, per_task: cli.slots, limit_ms };
        Ok(Self {
            pump: Pump::new(Farm::new(options)),
            clock,
            signals,
            place,
            names: Names::default(),
            sites: BTreeMap::new(),
            sight,
            source,
            results,
            recorded,
            status,
            asked,
            counts: (0, 0),
            close: None,
        })
    }

    /// Works until the farm is over.
    fn work(&mut self) -> Result<Close> {
        self.tell_members()?;
        loop {
            self.read_tasks()?;
            self.pump.handle_timeout(self.clock.now());
            self.perform()?;
            self.pump.end_turn(self.clock.now());
            self.perform()?;
            self.write()?;
            if let Some(close) = self.close {
                return Ok(close);
            }
            let ready = self.wait()?;
            self.take_signals()?;
            for host in ready {
                self.read_site(host)?;
            }
            if self.sight.turn(self.clock.now()) {
                self.tell_members()?;
            }
        }
    }

    /// Waits for something. Returns the hosts from which something can be read.
    fn wait(&mut self) -> Result<Vec<HostId>> {
        let now = self.clock.now();
        let reads = self.wants_tasks();
        if reads && self.source.is_always_ready() {
            return self.readable(Some(now));
        }
        let due = [self.pump.machine().poll_timeout(), self.sight.due(), self.results.due()];
        let status = self.status.as_ref().map(Status::due);
        let due = due.into_iter().chain([status]).flatten().min();
        self.readable(due)
    }

    fn readable(&self, until: Option<Time>) -> Result<Vec<HostId>> {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let source = self.source.fd().filter(|_| self.wants_tasks());
        let others = [source, self.sight.fd()].into_iter().flatten();
        fds.extend(others.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        fds.extend(self.results.fds().map(|fd| PollFd::new(fd, PollFlags::POLLOUT)));
        let first = fds.len();
        let mut hosts = Vec::new();
        for (id, site) in &self.sites {
            let [input, output, errors] = site.fds();
            let output = output.filter(|_| !self.results.is_full());
            let wanted = [
                (input, PollFlags::POLLOUT),
                (output, PollFlags::POLLIN),
                (errors, PollFlags::POLLIN),
            ];
            for (fd, flags) in wanted {
                fds.extend(fd.map(|fd| PollFd::new(fd, flags)));
                hosts.extend(fd.map(|_| *id));
            }
        }
        let patience = until.map(|at| self.clock.until(at));
        wait::wait(&mut fds, patience).context("cannot wait")?;
        let is_ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        let mut ready: Vec<HostId> = fds[first..]
            .iter()
            .zip(hosts)
            .filter(|(fd, _)| is_ready(fd))
            .map(|(_, id)| id)
            .collect();
        ready.dedup();
        Ok(ready)
    }

    fn wants_tasks(&self) -> bool {
        let farm = self.pump.machine();
        !self.source.has_ended()
            && farm.wants_tasks()
            && farm.waiting() < MAX_WAITING
            && !self.results.is_full()
    }

    fn read_tasks(&mut self) -> Result<()> {
        if !self.wants_tasks() {
            return Ok(());
        }
        for line in self.source.read()? {
            match line {
                Line::Task(task) => self.read_task(task)?,
                Line::Empty(id) => self.results.skip(id)?,
                Line::Unfit(id, why) => {
                    self.results.warn(&format!("{why}: task {id} has failed"));
                    self.pump.post(Input::Unfit);
                    self.results.skip(id)?;
                }
            }
        }
        if self.source.has_ended() {
            self.pump.post(Input::InputEnded);
        }
        self.perform()
    }

    fn read_task(&mut self, task: Task) -> Result<()> {
        match self.recorded.take(&task)? {
            Found::Unknown => {
                self.counts.0 += 1;
                self.pump.post(Input::Task(task));
                return Ok(());
            }
            Found::Succeeded => {}
            Found::Failed => self.pump.post(Input::FailedBefore),
        }
        self.results.skip(task.id)
    }

    fn tell_members(&mut self) -> Result<()> {
        let hosts: Vec<_> = self.sight.hosts().map(|(name, it)| (name.to_owned(), it)).collect();
        for (name, membership) in hosts {
            let id = self.names.id(&name);
            self.pump.post(Input::Member(id, membership));
            let slots = self.sight.slots(&name, self.asked.slots);
            if let Some(slots) = slots.filter(|slots| *slots > 0)
                && let Some(site) = self.sites.get_mut(&id)
                && site.slots != slots
            {
                site.slots = slots;
                self.pump.post(Input::Slots(id, slots));
            }
        }
        self.perform()
    }

    fn take_signals(&mut self) -> Result<()> {
        for signal in self.signals.pending() {
            if signal == libc::SIGCHLD {
                self.reap()?;
            } else {
                self.pump.post(Input::Interrupt);
                self.perform()?;
            }
        }
        Ok(())
    }

    /// Handles workers that have ended.
    fn reap(&mut self) -> Result<()> {
        let hosts: Vec<HostId> = self.sites.keys().copied().collect();
        for host in hosts {
            let Some(site) = self.sites.get_mut(&host) else { continue };
            if site.fate().is_none() {
                continue;
            }
            while self.take_output(host)? {}
            if let Some(site) = self.sites.remove(&host) {
                let problem = site.problem().unwrap_or_else(|| "its worker has ended".to_owned());
                let name = self.names.name(host).to_owned();
                self.results.warn_of_host(&name, &problem);
                self.pump.post(Input::Lost(host));
                self.perform()?;
            }
        }
        Ok(())
    }

    fn read_site(&mut self, host: HostId) -> Result<()> {
        if let Some(site) = self.sites.get_mut(&host) {
            site.read_errors();
            if !self.results.is_full() {
                self.take_output(host)?;
            }
        }
        Ok(())
    }

    /// Reads messages of a worker once. Returns whether more may be there.
    fn take_output(&mut self, host: HostId) -> Result<bool> {
        let Some(site) = self.sites.get_mut(&host) else { return Ok(false) };
        let more = match site.read() {
            Ok(more) => more,
            Err(error) => return self.refuse(host, &error).map(|()| false),
        };
        loop {
            match self.next_message(host)? {
                Ok(Message::None) => return Ok(more),
                Ok(Message::Other) => {}
                Ok(Message::Input(input)) => {
                    self.pump.post(input);
                    self.perform()?;
                }
                Err(error) => return self.refuse(host, &error).map(|()| false),
            }
        }
    }

    /// The next message of a worker. The inner error is about the worker.
    fn next_message(&mut self, host: HostId) -> Result<Result<Message>> {
        let Some(site) = self.sites.get_mut(&host) else { return Ok(Ok(Message::None)) };
        let payload = match site.next_payload() {
            Ok(None) => return Ok(Ok(Message::None)),
            Ok(Some(payload)) => payload,
            Err(error) => return Ok(Err(error)),
        };
        Ok(Ok(Message::Input(match ToFarm::decode(payload) {
            Ok(ToFarm::Output { id, stream, bytes }) => {
                self.results.output(id, stream, bytes)?;
                return Ok(Ok(Message::Other));
            }
            Ok(ToFarm::Hello { versions, slots }) => match site::check_version(versions) {
                // They may be others now than at its start.
                Ok(()) if site.slots != 0 && site.slots != slots => {
                    let slots = site.slots;
                    self.pump.post(Input::Up(host, slots));
                    Input::Slots(host, slots)
                }
                Ok(()) => Input::Up(host, slots),
                Err(error) => return Ok(Err(error)),
            },
            Ok(ToFarm::Started(id)) => Input::Started(host, id),
            Ok(ToFarm::Ended(id, end)) => Input::Ended(host, id, end),
            Ok(ToFarm::Returned(ids)) => Input::Returned(host, ids),
            // A message of a later release.
            Err(InvalidFrame::Unknown(_)) => return Ok(Ok(Message::Other)),
            Err(error) => return Ok(Err(error.into())),
        })))
    }

    /// Gives up a worker that does not speak as it should.
    fn refuse(&mut self, host: HostId, error: &anyhow::Error) -> Result<()> {
        if let Some(site) = self.sites.remove(&host) {
            site.kill();
            let name = self.names.name(host).to_owned();
            self.results.warn_of_host(&name, &format!("{error:#}"));
            self.pump.post(Input::Lost(host));
            self.perform()?;
        }
        Ok(())
    }

    /// Performs the outputs of the machine.
    fn perform(&mut self) -> Result<()> {
        while let Some(output) = self.pump.next(self.clock.now()) {
            match output {
                Output::Start(host) => self.start(host),
                Output::Give(host, task) => {
                    self.send(host, ToWorker::Task { id: task.id, command: &task.command });
                }
                Output::TakeBack(host, count) => self.send(host, ToWorker::TakeBack { count }),
                Output::Slots(host, slots) => self.send(host, ToWorker::Slots { slots }),
                Output::Kill(host) => self.send(host, ToWorker::Kill),
                Output::Result { task, host, verdict } => self.result(task, host, verdict)?,
                Output::Again(id, _) => self.results.discard(id)?,
                Output::Abandon => self.sites.values_mut().for_each(Site::close),
                Output::Done(close) => self.done(close),
            }
        }
        Ok(())
    }

    fn done(&mut self, close: Close) {
        let waiting = self.pump.machine().waiting();
        let tasks =
            if waiting == 1 { "1 task waits".to_owned() } else { format!("{waiting} tasks wait") };
        match close {
            Close::NoHost => self.results.warn(&format!("no host is left, and {tasks}")),
            Close::TooSmall => {
                self.results.warn(&format!(
                    "no host has enough slots for a task, and {tasks}; see -j and -n"
                ));
            }
            Close::Complete(_) | Close::Halted(_) | Close::Interrupted => {}
        }
        self.close = Some(close);
    }

    fn start(&mut self, host: HostId) {
        let name = self.names.name(host).to_owned();
        let Asked { slots, per_task, limit_ms } = self.asked;
        let slots = self.sight.slots(&name, slots).unwrap_or(0);
        let setup = ToWorker::Setup { slots, per_task, limit_ms };
        match Site::start(&self.place, &name, setup) {
            Ok(site) => drop(self.sites.insert(host, site)),
            Err(error) => {
                self.results.warn_of_host(&name, &format!("{error:#}"));
                self.pump.post(Input::Lost(host));
            }
        }
    }

    fn send(&mut self, host: HostId, message: ToWorker<'_>) {
        if let Some(site) = self.sites.get_mut(&host) {
            site.send(message);
        }
    }

    fn result(&mut self, task: Task, host: HostId, verdict: Verdict) -> Result<()> {
        self.counts.1 += 1;
        let id: TaskId = task.id;
        match verdict {
            Verdict::Ended(end) => {
                return self.results.add(task, self.names.name(host).to_owned(), end);
            }
            Verdict::Lost => {
                let name = self.names.name(host).to_owned();
                self.results
                    .warn(&format!("task {id} was lost with host {name}; --retry would repeat it"));
            }
            Verdict::Cancelled => {}
        }
        self.results.discard(id)?;
        self.results.skip(id)
    }

    /// Writes to workers, to the user and to the job log.
    fn write(&mut self) -> Result<()> {
        self.sites.values_mut().for_each(Site::flush);
        let now = self.clock.now();
        self.results.flush(now)?;
        let (read, ended) = self.counts;
        let counts = Counts { ended, left: read - ended, all_read: self.source.has_ended() };
        let line =
            self.status.as_mut().and_then(|status| status.line(now, counts, self.pump.machine()));
        if let Some(line) = line {
            self.results.progress(&line);
        }
        Ok(())
    }

    /// Ends the workers, and writes what is left to write. After an error only the workers are ended.
    fn farewell(&mut self, all: bool) -> Result<()> {
        self.sites.values_mut().for_each(Site::close);
        let deadline = self.clock.now() + FAREWELL;
        let mut written = Ok(());
        if all {
            written = self.results.finish();
        }
        loop {
            self.sites.retain(|_, site| {
                while site.read().is_ok_and(|more| more) {}
                site.read_errors();
                site.fate().is_none()
            });
            if all && written.is_ok() {
                written = self.results.flush(self.clock.now());
            }
            let is_written = !all || written.is_err() || self.results.is_empty();
            if self.sites.is_empty() && is_written {
                break;
            }
            if self.clock.now() >= deadline && !self.sites.is_empty() {
                self.sites.values().for_each(Site::kill);
            }
            self.readable(Some(self.clock.now() + Duration::from_millis(200)))?;
            // A second ^C does not wait for a reader.
            if self.signals.pending().iter().any(|signal| *signal != libc::SIGCHLD)
                && self.sites.is_empty()
            {
                break;
            }
        }
        self.results.clear_progress();
        let synced = self.results.sync(self.clock.now());
        written.and(synced)
    }
}
