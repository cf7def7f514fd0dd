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
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DaemonReport {
    /// Its port is open, and it waits for the introduction.
    Ready(Newcomer),
    /// It is in the ring.
    Entered {
        /// Its addresses.
        addresses: Vec<Address>,
    },
    /// It ends.
    Refused {
        /// Why, for people.
        problem: String,
    },
}

/// The message that a waiting daemon gets. A list without its own record is for others; it waits
/// on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// The report.
    Daemon(&'a DaemonReport),
}

impl Introduction {
    /// The line, with its newline.
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}
