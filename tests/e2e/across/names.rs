//! Names that one job publishes and another looks up.

use std::fs;

use crate::across::ring;
use crate::members::Members;
use crate::mpi::libraries_with_ports;
use crate::run::{Run, Running, sample, wait_until};
use crate::suite::Suite;

const NONE: &str = "cmd=lookup_result rc=1 msg=service_not_found\n";

/// `mpirun` from host `index`: `rank` of eight ranks sends these PMI lines and prints the answers.
fn say(ring: &Members, index: usize, rank: &str, lines: &[&str]) -> Run {
    let run = ring.mpirun(index, &["-n", "8", &ring.suite.program("t-pmi"), "say", rank]);
    run.args(lines).deadline(60)
}

/// A running job whose rank 5, on d3, has published a name.
fn publisher(ring: &Members, then: &[&str]) -> Running {
    publisher_of(ring, "my ocean", then)
}

fn publisher_of(ring: &Members, service: &str, then: &[&str]) -> Running {
    let until = format!("until={}", ring.suite.path("stop").display());
    let publication = format!("publish_name service={service} port=tag#0$port#1$");
    let mut lines = vec![publication.as_str(), until.as_str()];
    lines.extend(then);
    let job = say(ring, 1, "5", &lines).start();
    wait_until("a name", || job.stdout() == "cmd=publish_result rc=0 msg=success\n");
    job
}

fn stop(ring: &Members) {
    fs::write(ring.suite.path("stop"), "").expect("a file");
}

fn look_up(ring: &Members, index: usize) -> String {
    look_up_as(ring, index, "my ocean")
}

fn look_up_as(ring: &Members, index: usize, service: &str) -> String {
    let line = format!("lookup_name service={service}");
    say(ring, index, "0", &[&line]).output().code(0).quiet().out()
}

fn listed(ring: &Members, index: usize) -> String {
    let command = ring.suite.command(ring.suite.program("mpdnames"));
    command.env("MPD_RUNDIR", ring.rundir(index)).output().code(0).quiet().out()
}

/// Answers to publish and unpublish requests.
const DONE: &str = "cmd=publish_result rc=0 msg=success\n";
const TAKEN: &str = "cmd=publish_result rc=1 msg=key_already_present\n";
const TAKEN_BACK: &str = "cmd=unpublish_result rc=0 msg=success\n";
const NOT_TAKEN_BACK: &str = "cmd=unpublish_result rc=1 msg=service_not_found\n";

const FOUND: &str = "cmd=lookup_result rc=0 msg=success port=tag#0$port#1$\n";

#[test]
fn a_name_survives_the_daemon_through_which_it_was_published() {
    let ring = ring();
    let job = publisher(&ring, &[]);
    ring.kill(3);
    ring.start_again(3);
    ring.agree();
    wait_until("it is there again", || look_up(&ring, 1) == FOUND);
    stop(&ring);
    job.wait().code(0).quiet();
    wait_until("no host finds it", || look_up(&ring, 1) == NONE);
    ring.only_daemons_are_left();
}

#[test]
fn a_lookup_sent_while_the_daemon_is_down_is_answered_by_its_successor() {
    let ring = ring();
    let job = publisher(&ring, &["lookup_name service=my ocean", "publish_name service=b port=c"]);
    ring.kill(3);
    stop(&ring);
    let own = format!("cmd=publish_result rc=0 msg=success\n{FOUND}");
    wait_until("what was published here is found here", || job.stdout() == own);
    ring.start_again(3);
    job.wait().code(0).quiet().prints(&(own + "cmd=publish_result rc=0 msg=success\n"));
    ring.only_daemons_are_left();
}

