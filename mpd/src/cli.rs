//! The command line of `mpd`, and its exit codes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use log::LevelFilter;
use mpd_daemon::{First, LeaseTerms};
use mpd_io::files::key_file;
use mpd_io::ring::ring_name::RingName;
use mpd_io::ring::rundir::{RunDir, host_name};
use mpd_wire::{DaemonName, Instance};

/// The variable with the number of managers in waiting, and its meaning.
pub(crate) const WAITING: mpd_docs::Variable =
    ("MPD_WAITING", "the number of managers that wait for jobs, if --waiting is not given");

/// Most managers in waiting.
const MOST_WAITING: i64 = 4;

/// The daemon could not start, or there is none to ask.
pub(crate) const EXIT_FAILURE: u8 = 1;

/// Start the MPD daemon of this host.
///
/// With --join, the daemon enters the ring of the named daemon. A name may have many addresses, as that of a service has. Otherwise it begins a ring of one, which other
/// daemons may enter. Daemons of one ring prove to each other that they hold the same key. A daemon does not answer a
/// peer without this key. Use mpdboot to start daemons on many hosts.
///
/// The daemon listens on a socket that only its user can reach, and starts a manager process for every job that mpirun
/// submits. It ends by mpdexit and mpdallexit, and on SIGTERM, SIGINT and SIGHUP. With --keep, other daemons start it
/// again after a signal. Running jobs continue after its end, and register with the next daemon.
///
/// With --record the daemon records the inputs of its ring machine. A recording has names and addresses of hosts, and
/// the names that jobs publish. It has no keys, and nothing of jobs. A recording that reaches 64 MiB, or meets a full
/// disk, ends; the daemon continues. With --replay mpd gives the recorded inputs to the same machine again. It prints
/// each step and its outputs, and reports the first step whose outputs differ from the recorded ones.
///
/// Exit codes: 0 for an end without errors; 2 for a wrong command line; 1 if the daemon could not start (standard error
/// has the reason). With --status, 1 means that no daemon is running. With --replay, 1 means that the file is no recording
/// or that outputs differ.
#[derive(Debug, Default, Parser)]
#[command(name = "mpd", version, after_help = AFTER_HELP, disable_help_flag = true)]
pub(crate) struct Cli {
    /// Run in the background; return when the daemon is in the ring, or print why it is not
    #[arg(long, short = 'd')]
    pub(crate) daemon: bool,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,

