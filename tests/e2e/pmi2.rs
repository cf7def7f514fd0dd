//! PMI-2 as a client sees it on its descriptor, and through Slurm's library.

use std::path::Path;

use crate::mpi::libraries;
use crate::suite::Suite;
use mpd_tests::surroundings::{setting, skip};

#[test]
fn a_key_put_in_pmi_2_is_readable_by_all_ranks_after_a_fence() {
    let suite = Suite::new();
    suite.start_daemon();
    for (ranks, keys) in [(1, "1"), (2, "40"), (16, "4")] {
        let output = suite.ranks(ranks, "t-pmi2", &["put-fence-get-all", keys]).output();
        output.code(0).quiet();
        assert_eq!(output.out().matches("pmi2 ok ").count(), ranks, "{output}");
    }
}

#[test]
fn threads_of_a_pmi_2_client_do_not_wait_for_each_other() {
    let suite = Suite::new();
    suite.start_daemon();
    for (mode, said) in [
        ("threads", "threads ok "),
        ("ring", "ring ok "),
        ("again", "again ok "),
        ("mixed", "mixed ok "),
    ] {
        let output = suite.ranks(3, "t-pmi2", &[mode]).output();
        output.code(0).quiet();
        assert_eq!(output.out().matches(said).count(), 3, "{mode}: {output}");
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn a_verbose_daemon_logs_the_pmi_version_of_each_rank() {
    let suite = Suite::new();
    suite.start_daemon_with(&["--verbose"]);
    suite.ranks(3, "t-pmi2", &["mixed"]).output().code(0).quiet();
    let log = std::fs::read_to_string(suite.path("mpd.log")).expect("a log");
    for (rank, dialect) in [(0, 2), (1, 1), (2, 2)] {
        let line = format!("DEBUG: rank {rank}: speaks PMI-{dialect}\n");
        assert_eq!(log.matches(&line).count(), 1, "{log}");
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn pmi_2_publishes_looks_up_and_unpublishes_names() {
    let suite = Suite::new();
    suite.start_daemon();
    let output = suite
        .ranks(
            2,
            "t-pmi2",
            &[
                "say",
                "1",
                "name-publish;thrid=4;name=my svc;port=tag#0$;",
                "name-lookup;name=my svc;",
                "name-unpublish;name=my svc;",
                "name-unpublish;name=my svc;",
                "job-connect;jobid=kvs_other;",
                "kvs-get;jobid=kvs_other;srcid=-1;key=k;",
            ],
        )
        .output();
    output.code(0).prints(
        "name-publish-response;thrid=4;rc=0;\n\
         name-lookup-response;port=tag#0$;value=tag#0$;rc=0;\n\
         name-unpublish-response;rc=0;\n\
         name-unpublish-response;rc=1;errmsg=service_not_found;\n\
         job-connect-response;kvscopy=FALSE;rc=0;\n\
         kvs-get-response;found=FALSE;rc=0;\n",
    );
}

#[test]
fn the_key_of_a_name_comes_from_the_info_or_the_name() {
    let suite = Suite::new();
    suite.start_daemon();
    let lines = [
        "name-publish;name=my svc;port=p;infokeycount=2;infokey0=a;infoval0=b;infokey1=mpd_key;infoval1=d;;p;",
        "name-lookup;name=my svc;infokeycount=0;",
        "name-lookup;name=my svc#key=d;;p;",
        "name-lookup;name=my svc;infokeycount=1;infokey0=mpd_key;infoval0=d;",
        "name-lookup;name=my svc;infokeycount=1;infokey0=mpd_key;",
        "name-lookup;name=my svc#key=x;infokeycount=1;infokey0=mpd_key;infoval0=x;",
        "name-unpublish;name=my svc#key=;",
        "name-unpublish;name=my svc#key=d;",
        "name-unpublish;name=my svc#key=d;;p;",
    ];
    let output = suite.ranks(1, "t-pmi2", &["say", "0"]).args(lines).output();
    output.code(0).prints(
        "name-publish-response;rc=0;\n\
         name-lookup-response;rc=1;errmsg=service_not_found;\n\
         name-lookup-response;port=p;value=p;rc=0;\n\
         name-lookup-response;rc=1;errmsg=service_not_found;\n\
         name-lookup-response;rc=-1;errmsg=missing_attribute;\n\
         name-lookup-response;rc=1;errmsg=two_keys;\n\
         name-unpublish-response;rc=1;errmsg=key_is_empty;\n\
         name-unpublish-response;rc=1;errmsg=service_not_found;\n\
         name-unpublish-response;rc=0;\n",
    );
}

#[test]
fn a_program_linked_with_slurms_libpmi2_makes_every_call() {
    let Some(directory) = setting("MPD_TEST_PMI2_DIR") else {
        return skip("Slurm's libpmi2 is not there");
    };
    let suite = Suite::new();
    suite.start_daemon();
    for ranks in [1, 4] {
        let run = suite.mpirun(["-n", &ranks.to_string()]).arg(Path::new(&directory).join("pmi2"));
        let output = run.output();
        output.code(0).quiet();
        for rank in 0..ranks {
            let line = format!("pmi2 ok {rank} of {ranks}\n");
            assert!(output.out().contains(&line), "{output}");
        }
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn intel_mpi_runs_through_slurms_libpmi2() {
    let libraries = libraries();
    let intel = libraries.iter().find(|library| library.name == "Intel MPI");
    let (Some(intel), Some(library)) = (intel, setting("MPD_TEST_PMI2_LIB")) else {
        return skip("Intel MPI or Slurm's libpmi2 is not there");
    };
    let suite = Suite::new();
    suite.start_daemon();
    for program in ["hello", "cpi"] {
        let run = suite.mpirun(["-n", "4"]).arg(intel.program(program));
        let output = intel.dress(run).env("I_MPI_PMI_LIBRARY", &library).deadline(120).output();
        output.code(0);
        let said = if program == "hello" { " of 4 appnum 0 universe " } else { "3.14159" };
        assert!(output.out().contains(said), "{program}: {output}");
    }
    suite.only_the_daemon_is_left();
}
