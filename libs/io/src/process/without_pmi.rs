//! Programs of MPI libraries that speak neither PMI nor, as they were built or started, PMIx. Each process of such a
//! program is rank 0 of 1, unless another launcher has started it.
//!
//! A mapped library does not prove a call of `MPI_Init`: many programs are only linked with it. Two kinds of files of
//! Open MPI prove the call. Version 4 maps files of the session directory `ompi.HOST.UID`. Version 5 holds
//! `open_mpi.*` in `/dev/shm` open. A process has these files only while it lives, so the search can miss a process
//! that ends soon.
//!
//! A reader of `/proc/PID/maps` may have to wait; [`crate::clean_up::shm`] describes when.

use std::ffi::OsStr;
use std::fs;
use std::iter;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{Pid, geteuid};

use crate::clean_up::shm::SHM;
use crate::process::tree;

/// The variable that the launcher of Open MPI gives its processes, the manager of a rank among them.
const LAUNCHED: &[u8] = b"OMPI_COMM_WORLD_SIZE=";

/// The variable that launchers with PMIx give their processes, the manager of a rank among them.
const NAMESPACE: &[u8] = b"PMIX_NAMESPACE=";

/// The first of these processes that runs Open MPI as rank 0 of 1, itself or in a descendant, with the file of the
/// library.
pub fn find(ranks: &[Pid]) -> Option<(Pid, PathBuf)> {
    ranks.iter().find_map(|&rank| {
        let environment = fs::read(format!("/proc/{rank}/environ")).unwrap_or_default();
        let own = Launcher::of(&environment);
        let mut processes = iter::once(rank).chain(tree::descendants_of(rank));
        Some((rank, processes.find_map(|pid| library_of(pid, own))?))
    })
}

/// What launchers leave in the environment of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Launcher<'a> {
    namespace: Option<&'a [u8]>,
    size: Option<&'a [u8]>,
}

impl<'a> Launcher<'a> {
    fn of(environment: &'a [u8]) -> Self {
        let value_of = |name: &[u8]| {
            let mut variables = environment.split(|&byte| byte == 0);
            variables.find_map(|variable| variable.strip_prefix(name))
        };
        Self { namespace: value_of(NAMESPACE), size: value_of(LAUNCHED) }
    }

    /// Whether another launcher has started a process with this environment.
    fn is_other(self, own: Self) -> bool {
        let is_other = |value: Option<&[u8]>, own| value.is_some() && value != own;
        is_other(self.namespace, own.namespace) || is_other(self.size, own.size)
    }
}

/// The library of a process that has initialised Open MPI and was not started by another launcher. `own` is the
/// launcher of the rank.
fn library_of(pid: Pid, own: Launcher<'_>) -> Option<PathBuf> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    let library = library_in(&maps)?;
    let is_initialized = || maps_session(&maps, geteuid().as_raw()) || holds_session(pid);
    (is_initialized() && !is_launched(pid, own)).then(|| library.to_owned())
}

/// Mode and file of each mapping that has a file.
fn mappings(maps: &[u8]) -> impl Iterator<Item = (&[u8], &Path)> {
    maps.split(|&byte| byte == b'\n').filter_map(|line| {
        let mode = line.split(|&byte| byte == b' ').nth(1)?;
        let at = line.iter().position(|&byte| byte == b'/')?;
        Some((mode, Path::new(OsStr::from_bytes(&line[at..]))))
    })
}

fn library_in(maps: &[u8]) -> Option<&Path> {
    let is_mpi = |path: &&Path| has_name(path, |name| name.starts_with(b"libmpi.so"));
    mappings(maps).map(|(_, path)| path).find(is_mpi)
}

/// Whether the process has mapped a shared file that Open MPI creates at its initialisation for this user.
fn maps_session(maps: &[u8], uid: u32) -> bool {
    let of_user = format!(".{uid}");
    let is_session = |part: &OsStr| {
        let part = part.as_bytes();
        part.starts_with(b"ompi.") && part.ends_with(of_user.as_bytes())
    };
    // A program or a library in a directory of that name is not mapped as shared.
    let mut shared = mappings(maps).filter(|(mode, _)| mode.ends_with(b"s"));
    shared.any(|(_, path)| path.iter().any(is_session) || is_segment(path))
}

fn holds_session(pid: Pid) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let mut links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.any(|path| is_segment(&path))
}

/// Whether this is shared memory of Open MPI. The file may have been removed already.
fn is_segment(path: &Path) -> bool {
    const NAMES: [&[u8]; 3] = [b"open_mpi.", b"sm_segment.", b"vader_segment."];
    path.starts_with(SHM) && has_name(path, |name| NAMES.iter().any(|of| name.starts_with(of)))
}

fn has_name(path: &Path, is_meant: impl Fn(&[u8]) -> bool) -> bool {
    path.file_name().is_some_and(|name| is_meant(name.as_bytes()))
}

fn is_launched(pid: Pid, own: Launcher<'_>) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ"));
    environment.map_or(true, |environment| Launcher::of(&environment).is_other(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &str =
        "7f00-7f10 r-xp 00000000 08:01 11    /opt/ompi.5.0/lib/libmpi.so.40.30.4\n";

    #[test]
    fn the_library_is_found_by_its_name() {
        let maps = format!("7e00-7e10 r--p 00000000 08:01 9    /lib/libmpich.so.12\n{LIBRARY}");
        let library = Path::new("/opt/ompi.5.0/lib/libmpi.so.40.30.4");
        assert_eq!(library_in(maps.as_bytes()), Some(library));
        assert_eq!(library_in(b"7e00-7e10 rw-p 00000000 00:00 0\n"), None);
    }

    #[test]
    fn files_of_a_session_distinguish_an_initialised_open_mpi_from_a_linked_one() {
        let with = |line: &str| maps_session(format!("{LIBRARY}{line}").as_bytes(), 0);
        assert!(!with(""), "a library in a directory of such a name");
        assert!(with(
            "7f20-7f30 r--s 00000000 08:01 12    /tmp/a b/ompi.h1.0/pid.7/dstore/segment-0\n"
        ));
        assert!(with("7f20-7f30 rw-s 00000000 00:1a 12    /dev/shm/sm_segment.h1.0.4054.0\n"));
        assert!(!with("7f20-7f30 r--s 00000000 08:01 12    /tmp/ompi.h1.1000/pid.7/segment-0\n"));
        assert!(!with("7f20-7f30 rw-s 00000000 08:01 12    /tmp/sm_segment.h1.0\n"));
    }

    #[test]
    fn shared_memory_of_open_mpi_counts_after_its_removal() {
        assert!(is_segment(Path::new("/dev/shm/open_mpi.0000 (deleted)")));
        assert!(!is_segment(Path::new("/dev/shm/mpich.0")));
    }

    #[test]
    fn another_launcher_is_known_by_its_namespace_or_its_size() {
        let own = Launcher::of(b"A=1\0PMIX_NAMESPACE=mpd-5a-0\0OMPI_COMM_WORLD_SIZE=2\0");
        assert_eq!((own.namespace, own.size), (Some(&b"mpd-5a-0"[..]), Some(&b"2"[..])));
        assert!(!own.is_other(own));
        assert!(!Launcher::of(b"XPMIX_NAMESPACE=x\0").is_other(own));
        assert!(Launcher::of(b"PMIX_NAMESPACE=prterun-1\0OMPI_COMM_WORLD_SIZE=2\0").is_other(own));
        assert!(Launcher::of(b"OMPI_COMM_WORLD_SIZE=4\0").is_other(own));
    }
}
