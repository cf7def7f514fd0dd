//! The run directory of a daemon: socket, lock, records of jobs. Other users cannot enter it.
//!
//! Its path is that of `--rundir`, else `MPD_RUNDIR`, else `$XDG_RUNTIME_DIR/mpd`, else `/tmp/mpd-UID-HOST`. For a ring
//! with a name the last two have the suffix `-RING`. A private ring has a directory of its own beside that path.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use mpd_wire::JobId;
use mpd_wire::frame;
use mpd_wire::message::{Opening, VERSION};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{SFlag, lstat};
use nix::unistd::geteuid;

use crate::files::trust;
use crate::network::conn::Conn;
use crate::process::identity::user_name;
use crate::ring::private_sockets;
use crate::ring::ring_name::RingName;

/// Variable that names the run directory.
pub const VARIABLE: &str = "MPD_RUNDIR";

/// The directory of the run directories of users' rings on a site. All users may make directories there, as in /tmp.
pub const SITE_RUN: &str = "/run/mpd-suite";

/// Longest path of a Unix socket without its final NUL (`sun_path`).
const MAX_SOCKET_PATH: usize = 107;

/// A run directory, existing or not.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
    explicit: bool,
    of_site: bool,
}

/// Why a run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// The directory is not safe to use.
    #[error("{path}: {problem}; remove it or choose another directory with --rundir or {VARIABLE}")]
    Unsafe {
        /// The directory.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The directory, or one above it, is another user's. A daemon of that user may live there.
    #[error("{path}: {problem}; choose another directory with --rundir or {VARIABLE}")]
    Foreign {
        /// The directory.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The path is too long for a socket.
    #[error(
        "{path}: too long for a socket (at most {MAX_SOCKET_PATH} bytes); choose a shorter --rundir"
    )]
    TooLong {
        /// The socket.
        path: String,
    },
    /// Another daemon holds the lock.
    #[error("a daemon is already running with {path}; use another --rundir for a second one")]
    Busy {
        /// The directory.
        path: String,
    },
    /// A daemon lives, so no file is stale.
    #[error(
        "a daemon is running with {path}, so nothing is removed; 'mpdexit localmpd' ends that daemon"
    )]
    Alive {
        /// The directory.
        path: String,
    },
    /// The system refuses.
    #[error("{path}: {error}")]
    System {
        /// The file concerned.
        path: String,
        /// The system's error.
        error: io::Error,
    },
}

/// Writes a file of a run directory, whole or not at all, even if the writer is killed.
///
/// # Errors
/// Those of the system.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(content)?;
    fs::rename(&temporary, path)
}

