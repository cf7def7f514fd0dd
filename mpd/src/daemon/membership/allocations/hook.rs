//! The hook of a site's scheduler: a program that sees each request for slots before the ring does, and accepts or refuses it.
//!
//! It gets the request as JSON on its standard input, and the strings of the user in its environment. Exit code 0
//! accepts; any other refuses, and the first line of its standard error is the reason.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpd_alloc::data::{AllocRequest, Hardness, Strings};
use mpd_io::identity::user_name;
use mpd_io::logging::one_line;
use mpd_io::signals;
use mpd_io::spawn::{Extra, Fate, Spawn, own_environment};
use mpd_io::unnamed;
use mpd_machine::Time;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::json;

use crate::daemon::jobs::Jobs;

/// How long a hook may run.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most hooks at a time.
const MAX_RUNNING: usize = 16;
/// Most requests that wait for a hook.
const MAX_WAITING: usize = 4096;
/// Most bytes of a reason.
const MAX_REASON: usize = 400;

/// A request that a hook has accepted or refused.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) console: usize,
    /// The request, or why it is refused.
    pub(super) result: Result<AllocRequest, String>,
}

#[derive(Debug)]
struct Running {
    /// The console, while it is there.
    console: Option<usize>,
    request: AllocRequest,
    errors: io::PipeReader,
    until: Time,
    is_late: bool,
}

/// The hooks that run, and the requests that wait for one.
#[derive(Debug)]
pub(super) struct Hooks {
    program: Option<PathBuf>,
    waiting: VecDeque<(usize, AllocRequest, Strings)>,
    running: BTreeMap<Pid, Running>,
}

impl Hooks {
    pub(super) const fn new(program: Option<PathBuf>) -> Self {
        Self { program, waiting: VecDeque::new(), running: BTreeMap::new() }
    }

    pub(super) const fn is_set(&self) -> bool {
        self.program.is_some()
    }

    /// Whether a hook can be started at once.
    pub(super) fn has_work(&self) -> bool {
        !self.waiting.is_empty() && self.running.len() < MAX_RUNNING
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.running.values().filter(|hook| !hook.is_late).map(|hook| hook.until).min()
    }

    /// Adds a request.
    ///
    /// # Errors
    /// Too many wait, as a text.
    pub(super) fn add(
        &mut self,
        console: usize,
        request: AllocRequest,
        strings: Strings,
    ) -> Result<(), String> {
        if self.waiting.len() >= MAX_WAITING {
            return Err("too many requests wait for the scheduler's hook".to_owned());
        }
        self.waiting.push_back((console, request, strings));
        Ok(())
    }

    /// Forgets the request of a console that is gone. Returns whether no hook has judged it yet.
    pub(super) fn forget(&mut self, console: usize) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(waiting, ..)| *waiting != console);
        let mut found = before != self.waiting.len();
        for (pid, hook) in &mut self.running {
            if hook.console == Some(console) {
                found = true;
                hook.console = None;
                kill(*pid);
            }
        }
        found
    }

    /// Starts hooks, ends those that are late, and returns what the others have decided.
    pub(super) fn turn(&mut self, now: Time, jobs: &mut Jobs) -> Vec<Judged> {
        let mut judged = Vec::new();
        let ended = self.running.keys().filter_map(|pid| Some((*pid, jobs.take_fate(*pid)?)));
        for (pid, fate) in ended.collect::<Vec<_>>() {
            let Some(hook) = self.running.remove(&pid) else { continue };
            judged.extend(hook.judged(fate));
        }
        for (pid, hook) in &mut self.running {
            if hook.until <= now && !std::mem::replace(&mut hook.is_late, true) {
                kill(*pid);
            }
        }
        while self.has_work() {
            let (Some(program), Some((console, request, strings))) =
                (&self.program, self.waiting.pop_front())
            else {
                break;
            };
            match start(program, &request, &strings) {
                Ok((pid, errors)) => {
                    jobs.await_helper(pid);
                    let (console, until) = (Some(console), now + PATIENCE);
                    let hook = Running { console, request, errors, until, is_late: false };
                    self.running.insert(pid, hook);
                }
                Err(error) => {
                    let shown = program.display();
                    log::error!("cannot execute the scheduler's hook {shown}: {error}");
                    let problem = format!("the scheduler's hook {shown} cannot run: {error}");
                    judged.push(Judged { console, result: Err(problem) });
                }
            }
        }
        judged
    }
}

