//! Parses the command line into a request. It reads the configuration file and the host file if
//! they are named, and the batch system's list of hosts. It does no other I/O.
//!
//! clap supports neither `:` nor long options with one dash, and MPI users use both. So `scan`
//! parses the arguments with the table of `options`. The man pages are made with clap from the same
//! table (`docs`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mpd_debug::numbers::Numbers;
use mpd_io::files::logging::plain;
use mpd_io::ring::console::Endpoint;
use mpd_wire::job::JobSpec;

use crate::argsets::Argsets;
use crate::caller::Caller;
use crate::configfile::{self, Origin};
use crate::debug::{self, DebugOptions};
use crate::demand::Demand;
use crate::dialect::{Dialect, Language};
pub use crate::job_options::{ExitReports, TraceOptions};
use crate::options::{Key, Reach};
use crate::ring_options::RingOptions;
use crate::scan::{self, Section, Setting};
use crate::singleton::Call;
use crate::slots::Wait;
use crate::target::Target;
pub use crate::usage::Usage;
use crate::{
    dryrun, help, job_file, mixture, multi_prog, singleton, translated_placement, variables,
};

/// The request of the command line.
#[derive(Debug)]
pub enum Request {
    /// Run a job.
    Run(Box<Run>),
    /// Print the help.
    Help(String),
    /// Print the version.
    Version(String),
    /// Write man pages and completions into this directory.
    GenerateDocs(PathBuf),
    /// Print the job without running it.
    DryRun(dryrun::Answer),
    /// Run mpirun with these arguments under TotalView.
    TotalView(Vec<OsString>),
}

/// A job to run.
#[derive(Debug)]
pub struct Run {
    /// The job.
    pub spec: JobSpec,
    /// Set if the job's only rank is a running program.
    pub call: Option<Call>,
    /// The debugger of the ranks.
    pub debug: Option<DebugOptions>,
    /// Set if the ranks are debuggers: the job to which they attach.
    pub target: Option<Target>,
    /// The labels of those ranks, once the job is found.
    pub numbers: Option<Numbers>,
    /// The daemon or mpirun of that job, once it is found.
    pub endpoint: Option<Endpoint>,
    /// The hosts of a private ring for this job.
    pub demand: Demand,
    /// Selects the daemon that runs the job.
    pub ring_options: RingOptions,
    /// The reports of exit codes to make.
    pub exits: ExitReports,
    /// The reports on the launch to make.
    pub trace: TraceOptions,
    /// File for the process id of this process; `-` and `+` are standard output and error.
    pub report_pid: Option<PathBuf>,
    /// Whether messages about failed ranks are suppressed.
    pub is_silent: bool,
    /// Whether no progress is shown on a terminal.
    pub quiet: bool,
    /// Whether each step is printed.
    pub verbose: bool,
    /// The slots for which the job waits first.
    pub wait: Option<Wait>,
    /// Lines for the user about options and variables without effect.
    pub remarks: Vec<String>,
}

/// Parses the command line.
///
/// # Errors
/// The command line is wrong; the error is the line to print.
pub fn parse(caller: &Caller) -> Result<Request, Usage> {
    understand(caller).map_err(|e| e.by(&caller.name))
}

