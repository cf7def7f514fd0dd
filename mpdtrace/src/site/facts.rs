//! The facts of this host, for [`mpd_site::compare`].

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use mpd_io::network::addresses;
use mpd_io::ring::rundir::host_name;
use mpd_io::ring::site;
use mpd_site::compare::Report;
use mpd_site::files::{self, SHOSTS, SSHD, STARTER};
use mpd_site::{DIRECTORY, HOSTS, POLICY, block};

use crate::remote;

/// Deadline of each command.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the starter may take to present itself.
const GREETING: Duration = Duration::from_secs(5);
/// Users of people have numbers in this range (login.defs(5)).
const USERS: std::ops::Range<u32> = 1000..60_000;
/// Files whose texts are compared, besides the list and the policy.
const COMPARED: [&str; 5] = [
    "ssh_config",
    "known_hosts",
    "sshd_config",
    "mpd-suite-sshd.socket",
    "mpd-suite-sshd@.service",
];
const KEYSIGN: &str = "/usr/lib/openssh/ssh-keysign";

/// Gathers the facts of this host. Its starter listens on `port`.
pub fn gather(port: u16) -> Report {
    let users = users();
    Report {
        names: names(),
        addresses: own_addresses(),
        keys: keys(),
        versions: site::versions().iter().map(ToString::to_string).collect(),
        users: users.iter().map(|it| (it.name.clone(), (it.uid, it.gid))).collect(),
        homes: users.into_iter().map(|it| (it.name, it.home)).collect(),
        time: seconds(),
        files: files(),
        marked: marked(),
        problems: problems(),
        hostbased: hostbased(),
        listens: Some(answers("127.0.0.1", port)),
        reached: None,
    }
}

/// The names of this host, the short one first.
pub fn names() -> Vec<String> {
    let mut names = vec![host_name()];
    let long = output(&["hostname", "-f"]).map(|text| text.trim().to_owned());
    names.extend(
        long.filter(|long| mpd_placement::hosts::is_host_name(long) && !names.contains(long)),
    );
    names
}

fn own_addresses() -> Vec<String> {
    let all = addresses::own().into_iter().filter(addresses::is_reachable);
    all.map(|address| address.to_string()).collect()
}

fn keys() -> Vec<String> {
    let mut keys = Vec::new();
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let text =
            fs::read_to_string(format!("/etc/ssh/ssh_host_{kind}_key.pub")).unwrap_or_default();
        let mut words = text.split_whitespace();
        if let (Some(kind), Some(key)) = (words.next(), words.next()) {
            keys.push(format!("{kind} {key}"));
        }
    }
    keys
}

struct User {
    name: String,
    uid: u32,
    gid: u32,
    home: String,
}

/// A line of passwd(5).
fn user(line: &str) -> Option<User> {
    let [name, _, uid, gid, _, home, ..] = line.split(':').collect::<Vec<_>>()[..] else {
        return None;
    };
    let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
    Some(User { name: name.to_owned(), uid, gid, home: home.to_owned() })
}

fn users() -> Vec<User> {
    let text = output(&["getent", "passwd"]).unwrap_or_default();
    text.lines().filter_map(user).filter(|it| USERS.contains(&it.uid)).collect()
}

fn seconds() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

fn files() -> BTreeMap<String, String> {
    let others = COMPARED.iter().map(|name| format!("{DIRECTORY}/{name}"));
    let paths = [HOSTS.to_owned(), POLICY.to_owned()].into_iter().chain(others);
    let paths = paths.chain([files::KEYSIGN.to_owned()]);
    paths.filter_map(|path| fs::read_to_string(&path).ok().map(|text| (path, text))).collect()
}

fn marked() -> BTreeMap<String, Vec<String>> {
    let lines = |path: &str| {
        let text = fs::read_to_string(path).ok()?;
        let lines = block::lines(&text).ok()??.into_iter().map(str::to_owned).collect();
        Some((path.to_owned(), lines))
    };
    [SHOSTS, files::KNOWN_HOSTS].into_iter().filter_map(lines).collect()
}

fn problems() -> Vec<String> {
    let mut problems = Vec::new();
    match fs::metadata(KEYSIGN) {
        Ok(found) if found.mode() & 0o4000 != 0 => {}
        Ok(_) => problems.push(format!(
            "{KEYSIGN} has no setuid bit, so ssh cannot prove this host: reinstall openssh-client"
        )),
        Err(e) => problems.push(format!("{KEYSIGN}: {e}: install openssh-client")),
    }
    for path in [SSHD, STARTER, "/etc/pam.d/mpd-sshd"] {
        if !Path::new(path).exists() {
            problems.push(format!("{path} is missing: install the package mpd-suite"));
        }
    }
    if Path::new("/etc/hosts.equiv").exists() {
        problems.push("/etc/hosts.equiv exists, and sshd reads it too: remove it".to_owned());
    }
    if let Ok(found) = fs::metadata(DIRECTORY)
        && (found.uid() != 0 || found.mode() & 0o022 != 0)
    {
        problems
            .push(format!("{DIRECTORY} can be changed by others than root: chown root, chmod 755"));
    }
    if block::lines(&fs::read_to_string(SHOSTS).unwrap_or_default()).is_err() {
        problems.push(format!("{SHOSTS}: the marks of mpd-suite do not pair"));
    }
    problems
}

/// Whether the other sshd of this host accepts host-based logins. A host without sshd accepts none.
pub fn hostbased() -> Option<bool> {
    let sshd = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    let Some(sshd) = sshd else { return Some(false) };
    let text = output(&[sshd, "-T"])?;
    let line = text.lines().find_map(|line| line.strip_prefix("hostbasedauthentication "))?;
    Some(line == "yes")
}

/// Whether an sshd answers on the port of a host.
pub fn answers(host: &str, port: u16) -> bool {
    let addresses = (host, port).to_socket_addrs();
    addresses.is_ok_and(|mut all| all.any(|address| greets(&address)))
}

fn greets(address: &SocketAddr) -> bool {
    let Ok(mut connection) = TcpStream::connect_timeout(address, GREETING) else { return false };
    let mut begin = [0; 4];
    connection.set_read_timeout(Some(GREETING)).is_ok()
        && connection.read_exact(&mut begin).is_ok()
        && &begin == b"SSH-"
}

/// The output of a command that succeeded.
fn output(line: &[&str]) -> Option<String> {
    let line: Vec<String> = line.iter().map(|&word| word.to_owned()).collect();
    let ended = remote::run(&line, PATIENCE).ok()?;
    ended.status.success().then_some(ended.out)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_line_of_passwd_has_numbers_and_a_home() {
        let line = "alice:x:2001:2002:Alice,,,:/home/alice:/bin/bash";
        let User { name, uid, gid, home } = user(line).unwrap();
        assert_eq!((&*name, uid, gid, &*home), ("alice", 2001, 2002, "/home/alice"));
        assert!(user("alice:x:2001").is_none() && user("alice:x:a:2:::").is_none());
    }

    #[test]
    fn only_an_sshd_is_a_starter() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            for greeting in ["SSH-2.0-x", "HTTP/1.1 "] {
                let (mut connection, _) = listener.accept().unwrap();
                connection.write_all(greeting.as_bytes()).unwrap();
            }
        });
        assert!(answers("127.0.0.1", port));
        assert!(!answers("127.0.0.1", port));
        server.join().unwrap();
        assert!(!answers("127.0.0.1", port), "the port is closed");
    }
}
