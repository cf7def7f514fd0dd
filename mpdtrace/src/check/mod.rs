//! Whether a host, and hosts together, can carry a ring: what was found, and how it is told.
//!
//! `facts` looks, `judge` decides (pure), `others` resolves other hosts, `reach` tries ports, and
//! `over_ssh` has other hosts look at themselves.

pub mod config;
pub mod facts;
pub mod judge;
pub mod others;
pub mod over_ssh;
pub mod reach;

use mpd_io::logging::one_line;
use serde::{Deserialize, Serialize};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What is wrong.
    pub what: String,
    /// How to mend it.
    pub mend: String,
    /// Why it matters, for those who ask.
    pub why: String,
}

/// What was found on one host, or among all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Which host; empty for what concerns hosts together.
    pub host: String,
    /// Release of the program that looked.
    pub version: String,
    /// Short id of the key there.
    pub key: Option<String>,
    /// Addresses that others may reach it at.
    pub addresses: Vec<String>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl Report {
    /// An empty one, of this release.
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

/// How much is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail<'a> {
    /// The host that needs no naming.
    pub here: &'a str,
    /// Notes too.
    pub notes: bool,
    /// Why problems matter, too.
    pub reasons: bool,
}

/// The reports for people: problems begin with `*** `, and without any there is no text.
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

/// Whether there is any problem.
pub fn is_ill(reports: &[Report]) -> bool {
    reports.iter().any(|report| !report.problems.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_begin_with_stars_and_health_is_silent() {
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
