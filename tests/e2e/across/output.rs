//! Output of many hosts: whole lines, in the order of each rank, without loss.

use std::io::Read;

use mpd_tests::lines::{Lines, Stream};

use crate::across::ring;
use crate::output::check_stream;
use crate::run::sample;

const RANKS: usize = 64;

#[test]
fn lines_of_sixty_four_ranks_on_four_hosts_stay_whole_and_in_order() {
    check_lines(&[], 31, sample(12, 200), 200_000);
    check_lines(&["-l"], 32, sample(12, 200), 200_000);
}

fn check_lines(options: &[&str], seed: u64, count: usize, max: usize) {
    let ring = ring();
    let arguments = [seed.to_string(), count.to_string(), max.to_string()];
    let run = ring.mpirun(1, options).args(["-ppn", "16", "-n", &RANKS.to_string()]);
    let run = run.arg(ring.suite.program("t-lines")).args(arguments).deadline(sample(120, 600));
    let output = run.output();
    assert_eq!(output.exit_code(), Some(0), "{output}");
    for (stream, bytes) in [(Stream::Out, &output.stdout), (Stream::Err, &output.stderr)] {
        let lines = |rank| Lines::new(seed, rank, stream, max);
        check_stream(bytes, RANKS, !options.is_empty(), lines, count);
    }
    ring.only_daemons_are_left();
}

#[test]
fn equal_lines_of_all_hosts_are_printed_once_separately_for_stdout_and_stderr() {
    let ring = ring();
    let script = "for i in 1 2 3; do echo line $i; echo error $i >&2; done; \
                  [ $PMI_RANK != 37 ] || echo odd";
    let arguments = ["-m", "-ppn", "16", "-n", "64", "sh", "-c", script];
    let output = ring.mpirun(1, &arguments).output();
    output.code(0).prints("0-63: line 1\n0-63: line 2\n0-63: line 3\n37: odd\n");
    assert_eq!(output.err(), "0-63: error 1\n0-63: error 2\n0-63: error 3\n");
    ring.only_daemons_are_left();
}

#[test]
fn equal_lines_wait_for_a_rank_of_another_host_that_gets_no_cpu() {
    let ring = ring();
    let directory = ring.suite.new_directory("shared");
    // A stopped process gets no CPU. Rank 3 is on the second host, with rank 2. It stops before its line. Rank 0 lets it
    // continue after more than the time for which lines wait for a rank that has a CPU.
    let script = "case $PMI_RANK in \
                  3) echo $$ >new; mv new pid; kill -STOP $$; echo same;; \
                  0) echo same; until [ -e pid ]; do sleep 0.1; done; read pid <pid; \
                     until grep -q '^State:.T' /proc/$pid/status; do sleep 0.1; done; \
                     sleep 6; kill -CONT $pid;; \
                  *) echo same;; esac";
    let run = ring.mpirun(1, &["-m", "-n", "4", "sh", "-c", script]).directory(directory);
    run.output().code(0).quiet().prints("0-3: same\n");
    ring.only_daemons_are_left();
}

#[test]
fn only_the_output_of_the_chosen_ranks_is_kept_on_all_hosts() {
    let ring = ring();
    let script = "echo out $PMI_RANK; echo err $PMI_RANK >&2";
    let run = |options: &[&str]| {
        let job = ring.mpirun(1, options).args(["-n", "8", "sh", "-c", script]).output();
        job.code(0);
        job
    };
    let output = run(&["-output-from", "1,6", "-l"]);
    assert_eq!(output.sorted_lines(), ["1: out 1", "6: out 6"]);
    assert_eq!(output.err().lines().count(), 2, "{output}");
    assert_eq!(run(&["-output-from", "7", "-m"]).sorted_lines(), ["7: out 7"]);
    run(&["-output-from", "5", "-outfile-pattern", "only.%3r", "-errfile-pattern", "err.%r"])
        .prints("");
    for rank in 0..8 {
        let content =
            |name: String| std::fs::read_to_string(ring.suite.path(name)).expect("a file");
        let expected = if rank == 5 { "out 5\n" } else { "" };
        assert_eq!(content(format!("work/only.00{rank}")), expected);
        assert_eq!(content(format!("work/err.{rank}")).is_empty(), rank != 5);
    }
    ring.only_daemons_are_left();
}

#[test]
fn files_of_all_hosts_can_be_copies_of_what_is_printed() {
    let ring = ring();
    let arguments = ["-output-pattern", "log/%n/%r.%o", "-tee", "-l", "-n", "8"];
    let script = "echo out $PMI_RANK; echo err $PMI_RANK >&2";
    let output = ring.mpirun(1, &arguments).args(["sh", "-c", script]).output();
    output.code(0);
    assert_eq!(
        output.sorted_lines(),
        (0..8).map(|rank| format!("{rank}: out {rank}")).collect::<Vec<_>>()
    );
    assert_eq!(output.err().lines().count(), 8, "{output}");
    for rank in 0..8 {
        let content = |stream: &str| {
            let name = format!("work/log/{}/{rank}.{stream}", rank / 2);
            std::fs::read_to_string(ring.suite.path(name)).expect("a file")
        };
        assert_eq!(content("out") + &content("err"), format!("out {rank}\nerr {rank}\n"));
    }
    ring.only_daemons_are_left();
}

#[test]
fn the_last_bytes_of_ranks_on_every_host_are_printed() {
    let ring = ring();
    for round in 0..sample(15, 500) {
        let length = 1 + (round * 7_919) % 200_000;
        let output = ring.ranks(8, "t-lastbytes", &[&length.to_string(), "both"]).output();
        output.code(0);
        for bytes in [&output.stdout, &output.stderr] {
            let count = |letter| bytes.iter().filter(|byte| **byte == letter).count();
            for letter in b'A'..b'I' {
                assert_eq!(count(letter), length, "round {round}, letter {}", char::from(letter));
            }
        }
    }
    ring.only_daemons_are_left();
}

#[test]
fn a_closed_stdout_ends_a_job_of_many_hosts_with_code_141() {
    let ring = ring();
    for options in [&[][..], &["-l"], &["-m"]] {
        let mut job = ring.mpirun(1, options).args(["-n", "8", "yes"]).start_unread();
        let mut pipe = job.take_stdout();
        assert!(pipe.read(&mut [0; 100]).expect("a pipe") > 0);
        drop(pipe);
        job.wait().code(141).quiet();
        ring.only_daemons_are_left();
    }
}
