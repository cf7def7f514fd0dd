//! Names of hosts and users, from the services that the system is configured for (nsswitch.conf(5)).
//!
//! The C library loads these services as shared objects. A statically linked program has no loader of its own: it would
//! need exactly the C library with which it was linked. So it asks `getent`, a program of the system's C library. Names
//! that the files hosts(5) and passwd(5) answer need no process: a boot of 64 hosts would start 64.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::{Uid, User};

use crate::process::search::is_executable;
use crate::raw;

/// Most bytes of an answer of `getent` that are read.
const MAX_ANSWER: u64 = 64 << 10;

/// Most bytes of `/etc/hosts`, `/etc/passwd` and `/etc/nsswitch.conf` that are read. Of longer ones `getent` is asked.
const MAX_FILE: u64 = 1 << 20;

/// The exit code of `getent` if a key is unknown.
const UNKNOWN: i32 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) home: PathBuf,
}

/// The account of a user; `None`: the user has no account.
pub(crate) fn account(uid: u32) -> Option<Account> {
    if raw::is_static() {
        let line = in_file("passwd", |text| passwd_line(text, uid).map(<[u8]>::to_vec));
        if let Some(account) = line.and_then(|line| account_in(&line)) {
            return Some(account);
        }
        if let Some(answer) = ask("passwd", &uid.to_string()) {
            return account_in(&answer.ok()?);
        }
    }
    let user = User::from_uid(Uid::from_raw(uid)).ok()??;
    Some(Account { name: user.name, home: user.dir })
}

/// The addresses of a host, in the order of the services; they may occur more than once.
///
/// # Errors
/// The host is unknown, or the service fails.
pub(crate) fn addresses(host: &str) -> io::Result<Vec<IpAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    if raw::is_static() {
        if let Some(address) = in_file("hosts", |text| only_address(text, host)) {
            return Ok(vec![address]);
        }
        if let Some(answer) = ask("ahosts", host) {
            return answer.map(|text| addresses_in(&text));
        }
    }
    Ok((host, 0_u16).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// What `find` finds in the file of a table below `/etc`, if the C library would read this file first.
fn in_file<T>(table: &str, find: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    let services = match read("/etc/nsswitch.conf") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        services => services.ok()?,
    };
    if !is_file_first(&services, table) {
        return None;
    }
    find(&read(&format!("/etc/{table}")).ok()?)
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut text)?;
    let is_whole = text.len() as u64 <= MAX_FILE;
    is_whole.then_some(text).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

/// Whether the first service of a table is its file, and an answer of it is the last word. That is so too if
/// nsswitch.conf(5) does not have the table.
fn is_file_first(services: &[u8], table: &str) -> bool {
    let mut lines = lines(services);
    let line = lines.find_map(|line| line.strip_prefix(table.as_bytes())?.strip_prefix(b":"));
    let Some(line) = line else { return true };
    let mut words = words(line);
    // An action in brackets may ask further services after an answer.
    words.next() == Some(b"files") && words.next().is_none_or(|next| !next.starts_with(b"["))
}

/// The address of a host in hosts(5). `None` without an address, or with several, which the C library would put in order.
fn only_address(text: &[u8], host: &str) -> Option<IpAddr> {
    let of_host = lines(text).filter_map(|line| {
        let mut words = words(line);
        let address = words.next()?;
        words.any(|name| name.eq_ignore_ascii_case(host.as_bytes())).then_some(address)
    });
    let found: Vec<&[u8]> = of_host.take(2).collect();
    let [address] = found[..] else { return None };
    std::str::from_utf8(address).ok()?.parse().ok()
}

/// The line of a user in passwd(5).
fn passwd_line(text: &[u8], uid: u32) -> Option<&[u8]> {
    let uid = uid.to_string();
    lines(text).find(|line| line.split(|&byte| byte == b':').nth(2) == Some(uid.as_bytes()))
}

