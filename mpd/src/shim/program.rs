//! The program of a shim: its start on a terminal, traced, or both, and the state of its processes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Context, Result, bail};
use mpd_debug::shim::Plan;
use mpd_io::files::input::Input;
use mpd_io::files::output::Output;
use mpd_io::network::control::Control;
use mpd_io::network::passing::pass;
use mpd_io::process::pidfd::Pidfd;
use mpd_io::process::signals::send_to_group;
use mpd_io::process::spawn::{Extra, Fate, Spawn, SpawnError, Step, fate_of, own_environment};
use mpd_io::process::tracer::{Event, Tracer, let_die};
use mpd_io::terminal::pty::{Pty, Settings};
use mpd_io::terminal::pty_relay::PtyRelay;
use mpd_io::{closed_at_start, place_for_exec};
use mpd_wire::message::EXEC;
use nix::unistd::{Pid, getpgrp, read};

use super::starter::SOCKET_VARIABLE;

/// The number of the PMI connection in a program.
const PMI_FD: usize = 3;

/// Why a program did not start: the step and the error number.
pub(super) type Failure = (&'static str, i32);

/// An event of the shim's children.
#[derive(Debug)]
pub(super) enum Happened {
    Crashed { pid: Pid, tid: Pid, signal: i32 },
    Ended(Fate),
    OtherEnded(Pid, Fate),
}

/// The program and its processes.
#[derive(Default)]
pub(super) struct Program {
    /// The process, until it is reaped.
    pid: Option<Pid>,
    /// The socket to the process that becomes the program, until it has become it.
    starter: Option<OwnedFd>,
    tracer: Option<Tracer>,
    relay: Option<PtyRelay>,
    /// Processes that crashed, to detect later whether their process ids were reused.
    crashed: BTreeMap<u32, Option<Pidfd>>,
}

impl Program {
    /// Starts `NAME PROGRAM [ARGUMENT…]`. The result tells whether it runs now. A traced program runs when
    /// [`Program::started`] reports it.
    ///
    /// # Errors
    /// The step that failed.
    pub(super) fn start(
        &mut self,
        plan: &Plan,
        words: &[OsString],
        connection: OwnedFd,
    ) -> Result<Option<Pid>, Failure> {
        let pty = plan.terminal.map(open_terminal).transpose()?;
        let is_traced = plan.tracing.is_some();
        let pid = match (is_traced, &pty) {
            (true, pty) => self.start_traced(plan, words, pty.as_ref(), &connection)?,
            (false, Some(pty)) => {
                let end = pty.program();
                let spawn = on_terminal(plan, words).map_err(|_| ("words", libc::EINVAL))?;
                let fds = [end, end, end, connection.as_fd()];
                debug_assert_eq!(fds.len(), PMI_FD + 1);
                spawn.start(&fds, Extra::default(), None).map_err(|e| failure_of(&e))?
            }
            (false, None) => return Err(("plan", libc::EINVAL)),
        };
        self.pid = Some(pid);
        match pty {
            Some(pty) => {
                let streams = standard_streams().map_err(failed("streams"))?;
                let relay = PtyRelay::new(pty, streams, false).map_err(failed("terminal"))?;
                self.relay = Some(relay);
            }
            // The other ends of these pipes must detect the end of the program, not the end of the shim.
            None => release_standard_streams().map_err(failed("streams"))?,
        }
        Ok(Some(pid).filter(|_| !is_traced))
    }

    /// Starts a process that becomes the program when it is traced and has its PMI connection.
    fn start_traced(
        &mut self,
        plan: &Plan,
        words: &[OsString],
        pty: Option<&Pty>,
        connection: &OwnedFd,
    ) -> Result<Pid, Failure> {
        const NUMBER: usize = 3;
        let (ours, theirs) = Control::sockets().map_err(failed("socket"))?;
        let mut environment = own_environment();
        environment.push(format!("{SOCKET_VARIABLE}={NUMBER}").into_bytes());
        let role = [OsStr::new("mpd"), OsStr::new(crate::cli::TRACED)].into_iter();
        let argv = role.chain(words.iter().map(OsString::as_os_str));
        let argv = argv.map(|word| word.as_bytes().to_vec());
        let spawn = Spawn::new(b"/proc/self/exe", argv, environment);
        let mut spawn = spawn.map_err(|_| ("words", libc::EINVAL))?;
        spawn.die_with_parent().traced_by(debuggers(plan));
        let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
        let mut fds = [input.as_fd(), output.as_fd(), errors.as_fd(), theirs.as_fd()];
        let mut extra = Extra { closed: closed_at_start(), ..Extra::default() };
        match pty {
            Some(pty) => {
                spawn.on_terminal();
                fds[..NUMBER].fill(pty.program());
                extra = Extra::default();
            }
            None => drop(spawn.in_our_group()),
        }
        let pid = spawn.start(&fds, extra, None).map_err(|e| failure_of(&e))?;
        drop(theirs);
        self.tracer = Some(Tracer::seize(pid).map_err(failed("trace"))?);
        // Nothing of the program has run before the tracing began.
        pass(&ours, b'P', connection).map_err(failed("connection"))?;
        self.starter = Some(ours);
        Ok(pid)
    }

    /// The socket for the reports of the process that becomes the program.
    pub(super) fn starter(&self) -> Option<BorrowedFd<'_>> {
        self.starter.as_ref().map(AsFd::as_fd)
    }

    /// Handles an event of [`Program::starter`]: the program runs, or could not be executed.
    pub(super) fn started(&mut self) -> Option<Result<Pid, Failure>> {
        let starter = self.starter.take()?;
        let mut errno = [0; size_of::<i32>()];
        Some(match (read(&starter, &mut errno), self.pid) {
            (Ok(count), _) if count == errno.len() => Err((EXEC, i32::from_ne_bytes(errno))),
            (_, Some(pid)) => Ok(pid),
            (_, None) => return None,
        })
    }

    /// Reaps one child and returns its event, if any: of the program, of its descendants, or of `other`.
    pub(super) fn reap(&mut self, other: Option<Pid>) -> Result<Option<Happened>> {
        if let Some(tracer) = &mut self.tracer {
            let event = match tracer.poll_event() {
                // The program was the last child.
                Err(_) if self.pid.is_none() => None,
                event => event.context("cannot wait for the program")?,
            };
            return Ok(match event {
                Some(Event::Crashed { pid, tid, signal }) => {
                    let number = pid.as_raw().unsigned_abs();
                    self.crashed.insert(number, Pidfd::open(pid).ok());
                    Some(Happened::Crashed { pid, tid, signal })
                }
                Some(Event::Ended(fate)) => Some(self.ended(fate)),
                Some(Event::OtherEnded(pid, fate)) => Some(Happened::OtherEnded(pid, fate)),
                None => None,
            });
        }
        if let Some(pid) = self.pid
            && let Some(fate) = ended(pid).context("cannot wait for the program")?
        {
            return Ok(Some(self.ended(fate)));
        }
        let Some(pid) = other else { return Ok(None) };
        let fate = ended(pid).context("cannot wait for gdb")?;
        Ok(fate.map(|fate| Happened::OtherEnded(pid, fate)))
    }

    fn ended(&mut self, fate: Fate) -> Happened {
        self.pid = None;
        Happened::Ended(fate)
    }

    /// Sends a signal to the program's process group.
    pub(super) fn signal(&self, signal: i32) {
        match (self.pid, &self.relay) {
            (Some(pid), Some(relay)) => relay.pass_on(pid, signal, true),
            // The program is in the shim's group, and the shim has all signals blocked.
            (Some(_), None) => drop(send_to_group(getpgrp(), signal)),
            (None, _) => {}
        }
    }

    /// Lets a crashed process die, unless something else has ended it.
    pub(super) fn let_die(&mut self, pid: u32, signal: i32) {
        let Some(process) = self.crashed.remove(&pid) else { return };
        if process.is_none_or(|process| process.pid().is_some()) {
            let_die(Pid::from_raw(i32::try_from(pid).unwrap_or(0)), signal);
        }
    }

    pub(super) const fn relay(&mut self) -> Option<&mut PtyRelay> {
        self.relay.as_mut()
    }

    pub(super) const fn terminal(&self) -> Option<&PtyRelay> {
        self.relay.as_ref()
    }

    /// Ends the tracing, so that the rest of the program does not end with this process.
    pub(super) fn let_go(self) {
        if let Some(tracer) = self.tracer {
            tracer.let_go();
        }
    }
}

