//! `mpdfarm --worker`: runs tasks on its host. Its standard input and output lead to the farm.
//!
//! The end of standard input ends the worker at once. Its tasks die with it, and its manager removes what they leave.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use mpd_farm::frame::{Decoder, FORMAT, MAX_CHUNK, Stream, ToFarm, ToWorker, VERSION};
use mpd_farm::{End, Order, Outcome, Setup, Task, TaskId, Worker, WorkerInput};
use mpd_io::clock::{self, Clock};
use mpd_io::files::input::Input;
use mpd_io::files::output::Output;
use mpd_io::host::cpus;
use mpd_io::ignore_signal;
use mpd_io::network::outgoing::Outgoing;
use mpd_io::process::signals::{self, Signals};
use mpd_io::process::spawn::Fate;
use mpd_io::process::tree::{Dead, next_dead, reap};
use mpd_sansio::{Pump, Time};
use mpd_wire::frame::InvalidFrame;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::launcher::Launcher;
use mpd_io::wait::{self, until_ready};

/// Bytes for the farm that may wait here. Then the pipes of tasks are not read, and the tasks wait.
const MAX_OUTGOING: usize = 1 << 20;
/// Bytes of a task that are read after its end. More can only come from a process that has left its process group.
const MAX_REST: usize = 1 << 20;
/// Bytes read from the farm at a time.
const READ: usize = 64 << 10;

/// The process of a task.
#[derive(Debug)]
struct Process {
    id: TaskId,
    pid: Pid,
    /// Standard output and error; `None` after their ends.
    pipes: [Option<io::PipeReader>; 2],
    /// By the wall clock and by ours.
    began: (u64, Time),
}

/// A worker with its descriptors.
struct Site {
    pump: Pump<Worker>,
    clock: Clock,
    signals: Signals,
    input: Input,
    decoder: Decoder,
    output: Output,
    outgoing: Outgoing,
    /// The outgoing bytes may be written now.
    sends: bool,
    launcher: Launcher,
    processes: Vec<Process>,
    /// When ended tasks began and how long they ran, until their reports.
    times: BTreeMap<TaskId, (u64, u64)>,
    buffer: Vec<u8>,
}

/// Runs the worker until its standard input ends.
///
/// # Errors
/// The farm is of another release, or the system refuses a descriptor.
pub fn run() -> Result<ExitCode> {
    ignore_signal(libc::SIGPIPE);
    let signals = Signals::block(&[Signal::SIGCHLD]).context("cannot watch processes")?;
    let input = Input::new(io::stdin().as_fd().try_clone_to_owned()?).context("standard input")?;
    let output =
        Output::new(io::stdout().as_fd().try_clone_to_owned()?).context("standard output")?;
    let (mut decoder, mut buffer) = (Decoder::new(FORMAT), vec![0; READ]);
    let Some(setup) = first_message(&input, &mut decoder, &mut buffer)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let mut site = Site {
        pump: Pump::new(Worker::new(setup)),
        clock: Clock::start(),
        signals,
        input,
        decoder,
        output,
        outgoing: Outgoing::default(),
        sends: true,
        launcher: Launcher::new().context("cannot prepare the start of tasks")?,
        processes: Vec::new(),
        times: BTreeMap::new(),
        buffer,
    };
    site.report(&ToFarm::Hello { versions: VERSION, slots: setup.slots });
    site.flush()?;
    site.take_messages()?;
    while site.turn()? {}
    Ok(ExitCode::SUCCESS)
}

/// Waits for the setup; `None` if the farm has gone.
fn first_message(input: &Input, decoder: &mut Decoder, buffer: &mut [u8]) -> Result<Option<Setup>> {
    loop {
        if let Some(frame) = decoder.next_frame()? {
            let ToWorker::Setup { slots, per_task, limit_ms } = ToWorker::decode(frame.payload)?
            else {
                bail!("the farm did not begin with the setup");
            };
            let slots = if slots == 0 { cpus::count() } else { slots };
            let limit = (limit_ms > 0).then(|| Duration::from_millis(limit_ms));
            return Ok(Some(Setup { slots, per_task, limit }));
        }
        match input.read(buffer) {
            Ok(0) => return Ok(None),
            Ok(read) => decoder.push(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _ = until_ready(input, PollFlags::POLLIN, None);
            }
            Err(error) => return Err(error).context("standard input"),
        }
    }
}

