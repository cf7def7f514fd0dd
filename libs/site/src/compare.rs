//! The facts of hosts, as `mpdsite facts` prints them, and what differs between them.

use std::collections::BTreeMap;

use mpd_placement::hosts::is_host_name;
use serde::{Deserialize, Serialize};

use crate::files::HostFacts;
use crate::hosts::{Site, SiteHost};
use crate::version::{self, Version};

/// Largest difference of clocks, in seconds.
const MAX_CLOCK_S: i64 = 5;
/// Most lines about one kind of problem on one host.
const MAX_LINES: usize = 5;

/// The facts of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Its names, the short one first.
    pub names: Vec<String>,
    pub addresses: Vec<String>,
    /// Its public host keys: type and base64.
    pub keys: Vec<String>,
    /// Names of the directories of versions.
    pub versions: Vec<String>,
    /// Users with their number and the number of their group; system accounts are not among them.
    pub users: BTreeMap<String, (u32, u32)>,
    /// The home directories of these users.
    pub homes: BTreeMap<String, String>,
    /// Seconds since 1970.
    pub time: i64,
    /// Texts of the site's files, by path; a missing file is absent.
    pub files: BTreeMap<String, String>,
    /// The lines between the marks of files that belong to others, by path.
    pub marked: BTreeMap<String, Vec<String>>,
    /// What is wrong on this host by itself, for people.
    pub problems: Vec<String>,
    /// Whether its other sshd accepts host-based logins; `None` if that is unknown.
    pub hostbased: Option<bool>,
    /// Whether a process listens on the port of the starter; `None` if that is unknown.
    pub listens: Option<bool>,
    /// Whether the host that compares reaches this port; `None` if it has not tried.
    #[serde(skip)]
    pub reached: Option<bool>,
}

/// What a host must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Texts of files, by path.
    pub files: BTreeMap<String, String>,
    /// Lines between the marks of files that belong to others, by path.
    pub marked: BTreeMap<String, Vec<String>>,
    /// Its public host keys, as the files of all hosts have them.
    pub keys: Vec<String>,
}

impl Report {
    /// What a host reported, by its name in the list.
    pub fn facts(&self, name: &str) -> HostFacts {
        HostFacts {
            name: name.to_owned(),
            names: self.names.clone(),
            addresses: self.addresses.clone(),
            keys: self.keys.clone(),
        }
    }
}

/// Whether the names, addresses and keys of a report can be those of `host`. They enter the files of all hosts, so a stolen
/// host must not report those of another one, nor further lines.
pub fn is_about_itself(site: &Site, host: &SiteHost, report: &Report) -> bool {
    let short = |name: &str| name.split('.').next().map(str::to_owned);
    let is_name = |name: &String| {
        let is_of_another =
            site.hosts().iter().any(|it| it.name() == name && it.name() != host.name());
        is_host_name(name) && !is_of_another && short(name) == short(host.name())
    };
    let is_address = |address: &String| {
        !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b":.".contains(&b))
    };
    let is_key = |key: &String| match key.split(' ').collect::<Vec<_>>()[..] {
        [kind, text] => {
            kind.bytes().all(|b| b.is_ascii_alphanumeric() || b"-@.".contains(&b))
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b))
        }
        _ => false,
    };
    report.names.iter().all(is_name)
        && report.addresses.iter().all(is_address)
        && report.keys.iter().all(is_key)
}

/// Something that an administrator should repair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub host: String,
    pub text: String,
}

/// What is wrong with the site. `here` is the host that compares; `expected` gives what a host
/// must have. A host without a report is missing.
pub fn findings(
    site: &Site,
    here: &str,
    reports: &BTreeMap<String, Result<Report, String>>,
    expected: impl Fn(&SiteHost) -> Expected,
) -> Vec<Finding> {
    let mut all = Vec::new();
    let reference = reports.get(here).and_then(|it| it.as_ref().ok());
    for host in site.hosts() {
        let mut add = |text: String| all.push(Finding { host: host.name().to_owned(), text });
        let report = match reports.get(host.name()) {
            Some(Ok(report)) => report,
            Some(Err(problem)) => {
                add(format!("it cannot be examined: {problem}"));
                continue;
            }
            None => {
                add("it was not examined".to_owned());
                continue;
            }
        };
        report.problems.iter().cloned().for_each(&mut add);
        let expected = expected(host);
        about_starter(host, here, report).into_iter().for_each(&mut add);
        identity(host, report, &expected).into_iter().for_each(&mut add);
        files(report, &expected).into_iter().for_each(&mut add);
        if let Some(reference) = reference.filter(|_| host.name() != here) {
            users(here, reference, report).into_iter().for_each(&mut add);
            clock(here, reference, report).into_iter().for_each(&mut add);
        }
    }
    all.extend(versions(site, reports));
    all
}

