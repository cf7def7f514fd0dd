//! The command lines of all tools. Their man pages and completions are made of the same tables.
//!
//! Exit codes are those of `tool`: 0, 1 when something could not be done or is wrong, 2 for a wrong
//! command line, 141 when nobody reads standard output any more.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{ArgGroup, Args, Command, CommandFactory as _, Parser};
use mpd_io::ringname::RingName;
use mpd_io::rundir::{RunDir, host_name};
use mpd_wire::RankSet;
use mpd_wire::message::{InvalidJobRef, JobRef};

use crate::jobs::Wish;

/// Which daemon to ask.
#[derive(Clone, Debug, Default, Args)]
pub struct Place {
    /// Which of your rings on this host [default: $MPD_RING, $MPD_CON_EXT, the batch job's id]
    #[arg(long, value_name = "NAME")]
    pub ring: Option<String>,

    /// Run directory of the daemon to ask
    #[arg(long, value_name = "DIR")]
    pub rundir: Option<PathBuf>,
}

impl Place {
    /// The run directory that applies.
    ///
    /// # Errors
    /// When the name of the ring cannot be one.
    pub fn rundir(&self) -> Result<RunDir> {
        let ring = RingName::resolve(self.ring.as_deref())?;
        Ok(RunDir::resolve(self.rundir.clone(), &ring, &host_name()))
    }

    /// The same place as words for a command on another host, where our environment does not count.
    ///
    /// # Errors
    /// As for [`Place::rundir`].
    pub fn words(&self) -> Result<Vec<String>> {
        let mut words = Vec::new();
        let ring = RingName::resolve(self.ring.as_deref())?;
        if !ring.as_str().is_empty() {
            words.extend(["--ring".to_owned(), ring.to_string()]);
        }
        if let Some(rundir) = &self.rundir {
            words.extend(["--rundir".to_owned(), rundir.display().to_string()]);
        }
        Ok(words)
    }
}

/// Which daemon to ask, and in which form to answer.
#[derive(Clone, Debug, Default, Args)]
pub struct Common {
    /// Which daemon.
    #[command(flatten)]
    pub place: Place,

    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// List the members of the ring.
///
/// One line per host in the order of the ring, this one first. The list is checked by a real message
/// round the ring; while the two disagree (the ring is healing) both are asked for again. If they do
/// not agree in time, the list is printed as this host knows it, with a warning and exit code 1.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdtrace", version, after_help = PLACES)]
pub struct TraceCli {
    /// Long lines: NAME_PORT (ADDRESS), with 'draining' behind where mpddrain said so
    #[arg(short = 'l', long)]
    pub long: bool,

    /// Draw the ring as an SVG picture on standard output
    #[arg(long, conflicts_with_all = ["long", "json"])]
    pub svg: bool,

    /// Have a word from every member, and say over how many steps the question reached it
    #[arg(long, conflicts_with_all = ["long", "svg"])]
    pub trace_hops: bool,

    /// How long list and message may take to agree
    #[arg(long, value_name = "SECONDS", default_value = "8", value_parser = seconds)]
    pub patience: Duration,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,

    /// Write the man pages and completions of all tools of this crate.
    #[arg(long, hide = true, value_name = "DIR")]
    pub generate_docs: Option<PathBuf>,
}

/// Measure how long a message takes round the ring.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdringtest", version, after_help = PLACES)]
pub struct RingtestCli {
    /// How often round the ring
    #[arg(value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub laps: u32,

    /// Also print the time from one member to the next
    #[arg(short, long)]
    pub verbose: bool,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// End all daemons of the ring.
///
/// Silent if all members were told. Members that could not be told are named, with exit code 1.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdallexit", version, after_help = PLACES)]
pub struct AllexitCli {
    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// Let one daemon leave the ring.
///
/// The ring closes behind it at once, and jobs that run there run on. Silent if all members were told.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdexit", version, after_help = PLACES)]
pub struct ExitCli {
    /// NAME or NAME_PORT as 'mpdtrace -l' lists them, or 'localmpd' for the daemon of this host
    #[arg(value_name = "MEMBER")]
    pub member: String,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// Give hosts no new processes, and leave them what they run.
///
/// New jobs and spawned processes go elsewhere, except where a job names such a host (-hosts, -f, -host),
/// which its mpirun then says. Jobs that run there run on. It holds for all hosts of the ring, until
/// --undo or until the daemon there is started again; 'mpdtrace -l' shows it. Silent if all daemons
/// concerned were told; those that could not be told are named, with exit code 1.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpddrain", version, after_help = PLACES)]
pub struct DrainCli {
    /// NAME or NAME_PORT as 'mpdtrace -l' lists them, or 'localmpd' for the daemon of this host
    #[arg(value_name = "MEMBER", required = true)]
    pub members: Vec<String>,

