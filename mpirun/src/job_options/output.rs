//! The options for the output of ranks: labels and files.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mpd_wire::job::{Bytes, LabelFormat, OutputSpec};

use crate::once::Once;
use crate::options::Key;
use crate::scan::Setting;
use crate::usage::Usage;

/// The given options for the output.
#[derive(Debug, Default)]
pub(crate) struct OutputOptions {
    label: bool,
    label_format: Once<LabelFormat>,
    merge: bool,
    timestamp: bool,
    outfile: Once<LabelFormat>,
    errfile: Once<LabelFormat>,
}

impl OutputOptions {
    /// Adds an option of this group. Relative patterns are relative to `directory`.
    pub(super) fn note(&mut self, setting: &Setting, directory: &Path) -> Result<(), Usage> {
        match setting.opt.key {
            Key::ErrFile => self.errfile.set(file_pattern(setting, directory)?, setting)?,
            Key::Label => self.label = true,
            Key::LabelFormat => {
                // MPD's users write "%r" and expect the colon to be added.
                let own = pattern(setting, setting.value().as_bytes())?;
                let text = [own.as_bytes(), b": "].concat();
                self.label_format.set(pattern(setting, &text)?, setting)?;
            }
            Key::LabelPattern => {
                self.label_format.set(pattern(setting, setting.value().as_bytes())?, setting)?;
            }
            Key::Merge => self.merge = true,
            Key::OutFile => self.outfile.set(file_pattern(setting, directory)?, setting)?,
            Key::Timestamp => self.timestamp = true,
            _ => {}
        }
        Ok(())
    }

    /// The handling of the output.
    pub(crate) fn spec(&self) -> Result<OutputSpec, Usage> {
        let label = match self.label_format.get() {
            Some(format) => Some(format.clone()),
            None if self.label || self.merge => LabelFormat::new(b"%r: ").ok(),
            None => None,
        };
        Ok(OutputSpec {
            label,
            merge: self.merge,
            timestamp: self.timestamp,
            outfile: self.outfile.get().cloned(),
            errfile: self.errfile.get().cloned(),
        })
    }
}

fn pattern(setting: &Setting, text: &[u8]) -> Result<LabelFormat, Usage> {
    let fields = "known are %r rank, %h host, %p process id, %j job id, %a alias, %% percent sign";
    LabelFormat::new(text).map_err(|field| match field {
        None => setting.error(format!("the % at the end has no letter; {fields}")),
        Some(field) => setting.error(format!("there is no field %{field}; {fields}")),
    })
}

/// A pattern of a file name. It is made absolute here, because the ranks may run on other hosts.
fn file_pattern(setting: &Setting, directory: &Path) -> Result<LabelFormat, Usage> {
    let name = setting.nonempty()?;
    if pattern(setting, name.as_bytes())?.names(b'p') {
        // The file is opened before the process exists.
        return Err(setting.error("%p (process id) is for labels only; use %r or %j for files"));
    }
    if Path::new(name).is_absolute() {
        return pattern(setting, name.as_bytes());
    }
    let mut text = Bytes::new();
    for &byte in directory.as_os_str().as_bytes() {
        // A percent sign in the name of the directory is no field.
        text.extend_from_slice(if byte == b'%' { b"%%" } else { std::slice::from_ref(&byte) });
    }
    text.push(b'/');
    text.extend_from_slice(name.as_bytes());
    pattern(setting, &text)
}
