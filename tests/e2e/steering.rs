//! Consoles of the ring that send signals and input to a running job.

use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::members::Members;
use crate::run::wait_until;

#[test]
fn mpdsigjob_signals_process_groups_or_with_s_only_the_ranks() {
    let ring = Members::of(2);
    let script = ring.suite.path("work/rank");
    let text = "trap 'echo rank; kill -KILL $child; exit 0' USR1\ntrap : USR2 40\n\
                sh -c 'trap \"echo child\" USR2 USR1; trap \"echo forty\" 40; echo ready; while :; do sleep 1; done' &\n\
                child=$!\nwhile :; do wait; done\n";
    fs::write(&script, text).expect("a script");
    let arguments =
        ["-n", "2", "-ppn", "1", "-a", "steered", "-l", "sh", &script.display().to_string()];
    let job = ring.mpirun(1, &arguments).start();
    job.shows("0: ready").shows("1: ready");
    let signal = |arguments: &[&str]| {
        ring.tool(2, "mpdsigjob", arguments).output().code(0).quiet();
    };
    signal(&["USR2", "-a", "steered"]);
    job.shows("0: child").shows("1: child");
    signal(&["-40", "-a", "steered"]);
    job.shows("0: forty").shows("1: forty");
    signal(&["USR1", "-s", "-a", "steered"]);
    let output = job.wait();
    output.code(0);
    let expected = ["child", "forty", "rank", "ready"];
    let expected: Vec<String> =
        ["0", "1"].iter().flat_map(|rank| expected.map(|word| format!("{rank}: {word}"))).collect();
    assert_eq!(output.sorted_lines(), expected, "children must not receive the last signal");
}

/// Pseudo-random bytes, so that every piece is recognisable.
struct Noise(u32);

impl Noise {
    fn some(&mut self) -> Vec<u8> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            self.0.to_be_bytes()[0]
        };
        (0..16 * 1024).map(|_| next()).collect()
    }
}

/// Writes until `stop`, at most a little more than `got` bytes ahead; returns the written bytes.
fn write_until(stop: &AtomicBool, mut to: impl Write, got: impl Fn() -> usize) -> Vec<u8> {
    const AHEAD: usize = 64 * 1024;
    let (mut noise, mut written) = (Noise(1), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        if written.len() < got() + AHEAD {
            let some = noise.some();
            to.write_all(&some).expect("mpirun reads");
            written.extend(some);
        } else {
            std::thread::yield_now();
        }
    }
    written
}

/// Whether `whole` is `outer` with `inner` inserted somewhere.
fn is_within(outer: &[u8], inner: &[u8], whole: &[u8]) -> bool {
    let alike = outer.iter().zip(whole).take_while(|(a, b)| a == b).count();
    // A few bytes may be equal by chance.
    (alike.saturating_sub(8)..=alike)
        .any(|cut| [&outer[..cut], inner, &outer[cut..]].concat() == whole)
}

#[test]
fn mpdstdin_switches_running_input_without_lost_or_doubled_bytes() {
    let ring = Members::of(2);
    let directory = ring.suite.new_directory("got");
    let script = format!("cat > {directory}/$PMI_RANK");
    let arguments = ["-n", "3", "-ppn", "2", "-stdin-switch", "-a", "fed", "sh", "-c", &script];
    let mut job = ring.mpirun(1, &arguments).input_pipe().start();
    let path = |rank: u32| format!("{directory}/{rank}");
    let got = |rank: u32| fs::metadata(path(rank)).map_or(0, |file| file.len() as usize);
    let stop = AtomicBool::new(false);
    let stdin = job.stdin();
    let whole = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_until(&stop, stdin, || (0..3).map(got).sum()));
        // Rank 2 is on the other host.
        for (rank, next) in [(0, "2"), (2, "0")] {
            wait_until("input flows", || got(rank) > 0);
            ring.tool(2, "mpdstdin", &["fed", next]).output().code(0).quiet();
        }
        let inner = got(0);
        wait_until("it flows again where it flowed first", || got(0) > inner);
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("all is written")
    });
    job.wait().code(0).quiet();
    assert_eq!(got(1), 0, "rank 1 got no input");
    let read = |rank| fs::read(path(rank)).expect("the input of a rank");
    let (outer, inner) = (read(0), read(2));
    assert!(!inner.is_empty() && outer.len() + inner.len() == whole.len());
    assert!(is_within(&outer, &inner, &whole));
}

#[test]
fn mpdlabels_labels_the_lines_that_follow_and_no_line_is_torn() {
    let ring = Members::of(2);
    let arguments = ["-n", "2", "-ppn", "1", "-s", "all", "-a", "chatty", "cat"];
    let mut job = ring.mpirun(1, &arguments).input_pipe().start();
    let mut stdin = job.stdin();
    let mut write = |text: &str| stdin.write_all(text.as_bytes()).expect("mpirun reads");
    let label = |label: &str| ring.tool(2, "mpdlabels", &["chatty", label]).output();
    let lines = |text: &str| job.stdout().lines().filter(|line| *line == text).count();
    write("plain\n");
    wait_until("lines without labels", || lines("plain") == 2);
    label("on").code(0).quiet();
    write("numbered\n");
    job.shows("0: numbered\n").shows("1: numbered\n");
    label("%j of %r").code(0).quiet();
    write("named\n");
    job.shows(" of 0: named\n").shows(" of 1: named\n");
    label("%q").code(2).says(&["there is no field %q"]);
    label("off").code(0).quiet();
    write("again\n");
    wait_until("lines without labels", || lines("again") == 2);
    drop(stdin);
    let output = job.wait();
    output.code(0).quiet();
    assert_eq!(output.sorted_lines().len(), 8, "{:?}", output.sorted_lines());
    ring.tool(2, "mpdlabels", &["nobody", "on"]).output().code(1).brief().says(&["nobody"]);
}

#[test]
fn input_without_a_receiver_waits_until_mpdstdin_names_one() {
    let ring = Members::of(1);
    let arguments = ["-n", "2", "-s", "none", "-stdin-switch", "-a", "fed", "-l", "cat"];
    let job = ring.mpirun(1, &arguments).input("one line\n").start();
    let switch = |ranks: &str| ring.tool(1, "mpdstdin", &["fed", ranks]).output();
    wait_until("it runs", || switch("1").exit_code() == Some(0));
    job.wait().code(0).quiet().prints("1: one line\n");
}

#[test]
fn mpdstdin_refuses_a_rank_without_a_pipe_and_an_unknown_rank() {
    let ring = Members::of(2);
    let mut job =
        ring.mpirun(1, &["-n", "2", "-ppn", "1", "-a", "fed", "-l", "cat"]).input_pipe().start();
    let mut stdin = job.stdin();
    writeln!(stdin, "first").expect("mpirun reads");
    job.shows("0: first");
    let refused = |ranks: &str| ring.tool(2, "mpdstdin", &["fed", ranks]).output();
    refused("0-1").code(1).brief().says(&["rank 1 has no pipe", "-stdin-switch"]);
    refused("7").code(1).brief().says(&["no rank 7"]);
    ring.tool(2, "mpdstdin", &["nobody", "0"]).output().code(1).brief().says(&["nobody"]);
    writeln!(stdin, "second").expect("mpirun reads");
    drop(stdin);
    job.wait().code(0).prints("0: first\n0: second\n");
}
