//! The command line of `mpdboot`, and its exit codes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use mpd_placement::hosts::accounts::Permitted;
use mpd_placement::hosts::{is_host_name, is_user_name};
use mpd_wire::MAX_MEMBERS;

/// Nothing was started, or the request is impossible.
pub(crate) const EXIT_NOTHING: u8 = 1;
/// Exit code: the ring runs, but some hosts are not in it.
pub(crate) const EXIT_PARTIAL: u8 = 3;

/// Start a ring of MPD daemons over ssh: one on this host, and one on each given host
#[derive(Debug, Parser)]
#[command(name = "mpdboot", version, long_about = ABOUT, after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "one per switch of the command line")]
pub(crate) struct Cli {
    /// Number of daemons, including this host's [default: all hosts of --file, of --hosts or of the batch job,
    /// else 1]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_MEMBERS as i64))]
    pub(crate) totalnum: Option<u32>,

    /// Read hosts from this file [default: the hosts of the batch job; else ./mpd.hosts, if -n asks for more than
    /// one]
    #[arg(long, short, value_name = "FILE", conflicts_with = "hosts")]
    pub(crate) file: Option<PathBuf>,

    /// The hosts, separated by commas: a,b:4,c[1-9]; -hosts is the same
    #[arg(long, value_name = "HOSTS", allow_hyphen_values = true)]
    pub(crate) hosts: Option<String>,

    /// Remote shell, also with options; a shell other than ssh gets only HOST and COMMAND [default: srun for
    /// the hosts of a Slurm job, else ssh]
    #[arg(long, short, value_name = "CMD")]
    pub(crate) rsh: Option<String>,

    /// Log in as this user, unless the host file names one
    #[arg(long, short, value_name = "USER", value_parser = user)]
    pub(crate) user: Option<String>,

    /// Permit this account of another name that a host file names: HOST=USER; can be repeated
    #[arg(long, value_name = "HOST=USER")]
    pub(crate) allow_user: Vec<Permitted>,

    /// Path of mpd on all hosts [default: in the directory of this mpdboot]
    #[arg(long, short, value_name = "PATH")]
    pub(crate) mpd: Option<PathBuf>,

    /// A host that is named several times gets several daemons: HOST, HOST-2, HOST-3
    #[arg(long = "several", short = '1')]
    pub(crate) several: bool,

    /// Processes that this host takes before the next host is used [default: its CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ncpus: Option<u32>,

    /// Interface (name or address) by which other hosts reach this host
    #[arg(long, value_name = "NAME", value_parser = interface)]
    pub(crate) ifhn: Option<String>,

    /// Port that all daemons listen on [default: any]
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,

    /// Managers of each daemon that wait for jobs, 0 to 4 [default: $MPD_WAITING on its host, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=4))]
    pub(crate) waiting: Option<u8>,

    /// Program, by its path on all hosts, that each daemon executes for a request for slots; it accepts or refuses the
    /// request [default: $MPD_ALLOC_HOOK on its host]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "private")]
    pub(crate) alloc_hook: Option<PathBuf>,

    /// Name of the ring [default: $MPD_RING, $MPD_CON_EXT, the batch job's id]
    #[arg(long, value_name = "NAME")]
    pub(crate) ring: Option<String>,

    /// Print each step, host by host
    #[arg(long, short, overrides_with = "verbose")]
    pub(crate) verbose: bool,

    /// Show no progress on a terminal
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// First check that all hosts can be reached; if not, list the unreachable hosts and start nothing
    #[arg(long, short)]
    pub(crate) chkup: bool,

    /// Only check that all hosts can be reached
    #[arg(long)]
    pub(crate) chkuponly: bool,

    /// Add hosts to the ring of this host's daemon
    #[arg(long, conflicts_with = "replace")]
    pub(crate) add: bool,

    /// First end a ring of the same name
    #[arg(long)]
    pub(crate) replace: bool,

    /// Let the daemons start dead daemons again
    #[arg(long)]
    pub(crate) keep: bool,

    /// Print a report on standard output as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Remote shells at the same time; with more hosts, running hosts start further hosts
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) window: u32,

    /// Start every host from here, for any number of hosts
    #[arg(long)]
    pub(crate) flat: bool,

    /// Time limit for one host
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) timeout: u32,

    /// Start the user's ring on this host's site (/etc/mpd/hosts), through the starters of the site. It ends by itself when
    /// it has had neither a job nor a console for a while [default if no host, number or ring is given on such a host]
    #[arg(long, conflicts_with_all = ["file", "hosts", "rsh", "user", "mpd", "several", "private", "add", "replace", "hold", "ring"])]
    pub(crate) site: bool,

    /// For mpirun, whose private daemon runs on this host. Key and hosts are read from standard
    /// input. A line on standard output reports that all hosts are in the ring.
    #[arg(long, hide = true, requires = "ring", conflicts_with_all = ["add", "replace", "keep", "hosts", "file"])]
    pub(crate) private: bool,

    /// Boot, report the exit code on descriptor 3, and stay until the remote shells have ended.
    #[arg(long, hide = true, conflicts_with = "private")]
    pub(crate) hold: bool,

    /// Start the daemon of this name again.
    #[arg(long, hide = true, value_name = "NAME", requires = "plan", requires = "join")]
    revive: Option<String>,

    /// With --revive: file of the recipe.
    #[arg(long, hide = true, value_name = "FILE", requires = "revive")]
    plan: Option<PathBuf>,

    /// With --revive: addresses of daemons through which to enter the ring.
    #[arg(long, hide = true, value_name = "ADDRESSES", requires = "revive", value_delimiter = ',')]
    join: Vec<String>,

    #[arg(long, hide = true, value_name = "DIR")]
    generate_docs: Option<PathBuf>,
}

