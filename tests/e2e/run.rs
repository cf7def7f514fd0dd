//! A program of the suite that a test starts, observes and ends: [`Run`] before the start, [`Running`]
//! meanwhile, and [`Output`] afterwards.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) use mpd_tests::waiting::{comes_true, scaled, wait_until};
use nix::sys::signal::Signal;

use crate::process::{self, Process};

/// How long a program may run unless its test sets another limit.
const DEADLINE: Duration = Duration::from_secs(30);
/// How much of an output a failure prints.
const SHOWN: usize = 4000;

/// The number for a short run, or the full number with `MPD_TEST_FULL=1`.
pub(crate) fn sample<T>(short: T, full: T) -> T {
    if std::env::var_os("MPD_TEST_FULL").is_some_and(|value| value == "1") { full } else { short }
}

/// A program to be started. By default stdin is empty, and stdout and stderr are collected.
pub(crate) struct Run {
    command: Command,
    input: Option<Vec<u8>>,
    deadline: Duration,
}

impl Run {
    pub(crate) fn new(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, input: None, deadline: DEADLINE }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn without_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.env_remove(name);
        self
    }

    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn directory(mut self, directory: impl AsRef<std::path::Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Standard input consists of these bytes.
    pub(crate) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.command.stdin(Stdio::piped());
        self.input = Some(bytes.into());
        self
    }

    /// Standard input is a pipe that the test writes to: [`Running::stdin`].
    pub(crate) fn input_pipe(mut self) -> Self {
        self.command.stdin(Stdio::piped());
        self
    }

    pub(crate) fn stdin(mut self, from: impl Into<Stdio>) -> Self {
        self.command.stdin(from);
        self
    }

    pub(crate) fn stdout(mut self, to: impl Into<Stdio>) -> Self {
        self.command.stdout(to);
        self
    }

    pub(crate) fn stderr(mut self, to: impl Into<Stdio>) -> Self {
        self.command.stderr(to);
        self
    }

    pub(crate) fn deadline(mut self, seconds: u64) -> Self {
        self.deadline = Duration::from_secs(seconds);
        self
    }

    pub(crate) fn start(self) -> Running {
        let what = format!("{:?} {:?}", self.command.get_program(), arguments(&self.command));
        self.start_collecting(what, true)
    }

    /// No reader takes stdout until the test calls [`Running::take_stdout`].
    pub(crate) fn start_unread(self) -> Running {
        let what = format!("{:?} {:?}", self.command.get_program(), arguments(&self.command));
        self.start_collecting(what, false)
    }

    /// Runs it to its end.
    pub(crate) fn output(self) -> Output {
        self.start().wait()
    }

    fn start_collecting(mut self, what: String, reads_stdout: bool) -> Running {
        let mut child =
            self.command.spawn().unwrap_or_else(|error| panic!("cannot start {what}: {error}"));
        let stdout = match child.stdout.take() {
            Some(stdout) if reads_stdout => Ok(Collector::new(stdout)),
            other => Err(other),
        };
        let stderr = child.stderr.take().map(Collector::new);
        if let Some(bytes) = self.input {
            let mut stdin = child.stdin.take().expect("stdin is a pipe");
            // A test may expect that the program does not read its whole input.
            std::thread::spawn(move || drop(stdin.write_all(&bytes)));
        }
        Running { child, what, stdout, stderr, deadline: self.deadline, status: None }
    }
}

fn arguments(command: &Command) -> Vec<String> {
    command.get_args().map(|word| word.to_string_lossy().chars().take(200).collect()).collect()
}

