//! The options of one program.

use std::ffi::OsString;
use std::path::PathBuf;

use mpd_placement::hosts::HostEntry;
use mpd_placement::soft::Soft;

use crate::architecture;
use crate::environment::Choice;
use crate::hosts;
use crate::job_options::processes;
use crate::limits::LimitChange;
use crate::once::Once;
use crate::options::Key;
use crate::scan::Setting;
use crate::usage::Usage;

/// The options of one program, or the defaults for all programs.
#[derive(Debug, Default)]
pub(crate) struct Local {
    pub(crate) processes: Once<u32>,
    pub(crate) hosts: Once<Vec<HostEntry>>,
    pub(crate) soft: Once<Soft>,
    pub(crate) directory: Once<PathBuf>,
    pub(crate) path: Once<OsString>,
    pub(crate) umask: Once<u32>,
    pub(crate) pty: bool,
    pub(crate) limits: Vec<(LimitChange, String)>,
    pub(crate) environment: Choice,
    pub(crate) substitute: bool,
}

impl Local {
    /// Adds an option.
    pub(crate) fn note(&mut self, setting: &Setting) -> Result<(), Usage> {
        match setting.opt.key {
            Key::Host => self.hosts.set(hosts::list(setting)?, setting),
            Key::Processes => self.processes.set(processes(setting)?, setting),
            Key::Soft => {
                let soft = setting.text()?.parse().map_err(|e| setting.error(e))?;
                self.soft.set(soft, setting)
            }
            Key::Directory => self.directory.set(setting.nonempty()?.into(), setting),
            Key::Path => self.path.set(setting.nonempty()?.into(), setting),
            Key::Umask => self.umask.set(umask(setting)?, setting),
            Key::Architecture => architecture::check(setting),
            Key::Pty => {
                self.pty = true;
                Ok(())
            }
            Key::Limit => {
                let change: LimitChange = setting.text()?.parse().map_err(|e| setting.error(e))?;
                let other = self.limits.iter().find(|(c, _)| c.same_resource(&change));
                if let Some((_, by)) = other.filter(|(c, _)| *c != change) {
                    let text = format!("{by} and {setting} contradict each other");
                    return Err(Usage::syntax(text));
                }
                self.limits.push((change, setting.to_string()));
                Ok(())
            }
            Key::Substitute => {
                self.substitute = true;
                Ok(())
            }
            Key::EnvSet
            | Key::EnvList
            | Key::EnvAll
            | Key::EnvNone
            | Key::EnvExport
            | Key::InitialErrorHandler => self.environment.note(setting),
            _ => Ok(()),
        }
    }

    /// The number of processes of a program; `most` without an option.
    pub(crate) fn size(&self, all: &Self, most: u32) -> Result<u32, Usage> {
        let most = self.processes.or(&all.processes).get().copied().unwrap_or(most);
        let soft = self.soft.or(&all.soft);
        match soft.get().map(|s| s.largest_up_to(most)) {
            None => Ok(most),
            Some(Some(size)) => Ok(size),
            Some(None) => {
                let text = format!("{} allows no number of processes from 1 to {most}", soft.by());
                Err(Usage::syntax(text))
            }
        }
    }
}

/// Parses a mask: octal with a leading 0, hexadecimal with 0x. A number of several digits without
/// prefix is refused. MPD read it as decimal, but shells read it as octal, and a wrong mask exposes
/// files to other users.
fn umask(setting: &Setting) -> Result<u32, Usage> {
    let text = setting.text()?;
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match (lower.strip_prefix("0x"), lower.strip_prefix("0o")) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) => (digits, 8),
        (None, None) => (lower.as_str(), 8),
    };
    let bare = radix == 8 && digits.len() > 1 && !lower.starts_with('0');
    if bare && digits.bytes().all(|b| b.is_ascii_digit()) {
        let text = format!("write 0{text} if it is octal, as in a shell, or 0x... for hexadecimal");
        return Err(setting.error(text));
    }
    match u32::from_str_radix(digits, radix) {
        Ok(mask) if mask <= 0o777 && digits.bytes().all(|b| b.is_ascii_hexdigit()) => Ok(mask),
        _ => Err(setting.error("it must be a mask from 0 to 0777, like 022 or 0x12")),
    }
}