    /// Enter the ring of the first of these daemons that answers
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) join: Vec<String>,

    /// With --join: look for a daemon for this time, while names are unknown and hosts are down [default: only
    /// known names, 10 s]
    #[arg(long, value_name = "SECONDS", requires = "join")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=86_400))]
    pub(crate) patience: Option<u32>,

    /// With --patience: if no daemon answers, begin a ring, which others may enter
    #[arg(long, requires = "patience")]
    pub(crate) or_begin: bool,

    /// Enter the ring of the daemon of this host; with -p
    #[arg(
        short = 'h',
        long,
        value_name = "HOST",
        requires = "entry_port",
        conflicts_with = "join"
    )]
    pub(crate) host: Option<String>,

    /// The port of the daemon at -h
    #[arg(short = 'p', long, value_name = "PORT", requires = "host")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) entry_port: Option<u16>,

    /// Listen on this port [default: the port of the previous daemon here, else any]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,

    /// Listen on this interface only, given by name or address [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) ifhn: Option<String>,

    /// File of the ring's key, made if it is missing; -: read the key from standard input [default:
    /// $MPD_KEY_FILE, /etc/mpd/key for root, else ~/.mpd.key]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// Print the port as mpd_port=N when this daemon is in the ring
    #[arg(long, short = 'e')]
    pub(crate) echo: bool,

    /// Place in listings and placement [default: after all others]
    #[arg(long, value_name = "N")]
    pub(crate) ordinal: Option<u64>,

    /// Start dead members again by this plan of mpdboot
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,

    /// Name of this daemon in job ids and messages [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// The name of the ring [default: $MPD_RING, $MPD_CON_EXT, the batch job's id]
    #[arg(long, value_name = "NAME")]
    pub(crate) ring: Option<String>,

    /// Directory of socket, lock and job records
    #[arg(long, value_name = "DIR")]
    pub(crate) rundir: Option<PathBuf>,

    /// Slots: processes that this host takes before the next host is used [default: its CPUs] (also --slots)
    #[arg(long, visible_alias = "slots", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ncpus: Option<u32>,

    /// The number of GPUs for ranks with -gpus-per-proc [default: the devices of the system]
    #[arg(long, value_name = "N")]
    pub(crate) gpus: Option<u32>,

    /// Most processes of a job on this host; a job with more is refused
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_slots: Option<u32>,

    /// Execute this program for each request for slots that is made on this host; it accepts or refuses the request
    /// [default: $MPD_ALLOC_HOOK]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "private")]
    pub(crate) alloc_hook: Option<PathBuf>,

    /// Speed of this host for the placement by load; an ordinary host has 1 [default: 1]
    #[arg(long, value_name = "X", value_parser = speed)]
    pub(crate) speed: Option<u32>,

    /// Managers that wait for jobs, so that jobs start faster, 0 to 4 [default: $MPD_WAITING, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=MOST_WAITING))]
    pub(crate) waiting: Option<u8>,

    /// Write the log to this file [default: standard error; with --daemon RUNDIR/mpd.log]
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,

    /// Write the process id of the daemon to this file when it is in the ring, and remove the file at the end
    #[arg(long, value_name = "FILE", conflicts_with = "private")]
    pub(crate) pid_file: Option<PathBuf>,

    /// For bug reports: record the inputs of the ring in FILE (mode 0600, at most 64 MiB, no keys)
    #[arg(long, value_name = "FILE", conflicts_with = "private")]
    pub(crate) record: Option<PathBuf>,

    /// Replay the recording of a daemon or of a manager (mpirun -record), and print each step
    #[arg(long, value_name = "FILE", conflicts_with_all = ["daemon", "record", "status"])]
    pub(crate) replay: Option<PathBuf>,

    /// With --replay: end after step N
    #[arg(long, value_name = "N", requires = "replay")]
    pub(crate) until: Option<u64>,

    /// With --replay: print the state of the machine at the end
    #[arg(long, requires = "replay")]
    pub(crate) state: bool,

    /// Log more (twice: everything)
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Print the state of the running daemon as one line of JSON
    #[arg(long, conflicts_with = "daemon")]
    pub(crate) status: bool,

    #[arg(long, hide = true, value_name = "DIR")]
    generate_docs: Option<PathBuf>,

    /// A ring of one for one mpirun: serve the connection on descriptor 3, then leave.
    #[arg(long, hide = true, requires = "owner")]
    pub(crate) private: bool,

    /// With --private: the process id of the mpirun; it becomes the job's id.
    #[arg(long, hide = true, value_name = "PID", requires = "private")]
    pub(crate) owner: Option<u32>,

    /// With --private: consoles find this ring in this directory.
    #[arg(long, hide = true, value_name = "DIR", requires = "private")]
    pub(crate) listed: Option<PathBuf>,

    /// With --listed: remove the run directory above it with the last private ring, if it contains nothing else.
    #[arg(long, hide = true, requires = "listed")]
    pub(crate) removes_rundir: bool,

    /// With --private: others may enter, and all leave when this daemon leaves.
    #[arg(long, hide = true, requires = "private", requires = "ring")]
    pub(crate) open: bool,

    /// In a private ring: leave when the daemon of this instance, which began the ring, is gone.
    #[arg(long, hide = true, value_name = "INSTANCE", conflicts_with = "private")]
    pub(crate) launched_by: Option<Instance>,

    /// The ring ends when it has had neither a job nor a console for this time, in seconds: the daemon that began it
    /// orders all to leave.
    #[arg(long, hide = true, value_name = "SECONDS", conflicts_with = "private")]
    pub(crate) idle: Option<u32>,

    /// With --idle: the daemon of this name began the ring.
    #[arg(long, hide = true, value_name = "NAME", requires = "idle")]
    pub(crate) first: Option<String>,

    /// Leave when this process has ended.
    #[arg(long, hide = true, value_name = "PID")]
    pub(crate) held_by: Option<i32>,

    /// The ring ends with a batch job: leave no run directory behind.
    #[arg(long, hide = true)]
    pub(crate) in_batch: bool,

    /// For mpdboot: report on standard output. When standard input ends, mpdboot has ended.
    #[arg(long, hide = true, requires = "nonce", conflicts_with = "private")]
    pub(crate) agent: bool,

    /// With --agent: the prefix of report lines.
    #[arg(long, hide = true, value_name = "NONCE", requires = "agent")]
    pub(crate) nonce: Option<String>,

    /// With --agent: wait for the list of members on standard input, instead of entering through --join.
    #[arg(long, hide = true, requires = "agent")]
    pub(crate) waits: bool,

    /// Read the key from this descriptor.
    #[arg(long, hide = true, value_name = "NUMBER", conflicts_with = "key")]
    pub(crate) key_descriptor: Option<i32>,

    /// Report readiness on descriptor 3; with --private on descriptor 4.
    #[arg(long, hide = true)]
    pub(crate) report_ready: bool,

    #[arg(long, hide = true)]
    manager: bool,

    #[arg(long, hide = true)]
    fork_server: bool,

    /// Remove the leftovers of the job whose record is open at descriptor 0.
    #[arg(long, hide = true)]
    sweep: bool,

    /// With --sweep: the job's manager lived until now.
    #[arg(long, hide = true, requires = "sweep")]
    just_died: bool,

    /// With --sweep: remove this file at the end.
    #[arg(long, hide = true, value_name = "FILE")]
    record_file: Option<PathBuf>,
}