/// The lines without comments and without spaces at both ends.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|&byte| byte == b'\n');
    lines.map(|line| line.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii())
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Whether the group has the name of its one user, no other members, and is no other account's group. False if the
/// system cannot list its accounts.
pub(crate) fn is_alone_in_group(gid: u32, user: &str) -> bool {
    let group = ask("group", &gid.to_string()).and_then(Result::ok);
    let accounts = all("passwd").and_then(Result::ok);
    group
        .zip(accounts)
        .is_some_and(|(group, accounts)| is_alone(group.trim_ascii_end(), &accounts, gid, user))
}

/// Judges a line of group(5) and the text of passwd(5).
fn is_alone(group: &[u8], accounts: &[u8], gid: u32, user: &str) -> bool {
    let fields: Vec<&[u8]> = group.split(|&byte| byte == b':').collect();
    let [name, _, _, members] = fields[..] else { return false };
    let mut members = members.split(|&byte| byte == b',').filter(|member| !member.is_empty());
    let gid = gid.to_string();
    let with_group = lines(accounts).filter_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        let name = fields.next()?;
        (fields.nth(2)? == gid.as_bytes()).then_some(name)
    });
    let user = user.as_bytes();
    let accounts: Vec<&[u8]> = with_group.collect();
    name == user && members.all(|member| member == user) && accounts == [user]
}

/// Where systems have `getent`. It is not searched in PATH: a directory of another user may be there, and this
/// process trusts the users in the answer.
const PROGRAMS: [&str; 3] = ["/usr/bin/getent", "/bin/getent", "/run/current-system/sw/bin/getent"];

/// The answer of `getent`, or why there is none. `None` if the system has no such program.
fn ask(table: &str, key: &str) -> Option<io::Result<Vec<u8>>> {
    run(&[table, "--", key], MAX_ANSWER)
}

/// A whole table. An error if it is longer than the limit.
fn all(table: &str) -> Option<io::Result<Vec<u8>>> {
    let answer = run(&[table], MAX_FILE + 1)?;
    Some(answer.and_then(|text| {
        let is_whole = text.len() as u64 <= MAX_FILE;
        is_whole.then_some(text).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
    }))
}

/// Runs `getent`, and reads at most `most` bytes of its answer.
fn run(arguments: &[&str], most: u64) -> Option<io::Result<Vec<u8>>> {
    let program = PROGRAMS.iter().find(|path| is_executable(Path::new(path)))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let mut text = Vec::new();
    let output = child.stdout.take();
    let read = output.map_or(Ok(0), |output| output.take(most).read_to_end(&mut text));
    let end = child.wait();
    Some(read.and(end).and_then(|end| match end.code() {
        Some(0) => Ok(text),
        Some(UNKNOWN) => Err(io::Error::new(io::ErrorKind::NotFound, "the name is unknown")),
        _ => Err(io::Error::other(format!("the name service fails (getent: {end})"))),
    }))
}

/// The first word of each line, if it is an address. An address of one link has the name of the link behind it.
fn addresses_in(answer: &[u8]) -> Vec<IpAddr> {
    let words = answer.split(|&byte| byte == b'\n').filter_map(|line| {
        let word = line.split(u8::is_ascii_whitespace).next()?;
        std::str::from_utf8(word).ok()
    });
    words.filter_map(|word| word.split('%').next()?.parse().ok()).collect()
}

