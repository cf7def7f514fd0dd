//! `mpdfarm`: runs many commands over the slots of the hosts.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory as _;
use mpdtrace::farm::cli::FarmCli;
use mpdtrace::farm::{self, worker};
use mpdtrace::tool;

/// Exit code for a failure of mpdfarm itself. Lower codes count tasks.
const EXIT_SUITE: u8 = 125;

pub(crate) fn main() -> ExitCode {
    let cli: FarmCli = match mpd_docs::arguments::parse(with_dashes(tool::arguments())) {
        Ok(cli) => cli,
        Err(code) if code == ExitCode::SUCCESS => return code,
        Err(_) => return ExitCode::from(EXIT_SUITE),
    };
    let ended = if cli.worker {
        worker::run()
    } else {
        farm::run(&cli).map(|close| ExitCode::from(close.code()))
    };
    ended.unwrap_or_else(|error| {
        if tool::is_reader_gone(&error) {
            return ExitCode::from(tool::EXIT_READER_GONE);
        }
        tool::warn("mpdfarm", &format!("{error:#}"));
        ExitCode::from(EXIT_SUITE)
    })
}

/// Replaces `-now` before the command by the option with two dashes.
fn with_dashes(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let farm = FarmCli::command();
    let mut all: Vec<OsString> = Vec::new();
    let mut rest = arguments.peekable();
    all.extend(rest.next());
    while let Some(word) = rest.next_if(|word| word.to_str().is_some_and(|it| it.starts_with('-')))
    {
        let text = word.to_str().unwrap_or_default();
        let (is_end, has_value) = (text == "--", tool::takes_value(&farm, text));
        all.push(if text == "-now" { "--now".into() } else { word });
        if is_end {
            break;
        }
        all.extend(rest.next_if(|_| has_value));
    }
    all.extend(rest);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_with_one_dash_is_known_before_the_command() {
        for (given, wanted) in [
            ("mpdfarm -now", "mpdfarm --now"),
            ("mpdfarm -k -a in -n 2 -now -- x -now", "mpdfarm -k -a in -n 2 --now -- x -now"),
            ("mpdfarm -j 2 x -now", "mpdfarm -j 2 x -now"),
            ("mpdfarm --joblog -now x", "mpdfarm --joblog -now x"),
        ] {
            let words = with_dashes(given.split(' ').map(OsString::from));
            let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
            assert_eq!(words.join(" "), wanted);
        }
    }
}
