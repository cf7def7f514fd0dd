//! What the facts of one host mean for a ring. Pure.

use std::net::IpAddr;

use mpd_wire::is_daemon_name;

use super::Report;
use super::facts::{DaemonFact, Facts, KeyFact};
use crate::{member, render};

/// With fewer descriptors, a few dozen ranks on a host exhaust them: each rank takes three pipes
/// and a socket pair.
const FEW_DESCRIPTORS: u64 = 256;

/// With fewer processes, a few jobs exhaust them.
const FEW_PROCESSES: u64 = 128;

/// The report on one host.
pub fn report(facts: &Facts) -> Report {
    let mut report = Report::new(&facts.host);
    report.addresses = facts.interfaces.iter().map(|(_, ip)| ip.to_string()).collect();
    name(facts, &mut report);
    forward(facts, &mut report);
    reverse(facts, &mut report);
    interfaces(facts, &mut report);
    key(facts, &mut report);
    daemon(facts, &mut report);
    limits(facts, &mut report);
    shell(facts, &mut report);
    report
}

fn name(facts: &Facts, report: &mut Report) {
    const MEND: &str = "name it with 'hostnamectl set-hostname NAME', or name its daemon with \
                        'mpd --name NAME'";
    const WHY: &str = "The names of the hosts distinguish the members of a ring.";
    let host = facts.host.as_str();
    if host.is_empty() || host == "(none)" {
        report.problem("this host has no name".to_owned(), MEND, WHY);
    } else if host == "localhost" || host.starts_with("localhost.") {
        report.problem(format!("the name of this host is '{host}', as on any other"), MEND, WHY);
    } else if is_daemon_name(host) {
        report.note(format!("the name of this host is {host}"));
    } else {
        let what = format!("the name of this host, '{host}', cannot be the name of a daemon");
        report.problem(what, MEND, WHY);
    }
}

fn forward(facts: &Facts, report: &mut Report) {
    const WHY: &str = "mpdboot on other hosts reaches this host by its name.";
    let host = &facts.host;
    let real = facts.interfaces.first().map(|(_, ip)| *ip);
    let example = real.map_or_else(|| "ADDRESS".to_owned(), |ip| ip.to_string());
    let addresses = match &facts.forward {
        Ok(addresses) => addresses,
        Err(error) => {
            let what = format!("the name of this host, '{host}', does not resolve ({error})");
            report.problem(what, format!("add the line '{example} {host}' to /etc/hosts"), WHY);
            return;
        }
    };
    report.note(format!("{host} resolves to {}", render::enumerate(addresses)));
    // A daemon without a network needs no other address.
    let Some(real) = real else { return };
    if addresses.iter().all(IpAddr::is_loopback) {
        let line = facts.loopback_lines.first();
        let origin =
            line.map_or_else(String::new, |line| format!(" by the line '{line}' of /etc/hosts"));
        report.note(format!(
            "on this host its own name means loopback{origin}, as Debian installs it. A ring does not need \
             another address: the daemon announces those of its interfaces, as {real}. Only '--ifhn {host}' \
             would not work here"
        ));
    }
    let ours = |ip: &IpAddr| ip.is_loopback() || facts.interfaces.iter().any(|(_, i)| i == ip);
    let foreign: Vec<_> = addresses.iter().filter(|ip| !ours(ip)).collect();
    if !foreign.is_empty() {
        report.problem(
            format!(
                "the name of this host, '{host}', resolves to {}, which no interface here has",
                render::enumerate(foreign)
            ),
            format!(
                "correct /etc/hosts or the name server, or start mpd with --ifhn {real} if the \
                 address is translated on the way"
            ),
            WHY,
        );
    }
}

fn reverse(facts: &Facts, report: &mut Report) {
    for (ip, name) in facts.reverse.iter().filter(|(ip, _)| !ip.is_loopback()) {
        match name.as_deref() {
            Some(name) if name.starts_with("localhost") => report.problem(
                format!("{ip} is called '{name}'"),
                format!("in /etc/hosts, take 'localhost' off the line of {ip}"),
                "Programs that look up the name of a peer confuse this host with themselves.",
            ),
            Some(name) => report.note(format!("{ip} is called {name}")),
            None => report.note(format!("{ip} has no name; nothing in MPD needs one")),
        }
    }
}

fn interfaces(facts: &Facts, report: &mut Report) {
    let list = facts.interfaces.iter().map(|(name, ip)| format!("{ip} ({name})"));
    match facts.interfaces.as_slice() {
        [] => report
            .note("no network besides loopback: only a ring of one daemon is possible".to_owned()),
        [_] => report.note(format!("address: {}", render::enumerate(list))),
        _ => report.note(format!(
            "addresses: {}; 'mpd --ifhn ADDRESS' chooses the one for the ring",
            render::enumerate(list)
        )),
    }
}

