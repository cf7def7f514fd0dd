//! Starts a child process; one way for ranks and for managers.
//!
//! The child leads a session or process group of its own, and dies with its parent on request. It has exactly the given
//! descriptors; a wrapper's child also has those that the wrapper was started with. Signal handling is the default.
//! Limits, directory, mask and environment are those of its [`Spawn`].

use std::ffi::{CString, NulError, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::Pid;

use crate::host::cpus::CpuMask;
use crate::process::signals;
use crate::raw::{self, Plan, SignalScope, SpawnFault};

pub use crate::raw::Step;

/// The description of children to start. It can be used for several ranks; what differs between them is in [`Extra`].
#[derive(Debug)]
pub struct Spawn {
    program: CString,
    argv: Vec<CString>,
    environment: Vec<CString>,
    directory: Option<CString>,
    limits: Vec<(u8, u64, u64)>,
    umask: Option<u32>,
    niceness: Option<i32>,
    /// The fields of [`Plan`] with these names.
    at_parents_end: i32,
    tracer: Option<Pid>,
    script: bool,
    signal_scope: SignalScope,
    terminal: bool,
    keeps_inherited: bool,
}

/// What differs from one child of a [`Spawn`] to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extra<'a> {
    /// Variables added to the environment.
    pub variables: &'a [CString],
    /// The last arguments. They replace as many arguments of the [`Spawn`].
    pub arguments: &'a [CString],
    /// The CPUs that the child may use; `None`: those of this process.
    pub cpus: Option<&'a CpuMask>,
    /// Which of 0, 1 and 2 are closed in the child, regardless of the descriptors given for them.
    pub closed: [bool; 3],
    /// For a parent with many descriptors.
    pub low: Option<&'a LowNumbers>,
    /// If the child cannot begin in its control group, it is not started.
    pub is_confined: bool,
}

/// Low numbers for the descriptors of children. A child copies the table of its parent's descriptors. With thousands of
/// them that takes longer than all other steps of a start, so a child with low numbers copies only their part.
#[derive(Debug)]
pub struct LowNumbers(Vec<OwnedFd>);

impl LowNumbers {
    /// Takes `count` numbers, for as many descriptors of a child, and fills them with `null`. The caller makes them while
    /// this process has few descriptors.
    ///
    /// # Errors
    /// The system's.
    pub fn new(count: usize, null: BorrowedFd<'_>) -> io::Result<Self> {
        // The child itself gets the numbers 0, 1, 2 …
        let lowest = RawFd::try_from(count).unwrap_or(RawFd::MAX).max(3);
        let number = |_| Ok(raw::adopt_received(fcntl(null, FcntlArg::F_DUPFD_CLOEXEC(lowest))?));
        (0..count).map(number).collect::<io::Result<_>>().map(Self)
    }

    /// Lets all of them lead to `null` again. Until then they keep the descriptors of the last child open.
    ///
    /// # Errors
    /// The system's.
    pub fn clear(&self, null: BorrowedFd<'_>) -> io::Result<()> {
        self.0.iter().try_for_each(|number| raw::redirect(number, null))
    }