    /// Let them have new processes again
    #[arg(long)]
    pub undo: bool,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// List the jobs of the ring, and those that run without a daemon.
///
/// A block of lines for each process of each job: the job's id, alias and user, the host, the process
/// id, that of the manager there (sid), the rank and the program. With -u only jobs of that user, with
/// -a or -j only those that have the alias or the id. No such job means no output. Hosts that did not
/// answer are named, with exit code 1.
///
/// A job that mpirun runs without a daemon is called pPID, PID being the process id of its mpirun. It is
/// listed on the host of its mpirun, if mpirun could write to the run directory there. Sockets that killed
/// daemons of such jobs left in the run directory are removed.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdlistjobs", version, after_help = PLACES)]
pub struct ListjobsCli {
    /// Only jobs of this user
    #[arg(short, long, value_name = "USER")]
    pub user: Option<String>,

    /// Only jobs that are called so
    #[arg(short, long, value_name = "ALIAS")]
    pub alias: Option<String>,

    /// Only this job: its id, NUMBER for one that was started here, pPID for one without a daemon, or an alias
    #[arg(short, long, value_name = "JOB", value_parser = job_or_alias)]
    pub jobid: Option<JobRef>,

    /// A line for each process: HOST PID SID
    #[arg(long)]
    pub sss: bool,

    /// Each job with its hosts, each host with its processes
    #[arg(long, conflicts_with = "sss")]
    pub tree: bool,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

impl ListjobsCli {
    /// Which jobs are to be listed.
    pub fn wish(&self) -> Wish {
        Wish { user: self.user.clone(), alias: self.alias.clone(), job: self.jobid.clone() }
    }
}

/// List the names that jobs have published, by which other programs find them.
///
/// A line for each name (MPI_Publish_name): the name in quotes, the job that has it, the host where it was
/// published, and what it stands for, in quotes; behind that 'keyed' if only who has its key finds it.
/// No name means no output. They vanish with their jobs. A program gives a name a key by what stands
/// behind it, as in 'ocean#key=deep'; the key itself is not shown.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdnames", version, after_help = PLACES)]
pub struct NamesCli {
    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// Show what hosts and ranks use of their machines.
///
/// A screen that is drawn in place: each host with its load, each rank with the state of its process,
/// the CPU time (100 is one CPU) and memory of that process and all that descend from it, and how much
/// it writes to standard output and error in a second. q ends it. Where output is no terminal, one
/// table is printed, as with --once; with --json alone, a line of JSON for each interval.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdtop", version, after_help = PLACES)]
pub struct TopCli {
    /// Print it once, as it was in one interval, and exit
    #[arg(long)]
    pub once: bool,

    /// How long an interval is
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,

    /// Only this job: NUMBER@HOST, NUMBER for one that was started here, or an alias
    #[arg(short, long, value_name = "JOB", value_parser = job_or_alias)]
    pub jobid: Option<JobRef>,

    /// Only jobs that are called so
    #[arg(short, long, value_name = "ALIAS", conflicts_with = "jobid")]
    pub alias: Option<String>,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

impl TopCli {
    /// Which jobs are to be shown, if not all.
    pub fn job(&self) -> Option<JobRef> {
        self.jobid.clone().or_else(|| self.alias.clone().map(JobRef::Alias))
    }
}

/// End a job of the ring.
///
/// Its processes are killed on all hosts. Silent, and back as soon as the job's manager has been told;
/// mpirun of that job says what became of it. A job without a daemon is found on the host of its mpirun. A name
/// that jobs of several rings have is an error, which lists them.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdkilljob", version, after_help = PLACES)]
#[command(group = ArgGroup::new("which").required(true))]
pub struct KilljobCli {
    /// The id as 'mpdlistjobs' lists it, NUMBER for a job that was started here, pPID for one without a
    /// daemon, or an alias
    #[arg(value_name = "JOB", group = "which", value_parser = job_or_alias)]
    pub job: Option<JobRef>,

