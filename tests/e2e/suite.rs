//! The environment of one test: a private directory, a run directory, a mark in the environment variables,
//! the daemons, and at the end the proof that nothing is left.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mpd_tests::surroundings;
pub(crate) use mpd_tests::surroundings::{skip, tell};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::process::{self, Process};
use crate::run::{Output, Run, comes_true, wait_until};

/// How long after the end of a job all its objects may exist.
const LEAVE: Duration = Duration::from_secs(8);
/// The programs that another user needs copies of.
const PROGRAMS: [&str; 11] = [
    "mpd",
    "mpdboot",
    "mpdstate",
    "mpirun",
    "t-env",
    "t-exit-with",
    "t-group",
    "t-ipc",
    "t-raw-pmix",
    "t-run",
    "t-signals",
];
/// One look can overlook a process that forks and ends all the time; this number of looks cannot.
const LOOKS: usize = 5;

pub(crate) struct Suite {
    directory: TempDir,
    mark: String,
    user: Option<u32>,
    started: Mutex<Started>,
}

/// The daemons that belong to a suite.
#[derive(Default)]
struct Started {
    pids: Vec<i32>,
    rundirs: BTreeSet<PathBuf>,
    logs: BTreeSet<PathBuf>,
}

/// The managers in waiting of each daemon, as by default.
const WAITING: u8 = 1;

impl Suite {
    pub(crate) fn new() -> Self {
        Self::owned_by(None)
    }

    /// Runs all programs as this user. He owns the directory and gets copies of the programs.
    pub(crate) fn as_user(user: u32) -> Self {
        let suite = Self::owned_by(Some(user));
        for name in PROGRAMS {
            let copied = fs::copy(surroundings::program(name), suite.path("bin").join(name));
            copied.unwrap_or_else(|error| panic!("{name}: {error}; run scripts/test"));
        }
        suite
    }

    fn owned_by(user: Option<u32>) -> Self {
        // Short and not under the caller's TMPDIR: a socket's path may have 107 bytes.
        let directory = tempfile::Builder::new().prefix("mt-").tempdir_in("/tmp");
        let directory = directory.expect("a temporary directory");
        let mark = format!("MPD_TEST_MARK={}", directory.path().display());
        let suite = Self { directory, mark, user, started: Mutex::default() };
        for name in ["run", "tmp", "home", "bin", "work"] {
            fs::create_dir(suite.path(name)).expect("a directory");
            suite.allow(name, 0o700);
            chown(suite.path(name), user, user).expect("chown");
        }
        suite.allow("", 0o711);
        suite
    }

    /// Whether the programs run as another user than the tests.
    pub(crate) const fn is_of_another_user(&self) -> bool {
        self.user.is_some()
    }

    /// A path in the private directory.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Sets the mode of a path in the private directory.
    pub(crate) fn allow(&self, path: impl AsRef<Path>, mode: u32) {
        fs::set_permissions(self.path(path), PermissionsExt::from_mode(mode)).expect("chmod");
    }

    /// A new directory that the ranks may write to, as an argument.
    pub(crate) fn new_directory(&self, name: &str) -> String {
        fs::create_dir(self.path(name)).expect("a directory");
        chown(self.path(name), self.user, self.user).expect("chown");
        self.path(name).display().to_string()
    }

    /// The directory of the daemon's socket.
    pub(crate) fn rundir(&self) -> PathBuf {
        self.path("run")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.rundir().join("mpd.sock")
    }

    /// The path of one of our programs or helpers, as an argument for other programs.
    pub(crate) fn program(&self, name: &str) -> String {
        let path = if self.user.is_some() {
            self.path("bin").join(name)
        } else {
            surroundings::program(name)
        };
        assert!(path.exists(), "no {}; run scripts/test, which builds it", path.display());
        path.display().to_string()
    }

