//! The lower bound of every launcher: starting processes with pipes, reading the pipes to their end, and waiting
//! for the processes. `std::process::Command` uses posix_spawn(3) for this.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Starts `count` processes of /bin/true, reads all pipes to their end, and waits for all.
pub(crate) fn start(count: usize) -> Result<Duration, String> {
    let begin = Instant::now();
    let (mut children, mut pipes) = with_pipes(count)?;
    let mut buffer = vec![0; 64 * 1024];
    while !pipes.is_empty() {
        let mut waiting: Vec<_> =
            pipes.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut waiting, PollTimeout::NONE).map_err(|error| error.to_string())?;
        let ready: Vec<bool> = waiting.iter().map(|one| one.any() == Some(true)).collect();
        let mut ready = ready.into_iter();
        pipes.retain(|pipe| {
            let is_ready = ready.next() == Some(true);
            !is_ready || nix::unistd::read(pipe, &mut buffer).is_ok_and(|count| count > 0)
        });
    }
    children.iter_mut().try_for_each(succeed)?;
    Ok(begin.elapsed())
}

/// The same without waiting for several pipes at once, which takes longer the more there are. The processes write
/// nothing.
pub(crate) fn start_and_read_in_order(count: usize) -> Result<Duration, String> {
    let begin = Instant::now();
    let (mut children, pipes) = with_pipes(count)?;
    let mut buffer = [0; 64];
    for pipe in pipes {
        while nix::unistd::read(&pipe, &mut buffer).map_err(|error| error.to_string())? > 0 {}
    }
    children.iter_mut().try_for_each(succeed)?;
    Ok(begin.elapsed())
}

/// A program that prints a line and sleeps.
pub(crate) const SLEEPER: [&str; 3] = ["sh", "-c", "echo; exec sleep 600"];

/// Waits until sleepers that have printed their line most likely sleep.
pub(crate) fn let_sleep() {
    std::thread::sleep(Duration::from_millis(300));
}

/// The time from SIGINT to the end of the last of `count` processes that sleep.
pub(crate) fn interrupt(count: usize) -> Result<Duration, String> {
    let (mut children, mut pipes) = with_pipes_of(count, &SLEEPER)?;
    let mut line = [0; 1];
    // The first pipe of each is its standard output.
    for pipe in pipes.iter_mut().step_by(2) {
        nix::unistd::read(pipe, &mut line).map_err(|error| error.to_string())?;
    }
    let_sleep();
    let begin = Instant::now();
    for child in &children {
        let pid = i32::try_from(child.id()).map_err(|error| error.to_string())?;
        kill(Pid::from_raw(pid), Signal::SIGINT).map_err(|error| error.to_string())?;
    }
    children
        .iter_mut()
        .try_for_each(|child| child.wait().map(drop).map_err(|error| error.to_string()))?;
    Ok(begin.elapsed())
}

/// Processes of /bin/true, and two pipes for each.
fn with_pipes(count: usize) -> Result<(Vec<Child>, Vec<OwnedFd>), String> {
    with_pipes_of(count, &["/bin/true"])
}

/// Processes of a program, and two pipes for each.
fn with_pipes_of(count: usize, program: &[&str]) -> Result<(Vec<Child>, Vec<OwnedFd>), String> {
    let mut children = Vec::with_capacity(count);
    let mut pipes: Vec<OwnedFd> = Vec::with_capacity(2 * count);
    for _ in 0..count {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        pipes.extend(child.stdout.take().map(OwnedFd::from));
        pipes.extend(child.stderr.take().map(OwnedFd::from));
        children.push(child);
    }
    Ok((children, pipes))
}

/// Runs a command that must succeed, and reads its output through a pipe.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    count_output(command).map(drop)
}

/// The same; returns the number of output bytes.
pub(crate) fn count_output(command: &mut Command) -> Result<usize, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let count = child.stdout.take().map_or(Ok(0), |mut stdout| drain(&mut stdout))?;
    succeed(&mut child)?;
    Ok(count)
}

/// Runs a program without output, without a pipe.
pub(crate) fn wait_for(program: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    succeed(&mut command.spawn().map_err(|error| error.to_string())?)
}

/// Several writers into one pipe.
pub(crate) struct Writers {
    program: Vec<String>,
    count: usize,
}

impl Writers {
    pub(crate) fn new(program: &[&str], count: usize) -> Self {
        Self { program: program.iter().map(|&word| word.to_owned()).collect(), count }
    }

    /// Reads all output of the writers, through `cat` if requested.
    pub(crate) fn run(&mut self, expected: usize, through_cat: bool) -> Result<Duration, String> {
        let error = |error: std::io::Error| error.to_string();
        let begin = Instant::now();
        let (mut reader, writer) = std::io::pipe().map_err(error)?;
        let mut children = Vec::new();
        for _ in 0..self.count {
            let mut command = Command::new(&self.program[0]);
            command.args(&self.program[1..]).stdin(Stdio::null());
            command.stdout(writer.try_clone().map_err(error)?);
            children.push(command.spawn().map_err(error)?);
        }
        drop(writer);
        let count = if through_cat {
            let mut cat = Command::new("cat");
            let mut cat = cat.stdin(reader).stdout(Stdio::piped()).spawn().map_err(error)?;
            let count = cat.stdout.take().map_or(Ok(0), |mut stdout| drain(&mut stdout))?;
            succeed(&mut cat)?;
            count
        } else {
            drain(&mut reader)?
        };
        children.iter_mut().try_for_each(succeed)?;
        let time = begin.elapsed();
        if count == expected { Ok(time) } else { Err(format!("{count} bytes of {expected}")) }
    }
}

fn drain(from: &mut impl Read) -> Result<usize, String> {
    let mut buffer = vec![0; 1 << 20];
    let mut all = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(all),
            Ok(count) => all += count,
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn succeed(child: &mut Child) -> Result<(), String> {
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}
