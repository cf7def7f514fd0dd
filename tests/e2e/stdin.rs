//! Input reaches exactly its receivers, whole and in order. A receiver that does not read delays neither
//! the other receivers nor the end of the job.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use mpd_tests::digest::{BLOCK, Digest, block};
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};

use crate::run::{Running, sample, wait_until};
use crate::suite::Suite;

const MEBIBYTE: u64 = 1 << 20;
/// DESIGN.md 7: 8 MiB for the console, 6 for the daemon, 6 and 64 KiB for a manager of one rank. The pages of an
/// optimised program and its libraries take 4 MiB of these.
const CONSOLE_KIB: u64 = 4 * 1024;
const DAEMON_KIB: u64 = 2 * 1024;
const MANAGER_KIB: u64 = 2 * 1024 + 64;

#[test]
fn much_input_reaches_rank_0_whole_and_memory_stays_constant() {
    let suite = Suite::new();
    suite.start_daemon();
    let mut job = suite.ranks(1, "t-stdin", &["sum", "600"]).input_pipe().deadline(300).start();
    let mut stdin = job.stdin();
    let mut digest = Digest::default();
    let mut stream = 0..sample(128, 1024) * MEBIBYTE / BLOCK as u64;
    let most = stream.end - 1;
    stream
        .try_for_each(|index| {
            let bytes = block(index);
            digest.add(&bytes);
            if index == most {
                assert_flat(&suite, &job);
            }
            stdin.write_all(&bytes)
        })
        .expect("mpirun reads the whole input");
    drop(stdin);
    job.wait().code(0).quiet().prints(&format!("0: {digest}\n"));
}

fn assert_flat(suite: &Suite, job: &Running) {
    let console = job.process().peak_kib();
    let (daemon, manager) = (suite.daemon().peak_kib(), suite.manager().peak_kib());
    assert!(console <= CONSOLE_KIB, "the peak of the console was {console} KiB");
    assert!(daemon <= DAEMON_KIB, "the peak of the daemon was {daemon} KiB");
    assert!(manager <= MANAGER_KIB, "the peak of the manager was {manager} KiB");
}

#[test]
fn the_option_s_selects_the_ranks_that_receive_input() {
    let suite = Suite::new();
    suite.start_daemon();
    let table: [(&str, &[usize]); 6] = [
        ("all", &[0, 1, 2, 3]),
        ("1-2", &[1, 2]),
        ("none", &[]),
        ("3", &[3]),
        ("0,2-3", &[0, 2, 3]),
        ("1,3", &[1, 3]),
    ];
    for (spec, receivers) in table {
        let helper = suite.program("t-stdin");
        let output =
            suite.mpirun(["-s", spec, "-n", "4", &helper, "lines"]).input("text\n").output();
        output.code(0).quiet();
        let mut expected: Vec<_> = (0..4).map(|rank| format!("{rank} end")).collect();
        expected.extend(receivers.iter().map(|rank| format!("{rank} got text")));
        expected.sort_unstable();
        assert_eq!(output.sorted_lines(), expected, "-s {spec}");
    }
}

#[test]
fn each_typed_line_reaches_its_rank_at_once() {
    let suite = Suite::new();
    let mut job = suite.ranks(2, "t-stdin", &["lines"]).input_pipe().start();
    let mut stdin = job.stdin();
    for word in ["first", "second", "third"] {
        stdin.write_all(format!("{word}\n").as_bytes()).expect("a pipe");
        job.shows(&format!("0 got {word}\n"));
    }
    drop(stdin);
    job.wait().code(0).quiet();
}

#[test]
fn a_rank_that_never_reads_its_input_grows_no_process() {
    let suite = Suite::new();
    suite.start_daemon();
    let mut job = suite.ranks(1, "t-stdin", &["never", "60"]).input_pipe().start();
    job.shows("0 ready");
    let mut stdin = job.stdin();
    let feeder = std::thread::spawn(move || {
        let bytes = vec![b'x'; 1 << 20];
        while stdin.write_all(&bytes).is_ok() {}
    });
    // The buffers fill within a moment; then all three sizes stay constant.
    let sizes = || [job.process(), suite.daemon(), suite.manager()].map(|p| p.resident_kib());
    let mut before = sizes();
    wait_until("sizes that stand still", || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let now = sizes();
        std::mem::replace(&mut before, now) == now
    });
    assert_flat(&suite, &job);
    job.send(Signal::SIGTERM);
    job.wait().failed();
    feeder.join().expect("the feeder ends");
}

