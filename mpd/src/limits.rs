//! Limits of daemons and managers as processes. Ranks get those of their user.

use anyhow::{Context, Result};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};

/// Keys are in this process's memory: nobody reads it through /proc, traces it, or finds it in a core
/// file. Ranks get their user's own limit.
pub(crate) fn keep_to_oneself() -> Result<()> {
    nix::sys::prctl::set_dumpable(false).context("cannot close /proc to others")?;
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE).context("cannot read the limit of cores")?;
    setrlimit(Resource::RLIMIT_CORE, 0, hard).context("cannot forbid core files")
}

/// How many descriptors this process may have.
pub(crate) fn descriptor_limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft)
}

/// Lifts the limit of CPU time of the user's shell: it is for programs. Ranks get it by their job's specification.
pub(crate) fn lift_cpu_limit() {
    let (_, hard) = getrlimit(Resource::RLIMIT_CPU).unwrap_or((RLIM_INFINITY, RLIM_INFINITY));
    // Above a hard limit only root comes.
    if setrlimit(Resource::RLIMIT_CPU, RLIM_INFINITY, RLIM_INFINITY).is_err() {
        let _ = setrlimit(Resource::RLIMIT_CPU, hard, hard);
    }
    mpd_io::ignore_signal(libc::SIGXCPU);
}

/// Takes from the mask of file modes what it takes from the owner: what the daemon makes, it has to use.
pub(crate) fn keep_owner_of_files() {
    let all = umask(Mode::from_bits_truncate(0o077));
    umask(all & Mode::from_bits_truncate(0o077));
}

/// Every rank costs its manager descriptors: the hard limit is ours to use. Ranks get the user's.
pub(crate) fn raise_descriptor_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && let Err(e) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        log::warn!("cannot raise the limit of open files to {hard}: {e}");
    }
}
