//! Spawned ranks on many hosts, some of which join the job because of the spawn.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;

use crate::across::roomy;
use crate::members::Members;
use crate::run::{Output, Run, wait_until};
use crate::spawn::{REFUSED, command, one};

/// Hosts d1 to d5.
fn ring() -> Members {
    roomy().with(5)
}

/// A job of one rank on d1 that sends these PMI lines.
pub(super) fn job(ring: &Members, options: &[&str], lines: &[Vec<String>]) -> Run {
    let helper = ring.suite.program("t-pmi");
    let arguments: Vec<&str> =
        options.iter().copied().chain(["-n", "1", &helper, "lines", "0"]).collect();
    ring.mpirun(1, &arguments).args(lines.concat()).deadline(60)
}

/// How many lines of `text` came from each host; the labels end with the host.
fn by_host(output: &Output, text: &str) -> BTreeMap<String, usize> {
    let mut hosts = BTreeMap::new();
    for line in output.out().lines().filter(|line| line.ends_with(text)) {
        let label = line.split(' ').next().unwrap_or_default();
        let host = label.split('@').nth(1).unwrap_or_default();
        *hosts.entry(host.to_owned()).or_default() += 1;
    }
    hosts
}

const LABEL: [&str; 2] = ["-label-fmt", "%r@%h "];

#[test]
fn spawned_worlds_on_new_hosts_exchange_keys_and_spawn_further_worlds() {
    let ring = ring();
    let helper = ring.suite.program("t-pmi");
    let keys = [&*helper, "put-fence-get-all", "40"];
    let inner = one(6, &[&helper, "fences", "10"], &[]);
    let mut nested = vec![&*helper, "lines", "0"];
    nested.extend(inner.iter().map(String::as_str));
    let lines = [one(10, &keys, &[]), one(1, &nested, &[]), one(3, &keys, &[])];
    let output = job(&ring, &["-l"], &lines).output();
    output.code(0).quiet();
    assert_eq!(output.out().matches("pmi ok ").count(), 13, "{output}");
    assert_eq!(output.out().matches("fences ok ").count(), 6, "{output}");
    assert!(output.out().contains("5,3: ") || output.out().contains("5,4: "), "{output}");
    ring.only_daemons_are_left();
}

#[test]
fn a_spawn_follows_its_hosts_and_the_spawn_policy() {
    let ring = ring();
    let echo = |size, info: &[(&str, &str)]| one(size, &["echo", "hi"], info);
    for (options, lines, hosts) in [
        (&[][..], echo(4, &[("hosts", "d4,d2")]), &[("d2", 2), ("d4", 2)][..]),
        (&[], echo(3, &[("host", "d3")]), &[("d3", 3)]),
        (&["-spawn-policy", "pack"], echo(3, &[]), &[("d1", 1), ("d2", 2)]),
        (&["-hosts", "d1,d5"], echo(4, &[]), &[("d1", 2), ("d5", 2)]),
    ] {
        let output = job(&ring, &[&LABEL[..], options].concat(), &[lines]).output();
        output.code(0).quiet();
        let expected: Vec<(String, usize)> =
            hosts.iter().map(|(host, count)| ((*host).to_owned(), *count)).collect();
        assert_eq!(by_host(&output, " hi").into_iter().collect::<Vec<_>>(), expected, "{output}");
    }
    ring.only_daemons_are_left();
}

#[test]
fn a_spawn_that_fails_on_one_host_starts_no_rank_on_any() {
    let ring = ring();
    let touch = |name: &str| ring.suite.path(name).display().to_string();
    let mark = touch("mark");
    let lines = [
        [command((1, 2), 4, &["touch", &mark], &[]), command((2, 2), 1, &["./missing"], &[])]
            .concat(),
        one(5, &["true"], &[]),
    ];
    let output = job(&ring, &[], &lines).output();
    output.code(0).brief().says(&["spawn by rank 0: host d1", "\"./missing\""]);
    assert!(output.out().starts_with(REFUSED), "{output}");
    assert!(!ring.suite.path("mark").exists());
    ring.only_daemons_are_left();
}

#[test]
fn signals_reach_spawned_ranks_on_every_host_and_leave_nothing() {
    let ring = ring();
    let never = format!("until={}", ring.suite.path("never").display());
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let lines =
            [one(5, &["sleep", "60"], &[]), one(5, &["sleep", "60"], &[]), vec![never.clone()]];
        let job = job(&ring, &[], &lines).start();
        wait_until("ten sleepers", || ring.suite.running("sleep").len() == 10);
        job.send(signal);
        job.wait();
        ring.only_daemons_are_left();
    }
}

impl Members {
    pub(super) fn kill_manager(&self, index: usize) {
        crate::process::send(self.manager(index).pid, Signal::SIGKILL);
    }
}
