//! The command line of `mpdcon`.

use std::path::PathBuf;

use clap::Parser;

use super::verbs;
use crate::cli::RingOptions;

/// Control the ring and its jobs at a prompt.
///
/// Each command at the prompt is a program of MPD under a short name: 'hosts' is mpdtrace, 'spawn -n 4 ./x' is mpirun -n 4 ./x.
/// On a terminal there are a history and, with the Tab key, completion of commands, options, hosts and jobs. Otherwise
/// standard input, or FILE, is a script with a command on each line.
///
/// Words are quoted as in a shell, and '#' begins a comment. A command with '&' as its last word runs in the background.
/// '!' before a line runs it in a shell. On a terminal the commands of ~/.mpdconrc run first.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdcon", version, after_help = verbs::help() + CODES)]
pub struct ConCli {
    /// Run the commands of this file
    #[arg(value_name = "FILE", conflicts_with = "command")]
    pub file: Option<PathBuf>,

    /// Run this command; may be given several times
    #[arg(short, long, value_name = "COMMAND")]
    pub command: Vec<String>,

    /// End at the first command that fails
    #[arg(short = 'e', long)]
    pub errexit: bool,

    /// Selects the daemon to ask.
    #[command(flatten)]
    pub ring_options: RingOptions,
}

const CODES: &str = "
The exit code is that of the last command; 2 for a wrong command line or an unknown command; 127 if its program is not there.";
