//! Ranks that spawn others, as a client sees it on its descriptor.

use nix::sys::signal::Signal;

use crate::run::{Output, Run};
use crate::suite::Suite;

/// The lines of one command of a spawn: command `number` of `of`.
pub(crate) fn command(
    (number, of): (usize, usize),
    size: u32,
    arguments: &[&str],
    info: &[(&str, &str)],
) -> Vec<String> {
    let [program, arguments @ ..] = arguments else { panic!("no program") };
    let mut lines = vec![
        "mcmd=spawn".to_owned(),
        format!("nprocs={size}"),
        format!("execname={program}"),
        format!("totspawns={of}"),
        format!("spawnssofar={number}"),
        format!("argcnt={}", arguments.len()),
    ];
    lines.extend((1..).zip(arguments).map(|(n, word)| format!("arg{n}={word}")));
    lines.push("preput_num=1".to_owned());
    lines.push("preput_key_0=port_of_spawner".to_owned());
    lines.push("preput_val_0=tag#0$of the parent$".to_owned());
    lines.push(format!("info_num={}", info.len()));
    for (n, (key, value)) in info.iter().enumerate() {
        lines.extend([format!("info_key_{n}={key}"), format!("info_val_{n}={value}")]);
    }
    lines.push("endcmd".to_owned());
    lines
}

/// The lines of a spawn of one program.
pub(crate) fn one(size: u32, arguments: &[&str], info: &[(&str, &str)]) -> Vec<String> {
    command((1, 1), size, arguments, info)
}

/// A job of one rank that sends these lines, with `options` for mpirun.
pub(crate) fn job(suite: &Suite, options: &[&str], lines: &[Vec<String>]) -> Run {
    let helper = suite.program("t-pmi");
    let arguments = options.iter().copied().chain(["-n", "1", &helper, "lines", "0"]);
    suite.mpirun(arguments).args(lines.concat())
}

/// Runs it through its own daemon and checks that nothing is left.
fn spawned(options: &[&str], lines: impl Fn(&Suite) -> Vec<Vec<String>>) -> Output {
    let suite = Suite::new();
    suite.start_daemon();
    let output = job(&suite, options, &lines(&suite)).output();
    suite.only_the_daemon_is_left();
    output
}

pub(crate) const DONE: &str = "cmd=spawn_result rc=0 errcodes=";
pub(crate) const REFUSED: &str = "cmd=spawn_result rc=-1 msg=cannot_spawn\n";

#[test]
fn spawned_ranks_form_a_new_world() {
    let output = spawned(&["-l"], |suite| vec![one(3, &[&suite.program("t-pmi"), "hello"], &[])]);
    output.code(0);
    let lines = output.sorted_lines();
    assert!(output.out().contains(&format!("0: {DONE}0,0,0\n")), "{output}");
    let hellos = lines.iter().filter(|line| line.contains("hello"));
    for (rank, line) in hellos.enumerate() {
        let said = format!("{rank},1: hello rank {rank} of 3 appnum 0 universe ");
        assert!(line.starts_with(&said) && line.ends_with("_1"), "{output}");
    }
}

#[test]
fn spawned_ranks_exchange_keys_and_pass_fences_like_other_ranks() {
    let output = spawned(&[], |suite| {
        let helper = suite.program("t-pmi");
        let modes = [&["put-fence-get-all", "5"][..], &["fences", "20"], &["again"], &["index"]];
        modes.iter().map(|mode| one(4, &[&[&*helper][..], mode].concat(), &[])).collect()
    });
    output.code(0).quiet();
    for said in ["pmi ok ", "fences ok ", "again ok ", "index ok "] {
        assert_eq!(output.out().matches(said).count(), 4, "{said}: {output}");
    }
}

#[test]
fn programs_of_one_spawn_form_one_world_with_their_own_appnums() {
    let output = spawned(&["-l"], |suite| {
        let helper = suite.program("t-pmi");
        let hello = [&*helper, "hello"];
        vec![command((1, 2), 1, &hello, &[]), command((2, 2), 2, &hello, &[("appnum", "7")])]
    });
    output.code(0).quiet();
    assert!(output.out().contains("0,1: hello rank 0 of 3 appnum 0 "), "{output}");
    for rank in [1, 2] {
        assert!(output.out().contains(&format!("hello rank {rank} of 3 appnum 7 ")), "{output}");
    }
}

#[test]
fn children_read_the_key_that_the_parent_passed_with_the_spawn() {
    let output = spawned(&[], |suite| {
        vec![one(1, &[&suite.program("t-pmi"), "get", "0", "port_of_spawner"], &[])]
    });
    output.code(0).quiet();
    assert!(output.out().contains("tag#0$of the parent$\n"), "{output}");
}

#[test]
fn arguments_and_hints_of_a_spawn_arrive_unchanged() {
    let output = spawned(&[], |suite| {
        let directory = suite.new_directory("elsewhere");
        let show = "echo \"$PWD|$GREETING|$PMI_SPAWNED|$#|$1|$2|$3\"; cat";
        let arguments = ["sh", "-c", show, "sh", "a b", "", "x=y \\\"q\\\""];
        let info =
            [("wdir", &*directory), ("env", "GREETING=good day"), ("soft", "1:2"), ("x y", "z")];
        vec![one(4, &arguments, &info)]
    });
    output.code(0).quiet();
    let line = "/elsewhere|good day|1|3|a b||x=y \\\"q\\\"\n";
    assert_eq!(output.out().matches(line).count(), 2, "{output}");
    assert!(output.out().contains(&format!("{DONE}0,0,42,42\n")), "{output}");
}

#[test]
fn the_job_lasts_until_its_last_world_has_ended() {
    let output = spawned(&[], |suite| {
        let file = suite.path("go").display().to_string();
        let wait = format!("until [ -e {file} ]; do sleep 0.01; done; echo last");
        vec![one(1, &["sh", "-c", &wait], &[]), one(1, &["touch", &file], &[])]
    });
    output.code(0).quiet();
    assert!(output.out().ends_with("last\n"), "{output}");
}

#[test]
fn a_signal_or_the_death_of_mpirun_ends_spawned_ranks() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let suite = Suite::new();
        suite.start_daemon();
        let never = format!("until={}", suite.path("never").display());
        let sleep = ["sh", "-c", "echo here; exec sleep 60"];
        let job = job(&suite, &[], &[one(3, &sleep, &[]), vec![never]]).start();
        crate::run::wait_until("three sleepers", || suite.running("sleep").len() == 3);
        job.send(signal);
        let output = job.wait();
        assert!(signal == Signal::SIGKILL || output.exit_code() != Some(0), "{output}");
        suite.only_the_daemon_is_left();
    }
}
