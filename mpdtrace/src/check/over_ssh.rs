//! Other hosts look at themselves, by this same program over ssh; and ports are tried both ways.

use std::thread;
use std::time::Duration;

use super::{Report, reach};
use crate::lookup;
use crate::remote::{self, Running, Shell};

/// Hosts worked on at a time.
const WIDTH: usize = 16;

/// How long a host may take to look at itself, connection included: each of its own questions has a
/// shorter deadline.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a server may take to say its port.
const START: Duration = Duration::from_secs(20);

const WALL: &str =
    "let a firewall between the two pass TCP to all ports, or to the one that mpd uses";
const WALL_WHY: &str = "Daemons connect to each other both ways.";

/// What other hosts are asked to do, and by which words.
#[derive(Clone, Debug)]
pub struct Errand {
    /// The remote shell.
    pub shell: Shell,
    /// This program, at the same place there.
    pub program: String,
    /// Which daemon to look for there.
    pub place: Vec<String>,
}

/// The reports of `hosts`, `ours` being that of this one.
pub fn reports(errand: &Errand, hosts: &[String], ours: &Report) -> Vec<Report> {
    remote::each(hosts, WIDTH, |host| errand.report(host, ours))
}

impl Errand {
    fn words(&self, rest: &[&str]) -> Vec<String> {
        let rest = rest.iter().map(|word| (*word).to_owned());
        std::iter::once(self.program.clone()).chain(rest).collect()
    }

    fn report(&self, host: &str, ours: &Report) -> Report {
        let mut words = self.words(&["--json"]);
        words.extend(self.place.iter().cloned());
        let said = self.shell.run(host, &words, PATIENCE);
        let answer = said.and_then(|ended| {
            parse(&ended.out).ok_or_else(|| self.shell.complaint(&ended, &words))
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

    /// A server there, a client here.
    fn try_towards(&self, host: &str, report: &mut Report) {
        if lookup::addresses(host).is_err() {
            report.note("no connection is tried: its name does not resolve here".to_owned());
            return;
        }
        let line = self.shell.command_line(host, &self.words(&["-s"]));
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

    /// A server here, a client there.
    fn try_back(&self, host: &str, report: &mut Report) {
        let Some(own) = reach::own_address_towards(host) else {
            report.note("there is no route back to try".to_owned());
            return;
        };
        let (listener, port) = match reach::listen() {
            Ok(listening) => listening,
            Err(error) => {
                report.note(format!("no port here to try the way back with: {error}"));
                return;
            }
        };
        let patience = START + reach::SERVER_PATIENCE;
        let server = thread::spawn(move || reach::serve(&listener, patience));
        let words = self.words(&["-c", &own.to_string(), &port.to_string()]);
        match self.shell.output(host, &words, START) {
            Ok(_) => {
                // The client heard the server's word, so the server is at its end.
                let _ = server.join();
                report.note(format!("a connection from it to port {port} here works"));
            }
            // The server is left to its deadline and ends with this process.
            Err(text) => {
                let what = format!("it cannot reach this host at {own}: {text}");
                report.problem(what, WALL, WALL_WHY);
            }
        }
    }
}

/// The report in an answer, behind whatever a login shell says.
fn parse(out: &str) -> Option<Report> {
    let line = out.lines().rfind(|line| !line.is_empty())?;
    serde_json::from_str::<Vec<Report>>(line).ok()?.into_iter().next()
}

fn unreached(host: &str, problem: &str) -> Report {
    let mut report = Report::new(host);
    report.problem(
        format!("it cannot be asked: {problem}"),
        format!("see that 'ssh -o BatchMode=yes {host} true' works without a question"),
        "mpdboot starts daemons by ssh, and nobody is there to answer its questions.",
    );
    report
}

/// What two hosts must have in common. Pure.
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
            "remove the key file there, and mpdboot carries this one over",
            "Daemons of different keys do not let each other in.",
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
    fn keys_must_be_the_same_where_there_are_two() {
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
    fn an_answer_is_found_behind_a_greeting() {
        let out = format!("Welcome\n{}", crate::render::json(&[report(None)]));
        assert_eq!(parse(&out), Some(report(None)));
        assert_eq!(parse("Welcome\n"), None);
    }
}
