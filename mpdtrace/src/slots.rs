//! Slots of hosts, allocations and requests: the request to the daemon, and the text about the answer.

use std::time::Duration;

use mpd_alloc::data::{AllocEntry, Part};
use mpd_alloc::exchange::{Ask, HostSlots, Reply};
use mpd_io::clock;
use mpd_io::files::logging::one_line;
use mpd_io::process::identity::user_name;
use mpd_io::ring::rundir::RunDir;
use mpd_io::ring::slots;
use mpd_wire::DaemonName;
use serde::Serialize;

use crate::ask::{AskError, RING_PATIENCE};
use crate::table::table;

/// The slots of all hosts, and all requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Slots {
    /// The hosts, in the order of the ring; each once.
    pub hosts: Vec<HostSlots>,
    /// Live members that did not answer.
    pub missing: Vec<DaemonName>,
}

/// Asks for the slots of all hosts.
///
/// # Errors
/// [`AskError`].
pub fn ask(rundir: &RunDir) -> Result<Slots, AskError> {
    let mut console = slots::ask(rundir, &Ask::List)?;
    let mut all = Slots::default();
    loop {
        let Reply::Hosts { hosts, missing, more } =
            slots::answer(&mut console, Some(RING_PATIENCE))?
        else {
            return Err(AskError::UNFIT);
        };
        for host in hosts {
            match all.hosts.iter_mut().find(|known| known.host == host.host) {
                Some(known) => known.entries.extend(host.entries),
                None => all.hosts.push(host),
            }
        }
        if !more {
            return Ok(Slots { missing, ..all });
        }
    }
}

/// A line for each host.
pub fn hosts(slots: &Slots) -> String {
    let row = |host: &HostSlots| {
        let used = host.used.saturating_add(host.ranks);
        let free = host.slots.saturating_sub(used);
        let name = one_line(host.host.as_str());
        vec![name, host.slots.to_string(), used.to_string(), free.to_string()]
    };
    lines(&["HOST", ">SLOTS", ">USED", ">FREE"], slots.hosts.iter().map(row))
}

/// A line for each allocation, and then one for each request that waits, in the order of the queue. `now_us` is the time.
pub fn queue(slots: &Slots, now_us: u64) -> String {
    let row = |entry: &&AllocEntry| {
        let age = now_us.saturating_sub(entry.since_us) / 1_000_000;
        let text = match &entry.why {
            Some(why) => format!("waits: {why}"),
            None => granted(entry),
        };
        let count = entry.slots.unwrap_or(entry.count).to_string();
        vec![entry.id.to_string(), user_name(entry.uid), count, duration(age), text]
    };
    lines(&["ID", "USER", ">SLOTS", ">AGE", "STATE"], in_order(slots).iter().map(row))
}

/// The entries: the allocations, and then the requests in the order of the queue.
pub fn in_order(slots: &Slots) -> Vec<&AllocEntry> {
    let mut entries: Vec<&AllocEntry> = slots.hosts.iter().flat_map(|host| &host.entries).collect();
    entries.sort_by_key(|entry| {
        (entry.why.is_some(), entry.ticket.unwrap_or(u64::MAX), entry.since_us, &entry.id)
    });
    entries
}

fn granted(entry: &AllocEntry) -> String {
    let shown: u32 = entry.hosts.iter().map(|part| part.slots).sum();
    let more = if entry.slots.is_some_and(|slots| slots > shown) { " ..." } else { "" };
    format!("{}{more}", parts(&entry.hosts))
}

/// The slots as `HOST:NUMBER`.
pub fn parts(parts: &[Part]) -> String {
    let text = |part: &Part| format!("{}:{}", part.host, part.slots);
    parts.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn duration(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match hours {
        0 => format!("{minutes}:{:02}", seconds % 60),
        _ => format!("{hours}:{:02}:{:02}", minutes % 60, seconds % 60),
    }
}

fn lines(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    table(heads, rows, usize::MAX).into_iter().map(|line| line + "\n").collect()
}

/// The wall-clock time in microseconds.
pub fn now_us() -> u64 {
    clock::wall()
}

/// How long mpdalloc waits for a new daemon.
pub const RECONNECT: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use mpd_alloc::data::Why;

    use super::*;

    fn entry(id: &str, ticket: u64, why: Option<Why>) -> AllocEntry {
        let part = Part { host: DaemonName::new("h1").unwrap(), slots: 4 };
        AllocEntry {
            id: id.parse().unwrap(),
            uid: u32::MAX - 7,
            count: 10,
            since_us: 1_000_000,
            ticket: Some(ticket),
            slots: why.is_none().then_some(6),
            hosts: if why.is_none() { vec![part] } else { Vec::new() },
            why,
            ends_us: None,
        }
    }

    fn slots() -> Slots {
        let host = |name: &str, entries| HostSlots {
            host: DaemonName::new(name).unwrap(),
            slots: 12,
            used: 4,
            ranks: if name == "h2" { 9 } else { 0 },
            entries,
        };
        let behind = entry("a1@h1", 7, Some(Why::Behind));
        let few = entry("a2@h2", 5, Some(Why::TooFew { free: 8 }));
        let hosts = vec![host("h1", vec![behind]), host("h2", vec![few, entry("a1@h2", 9, None)])];
        Slots { hosts, missing: Vec::new() }
    }

    #[test]
    fn the_queue_lists_allocations_first_and_then_requests_in_their_order() {
        let text = queue(&slots(), 75_000_000);
        let expected = "\
ID    USER       SLOTS  AGE STATE
a1@h2 4294967288     6 1:14 h1:4 ...
a2@h2 4294967288    10 1:14 waits: 8 of its slots are free
a1@h1 4294967288    10 1:14 waits: an earlier request is first
";
        assert_eq!(text, expected);
    }

    #[test]
    fn slots_of_a_host_are_free_or_used() {
        let text = hosts(&slots());
        assert_eq!(text, "HOST SLOTS USED FREE\nh1      12    4    8\nh2      12   13    0\n");
        assert_eq!((duration(59), duration(3661)), ("0:59".into(), "1:01:01".into()));
    }
}
