//! The process of a rank whose crash is to be caught: starts the program and watches it. When it is about to
//! die of a signal, a debugger says where all its threads are while they are still there; then it dies.
//!
//! What it has found goes to the manager over the control socket, which reads it when this process has ended,
//! as the program did.
//!
//! Where the job's user is to look instead, a process that crashes is told of at once and held as it was,
//! whole and traced by nobody, until the manager says a byte or is gone.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mpd_io::passing::{self, Passed};
use mpd_io::pidfd::Pidfd;
use mpd_io::signals::ChildSignals;
use mpd_io::spawn::{Extra, Spawn, own_environment};
use mpd_io::tracer::{Event, Tracer};
use mpd_io::{adopt_inherited, place_for_exec};
use mpd_wire::job::Crash;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use crate::debugger::wrapper::SOCKET_VARIABLE;

/// The manager passes the PMI connection over it and reads what was found.
const CONTROL: i32 = 3;

/// What the tracer's errors mean.
const NO_PROGRAM: &str = "cannot wait for the program";

/// How long a debugger may take to say where a process is.
const PATIENCE: Duration = Duration::from_secs(20);

/// Most bytes that it may say.
const MAX_SAID: usize = 1 << 20;

/// Runs `GDB PROGRAM [ARGUMENT…]`.
pub(crate) fn run(words: &[OsString]) -> Result<ExitCode> {
    let [gdb, words @ ..] = words else { bail!("no program to watch") };
    let Watched { tracer, control } = begin(words, Pid::this())?;
    loop {
        match tracer.next_event().context(NO_PROGRAM)? {
            Event::Crashed { pid, tid, signal } => {
                tell(&control, &look(gdb, (pid, tid), signal));
                tracer.let_die(pid, signal);
            }
            end => return Ok(end_as(end)),
        }
    }
}

/// Runs `TRACER PROGRAM [ARGUMENT…]`: debuggers descend from that process.
pub(crate) fn run_holding(words: &[OsString]) -> Result<ExitCode> {
    let [tracer, words @ ..] = words else { bail!("no program to watch") };
    let tracer = tracer.to_str().and_then(|text| text.parse().ok()).context("no tracer")?;
    let Watched { tracer, control } = begin(words, Pid::from_raw(tracer))?;
    let children = ChildSignals::blocked().context("cannot wait")?;
    let _ = control.set_nonblocking(true);
    let mut holder = Holder { tracer, control: Some(control), held: Vec::new() };
    loop {
        children.clear();
        while let Some(event) = holder.tracer.poll_event().context(NO_PROGRAM)? {
            let Event::Crashed { pid, signal, .. } = event else {
                holder.let_all_die();
                return Ok(end_as(event));
            };
            holder.hold(pid, signal);
        }
        let both = [Some(children.as_fd()), holder.control.as_ref().map(AsFd::as_fd)];
        let fds = both.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let _ = poll(&mut fds.collect::<Vec<_>>(), PollTimeout::NONE);
        holder.listen();
    }
}

/// Who keeps processes that crashed as they were.
struct Holder {
    tracer: Tracer,
    /// None when the manager is gone.
    control: Option<UnixStream>,
    held: Vec<Held>,
}

impl Holder {
    fn hold(&mut self, pid: Pid, signal: i32) {
        // A word that is on its way was said of what was held before.
        self.listen();
        let crash = Crash::held(u8::try_from(signal).unwrap_or(0));
        match self.control.as_ref().is_some_and(|control| tell(control, &crash)) {
            true => self.held.push(Held { process: Pidfd::open(pid).ok(), pid, signal }),
            false => self.tracer.let_die(pid, signal),
        }
    }

    /// Hears whether the manager has said that what is held goes on, as it does when nobody can say so any more.
    fn listen(&mut self) {
        let Some(control) = &self.control else { return };
        match passing::receive(control) {
            Ok(Passed::Nothing) => return,
            Ok(Passed::Message(..)) => {}
            Ok(Passed::Closed) | Err(_) => self.control = None,
        }
        self.let_all_die();
    }

    fn let_all_die(&mut self) {
        self.held.drain(..).for_each(|held| held.let_die(&self.tracer));
    }
}

/// A process that has crashed.
struct Held {
    /// Whether that number is still its own.
    process: Option<Pidfd>,
    pid: Pid,
    signal: i32,
}

impl Held {
    fn let_die(self, tracer: &Tracer) {
        // Somebody else may have ended it.
        if self.process.is_none_or(|process| process.pid().is_some()) {
            tracer.let_die(self.pid, self.signal);
        }
    }
}

/// A program that runs.
struct Watched {
    tracer: Tracer,
    control: UnixStream,
}

/// Starts the program, which descendants of `debuggers` may trace where that is restricted.
fn begin(words: &[OsString], debuggers: Pid) -> Result<Watched> {
    let [program, arguments @ ..] = words else { bail!("no program to watch") };
    // Signals for the group are the program's; it ends, and we with it.
    SigSet::all().thread_block().context("cannot block signals")?;
    let control = UnixStream::from(adopt_inherited(CONTROL).context("no control socket")?);
    let connection = connection(&control)?;
    let (held, gate) = UnixDatagram::pair().context("no socket")?;
    let child = start((program, arguments), &held, debuggers)?;
    drop(held);
    let tracer = Tracer::seize(child).context("cannot watch the program")?;
    // Nothing of it has escaped us so far: now it begins.
    passing::pass(&gate, b'P', &connection).context("cannot start the program")?;
    drop((gate, connection));
    // Whoever reads from or writes to it is to see its end.
    let null = || File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from);
    for number in 0..2 {
        place_for_exec(null()?, number)?;
    }
    Ok(Watched { tracer, control })
}

