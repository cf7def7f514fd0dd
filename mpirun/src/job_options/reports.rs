//! The options for failures and for reports on a job.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use mpd_wire::job::{AbortScope, OnFailure};

use crate::once::Once;
use crate::options::Key;
use crate::scan::Setting;
use crate::usage::Usage;

/// The reports on exit codes, in addition to mpirun's own exit code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitReports {
    /// File for the ends of all ranks (`-status-file`).
    pub status_file: Option<PathBuf>,
    /// File for the same in MPD's format (`-ecfn`).
    pub ecfn: Option<PathBuf>,
    /// Whether to print them (`-print-all-exitcodes`).
    pub print_all: bool,
    /// Whether mpirun's exit code is the highest of them (`-on-failure highest`).
    pub highest: bool,
}

impl ExitReports {
    /// Whether any report is requested.
    pub const fn any(&self) -> bool {
        self.status_file.is_some() || self.ecfn.is_some() || self.print_all || self.highest
    }
}

/// The reports on the launch of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceOptions {
    /// File for the timeline (`-trace-startup`).
    pub file: Option<PathBuf>,
    /// File for the table of processes by rank (`-proctable`).
    pub proctable: Option<PathBuf>,
    /// Whether to print the forwarding steps (`-trace-hops`).
    pub hops: bool,
}

impl TraceOptions {
    /// Whether any report is requested.
    pub const fn any(&self) -> bool {
        self.file.is_some() || self.hops
    }
}

/// The value of `-on-failure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consequence {
    /// The first failure ends the job.
    End,
    /// The other ranks continue.
    Continue,
    /// The other ranks continue, and the exit code is the highest of all.
    Highest,
}

/// The given options for failures and reports.
#[derive(Debug, Default)]
pub(crate) struct ReportOptions {
    abort_scope: Once<AbortScope>,
    ecfn: Once<PathBuf>,
    on_failure: Once<Consequence>,
    print_exit_codes: bool,
    proctable: Once<PathBuf>,
    record: Once<PathBuf>,
    report_pid: Once<PathBuf>,
    status_file: Once<PathBuf>,
    trace_file: Once<PathBuf>,
    trace_hops: bool,
    /// Whether messages about failed ranks are suppressed.
    pub(crate) is_silent: bool,
    is_elastic: bool,
    /// Whether no progress is shown.
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
}

impl ReportOptions {
    /// Adds an option of this group.
    pub(super) fn note(&mut self, setting: &Setting) -> Result<(), Usage> {
        match setting.opt.key {
            Key::AbortScope => self.abort_scope.set(abort_scope(setting)?, setting)?,
            Key::ContinueOnFailure => {
                self.on_failure.set(Consequence::Continue, setting)?;
                self.is_silent = true;
            }
            Key::Elastic => self.is_elastic = true,
            Key::ExitCodeFile => self.ecfn.set(setting.nonempty()?.into(), setting)?,
            Key::OnFailure => self.on_failure.set(on_failure(setting)?, setting)?,
            Key::PrintExitCodes => self.print_exit_codes = true,
            Key::ProcTable => self.proctable.set(setting.nonempty()?.into(), setting)?,
            Key::Record => self.record.set(setting.nonempty()?.into(), setting)?,
            Key::ReportPid => self.report_pid.set(setting.nonempty()?.into(), setting)?,
            Key::StatusFile => self.status_file.set(setting.nonempty()?.into(), setting)?,
            Key::TraceHops => self.trace_hops = true,
            Key::TraceStartup => self.trace_file.set(setting.nonempty()?.into(), setting)?,
            Key::Quiet => self.quiet = true,
            Key::Verbose => self.verbose = true,
            _ => {}
        }
        Ok(())
    }

    /// Whether ranks may end with 0 at any time.
    pub(crate) const fn is_elastic(&self) -> bool {
        self.is_elastic
    }

    /// The consequence of the first failing rank.
    pub(crate) fn on_failure(&self) -> OnFailure {
        match self.on_failure.get() {
            Some(Consequence::Continue | Consequence::Highest) => OnFailure::Continue,
            Some(Consequence::End) | None => OnFailure::End,
        }
    }

    /// Whether the failure of a connected job ends this one.
    pub(crate) fn abort_scope(&self) -> AbortScope {
        self.abort_scope.get().copied().unwrap_or_default()
    }

    /// The reports on the launch.
    pub(crate) fn trace(&self) -> TraceOptions {
        TraceOptions {
            file: self.trace_file.get().cloned(),
            hops: self.trace_hops,
            proctable: self.proctable.get().cloned(),
        }
    }

    /// File for the process id of mpirun; `-` and `+` are its standard output and error.
    pub(crate) fn report_pid(&self) -> Option<&Path> {
        self.report_pid.get().map(PathBuf::as_path)
    }

    /// Directory for recordings of the managers' inputs.
    pub(crate) fn record(&self) -> Option<&Path> {
        self.record.get().map(PathBuf::as_path)
    }

    /// The reports on exit codes.
    pub(crate) fn exits(&self) -> ExitReports {
        ExitReports {
            status_file: self.status_file.get().cloned(),
            ecfn: self.ecfn.get().cloned(),
            print_all: self.print_exit_codes,
            highest: self.on_failure.get() == Some(&Consequence::Highest),
        }
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

fn abort_scope(setting: &Setting) -> Result<AbortScope, Usage> {
    let wanted = setting.value().as_bytes();
    let found = AbortScope::ALL.into_iter().find(|scope| scope.name().as_bytes() == wanted);
    found.ok_or_else(|| setting.error("it must be 'job', 'world' or 'connected'"))
}
