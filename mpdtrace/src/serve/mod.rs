//! `mpdalloc --serve`: the helper of a program that uses `libmpd`. Its standard input is the socket to the program.
//!
//! It holds the slots of the program's requests, and starts their processes. It ends when the program does, and with it
//! the slots are free and the processes end.

mod held;
mod later;
mod notices;
mod process;
mod signals;

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use mpd_alloc::data::{AllocEnd, AllocNews};
use mpd_io::ignore_signal;
use mpd_io::network::outgoing::Outgoing;
use mpd_io::process::pidfd::Pidfd;
use mpd_io::process::signals::Signals;
use mpd_io::ring::rundir::RunDir;
use mpd_io::wait;
use mpd_requests::frame::{self, Decoder, FORMAT, Received};
use mpd_requests::{End, Error, RequestId, ToHelper, ToProgram, VERSION, Wanted};
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Pid;

use crate::cli::RingOptions;
use crate::owner::{Change, Lost};
use crate::tool::own_path;

use held::Held;
use later::Later;
use notices::Notices;
use process::{Process, Start};
use signals::Orders;

/// Bytes read from the program at a time.
const READ: usize = 64 << 10;

/// Serves the program at the other end of standard input. Without `is_detached`, starts the helper and returns, so that
/// the helper is no child of the program.
///
/// # Errors
/// The system's.
pub fn run(is_detached: bool) -> Result<ExitCode> {
    if !is_detached {
        let mut command = Command::new(own_path("mpdalloc")?);
        command.arg("--detached").process_group(0).spawn().context("cannot start the helper")?;
        return Ok(ExitCode::SUCCESS);
    }
    ignore_signal(libc::SIGPIPE);
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    let program = getsockopt(&socket, sockopt::PeerCredentials).context("standard input")?.pid();
    let program = match Pidfd::open(Pid::from_raw(program)) {
        Ok(program) => program,
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(ExitCode::SUCCESS),
        Err(error) => return Err(error).context("cannot watch the program"),
    };
    let mut helper = Helper {
        socket,
        program,
        decoder: Decoder::new(FORMAT),
        outgoing: Outgoing::default(),
        signals: Signals::block(&[Signal::SIGCHLD]).context("cannot watch processes")?,
        rundir: RingOptions { ring: None, rundir: None }.rundir()?,
        calls: BTreeMap::new(),
        later: Later::default(),
        processes: BTreeMap::new(),
        orders: Orders::default(),
        notices: None,
    };
    while helper.turn()? {}
    Ok(ExitCode::SUCCESS)
}

/// See the module.
struct Helper {
    socket: UnixStream,
    /// A child of the program may have its end of the socket, so the program itself is watched.
    program: Pidfd,
    decoder: Decoder,
    outgoing: Outgoing,
    signals: Signals,
    rundir: RunDir,
    /// By their first requests.
    calls: BTreeMap<RequestId, Held>,
    /// Requests of hard calls that are not in the queue yet.
    later: Later,
    processes: BTreeMap<RequestId, Process>,
    orders: Orders,
    /// The events of a job that the program wants.
    notices: Option<Notices>,
}

impl Helper {
    /// Waits, and handles what is there. Returns whether the program is there.
    fn turn(&mut self) -> Result<bool> {
        self.wait()?;
        if self.program.is_over() || !self.read()? {
            return Ok(false);
        }
        self.signals.pending();
        self.review_processes();
        for first in self.calls.keys().copied().collect::<Vec<_>>() {
            self.review_call(first);
        }
        self.calls.retain(|_, held| !held.is_done());
        self.queue_later();
        let answers = self.orders.answers();
        let events = self.notices.as_mut().map(Notices::take);
        for message in answers.into_iter().chain(events.into_iter().flatten().flatten()) {
            self.send(&message);
        }
        Ok(self.outgoing.flush(&mut self.socket).is_ok())
    }

