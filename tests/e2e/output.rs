//! Output arrives whole, in the order of its rank, and without delay; a stopped reader costs no memory.

use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mpd_tests::lines::{Check, Lines, Stream};
use nix::sys::signal::Signal;

use crate::process::Process;
use crate::run::{comes_true, sample, wait_until};
use crate::suite::Suite;

const RANKS: usize = 16;
const MEGABYTE: usize = 1 << 20;

#[test]
fn lines_of_any_length_of_sixteen_ranks_arrive_whole() {
    check_lines(&[], 11, sample(30, 300), MEGABYTE);
}

#[test]
fn labelled_lines_of_any_length_of_sixteen_ranks_arrive_whole() {
    check_lines(&["-l"], 12, sample(30, 300), MEGABYTE);
}

#[test]
fn tagged_output_has_the_world_the_rank_and_the_stream_as_open_mpi_prints_them() {
    let suite = Suite::new();
    for (dialect, space) in [("openmpi4", ""), ("openmpi5", " ")] {
        let run = suite.mpirun(["-dialect", dialect, "--tag-output", "-n", "2", "sh", "-c"]);
        let output = run.arg("echo a; echo b >&2").output();
        assert_eq!(output.exit_code(), Some(0), "{output}");
        let wanted =
            |stream, text| [0, 1].map(|rank| format!("[1,{rank}]<std{stream}>:{space}{text}"));
        assert_eq!(output.sorted_lines(), wanted("out", "a"), "{output}");
        let errors = output.err();
        let mut errors: Vec<&str> = errors.lines().collect();
        errors.sort_unstable();
        assert_eq!(errors, wanted("err", "b"), "{output}");
    }
}

fn check_lines(options: &[&str], seed: u64, count: usize, max: usize) {
    let suite = Suite::new();
    suite.start_daemon();
    let ranks = RANKS.to_string();
    let run = suite.mpirun(options).args(["-n", &ranks]).arg(suite.program("t-lines"));
    let output = run
        .args([seed.to_string(), count.to_string(), max.to_string()])
        .deadline(sample(90, 600))
        .output();
    assert_eq!(output.exit_code(), Some(0), "{output}");
    for (stream, bytes) in [(Stream::Out, &output.stdout), (Stream::Err, &output.stderr)] {
        let labelled = !options.is_empty();
        let lines = |rank| Lines::new(seed, rank, stream, max);
        check_stream(bytes, RANKS, labelled, lines, count);
    }
}

/// Checks that `bytes` are `count` whole lines of each of `ranks` ranks, in the order of each rank.
pub(crate) fn check_stream(
    bytes: &[u8],
    ranks: usize,
    labelled: bool,
    lines: impl Fn(usize) -> Lines,
    count: usize,
) {
    let mut check = Check::new(ranks, labelled, lines, count);
    let bytes = bytes.strip_suffix(b"\n").expect("the last line is whole");
    bytes.split(|byte| *byte == b'\n').for_each(|line| check.add(line));
    check.end();
}

#[test]
fn a_prompt_without_a_newline_appears_within_seconds() {
    let suite = Suite::new();
    suite.start_daemon();
    let script = "printf \"$(date +%s%N) prompt> \"; read -r answer";
    let mut job = suite.mpirun(["-n", "2", "bash", "-c", script]).input_pipe().start();
    let stdin = job.stdin();
    job.shows("prompt> ");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    let text = job.stdout();
    let stamp: u64 = text.split(' ').next().and_then(|t| t.parse().ok()).expect("a stamp");
    let late = now.saturating_sub(Duration::from_nanos(stamp));
    assert!(late < crate::run::scaled(Duration::from_secs(5)), "{late:?}");
    drop(stdin);
    job.send(Signal::SIGTERM);
    job.wait();
}

#[test]
fn a_partial_line_is_not_flushed_while_its_rank_waits_for_the_cpu() {
    let suite = Suite::new();
    let directory = suite.new_directory("shared");
    let mkfifo = suite.command("mkfifo").arg(format!("{directory}/go")).output();
    mkfifo.code(0).quiet();
    // After the line has begun, this rank takes the CPU for a second, if it is permitted.
    let take = "chrt -f 1 sh -c 'read x <go; ulimit -t 1; while :; do :; done' || true";
    let hog = format!("chrt -f 1 true 2>/dev/null || exec cat go; taskset -c 0 {take}");
    let other = "for i in $(seq 15); do sleep 0.1; echo other; done";
    let run = suite.mpirun(["-l", "-n", "1", "taskset", "-c", "0", "sh", "-c"]);
    let run = run.args(["printf half; : >go; echo ' line'", ":", "-n", "1", "sh", "-c", &hog]);
    let output = run.args([":", "-n", "1", "sh", "-c", other]).directory(directory).output();
    output.code(0);
    assert_eq!(output.out().replace("2: other\n", ""), "0: half line\n");
}