/// Hidden roles. Their arguments may have any form: `--shim OPTION… -- NAME PROGRAM [ARGUMENT…]`, `--traced NAME
/// PROGRAM [ARGUMENT…]`, `--debugged PROGRAM [ARGUMENT…]`, `--shm-users family|all INODE…`, `--mpi-users PID…`,
/// `--boot-agent [--name NAME]`, `--site-starter`.
pub(crate) const SHIM: &str = "--shim";
pub(crate) const TRACED: &str = "--traced";
pub(crate) const DEBUGGED: &str = "--debugged";
pub(crate) const SHM_USERS: &str = "--shm-users";
pub(crate) const MPI_USERS: &str = "--mpi-users";
pub(crate) const SITE_STARTER: &str = "--site-starter";
pub(crate) const BOOT_AGENT: &str = mpd_boot::command::AGENT;

/// The names of a manager with a job, of one in waiting, and of the fork server.
pub(crate) const MANAGER: &str = "mpdman";
pub(crate) const IN_WAITING: &str = "mpdwait";
pub(crate) const FORK_SERVER: &str = "mpdfork";

/// The name of an agent that starts daemons and has not become one.
pub(crate) const AGENT: &str = "mpdagent";

/// Whether this process was started under that name.
pub(crate) fn is_called(name: &str) -> bool {
    std::env::args_os().next().is_some_and(|called| called == name)
}

/// The arguments after `role` on the command line, if that is the first one.
pub(crate) fn arguments_behind(role: &str) -> Option<Vec<OsString>> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == role).then(|| arguments.collect())
}

