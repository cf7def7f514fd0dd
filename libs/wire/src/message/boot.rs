//! Between `mpdboot` and a daemon that it starts on another host: lines on the daemon's standard
//! output, and one message on its standard input.
//!
//! A daemon reports that it is ready and waits. When all daemons of the boot are ready, each gets the
//! records of all members in one message.

use serde::{Deserialize, Serialize};

use crate::{Address, Newcomer, Record};

/// Most bytes of a line of the introduction, as of a request of `mpdboot`.
pub const MAX_INTRODUCTION: usize = 16 << 20;

/// A report of a daemon that a boot has started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DaemonReport {
    /// Its port is open, and it waits for the introduction.
    Ready(Newcomer),
    /// It is in the ring.
    Entered { addresses: Vec<Address> },
    /// It ends.
    Refused {
        /// Why, for people.
        problem: String,
    },
}

/// The message that a waiting daemon gets. A list without its own record is for others; it waits
/// on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// The records of all members.
    pub records: Vec<Record>,
}

/// The line of a report, with its newline. The nonce of the boot distinguishes it from banners and
/// from the output of login scripts.
pub fn report_line(report: &impl Serialize, nonce: &str) -> String {
    // Strings and numbers can always be encoded.
    let json = serde_json::to_string(report).unwrap_or_default();
    format!("MPDBOOT-{nonce} {json}\n")
}

/// The report of a daemon as `mpdboot` receives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OfDaemon<'a> {
    Daemon(&'a DaemonReport),
}

/// The standard input of a waiting daemon, cut into lists.
#[derive(Debug, Default)]
pub struct IntroductionReader {
    line: Vec<u8>,
    /// The number of bytes of `line` that are known to have no newline.
    seen: usize,
}

/// The input is no list, or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the list of members is malformed or too long")]
pub struct NoIntroduction;

impl IntroductionReader {
    /// Takes bytes, also none. Returns the records of the next list that has the one of `own`; other lists are dropped.
    ///
    /// # Errors
    /// [`NoIntroduction`].
    pub fn take(
        &mut self,
        bytes: &[u8],
        own: &Newcomer,
    ) -> Result<Option<Vec<Record>>, NoIntroduction> {
        if self.line.len() + bytes.len() > MAX_INTRODUCTION {
            return Err(NoIntroduction);
        }
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line[self.seen..].iter().position(|&byte| byte == b'\n') {
            let rest = self.line.split_off(self.seen + end + 1);
            let line = std::mem::replace(&mut self.line, rest);
            self.seen = 0;
            let list: Introduction = serde_json::from_slice(&line).map_err(|_| NoIntroduction)?;
            if list.records.iter().any(|r| r.name == own.name && r.instance == own.instance) {
                return Ok(Some(list.records));
            }
        }
        self.seen = self.line.len();
        Ok(None)
    }
}

impl Introduction {
    /// The line, with its newline.
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DaemonName, Instance, Standing};

    fn newcomer(name: &str, byte: u8) -> Newcomer {
        Newcomer {
            name: DaemonName::new(name).unwrap(),
            instance: Instance::from_bytes([byte; 16]),
            ordinal: None,
            ncpus: 1,
            addresses: Vec::new(),
        }
    }

    fn list(members: &[&Newcomer]) -> Vec<u8> {
        let record = |newcomer: &&Newcomer| Record {
            name: newcomer.name.clone(),
            incarnation: 1,
            standing: Standing::Live,
            instance: newcomer.instance,
            position: 0,
            ordinal: 1,
            ncpus: 1,
            draining: false,
            addresses: Vec::new(),
            by: None,
            age_s: 0,
        };
        Introduction { records: members.iter().map(record).collect() }.to_line()
    }

    #[test]
    fn lists_for_others_are_passed_over_however_the_input_is_cut() {
        let (own, other) = (newcomer("h1", 1), newcomer("h1", 2));
        let input = [list(&[&other]), list(&[&other, &own]), list(&[&own])].concat();
        for size in [1, 7, input.len()] {
            let mut reader = IntroductionReader::default();
            let mut lengths = Vec::new();
            for piece in input.chunks(size) {
                let mut piece = piece;
                while let Some(records) = reader.take(piece, &own).unwrap() {
                    lengths.push(records.len());
                    piece = &[];
                }
            }
            assert_eq!(lengths, [2, 1], "pieces of {size} bytes");
        }
    }

    #[test]
    fn other_lines_and_endless_lines_are_refused() {
        let own = newcomer("h1", 1);
        assert_eq!(IntroductionReader::default().take(b"{}\n", &own), Err(NoIntroduction));
        let mut reader = IntroductionReader::default();
        assert_eq!(reader.take(&vec![b' '; MAX_INTRODUCTION], &own), Ok(None));
        assert_eq!(reader.take(b" ", &own), Err(NoIntroduction));
    }
}
