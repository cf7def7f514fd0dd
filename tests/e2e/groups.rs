//! Groups of ranks that share memory through common names and a common directory.

use std::collections::BTreeSet;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::members::Members;
use crate::process::{self, Process};
use crate::run::wait_until;
use crate::suite::Suite;

const SHOW: &str = "echo $PMI_RANK $MPD_GROUP_RANK/$MPD_GROUP_SIZE $MPD_GROUP_KEY $MPD_GROUP_IPC_KEY $MPD_GROUP_DIR";

/// The values that a group received, with its name for POSIX objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shared {
    name: String,
    key: i64,
    directory: String,
}

impl Shared {
    /// From the fields that [`SHOW`] prints after the first two.
    fn of(arguments: &[&str]) -> Self {
        let [name, key, directory] = *arguments else { panic!("{arguments:?}") };
        let digits = name.strip_prefix("/mpd-").expect("a name");
        assert!(digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
        let key = key.parse().expect("a number");
        assert!((1..=i64::from(i32::MAX)).contains(&key), "{key}");
        assert!(directory.starts_with("/dev/shm/mpd-"), "{directory}");
        Self { name: name.to_owned(), key, directory: directory.to_owned() }
    }

    /// The group's remaining objects: files, System V objects, the directory.
    fn left(&self) -> Vec<String> {
        let files = std::fs::read_dir("/dev/shm").expect("/dev/shm").flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let mut left: Vec<String> = names.filter(|name| name.contains(&self.name[1..])).collect();
        for kind in ["shm", "sem", "msg"] {
            let table = std::fs::read_to_string(format!("/proc/sysvipc/{kind}")).expect("a table");
            let keys = table.lines().skip(1).filter_map(|row| row.split_whitespace().next());
            let is_ours = |key: &&str| key.parse() == Ok(self.key);
            left.extend(keys.filter(is_ours).map(|key| format!("{kind} {key}")));
        }
        let directory = Path::new(&self.directory);
        let there = [directory, directory.parent().expect("a parent")];
        left.extend(
            there.iter().filter(|path| path.exists()).map(|path| path.display().to_string()),
        );
        left
    }
}

/// The compiled example.
fn pairs(suite: &Suite) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/pairs.c");
    let program = suite.path("work/pairs").display().to_string();
    let arguments = ["-Wall", "-Wextra", "-Werror", "-o", &program];
    suite.as_self("cc").args(arguments).arg(source).output().code(0).quiet();
    program
}

#[test]
fn ranks_of_a_group_share_posix_and_system_v_memory_by_their_keys() {
    let suite = Suite::new();
    let program = pairs(&suite);
    let output = suite.mpirun(["-n", "5", "-g", "2", &program]).output();
    output.code(0).quiet();
    let expected = [
        "rank 0 is 0 of 2 and met rank 1",
        "rank 1 is 1 of 2 and met rank 0",
        "rank 2 is 0 of 2 and met rank 3",
        "rank 3 is 1 of 2 and met rank 2",
        "rank 4 is 0 of 1 and met rank 4",
    ];
    assert_eq!(output.sorted_lines(), expected);
}

/// The values of each group, from the lines that [`SHOW`] printed.
fn groups_in(text: &str) -> BTreeSet<Shared> {
    let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let shared = lines.filter(|arguments| arguments.len() == 5);
    shared.map(|arguments| Shared::of(&arguments[2..])).collect()
}

fn assert_nothing_is_left(groups: &BTreeSet<Shared>) {
    let left: Vec<String> = groups.iter().flat_map(Shared::left).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn briefly_opened_objects_of_a_group_are_removed_at_the_end() {
    let suite = Suite::new();
    let script = format!("{SHOW}; exec {} exit", suite.program("t-group"));
    let output = suite.mpirun(["-n", "4", "-g", "2", "sh", "-c", &script]).output();
    output.code(0).quiet();
    let groups = groups_in(&output.out());
    assert_eq!(groups.len(), 2, "one for each pair: {output}");
    assert_nothing_is_left(&groups);
}

#[test]
fn objects_of_a_group_are_removed_after_its_manager_and_daemon_are_killed() {
    for with_daemon in [false, true] {
        let suite = Suite::new();
        let daemon = suite.start_daemon();
        let script = format!("{SHOW}; exec {} wait", suite.program("t-group"));
        let job = suite.mpirun(["-n", "2", "-g", "2", "sh", "-c", &script]).start();
        wait_until("all is made", || job.stdout().matches("made").count() == 2);
        let groups = groups_in(&job.stdout());
        assert_eq!(groups.len(), 1);
        assert!(groups.iter().all(|group| group.left().len() == 8), "{groups:?}");
        let manager = suite.manager();
        if with_daemon {
            process::send(daemon.pid, Signal::SIGKILL);
            wait_until("it is dead", || {
                !Process::read(daemon.pid).is_some_and(|process| process.is_alive())
            });
        }
        process::send(manager.pid, Signal::SIGKILL);
        job.wait().code(125);
        if with_daemon {
            suite.start_daemon();
        }
        wait_until("all is removed", || groups.iter().all(|group| group.left().is_empty()));
        suite.only_the_daemon_is_left();
    }
}

#[test]
fn every_group_is_on_one_host_of_a_ring_with_its_own_key() {
    let ring = Members::of(2);
    let script = format!("{SHOW} $MPI_LOCALNRANKS");
    let arguments = ["-n", "5", "-g", "2", "-ppn", "2", "sh", "-c", &script];
    let output = ring.mpirun(1, &arguments).output();
    output.code(0);
    let mut ends = Vec::new();
    let mut keys = Vec::new();
    for line in output.sorted_lines() {
        let arguments: Vec<&str> = line.split(' ').collect();
        ends.push(format!("{} {} of {} here", arguments[0], arguments[1], arguments[5]));
        keys.push(Shared::of(&arguments[2..5]));
    }
    let expected = [
        "0 0/2 of 3 here",
        "1 1/2 of 3 here",
        "2 0/2 of 2 here",
        "3 1/2 of 2 here",
        "4 0/1 of 3 here",
    ];
    assert_eq!(ends, expected);
    assert_eq!((&keys[0], &keys[2]), (&keys[1], &keys[3]));
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 3, "{keys:?}");
}

#[test]
fn without_groups_ranks_get_no_group_variables_from_the_caller() {
    let suite = Suite::new();
    let run = suite.mpirun(["sh", "-c", "env | grep MPD_GROUP; true"]);
    run.env("MPD_GROUP_KEY", "/mpd-0000000000000001")
        .env("MPD_GROUP_IPC_KEY", "1")
        .env("MPD_GROUP_DIR", "/tmp")
        .env("MPD_GROUP_SIZE", "9")
        .output()
        .prints("");
}
