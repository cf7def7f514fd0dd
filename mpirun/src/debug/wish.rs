//! The options of the debugger, and what they make of a job.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mpd_debug::front::Script;
use mpd_io::logging::plain;
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

/// What makes no sense where the debugger's words are labelled, and input is the programs' own terminals'.
const MEANINGLESS: [Key; 15] = [
    Key::ConfigFile,
    Key::ContinueOnFailure,
    Key::ErrFile,
    Key::Label,
    Key::LabelFormat,
    Key::LabelPattern,
    Key::Merge,
    Key::OnCrash,
    Key::OnFailure,
    Key::OutFile,
    Key::Pty,
    Key::Singleton,
    Key::Stdin,
    Key::StdinSwitch,
    Key::Timestamp,
];

/// What belongs to the debugger alone.
const OWN: [Key; 8] = [
    Key::Attach,
    Key::AttachRanks,
    Key::Debug,
    Key::DebugBatch,
    Key::DebugCommand,
    Key::DebugPath,
    Key::Stacks,
    Key::StacksJson,
];

/// What else may be said where there is a job already.
const ALSO_ATTACHED: [Key; 4] = [Key::EnvExport, Key::Ring, Key::RunDir, Key::Verbose];

/// What says nothing where nobody types.
const NOT_FOR_STACKS: [Key; 5] =
    [Key::Attach, Key::Debug, Key::DebugBatch, Key::DebugCommand, Key::EnvExport];

/// What a debugger needs of the user's environment.
const DEBUGGERS_VARIABLES: [&str; 5] = ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "USER"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Command(String),
    File(PathBuf),
}

/// Whether it is about the debugger alone.
pub(crate) fn is_own(key: Key) -> bool {
    OWN.contains(&key)
}

/// A debugger is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    gdb: Bytes,
    steps: Vec<Step>,
    /// Whether the session ends behind the commands of the command line.
    pub batch: bool,
    /// The programs are those of a job that runs.
    pub attached: bool,
    /// Their stacks are wanted, and no session.
    pub stacks: Option<Form>,
}

/// How stacks are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// The whole tree, for programs.
    Json,
}

impl Wish {
    /// The wish in these sections. The options that it is made of are taken out: `-x` is another one elsewhere.
    pub(crate) fn take(sections: &mut [Section], directory: &Path) -> Result<Option<Self>, Usage> {
        let all = || sections.iter().flat_map(|section| &section.settings);
        let has = |key| all().any(|setting| setting.opt.key == key);
        if !has(Key::Debug) {
            // A crash is looked at with it, too.
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
            return Err(Usage::syntax(format!("{name} is for a job that runs: it needs {needed}")));
        }
        Self::of(sections, directory).map(Some)
    }

    /// What the sections say of it, if there is one.
    fn of(sections: &mut [Section], directory: &Path) -> Result<Self, Usage> {
        let gdb = b"gdb".to_vec();
        let mut wish = Self { gdb, steps: Vec::new(), batch: false, attached: false, stacks: None };
        for setting in sections.iter().flat_map(|section| &section.settings) {
            wish.note(setting, directory)?;
        }
        let is_ours = |setting: &Setting| is_own(setting.opt.key) || is_file(setting);
        for section in sections {
            section.settings.retain(|setting| !is_ours(setting));
        }
        Ok(wish)
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

    /// Makes the job one whose ranks run under the debugger.
    pub(crate) fn prepare(&self, spec: &mut JobSpec) {
        spec.debug = Some(Debug { gdb: self.gdb.clone(), attach: Vec::new() });
        // Equal lines once, with the set of ranks in front. Those of ranks that are spawned are not merged, and
        // must not be taken for a debugger's.
        let label = LabelFormat::new(b"spawned %r: ").ok();
        spec.output = OutputSpec { label, merge: true, ..OutputSpec::default() };
        spec.stdin = RankSet::none();
        // A debugger that ends early is told, and the others go on.
        spec.on_failure = OnFailure::Continue;
    }

    /// The words of a job that debuggers run in, of which [`Target::aim`] makes one for each process: it has
    /// what a debugger itself needs of our environment, and goes on as long as it likes.
    pub(crate) fn words(&self, caller: &Caller) -> Vec<OsString> {
        let mut words: Vec<OsString> =
            ["-n", "1", "-hosts", "localhost", "-timeout", "0", "-envnone"].map(Into::into).into();
        // What the user has set for gdb is for what the user types.
        let wanted: &[&str] = if self.stacks.is_some() { &[] } else { &DEBUGGERS_VARIABLES };
        for name in wanted {
            if let Some(value) = caller.variable(name.as_bytes()) {
                words.extend(["-env".into(), name.into(), OsStr::from_bytes(value).to_owned()]);
            }
        }
        if self.stacks.is_some() {
            words.extend(["-wdir", "/"].map(OsString::from));
        }
        words.extend(["--".into(), OsStr::from_bytes(&self.gdb).to_owned()]);
        words
    }

    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be read, is no text, or is no file of commands by its size.
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

/// What there is to be attached to, and how: what these sections say, if they are about a job that runs. They
/// need nothing else then.
pub(crate) fn attached(
    sections: &mut [Section],
    directory: &Path,
) -> Result<Option<(Wish, Target)>, Usage> {
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
            || !wants_stacks && key == Key::StacksJson
    };
    if let Some(setting) = all().find(is_in_vain) {
        let (name, wanted) = (setting.name(), wanted.name());
        return Err(Usage::syntax(format!("{name} makes no sense with {wanted}")));
    }
    if let Some(program) = sections.iter().find_map(|section| section.program.as_ref()) {
        let program = program[0].to_string_lossy();
        let text = format!("{wanted} is about a job that runs; what is the program {program} for?");
        return Err(Usage::syntax(text));
    }
    let (mut job, mut ranks) = (Once::default(), Once::default());
    for setting in all() {
        match setting.opt.key {
            Key::Attach | Key::Stacks => {
                let named = JobRef::or_alias(setting.text()?);
                job.set(named.ok_or_else(|| setting.error("a job is wanted"))?, setting)?;
            }
            Key::AttachRanks => {
                let set: RankSet = setting.text()?.parse().map_err(|e| setting.error(e))?;
                if set.is_empty() {
                    return Err(setting.error("that is nobody"));
                }
                ranks.set(set, setting)?;
            }
            _ => {}
        }
    }
    let Some(job) = job.get().cloned() else { return Ok(None) };
    let target = Target { job, ranks: ranks.get().cloned() };
    let form = if wants(Key::StacksJson).is_some() { Form::Json } else { Form::Text };
    let mut wish = Wish::of(sections, directory)?;
    (wish.attached, wish.stacks) = (true, wants_stacks.then_some(form));
    Ok(Some((wish, target)))
}

/// What an option of the debugger cannot be without.
const fn needed(key: Key) -> &'static str {
    match key {
        Key::AttachRanks => "-gdba or -stacks",
        Key::StacksJson => "-stacks",
        _ => "-d",
    }
}

/// Whether this is a file of commands: only `-d` makes it one.
fn is_file(setting: &Setting) -> bool {
    setting.opt.key == Key::EnvExport
}

fn command(setting: &Setting) -> Result<String, Usage> {
    let text = setting.text()?;
    match text.contains('\n') {
        true => Err(setting.error("one command is wanted, without newlines")),
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
