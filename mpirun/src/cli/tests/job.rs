//! The options of the whole job.

use std::time::Duration;

use mpd_wire::job::{AbortScope, Allowance, LabelFormat, OnFailure};

use super::*;

fn label(line: &str) -> Option<String> {
    spec(line).output.label.map(|l| text(l.as_bytes()).to_owned())
}

#[test]
fn without_options_the_job_is_plain() {
    let r = run("a");
    assert_eq!(r.spec.output, mpd_wire::job::OutputSpec::default());
    assert_eq!(r.spec.stdin.to_string(), "0");
    assert_eq!(r.spec.on_failure, OnFailure::End);
    assert_eq!((r.spec.timeout, r.spec.universe_size, r.spec.alias), (None, None, None));
    assert!(!r.spec.report_ends && !r.verbose && !r.exits.any());
    assert_eq!(text(&r.spec.tmpdir), "/tmp");
}

#[test]
fn labels_have_a_format() {
    assert_eq!(label("-l a").unwrap(), "%r: ");
    assert_eq!(label("-prepend-rank a").unwrap(), "%r: ");
    assert_eq!(label("-label-fmt %h/%r a").unwrap(), "%h/%r: ", "as in MPD");
    assert_eq!(label("-prepend-pattern [%r%%] a").unwrap(), "[%r%%]");
    assert_eq!(label("-l -label-fmt %p a").unwrap(), "%p: ");
    assert!(
        problem("-label-fmt %r%x a")
            .starts_with("-label-fmt %r%x: there is no field %x; known are %r rank")
    );
    assert!(problem("-label-fmt % a").contains("the % at the end has no letter"));
    assert!(problem("-prepend-pattern %: a").contains("there is no field %:"));
    assert!(problem("-label-fmt %r -prepend-pattern %r a").contains("contradict each other"));
}

#[test]
fn the_silence_after_which_a_host_is_lost_is_at_least_three_seconds() {
    assert_eq!(spec("a").host_timeout, None);
    assert_eq!(spec("-host-timeout 3 a").host_timeout, Some(3));
    for bad in ["2", "0", "86401", "x", "-1", "4.5"] {
        assert!(problem(&format!("-host-timeout={bad} a")).contains("from 3 to 86400"), "{bad}");
    }
}

