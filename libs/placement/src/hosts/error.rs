//! Errors in a list of hosts, as messages for the user: the line, the error, and the allowed form.

use std::fmt;

use super::{MAX_FILE, MAX_HOST_ENTRIES, MAX_HOSTS, MAX_LINE};

/// A list of hosts cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InvalidHosts {
    /// The line of the file, counted from 1; `None` for a list on the command line.
    pub line: Option<usize>,
    /// The error.
    pub problem: Problem,
}

impl fmt::Display for InvalidHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.problem),
            None => self.problem.fmt(f),
        }
    }
}

/// An error in a list of hosts. Texts are escaped and shortened when shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("the file has more than {MAX_FILE} bytes")]
    FileTooLong,
    #[error("it has more than {MAX_LINE} bytes")]
    LineTooLong,
    #[error("more than {MAX_HOSTS} hosts, or more than {MAX_HOST_ENTRIES} lines")]
    TooManyHosts,
    /// The text is not UTF-8.
    #[error("it is not text")]
    NotText,
    /// The file has no host.
    #[error("there is no host in the file")]
    NoHost,
    /// There is nothing between two commas.
    #[error("there is a comma with no host beside it")]
    EmptyItem,
    /// The text is not the name of a host.
    #[error(
        "{} is not the name of a host: it can have letters, digits and . _ - (at most 255), \
         a letter or digit first; ranges look like c[1-9,12], IPv6 like [fe80::1]",
        shown(.0)
    )]
    Host(String),
    /// An IPv6 address has no brackets, or there are several counts.
    #[error(
        "{} has several colons: HOST:NCPUS has one, and an IPv6 address needs brackets, [fe80::1]:4",
        shown(.0)
    )]
    Colons(String),
    /// The text is not a valid range.
    #[error("{} has an invalid range; valid are [1-9] and [01-16,20]", shown(.0))]
    Range(String),
    /// The text is not a number of CPUs.
    #[error("{} is not a number of CPUs: HOST:NCPUS and slots=NCPUS take 1 to {MAX_NCPUS}", shown(.0))]
    Ncpus(String),
    /// The text is not a number of GPUs.
    #[error("{} is not a number of GPUs: gpus=N takes 0 to {MAX_NCPUS}", shown(.0))]
    Gpus(String),
    /// The text is not a speed.
    #[error("{} is not a speed: speed=X takes 0.01 to 1000, and an ordinary host has 1", shown(.0))]
    Speed(String),
    /// The text is neither a key nor a value.
    #[error(
        "{} follows the host: only slots=N, max_slots=N, gpus=N, speed=X, ifhn=NAME, user=NAME and port=N can",
        shown(.0)
    )]
    Key(String),
    /// The same key is given twice.
    #[error("{} is given twice", shown(.0))]
    Twice(String),
    /// The text is not the name of an interface.
    #[error(
        "{} is not an ifhn: it takes the name of a host or a numeric address, and with ranges as \
         many as there are hosts",
        shown(.0)
    )]
    Ifhn(String),
    /// The text is not the name of a user.
    #[error(
        "{} is not the name of a user: it can have letters, digits and . _ - (at most 64), \
         a letter, digit or _ first",
        shown(.0)
    )]
    User(String),
    /// The text is not a port.
    #[error("{} is not a port of ssh: a port is 1 to 65535", shown(.0))]
    Port(String),
}

impl Problem {
    pub(super) const fn in_line(self, line: usize) -> InvalidHosts {
        InvalidHosts { line: Some(line), problem: self }
    }

    pub(super) const fn somewhere(self) -> InvalidHosts {
        InvalidHosts { line: None, problem: self }
    }
}

/// Largest number of CPUs: more than any host has.
pub(super) const MAX_NCPUS: u32 = 1_000_000;

/// The highest speed, in hundredths.
pub(super) const MAX_SPEED: u32 = 100_000;

/// Most characters of an offending text that are shown.
const SHOWN: usize = 60;

/// `text` in quotes, made safe for a terminal, and shortened if it is too long for a message.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN).flat_map(char::escape_default).collect();
    let rest = if text.chars().nth(SHOWN).is_some() { "..." } else { "" };
    format!("'{cut}{rest}'")
}