const AFTER_HELP: &str = "\
The run directory is --rundir, else $MPD_RUNDIR, else $XDG_RUNTIME_DIR/mpd, else /tmp/mpd-UID-HOST;
the last two end in -RING if the ring has a name. A daemon that is started again in its run directory
finds the other members in the list that is saved there, and takes its old place.
MPD_LOG sets the level of the log (error, warn, info, debug, trace).";

/// The role of a process of this executable.
pub(crate) enum Role {
    Manager,
    /// Makes managers in waiting for the daemon that has started it.
    ForkServer,
    /// Has the file to remove at the end, and whether the manager lived until now.
    Sweeper(Option<PathBuf>, bool),
    Docs(PathBuf),
    Status,
    /// Replays the recording in this file.
    Replayer(PathBuf),
    /// Starts the daemon in the background.
    Starter,
    Daemon,
}

/// A speed in hundredths.
fn speed(text: &str) -> Result<u32, String> {
    mpd_placement::hosts::speed(text)
        .ok_or_else(|| "it is 0.01 to 1000, with two decimals at most".to_owned())
}

impl Cli {
    /// The command line of a manager, or of the daemon of a private ring of one: the processes that jobs start with.
    /// `None` for any other one. These programs write their command lines themselves, so nothing is to be explained to a
    /// user, and clap would take longer than the rest of their start.
    pub(crate) fn of_a_job(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut cli = Self::default();
        let mut words = arguments.into_iter().skip(1);
        while let Some(word) = words.next() {
            match word.to_str()? {
                "--manager" => cli.manager = true,
                "--fork-server" => cli.fork_server = true,
                "--private" => cli.private = true,
                "--removes-rundir" => cli.removes_rundir = true,
                "--verbose" => cli.verbose += 1,
                "--name" => cli.name = Some(words.next()?.into_string().ok()?),
                "--owner" => cli.owner = Some(words.next()?.to_str()?.parse().ok()?),
                "--listed" => cli.listed = Some(words.next()?.into()),
                "--ncpus" => cli.ncpus = Some(words.next()?.to_str()?.parse().ok()?),
                _ => return None,
            }
        }
        let is_private = cli.private && cli.owner.is_some() && cli.ncpus != Some(0);
        let roles = [cli.manager, cli.fork_server, is_private];
        (roles.into_iter().filter(|has| *has).count() == 1).then_some(cli)
    }

    /// The command line that an agent makes for the daemon that it becomes; `None` for any other one. As for
    /// [`Cli::of_a_job`], nothing is to be explained to a user, and clap would take long.
    pub(crate) fn of_an_agent(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut cli = Self::default();
        let mut words = arguments.into_iter().skip(1).map(OsString::into_string);
        while let Some(word) = words.next() {
            let word = word.ok()?;
            let mut value = || words.next()?.ok();
            match word.as_str() {
                "--agent" => cli.agent = true,
                "--waits" => cli.waits = true,
                "--in-batch" => cli.in_batch = true,
                "--nonce" => cli.nonce = Some(value()?),
                "--key-descriptor" => cli.key_descriptor = Some(value()?.parse().ok()?),
                "--name" => cli.name = Some(value()?),
                "--ring" => cli.ring = Some(value()?),
                "--join" => cli.join = value()?.split(',').map(str::to_owned).collect(),
                "--ordinal" => cli.ordinal = Some(value()?.parse().ok()?),
                "--port" => cli.port = Some(value()?.parse().ok().filter(|&port| port != 0)?),
                "--ifhn" => cli.ifhn = Some(value()?),
                "--ncpus" => cli.ncpus = Some(value()?.parse().ok().filter(|&ncpus| ncpus != 0)?),
                "--gpus" => cli.gpus = Some(value()?.parse().ok()?),
                "--max-slots" => {
                    cli.max_slots = Some(value()?.parse().ok().filter(|&most| most != 0)?);
                }
                "--speed" => cli.speed = Some(speed(&value()?).ok()?),
                "--key" => cli.key = Some(value()?.into()),
                "--waiting" => {
                    let managers = value()?.parse().ok();
                    let managers = managers.filter(|&it: &u8| i64::from(it) <= MOST_WAITING);
                    cli.waiting = Some(managers?);
                }
                "--alloc-hook" => cli.alloc_hook = Some(value()?.into()),
                "--idle" => cli.idle = Some(value()?.parse().ok()?),
                "--first" => cli.first = Some(value()?),
                "--launched-by" => cli.launched_by = Some(value()?.parse().ok()?),
                "--rundir" => cli.rundir = Some(value()?.into()),
                "--keep" => cli.keep = Some(value()?.into()),
                _ => return None,
            }
        }
        let has_one_key = cli.key.is_none() || cli.key_descriptor.is_none();
        (cli.agent && cli.nonce.is_some() && has_one_key).then_some(cli)
    }

