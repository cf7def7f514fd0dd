//! The events of a job as lines of JSON, as `mpdwatch --job JOB --json` prints them.

use std::collections::BTreeMap;

use serde_json::Value;

/// The events of lines of JSON; their numbers begin with `first` and have no gaps.
pub(crate) fn events_from(first: u64, lines: &str) -> Vec<Value> {
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (number, event) in (first..).zip(&events) {
        assert_eq!(event["number"], number, "{event}");
    }
    events
}

/// The events of a whole job.
pub(crate) fn events(lines: &str) -> Vec<Value> {
    let events = events_from(1, lines);
    let last = events.last().expect("events");
    assert_eq!(last["event"], "job_ended", "{lines}");
    let ends = events.iter().filter(|event| event["event"] == "job_ended");
    assert_eq!(ends.count(), 1, "{lines}");
    events
}

/// The ends of all ranks. Each rank was started once before its end, and has one end.
pub(crate) fn ends(events: &[Value]) -> BTreeMap<u64, Value> {
    let (mut started, mut ends) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        let Some(rank) = event["rank"].as_u64() else { continue };
        if event["event"] == "started" {
            assert!(event["pid"].as_u64() > Some(0), "{event}");
            assert!(started.insert(rank, event["host"].clone()).is_none(), "{event}");
        } else {
            assert_eq!(event["event"], "exited", "{event}");
            assert_eq!(started.get(&rank), Some(&event["host"]), "{event}");
            assert!(ends.insert(rank, event.clone()).is_none(), "{event}");
        }
    }
    assert_eq!(started.len(), ends.len());
    ends
}

/// The kinds of events about this host.
pub(crate) fn about(events: &[Value], host: &str) -> Vec<String> {
    let is_it = |event: &&Value| event["rank"].is_null() && event["host"] == host;
    let kind = |event: &Value| event["event"].as_str().expect("a kind").to_owned();
    events.iter().filter(is_it).map(kind).collect()
}
