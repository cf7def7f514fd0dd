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

/// A control group made for one job. [`Cgroup::remove`] removes it, drop does not: its job may outlive the process
/// that made it.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    directory: File,
}

impl Cgroup {
    /// Makes a group called `name` below the own one, if that is possible.
    pub fn create(name: &str) -> Option<Self> {
        static OWN: OnceLock<Option<PathBuf>> = OnceLock::new();
        let path = OWN.get_or_init(own_group).as_ref()?.join(name);
        fs::create_dir(&path).ok()?;
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
        Ok(Self { path: path.to_owned(), directory: File::open(path)? })
    }

    /// The group at `path`, whose directory another process has opened.
    pub fn adopt(path: PathBuf, directory: OwnedFd) -> Self {
        Self { path, directory: directory.into() }
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
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // Its processes may have removed it meanwhile.
            let _ = add_members(&entry.path(), found);
        }
    }
    Ok(())
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

/// The group in which this process makes others: that of this process, or the one above if its own is [`ASIDE`].
pub fn own_group() -> Option<PathBuf> {
    let own = group_of_this_process()?;
    match own.file_name() {
        Some(name) if name == ASIDE => own.parent().map(Path::to_owned),
        _ => Some(own),
    }
}

/// The directory of this process's v2 group. A mount may be hidden by a later one, or show a part of the groups only.
fn group_of_this_process() -> Option<PathBuf> {
    let own =
        procfile::row("/proc/self/cgroup", |line| Some(line.strip_prefix("0::")?.to_owned()))?;
    let this = Pid::this().to_string();
    let is_own = |path: &PathBuf| {
        procfile::row(path.join("cgroup.procs"), |pid| (pid == this).then_some(())).is_some()
    };
    let usual = USUAL_MOUNTS.iter().map(|mount| Path::new(mount).join(own.trim_start_matches('/')));
    usual.into_iter().find(is_own).or_else(|| {
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