    /// The hook of the site's scheduler. The daemon changes to / later, so the path is absolute. Private rings use no hook.
    pub(crate) fn alloc_hook(&self) -> Option<PathBuf> {
        let variable = || std::env::var_os("MPD_ALLOC_HOOK").filter(|path| !path.is_empty());
        let path = self.alloc_hook.clone().or_else(|| variable().map(PathBuf::from))?;
        (!self.private).then(|| std::path::absolute(&path).unwrap_or(path))
    }

    pub(crate) fn role(&self) -> Role {
        match self {
            Self { manager: true, .. } => Role::Manager,
            Self { fork_server: true, .. } => Role::ForkServer,
            Self { sweep: true, .. } => Role::Sweeper(self.record_file.clone(), self.just_died),
            Self { generate_docs: Some(directory), .. } => Role::Docs(directory.clone()),
            Self { status: true, .. } => Role::Status,
            Self { replay: Some(file), .. } => Role::Replayer(file.clone()),
            Self { daemon: true, .. } => Role::Starter,
            Self { .. } => Role::Daemon,
        }
    }

    /// Whether the ring is for one job and is removed completely after it.
    pub(crate) const fn is_private(&self) -> bool {
        self.private || self.launched_by.is_some()
    }

    /// How long the ring lasts, if it ends by itself.
    ///
    /// # Errors
    /// The name of the first daemon is not valid.
    pub(crate) fn lease(&self, pulse: Duration) -> Result<Option<LeaseTerms>> {
        let first = match (&self.first, self.launched_by) {
            (Some(name), _) => First::Name(DaemonName::new(name).context("--first")?),
            (None, Some(instance)) => First::Instance(instance),
            (None, None) => First::Me,
        };
        let idle = self.idle.map(|seconds| Duration::from_secs(seconds.into()));
        let ends = self.is_private() || idle.is_some();
        Ok(ends.then_some(LeaseTerms { first, pulse, idle }))
    }

    /// The number of managers in waiting. In a ring for one job it is 0.
    pub(crate) fn waiting(&self) -> Result<u8> {
        if self.is_private() {
            return Ok(0);
        }
        let Some(text) = std::env::var_os(WAITING.0).filter(|_| self.waiting.is_none()) else {
            return Ok(self.waiting.unwrap_or(1));
        };
        let number = text.to_str().and_then(|text| text.parse().ok());
        let number = number.filter(|number| i64::from(*number) <= MOST_WAITING);
        number.with_context(|| format!("MPD_WAITING={}: a number from 0 to 4", text.display()))
    }

    /// Whether the key comes on standard input.
    pub(crate) fn has_key_on_input(&self) -> bool {
        self.key.as_deref().is_some_and(|path| path.as_os_str() == key_file::STANDARD_INPUT)
    }

    pub(crate) fn ring_name(&self) -> Result<RingName> {
        Ok(RingName::resolve(self.ring.as_deref())?)
    }

    pub(crate) fn rundir(&self) -> Result<RunDir> {
        Ok(RunDir::resolve(self.rundir.clone(), &self.ring_name()?, &host_name()))
    }

