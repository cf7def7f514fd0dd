//! A control group (v2) for the ranks of a job, where the system permits one: the kernel kills a group atomically.
//!
//! Only the core files of v2 are needed, no controller. The group is made below the group of this process. An
//! ordinary user may do that only in a delegated subtree. Without a group the job is killed by its process tree.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::unistd::Pid;

use crate::process::procfile;
use crate::raw;

/// A control group made for one job. [`Cgroup::remove`] removes it, drop does not: its job may outlive the process
/// that made it.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    directory: OwnedFd,
}

impl Cgroup {
    /// Makes a group called `name` below the own one or beside it, see [`own_group`], if that is possible.
    pub fn create(name: &str) -> Option<Self> {
        static PLACES: OnceLock<Vec<PathBuf>> = OnceLock::new();
        let path = make_in(PLACES.get_or_init(places), name)?;
        // The kernel knows how to kill each group, or none.
        static CAN_KILL: OnceLock<()> = OnceLock::new();
        let group = match CAN_KILL.get() {
            Some(()) => File::open(&path).map(|file| Self::adopt(path.clone(), file.into())),
            None => Self::open(&path).inspect(|_| _ = CAN_KILL.set(())),
        };
        let group = group.ok();
        if group.is_none() {
            let _ = fs::remove_dir(&path);
        }
        group
    }

    /// Opens an existing group. A directory is a group if it has a file `cgroup.kill`.
    ///
    /// # Errors
    /// The directory is not a group, or cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        if !path.join("cgroup.kill").try_exists()? {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self { path: path.to_owned(), directory: File::open(path)?.into() })
    }

    /// The group at `path`, whose directory another process has opened.
    pub fn adopt(path: PathBuf, directory: OwnedFd) -> Self {
        Self { path, directory }
    }

    /// Makes the group again if it was removed. systemd removes empty ones in a unit whose main process ends.
    /// Whether it did. It has no limits then.
    ///
    /// # Errors
    /// The system refuses.
    pub fn renew(&self) -> io::Result<bool> {
        match fs::create_dir(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            made => made?,
        }
        // The new directory gets the number of the old one.
        raw::redirect(&self.directory, File::open(&self.path)?.as_fd())?;
        Ok(true)
    }

    /// The group's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Kills every process in the group, atomically.
    pub fn kill(&self) {
        if let Err(e) = fs::write(self.path.join("cgroup.kill"), "1") {
            log::debug!("{}: cgroup.kill: {e}", self.path.display());
        }
    }

    /// Freezes every process in the group, or lets them all run again. It is complete some time later, see
    /// [`Cgroup::is_frozen`]. A process does not notice it. A signal that
    /// ends a frozen process takes effect at once, and a signal that it handles when it runs again.
    ///
    /// # Errors
    /// The system refuses.
    pub fn freeze(&self, frozen: bool) -> io::Result<()> {
        fs::write(self.path.join("cgroup.freeze"), if frozen { "1" } else { "0" })
    }

    /// Whether every process in the group is frozen.
    pub fn is_frozen(&self) -> bool {
        let events = procfile::table(self.path.join("cgroup.events"));
        events.is_ok_and(|events| events.lines().any(|line| line == "frozen 1"))
    }

    /// The processes in the group, and in those that its processes made below it.
    ///
    /// # Errors
    /// The group cannot be read.
    pub fn members(&self) -> io::Result<BTreeSet<Pid>> {
        let mut found = BTreeSet::new();
        add_members(&self.path, &mut found)?;
        Ok(found)
    }

    /// Removes the group, and those that its processes made below it.
    ///
    /// # Errors
    /// `ResourceBusy` while a process is left in it.
    pub fn remove(&self) -> io::Result<()> {
        self.remove_empty().or_else(|_| remove_groups(&self.path))
    }

    /// Removes the group if no process and no other group is in it.
    ///
    /// # Errors
    /// `ResourceBusy` if a process or a group is in it.
    pub fn remove_empty(&self) -> io::Result<()> {
        fs::remove_dir(&self.path)
    }
}

