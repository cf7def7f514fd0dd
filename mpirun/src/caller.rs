//! The state with which the process was started: arguments, environment, limits. `main` reads it
//! once and passes it on. No other module of the command line reads the process state.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use mpd_io::process::priority;
use mpd_io::process::spawn::own_environment;
use mpd_io::terminal::pty;
use mpd_placement::cpu::Cpu;
use mpd_placement::hosts::HostEntry;
use mpd_wire::job::{Argset, Bytes, Limit};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::{Mode, umask};

use crate::dialect::Facts;
use crate::environment;
use crate::linked::{self, Found};
use crate::ring::{self, RingSize};
use crate::ring_options::RingOptions;
use crate::slots::{self, Held};
use crate::surroundings::{self, Surroundings};

/// A snapshot of the inherited state.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The arguments of the command line, without the program's name.
    pub arguments: Vec<OsString>,
    /// The name of the program (`mpirun`, `mpiexec`), for messages.
    pub name: String,
    /// The environment in its order, byte for byte. An entry need not have the form `NAME=VALUE`,
    /// and a name may occur twice.
    pub environment: Vec<Bytes>,
    /// The working directory.
    pub directory: PathBuf,
    /// The file mode creation mask.
    pub umask: u32,
    /// The niceness; `None` under a real-time or similar scheduling policy.
    pub niceness: Option<i8>,
    /// All resource limits, read before the process raises any.
    pub limits: Vec<Limit>,
    /// Columns and lines of the terminal. A function, because only ranks with a terminal of their own need them.
    pub terminal: fn() -> (u16, u16),
    /// Whether the descriptors 0, 1 and 2 were closed at the start.
    pub closed: [bool; 3],
    /// Queries the size of the ring. A function, because the daemon must answer and few jobs need
    /// it.
    pub ring: fn(&RingOptions) -> RingSize,
    /// Finds the program of an argset and its MPI library. A function, because only `-dry-run` and jobs of several programs
    /// need it.
    pub look: fn(&Argset, &[Bytes]) -> Found,
    /// The CPUs of this host. A function, because few options need them.
    pub cpus: fn() -> Vec<Cpu>,
    /// Whether a search path has a program. A function, because few options ask that.
    pub finds: fn(&[u8], &str) -> bool,
    /// Reads the hosts of a job. A function, because only `-dry-run` needs it.
    pub survey: fn(&RingOptions, &[HostEntry]) -> Result<Surroundings, String>,
    /// Reads the hosts of the ring with their loads. A function, because only `-placement load` needs it.
    pub loaded: fn(&RingOptions) -> Result<Surroundings, String>,
    /// Asks for the slots of an allocation. A function, because the daemon must answer.
    pub held: fn(&RingOptions, &str) -> Result<Held, String>,
}

impl Caller {
    /// Reads everything. Only a process with one thread may call it, because some systems tell the mask only when it is set.
    ///
    /// # Errors
    /// The working directory cannot be read.
    pub fn snapshot() -> io::Result<Self> {
        let mut words = std::env::args_os();
        let name = words.next().and_then(|w| Some(Path::new(&w).file_name()?.to_owned()));
        let directory = current_directory().map_err(|e| {
            io::Error::new(e.kind(), format!("cannot read the current directory: {e}"))
        })?;
        Ok(Self {
            arguments: words.collect(),
            name: name.map_or_else(|| "mpirun".into(), |n| n.to_string_lossy().into_owned()),
            environment: own_environment(),
            directory,
            umask: own_umask(),
            niceness: priority::niceness(),
            limits: limits(),
            terminal: terminal_size,
            closed: mpd_io::closed_at_start(),
            ring: ring::size,
            look: linked::look,
            cpus: surroundings::allowed,
            finds,
            survey: surroundings::read,
            loaded: surroundings::loaded,
            held: slots::granted,
        })
    }

    /// The value of a variable. If the name occurs twice, the first value.
    pub fn variable(&self, name: &[u8]) -> Option<&[u8]> {
        environment::value_of(&self.environment, name)
    }
}

impl Facts for Caller {
    fn variable(&self, name: &[u8]) -> Option<&[u8]> {
        Self::variable(self, name)
    }

    fn variables(&self, beginning: &[u8]) -> Vec<String> {
        let names = self.environment.iter().filter(|entry| entry.starts_with(beginning));
        let names = names.filter_map(|entry| str::from_utf8(entry).ok()?.split_once('='));
        names.map(|(name, _)| name.to_owned()).collect()
    }

    fn cpus(&self) -> Vec<Cpu> {
        (self.cpus)()
    }

    fn has_program(&self, name: &str) -> bool {
        let path = self.variable(b"PATH").unwrap_or_default();
        (self.finds)(path, name)
    }

    fn has_library(&self, name: &str) -> bool {
        let path = self.variable(b"LD_LIBRARY_PATH").unwrap_or_default();
        !path.is_empty() && (self.finds)(path, name)
    }
}

/// Whether a directory of a search path has a file of this name.
fn finds(path: &[u8], name: &str) -> bool {
    path.split(|&byte| byte == b':')
        .any(|directory| Path::new(OsStr::from_bytes(directory)).join(name).is_file())
}

fn terminal_size() -> (u16, u16) {
    pty::own_size().unwrap_or_else(pty::size_of_environment)
}

/// The file mode creation mask.
fn own_umask() -> u32 {
    mpd_io::process::status::inherited_umask().unwrap_or_else(|| {
        let mask = umask(Mode::from_bits_truncate(0o077));
        umask(mask);
        mask.bits()
    })
}

/// The working directory. If it was removed, the path that it had: the job may have another one.
fn current_directory() -> io::Result<PathBuf> {
    std::env::current_dir().or_else(|error| {
        let path = std::fs::read_link("/proc/self/cwd").map_err(|_| error)?;
        let bytes = path.as_os_str().as_bytes();
        let name = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
        Ok(PathBuf::from(OsStr::from_bytes(name)))
    })
}

/// The limits of this process, in the order of the kernel's numbers. A filter of system calls may refuse to tell them.
/// Then ranks have those of their managers.
fn limits() -> Vec<Limit> {
    let limit = |resource: Resource| {
        let (soft, hard) = getrlimit(resource).ok()?;
        Some(Limit { resource: resource as u8, soft, hard })
    };
    let mut limits: Vec<Limit> = RESOURCES.into_iter().filter_map(limit).collect();
    limits.sort_unstable_by_key(|l| l.resource);
    limits
}

/// All resources that Linux limits.
const RESOURCES: [Resource; 16] = [
    Resource::RLIMIT_AS,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_LOCKS,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_MSGQUEUE,
    Resource::RLIMIT_NICE,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_RSS,
    Resource::RLIMIT_RTPRIO,
    Resource::RLIMIT_RTTIME,
    Resource::RLIMIT_SIGPENDING,
    Resource::RLIMIT_STACK,
];

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_snapshot_has_every_limit_once_and_a_directory() {
        let caller = Caller::snapshot().unwrap();
        let numbers: Vec<u8> = caller.limits.iter().map(|l| l.resource).collect();
        assert_eq!(numbers, (0..16).collect::<Vec<u8>>());
        assert!(caller.directory.is_absolute());
        assert!(!caller.name.is_empty());
        assert_eq!(
            caller.variable(b"PATH").map(<[u8]>::to_vec),
            std::env::var_os("PATH").map(OsStringExt::into_vec)
        );
        assert_eq!(Caller::snapshot().unwrap().umask, caller.umask, "the mask was restored");
    }
}
