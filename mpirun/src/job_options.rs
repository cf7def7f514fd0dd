//! The options that concern the job as a whole: gathered from every section, whichever it is, and
//! turned into the job-wide parts of the specification.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpd_io::logging::is_plain;
use mpd_placement::hosts::HostEntry;
use mpd_wire::job::{
    Binding, Bytes, LabelFormat, MAX_RANKS, OnCrash, OnFailure, OutputSpec, PlacementSpec,
    RankOrder, SpawnPolicy,
};
use mpd_wire::{Rank, RankSet};

use crate::demand::Launcher;
use crate::hosts;
use crate::once::Once;
use crate::options::Key;
use crate::place::Place;
use crate::scan::Setting;
use crate::usage::Usage;

/// Longest time limit: about 30 years, so that it can be added to any clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(1_000_000_000);

/// What happens with the ranks' exit codes, beside being summed up in our own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitReports {
    /// Where to write how each rank ended (`-status-file`).
    pub status_file: Option<PathBuf>,
    /// Where to write the same in MPD's format (`-ecfn`).
    pub ecfn: Option<PathBuf>,
    /// Whether to print them (`-print-all-exitcodes`).
    pub print_all: bool,
    /// Whether our own is the highest of them (`-on-failure highest`).
    pub highest: bool,
}

impl ExitReports {
    /// Whether any report is wanted.
    pub const fn any(&self) -> bool {
        self.status_file.is_some() || self.ecfn.is_some() || self.print_all || self.highest
    }
}

/// What is wanted to be known of how the job was launched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceWish {
    /// Where to write the timeline (`-trace-startup`).
    pub file: Option<PathBuf>,
    /// Where to write which process runs each rank (`-proctable`).
    pub proctable: Option<PathBuf>,
    /// Whether to tell the forwarding steps (`-trace-hops`).
    pub hops: bool,
}

impl TraceWish {
    /// Whether anything is wanted.
    pub const fn any(&self) -> bool {
        self.file.is_some() || self.hops
    }
}

/// What `-on-failure` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consequence {
    /// The first failure ends the job.
    End,
    /// The other ranks run on.
    Continue,
    /// They run on, and the exit code is the highest of all.
    Highest,
}

/// What `-usize` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Universe {
    /// This many.
    Size(u32),
    /// As many as there are CPUs.
    System,
    /// Not known.
    Infinite,
}

/// The job's options as far as they were given.
#[derive(Debug, Default)]
pub struct JobOptions {
    alias: Once<String>,
    pub(crate) allow_alone: bool,
    behind: bool,
    binding: Once<Binding>,
    pub(crate) config_file: Once<PathBuf>,
    pub(crate) dry_run: bool,
    debug_batch: bool,
    ecfn: Once<PathBuf>,
    errfile: Once<LabelFormat>,
    exclude: Vec<String>,
    group: Once<u32>,
    pub(crate) hosts: Once<Vec<HostEntry>>,
    label: bool,
    launcher: Once<String>,
    launcher_program: Once<String>,
    label_format: Once<LabelFormat>,
    merge: bool,
    gdb: Once<Bytes>,
    on_crash: Once<()>,
    on_failure: Once<Consequence>,
    outfile: Once<LabelFormat>,
    per_host: Once<u32>,
    pub(crate) place: Place,
    pub(crate) preload: bool,
    print_exit_codes: bool,
    print_rank_map: bool,
    round_robin: bool,
    spawn_policy: Once<SpawnPolicy>,
    status_file: Once<PathBuf>,
    stdin: Once<RankSet>,
    pub(crate) stdin_switch: bool,
    timeout: Once<Option<Duration>>,
    timestamp: bool,
    proctable: Once<PathBuf>,
    trace_file: Once<PathBuf>,
    trace_hops: bool,
    pub(crate) universe: Once<Universe>,
    /// Whether to say nothing of ranks that fail.
    pub(crate) is_silent: bool,
    pub(crate) verbose: bool,
}

