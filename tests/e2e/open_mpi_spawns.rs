//! Many processes that clients of PMIx spawn: nothing of them is left while their job runs, and they are spread evenly
//! over hosts.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use mpd_tests::surroundings::{setting, skip};
use mpd_tests::waiting::comes_true_slowly;

use crate::members::Members;
use crate::open_mpi::{versions, with_each_series};
use crate::process::Process;
use crate::run::{sample, wait_until};
use crate::suite::Suite;

/// Descriptors of the daemon and of the manager, once the spawned processes have ended and the numbers stay.
fn settled(suite: &Suite, program: &str) -> [usize; 2] {
    wait_until("what was spawned has ended", || suite.running(program).len() == 1);
    let open = || [suite.daemon(), suite.manager()].map(|process| process.descriptors());
    let mut last = [0; 2];
    let is_stable = comes_true_slowly(Duration::from_millis(200), Duration::from_secs(15), || {
        let has_helper = suite.manager().children().iter().any(Process::is_helper);
        std::mem::replace(&mut last, open()) == last && !has_helper
    });
    assert!(is_stable, "the numbers keep changing: {last:?}");
    last
}

/// A program that spawns one process after the other, `count` twice. Descriptors after the second half are those after
/// the first one.
fn check_descriptors(suite: &Suite, program: &Path, mode: &str, count: usize) {
    let name = program.file_name().and_then(|name| name.to_str()).expect("a name");
    let run = suite.mpirun(["-n", "1"]).arg(program).args([mode, &count.to_string()]);
    let mut running = run.input_pipe().deadline(sample(120, 600)).start();
    running.shows(&format!("spawned {count}\n"));
    let before = settled(suite, name);
    let mut stdin = running.stdin();
    stdin.write_all(b"once more\n").expect("the program waits for a line");
    running.shows(&format!("spawned {}\n", 2 * count));
    assert_eq!(settled(suite, name), before, "after {count} and after {} spawns", 2 * count);
    drop(stdin);
    running.wait().code(0);
}

#[test]
fn spawns_of_open_mpi_leave_no_descriptors() {
    with_each_series(|suite, version| {
        check_descriptors(suite, &version.program("spawn"), "again", sample(2, 25));
    });
}

#[test]
fn spawns_of_a_bare_client_of_pmix_leave_no_descriptors() {
    let Some(directory) = setting("MPD_TEST_PMIX_DIR") else {
        return skip("no client of PMIx is there");
    };
    let suite = Suite::new();
    suite.start_daemon();
    let program = Path::new(&directory).join("pmix_client");
    check_descriptors(&suite, &program, "spawn", sample(50, 500));
    suite.only_the_daemon_is_left();
}

#[test]
fn a_tree_of_spawns_of_open_mpi_is_spread_evenly_over_five_hosts() {
    let (number, sum, each) = sample(("3", 2, 1), ("6", 8, 5));
    let ring = Members::of(5);
    for version in versions() {
        let program = version.program("fib").display().to_string();
        let arguments = ["-prepend-pattern", "%h ", "-n", "1", &program, number];
        let run = ring.mpirun(1, &arguments).deadline(sample(120, 600));
        // The hosts are one machine, so shared memory would mix them up.
        let output = run.env("OMPI_MCA_btl", "tcp,self").output();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let out = output.code(0).out();
        for host in out.lines().filter_map(|line| Some(line.split_once(" fib(")?.0)) {
            *counts.entry(host).or_default() += 1;
        }
        assert_eq!(counts.into_values().collect::<Vec<_>>(), [each; 5], "{output}");
        assert!(out.contains(&format!("sum {sum}\n")), "{output}");
        ring.only_daemons_are_left();
    }
}
