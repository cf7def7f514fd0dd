//! The options of the whole job. They are collected from every section and become the job-wide
//! parts of the specification.

mod allowance;
mod crash;
mod output;
mod placement;
mod reports;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpd_io::files::logging::is_plain;
use mpd_wire::job::{Allowance, Bytes, JobSpec};
use mpd_wire::{Rank, RankSet};

use crate::once::Once;
use crate::options::Key;
use crate::ring_options::RingOptions;
use crate::scan::Setting;
use crate::tools::Tools;
use crate::usage::Usage;
use allowance::AllowanceOptions;
use crash::CrashOptions;
use output::OutputOptions;
use placement::PlacementOptions;
pub(crate) use placement::processes;
use reports::ReportOptions;
pub use reports::{ExitReports, TraceOptions};

/// Longest time limit: about 30 years, so that the sum with any clock cannot overflow.
const MAX_TIMEOUT: Duration = Duration::from_secs(1_000_000_000);

/// The value of `-usize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Universe {
    Size(u32),
    /// The number of CPUs.
    System,
    /// Unlimited.
    Infinite,
}

/// Whether the job is only shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DryRun {
    pub(crate) wanted: bool,
    pub(crate) json: bool,
}

/// The ranks that get standard input.
#[derive(Debug, Default)]
struct StdinOptions {
    ranks: Once<RankSet>,
    /// They can change while the job runs.
    switch: bool,
}

/// The given options of the job.
#[derive(Debug, Default)]
pub struct JobOptions {
    alias: Once<String>,
    allowance: AllowanceOptions,
    pub(crate) config_file: Once<PathBuf>,
    pub(crate) crash: CrashOptions,
    pub(crate) dry_run: DryRun,
    host_timeout: Once<u32>,
    pub(crate) job_file: Once<PathBuf>,
    memory_kinds: Once<String>,
    pub(crate) placement: PlacementOptions,
    pub(crate) output: OutputOptions,
    pub(crate) ring_options: RingOptions,
    pub(crate) reports: ReportOptions,
    /// The switches, which the specification has as they are.
    pub(crate) switches: JobSpec,
    stdin: StdinOptions,
    timeout: Once<Option<Duration>>,
    pub(crate) tools: Tools,
    pub(crate) tmpdir: Once<PathBuf>,
    pub(crate) universe: Once<Universe>,
}

impl JobOptions {
    /// Adds one option. Relative file patterns are relative to `directory`.
    pub fn note(&mut self, setting: &Setting, directory: &Path) -> Result<(), Usage> {
        match setting.opt.key {
            Key::Alias => self.alias.set(alias(setting)?, setting)?,
            Key::AllowAlone => self.switches.allow_alone = true,
            Key::ConfigFile => self.config_file.set(setting.nonempty()?.into(), setting)?,
            Key::DryRun => self.dry_run.wanted = true,
            Key::Json => self.dry_run.json = true,
            Key::HostTimeout => self.host_timeout.set(host_timeout(setting)?, setting)?,
            Key::JobFile => {
                self.job_file.set(directory.join(setting.nonempty()?), setting)?;
            }
            Key::MemoryKinds => self.memory_kinds.set(memory_kinds(setting)?, setting)?,
            Key::NoPmix => self.switches.no_pmix = true,
            Key::Preload => self.switches.preload = true,
            Key::Ring | Key::RunDir => self.ring_options.note(setting, directory)?,
            Key::Stdin => {
                let ranks = setting.text()?.parse().map_err(|e| setting.error(e))?;
                self.stdin.ranks.set(ranks, setting)?;
            }
            Key::StdinSwitch => self.stdin.switch = true,
            Key::UniqueNames => self.switches.unique_names = true,
            Key::Timeout => {
                let limit = timeout(setting.text()?).map_err(|e| setting.error(e))?;
                self.timeout.set(limit, setting)?;
            }
            Key::Tool => self.tools.note(setting)?,
            Key::TmpDir => self.tmpdir.set(setting.nonempty()?.into(), setting)?,
            Key::UniverseSize => {
                let size = universe(setting.text()?).map_err(|e| setting.error(e))?;
                self.universe.set(size, setting)?;
            }
            // The other keys belong to programs, or request something other than a job.
            _ => {}
        }
        self.allowance.note(setting)?;
        self.crash.note(setting)?;
        self.placement.note(setting, directory)?;
        self.output.note(setting, directory)?;
        self.reports.note(setting)
    }

    /// The ranks that receive standard input; by default the first rank.
    pub fn stdin(&self) -> RankSet {
        self.stdin.ranks.get().cloned().unwrap_or_else(|| [Rank(0)].into_iter().collect())
    }

    /// Whether the ranks that receive standard input can change.
    pub(crate) const fn switches_stdin(&self) -> bool {
        self.stdin.switch
    }

    /// The user's name for the job.
    pub fn alias(&self) -> Option<String> {
        self.alias.get().cloned()
    }

    /// What the job may use on each host.
    pub(crate) fn allowance(&self) -> Allowance {
        self.allowance.spec()
    }

    /// The kinds of memory for MPI.
    pub fn memory_kinds(&self) -> Option<String> {
        self.memory_kinds.get().cloned()
    }

    /// The time limit.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout.get().copied().flatten()
    }

    /// The silence after which a host is lost, in seconds.
    pub(crate) fn host_timeout(&self) -> Option<u32> {
        self.host_timeout.get().copied()
    }
}

/// Seconds of silence after which a host is lost: at least 3, so that a busy host is not lost, and at most a day.
fn host_timeout(setting: &Setting) -> Result<u32, Usage> {
    let seconds = setting.text()?.parse().ok().filter(|seconds| (3..=86_400).contains(seconds));
    seconds.ok_or_else(|| setting.error("it must be a number of seconds from 3 to 86400"))
}

/// The kinds of memory, as a list of names with colons.
fn memory_kinds(setting: &Setting) -> Result<String, Usage> {
    let text = setting.text()?;
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:-".contains(&b))
    };
    match text.split(',').all(is_part) {
        true => Ok(text.to_owned()),
        false => Err(setting.error("it must be a list of kinds, like mpi,system,cuda:device")),
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

fn universe(text: &str) -> Result<Universe, &'static str> {
    match text.to_ascii_uppercase().as_str() {
        "SYSTEM" => Ok(Universe::System),
        "INFINITE" => Ok(Universe::Infinite),
        _ => match text.parse() {
            Ok(size @ 1..) => Ok(Universe::Size(size)),
            _ => Err("it must be a number above 0, SYSTEM or INFINITE"),
        },
    }
}

/// Parses a number of seconds; 0 means no limit.
fn timeout(text: &str) -> Result<Option<Duration>, String> {
    let seconds = match text.parse::<f64>() {
        Ok(seconds) if text.starts_with(|c: char| c.is_ascii_digit() || c == '.') => seconds,
        _ => return Err("it must be a number of seconds, like 30 or 0.5; 0 means no limit".into()),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(limit) if limit > MAX_TIMEOUT => Err("the time limit is too long".into()),
        // The limit is sent in milliseconds; a shorter limit must not become "no limit".
        Ok(limit) if seconds > 0.0 => Ok(Some(limit.max(Duration::from_millis(1)))),
        Ok(_) => Ok(None),
        Err(_) => Err("the time limit is too long".into()),
    }
}

/// `path`, made absolute with `directory`, as bytes.
pub(crate) fn absolute(directory: &Path, path: impl Into<OsString>) -> Bytes {
    directory.join(path.into()).into_os_string().into_vec()
}
