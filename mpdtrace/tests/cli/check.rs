//! `mpdcheck`.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use crate::support::{Ran, command, finish, home_shell, run};

fn check(directory: &Path, arguments: &[&str]) -> Ran {
    home_shell(directory, "ssh");
    let mut command = command("mpdcheck", &directory.join("r"), arguments);
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("MPD_KEY_FILE", directory.join("key"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    finish(child)
}

#[test]
fn mpdcheck_finds_an_open_key_and_invalid_hosts() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("key"), "").unwrap();
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(directory.path().join("key"), mode).unwrap();
    let ran = check(directory.path(), &["no-such-host.invalid"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(ran.out.lines().all(|line| line.starts_with("*** ")), "{}", ran.out);
    assert!(
        ran.out.contains("open to other users") && ran.out.contains("chmod 600"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("no-such-host.invalid does not resolve"), "{}", ran.out);
    let json = check(directory.path(), &["--json"]).out;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_ne!(value[0]["host"], "");
    assert!(value[0]["problems"].as_array().is_some_and(|p| !p.is_empty()));
    assert!(check(directory.path(), &["-oProxyCommand=x"]).code == 2);
    assert!(check(directory.path(), &["a;b"]).bad("mpdcheck").contains("is no host name"));
}

#[test]
fn mpdcheck_runs_on_other_hosts_and_tries_ports_in_both_directions() {
    let directory = tempfile::tempdir().unwrap();
    let ran = check(directory.path(), &["-v", "-ssh", "127.0.0.1", "far"]);
    assert_eq!(ran.err, "");
    for piece in [
        "127.0.0.1: no daemon runs with ",
        "127.0.0.1: a connection to port ",
        "127.0.0.1: a connection from it to port ",
        "*** far: it cannot be asked: ssh failed: ssh: connect to host far port 22: No route",
    ] {
        assert!(ran.out.contains(piece), "{piece} not in {}", ran.out);
    }
}

#[test]
fn mpdcheck_serves_and_connects_with_the_messages_of_the_original() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = command("mpdcheck", directory.path(), &["-s"]);
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("server listening at INADDR_ANY on: "), "{first}");
    let port = first.rsplit(' ').next().unwrap();
    let arguments = ["-c", "127.0.0.1", port];
    let expected = "client successfully recvd ack from server: ack_from_server_to_client\n";
    assert_eq!(run("mpdcheck", directory.path(), &arguments).good(), expected);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest[0].starts_with("server has conn on ") && rest.len() == 2, "{rest:?}");
    assert_eq!(finish(server).code, 0);
    assert!(
        run("mpdcheck", directory.path(), &arguments).bad("mpdcheck").contains("cannot connect")
    );
    assert_eq!(run("mpdcheck", directory.path(), &["-c", "h"]).code, 2);
}
