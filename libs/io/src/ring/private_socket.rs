//! The sockets by which consoles reach private rings: `RUNDIR/private/pPID`. PID is the process that began the ring.
//!
//! A socket on which a daemon listens is in use. The kernel ends that state with the daemon, so no lock file is needed.
//! A socket that refuses connections belongs to a killed daemon, or to a daemon that is about to listen. It is removed
//! if the process that began the ring is gone, too.
//!
//! The last daemon removes the directory. Another daemon that is about to use it creates it again.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{Backlog, UnixAddr, bind, listen};

use crate::ring::private_sockets::{is_refused, new_socket};
use crate::ring::rundir::{RunDir, RunDirError};

/// Most attempts of a daemon to create a directory that other daemons remove again.
const MAX_TRIES: usize = 16;

/// A socket that consoles find while this value lives. Drop removes its file. The descriptor is left to the kernel,
/// which closes it with the process: a daemon ends with its ring, and each system call delays the end of its job.
#[derive(Debug)]
pub struct Listed {
    path: PathBuf,
    listener: ManuallyDrop<UnixListener>,
    /// Whether the last socket's removal also removes the run directory if that is empty.
    removes_rundir: bool,
}

impl Listed {
    /// Listens in `directory` for the ring that the process `owner` began. Creates the directory and the run directory
    /// above it if they are missing. At the end it removes its directory if that is empty; with `removes_rundir` also
    /// the run directory. Waits for nothing.
    ///
    /// # Errors
    /// Those of the system. Then consoles cannot find the ring.
    pub fn open(directory: &Path, owner: u32, removes_rundir: bool) -> io::Result<Self> {
        let path = directory.join(format!("p{owner}"));
        let address = UnixAddr::new(&path)?;
        let socket = new_socket()?;
        let mut tries = 0..MAX_TRIES;
        while let Err(errno) = bind(socket.as_raw_fd(), &address) {
            match errno {
                _ if tries.next().is_none() => return Err(errno.into()),
                Errno::ENOENT => make(directory)?,
                // The socket of an earlier daemon of the same process.
                Errno::EADDRINUSE if is_refused(&address) => fs::remove_file(&path)?,
                errno => return Err(errno.into()),
            }
        }
        let listener = ManuallyDrop::new(UnixListener::from(socket));
        let listed = Self { path, listener, removes_rundir };
        listen(&*listed.listener, Backlog::MAXALLOWABLE)?;
        Ok(listed)
    }

    /// The socket, which is non-blocking.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let Some(directory) = self.path.parent() else { return };
        if fs::remove_dir(directory).is_ok()
            && self.removes_rundir
            && let Some(rundir) = directory.parent()
        {
            let _ = fs::remove_dir(rundir);
        }
    }
}

/// Creates the directory of the sockets in a run directory. Another daemon may create or remove it at the same time.
fn make(directory: &Path) -> io::Result<()> {
    let new = || DirBuilder::new().mode(0o700).create(directory);
    let made = match (new(), directory.parent()) {
        (Err(error), Some(rundir)) if error.kind() == ErrorKind::NotFound => {
            // Another user may have created it in the meantime: it must belong to this user.
            match RunDir::at(rundir.to_owned()).make() {
                Err(RunDirError::System { error, .. }) => Err(error),
                made => made.map_err(io::Error::other).and_then(|()| new()),
            }
        }
        (made, _) => made,
    };
    match made {
        Err(error) if [ErrorKind::AlreadyExists, ErrorKind::NotFound].contains(&error.kind()) => {
            Ok(())
        }
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    use super::*;
    use crate::ring::private_sockets::{directory, look};

    fn open(directory: &Path, owner: u32) -> io::Result<Listed> {
        Listed::open(directory, owner, false)
    }

    fn names(found: &[(u32, PathBuf)]) -> Vec<u32> {
        found.iter().map(|(owner, _)| *owner).collect()
    }

    /// The number of a process that is gone.
    fn gone() -> u32 {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    /// The socket of a dead daemon at its usual path.
    fn leftover(directory: &Path, owner: u32) -> PathBuf {
        fs::create_dir_all(directory).unwrap();
        let path = directory.join(format!("p{owner}"));
        drop(UnixListener::bind(&path).unwrap());
        path
    }

    #[test]
    fn a_socket_is_found_while_its_daemon_lives_and_is_gone_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let directory = directory(dir.path());
        assert!(look(&directory).0.is_empty(), "there is no directory");
        let two = [7, 3].map(|owner| open(&directory, owner).unwrap());
        let (found, removed) = look(&directory);
        assert_eq!(names(&found), [3, 7]);
        assert!(removed.is_empty());
        found.iter().for_each(|(_, path)| drop(UnixStream::connect(path).unwrap()));
        drop(two);
        assert_eq!(look(&directory), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_socket_is_removed_if_its_daemon_and_its_mpirun_are_gone_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let directory = directory(dir.path());
        let dead = leftover(&directory, gone());
        // The daemon of this socket may be about to listen.
        let begins = leftover(&directory, std::process::id());
        let alive = open(&directory, 1).unwrap();
        fs::write(directory.join("other"), "").unwrap();
        let (found, removed) = look(&directory);
        assert_eq!((names(&found), removed), (vec![1], vec![dead.clone()]));
        assert!(!dead.exists() && begins.exists() && alive.path.exists());
        assert!(directory.join("other").exists());
    }

    #[test]
    fn the_socket_of_a_dead_daemon_is_replaced_and_that_of_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let directory = directory(dir.path());
        leftover(&directory, 5);
        let alive = open(&directory, 5).unwrap();
        open(&directory, 5).expect_err("a daemon listens there");
        UnixStream::connect(&alive.path).unwrap();
    }

    #[test]
    fn the_last_daemon_removes_only_empty_directories() {
        let dir = tempfile::tempdir().unwrap();
        let rundir = dir.path().join("run");
        let directory = directory(&rundir);
        let open = |owner, removes| Listed::open(&directory, owner, removes).unwrap();
        let (one, two) = (open(1, true), open(2, true));
        drop(one);
        assert!(two.path.exists());
        drop(two);
        assert!(!rundir.exists());
        let one = open(1, true);
        fs::write(rundir.join("mpd.lock"), "").unwrap();
        drop(one);
        assert!(rundir.exists() && !directory.exists(), "a daemon uses it");
        fs::remove_file(rundir.join("mpd.lock")).unwrap();
        drop(open(1, false));
        assert!(rundir.exists() && !directory.exists(), "its user made it");
    }

    #[test]
    fn a_daemon_that_begins_while_the_last_one_ends_finds_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let directory = directory(&dir.path().join("run"));
        std::thread::scope(|scope| {
            for owner in 1..=4 {
                let directory = &directory;
                scope.spawn(move || {
                    for _ in 0..200 {
                        let listed = Listed::open(directory, owner, true).unwrap();
                        UnixStream::connect(&listed.path).unwrap();
                    }
                });
            }
        });
        assert!(!directory.parent().unwrap().exists());
    }

    #[test]
    fn a_too_long_path_and_an_impossible_directory_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("x".repeat(120));
        fs::create_dir(&long).unwrap();
        open(&directory(&long), 5).expect_err("too long for a socket");
        open(&directory(&dir.path().join("none/none")), 5).expect_err("nothing is above it");
    }
}
