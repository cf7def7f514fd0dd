//! The command line of a launcher shim: `mpd --shim OPTION… -- NAME PROGRAM [ARGUMENT…]`. The manager writes it and
//! the shim reads it. A debugger that is attached to the rank finds it in `/proc`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use mpd_debug::shim::{Plan, Tracing};

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

/// The arguments of a shim's command line, up to the name of the program.
pub(crate) fn words(plan: &Plan) -> Vec<Vec<u8>> {
    let mut words = vec![NAME.to_owned(), crate::cli::SHIM.to_owned()];
    let mut option = |name: &str, value: Option<String>| {
        words.push(name.to_owned());
        words.extend(value);
    };
    if let Some((columns, lines)) = plan.terminal {
        option(TERMINAL, Some(format!("{columns}x{lines}")));
    }
    match plan.tracing {
        Some(Tracing::Stacks) => option(STACKS, None),
        Some(Tracing::Hold) => option(HOLD, None),
        None => {}
    }
    if plan.debugs {
        option(DEBUG, None);
    }
    if plan.once {
        option(ONCE, None);
    }
    if let Some(pid) = plan.attach {
        option(ATTACH, Some(pid.to_string()));
    }
    option(TRACER, Some(plan.tracer.to_string()));
    let mut words: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
    if !plan.gdb.is_empty() {
        words.extend([GDB.into(), plan.gdb.clone()]);
    }
    words.push(END.into());
    words
}

/// Reads the arguments after the role of a shim. Returns its plan and the arguments of its program.
///
/// # Errors
/// They are not the command line of a shim.
pub(crate) fn parse(words: &[OsString]) -> Result<(Plan, &[OsString])> {
    let mut plan = Plan::default();
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
            TERMINAL => plan.terminal = Some(size(value()?).context("invalid size of a terminal")?),
            STACKS => plan.tracing = Some(Tracing::Stacks),
            HOLD => plan.tracing = Some(Tracing::Hold),
            DEBUG => plan.debugs = true,
            ONCE => plan.once = true,
            ATTACH => plan.attach = Some(number(value()?).context("no process")?),
            GDB => plan.gdb = value()?.as_bytes().to_vec(),
            TRACER => plan.tracer = number(value()?).context("no process")?,
            other => bail!("{other:?} is not an option of a shim"),
        }
    }
}

/// The plan of a process, if it is a shim.
pub(crate) fn of(process: u32) -> Option<Plan> {
    let line = std::fs::read(PathBuf::from(format!("/proc/{process}/cmdline"))).ok()?;
    let words: Vec<OsString> =
        line.split(|&byte| byte == 0).map(|word| OsStr::from_bytes(word).to_owned()).collect();
    match &words[..] {
        [name, role, words @ ..] if name == NAME && role == crate::cli::SHIM => {
            parse(words).ok().map(|(plan, _)| plan)
        }
        _ => None,
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
        let gdb = b"/usr/bin/gdb".to_vec();
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
            let mut words = words(&plan);
            words.extend([b"name".to_vec(), b"--".to_vec(), b"--hold".to_vec()]);
            let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
            let (read, program) = parse(&words[2..]).unwrap();
            assert_eq!(read, plan);
            assert_eq!(program, &words[words.len() - 3..]);
        }
    }

    #[test]
    fn a_command_line_without_a_program_or_with_an_unknown_option_is_refused() {
        for bad in [&["--stacks"][..], &["--terminal", "80", "--"], &["--x", "--"], &["--gdb"]] {
            let words: Vec<OsString> = bad.iter().map(OsString::from).collect();
            assert!(parse(&words).is_err(), "{bad:?}");
        }
    }
}
