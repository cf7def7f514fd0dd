//! The processes of the hook of a site's scheduler.
//!
//! A hook gets the request as JSON on its standard input, and the strings of the user in its environment.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use mpd_alloc::data::{AllocRequest, Hardness, Strings};
use mpd_daemon::{HookEnd, HookId};
use mpd_io::files::logging::one_line;
use mpd_io::files::unnamed;
use mpd_io::process::identity::user_name;
use mpd_io::process::signals;
use mpd_io::process::spawn::{Extra, Fate, Spawn, own_environment};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::json;

/// Most bytes of a reason.
const MAX_REASON: usize = 400;

#[derive(Debug)]
struct Running {
    pid: Pid,
    errors: io::PipeReader,
}

/// The hooks that run.
#[derive(Debug)]
pub(super) struct Hooks {
    program: Option<PathBuf>,
    running: BTreeMap<HookId, Running>,
}

impl Hooks {
    pub(super) const fn new(program: Option<PathBuf>) -> Self {
        Self { program, running: BTreeMap::new() }
    }

    /// Starts a hook. Returns its process.
    ///
    /// # Errors
    /// Why it did not start; a text for people.
    pub(super) fn start(
        &mut self,
        hook: HookId,
        request: &AllocRequest,
        strings: &Strings,
    ) -> Result<Pid, String> {
        let Some(program) = &self.program else { return Err("there is no hook".to_owned()) };
        let (pid, errors) = start(program, request, strings).map_err(|error| {
            let shown = program.display();
            log::error!("cannot execute the scheduler's hook {shown}: {error}");
            format!("the scheduler's hook {shown} cannot run: {error}")
        })?;
        self.running.insert(hook, Running { pid, errors });
        Ok(pid)
    }

    /// Kills the processes of a hook.
    pub(super) fn kill(&self, hook: HookId) {
        if let Some(running) = self.running.get(&hook) {
            // It leads a process group and is not reaped, so the number is that of the hook.
            let _ = killpg(running.pid, Signal::SIGKILL);
        }
    }

    /// The hooks that have ended. `take_fate` returns how a process has ended, once.
    pub(super) fn ended(
        &mut self,
        mut take_fate: impl FnMut(Pid) -> Option<Fate>,
    ) -> Vec<(HookId, HookEnd)> {
        let mut ended = Vec::new();
        self.running.retain(|hook, running| match take_fate(running.pid) {
            Some(fate) => {
                ended.push((*hook, end_of(fate, &mut running.errors)));
                false
            }
            None => true,
        });
        ended
    }
}

fn end_of(fate: Fate, errors: &mut impl io::Read) -> HookEnd {
    match fate {
        Fate::Exited(code) => HookEnd::Exited(code, reason(errors)),
        Fate::Killed { signal, .. } => HookEnd::Killed(signals::name(signal).to_string()),
        Fate::Stopped => HookEnd::Unknown,
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

fn variables(Strings { global, each }: &Strings) -> Vec<String> {
    let mut all: Vec<String> = global
        .iter()
        .map(|global| format!("{}={global}", mpd_io::ring::slots::GLOBAL_VARIABLE))
        .collect();
    if !each.is_empty() {
        let name = mpd_io::ring::slots::LOCAL_VARIABLE;
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
