//! Every rank runs once, on the host that the options select, and knows its local rank.

use crate::across::ring;
use crate::members::Members;
use crate::run::Output;

/// Each rank prints its host, rank, local rank, number of local ranks, and size.
const WHERE: [&str; 5] = [
    "-prepend-pattern",
    "%h ",
    "sh",
    "-c",
    "echo $PMI_RANK $MPI_LOCALRANKID $MPI_LOCALNRANKS $PMI_SIZE",
];

/// Checks that `output` shows ranks placed like this: hosts by number, each with its ranks.
fn check(output: &Output, hosts: &[(usize, &[usize])], what: &str) {
    output.code(0);
    let size: usize = hosts.iter().map(|(_, ranks)| ranks.len()).sum();
    let mut expected = Vec::new();
    for (host, ranks) in hosts {
        for (local, rank) in ranks.iter().enumerate() {
            expected.push(format!("d{host} {rank} {local} {} {size}", ranks.len()));
        }
    }
    expected.sort_unstable();
    assert_eq!(output.sorted_lines(), expected, "{what}: {output}");
}

fn run(ring: &Members, from: usize, arguments: &[&str]) -> Output {
    ring.mpirun(from, arguments).args(WHERE).output()
}

#[test]
fn every_rank_runs_once_on_the_host_that_the_options_select() {
    let ring = ring();
    type Hosts = &'static [(usize, &'static [usize])];
    let table: [(&[&str], Hosts); 9] = [
        (&["-n", "8"], &[(1, &[0, 1]), (2, &[2, 3]), (3, &[4, 5]), (4, &[6, 7])]),
        (&["-n", "3"], &[(1, &[0, 1]), (2, &[2])]),
        (&["-ppn", "3", "-n", "8"], &[(1, &[0, 1, 2]), (2, &[3, 4, 5]), (3, &[6, 7])]),
        (&["-rr", "-n", "6"], &[(1, &[0, 4]), (2, &[1, 5]), (3, &[2]), (4, &[3])]),
        (&["-hosts", "d3,d1:1", "-n", "3"], &[(3, &[0, 1]), (1, &[2])]),
        (&["-exclude", "d2", "-n", "6"], &[(1, &[0, 1]), (3, &[2, 3]), (4, &[4, 5])]),
        (&["-nolocal", "-n", "4"], &[(2, &[0, 1]), (3, &[2, 3])]),
        (&["-1", "-n", "2"], &[(2, &[0, 1])]),
        (&["-hosts", "d4", "-n", "1"], &[(4, &[0])]),
    ];
    for (arguments, hosts) in table {
        let output = run(&ring, 1, arguments);
        check(&output, hosts, &arguments.join(" "));
        output.quiet();
    }
    ring.only_daemons_are_left();
}

#[test]
fn print_rank_map_prints_the_hosts_with_their_ranks() {
    let ring = ring();
    let output = ring.mpirun(1, &["-print-rank-map", "-rr", "-n", "6", "true"]).output();
    output.code(0).quiet().prints("(d1:0,4)(d2:1,5)(d3:2)(d4:3)\n");
    ring.only_daemons_are_left();
}

#[test]
fn an_unknown_host_is_named_and_no_rank_runs() {
    let ring = ring();
    let output = ring.mpirun(1, &["-hosts", "d2,d9", "-n", "2", "touch", "ran"]).output();
    output.code(125).says(&["d9"]).brief();
    assert!(!ring.suite.path("work/ran").exists());
    ring.only_daemons_are_left();
}

#[test]
fn ranks_on_every_host_get_the_callers_directory_environment_and_umask() {
    let ring = ring();
    let script = "echo $(pwd) $FLAVOUR $(umask)";
    let directory = ring.suite.new_directory("elsewhere");
    let run = ring.mpirun(1, &["-umask", "0027", "-n", "8", "sh", "-c", script]);
    let output = run.env("FLAVOUR", "sweet and sour").directory(&directory).output();
    output.code(0).quiet();
    assert_eq!(output.out(), format!("{directory} sweet and sour 0027\n").repeat(8));
    ring.only_daemons_are_left();
}