fn key(facts: &Facts, report: &mut Report) {
    match &facts.key {
        KeyFact::Sound(path, id) => {
            report.key = Some(id.clone());
            report.note(format!("key {id} in {}", path.display()));
        }
        KeyFact::Absent(path) => {
            report.note(format!("no key in {} yet; mpdboot makes one", path.display()));
        }
        KeyFact::Unsound(text) => {
            // The text already has the form `PATH: WHAT; REPAIR`.
            let (what, mend) = text.split_once("; ").unwrap_or((text, "see that it can be read"));
            let why = "A user who can read the key controls the ring. A daemon with another key cannot join.";
            report.problem(format!("key file {what}"), mend, why);
        }
    }
}

fn daemon(facts: &Facts, report: &mut Report) {
    let path = facts.rundir.display();
    match &facts.daemon {
        DaemonFact::Absent { stale: false } => report.note(format!("no daemon runs with {path}")),
        DaemonFact::Absent { stale: true } => report.note(format!(
            "no daemon runs with {path}; a dead daemon left its socket, which the next daemon replaces"
        )),
        DaemonFact::Unsafe(text) => {
            let (what, mend) = text.split_once("; ").unwrap_or((text, "choose another --rundir"));
            let why = "A user who can write there could pose as the daemon.";
            report.problem(format!("run directory {what}"), mend, why);
        }
        DaemonFact::Refusing(text) => report.note(format!("a daemon runs with {path}: {text}")),
        DaemonFact::Mute(text) => report.problem(
            format!("the daemon in {path} does not answer as it should: {text}"),
            "see its log, and start it again; running jobs are not affected",
            "Consoles and new jobs need the daemon.",
        ),
        DaemonFact::Alive(view) => {
            let live = member::live(view).count();
            let state = if view.whole { "whole" } else { "healing" };
            report.note(format!("daemon {} runs, in a ring of {live}, {state}", view.me));
            if let KeyFact::Sound(path, id) = &facts.key
                && *id != view.key
            {
                report.problem(
                    format!(
                        "the daemon runs with key {}, and {} holds key {id}",
                        view.key,
                        path.display()
                    ),
                    "end the daemon with 'mpdexit localmpd' and start it again",
                    "Daemons with different keys refuse each other.",
                );
            }
        }
    }
}

fn limits(facts: &Facts, report: &mut Report) {
    let shown = |limit: Option<u64>| limit.map_or_else(|| "no limit".to_owned(), |n| n.to_string());
    let (descriptors, processes) = (facts.limits.descriptors, facts.limits.processes);
    report.note(format!(
        "limits: descriptors {}, processes {}",
        shown(descriptors),
        shown(processes)
    ));
    for (limit, few, name, option) in [
        (descriptors, FEW_DESCRIPTORS, "open files", "-n"),
        (processes, FEW_PROCESSES, "processes", "-u"),
    ] {
        if let Some(limit) = limit.filter(|limit| *limit < few) {
            report.problem(
                format!("only {limit} {name} are allowed"),
                format!(
                    "raise it with 'ulimit {option} 4096' before mpd starts, or for good in \
                     /etc/security/limits.conf"
                ),
                "Each rank needs a process and about five descriptors of its manager.",
            );
        }
    }
}

