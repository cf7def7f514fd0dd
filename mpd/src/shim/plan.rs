//! The command line of a launcher shim: `mpd --shim OPTION… -- NAME PROGRAM [ARGUMENT…]`. The manager writes it and
//! the shim reads it. A debugger that is attached to the rank finds it in `/proc`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use mpd_debug::shim::{Abilities, Tracing};

/// The process name of a shim.
pub(crate) const NAME: &str = "mpdshim";

const TERMINAL: &str = "--terminal";
const STACKS: &str = "--stacks";
const HOLD: &str = "--hold";
const DEBUG: &str = "--debug";
const ONCE: &str = "--once";
const ATTACH: &str = "--attach";
const GDB: &str = "--gdb";
const TRACER: &str = "--tracer";
const END: &str = "--";

/// The tasks of a shim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Columns and lines of the program's terminal, if it has one.
    pub(crate) terminal: Option<(u16, u16)>,
    pub(crate) tracing: Option<Tracing>,
    /// Whether the program runs under gdb.
    pub(crate) debugs: bool,
    /// gdb ends when its program has ended.
    pub(crate) once: bool,
    /// The process to which gdb attaches, instead of starting the program.
    pub(crate) attach: Option<u32>,
    /// The path of gdb, if it is used.
    pub(crate) gdb: OsString,
    /// The descendants of this process may trace the program.
    pub(crate) tracer: u32,
}

impl Plan {
    pub(crate) const fn abilities(&self) -> Abilities {
        Abilities { terminal: self.terminal.is_some(), tracing: self.tracing, gdb: self.debugs }
    }

    /// Whether the rank needs a shim.
    pub(crate) const fn is_needed(&self) -> bool {
        self.terminal.is_some() || self.tracing.is_some() || self.debugs
    }

    /// The arguments of a shim's command line, up to the name of the program.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        let mut words = vec![NAME.to_owned(), crate::cli::SHIM.to_owned()];
        let mut option = |name: &str, value: Option<String>| {
            words.push(name.to_owned());
            words.extend(value);
        };
        if let Some((columns, lines)) = self.terminal {
            option(TERMINAL, Some(format!("{columns}x{lines}")));
        }
        match self.tracing {
            Some(Tracing::Stacks) => option(STACKS, None),
            Some(Tracing::Hold) => option(HOLD, None),
            None => {}
        }
        if self.debugs {
            option(DEBUG, None);
        }
        if self.once {
            option(ONCE, None);
        }
        if let Some(pid) = self.attach {
            option(ATTACH, Some(pid.to_string()));
        }
        option(TRACER, Some(self.tracer.to_string()));
        let mut words: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
        if !self.gdb.is_empty() {
            words.extend([GDB.into(), self.gdb.as_bytes().to_vec()]);
        }
        words.push(END.into());
        words
    }

    /// Reads the arguments after the role of a shim. Returns its plan and the arguments of its program.
    ///
    /// # Errors
    /// They are not the command line of a shim.
    pub(crate) fn parse(words: &[OsString]) -> Result<(Self, &[OsString])> {
        let mut plan = Self::default();
        let mut rest = words;
        loop {
            let Some((word, after)) = rest.split_first() else { bail!("no program") };
            rest = after;
            let mut value = || {
                let (value, after) = rest.split_first().context("an option lacks its value")?;
                rest = after;
                Ok::<_, anyhow::Error>(value)
            };
            match word.to_str().unwrap_or_default() {
                END => return Ok((plan, rest)),
                TERMINAL => {
                    plan.terminal = Some(size(value()?).context("invalid size of a terminal")?)
                }
                STACKS => plan.tracing = Some(Tracing::Stacks),
                HOLD => plan.tracing = Some(Tracing::Hold),
                DEBUG => plan.debugs = true,
                ONCE => plan.once = true,
                ATTACH => plan.attach = Some(number(value()?).context("no process")?),
                GDB => plan.gdb = value()?.clone(),
                TRACER => plan.tracer = number(value()?).context("no process")?,
                other => bail!("{other:?} is not an option of a shim"),
            }
        }
    }

    /// The plan of a process, if it is a shim.
    pub(crate) fn of(process: u32) -> Option<Self> {
        let line = std::fs::read(PathBuf::from(format!("/proc/{process}/cmdline"))).ok()?;
        let words: Vec<OsString> =
            line.split(|&byte| byte == 0).map(|word| OsStr::from_bytes(word).to_owned()).collect();
        match &words[..] {
            [name, role, words @ ..] if name == NAME && role == crate::cli::SHIM => {
                Self::parse(words).ok().map(|(plan, _)| plan)
            }
            _ => None,
        }
    }
}

fn number(word: &OsStr) -> Option<u32> {
    word.to_str()?.parse().ok()
}

fn size(word: &OsStr) -> Option<(u16, u16)> {
    let (columns, lines) = word.to_str()?.split_once('x')?;
    Some((columns.parse().ok()?, lines.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn a_shim_reads_the_plan_that_the_manager_has_written() {
        let gdb = OsString::from("/usr/bin/gdb");
        let both = Plan {
            terminal: Some((132, 43)),
            tracing: Some(Tracing::Hold),
            gdb: gdb.clone(),
            tracer: 7,
            ..Plan::default()
        };
        let debug = Plan { debugs: true, attach: Some(9), gdb, tracer: 1, ..Plan::default() };
        let stacks = Plan { once: true, tracing: Some(Tracing::Stacks), ..Plan::default() };
        for plan in [both, debug, stacks] {
            let mut words = plan.words();
            words.extend([b"name".to_vec(), b"--".to_vec(), b"--hold".to_vec()]);
            let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
            let (read, program) = Plan::parse(&words[2..]).unwrap();
            assert_eq!(read, plan);
            assert_eq!(program, &words[words.len() - 3..]);
        }
    }

    #[test]
    fn a_command_line_without_a_program_or_with_an_unknown_option_is_refused() {
        for bad in [&["--stacks"][..], &["--terminal", "80", "--"], &["--x", "--"], &["--gdb"]] {
            let words: Vec<OsString> = bad.iter().map(OsString::from).collect();
            assert!(Plan::parse(&words).is_err(), "{bad:?}");
        }
    }
}
