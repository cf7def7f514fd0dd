//! Groups of ranks that share memory under a key of their own.

use std::collections::BTreeSet;
use std::path::Path;

use crate::members::Members;
use crate::suite::Suite;

const TOLD: &str = "echo $PMI_RANK $MPD_GROUP_RANK/$MPD_GROUP_SIZE $MPD_GROUP_KEY";

/// The example, compiled.
fn pairs(suite: &Suite) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/pairs.c");
    let program = suite.path("work/pairs").display().to_string();
    let words = ["-Wall", "-Wextra", "-Werror", "-o", &program];
    suite.as_self("cc").args(words).arg(source).arg("-lrt").output().code(0).quiet();
    program
}

/// Files and System V objects of this machine that bear one of these keys.
fn left(keys: &BTreeSet<String>) -> Vec<String> {
    let files = std::fs::read_dir("/dev/shm").expect("/dev/shm").flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let mut left: Vec<String> =
        names.filter(|name| keys.iter().any(|key| name.contains(&key[1..]))).collect();
    for kind in ["shm", "sem", "msg"] {
        let table = std::fs::read_to_string(format!("/proc/sysvipc/{kind}")).expect("a table");
        for row in table.lines().skip(1) {
            let number = row.split_whitespace().next().and_then(|key| key.parse::<i64>().ok());
            let named = number.map(|number| format!("/mpd-{number:08x}"));
            left.extend(named.filter(|key| keys.contains(key)));
        }
    }
    left
}

#[test]
fn the_ranks_of_a_pair_share_memory_by_both_forms_of_their_key() {
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

#[test]
fn what_bears_the_key_of_a_group_is_removed_even_if_nobody_had_it_open_for_long() {
    let suite = Suite::new();
    let script = format!(
        "{TOLD}; : >/dev/shm$MPD_GROUP_KEY; : >/dev/shm$MPD_GROUP_KEY.more; \
         : >/dev/shm/sem.${{MPD_GROUP_KEY#/}}; set -- $({} exit); rm \"$8\"",
        suite.program("t-ipc")
    );
    let output = suite.mpirun(["-n", "4", "-g", "2", "sh", "-c", &script]).output();
    output.code(0).quiet();
    let lines = output.sorted_lines();
    let keys: BTreeSet<String> =
        lines.iter().map(|line| line.split(' ').next_back().expect("a key").to_owned()).collect();
    assert_eq!(keys.len(), 2, "one key for each pair: {output}");
    assert!(keys.iter().all(|key| key.starts_with("/mpd-") && key.len() == 13), "{output}");
    assert_eq!(left(&keys), [""; 0]);
}

#[test]
fn groups_stay_together_on_the_hosts_of_a_ring_with_a_key_each() {
    let ring = Members::of(2);
    let script = format!("{TOLD} $MPI_LOCALNRANKS");
    let words = ["-n", "5", "-g", "2", "-ppn", "2", "sh", "-c", &script];
    let output = ring.mpirun(1, &words).output();
    output.code(0);
    let mut ends = Vec::new();
    let mut keys = Vec::new();
    for line in output.sorted_lines() {
        let words: Vec<&str> = line.split(' ').collect();
        ends.push(format!("{} {} of {} here", words[0], words[1], words[3]));
        keys.push(words[2].to_owned());
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
fn without_groups_there_are_no_such_variables_even_if_the_caller_has_them() {
    let suite = Suite::new();
    let run = suite.mpirun(["sh", "-c", "env | grep MPD_GROUP; true"]);
    run.env("MPD_GROUP_KEY", "/mpd-00000001").env("MPD_GROUP_SIZE", "9").output().prints("");
}
