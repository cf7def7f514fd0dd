//! Commands on every host of a ring, as administrators run them; and the universe size that jobs see.

use crate::members::Members;
use crate::run::Run;

/// `mpdexec` through this member.
fn mpdexec(ring: &Members, index: usize, arguments: &[&str]) -> Run {
    ring.suite
        .command(ring.suite.program("mpdexec"))
        .args(arguments)
        .env("MPD_RUNDIR", ring.rundir(index))
}

#[test]
fn mpdexec_runs_a_command_once_on_each_host_and_prints_equal_lines_once() {
    let ring = Members::of(3);
    mpdexec(&ring, 2, &["echo", "up"]).output().code(0).quiet().prints("d[1-3]: up\n");
    let output = mpdexec(&ring, 1, &["sh", "-c", "echo $MPI_LOCALNRANKS of $PMI_SIZE"]).output();
    output.code(0).quiet().prints("d[1-3]: 1 of 3\n");
}

#[test]
fn mpdexec_runs_every_host_to_its_end_and_exits_with_the_highest_code() {
    let ring = Members::of(3);
    let script = "[ $PMI_RANK = 1 ] && exit 3; [ $PMI_RANK = 2 ] && exit 9; \
                  while [ ! -e go ]; do :; done; exit 4";
    let job = mpdexec(&ring, 1, &["sh", "-c", script]).start();
    crate::run::wait_until("the first failure is reported", || job.stderr().lines().count() == 1);
    std::fs::write(ring.suite.path("work/go"), "").expect("a file");
    job.wait().code(9);
}

#[test]
fn on_failure_highest_gives_the_highest_code_and_keeps_124_and_127() {
    let ring = Members::of(1);
    let arguments = ["-n", "3", "-on-failure", "highest", "sh", "-c", "exit $((6 - $PMI_RANK))"];
    ring.mpirun(1, &arguments).output().code(6);
    let arguments = ["-on-failure", "highest", "-timeout", "0.2", "sleep", "60"];
    ring.mpirun(1, &arguments).output().code(124);
    ring.mpirun(1, &["-on-failure", "highest", "no-such-program"]).output().code(127);
}

#[test]
fn the_universe_size_is_the_number_of_cpus_of_all_live_members() {
    let ring = Members::new().option(&["--ncpus", "3"]).with(3);
    let universe = |index: usize| {
        let helper = ring.suite.program("t-pmi");
        let said =
            ring.mpirun(index, &["-usize", "SYSTEM", &helper, "hello"]).output().code(0).out();
        let mut arguments = said.split(' ').skip_while(|word| *word != "universe").skip(1);
        arguments.next().unwrap_or_default().to_owned()
    };
    assert_eq!(universe(1), "9");
    ring.kill(3);
    crate::run::wait_until("two are left", || universe(1) == "6");
}