fn shell(facts: &Facts, report: &mut Report) {
    match &facts.shell {
        Some(path) => report.note(format!("remote shell: {}", path.display())),
        None => report.problem(
            "there is no ssh in PATH".to_owned(),
            "install an ssh client (Debian: openssh-client)",
            "mpdboot starts daemons on other hosts by ssh.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Limits;
    use super::*;
    use crate::samples;

    fn sound() -> Facts {
        let ip: IpAddr = "10.0.0.5".parse().unwrap();
        Facts {
            host: "h1".into(),
            forward: Ok(vec![ip]),
            reverse: vec![(ip, Some("h1.x.org".into()))],
            interfaces: vec![("eth0".into(), ip)],
            loopback_lines: Vec::new(),
            key: KeyFact::Sound("/k".into(), "ab12cd34".into()),
            rundir: "/r".into(),
            daemon: DaemonFact::Alive(Box::new(samples::ring(&["h1", "h2"]))),
            limits: Limits { descriptors: Some(1024), processes: None },
            shell: Some("/usr/bin/ssh".into()),
        }
    }

    /// `WHAT; REPAIR` of each problem that a change to a sound host causes.
    fn problems(change: impl FnOnce(&mut Facts)) -> Vec<String> {
        let mut facts = sound();
        change(&mut facts);
        let problems = report(&facts).problems;
        problems.into_iter().map(|p| format!("{}; {}", p.what, p.mend)).collect()
    }

    fn one(change: impl FnOnce(&mut Facts)) -> String {
        let problems = problems(change);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().next().unwrap()
    }

    #[test]
    fn a_sound_host_has_no_problem_and_says_what_it_is() {
        let report = report(&sound());
        assert_eq!(report.problems, []);
        assert_eq!(report.key.as_deref(), Some("ab12cd34"));
        assert_eq!(report.addresses, ["10.0.0.5"]);
        assert_eq!(
            report.notes,
            [
                "the name of this host is h1",
                "h1 resolves to 10.0.0.5",
                "10.0.0.5 is called h1.x.org",
                "address: 10.0.0.5 (eth0)",
                "key ab12cd34 in /k",
                "daemon h1 runs, in a ring of 2, whole",
                "limits: descriptors 1024, processes no limit",
                "remote shell: /usr/bin/ssh",
            ]
        );
    }

    #[test]
    fn names_that_do_not_distinguish_hosts_are_problems() {
        assert!(one(|f| f.host = String::new()).starts_with("this host has no name; name it"));
        assert!(one(|f| f.host = "localhost.localdomain".into()).contains("as on any other"));
        assert!(one(|f| f.host = "a b".into()).contains("cannot be the name of a daemon"));
    }

    #[test]
    fn the_loopback_line_of_debian_is_a_note_and_no_problem() {
        let mut facts = sound();
        facts.forward = Ok(vec!["127.0.1.1".parse().unwrap()]);
        facts.loopback_lines = vec!["127.0.1.1 h1".into()];
        let report = report(&facts);
        assert_eq!(report.problems, []);
        let note = report.notes.iter().find(|note| note.contains("loopback")).unwrap();
        assert!(
            note.contains("the line '127.0.1.1 h1' of /etc/hosts, as Debian installs it"),
            "{note}"
        );
        assert!(note.contains("as 10.0.0.5. Only '--ifhn h1'"), "{note}");
    }

    #[test]
    fn a_name_that_does_not_resolve_or_resolves_to_another_host_is_a_problem() {
        let text = one(|f| f.forward = Err("not known".into()));
        assert!(text.contains("(not known); add the line '10.0.0.5 h1'"), "{text}");
        let text = one(|f| f.forward = Ok(vec!["10.9.9.9".parse().unwrap()]));
        assert!(text.contains("10.9.9.9, which no interface here has"), "{text}");
    }

    #[test]
    fn a_host_without_a_network_may_resolve_to_loopback() {
        let problems = problems(|f| {
            f.interfaces.clear();
            f.forward = Ok(vec!["127.0.1.1".parse().unwrap()]);
        });
        assert_eq!(problems, [] as [String; 0]);
    }

    #[test]
    fn several_addresses_are_a_note_that_names_the_option_to_choose_one() {
        let mut facts = sound();
        facts.interfaces.push(("ib0".into(), "10.1.0.5".parse().unwrap()));
        let report = report(&facts);
        assert_eq!(report.problems, []);
        assert!(report.notes.iter().any(|n| n.contains("ib0") && n.contains("--ifhn")));
    }

    #[test]
    fn each_unusable_key_directory_daemon_limit_and_shell_is_a_problem() {
        let text = one(|f| f.key = KeyFact::Unsound("/k: is open; run 'chmod 600 /k'".into()));
        assert_eq!(text, "key file /k: is open; run 'chmod 600 /k'");
        let text = one(|f| f.key = KeyFact::Sound("/k".into(), "other".into()));
        assert!(text.contains("runs with key ab12cd34, and /k holds key other"), "{text}");
        let text = one(|f| f.daemon = DaemonFact::Unsafe("/r: is a file; remove it".into()));
        assert_eq!(text, "run directory /r: is a file; remove it");
        assert!(one(|f| f.daemon = DaemonFact::Mute("x".into())).contains("see its log"));
        assert!(one(|f| f.limits.descriptors = Some(64)).contains("only 64 open files"));
        assert!(one(|f| f.limits.processes = Some(10)).contains("'ulimit -u 4096'"));
        assert!(one(|f| f.shell = None).contains("no ssh in PATH; install"));
        assert!(problems(|f| f.daemon = DaemonFact::Absent { stale: true }).is_empty());
        assert!(problems(|f| f.daemon = DaemonFact::Refusing("no ring".into())).is_empty());
        assert!(problems(|f| f.key = KeyFact::Absent("/k".into())).is_empty());
    }
}