impl Running {
    /// What the hook has decided, for its console.
    fn judged(mut self, fate: Fate) -> Option<Judged> {
        let console = self.console?;
        let result = match fate {
            _ if self.is_late => {
                Err(format!("the scheduler's hook has not decided within {} s", PATIENCE.as_secs()))
            }
            Fate::Exited(0) => Ok(self.request),
            Fate::Exited(code) => Err(reason(&mut self.errors).unwrap_or_else(|| {
                format!("the scheduler's hook refuses it with exit code {code}")
            })),
            Fate::Killed { signal, .. } => {
                Err(format!("the scheduler's hook was ended by {}", signals::name(signal)))
            }
            Fate::Stopped => Err("the scheduler's hook has no exit code".to_owned()),
        };
        Some(Judged { console, result })
    }
}

/// The first line that the hook has written. What does not fit the pipe was never written.
fn reason(errors: &mut impl io::Read) -> Option<String> {
    let mut text = vec![0; MAX_REASON];
    let read = errors.read(&mut text).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..read]).into_owned();
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    Some(one_line(line.trim()))
}

fn kill(pid: Pid) {
    // It leads a process group and is not reaped, so the number is that of the hook.
    let _ = killpg(pid, Signal::SIGKILL);
}

fn start(
    program: &Path,
    request: &AllocRequest,
    strings: &Strings,
) -> io::Result<(Pid, io::PipeReader)> {
    let mut environment = own_environment();
    environment.extend(variables(strings).into_iter().map(String::into_bytes));
    let path = program.as_os_str().as_bytes();
    let mut spawn = Spawn::new(path, [path.to_vec()], environment)?;
    spawn.in_our_session();
    let input = input(&text(request, strings))?;
    let null: OwnedFd = File::options().write(true).open("/dev/null")?.into();
    let (errors, errors_end) = io::pipe()?;
    fcntl(&errors, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let descriptors = [input.as_fd(), null.as_fd(), errors_end.as_fd()];
    let pid = spawn.start(&descriptors, Extra::default(), None).map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        io::Error::other(cause.unwrap_or_else(|| error.to_string()))
    })?;
    Ok((pid, errors))
}

/// The strings, as variables.
fn variables(Strings { global, each }: &Strings) -> Vec<String> {
    let mut all: Vec<String> = global
        .iter()
        .map(|global| format!("{}={global}", mpd_io::slots::GLOBAL_VARIABLE))
        .collect();
    if !each.is_empty() {
        let name = mpd_io::slots::LOCAL_VARIABLE;
        all.push(format!("{name}={}", each.join("\n")));
        all.extend(each.iter().enumerate().map(|(slot, text)| format!("{name}_{slot}={text}")));
    }
    all
}

/// The request, as one line of JSON.
fn text(request: &AllocRequest, strings: &Strings) -> String {
    let AllocRequest { count: _, width, hardness, hosts, arch, limit_s, uid, since_us: _ } =
        request;
    let soft = match hardness {
        Hardness::Hard => None,
        Hardness::Soft => Some(""),
        Hardness::Values(values) => Some(values.as_str()),
    };
    let line = json!({
        "user": user_name(*uid), "uid": uid, "slots": request.slots(), "each": width, "soft": soft, "hosts": hosts, "arch": arch,
        "limit_s": limit_s, "global": strings.global, "local": strings.each,
    });
    format!("{line}\n")
}

/// A file in memory, so that the daemon does not wait for a hook that does not read.
fn input(text: &str) -> io::Result<OwnedFd> {
    let mut file = unnamed::file(c"request")?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn request() -> AllocRequest {
        AllocRequest {
            count: 2,
            hardness: Hardness::Soft,
            hosts: vec!["h1".parse().unwrap()],
            arch: Vec::new(),
            width: 1,
            limit_s: None,
            uid: u32::MAX - 7,
            since_us: 0,
        }
    }

    #[test]
    fn a_hook_sees_the_request_and_the_strings_as_they_are() {
        let each = vec!["large memory".to_owned(), "a=b".to_owned()];
        let strings = Strings { global: Some("gang_schedule".into()), each };
        let line = text(&request(), &strings);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&value["slots"], &value["soft"]), (&json!(2), &json!("")));
        assert_eq!(value["local"], json!(["large memory", "a=b"]));
        assert_eq!(
            variables(&strings),
            [
                "MPD_ALLOC_GLOBAL=gang_schedule",
                "MPD_ALLOC_LOCAL=large memory\na=b",
                "MPD_ALLOC_LOCAL_0=large memory",
                "MPD_ALLOC_LOCAL_1=a=b",
            ]
        );
        let mut read = String::new();
        File::from(input(&line).unwrap()).read_to_string(&mut read).unwrap();
        assert_eq!(read, line);
        assert!(variables(&Strings::default()).is_empty());
    }

    #[test]
    fn the_reason_is_the_first_line_of_the_hook() {
        assert_eq!(reason(&mut &b"\n  no licence\nmore\n"[..]).unwrap(), "no licence");
        assert_eq!(reason(&mut &b""[..]), None);
    }
}
