//! Thousands of spawns leave no process, descriptor or memory behind while their job runs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mpd_tests::surroundings::program;

use crate::members::Members;
use crate::process::Process;
use crate::run::{comes_true, sample, wait_until};

/// Links from and to each daemon that a ring of five opens once its member list has been quiet for a while.
const CHORDS: usize = 3;

/// How much the memory of a manager may grow.
const GROWTH_KIB: u64 = 2048;

/// Process ids with numbers of descriptors, of the daemons and of the managers.
type Open = [Vec<(i32, usize)>; 2];

fn open(ring: &Members) -> Open {
    let daemons: Vec<Process> = ring.indices().iter().map(|&index| ring.process(index)).collect();
    let managers: Vec<Process> =
        daemons.iter().flat_map(Process::children).filter(Process::is_manager).collect();
    [daemons, managers]
        .map(|all| all.iter().map(|process| (process.pid, process.descriptors())).collect())
}

fn has_helper(&(manager, _): &(i32, usize)) -> bool {
    Process::read(manager).is_some_and(|manager| manager.children().iter().any(Process::is_helper))
}

/// The same once all spawned processes have ended and the numbers no longer change.
fn settled(ring: &Members) -> Open {
    wait_until("what was spawned has ended", || ring.suite.running("t-spawn").len() == 1);
    let mut last = open(ring);
    let is_stable = comes_true(Duration::from_secs(15), || {
        std::thread::sleep(Duration::from_millis(200));
        let now = open(ring);
        std::mem::replace(&mut last, now.clone()) == now && !now[1].iter().any(has_helper)
    });
    assert!(is_stable, "the numbers keep changing: {last:?}");
    last
}

fn release_step(directory: &Path, step: usize) {
    fs::write(directory.join(format!("go.{step}")), "").expect("a file");
}

/// Runs a job with 1,000 spawns or more, of which the first 100 are a warm-up. Checks that descriptors,
/// processes and memory do not grow afterwards. Returns the ring and the number of spawns.
fn check_that_the_suite_does_not_grow(count: usize, options: &[&str]) -> (Members, usize) {
    let ring = Members::of(count);
    let directory = ring.suite.new_directory("hold");
    let path = Path::new(&directory);
    let spawner = program("t-spawn").display().to_string();
    let counts = sample("100,900", "1000,20000");
    fs::create_dir_all(ring.suite.path("work/outputs")).expect("a directory");
    let arguments = ["-n", "1", &spawner, "hold", &directory, counts, "1", "self", "quiet"];
    let job =
        ring.mpirun(1, &[options, &arguments[..]].concat()).deadline(sample(120, 600)).start();
    let holds = |step: usize| {
        let file = path.join(format!("held.{step}"));
        let there = comes_true(Duration::from_secs(sample(100, 500)), || file.exists());
        assert!(there, "step {step}: {}{}", job.stdout(), job.stderr());
    };
    holds(1);
    let before = settled(&ring);
    assert_eq!(before.each_ref().map(Vec::len), [count, count], "each: {before:?}");
    let processes = ring.suite.processes().len();
    let size = |&(pid, _): &(i32, usize)| Process::read(pid).expect("a manager").resident_kib();
    let sizes: Vec<u64> = before[1].iter().map(size).collect();
    release_step(path, 1);
    holds(2);
    let now = settled(&ring);
    assert_eq!(now[1], before[1], "the managers and their descriptors");
    for (now, before) in now[0].iter().zip(&before[0]) {
        let chords = if count == 1 { 0 } else { CHORDS };
        // The daemon may also have opened some chord links before.
        assert!(now.1 <= before.1 + chords, "daemon {now:?}, was {before:?}");
    }
    assert_eq!(ring.suite.processes().len(), processes);
    for (size, before) in now[1].iter().map(size).zip(sizes) {
        let grown = size.saturating_sub(before);
        assert!(grown <= GROWTH_KIB, "a manager has grown by {grown} KiB from {before} KiB");
    }
    release_step(path, 2);
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
    let spawned = counts.split(',').map(|count| count.parse::<usize>().expect("a number")).sum();
    (ring, spawned)
}

#[test]
fn a_thousand_spawns_on_one_host_leave_no_process_and_no_descriptor() {
    check_that_the_suite_does_not_grow(1, &[]);
}

#[test]
fn a_thousand_spawns_in_a_ring_of_five_leave_no_process_and_no_descriptor() {
    check_that_the_suite_does_not_grow(5, &[]);
}

#[test]
fn a_thousand_spawns_with_output_and_status_files_leave_no_process_and_no_descriptor() {
    let files = ["-outfile-pattern", "outputs/%r", "-errfile-pattern", "outputs/%r.%h"];
    let options = [&files[..], &["-status-file", "status"]].concat();
    let (ring, spawned) = check_that_the_suite_does_not_grow(2, &options);
    let status = fs::read_to_string(ring.suite.path("work/status")).expect("a file");
    let is_well = |line: &&str| line.starts_with("world=") && line.ends_with(" code=0");
    assert_eq!(status.lines().filter(is_well).count(), spawned);
    let files = fs::read_dir(ring.suite.path("work/outputs")).expect("the files");
    assert_eq!(files.count(), 2 * (spawned + 1));
}
