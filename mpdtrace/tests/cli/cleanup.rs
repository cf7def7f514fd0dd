//! `mpdcleanup`.

use mpd_io::ring::ring_name::RingName;
use mpd_io::ring::rundir::RunDir;

use crate::support::{Daemon, home_shell, run};

#[test]
fn mpdcleanup_removes_the_socket_of_a_dead_daemon_and_refuses_beside_a_live_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    assert_eq!(run("mpdcleanup", &path, &[]).good(), "");
    let rundir = RunDir::resolve(Some(path.clone()), &RingName::default(), "h");
    let living = rundir.serve().unwrap();
    let job = "3@h1".parse().unwrap();
    std::fs::write(rundir.record(&job), "{}").unwrap();
    let err = run("mpdcleanup", &path, &[]).bad("mpdcleanup");
    assert!(err.contains("a daemon is running"), "{err}");
    assert!(rundir.socket().exists());
    drop(living);
    let text = run("mpdcleanup", &path, &["-v"]).good();
    assert!(text.ends_with("/r/mpd.sock\n") && text.contains(": removed "), "{text}");
    assert!(!rundir.socket().exists() && rundir.record(&job).exists());
    assert!(run("mpdcleanup", &path, &["-v"]).good().ends_with("nothing to remove\n"));
    let answering = Daemon::new(|_| vec![]);
    let err = answering.run("mpdcleanup", &[]).bad("mpdcleanup");
    assert!(err.contains("a daemon is running"), "{err}");
    assert!(answering.rundir().join("mpd.sock").exists());
}

#[test]
fn mpdcleanup_works_on_other_hosts_and_names_those_it_could_not_reach() {
    let directory = tempfile::tempdir().unwrap();
    let rsh = home_shell(directory.path(), "myrsh");
    let (file, path) = (directory.path().join("hosts"), directory.path().join("r"));
    let rundir = RunDir::resolve(Some(path.clone()), &RingName::default(), "h");
    drop(rundir.serve().unwrap());
    std::fs::write(&file, "near # one\nfar\nbare\n").unwrap();
    let arguments = ["-v", "-r", &rsh, "-f", file.to_str().unwrap()];
    let ran = run("mpdcleanup", &path, &arguments);
    assert!(ran.out.starts_with("near: removed "), "{}", ran.out);
    let err = ran.bad("mpdcleanup");
    assert!(err.contains("far: ") && err.contains("No route to host"), "{err}");
    assert!(err.contains("bare: there is no ") && err.contains("install MPD"), "{err}");
    std::fs::write(&file, "-oProxyCommand=x\n").unwrap();
    assert!(run("mpdcleanup", &path, &arguments).bad("mpdcleanup").contains("-oProxyCommand=x"));
}
