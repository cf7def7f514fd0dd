//! Runs commands on other hosts through a remote shell, without prompts and with deadlines.

use std::io::{Read, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mpd_io::process::tree;
use nix::unistd::Pid;

use crate::ask::left;

/// Most bytes kept of each output of a command.
const MAX_OUTPUT: u64 = 1 << 20;

/// How long outputs are read after the command has ended. A process in the background may hold them
/// open forever.
const LINGER: Duration = Duration::from_secs(1);

/// The remote shell.
#[derive(Clone, Debug)]
pub struct Shell {
    /// Its program, usually `ssh`.
    pub program: String,
    /// User on the other host.
    pub user: Option<String>,
}

/// The result of a command.
#[derive(Clone, Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Shell {
    /// The command line that runs `arguments` on `host`.
    pub fn command_line(&self, host: &str, arguments: &[String]) -> Vec<String> {
        let mut line = vec![self.program.clone()];
        let mut add = |arguments: &[&str]| line.extend(arguments.iter().map(|w| (*w).to_owned()));
        let is_ssh = self.program.rsplit('/').next() == Some("ssh");
        if is_ssh {
            add(&["-x", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
        }
        if let Some(user) = &self.user {
            add(&["-l", user]);
        }
        if is_ssh {
            add(&["--"]);
        }
        add(&[host]);
        line.push(arguments.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" "));
        line
    }

    /// Runs `arguments` on `host`, for at most `patience`.
    ///
    /// # Errors
    /// A text for people that does not name the host.
    pub fn run(
        &self,
        host: &str,
        arguments: &[String],
        patience: Duration,
    ) -> Result<Ended, String> {
        run(&self.command_line(host, arguments), patience)
    }

    /// Runs a command that must succeed; returns its standard output.
    ///
    /// # Errors
    /// As for [`Shell::run`]; for a failed command, the last line of its standard error.
    pub fn output(
        &self,
        host: &str,
        arguments: &[String],
        patience: Duration,
    ) -> Result<String, String> {
        let ended = self.run(host, arguments, patience)?;
        match ended.status.code() {
            Some(0) => Ok(ended.out),
            _ => Err(self.complaint(&ended, arguments)),
        }
    }

    /// Runs a command that must succeed, with `input` as its standard input; returns its standard output.
    ///
    /// # Errors
    /// As for [`Shell::output`].
    pub fn send(
        &self,
        host: &str,
        arguments: &[String],
        input: String,
        patience: Duration,
    ) -> Result<String, String> {
        let mut running = Running::begin(&self.command_line(host, arguments), Stdio::piped())?;
        if let Some(mut pipe) = running.child.stdin.take() {
            // The command may end before it has read everything; its exit code says why.
            thread::spawn(move || pipe.write_all(input.as_bytes()));
        }
        let ended = running.end(patience)?;
        match ended.status.code() {
            Some(0) => Ok(ended.out),
            _ => Err(self.complaint(&ended, arguments)),
        }
    }

    /// Why a command failed, as text for people.
    pub fn complaint(&self, ended: &Ended, arguments: &[String]) -> String {
        let last_line = ended.err.lines().map(str::trim).rfind(|line| !line.is_empty());
        let command = arguments.first().map_or("the command", String::as_str);
        match (ended.status.code(), last_line) {
            (Some(127), _) => {
                format!("there is no {command} there; install MPD in the same directory")
            }
            (Some(255), Some(line)) => format!("{} failed: {line}", self.program),
            (_, Some(line)) => line.to_owned(),
            (_, None) => format!("{command} failed without a message ({})", ended.status),
        }
    }
}

/// Runs a command on this host with empty input, for at most `patience`.
///
/// # Errors
/// A text for people.
pub fn run(line: &[String], patience: Duration) -> Result<Ended, String> {
    Running::start(line)?.end(patience)
}

/// A running command. Dropping it kills the command.
#[derive(Debug)]
pub struct Running {
    program: String,
    child: Child,
    out: Capture,
    err: Capture,
}

impl Running {
    /// Starts a command on this host with empty input.
    ///
    /// # Errors
    /// A text for people.
    pub fn start(line: &[String]) -> Result<Self, String> {
        Self::begin(line, Stdio::null())
    }

    fn begin(line: &[String], input: Stdio) -> Result<Self, String> {
        let (program, arguments) = line.split_first().ok_or("no command")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(input);
        Self::spawn(command, program)
    }

    /// Starts a prepared command with empty input. `program` is its name for people.
    ///
    /// # Errors
    /// A text for people.
    pub fn of(mut command: Command, program: &str) -> Result<Self, String> {
        command.stdin(Stdio::null());
        Self::spawn(command, program)
    }

    fn spawn(mut command: Command, program: &str) -> Result<Self, String> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot run {program}: {e}"))?;
        let out = Capture::new(child.stdout.take());
        let err = Capture::new(child.stderr.take());
        Ok(Self { program: program.to_owned(), child, out, err })
    }

    /// The first whole line of standard output that `pick` accepts. `None` at the deadline or at
    /// the end of the output.
    pub fn line<R>(&self, patience: Duration, pick: impl Fn(&str) -> Option<R>) -> Option<R> {
        self.out.until(Instant::now() + patience, |text| {
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            whole.lines().find_map(&pick)
        })
    }

    /// Waits for the end of the command, for at most `patience`.
    ///
    /// # Errors
    /// A text for people.
    pub fn end(mut self, patience: Duration) -> Result<Ended, String> {
        let deadline = Instant::now() + patience;
        let Some(status) = wait(&mut self.child, deadline) else {
            return Err(format!("{} has not ended for {patience:?}", self.program));
        };
        let end = deadline.min(Instant::now() + LINGER);
        Ok(Ended { status, out: self.out.text(end), err: self.err.text(end) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Has no effect on a child that was reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a child. At the deadline, kills it and returns `None`.
pub fn wait(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let (sender, receiver) = mpsc::channel();
    // The child stays a zombie, so its process id is not used again before it is reaped here.
    thread::spawn(move || {
        tree::await_end(pid);
        sender.send(())
    });
    let ended = receiver.recv_timeout(left(deadline)).is_ok();
    if !ended {
        let _ = child.kill();
    }
    let status = child.wait().ok();
    status.filter(|_| ended)
}

/// The output of a pipe, collected by a thread.
#[derive(Debug)]
struct Capture {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// One message for each piece; disconnected at the end of the output.
    pieces: mpsc::Receiver<()>,
}

impl Capture {
    fn new(pipe: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sender, pieces) = mpsc::channel();
        let shared = Arc::clone(&bytes);
        if let Some(pipe) = pipe {
            thread::spawn(move || collect(pipe.take(MAX_OUTPUT), &shared, &sender));
        }
        Self { bytes, pieces }
    }

    /// The first result that `pick` finds in the collected output.
    fn until<R>(&self, deadline: Instant, pick: impl Fn(&str) -> Option<R>) -> Option<R> {
        loop {
            if let Some(picked) = pick(&self.now()) {
                return Some(picked);
            }
            if self.pieces.recv_timeout(left(deadline)).is_err() {
                return pick(&self.now());
            }
        }
    }

    /// The whole output, or the part collected before `deadline`.
    fn text(&self, deadline: Instant) -> String {
        let _: Option<()> = self.until(deadline, |_| None);
        self.now()
    }

    fn now(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn collect(mut pipe: impl Read, bytes: &Mutex<Vec<u8>>, pieces: &mpsc::Sender<()>) {
    let mut buffer = [0_u8; 8192];
    while let Ok(n @ 1..) = pipe.read(&mut buffer) {
        bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..n]);
        // The receiver may be gone; the thread still empties the pipe.
        let _ = pieces.send(());
    }
}

/// Quotes an argument for a Unix shell. An argument of a process has no NUL, which cannot be quoted.
pub fn quoted(word: &str) -> String {
    shlex::try_quote(word).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn sh(script: &str) -> Vec<String> {
        vec!["sh".into(), "-c".into(), script.into()]
    }

    #[test]
    fn ssh_never_prompts_and_never_reads_a_host_as_an_option() {
        let shell = Shell { program: "/usr/bin/ssh".into(), user: Some("u".into()) };
        assert_eq!(
            shell.command_line("h", &arguments("/a/b c'd")),
            [
                "/usr/bin/ssh",
                "-x",
                "-T",
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=10",
                "-l",
                "u",
                "--",
                "h",
                "/a/b \"c'd\""
            ]
        );
        let shell = Shell { program: "rsh".into(), user: None };
        assert_eq!(shell.command_line("h", &arguments("a")), ["rsh", "h", "a"]);
    }

    #[test]
    fn output_and_exit_code_are_returned() {
        let ended = run(&sh("echo out; echo err >&2; exit 3"), Duration::from_secs(20)).unwrap();
        assert_eq!((ended.out.as_str(), ended.err.as_str()), ("out\n", "err\n"));
        assert_eq!(ended.status.code(), Some(3));
        assert!(run(&arguments("/nowhere/x"), LINGER).unwrap_err().contains("/nowhere/x"));
    }

    #[test]
    fn a_line_is_received_while_the_command_runs() {
        let running = Running::start(&sh("echo no; echo port 77; exec sleep 60")).unwrap();
        let port = running
            .line(Duration::from_secs(20), |line| line.strip_prefix("port ").map(str::to_owned));
        assert_eq!(port.as_deref(), Some("77"));
    }

    #[test]
    fn a_command_is_killed_at_its_deadline() {
        let begin = Instant::now();
        let error = run(&sh("exec sleep 60"), Duration::from_millis(50)).unwrap_err();
        assert!(error.contains("has not ended"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_process_in_the_background_does_not_delay_the_result() {
        let begin = Instant::now();
        let ended = run(&sh("sleep 60 & echo $!"), Duration::from_secs(40)).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(30));
        let pid = ended.out.trim().parse().unwrap();
        nix::sys::signal::kill(Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    }

    #[test]
    fn errors_of_remote_commands_advise_what_to_do() {
        let shell = Shell { program: "ssh".into(), user: None };
        let failed = |script: &str| {
            let ended = run(&sh(script), Duration::from_secs(20)).unwrap();
            shell.complaint(&ended, &arguments("/p/mpdcheck"))
        };
        assert!(failed("exit 127").contains("no /p/mpdcheck there"));
        assert_eq!(failed("echo a >&2; echo No route >&2; exit 255"), "ssh failed: No route");
        assert_eq!(failed("echo b >&2; exit 1"), "b");
        assert!(failed("exit 1").contains("without a message"));
    }
}