impl JobOptions {
    /// Takes note of one option; `directory` is what relative patterns of files are relative to.
    pub fn note(&mut self, setting: &Setting, directory: &Path) -> Result<(), Usage> {
        match setting.opt.key {
            Key::Alias => self.alias.set(alias(setting)?, setting)?,
            Key::AllowAlone => self.allow_alone = true,
            Key::Behind => self.behind = true,
            Key::Binding => self.binding.set(binding(setting)?, setting)?,
            Key::ConfigFile => self.config_file.set(setting.nonempty()?.into(), setting)?,
            Key::ContinueOnFailure => {
                self.on_failure.set(Consequence::Continue, setting)?;
                self.is_silent = true;
            }
            Key::DryRun => self.dry_run = true,
            Key::ErrFile => self.errfile.set(file_pattern(setting, directory)?, setting)?,
            Key::Exclude => self.exclude.extend(hosts::excluded(setting)?),
            Key::ExitCodeFile => self.ecfn.set(setting.nonempty()?.into(), setting)?,
            Key::Group => self.group.set(processes(setting)?, setting)?,
            Key::HostFile => self.hosts.set(hosts::file(setting, directory)?, setting)?,
            Key::Hosts => self.hosts.set(hosts::list(setting)?, setting)?,
            Key::Label => self.label = true,
            Key::LabelFormat => {
                // MPD's users write "%r" and know that the colon comes by itself.
                let own = pattern(setting, setting.value().as_bytes())?;
                let text = [own.as_bytes(), b": "].concat();
                self.label_format.set(pattern(setting, &text)?, setting)?;
            }
            Key::LabelPattern => {
                self.label_format.set(pattern(setting, setting.value().as_bytes())?, setting)?;
            }
            Key::Launcher => self.launcher.set(command(setting)?, setting)?,
            Key::LauncherProgram => self.launcher_program.set(command(setting)?, setting)?,
            Key::Merge => self.merge = true,
            Key::NoLocal => self.exclude.push("localhost".into()),
            Key::DebugBatch => self.debug_batch = true,
            Key::DebugPath => {
                self.gdb.set(setting.nonempty()?.as_bytes().to_vec(), setting)?;
            }
            Key::OnCrash => self.on_crash.set(on_crash(setting)?, setting)?,
            Key::OnFailure => self.on_failure.set(on_failure(setting)?, setting)?,
            Key::OutFile => self.outfile.set(file_pattern(setting, directory)?, setting)?,
            Key::PerHost => self.per_host.set(processes(setting)?, setting)?,
            Key::Preload => self.preload = true,
            Key::PrintExitCodes => self.print_exit_codes = true,
            Key::PrintRankMap => self.print_rank_map = true,
            Key::ProcTable => self.proctable.set(setting.nonempty()?.into(), setting)?,
            Key::Ring | Key::RunDir => self.place.note(setting, directory)?,
            Key::RoundRobin => self.round_robin = true,
            Key::SpawnPolicy => self.spawn_policy.set(spawn_policy(setting)?, setting)?,
            Key::StatusFile => self.status_file.set(setting.nonempty()?.into(), setting)?,
            Key::Stdin => {
                let ranks = setting.text()?.parse().map_err(|e| setting.error(e))?;
                self.stdin.set(ranks, setting)?;
            }
            Key::StdinSwitch => self.stdin_switch = true,
            Key::Timeout => {
                let limit = timeout(setting.text()?).map_err(|e| setting.error(e))?;
                self.timeout.set(limit, setting)?;
            }
            Key::Timestamp => self.timestamp = true,
            Key::TraceHops => self.trace_hops = true,
            Key::TraceStartup => self.trace_file.set(setting.nonempty()?.into(), setting)?,
            Key::UniverseSize => self.universe.set(universe(setting)?, setting)?,
            Key::Verbose => self.verbose = true,
            // The other keys belong to programs, or ask for something other than a job.
            _ => {}
        }
        Ok(())
    }

    /// What happens to the output.
    pub fn output(&self) -> Result<OutputSpec, Usage> {
        let label = match self.label_format.get() {
            Some(format) => Some(format.clone()),
            None if self.label || self.merge => LabelFormat::new(b"%r: ").ok(),
            None => None,
        };
        Ok(OutputSpec {
            label,
            merge: self.merge,
            timestamp: self.timestamp,
            outfile: self.outfile.get().cloned(),
            errfile: self.errfile.get().cloned(),
        })
    }

