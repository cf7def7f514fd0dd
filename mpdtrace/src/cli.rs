//! The command lines of all tools. Their man pages and completions are made from the same tables.
//!
//! Exit codes are those of `tool`: 0; 1 for a failure or a problem; 2 for a wrong command line; 141 when the
//! reader of standard output has closed it.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use clap::{ArgGroup, Command, CommandFactory as _, Parser, value_parser};
use mpd_wire::RankSet;
use mpd_wire::job::LabelFormat;
use mpd_wire::message::{InvalidJobRef, JobRef};

use crate::all_users::AllUsers;
use crate::jobs::JobFilter;

mod common;
mod site;
mod slots;

use common::PLACES;
pub use common::{Common, RingOptions};
pub use site::{SiteCli, SiteCommand};
pub use slots::{AllocCli, CancelCli, QueueCli, SlotsCli};

/// Between samples of a table.
const TABLE_INTERVAL: Duration = Duration::from_secs(1);

/// Between two versions of a file with metrics.
const FILE_INTERVAL: Duration = Duration::from_secs(15);

/// List the members of the ring.
///
/// Prints one line per host in the order of the ring, this host first. A message round the ring checks the list. If both
/// disagree, because the ring is healing, mpdtrace repeats both. If they do not agree in time, it prints the list of this
/// host, with a warning and exit code 1.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdtrace", version, after_help = PLACES)]
pub struct TraceCli {
    /// Long lines: NAME_PORT (ADDRESS), the number of slots, and 'draining' after mpddrain
    #[arg(short = 'l', long)]
    pub long: bool,

    /// Draw the ring as an SVG picture on standard output
    #[arg(long, conflicts_with_all = ["long", "json"])]
    pub svg: bool,

    /// Ask every member, and print over how many steps the request reached it
    #[arg(long, conflicts_with_all = ["long", "svg"])]
    pub trace_hops: bool,

    /// Time limit for list and message to agree
    #[arg(long, value_name = "SECONDS", default_value = "8", value_parser = seconds)]
    pub patience: Duration,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,

    /// Write the man pages and completions of all tools of this crate.
    #[arg(long, hide = true, value_name = "DIR")]
    pub generate_docs: Option<PathBuf>,
}

/// Measure the time of a message round the ring.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdringtest", version, after_help = PLACES)]
pub struct RingtestCli {
    /// Number of laps round the ring
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
/// Prints nothing if all members received the order. Otherwise it names the other members, with exit code 1.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdallexit", version, after_help = PLACES)]
pub struct AllexitCli {
    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// Let one daemon leave the ring.
///
/// The other members continue as a ring at once, and jobs on this host continue. Prints nothing if all members received
/// the message.
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

/// Exclude hosts from new processes; running processes continue.
///
/// New jobs and spawned processes go to other hosts. A job that names such a host (-hosts, -f, -host) still uses it, and
/// its mpirun reports this. All hosts of the ring know the state, and 'mpdtrace -l' shows it. It ends with --undo, or when
/// the daemon there is started again. Prints nothing if all these daemons received the order. Otherwise it names the other
/// daemons, with exit code 1.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpddrain", version, after_help = PLACES)]
pub struct DrainCli {
    /// NAME or NAME_PORT as 'mpdtrace -l' lists them, also with ranges (h[1-3]), or 'localmpd' for the daemon of this host
    #[arg(value_name = "MEMBER", required = true)]
    pub members: Vec<String>,

    /// Give these hosts new processes again
    #[arg(long)]
    pub undo: bool,

    /// With --all-users: only while a session is active at a seat of the host
    #[arg(long, requires = "all_users", conflicts_with = "undo")]
    pub while_active: bool,

    /// For root.
    #[command(flatten)]
    pub all: AllUsers,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// List the jobs of the ring, and the jobs without a daemon.
///
/// Each process of each job has a block of lines: the job's id, alias and user, the host, the process id, the rank and the
/// program. The sid is the process id of the manager there. -u selects a user, -a an alias, and -j a job. Without such a job
/// there is no output. Hosts that did not answer are named, with exit code 1.
///
/// A job that mpirun runs without a daemon has the name pPID, where PID is the process id of its mpirun. It is listed on
/// the host of its mpirun, if the run directory there is writable. mpdlistjobs removes sockets that killed
/// daemons of such jobs left in the run directory.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdlistjobs", version, after_help = PLACES)]
pub struct ListjobsCli {
    /// Only this job: its id, NUMBER if it was started here, pPID if it has no daemon, or an alias
    #[arg(value_name = "JOB", value_parser = job_or_alias, conflicts_with = "jobid")]
    pub job: Option<JobRef>,

