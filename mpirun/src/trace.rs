//! The timeline of a job as a file for trace viewers (Perfetto, `chrome://tracing`). Pure.
//!
//! The file has Chrome's format: one object with a list of events. Each host is a process of the
//! file, and each rank is a thread of its host. The manager and the daemon of a host are threads,
//! too.

use std::collections::BTreeSet;

use mpd_wire::DaemonName;
use mpd_wire::message::{Phase, Span};
use serde_json::{Value, json};

/// Threads of a process in the file start at 1, because some viewers reserve 0.
const MANAGER: u32 = 1;
const DAEMON: u32 = 2;
const FIRST_RANK: u64 = 3;

/// Most spans that are kept; viewers cannot show more.
const MAX_KEPT: usize = 1 << 22;

/// The reported timeline of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The hosts in the order of their reports.
    hosts: Vec<(DaemonName, Vec<Span>)>,
    spans: usize,
    /// Forwarding steps of the launch, if they were reported.
    pub hops: Option<Hops>,
}

/// Forwarding steps of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hops {
    /// Number of hosts of the job.
    pub hosts: u32,
    /// Steps from the daemon that accepted the job to the last host; `None` without other hosts, or
    /// if not known.
    pub scatter: Option<u32>,
    /// Steps from the root manager to the deepest manager.
    pub tree: u32,
}

impl Timeline {
    /// Adds spans of a host. Spans beyond the bound are dropped.
    pub fn add(&mut self, host: DaemonName, mut spans: Vec<Span>) {
        spans.truncate(MAX_KEPT - self.spans);
        self.spans += spans.len();
        match self.hosts.iter_mut().find(|(name, _)| *name == host) {
            Some((_, known)) => known.extend(spans),
            None => self.hosts.push((host, spans)),
        }
    }

    /// The text of the file. `own` has the start and duration of this console in microseconds;
    /// `job` is the job's id.
    pub fn render(&self, job: &str, own: (u64, u64)) -> String {
        let (began, took) = own;
        let all = self.hosts.iter().flat_map(|(_, spans)| spans).map(|span| span.began_us);
        let first = all.chain([began]).min().unwrap_or(began);
        let mut events = named_process(1, "mpirun", 0);
        events.push(named_thread(1, u64::from(MANAGER), "mpirun"));
        events.push(json!({
            "ph": "X", "cat": "console", "name": "job", "pid": 1, "tid": MANAGER,
            "ts": began - first, "dur": took, "args": {"job": job},
        }));
        for ((host, spans), pid) in self.hosts.iter().zip(2_u32..) {
            events.extend(named_process(pid, host.as_str(), pid));
            events.extend(threads(pid, spans));
            events.extend(spans.iter().map(|span| event(pid, span, first)));
        }
        let hops = self
            .hops
            .map(|hops| json!({"hosts": hops.hosts, "launch": hops.scatter, "tree": hops.tree}));
        let file = json!({
            "displayTimeUnit": "ms",
            "otherData": {"job": job, "began_us": first, "hops": hops},
            "traceEvents": events,
        });
        format!("{file}\n")
    }
}

impl Hops {
    /// The forwarding steps as text for people.
    pub fn line(&self) -> String {
        let hosts = match self.hosts {
            1 => "1 host".to_owned(),
            n => format!("{n} hosts"),
        };
        let launch = match self.scatter {
            Some(depth) => format!("launch {depth}"),
            None if self.hosts == 1 => "launch 0".to_owned(),
            None => "launch unknown".to_owned(),
        };
        let tree = self.tree;
        format!("forwarding steps to {hosts}: {launch}, ready {tree}, go {tree}, results {tree}")
    }
}

fn thread_of(span: &Span) -> u64 {
    match span.rank {
        Some(rank) => FIRST_RANK + u64::from(rank.0),
        None if span.phase.is_daemons() => DAEMON.into(),
        None => MANAGER.into(),
    }
}

fn threads(pid: u32, spans: &[Span]) -> Vec<Value> {
    let all: BTreeSet<(u64, Option<u32>)> =
        spans.iter().map(|span| (thread_of(span), span.rank.map(|rank| rank.0))).collect();
    let name = |tid, rank: Option<u32>| match rank {
        Some(rank) => format!("rank {rank}"),
        None if tid == u64::from(DAEMON) => "daemon".to_owned(),
        None => "manager".to_owned(),
    };
    all.into_iter().map(|(tid, rank)| named_thread(pid, tid, &name(tid, rank))).collect()
}

fn event(pid: u32, span: &Span, first: u64) -> Value {
    let cat = match span.phase {
        Phase::Run | Phase::Fence => "run",
        Phase::Kill | Phase::Drain | Phase::Cleanup => "end",
        _ => "start",
    };
    json!({
        "ph": "X", "cat": cat, "name": span.phase.name(), "pid": pid, "tid": thread_of(span),
        "ts": span.began_us - first, "dur": span.took_us,
        "args": span.rank.map_or_else(|| json!({}), |rank| json!({"rank": rank.0})),
    })
}

fn named_process(pid: u32, name: &str, at: u32) -> Vec<Value> {
    let meta = |what: &str, args: Value| json!({"ph": "M", "name": what, "pid": pid, "tid": 0, "args": args});
    vec![
        meta("process_name", json!({"name": name})),
        meta("process_sort_index", json!({"sort_index": at})),
    ]
}

fn named_thread(pid: u32, tid: u64, name: &str) -> Value {
    json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}})
}

#[cfg(test)]
mod tests {
    use mpd_wire::Rank;

    use super::*;

    fn span(phase: Phase, rank: Option<u32>, began_us: u64) -> Span {
        Span { phase, rank: rank.map(Rank), began_us, took_us: 7 }
    }

    #[test]
    fn each_host_is_a_process_and_each_rank_a_thread() {
        let mut timeline = Timeline::default();
        let name = |text| DaemonName::new(text).unwrap();
        timeline.add(name("h1"), vec![span(Phase::Placement, None, 90)]);
        timeline.add(name("h2"), vec![span(Phase::Spawn, Some(3), 200)]);
        timeline.add(name("h1"), vec![span(Phase::Checks, None, 120)]);
        let file: Value = serde_json::from_str(&timeline.render("1@h1", (100, 500))).unwrap();
        let events = file["traceEvents"].as_array().unwrap();
        let spans: Vec<_> = events
            .iter()
            .filter(|event| event["ph"] == "X")
            .map(|e| (e["name"].as_str().unwrap(), &e["pid"], &e["tid"], &e["ts"]))
            .collect();
        let number = |n: u64| json!(n);
        let expected = [
            ("job", &number(1), &number(1), &number(10)),
            ("placement", &number(2), &number(2), &number(0)),
            ("checks", &number(2), &number(1), &number(30)),
            ("spawn", &number(3), &number(6), &number(110)),
        ];
        assert_eq!(spans, expected);
        assert_eq!(file["otherData"]["began_us"], 90);
    }

    #[test]
    fn forwarding_steps_are_one_line() {
        let hops = Hops { hosts: 4, scatter: Some(2), tree: 1 };
        let text = "forwarding steps to 4 hosts: launch 2, ready 1, go 1, results 1";
        assert_eq!(hops.line(), text);
        let alone = Hops { hosts: 1, scatter: None, tree: 0 };
        assert_eq!(alone.line(), "forwarding steps to 1 host: launch 0, ready 0, go 0, results 0");
    }
}