/// The process whose descendants may trace the program, if the kernel restricts tracing.
fn debuggers(plan: &Plan) -> Pid {
    match plan.tracing {
        // gdb is a child of the shim.
        Some(mpd_debug::shim::Tracing::Stacks) => Pid::this(),
        _ => Pid::from_raw(i32::try_from(plan.tracer).unwrap_or(0)),
    }
}

fn open_terminal(size: (u16, u16)) -> Result<Pty, Failure> {
    let settings = Settings { like: None, processes_output: false, size };
    Pty::open(&settings).map_err(failed("terminal"))
}

fn on_terminal(plan: &Plan, words: &[OsString]) -> Result<Spawn> {
    let [name, program, arguments @ ..] = words else { bail!("no program to start") };
    let argv = std::iter::once(name).chain(arguments).map(|word| word.as_bytes().to_vec());
    let mut spawn = Spawn::new(program.as_bytes(), argv, own_environment())?;
    spawn.on_terminal().die_with_parent().traced_by(debuggers(plan));
    Ok(spawn)
}

fn standard_streams() -> io::Result<(Input, Output)> {
    let input = Input::new(io::stdin().as_fd().try_clone_to_owned()?)?;
    let output = Output::new(io::stdout().as_fd().try_clone_to_owned()?)?;
    Ok((input, output))
}

fn release_standard_streams() -> io::Result<()> {
    let null = || File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from);
    for number in 0..2 {
        place_for_exec(null()?, number)?;
    }
    Ok(())
}

/// The end of a child that is not traced.
fn ended(pid: Pid) -> io::Result<Option<Fate>> {
    Ok(fate_of(pid)?.filter(|fate| *fate != Fate::Stopped))
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| (step, error.raw_os_error().unwrap_or(libc::EINVAL))
}

fn failure_of(error: &SpawnError) -> Failure {
    match error {
        SpawnError::Fork(e) => failed("fork")(copy(e)),
        SpawnError::Descriptor(e) => failed("descriptors")(copy(e)),
        SpawnError::Child { step: Step::Exec, error } => failed(EXEC)(copy(error)),
        SpawnError::Child { step: Step::Terminal, error } => failed("terminal")(copy(error)),
        SpawnError::Child { error, .. } => failed("preparation")(copy(error)),
    }
}

fn copy(error: &io::Error) -> io::Error {
    io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EINVAL))
}
