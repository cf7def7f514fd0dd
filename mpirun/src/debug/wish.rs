//! The options of the debugger, and what they make of a job.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mpd_proto::RankSet;
use mpd_proto::debug::front::Script;
use mpd_proto::job::{Bytes, Debug, JobSpec, LabelFormat, OnFailure, OutputSpec};

use crate::options::Key;
use crate::scan::{Section, Setting};
use crate::usage::{Usage, plain};

/// Most bytes of a file of commands.
const MAX_FILE: u64 = 1 << 20;

/// What makes no sense where the debugger's words are labelled, and input is the programs' own terminals'.
const MEANINGLESS: [Key; 14] = [
    Key::ConfigFile,
    Key::ContinueOnFailure,
    Key::ErrFile,
    Key::Label,
    Key::LabelFormat,
    Key::LabelPattern,
    Key::Merge,
    Key::OnFailure,
    Key::OutFile,
    Key::Pty,
    Key::Singleton,
    Key::Stdin,
    Key::StdinSwitch,
    Key::Timestamp,
];

/// What belongs to the debugger alone.
const OWN: [Key; 4] = [Key::Debug, Key::DebugBatch, Key::DebugCommand, Key::DebugPath];

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
}

impl Wish {
    /// The wish in these sections. The options that it is made of are taken out: `-x` is another one elsewhere.
    pub(crate) fn take(sections: &mut [Section], directory: &Path) -> Result<Option<Self>, Usage> {
        let all = || sections.iter().flat_map(|section| &section.settings);
        if !all().any(|setting| setting.opt.key == Key::Debug) {
            return match all().find(|setting| is_own(setting.opt.key)) {
                Some(setting) => Err(Usage::syntax(format!(
                    "{} is for the debugger: it needs -d",
                    setting.name()
                ))),
                None => Ok(None),
            };
        }
        if let Some(setting) = all().find(|setting| MEANINGLESS.contains(&setting.opt.key)) {
            return Err(Usage::syntax(format!("{} makes no sense with -d", setting.name())));
        }
        let mut wish = Self { gdb: b"gdb".to_vec(), steps: Vec::new(), batch: false };
        for setting in all() {
            wish.note(setting, directory)?;
        }
        let is_ours = |setting: &Setting| is_own(setting.opt.key) || is_file(setting);
        for section in sections {
            section.settings.retain(|setting| !is_ours(setting));
        }
        Ok(Some(wish))
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
