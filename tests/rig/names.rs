//! Names that jobs of different hosts publish and look up: their keys, the deaths of daemons and jobs, and
//! two publishers of one name.

use std::path::PathBuf;

use mpd_tests::surroundings::program;
use nix::sys::signal::Signal;

use crate::jobs::booted;
use crate::rig::{Rig, RigOptions, without};
use crate::run::{Running, wait_until};

const DONE: &str = "cmd=publish_result rc=0 msg=success\n";
const TAKEN: &str = "cmd=publish_result rc=1 msg=key_already_present\n";
const NONE: &str = "cmd=lookup_result rc=1 msg=service_not_found\n";

fn found(port: &str) -> String {
    format!("cmd=lookup_result rc=0 msg=success port={port}\n")
}

/// A file whose existence ranks wait for.
fn file(rig: &Rig, name: &str) -> (PathBuf, String) {
    let path = rig.share().join(name);
    let line = format!("until={}", path.display());
    (path, line)
}

fn appears(path: &PathBuf) {
    std::fs::write(path, "").expect("a file");
}

/// A job of one rank on this host that sends these PMI lines.
fn says(rig: &Rig, host: &str, lines: &[&str]) -> Running {
    let client = program("t-pmi").display().to_string();
    let arguments = ["-n", "1", &client, "say", "0"];
    rig.mpirun(host, &[&arguments[..], lines].concat()).start()
}

fn look_up(rig: &Rig, host: &str, service: &str) -> String {
    let job = says(rig, host, &[&format!("lookup_name service={service}")]);
    job.wait().code(0).out()
}

fn listed(rig: &Rig, host: &str) -> String {
    rig.run(host, &["mpdnames"])
}

fn five() -> Option<(Rig, Vec<String>)> {
    booted(RigOptions { hosts: Some(5), ..RigOptions::default() })
}

#[test]
fn a_name_is_found_at_once_on_another_host_with_its_key() {
    let Some((rig, hosts)) = five() else { return };
    let (first, last) = (&hosts[0], &hosts[hosts.len() - 1]);
    let (end, end_line) = file(&rig, "end");
    let lines = ["publish_name service=ocean#key=deep port=p", "publish_name service=air port=q"];
    let job = says(&rig, first, &[lines[0], lines[1], &end_line]);
    wait_until("they are published", || job.stdout() == DONE.repeat(2));
    let client = program("t-pmi").display().to_string();
    for (service, port) in [("ocean#key=deep", "p"), ("air", "q")] {
        let arguments = ["-n", "1", &client, "lookups", "0", "200", service];
        let out = rig.mpirun(last, &arguments).output().code(0).out();
        let (answer, times) = out.split_once("\nmedian ").expect("times");
        assert_eq!(format!("{answer}\n"), found(port), "{service}");
        rig.figure(&format!("published on {first}, looked up on {last}: median {}", times.trim()));
    }
    for wrong in ["ocean", "ocean#key=shallow", "air#key=deep"] {
        assert_eq!(look_up(&rig, last, wrong), NONE, "{wrong}");
    }
    let log = rig.logs(std::slice::from_ref(last));
    assert!(log.contains("with a wrong key") && !log.contains("shallow"), "{log}");
    appears(&end);
    // At most one line for a name in a second.
    job.wait().code(0).says(&["\"ocean\" without its key", "\"air\" with a key, and it has none"]);
    rig.is_clean("after the job", &hosts);
    rig.ends(first);
}

#[test]
fn a_name_outlives_every_daemon_and_is_removed_with_its_job() {
    let Some((rig, hosts)) = five() else { return };
    let (_, end_line) = file(&rig, "end");
    let job = says(&rig, &hosts[1], &["publish_name service=ocean port=p", &end_line]);
    wait_until("it is published", || job.stdout() == DONE);
    // A daemon that has stored the name.
    rig.kill_daemon(&hosts[3]);
    rig.heals("another daemon is killed", &without(&hosts, &[&hosts[3]]));
    assert_eq!(look_up(&rig, &hosts[4], "ocean"), found("p"));
    // The daemon through which the name was published.
    rig.kill_daemon(&hosts[1]);
    rig.run(&hosts[1], &["mpd", "--daemon"]);
    rig.run(&hosts[3], &["mpd", "--daemon"]);
    rig.heals("both are back", &hosts);
    wait_until("it is there again", || listed(&rig, &hosts[4]).starts_with("\"ocean\" "));
    assert_eq!(look_up(&rig, &hosts[4], "ocean"), found("p"));
    let manager = rig.manager(&hosts[1]).expect("the job's manager");
    crate::process::send(manager.pid, Signal::SIGKILL);
    job.wait().failed();
    wait_until("it is gone", || listed(&rig, &hosts[4]).is_empty());
    assert_eq!(look_up(&rig, &hosts[0], "ocean"), NONE);
    rig.is_clean("after the job", &hosts);
    rig.ends(&hosts[0]);
}

#[test]
fn of_two_publishers_of_a_name_one_succeeds_also_across_a_partition() {
    let Some((mut rig, hosts)) = five() else { return };
    let both = [hosts[0].clone(), hosts[4].clone()];
    let (go, go_line) = file(&rig, "go");
    let (middle, middle_line) = file(&rig, "middle");
    let (end, end_line) = file(&rig, "end");
    let jobs: Vec<Running> = both
        .iter()
        .map(|host| {
            let ocean = format!("publish_name service=ocean port={host}");
            let land = format!("publish_name service=land#key={host} port={host}");
            says(&rig, host, &[&go_line, &ocean, &middle_line, &land, &end_line])
        })
        .collect();
    wait_until("both are there", || both.iter().all(|host| rig.manager(host).is_some()));
    appears(&go);
    let answered = |job: &Running| [DONE, TAKEN].contains(&job.stdout().as_str());
    wait_until("both have an answer", || jobs.iter().all(answered));
    let winners: Vec<&str> = both
        .iter()
        .zip(&jobs)
        .filter(|(_, job)| job.stdout() == DONE)
        .map(|(h, _)| &h[..])
        .collect();
    let [winner] = winners[..] else { panic!("{winners:?} have it") };
    assert_eq!(look_up(&rig, &hosts[2], "ocean"), found(winner));
    rig.control(&["split", &hosts[0], &hosts[1]]);
    rig.heals("the first half", &hosts[..2]);
    rig.heals("the second half", &hosts[2..]);
    appears(&middle);
    wait_until("both have it", || jobs.iter().all(|job| job.stdout().ends_with(DONE)));
    rig.control(&["heal"]);
    rig.heals("the halves together again", &hosts);
    let lost = |job: &Running| job.stderr().contains("\"land\" belongs to job");
    wait_until("one of them has an error", || jobs.iter().any(lost));
    assert_eq!(jobs.iter().filter(|job| lost(job)).count(), 1);
    // The publication with the lower number is kept.
    let owner = if lost(&jobs[0]) { &both[1] } else { &both[0] };
    for host in [&hosts[1], &hosts[3]] {
        wait_until("all know the owner", || {
            let text = listed(&rig, host);
            let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("\"land\" ")).collect();
            lines.len() == 1 && lines[0].ends_with(&format!(" {owner} \"{owner}\" keyed"))
        });
        assert_eq!(look_up(&rig, host, &format!("land#key={owner}")), found(owner));
    }
    appears(&end);
    for job in jobs {
        job.wait().code(0);
    }
    rig.is_clean("after the jobs", &hosts);
    rig.ends(&hosts[0]);
}
