//! The command line of `mpdsite`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

const FILES: &str = "\
The list of hosts is /etc/mpd/hosts, one host per line:
  HOST[:NCPUS] [roles=submit,run,serve] [gpus=N] [speed=X] [port=N]
'roles' is 'run' unless it is given. 'port' is the port of the starter, 7122 unless it is given.
Outside of /etc/mpd, the file /etc/ssh/ssh_config.d/mpd-suite.conf and marked lines in /etc/ssh/shosts.equiv and
/etc/ssh/ssh_known_hosts are written; 'mpdsite remove' takes them away.
Exit codes: 0, 1 for a failure (reported on standard error) or a finding, 2 for a wrong command line.";

/// Make hosts a site, on which every user starts jobs without ssh keys of his own.
///
/// The administrator writes the list of hosts on one host, runs 'mpdsite init' there, and then 'mpdsite push'. A second
/// sshd, the starter, then runs on each host. It accepts users of the hosts with the role submit by the keys of these hosts,
/// and runs only the boot agent of this suite.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdsite", version, after_help = FILES)]
pub struct SiteCli {
    #[command(subcommand)]
    pub command: SiteCommand,

    /// With init: continue although the other sshd of a host accepts host-based logins; the submit hosts may then log in
    /// there too
    #[arg(long, global = true)]
    pub shared: bool,

    /// With init: print what would be written, and write nothing
    #[arg(short = 'n', long, global = true)]
    pub dry_run: bool,

    /// The remote shell for root
    #[arg(long, global = true, value_name = "PROGRAM", default_value = "ssh")]
    pub rsh: String,

    /// With check: print one line of JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// What `mpdsite` does.
#[derive(Clone, Debug, Subcommand)]
pub enum SiteCommand {
    /// Ask all hosts of the list for their keys, and set up this host
    Init,
    /// Set up all hosts of the list, over root's ssh; remove the starter from hosts that the list no longer has
    Push,
    /// Write what 'push' would send to a tar archive: HOST.json for 'mpdsite receive' on that host
    Pack {
        /// The archive
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Say what is wrong on the hosts of the list, one line per finding
    Check,
    /// Remove the starter from this host
    Remove,
    /// Print the facts of this host as JSON
    #[command(hide = true)]
    Facts {
        /// The port of its starter
        #[arg(long, default_value_t = mpd_site::hosts::PORT)]
        port: u16,
    },
    /// Set up this host as the JSON on standard input says
    Receive,
}
