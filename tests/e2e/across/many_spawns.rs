//! Spawns by the thousand leave nothing behind while their job goes on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mpd_tests::surroundings::program;

use crate::members::Members;
use crate::process::Process;
use crate::run::{comes_true, sample, wait_until};

/// Links that a ring of five opens once its list has been quiet for a while: from each daemon, and to it.
const CHORDS: usize = 3;

/// What memory of a manager may grow by.
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

/// The same once all that was spawned has ended, and nothing changes any more.
fn settled(ring: &Members) -> Open {
    wait_until("what was spawned has ended", || ring.suite.running("t-spawn").len() == 1);
    let mut last = open(ring);
    let stands_still = comes_true(Duration::from_secs(15), || {
        std::thread::sleep(Duration::from_millis(200));
        let now = open(ring);
        std::mem::replace(&mut last, now.clone()) == now && !now[1].iter().any(has_helper)
    });
    assert!(stands_still, "it changes and changes: {last:?}");
    last
}

fn let_go(directory: &Path, step: usize) {
    fs::write(directory.join(format!("go.{step}")), "").expect("a file");
}

/// Spawns 1,000, of which the first 100 warm everything up, or many more: descriptors and processes are as before.
/// Says how many that were.
fn leave_the_suite_as_it_was(count: usize, options: &[&str]) -> (Members, usize) {
    let ring = Members::of(count);
    let directory = ring.suite.new_directory("hold");
    let path = Path::new(&directory);
    let spawner = program("t-spawn").display().to_string();
    let counts = sample("100,900", "1000,20000");
    fs::create_dir_all(ring.suite.path("work/outputs")).expect("a directory");
    let words = ["-n", "1", &spawner, "hold", &directory, counts, "1", "self", "quiet"];
    let job = ring.mpirun(1, &[options, &words[..]].concat()).deadline(sample(120, 600)).start();
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
    let_go(path, 1);
    holds(2);
    let now = settled(&ring);
    assert_eq!(now[1], before[1], "managers and their descriptors");
    for (now, before) in now[0].iter().zip(&before[0]) {
        let chords = if count == 1 { 0 } else { CHORDS };
        // It may have had some for a while, too.
        assert!(now.1 <= before.1 + chords, "daemon {now:?}, was {before:?}");
    }
    assert_eq!(ring.suite.processes().len(), processes);
    for (size, before) in now[1].iter().map(size).zip(sizes) {
        let grown = size.saturating_sub(before);
        assert!(grown <= GROWTH_KIB, "a manager has grown by {grown} KiB from {before} KiB");
    }
    let_go(path, 2);
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
    let spawned = counts.split(',').map(|count| count.parse::<usize>().expect("a number")).sum();
    (ring, spawned)
}

#[test]
fn a_thousand_spawns_leave_one_host_as_it_was() {
    leave_the_suite_as_it_was(1, &[]);
}

#[test]
fn a_thousand_spawns_leave_a_ring_of_five_as_it_was() {
    leave_the_suite_as_it_was(5, &[]);
}

#[test]
fn a_thousand_spawns_with_files_of_output_and_status_leave_two_hosts_as_they_were() {
    let files = ["-outfile-pattern", "outputs/%r", "-errfile-pattern", "outputs/%r.%h"];
    let options = [&files[..], &["-status-file", "status"]].concat();
    let (ring, spawned) = leave_the_suite_as_it_was(2, &options);
    let status = fs::read_to_string(ring.suite.path("work/status")).expect("a file");
    let is_well = |line: &&str| line.starts_with("world=") && line.ends_with(" code=0");
    assert_eq!(status.lines().filter(is_well).count(), spawned);
    let files = fs::read_dir(ring.suite.path("work/outputs")).expect("the files");
    assert_eq!(files.count(), 2 * (spawned + 1));
}
