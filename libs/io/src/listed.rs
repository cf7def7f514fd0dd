//! The sockets by which consoles reach private rings: `RUNDIR/private/pPID`, where PID is the process that began
//! the ring.
//!
//! A daemon locks one byte of `RUNDIR/private/lock`, the one at its PID, for as long as it lives. A socket whose
//! byte is not locked is what a killed daemon left.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use mpd_wire::console_of;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};

/// The directory of these sockets in a run directory.
const DIRECTORY: &str = "private";

/// Most sockets that a console looks at.
const MAX_LISTED: usize = 4096;

/// Where the sockets of private rings are in the run directory `rundir`.
pub fn directory(rundir: &Path) -> PathBuf {
    rundir.join(DIRECTORY)
}

/// A socket that consoles find while this value lives.
#[derive(Debug)]
pub struct Listed {
    path: PathBuf,
    listener: UnixListener,
    _lock: File,
}

impl Listed {
    /// Listens in `directory` for the ring that the process `owner` began. Makes the directory, not its parent.
    /// Waits for nothing.
    ///
    /// # Errors
    /// Those of the system. The ring cannot be found by consoles then.
    pub fn open(directory: &Path, owner: u32) -> io::Result<Self> {
        let lock = match open_lock(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().mode(0o700).create(directory)?;
                open_lock(directory)?
            }
            opened => opened?,
        };
        set_lock(&lock, owner, libc::F_WRLCK)?;
        let path = directory.join(format!("p{owner}"));
        let address = UnixAddr::new(&path)?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        match bind_to(&socket, &address) {
            Err(Errno::EADDRINUSE) => {
                // Its daemon is dead, since we hold the lock.
                fs::remove_file(&path)?;
                bind_to(&socket, &address)?;
            }
            bound => bound?,
        }
        let listed = Self { path, listener: socket.into(), _lock: lock };
        listen(&listed.listener, Backlog::MAXALLOWABLE)?;
        Ok(listed)
    }

    /// The socket, which does not block.
    pub const fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The sockets in `directory` whose daemons live, in the order of their owners. Removes the others and gives them.
pub fn look(directory: &Path) -> (Vec<(u32, PathBuf)>, Vec<PathBuf>) {
    let owner = |path: &PathBuf| console_of(path.file_name()?.to_str()?);
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path()).filter_map(|path| Some((owner(&path)?, path)));
    let mut listed: Vec<(u32, PathBuf)> = paths.take(MAX_LISTED).collect();
    listed.sort_unstable();
    let mut removed = Vec::new();
    // Without the lock file, or where it cannot be written, nothing is known to be dead.
    if let Ok(lock) = open_lock(directory) {
        for (_, path) in listed.extract_if(.., |(owner, _)| is_free(&lock, *owner)) {
            if fs::remove_file(&path).is_ok() {
                removed.push(path);
            }
        }
    }
    (listed, removed)
}

/// Whether no daemon holds the lock of `owner`. If so, it is held here until `lock` is closed, so that none begins.
fn is_free(lock: &File, owner: u32) -> bool {
    set_lock(lock, owner, libc::F_WRLCK).is_ok()
}

fn open_lock(directory: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.truncate(false).open(directory.join("lock"))
}

/// The lock belongs to the open file, so no process has to be asked for it, and the kernel lifts it at our end.
fn set_lock(lock: &File, owner: u32, kind: libc::c_int) -> nix::Result<()> {
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: owner.into(),
        l_len: 1,
        l_pid: 0,
    };
    fcntl(lock, FcntlArg::F_OFD_SETLK(&range)).map(drop)
}

fn bind_to(socket: &OwnedFd, address: &UnixAddr) -> nix::Result<()> {
    bind(socket.as_raw_fd(), address)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn names(found: &[(u32, PathBuf)]) -> Vec<u32> {
        found.iter().map(|(owner, _)| *owner).collect()
    }

    /// A socket in its place whose daemon is dead.
    fn leftover(directory: &Path, owner: u32) -> PathBuf {
        let listed = Listed::open(directory, owner).unwrap();
        let (path, elsewhere) = (listed.path.clone(), directory.join("elsewhere"));
        fs::rename(&path, &elsewhere).unwrap();
        drop(listed);
        fs::rename(&elsewhere, &path).unwrap();
        path
    }

    #[test]
    fn a_socket_is_found_while_its_daemon_lives_and_is_gone_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let directory = directory(dir.path());
        assert!(look(&directory).0.is_empty(), "there is no directory");
        let two = [7, 3].map(|owner| Listed::open(&directory, owner).unwrap());
        let (found, removed) = look(&directory);
        assert_eq!(names(&found), [3, 7]);
        assert!(removed.is_empty());
        found.iter().for_each(|(_, path)| drop(UnixStream::connect(path).unwrap()));
        drop(two);
        assert_eq!(look(&directory), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_socket_without_a_lock_is_removed_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let directory = directory(dir.path());
        let dead = leftover(&directory, 5);
        let alive = Listed::open(&directory, 6).unwrap();
        fs::write(directory.join("other"), "").unwrap();
        let (found, removed) = look(&directory);
        assert_eq!((names(&found), removed), (vec![6], vec![dead.clone()]));
        assert!(!dead.exists() && alive.path.exists() && directory.join("other").exists());
    }

    #[test]
    fn the_place_of_a_dead_daemon_is_taken_and_that_of_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let directory = directory(dir.path());
        leftover(&directory, 5);
        let alive = Listed::open(&directory, 5).unwrap();
        Listed::open(&directory, 5).expect_err("it is locked");
        UnixStream::connect(&alive.path).unwrap();
    }

    #[test]
    fn a_path_that_is_too_long_and_a_missing_run_directory_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("x".repeat(120));
        fs::create_dir(&long).unwrap();
        Listed::open(&directory(&long), 5).expect_err("too long for a socket");
        Listed::open(&directory(&dir.path().join("none")), 5).expect_err("no run directory");
    }
}
