//! The debugger's options.

use mpd_wire::job::{LabelFormat, OnFailure};
use mpd_wire::message::JobRef;

use super::*;

#[test]
fn a_job_is_debugged_with_merged_output_and_no_input() {
    for line in ["-d -n 3 a x", "-gdb -n 3 a x"] {
        let run = run(line);
        assert!(run.debug.is_some());
        let debug = run.spec.debug.as_ref().unwrap();
        assert_eq!((&debug.gdb[..], &debug.attach[..]), (&b"gdb"[..], &[][..]));
        assert_eq!(run.spec.output.label, LabelFormat::new(b"spawned %r: ").ok());
        assert!(run.spec.output.merge && run.spec.stdin.is_empty());
        assert_eq!(run.spec.on_failure, OnFailure::Continue);
        assert_eq!(run.spec.argsets[0].args, [b"x"]);
    }
    let run = run("-d -gdb-path /opt/gdb a");
    assert_eq!(run.spec.debug.unwrap().gdb, b"/opt/gdb");
}

#[test]
fn mpigdb_is_mpirun_with_the_option_d() {
    let mut caller = caller(&["-np", "2", "a"]);
    caller.name = "mpigdb".into();
    let run = run_by(&caller);
    assert!(run.debug.is_some() && run.spec.size() == 2);
}

#[test]
fn x_names_a_file_of_commands_with_d_and_else_a_variable() {
    let environment = |line| spec(line).environments.remove(0);
    assert!(environment("-x A=1 a").contains(&b"A=1".to_vec()));
    assert!(!environment("-d -x A=1 a").contains(&b"A=1".to_vec()));
    let debug = run("-d -batch -x A=1 -ex next a").debug.unwrap();
    assert!(debug.batch);
    let text = format!("{debug:?}");
    assert!(text.contains(r#"File("/work/A=1"), Command("next")"#), "{text}");
}

#[test]
fn options_that_the_debugger_replaces_are_refused() {
    for line in ["-d -l a", "-m -d a", "-d -s all a", "-d -outfile-pattern f a", "-d -timestamp a"]
    {
        assert!(problem(line).ends_with(" makes no sense with -d"), "{line}");
    }
    assert_eq!(problem("-ex run a"), "-ex is for the debugger: it needs -d");
    assert_eq!(problem("-batch a"), "-batch is for the debugger: it needs -d");
}

#[test]
fn attaching_needs_the_job_and_no_program() {
    for line in ["-gdba 3", "-d -gdba 3", "-d -p 3", "--gdba=3"] {
        let run = run(line);
        assert_eq!(run.target.unwrap().job, JobRef::Number(3), "{line}");
        assert!(run.debug.unwrap().attached);
        assert_eq!(run.spec.argsets[0].program, b"gdb");
        assert_eq!(run.spec.timeout, None);
    }
    let run = run("-d -p ocean -r 0,2-4 -gdb-path /opt/gdb -ex bt -batch");
    let target = run.target.unwrap();
    assert_eq!(target.job, JobRef::Alias("ocean".into()));
    assert_eq!(target.ranks, Some("0,2-4".parse().unwrap()));
    assert_eq!(run.spec.argsets[0].program, b"/opt/gdb");
    let problems = [
        ("-gdba 3 a", "-gdba 3 attaches to a running job; the program a is not allowed"),
        ("-gdba 3 -n 4", "-n makes no sense with -gdba"),
        ("-p 3", "-p is for the debugger: it needs -d"),
        ("-r 3 a", "-r is for the debugger: it needs -gdba or -stacks"),
        ("-d -r 3 a", "-r is for a running job: it needs -gdba or -stacks"),
        ("-gdba 3 -gdba 4", "-gdba 3 and -gdba 4 contradict each other"),
        ("-gdba 3 -r none", "-r none: no rank is selected"),
        ("-gdba 3 -json", "-json makes no sense with -gdba"),
    ];
    for (line, expected) in problems {
        assert_eq!(problem(line), expected);
    }
}

#[test]
fn stacks_are_collected_without_the_users_gdb_settings() {
    let run = run("-stacks 3@h -json");
    let request = run.debug.unwrap();
    assert_eq!(request.stacks, Some(crate::debug::Form::Json));
    assert_eq!(run.spec.argsets[0].directory, b"/");
    let has_home = |spec: &JobSpec| spec.environments[0].contains(&b"HOME=/home/u".to_vec());
    assert!(!has_home(&run.spec) && has_home(&spec("-gdba 3")));
    assert_eq!(problem("-stacks 3 -ex bt"), "-ex makes no sense with -stacks");
    assert_eq!(problem("-json a"), "-json needs -dry-run or -stacks");
}

#[test]
fn the_debugger_for_crashes_can_be_selected() {
    let gdb = |line| spec(line).on_crash.map(|on_crash| on_crash.gdb);
    assert_eq!(gdb("a"), None);
    assert_eq!(gdb("-on-crash gdb a").as_deref(), Some(&b"gdb"[..]));
    assert_eq!(gdb("--on-crash=gdb -gdb-path /opt/gdb a").as_deref(), Some(&b"/opt/gdb"[..]));
    let hold = |line| spec(line).on_crash.map(|on_crash| on_crash.hold);
    assert_eq!(hold("-on-crash gdb a"), Some(true));
    assert_eq!(hold("-on-crash gdb -batch a"), Some(false));
    assert_eq!(problem("-on-crash core a"), "-on-crash core: it must be 'gdb'");
    assert_eq!(problem("-d -on-crash gdb a"), "-on-crash makes no sense with -d");
    assert!(gdb("-on-crash gdb -pty a").is_some());
}