    /// List only jobs of this user
    #[arg(short, long, value_name = "USER")]
    pub user: Option<String>,

    /// Only jobs with this alias
    #[arg(short, long, value_name = "ALIAS")]
    pub alias: Option<String>,

    /// The same as JOB
    #[arg(short, long, value_name = "JOB", value_parser = job_or_alias)]
    pub jobid: Option<JobRef>,

    /// Print one line for each process: HOST PID SID
    #[arg(long)]
    pub sss: bool,

    /// Print each job with its hosts, and each host with its processes
    #[arg(long, conflicts_with = "sss")]
    pub tree: bool,

    /// For root.
    #[command(flatten)]
    pub all: AllUsers,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

impl ListjobsCli {
    /// The jobs to list.
    pub fn filter(&self) -> JobFilter {
        let job = self.job.as_ref().or(self.jobid.as_ref()).cloned();
        JobFilter { user: self.user.clone(), alias: self.alias.clone(), job }
    }
}

/// List the names that jobs have published for other programs.
///
/// Each name (MPI_Publish_name) has a line: the name in quotes, its job, the host where it was published, and its value in
/// quotes. 'keyed' follows if the name has a key. Without names there is no output. Names vanish with their jobs. A program
/// gives a name a key by a suffix, as in 'ocean#key=deep'; the key is not shown.
///
/// Programs of Open MPI may also publish values that are no texts, shown as data. 'once' follows if the first reader takes the
/// name back, and 'for' with the only processes that find it, as in 'for host h1'. With --json, names and values are as the
/// ring has them.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdnames", version, after_help = PLACES)]
pub struct NamesCli {
    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// Start further processes of a running job, or retire some.
///
/// The further processes run the last program of the job. They form a world of their own, like spawned processes without a
/// parent, and the job lasts until they have ended too. The options for spawned processes (-spawn-policy, -spawn-limit) apply.
///
/// With -N, the N highest running ranks are retired: the process group of each gets SIGTERM. If such a rank ends by this
/// signal or with exit code 0, that is no failure. A rank that does not end continues to run. At least one rank must remain.
///
/// Prints nothing. If the processes cannot be started or retired, the mpirun of the job reports it.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdgrow", version, after_help = PLACES)]
pub struct GrowCli {
    /// The id as 'mpdlistjobs' lists it, NUMBER if the job was started here, pPID if it has no daemon,
    /// or an alias
    #[arg(value_name = "JOB", value_parser = job_or_alias)]
    pub job: JobRef,

    /// How many processes more, or fewer
    #[arg(value_name = "+N|-N", allow_hyphen_values = true, value_parser = crate::growth::change)]
    pub change: crate::growth::Change,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// Show the CPU time, memory and output of hosts and ranks.
///
/// The screen shows each host with its load, and each rank with the state of its process. CPU time (100 is one CPU) and
/// memory include the descendants of that process. Output is the bytes per second on standard output and error. The key q
/// ends the program. If the output is no terminal, mpdtop prints one table, as with --once. With --json but without
/// --once, it prints a line of JSON for each interval.
///
/// --openmetrics prints metrics of the ring, its hosts and its jobs for monitoring systems. With --file, mpdtop
/// replaces the file at each interval. The reader sees the old or the new text, never a part. With --listen, mpdtop
/// answers HTTP requests (GET) on a Unix socket, which only this user can open. In both cases the value of mpd_up is 0 while
/// the daemon does not answer. SIGTERM and SIGINT end mpdtop; it then removes the file or the socket.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdtop", version, after_help = PLACES)]
pub struct TopCli {
    /// Only this job: its id, NUMBER if it was started here, or an alias
    #[arg(value_name = "JOB", value_parser = job_or_alias, conflicts_with_all = ["jobid", "alias"])]
    pub job: Option<JobRef>,

    /// Print the values of one interval, and exit
    #[arg(long)]
    pub once: bool,

    /// Length of an interval [default: 1]
    #[arg(short, long, value_name = "SECONDS", value_parser = interval)]
    pub interval: Option<Duration>,

    /// The same as JOB
    #[arg(short, long, value_name = "JOB", value_parser = job_or_alias)]
    pub jobid: Option<JobRef>,

    /// Only jobs with this alias
    #[arg(short, long, value_name = "ALIAS", conflicts_with = "jobid")]
    pub alias: Option<String>,

    /// Print the present values as OpenMetrics text, for Prometheus and others
    #[arg(long, conflicts_with_all = ["once", "json"])]
    pub openmetrics: bool,

