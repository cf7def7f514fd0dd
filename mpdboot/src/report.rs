//! The output for users: the table of failures, the report in JSON, the progress bar. Pure.

use std::fmt::Write as _;

use mpd_boot::failure::Failure;
use serde::Serialize;

/// Most failures in the table. The report in JSON has all.
const MAX_SHOWN: usize = 20;

/// The result on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The host can be reached.
    Up,
    /// The host's daemon is in the ring.
    InRing,
    /// The start failed.
    Failed(Failure),
    /// The host was not tried.
    NotStarted,
}

/// A host of the report.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) fate: Fate,
    pub(crate) seconds: f64,
}

impl Row {
    pub(crate) const fn failure(&self) -> Option<&Failure> {
        match &self.fate {
            Fate::Failed(failure) => Some(failure),
            Fate::Up | Fate::InRing | Fate::NotStarted => None,
        }
    }
}

/// The table of failed hosts; empty without failures. A hint that consecutive hosts share is
/// printed once.
pub(crate) fn table(rows: &[Row]) -> String {
    let failed: Vec<(&Row, &Failure)> =
        rows.iter().filter_map(|row| Some((row, row.failure()?))).collect();
    let width = |text: &dyn Fn(&Row) -> usize| failed.iter().map(|(row, _)| text(row)).max();
    let names = width(&|row| row.name.len()).unwrap_or(0);
    let mut out = String::new();
    let mut last_hint = "";
    for (row, failure) in failed.iter().take(MAX_SHOWN) {
        if !last_hint.is_empty() && last_hint != failure.hint {
            line(&mut out, names, last_hint);
        }
        last_hint = &failure.hint;
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "mpdboot: host {:names$}  step {:7}  {}",
            row.name,
            failure.step.name(),
            failure.problem
        );
    }
    if !last_hint.is_empty() {
        line(&mut out, names, last_hint);
    }
    if failed.len() > MAX_SHOWN {
        let more = failed.len() - MAX_SHOWN;
        let _ = writeln!(out, "mpdboot: and {more} hosts more; --json reports all");
    }
    out
}

fn line(out: &mut String, names: usize, hint: &str) {
    let _ = writeln!(out, "mpdboot:      {:names$}  -> {hint}", "");
}

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    ring: &'a str,
    problem: Option<&'a str>,
    total: usize,
    succeeded: usize,
    failed: usize,
    hosts: Vec<HostReport<'a>>,
}

#[derive(Serialize)]
struct HostReport<'a> {
    name: &'a str,
    host: &'a str,
    state: &'static str,
    step: Option<&'static str>,
    problem: Option<&'a str>,
    hint: Option<&'a str>,
    seconds: f64,
}

/// The report in JSON, as one line. `problem` is the reason why nothing was started.
pub(crate) fn json(ring: &str, rows: &[Row], problem: Option<&str>) -> String {
    let host = |row: &'_ Row| -> (&'static str, Option<Failure>) {
        match &row.fate {
            Fate::Up => ("up", None),
            Fate::InRing => ("in_ring", None),
            Fate::NotStarted => ("not_started", None),
            Fate::Failed(failure) => ("failed", Some(failure.clone())),
        }
    };
    let hosts = rows.iter().map(|row| HostReport {
        name: &row.name,
        host: &row.host,
        state: host(row).0,
        step: row.failure().map(|failure| failure.step.name()),
        problem: row.failure().map(|failure| failure.problem.as_str()),
        hint: row.failure().map(|failure| failure.hint.as_str()).filter(|hint| !hint.is_empty()),
        seconds: (row.seconds * 1000.0).round() / 1000.0,
    });
    let count = |wanted: &dyn Fn(&Fate) -> bool| rows.iter().filter(|r| wanted(&r.fate)).count();
    let report = Report {
        version: 1,
        ring,
        problem,
        total: rows.len(),
        succeeded: count(&|fate| matches!(fate, Fate::Up | Fate::InRing)),
        failed: count(&|fate| matches!(fate, Fate::Failed(_))),
        hosts: hosts.collect(),
    };
    serde_json::to_string(&report).unwrap_or_default()
}

/// The progress bar, without a newline.
pub(crate) fn bar(total: usize, done: usize, failed: usize) -> String {
    const WIDTH: usize = 30;
    let filled = ((done + failed) * WIDTH).checked_div(total).unwrap_or(WIDTH);
    let failures = if failed == 0 { String::new() } else { format!(", {failed} failed") };
    format!("[{:.<WIDTH$}] {done} of {total} in the ring{failures}", "#".repeat(filled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpd_boot::failure::Step;

    fn row(name: &str, fate: Fate) -> Row {
        Row { name: name.into(), host: name.into(), fate, seconds: 0.25 }
    }

    fn failed(name: &str, step: Step, problem: &str, hint: &str) -> Row {
        row(name, Fate::Failed(Failure::new(step, problem, hint)))
    }

    #[test]
    fn the_table_has_host_step_and_problem_and_a_common_hint_once() {
        let rows = [
            row("h1", Fate::InRing),
            failed("h2", Step::Exec, "not found", "install it"),
            failed("h3", Step::Exec, "not found", "install it"),
            failed("host10", Step::Ssh, "denied", "ssh-copy-id"),
        ];
        assert_eq!(
            table(&rows),
            "mpdboot: host h2      step exec     not found\n\
             mpdboot: host h3      step exec     not found\n\
             mpdboot:              -> install it\n\
             mpdboot: host host10  step ssh      denied\n\
             mpdboot:              -> ssh-copy-id\n"
        );
        assert_eq!(table(&rows[..1]), "");
    }

    #[test]
    fn a_long_table_is_cut_and_reports_the_number_of_further_hosts() {
        let rows: Vec<Row> =
            (0..500).map(|n| failed(&format!("h{n}"), Step::Ssh, "no", "")).collect();
        let table = table(&rows);
        assert_eq!(table.lines().count(), MAX_SHOWN + 1);
        assert!(table.ends_with("mpdboot: and 480 hosts more; --json reports all\n"));
    }

    #[test]
    fn the_report_has_every_host() {
        let rows = [row("h1", Fate::InRing), failed("h2", Step::Key, "other", "")];
        assert_eq!(
            json("blue", &rows, None),
            "{\"version\":1,\"ring\":\"blue\",\"problem\":null,\"total\":2,\"succeeded\":1,\"failed\":1,\
             \"hosts\":[{\"name\":\"h1\",\"host\":\"h1\",\"state\":\"in_ring\",\"step\":null,\
             \"problem\":null,\"hint\":null,\"seconds\":0.25},{\"name\":\"h2\",\"host\":\"h2\",\
             \"state\":\"failed\",\"step\":\"key\",\"problem\":\"other\",\"hint\":null,\"seconds\":0.25}]}"
        );
    }

    #[test]
    fn the_bar_shows_the_progress() {
        assert_eq!(bar(4, 0, 0), "[..............................] 0 of 4 in the ring");
        assert_eq!(bar(4, 1, 1), "[###############...............] 1 of 4 in the ring, 1 failed");
        assert!(bar(0, 0, 0).starts_with("[####"));
    }
}
