//! A process on a slot: an `mpirun` with one rank, and the pipe of its reports.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use mpd_io::process::signals;
use mpd_io::process::spawn::{Extra, Fate, Spawn, fate_of};
use mpd_io::ring::slots;
use mpd_requests::End;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::Pid;

use crate::own_jobs::environment;
use crate::tool::own_path;

/// Most bytes of reports. A rank has a line in each of them.
const MAX_REPORTS: usize = 64 << 10;
/// How long a cancelled process may handle SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// Descriptor 3 of `mpirun`, as a file.
const REPORTS: &str = "/dev/fd/3";

/// Variables of an allocation in which the program runs, which are not for its processes.
const STRINGS: [&str; 3] = [slots::LIST_VARIABLE, slots::GLOBAL_VARIABLE, slots::LOCAL_VARIABLE];

fn is_of(entry: &[u8], name: &str) -> bool {
    entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
}

/// What to start.
#[derive(Debug)]
pub(super) struct Start<'a> {
    pub(super) alloc: &'a str,
    pub(super) host: &'a str,
    /// The alias of the job, by which it gets signals.
    pub(super) alias: &'a str,
    pub(super) path: &'a [u8],
    pub(super) arguments: &'a [Vec<u8>],
    /// Variables that the process gets.
    pub(super) variables: &'a [Vec<u8>],
}

/// See the module.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    reports: Option<io::PipeReader>,
    text: Vec<u8>,
    is_started: bool,
    ending: Ending,
}

/// How far the end of a cancelled process is.
#[derive(Clone, Copy, Debug)]
enum Ending {
    No,
    /// It has SIGTERM, and this time.
    Until(Instant),
    Killed,
}

impl Process {
    /// Starts `mpirun`. The process gets our standard output and error, and no input.
    pub(super) fn start(start: &Start<'_>) -> Result<Self> {
        let mpirun = own_path("mpirun")?;
        let options = [
            "mpirun",
            "-alloc",
            start.alloc,
            "-hosts",
            start.host,
            "-n",
            "1",
            "-bind-to",
            "none",
            "-a",
            start.alias,
            "-quiet",
            "-proctable",
            REPORTS,
            "-status-file",
            REPORTS,
        ];
        let mut argv: Vec<Vec<u8>> = options.map(|word| word.as_bytes().to_vec()).into();
        argv.extend(command(start.path, start.arguments));
        let mut environment = environment();
        // The program itself may run in an allocation with strings of its own.
        environment.retain(|entry| !STRINGS.iter().any(|name| is_of(entry, name)));
        environment.extend(start.variables.iter().cloned());
        let mut spawn = Spawn::new(mpirun.as_bytes(), argv, environment)?;
        spawn.in_our_session().die_with_parent();
        let null: OwnedFd = std::fs::File::open("/dev/null")?.into();
        let (reports, reports_end) = io::pipe()?;
        fcntl(&reports, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let (out, err) = (io::stdout(), io::stderr());
        let descriptors = [null.as_fd(), out.as_fd(), err.as_fd(), reports_end.as_fd()];
        let pid = spawn
            .start(&descriptors, Extra::default(), None)
            .with_context(|| format!("cannot run {mpirun}"))?;
        let reports = Some(reports);
        Ok(Self { pid, reports, text: Vec::new(), is_started: false, ending: Ending::No })
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.reports.as_ref().map(AsFd::as_fd)
    }

    pub(super) const fn is_started(&self) -> bool {
        self.is_started
    }

    /// Reads the reports. Returns whether the process has started since the last call.
    pub(super) fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        while let Some(reports) = &mut self.reports {
            match reports.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => self.reports = None,
                Ok(read) => {
                    let room = MAX_REPORTS.saturating_sub(self.text.len());
                    self.text.extend_from_slice(&buffer[..read.min(room)]);
                }
            }
        }
        // The table of processes is written first.
        let has_started = self.text.starts_with(b"[") && self.text.contains(&b'\n');
        has_started && !std::mem::replace(&mut self.is_started, true)
    }

    /// Ends the process. `mpirun` ends when nothing of it is left.
    pub(super) fn end(&mut self) {
        if matches!(self.ending, Ending::No) {
            self.ending = Ending::Until(Instant::now() + GRACE);
            let _ = signals::send(self.pid, libc::SIGTERM);
        }
    }

    /// The time until a process that ignores SIGTERM is killed.
    pub(super) fn patience(&self) -> Option<Duration> {
        match self.ending {
            Ending::Until(until) => Some(until.saturating_duration_since(Instant::now())),
            Ending::No | Ending::Killed => None,
        }
    }

    /// Whether it must be killed now. Says so once.
    pub(super) fn must_be_killed(&mut self) -> bool {
        let is_due = self.patience() == Some(Duration::ZERO);
        if is_due {
            self.ending = Ending::Killed;
        }
        is_due
    }

    /// How the process has ended, when its `mpirun` has.
    pub(super) fn ended(&mut self) -> Option<End> {
        let fate = match fate_of(self.pid) {
            Ok(None | Some(Fate::Stopped)) => return None,
            Ok(Some(fate)) => fate,
            Err(_) => Fate::Exited(u8::MAX),
        };
        self.read();
        Some(end_in(&String::from_utf8_lossy(&self.text), fate))
    }
}