    /// Write the metrics to this file at each interval [default interval: 15 s]
    #[arg(long, value_name = "FILE", requires = "openmetrics")]
    pub file: Option<PathBuf>,

    /// Answer HTTP requests on this Unix socket with the metrics
    #[arg(long, value_name = "SOCKET", requires = "openmetrics", conflicts_with_all = ["file", "interval"])]
    pub listen: Option<PathBuf>,

    /// Also print the metrics of each rank
    #[arg(long, requires = "openmetrics")]
    pub per_rank: bool,

    /// For root.
    #[command(flatten)]
    pub all: AllUsers,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

impl TopCli {
    /// Length of an interval. A file is written less often, because its readers look every 15 s or less often.
    pub fn interval(&self) -> Duration {
        let default = if self.file.is_some() { FILE_INTERVAL } else { TABLE_INTERVAL };
        self.interval.unwrap_or(default)
    }

    /// The jobs to show; `None` for all jobs.
    pub fn job(&self) -> Option<JobRef> {
        let job = self.job.as_ref().or(self.jobid.as_ref()).cloned();
        job.or_else(|| self.alias.clone().map(JobRef::Alias))
    }
}

/// End a job of the ring.
///
/// The manager kills the processes of the job on all hosts. mpdkilljob prints nothing, and returns when the manager has
/// the order. The mpirun of that job reports the result. A job without a daemon is found on the host of its mpirun. If
/// jobs of several rings have the name, this is an error with a list of these jobs.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdkilljob", version, after_help = PLACES)]
#[command(group = ArgGroup::new("which").required(true))]
pub struct KilljobCli {
    /// The id as 'mpdlistjobs' lists it, NUMBER if the job was started here, pPID if it has no daemon,
    /// or an alias
    #[arg(value_name = "JOB", group = "which", value_parser = job_or_alias)]
    pub job: Option<JobRef>,

    /// Where the job with this NUMBER was started: NAME or NAME_PORT as 'mpdtrace -l' lists them
    #[arg(value_name = "MEMBER", requires = "job")]
    pub member: Option<String>,

    /// The same as JOB
    #[arg(short, long, value_name = "JOB", group = "which", value_parser = job_or_alias)]
    pub jobid: Option<JobRef>,

    /// All jobs with this alias
    #[arg(short, long, value_name = "ALIAS", group = "which")]
    pub alias: Option<String>,

    /// For root.
    #[command(flatten)]
    pub all: AllUsers,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

impl KilljobCli {
    /// The job to end.
    pub fn job(&self) -> JobRef {
        meant(self.job.as_ref().or(self.jobid.as_ref()), self.alias.as_deref())
    }
}

/// Print the state of a daemon, or of a job's manager.
///
/// For bug reports: the state of the daemon's ring machine as text for developers. With JOB, the state of the machine of
/// the manager that the job has on this host. Run the tool on another host for the manager there. The text has names and
/// addresses of hosts. It has no keys, and at most 512 KiB.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdstate", version, after_help = PLACES)]
pub struct StateCli {
    /// The id that 'mpdlistjobs' lists, NUMBER for a job of this daemon, pPID for a job without a daemon, or an alias
    #[arg(value_name = "JOB", value_parser = job_or_alias)]
    pub job: Option<JobRef>,

    /// Which daemon.
    #[command(flatten)]
    pub ring_options: RingOptions,
}

/// Send a signal to the ranks of a job.
///
/// Prints nothing, and returns when the job's manager has the order. A job without a daemon is found on the host of its
/// mpirun. If jobs of several rings have the name, this is an error with a list of these jobs.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdsigjob", version, after_help = PLACES)]
#[command(group = ArgGroup::new("which").required(true))]
pub struct SigjobCli {
    /// The signal: a number or a name, for instance 2, INT, SIGINT or -INT
    #[arg(value_name = "SIGNAL", value_parser = crate::signal::parse)]
    pub signal: u8,

    /// The id as 'mpdlistjobs' lists it, NUMBER if the job was started here, pPID if it has no daemon,
    /// or an alias
    #[arg(value_name = "JOB", group = "which", value_parser = job_or_alias)]
    pub job: Option<JobRef>,

    /// The same as JOB
    #[arg(short, long, value_name = "JOB", group = "which", value_parser = job_or_alias)]
    pub jobid: Option<JobRef>,

    /// All jobs with this alias
    #[arg(short, long, value_name = "ALIAS", group = "which")]
    pub alias: Option<String>,

    /// Signal only the process of each rank
    #[arg(short, long)]
    pub single: bool,

