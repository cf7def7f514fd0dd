//! A26: paths that a ring order to start a manager can name, and the removal of files after the manager's death.

use std::os::unix::fs::symlink;

use mpd_wire::job::{Cookie, HostSlice, HostSlices, JobKey};
use mpd_wire::message::{Launch, ManagerOrder, ManagerReport};
use mpd_wire::{DaemonName, Instance, RankSet};
use nix::sys::signal::Signal;

use crate::manager::{KEY, MANAGER, Orphaned, order};
use crate::process;
use crate::run::wait_until;

const COOKIE: Cookie = Cookie::from_bytes([0xab; 16]);

/// An order for the second member, in the name of a job of the first.
fn launch(orphaned: &Orphaned, tmpdir: &str) -> Launch {
    let host_slice = |of: usize, manager, rank| HostSlice {
        member: DaemonName::new(&format!("d{of}")).expect("a name"),
        manager,
        addresses: Vec::new(),
        ranks: RankSet::from_ranges(vec![(rank, rank)]),
    };
    let host_slices = vec![
        host_slice(1, Instance::from_bytes(MANAGER), 0),
        host_slice(2, Instance::from_bytes([9; 16]), 1),
    ];
    Launch {
        job: orphaned.job.clone(),
        key: JobKey::from_bytes(KEY),
        cookie: COOKIE,
        kvsname: "kvs_0".to_owned(),
        tmpdir: tmpdir.to_owned(),
        host_slices: HostSlices::new(host_slices, 2).expect("shares"),
        universe: None,
        first: 1,
    }
}

fn ring_of_two() -> Orphaned {
    let orphaned = Orphaned::new("7@d1", 0);
    orphaned.ring.start(2);
    orphaned.ring.agree();
    orphaned
}

#[test]
fn a26_an_order_with_a_relative_or_climbing_directory_starts_no_manager() {
    let orphaned = ring_of_two();
    let mut manager = orphaned.register();
    let long = format!("/{}", "x".repeat(5000));
    let home = orphaned.ring.suite.path("tmp/../home").display().to_string();
    for bad in ["", "tmp", "..", &home, &long] {
        let launch = Box::new(launch(&orphaned, bad));
        manager.send(&ManagerReport::Grow { launch });
        manager.flush().expect("it accepts a message");
        let ManagerOrder::Missing { members } = order(&mut manager) else { panic!("started") };
        let [(member, problem)] = &members[..] else { panic!("{members:?}") };
        assert_eq!(member.as_str(), "d2");
        assert!(problem.starts_with("TMPDIR="), "{problem}");
        assert!(orphaned.ring.process(2).children().is_empty());
    }
    manager.send(&ManagerReport::Ended { code: 0, unlinked: false });
    manager.flush().expect("it accepts a message");
}

#[test]
fn a26_a_sweep_removes_only_files_that_the_manager_created() {
    let orphaned = ring_of_two();
    let ring = &orphaned.ring;
    let mut manager = orphaned.register();
    let home = ring.suite.path("home");
    // Names that can be derived from the order; one of them is a link to another directory.
    let digits = "ab".repeat(16);
    for name in [format!("mpd-job-{digits}-1"), format!("mpd-{digits}"), digits] {
        std::fs::create_dir(home.join(&name)).expect("a directory");
        std::fs::write(home.join(&name).join("precious"), "x").expect("a file");
    }
    let aside = ring.suite.path("work/aside");
    std::fs::create_dir(&aside).expect("a directory");
    symlink(&aside, home.join(format!("mpd-{}", nix::unistd::geteuid()))).expect("a link");
    let listed = || {
        let mut names: Vec<_> = walk(&home);
        names.sort();
        names
    };
    let before = listed();

    let launch = Box::new(launch(&orphaned, &home.display().to_string()));
    manager.send(&ManagerReport::Grow { launch });
    manager.flush().expect("it accepts a message");
    let started = || ring.process(2).children().into_iter().find(process::Process::is_manager);
    wait_until("d2 has a manager", || started().is_some());
    process::send(started().expect("it runs").pid, Signal::SIGKILL);
    wait_until("it was swept", || {
        let records = std::fs::read_dir(ring.rundir(2).join("jobs")).into_iter().flatten();
        ring.process(2).children().is_empty() && records.count() == 0
    });
    assert_eq!(listed(), before);
    assert!(walk(&aside).is_empty(), "a link was followed");
    manager.send(&ManagerReport::Ended { code: 0, unlinked: true });
    manager.flush().expect("it accepts a message");
}

/// All paths below a directory.
fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    let below = |entry: std::fs::DirEntry| {
        let path = entry.path();
        let further = if path.is_symlink() || !path.is_dir() { Vec::new() } else { walk(&path) };
        [vec![path], further].concat()
    };
    entries.flat_map(below).collect()
}
