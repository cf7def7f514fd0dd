//! A running program that calls mpirun to get a manager.

use super::*;

const CALL: &str = "-pmi_args 4711 default_interface default_key 99";

#[test]
fn a_calling_program_is_the_only_rank_of_a_job_and_keeps_its_input() {
    for line in [CALL, &format!("-v {CALL}"), &format!("-usize 16 -l -spawn-policy pack {CALL} -v")]
    {
        let run = run(line);
        assert!(run.call.is_some() && run.spec.adopted, "{line}");
        assert_eq!((run.spec.size(), run.spec.stdin.greatest()), (1, None), "{line}");
        assert_eq!(run.verbose, line.contains("-v"), "{line}");
        assert_eq!(run.spec.check(), Ok(()));
    }
    assert_eq!(spec(&format!("-usize 16 {CALL}")).universe_size, Some(16));
    assert!(run("a").call.is_none() && !spec("a").adopted);
}

#[test]
fn a_calling_program_in_a_batch_job_is_one_process() {
    let words = words(CALL);
    let mut caller = caller(&words);
    for (name, value) in
        [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "h[1-2]"), ("SLURM_TASKS_PER_NODE", "8(x2)")]
    {
        caller.environment.push(variable(name, value));
    }
    assert_eq!(run_by(&caller).spec.size(), 1);
}

#[test]
fn options_that_a_calling_program_cannot_have_are_refused() {
    for (line, says) in [
        ("-pmi_args 4711 i k", "-pmi_args needs a value: PID"),
        ("-pmi_args 70000 i k 99", "-pmi_args 70000 i k 99: the first value is no port"),
        ("-pmi_args 1 i k +9", "-pmi_args 1 i k +9: the last is no process"),
        ("-pmi_args=1 i k 9", "the values of -pmi_args are separate arguments, without '='"),
    ] {
        assert!(problem(line).starts_with(says), "{line}: {}", problem(line));
    }
    for option in ["-n 1", "-host h1", "-s all", "-preload", "-m", "-stdin-switch"] {
        let name = option.split(' ').next().unwrap_or_default();
        let line = format!("{option} {CALL}");
        assert_eq!(problem(&line), format!("{name} makes no sense with -pmi_args"));
    }
    assert!(problem(&format!("{CALL} ./a.out")).contains("not for \"./a.out\""));
    assert!(problem(&format!("{CALL} : ./a.out")).contains("one program"));
}