    /// Signal the process group of each rank; this is the default
    #[arg(short, long, conflicts_with = "single")]
    pub group: bool,

    /// For root.
    #[command(flatten)]
    pub all: AllUsers,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

impl SigjobCli {
    /// The job to signal.
    pub fn job(&self) -> JobRef {
        meant(self.job.as_ref().or(self.jobid.as_ref()), self.alias.as_deref())
    }
}

/// Give the standard input of a job to other ranks.
///
/// Input that mpirun reads from now on goes to RANKS. Input that it has already read goes to the earlier receivers.
/// Without receivers, mpirun stops reading, and input on its way is dropped. A rank can receive input if the job's -s
/// named it; with -stdin-switch every rank can. A rank that closed its input, or has ended, cannot. mpdstdin prints
/// nothing, and returns when the job's manager has the order. A job without a daemon is found on the host of its mpirun.
/// If jobs of several rings have the name, this is an error with a list of these jobs.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdstdin", version, after_help = PLACES)]
pub struct StdinCli {
    /// The id as 'mpdlistjobs' lists it, NUMBER if the job was started here, pPID if it has no daemon,
    /// or an alias
    #[arg(value_name = "JOB", value_parser = job_or_alias)]
    pub job: JobRef,

    /// The new receivers: all, none, 3, or 0,2-4
    #[arg(value_name = "RANKS", value_parser = str::parse::<RankSet>)]
    pub ranks: RankSet,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// Label the output of a running job, or print it without labels.
///
/// The lines that the job's mpirun prints get the label from now on, as with -l or -label-fmt of mpirun. A line that has begun
/// keeps its label. Lines in files of -outfile-pattern have no labels. The job of a debugger keeps its labels. mpdlabels
/// prints nothing, and returns when the job's manager has the order.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdlabels", version, after_help = PLACES)]
pub struct LabelsCli {
    /// The id as 'mpdlistjobs' lists it, NUMBER if the job was started here, pPID if it has no daemon,
    /// or an alias
    #[arg(value_name = "JOB", value_parser = job_or_alias)]
    pub job: JobRef,

    /// The label: on (the rank), off, or a pattern such as '%r on %h'. A colon and a space follow
    #[arg(value_name = "on|off|FORMAT", value_parser = str::parse::<Labelling>)]
    pub label: Labelling,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// The label before each line, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelling(pub Option<LabelFormat>);

impl FromStr for Labelling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Self::from_str("%r"),
            "off" => Ok(Self(None)),
            "" => Err("the label is empty; off prints lines without labels".to_owned()),
            text => LabelFormat::try_from(format!("{text}: ")).map(|format| Self(Some(format))),
        }
    }
}

/// Remove the leftovers of a dead daemon, also of the daemon of a private ring.
///
/// Refuses if a daemon is alive there. Records of jobs stay, because their managers may be running; the next daemon handles
/// them.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdcleanup", version, after_help = PLACES)]
pub struct CleanupCli {
    /// Also clean up on the hosts of this file, one per line
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// The remote shell that runs a command on a host
    #[arg(short, long, value_name = "RSH", default_value = "ssh", requires = "file")]
    pub rsh: String,

    /// User on the hosts [default: that of RSH]
    #[arg(short, long, value_name = "USER", requires = "file")]
    pub user: Option<String>,

    /// Only the first N hosts of the file
    #[arg(short = 'n', long = "first", value_name = "N", requires = "file")]
    pub first: Option<usize>,

    /// Print what is removed
    #[arg(short, long)]
    pub verbose: bool,

    /// Show no progress on a terminal
    #[arg(short, long)]
    pub quiet: bool,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// Measure if the daemon of another host answers, and how fast.
///
/// The daemon of this host opens the connection with its key, as if it entered that ring.
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

/// Print the events of the ring, or of a job, when they happen.
///
/// ^C ends it. Without --job, it ends with exit code 1 when the daemon ends. With --job, it ends with exit code 0 after
/// the last event of the job. If the daemon is replaced meanwhile, it continues with the next event through the new one.
///
/// The events of a job have numbers from 1, and all programs that follow the job get the same events with the same
/// numbers. There is an event when a rank is started or has ended, and when a host is added to the ring, is draining, is
/// lost, or left. The last event is the end of the job. The newest 16384 events are kept, and for 60 s after the end of a
/// job if a program has followed it. A line 'gap' stands for events that are no longer kept.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdwatch", version, after_help = PLACES)]
pub struct WatchCli {
    /// The events of this job: its id as 'mpdlistjobs' lists it, NUMBER if the job was started here, or an alias
    #[arg(value_name = "JOB", group = "which", value_parser = job_or_alias)]
    pub job: Option<JobRef>,

