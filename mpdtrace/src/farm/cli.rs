//! The command line of `mpdfarm`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use mpd_farm::halt::{self, Halt};

use crate::cli::{RingOptions, seconds};

/// The names of a list, with their ranges expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNames(pub Vec<String>);

fn host_names(text: &str) -> Result<HostNames, String> {
    mpd_placement::hosts::expand_names(text).map(HostNames).map_err(|e| e.to_string())
}

/// Run many commands over the slots of the hosts.
///
/// Each line of standard input, or of FILE, is a task: a command for /bin/sh. With COMMAND, each line is an input
/// instead, and the task is COMMAND with the input in the place of {}, or as its last word if it has no {}. {#} is the number
/// of the task, which is the number of its line. COMMAND as one word is a line for the shell, in which inputs are quoted. {}
/// inside the line's own quotes is refused, because an input could execute commands there. As several words COMMAND is run
/// as it is.
///
/// The tasks run on the members of the ring, or on this host if no daemon runs here. Each host runs as many tasks at a
/// time as it has slots (mpdslots) that no allocation holds; if all are held, mpdfarm waits. Tasks run in the current directory with this environment, so the directory must be on every
/// host. Their standard input is empty. The variable MPD_FARM_TASK has the number of the task. Each task is a process
/// group, and what is left of the group when the task's process ends is killed.
///
/// mpdfarm prints the output of each task as a whole when the task has ended.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdfarm", version, after_help = CODES)]
pub struct FarmCli {
    /// The command for each input
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub command: Vec<OsString>,

    /// Read the lines from this file, not from standard input
    #[arg(short = 'a', long, value_name = "FILE")]
    pub arg_file: Option<PathBuf>,

    /// Slots of each host [default: those of the allocation (mpdalloc), else those of its daemon, else its CPUs]
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub jobs: Option<u32>,

    /// Slots that each task occupies
    #[arg(short = 'n', long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub slots: u32,

    /// Refuse with exit code 125 if allocations hold all slots now (-now)
    #[arg(long)]
    pub now: bool,

    /// Only these members of the ring, like h1,c[1-4]; without a ring, the hosts, which ssh reaches
    #[arg(long, value_name = "HOST,...", value_parser = host_names)]
    pub hosts: Vec<HostNames>,

    /// Repeat a task that fails, up to N times, if possible on another host
    ///
    /// A task that ran on a host that was lost is repeated as well. A task that had not begun there runs elsewhere in any case.
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(..=1000))]
    pub retry: u32,

    /// Time limit of each task: SIGTERM, and SIGKILL 2 s later
    #[arg(long, value_name = "SECONDS", value_parser = limit)]
    pub timeout: Option<Duration>,

    /// End early: never, or now or soon after a number of failures, successes or ends: now,fail=1
    ///
    /// 'now' kills the running tasks; 'soon' lets them end. The kinds are fail=N, success=N and done=N.
    #[arg(long, value_name = "RULE", default_value = "never", value_parser = rule)]
    pub halt: Rule,

    /// Append a line to this file for each task that ended
    ///
    /// The format is that of GNU parallel. A line is written after the output of its task, and all lines are on disk at
    /// most one second later. Tasks that mpdfarm has killed itself, and tasks that were lost with their host, have no line. A
    /// pipe or a device is written and never read.
    #[arg(long, value_name = "FILE")]
    pub joblog: Option<PathBuf>,

    /// Leave out the tasks that the job log has
    ///
    /// An incomplete last line does not count. A command that differs from that in the job log is an error. Recorded failures
    /// count for the exit code.
    #[arg(long, requires = "joblog")]
    pub resume: bool,

    /// Print outputs in the order of the tasks
    #[arg(short = 'k', long)]
    pub keep_order: bool,

    /// Write outputs to DIR/N.out and DIR/N.err, where N is the number of the task
    ///
    /// N.out is made for each task, and N.err if the task wrote to standard error.
    #[arg(long, value_name = "DIR", conflicts_with = "keep_order")]
    pub output_dir: Option<PathBuf>,

    /// Show on standard error how many tasks have ended, the rate and the remaining time
    #[arg(long)]
    pub progress: bool,

    /// Print one line of JSON for each task, with its output
    #[arg(long)]
    pub json: bool,

    /// Which daemon.
    #[command(flatten)]
    pub ring_options: RingOptions,

    /// Run tasks on this host for a farm.
    #[arg(long, hide = true)]
    pub worker: bool,
}

/// The value of `--halt`.
#[derive(Clone, Copy, Debug)]
pub struct Rule(pub Option<Halt>);

const CODES: &str = "\
The exit code is the number of tasks that failed, and 101 for more than 100. With --halt and failures it is the exit code
of the last task that failed. 130 means that a signal (^C) ended the farm, and 141 that the reader of standard output has
gone. 125 is a failure of mpdfarm itself, or a wrong command line, or that no host is left; standard error has the reason.

The first ^C ends the running tasks with SIGTERM, and with SIGKILL after 2 s. The second one does not wait.

The run directory is --rundir, else $MPD_RUNDIR, else $XDG_RUNTIME_DIR/mpd, else /tmp/mpd-UID-HOST;
the last two end in -NAME if the ring has a name.";

fn rule(text: &str) -> Result<Rule, String> {
    halt::parse(text).map(Rule).map_err(|error| error.to_string())
}

fn limit(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        short if short < Duration::from_millis(1) => Err("at least 0.001 seconds".to_owned()),
        limit => Ok(limit),
    }
}