impl Site {
    /// Waits for something, and handles it. Returns whether to continue.
    fn turn(&mut self) -> Result<bool> {
        let ready = self.wait()?;
        if ready.gone {
            return Ok(false);
        }
        for (at, stream) in ready.pipes {
            self.read_pipe(at, stream, MAX_CHUNK);
        }
        if ready.signals && !self.signals.pending().is_empty() {
            self.reap()?;
        }
        if ready.input && !self.read_input()? {
            return Ok(false);
        }
        self.pump.handle_timeout(self.clock.now());
        self.obey()?;
        loop {
            self.pump.end_turn(self.clock.now());
            self.obey()?;
            // What was sent may start tasks, and a task that does not start is a further report.
            if !self.sends || !self.flush()? {
                return Ok(true);
            }
        }
    }

    fn wait(&self) -> Result<Ready> {
        let mut fds = Vec::with_capacity(2 * self.processes.len() + 3);
        let sending = self.sends && !self.outgoing.is_empty();
        fds.push(PollFd::new(self.input.as_fd(), PollFlags::POLLIN));
        fds.push(PollFd::new(self.signals.as_fd(), PollFlags::POLLIN));
        let wanted = if sending { PollFlags::POLLOUT } else { PollFlags::empty() };
        fds.push(PollFd::new(self.output.as_fd(), wanted));
        let mut pipes = Vec::with_capacity(2 * self.processes.len());
        if self.outgoing.len() < MAX_OUTGOING {
            for (at, process) in self.processes.iter().enumerate() {
                for (stream, pipe) in process.pipes.iter().enumerate() {
                    let Some(pipe) = pipe else { continue };
                    fds.push(PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
                    pipes.push((at, stream));
                }
            }
        }
        let patience = self.pump.machine().poll_timeout().map(|at| self.clock.until(at));
        wait::wait(&mut fds, patience).context("cannot wait")?;
        let events = |at: usize| fds[at].revents().unwrap_or(PollFlags::empty());
        let gone = events(2).intersects(PollFlags::POLLERR | PollFlags::POLLNVAL);
        let [input, signals] = [0, 1].map(|at| !events(at).is_empty());
        let ready = pipes.iter().zip(3..).filter(|(_, at)| !events(*at).is_empty());
        Ok(Ready { input, signals, gone, pipes: ready.map(|(pipe, _)| *pipe).collect() })
    }

    /// Reads what the farm has sent. Returns whether it may send more.
    fn read_input(&mut self) -> Result<bool> {
        match self.input.read(&mut self.buffer) {
            Ok(0) => return Ok(false),
            Ok(read) => self.decoder.push(&self.buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error).context("standard input"),
        }
        self.take_messages()?;
        Ok(true)
    }

    fn take_messages(&mut self) -> Result<()> {
        while let Some(frame) = self.decoder.next_frame()? {
            let message = match ToWorker::decode(frame.payload) {
                Ok(message) => message,
                // A message of a later release.
                Err(InvalidFrame::Unknown(_)) => continue,
                Err(malformed) => return Err(malformed.into()),
            };
            self.pump.post(match message {
                ToWorker::Setup { .. } => bail!("the farm has sent the setup twice"),
                ToWorker::Task { id, command } => WorkerInput::Task(Task::new(id, command)),
                ToWorker::TakeBack { count } => WorkerInput::TakeBack(count),
                ToWorker::Slots { slots } => WorkerInput::Slots(slots),
                ToWorker::Kill => WorkerInput::Kill,
            });
        }
        self.obey()
    }

    /// Carries out the orders of the machine.
    fn obey(&mut self) -> Result<()> {
        while let Some(order) = self.pump.next(self.clock.now()) {
            match order {
                Order::Announce(id) => self.report(&ToFarm::Started(id)),
                Order::Start(task) => self.start(&task)?,
                Order::End(id, kill) => {
                    let signal = if kill { libc::SIGKILL } else { libc::SIGTERM };
                    if let Some(process) = self.processes.iter().find(|process| process.id == id) {
                        // It may have ended in this moment.
                        let _ = signals::send_to_group(process.pid, signal);
                        // A stopped process ends when it continues.
                        let _ = signals::send_to_group(process.pid, libc::SIGCONT);
                    }
                }
                Order::Report(id, outcome) => {
                    let (began, took) = self.times.remove(&id).unwrap_or_default();
                    self.report(&ToFarm::Ended(id, End { outcome, began, took }));
                }
                Order::Return(ids) => self.report(&ToFarm::Returned(ids)),
                Order::Send => self.sends = true,
            }
        }
        Ok(())
    }

    fn report(&mut self, message: &ToFarm<'_>) {
        message.encode(self.outgoing.buffer());
    }

    fn start(&mut self, task: &Task) -> Result<()> {
        let began = (clock::wall(), self.clock.now());
        let (out, out_end) = pipe().context("cannot make a pipe")?;
        let (err, err_end) = pipe().context("cannot make a pipe")?;
        match self.launcher.start(task, &out_end, &err_end) {
            Ok(pid) => {
                let pipes = [Some(out), Some(err)];
                self.processes.push(Process { id: task.id, pid, pipes, began });
            }
            Err(error) => {
                let text = format!("mpdfarm: {:#}\n", anyhow::Error::from(error));
                self.report(&ToFarm::Output {
                    id: task.id,
                    stream: Stream::Err,
                    bytes: text.as_bytes(),
                });
                self.times.insert(task.id, (began.0, 0));
                self.pump.post(WorkerInput::Ended(task.id, Outcome::Exited(126)));
            }
        }
        Ok(())
    }

    /// Handles the processes that have ended.
    fn reap(&mut self) -> Result<()> {
        while let Dead::Child(pid) = next_dead() {
            // The process is still there as a zombie, so its group is no other one.
            let _ = signals::send_to_group(pid, libc::SIGKILL);
            let fate = reap(pid);
            let Some(at) = self.processes.iter().position(|process| process.pid == pid) else {
                continue;
            };
            self.read_pipe(at, 0, MAX_REST);
            self.read_pipe(at, 1, MAX_REST);
            let process = self.processes.swap_remove(at);
            let outcome = match fate {
                Some(Fate::Exited(code)) => Outcome::Exited(code),
                Some(Fate::Killed { signal, .. }) => {
                    Outcome::Killed(u8::try_from(signal).unwrap_or(u8::MAX))
                }
                // It was dead, so this is the end of a process that someone else has reaped.
                Some(Fate::Stopped) | None => Outcome::Killed(9),
            };
            let took = self.clock.now().since(process.began.1).as_micros();
            self.times
                .insert(process.id, (process.began.0, u64::try_from(took).unwrap_or(u64::MAX)));
            self.pump.post(WorkerInput::Ended(process.id, outcome));
            self.obey()?;
        }
        Ok(())
    }

    /// Reads a stream of a task until nothing is there now, or up to `most` bytes.
    fn read_pipe(&mut self, at: usize, stream: usize, most: usize) {
        let Process { id, pipes, .. } = &mut self.processes[at];
        let mut total = 0;
        while let (Some(pipe), true) = (&mut pipes[stream], total < most) {
            match pipe.read(&mut self.buffer) {
                Ok(0) => pipes[stream] = None,
                Ok(read) => {
                    total += read;
                    let stream = if stream == 0 { Stream::Out } else { Stream::Err };
                    let message = ToFarm::Output { id: *id, stream, bytes: &self.buffer[..read] };
                    message.encode(self.outgoing.buffer());
                    self.sends |= self.outgoing.len() >= MAX_CHUNK;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Writes what the farm accepts now. If that is all, the machine knows it, and the result is true.
    fn flush(&mut self) -> Result<bool> {
        while !self.outgoing.is_empty() {
            match self.output.write(self.outgoing.waiting()) {
                Ok(written) => self.outgoing.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error).context("standard output"),
            }
        }
        self.sends = false;
        self.pump.post(WorkerInput::Sent);
        self.obey()?;
        Ok(true)
    }
}

/// What can be read or written without waiting.
struct Ready {
    input: bool,
    signals: bool,
    /// The reader of our output has gone.
    gone: bool,
    /// Processes, by their places, and their streams.
    pipes: Vec<(usize, usize)>,
}

/// A pipe of which only the reading end does not block.
fn pipe() -> io::Result<(io::PipeReader, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((reader, writer.into()))
}