    /// Where the ranks run.
    pub fn placement(&self) -> PlacementSpec {
        PlacementSpec {
            hosts: self.hosts.get().map(|entries| hosts::wishes(entries)).unwrap_or_default(),
            exclude: self.exclude.clone(),
            per_host: self.per_host.get().copied(),
            order: if self.round_robin { RankOrder::RoundRobin } else { RankOrder::BySlot },
            group: self.group.get().copied(),
            here_first: !self.behind,
            binding: self.binding.get().copied().unwrap_or_default(),
            print_rank_map: self.print_rank_map,
        }
    }

    /// Where processes run that the ranks spawn.
    pub fn spawn_policy(&self) -> SpawnPolicy {
        self.spawn_policy.get().copied().unwrap_or_default()
    }

    /// Hosts that get no rank.
    pub fn excluded(&self) -> &[String] {
        &self.exclude
    }

    /// How many processes each host is to take, if that was said.
    pub fn of_each_host(&self) -> Option<u32> {
        self.per_host.get().copied()
    }

    /// What starts daemons on other hosts, as far as the user says.
    pub fn launcher(&self, in_slurm: bool) -> Launcher {
        let (name, program) = (self.launcher.get().cloned(), self.launcher_program.get().cloned());
        Launcher { name, program, in_slurm }
    }

    /// The ranks that get standard input: the first, unless told otherwise.
    pub fn stdin(&self) -> RankSet {
        self.stdin.get().cloned().unwrap_or_else(|| [Rank(0)].into_iter().collect())
    }

    /// The user's name for the job.
    pub fn alias(&self) -> Option<String> {
        self.alias.get().cloned()
    }

    /// What the first failing rank means.
    pub fn on_failure(&self) -> OnFailure {
        match self.on_failure.get() {
            Some(Consequence::Continue | Consequence::Highest) => OnFailure::Continue,
            Some(Consequence::End) | None => OnFailure::End,
        }
    }

    /// What is done about ranks that crash; they are held only if somebody can look.
    pub fn on_crash(&self) -> Option<OnCrash> {
        let gdb = || self.gdb.get().cloned().unwrap_or_else(|| b"gdb".to_vec());
        self.on_crash.get().map(|()| OnCrash { gdb: gdb(), hold: !self.debug_batch })
    }

    /// The time limit: the option's, else that of the variable `MPIEXEC_TIMEOUT`.
    pub fn timeout(&self, variable: Option<&[u8]>) -> Result<Option<Duration>, Usage> {
        match (self.timeout.get(), variable) {
            (Some(&limit), _) => Ok(limit),
            (None, None | Some(b"")) => Ok(None),
            (None, Some(bytes)) => {
                let text = String::from_utf8_lossy(bytes);
                timeout(&text)
                    .map_err(|e| Usage::new(format!("the variable MPIEXEC_TIMEOUT={text}: {e}")))
            }
        }
    }

    /// What is wanted of the launch.
    pub fn trace(&self) -> TraceWish {
        TraceWish {
            file: self.trace_file.get().cloned(),
            hops: self.trace_hops,
            proctable: self.proctable.get().cloned(),
        }
    }

    /// The reports of exit codes.
    pub fn exits(&self) -> ExitReports {
        ExitReports {
            status_file: self.status_file.get().cloned(),
            ecfn: self.ecfn.get().cloned(),
            print_all: self.print_exit_codes,
            highest: self.on_failure.get() == Some(&Consequence::Highest),
        }
    }
}

fn alias(setting: &Setting) -> Result<String, Usage> {
    let text = setting.text()?;
    match text.is_empty() || !text.chars().all(is_plain) {
        true => {
            Err(setting
                .error("an alias is text without control and format characters, and not empty"))
        }
        false => Ok(text.to_owned()),
    }
}

/// The words of a command.
fn command(setting: &Setting) -> Result<String, Usage> {
    let text = setting.text()?;
    match text.trim().is_empty() || text.contains(char::is_control) {
        true => Err(setting.error("a command is wanted, like ssh")),
        false => Ok(text.to_owned()),
    }
}

