//! Jobs of the ring: consoles list, kill and signal them through any daemon.

use mpd_wire::RankSet;
use mpd_wire::message::{
    ConsoleReply, HostedPart, JobOrder, JobRef, ManagerOrder, ManagerReport, RankRun, RingRequest,
};

use crate::manager::{Orphaned, order};
use crate::members::Members;
use crate::run::wait_until;

#[test]
fn every_daemon_lists_all_3000_reported_ranks_of_a_manager() {
    let host = Orphaned::new("7@elsewhere", 1);
    host.ring.start(2);
    host.ring.agree();
    let mut manager = host.register();
    let ranks = 3000;
    let run = RankRun {
        world: None,
        parent: None,
        program: "solver".to_owned(),
        ranks: RankSet::from_ranges((0..ranks).map(|rank| (2 * rank, 2 * rank)).collect()),
        pids: (1..=ranks).collect(),
    };
    manager.send(&ManagerReport::Ranks {
        alias: Some("x".to_owned()),
        held: false,
        runs: vec![run],
    });
    manager.flush().expect("it takes a report");
    for index in [1, 2] {
        let count = |all: &[HostedPart]| -> usize {
            all.iter().flat_map(|hosted| &hosted.part.runs).map(|run| run.pids.len()).sum()
        };
        wait_until("all are listed", || count(&host.ring.listed(index)) == ranks as usize);
        let all = host.ring.listed(index);
        assert!(all.iter().all(|hosted| hosted.host.as_str() == "d1"));
        assert!(all.iter().all(|hosted| hosted.part.alias.as_deref() == Some("x")));
        assert!(all.iter().all(|hosted| hosted.part.manager == std::process::id()));
    }
}

#[test]
fn a_kill_or_signal_request_reaches_only_the_root_manager_of_the_job() {
    let host = Orphaned::new("7@d1", 0);
    host.ring.start(2);
    host.ring.agree();
    let mut manager = host.register();
    let id = JobRef::Id(host.job.clone());
    let done = || ConsoleReply::Done { missing: Vec::new() };
    let signal = JobOrder::Signal { signal: 10, single: true };
    let ask_signal = RingRequest::Job { job: id.clone(), order: signal.clone() };
    wait_until("it has registered", || host.ring.ask(2, ask_signal.clone()).is_ok());
    assert_eq!(order(&mut manager), ManagerOrder::Job(signal));
    let kill = |job| RingRequest::Job { job, order: JobOrder::Kill };
    assert_eq!(host.ring.ask(1, kill(JobRef::Number(7))).expect("an answer"), done());
    assert_eq!(order(&mut manager), ManagerOrder::Job(JobOrder::Kill));
    assert_eq!(host.ring.ask(2, kill(id)).expect("an answer"), done());
    assert_eq!(order(&mut manager), ManagerOrder::Job(JobOrder::Kill));
    let unknown = host.ring.refusal(2, kill(JobRef::Number(7)));
    assert!(unknown.contains("no job 7@d2"), "{unknown}");
    let unknown_alias = host.ring.refusal(1, kill(JobRef::Alias("x".to_owned())));
    assert!(unknown_alias.contains("'x'"), "{unknown_alias}");
}

#[test]
fn a_manager_that_is_not_the_root_gets_no_kill_request() {
    let host = Orphaned::new("7@elsewhere", 1);
    let _manager = host.register();
    let job = JobRef::Id(host.job.clone());
    let problem = host.ring.refusal(1, RingRequest::Job { job, order: JobOrder::Kill });
    assert!(problem.contains("no job 7@elsewhere"), "{problem}");
}

#[test]
fn a_restarted_daemon_lists_a_running_job_with_its_ranks() {
    let ring = Members::of(2);
    let arguments = ["-n", "2", "-host", "d1", "-a", "x", "sleep", "1000"];
    let job = ring.mpirun(1, &arguments).start();
    let ranks = || -> Vec<String> {
        let all = ring.listed(2);
        let runs = all.iter().flat_map(|hosted| &hosted.part.runs);
        runs.map(|run| format!("{} {}", run.program, run.ranks)).collect()
    };
    wait_until("it is listed", || ranks() == ["sleep 0-1"]);
    ring.kill(1);
    ring.start_again(1);
    ring.agree();
    wait_until("the next daemon lists it", || ranks() == ["sleep 0-1"]);
    let job_ref = JobRef::Alias("x".to_owned());
    ring.ask(2, RingRequest::Job { job: job_ref, order: JobOrder::Kill }).expect("an answer");
    job.wait().failed().says(&["killed on request"]);
}
