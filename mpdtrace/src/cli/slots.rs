//! The command lines of the tools of slots.

use std::ffi::OsString;
use std::str::FromStr;

use clap::Parser;
use mpd_alloc::data::{InvalidPattern, MAX_COUNT, Pattern};
use mpd_placement::soft::Soft;

use super::common::{Common, PLACES, RingOptions};

/// List the slots of each host.
///
/// A slot is room for one process. A host has as many as CPUs, or as 'mpd --slots' or the host file of the boot says. Used
/// slots are held by an allocation (mpdalloc), or reserved for one, or have a rank of a job without an allocation. Such a job
/// does not hold its slots: mpdalloc may get them.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdslots", version, after_help = PLACES)]
pub struct SlotsCli {
    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// The patterns of a list, with their ranges expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPatterns(pub Vec<Pattern>);

impl FromStr for HostPatterns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = mpd_placement::hosts::expand_names(text).map_err(|e| e.to_string())?;
        let patterns =
            words.iter().map(|word| word.parse().map_err(|e: InvalidPattern| e.to_string()));
        patterns.collect::<Result<_, _>>().map(Self)
    }
}

/// Hold slots of the ring, and run a command with them.
///
/// mpdalloc waits until the slots are free, and then runs COMMAND, or a shell. mpirun uses exactly these slots there; it
/// finds them by the variable MPD_ALLOC. MPD_ALLOC_SLOTS lists them, as in 'h1:2 h2:1'. The slots are free again when COMMAND has ended. Requests get their slots in the
/// order in which they were made. A later request is first only on hosts that an earlier one cannot use. With time limits
/// (-t) a later one is also first if the earlier one does not start later for that.
///
/// A PATTERN is a host (h1), hosts with ranges (h[1-3]), a beginning (node*), '*' for any host, several with + between them, or ^ and such a list for all
/// other hosts. Several patterns with commas between them are for the first slot, the second one, and so on, and repeat. A
/// draining host is used only if a pattern names it.
///
/// If the daemon of this host dies, mpdalloc waits 15 s for the next one; the slots remain. If a host is lost, its slots
/// are lost, and mpdalloc reports it. If the allocation is cancelled, lost, or its time is over, COMMAND gets the signal
/// SIGHUP.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdalloc", version, after_help = ALLOC_CODES)]
pub struct AllocCli {
    /// Number of slots
    #[arg(short, long = "slots", value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_COUNT)))]
    pub number: u32,

    /// Slots for each process, on one host: -n 4 --each 2 are eight slots, two at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_COUNT)))]
    pub each: u32,

    /// Wait until all slots are free: the default (-hard)
    #[arg(long, conflicts_with = "soft")]
    pub hard: bool,

    /// Take what is free, at least one slot, or the largest number of LIST, as in 2:8:2 (-soft)
    #[arg(long, value_name = "LIST", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "", value_parser = soft)]
    pub soft: Option<String>,

    /// Refuse with exit code 125 if the slots are not free now (-now)
    #[arg(long)]
    pub now: bool,

    /// The allocation ends after this time: SECONDS, MINUTES:SECONDS or HOURS:MINUTES:SECONDS
    #[arg(short, long, value_name = "TIME", value_parser = limit)]
    pub time: Option<u32>,

    /// The host of each slot
    #[arg(long, value_name = "PATTERN,...")]
    pub hosts: Vec<HostPatterns>,

    /// The architecture of each slot, as 'uname -m' prints it
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub arch: Vec<Pattern>,

    /// A string for the site's scheduler: its hook gets it, and COMMAND as MPD_ALLOC_GLOBAL
    #[arg(long, value_name = "STRING")]
    pub info: Option<String>,

    /// Strings for the site's scheduler about each slot; COMMAND gets them in MPD_ALLOC_LOCAL, one per line
    #[arg(long, value_name = "STRING", value_delimiter = ',')]
    pub info_each: Vec<String>,

    /// For mpirun -wait: the program that the user has started.
    #[arg(long, hide = true, value_name = "NAME")]
    pub caller: Option<String>,

    /// For libmpd: serve the program at the other end of standard input, in a process of its own.
    #[arg(long, hide = true)]
    pub serve: bool,

    /// The process that --serve starts.
    #[arg(long, hide = true)]
    pub detached: bool,

    /// Do not print why the request waits and which slots it has
    #[arg(short, long)]
    pub quiet: bool,

    /// Selects the daemon to ask.
    #[command(flatten)]
    pub ring_options: RingOptions,

    /// The command [default: $SHELL, else /bin/sh]
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// List the allocations and the requests that wait for slots.
///
/// Each allocation has a line with its id, its user, its slots, its age and its hosts. Requests that wait follow in the order
/// in which they get slots, each with the reason why it waits.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdqueue", version, after_help = PLACES)]
pub struct QueueCli {
    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// Cancel an allocation or a request for slots.
///
/// The slots are free at once. The command of its mpdalloc gets the signal SIGHUP.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdcancel", version, after_help = PLACES)]
pub struct CancelCli {
    /// The id as 'mpdqueue' lists it, or aNUMBER if it was made on this host
    #[arg(value_name = "ALLOCATION")]
    pub alloc: String,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

const ALLOC_CODES: &str = "\
Exit codes: that of COMMAND, or 128 and the number of the signal that ended it; 126 or 127 if it cannot be executed or is
not found; 1 if there are no slots, or they were cancelled or lost; 2 for a wrong command line; 125 if --now refuses.";

/// A list of numbers of slots; empty: what is free.
fn soft(text: &str) -> Result<String, String> {
    if !text.is_empty() {
        text.parse::<Soft>().map_err(|e| e.to_string())?;
    }
    Ok(text.to_owned())
}

/// A time limit in seconds.
fn limit(text: &str) -> Result<u32, String> {
    const MAX: u64 = 366 * 86_400;
    let parts: Vec<&str> = text.split(':').collect();
    let number = |part: &&str| part.parse::<u32>().ok().map(u64::from);
    let numbers: Option<Vec<u64>> = parts.iter().map(number).collect();
    let seconds = numbers.filter(|numbers| numbers.len() <= 3).and_then(|numbers| {
        let is_clock = numbers.iter().skip(1).all(|&number| number < 60);
        is_clock.then(|| numbers.iter().fold(0, |sum, number| sum * 60 + number))
    });
    match seconds.filter(|seconds| (1..=MAX).contains(seconds)) {
        Some(seconds) => Ok(u32::try_from(seconds).unwrap_or(u32::MAX)),
        None => Err("SECONDS, MINUTES:SECONDS or HOURS:MINUTES:SECONDS is needed".to_owned()),
    }
}