#[test]
fn an_endless_progress_line_does_not_block_lines_of_other_ranks() {
    let suite = Suite::new();
    for options in [&["-n", "4"][..], &["-l", "-n", "4"]] {
        let helper = suite.program("t-progress");
        let job = suite.mpirun(options).arg(&helper).args(["1", "200", "60"]).start();
        for rank in [0, 2, 3] {
            job.shows(&format!("line {rank} 199\n"));
        }
        job.shows("\rprogress ");
        assert!(!suite.running("t-progress").is_empty(), "rank 1 still draws");
        let text = job.stdout();
        let drawn = text.contains("\rprogress 1");
        job.send(Signal::SIGINT);
        job.wait().code(130);
        assert!(drawn);
        for rank in [0, 2, 3] {
            let lines = (0..200).map(|number| format!("line {rank} {number}\n"));
            assert!(lines.into_iter().all(|line| text.contains(&line)), "a line of {rank} is torn");
        }
    }
}

#[test]
fn the_last_bytes_before_the_exit_of_a_rank_are_printed() {
    let suite = Suite::new();
    suite.start_daemon();
    for round in 0..sample(50, 1_000) {
        let length = 1 + (round * 7_919) % 200_000;
        let output = suite.ranks(4, "t-lastbytes", &[&length.to_string(), "both"]).output();
        output.code(0);
        for bytes in [&output.stdout, &output.stderr] {
            let mut counts = HashMap::new();
            bytes.iter().for_each(|byte| *counts.entry(*byte).or_insert(0) += 1);
            counts.remove(&b'\n');
            let expected: HashMap<u8, usize> =
                (b'A'..b'E').map(|letter| (letter, length)).collect();
            assert_eq!(counts, expected, "round {round}");
        }
    }
}

#[test]
fn bytes_of_one_rank_without_labels_pass_unchanged() {
    let suite = Suite::new();
    let output = suite.ranks(1, "t-lastbytes", &["77777", "both"]).output();
    output.code(0);
    assert!(output.stdout == vec![b'A'; 77_777] && output.stderr == vec![b'A'; 77_777]);
}

#[test]
fn a_stopped_reader_of_stdout_grows_no_process_and_stderr_continues() {
    let suite = Suite::new();
    suite.start_daemon();
    let mut job = suite.ranks(RANKS, "t-flood", &["tick", "seconds=300"]).start_unread();
    let pipe = job.take_stdout();
    let ticked = |job: &crate::run::Running, number: usize| {
        let text = job.stderr();
        (0..RANKS).all(|rank| text.contains(&format!("tick {rank} {number}\n")))
    };
    wait_until("the first ticks of all ranks", || ticked(&job, 5));
    let begin = Instant::now();
    let mut next = 20;
    while begin.elapsed() < Duration::from_secs(sample(10, 60)) {
        let flows = comes_true(Duration::from_secs(15), || ticked(&job, next));
        assert!(flows, "stderr does not flow: {}", job.stderr().lines().count());
        next += 20;
        assert_sizes(&suite, &job.process());
    }
    job.send(Signal::SIGINT);
    let output = job.wait();
    drop(pipe);
    output.code(130);
    suite.only_the_daemon_is_left();
}

/// Every process of the suite stays within DESIGN.md 7: 8 MiB for the console, 6 for the daemon, 6 and 64 KiB
/// a rank for the manager. The pages of an optimised program and its libraries take 4 MiB of these.
fn assert_sizes(suite: &Suite, console: &Process) {
    let manager = 2 * 1024 + 64 * RANKS as u64;
    for (process, most) in
        [(console, 4 * 1024), (&suite.daemon(), 2 * 1024), (&suite.manager(), manager)]
    {
        let peak = process.peak_kib();
        assert!(peak <= most, "{peak} KiB, more than {most}: {process}");
    }
}

#[test]
fn a_reader_that_stops_and_continues_receives_every_byte() {
    let suite = Suite::new();
    let arguments = ["21", "500", "100000", "out"];
    let mut job = suite.ranks(RANKS, "t-lines", &arguments).start_unread();
    let mut pipe = job.take_stdout();
    // Every buffer on the way is full when no writer makes progress: all of them sleep.
    let writing = || suite.running("t-lines").iter().any(|process| process.state == 'R');
    wait_until("writers that sleep", || {
        suite.running("t-lines").len() == RANKS && !(0..20).any(|_| writing())
    });
    let mut bytes = Vec::new();
    Read::read_to_end(&mut pipe, &mut bytes).expect("a pipe");
    job.wait().code(0).quiet();
    check_stream(&bytes, RANKS, false, |rank| Lines::new(21, rank, Stream::Out, 100_000), 500);
}

