//! Directories that a client of PMIx registers for removal at the end of its job. Without a client, the tests give a line.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use mpd_tests::surroundings::{setting, skip};
use nix::sys::signal::Signal;

use crate::process;
use crate::run::{Run, wait_until};
use crate::suite::Suite;

/// A job of two clients that register these directories.
fn job(suite: &Suite, mode: &str, directories: &[&Path]) -> Option<Run> {
    let Some(programs) = setting("MPD_TEST_PMIX_DIR") else {
        skip("no client of PMIx");
        return None;
    };
    let run = suite.mpirun(["-n", "2", &format!("{programs}/pmix_client"), mode]);
    Some(run.args(directories).deadline(120))
}

/// A directory with a file, a directory, and a link to another directory with a file; both.
fn make(suite: &Suite) -> (PathBuf, PathBuf) {
    let (tree, precious) = (suite.path("tree"), suite.path("precious"));
    fs::create_dir_all(tree.join("below")).expect("a directory");
    fs::create_dir_all(&precious).expect("a directory");
    for file in [tree.join("file"), tree.join("below/file"), precious.join("file")] {
        fs::write(file, "").expect("a file");
    }
    symlink(&precious, tree.join("below/link")).expect("a link");
    (tree, precious)
}

#[test]
fn registered_directories_are_removed_but_no_working_directory_and_nothing_behind_a_link() {
    let suite = Suite::new();
    suite.start_daemon();
    let (tree, precious) = make(&suite);
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
        let (tree, precious) = make(&suite);
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
