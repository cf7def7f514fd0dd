//! The options for the output of ranks: labels and files.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mpd_wire::RankSet;
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
    /// Those of both streams, without a pattern of their own.
    files: Once<[LabelFormat; 2]>,
    tee: bool,
    joined: bool,
    only: Once<RankSet>,
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
            Key::JoinErr => self.joined = true,
            Key::Merge => self.merge = true,
            Key::OutputFrom => {
                let ranks = setting.text()?.parse().map_err(|e| setting.error(e))?;
                self.only.set(ranks, setting)?;
            }
            Key::OutFile => self.outfile.set(file_pattern(setting, directory)?, setting)?,
            Key::OutputFile => {
                let of = |stream| file_pattern_of(setting, directory, stream);
                self.files.set([of("out")?, of("err")?], setting)?;
            }
            Key::Tee => self.tee = true,
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
        let [out, err] = self.files.get().cloned().map_or([None, None], |both| both.map(Some));
        let outfile = self.outfile.get().cloned().or(out);
        let mut errfile = self.errfile.get().cloned().or(err);
        if self.joined {
            if self.errfile.get().is_some() {
                let text = format!("{}: standard error is standard output", self.errfile.by());
                return Err(Usage::syntax(text));
            }
            errfile = None;
        }
        if self.tee && outfile.is_none() && errfile.is_none() {
            let text = "-tee needs files: -outfile-pattern, -errfile-pattern or -output-pattern";
            return Err(Usage::syntax(text));
        }
        if self.tee && self.merge {
            return Err(Usage::syntax("-m cannot print the output that -tee copies from files"));
        }
        let (merge, timestamp) = (self.merge, self.timestamp);
        let (copy, joined) = (self.tee, self.joined);
        let only = self.only.get().cloned();
        Ok(OutputSpec { label, merge, timestamp, outfile, errfile, copy, joined, only })
    }
}

fn pattern(setting: &Setting, text: &[u8]) -> Result<LabelFormat, Usage> {
    LabelFormat::new(text).map_err(|problem| setting.error(problem.to_string()))
}

/// A pattern of a file name.
fn file_pattern(setting: &Setting, directory: &Path) -> Result<LabelFormat, Usage> {
    complete(setting, directory, setting.nonempty()?.as_bytes())
}

/// The same for one stream of two: `%o` is the name of the stream.
fn file_pattern_of(
    setting: &Setting,
    directory: &Path,
    stream: &str,
) -> Result<LabelFormat, Usage> {
    let mut name = Bytes::new();
    let mut rest = setting.nonempty()?.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let next = after.first().filter(|_| byte == b'%');
        match next {
            Some(b'o') => name.extend_from_slice(stream.as_bytes()),
            Some(&field) => name.extend_from_slice(&[byte, field]),
            None => name.push(byte),
        }
        rest = &after[usize::from(next.is_some())..];
    }
    complete(setting, directory, &name)
}

/// Makes a pattern absolute, because the ranks may run on other hosts.
fn complete(setting: &Setting, directory: &Path, name: &[u8]) -> Result<LabelFormat, Usage> {
    if pattern(setting, name)?.names(b'p') {
        // The file is opened before the process exists.
        return Err(setting.error("%p (process id) is for labels only; use %r or %j for files"));
    }
    if name.starts_with(b"/") {
        return pattern(setting, name);
    }
    let mut text = Bytes::new();
    for &byte in directory.as_os_str().as_bytes() {
        // A percent sign in the name of the directory is no field.
        text.extend_from_slice(if byte == b'%' { b"%%" } else { std::slice::from_ref(&byte) });
    }
    text.push(b'/');
    text.extend_from_slice(name);
    pattern(setting, &text)
}
