//! The listing of a tree of spawned processes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::members::Members;
use crate::run::wait_until;

/// The line of a process in the tree: its name, and the name of the process above it.
type Parents = BTreeMap<String, Option<String>>;

/// The names and parents by the indentation of `mpdlistjobs --tree`.
fn parents_of_tree(text: &str) -> Parents {
    let (_, tree) = text.split_once("  spawns:\n").expect("a tree");
    let mut above: Vec<(usize, String)> = Vec::new();
    let mut parents = Parents::new();
    for line in
        tree.lines().take_while(|line| line.starts_with("    rank ") || line.starts_with("      "))
    {
        let depth = line.len() - line.trim_start().len();
        let name = line.split_whitespace().nth(1).expect("a name").to_owned();
        above.retain(|(other, _)| *other < depth);
        parents.insert(name.clone(), above.last().map(|(_, name)| name.clone()));
        above.push((depth, name));
    }
    parents
}

#[test]
fn the_tree_of_a_recursive_function_has_each_process_below_its_spawner() {
    let ring = Members::new().option(&["--slots", "4"]).with(3);
    let directory = ring.suite.new_directory("tree");
    let helper = ring.suite.program("t-spawn");
    let job = ring.mpirun(1, &["-n", "1", &helper, "fib", "6", &directory]).deadline(120).start();
    let files = || {
        let entries = std::fs::read_dir(&directory).expect("a directory");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().into_string().expect("a name")
        };
        entries.map(name).collect::<Vec<_>>()
    };
    wait_until("25 processes run", || files().len() == 25);
    let calls: BTreeMap<u64, u32> = files()
        .iter()
        .map(|name| {
            let (pid, n) = name.split_once('.').expect("PID.N");
            (pid.parse().expect("a pid"), n.parse().expect("a number"))
        })
        .collect();

    let listed = || -> Vec<Value> {
        let output = ring.tool(2, "mpdlistjobs", &["--json"]).output();
        let value: Value = serde_json::from_str(&output.code(0).out()).expect("JSON");
        let hosts = value["jobs"][0]["hosts"].as_array().cloned().unwrap_or_default();
        hosts.iter().filter_map(|host| host["processes"].as_array()).flatten().cloned().collect()
    };
    // A process is blocked while its children live.
    let state = |process: &Value| {
        let n = calls.get(&process["pid"].as_u64()?)?;
        Some(if *n < 2 { "running" } else { "blocked" })
    };
    wait_until("all processes are listed with their states", || {
        let all = listed();
        all.len() == 25
            && all.iter().all(|it| it["state"].as_str() == state(it) && state(it).is_some())
    });
    let name = |it: &Value| match it["world"].as_u64() {
        Some(0) => it["rank"].to_string(),
        _ => format!("{},{}", it["rank"], it["world"]),
    };
    let all = listed();
    let call_of: BTreeMap<String, u32> =
        all.iter().map(|it| (name(it), calls[&it["pid"].as_u64().expect("a pid")])).collect();
    let parents: Parents =
        all.iter().map(|it| (name(it), it["parent"].as_str().map(str::to_owned))).collect();
    let output = ring.tool(3, "mpdlistjobs", &["--tree"]).output();
    assert_eq!(parents_of_tree(&output.code(0).out()), parents, "{output}");
    for (name, n) in &call_of {
        let is_child = |(child, parent): &(&String, &Option<String>)| {
            parent.as_ref() == Some(name) && call_of.contains_key(*child)
        };
        let mut children: Vec<u32> =
            parents.iter().filter(is_child).map(|(child, _)| call_of[child]).collect();
        children.sort_unstable();
        let expected = if *n < 2 { vec![] } else { vec![n - 2, n - 1] };
        assert_eq!(children, expected, "fib({n}) is rank {name}: {output}");
    }
    assert_eq!(parents.values().filter(|parent| parent.is_none()).count(), 1, "{output}");

    std::fs::write(format!("{directory}/go"), "").expect("a file");
    let output = job.wait();
    assert!(output.code(0).quiet().out().contains("sum 8\n"), "{output}");
    ring.only_daemons_are_left();
}
