//! Starts the processes of tasks, on the host of the worker.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mpd_farm::{Task, command};
use mpd_io::process::spawn::{Extra, Spawn, SpawnError, own_environment};
use nix::unistd::{AccessFlags, Pid, access};

/// The variable with the number of the task.
const TASK_VARIABLE: &str = "MPD_FARM_TASK";

/// Programs whose paths are remembered.
const MAX_KNOWN: usize = 256;

/// What all tasks have in common.
#[derive(Debug)]
pub(crate) struct Launcher {
    environment: Vec<Vec<u8>>,
    /// The value of `PATH`.
    search: Vec<u8>,
    shell: Spawn,
    /// Programs by the first words of lines.
    known: BTreeMap<Vec<u8>, Spawn>,
    null: OwnedFd,
}

impl Launcher {
    /// Tasks get the environment of this process, without the variables by which a rank finds its manager.
    ///
    /// # Errors
    /// `/dev/null` cannot be opened.
    pub(crate) fn new() -> io::Result<Self> {
        let name_of = |entry: &[u8]| {
            entry.iter().position(|byte| *byte == b'=').map(|end| entry[..end].to_vec())
        };
        let mut environment = own_environment();
        environment.retain(|entry| {
            let name = name_of(entry).unwrap_or_default();
            !pmi_proto::is_launcher_variable(&name) && name != TASK_VARIABLE.as_bytes()
        });
        let search = environment.iter().find_map(|entry| entry.strip_prefix(b"PATH="));
        let search = search.unwrap_or(b"/usr/local/bin:/usr/bin:/bin").to_vec();
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?.into();
        let shell = prepare(b"/bin/sh", &environment)?;
        Ok(Self { environment, search, shell, known: BTreeMap::new(), null })
    }

    /// Starts the process of a task with these standard streams. A shell runs lines that only a shell understands. It
    /// also runs lines whose program does not start, because its messages are known to users.
    ///
    /// # Errors
    /// No process was started.
    pub(crate) fn start(
        &mut self,
        task: &Task,
        out: &OwnedFd,
        err: &OwnedFd,
    ) -> Result<Pid, SpawnError> {
        let variable = [CString::new(format!("{TASK_VARIABLE}={}", task.id)).expect("no NUL byte")];
        let descriptors = [self.null.as_fd(), out.as_fd(), err.as_fd()];
        if let Some(words) = command::words(&task.command)
            && let Ok(arguments) = c_strings(&words)
            && let Some(spawn) =
                program(&mut self.known, &words[0], &self.search, &self.environment)
        {
            let extra = Extra { variables: &variable, arguments: &arguments, ..Extra::default() };
            match spawn.start(&descriptors, extra, None) {
                Err(SpawnError::Child { .. }) => drop(self.known.remove(&words[0][..])),
                result => return result,
            }
        }
        let line =
            CString::new(&task.command[..]).map_err(|_| unusable("the command has a NUL byte"))?;
        let arguments = [c"sh".to_owned(), c"-c".to_owned(), line];
        let extra = Extra { variables: &variable, arguments: &arguments, ..Extra::default() };
        self.shell.start(&descriptors, extra, None)
    }
}

fn unusable(text: &'static str) -> SpawnError {
    SpawnError::Fork(io::Error::other(text))
}

fn c_strings(words: &[Cow<'_, [u8]>]) -> Result<Vec<CString>, std::ffi::NulError> {
    words.iter().map(|word| CString::new(&word[..])).collect()
}

/// Children that run this program. Their arguments are given at each start.
fn prepare(path: &[u8], environment: &[Vec<u8>]) -> io::Result<Spawn> {
    let none: [&str; 0] = [];
    let mut spawn = Spawn::new(path, none, environment.iter().cloned())?;
    spawn.in_our_session().die_with_parent();
    Ok(spawn)
}

/// The program of a line's first word.
fn program<'a>(
    known: &'a mut BTreeMap<Vec<u8>, Spawn>,
    word: &[u8],
    search: &[u8],
    environment: &[Vec<u8>],
) -> Option<&'a Spawn> {
    if !known.contains_key(word) {
        let path = find(word, search)?;
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(word.to_vec(), prepare(&path, environment).ok()?);
    }
    known.get(word)
}

/// The path of a program, as a shell finds it.
fn find(word: &[u8], search: &[u8]) -> Option<Vec<u8>> {
    if word.contains(&b'/') {
        return Some(word.to_vec());
    }
    let mut places = search.split(|byte| *byte == b':');
    places.find_map(|place| {
        let place = if place.is_empty() { b"." } else { place };
        let path = [place, b"/", word].concat();
        let file = Path::new(OsStr::from_bytes(&path));
        let runs = file.is_file() && access(file, AccessFlags::X_OK).is_ok();
        runs.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use mpd_farm::TaskId;
    use mpd_io::process::spawn::{Fate, wait_for};

    use super::*;

    fn run(launcher: &mut Launcher, line: &str) -> (u8, String, String) {
        let (mut out, out_end) = io::pipe().unwrap();
        let (mut err, err_end) = io::pipe().unwrap();
        let task = Task::new(TaskId(7), line.as_bytes());
        let pid = launcher.start(&task, &out_end.into(), &err_end.into()).unwrap();
        let (mut text, mut errors) = (String::new(), String::new());
        out.read_to_string(&mut text).unwrap();
        err.read_to_string(&mut errors).unwrap();
        let Fate::Exited(code) = wait_for(pid).unwrap() else { panic!("{line}") };
        (code, text, errors)
    }

    #[test]
    fn lines_run_with_and_without_a_shell() {
        let mut launcher = Launcher::new().unwrap();
        for _ in 0..2 {
            assert_eq!(run(&mut launcher, "cat /dev/null").0, 0);
            assert_eq!(
                run(&mut launcher, "sh -c 'echo a; exit 3'"),
                (3, "a\n".to_owned(), String::new())
            );
            assert_eq!(
                run(&mut launcher, "echo $MPD_FARM_TASK | cat"),
                (0, "7\n".to_owned(), String::new())
            );
        }
        assert_eq!(run(&mut launcher, "exit 5").0, 5);
        let (code, _, errors) = run(&mut launcher, "no-such-program-here x");
        assert_eq!(code, 127);
        assert!(errors.contains("not found"), "{errors}");
        assert_eq!(run(&mut launcher, "/etc/passwd").0, 126);
    }
}