#[test]
fn streams_closed_in_mpirun_are_closed_in_its_ranks() {
    let suite = Suite::new();
    for with_daemon in [false, true] {
        if with_daemon {
            suite.start_daemon();
        }
        let code = |text: &str, code: u8| {
            suite.bash(text).output().code(code.into());
        };
        code("$MPIRUN -n 1 sh -c 'echo x || exit 7' >&-", 7);
        code("$MPIRUN -n 3 -l sh -c 'echo x >&2 || exit 8' 2>&-", 8);
        code("$MPIRUN -n 2 true >&- 2>&- <&-", 0);
        let is_open = |number: u8| format!("[ -e /proc/self/fd/{number} ]");
        let (out, err) = (is_open(1), is_open(2));
        code(&format!("$MPIRUN -n 2 sh -c '{out} || {err} && exit 9' >&-"), 9);
        code(&format!("$MPIRUN -n 2 sh -c '{out} || {err} && exit 9; true' >&- 2>&-"), 0);
        // Rank 0 receives standard input, the other rank never does.
        let script = "if [ $PMI_RANK = 0 ]; then cat || echo none; else wc -c; fi";
        let output = suite.bash(&format!("$MPIRUN -n 2 sh -c '{script}' <&- 2>&1")).output();
        output.code(0);
        let lines = output.sorted_lines();
        assert!(lines.contains(&"0".to_owned()) && lines.contains(&"none".to_owned()), "{output}");
    }
}

#[test]
fn an_output_file_or_pty_is_open_although_mpiruns_stdout_is_closed() {
    let suite = Suite::new();
    let text = "$MPIRUN -n 2 -outfile-pattern out.%r sh -c 'echo $PMI_RANK || exit 7' >&-";
    suite.bash(text).output().code(0).quiet();
    for rank in 0..2 {
        let written = std::fs::read_to_string(suite.path(format!("work/out.{rank}")));
        assert_eq!(written.expect("a file"), format!("{rank}\n"));
    }
    suite.bash("$MPIRUN -n 1 -pty sh -c 'test -t 1 && echo x || exit 7' >&-").output().code(0);
}

#[test]
fn with_on_crash_streams_closed_in_mpirun_are_closed_in_the_program() {
    let suite = Suite::new();
    let text = "$MPIRUN -n 1 -on-crash gdb -gdb-path /bin/true sh -c 'echo x || exit 7' >&-";
    suite.bash(text).output().code(7);
}

#[test]
fn a_closed_reader_of_merged_output_ends_the_job() {
    let suite = Suite::new();
    // Lines that all ranks have in common, and lines that wait for equal lines of the other ranks forever.
    for script in ["while :; do echo y; done", "while :; do i=$((i + PMI_RANK)); echo $i; done"] {
        let mut job = suite.mpirun(["-m", "-n", "4", "bash", "-c", script]).start_unread();
        let mut pipe = job.take_stdout();
        assert!(pipe.read(&mut [0; 100]).expect("a pipe") > 0);
        drop(pipe);
        job.wait().code(141).quiet();
        suite.gone(&[]);
    }
}

#[test]
fn an_unread_full_pipe_does_not_delay_the_end_of_mpirun() {
    let suite = Suite::new();
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    let fail = "until [ -e fail ]; do sleep 0.02; done; exit 3";
    let run = suite.mpirun(["-n", "1"]).arg(suite.program("t-flood")).arg("seconds=60");
    let run = run.args([":", "-n", "1", "sh", "-c", fail]).stderr(writer.try_clone().expect("dup"));
    let mut job = run.stdout(writer).start();
    wait_until("a writer that sleeps", || sleeps(&suite));
    std::fs::write(suite.path("work/fail"), "").expect("a file");
    wait_until("the ranks are gone", || suite.running("t-flood").is_empty());
    job.send(Signal::SIGINT);
    // Of two signals sent at once, the process would receive only one.
    wait_until("the first is taken", || {
        job.has_ended() || !job.process().is_yet_to_take(Signal::SIGINT)
    });
    job.send(Signal::SIGINT);
    job.wait().failed();
    suite.gone(&[]);
}

#[test]
fn sigterm_ends_an_mpirun_whose_ended_job_waits_for_its_reader() {
    let suite = Suite::new();
    suite.start_daemon();
    // Each rank's output fits into its pipe; the output of all ranks does not fit into the reader's pipe.
    let done = PathBuf::from(suite.new_directory("done"));
    let script = "\"$0\" 60000 && touch ../done/$PMI_RANK";
    let run = suite.mpirun(["-n", "60", "sh", "-c", script]).arg(suite.program("t-lastbytes"));
    let mut job = run.start_unread();
    let _pipe = job.take_stdout();
    let manager = suite.manager();
    wait_until("the ranks have come and gone", || {
        let all = std::fs::read_dir(&done).expect("a directory").count() == 60;
        let living = || suite.processes().into_iter().any(|p| p.parent == manager.pid);
        // Before the manager has reaped the last rank, it would forward the signal to the ranks.
        all && !living() && manager.zombies() == 0
    });
    assert!(!job.has_ended(), "mpirun must wait for its reader");
    job.send(Signal::SIGTERM);
    job.wait().quiet();
    suite.only_the_daemon_is_left();
}

/// Whether the only flooding rank sleeps in each of many looks.
fn sleeps(suite: &Suite) -> bool {
    let asleep = || suite.running("t-flood").iter().all(|process| process.state == 'S');
    suite.running("t-flood").len() == 1 && (0..20).all(|_| asleep())
}
