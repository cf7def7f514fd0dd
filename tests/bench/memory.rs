//! The memory of daemon, manager and console: the proportional set size (PSS), in which a page that N
//! processes share counts 1/N for each of them.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::programs::{Launcher, Ring};

/// How long a job may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long all processes stay undisturbed after the last rank has started.
const REST: Duration = Duration::from_secs(1);

/// Sizes in KiB while a job of sleeping ranks runs.
pub(crate) struct Sizes {
    pub(crate) daemon: u64,
    pub(crate) manager: u64,
    pub(crate) console: u64,
}

impl Sizes {
    /// The sizes for a job of `ranks` ranks on this ring.
    pub(crate) fn of_job(ring: &Ring, ranks: usize) -> Result<Self, String> {
        let daemon = ring.daemon().ok_or("no daemon")?.as_raw();
        let launcher = Launcher::all(ring).into_iter().next().ok_or("no mpirun")?;
        let mut command = launcher.command(ranks, &[], &["sleep", "1000"]);
        let mut console = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let result = Self::while_it_runs(daemon, &mut console, ranks);
        let pid = i32::try_from(console.id()).map_err(|error| error.to_string())?;
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        console.wait().map_err(|error| error.to_string())?;
        result
    }

    fn while_it_runs(daemon: i32, console: &mut Child, ranks: usize) -> Result<Self, String> {
        let manager = manager_of(daemon, console, ranks)?;
        std::thread::sleep(REST);
        let console = i32::try_from(console.id()).map_err(|error| error.to_string())?;
        Ok(Self { daemon: pss(daemon)?, manager: pss(manager)?, console: pss(console)? })
    }
}

/// The size in KiB of a daemon without a job and of its managers in waiting, together.
pub(crate) fn idle(ring: &Ring) -> Result<u64, String> {
    let daemon = ring.daemon().ok_or("no daemon")?.as_raw();
    std::thread::sleep(REST);
    let mut sizes = children(daemon).into_iter().map(pss);
    sizes.try_fold(pss(daemon)?, |sum, size| Ok(sum + size?))
}

/// The manager of this daemon after all its ranks run.
fn manager_of(daemon: i32, console: &mut Child, ranks: usize) -> Result<i32, String> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let is_manager = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "mpdman\n")
        };
        let is_complete = |pid: &i32| {
            let ranks_of_it = children(*pid).into_iter().filter(|rank| {
                fs::read_to_string(format!("/proc/{rank}/comm")).is_ok_and(|name| name == "sleep\n")
            });
            ranks_of_it.count() == ranks
        };
        let found = children(daemon).into_iter().filter(is_manager).find(is_complete);
        if let Some(pid) = found {
            return Ok(pid);
        }
        if let Ok(Some(status)) = console.try_wait() {
            return Err(format!("mpirun ended before its job was measured: {status}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(format!("no manager with {ranks} ranks after {} s", PATIENCE.as_secs()))
}

fn children(pid: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The proportional set size of a process in KiB. Only root may read that of a protected process.
fn pss(pid: i32) -> Result<u64, String> {
    let file = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&file)
        .map_err(|error| format!("{file}: {error} (run this bench as root)"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let size = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    size.ok_or_else(|| format!("{file}: no line 'Pss: N kB'"))
}