fn add_members(path: &Path, found: &mut BTreeSet<Pid>) -> io::Result<()> {
    let members = procfile::table(path.join("cgroup.procs"))?;
    found.extend(members.lines().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw));
    // The directory has two links and one for each group in it.
    if fs::metadata(path)?.nlink() == 2 {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        match add_members(&entry.path(), found) {
            // Its processes may have removed it meanwhile.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => {}
            added => added?,
        }
    }
    Ok(())
}

/// Makes a directory in the first of these places that permits it.
fn make_in(places: &[PathBuf], name: &str) -> Option<PathBuf> {
    let mut paths = places.iter().map(|place| place.join(name));
    paths.find(|path| fs::create_dir(path).is_ok())
}

/// Removes a group and those that its processes made below it. Only directories are removed: the files in the
/// directory of a group go with it.
fn remove_groups(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_groups(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Where distributions mount v2, alone or beside v1. The table of mounts costs a tenth of a millisecond.
const USUAL_MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The name of the group for processes of the suite, beside those of jobs, once a job has limits.
pub const ASIDE: &str = "mpd-suite";

/// The text of a file of a group.
///
/// # Errors
/// The system's.
pub fn read(path: &str) -> io::Result<String> {
    procfile::table(path)
}

/// Writes a file of a group.
///
/// # Errors
/// The system's: `NotFound` if the kernel has no such file.
pub fn write(path: &str, text: &str) -> io::Result<()> {
    // The kernel takes one write. It would refuse to make a file.
    File::options().write(true).open(path)?.write_all(text.as_bytes())
}

/// The parent of the groups that this process makes: its own group, or the group above if its own group is [`ASIDE`].
pub fn own_group() -> Option<PathBuf> {
    places().into_iter().next()
}

/// The groups in which this process may make others, the best first.
fn places() -> Vec<PathBuf> {
    group_of_this_process().map(places_at).unwrap_or_default()
}

/// A group above that belongs to another user was not made by the suite.
fn places_at(own: PathBuf) -> Vec<PathBuf> {
    let owner = |path: &Path| fs::metadata(path).map(|metadata| metadata.uid()).ok();
    let is_aside = own.file_name().is_some_and(|name| name == ASIDE);
    let above = own.parent().filter(|above| is_aside && owner(above) == owner(&own));
    above.map(Path::to_owned).into_iter().chain([own.clone()]).collect()
}

/// The directory of this process's v2 group. A mount may be hidden by a later one, or show a part of the groups only.
fn group_of_this_process() -> Option<PathBuf> {
    let own =
        procfile::row("/proc/self/cgroup", |line| Some(line.strip_prefix("0::")?.to_owned()))?;
    let this = Pid::this().to_string();
    let is_own = |path: &PathBuf| {
        procfile::row(path.join("cgroup.procs"), |pid| (pid == this).then_some(())).is_some()
    };
    let mut usual =
        USUAL_MOUNTS.iter().map(|mount| Path::new(mount).join(own.trim_start_matches('/')));
    usual.find(is_own).or_else(|| {
        procfile::row("/proc/self/mountinfo", |mount| place(&own, mount).filter(is_own))
    })
}

/// Where the group `own` may be, by a line of the table of mounts.
fn place(own: &str, mount: &str) -> Option<PathBuf> {
    let (mount, system) = mount.split_once(" - ")?;
    let mut words = mount.split(' ').skip(3);
    let (root, point) = (words.next()?, words.next()?);
    if system.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let below = Path::new(own).strip_prefix(root).ok()?;
    Some(Path::new(point).join(below))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use nix::sys::signal::{Signal, kill};

    use super::*;

    #[test]
    fn the_own_group_is_looked_for_below_each_mount_of_v2_that_may_show_it() {
        let mounts = "24 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                      25 1 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw\n\
                      26 1 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      27 1 0:22 /user /tmp/user rw shared:1 master:2 - cgroup2 none rw\n\
                      28 1 0:22 /other /tmp/other rw - cgroup2 none rw\nnonsense\n";
        let found = |own| mounts.lines().filter_map(|mount| place(own, mount)).collect::<Vec<_>>();
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(found("/user/a"), paths(&["/sys/fs/cgroup/user/a", "/tmp/user/a"]));
        assert_eq!(found("/"), paths(&["/sys/fs/cgroup"]));
    }

    #[test]
    fn groups_are_made_above_the_one_aside_only_if_both_have_one_owner_and_else_in_it() {
        let above = tempfile::tempdir().unwrap();
        let [aside, other] = [ASIDE, "other"].map(|name| above.path().join(name));
        fs::create_dir(&aside).unwrap();
        assert_eq!(places_at(aside.clone()), [above.path().to_owned(), aside.clone()]);
        assert_eq!(places_at(other.clone()), [other]);
        // Only root can give it another owner.
        if std::os::unix::fs::chown(&aside, Some(60_204), None).is_ok() {
            assert_eq!(places_at(aside.clone()), std::slice::from_ref(&aside));
        }
        let places = [above.path().join("missing"), aside.clone()];
        assert_eq!(make_in(&places, "mpd-7"), Some(aside.join("mpd-7")));
        assert_eq!(make_in(&places, "mpd-7"), None);
    }

    #[test]
    fn a_list_of_members_is_complete_or_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::create_dir(path.join("below")).unwrap();
        fs::write(path.join("cgroup.procs"), "7\n").unwrap();
        let group = Cgroup::adopt(path.to_owned(), File::open(path).unwrap().into());
        assert_eq!(group.members().unwrap(), [Pid::from_raw(7)].into(), "the group below is gone");
        // It cannot be read, for another reason.
        fs::create_dir(path.join("below/cgroup.procs")).unwrap();
        assert_eq!(group.members().unwrap_err().raw_os_error(), Some(libc::EISDIR));
    }

    #[test]
    fn a_group_that_was_removed_is_made_again_behind_the_same_descriptor() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mpd-7");
        fs::create_dir(&path).unwrap();
        let group = Cgroup::adopt(path.clone(), File::open(&path).unwrap().into());
        assert!(!group.renew().unwrap());
        let number = group.as_fd().as_raw_fd();
        fs::remove_dir(&path).unwrap();
        assert!(group.renew().unwrap());
        assert_eq!(group.as_fd().as_raw_fd(), number);
        let directory_of = File::from(group.directory.try_clone().unwrap());
        let inode = directory_of.metadata().unwrap().ino();
        assert_eq!(inode, fs::metadata(&path).unwrap().ino());
        let flags = nix::fcntl::fcntl(group.as_fd(), nix::fcntl::FcntlArg::F_GETFD).unwrap();
        assert_eq!(flags, libc::FD_CLOEXEC);
        directory.close().unwrap();
        assert_eq!(group.renew().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_own_group_has_this_process() {
        if let Some(path) = group_of_this_process() {
            let members = fs::read_to_string(path.join("cgroup.procs")).unwrap();
            assert!(members.lines().any(|pid| pid == std::process::id().to_string()));
        }
    }

    #[test]
    fn the_processes_of_a_group_are_frozen_and_run_again_at_the_end() {
        let name = format!("mpd-test-{}", std::process::id());
        // Only systems that permit groups have something to test.
        let Some(group) = Cgroup::create(&name) else { return };
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        fs::write(group.path().join("cgroup.procs"), pid.to_string()).unwrap();
        group.freeze(true).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while !group.is_frozen() {
            assert!(Instant::now() < deadline, "not within 10 s");
            std::thread::yield_now();
        }
        assert_eq!(group.members().unwrap(), [pid].into());
        assert_eq!(child.try_wait().unwrap(), None);
        kill(pid, Signal::SIGTERM).unwrap();
        group.freeze(false).unwrap();
        assert!(!group.is_frozen());
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
        group.remove().unwrap();
    }
}