/// The fields of a line of passwd(5).
fn account_in(answer: &[u8]) -> Option<Account> {
    let line = answer.split(|&byte| byte == b'\n').next()?;
    let mut fields = line.split(|&byte| byte == b':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    let home = fields.nth(4)?;
    Some(Account {
        name: String::from_utf8_lossy(name).into_owned(),
        home: PathBuf::from(OsString::from_vec(home.to_vec())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_getent_are_understood_and_other_text_gives_nothing() {
        let hosts = b"::1             STREAM localhost\n::1             DGRAM\n127.0.0.1       STREAM\nfe80::1%eth0 RAW\n\nx y\n";
        let found: Vec<String> = addresses_in(hosts).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["::1", "::1", "127.0.0.1", "fe80::1"]);
        assert_eq!(addresses_in(b"\xff\n"), Vec::<IpAddr>::new());
        let ann = Account { name: "ann".into(), home: "/home/ann".into() };
        let line = b"ann:x:1000:1000:Ann,,,:/home/ann:/bin/sh\n";
        assert_eq!(account_in(line), Some(ann));
        for bad in [&b""[..], b":x:1:1::/:/bin/sh", b"ann:x:1:1"] {
            assert_eq!(account_in(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn files_answer_where_the_c_library_reads_them_first() {
        for (services, first) in [
            ("", true),
            ("# hosts: dns\npasswd: sss\n", true),
            ("hosts: files dns\n", true),
            ("  hosts:\tfiles # dns\n", true),
            ("hosts: dns files\n", false),
            ("hosts: files [SUCCESS=merge] dns\n", false),
            ("hosts:\n", false),
        ] {
            assert_eq!(is_file_first(services.as_bytes(), "hosts"), first, "{services}");
        }
        let hosts = b"127.0.0.1 localhost\n::1 localhost\n10.0.0.7\th7.site H7 # h8\nx h9\n";
        assert_eq!(only_address(hosts, "h7"), Some([10, 0, 0, 7].into()));
        for unknown in ["localhost", "h8", "h9", "10.0.0.7", "h"] {
            assert_eq!(only_address(hosts, unknown), None, "{unknown}");
        }
        let users = b"root:x:0:0:root:/root:/bin/sh\n+\nu:x:100:0::/home/u:/bin/sh\n";
        let account = passwd_line(users, 100).and_then(account_in).unwrap();
        assert_eq!((account.name.as_str(), account.home.to_str()), ("u", Some("/home/u")));
        assert_eq!((passwd_line(users, 1), passwd_line(users, 10)), (None, None));
    }

    #[test]
    fn a_user_is_alone_in_a_group_of_his_name_that_no_other_account_has() {
        let accounts = b"root:x:0:0::/root:/bin/sh\nann:x:7:70::/:/bin/sh\nbob:x:8:80::/:/bin/sh\n";
        let both = b"ann:x:7:70::/:/bin/sh\nbob:x:8:70::/:/bin/sh\n";
        assert!(is_alone(b"ann:x:70:", accounts, 70, "ann"));
        assert!(is_alone(b"ann:x:70:ann", accounts, 70, "ann"));
        assert!(!is_alone(b"ann:x:70:bob", accounts, 70, "ann"), "a member");
        assert!(!is_alone(b"ann:x:70:", both, 70, "ann"), "another account");
        assert!(!is_alone(b"users:x:70:", accounts, 70, "ann"), "a group for several users");
        assert!(!is_alone(b"ann:x:70:", b"", 70, "ann"), "accounts that are not listed");
        assert!(!is_alone(b"", accounts, 70, "ann"), "no group");
    }

    #[test]
    fn getent_knows_what_the_c_library_knows() {
        let user = User::from_uid(Uid::from_raw(0)).unwrap().unwrap();
        let Some(answer) = ask("passwd", "0") else { return };
        let account = account_in(&answer.unwrap()).unwrap();
        assert_eq!((account.name, account.home), (user.name, user.dir));
        let mut known = ("localhost", 0_u16).to_socket_addrs().unwrap();
        let found = addresses_in(&ask("ahosts", "localhost").unwrap().unwrap());
        assert!(known.all(|address| found.contains(&address.ip())), "{found:?}");
        let unknown = ask("ahosts", "no-such-host.invalid").unwrap().unwrap_err();
        assert_eq!(unknown.kind(), io::ErrorKind::NotFound);
        assert!(ask("passwd", "-x").unwrap().is_err(), "a key is not an option");
    }
}
