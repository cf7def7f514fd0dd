//! `mpdlistjobs`, `mpdkilljob` and `mpdsigjob`.

use mpd_wire::RankSet;
use mpd_wire::message::{
    ConsoleReply, HostedPart, JobOrder, JobPart, JobRef, RankRun, RingRequest,
};

use crate::support::{Act, Daemon, NAUGHTY, done, name, refusal};

/// One process of a job on a host.
fn running(host: &str, job: &str, alias: Option<&str>, rank: u32, program: &str) -> HostedPart {
    let ranks = RankSet::from_ranges(vec![(rank, rank)]);
    let run = RankRun {
        world: None,
        parent: None,
        program: program.into(),
        ranks,
        pids: vec![100 + rank],
    };
    let part = JobPart {
        job: job.parse().unwrap(),
        alias: alias.map(str::to_owned),
        user: "ada".into(),
        manager: 99,
        runs: vec![run],
        spawns: None,
    };
    HostedPart { host: name(host), part }
}

#[test]
fn mpdlistjobs_lists_all_pages_by_host_in_each_form() {
    let daemon = Daemon::new(|_| {
        let reply = |jobs: &[HostedPart], missing: &[&str], more| {
            Act::Say(ConsoleReply::Jobs {
                me: name("h1"),
                jobs: jobs.to_vec(),
                missing: missing.iter().map(|text| name(text)).collect(),
                more,
            })
        };
        let first = [
            running("h1", "1@h1", Some("x"), 0, "a"),
            running("h2", "1@h1", Some("x"), 1, NAUGHTY),
        ];
        let second = [running("h1", "2@h2", None, 0, "b")];
        vec![reply(&first, &[], true), reply(&second, &[], false)]
    });
    let all = "h1 100 99\nh1 100 99\nh2 101 99\n";
    assert_eq!(daemon.run("mpdlistjobs", &["--sss"]).good(), all);
    assert_eq!(daemon.asked(), [RingRequest::Jobs]);
    let text = daemon.run("mpdlistjobs", &["-j", "1", "-u", "ada"]).good();
    assert_eq!(text.matches("jobid    = 1@h1\njobalias = x\n").count(), 2, "{text}");
    assert_eq!(text.lines().count(), 2 * 9);
    assert_eq!(daemon.run("mpdlistjobs", &["-a", "nobody"]).good(), "");
    let tree = daemon.run("mpdlistjobs", &["--tree"]).good();
    assert!(tree.starts_with("1@h1 'x' of ada\n  h1: manager 99\n    rank 0: 100 a\n"), "{tree}");
    let json = daemon.run("mpdlistjobs", &["--json"]).good();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["jobs"][0]["hosts"][1]["processes"][0]["program"], NAUGHTY);
    let text = daemon.run("mpdlistjobs", &["-j", "x"]).good();
    assert_eq!(text.matches("jobid    = 1@h1\njobalias = x\n").count(), 2, "{text}");
}

#[test]
fn mpdlistjobs_names_hosts_that_did_not_answer() {
    let daemon = Daemon::new(|_| {
        let (me, jobs, missing) = (name("h1"), vec![], vec![name("h3")]);
        vec![Act::Say(ConsoleReply::Jobs { me, jobs, missing, more: false })]
    });
    let err = daemon.run("mpdlistjobs", &[]).bad("mpdlistjobs");
    assert_eq!(err, "mpdlistjobs: no answer from h3\n");
}

#[test]
fn mpdkilljob_and_mpdsigjob_name_the_job_as_the_user_did() {
    let daemon = Daemon::new(|_| done(&[]));
    let asked = |program, arguments: &[&str]| {
        assert_eq!(daemon.run(program, arguments).good(), "", "{arguments:?}");
        daemon.asked().last().cloned().unwrap()
    };
    let (number, id) = (JobRef::Number(3), JobRef::Id("3@h2".parse().unwrap()));
    let alias = JobRef::Alias("x".into());
    let kill = |job| RingRequest::Job { job, order: JobOrder::Kill };
    assert_eq!(asked("mpdkilljob", &["3"]), kill(number.clone()));
    assert_eq!(asked("mpdkilljob", &["3@h2"]), kill(id.clone()));
    for arguments in [&["-a", "x"][..], &["x"], &["-j", "x"]] {
        assert_eq!(asked("mpdkilljob", arguments), kill(alias.clone()));
    }
    assert_eq!(asked("mpdkilljob", &["-j", "3"]), kill(number.clone()));
    let signal =
        |job, signal, single| RingRequest::Job { job, order: JobOrder::Signal { signal, single } };
    assert_eq!(asked("mpdsigjob", &["INT", "x"]), signal(alias.clone(), 2, false));
    assert_eq!(asked("mpdsigjob", &["-INT", "-j", "3"]), signal(number, 2, false));
    assert_eq!(asked("mpdsigjob", &["SIGUSR1", "-g", "-j", "3@h2"]), signal(id, 10, false));
    assert_eq!(asked("mpdsigjob", &["9", "-a", "x", "-s"]), signal(alias, 9, true));
    let wrong: [(&str, &[&str]); 8] = [
        ("mpdkilljob", &[]),
        ("mpdkilljob", &["3", "-a", "x"]),
        ("mpdkilljob", &[""]),
        ("mpdsigjob", &["INT"]),
        ("mpdsigjob", &["-j", "3"]),
        ("mpdsigjob", &["NOSUCH", "-j", "3"]),
        ("mpdsigjob", &["99", "-j", "3"]),
        ("mpdsigjob", &["INT", "-j", "3", "-s", "-g"]),
    ];
    for (program, arguments) in wrong {
        assert_eq!(daemon.run(program, arguments).code, 2, "{program} {arguments:?}");
    }
    let refusing = Daemon::new(|_| refusal("no job 3@h1; 'mpdlistjobs' lists them"));
    assert!(refusing.run("mpdkilljob", &["3"]).bad("mpdkilljob").contains("no job 3@h1"));
}
