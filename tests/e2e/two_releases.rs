//! Two releases in one ring. `scripts/two-releases` builds the next one, which has one field and one kind of message more
//! on each link, and names the directory of its programs in `MPD_NEXT_DIR`.

use crate::across::ring_by;
use crate::members::Members;
use crate::run::{Output, Run, wait_until};
use crate::spawn::one;

/// The directory of the next release's programs.
fn next_release() -> String {
    std::env::var("MPD_NEXT_DIR").expect("MPD_NEXT_DIR; run scripts/two-releases")
}

/// Whether the host runs the next release.
type IsNext = fn(usize) -> bool;

/// Hosts d1 to d4, each with the daemon of the release that `is_next` says.
fn mixed(is_next: IsNext) -> Members {
    ring_by(4, |ring, index| start(ring, index, is_next(index)))
}

fn start(ring: &Members, index: usize, is_next: bool) {
    let mpd = if is_next { format!("{}/mpd", next_release()) } else { ring.suite.program("mpd") };
    let entry = ring.indices().first().map(|first| ring.member(*first).address.to_string());
    let join = entry.iter().flat_map(|entry| ["--join", entry]);
    ring.started(index, ring.dress(ring.suite.command(mpd), index).args(join));
}

/// A program of one of the two releases, at the daemon of this host.
fn program(ring: &Members, index: usize, name: &str, is_next: bool) -> Run {
    let path =
        if is_next { format!("{}/{name}", next_release()) } else { ring.suite.program(name) };
    ring.suite.command(path).env("MPD_RUNDIR", ring.rundir(index))
}

/// Each console at each host.
fn consoles() -> impl Iterator<Item = (usize, bool)> {
    (1..=4).flat_map(|index| [(index, false), (index, true)])
}

fn count(output: &Output, text: &str, expected: usize) {
    output.code(0).quiet();
    assert_eq!(output.out().matches(text).count(), expected, "{output}");
}

const ALTERNATING: IsNext = |index| index % 2 == 0;

#[test]
#[ignore = "scripts/two-releases builds the next release"]
fn each_console_runs_each_kind_of_job_over_daemons_of_both_releases() {
    let ring = mixed(ALTERNATING);
    let pmi = ring.suite.program("t-pmi");
    let spawn = one(6, &[&pmi, "put-fence-get-all", "4"], &[]);
    for (index, is_next) in consoles() {
        let mpirun = |words: &[&str]| program(&ring, index, "mpirun", is_next).args(words);
        let run = mpirun(&["-rr", "-n", "8", &pmi, "put-fence-get-all", "4"]);
        count(&run.output(), "pmi ok ", 8);
        let run =
            mpirun(&["-rr", "-n", "8", &ring.suite.program("t-pmi2"), "put-fence-get-all", "3"]);
        count(&run.output(), "pmi2 ok ", 8);
        let run = mpirun(&["-n", "1", &pmi, "lines", "0"]).args(&spawn);
        count(&run.output(), "pmi ok ", 6);
        let run = mpirun(&["-rr", "-n", "4", "-stdin", "all", "cat"]).input("one\ntwo\n");
        count(&run.output(), "one\n", 4);
        mpirun(&["-rr", "-n", "4", "sh", "-c", "[ $PMI_RANK != 3 ] || exit 9"]).output().code(9);
    }
    assert_skipped(&ring, ALTERNATING);
    ring.only_daemons_are_left();
}

/// Daemons and managers of this release have received the kinds that only the next one knows, and those of the next one
/// know all kinds.
fn assert_skipped(ring: &Members, is_next: IsNext) {
    for index in 1..=4 {
        let log = ring.log(index);
        for by in [" mpd d", " mpdman "] {
            let mut lines = log.lines().filter(|line| line.contains(by));
            let skipped = lines.any(|line| line.contains("a kind that is unknown here: later"));
            assert_eq!(skipped, !is_next(index), "d{index},{by}: {log}");
        }
    }
}

#[test]
#[ignore = "scripts/two-releases builds the next release"]
fn tools_of_each_release_see_and_steer_jobs_through_daemons_of_both() {
    let ring = mixed(ALTERNATING);
    for (index, is_next) in consoles() {
        let tool =
            |name: &str, words: &[&str]| program(&ring, index, name, is_next).args(words).output();
        let trace = tool("mpdtrace", &[]);
        trace.code(0).quiet();
        assert_eq!(trace.sorted_lines(), ["d1", "d2", "d3", "d4"], "{trace}");
        let work = "trap 'echo got; exit 0' USR1; echo ready; while :; do sleep 0.05; done";
        let root = index % 4 + 1;
        let job = program(&ring, root, "mpirun", !is_next)
            .args(["-a", "ocean", "-rr", "-n", "4", "sh", "-c", work])
            .deadline(60)
            .start();
        wait_until("all ranks are ready", || job.stdout().matches("ready").count() == 4);
        let listed = tool("mpdlistjobs", &[]);
        assert!(listed.code(0).out().contains("ocean"), "{listed}");
        tool("mpdgrow", &["ocean", "+2"]).code(0).quiet();
        wait_until("six ranks are ready", || job.stdout().matches("ready").count() == 6);
        tool("mpdsigjob", &["USR1", "-a", "ocean", "-s"]).code(0);
        let output = job.wait();
        output.code(0).quiet();
        assert_eq!(output.out().matches("got").count(), 6, "{output}");
    }
    ring.only_daemons_are_left();
}

/// Lines of each rank until the file `stop` exists, each with its number.
const PRINTS: &str = "i=0; until [ -e $STOP ]; do i=$((i+1)); echo $PMI_RANK $i; sleep 0.002; done; \
                      echo $PMI_RANK end $i";

#[test]
#[ignore = "scripts/two-releases builds the next release"]
fn daemons_are_replaced_by_those_of_the_next_release_and_back_while_jobs_print_each_line_once() {
    let ring = mixed(|_| false);
    for is_next in [true, false] {
        let stop = ring.suite.path(format!("stop-{is_next}")).display().to_string();
        let words = ["-rr", "-n", "8", "-genv", "STOP", &stop, "sh", "-c", PRINTS];
        let job = program(&ring, 1, "mpirun", !is_next).args(words).deadline(120).start();
        wait_until("all ranks print", || {
            (0..8).all(|rank| job.stdout().contains(&format!("{rank} 9\n")))
        });
        for index in 1..=4 {
            ring.kill(index);
            start(&ring, index, is_next);
            ring.agree();
            // A job over hosts of both releases, while the other one prints.
            let pmi = ring.suite.program("t-pmi");
            let words = ["-rr", "-n", "8", &pmi, "put-fence-get-all", "2"];
            count(&program(&ring, index, "mpirun", is_next).args(words).output(), "pmi ok ", 8);
        }
        std::fs::write(&stop, "").expect("a file");
        let output = job.wait();
        output.code(0).quiet();
        assert_whole(&output);
    }
    ring.only_daemons_are_left();
}

/// The lines of each rank are there once, in order.
fn assert_whole(output: &Output) {
    let text = output.out();
    for rank in 0..8 {
        let prefix = format!("{rank} ");
        let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
        let (last, numbers) = lines.split_last().expect("lines");
        let expected: Vec<String> = (1..=numbers.len()).map(|number| number.to_string()).collect();
        assert_eq!(numbers, expected, "rank {rank}");
        assert_eq!(*last, format!("end {}", numbers.len()), "rank {rank}");
    }
}
