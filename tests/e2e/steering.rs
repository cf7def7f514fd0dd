//! A running job that is steered from outside, by consoles of the ring.

use std::fs;

use crate::members::Members;
use crate::run::Run;

/// A console of the ring, asking this member.
fn console(ring: &Members, index: usize, name: &str, words: &[&str]) -> Run {
    let run = ring.suite.command(ring.suite.program(name)).args(words);
    run.env("MPD_RUNDIR", ring.rundir(index))
}

#[test]
fn mpdsigjob_reaches_process_groups_or_with_s_the_ranks_alone_on_all_hosts() {
    let ring = Members::of(2);
    let script = ring.suite.path("work/rank");
    let text = "trap 'echo rank; kill -KILL $child; exit 0' USR1\n\
                sh -c 'trap \"echo child\" USR2 USR1; echo ready; while :; do sleep 1; done' &\n\
                child=$!\ntrap : USR2\nwhile :; do wait; done\n";
    fs::write(&script, text).expect("a script");
    let words =
        ["-n", "2", "-ppn", "1", "-a", "steered", "-l", "sh", &script.display().to_string()];
    let job = ring.mpirun(1, &words).start();
    job.shows("0: ready").shows("1: ready");
    let signal = |words: &[&str]| {
        console(&ring, 2, "mpdsigjob", words).output().code(0).quiet();
    };
    signal(&["USR2", "-a", "steered"]);
    job.shows("0: child").shows("1: child");
    signal(&["USR1", "-s", "-a", "steered"]);
    let output = job.wait();
    output.code(0);
    let expected = ["0: child", "0: rank", "0: ready", "1: child", "1: rank", "1: ready"];
    assert_eq!(output.sorted_lines(), expected, "children heard only of the first signal");
}
