//! The options of the debugger, and the job that they define.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mpd_debug::prompt::Script;
use mpd_io::files::logging::plain;
use mpd_wire::RankSet;
use mpd_wire::job::{Bytes, Debug, JobSpec, LabelFormat, OnFailure, OutputSpec};
use mpd_wire::message::JobRef;

use crate::caller::Caller;
use crate::once::Once;
use crate::options::Key;
use crate::scan::{Section, Setting};
use crate::target::Target;
use crate::usage::Usage;

/// Most bytes of a file of commands.
const MAX_FILE: u64 = 1 << 20;

/// Options that cannot be combined with the debugger, which labels output and gives programs
/// terminals.
const MEANINGLESS: [Key; 18] = [
    Key::AbortScope,
    Key::ConfigFile,
    Key::ContinueOnFailure,
    Key::ErrFile,
    Key::JobFile,
    Key::Label,
    Key::LabelFormat,
    Key::LabelPattern,
    Key::Merge,
    Key::OnCrash,
    Key::OnFailure,
    Key::OutFile,
    Key::OutputFrom,
    Key::Pty,
    Key::Singleton,
    Key::Stdin,
    Key::StdinSwitch,
    Key::Timestamp,
];

/// Options that need the debugger.
const OWN: [Key; 7] = [
    Key::Attach,
    Key::AttachRanks,
    Key::Debug,
    Key::DebugBatch,
    Key::DebugCommand,
    Key::DebugPath,
    Key::Stacks,
];

/// Further options that are allowed when attaching.
const ALSO_ATTACHED: [Key; 5] = [Key::EnvExport, Key::Json, Key::Ring, Key::RunDir, Key::Verbose];

/// Options that need a user at the prompt.
const NOT_FOR_STACKS: [Key; 5] =
    [Key::Attach, Key::Debug, Key::DebugBatch, Key::DebugCommand, Key::EnvExport];

/// Variables of the user's environment that a debugger needs.
const DEBUGGERS_VARIABLES: [&str; 5] = ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "USER"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Command(String),
    File(PathBuf),
}

/// Whether the option needs the debugger.
pub(crate) fn is_own(key: Key) -> bool {
    OWN.contains(&key)
}

/// The options of the debugger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugOptions {
    gdb: Bytes,
    steps: Vec<Step>,
    /// Whether the session ends after the commands of the command line.
    pub batch: bool,
    /// Whether the debuggers attach to a running job.
    pub attached: bool,
    /// Set for `-stacks`: print the stacks of the ranks, without a session.
    pub stacks: Option<Form>,
}

/// The form of printed stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    Text,
    /// The whole tree as JSON.
    Json,
}

impl DebugOptions {
    /// The debugger options of these sections. They are removed from the sections, because `-x` has
    /// another meaning for programs.
    pub(crate) fn take(sections: &mut [Section], directory: &Path) -> Result<Option<Self>, Usage> {
        let all = || sections.iter().flat_map(|section| &section.settings);
        let has = |key| all().any(|setting| setting.opt.key == key);
        if !has(Key::Debug) {
            // These options also apply to the debugger for crashes.
            let looks = |key| matches!(key, Key::DebugPath | Key::DebugBatch);
            let foreign = |key| is_own(key) && !(looks(key) && has(Key::OnCrash));
            return match all().find(|setting| foreign(setting.opt.key)) {
                Some(setting) => Err(Usage::syntax(format!(
                    "{} is for the debugger: it needs {}",
                    setting.name(),
                    needed(setting.opt.key),
                ))),
                None => Ok(None),
            };
        }
        if let Some(setting) = all().find(|setting| MEANINGLESS.contains(&setting.opt.key)) {
            return Err(Usage::syntax(format!("{} makes no sense with -d", setting.name())));
        }
        if let Some(setting) = all().find(|setting| needed(setting.opt.key) != "-d") {
            let (name, needed) = (setting.name(), needed(setting.opt.key));
            return Err(Usage::syntax(format!("{name} is for a running job: it needs {needed}")));
        }
        Self::of(sections, directory).map(Some)
    }

    /// The debugger options of the sections.
    fn of(sections: &mut [Section], directory: &Path) -> Result<Self, Usage> {
        let gdb = b"gdb".to_vec();
        let mut options =
            Self { gdb, steps: Vec::new(), batch: false, attached: false, stacks: None };
        for setting in sections.iter().flat_map(|section| &section.settings) {
            options.note(setting, directory)?;
        }
        let is_ours = |setting: &Setting| is_own(setting.opt.key) || is_file(setting);
        for section in sections {
            section.settings.retain(|setting| !is_ours(setting));
        }
        Ok(options)
    }

