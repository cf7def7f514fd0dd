//! The running rings of this user on this host, for messages about a ring that is not running.
//!
//! The search covers daemons in default run directories. A directory that the user has chosen is not found.

use std::collections::BTreeSet;
use std::path::Path;

use crate::ring::rundir::{RunDir, default_places, host_name};

/// Most entries of a directory that are examined.
const MAX_ENTRIES: usize = 10_000;

/// Most rings that a message names.
const MAX_NAMED: usize = 8;

/// The end of a message about `missed`, which is not running: the running rings; empty if there are none.
pub fn running_rings(missed: &RunDir) -> String {
    text(&up(missed.path(), &default_places(&host_name())))
}

/// The names of the rings whose daemons serve; an empty name is that of the ring without a name.
fn up(missed: &Path, places: &[(std::path::PathBuf, String)]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (directory, prefix) in places {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        for entry in entries.take(MAX_ENTRIES).flatten() {
            let file = entry.file_name();
            let Some(name) = file.to_str().and_then(|text| ring_of(text, prefix)) else { continue };
            let serves = || matches!(RunDir::at(entry.path()).connect(), Ok(Some(_)));
            if entry.path() != missed && !is_private(name) && serves() {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

/// The name of the ring whose run directory has this name.
fn ring_of<'a>(file: &'a str, prefix: &str) -> Option<&'a str> {
    match file.strip_prefix(prefix)? {
        "" => Some(""),
        rest => rest.strip_prefix('-'),
    }
}

/// Whether the ring was made for one job.
fn is_private(name: &str) -> bool {
    name.strip_prefix("job-")
        .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn text(names: &BTreeSet<String>) -> String {
    let mut words: Vec<String> = names.iter().filter(|name| !name.is_empty()).cloned().collect();
    if words.len() > MAX_NAMED {
        words.truncate(MAX_NAMED);
        words.push("others".to_owned());
    }
    if names.contains("") {
        words.push("one without a name".to_owned());
    }
    match words.split_last() {
        None => String::new(),
        Some((one, [])) => format!(" (up is {one})"),
        Some((last, before)) => format!(" (up are {} and {last})", before.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported_of(names: &[&str]) -> String {
        text(&names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn rings_are_listed_as_in_a_sentence() {
        assert_eq!(reported_of(&[]), "");
        assert_eq!(reported_of(&["work"]), " (up is work)");
        assert_eq!(reported_of(&["", "b", "a"]), " (up are a, b and one without a name)");
        let many: Vec<String> = (10..30).map(|n| format!("r{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(reported_of(&many).ends_with("r17 and others)"), "{}", reported_of(&many));
    }

    #[test]
    fn a_ring_is_up_if_its_daemon_serves_and_it_was_not_made_for_a_job() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| RunDir::at(directory.path().join(name));
        let served = ["mpd-work", "mpd", "mpd-job-0123456789abcdef", "mpdx", "mpd-missed"];
        let _held = served.map(|name| at(name).serve().unwrap());
        drop(at("mpd-dead").serve().unwrap());
        let places = [(directory.path().to_owned(), "mpd".to_owned())];
        let names = up(at("mpd-missed").path(), &places);
        assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), ["", "work"]);
    }
}