fn about_starter(host: &SiteHost, here: &str, report: &Report) -> Vec<String> {
    let mut texts = Vec::new();
    match report.listens {
        Some(true) if report.reached == Some(false) => texts.push(format!(
            "{here} does not reach its starter on port {}: a firewall, or another address of this name",
            host.port()
        )),
        Some(true) => {}
        Some(false) => texts.push(format!(
            "no starter listens on port {}: systemctl enable --now /etc/mpd/mpd-suite-sshd.socket",
            host.port()
        )),
        None => texts.push("whether a starter listens is unknown".to_owned()),
    }
    match report.hostbased {
        Some(false) => {}
        Some(true) => texts.push(
            "its other sshd has HostbasedAuthentication yes, so the submit hosts of the site may log in there too"
                .to_owned(),
        ),
        None => texts.push("whether its other sshd accepts host-based logins is unknown".to_owned()),
    }
    texts
}

/// Its name and its keys.
fn identity(host: &SiteHost, report: &Report, expected: &Expected) -> Vec<String> {
    let mut texts = Vec::new();
    if !report.names.is_empty() && !report.names.iter().any(|name| name == host.name()) {
        let names = report.names.join(", ");
        texts.push(format!("its own name is {names}, so its users cannot start jobs"));
    }
    if report.keys.is_empty() {
        texts.push("it has no host key in /etc/ssh: ssh-keygen -A".to_owned());
    } else if expected.keys.is_empty() {
        texts.push("its host keys are unknown here: mpdsite init, mpdsite push".to_owned());
    } else if report.keys != expected.keys {
        texts.push("its host keys have changed: mpdsite init, mpdsite push".to_owned());
    }
    texts
}

fn files(report: &Report, expected: &Expected) -> Vec<String> {
    let mut texts = Vec::new();
    for (path, text) in &expected.files {
        match report.files.get(path) {
            Some(there) if there == text => {}
            Some(_) => texts.push(format!("{path} differs from the one here: mpdsite push")),
            None => texts.push(format!("{path} is missing: mpdsite push")),
        }
    }
    for (path, lines) in &expected.marked {
        if report.marked.get(path) != Some(lines) {
            texts.push(format!("the marked lines of {path} differ or are missing: mpdsite push"));
        }
    }
    texts
}

fn users(here: &str, reference: &Report, report: &Report) -> Vec<String> {
    let mut texts = Vec::new();
    for (user, (uid, gid)) in &reference.users {
        match report.users.get(user) {
            None => texts.push(format!("user {user} of {here} (uid {uid}) is missing")),
            Some((other, _)) if other != uid => {
                texts.push(format!("user {user} has uid {other}, but {uid} on {here}"));
            }
            Some((_, other)) if other != gid => {
                texts.push(format!("user {user} has gid {other}, but {gid} on {here}"));
            }
            Some(_) => {}
        }
        if let (Some(home), Some(other)) = (reference.homes.get(user), report.homes.get(user))
            && home != other
        {
            texts.push(format!("the home of user {user} is {other}, but {home} on {here}"));
        }
    }
    for (user, (uid, _)) in &report.users {
        if !reference.users.contains_key(user)
            && let Some((owner, _)) = reference.users.iter().find(|(_, (it, _))| it == uid)
        {
            texts.push(format!("uid {uid} is {user}, but {owner} on {here}"));
        }
    }
    let more = texts.len().saturating_sub(MAX_LINES);
    texts.truncate(MAX_LINES);
    texts.extend((more > 0).then(|| format!("{more} more users differ")));
    texts
}

fn clock(here: &str, reference: &Report, report: &Report) -> Option<String> {
    let ahead = report.time - reference.time;
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    (ahead.abs() > MAX_CLOCK_S)
        .then(|| format!("its clock is {} s {direction} that of {here}", ahead.abs()))
}