/// The words of the command. A lone colon would begin another program, so a shell gets such arguments in one word.
fn command(path: &[u8], arguments: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let words = std::iter::once(path).chain(arguments.iter().map(Vec::as_slice));
    if !words.clone().any(|word| word == b":") {
        return words.map(<[u8]>::to_vec).collect();
    }
    let mut line = b"exec".to_vec();
    for word in words {
        line.extend_from_slice(b" '");
        for &byte in word {
            match byte {
                b'\'' => line.extend_from_slice(b"'\\''"),
                byte => line.push(byte),
            }
        }
        line.push(b'\'');
    }
    vec![b"/bin/sh".to_vec(), b"-c".to_vec(), line]
}

/// The end by the status file, or else by the exit code of `mpirun`.
fn end_in(reports: &str, fate: Fate) -> End {
    let line = reports.lines().rfind(|line| line.starts_with("rank=0 ")).unwrap_or_default();
    let number = |name: &str| {
        let value = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok())
    };
    match (number("code"), number("signal"), fate) {
        (Some(code), _, _) => End::Exited(code),
        (_, Some(signal), _) => End::Signaled(signal),
        // The program cannot be executed, or was not found. A shell reports it in the same way.
        (_, _, Fate::Exited(code @ (126 | 127))) if !line.contains("state=lost") => {
            End::Exited(code)
        }
        (_, _, Fate::Exited(code)) => End::Lost(code),
        (_, _, Fate::Killed { .. } | Fate::Stopped) => End::Lost(u8::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_process_is_that_of_its_rank() {
        let end = |line: &str, code| {
            let table = "[{\"rank\":0,\"host\":\"h\",\"executable\":\"a\",\"pid\":7}]\n";
            let text = format!("{table}mpd-status 1\njob=3@h ranks=1\nrank=0 host=h {line}\n");
            end_in(&text, Fate::Exited(code))
        };
        assert_eq!(end("pid=7 code=126", 126), End::Exited(126));
        assert_eq!(end("pid=7 code=0", 125), End::Exited(0));
        assert_eq!(end("pid=7 signal=11 core=1", 139), End::Signaled(11));
        assert_eq!(end("state=not-started", 127), End::Exited(127));
        assert_eq!(end("state=not-started", 125), End::Lost(125));
        assert_eq!(end("state=lost", 126), End::Lost(126));
        assert_eq!(end_in("", Fate::Killed { signal: 9, core: false }), End::Lost(255));
    }

    #[test]
    fn arguments_reach_the_program_as_they_are() {
        let words = |path: &str, arguments: &[&str]| -> Vec<String> {
            let arguments: Vec<Vec<u8>> =
                arguments.iter().map(|word| word.as_bytes().to_vec()).collect();
            let words = command(path.as_bytes(), &arguments);
            words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
        };
        assert_eq!(words("a", &["-n", "b c"]), ["a", "-n", "b c"]);
        assert_eq!(words("a", &[":", "it's"]), ["/bin/sh", "-c", "exec 'a' ':' 'it'\\''s'"]);
    }
}