#[test]
fn a_keyed_name_is_found_only_with_its_key_and_other_lookups_are_logged() {
    let ring = ring();
    let back = |key: &str| format!("unpublish_name service=my ocean{key}");
    let then = ["", "#key=shallow", "#key=very deep"].map(back);
    let last = format!("until={}", ring.suite.path("end").display());
    let then = [then[0].as_str(), &then[1], &then[2], &last];
    let job = publisher_of(&ring, "my ocean#key=very deep", &then);
    let id = listed(&ring, 2).split(' ').nth(2).expect("a job").to_owned();
    assert_eq!(listed(&ring, 2), format!("\"my ocean\" {id} d3 \"tag#0$port#1$\" keyed\n"));
    for index in [1, 4] {
        for wrong in ["my ocean", "my ocean#key=shallow"] {
            assert_eq!(look_up_as(&ring, index, wrong), NONE, "d{index}: {wrong}");
        }
        assert_eq!(look_up_as(&ring, index, "my ocean#key=very deep"), FOUND, "d{index}");
        let log = ring.log(index);
        for why in ["without its key", "with a wrong key"] {
            let asked = |line: &&str| {
                line.contains(&format!(
                    "@d{index} asks for the name \"my ocean\" of job {id} {why}"
                ))
            };
            assert_eq!(log.lines().filter(asked).count(), 1, "{log}");
        }
    }
    let other = say(&ring, 4, "0", &["publish_name service=my ocean#key=blue port=x"]);
    other.output().code(0).prints(TAKEN);
    stop(&ring);
    let answered = format!("{DONE}{NOT_TAKEN_BACK}{NOT_TAKEN_BACK}{TAKEN_BACK}");
    wait_until("it is unpublished", || job.stdout() == answered);
    wait_until("no host finds it", || look_up_as(&ring, 2, "my ocean#key=very deep") == NONE);
    fs::write(ring.suite.path("end"), "").expect("a file");
    job.wait().code(0).says(&["@d1 asked for the name \"my ocean\" without its key"]);
    for index in 1..=4 {
        let log = ring.log(index);
        assert!(
            !["deep", "shallow", "blue", "#key"].iter().any(|word| log.contains(word)),
            "{log}"
        );
    }
    ring.only_daemons_are_left();
}

/// The lines of a publisher's standard error about refused requests, with the number of requests in each.
fn refusals(lines: &str) -> Vec<usize> {
    let count = |line: &str| {
        let text = line.strip_prefix("mpirun: host d3: ").unwrap_or_else(|| panic!("{line}"));
        assert!(text.contains("the name \"my ocean\"") && text.contains("a wrong key"), "{line}");
        let first = text.split(' ').next().unwrap_or_default();
        if first == "job" { 1 } else { first.parse().unwrap_or_else(|_| panic!("{line}")) }
    };
    lines.lines().map(count).collect()
}

#[test]
fn a_publisher_reads_of_a_flood_of_wrong_keys_in_few_lines_that_count_each() {
    const LOOKUPS: usize = 2_000;
    let ring = ring();
    let job = publisher_of(&ring, "my ocean#key=deep", &[]);
    let begin = std::time::Instant::now();
    let wrong = vec!["lookup_name service=my ocean#key=shallow"; LOOKUPS];
    let floods = [1, 4].map(|index| say(&ring, index, "0", &wrong).start());
    for flood in floods {
        flood.wait().code(0).quiet().prints(&NONE.repeat(LOOKUPS));
    }
    // The right key opens the name as before.
    assert_eq!(look_up_as(&ring, 2, "my ocean#key=deep"), FOUND);
    wait_until("each is counted", || refusals(&job.stderr()).iter().sum::<usize>() == 2 * LOOKUPS);
    let (lines, seconds) = (refusals(&job.stderr()).len() as u64, begin.elapsed().as_secs());
    assert!(lines <= seconds + 2, "{lines} lines in {seconds} s");
    stop(&ring);
    job.wait().code(0);
    ring.only_daemons_are_left();
}

#[test]
fn a_publisher_with_unique_names_gets_another_name_and_the_user_reads_it() {
    let ring = ring();
    let job = publisher_of(&ring, "my ocean#key=deep", &[]);
    let end = format!("until={}", ring.suite.path("end").display());
    let lines = [
        "publish_name service=my ocean#key=deep port=second",
        &end,
        "unpublish_name service=my ocean#key=deep",
    ];
    let program = ring.suite.program("t-pmi");
    let run = ring.mpirun(4, &["-unique-names", "-n", "1", &program, "say", "0"]);
    let second = run.args(lines).deadline(60).start();
    wait_until("a second name", || second.stdout() == DONE);
    let told = "mpirun: host d4: the name \"my ocean\" is taken, so \"my ocean-2\" was published\n";
    wait_until("the user reads it", || second.stderr() == told);
    assert!(listed(&ring, 1).contains("\"my ocean-2\" "), "{}", listed(&ring, 1));
    let found = "cmd=lookup_result rc=0 msg=success port=second\n";
    assert_eq!(look_up_as(&ring, 2, "my ocean-2#key=deep"), found);
    assert_eq!(look_up_as(&ring, 2, "my ocean#key=deep"), FOUND);
    fs::write(ring.suite.path("end"), "").expect("a file");
    second.wait().code(0).prints(&format!("{DONE}{TAKEN_BACK}"));
    wait_until("it is gone", || !listed(&ring, 1).contains("my ocean-2"));
    stop(&ring);
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}

