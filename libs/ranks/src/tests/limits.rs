//! A job with limits: when its group gets them, and kills for lack of memory in it.

use mpd_wire::job::{Allowance, CpuAmount, MemorySize};

use super::*;

/// A job with a limit of memory.
fn limited_job(size: u32) -> Job {
    let mut job = job(size);
    let allowance = Allowance { memory: MemorySize::try_from(4 << 30).ok(), cpus: None };
    job.spec = Rc::new(JobSpec { allowance, ..(*job.spec).clone() });
    job
}

#[test]
fn the_group_of_a_job_gets_its_limits_once_and_before_the_first_rank() {
    let mut manager = Manager::with(limited_job(1), BEGINNING);
    let checked = manager.give(Input::Check(None));
    let allowance = manager.job.spec.allowance;
    let limit = Output::Ask(Question::Limit(allowance));
    in_order(&checked, &[limit.clone(), Output::Job(JobInput::Ready)]);
    manager.give(Input::Go);
    let outputs = manager.give(Input::Turn);
    let is_confined = |output: &Output| matches!(output, Output::Ask(Question::Start(start)) if start.is_confined);
    assert!(outputs.iter().any(is_confined) && !outputs.contains(&limit));
    let outputs = manager.give(Input::Prepare(Rank(0), true));
    assert!(!outputs.contains(&limit), "a further world has the same group");
}

#[test]
fn a_job_that_cannot_have_its_limits_does_not_start_and_one_without_limits_does_not_ask() {
    let mut manager = Manager::with(limited_job(1), BEGINNING);
    manager.unlimited = Some("-mem: no".to_owned());
    let outputs = manager.give(Input::Check(None));
    let failure = Failure::Suite { problem: "-mem: no".to_owned() };
    assert_eq!(posted(&outputs), [JobInput::StartFailed(failure)]);
    // Nor does one whose other checks fail.
    let mut manager = Manager::with(limited_job(1), BEGINNING);
    manager.descriptors = 1;
    for outputs in [manager.give(Input::Check(None)), Manager::new(1).give(Input::Check(None))] {
        assert!(!outputs.iter().any(|it| matches!(it, Output::Ask(Question::Limit(_)))));
    }
}

#[test]
fn a_kill_in_a_job_with_a_limit_of_memory_is_reported_from_the_counts_of_its_group() {
    let killed = RankEnd::Signaled { signal: 9, core: false };
    let full = "host h1: the job has used all of the 4G that -mem gives it on that host: the kernel has killed ";
    for (events, end, expected) in [
        (Some("oom 1\noom_kill 1\n"), killed, Some(format!("{full}rank 0"))),
        (
            Some("oom 1\noom_kill 1\n"),
            RankEnd::Exited(1),
            Some(format!("{full}a process of the job, perhaps of rank 0")),
        ),
        // The host has killed others, and the rank was ended by a user.
        (Some("oom 0\noom_kill 0\n"), killed, None),
        (Some("oom 0\noom_kill 0\n"), RankEnd::Exited(0), None),
        (None, RankEnd::Exited(1), None),
    ] {
        let mut manager = Manager::with(limited_job(1), BEGINNING).started();
        (manager.kills, manager.events) = (1, events);
        let outputs = manager.give(Input::Reaped(pid_of(0), end, false));
        let notices = posted(&outputs).into_iter().filter_map(|input| match input {
            JobInput::Notice(text) => Some(text),
            _ => None,
        });
        assert_eq!(notices.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_kill_is_reported_for_the_rank_that_it_has_ended_although_others_end_before() {
    let killed = RankEnd::Signaled { signal: 9, core: false };
    let notices = |end| {
        let mut manager = Manager::with(limited_job(2), BEGINNING).started();
        manager.events = Some("oom 1\noom_kill 1\n");
        let ends = [(0, end), (1, killed), (1, end)];
        let outputs: Vec<_> = ends
            .into_iter()
            .flat_map(|(rank, end)| manager.give(Input::Reaped(pid_of(rank), end, false)))
            .collect();
        let notices = posted(&outputs).into_iter().filter_map(|input| match input {
            JobInput::Notice(text) => text.rsplit_once("has killed ").map(|(_, it)| it.to_owned()),
            _ => None,
        });
        notices.collect::<Vec<_>>()
    };
    assert_eq!(notices(RankEnd::Exited(0)), ["rank 1"]);
    assert_eq!(notices(RankEnd::Exited(1)), ["a process of the job, perhaps of rank 0", "rank 1"]);
}

#[test]
fn without_counts_of_the_group_a_kill_is_reported_from_those_of_the_host() {
    let mut manager = Manager::with(limited_job(1), BEGINNING).started();
    (manager.kills, manager.victims) = (1, Some(vec![pid_of(0)]));
    let end = RankEnd::Signaled { signal: 9, core: false };
    let outputs = manager.give(Input::Reaped(pid_of(0), end, false));
    assert!(posted(&outputs).iter().any(
        |it| matches!(it, JobInput::Notice(text) if text.contains("memory ran out: the kernel"))
    ));
}

#[test]
fn ranks_without_a_cpu_each_do_not_poll_although_the_host_has_more() {
    for (thousandths, is_crowded) in [(2000, false), (1500, true)] {
        let mut job = job(2);
        let allowance = Allowance { memory: None, cpus: CpuAmount::try_from(thousandths).ok() };
        job.spec = Rc::new(JobSpec { allowance, ..(*job.spec).clone() });
        let outputs = Manager::with(job, BEGINNING).give(Input::Check(None));
        let launches = outputs.iter().find_map(|output| match output {
            Output::Act(Action::Prepared(_, launches)) => Some(launches),
            _ => None,
        });
        let blocks = b"I_MPI_WAIT_MODE=1".to_vec();
        assert_eq!(launches.unwrap()[&0].environment.contains(&blocks), is_crowded);
    }
}
