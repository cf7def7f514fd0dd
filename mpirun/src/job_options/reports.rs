//! The options for failures and for what is reported of a job.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use mpd_wire::job::OnFailure;

use crate::once::Once;
use crate::options::Key;
use crate::scan::Setting;
use crate::usage::Usage;

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

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ReportOptions {
    ecfn: Once<PathBuf>,
    on_failure: Once<Consequence>,
    print_exit_codes: bool,
    proctable: Once<PathBuf>,
    status_file: Once<PathBuf>,
    trace_file: Once<PathBuf>,
    trace_hops: bool,
    /// Whether to say nothing of ranks that fail.
    pub(crate) is_silent: bool,
    pub(crate) verbose: bool,
}

impl ReportOptions {
    /// Takes note of an option, if it is one of these.
    pub(super) fn note(&mut self, setting: &Setting) -> Result<(), Usage> {
        match setting.opt.key {
            Key::ContinueOnFailure => {
                self.on_failure.set(Consequence::Continue, setting)?;
                self.is_silent = true;
            }
            Key::ExitCodeFile => self.ecfn.set(setting.nonempty()?.into(), setting)?,
            Key::OnFailure => self.on_failure.set(on_failure(setting)?, setting)?,
            Key::PrintExitCodes => self.print_exit_codes = true,
            Key::ProcTable => self.proctable.set(setting.nonempty()?.into(), setting)?,
            Key::StatusFile => self.status_file.set(setting.nonempty()?.into(), setting)?,
            Key::TraceHops => self.trace_hops = true,
            Key::TraceStartup => self.trace_file.set(setting.nonempty()?.into(), setting)?,
            Key::Verbose => self.verbose = true,
            _ => {}
        }
        Ok(())
    }

    /// What the first failing rank means.
    pub(crate) fn on_failure(&self) -> OnFailure {
        match self.on_failure.get() {
            Some(Consequence::Continue | Consequence::Highest) => OnFailure::Continue,
            Some(Consequence::End) | None => OnFailure::End,
        }
    }

    /// What is wanted of the launch.
    pub(crate) fn trace(&self) -> TraceWish {
        TraceWish {
            file: self.trace_file.get().cloned(),
            hops: self.trace_hops,
            proctable: self.proctable.get().cloned(),
        }
    }

    /// The reports of exit codes.
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