/// The program's PMI connection. Waits for it.
fn connection(control: &UnixStream) -> Result<OwnedFd> {
    loop {
        let mut fds = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::NONE);
        match passing::receive(control).context("the manager says nothing")? {
            Passed::Message(_, Some(connection)) => return Ok(connection),
            Passed::Message(_, None) | Passed::Nothing => {}
            Passed::Closed => bail!("the manager is gone"),
        }
    }
}

/// Starts what becomes the program when it gets its PMI connection.
fn start(
    (program, arguments): (&OsStr, &[OsString]),
    held: &UnixDatagram,
    debuggers: Pid,
) -> Result<Pid> {
    const NUMBER: usize = 3;
    let words = [OsStr::new("mpd"), OsStr::new(crate::cli::HELD), program].into_iter();
    let words = words.chain(arguments.iter().map(OsString::as_os_str));
    let words = words.map(|word| word.as_bytes().to_vec());
    let mut environment = own_environment();
    environment.push(format!("{SOCKET_VARIABLE}={NUMBER}").into_bytes());
    let mut spawn = Spawn::new(b"/proc/self/exe", words, environment)?;
    spawn.in_our_group().die_with_parent().traced_by(debuggers);
    let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
    let descriptors = [input.as_fd(), output.as_fd(), errors.as_fd(), held.as_fd()];
    debug_assert_eq!(descriptors.len(), NUMBER + 1);
    let extra = Extra { closed: mpd_io::closed_at_start(), ..Extra::default() };
    let started = spawn.start(&descriptors, extra, None);
    started.with_context(|| format!("cannot start {}", program.display()))
}

/// Where the threads of the process are.
fn look(gdb: &OsStr, thread: (Pid, Pid), signal: i32) -> Crash {
    let mut crash = Crash { held: false, ..Crash::held(u8::try_from(signal).unwrap_or(0)) };
    match said(gdb, thread) {
        Ok(lines) => {
            for line in lines.lines() {
                match line.as_bytes().first() {
                    Some(b'#') => crash.stacks.push(line[1..].to_owned()),
                    Some(b'!') if crash.problem.is_none() => {
                        crash.problem = Some(line[1..].to_owned());
                    }
                    _ => {}
                }
            }
        }
        Err(e) => crash.problem = Some(format!("{e:#}")),
    }
    crash.shorten();
    crash
}

/// What a driver of a debugger says that is attached to the process.
fn said(gdb: &OsStr, (pid, tid): (Pid, Pid)) -> Result<String> {
    let (commands, ours) = io::pipe().context("no pipe")?;
    let (lines, theirs) = io::pipe().context("no pipe")?;
    // It ends when its manager does: we are that here.
    let (_control, its_control) = UnixStream::pair().context("no socket")?;
    let nothing = File::options().write(true).open("/dev/null")?;
    let process = pid.to_string();
    let words = [&b"mpdgdb"[..], b"--debugger", gdb.as_bytes(), b"--attach", process.as_bytes()];
    let mut spawn = Spawn::new(b"/proc/self/exe", words.map(<[u8]>::to_vec), own_environment())?;
    spawn.die_with_parent();
    let descriptors = [commands.as_fd(), theirs.as_fd(), nothing.as_fd(), its_control.as_fd()];
    let driver = spawn.start(&descriptors, Extra::default(), None).context("no debugger")?;
    drop((commands, theirs, its_control));
    let result = converse(lines, ours, tid);
    if result.is_err() {
        let _ = kill(driver, Signal::SIGKILL);
    }
    result
}

/// Asks the driver when it has attached, dismisses it when it has answered, and returns all that it said.
fn converse(mut lines: PipeReader, mut commands: PipeWriter, first: Pid) -> Result<String> {
    let until = Instant::now() + PATIENCE;
    let mut said = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    // The mark that is waited for, and what is to be said then.
    let stacks = format!("1 stacks {first}\n");
    let mut steps =
        [(&b"=0 "[..], stacks.as_bytes()), (b"=1 ", b"2 quit\n")].into_iter().peekable();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let wait = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut fds = [PollFd::new(lines.as_fd(), PollFlags::POLLIN)];
        if matches!(poll(&mut fds, wait), Ok(0)) || said.len() > MAX_SAID {
            bail!("the debugger does not come to an end");
        }
        match lines.read(&mut buffer) {
            Ok(0) => return Ok(String::from_utf8_lossy(&said).into_owned()),
            Ok(n) => said.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e).context("no word from the debugger"),
        }
        while let Some((_, command)) = steps.next_if(|(mark, _)| has_line(&said, mark)) {
            // If it is gone, the end of its lines tells.
            let _ = commands.write_all(command);
        }
    }
}

fn has_line(said: &[u8], begin: &[u8]) -> bool {
    said.split_inclusive(|byte| *byte == b'\n')
        .any(|line| line.starts_with(begin) && line.ends_with(b"\n"))
}

/// It fits into the socket's buffer; if not, the manager hears less. Whether it hears all.
fn tell(mut control: &UnixStream, crash: &Crash) -> bool {
    let Ok(text) = serde_json::to_vec(crash) else { return false };
    let _ = control.set_nonblocking(true);
    control.write_all(&text).is_ok()
}

/// Ends as the program did.
fn end_as(end: Event) -> ExitCode {
    match end {
        Event::Exited(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Event::Killed(signal) | Event::Crashed { signal, .. } => {
            mpd_io::signals::die_of(signal);
            ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
    }
}
