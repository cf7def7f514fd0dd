//! `mpdalloc`: holds slots, and runs a command with them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory as _;
use mpd_alloc::data::{AllocRequest, Hardness, Strings};
use mpdtrace::cli::AllocCli;
use mpdtrace::{hold, serve, tool};

pub(crate) fn main() -> ExitCode {
    if let Some(code) = hold::as_command(tool::arguments()) {
        return code;
    }
    tool::main_of(with_dashes(tool::arguments()), run)
}

fn run(cli: &AllocCli) -> Result<ExitCode> {
    match (&cli.caller, hold(cli)) {
        // For the user, this is the other program.
        (Some(name), Err(error)) if !tool::is_reader_gone(&error) => {
            tool::warn(name, &format!("{error:#}"));
            Ok(ExitCode::from(mpd_wire::job::exit::SUITE))
        }
        (_, result) => result,
    }
}

fn hold(cli: &AllocCli) -> Result<ExitCode> {
    if cli.serve || cli.detached {
        return serve::run(cli.detached);
    }
    let hardness = match &cli.soft {
        None => Hardness::Hard,
        Some(values) if values.is_empty() => Hardness::Soft,
        Some(values) => Hardness::Values(values.clone()),
    };
    let request = AllocRequest {
        count: cli.number,
        hardness,
        hosts: cli.hosts.iter().flat_map(|list| list.0.iter().cloned()).collect(),
        arch: cli.arch.clone(),
        width: cli.each,
        limit_s: cli.time,
        // The daemon fills these in.
        uid: 0,
        since_us: 0,
    };
    let strings = Strings { global: cli.info.clone(), each: cli.info_each.clone() };
    request.check()?;
    strings.check()?;
    let name = cli.caller.as_deref().unwrap_or("mpdalloc");
    let manner = hold::Manner { quiet: cli.quiet, now: cli.now };
    hold::run(&cli.ring_options, name, manner, request, strings, &command(cli))
}

fn command(cli: &AllocCli) -> Vec<OsString> {
    if cli.command.is_empty() {
        let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
        return vec![shell.unwrap_or_else(|| "/bin/sh".into())];
    }
    cli.command.clone()
}

/// Replaces `-hard`, `-now`, `-soft` and `-soft LIST` before the command by the options with two dashes.
fn with_dashes(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let alloc = AllocCli::command();
    let mut all: Vec<OsString> = Vec::new();
    let mut rest = arguments.peekable();
    all.extend(rest.next());
    while let Some(word) = rest.next() {
        let is_of_list = |b: u8| b.is_ascii_digit() || b":,-".contains(&b);
        let is_list = |next: &OsString| {
            next.as_bytes().iter().any(u8::is_ascii_digit)
                && next.as_bytes().iter().copied().all(is_of_list)
        };
        match word.to_str() {
            Some("-hard") => all.push("--hard".into()),
            Some("-now") => all.push("--now".into()),
            Some("-soft" | "--soft") => match rest.next_if(is_list) {
                Some(list) => {
                    let mut option = OsString::from("--soft=");
                    option.push(list);
                    all.push(option);
                }
                None => all.push("--soft".into()),
            },
            Some(option) if tool::takes_value(&alloc, option) => {
                all.push(word);
                all.extend(rest.next());
            }
            Some(option) if option.starts_with('-') && option != "--" => all.push(word),
            _ => {
                all.push(word);
                all.extend(rest);
                break;
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> String {
        let words = with_dashes(line.split(' ').map(OsString::from));
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn options_with_one_dash_are_those_of_mpi_and_the_command_keeps_its_own() {
        for (given, wanted) in [
            ("mpdalloc -n 4 -hard", "mpdalloc -n 4 --hard"),
            ("mpdalloc -now a -now", "mpdalloc --now a -now"),
            ("mpdalloc -soft 2:8:2 -n 8 a", "mpdalloc --soft=2:8:2 -n 8 a"),
            ("mpdalloc -n 4 -soft a -soft 1", "mpdalloc -n 4 --soft a -soft 1"),
            ("mpdalloc -soft 1:2:0 a", "mpdalloc --soft=1:2:0 a"),
            ("mpdalloc --soft -- -hard", "mpdalloc --soft -- -hard"),
            ("mpdalloc --hosts h1,* a -hard", "mpdalloc --hosts h1,* a -hard"),
        ] {
            assert_eq!(translated(given), wanted);
        }
    }
}
