//! The programs of the contestants, and a daemon for those that use one.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::Command;

use mpd_tests::surroundings::program;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The path of one of our programs.
pub(crate) fn own_program(name: &str) -> Result<String, String> {
    let path = program(name);
    if path.exists() {
        Ok(path.display().to_string())
    } else {
        Err(format!("no {}; run scripts/bench, which builds it", path.display()))
    }
}

/// A daemon with its own run directory, and a run directory without a daemon.
pub(crate) struct Ring {
    directory: PathBuf,
    daemon: Option<Pid>,
    mpirun: String,
}

impl Ring {
    pub(crate) fn start() -> Result<Self, String> {
        let (mpd, mpirun) = (own_program("mpd")?, own_program("mpirun")?);
        let directory = PathBuf::from(format!("/tmp/mpd-bench-{}", std::process::id()));
        let mut ring = Self { directory, daemon: None, mpirun };
        for name in ["", "run", "none", "tmp"] {
            let made = DirBuilder::new().mode(0o700).create(ring.directory.join(name));
            made.map_err(|error| error.to_string())?;
        }
        ring.ask(&mpd, "--daemon")?;
        let status = ring.ask(&mpd, "--status")?;
        let pid = status.split_once("\"pid\":").map(|(_, rest)| rest.trim_start());
        let digits = pid.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        let pid = digits.and_then(|text| text.parse().ok()).ok_or("no pid in the status")?;
        ring.daemon = Some(Pid::from_raw(pid));
        Ok(ring)
    }

    pub(crate) fn daemon(&self) -> Option<Pid> {
        self.daemon
    }

    fn ask(&self, mpd: &str, word: &str) -> Result<String, String> {
        let mut command = Command::new(mpd);
        let output = command.arg(word).env("MPD_RUNDIR", self.directory.join("run")).output();
        let output = output.map_err(|error| format!("{mpd}: {error}"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(format!("{mpd} {word}: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon {
            let _ = kill(daemon, Signal::SIGTERM);
        }
        let socket = self.directory.join("run/mpd.sock");
        for _ in 0..1000 {
            if !socket.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A launcher of parallel programs.
pub(crate) struct Launcher {
    pub(crate) name: String,
    program: String,
    environment: Vec<(&'static str, PathBuf)>,
}

impl Launcher {
    /// Our launcher with a daemon.
    pub(crate) fn ours(ring: &Ring) -> Self {
        Self::own(ring, "mpirun", "run")
    }

    fn own(ring: &Ring, name: &str, rundir: &str) -> Self {
        Self {
            name: name.to_owned(),
            program: ring.mpirun.clone(),
            environment: vec![
                ("MPD_RUNDIR", ring.directory.join(rundir)),
                ("TMPDIR", ring.directory.join("tmp")),
            ],
        }
    }

    /// Our launcher with and without a daemon.
    pub(crate) fn own_two(ring: &Ring) -> Vec<Self> {
        vec![Self::ours(ring), Self::own(ring, "mpirun without a daemon", "none")]
    }

    /// Our launcher with and without a daemon, and each installed Hydra.
    pub(crate) fn all(ring: &Ring) -> Vec<Self> {
        let mut all = Self::own_two(ring);
        let newer = std::env::var("MPD_TEST_MPICH5_MPIEXEC").ok();
        for program in ["mpiexec.hydra".to_owned()].into_iter().chain(newer) {
            if let Some(version) = hydra_version(&program) {
                let name = format!("Hydra {version}");
                all.push(Self { name, program, environment: Vec::new() });
            }
        }
        all
    }

    /// A command that starts `ranks` ranks of a program.
    pub(crate) fn command(&self, ranks: usize, options: &[&str], program: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(options).args(["-n", &ranks.to_string()]).args(program);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

fn hydra_version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().find_map(|line| line.trim().strip_prefix("Version:"))?;
    Some(version.trim().to_owned())
}
