//! `mpirun -stacks`: the functions in which the ranks of a hanging job are.

use crate::members::Members;
use crate::mpi::libraries;
use crate::run::{Run, wait_until};
use crate::suite::skip;
use mpd_tests::surroundings::setting;

#[test]
fn stacks_show_where_each_rank_waits_and_the_job_continues() {
    if setting("MPD_TEST_GDB").is_none() {
        return skip("no gdb");
    }
    let ring = Members::new().option(&["--ncpus", "3"]).with(2);
    for library in libraries() {
        let arguments = ["-a", "stuck", "-n", "6"];
        let job = library.dress(ring.mpirun(1, &arguments)).arg(library.program("stuck"));
        let job = job.deadline(120).start();
        job.shows("all are there");
        let mut text = String::new();
        wait_until("all wait", || {
            let out = stacks(&ring, &[]).output();
            text = out.code(0).quiet().out();
            text.contains("wait_for_word") && line_of(&text, "meet").starts_with("1-5: ")
        });
        assert!(line_of(&text, "wait_for_word").starts_with("0: "), "{}: {text}", library.name);
        assert!(text.lines().count() < 24, "{text}");
        let json = stacks(&ring, &["-json", "-r", "0,4"]).output().code(0).quiet().out();
        let calls: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(ranks_in(&calls, "wait_for_word").as_deref(), Some("0"), "{json}");
        assert_eq!(ranks_in(&calls, "meet").as_deref(), Some("4"), "{json}");
        job.send(nix::sys::signal::Signal::SIGTERM);
        job.wait().code(143);
    }
    let pids: Vec<i32> = ring.indices().iter().map(|&index| ring.process(index).pid).collect();
    ring.suite.gone(&pids);
}

fn stacks(ring: &Members, arguments: &[&str]) -> Run {
    ring.mpirun(2, &["-stacks", "stuck"]).args(arguments).deadline(120)
}

/// The line of a function, from its ranks on.
fn line_of<'a>(text: &'a str, function: &str) -> &'a str {
    let line = text.lines().find(|line| line.contains(&format!(": {function}")));
    line.unwrap_or_default().trim_start_matches(['|', '`', '-', ' '])
}

/// The ranks that are in a function.
fn ranks_in(calls: &serde_json::Value, function: &str) -> Option<String> {
    calls.as_array()?.iter().find_map(|call| {
        match call["call"].as_str().is_some_and(|text| text.starts_with(function)) {
            true => call["ranks"].as_str().map(str::to_owned),
            false => ranks_in(&call["calls"], function),
        }
    })
}
