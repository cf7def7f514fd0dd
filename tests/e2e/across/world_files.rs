//! Output files and status files of jobs whose ranks spawn on many hosts, some of which join the job for a spawn.

use std::fs;

use super::spawn::job;
use crate::across::roomy;
use crate::members::Members;
use crate::run::wait_until;
use crate::spawn::{DONE, one};

/// Hosts d1 and d2.
fn ring() -> Members {
    roomy().with(2)
}

fn read(ring: &Members, name: &str) -> String {
    let path = ring.suite.path(format!("work/{name}"));
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn worlds_on_all_hosts_have_their_output_files_and_status_lines() {
    let ring = ring();
    let script = "echo out $PMI_RANK; echo err $PMI_RANK >&2; exit $((PMI_RANK * 7))";
    let lines = [one(2, &["sh", "-c", script], &[]), one(2, &["sh", "-c", script], &[])];
    let files = ["-outfile-pattern", "out.%r.%h", "-errfile-pattern", "err.%r"];
    let options = [&files[..], &["-status-file", "status", "-on-failure=continue"]].concat();
    job(&ring, &options, &lines).output().failed().says(&["code 7"]);
    let status = read(&ring, "status");
    let ranks: Vec<_> = status.lines().filter(|line| line.starts_with("rank=")).collect();
    assert_eq!(ranks.len(), 1, "{status}");
    assert_eq!(read(&ring, "out.0.d1"), format!("{DONE}0,0\n").repeat(2));
    for (world, rank) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
        let begin = format!("world={world} rank={rank} host=");
        let line = status.lines().find_map(|line| line.strip_prefix(&begin)).expect("its line");
        let (host, rest) = line.split_once(' ').expect("a host");
        let is_whole = rest.starts_with("pid=") && !rest.starts_with("pid=0 ");
        assert!(is_whole && rest.ends_with(&format!(" code={}", rank * 7)), "{status}");
        assert_eq!(read(&ring, &format!("out.{rank},{world}.{host}")), format!("out {rank}\n"));
        assert_eq!(read(&ring, &format!("err.{rank},{world}")), format!("err {rank}\n"));
    }
    for host in ["host=d1 ", "host=d2 "] {
        let there = status.lines().filter(|line| line.starts_with("world=") && line.contains(host));
        assert_eq!(there.count(), 2, "{status}");
    }
    ring.only_daemons_are_left();
}

#[test]
fn lost_ranks_of_a_lost_host_have_status_lost_and_keep_their_output_files() {
    let ring = ring();
    let never = format!("until={}", ring.suite.path("never").display());
    let there = one(2, &["sh", "-c", "echo here; exec sleep 60"], &[("host", "d2")]);
    let options = ["-outfile-pattern", "out.%r", "-status-file", "status"];
    let run = job(&ring, &options, &[there, vec![never]]).start();
    let has_come = |rank| {
        let path = ring.suite.path(format!("work/out.{rank},1"));
        fs::read_to_string(path).is_ok_and(|text| text == "here\n")
    };
    wait_until("two lines", || has_come(0) && has_come(1));
    ring.kill_manager(2);
    run.wait().failed().says(&["host d2 is lost"]);
    let status = read(&ring, "status");
    let lost: Vec<_> = status.lines().filter(|line| line.ends_with(" state=lost")).collect();
    assert_eq!(lost, [0, 1].map(|rank| format!("world=1 rank={rank} host=d2 state=lost")));
    ring.only_daemons_are_left();
}
