//! Lists of hosts: the host file of `mpdboot` and `mpirun`, and the lists on their command lines.
//!
//! ```text
//! # a comment, to the end of the line
//! [USER@]HOST[:NCPUS] [slots=NCPUS] [max_slots=N] [gpus=N] [speed=X] [ifhn=NAME] [user=NAME] [port=N]
//! ```
//!
//! Files of other launchers may write the number as `HOST N` or `cpu=N`.
//!
//! `HOST` is a name, a numeric address (IPv6 in brackets: `[fe80::1]:4`), or names with ranges:
//! `c[1-9]`, `c[01-16,20]`, `r[1-2]n[1-8]`. `port` is the port of ssh. A list has the same hosts
//! separated by commas, without keys.
//!
//! The parts of a list become words of a remote shell's command line. A text that could be an
//! option or shell code is therefore refused, and not repaired. This module neither reads the file
//! nor resolves names.

pub mod accounts;
mod error;
mod ranges;
#[cfg(test)]
mod tests;
mod words;

pub use error::{InvalidHosts, Problem};
pub use words::{is_host_name, is_user_name, speed};

use std::collections::BTreeSet;

use mpd_wire::job::{MAX_HOST_ENTRIES, MAX_HOSTS};
use words::HostWord;

/// Most bytes in a line or in a list: as many as an argument or a variable can have.
pub const MAX_LINE: usize = 128 << 10;
/// Most bytes in a host file: enough for [`MAX_HOSTS`] long lines.
pub const MAX_FILE: usize = 4 << 20;

/// The mark with which editors of other systems begin a text in UTF-8.
pub const BOM: &[u8] = b"\xef\xbb\xbf";

/// One host of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEntry {
    /// Its name as written, or its numeric address without brackets.
    pub host: String,
    /// Processes that the host takes before another is preferred.
    pub ncpus: Option<u32>,
    /// Most processes of a job that it takes.
    pub max: Option<u32>,
    pub gpus: Option<u32>,
    /// Its speed in hundredths of that of an ordinary host.
    pub speed: Option<u32>,
    /// The name of the interface by which the other hosts reach it.
    pub ifhn: Option<String>,
    /// The user to log in as.
    pub user: Option<String>,
    /// The port of ssh.
    pub port: Option<u16>,
}

impl HostEntry {
    /// A host of which only the name and the number of processes are known.
    pub const fn named(host: String, ncpus: Option<u32>) -> Self {
        Self { host, ncpus, max: None, gpus: None, speed: None, ifhn: None, user: None, port: None }
    }
}

/// The hosts of a host file, in its order; at least one. Duplicates are kept.
///
/// # Errors
/// [`InvalidHosts`], with the number of the line if one line is wrong.
pub fn parse_file(text: &[u8]) -> Result<Vec<HostEntry>, InvalidHosts> {
    if text.len() > MAX_FILE {
        return Err(Problem::FileTooLong.somewhere());
    }
    let text = text.strip_prefix(BOM).unwrap_or(text);
    let mut entries = Entries::default();
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let line = line_text(line).map_err(|problem| problem.in_line(number))?;
        let content = line.split('#').next().unwrap_or_default();
        entries.add(content).map_err(|problem| problem.in_line(number))?;
    }
    if entries.list.is_empty() {
        return Err(Problem::NoHost.somewhere());
    }
    Ok(entries.list)
}

/// The hosts of a list on the command line, in its order. Duplicates are kept.
///
/// # Errors
/// [`InvalidHosts`], without a line.
pub fn parse_list(text: &str) -> Result<Vec<HostEntry>, InvalidHosts> {
    let mut entries = Entries::default();
    let text = line_text(text.as_bytes()).map_err(Problem::somewhere)?;
    // Lists of scripts often end with a comma.
    let text = text.strip_suffix(',').unwrap_or(text);
    for word in ranges::split_outside_brackets(text) {
        let word = word.trim();
        if word.is_empty() {
            return Err(Problem::EmptyItem.somewhere());
        }
        entries.add(word).map_err(Problem::somewhere)?;
    }
    Ok(entries.list)
}

/// The words of a list of names or patterns, with their ranges expanded: `h[1-2],x*` is `h1`, `h2` and `x*`. In a word with
/// alternatives or a complement, like `h[1-2]+x` or `^h[1-2]`, the names become alternatives.
///
/// # Errors
/// [`InvalidHosts`], without a line.
pub fn expand_names(text: &str) -> Result<Vec<String>, InvalidHosts> {
    let text = line_text(text.as_bytes()).map_err(Problem::somewhere)?;
    let text = text.strip_suffix(',').unwrap_or(text);
    let mut all = Vec::new();
    for word in ranges::split_outside_brackets(text) {
        let word = word.trim();
        let room = MAX_HOSTS - all.len();
        let expand = |word| words::expanded(word, room).map_err(Problem::somewhere);
        let (mark, names) = match word.strip_prefix('^') {
            Some(names) => ("^", names),
            None => ("", word),
        };
        if mark.is_empty() && !names.contains('+') {
            all.extend(expand(names)?);
            continue;
        }
        let parts: Result<Vec<Vec<String>>, _> = names.split('+').map(expand).collect();
        all.push(format!("{mark}{}", parts?.concat().join("+")));
    }
    match all.iter().any(String::is_empty) || all.is_empty() {
        true => Err(Problem::EmptyItem.somewhere()),
        false => Ok(all),
    }
}

fn line_text(line: &[u8]) -> Result<&str, Problem> {
    if line.len() > MAX_LINE {
        return Err(Problem::LineTooLong);
    }
    str::from_utf8(line).map_err(|_| Problem::NotText)
}

/// The hosts of a list so far.
#[derive(Debug, Default)]
struct Entries {
    list: Vec<HostEntry>,
    names: BTreeSet<String>,
}

impl Entries {
    fn add(&mut self, content: &str) -> Result<(), Problem> {
        let mut words = content.split_ascii_whitespace();
        let Some(first) = words.next() else { return Ok(()) };
        let HostWord { user, names, ncpus } = words::host(first, MAX_HOSTS)?;
        let keys = words::Keys::parse(words, user, ncpus, names.len())?;
        for (index, host) in names.into_iter().enumerate() {
            if !self.names.contains(&host) {
                self.names.insert(host.clone());
            }
            if self.names.len() > MAX_HOSTS || self.list.len() == MAX_HOST_ENTRIES {
                return Err(Problem::TooManyHosts);
            }
            self.list.push(HostEntry {
                host,
                ncpus: keys.ncpus,
                max: keys.max,
                gpus: keys.gpus,
                speed: keys.speed,
                ifhn: keys.ifhn.get(index).cloned(),
                user: keys.user.clone(),
                port: keys.port,
            });
        }
        Ok(())
    }
}
