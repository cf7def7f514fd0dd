//! Versions of the suite that are installed side by side, as `/usr/lib/mpd-suite/VERSION`.

use std::collections::BTreeSet;
use std::fmt;

/// Most bytes of a version, and most versions of a host.
const MAX_BYTES: usize = 64;
const MAX_VERSIONS: usize = 64;

/// A version: numbers separated by points, and what may follow them, like `0.2.0` or `0.3.0~rc1`.
///
/// The numbers give the order. With equal numbers, a version with `~` is older, and others are
/// compared as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    /// `None` for a text that may not be the name of a directory.
    pub fn new(text: &str) -> Option<Self> {
        let valid = text.len() <= MAX_BYTES
            && text.starts_with(|c: char| c.is_ascii_digit())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".+~-".contains(&b));
        valid.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn key(&self) -> (Vec<u64>, bool, &str) {
        let end = self.0.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.0.len());
        let (numbers, rest) = self.0.split_at(end);
        let numbers = numbers.split('.').map(|it| it.parse().unwrap_or(u64::MAX)).collect();
        (numbers, !rest.starts_with('~'), rest)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The versions among names of directories, newest first.
pub fn installed<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Version> {
    let all: BTreeSet<Version> =
        names.into_iter().filter_map(Version::new).take(MAX_VERSIONS).collect();
    all.into_iter().rev().collect()
}

/// No version is installed on all hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no version of mpd-suite is on all hosts: {}", .hosts.iter()
    .map(|(host, versions)| format!("{host} has {}", listed(versions))).collect::<Vec<_>>().join("; "))]
pub struct NoCommonVersion {
    /// The hosts with their versions.
    pub hosts: Vec<(String, Vec<Version>)>,
}

fn listed(versions: &[Version]) -> String {
    match versions {
        [] => "none".to_owned(),
        all => all.iter().map(Version::as_str).collect::<Vec<_>>().join(", "),
    }
}

/// The newest version that all hosts have; without hosts, `None` of them.
///
/// # Errors
/// [`NoCommonVersion`].
pub fn newest_common(hosts: &[(String, Vec<Version>)]) -> Result<Option<Version>, NoCommonVersion> {
    let Some(((_, first), others)) = hosts.split_first() else { return Ok(None) };
    let common = first.iter().filter(|version| others.iter().all(|(_, it)| it.contains(version)));
    common.max().cloned().map(Some).ok_or_else(|| NoCommonVersion { hosts: hosts.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, versions: &[&str]) -> (String, Vec<Version>) {
        (name.to_owned(), installed(versions.iter().copied()))
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let all = installed(["0.9.0", "0.10.0", "0.10.0~rc1", "..", "mpd-sshd", "0.10.0-2"]);
        assert_eq!(
            all.iter().map(Version::as_str).collect::<Vec<_>>(),
            ["0.10.0-2", "0.10.0", "0.10.0~rc1", "0.9.0"]
        );
    }

    #[test]
    fn a_ring_uses_the_newest_version_that_all_hosts_have() {
        let hosts = [host("h1", &["0.2.0", "0.3.0"]), host("h2", &["0.2.0", "0.1.9"])];
        assert_eq!(newest_common(&hosts).unwrap().unwrap().as_str(), "0.2.0");
        assert_eq!(newest_common(&[]), Ok(None));
    }

    #[test]
    fn without_a_common_version_the_error_names_hosts_and_versions() {
        let hosts = [host("h1", &["0.2.0"]), host("h2", &["0.3.0", "0.4.0"]), host("h3", &[])];
        assert_eq!(
            newest_common(&hosts).unwrap_err().to_string(),
            "no version of mpd-suite is on all hosts: h1 has 0.2.0; h2 has 0.4.0, 0.3.0; h3 has none"
        );
    }
}
