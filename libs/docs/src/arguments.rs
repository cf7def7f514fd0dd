//! The parser of command lines. A wrong command line is reported like any error, as `PROGRAM: TEXT`. Options of the
//! original MPD are translated first.

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::Parser;

use crate::original;

/// The exit code of a wrong command line.
const WRONG: u8 = 2;

/// The exit code if help or version cannot be written.
const UNWRITTEN: u8 = 1;

/// Parses the arguments of a program. The first argument is its name. Help, version, lines about options without
/// effect, and the error of a wrong command line are printed.
///
/// # Errors
/// The exit code: 0 after help or version, 1 if these cannot be written, 2 for a wrong command line.
pub fn parse<C: Parser>(arguments: impl IntoIterator<Item = OsString>) -> Result<C, ExitCode> {
    let command = C::command();
    let name = command.get_name();
    let say = |text: &str| {
        // The output may be closed. The exit code still tells the result.
        let _ = writeln!(std::io::stderr(), "{name}: {text}");
    };
    let translated = original::translate(&command, arguments.into_iter().collect());
    let (arguments, remarks) = translated.map_err(|text| {
        say(&text);
        ExitCode::from(WRONG)
    })?;
    remarks.iter().for_each(|remark| say(remark));
    C::try_parse_from(arguments).map_err(|error| {
        if error.use_stderr() {
            // The output may be closed. The exit code still tells the result.
            let _ = std::io::stderr().write_all(refusal(name, &error).as_bytes());
        } else if let Err(problem) = error.print().and_then(|()| std::io::stdout().flush())
            && problem.kind() != ErrorKind::BrokenPipe
        {
            say(&format!("cannot write to standard output: {}", cause(&problem)));
            return ExitCode::from(UNWRITTEN);
        }
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(u8::MAX))
    })
}

/// The text of an error without its number.
fn cause(error: &std::io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

/// The error of a wrong command line of `program`, with the usage.
fn refusal(program: &str, error: &clap::Error) -> String {
    let text = error.render().to_string();
    format!("{program}: {}", text.strip_prefix("error: ").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    #[test]
    fn a_wrong_command_line_is_refused_like_any_error_and_keeps_the_usage() {
        let command = || Command::new("mpdx").arg(Arg::new("n").short('n'));
        for (arguments, first) in [
            (["mpdx", "--z"], "mpdx: unexpected argument '--z' found"),
            (["mpdx", "-n"], "mpdx: a value is required for '-n <n>' but none was supplied"),
        ] {
            let error = command().try_get_matches_from(arguments).unwrap_err();
            let text = refusal("mpdx", &error);
            assert_eq!(text.lines().next(), Some(first));
            assert!(text.ends_with("For more information, try '--help'.\n"), "{text}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