    /// Any program in the environment of this test.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Run {
        let Some(user) = self.user else { return self.as_self(program) };
        self.as_self(self.program("t-run")).arg(format!("uid={user}")).arg(program)
    }

    /// The same as the user of the tests, in a suite of another user.
    pub(crate) fn as_self(&self, program: impl AsRef<OsStr>) -> Run {
        let mut command = Command::new(program);
        let foreign = |name: &OsStr| {
            ["MPD_", "PMI_", "PMIX_", "MPI_LOCAL", "HYDRA_", "SLURM_", "FLUX_"]
                .iter()
                .any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
        };
        for (name, _) in std::env::vars_os().filter(|(name, _)| foreign(name)) {
            command.env_remove(name);
        }
        let (name, value) = self.mark.split_once('=').expect("a mark");
        command
            .env(name, value)
            .env("MPD_RUNDIR", self.rundir())
            .env("MPD_KEY_FILE", self.path("home/key"))
            .env("MPD_WAITING", WAITING.to_string())
            .env("TMPDIR", self.path("tmp"))
            .env("HOME", self.path("home"))
            .env("LC_ALL", "C")
            .env_remove("XDG_RUNTIME_DIR")
            .current_dir(self.path("work"));
        Run::new(command)
    }

    /// `mpirun` with these arguments.
    pub(crate) fn mpirun<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Run {
        self.command(self.program("mpirun")).args(arguments)
    }

    /// `mpirun -n COUNT` of a helper program with these arguments.
    pub(crate) fn ranks(&self, count: usize, helper: &str, arguments: &[&str]) -> Run {
        let count = count.to_string();
        self.mpirun(["-n", &count]).arg(self.program(helper)).args(arguments)
    }

    /// `mpd` with these arguments.
    pub(crate) fn mpd(&self, arguments: &[&str]) -> Run {
        self.command(self.program("mpd")).args(arguments)
    }

    /// A script for bash with the variables `$MPIRUN` and `$T` (directory of the helpers).
    pub(crate) fn bash(&self, text: &str) -> Run {
        let helpers = Path::new(&self.program("t-run")).parent().map(Path::to_owned);
        self.command("bash")
            .args(["-c", text])
            .env("MPIRUN", self.program("mpirun"))
            .env("T", helpers.expect("a directory"))
    }

    /// Starts the daemon and returns it. Dropping the suite stops it.
    pub(crate) fn start_daemon(&self) -> Process {
        self.start_daemon_with(&[])
    }

    pub(crate) fn start_daemon_with(&self, options: &[&str]) -> Process {
        let log = self.path("mpd.log").display().to_string();
        if let Some(user) = self.user {
            fs::write(&log, "").expect("a log file");
            chown(&log, Some(user), Some(user)).expect("chown");
        }
        self.mpd(&["--daemon", "--log-file", &log]).args(options).output().code(0);
        let daemon = self.daemon();
        self.adopt(daemon.pid, &self.rundir(), Path::new(&log));
        if !options.contains(&"--waiting") {
            wait_until("a manager in waiting", || daemon.manager_in_waiting().is_some());
        }
        daemon
    }

    /// A daemon that serves `rundir` is ended with the suite and must leave nothing there.
    pub(crate) fn adopt(&self, pid: i32, rundir: &Path, log: &Path) {
        let mut started = self.started();
        started.pids.push(pid);
        started.rundirs.insert(rundir.to_owned());
        started.logs.insert(log.to_owned());
    }

    /// The daemon of `rundir` was killed: its socket stays.
    pub(crate) fn expect_stale_socket(&self, rundir: &Path) {
        self.started().rundirs.remove(rundir);
    }

    fn started(&self) -> MutexGuard<'_, Started> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The daemon that serves now.
    pub(crate) fn daemon(&self) -> Process {
        self.daemon_at(&self.rundir())
    }

    /// The daemon that serves this run directory now. The user of the suite asks it, because it answers no other user.
    pub(crate) fn daemon_at(&self, rundir: &Path) -> Process {
        let pid = self.status_at(rundir)["pid"].as_i64().expect("a pid in the status");
        let pid = i32::try_from(pid).expect("a pid");
        Process::read(pid).unwrap_or_else(|| panic!("the daemon's pid {pid} is no process"))
    }

    /// The output of `mpd --status`.
    pub(crate) fn status(&self) -> serde_json::Value {
        self.status_at(&self.rundir())
    }

    fn status_at(&self, rundir: &Path) -> serde_json::Value {
        let output = self.status_output_at(rundir);
        serde_json::from_slice(&output.code(0).stdout)
            .unwrap_or_else(|error| panic!("status is not JSON: {error}: {output}"))
    }

    pub(crate) fn status_output(&self) -> Output {
        self.status_output_at(&self.rundir())
    }

    fn status_output_at(&self, rundir: &Path) -> Output {
        self.mpd(&["--status", "--rundir"]).arg(rundir).output()
    }

    /// The pids of the managers that the daemon knows.
    pub(crate) fn managers(&self) -> Vec<i32> {
        let status = self.status();
        let jobs = status["jobs"].as_array().expect("jobs in the status");
        let pids = jobs.iter().map(|job| job["manager"].as_i64().expect("a pid"));
        pids.map(|pid| i32::try_from(pid).expect("a pid")).collect()
    }

    /// Every living process that this test has started, directly or not, except managers in waiting and fork servers of
    /// living daemons.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let ours = |process: &Process| {
            process.bears(&self.mark, self.directory.path()) && !process.is_waiting()
        };
        Process::all().into_iter().filter(ours).collect()
    }

    /// The processes that run this helper program, or another program by its file name.
    pub(crate) fn running(&self, program: &str) -> Vec<Process> {
        self.processes().into_iter().filter(|process| process.runs(program)).collect()
    }

    /// The only process that is a manager.
    pub(crate) fn manager(&self) -> Process {
        let mut managers = Vec::new();
        wait_until("a manager", || {
            managers = self.processes().into_iter().filter(Process::is_manager).collect();
            managers.len() == 1
        });
        managers.remove(0)
    }

    /// Fails unless all processes except the daemon, and all directories of jobs, are removed.
    pub(crate) fn only_the_daemon_is_left(&self) {
        self.gone(&[self.daemon().pid]);
    }

    /// Fails unless everything of the jobs is removed, with or without a daemon.
    pub(crate) fn no_job_is_left(&self) {
        self.no_job_is_left_but(&[]);
    }

    /// The same, except for processes that run one of these programs.
    pub(crate) fn no_job_is_left_but(&self, programs: &[&str]) {
        let left = self.stays(|process| {
            !process.is_daemon() && !programs.iter().any(|program| process.runs(program))
        });
        assert!(left.is_empty(), "left of the job:\n{}", listed(&left));
    }

    /// Fails unless all processes except these, and all directories of jobs, are removed.
    pub(crate) fn gone(&self, except: &[i32]) {
        let left = self.stays(|process| !except.contains(&process.pid));
        assert!(left.is_empty(), "left behind:\n{}", listed(&left));
        let mut files = Vec::new();
        let empty = comes_true(LEAVE, || {
            files = entries(&self.path("tmp"));
            files.is_empty()
        });
        assert!(empty, "left in TMPDIR: {files:?}");
    }

    /// The processes that are still there at the end of the time limit.
    fn stays(&self, counts: impl Fn(&Process) -> bool) -> Vec<Process> {
        let look = || self.processes().into_iter().filter(|process| counts(process));
        comes_true(LEAVE, || (0..LOOKS).all(|_| look().next().is_none()));
        look().collect()
    }

    /// Asks the daemons of this suite to end; private daemons must end by themselves.
    fn stop_daemons(&self) {
        let started = self.started();
        for process in self.processes() {
            if started.pids.contains(&process.pid) && process.is_daemon() {
                process::send(process.pid, Signal::SIGTERM);
            }
        }
    }

    fn show_log(&self) {
        for path in &self.started().logs {
            let log = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            for line in &lines[lines.len().saturating_sub(30)..] {
                tell(&format!("daemon's log: {line}"));
            }
        }
    }

    fn kill_all(&self) {
        comes_true(LEAVE, || {
            let left = self.processes();
            left.iter().for_each(|process| process::send(process.pid, Signal::SIGKILL));
            left.is_empty()
        });
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let is_socket = |path: &PathBuf| {
            fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket())
        };
        let all = ["", "private"].into_iter().flat_map(|name| self.in_rundirs(name));
        all.filter(is_socket).collect()
    }

    /// The records of jobs, with the notes of their managers.
    pub(crate) fn records(&self) -> Vec<String> {
        let records = self.in_rundirs("jobs");
        records.iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
    }

    /// The entries of this directory in each run directory.
    fn in_rundirs(&self, name: &str) -> Vec<PathBuf> {
        let started = self.started();
        let own = self.rundir();
        let rundirs = started.rundirs.iter().chain([&own]);
        rundirs.flat_map(|rundir| entries(&rundir.join(name))).collect()
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_log();
            self.kill_all();
            return;
        }
        self.stop_daemons();
        let left = self.stays(|_| true);
        let jobs = self.in_rundirs("jobs");
        let (sockets, temporary) = (self.sockets(), entries(&self.path("tmp")));
        self.kill_all();
        if !left.is_empty() {
            self.show_log();
        }
        assert!(left.is_empty(), "left behind:\n{}", listed(&left));
        assert!(sockets.is_empty(), "sockets left behind: {sockets:?}");
        assert!(jobs.is_empty(), "records of jobs left behind: {jobs:?}");
        assert!(temporary.is_empty(), "left in TMPDIR: {temporary:?}");
    }
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn listed(processes: &[Process]) -> String {
    processes.iter().map(Process::to_string).collect::<Vec<_>>().join("\n")
}