#[test]
fn a_lookup_with_a_key_does_not_find_a_name_without_a_key() {
    let ring = ring();
    let job = publisher(&ring, &[]);
    assert_eq!(look_up_as(&ring, 4, "my ocean#key=deep"), NONE);
    assert!(ring.log(4).contains("with a key, and it has none"), "{}", ring.log(4));
    assert_eq!(look_up(&ring, 4), FOUND);
    stop(&ring);
    job.wait().code(0).says(&["host d3", "@d4 asked", "my ocean", "with a key, and it has none"]);
    ring.only_daemons_are_left();
}

#[test]
fn a_keyed_name_stays_keyed_after_its_daemon_is_restarted() {
    let ring = ring();
    let job = publisher_of(&ring, "my ocean#key=deep", &[]);
    ring.kill(3);
    ring.start_again(3);
    ring.agree();
    wait_until("it is there again", || look_up_as(&ring, 1, "my ocean#key=deep") == FOUND);
    assert_eq!(look_up(&ring, 1), NONE);
    stop(&ring);
    job.wait().code(0).says(&["@d1 asked", "my ocean", "without its key"]);
    ring.only_daemons_are_left();
}

#[test]
fn a_name_stays_when_the_daemon_of_another_host_dies() {
    let ring = ring();
    let job = publisher(&ring, &[]);
    ring.kill(4);
    for index in 1..=3 {
        assert!(listed(&ring, index).starts_with("\"my ocean\" "), "d{index}");
    }
    ring.agree();
    let program = ring.suite.program("t-pmi");
    for index in 1..=3 {
        let arguments = ["-n", "1", &program, "say", "0", "lookup_name service=my ocean"];
        ring.mpirun(index, &arguments).output().code(0).prints(FOUND);
    }
    stop(&ring);
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}

#[test]
fn a_hundred_names_published_at_once_from_four_hosts_are_all_found() {
    const EACH: usize = 25;
    let ring = ring();
    let (go, end) = (ring.suite.path("go"), ring.suite.path("end"));
    let (go_line, end_line) =
        (format!("until={}", go.display()), format!("until={}", end.display()));
    let jobs: Vec<Running> = (1..=4)
        .map(|index| {
            let publish =
                |n| format!("publish_name service=name {index}-{n} port=port {index} {n}");
            let lines: Vec<String> = (0..EACH).map(publish).collect();
            let run = ring.mpirun(index, &["-n", "1", &ring.suite.program("t-pmi"), "say", "0"]);
            run.arg(&go_line).args(lines).arg(&end_line).deadline(60).start()
        })
        .collect();
    fs::write(&go, "").expect("a file");
    for job in &jobs {
        wait_until("all are published", || job.stdout() == DONE.repeat(EACH));
    }
    let (mut lookups, mut found) = (Vec::new(), String::new());
    for (index, n) in (1..=4).flat_map(|index| (0..EACH).map(move |n| (index, n))) {
        lookups.push(format!("lookup_name service=name {index}-{n}"));
        found += &format!("cmd=lookup_result rc=0 msg=success port=port {index} {n}\n");
    }
    let run = ring.mpirun(3, &["-n", "1", &ring.suite.program("t-pmi"), "say", "0"]);
    run.args(lookups).deadline(60).output().code(0).quiet().prints(&found);
    assert_eq!(listed(&ring, 2).lines().count(), 4 * EACH);
    fs::write(&end, "").expect("a file");
    for job in jobs {
        job.wait().code(0).quiet();
    }
    wait_until("all are gone", || listed(&ring, 2).is_empty());
    ring.only_daemons_are_left();
}