/// A running program. Dropping it before its end kills it.
pub(crate) struct Running {
    child: Child,
    what: String,
    stdout: Result<Collector, Option<std::process::ChildStdout>>,
    stderr: Option<Collector>,
    deadline: Duration,
    status: Option<ExitStatus>,
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        self.child.id().try_into().expect("a pid")
    }

    pub(crate) fn process(&self) -> Process {
        Process::read(self.pid()).unwrap_or_else(|| panic!("{} is gone", self.what))
    }

    pub(crate) fn send(&self, signal: Signal) {
        process::send(self.pid(), signal);
    }

    /// The pipe to its stdin; dropping the pipe ends the input.
    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("stdin is a pipe and was not taken")
    }

    /// The pipe from its stdout, if it was started unread.
    pub(crate) fn take_stdout(&mut self) -> std::process::ChildStdout {
        match &mut self.stdout {
            Err(pipe) => pipe.take().expect("stdout is a pipe and was not taken"),
            Ok(_) => panic!("stdout is being collected"),
        }
    }

    /// The text on stdout so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.as_ref().map_or_else(|_| String::new(), Collector::text)
    }

    /// The text on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.as_ref().map_or_else(String::new, Collector::text)
    }

    /// Waits until this text has arrived on stdout.
    pub(crate) fn shows(&self, text: &str) -> &Self {
        let shown = comes_true(self.deadline, || self.stdout().contains(text));
        assert!(
            shown,
            "{}: '{text}' never came from stdout: {:?} stderr: {:?}",
            self.what,
            cut(self.stdout().as_bytes()),
            cut(self.stderr().as_bytes()),
        );
        self
    }

    /// Whether it has ended; its status is kept.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("waiting for a child");
        }
        self.status.is_some()
    }

    /// Waits for its end and returns its whole output.
    pub(crate) fn wait(mut self) -> Output {
        let limit = self.deadline;
        drop(self.child.stdin.take());
        if !comes_true(limit, || self.has_ended()) {
            let (out, err) = (self.stdout(), self.stderr());
            panic!(
                "{} has not ended in {limit:?}; stdout: {} stderr: {}",
                self.what,
                cut(out.as_bytes()),
                cut(err.as_bytes()),
            );
        }
        let status = self.status.expect("it has ended");
        let what = std::mem::take(&mut self.what);
        let stdout = std::mem::replace(&mut self.stdout, Err(None));
        let stdout = stdout.map_or_else(|_| Vec::new(), |c| c.finish(&what, "stdout"));
        let stderr = self.stderr.take().map_or_else(Vec::new, |c| c.finish(&what, "stderr"));
        Output { what, status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads a pipe to its end in a separate thread.
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Collector {
    fn new(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
                sink.extend_from_slice(&buffer[..count]);
            }
        });
        Self { bytes, reader }
    }

    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// All bytes. Fails if a process still holds the other end after the program has ended.
    fn finish(self, what: &str, name: &str) -> Vec<u8> {
        let closed = comes_true(DEADLINE, || self.reader.is_finished());
        assert!(closed, "{what} has ended and another process still holds its {name}");
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How a program ended, and its output.
#[derive(Debug)]
pub(crate) struct Output {
    what: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Output {
    /// Its exit code, or `None` if a signal killed it.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The lines of stdout in alphabetical order, because ranks write in any order.
    pub(crate) fn sorted_lines(&self) -> Vec<String> {
        let mut lines: Vec<_> = self.out().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    /// Fails unless it exited with this code.
    pub(crate) fn code(&self, expected: i32) -> &Self {
        assert_eq!(self.status.code(), Some(expected), "exit code of {self}");
        self
    }

    /// Fails unless this signal ended it, directly or as a shell would report it.
    pub(crate) fn ended_by(&self, signal: Signal) -> &Self {
        let number = signal as i32;
        let ended = self.status.code() == Some(128 + number);
        assert!(ended || self.status.signal() == Some(number), "not ended by {signal}: {self}");
        self
    }

    /// Fails unless it exited with a code other than 0.
    pub(crate) fn failed(&self) -> &Self {
        assert!(self.status.code().is_some_and(|code| code != 0), "it did not fail: {self}");
        self
    }

    /// Fails unless stderr contains each of these texts.
    pub(crate) fn says(&self, fragments: &[&str]) -> &Self {
        for fragment in fragments {
            assert!(self.err().contains(fragment), "no '{fragment}' on stderr of {self}");
        }
        self
    }

    /// Fails unless stdout is exactly this text.
    pub(crate) fn prints(&self, expected: &str) -> &Self {
        assert_eq!(self.out(), expected, "stdout of {self}");
        self
    }

    /// Fails unless stderr is empty.
    pub(crate) fn quiet(&self) -> &Self {
        assert!(self.stderr.is_empty(), "stderr is not empty: {self}");
        self
    }

    /// Fails if stderr has more than a few lines: a message reports one fact once.
    pub(crate) fn brief(&self) -> &Self {
        let lines = self.err().lines().count();
        assert!((1..=4).contains(&lines), "{lines} lines on stderr of {self}");
        self
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {signal:?}"),
        };
        let Self { what, stdout, stderr, .. } = self;
        write!(f, "{what}: {how}\n-- stdout\n{}\n-- stderr\n{}", cut(stdout), cut(stderr))
    }
}

fn cut(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let more = if bytes.len() > SHOWN { " [cut]" } else { "" };
    format!("{}{more}", String::from_utf8_lossy(shown))
}