    /// The same
    #[arg(short, long, value_name = "JOB", group = "which", value_parser = job_or_alias)]
    pub jobid: Option<JobRef>,

    /// All jobs that are called so
    #[arg(short, long, value_name = "ALIAS", group = "which")]
    pub alias: Option<String>,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

impl KilljobCli {
    /// Which job.
    pub fn job(&self) -> JobRef {
        meant(self.job.as_ref().or(self.jobid.as_ref()), self.alias.as_deref())
    }
}

/// Send a signal to the ranks of a job.
///
/// Silent, and back as soon as the job's manager has been told. A job without a daemon is found on the host
/// of its mpirun. A name that jobs of several rings have is an error, which lists them.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdsigjob", version, after_help = PLACES)]
#[command(group = ArgGroup::new("which").required(true))]
pub struct SigjobCli {
    /// A number, or a name: INT, SIGINT or -INT
    #[arg(value_name = "SIGNAL", value_parser = crate::signal::parse)]
    pub signal: u8,

    /// The id as 'mpdlistjobs' lists it, NUMBER for a job that was started here, pPID for one without a
    /// daemon, or an alias
    #[arg(value_name = "JOB", group = "which", value_parser = job_or_alias)]
    pub job: Option<JobRef>,

    /// The same
    #[arg(short, long, value_name = "JOB", group = "which", value_parser = job_or_alias)]
    pub jobid: Option<JobRef>,

    /// All jobs that are called so
    #[arg(short, long, value_name = "ALIAS", group = "which")]
    pub alias: Option<String>,

    /// Only to the process of each rank
    #[arg(short, long)]
    pub single: bool,

    /// To the process group of each rank; this is the default
    #[arg(short, long, conflicts_with = "single")]
    pub group: bool,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

impl SigjobCli {
    /// Which job.
    pub fn job(&self) -> JobRef {
        meant(self.job.as_ref().or(self.jobid.as_ref()), self.alias.as_deref())
    }
}

/// Give the standard input of a job to other ranks.
///
/// What mpirun reads from now on goes to RANKS; what it has read before still goes to those that received
/// it. While nobody receives, mpirun reads nothing more, and what is under way is dropped. A rank can
/// receive if the job's -s named it, or whichever it is if the job was started with -stdin-switch; one
/// that closed its input or ended does not again. Silent, and back as soon as the job's manager has been
/// told. A job without a daemon is found on the host of its mpirun. A name that jobs of several rings have is
/// an error, which lists them.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdstdin", version, after_help = PLACES)]
pub struct StdinCli {
    /// The id as 'mpdlistjobs' lists it, NUMBER for a job that was started here, pPID for one without a
    /// daemon, or an alias
    #[arg(value_name = "JOB", value_parser = job_or_alias)]
    pub job: JobRef,

    /// The ranks: all, none, 3, or 0,2-4
    #[arg(value_name = "RANKS", value_parser = str::parse::<RankSet>)]
    pub ranks: RankSet,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// Remove what a daemon that died left behind, also the daemon of a job that ran without a standing one.
///
/// Refuses where a daemon lives. Records of jobs stay: their managers may be running, and the next
/// daemon takes care of them.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdcleanup", version, after_help = PLACES)]
pub struct CleanupCli {
    /// Clean up on these hosts too, one per line
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// How to run a command on a host
    #[arg(short, long, value_name = "RSH", default_value = "ssh", requires = "file")]
    pub rsh: String,

    /// As whom on the hosts [default: as RSH does]
    #[arg(short, long, value_name = "USER", requires = "file")]
    pub user: Option<String>,

    /// Say what is removed
    #[arg(short, long)]
    pub verbose: bool,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// See whether the daemon of another host answers, and how fast.
///
/// The daemon of this host makes the connection, with its key, as it would to enter that ring.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdping", version, after_help = PLACES)]
pub struct PingCli {
    /// A member of the ring, or HOST or HOST:PORT of any daemon
    #[arg(value_name = "HOST")]
    pub target: String,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// Print what happens to the ring, as it happens.
///
/// Ends with ^C; with exit code 1 when the daemon ends.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdwatch", version, after_help = PLACES)]
pub struct WatchCli {
    /// Options of all consoles; each event is a line of JSON.
    #[command(flatten)]
    pub common: Common,
}

/// Find out what would keep this host, or several, from carrying a ring.
///
/// No output means no problem. Each problem is a line that begins with '*** ' and says what is wrong
/// and how to mend it; with any, the exit code is 1.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdcheck", version, after_help = PLACES)]
pub struct CheckCli {
    /// Other hosts to look at from here
    #[arg(value_name = "HOST")]
    pub hosts: Vec<String>,

