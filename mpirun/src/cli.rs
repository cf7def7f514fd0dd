//! The command line, from the words to what is to be done. Reads the configuration file and the host
//! file, if they are named, and the batch system's list of hosts, and touches nothing else.
//!
//! Why not clap alone: it knows neither `:` nor long options with one dash, and MPI users type
//! both. So `scan` walks the words with the arity of our own table (`options`), and clap is built
//! from the same table for what it does well: man pages (`docs`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mpd_debug::numbers::Numbers;
use mpd_io::logging::plain;
use mpd_io::rings::Door;
use mpd_wire::job::JobSpec;

use crate::argsets::Argsets;
use crate::caller::Caller;
use crate::configfile::{self, Origin};
use crate::debug::{self, Wish};
use crate::demand::Demand;
pub use crate::job_options::{ExitReports, TraceWish};
use crate::options::{Key, Reach};
use crate::place::Place;
use crate::scan::{self, Section, Setting};
use crate::singleton::Call;
use crate::target::Target;
pub use crate::usage::Usage;
use crate::{dryrun, help, singleton};

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Run a job.
    Run(Box<Run>),
    /// Print this text: the help.
    Help(String),
    /// Print this text: the version.
    Version(String),
    /// Write man pages and completions into this directory.
    GenerateDocs(PathBuf),
    /// Print this text: what the job would be.
    DryRun(String),
}

/// A job to run.
#[derive(Debug)]
pub struct Run {
    /// The job.
    pub spec: JobSpec,
    /// The program that is its one rank, if that runs already.
    pub call: Option<Call>,
    /// The debugger that its ranks run under.
    pub debug: Option<Wish>,
    /// The job that its ranks are debuggers of, if that runs already.
    pub target: Option<Target>,
    /// What those ranks are called, once they are found.
    pub numbers: Option<Numbers>,
    /// Who runs that job, once it is found.
    pub door: Option<Door>,
    /// Of what a ring for this job alone would be made.
    pub demand: Demand,
    /// Which daemon is to run it.
    pub place: Place,
    /// Which reports of exit codes are wanted.
    pub exits: ExitReports,
    /// What is wanted to be known of the launch.
    pub trace: TraceWish,
    /// Whether to say nothing of ranks that fail.
    pub is_silent: bool,
    /// Whether to say what is being done.
    pub verbose: bool,
}

/// Makes sense of the command line.
///
/// # Errors
/// It makes none; the error is the line to print.
pub fn parse(caller: &Caller) -> Result<Request, Usage> {
    understand(caller).map_err(|e| e.by(&caller.name))
}

fn understand(caller: &Caller) -> Result<Request, Usage> {
    if caller.arguments.is_empty() {
        return Err(Usage::syntax("there is no program to run"));
    }
    let mut sections = scan::sections(&arguments(caller))?;
    if let Some(request) = instead(caller, &sections)? {
        return Ok(request);
    }
    if let Some((wish, target)) = debug::attached(&mut sections, &caller.directory)? {
        return attaching(caller, &sections, wish, target);
    }
    let debug = Wish::take(&mut sections, &caller.directory)?;
    let call = Call::take(&mut sections)?;
    let mut argsets = Argsets::new(caller);
    let with_file = sections.iter().flat_map(|s| &s.settings).any(|s| s.opt.key == Key::ConfigFile);
    let count = sections.len();
    for (at, section) in sections.into_iter().enumerate() {
        // Only the first section may have no program: MPD's way to write what concerns all.
        let leading = at == 0 && count > 1 && !section.is_empty();
        if section.program.is_none() && !leading && !with_file {
            return Err(missing_program(at, count, &section));
        }
        argsets.add(section, None)?;
    }
    if let Some(file) = argsets.job.config_file.get().cloned() {
        if argsets.has_programs() {
            let text = "the programs are either in -configfile or on the command line, not in both";
            return Err(Usage::syntax(text));
        }
        read_programs(&mut argsets, &file)?;
    }
    let (mut spec, demand) = argsets.finish()?;
    if call.is_some() {
        singleton::prepare(&mut spec);
    }
    if let Some(wish) = &debug {
        wish.prepare(&mut spec);
    }
    let exits = argsets.job.reports.exits();
    if argsets.job.dry_run {
        return Ok(Request::DryRun(dryrun::render(
            &spec,
            &exits,
            &argsets.job.reports.trace(),
            caller,
        )));
    }
    let (is_silent, verbose) = (argsets.job.reports.is_silent, argsets.job.reports.verbose);
    let trace = argsets.job.reports.trace();
    let (target, numbers, door) = (None, None, None);
    let place = std::mem::take(&mut argsets.job.place);
    let run = Run {
        spec,
        call,
        debug,
        target,
        numbers,
        door,
        demand,
        place,
        exits,
        trace,
        is_silent,
        verbose,
    };
    Ok(Request::Run(Box::new(run)))
}

/// A job of debuggers that attach to another one.
fn attaching(
    caller: &Caller,
    sections: &[Section],
    wish: Wish,
    target: Target,
) -> Result<Request, Usage> {
    let mut argsets = Argsets::new(caller);
    for section in scan::sections(&wish.words(caller))? {
        argsets.add(section, None)?;
    }
    let (mut spec, demand) = argsets.finish()?;
    wish.prepare(&mut spec);
    let settings = || sections.iter().flat_map(|s| &s.settings);
    let verbose = settings().any(|s| s.opt.key == Key::Verbose);
    let mut place = Place::default();
    settings().try_for_each(|setting| place.note(setting, &caller.directory))?;
    Ok(Request::Run(Box::new(Run {
        spec,
        call: None,
        debug: Some(wish),
        target: Some(target),
        numbers: None,
        door: None,
        demand,
        place,
        exits: ExitReports::default(),
        trace: TraceWish::default(),
        is_silent: false,
        verbose,
    })))
}

/// The words of the command line. What `mpdexec` and `mpigdb` stand for is written in front.
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

/// What is asked for instead of a job, if anything is.
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

/// Adds the sections of a configuration file.
fn read_programs(argsets: &mut Argsets<'_>, file: &Path) -> Result<(), Usage> {
    let name = file.display();
    let bytes = configfile::read(file)
        .map_err(|e| Usage::new(format!("cannot read the -configfile {name}: {}", plain(&e))))?;
    let lines = configfile::lines(&bytes).map_err(|e| Usage::new(format!("{name} {e}")))?;
    for line in lines {
        let origin = Origin { file, line: line.number };
        for section in scan::sections(&line.words).map_err(|e| e.at(Some(&origin)))? {
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

/// Whether an option makes no sense in a file.
fn misplaced(setting: &Setting) -> bool {
    let key = setting.opt.key;
    setting.opt.reach == Reach::Instead || key == Key::ConfigFile || debug::is_own(key)
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
