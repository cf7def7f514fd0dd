//! `mpdtop --openmetrics` against a simulated daemon.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mpd_wire::message::{ConsoleReply, HostTop, HostUse, RingRequest};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Act, Daemon, command, name, ring};

/// A daemon of a ring of two, which reports `cpus` CPUs.
fn metered(cpus: u32) -> Daemon {
    Daemon::new(move |request| match request {
        RingRequest::Describe => vec![Act::Say(ConsoleReply::Ring(ring(&["h1", "h2"])))],
        RingRequest::Top => {
            let machine = HostUse { cpus, ..HostUse::default() };
            let hosts = vec![HostTop { host: name("h1"), machine, runs: vec![] }];
            vec![Act::Say(ConsoleReply::Top { hosts, missing: vec![name("h2")], more: false })]
        }
        _ => vec![],
    })
}

#[test]
fn mpdtop_prints_metrics_and_fails_if_a_member_is_silent() {
    let daemon = metered(48);
    let ran = daemon.run("mpdtop", &["--openmetrics"]);
    assert_eq!(ran.code, 1);
    let lines: Vec<&str> = ran.out.lines().collect();
    for line in ["mpd_up 1", "mpd_host_cpus{host=\"h1\"} 48", "mpd_host_up{host=\"h2\"} 0"] {
        assert!(lines.contains(&line), "{line} in {}", ran.out);
    }
    assert_eq!(lines.last(), Some(&"# EOF"));
    assert_eq!(daemon.asked(), [RingRequest::Describe, RingRequest::Top]);
    assert_eq!(daemon.run("mpdtop", &["--file", "x"]).code, 2, "--file needs --openmetrics");
}

#[test]
fn mpdtop_keeps_a_file_of_metrics_and_removes_it_at_its_end() {
    let daemon = metered(16);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("mpd.prom");
    let arguments = ["--openmetrics", "-i", "0.1", "--file", file.to_str().unwrap()];
    let child = command("mpdtop", &daemon.rundir(), &arguments).spawn().unwrap();
    let ends = |text: &str| text.ends_with("# EOF\n");
    let mut versions = BTreeSet::new();
    within("two versions of the file", || {
        if let Ok(metadata) = fs::metadata(&file) {
            versions.insert(metadata.ino());
            assert_eq!(metadata.permissions().mode() & 0o777, 0o644);
            assert!(ends(&fs::read_to_string(&file).unwrap()), "a part of a file");
        }
        versions.len() > 1
    });
    end(child);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn mpdtop_answers_on_a_socket_and_says_when_the_daemon_is_gone() {
    let daemon = metered(8);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("metrics");
    // The socket of a killed process is replaced.
    drop(UnixListener::bind(&path).unwrap());
    let arguments = ["--openmetrics", "--listen", path.to_str().unwrap()];
    let child =
        command("mpdtop", &daemon.rundir(), &arguments).stderr(Stdio::null()).spawn().unwrap();
    let get = |target: &str| {
        let mut stream = None;
        within("a connection", || {
            stream = UnixStream::connect(&path).ok();
            stream.is_some()
        });
        let mut stream = stream.unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    // A client that sends nothing delays no other client.
    let mut idle = None;
    within("the socket", || {
        idle = UnixStream::connect(&path).ok();
        idle.is_some()
    });
    let answer = get("/metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\nmpd_host_cpus{host=\"h1\"} 8\n"), "{answer}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(get("/other").starts_with("HTTP/1.1 404 "));
    drop(daemon);
    let answer = get("/");
    assert!(answer.contains("\nmpd_up 0\n") && answer.starts_with("HTTP/1.1 200"), "{answer}");
    end(child);
    assert!(!path.exists());
}

/// Waits until `is_so`, with a deadline.
fn within(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "no {what} within a minute");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Ends a tool by SIGTERM. It reports success.
fn end(mut child: Child) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
}