    /// The addresses of daemons through which to enter, as `HOST:PORT`.
    pub(crate) fn entries(&self) -> Vec<String> {
        match (&self.host, self.entry_port) {
            (Some(host), Some(port)) if host.contains(':') => vec![format!("[{host}]:{port}")],
            (Some(host), Some(port)) => vec![format!("{host}:{port}")],
            _ => self.join.clone(),
        }
    }

    pub(crate) fn level(&self) -> LevelFilter {
        match (self.verbose, self.private) {
            // The daemons of private rings and their managers write to the standard error of mpirun, which prints each
            // failure of the job itself.
            (0, true) => LevelFilter::Error,
            (0, false) => LevelFilter::Info,
            (1, _) => LevelFilter::Debug,
            _ => LevelFilter::Trace,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_the_original_get_their_answers() {
        assert_eq!(mpd_docs::original::wrong_examples::<Cli>(), Vec::<String>::new());
    }

    #[test]
    fn the_command_lines_of_agents_are_understood_as_clap_understands_them() {
        let read = |line: &str| {
            let words = || line.split_whitespace().map(OsString::from);
            let whole = Cli::try_parse_from(words()).map(|cli| format!("{cli:?}"));
            (Cli::of_an_agent(words()).map(|cli| format!("{cli:?}")), whole.ok())
        };
        for line in [
            "/o/mpd --agent --nonce 00ff --name h1",
            "/o/mpd --agent --nonce 00ff --waits --key-descriptor 4 --name h1 --ring r --join h:1,[::1]:2 \
             --ordinal 3 --port 7000 --ifhn ib0 --ncpus 4 --gpus 2 --max-slots 8 --speed 1.50 --waiting 2 --alloc-hook /h --rundir /r \
             --keep /r/keep.json --in-batch --launched-by 000102030405060708090a0b0c0d0e0f",
            "/o/mpd --agent --nonce 00ff --name h1 --key /k",
        ] {
            let (short, whole) = read(line);
            assert_eq!(short, whole, "{line}");
            assert!(short.is_some(), "{line}");
        }
        for line in [
            "mpd --name h1",
            "mpd --agent --name h1",
            "mpd --agent --nonce 00ff --key /k --key-descriptor 4",
            "mpd --agent --nonce 00ff --port 0",
            "mpd --agent --nonce 00ff --ncpus 0",
            "mpd --agent --nonce 00ff --waiting 5",
            "mpd --agent --nonce 00ff --speed x",
            "mpd --agent --nonce 00ff --name",
            "mpd --agent --nonce 00ff stray",
        ] {
            assert_eq!(read(line).0, None, "{line}");
        }
    }

    #[test]
    fn the_command_lines_of_jobs_are_understood_as_clap_understands_them() {
        let read = |line: &str| {
            let words = || line.split_whitespace().map(OsString::from);
            let whole = Cli::try_parse_from(words()).map(|cli| format!("{cli:?}"));
            (Cli::of_a_job(words()).map(|cli| format!("{cli:?}")), whole.ok())
        };
        for line in [
            "mpdman --manager --name 3@h1 --verbose --verbose",
            "mpdfork --fork-server --name x",
            "mpd --private --owner 7",
            "mpd --private --owner 7 --listed /run/x --name h1 --ncpus 4 --removes-rundir",
        ] {
            let (short, whole) = read(line);
            assert_eq!(short, whole, "{line}");
            assert!(short.is_some(), "{line}");
        }
        for line in [
            "mpd",
            "mpd --name h1",
            "mpd --private",
            "mpd --private --owner x",
            "mpd --private --owner 7 --ncpus 0",
            "mpd --private --owner 7 --open --ring r",
            "mpd --manager --private --owner 7",
            "mpd --manager --fork-server",
            "mpd --manager --name",
        ] {
            assert_eq!(read(line).0, None, "{line}");
        }
    }
}
