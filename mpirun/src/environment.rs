//! The environment of a rank. Pure: it is derived from the caller's environment and the options.
//!
//! By default a rank gets the caller's whole environment, without the variables that an enclosing
//! launcher set for *its* ranks. Then `-genvlist`, `-envlist`, `-genv`, `-env` (and `-x`) apply in
//! this order; later ones win. `PATH` always stays, because programs are searched in it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use mpd_wire::job::Bytes;

use crate::once::Once;
use crate::options::Key;
use crate::scan::Setting;
use crate::usage::Usage;

/// The environment options of one section, or the global ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// `-envall`: true, `-envnone`: false.
    whole: Once<bool>,
    /// Variables of the caller to pass, with the option that names each.
    listed: Vec<(String, Bytes)>,
    /// Variables of the caller to pass if they are set, with the option that names each. A star at the end stands for
    /// all names with this beginning.
    exported: Vec<(String, Bytes)>,
    /// Whether only the named variables are passed.
    selects: bool,
    /// Variables to set.
    set: Vec<(Bytes, Bytes)>,
}

/// The variable from which Open MPI reads the first error handler.
const ERROR_HANDLER: &[u8] = b"OMPI_MCA_mpi_initial_errhandler";

/// The name of an error handler, as in section 11.5 of MPI 4.1.
fn error_handler(setting: &Setting) -> Result<String, Usage> {
    let name = setting.text()?.to_ascii_lowercase();
    match name.as_str() {
        "mpi_errors_are_fatal" | "mpi_errors_abort" | "mpi_errors_return" => Ok(name),
        _ => {
            let known = "it must be mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return";
            Err(setting.error(known))
        }
    }
}

/// The entries of an environment; most have the form `NAME=VALUE`.
pub type Variables = Vec<Bytes>;

impl Choice {
    /// Adds one option.
    pub fn note(&mut self, setting: &Setting) -> Result<(), Usage> {
        match setting.opt.key {
            Key::EnvAll => self.whole.set(true, setting)?,
            Key::EnvNone => self.whole.set(false, setting)?,
            Key::EnvList => {
                self.selects = true;
                let names = setting.value().as_bytes().split(|&b| b == b',');
                for name in names.filter(|n| !n.is_empty()) {
                    self.listed.push((setting.name().to_owned(), name.to_vec()));
                }
            }
            Key::EnvExport => match split(setting.value()) {
                (name, Some(value)) => self.assign(name, value, setting)?,
                (name, None) => self.exported.push((setting.name().to_owned(), name.to_vec())),
            },
            Key::InitialErrorHandler => {
                let name = error_handler(setting)?;
                self.assign(ERROR_HANDLER, name.as_bytes(), setting)?;
            }
            _ => match &setting.values[..] {
                [name, value] => self.assign(name.as_bytes(), value.as_bytes(), setting)?,
                _ => {
                    let (name, value) = split(setting.value());
                    self.assign(name, value.unwrap_or_default(), setting)?;
                }
            },
        }
        Ok(())
    }

    fn assign(&mut self, name: &[u8], value: &[u8], setting: &Setting) -> Result<(), Usage> {
        if name.is_empty() {
            return Err(setting.error("the variable has no name"));
        }
        self.set.push((name.to_vec(), value.to_vec()));
        Ok(())
    }

    /// The variables that options set, with their values.
    pub(crate) fn assigned(&self) -> impl Iterator<Item = &(Bytes, Bytes)> {
        self.set.iter()
    }

    /// A line for each variable to export that the caller does not have.
    pub(crate) fn unset(&self, caller: &[Bytes]) -> Vec<String> {
        let missing = self.exported.iter().filter(|(_, name)| exported(caller, name).is_empty());
        let line = |(option, name): &(String, Bytes)| {
            let name = String::from_utf8_lossy(name);
            format!("{option} {name} has no effect: the variable is not set")
        };
        missing.map(line).collect()
    }

    /// Whether the caller's environment is the base; `None` if these options do not decide.
    fn inherits(&self) -> Option<bool> {
        self.whole.get().copied().or(self.selects.then_some(false))
    }
}