    /// The same as JOB
    #[arg(short, long = "job", id = "option", value_name = "JOB", group = "which", value_parser = job_or_alias)]
    pub jobid: Option<JobRef>,

    /// With JOB: the number of the first event [default: the oldest one that is kept]
    #[arg(long, value_name = "NUMBER", requires = "which", value_parser = value_parser!(u64).range(1..))]
    pub from: Option<u64>,

    /// Options of all consoles. With `--json`, each event is a line of JSON.
    #[command(flatten)]
    pub common: Common,
}

/// Find problems that prevent a ring on this host or on several hosts.
///
/// Without problems there is no output. Each problem has a line that begins with '*** ', names the problem and proposes a
/// solution. The exit code is 1 then.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdcheck", version, after_help = PLACES)]
pub struct CheckCli {
    /// Other hosts to check from here, also with ranges: h[1-3]
    #[arg(value_name = "HOST")]
    pub hosts: Vec<String>,

    /// Read further hosts from this file, one per line
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Check the hosts themselves over ssh, compare keys, and try connections in both directions (-ssh)
    #[arg(long)]
    pub ssh: bool,

    /// Check all hosts of the site, as 'mpdsite check' does; for root
    #[arg(long, conflicts_with_all = ["hosts", "file", "ssh", "verbose", "long", "print_config", "server", "client"])]
    pub site: bool,

    /// Also print what is correct
    #[arg(short, long)]
    pub verbose: bool,

    /// Also print why problems matter
    #[arg(short, long)]
    pub long: bool,

    /// Print the configuration for host names, and exit (-pc)
    #[arg(long = "pc")]
    pub print_config: bool,

    /// Wait for one connection of 'mpdcheck -c', and exit
    #[arg(short, long, conflicts_with_all = ["hosts", "file", "ssh", "print_config", "client"])]
    pub server: bool,

    /// Connect to a waiting 'mpdcheck -s', and exit
    #[arg(short, long, num_args = 2, value_names = ["HOST", "PORT"])]
    pub client: Option<Vec<String>>,

    /// Options of all consoles.
    #[command(flatten)]
    pub common: Common,
}

/// List the programs of MPD.
#[derive(Clone, Debug, Parser)]
#[command(name = "mpdhelp", version)]
pub struct HelpCli {
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// The tools of this crate whose options are here. The list of programs has all.
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
        SlotsCli::command(),
        AllocCli::command(),
        QueueCli::command(),
        CancelCli::command(),
        GrowCli::command(),
        TopCli::command(),
        KilljobCli::command(),
        SigjobCli::command(),
        StdinCli::command(),
        LabelsCli::command(),
        StateCli::command(),
        CleanupCli::command(),
        CheckCli::command(),
        SiteCli::command(),
        HelpCli::command(),
    ]
}

/// The job or alias that was given.
fn meant(job: Option<&JobRef>, alias: Option<&str>) -> JobRef {
    job.cloned().unwrap_or_else(|| JobRef::Alias(alias.unwrap_or_default().to_owned()))
}

/// `NUMBER`, `NUMBER@HOST`, or an alias.
fn job_or_alias(text: &str) -> Result<JobRef, InvalidJobRef> {
    JobRef::or_alias(text).ok_or(InvalidJobRef)
}

/// A duration in seconds; fractions are allowed.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    const MAX: f64 = 86_400.0;
    match text.parse::<f64>() {
        Ok(number) if (0.0..=MAX).contains(&number) => Ok(Duration::from_secs_f64(number)),
        _ => Err(format!("a number of seconds from 0 to {MAX} is needed")),
    }
}

/// A time between samples, long enough to keep the load on daemons small.
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
    fn the_options_of_the_original_get_their_answers() {
        use mpd_docs::original::wrong_examples;
        let wrong = [
            wrong_examples::<TraceCli>(),
            wrong_examples::<RingtestCli>(),
            wrong_examples::<ExitCli>(),
            wrong_examples::<ListjobsCli>(),
            wrong_examples::<KilljobCli>(),
            wrong_examples::<SigjobCli>(),
            wrong_examples::<CleanupCli>(),
            wrong_examples::<CheckCli>(),
        ];
        assert_eq!(wrong.concat(), Vec::<String>::new());
    }

    #[test]
    fn the_tables_of_options_are_consistent() {
        for command in commands() {
            command.debug_assert();
        }
        TraceCli::command().debug_assert();
    }
}
