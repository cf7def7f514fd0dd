//! Output files and status files of jobs whose ranks spawn others.

use std::fs;

use crate::spawn::{REFUSED, job, one};
use crate::suite::Suite;

/// The output of a rank of a spawned world on both of its streams.
const SAY: [&str; 3] = ["sh", "-c", "echo out $PMI_RANK; echo err $PMI_RANK >&2"];

/// A suite with a daemon.
fn suite() -> Suite {
    let suite = Suite::new();
    suite.start_daemon();
    suite
}

fn path(suite: &Suite, name: &str) -> String {
    suite.path(format!("work/{name}")).display().to_string()
}

fn read(suite: &Suite, name: &str) -> String {
    fs::read_to_string(path(suite, name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The parts before and after the host of status lines with this prefix.
fn statuses(text: &str, begin: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| line.starts_with(begin));
    let parts = lines.map(|line| line.split_once(" host=").expect("a host"));
    let behind = |rest: &str| {
        let arguments = rest.split(' ').skip(1).filter(|word| !word.starts_with("pid="));
        arguments.collect::<Vec<_>>().join(" ")
    };
    parts.map(|(front, rest)| (front.to_owned(), behind(rest))).collect()
}

fn expected(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(front, behind)| ((*front).to_owned(), (*behind).to_owned())).collect()
}

#[test]
fn a_pattern_without_a_rank_names_one_file_for_all_worlds() {
    let suite = suite();
    let errors = path(&suite, "errors");
    let output =
        job(&suite, &["-errfile-pattern", &errors], &[one(2, &SAY, &[]), one(1, &SAY, &[])])
            .output();
    output.code(0).quiet();
    let all = read(&suite, "errors");
    let mut lines: Vec<&str> = all.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["err 0", "err 0", "err 1"]);
    assert!(output.out().contains("out 1\n"), "{output}");
    suite.only_the_daemon_is_left();
}

#[test]
fn a_spawn_whose_output_files_cannot_be_opened_is_refused() {
    let suite = suite();
    // A file has the name of the directory.
    fs::write(path(&suite, "0,1"), "").expect("a file");
    let pattern = path(&suite, "%r/out");
    let output = job(&suite, &["-outfile-pattern", &pattern], &[one(2, &SAY, &[])]).output();
    output.code(0).prints("").says(&["cannot open output", "work/0,1/out: Not a directory"]);
    assert_eq!(read(&suite, "0/out"), REFUSED);
    suite.only_the_daemon_is_left();
}

#[test]
fn output_after_the_exit_of_a_rank_still_reaches_its_file() {
    let suite = suite();
    let (go, late) = (path(&suite, "go"), path(&suite, "late"));
    let script = format!(
        "echo early; (until [ -e {go} ] && ! kill -0 $$; do sleep 0.01; done 2>/dev/null; \
         echo late; touch {late}) &"
    );
    let lines = [
        one(1, &["sh", "-c", &script], &[]),
        one(1, &["touch", &go], &[]),
        vec![format!("until={late}")],
    ];
    let options = ["-outfile-pattern", &path(&suite, "out.%r")];
    job(&suite, &options, &lines).output().code(0).quiet().prints("");
    assert_eq!(read(&suite, "out.0,1"), "early\nlate\n");
    suite.only_the_daemon_is_left();
}

#[test]
fn a_status_file_shows_worlds_that_never_ran_or_were_ended() {
    let suite = suite();
    let never = format!("until={}", path(&suite, "never"));
    let lines = [
        one(2, &["./missing"], &[]),
        one(1, &["sleep", "60"], &[]),
        one(1, &["sh", "-c", "exit 3"], &[]),
        vec![never],
    ];
    let output = job(&suite, &["-status-file", &path(&suite, "status")], &lines).output();
    output.code(3);
    let text = read(&suite, "status");
    let worlds = [
        ("world=1 rank=0", "state=not-started"),
        ("world=1 rank=1", "state=not-started"),
        ("world=2 rank=0", "signal=15"),
        ("world=3 rank=0", "code=3"),
    ];
    assert_eq!(statuses(&text, "world="), expected(&worlds), "{text}");
    suite.only_the_daemon_is_left();
}
