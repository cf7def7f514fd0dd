//! The directory for temporary files on several hosts, where it is another user's.

use std::fs;

use crate::members::Members;
use crate::suite::{Suite, is_root, skip};

#[test]
fn a_tmpdir_of_another_user_is_replaced_on_each_host_and_one_line_names_the_hosts() {
    if !is_root() {
        return skip("a directory of another user: needs root");
    }
    let suite = Suite::as_user(60_217);
    for rundir in ["m1", "m2"] {
        suite.new_directory(rundir);
        suite.allow(rundir, 0o700);
    }
    let ring = Members::within(suite).option(&["--ncpus", "1"]).with(2);
    let theirs = ring.suite.path("theirs");
    fs::create_dir(&theirs).expect("a directory");
    for mode in [0o755, 0o700] {
        ring.suite.allow("theirs", mode);
        let script = "cd $MPD_JOB_TMPDIR && pwd && stat -c %u .";
        let run = ring.mpirun(1, &["-n", "2", "sh", "-c", script]).env("TMPDIR", &theirs);
        let output = run.output();
        output.code(0).says(&[
            &format!("TMPDIR={}", theirs.display()),
            "Permission denied; the job's directory on hosts d1, d2 is in /tmp",
        ]);
        assert_eq!(output.err().lines().count(), 1, "{output}");
        let lines = output.sorted_lines();
        let (places, owners): (Vec<&str>, Vec<&str>) =
            lines.iter().map(String::as_str).partition(|line| line.starts_with("/tmp/mpd-"));
        assert_eq!((places.len(), owners), (2, vec!["60217"; 2]), "{output}");
        assert!(places.iter().all(|place| !std::path::Path::new(place).exists()), "{output}");
    }
    assert_eq!(fs::read_dir(&theirs).expect("the directory").count(), 0);
    ring.only_daemons_are_left();
}
