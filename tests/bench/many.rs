//! Many ranks on one host: their start against the bare loop, `^C`, and the time for each rank.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::contest::{self, Contest, Measured};
use crate::floor;
use crate::programs::{Launcher, Ring};

/// Prints all tables.
pub(crate) fn tables(ring: &Ring, ranks: &[usize], repetitions: usize) -> Result<(), String> {
    // The floor has two pipes for each rank.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| error.to_string())?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(|error| error.to_string())?;
    for &count in ranks {
        start(ring, count, repetitions);
    }
    let mut contest = Contest::new("^C of ranks that sleep".to_owned());
    for count in [500, 1000] {
        let name = format!("floor: SIGINT to {count} processes, and a wait for each");
        contest.add(&name, move || floor::interrupt(count));
        let launcher = Launcher::ours(ring);
        contest.add(&format!("{count} ranks"), move || interrupt(&launcher, count));
    }
    println!("{}", contest::table(&contest.run(repetitions), "ms", milliseconds));
    println!("\n### Start and end of one rank among many\n");
    println!("| ranks | median us per rank | by 1,000 ranks |\n|---:|---:|---:|");
    let mut first = None;
    for count in [1000, 4000] {
        let launcher = Launcher::ours(ring);
        let mut contest = Contest::new(String::new());
        contest.add("", move || time(&launcher, count));
        let results = contest.run(repetitions.div_ceil(3));
        let Some(median) = results.entries[0].1.median() else {
            println!("| {count} | failed | |");
            continue;
        };
        let each = median.as_secs_f64() * 1e6 / f64::from(u32::try_from(count).unwrap_or(1));
        let ratio = each / *first.get_or_insert(each);
        println!("| {count} | {each:.0} | {ratio:.2} |");
    }
    Ok(())
}

fn milliseconds(time: Measured) -> f64 {
    time.as_secs_f64() * 1e3
}

fn start(ring: &Ring, count: usize, repetitions: usize) {
    let mut contest = Contest::new(format!("many: start and collect {count} of /bin/true"));
    contest.add("floor: posix_spawn and pipes", move || floor::start(count));
    contest.add("the same, pipes read in order", move || floor::start_and_read_in_order(count));
    let launcher = Launcher::ours(ring);
    contest.add("mpirun", move || time(&launcher, count));
    println!("{}", contest::table(&contest.run(repetitions), "ms", milliseconds));
}

fn time(launcher: &Launcher, count: usize) -> Result<Measured, String> {
    let mut command = launcher.command(count, &[], &["/bin/true"]);
    contest::time(|| floor::run(&mut command))
}

/// From `^C` of a job whose ranks all run, to the end of its `mpirun`.
fn interrupt(launcher: &Launcher, count: usize) -> Result<Measured, String> {
    let mut command = launcher.command(count, &[], &floor::SLEEPER);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut console = command.spawn().map_err(|error| error.to_string())?;
    let ended = when_all_run(&mut console, count).and_then(|()| {
        let pid = i32::try_from(console.id()).map_err(|error| error.to_string())?;
        let begin = Instant::now();
        kill(Pid::from_raw(pid), Signal::SIGINT).map_err(|error| error.to_string())?;
        console.wait().map_err(|error| error.to_string())?;
        Ok(begin.elapsed())
    });
    if ended.is_err() {
        let _ = console.kill();
        let _ = console.wait();
    }
    ended
}

/// Waits for a line of each rank, and until they most likely sleep.
fn when_all_run(console: &mut Child, count: usize) -> Result<(), String> {
    let output = console.stdout.as_mut().ok_or("no output")?;
    let mut lines = vec![0; count];
    output.read_exact(&mut lines).map_err(|error| format!("not all ranks started: {error}"))?;
    floor::let_sleep();
    Ok(())
}

/// A process in a session of its own that uses a CPU until it is killed.
pub(crate) struct Spinner(Child);

impl Spinner {
    pub(crate) fn start() -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new("setsid");
        command.arg(own).arg("spin").stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().map(Self).map_err(|error| format!("setsid: {error}"))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