    /// Take further hosts from this file, one per line
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Let the hosts look at themselves over ssh, compare keys, and try connections both ways (-ssh)
    #[arg(long)]
    pub ssh: bool,

    /// Also say what is in order
    #[arg(short, long)]
    pub verbose: bool,

    /// Also say why problems matter
    #[arg(short, long)]
    pub long: bool,

    /// Print the configuration that host names depend on, and exit (-pc)
    #[arg(long = "pc")]
    pub print_config: bool,

    /// Wait for one connection of 'mpdcheck -c', and exit
    #[arg(short, long, conflicts_with_all = ["hosts", "file", "ssh", "print_config", "client"])]
    pub server: bool,

    /// Connect to an 'mpdcheck -s', and exit
    #[arg(short, long, num_args = 2, value_names = ["HOST", "PORT"])]
    pub client: Option<Vec<String>>,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

impl CheckCli {
    /// `-pc` and `-ssh` as people know them, written with two dashes for the parser.
    pub fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
        let mut options = true;
        let mut long = |word: OsString| {
            options &= word != "--";
            match word.to_str() {
                Some(known @ ("-pc" | "-ssh")) if options => format!("-{known}").into(),
                _ => word,
            }
        };
        given.map(&mut long).collect()
    }
}

/// List the programs of MPD.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdhelp", version)]
pub struct HelpCli {
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// All tools of this crate.
pub fn commands() -> Vec<Command> {
    vec![
        TraceCli::command(),
        RingtestCli::command(),
        WatchCli::command(),
        PingCli::command(),
        ExitCli::command(),
        AllexitCli::command(),
        DrainCli::command(),
        ListjobsCli::command(),
        NamesCli::command(),
        TopCli::command(),
        KilljobCli::command(),
        SigjobCli::command(),
        StdinCli::command(),
        CleanupCli::command(),
        CheckCli::command(),
        HelpCli::command(),
    ]
}

const PLACES: &str = "\
The run directory is --rundir, else $MPD_RUNDIR, else $XDG_RUNTIME_DIR/mpd, else /tmp/mpd-UID-HOST;
the last two with -NAME behind for a ring that has a name.
Exit codes: 0, 1 for a failure (told on standard error), 2 for a wrong command line.";

/// The one of the two that was given.
fn meant(job: Option<&JobRef>, alias: Option<&str>) -> JobRef {
    job.cloned().unwrap_or_else(|| JobRef::Alias(alias.unwrap_or_default().to_owned()))
}

/// `NUMBER`, `NUMBER@HOST`, or what is neither.
fn job_or_alias(text: &str) -> Result<JobRef, InvalidJobRef> {
    JobRef::or_alias(text).ok_or(InvalidJobRef)
}

/// A duration in seconds, fractions allowed.
fn seconds(text: &str) -> Result<Duration, String> {
    const MAX: f64 = 86_400.0;
    match text.parse::<f64>() {
        Ok(number) if (0.0..=MAX).contains(&number) => Ok(Duration::from_secs_f64(number)),
        _ => Err(format!("a number of seconds from 0 to {MAX} is needed")),
    }
}

/// Time between samples: no daemon is to be kept busy by that.
fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    match seconds(text)? {
        short if short < LEAST => Err(format!("at least {} seconds", LEAST.as_secs_f64())),
        long => Ok(long),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_finite_and_bounded() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        for bad in ["", "x", "-1", "inf", "nan", "1e9"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_single_dashes_of_old_are_understood() {
        let words = ["mpdcheck", "-pc", "-ssh", "-s", "--", "-pc"].map(OsString::from);
        let expected = ["mpdcheck", "--pc", "--ssh", "-s", "--", "-pc"].map(OsString::from);
        assert_eq!(CheckCli::arguments(words.into_iter()), expected);
    }

    #[test]
    fn the_tables_of_options_are_sound() {
        for command in commands() {
            command.debug_assert();
        }
        TraceCli::command().debug_assert();
    }
}
