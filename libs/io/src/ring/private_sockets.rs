//! The sockets of private rings in a run directory, `RUNDIR/private/pPID`, as consoles find them.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use mpd_wire::console_of;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::unistd::Pid;

/// The directory of these sockets in a run directory.
const DIRECTORY: &str = "private";

/// Most sockets that a console examines.
const MAX_LISTED: usize = 4096;

/// The directory of the sockets of private rings in the run directory `rundir`.
pub fn directory(rundir: &Path) -> PathBuf {
    rundir.join(DIRECTORY)
}

/// The sockets in `directory` whose daemons live, ordered by owner, and the sockets of dead rings, which this call
/// removes.
pub fn look(directory: &Path) -> (Vec<(u32, PathBuf)>, Vec<PathBuf>) {
    let owner = |path: &PathBuf| console_of(path.file_name()?.to_str()?);
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path()).filter_map(|path| Some((owner(&path)?, path)));
    let mut listed: Vec<(u32, PathBuf)> = paths.take(MAX_LISTED).collect();
    listed.sort_unstable();
    let mut removed = Vec::new();
    let refuses =
        |(_, path): &mut (u32, PathBuf)| UnixAddr::new(&*path).is_ok_and(|at| is_refused(&at));
    for (owner, path) in listed.extract_if(.., refuses) {
        if !lives(owner) && fs::remove_file(&path).is_ok() {
            removed.push(path);
        }
    }
    (listed, removed)
}

/// Whether no daemon listens at the socket. A daemon that listens may see a connection that closes at once.
pub(crate) fn is_refused(address: &UnixAddr) -> bool {
    new_socket()
        .is_ok_and(|socket| connect(socket.as_raw_fd(), address) == Err(Errno::ECONNREFUSED))
}

/// Whether a process has this number.
fn lives(number: u32) -> bool {
    let pid = i32::try_from(number).map(Pid::from_raw);
    pid.is_ok_and(|pid| kill(pid, None) != Err(Errno::ESRCH))
}

/// A new socket for a connection, or to listen.
pub(crate) fn new_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::Stream, flags, None)
}
