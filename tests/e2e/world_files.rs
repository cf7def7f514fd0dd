//! Output files and status files of jobs whose ranks spawn others.

use std::fs;

use crate::run::wait_until;
use crate::spawn::{DONE, REFUSED, job, one};
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
fn spawned_ranks_write_to_their_own_output_files() {
    let suite = suite();
    let options =
        ["-outfile-pattern", &path(&suite, "out.%r"), "-errfile-pattern", &path(&suite, "err.%r")];
    let output = job(&suite, &options, &[one(2, &SAY, &[]), one(1, &SAY, &[])]).output();
    output.code(0).quiet().prints("");
    assert_eq!(read(&suite, "out.0"), format!("{DONE}0,0\n{DONE}0\n"));
    for (rank, name) in [(0, "0,1"), (1, "1,1"), (0, "0,2")] {
        assert_eq!(read(&suite, &format!("out.{name}")), format!("out {rank}\n"));
        assert_eq!(read(&suite, &format!("err.{name}")), format!("err {rank}\n"));
    }
    suite.only_the_daemon_is_left();
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
fn failed_spawns_leave_no_output_file_open() {
    let suite = suite();
    let go = path(&suite, "go");
    let mut lines = vec![one(2, &["./missing"], &[]); 10];
    lines.push(vec![format!("until={go}")]);
    let options = ["-outfile-pattern", &path(&suite, "out.%r")];
    let run = job(&suite, &options, &lines).start();
    wait_until("ten refusals", || {
        fs::read_to_string(path(&suite, "out.0")).is_ok_and(|text| text == REFUSED.repeat(10))
    });
    let open = || {
        let all = fs::read_dir(format!("/proc/{}/fd", suite.manager().pid)).expect("descriptors");
        let targets = all.filter_map(|one| fs::read_link(one.ok()?.path()).ok());
        targets.filter(|target| target.to_string_lossy().contains("/work/out.")).count()
    };
    wait_until("one open file", || open() == 1);
    fs::write(&go, "").expect("a file");
    run.wait().code(0);
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
fn a_status_file_lists_the_ranks_of_all_worlds_after_the_first() {
    let suite = suite();
    let script = "case $PMI_RANK in 1) exit 5;; 2) kill -9 $$;; esac";
    let lines = [one(3, &["sh", "-c", script], &[]), one(1, &["true"], &[])];
    let options = ["-on-failure=continue", "-status-file", &path(&suite, "status")];
    job(&suite, &options, &lines).output().failed();
    let text = read(&suite, "status");
    let mut firsts = text.lines().take(3);
    assert_eq!(firsts.next(), Some("mpd-status 1"));
    assert!(firsts.next().is_some_and(|line| line.ends_with(" ranks=1")), "{text}");
    assert!(firsts.next().is_some_and(|line| line.ends_with(" code=0")), "{text}");
    assert_eq!(statuses(&text, "rank="), expected(&[("rank=0", "code=0")]));
    let worlds = [
        ("world=1 rank=0", "code=0"),
        ("world=1 rank=1", "code=5"),
        ("world=1 rank=2", "signal=9"),
        ("world=2 rank=0", "code=0"),
    ];
    assert_eq!(statuses(&text, "world="), expected(&worlds), "{text}");
    assert!(!text.contains("pid=0"), "{text}");
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

#[test]
fn on_failure_highest_takes_the_highest_code_of_all_worlds() {
    let suite = suite();
    let lines = [one(2, &["sh", "-c", "exit $((PMI_RANK * 3 + 1))"], &[]), one(1, &["./no"], &[])];
    job(&suite, &["-on-failure", "highest"], &lines).output().code(4);
    suite.only_the_daemon_is_left();
}
