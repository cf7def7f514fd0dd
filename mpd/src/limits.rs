//! Resource limits of daemons and managers. Ranks get the limits of their user.

use std::sync::OnceLock;

use anyhow::{Context, Result};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};

/// Protects the keys in the memory of this process: other processes of the user can neither read it through /proc
/// nor trace it, and it makes no core file. Ranks get their user's own limit of core files.
pub(crate) fn protect_memory() -> Result<()> {
    nix::sys::prctl::set_dumpable(false).context("cannot close /proc to others")?;
    // It makes no core file already; only a collector of cores would get one. A filter of system calls may refuse this.
    if let Ok((1.., hard)) = getrlimit(Resource::RLIMIT_CORE) {
        setrlimit(Resource::RLIMIT_CORE, 0, hard).context("cannot forbid core files")?;
    }
    Ok(())
}

/// The number of descriptors that this process may have.
pub(crate) fn descriptor_limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft)
}

/// The soft and the hard limit of this process for a resource, given by the kernel's number. Read once, when this is first
/// called: then this process has changed the limits that it changes. `None`: the kernel has no such limit.
pub(crate) fn own(resource: u8) -> Option<(u64, u64)> {
    static OWN: OnceLock<Vec<Option<(u64, u64)>>> = OnceLock::new();
    let own = OWN
        .get_or_init(|| RESOURCES.into_iter().map(|resource| getrlimit(resource).ok()).collect());
    let place = RESOURCES.iter().position(|known| *known as u8 == resource)?;
    own.get(place).copied().flatten()
}

const RESOURCES: [Resource; 16] = [
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_STACK,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_RSS,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_AS,
    Resource::RLIMIT_LOCKS,
    Resource::RLIMIT_SIGPENDING,
    Resource::RLIMIT_MSGQUEUE,
    Resource::RLIMIT_NICE,
    Resource::RLIMIT_RTPRIO,
    Resource::RLIMIT_RTTIME,
];

/// Lifts the limit of CPU time, which the user's shell sets for programs. Ranks get it from the job's
/// specification.
pub(crate) fn lift_cpu_limit() {
    const NONE: (u64, u64) = (RLIM_INFINITY, RLIM_INFINITY);
    let limit = getrlimit(Resource::RLIMIT_CPU).unwrap_or(NONE);
    // Only root may exceed the hard limit.
    if limit != NONE && setrlimit(Resource::RLIMIT_CPU, RLIM_INFINITY, RLIM_INFINITY).is_err() {
        let (_, hard) = limit;
        let _ = setrlimit(Resource::RLIMIT_CPU, hard, hard);
    }
    mpd_io::ignore_signal(libc::SIGXCPU);
}

/// Removes the owner's bits from the mask of file modes, since the daemon must be able to use its own files.
pub(crate) fn keep_owner_permissions() {
    let all = umask(Mode::from_bits_truncate(0o077));
    umask(all & Mode::from_bits_truncate(0o077));
}

/// Raises the limit of open files to the hard limit, since every rank needs descriptors in its manager. Ranks get
/// the user's limit.
pub(crate) fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft != hard
        && let Err(e) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        log::warn!("cannot raise the limit of open files to {hard}: {e}");
    }
}