#[test]
fn a_rank_that_closes_its_input_or_exits_delays_no_other_rank() {
    let suite = Suite::new();
    suite.start_daemon();
    let mut digest = Digest::default();
    let bytes: Vec<u8> = (0..512).flat_map(block).collect();
    digest.add(&bytes);
    let helper = suite.program("t-stdin");
    for way in ["close", "exit"] {
        let first = ["-s", "all", "-n", "1", &helper, way, "1", ":"];
        let second = ["-n", "1", &helper, "sum"];
        let run = suite.mpirun(first).args(second).input(bytes.clone());
        let output = run.output();
        output.code(0).quiet();
        assert!(output.out().contains(&format!("1: {digest}\n")), "{output}");
    }
}

#[test]
fn input_that_a_job_leaves_unread_has_a_line() {
    let suite = Suite::new();
    let unread = "mpirun: the job did not read its standard input, of which it got 8 bytes; -s none leaves it";
    let output = suite.ranks(2, "t-stdin", &["never", "1"]).input("one\ntwo\n").output();
    output.code(0);
    assert!(output.err().starts_with(unread) && output.err().lines().count() == 1, "{output}");
    // A part of the input was read.
    let line = ["-n", "2", "sh", "-c", "read a || :"];
    suite.mpirun(line).input("one\ntwo\n").output().code(0).quiet();
    suite.mpirun(["-s", "none", "-n", "1", "true"]).input("one\n").output().code(0).quiet();
}

#[test]
fn an_endless_input_does_not_delay_the_end_of_a_job() {
    let suite = Suite::new();
    // A line may name the input that was not read.
    suite.bash("yes | $MPIRUN -n 2 true").output().code(0);
}

#[test]
fn a_closed_stdin_of_mpirun_is_an_empty_input_for_ranks() {
    let suite = Suite::new();
    for how in ["<&-", "</dev/null"] {
        let output = suite.bash(&format!("$MPIRUN -n 2 $T/t-stdin lines {how}")).output();
        output.code(0).quiet();
        assert_eq!(output.sorted_lines(), ["0 end", "1 end"], "{how}");
    }
}

#[test]
fn unreadable_input_gives_exit_code_125() {
    let suite = Suite::new();
    let said = "mpirun: cannot read standard input: Is a directory\n";
    for (program, code) in [("cat", 125), ("true", 125), ("sh -c 'cat; exit 3'", 3)] {
        let output = suite.bash(&format!("$MPIRUN -n 2 {program} </tmp")).output();
        output.code(code).prints("");
        assert!(output.err().starts_with(said), "{program}: {output}");
    }
    suite.bash("$MPIRUN -n 2 -s none true </tmp").output().code(0).quiet();
    let output = suite.bash("$MPIRUN -n 1 cat 0>written").output();
    output.code(125);
}

#[test]
fn input_that_is_reset_gives_125_after_the_earlier_bytes() {
    let suite = Suite::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("a stream");
    let (mut theirs, _) = listener.accept().expect("a stream");
    let job = suite.mpirun(["-n", "2", "cat"]).stdin(OwnedFd::from(ours)).start();
    theirs.write_all(b"first\n").expect("a stream");
    job.shows("first\n");
    // Closing a stream with a linger time of zero resets the connection.
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(&theirs, sockopt::Linger, &linger).expect("a stream");
    drop(theirs);
    let output = job.wait();
    output.code(125).prints("first\n");
    let said = "mpirun: cannot read standard input: Connection reset by peer\n";
    assert_eq!(output.err(), said);
}

#[test]
fn a_file_as_input_is_read_to_its_end() {
    let suite = Suite::new();
    let path = suite.path("work/file");
    let bytes: Vec<u8> = (0..100).flat_map(block).collect();
    let mut digest = Digest::default();
    digest.add(&bytes);
    std::fs::write(&path, &bytes).expect("a file");
    let file = std::fs::File::open(&path).expect("a file");
    let output = suite.ranks(2, "t-stdin", &["sum"]).stdin(file).output();
    output.code(0).quiet();
    assert!(output.out().contains(&format!("0: {digest}\n")), "{output}");
}

#[test]
fn mpirun_does_not_make_the_callers_stdin_non_blocking() {
    let suite = Suite::new();
    let script = "$MPIRUN -n 1 true; grep flags /proc/self/fdinfo/0";
    let output = suite.bash(script).input_pipe().output();
    output.code(0);
    let flags = output.out().split_whitespace().last().map(|text| u32::from_str_radix(text, 8));
    assert_eq!(flags.expect("flags").expect("octal") & 0o4000, 0, "{output}");
}