#[test]
fn one_of_two_simultaneous_publishers_of_a_name_gets_an_error() {
    let ring = ring();
    let program = ring.suite.program("t-pmi");
    for round in 0..sample(3, 30) {
        let until = |what: &str| {
            let path = ring.suite.path(format!("{what}{round}"));
            (path.clone(), format!("until={}", path.display()))
        };
        let ((go, go_line), (end, end_line)) = (until("go"), until("end"));
        let jobs = [1, 4].map(|index| {
            let publish = format!("publish_name service=ocean port=port of d{index}");
            let run = ring.mpirun(index, &["-n", "1", &program, "say", "0"]);
            run.args([&go_line, &publish, &end_line]).deadline(60).start()
        });
        wait_until("both are there", || {
            [1, 4].iter().all(|index| ring.listed(*index).len() == jobs.len())
        });
        fs::write(&go, "").expect("a file");
        let answered = |job: &Running| [DONE, TAKEN].contains(&job.stdout().as_str());
        wait_until("both have an answer", || jobs.iter().all(answered));
        let winners: Vec<usize> = [1, 4]
            .into_iter()
            .zip(&jobs)
            .filter(|(_, j)| j.stdout() == DONE)
            .map(|(i, _)| i)
            .collect();
        let [winner] = winners[..] else { panic!("round {round}: {winners:?} have it") };
        for index in 1..=4 {
            assert!(listed(&ring, index).contains(&format!("@d{winner} d{winner} ")), "{round}");
        }
        fs::write(&end, "").expect("a file");
        for job in jobs {
            job.wait().code(0).quiet();
        }
        wait_until("it is gone", || [1, 4].iter().all(|index| listed(&ring, *index).is_empty()));
    }
    ring.only_daemons_are_left();
}

#[test]
fn ranks_of_a_job_outside_a_ring_find_each_others_names() {
    let suite = Suite::new();
    let lines = [
        "publish_name service=a port=b",
        "lookup_name service=a",
        "publish_name service=a port=c",
        "publish_name service=locked#key=x port=d",
        "lookup_name service=locked",
        "lookup_name service=locked#key=x",
    ];
    let output = suite.ranks(2, "t-pmi", &["say", "1"]).args(lines).output();
    let found = |port: &str| format!("cmd=lookup_result rc=0 msg=success port={port}\n");
    let answered = [DONE, &found("b"), TAKEN, DONE, NONE, &found("d")];
    output.code(0).prints(&answered.concat());
}

#[test]
fn separately_started_mpi_programs_connect_through_a_published_name() {
    for library in libraries_with_ports() {
        let ring = ring();
        let meet = |index: usize, how: &str, place: &str| {
            let run =
                ring.mpirun(index, &["-n", "4"]).arg(library.program("meet")).args([how, place]);
            library.dress_for_ports(run).env("MPIR_CVAR_NOLOCAL", "1").deadline(120).start()
        };
        for place in ["a place", "a place#key=and a key"] {
            for job in [meet(1, "publish", place), meet(4, "lookup", place)] {
                let output = job.wait();
                assert_eq!(
                    output.code(0).out(),
                    "meet: 8 together\n",
                    "{}: {output}",
                    library.name
                );
            }
        }
        ring.only_daemons_are_left();
    }
}

#[test]
fn a_refused_lookup_takes_no_accept_from_an_mpi_program() {
    for library in libraries_with_ports() {
        let ring = ring();
        let meet = |index: usize, how: &str| {
            let run = ring.mpirun(index, &["-n", "2"]).arg(library.program("meet"));
            let run = library.dress_for_ports(run.args([how, "a place#key=and a key"]));
            run.env("MPIR_CVAR_NOLOCAL", "1").deadline(120).start()
        };
        let server = meet(1, "publish");
        wait_until("the server accepts", || listed(&ring, 4).contains("a place"));
        assert_eq!(look_up_as(&ring, 4, "a place#key=a wrong one"), NONE);
        wait_until("its user knows", || server.stderr().contains("with a wrong key"));
        for job in [meet(4, "lookup"), server] {
            assert_eq!(job.wait().code(0).out(), "meet: 4 together\n", "{}", library.name);
        }
        ring.only_daemons_are_left();
    }
}

#[test]
fn separately_started_mpi_programs_join_over_a_socket() {
    for library in libraries_with_ports() {
        let ring = ring();
        let file = ring.suite.path("port").display().to_string();
        let join = |index: usize, how: &str| {
            let run = ring.mpirun(index, &["-n", "1"]).arg(library.program("join"));
            library.dress_for_ports(run.args([how, &file])).deadline(120).start()
        };
        let (listens, connects) = (join(2, "listen"), join(3, "connect"));
        listens.wait().code(0).quiet().prints("join: 42 of the other\n");
        connects.wait().code(0).quiet().prints("join: 17 of the other\n");
        ring.only_daemons_are_left();
    }
}