/// The default places of run directories: the directory above, and the common beginning of their names. The first
/// place is used. A daemon that was started in another kind of session may use another one.
pub(crate) fn default_places(host: &str) -> Vec<(PathBuf, String)> {
    // After su the variable may still name the former user's directory.
    let ours = |d: &OsString| fs::metadata(d).is_ok_and(|m| m.uid() == geteuid().as_raw());
    let session = variable("XDG_RUNTIME_DIR").filter(ours);
    let session = session.map(|directory| (PathBuf::from(directory), "mpd".to_owned()));
    let temporary = (PathBuf::from("/tmp"), format!("mpd-{}-{host}", geteuid()));
    session.into_iter().chain([temporary]).collect()
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

impl RunDir {
    /// The run directory at `path`, regardless of the environment.
    pub const fn at(path: PathBuf) -> Self {
        Self { path, explicit: true, of_site: false }
    }

    /// The run directory of a user's ring on a site.
    pub fn of_site(ring: &RingName) -> Self {
        let path = Path::new(SITE_RUN).join(format!("mpd-{}{}", geteuid(), ring.suffix()));
        Self { path, explicit: false, of_site: true }
    }

    /// Whether a user's ring on a site has this directory.
    pub const fn is_of_site(&self) -> bool {
        self.of_site
    }

    /// Whether the user has named it, instead of a default.
    pub const fn is_explicit(&self) -> bool {
        self.explicit
    }

    /// The run directory in force for `ring`; `option` is the user's choice.
    pub fn resolve(option: Option<PathBuf>, ring: &RingName, host: &str) -> Self {
        let chosen = option.or_else(|| variable(VARIABLE).map(PathBuf::from));
        let explicit = chosen.is_some();
        let suffix = ring.suffix();
        let path = chosen.unwrap_or_else(|| {
            let (directory, name) = default_places(host).swap_remove(0);
            directory.join(name + &suffix)
        });
        // Absolute, because a daemon changes its working directory to /.
        Self { path: std::path::absolute(&path).unwrap_or(path), explicit, of_site: false }
    }

    /// The run directory of a private ring. Its name is random, so no other daemon has it.
    pub fn private(ring: &RingName, host: &str) -> Self {
        let beside = variable(VARIABLE).map(|mut path| {
            path.push(ring.suffix());
            PathBuf::from(path)
        });
        Self::resolve(beside, ring, host)
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("mpd.sock")
    }

    /// The number of members of the ring that the last daemon here has saved, this host among them. `None` if it was
    /// alone, or has left the ring.
    pub fn saved_members(&self) -> Option<usize> {
        #[derive(serde::Deserialize)]
        struct Saved {
            members: Vec<serde::de::IgnoredAny>,
        }
        const MAX: u64 = 16 << 20;
        let mut text = Vec::new();
        let file = File::open(self.path.join("ring.json")).ok()?;
        file.take(MAX).read_to_end(&mut text).ok()?;
        let count = frame::decode_message::<Saved>(&text).ok()?.members.len();
        (count > 1).then_some(count)
    }

    /// Where records of jobs are kept.
    pub fn jobs(&self) -> PathBuf {
        self.path.join("jobs")
    }

    pub fn record(&self, job: &JobId) -> PathBuf {
        self.jobs().join(job.in_full())
    }

    fn system(path: &Path, error: io::Error) -> RunDirError {
        RunDirError::System { path: path.display().to_string(), error }
    }

    /// Checks that the path is a directory, belongs to this user, and is closed to others.
    fn check(&self) -> Result<(), RunDirError> {
        self.is_there()?;
        Ok(())
    }

    /// Checks that no other user can put something else in the place of the directory. The directories above it belong to
    /// this user or root. Others may not write there, or may only make files of their own. The daemon removes files
    /// in its directory by their paths.
    fn check_above(&self) -> Result<(), RunDirError> {
        // The default places are the user's own or the system's.
        if !self.explicit {
            return Ok(());
        }
        let parent = self.path.parent().unwrap_or_else(|| Path::new("/"));
        let above = fs::canonicalize(parent).map_err(|e| Self::system(&self.path, e))?;
        for folder in above.ancestors() {
            let facts = fs::metadata(folder).map_err(|e| Self::system(folder, e))?;
            if let Some(doubt) = trust::doubt_folder(&facts, folder) {
                let problem = format!("the directory {} above it {doubt}", folder.display());
                return Err(RunDirError::Foreign {
                    path: self.path.display().to_string(),
                    problem,
                });
            }
        }
        Ok(())
    }

    /// Whether the directory exists. An existing one is checked: a directory of this user, closed to others.
    fn is_there(&self) -> Result<bool, RunDirError> {
        // The standard library asks for a missing file twice.
        let facts = match lstat(&self.path) {
            Err(Errno::ENOENT) => return Ok(false),
            facts => facts.map_err(|e| Self::system(&self.path, e.into()))?,
        };
        if facts.st_uid != geteuid().as_raw() {
            let problem = format!("belongs to user {}", user_name(facts.st_uid));
            return Err(RunDirError::Foreign { path: self.path.display().to_string(), problem });
        }
        let mode = facts.st_mode & 0o777;
        let problem = if SFlag::from_bits_truncate(facts.st_mode) & SFlag::S_IFMT != SFlag::S_IFDIR
        {
            "is not a directory".to_owned()
        } else if mode & 0o077 != 0 {
            format!("is open to other users (mode {mode:o}, 700 is needed)")
        } else {
            return Ok(true);
        };
        Err(RunDirError::Unsafe { path: self.path.display().to_string(), problem })
    }

    /// Creates the directory and the directory of the records, if needed.
    ///
    /// # Errors
    /// [`RunDirError`] if a directory is not safe or cannot be created.
    pub fn prepare(&self) -> Result<(), RunDirError> {
        // A private ring that ends removes the directory if it is empty.
        const MAX_TRIES: usize = 16;
        let mut tries = 0..MAX_TRIES;
        loop {
            match self.make().and_then(|()| Self::make_directory(&self.jobs())) {
                Err(RunDirError::System { error, .. })
                    if error.kind() == io::ErrorKind::NotFound && tries.next().is_some() => {}
                made => return made,
            }
        }
    }

    /// Creates the directory itself, if needed.
    ///
    /// # Errors
    /// [`RunDirError`] if the directory is not safe or cannot be created.
    pub fn make(&self) -> Result<(), RunDirError> {
        self.check_above()?;
        Self::make_directory(&self.path)?;
        self.check()
    }

    fn make_directory(path: &Path) -> Result<(), RunDirError> {
        match DirBuilder::new().mode(0o700).create(path) {
            // The file mode mask may have taken permissions away.
            Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(0o700))
                .map_err(|e| Self::system(path, e)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(e) => Err(Self::system(path, e)),
        }
    }

    /// Creates the directory if needed, takes its lock, and listens on its socket.
    ///
    /// # Errors
    /// [`RunDirError`].
    pub fn serve(&self) -> Result<(Flock<File>, UnixListener), RunDirError> {
        let socket = self.socket();
        if socket.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(RunDirError::TooLong { path: socket.display().to_string() });
        }
        self.prepare()?;
        let path = self.lock_file();
        let lock = self.lock(self.open_lock()?).map_err(|e| match e {
            Errno::EWOULDBLOCK => RunDirError::Busy { path: self.path.display().to_string() },
            e => Self::system(&path, e.into()),
        })?;
        // This process holds the lock, so no daemon uses an existing socket.
        match fs::remove_file(&socket) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Self::system(&socket, e)),
            _ => {}
        }
        let listener = UnixListener::bind(&socket)
            .and_then(|l| {
                fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).map(|()| l)
            })
            .map_err(|e| Self::system(&socket, e))?;
        Ok((lock, listener))
    }

    /// Removes the files that a dead daemon left: its socket and its lock file. Returns the removed paths. Records of
    /// jobs stay: their managers may live, and the next daemon handles them.
    ///
    /// # Errors
    /// [`RunDirError::Alive`] while a daemon lives; others as for [`RunDir::serve`].
    pub fn clean(&self) -> Result<Vec<PathBuf>, RunDirError> {
        if !self.is_there()? {
            return Ok(Vec::new());
        }
        self.check_above()?;
        let (_, mut removed) = private_sockets::look(&private_sockets::directory(&self.path));
        let (socket, path) = (self.socket(), self.lock_file());
        if fs::symlink_metadata(&socket).is_err() && fs::symlink_metadata(&path).is_err() {
            return Ok(removed);
        }
        let alive = || RunDirError::Alive { path: self.path.display().to_string() };
        // Held until the end, so that no daemon starts meanwhile.
        let lock = self.open_lock()?;
        let lock = self.lock(lock).map_err(|e| match e {
            Errno::EWOULDBLOCK => alive(),
            e => Self::system(&path, e.into()),
        })?;
        if self.is_served() {
            return Err(alive());
        }
        match fs::remove_file(&socket) {
            Ok(()) => removed.push(socket),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Self::system(&socket, e)),
        }
        if lock.metadata().is_ok_and(|m| m.len() > 0) {
            lock.set_len(0).map_err(|e| Self::system(&path, e))?;
            removed.push(path);
        }
        Ok(removed)
    }

    /// The path of the lock file.
    fn lock_file(&self) -> PathBuf {
        self.path.join("mpd.lock")
    }

    fn open_lock(&self) -> Result<File, RunDirError> {
        let path = self.lock_file();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.open(&path).map_err(|e| Self::system(&path, e))
    }

    /// Takes the lock. Waits for a holder that does not serve yet or any more: the kernel releases the lock of a killed
    /// process a little later than its socket.
    fn lock(&self, mut file: File) -> Result<Flock<File>, Errno> {
        const TRIES: usize = 100;
        const INTERVAL: Duration = Duration::from_millis(20);
        for _ in 0..TRIES {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((_, Errno::EWOULDBLOCK)) if self.is_served() => break,
                Err((unlocked, Errno::EWOULDBLOCK)) => file = unlocked,
                Err((_, e)) => return Err(e),
            }
            std::thread::sleep(INTERVAL);
        }
        Err(Errno::EWOULDBLOCK)
    }

    /// Whether a daemon here answers, or keeps the connection open without an answer. A killed daemon accepts for a
    /// few moments more, and then closes.
    fn is_served(&self) -> bool {
        const PATIENCE_MS: u16 = 2_000;
        let Ok(Some(mut conn)) = self.connect() else { return false };
        conn.send(&Opening::Status { version: VERSION });
        if conn.flush().is_err() {
            return false;
        }
        match conn.wait(PATIENCE_MS) {
            Ok(None) => true,
            Ok(Some(_)) => conn.is_partial(),
            Err(_) => false,
        }
    }

    /// Connects to the daemon of this directory; `None` if there is no daemon.
    ///
    /// # Errors
    /// The directory is not safe, or the system refuses.
    pub fn connect(&self) -> Result<Option<Conn>, RunDirError> {
        match self.find()? {
            Found::Daemon(conn) => Ok(Some(conn)),
            Found::Directory | Found::Nothing => Ok(None),
        }
    }

    /// Does the same, and reports whether the directory exists if there is no daemon.
    ///
    /// # Errors
    /// As for [`RunDir::connect`].
    pub fn find(&self) -> Result<Found, RunDirError> {
        if !self.is_there()? {
            return Ok(Found::Nothing);
        }
        Ok(self.connect_to(&self.socket())?.map_or(Found::Directory, Found::Daemon))
    }

    /// The private rings that processes of this directory's user have begun, ordered by process. Removes sockets that
    /// killed daemons left.
    ///
    /// # Errors
    /// The directory is not safe.
    pub fn private_rings(&self) -> Result<Vec<PrivateRing>, RunDirError> {
        if !self.is_there()? {
            return Ok(Vec::new());
        }
        let (found, _) = private_sockets::look(&private_sockets::directory(&self.path));
        let ring = |(owner, socket)| PrivateRing { owner, socket, rundir: self.clone() };
        Ok(found.into_iter().map(ring).collect())
    }

    /// Connects to a socket in this directory, which was checked; `None` if no daemon serves it.
    fn connect_to(&self, socket: &Path) -> Result<Option<Conn>, RunDirError> {
        let conn = match UnixStream::connect(socket) {
            Ok(stream) => Conn::new(stream),
            Err(e) => match e.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => return Ok(None),
                _ => return Err(Self::system(socket, e)),
            },
        };
        let peer = conn.peer().map_err(|e| Self::system(socket, e))?;
        if peer.uid() != geteuid().as_raw() {
            let problem = format!("the daemon there belongs to user {}", user_name(peer.uid()));
            return Err(RunDirError::Foreign { path: socket.display().to_string(), problem });
        }
        Ok(Some(conn))
    }
}