const ABOUT: &str = "\
Start a ring of MPD daemons over ssh: one on this host, and one on each given host.

Without a number and without hosts, mpdboot starts only the daemon of this host; in a batch job it
starts daemons on all hosts of the job. It returns when every daemon has reported that it is in the
ring and this host's daemon lists all of them.

Hosts come from --hosts, or from a file with lines HOST[:NCPUS] [ifhn=NAME] [user=NAME] [port=N].
'#' begins a comment, and HOST may have ranges: c[01-16,20]. This host is always the first of the
ring; it is recognised in the file. A host that is in the file twice is used once.

ssh must log in without a password, and the suite must be at the same path on all hosts.
If the ring's key is missing, mpdboot makes it. The key goes to the hosts through ssh.

./mpd.hosts counts only if it is yours or root's and nobody else can write it. Accounts of another
name get a key, and with it the right to start programs as you. So they count only if the command
line names them (--hosts, --user, --allow-user), or if a file of yours does that -f names and that
nobody else can write or exchange. Their ring then has a key of its own, ~/.mpd.key-RING.

In a Slurm job (sbatch, salloc), mpdboot starts the daemons by srun: one step for this host, and one
for the others. They end with the job, or before by mpdallexit. Each host takes as many processes as
the job has tasks there. If this host is not one of the job's, its daemon ends with the others, and
gets processes only if a job names it. The name of the ring is the id of the Slurm job.

Exit codes: 0 every daemon is in the ring; 1 nothing was started, and standard error has the reason;
2 wrong command line; 3 the ring runs, but some hosts failed; 128+N signal N ended mpdboot, and all
is undone. For failed hosts, a table has the step (resolve, connect, ssh, exec, key, join) and a hint.";

const AFTER_HELP: &str = "\
Examples:
  mpdboot                         only the daemon of this host
  mpdboot -f hosts                one daemon on each host of the file, and one here
  mpdboot --hosts 'c[1-16]'       the same for a list
  mpdboot --add --hosts c17       one more host
  sbatch -N 4 -n 16 --wrap 'mpdboot; mpirun ./a; mpirun ./b'   two jobs on one ring
  mpdboot --chkuponly -f hosts    can they all be reached?
MPD_KEY_FILE names a key file other than ~/.mpd.key, on all hosts.";

/// The role of this process.
pub(crate) enum Role {
    Reviver { name: String, plan: PathBuf, join: Vec<String> },
    Docs(PathBuf),
    Boot,
}

impl Cli {
    /// Reads the command line of this process.
    ///
    /// # Errors
    /// The code to end with, as of [`mpd_docs::arguments::parse`].
    pub(crate) fn read() -> Result<Self, ExitCode> {
        // The spelling of other launchers.
        let spelled = |word: OsString| match word.to_str() {
            Some(text) if text == "-hosts" || text.starts_with("-hosts=") => {
                OsString::from(format!("-{text}"))
            }
            _ => word,
        };
        mpd_docs::arguments::parse(std::env::args_os().map(spelled))
    }

    pub(crate) fn role(&self) -> Role {
        match self {
            Self { revive: Some(name), plan: Some(plan), join, .. } => {
                Role::Reviver { name: name.clone(), plan: plan.clone(), join: join.clone() }
            }
            Self { generate_docs: Some(directory), .. } => Role::Docs(directory.clone()),
            Self { .. } => Role::Boot,
        }
    }
}

fn user(text: &str) -> Result<String, &'static str> {
    let allowed = "it can have letters, digits and . _ -, a letter, digit or _ first";
    is_user_name(text).then(|| text.to_owned()).ok_or(allowed)
}

fn interface(text: &str) -> Result<String, &'static str> {
    let allowed = "the name of a host or a numeric address is wanted";
    is_host_name(text).then(|| text.to_owned()).ok_or(allowed)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_options_of_the_original_get_their_answers() {
        assert_eq!(mpd_docs::original::wrong_examples::<Cli>(), Vec::<String>::new());
    }

    #[test]
    fn the_spellings_of_the_original_are_understood() {
        let cli = Cli::parse_from([
            "mpdboot", "-n", "4", "-f", "h", "-r", "rsh", "-u", "al", "-m", "/m", "-1", "-v", "-c",
        ]);
        assert_eq!((cli.totalnum, cli.rsh.as_deref(), cli.several), (Some(4), Some("rsh"), true));
        let long =
            Cli::parse_from(["mpdboot", "--totalnum=4", "--file=h", "--ncpus=2", "--ifhn=ib"]);
        assert_eq!((long.totalnum, long.ncpus), (Some(4), Some(2)));
        assert!(Cli::try_parse_from(["mpdboot", "-u", "-oProxyCommand=x"]).is_err());
        assert!(Cli::try_parse_from(["mpdboot", "-n", "0"]).is_err());
        assert!(Cli::try_parse_from(["mpdboot", "stray"]).is_err());
    }
}