    fn wait(&self) -> Result<()> {
        let mut socket = PollFlags::POLLIN;
        socket.set(PollFlags::POLLOUT, !self.outgoing.is_empty());
        let mut fds = vec![
            PollFd::new(self.socket.as_fd(), socket),
            PollFd::new(self.program.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        let held = self.calls.values().flat_map(|held| held.fds().into_iter().flatten());
        let reports = self.processes.values().filter_map(Process::fd);
        let notices = self.notices.as_ref();
        let others = held.chain(reports).chain(self.orders.fds());
        let others = others.chain(notices.and_then(Notices::fd));
        fds.extend(others.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let ends = self.processes.values().filter_map(Process::patience);
        let patience = self.calls.values().filter_map(Held::patience).chain(ends);
        let patience = patience.chain(notices.and_then(Notices::patience));
        let patience = patience.chain(self.later.patience(self.waiting())).min();
        wait::wait(&mut fds, patience).context("cannot wait")?;
        Ok(())
    }

    /// Handles the messages of the program that are there. Returns whether more may come.
    fn read(&mut self) -> Result<bool> {
        let mut buffer = vec![0; READ];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(read) => self.decoder.push(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Ok(false),
            }
            while let Some(received) = frame::receive(&mut self.decoder)? {
                match received {
                    Received::Message(message) => self.received(message)?,
                    Received::Unknown { kind, number: Some(number) } => {
                        let release = env!("CARGO_PKG_VERSION");
                        let why = format!("mpdalloc of release {release} does not know '{kind}'");
                        self.send(&ToProgram::Answer { number, error: Some(Error::Helper(why)) });
                    }
                    // The program waits for no answer.
                    Received::Unknown { number: None, .. } => {}
                }
            }
        }
    }

    fn send(&mut self, message: &ToProgram) {
        // The program reads what is there at each of its calls; the number of its requests bounds the messages.
        self.outgoing.buffer().extend(frame::encode(message).unwrap_or_default());
    }

    fn received(&mut self, message: ToHelper) -> Result<()> {
        match message {
            ToHelper::Hello(version) => {
                let error = VERSION.common(version).is_none().then(|| {
                    Error::Helper(format!(
                        "mpdalloc and the library are of different releases: they speak versions {VERSION} and {version}"
                    ))
                });
                let is_other = error.is_some();
                self.send(&ToProgram::Answer { number: 0, error });
                if is_other {
                    let _ = self.outgoing.flush(&mut self.socket);
                    anyhow::bail!("the program's library is of another release");
                }
            }
            ToHelper::Allocate { number, first, wanted } => {
                let error = self.allocate(first, wanted).err();
                self.send(&ToProgram::Answer { number, error });
            }
            ToHelper::Start { id, path, arguments, reports_start: _ } => {
                self.start(id, &path, &arguments);
            }
            ToHelper::Signal { number, signal, ids } => self.signal(number, &signal, &ids),
            ToHelper::Cancel(id) => self.cancel(id),
            ToHelper::Notify { number, job, wanted, from } => {
                let begun = Notices::begin(&self.rundir, number, &job, wanted, from);
                let error = begun.map(|notices| self.notices = notices).err();
                self.send(&ToProgram::Answer { number, error });
            }
            ToHelper::Taken { subscription, count } => {
                self.notices.iter_mut().for_each(|notices| notices.taken(subscription, count));
            }
        }
        Ok(())
    }

    fn allocate(&mut self, first: RequestId, wanted: Wanted) -> Result<(), Error> {
        let mut all = held::allocations(first, wanted)?;
        // Those of earlier calls are first.
        if self.later.is_empty()
            && Later::has_room(self.waiting())
            && let Some((first, wanted)) = all.pop_front()
        {
            self.calls.insert(first, Held::ask(self.rundir.clone(), first, wanted)?);
        }
        self.later.extend(all);
        self.queue_later();
        Ok(())
    }

    /// How many allocations wait in the queue.
    fn waiting(&self) -> usize {
        self.calls.values().filter(|held| held.waits()).count()
    }

    /// Puts requests into the queue, if there is room.
    fn queue_later(&mut self) {
        let mut waiting = self.waiting();
        while let Some((first, wanted)) = self.later.next(waiting) {
            match Held::ask(self.rundir.clone(), first, wanted.clone()) {
                Ok(held) => {
                    self.calls.insert(first, held);
                    self.later.succeeded();
                    waiting += 1;
                }
                Err(error) => {
                    // Slots that others of its requests hold come back with their daemon.
                    let lost = self.later.failed(first, wanted, self.calls.is_empty());
                    if !lost.is_empty() {
                        crate::tool::warn("mpdalloc", &error.to_string());
                    }
                    lost.into_iter().for_each(|id| self.send(&ToProgram::Ended(id, End::Lost(0))));
                    return;
                }
            }
        }
    }

    fn call_of(&mut self, id: RequestId) -> Option<&mut Held> {
        let (_, held) = self.calls.range_mut(..=id).next_back()?;
        held.call.index_of(id).is_some().then_some(held)
    }

    fn start(&mut self, id: RequestId, path: &[u8], arguments: &[Vec<u8>]) {
        let Some(held) = self.call_of(id) else { return };
        let Some(alloc) = held.alloc.as_ref().map(ToString::to_string) else { return };
        let variables = held.variables(id);
        // A request that is over meanwhile has reported its end.
        let Some(host) = held.call.start(id) else { return };
        let alias = alias(&alloc, id);
        let start =
            Start { alloc: &alloc, host, alias: &alias, path, arguments, variables: &variables };
        match Process::start(&start) {
            Ok(process) => drop(self.processes.insert(id, process)),
            Err(error) => {
                crate::tool::warn("mpdalloc", &format!("{error:#}"));
                self.ended(id, End::Lost(u8::MAX));
            }
        }
    }

    /// Sends a signal to processes, after their start. Those that have ended meanwhile need none.
    fn signal(&mut self, number: u64, signal: &str, ids: &[RequestId]) {
        let parsed = crate::signal::parse(signal);
        let Ok(parsed) = parsed.map_err(|problem| {
            let error = Some(Error::Signal(format!("{signal:?}: {problem}")));
            self.send(&ToProgram::Answer { number, error });
        }) else {
            return;
        };
        let mut jobs = Vec::new();
        for &id in ids.iter().filter(|id| self.processes.contains_key(id)) {
            jobs.extend(self.alias_of(id).map(|alias| (id, alias)));
        }
        self.orders.add(number, parsed, jobs);
        self.pass_signals();
    }

    fn alias_of(&self, id: RequestId) -> Option<String> {
        let (_, held) = self.calls.range(..=id).next_back()?;
        Some(alias(&held.alloc.as_ref()?.to_string(), id))
    }

    fn pass_signals(&mut self) {
        let processes = &self.processes;
        self.orders.pass(&self.rundir, |id| processes.get(&id).map(Process::is_started));
    }

    fn cancel(&mut self, id: RequestId) {
        if self.later.remove(id) {
            return self.send(&ToProgram::Ended(id, End::Cancelled));
        }
        let Some(held) = self.call_of(id) else { return };
        if held.call.cancel(id) {
            held.needs_less();
            self.send(&ToProgram::Ended(id, End::Cancelled));
        } else if let Some(process) = self.processes.get_mut(&id) {
            process.end();
        }
    }

    /// The process of a request has ended.
    fn ended(&mut self, id: RequestId, end: End) {
        let Some(held) = self.call_of(id) else { return };
        held.needs_less();
        if let Some(end) = held.call.ended(id, end) {
            self.send(&ToProgram::Ended(id, end));
        }
    }

    fn review_processes(&mut self) {
        let (mut started, mut ended) = (Vec::new(), Vec::new());
        for (&id, process) in &mut self.processes {
            if process.read() {
                started.push(id);
            }
            if let Some(end) = process.ended() {
                ended.push((id, end));
                // Its start may be in its last report.
                if !started.contains(&id) && process.read() {
                    started.push(id);
                }
            }
        }
        let late = self
            .processes
            .iter_mut()
            .filter_map(|(id, process)| process.must_be_killed().then_some(*id));
        for id in late.collect::<Vec<_>>() {
            if let Some(alias) = self.alias_of(id) {
                self.orders.kill(id, alias);
            }
        }
        started.into_iter().for_each(|id| self.send(&ToProgram::Started(id)));
        for (id, end) in ended {
            self.processes.remove(&id);
            self.ended(id, end);
        }
        self.pass_signals();
    }

    /// Handles the news of a call, and frees the slots that it no longer needs.
    fn review_call(&mut self, first: RequestId) {
        while let Some(held) = self.calls.get_mut(&first)
            && let Some(owner) = held.owner.as_mut()
        {
            match owner.next() {
                Ok(Some(Change::News(news))) => self.happened(first, news),
                // The owner looks for the next one.
                Ok(Some(Change::DaemonLost)) => {}
                Ok(None) => break,
                Err(error) => self.lost(first, &error),
            }
        }
        if let Some(held) = self.calls.get_mut(&first) {
            held.review(&self.rundir);
        }
    }

    fn happened(&mut self, first: RequestId, news: AllocNews) {
        let Some(held) = self.calls.get_mut(&first) else { return };
        match news {
            AllocNews::Waiting { id, .. } => held.alloc = Some(id),
            AllocNews::Granted { id, parts } => {
                // A daemon that is new may not know which slots were given back.
                held.needs_less();
                if held.call.is_granted() {
                    return;
                }
                let (alloc, hosts) = (id.to_string(), held::hosts(&parts));
                held.alloc = Some(id);
                let without = held.call.grant(&hosts);
                self.send(&ToProgram::Granted { first, alloc, hosts });
                for id in without {
                    self.send(&ToProgram::Ended(id, End::Cancelled));
                }
            }
            AllocNews::Lost { host, .. } => {
                // Processes there end by themselves, when their host is lost.
                for id in held.call.lose(host.as_str()) {
                    self.send(&ToProgram::Ended(id, End::Lost(0)));
                }
            }
            AllocNews::Over { end: AllocEnd::Cancelled | AllocEnd::Impossible, .. } => {
                self.over(first, End::Cancelled);
            }
            AllocNews::Over { .. } => self.over(first, End::Lost(0)),
        }
    }

    /// The owner can do no more.
    fn lost(&mut self, first: RequestId, error: &Lost) {
        let waiting = self.calls.get(&first).filter(|held| !held.call.is_granted());
        if let Lost::Asked(asked) = error
            && let Some(count) = waiting.map(Held::count)
            && let Some(why) = asked.refusal()
        {
            self.send(&ToProgram::Refused { first, count, why: why.to_owned() });
        }
        self.over(first, End::Lost(0));
    }

    /// All slots of a call are gone.
    fn over(&mut self, first: RequestId, end: End) {
        let Some(held) = self.calls.get_mut(&first) else { return };
        held.owner = None;
        let (over, running) = held.call.lose_all(end);
        for id in over {
            self.send(&ToProgram::Ended(id, end));
        }
        for id in running {
            if let Some(process) = self.processes.get_mut(&id) {
                process.end();
            }
        }
    }
}

/// The alias of the job of a request.
fn alias(alloc: &str, id: RequestId) -> String {
    format!("{alloc}.{}", id.0)
}