/// The state of a run directory.
#[derive(Debug)]
pub enum Found {
    /// A daemon serves there.
    Daemon(Conn),
    /// The directory exists without a daemon.
    Directory,
    /// There is no directory.
    Nothing,
}

/// A private ring of this host, as consoles find it.
#[derive(Clone, Debug)]
pub struct PrivateRing {
    /// The process that began the ring.
    pub owner: u32,
    socket: PathBuf,
    rundir: RunDir,
}

impl PrivateRing {
    /// Connects to its daemon; `None` when it has ended.
    ///
    /// # Errors
    /// As for [`RunDir::connect`].
    pub fn connect(&self) -> Result<Option<Conn>, RunDirError> {
        self.rundir.connect_to(&self.socket)
    }
}

/// The name of this host from the kernel when it was first asked, if it can be part of an id.
pub fn host_name() -> String {
    static NAME: OnceLock<String> = OnceLock::new();
    let ask = || {
        let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        let name = name.filter(|name| mpd_wire::is_daemon_name(name));
        name.unwrap_or_else(|| "localhost".to_owned())
    };
    NAME.get_or_init(ask).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: PathBuf) -> RunDir {
        RunDir::resolve(Some(path), &RingName::default(), "h")
    }

    #[test]
    fn a_daemon_does_not_serve_below_a_directory_where_another_user_can_exchange_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let above = folder.path().join("above");
        let rundir = at(above.join("r"));
        for (mode, is_safe) in [(0o700, true), (0o755, true), (0o1777, true), (0o777, false)] {
            let _ = fs::remove_dir_all(&above);
            fs::create_dir(&above).unwrap();
            fs::set_permissions(&above, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(rundir.make().is_ok(), is_safe, "{mode:o}");
        }
        let said = rundir.clean().map(|_| ()).and_then(|()| rundir.make()).unwrap_err().to_string();
        assert!(said.contains("above it can be written by every user"), "{said}");
        assert!(!said.contains("remove it"), "{said}");
        if geteuid().is_root() {
            fs::set_permissions(&above, fs::Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::chown(&above, Some(65_534), None).unwrap();
            let said = rundir.make().unwrap_err().to_string();
            assert!(said.contains("above it belongs to nobody, not to you"), "{said}");
        }
    }

    #[test]
    fn one_daemon_serves_a_second_is_refused_and_a_stale_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let rundir = at(dir.path().join("r"));
        assert!(rundir.connect().unwrap().is_none());
        let first = rundir.serve().unwrap();
        assert!(rundir.connect().unwrap().is_some());
        assert!(matches!(rundir.serve(), Err(RunDirError::Busy { .. })));
        drop(first);
        // A child of another test may inherit the descriptors for an instant.
        let gone = || rundir.connect().unwrap().is_none();
        let begin = std::time::Instant::now();
        while !gone() && begin.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        assert!(gone(), "nobody listens on a stale socket");
        rundir.serve().unwrap();
    }

    #[test]
    fn stale_files_are_removed_but_not_those_of_a_living_daemon_and_of_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let rundir = at(dir.path().join("r"));
        assert!(rundir.clean().unwrap().is_empty(), "there is no directory");
        let daemon = rundir.serve().unwrap();
        let job = "7@h1".parse().unwrap();
        fs::write(rundir.record(&job), "{}").unwrap();
        // No connection gets an answer, as from a daemon that hangs.
        assert!(matches!(rundir.clean(), Err(RunDirError::Alive { .. })));
        assert!(rundir.socket().exists());
        drop(daemon);
        fs::write(rundir.lock_file(), "1234").unwrap();
        assert_eq!(rundir.clean().unwrap(), [rundir.socket(), rundir.lock_file()]);
        assert!(!rundir.socket().exists());
        assert!(rundir.record(&job).exists());
        assert!(rundir.clean().unwrap().is_empty());
    }

    #[test]
    fn a_directory_open_to_others_a_link_and_a_file_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [open, link, file] {
            assert!(at(path.clone()).serve().is_err(), "{path:?}");
            assert!(at(path.clone()).connect().is_err(), "{path:?}");
        }
    }
}
