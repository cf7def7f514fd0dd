//! The universe size. Every rank of a job sees the same, by PMI and by PMIx, also if its hosts have different numbers of
//! slots.

use mpd_tests::surroundings::{setting, skip};

use crate::members::Members;
use crate::run::Run;
use crate::suite::Suite;

/// Programs that print a line with the universe size: clients of PMI-1, of PMI-2 and of PMIx, and a script.
fn programs(suite: &Suite) -> Vec<Vec<String>> {
    let own = |name| vec![suite.program(name), "hello".to_owned()];
    let script = ["sh", "-c", "echo universe $OMPI_UNIVERSE_SIZE"].map(str::to_owned);
    let mut programs = vec![own("t-pmi"), own("t-pmi2"), script.to_vec()];
    match setting("MPD_TEST_PMIX_DIR") {
        Some(directory) => {
            programs.push(vec![format!("{directory}/pmix_client"), "universe".to_owned()]);
        }
        None => skip("the bare client of PMIx is not there"),
    }
    programs
}

/// Checks that all ranks see this universe.
fn sees(run: Run, ranks: usize, universe: &str) {
    let output = run.deadline(120).output();
    output.code(0);
    let of = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "universe").skip(1);
        words.next().map(str::to_owned)
    };
    let seen: Vec<String> = output.out().lines().filter_map(of).collect();
    assert_eq!(seen, vec![universe; ranks], "{output}");
}

/// Two daemons with 3 and 5 slots.
fn unlike() -> Members {
    let ring = Members::new();
    ring.started(1, ring.mpd(1).args(["--slots", "3"]));
    let entry = ring.member(1).address.to_string();
    ring.started(2, ring.mpd(2).args(["--slots", "5", "--join", &entry]));
    ring.agree();
    ring
}

#[test]
fn every_rank_sees_one_universe_on_unlike_hosts_by_pmi_and_by_pmix() {
    let ring = unlike();
    let cases = [
        (1, &[][..], "3"),
        (2, &[], "5"),
        (1, &["-hosts", "d1,d2"], "8"),
        (2, &["-hosts", "d1:2,d2"], "7"),
        (1, &["-usize", "11", "-hosts", "d1,d2"], "11"),
    ];
    for program in programs(&ring.suite) {
        for (index, options, universe) in cases {
            sees(ring.mpirun(index, options).args(["-rr", "-n", "2"]).args(&program), 2, universe);
        }
    }
    ring.only_daemons_are_left();
}

#[test]
fn the_universe_of_a_job_in_an_allocation_is_its_slots() {
    let ring = unlike();
    for program in programs(&ring.suite) {
        let mpirun = ring.suite.program("mpirun");
        let run = ring.tool(1, "mpdalloc", &["-n", "4", &mpirun, "-n", "2"]);
        sees(run.args(&program), 2, "4");
    }
    ring.only_daemons_are_left();
}