    /// Puts the descriptors of the next child at these numbers, and returns the numbers.
    fn fill(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<Vec<RawFd>> {
        if descriptors.len() > self.0.len() {
            return Err(io::Error::other("more descriptors than low numbers"));
        }
        let filled = self.0.iter().zip(descriptors).map(|(number, from)| {
            raw::redirect(number, *from)?;
            Ok(number.as_raw_fd())
        });
        filled.collect()
    }

    /// The first number behind them.
    fn end(&self) -> Option<u32> {
        let last = self.0.iter().map(AsRawFd::as_raw_fd).max()?;
        u32::try_from(last).ok().map(|last| last + 1)
    }
}

/// Why a child did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The system made no process.
    #[error("cannot start a process")]
    Fork(#[source] io::Error),
    /// The process could not be prepared, or its program could not be executed.
    #[error("cannot start the program ({step:?})")]
    Child {
        /// The step that failed.
        step: Step,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A descriptor could not be moved out of the way.
    #[error("cannot pass a descriptor")]
    Descriptor(#[source] io::Error),
}

impl Spawn {
    /// A child that runs `program` (a path) with `argv` (the first is its name) and `environment` (`NAME=VALUE` each).
    ///
    /// # Errors
    /// A text contains a NUL byte.
    pub fn new<A, E>(program: &[u8], argv: A, environment: E) -> Result<Self, NulError>
    where
        A: IntoIterator<Item: Into<Vec<u8>>>,
        E: IntoIterator<Item: Into<Vec<u8>>>,
    {
        Ok(Self {
            program: CString::new(program)?,
            argv: argv.into_iter().map(CString::new).collect::<Result<_, _>>()?,
            environment: environment.into_iter().map(CString::new).collect::<Result<_, _>>()?,
            directory: None,
            limits: Vec::new(),
            umask: None,
            niceness: None,
            at_parents_end: 0,
            tracer: None,
            script: false,
            signal_scope: SignalScope::default(),
            terminal: false,
            keeps_inherited: false,
        })
    }

    /// The child's working directory.
    ///
    /// # Errors
    /// The path contains a NUL byte.
    pub fn directory(&mut self, directory: &[u8]) -> Result<&mut Self, NulError> {
        self.directory = Some(CString::new(directory)?);
        Ok(self)
    }

    /// The resource limits: kernel number, soft, hard.
    pub fn limits(&mut self, limits: Vec<(u8, u64, u64)>) -> &mut Self {
        self.limits = limits;
        self
    }

    /// The file mode creation mask.
    pub fn umask(&mut self, umask: u32) -> &mut Self {
        self.umask = Some(umask);
        self
    }

    /// The niceness, see [`crate::process::priority::may_have`]; `None`: the niceness of this process, but at least 0.
    pub fn niceness(&mut self, niceness: Option<i8>) -> &mut Self {
        self.niceness = niceness.map(i32::from);
        self
    }

    /// The program is text without an interpreter line: `/bin/sh` runs it if the kernel refuses.
    pub fn script(&mut self, yes: bool) -> &mut Self {
        self.script = yes;
        self
    }

    /// The child leads a process group in our session instead of a session of its own.
    pub fn in_our_session(&mut self) -> &mut Self {
        self.signal_scope = SignalScope::OwnGroup;
        self
    }

    /// The child stays in our process group.
    pub fn in_our_group(&mut self) -> &mut Self {
        self.signal_scope = SignalScope::OurGroup;
        self
    }

    /// Its descriptor 0, a terminal without a session, becomes the controlling terminal of its session.
    pub fn on_terminal(&mut self) -> &mut Self {
        self.signal_scope = SignalScope::OwnSession;
        self.terminal = true;
        self
    }

    /// It also gets the descriptors that this process was started with, which are not close-on-exec.
    pub fn with_inherited(&mut self) -> &mut Self {
        self.keeps_inherited = true;
        self
    }

    /// The kernel kills the child when this process dies.
    pub fn die_with_parent(&mut self) -> &mut Self {
        self.at_parents_end = libc::SIGKILL;
        self
    }

    /// The kernel sends the child SIGTERM when this process dies.
    pub fn end_with_parent(&mut self) -> &mut Self {
        self.at_parents_end = libc::SIGTERM;
        self
    }

    /// Where ptrace is restricted to descendants (Yama), descendants of `tracer` may also trace the child.
    pub fn traced_by(&mut self, tracer: Pid) -> &mut Self {
        self.tracer = Some(tracer);
        self
    }

    /// Starts the child with `descriptors` as its 0, 1, 2 … and with `extra`. If `cgroup` is given, a directory open
    /// for reading, the child is in that control group, if the system permits it. Returns when its program runs.
    ///
    /// # Errors
    /// [`SpawnError`]; no process is left then.
    pub fn start(
        &self,
        descriptors: &[BorrowedFd<'_>],
        extra: Extra<'_>,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<Pid, SpawnError> {
        let low = extra.low.filter(|_| !self.keeps_inherited);
        let (moved, numbers) = match low {
            Some(low) => low.fill(descriptors).map(|numbers| (Vec::new(), numbers)),
            None => out_of_the_way(descriptors),
        }
        .map_err(SpawnError::Descriptor)?;
        let placed: Vec<(RawFd, RawFd)> = numbers.into_iter().zip(0..).collect();
        let same = self.argv.len().saturating_sub(extra.arguments.len());
        let argv = pointers(self.argv[..same].iter().chain(extra.arguments));
        let shell = [c"/bin/sh".as_ptr(), self.program.as_ptr()];
        let shell: Vec<_> = shell.into_iter().chain(argv.iter().skip(1).copied()).collect();
        let envp = pointers(self.environment.iter().chain(extra.variables));
        let mut plan = Plan {
            program: &self.program,
            argv: &argv,
            shell_argv: self.script.then_some(&shell),
            envp: &envp,
            directory: self.directory.as_deref(),
            descriptors: &placed,
            closed: extra.closed,
            limits: &self.limits,
            umask: self.umask,
            niceness: self.niceness,
            cpus: extra.cpus.map_or(&[], CpuMask::words),
            signal_scope: self.signal_scope,
            terminal: self.terminal,
            below: low.and_then(LowNumbers::end),
            keeps_inherited: self.keeps_inherited,
            at_parents_end: self.at_parents_end,
            parent: Pid::this().as_raw(),
            tracer: self.tracer.map_or(0, Pid::as_raw),
            reset: signals::not_default(),
            failed: None,
        };
        let spawned = raw::spawn(&mut plan, cgroup.map(|fd| (fd.as_raw_fd(), extra.is_confined)));
        drop(moved);
        match spawned {
            Ok(pid) => Ok(Pid::from_raw(pid)),
            Err(SpawnFault::Clone(error)) => Err(SpawnError::Fork(error)),
            Err(SpawnFault::Child { pid, step, error }) => {
                let _ = raw::wait(pid, 0);
                Err(SpawnError::Child { step, error })
            }
        }
    }
}

/// The numbers of descriptors, none of which is a number in the child. Those that are get another number, which the
/// caller keeps open.
fn out_of_the_way(descriptors: &[BorrowedFd<'_>]) -> io::Result<(Vec<OwnedFd>, Vec<RawFd>)> {
    let count = RawFd::try_from(descriptors.len()).unwrap_or(RawFd::MAX);
    let (mut moved, mut numbers) = (Vec::new(), Vec::with_capacity(descriptors.len()));
    for from in descriptors {
        let mut number = from.as_raw_fd();
        if number < count {
            number = fcntl(from, FcntlArg::F_DUPFD_CLOEXEC(count))?;
            moved.push(raw::adopt_received(number));
        }
        numbers.push(number);
    }
    Ok((moved, numbers))
}

/// A change of state of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It exited with this code.
    Exited(u8),
    /// A signal ended it.
    Killed {
        /// Its number, which may be that of a real-time signal.
        signal: i32,
        /// Whether it left a core.
        core: bool,
    },
    Stopped,
}

/// The change of state of a child since the last call, if there is one. A child that has ended is reaped.
///
/// # Errors
/// There is no such child.
pub fn fate_of(child: Pid) -> io::Result<Option<Fate>> {
    let waited = raw::wait(child.as_raw(), libc::WNOHANG | libc::WUNTRACED)?;
    Ok(waited.map(|(_, status)| fate_in(status).unwrap_or(Fate::Stopped)))
}

/// Waits for the end of a child, and reaps it.
///
/// # Errors
/// There is no such child.
pub fn wait_for(child: Pid) -> io::Result<Fate> {
    loop {
        if let Some(fate) = raw::wait(child.as_raw(), 0)?.and_then(|(_, status)| fate_in(status)) {
            return Ok(fate);
        }
    }
}

/// How a process ended, by its wait status; `None` if it has not ended.
pub(crate) fn fate_in(status: i32) -> Option<Fate> {
    if libc::WIFEXITED(status) {
        let code = u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX);
        return Some(Fate::Exited(code));
    }
    let killed = libc::WIFSIGNALED(status);
    killed.then(|| Fate::Killed { signal: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) })
}

/// The environment of this process, byte for byte, for children that get it unchanged. It includes entries without a
/// name or value, and names that occur twice.
pub fn own_environment() -> Vec<Vec<u8>> {
    raw::environment()
}

fn pointers<'a>(strings: impl Iterator<Item = &'a CString>) -> Vec<*const c_char> {
    strings.map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;

    fn null() -> OwnedFd {
        std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap().into()
    }

    fn run(spawn: &Spawn, extra: Extra<'_>) -> (String, Fate) {
        let (mut reader, writer) = io::pipe().unwrap();
        let (null, out) = (null(), OwnedFd::from(writer));
        let pid = spawn.start(&[null.as_fd(), out.as_fd(), null.as_fd()], extra, None).unwrap();
        drop(out);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        (text, wait_for(pid).unwrap())
    }

    #[test]
    fn a_child_has_its_environment_directory_mask_and_limits_and_no_other_descriptor() {
        let script = "echo $A $B; pwd; umask; ulimit -c; ls /proc/self/fd | tr '\\n' ' '";
        let mut spawn =
            Spawn::new(b"/bin/sh", ["sh", "-c", script], ["A=1", "PATH=/bin:/usr/bin"]).unwrap();
        spawn.directory(b"/").unwrap().umask(0o27).limits(vec![(4, 0, 0)]);
        let variables = [CString::new("B=2").unwrap()];
        let (text, status) = run(&spawn, Extra { variables: &variables, ..Extra::default() });
        assert_eq!(status, Fate::Exited(0));
        // `ls` itself holds the directory open as 3.
        assert_eq!(text, "1 2\n/\n0027\n0\n0 1 2 3 ");
    }

    #[test]
    fn a_child_with_low_numbers_has_its_descriptors_and_no_other() {
        let null = null();
        let low = LowNumbers::new(3, null.as_fd()).unwrap();
        let many: Vec<OwnedFd> = (0..200).map(|_| null.try_clone().unwrap()).collect();
        let script = "ls /proc/self/fd | tr '\\n' ' '";
        let spawn = Spawn::new(b"/bin/sh", ["sh", "-c", script], ["PATH=/bin:/usr/bin"]).unwrap();
        for _ in 0..2 {
            let (mut reader, writer) = io::pipe().unwrap();
            let fds = [null.as_fd(), writer.as_fd(), null.as_fd()];
            let extra = Extra { low: Some(&low), ..Extra::default() };
            let pid = spawn.start(&fds, extra, None).unwrap();
            drop(writer);
            // The end of the pipe shows that the number no longer leads to it.
            low.clear(null.as_fd()).unwrap();
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(wait_for(pid).unwrap(), Fate::Exited(0));
            // `ls` itself holds the directory open as 3.
            assert_eq!(text, "0 1 2 3 ");
        }
        let missing = Spawn::new(b"/no/such", ["x"], ["A=1"]).unwrap();
        let extra = Extra { low: Some(&low), ..Extra::default() };
        assert!(missing.start(&[null.as_fd()], extra, None).is_err());
        for fd in many {
            fcntl(&fd, FcntlArg::F_GETFD).expect("the parent keeps its descriptors");
        }
    }

    #[test]
    fn a_child_uses_the_cpus_it_is_bound_to_and_missing_cpus_are_an_error() {
        let cpu = crate::host::cpus::allowed().unwrap().last().unwrap().number;
        let none: [&str; 0] = [];
        let argv = ["grep", "Cpus_allowed_list", "/proc/self/status"];
        let spawn = Spawn::new(b"/bin/grep", argv, none).unwrap();
        let bound = |cpus: Option<&CpuMask>| run(&spawn, Extra { cpus, ..Extra::default() }).0;
        assert_eq!(bound(CpuMask::of(&[cpu]).as_ref()), format!("Cpus_allowed_list:\t{cpu}\n"));
        assert_ne!(bound(None), "");
        let nowhere = CpuMask::of(&[60_000]);
        let extra = Extra { cpus: nowhere.as_ref(), ..Extra::default() };
        let null = null();
        match spawn.start(&[null.as_fd()], extra, None) {
            Err(SpawnError::Child { step: Step::Binding, .. }) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_failure_in_the_child_is_reported_by_step_and_error() {
        let null = null();
        let fds = [null.as_fd(), null.as_fd(), null.as_fd()];
        let none: [&str; 0] = [];
        let start = |program: &[u8], directory: &[u8]| {
            let mut spawn = Spawn::new(program, ["x"], none).unwrap();
            spawn.directory(directory).unwrap();
            match spawn.start(&fds, Extra::default(), None) {
                Err(SpawnError::Child { step, error }) => (step, error.raw_os_error()),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(start(b"/no/such", b"/"), (Step::Exec, Some(libc::ENOENT)));
        assert_eq!(start(b"/tmp", b"/"), (Step::Exec, Some(libc::EACCES)));
        assert_eq!(start(b"/bin/true", b"/no/such"), (Step::Directory, Some(libc::ENOENT)));
    }

    #[test]
    fn a_script_without_interpreter_line_runs_in_the_shell() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        std::fs::write(&path, "echo $1-$0\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = path.to_str().unwrap();
        let none: [&str; 0] = [];
        let mut spawn = Spawn::new(path.as_bytes(), [path, "arg"], none).unwrap();
        spawn.script(true);
        assert_eq!(run(&spawn, Extra::default()).0, format!("arg-{path}\n"));
    }

    #[test]
    fn many_children_one_after_the_other_leave_no_process() {
        let none: [&str; 0] = [];
        let spawn = Spawn::new(b"/bin/true", ["true"], none).unwrap();
        let null = null();
        for _ in 0..100 {
            let fds = [null.as_fd(), null.as_fd(), null.as_fd()];
            let pid = spawn.start(&fds, Extra::default(), None).unwrap();
            assert_eq!(wait_for(pid).unwrap(), Fate::Exited(0));
        }
    }
}