fn binding(setting: &Setting) -> Result<Binding, Usage> {
    let known = "it must be 'none', 'core', 'numa' or 'slots'";
    Binding::of_name(setting.text()?).ok_or_else(|| setting.error(known))
}

fn spawn_policy(setting: &Setting) -> Result<SpawnPolicy, Usage> {
    let known = "it must be 'rr', 'load' or 'pack'";
    SpawnPolicy::of_name(setting.text()?).ok_or_else(|| setting.error(known))
}

fn on_crash(setting: &Setting) -> Result<(), Usage> {
    match setting.value().as_bytes() {
        b"gdb" => Ok(()),
        _ => Err(setting.error("it must be 'gdb'")),
    }
}

fn on_failure(setting: &Setting) -> Result<Consequence, Usage> {
    match setting.value().as_bytes() {
        b"end" => Ok(Consequence::End),
        b"continue" => Ok(Consequence::Continue),
        b"highest" => Ok(Consequence::Highest),
        _ => Err(setting.error("it must be 'end', 'continue' or 'highest'")),
    }
}

fn universe(setting: &Setting) -> Result<Universe, Usage> {
    let text = setting.text()?;
    match text.to_ascii_uppercase().as_str() {
        "SYSTEM" => Ok(Universe::System),
        "INFINITE" => Ok(Universe::Infinite),
        _ => match text.parse() {
            Ok(size @ 1..) => Ok(Universe::Size(size)),
            _ => Err(setting.error("it must be a number above 0, SYSTEM or INFINITE")),
        },
    }
}

pub(crate) fn processes(setting: &Setting) -> Result<u32, Usage> {
    let text = setting.text()?;
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(setting.error(format!("{text:?} is not a number of processes")));
    }
    match text.parse() {
        Ok(0) => Err(setting.error("the number of processes must be at least 1")),
        Ok(n @ ..=MAX_RANKS) => Ok(n),
        _ => Err(setting.error(format!("a job may have at most {MAX_RANKS} processes"))),
    }
}

/// A number of seconds; 0 means no limit.
fn timeout(text: &str) -> Result<Option<Duration>, String> {
    let seconds = match text.parse::<f64>() {
        Ok(seconds) if text.starts_with(|c: char| c.is_ascii_digit() || c == '.') => seconds,
        _ => return Err("it must be a number of seconds, like 30 or 0.5; 0 means no limit".into()),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(limit) if limit > MAX_TIMEOUT => Err("nothing runs that long".into()),
        // The limit is told in milliseconds; less than one must not become "no limit".
        Ok(limit) if seconds > 0.0 => Ok(Some(limit.max(Duration::from_millis(1)))),
        Ok(_) => Ok(None),
        Err(_) => Err("nothing runs that long".into()),
    }
}

fn pattern(setting: &Setting, text: &[u8]) -> Result<LabelFormat, Usage> {
    let fields = "known are %r rank, %h host, %p process id, %j job id, %a alias, %% percent sign";
    LabelFormat::new(text).map_err(|field| match field {
        None => setting.error(format!("the % at the end has no letter; {fields}")),
        Some(field) => setting.error(format!("there is no field %{field}; {fields}")),
    })
}

/// A pattern of a file name, made absolute here, because the ranks may run elsewhere.
fn file_pattern(setting: &Setting, directory: &Path) -> Result<LabelFormat, Usage> {
    let name = setting.nonempty()?;
    if pattern(setting, name.as_bytes())?.names(b'p') {
        // The file is there before the process.
        return Err(setting.error("%p (process id) is for labels only; use %r or %j for files"));
    }
    if Path::new(name).is_absolute() {
        return pattern(setting, name.as_bytes());
    }
    let mut text = Bytes::new();
    for &byte in directory.as_os_str().as_bytes() {
        // A percent sign in the directory's name is not the user's field.
        text.extend_from_slice(if byte == b'%' { b"%%" } else { std::slice::from_ref(&byte) });
    }
    text.push(b'/');
    text.extend_from_slice(name.as_bytes());
    pattern(setting, &text)
}

/// `path`, relative to `directory`, as bytes.
pub(crate) fn absolute(directory: &Path, path: impl Into<OsString>) -> Bytes {
    directory.join(path.into()).into_os_string().into_vec()
}