#[test]
fn memory_and_cpus_of_a_host_are_limits_of_the_whole_job() {
    assert!(!spec("a").allowance.is_bounded());
    let shown = |line: &str| {
        let Allowance { memory, cpus } = spec(line).allowance;
        (memory.map(|it| it.to_string()), cpus.map(|it| it.to_string()))
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(shown("-mem 4096m -cpus 1.5 a"), (text("4G"), text("1.5")));
    assert_eq!(shown("a : -n 2 -cpus 03.125 b : -mem 1048577 c"), (text("1048577"), text("3.125")));
    for bad in ["", "0", "1023K", "4T", "-1", "1.5G", "unlimited", "99999999999999999999"] {
        assert!(problem(&format!("-mem={bad} a")).contains("-mem"), "{bad}");
    }
    for bad in ["", "0", "0.009", ".5", "1.2345", "x", "-1", "100001", "4294967297"] {
        assert!(problem(&format!("-cpus={bad} a")).contains("number of CPUs"), "{bad}");
    }
    assert!(problem("-mem 1G : -mem 2G a").contains("contradict each other"));
}

#[test]
fn merging_lines_adds_labels() {
    let output = spec("-m a").output;
    assert!(output.merge && output.label.is_some());
    assert_eq!(label("-m -label-fmt <%r> a").unwrap(), "<%r>: ");
}

#[test]
fn lines_may_have_a_time() {
    assert!(spec("-timestamp a").output.timestamp);
}

#[test]
fn standard_input_goes_to_the_ranks_of_option_s() {
    for (written, ranks) in [("all", "all"), ("none", "none"), ("1,3", "1,3"), ("0-2,3", "0-3")] {
        assert_eq!(spec(&format!("-n 4 -s {written} a")).stdin.to_string(), ranks);
    }
    assert_eq!(spec("a : -s all b").stdin.to_string(), "all", "global in any section");
    assert_eq!(
        problem("-n 4 -s 4 a"),
        "standard input for rank 4, but the job has only 4 ranks (0-3)"
    );
    assert!(problem("-s x a").starts_with("-s x: \"x\" is neither a rank, a range"));
    assert!(problem("-s 3-1 a").ends_with("the range 3-1 ends before it starts"));
    assert_eq!(problem("-s 1 a : -s 0 b"), "-s 1 and -s 0 contradict each other");
    assert_eq!(
        spec("-s 0,1 a : -s 0-1 b").stdin.to_string(),
        "0-1",
        "the same set in another form"
    );
}

#[test]
fn output_goes_to_files_in_the_callers_directory() {
    let file = |f: &Option<LabelFormat>| text(f.as_ref().unwrap().as_bytes()).to_owned();
    let output = spec("-outfile-pattern out.%r -errfile-pattern /tmp/%j/%r.err a").output;
    assert_eq!(
        (file(&output.outfile), file(&output.errfile)),
        ("/work/out.%r".into(), "/tmp/%j/%r.err".into())
    );
    let mut odd = caller(&words("-outfile-pattern o%r a"));
    odd.directory = "/100%".into();
    assert_eq!(file(&run_by(&odd).spec.output.outfile), "/100%%/o%r");
    assert!(problem("-outfile-pattern %q a").contains("there is no field %q"));
    assert_eq!(
        problem_of(&["-errfile-pattern", "", "a"]),
        "-errfile-pattern \"\": the value is empty"
    );
}

#[test]
fn a_job_has_a_time_limit_by_option_or_variable() {
    let limit = |line: &str, value: Option<&str>| {
        let mut c = caller(&words(line));
        c.environment.extend(value.map(|v| variable("MPIEXEC_TIMEOUT", v)));
        run_by(&c).spec.timeout
    };
    assert_eq!(limit("-timeout 3 a", None), Some(Duration::from_secs(3)));
    assert_eq!(limit("-timeout .25 a", None), Some(Duration::from_millis(250)));
    assert_eq!(limit("-timeout 0.0000001 a", None), Some(Duration::from_millis(1)));
    assert_eq!(limit("a", Some("7")), Some(Duration::from_secs(7)));
    assert_eq!(limit("-timeout 3 a", Some("7")), Some(Duration::from_secs(3)));
    assert_eq!(limit("-timeout 0 a", Some("7")), None);
    assert_eq!(limit("a", Some("")), None);
    for bad in ["x", "-1", "inf", "nan", "3s", "+3"] {
        assert!(
            problem(&format!("-timeout {bad} a")).contains("it must be a number of seconds"),
            "{bad}"
        );
    }
    assert_eq!(problem("-timeout 1e10 a"), "-timeout 1e10: the time limit is too long");
    assert_eq!(problem("-timeout 1e300 a"), "-timeout 1e300: the time limit is too long");
    let mut c = caller(&["a"]);
    c.environment.push(variable("MPIEXEC_TIMEOUT", "soon"));
    let error = parse(&c).unwrap_err().to_string();
    assert!(error.starts_with("mpirun: the variable MPIEXEC_TIMEOUT=soon: it must be"), "{error}");
}

#[test]
fn the_first_failure_ends_the_job_or_not() {
    for line in
        ["-on-failure continue a", "-on-failure=continue a", "-disable-auto-cleanup a", "-k a"]
    {
        assert_eq!(spec(line).on_failure, OnFailure::Continue, "{line}");
    }
    assert_eq!(spec("-on-failure end a").on_failure, OnFailure::End);
    let highest = run("-on-failure highest a");
    assert_eq!(highest.spec.on_failure, OnFailure::Continue);
    assert!(highest.exits.highest && highest.spec.report_ends);
    assert_eq!(
        problem("-on-failure no a"),
        "-on-failure no: it must be 'end', 'continue' or 'highest'"
    );
    assert_eq!(problem("-on-failure end -k a"), "-on-failure end and -k contradict each other");
}

#[test]
fn the_failure_of_a_connected_job_ends_the_job_only_on_request() {
    assert_eq!(spec("a").abort_scope, AbortScope::Job);
    assert_eq!(spec("-abort-scope world a").abort_scope, AbortScope::World);
    assert_eq!(spec("--abort-scope=connected a").abort_scope, AbortScope::Connected);
    assert_eq!(
        problem("-abort-scope all a"),
        "-abort-scope all: it must be 'job', 'world' or 'connected'"
    );
}

#[test]
fn exit_codes_are_reported_where_options_say() {
    let r = run("-status-file s -ecfn e a");
    assert_eq!(r.exits.status_file.as_deref(), Some(Path::new("s")));
    assert_eq!(r.exits.ecfn.as_deref(), Some(Path::new("e")));
    assert!(r.spec.report_ends && !r.exits.print_all);
    let r = run("-print-all-exitcodes a");
    assert!(r.spec.report_ends && r.exits.print_all);
    assert_eq!(problem_of(&["-ecfn", "", "a"]), "-ecfn \"\": the value is empty");
    assert_eq!(
        problem("-status-file a -status-file b p"),
        "-status-file a and -status-file b contradict each other"
    );
}

#[test]
fn the_universe_has_a_size() {
    assert_eq!(spec("-usize 9 a").universe_size, Some(9));
    assert_eq!(spec("-usize SYSTEM a").universe_size, Some(6));
    assert_eq!(spec("-usize system -n 8 a").universe_size, Some(8), "never smaller than the job");
    assert_eq!(spec("-usize INFINITE a").universe_size, Some(0));
    for bad in ["0", "-1", "x", "99999999999"] {
        let expected = format!("-usize {bad}: it must be a number above 0, SYSTEM or INFINITE");
        assert_eq!(problem(&format!("-usize {bad} a")), expected);
    }
}

#[test]
fn a_job_has_an_alias() {
    assert_eq!(spec("-a myjob p").alias.as_deref(), Some("myjob"));
    assert!(problem_of(&["-a", "", "p"]).ends_with("and not empty"));
    assert!(problem_of(&["-a", "x\ny", "p"]).starts_with("-a \"x\\ny\": an alias is text"));
    let mut c = caller(&["-a"]);
    c.arguments.extend([OsString::from_vec(vec![0xff]), "p".into()]);
    assert!(parse(&c).unwrap_err().to_string().contains("the value is not UTF-8 text"));
}

#[test]
fn temporary_files_go_to_the_callers_directory() {
    for (value, expected) in [("/var/t", "/var/t"), ("t", "/work/t"), ("", "/tmp")] {
        let mut c = caller(&["a"]);
        c.environment.push(variable("TMPDIR", value));
        assert_eq!(text(&run_by(&c).spec.tmpdir), expected);
    }
}

#[test]
fn the_option_verbose_is_recognised() {
    assert!(run("-v a").verbose && run("--verbose a").verbose);
}

#[test]
fn options_without_a_meaning_here_are_refused_with_a_reason() {
    assert!(problem("-gexec a").starts_with("-gexec of the original MPD is not available: write"));
    assert!(problem("-genvexcl a b").starts_with("-genvexcl of Intel MPI is not available: use"));
    let c = caller(&words("-n 2 --tv a -tv"));
    let Request::TotalView(arguments) = parse(&c).unwrap() else { panic!("no debugger") };
    assert_eq!(arguments, words("-n 2 a -tv"));
}

#[test]
fn messages_begin_with_the_name_of_the_program() {
    let mut c = caller(&["-nq", "4", "a"]);
    c.name = "mpiexec".into();
    assert_eq!(
        parse(&c).unwrap_err().to_string(),
        "mpiexec: unknown option -nq; did you mean -np? (see mpiexec --help)"
    );
}

#[test]
fn the_timeline_and_the_forwarding_steps_have_separate_options() {
    let r = run("--trace-startup launch.json a");
    assert!(r.spec.trace && !r.trace.hops);
    assert_eq!(r.trace.file.as_deref(), Some(Path::new("launch.json")));
    let r = run("--trace-hops a");
    assert!(r.spec.trace && r.trace.hops && r.trace.file.is_none());
    assert!(!run("a").spec.trace);
}

#[test]
fn the_directory_of_recordings_is_made_absolute() {
    assert_eq!(text(&spec("-record logs a").record.unwrap()), "/work/logs");
    assert_eq!(text(&spec("a : -record /tmp/x b").record.unwrap()), "/tmp/x");
    assert!(spec("a").record.is_none());
    assert!(problem("-record a -record b a").contains("contradict each other"));
}

#[test]
fn the_ring_and_the_run_directory_can_be_named() {
    let rundir = |line: &str| run(line).ring_options.rundir().unwrap().path().to_owned();
    assert_eq!(rundir("--rundir here a"), Path::new("/work/here"));
    assert_eq!(rundir("-rundir /run/x -stacks 3"), Path::new("/run/x"));
    assert!(rundir("--ring work a").display().to_string().ends_with("-work"));
    assert!(rundir("-gdba 3 --ring=work").display().to_string().ends_with("-work"));
    assert!(problem("--ring a/b prog").starts_with("--ring a/b: \"a/b\" (--ring) cannot be"));
    assert!(problem("--ring a --ring b prog").contains("contradict each other"));
}
