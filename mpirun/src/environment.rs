//! Which variables a rank gets. Pure: the caller's environment and the options in, a list out.
//!
//! The caller's whole environment, unless told otherwise, without what an enclosing launcher put
//! there for *its* ranks; then `-genvlist`, `-envlist`, `-genv`, `-env` (and `-x`), of which the
//! later wins. `PATH` always stays, because nothing is found without it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use mpd_proto::job::Bytes;

use crate::once::Once;
use crate::options::Key;
use crate::scan::Setting;
use crate::usage::Usage;

/// What the options of one section, or the global ones, say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// `-envall`: true, `-envnone`: false.
    whole: Once<bool>,
    /// Variables of the caller to pass, with the option that says so.
    listed: Vec<(String, Bytes)>,
    /// Whether naming variables means: only these.
    selects: bool,
    /// Variables to set.
    set: Vec<(Bytes, Bytes)>,
}

/// Variables with their values, each once.
pub type Variables = Vec<(Bytes, Bytes)>;

impl Choice {
    /// Takes note of one option.
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
                (name, None) => self.listed.push((setting.name().to_owned(), name.to_vec())),
            },
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

    /// Whether the caller's environment is the base; nothing, if these options do not say.
    fn inherits(&self) -> Option<bool> {
        self.whole.get().copied().or(self.selects.then_some(false))
    }
}

/// The environment of a section with the options `own`, under the global options `defaults`.
///
/// # Errors
/// A listed variable that the caller does not have.
pub fn assemble(
    caller: &[(Bytes, Bytes)],
    defaults: &Choice,
    own: &Choice,
) -> Result<Variables, Usage> {
    let value_of = |name: &[u8]| caller.iter().find(|(n, _)| n == name).map(|(_, value)| value);
    let mut made = Environment::default();
    if own.inherits().or(defaults.inherits()).unwrap_or(true) {
        for (name, value) in caller.iter().filter(|(name, _)| !of_enclosing_launcher(name)) {
            // Of a variable that is there twice, getenv finds the first.
            if !made.places.contains_key(name.as_slice()) {
                made.set(name, value);
            }
        }
    } else if let Some(value) = value_of(b"PATH") {
        made.set(b"PATH", value);
    }
    for (option, name) in defaults.listed.iter().chain(&own.listed) {
        let Some(value) = value_of(name) else {
            let name = String::from_utf8_lossy(name);
            return Err(Usage::new(format!("{name} in {option} is not in the environment")));
        };
        made.set(name, value);
    }
    for (name, value) in defaults.set.iter().chain(&own.set) {
        made.set(name, value);
    }
    Ok(made.variables)
}

/// Variables in the order in which they were first set.
#[derive(Default)]
struct Environment {
    variables: Variables,
    places: BTreeMap<Bytes, usize>,
}

impl Environment {
    fn set(&mut self, name: &[u8], value: &[u8]) {
        match self.places.get(name) {
            Some(&at) => value.clone_into(&mut self.variables[at].1),
            None => {
                self.places.insert(name.to_vec(), self.variables.len());
                self.variables.push((name.to_vec(), value.to_vec()));
            }
        }
    }
}

/// `NAME=VALUE` or `NAME`.
fn split(word: &OsStr) -> (&[u8], Option<&[u8]>) {
    let bytes = word.as_bytes();
    match bytes.iter().position(|&b| b == b'=') {
        Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
        None => (bytes, None),
    }
}

/// Whether a variable belongs to the launcher, if any, that we were started under.
fn of_enclosing_launcher(name: &[u8]) -> bool {
    pmi_proto::is_launcher_variable(name)
}
