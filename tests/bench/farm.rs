//! Many small tasks: `mpdfarm` beside bare loops, `xargs`, GNU parallel and HyperQueue, if these are installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::wait::wait;

use crate::contest::{self, Contest, Measured};
use crate::echo::Daemons;
use crate::programs::own_program;

/// The slow rivals run a tenth of the tasks, and their times count tenfold.
const SLOW: usize = 10;

/// A directory of the bench.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Result<Self, String> {
        let made = tempfile::Builder::new().prefix("mb-").tempdir_in("/tmp");
        made.map(Self).map_err(|error| error.to_string())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A file with so many equal lines.
    fn lines(&self, name: &str, count: usize, line: &str) -> Result<PathBuf, String> {
        let path = self.path(name);
        fs::write(&path, format!("{line}\n").repeat(count)).map_err(|error| error.to_string())?;
        Ok(path)
    }
}

/// Keeps `width` processes running until `count` have ended, by posix_spawn and wait.
fn bare(count: usize, width: usize, program: &str, arguments: &[&str]) -> Result<Measured, String> {
    let begin = Instant::now();
    let (mut begun, mut ended) = (0, 0);
    while ended < count {
        while begun < count && begun - ended < width {
            let mut command = Command::new(program);
            let child = command.args(arguments).stdin(Stdio::null()).spawn();
            // The wait below reaps whichever child ends first.
            drop(child.map_err(|error| error.to_string())?);
            begun += 1;
        }
        wait().map_err(|error| error.to_string())?;
        ended += 1;
    }
    Ok(begin.elapsed())
}

/// Runs a command that must succeed; its input is a file.
fn timed(command: &mut Command, input: &Path) -> Result<Measured, String> {
    let file = fs::File::open(input).map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let status = command.stdin(file).stdout(Stdio::null()).status();
    let status = status.map_err(|error| error.to_string())?;
    if status.success() { Ok(begin.elapsed()) } else { Err(status.to_string()) }
}

/// Runs `mpdfarm` with a new job log, and checks that the log has every task.
fn farm(command: &mut Command, input: &Path, log: &Path, count: usize) -> Result<Measured, String> {
    let _ = fs::remove_file(log);
    let time = timed(command.arg("--joblog").arg(log), input)?;
    let lines = fs::read_to_string(log).map_err(|error| error.to_string())?.lines().count();
    if lines == count + 1 { Ok(time) } else { Err(format!("{lines} lines in the job log")) }
}

fn is_installed(program: &str) -> bool {
    let found =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// Tasks of /bin/true on this host, two at a time.
pub(crate) fn trivial(count: usize, repetitions: usize) -> Result<String, String> {
    let place = Place::new()?;
    let input = place.lines("all", count, "/bin/true")?;
    let few = place.lines("few", count / SLOW, "/bin/true")?;
    let mpdfarm = own_program("mpdfarm")?;
    let mut contest = Contest::new(format!("{count} tasks of /bin/true, two at a time"));
    contest.add("floor: posix_spawn and wait", move || bare(count, 2, "/bin/true", &[]));
    let (log, rundir, all) = (place.path("log"), place.path("none"), input.clone());
    contest.add("mpdfarm, each end in the job log", move || {
        let mut command = Command::new(&mpdfarm);
        farm(command.args(["-j", "2"]).env("MPD_RUNDIR", &rundir), &all, &log, count)
    });
    contest.add("xargs -P2 -n1", move || {
        timed(Command::new("xargs").args(["-P2", "-n1", "/bin/true"]), &input)
    });
    if is_installed("parallel") {
        let log = place.path("parallel");
        contest.add("GNU parallel -j2 --joblog", move || {
            let _ = fs::remove_file(&log);
            let mut command = Command::new("parallel");
            let time = timed(command.args(["-j2", "--joblog"]).arg(&log), &few);
            time.map(|time| time * u32::try_from(SLOW).unwrap_or(1))
        });
    }
    if let Ok(python) = std::env::var("MPD_BENCH_HYPERQUEUE") {
        contest.add("HyperQueue", move || {
            let time = hyperqueue(&python, place.0.path(), count / SLOW);
            time.map(|time| time * u32::try_from(SLOW).unwrap_or(1))
        });
    }
    let results = contest.run(repetitions);
    Ok(contest::table(&results, "us per task", per_task(count)))
}

/// Tasks that sleep 10 ms, on `members` daemons of this host with four slots each.
pub(crate) fn sleeps(count: usize, members: usize, repetitions: usize) -> Result<String, String> {
    let place = Place::new()?;
    let input = place.lines("sleeps", count, "sleep 0.01")?;
    let width = members * 4;
    let mpdfarm = own_program("mpdfarm")?;
    let daemons = Daemons::start(members)?;
    let title = format!("{count} tasks of sleep 0.01 on {members} daemons with 4 slots each");
    let mut contest = Contest::new(title);
    contest.add("floor: posix_spawn and wait", move || bare(count, width, "sleep", &["0.01"]));
    let log = place.path("log");
    contest.add("mpdfarm, each end in the job log", move || {
        let mut command = Command::new(&mpdfarm);
        command.args(["-j", "4"]).env("MPD_RUNDIR", daemons.rundir().path());
        farm(&mut command, &input, &log, count)
    });
    let results = contest.run(repetitions);
    Ok(contest::table(&results, "us per task", per_task(count)))
}

fn per_task(count: usize) -> impl Fn(Duration) -> f64 {
    let count = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    move |time: Duration| time.as_secs_f64() * 1e6 / count
}

/// The time of HyperQueue, from the submission to the end. `python` has its package.
fn hyperqueue(python: &str, directory: &Path, count: usize) -> Result<Measured, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/hyperqueue.py");
    let mut command = Command::new(python);
    let output = command.arg(script).arg(count.to_string()).current_dir(directory).output();
    let text =
        String::from_utf8_lossy(&output.map_err(|error| error.to_string())?.stdout).into_owned();
    let seconds = text.lines().find_map(|line| line.strip_prefix("seconds ")?.parse().ok());
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("{python} reported no time"))
}
