//! Parses signals: a number or a name, with or without SIG, with or without a dash.

use std::ffi::OsString;
use std::str::FromStr as _;

use nix::sys::signal::Signal;

/// The highest signal number of Linux.
const MAX: u8 = 64;

/// The number of a signal.
///
/// # Errors
/// A text for people if no signal has this number or name.
pub fn parse(text: &str) -> Result<u8, String> {
    let word = text.strip_prefix('-').unwrap_or(text);
    if let Ok(number) = word.parse::<u8>() {
        return match number {
            1..=MAX => Ok(number),
            _ => Err(format!("signals have numbers from 1 to {MAX}")),
        };
    }
    let name = word.to_ascii_uppercase();
    let name = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
    let signal = Signal::from_str(&name).ok().and_then(|s| u8::try_from(s as i32).ok());
    signal.ok_or_else(|| "no signal has this name; 'kill -l' lists them".to_owned())
}

/// Marks a leading signal such as `-INT` or `-9`, so that the parser does not read it as an option.
pub fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.collect();
    if let Some(first) = arguments.get_mut(1)
        && let Some(signal) = first.to_str().and_then(|word| word.strip_prefix('-'))
        && (signal.len() > 1 || signal.parse::<u8>().is_ok())
        && signal.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
    {
        *first = signal.to_owned().into();
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_signals() {
        for text in ["2", "-2", "INT", "SIGINT", "-INT", "sigint", "int", "-SIGINT"] {
            assert_eq!(parse(text), Ok(2), "{text}");
        }
        assert_eq!(parse("64"), Ok(64));
        for bad in ["", "0", "65", "256", "--2", "SIG", "NOSUCH", "SIGSIGINT"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_signal_with_a_dash_is_no_option() {
        let touched = |line: &[&str]| -> Vec<String> {
            let given = line.iter().map(OsString::from);
            arguments(given).into_iter().map(|word| word.into_string().unwrap()).collect()
        };
        assert_eq!(touched(&["x", "-INT", "-j", "1"]), ["x", "INT", "-j", "1"]);
        assert_eq!(touched(&["x", "-9", "-s"]), ["x", "9", "-s"]);
        assert_eq!(touched(&["x", "-V"]), ["x", "-V"]);
        assert_eq!(touched(&["x", "-s", "-INT"]), ["x", "-s", "-INT"]);
        assert_eq!(touched(&["x", "--help"]), ["x", "--help"]);
    }
}
