//! Runs `mpdcheck` on other hosts over ssh, and tries TCP ports in both directions.

use std::thread;
use std::time::Duration;

use super::{Report, reach};
use crate::lookup;
use crate::remote::{Running, Shell};
use mpd_io::parallel;

/// Most hosts checked at a time.
const WIDTH: usize = 16;

/// Deadline of the check on one host, connection included. Each step of that check has a shorter
/// deadline.
const PATIENCE: Duration = Duration::from_secs(60);

/// Deadline for a server to report its port.
const START: Duration = Duration::from_secs(20);

const WALL: &str =
    "let a firewall between the two pass TCP to all ports, or to the one that mpd uses";
const WALL_WHY: &str = "Daemons connect to each other both ways.";

/// How to run `mpdcheck` on other hosts.
#[derive(Clone, Debug)]
pub struct RemoteCheck {
    /// The remote shell.
    pub shell: Shell,
    /// Path of this program, the same on all hosts.
    pub program: String,
    /// Options that select the daemon on the other host.
    pub ring_options: Vec<String>,
}

/// The reports on `hosts`; `ours` is the report on this host.
pub fn reports(remote_check: &RemoteCheck, hosts: &[String], ours: &Report) -> Vec<Report> {
    parallel::each(hosts, WIDTH, |host| remote_check.report(host, ours))
}

impl RemoteCheck {
    fn arguments(&self, rest: &[&str]) -> Vec<String> {
        let rest = rest.iter().map(|word| (*word).to_owned());
        std::iter::once(self.program.clone()).chain(rest).collect()
    }

    fn report(&self, host: &str, ours: &Report) -> Report {
        let mut arguments = self.arguments(&["--json"]);
        arguments.extend(self.ring_options.iter().cloned());
        let result = self.shell.run(host, &arguments, PATIENCE);
        let answer = result.and_then(|ended| {
            parse(&ended.out).ok_or_else(|| self.shell.complaint(&ended, &arguments))
        });
        let theirs = match answer {
            Ok(report) => Report { host: host.to_owned(), ..report },
            Err(problem) => return unreached(host, &problem),
        };
        let mut report = compare(ours, theirs);
        self.try_towards(host, &mut report);
        self.try_back(host, &mut report);
        report
    }

    /// Tries a server on `host` with a client here.
    fn try_towards(&self, host: &str, report: &mut Report) {
        if lookup::addresses(host).is_err() {
            report.note("no connection is tried: its name does not resolve here".to_owned());
            return;
        }
        let line = self.shell.command_line(host, &self.arguments(&["-s"]));
        let outcome = Running::start(&line).and_then(|server| {
            let port = server.line(START, reach::port_in);
            let port = port.ok_or_else(|| "its test server did not start".to_owned())?;
            reach::connect(host, port).map(|_| port)
        });
        match outcome {
            Ok(port) => report.note(format!("a connection to port {port} from here works")),
            Err(text) => {
                let what = format!("it cannot be reached from here: {text}");
                report.problem(what, WALL, WALL_WHY);
            }
        }
    }

    /// Tries a server here with a client on `host`.
    fn try_back(&self, host: &str, report: &mut Report) {
        let Some(own) = reach::own_address_towards(host) else {
            report.note("there is no route back to try".to_owned());
            return;
        };
        let (listener, port) = match reach::listen() {
            Ok(listening) => listening,
            Err(error) => {
                report.note(format!("cannot open a port here for a connection back: {error}"));
                return;
            }
        };
        let patience = START + reach::SERVER_PATIENCE;
        let server = thread::spawn(move || reach::serve(&listener, patience));
        let arguments = self.arguments(&["-c", &own.to_string(), &port.to_string()]);
        match self.shell.output(host, &arguments, START) {
            Ok(_) => {
                // The client received the server's answer, so the server thread ends.
                let _ = server.join();
                report.note(format!("a connection from it to port {port} here works"));
            }
            // The server thread ends at its deadline or with this process.
            Err(text) => {
                let what = format!("it cannot reach this host at {own}: {text}");
                report.problem(what, WALL, WALL_WHY);
            }
        }
    }
}

/// The report in an answer; lines that a login shell prints before it are skipped.
fn parse(out: &str) -> Option<Report> {
    let line = out.lines().rfind(|line| !line.is_empty())?;
    serde_json::from_str::<Vec<Report>>(line).ok()?.into_iter().next()
}

fn unreached(host: &str, problem: &str) -> Report {
    let mut report = Report::new(host);
    report.problem(
        format!("it cannot be asked: {problem}"),
        format!("make 'ssh -o BatchMode=yes {host} true' work without a question"),
        "mpdboot starts daemons by ssh and cannot answer questions of ssh.",
    );
    report
}

/// Compares the keys and releases of two hosts. Pure.
fn compare(ours: &Report, mut theirs: Report) -> Report {
    if theirs.version != ours.version {
        theirs.problem(
            format!("it has release {} and this host {}", theirs.version, ours.version),
            "install the same release on both",
            "Daemons of different releases may not understand each other.",
        );
    }
    match (&ours.key, theirs.key.clone()) {
        (Some(here), Some(there)) if *here != there => theirs.problem(
            format!("it has key {there} and this host key {here}"),
            "remove the key file there; mpdboot then copies this key",
            "Daemons with different keys refuse each other.",
        ),
        (None, Some(there)) => theirs.note(format!("it has key {there}, and this host has none")),
        _ => {}
    }
    theirs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(key: Option<&str>) -> Report {
        Report { key: key.map(str::to_owned), ..Report::new("h") }
    }

    fn problems(ours: Option<&str>, theirs: Option<&str>) -> Vec<String> {
        let compared = compare(&report(ours), report(theirs));
        compared.problems.into_iter().map(|p| p.what).collect()
    }

    #[test]
    fn two_keys_must_be_the_same() {
        assert_eq!(problems(Some("a"), Some("b")), ["it has key b and this host key a"]);
        for (ours, theirs) in [(Some("a"), Some("a")), (Some("a"), None), (None, Some("b"))] {
            assert!(problems(ours, theirs).is_empty());
        }
    }

    #[test]
    fn releases_must_be_the_same() {
        let theirs = Report { version: "0.0.9".into(), ..report(None) };
        assert!(compare(&report(None), theirs).problems[0].what.contains("release 0.0.9"));
    }

    #[test]
    fn a_report_is_found_behind_a_greeting() {
        let out = format!("Welcome\n{}", crate::render::json(&[report(None)]));
        assert_eq!(parse(&out), Some(report(None)));
        assert_eq!(parse("Welcome\n"), None);
    }
}
