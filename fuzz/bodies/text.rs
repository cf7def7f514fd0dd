//! The readers of text files.

use std::collections::BTreeSet;

use mpd_channel::KeyText;
use mpd_placement::allocation::{self, Sources};
use mpd_placement::rank_file::{self, RankHost};
use mpd_placement::{cpu_list, hosts};
use mpd_wire::job::{MAX_HOST_ENTRIES, MAX_HOSTS};
use mpdtrace::metrics::http::Request;

/// A valid key file has the same keys after it is written and read again.
pub(crate) fn key_file(data: &[u8]) {
    if let Ok(keys) = KeyText::parse(data.to_vec()) {
        let text = keys.to_text();
        let again = KeyText::parse(text.as_bytes().to_vec()).expect("what was written can be read");
        assert_eq!(*again.to_text(), *text);
        assert_eq!(again.ring(), keys.ring());
    }
}

/// A request is read the same way in pieces, and bytes after its end have no effect.
pub(crate) fn http_requests(data: &[u8]) {
    let whole = Request::of(data);
    let mut parts = (0..=data.len()).map(|length| Request::of(&data[..length]));
    let first = parts.find(|part| *part != Request::Incomplete);
    assert_eq!(first.unwrap_or(whole), whole);
    assert_eq!(whole.answer("x").is_none(), whole == Request::Incomplete);
}

/// A rank file has a sound host for each rank. A list of CPUs is read again as it is shown.
pub(crate) fn rank_file(data: &[u8]) {
    for line in rank_file::parse(data).into_iter().flatten() {
        if let RankHost::Name(name) = line.host {
            assert!(hosts::is_host_name(&name), "{name:?}");
        }
    }
    if let Ok(lists) = cpu_list::parse(&String::from_utf8_lossy(data)) {
        let text = lists.iter().map(cpu_list::show).collect::<Vec<_>>().join(",");
        assert_eq!(cpu_list::parse(&text), Ok(lists));
    }
}

/// The variables and the file of a batch system give sound hosts, each once, or an error. The input has lines `NAME=VALUE`, and
/// after an empty line the contents of every file.
pub(crate) fn allocation(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (variables, file) = text.split_once("\n\n").unwrap_or((&text, ""));
    let value = |name: &str| {
        let found = variables.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.map(str::to_owned)
    };
    let contents = |path: &str| match path.contains('?') {
        true => Err("cannot read it".to_owned()),
        false => Ok(file.to_owned()),
    };
    let sources = Sources { variable: &value, file: &contents };
    let found = allocation::find(&sources);
    assert_eq!(found, allocation::find(&sources));
    if let Ok(Some(found)) = found {
        assert!((1..=MAX_HOSTS).contains(&found.len()));
        let names: BTreeSet<&str> = found.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names.len(), found.len(), "a host occurs twice");
        assert!(names.into_iter().all(hosts::is_host_name));
        assert!(found.iter().all(|host| host.slots != Some(0)));
    }
}

/// The names in a valid host file or list are neither options nor shell code. Their number is bounded.
pub(crate) fn host_file(data: &[u8]) {
    let list = std::str::from_utf8(data).ok().map(hosts::parse_list);
    for entries in [Some(hosts::parse_file(data)), list].into_iter().flatten().flatten() {
        assert!(entries.len() <= MAX_HOST_ENTRIES);
        for entry in entries {
            assert!(hosts::is_host_name(&entry.host), "{:?}", entry.host);
            assert!(entry.user.as_deref().is_none_or(hosts::is_user_name));
        }
    }
}
