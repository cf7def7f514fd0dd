//! Checks whether hosts can form a ring.
//!
//! - `facts` collects the facts about this host.
//! - `judge` finds the problems (pure).
//! - `others` resolves the names of other hosts.
//! - `reach` tries TCP ports.
//! - `over_ssh` runs the check on other hosts.

pub mod config;
pub mod facts;
pub mod judge;
pub mod others;
pub mod over_ssh;
pub mod reach;

use mpd_io::files::logging::one_line;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What is wrong.
    pub what: String,
    /// How to repair it.
    pub mend: String,
    /// Why it matters; shown on request.
    pub why: String,
}

/// The findings on one host, or on several hosts together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the host; empty for findings on several hosts.
    pub host: String,
    /// Release of the program that checked.
    pub version: String,
    /// Short id of the key on that host.
    pub key: Option<String>,
    /// Addresses at which other hosts may reach the host.
    pub addresses: Vec<String>,
    pub problems: Vec<Problem>,
    /// Other findings.
    pub notes: Vec<String>,
}

impl Report {
    /// An empty report of this release.
    pub fn new(host: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { host: host.to_owned(), version, ..Self::default() }
    }

    /// Adds a problem.
    pub fn problem(&mut self, what: String, mend: impl Into<String>, why: &str) {
        self.problems.push(Problem { what, mend: mend.into(), why: why.to_owned() });
    }

    /// Adds a note.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

/// How detailed the text is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail<'a> {
    /// Name of this host, which is left out of the lines.
    pub here: &'a str,
    /// Whether notes are shown.
    pub notes: bool,
    /// Whether the reasons of problems are shown.
    pub reasons: bool,
}

/// The reports as text for people. A line of a problem begins with `*** `. Without problems and
/// notes the text is empty.
pub fn text(reports: &[Report], detail: Detail<'_>) -> String {
    let mut text = String::new();
    for report in reports {
        let host = match report.host.as_str() {
            host if host.is_empty() || host == detail.here => String::new(),
            host => format!("{host}: "),
        };
        let mut line = |line: String| text.push_str(&(one_line(&line) + "\n"));
        if detail.notes {
            report.notes.iter().for_each(|note| line(format!("{host}{note}")));
        }
        for Problem { what, mend, why } in &report.problems {
            line(format!("*** {host}{what}; {mend}"));
            if detail.reasons && !why.is_empty() {
                line(format!("    {why}"));
            }
        }
    }
    text
}

/// Whether any report has a problem.
pub fn is_ill(reports: &[Report]) -> bool {
    reports.iter().any(|report| !report.problems.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_begin_with_stars_and_a_sound_host_prints_nothing() {
        let mut report = Report::new("h1");
        report.note("all well\u{7}".into());
        let reports = [report.clone()];
        assert_eq!(text(&reports, Detail::default()), "");
        assert!(!is_ill(&reports));
        report.problem("bad".into(), "mend it", "because");
        let reports = [report];
        assert_eq!(text(&reports, Detail::default()), "*** h1: bad; mend it\n");
        let here = Detail { here: "h1", ..Detail::default() };
        assert_eq!(text(&reports, here), "*** bad; mend it\n");
        let all = Detail { notes: true, reasons: true, here: "h2" };
        assert_eq!(text(&reports, all), "h1: all well\\u{7}\n*** h1: bad; mend it\n    because\n");
        assert!(is_ill(&reports));
    }
}
