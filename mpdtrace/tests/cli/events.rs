//! `mpdwatch`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Act, Daemon, NAUGHTY, command, event, finish};

#[test]
fn mpdwatch_prints_each_event_at_once_and_reports_the_daemons_end() {
    let end = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&end);
    let daemon = Daemon::new(move |_| {
        vec![event("watching", NAUGHTY), Act::Until(Arc::clone(&until)), event("left", "bye")]
    });
    let mut watch = command("mpdwatch", &daemon.rundir(), &[]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("2026-11-21T00:00:00.000000Z h1 watching: x\\nmpdtrace"), "{first}");
    end.store(true, Ordering::SeqCst);
    assert!(lines.next().unwrap().unwrap().ends_with("left: bye"));
    assert_eq!(finish(watch).bad("mpdwatch"), "mpdwatch: the daemon ended\n");
}

#[test]
fn mpdwatch_ends_silently_when_its_reader_ends() {
    let daemon = Daemon::new(move |_| vec![event("watching", "w"), Act::Hold]);
    let mut watch = command("mpdwatch", &daemon.rundir(), &["--json"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(watch.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.starts_with("{\"time\":"), "{line}");
    drop(reader);
    let ran = finish(watch);
    assert_eq!((ran.code, ran.err.as_str()), (141, ""));
}