    fn note(&mut self, setting: &Setting, directory: &Path) -> Result<(), Usage> {
        match setting.opt.key {
            Key::DebugBatch => self.batch = true,
            Key::DebugCommand => self.steps.push(Step::Command(command(setting)?)),
            Key::DebugPath => self.gdb = setting.nonempty()?.as_bytes().to_vec(),
            _ if is_file(setting) => {
                self.steps.push(Step::File(directory.join(setting.nonempty()?)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Changes the job so that its ranks run under the debugger.
    pub(crate) fn prepare(&self, spec: &mut JobSpec) {
        spec.debug = Some(Debug { gdb: self.gdb.clone(), attach: Vec::new() });
        // Equal lines are merged, with the set of ranks as label. Lines of spawned ranks are not
        // merged and have another label, which distinguishes them from lines of a debugger.
        let label = LabelFormat::new(b"spawned %r: ").ok();
        spec.output = OutputSpec { label, merge: true, ..OutputSpec::default() };
        spec.stdin = RankSet::none();
        // The early end of a debugger is reported, and the other debuggers continue.
        spec.on_failure = OnFailure::Continue;
    }

    /// The command line of a job of debuggers, from which [`Target::aim`] makes one debugger for
    /// each process. The job has the variables that a debugger needs, and no time limit.
    pub(crate) fn arguments(&self, caller: &Caller) -> Vec<OsString> {
        let mut arguments: Vec<OsString> =
            ["-n", "1", "-hosts", "localhost", "-timeout", "0", "-envnone"].map(Into::into).into();
        // The user's gdb settings apply only to commands that the user types.
        let wanted: &[&str] = if self.stacks.is_some() { &[] } else { &DEBUGGERS_VARIABLES };
        for name in wanted {
            if let Some(value) = caller.variable(name.as_bytes()) {
                arguments.extend(["-env".into(), name.into(), OsStr::from_bytes(value).to_owned()]);
            }
        }
        if self.stacks.is_some() {
            arguments.extend(["-wdir", "/"].map(OsString::from));
        }
        arguments.extend(["--".into(), OsStr::from_bytes(&self.gdb).to_owned()]);
        arguments
    }

    /// Reads the files of commands.
    ///
    /// # Errors
    /// A file cannot be read, is not text, or is too large.
    pub(crate) fn script(&self) -> Result<Script> {
        let mut script = Script::default();
        for step in &self.steps {
            match step {
                Step::Command(command) => script.add(command),
                Step::File(path) => {
                    let name = path.display().to_string();
                    let text = read(path).with_context(|| format!("-x {name}"))?;
                    script.add_file(&name, &text).map_err(anyhow::Error::msg)?;
                }
            }
        }
        Ok(script)
    }
}

/// The target and the debugger options, if the sections attach to a running job.
pub(crate) fn attached(
    sections: &mut [Section],
    directory: &Path,
) -> Result<Option<(DebugOptions, Target)>, Usage> {
    let all = || sections.iter().flat_map(|section| &section.settings);
    let wants = |key| all().find(|setting| setting.opt.key == key);
    let is_debugged = wants(Key::Debug).is_some();
    let Some(wanted) = wants(Key::Stacks).or_else(|| wants(Key::Attach)) else { return Ok(None) };
    let wants_stacks = wanted.opt.key == Key::Stacks;
    if wanted.name().trim_start_matches('-') == "p" && !is_debugged {
        return Err(Usage::syntax("-p is for the debugger: it needs -d"));
    }
    let is_known = |key| is_own(key) || ALSO_ATTACHED.contains(&key);
    let is_in_vain = |setting: &&Setting| {
        let key = setting.opt.key;
        !is_known(key)
            || wants_stacks && NOT_FOR_STACKS.contains(&key)
            || !wants_stacks && key == Key::Json
    };
    if let Some(setting) = all().find(is_in_vain) {
        let (name, wanted) = (setting.name(), wanted.name());
        return Err(Usage::syntax(format!("{name} makes no sense with {wanted}")));
    }
    if let Some(program) = sections.iter().find_map(|section| section.program.as_ref()) {
        let program = program[0].to_string_lossy();
        let text =
            format!("{wanted} attaches to a running job; the program {program} is not allowed");
        return Err(Usage::syntax(text));
    }
    let (mut job, mut ranks) = (Once::default(), Once::default());
    for setting in all() {
        match setting.opt.key {
            Key::Attach | Key::Stacks => {
                let named = JobRef::or_alias(setting.text()?);
                job.set(named.ok_or_else(|| setting.error("it must name a job"))?, setting)?;
            }
            Key::AttachRanks => {
                let set: RankSet = setting.text()?.parse().map_err(|e| setting.error(e))?;
                if set.is_empty() {
                    return Err(setting.error("no rank is selected"));
                }
                ranks.set(set, setting)?;
            }
            _ => {}
        }
    }
    let Some(job) = job.get().cloned() else { return Ok(None) };
    let target = Target { job, ranks: ranks.get().cloned() };
    let form = if wants(Key::Json).is_some() { Form::Json } else { Form::Text };
    let mut options = DebugOptions::of(sections, directory)?;
    (options.attached, options.stacks) = (true, wants_stacks.then_some(form));
    Ok(Some((options, target)))
}

/// The option that an option of the debugger needs.
const fn needed(key: Key) -> &'static str {
    match key {
        Key::AttachRanks => "-gdba or -stacks",
        _ => "-d",
    }
}

/// Whether the option names a file of commands. Only `-d` gives it that meaning.
fn is_file(setting: &Setting) -> bool {
    setting.opt.key == Key::EnvExport
}

fn command(setting: &Setting) -> Result<String, Usage> {
    let text = setting.text()?;
    match text.contains('\n') {
        true => Err(setting.error("it must be one command without newlines")),
        false => Ok(text.to_owned()),
    }
}

fn read(path: &Path) -> Result<String> {
    let size = std::fs::metadata(path).map_err(|e| anyhow::anyhow!(plain(&e)))?.len();
    if size > MAX_FILE {
        bail!("a file of {size} bytes has no commands; {MAX_FILE} is the most");
    }
    let bytes = std::fs::read(path).map_err(|e| anyhow::anyhow!(plain(&e)))?;
    String::from_utf8(bytes).context("it is not UTF-8 text")
}