/// Hosts without the newest version of the site; or that there is no version for all.
fn versions(site: &Site, reports: &BTreeMap<String, Result<Report, String>>) -> Vec<Finding> {
    let with = |host: &SiteHost| {
        let report = reports.get(host.name())?.as_ref().ok()?;
        Some((
            host.name().to_owned(),
            version::installed(report.versions.iter().map(String::as_str)),
        ))
    };
    let all: Vec<(String, Vec<Version>)> = site.hosts().iter().filter_map(with).collect();
    let common = match version::newest_common(&all) {
        Ok(Some(common)) => common,
        Ok(None) => return Vec::new(),
        Err(problem) => {
            return vec![Finding { host: "site".to_owned(), text: problem.to_string() }];
        }
    };
    let Some(newest) = all.iter().flat_map(|(_, versions)| versions).max() else {
        return Vec::new();
    };
    let without = all.iter().filter(|(_, versions)| !versions.contains(newest));
    let text = format!("it lacks mpd-suite {newest}, so rings on all hosts use {common}");
    without.map(|(host, _)| Finding { host: host.clone(), text: text.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            keys: vec!["ssh-ed25519 KEY".to_owned()],
            versions: vec!["0.2.0".to_owned()],
            users: BTreeMap::from([
                ("alice".to_owned(), (2001, 2001)),
                ("bob".to_owned(), (2002, 2002)),
            ]),
            homes: BTreeMap::from([("alice".to_owned(), "/home/alice".to_owned())]),
            time: 1000,
            files: BTreeMap::from([("/etc/mpd/hosts".to_owned(), "h1 roles=submit".to_owned())]),
            marked: BTreeMap::from([("/etc/ssh/shosts.equiv".to_owned(), vec!["h1".to_owned()])]),
            hostbased: Some(false),
            listens: Some(true),
            ..Report::default()
        }
    }

    fn found(change: impl FnOnce(&mut Report)) -> Vec<String> {
        let site = Site::parse(b"h1 roles=submit,run\nh2\n").unwrap();
        let mut other = report();
        change(&mut other);
        let reports =
            BTreeMap::from([("h1".to_owned(), Ok(report())), ("h2".to_owned(), Ok(other))]);
        let Report { files, marked, keys, .. } = report();
        let expected = Expected { files, marked, keys };
        let found = findings(&site, "h1", &reports, |_| expected.clone());
        found.into_iter().map(|it| format!("{}: {}", it.host, it.text)).collect()
    }

    #[test]
    fn equal_hosts_have_no_findings() {
        assert_eq!(found(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn each_difference_is_one_line_with_its_host() {
        assert_eq!(
            found(|it| it.users =
                BTreeMap::from([("alice".to_owned(), (2001, 7)), ("carl".to_owned(), (2002, 1))])),
            [
                "h2: user alice has gid 7, but 2001 on h1",
                "h2: user bob of h1 (uid 2002) is missing",
                "h2: uid 2002 is carl, but bob on h1",
            ]
        );
        assert_eq!(
            found(|it| _ = it.homes.insert("alice".to_owned(), "/users/alice".to_owned())),
            ["h2: the home of user alice is /users/alice, but /home/alice on h1"]
        );
        assert_eq!(found(|it| it.time = 990), ["h2: its clock is 10 s behind that of h1"]);
        assert_eq!(found(|it| it.time = 1006), ["h2: its clock is 6 s ahead of that of h1"]);
        assert_eq!(found(|it| it.time = 1005), Vec::<String>::new());
        assert_eq!(
            found(|it| it.names = vec!["node7".to_owned(), "node7.lab".to_owned()]),
            ["h2: its own name is node7, node7.lab, so its users cannot start jobs"]
        );
        assert_eq!(
            found(|it| it.versions.clear()),
            ["site: no version of mpd-suite is on all hosts: h1 has 0.2.0; h2 has none"]
        );
        assert_eq!(
            found(|it| it.versions.push("0.1.0".to_owned())),
            Vec::<String>::new(),
            "an old version may stay"
        );
        assert_eq!(
            found(|it| it.versions.push("0.3.0".to_owned())),
            ["h1: it lacks mpd-suite 0.3.0, so rings on all hosts use 0.2.0"]
        );
    }

    #[test]
    fn each_difference_of_the_starter_is_one_line_with_its_host() {
        assert_eq!(found(|it| it.files.clear()), ["h2: /etc/mpd/hosts is missing: mpdsite push"]);
        assert_eq!(
            found(|it| it.files.values_mut().for_each(|text| text.push('x'))),
            ["h2: /etc/mpd/hosts differs from the one here: mpdsite push"]
        );
        assert_eq!(
            found(|it| it.marked.clear()),
            ["h2: the marked lines of /etc/ssh/shosts.equiv differ or are missing: mpdsite push"]
        );
        assert_eq!(
            found(|it| it.keys = vec!["ssh-ed25519 OTHER".to_owned()]),
            ["h2: its host keys have changed: mpdsite init, mpdsite push"]
        );
        assert_eq!(
            found(|it| it.keys.clear()),
            ["h2: it has no host key in /etc/ssh: ssh-keygen -A"]
        );
        assert_eq!(
            found(|it| it.reached = Some(false)),
            [
                "h2: h1 does not reach its starter on port 7122: a firewall, or another address of this name"
            ]
        );
        assert_eq!(
            found(|it| it.hostbased = Some(true)),
            [
                "h2: its other sshd has HostbasedAuthentication yes, so the submit hosts of the site may log in there too"
            ]
        );
        assert_eq!(
            found(|it| it.problems.push("/etc/hosts.equiv exists".to_owned())),
            ["h2: /etc/hosts.equiv exists"]
        );
        assert_eq!(
            found(|it| it.listens = Some(false)),
            [
                "h2: no starter listens on port 7122: systemctl enable --now /etc/mpd/mpd-suite-sshd.socket"
            ]
        );
    }

    #[test]
    fn what_is_unknown_is_not_treated_as_right() {
        assert_eq!(
            found(|it| (it.listens, it.hostbased) = (None, None)),
            [
                "h2: whether a starter listens is unknown",
                "h2: whether its other sshd accepts host-based logins is unknown",
            ]
        );
    }

    #[test]
    fn a_host_may_report_only_what_can_be_its_own() {
        let site = Site::parse(b"h1 roles=submit,run\nh2\n").unwrap();
        let is_own = |change: fn(&mut Report)| {
            let mut report =
                Report { names: vec!["h2".to_owned(), "h2.lab".to_owned()], ..report() };
            report.addresses = vec!["10.0.0.2".to_owned(), "fe80::1".to_owned()];
            change(&mut report);
            is_about_itself(&site, &site.hosts()[1], &report)
        };
        assert!(is_own(|_| {}));
        assert!(!is_own(|it| it.names.push("h1".to_owned())));
        assert!(!is_own(|it| it.names.push("h1.lab".to_owned())));
        assert!(!is_own(|it| it.names.push("h2\nMatch all".to_owned())));
        assert!(!is_own(|it| it.addresses.push("*".to_owned())));
        assert!(!is_own(|it| it.keys.push("ssh-ed25519 A\n* ssh-ed25519 B".to_owned())));
    }

    #[test]
    fn a_host_that_init_has_not_asked_is_a_finding() {
        let site = Site::parse(b"h1 roles=submit,run\n").unwrap();
        let reports = BTreeMap::from([("h1".to_owned(), Ok(report()))]);
        let found = findings(&site, "h1", &reports, |_| Expected::default());
        let texts: Vec<_> = found.iter().map(|it| format!("{}: {}", it.host, it.text)).collect();
        assert_eq!(texts, ["h1: its host keys are unknown here: mpdsite init, mpdsite push"]);
    }

    #[test]
    fn a_host_that_does_not_answer_is_a_finding() {
        let site = Site::parse(b"h1 roles=submit,run\nh[2-3]\n").unwrap();
        let reports = BTreeMap::from([
            ("h1".to_owned(), Ok(report())),
            ("h2".to_owned(), Err("no route".to_owned())),
        ]);
        let Report { keys, .. } = report();
        let expected = Expected { keys, ..Expected::default() };
        let found = findings(&site, "h1", &reports, |_| expected.clone());
        let texts: Vec<_> = found.iter().map(|it| format!("{}: {}", it.host, it.text)).collect();
        assert_eq!(texts, ["h2: it cannot be examined: no route", "h3: it was not examined"]);
    }
}
