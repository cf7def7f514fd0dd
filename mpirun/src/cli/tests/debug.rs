//! The debugger's options.

use mpd_proto::job::{LabelFormat, OnFailure};

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
fn mpigdb_is_a_name_for_it() {
    let mut caller = caller(&["-np", "2", "a"]);
    caller.name = "mpigdb".into();
    let run = run_by(&caller);
    assert!(run.debug.is_some() && run.spec.size() == 2);
}

#[test]
fn x_is_a_file_of_commands_there_and_a_variable_elsewhere() {
    let environment = |line| spec(line).environments.remove(0);
    assert!(environment("-x A=1 a").contains(&b"A=1".to_vec()));
    assert!(!environment("-d -x A=1 a").contains(&b"A=1".to_vec()));
    let debug = run("-d -batch -x A=1 -ex next a").debug.unwrap();
    assert!(debug.batch);
    let text = format!("{debug:?}");
    assert!(text.contains(r#"File("/work/A=1"), Command("next")"#), "{text}");
}

#[test]
fn what_the_debugger_does_itself_is_refused() {
    for line in ["-d -l a", "-m -d a", "-d -s all a", "-d -outfile-pattern f a", "-d -timestamp a"]
    {
        assert!(problem(line).ends_with(" makes no sense with -d"), "{line}");
    }
    assert_eq!(problem("-ex run a"), "-ex is for the debugger: it needs -d");
    assert_eq!(problem("-batch a"), "-batch is for the debugger: it needs -d");
}
