//! Directories that a client of PMIx registers for removal at the end of its job. Without a client, the tests give a line.

use std::fs;
use std::path::Path;

use mpd_tests::surroundings::{setting, skip};
use nix::sys::signal::Signal;

use crate::process;
use crate::run::{Run, wait_until};
use crate::suite::Suite;

/// What rank 0 does first: it makes a directory with a file, a directory, and a link to another directory with a file.
const MAKE: &str = "tree=$1 precious=$2; shift 2; if [ $PMIX_RANK = 0 ]; then mkdir -p $tree/below $precious; \
     touch $tree/file $tree/below/file $precious/file; ln -s $precious $tree/below/link; fi; exec \"$@\"";

/// A job of two clients that register these directories, after both directories of [`MAKE`] were made.
fn job(suite: &Suite, mode: &str, directories: &[&Path]) -> Option<Run> {
    let Some(programs) = setting("MPD_TEST_PMIX_DIR") else {
        skip("no client of PMIx");
        return None;
    };
    let run = suite.mpirun(["-n", "2", "bash", "-c", MAKE, "-"]);
    let run = run.args([suite.path("tree"), suite.path("precious")]);
    Some(run.arg(format!("{programs}/pmix_client")).arg(mode).args(directories).deadline(120))
}

#[test]
fn registered_directories_are_removed_but_no_working_directory_and_nothing_behind_a_link() {
    let suite = Suite::new();
    suite.start_daemon();
    let (tree, precious) = (suite.path("tree"), suite.path("precious"));
    let work = suite.path("work");
    fs::write(work.join("result"), "").expect("a file");
    let above = work.parent().expect("a directory");
    let Some(run) = job(&suite, "remove", &[&tree, &work, above, Path::new("/")]) else { return };
    run.output().code(0).prints("registered\nregistered\n");
    assert!(!tree.exists() && precious.join("file").exists() && work.join("result").exists());
    let log = fs::read_to_string(suite.path("mpd.log")).expect("a log");
    for path in [work.as_path(), above, Path::new("/")] {
        let text = format!(" {} was registered for removal and stays", path.display());
        assert_eq!(log.matches(&text).count(), 1, "{text}: {log}");
    }
    suite.only_the_daemon_is_left();
}

#[test]
fn registered_directories_are_removed_after_the_manager_is_killed() {
    for has_daemon in [true, false] {
        let suite = Suite::new();
        if has_daemon {
            suite.start_daemon();
        }
        let (tree, precious) = (suite.path("tree"), suite.path("precious"));
        let Some(run) = job(&suite, "keep", &[&tree]) else { return };
        let running = run.start();
        wait_until("both have registered it", || running.stdout().lines().count() == 2);
        process::send(suite.manager().pid, Signal::SIGKILL);
        running.wait().code(125);
        wait_until("it is removed", || !tree.exists());
        assert!(precious.join("file").exists());
        if has_daemon {
            suite.only_the_daemon_is_left();
        } else {
            suite.gone(&[]);
        }
    }
}

#[test]
fn what_was_there_before_the_job_stays_also_in_a_home_that_the_environment_does_not_name() {
    let suite = Suite::new();
    suite.start_daemon();
    let old = suite.path("tree");
    fs::create_dir_all(old.join("project")).expect("a directory");
    for file in ["letter", "project/data"] {
        fs::write(old.join(file), "").expect("a file");
    }
    // The clock of files advances by some milliseconds, and a job may begin within them.
    let newest = || fs::metadata(old.join("project/data")).and_then(|found| found.modified());
    wait_until("it is older", || {
        fs::write(suite.path("mark"), "").expect("a file");
        let mark = fs::metadata(suite.path("mark")).and_then(|found| found.modified());
        mark.expect("its time") > newest().expect("its time")
    });
    let Some(run) = job(&suite, "remove", &[&old]) else { return };
    run.without_env("HOME").output().code(0);
    assert!(old.join("letter").exists() && old.join("project/data").exists());
    assert!(!old.join("file").exists() && !old.join("below").exists());
    suite.only_the_daemon_is_left();
}
