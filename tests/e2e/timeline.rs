//! The reports of `mpirun` about a launch: the timeline for trace viewers, and the forwarding steps.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::members::Members;
use crate::suite::Suite;

fn read(path: &std::path::Path) -> Value {
    let bytes = std::fs::read(path).expect("a timeline");
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("no JSON: {error}"))
}

/// Each event of this kind with the name of its process.
fn events<'a>(file: &'a Value, kind: &str) -> Vec<(&'a str, &'a Value)> {
    let all = file["traceEvents"].as_array().expect("events");
    let name = |pid: &Value| {
        let named = all.iter().find(|e| e["name"] == "process_name" && e["pid"] == *pid);
        named.and_then(|e| e["args"]["name"].as_str()).expect("each process has a name")
    };
    all.iter().filter(|e| e["ph"] == kind).map(|event| (name(&event["pid"]), event)).collect()
}

#[test]
fn the_timeline_has_valid_spans_of_every_host_and_every_rank() {
    let ring = Members::of(4);
    let path = ring.suite.path("work/launch.json");
    let program = ring.suite.program("t-pmi");
    let arguments = ["--trace-startup", "launch.json", "--trace-hops", "-n", "8", "-ppn", "2"];
    let output = ring.mpirun(1, &arguments).args([&program, "fences", "3"]).output();
    let steps = output.code(0).err();
    assert!(steps.contains("forwarding steps to 4 hosts: launch "), "{steps}");
    assert!(steps.contains("ready 1, go 1, results 1"), "{steps}");
    let file = read(&path);
    let spans = events(&file, "X");
    let of = |host: &str| -> BTreeSet<&str> {
        let own = spans.iter().filter(|(name, _)| *name == host);
        own.map(|(_, event)| event["name"].as_str().expect("a name")).collect()
    };
    for host in ["d1", "d2", "d3", "d4"] {
        let mut expected =
            vec!["manager", "checks", "ready", "go", "spawn", "run", "fence", "kill", "cleanup"];
        expected.extend(match host {
            "d1" => ["placement", "scatter"],
            _ => ["link", "specification"],
        });
        let missing: Vec<_> = expected.iter().filter(|name| !of(host).contains(*name)).collect();
        assert!(missing.is_empty(), "{host} has no {missing:?}: {:?}", of(host));
    }
    for phase in ["spawn", "run"] {
        let own = spans.iter().filter(|(_, event)| event["name"] == phase);
        let ranks: BTreeSet<u64> =
            own.map(|(_, event)| event["args"]["rank"].as_u64().expect("a rank")).collect();
        assert_eq!(ranks, (0..8).collect(), "{phase}");
    }
    for (_, event) in &spans {
        // Unsigned numbers.
        assert!(event["ts"].is_u64() && event["dur"].is_u64(), "{event}");
    }
    let at = |host: &str, phase: &str| -> u64 {
        let found = spans.iter().find(|(name, event)| *name == host && event["name"] == phase);
        found.expect("a span").1["ts"].as_u64().expect("a time")
    };
    for host in ["d2", "d3", "d4"] {
        assert!(at("d1", "go") <= at(host, "go"), "no host starts before the root's start message");
    }
}

#[test]
fn a_job_without_a_daemon_has_a_timeline() {
    let suite = Suite::new();
    let program = suite.program("t-exit-with");
    let output =
        suite.mpirun(["-trace-startup", "x.json", "-n", "2", &program, "all", "0"]).output();
    output.code(0).quiet();
    let file = read(&suite.path("work/x.json"));
    let ranks = events(&file, "X").iter().filter(|(_, e)| e["name"] == "run").count();
    assert_eq!(ranks, 2);
    let output =
        suite.mpirun(["-trace-startup", "/no/such/x", "-n", "1", &program, "all", "0"]).output();
    assert!(output.code(125).err().contains("cannot write /no/such/x"), "{output}");
}