fn understand(caller: &Caller) -> Result<Request, Usage> {
    if caller.arguments.is_empty() {
        return Err(Usage::syntax("there is no program to run"));
    }
    let dialect = Dialect::of_program(&caller.name);
    let language = Language { dialect, caller };
    let mut sections = scan::sections_in(&arguments(caller), language)?;
    if let Some(request) = instead(caller, &sections)? {
        return Ok(request);
    }
    if let Some(arguments) = under_totalview(caller, &sections) {
        return Ok(Request::TotalView(arguments));
    }
    if let Some((options, target)) = debug::attached(&mut sections, &caller.directory)? {
        return attaching(caller, &sections, options, target);
    }
    let debug = DebugOptions::take(&mut sections, &caller.directory)?;
    let call = Call::take(&mut sections)?;
    let mut argsets = Argsets::new(caller);
    add_sections(&mut argsets, sections, caller)?;
    read_files(&mut argsets, language, caller)?;
    translated_placement::apply(&mut argsets)?;
    let mut remarks = argsets.take_remarks();
    remarks.extend(variables::apply(&mut argsets, caller)?);
    let (mut spec, demand) = argsets.finish()?;
    if call.is_some() {
        singleton::prepare(&mut spec);
    }
    if let Some(options) = &debug {
        options.prepare(&mut spec);
    }
    let exits = argsets.job.reports.exits();
    if argsets.job.dry_run.wanted {
        let form = if argsets.job.dry_run.json { dryrun::Form::Json } else { dryrun::Form::Text };
        let reports = (&exits, &argsets.job.reports.trace());
        let hosts = (&argsets.job.ring_options, &demand);
        return Ok(Request::DryRun(dryrun::answer(form, spec, hosts, reports, (caller, remarks))));
    }
    if argsets.job.dry_run.json {
        return Err(Usage::syntax("-json needs -dry-run or -stacks"));
    }
    mixture::check(&spec, caller.look)?;
    let reports = &argsets.job.reports;
    let (is_silent, quiet, verbose) = (reports.is_silent, reports.quiet, reports.verbose);
    let trace = argsets.job.reports.trace();
    let report_pid = argsets.job.reports.report_pid().map(PathBuf::from);
    let (target, numbers, endpoint) = (None, None, None);
    let ring_options = std::mem::take(&mut argsets.job.ring_options);
    let run = Run {
        wait: argsets.wait(&spec)?,
        spec,
        call,
        debug,
        target,
        numbers,
        endpoint,
        demand,
        ring_options,
        exits,
        trace,
        report_pid,
        is_silent,
        quiet,
        verbose,
        remarks,
    };
    Ok(Request::Run(Box::new(run)))
}

/// Adds the sections of the command line.
fn add_sections(
    argsets: &mut Argsets<'_>,
    sections: Vec<Section>,
    caller: &Caller,
) -> Result<(), Usage> {
    let names_file = |s: &Setting| matches!(s.opt.key, Key::ConfigFile | Key::JobFile);
    let with_file = sections.iter().flat_map(|s| &s.settings).any(names_file);
    let count = sections.len();
    for (at, section) in sections.into_iter().enumerate() {
        // Only the first section may lack a program. In MPD such a section holds global options.
        let leading = at == 0 && count > 1 && !section.is_empty();
        if section.program.is_none() && !leading && !with_file {
            return Err(missing_program(at, count, &section));
        }
        if section.layout.is_multi_prog() {
            for part in multi_prog::sections(section, caller)? {
                argsets.add(part, None)?;
            }
            continue;
        }
        argsets.add(section, None)?;
    }
    Ok(())
}

/// A job of debuggers that attach to another job.
fn attaching(
    caller: &Caller,
    sections: &[Section],
    options: DebugOptions,
    target: Target,
) -> Result<Request, Usage> {
    let mut argsets = Argsets::new(caller);
    argsets.attaches = true;
    for section in scan::sections(&options.arguments(caller))? {
        argsets.add(section, None)?;
    }
    let (mut spec, demand) = argsets.finish()?;
    options.prepare(&mut spec);
    let settings = || sections.iter().flat_map(|s| &s.settings);
    let verbose = settings().any(|s| s.opt.key == Key::Verbose);
    let mut ring_options = RingOptions::default();
    settings().try_for_each(|setting| ring_options.note(setting, &caller.directory))?;
    Ok(Request::Run(Box::new(Run {
        spec,
        call: None,
        debug: Some(options),
        target: Some(target),
        numbers: None,
        endpoint: None,
        demand,
        ring_options,
        exits: ExitReports::default(),
        trace: TraceOptions::default(),
        report_pid: None,
        is_silent: false,
        quiet: false,
        verbose,
        wait: None,
        remarks: Vec::new(),
    })))
}

/// The arguments of the command line, after the arguments that `mpdexec` and `mpigdb` stand for.
fn arguments(caller: &Caller) -> Vec<OsString> {
    let given = caller.arguments.iter().cloned();
    match caller.name.as_str() {
        help::EVERYWHERE => {
            help::EVERYWHERE_MEANS.iter().map(OsString::from).chain(given).collect()
        }
        debug::NAME => debug::MEANS.iter().map(OsString::from).chain(given).collect(),
        _ => given.collect(),
    }
}

/// The arguments for a run under TotalView, without the option that asks for it. A dry run shows the job itself.
fn under_totalview(caller: &Caller, sections: &[Section]) -> Option<Vec<OsString>> {
    let has = |key| sections.iter().flat_map(|s| &s.settings).any(|setting| setting.opt.key == key);
    if !has(Key::TotalView) || has(Key::DryRun) {
        return None;
    }
    let mut arguments = arguments(caller);
    let at = arguments.iter().position(|word| word == "-tv" || word == "--tv")?;
    arguments.remove(at);
    Some(arguments)
}

