//! What the process was started with, read once in `main` and passed down; nothing else in the
//! command-line half looks at the process.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use mpd_io::pty;
use mpd_proto::job::{Bytes, Limit};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::{Mode, umask};

use crate::ring::{self, RingSize};

/// A snapshot of what the process inherited.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The words of the command line, without the program's own name.
    pub arguments: Vec<OsString>,
    /// The name we were started as (`mpirun`, `mpiexec`), for messages.
    pub name: String,
    /// The environment in its order; of a variable that is there twice, the first.
    pub environment: Vec<(Bytes, Bytes)>,
    /// The working directory.
    pub directory: PathBuf,
    /// The file mode creation mask.
    pub umask: u32,
    /// All resource limits. Take the snapshot before raising any.
    pub limits: Vec<Limit>,
    /// Columns and lines of the terminal here, for ranks that get one of their own.
    pub terminal: (u16, u16),
    /// How large the ring here is. Asked only where that counts: the daemon has to answer.
    pub ring: fn() -> RingSize,
}

impl Caller {
    /// Reads everything. Call it while the process has one thread: the mask can only be read by
    /// setting it.
    ///
    /// # Errors
    /// The working directory or a limit cannot be read.
    pub fn snapshot() -> io::Result<Self> {
        let mut words = std::env::args_os();
        let name = words.next().and_then(|w| Some(Path::new(&w).file_name()?.to_owned()));
        let mask = umask(Mode::from_bits_truncate(0o077));
        umask(mask);
        let directory = std::env::current_dir().map_err(|e| {
            io::Error::new(e.kind(), format!("cannot tell the current directory: {e}"))
        })?;
        Ok(Self {
            arguments: words.collect(),
            name: name.map_or_else(|| "mpirun".into(), |n| n.to_string_lossy().into_owned()),
            environment: std::env::vars_os()
                .map(|(name, value)| (name.into_vec(), value.into_vec()))
                .collect(),
            directory,
            umask: mask.bits(),
            limits: limits()?,
            terminal: terminal_size(),
            ring: ring::size,
        })
    }

    /// The value of a variable.
    pub fn variable(&self, name: &[u8]) -> Option<&[u8]> {
        self.environment.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_slice())
    }
}

fn terminal_size() -> (u16, u16) {
    pty::own_size().unwrap_or_else(pty::size_of_environment)
}

/// All limits of this process, in the order of the kernel's numbers.
fn limits() -> io::Result<Vec<Limit>> {
    let mut limits = Vec::with_capacity(RESOURCES.len());
    for resource in RESOURCES {
        let (soft, hard) = getrlimit(resource)?;
        limits.push(Limit { resource: resource as u8, soft, hard });
    }
    limits.sort_unstable_by_key(|l| l.resource);
    Ok(limits)
}

/// Every resource that Linux limits.
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
            std::env::var_os("PATH").map(OsString::into_vec)
        );
        assert_eq!(Caller::snapshot().unwrap().umask, caller.umask, "the mask was put back");
    }
}