/// The environment of a section with the options `own` and the global options `defaults`. Inherited
/// entries stay byte for byte, including entries without a name or value, and repeated names. A
/// variable that an option sets occurs once.
///
/// # Errors
/// A listed variable is missing in the caller's environment.
pub fn assemble(caller: &[Bytes], defaults: &Choice, own: &Choice) -> Result<Variables, Usage> {
    let mut made = Environment::default();
    if own.inherits().or(defaults.inherits()).unwrap_or(true) {
        let is_ours = |entry: &&Bytes| !name_of(entry).is_some_and(of_enclosing_launcher);
        caller.iter().filter(is_ours).for_each(|entry| made.keep(entry));
    } else {
        made.keep_all(caller, b"PATH");
    }
    for (option, name) in defaults.listed.iter().chain(&own.listed) {
        if value_of(caller, name).is_none() {
            let name = String::from_utf8_lossy(name);
            return Err(Usage::new(format!("{name} in {option} is not in the environment")));
        }
        made.keep_all(caller, name);
    }
    for (_, pattern) in defaults.exported.iter().chain(&own.exported) {
        for name in exported(caller, pattern) {
            made.keep_all(caller, name);
        }
    }
    for (name, value) in defaults.set.iter().chain(&own.set) {
        made.set(name, value);
    }
    Ok(made.entries.into_iter().flatten().collect())
}

/// The names of the caller's variables that a name, possibly with a star at its end, stands for.
fn exported<'a>(caller: &'a [Bytes], pattern: &[u8]) -> Vec<&'a [u8]> {
    let names = caller.iter().filter_map(|entry| name_of(entry));
    match pattern.strip_suffix(b"*") {
        Some(start) => names.filter(|name| name.starts_with(start)).collect(),
        None => names.filter(|name| *name == pattern).take(1).collect(),
    }
}

/// Lets PWD name the directory in which a program runs, as after `cd` there. A path with `..` cannot be in PWD.
pub fn enter(variables: &mut Variables, directory: &[u8]) {
    let directory = Path::new(OsStr::from_bytes(directory));
    let climbs = directory.components().any(|part| part == Component::ParentDir);
    let plain: PathBuf = directory.components().collect();
    let entry = [b"PWD=", plain.as_os_str().as_bytes()].concat();
    let is_pwd = |entry: &Bytes| name_of(entry) == Some(b"PWD");
    match variables.iter().position(is_pwd) {
        Some(at) if !climbs => variables[at] = entry,
        _ => variables.retain(|entry| !is_pwd(entry)),
    }
}

/// The value of a variable, as getenv finds it. If the name occurs twice, the first value.
pub fn value_of<'a>(entries: &'a [Bytes], name: &[u8]) -> Option<&'a [u8]> {
    let found = entries.iter().find(|entry| name_of(entry) == Some(name))?;
    found.get(name.len() + 1..)
}

/// The name of a variable; `None` for an entry that is no variable.
pub fn name_of(entry: &[u8]) -> Option<&[u8]> {
    let at = entry.iter().position(|&b| b == b'=')?;
    Some(&entry[..at]).filter(|name| !name.is_empty())
}

/// Entries in their original order.
#[derive(Default)]
struct Environment {
    /// `None` in place of a removed entry.
    entries: Vec<Option<Bytes>>,
    places: BTreeMap<Bytes, Vec<usize>>,
}

impl Environment {
    fn keep(&mut self, entry: &[u8]) {
        if let Some(name) = name_of(entry) {
            self.places.entry(name.to_vec()).or_default().push(self.entries.len());
        }
        self.entries.push(Some(entry.to_vec()));
    }

    /// Keeps all of the caller's entries with this name, unless they were kept before.
    fn keep_all(&mut self, caller: &[Bytes], name: &[u8]) {
        if !self.places.contains_key(name) {
            let named = caller.iter().filter(|entry| name_of(entry) == Some(name));
            named.for_each(|entry| self.keep(entry));
        }
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        let entry = [name, value].join(&b'=');
        match self.places.get_mut(name) {
            Some(places) => {
                // A program that searches from the end would find a second entry.
                places.drain(1..).for_each(|place| self.entries[place] = None);
                self.entries[places[0]] = Some(entry);
            }
            None => self.keep(&entry),
        }
    }
}

/// Splits `NAME=VALUE` or `NAME`.
fn split(word: &OsStr) -> (&[u8], Option<&[u8]>) {
    let bytes = word.as_bytes();
    match bytes.iter().position(|&b| b == b'=') {
        Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
        None => (bytes, None),
    }
}

/// Whether a variable belongs to an enclosing launcher.
fn of_enclosing_launcher(name: &[u8]) -> bool {
    pmi_proto::is_launcher_variable(name)
}