/// The request that replaces a job, such as help; `None` if there is no such option.
fn instead(caller: &Caller, sections: &[Section]) -> Result<Option<Request>, Usage> {
    let mut settings = sections.iter().flat_map(|s| &s.settings);
    let Some(setting) = settings.find(|s| s.opt.reach == Reach::Instead) else { return Ok(None) };
    Ok(Some(match setting.opt.key {
        Key::GenerateDocs => Request::GenerateDocs(setting.nonempty()?.into()),
        Key::Version => Request::Version(help::version(&caller.name)),
        Key::HelpAll => Request::Help(help::complete(&caller.name)),
        _ => Request::Help(help::short(&caller.name)),
    }))
}

/// Adds the programs of the files that options name.
fn read_files(
    argsets: &mut Argsets<'_>,
    language: Language<'_>,
    caller: &Caller,
) -> Result<(), Usage> {
    let (config, job) = (argsets.job.config_file.get(), argsets.job.job_file.get());
    let (config, job) = (config.cloned(), job.cloned());
    let places = [argsets.has_programs(), config.is_some(), job.is_some()];
    if places.iter().filter(|&&place| place).count() > 1 {
        let text = "the programs are either in -configfile, in -file or on the command line";
        return Err(Usage::syntax(text));
    }
    if let Some(file) = config {
        read_programs(argsets, &file, language)?;
    }
    if let Some(file) = job {
        read_job(argsets, &file, caller)?;
    }
    Ok(())
}

/// Adds the sections of a configuration file.
fn read_programs(
    argsets: &mut Argsets<'_>,
    file: &Path,
    language: Language<'_>,
) -> Result<(), Usage> {
    let language = Language { dialect: argsets.dialect.or(language.dialect), ..language };
    let name = file.display();
    let bytes = configfile::read(file)
        .map_err(|e| Usage::new(format!("cannot read the -configfile {name}: {}", plain(&e))))?;
    let lines = configfile::lines(&bytes).map_err(|e| Usage::new(format!("{name} {e}")))?;
    for line in lines {
        let origin = Origin { file, line: line.number };
        let sections = scan::line_in(&line.words, language);
        for section in sections.map_err(|e| e.at(Some(&origin)))? {
            if let Some(setting) = section.settings.iter().find(|s| misplaced(s)) {
                let text = format!("{} is for the command line only", setting.name());
                return Err(Usage::new(text).at(Some(&origin)));
            }
            argsets.add(section, Some(origin.to_string()))?;
        }
    }
    match argsets.has_programs() {
        true => Ok(()),
        false => Err(Usage::new(format!("there is no program in the -configfile {name}"))),
    }
}

/// Adds the sections of a file of `-file`.
fn read_job(argsets: &mut Argsets<'_>, file: &Path, caller: &Caller) -> Result<(), Usage> {
    let user = caller.variable(b"USER").map(String::from_utf8_lossy).unwrap_or_default();
    for (section, origin) in job_file::read(file, &user)? {
        if let Some(setting) = section.settings.iter().find(|s| misplaced(s)) {
            let text = format!("{} is for the command line only", setting.name());
            return Err(Usage::new(text).at(Some(&origin)));
        }
        argsets.add(section, Some(origin))?;
    }
    Ok(())
}

/// Whether an option is not allowed in a file.
fn misplaced(setting: &Setting) -> bool {
    let key = setting.opt.key;
    let names_file = matches!(key, Key::ConfigFile | Key::JobFile);
    setting.opt.reach == Reach::Instead || names_file || debug::is_own(key)
}

fn missing_program(at: usize, count: usize, section: &Section) -> Usage {
    Usage::syntax(match (at, count, section.settings.last()) {
        (_, 1, _) => "there is no program to run".to_owned(),
        (0, _, _) => "there is nothing before the first ':'".to_owned(),
        (_, _, Some(last)) => format!("there is no program after {last} (section {})", at + 1),
        (_, _, None) if at + 1 == count => "there is nothing after the last ':'".to_owned(),
        (_, _, None) => format!("there is nothing between two ':' (section {})", at + 1),
    })
}

#[cfg(test)]
mod tests;
