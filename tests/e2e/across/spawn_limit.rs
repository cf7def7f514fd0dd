//! Spawns that wait for slots, their listing, and the niceness of spawned processes.

use crate::across::spawn::job;
use crate::members::Members;
use crate::mpi::libraries_with_ports;
use crate::run::{Output, Run, sample, wait_until};
use crate::spawn::one;

/// Hosts d1 to d5, with one slot each.
fn five() -> Members {
    Members::new().option(&["--slots", "1"]).with(5)
}

/// `t-spawn` as the only first rank, on d1, with one process for each slot.
fn spawner(ring: &Members, arguments: &[&str]) -> Run {
    let helper = ring.suite.program("t-spawn");
    ring.mpirun(1, &["-spawn-limit", "1", "-n", "1", &helper]).args(arguments).deadline(120)
}

#[test]
fn a_tree_of_spawns_ends_although_each_host_runs_one_process_at_a_time() {
    let ring = five();
    let (n, sum, processes) = sample(("6", 8, 25), ("13", 233, 753));
    let output = spawner(&ring, &["fib", n]).output();
    output.code(0).quiet();
    assert!(output.out().contains(&format!("sum {sum}\n")), "{output}");
    assert_eq!(output.out().matches("fib(").count(), processes, "{output}");
    ring.only_daemons_are_left();
}

#[test]
fn a_tree_of_mpi_processes_ends_although_each_host_runs_one_at_a_time() {
    for library in libraries_with_ports() {
        let ring = five();
        let run = ring.mpirun(1, &["-spawn-limit", "1", "-n", "1"]).arg(library.program("fib"));
        let run = library.dress_for_ports(run).env("MPIR_CVAR_NOLOCAL", "1");
        let output = run.arg(sample("6", "13")).deadline(sample(120, 1200)).output();
        output.code(0).quiet();
        let sum = sample(8, 233);
        assert!(output.out().contains(&format!("sum {sum}\n")), "{}: {output}", library.name);
        ring.only_daemons_are_left();
    }
}

#[test]
fn a_spawn_that_waits_for_a_slot_goes_to_a_host_that_joins_the_ring() {
    let ring = Members::new().option(&["--slots", "1"]).with(1);
    let directory = ring.suite.new_directory("joined");
    let hosts = || std::fs::read_dir(&directory).expect("a directory").count();
    let stop = ring.suite.path("stop").display().to_string();
    // The directory of the job is another one on each host.
    let work = format!(
        "touch {directory}/$(basename $MPD_JOB_TMPDIR); until [ -e {stop} ]; do sleep 0.01; done"
    );
    let job = spawner(&ring, &["many", "2", "1", "sh", "-c", &work]).start();
    wait_until("the slot of d1 is occupied", || hosts() == 1);
    ring.start(2);
    wait_until("the second process runs on d2", || hosts() == 2);
    std::fs::write(stop, "").expect("a file");
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}

#[test]
fn spawned_processes_are_nicer_with_each_level() {
    let ring = five();
    let own: i32 = {
        let output = ring.suite.bash("nice").output();
        output.out().trim().parse().expect("a number")
    };
    let helper = ring.suite.program("t-pmi");
    let inner = one(1, &["nice"], &[]);
    let mut nested = vec![&*helper, "lines", "0"];
    nested.extend(inner.iter().map(String::as_str));
    let lines = [one(1, &["nice"], &[]), one(1, &nested, &[])];
    let output = job(&ring, &["-spawn-nice", "3"], &lines).output();
    output.code(0).quiet();
    for depth in [1, 2] {
        let line = (own + 3 * depth).min(19).to_string();
        assert!(output.out().lines().any(|said| said == line), "{line}: {output}");
    }
    ring.only_daemons_are_left();
}

#[test]
fn mpdlistjobs_shows_the_parents_and_states_of_spawned_processes_and_the_spawns_that_wait() {
    let ring = Members::new().option(&["--slots", "1"]).with(2);
    let helper = ring.suite.program("t-spawn");
    let [outer, inner] = ["outer", "inner"].map(|name| ring.suite.new_directory(name));
    let stop = ring.suite.path("stop").display().to_string();
    let wait = format!("until [ -e {stop} ]; do sleep 0.01; done");
    // A child with three children for two slots. Both wait for a file after their spawns.
    let words = ["hold", &outer, "1", "1", &helper, "hold", &inner, "3", "1", "sh", "-c", &wait];
    let job = spawner(&ring, &words).start();
    let list = |index: usize, option: &str| {
        let run = ring.suite.command(ring.suite.program("mpdlistjobs"));
        run.arg(option).env("MPD_RUNDIR", ring.rundir(index)).output()
    };
    let listing = || {
        let output = list(1, "--json");
        let value: serde_json::Value = serde_json::from_str(&output.out()).expect("JSON");
        value["jobs"][0].clone()
    };
    let processes = |job: &serde_json::Value| {
        let hosts = job["hosts"].as_array().cloned().unwrap_or_default();
        let process = |it: &serde_json::Value| {
            let word = |key: &str| it[key].as_str().unwrap_or("-").to_owned();
            [it["world"].to_string(), word("parent"), word("state")]
        };
        let all = hosts.iter().filter_map(|host| host["processes"].as_array()).flatten();
        let mut all: Vec<_> = all.map(process).collect();
        all.sort();
        all
    };
    let row = |world: &str, parent: &str, state: &str| [world, parent, state].map(str::to_owned);
    let expected = [
        row("0", "-", "blocked"),
        row("1", "0", "blocked"),
        row("2", "0,1", "running"),
        row("3", "0,1", "running"),
    ];
    wait_until("two processes run, their ancestors are blocked, and a spawn waits", || {
        let job = listing();
        let ready = &job["ready"][0];
        processes(&job) == expected && ready["program"] == "sh" && ready["parent"] == "0,1"
    });
    let output = list(2, "--tree");
    output.code(0);
    assert!(output.out().contains("  spawns:\n    rank 0 on d1: blocked, "), "{output}");
    assert!(output.out().contains("\n        ready: sh\n"), "{output}");
    for file in [stop, format!("{outer}/go.1"), format!("{inner}/go.1")] {
        std::fs::write(file, "").expect("a file");
    }
    job.wait().code(0).quiet();
    ring.only_daemons_are_left();
}

#[test]
fn a_host_of_twice_the_speed_gets_at_least_twice_as_many_ranks_and_spawned_processes() {
    let ring = Members::new().with(2);
    let hosts = ring.suite.path("hosts");
    std::fs::write(&hosts, "d1 slots=2\nd2 slots=2 speed=2\n").expect("a file");
    let hosts = hosts.display().to_string();
    // Both hosts are this machine and have its load. So the faster one may get a few more than twice as many.
    let check = |output: &Output| {
        output.code(0).quiet();
        let count =
            |host: &str| output.out().lines().filter(|line| *line == format!("{host} hi")).count();
        let (slow, fast) = (count("d1"), count("d2"));
        assert!((5..=20).contains(&slow) && slow + fast == 60, "{slow} and {fast}: {output}");
    };
    let ranks =
        ["-f", &hosts, "-placement", "load", "-prepend-pattern", "%h ", "-n", "60", "echo", "hi"];
    check(&ring.mpirun(1, &ranks).output());
    let options = ["-f", &hosts, "-spawn-policy", "load", "-prepend-pattern", "%h "];
    check(&job(&ring, &options, &[one(60, &["echo", "hi"], &[])]).output());
    ring.only_daemons_are_left();
}
