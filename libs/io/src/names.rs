//! Names of hosts and users, from the services that the system is configured for (nsswitch.conf(5)).
//!
//! The C library loads these services as shared objects. A statically linked program has no loader of its own: it would
//! need exactly the C library with which it was linked. So it asks `getent`, a program of the system's C library.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::unistd::{Uid, User};

use crate::raw;

/// Most bytes of an answer of `getent` that are read.
const MAX_ANSWER: u64 = 64 << 10;

/// The exit code of `getent` if a key is unknown.
const UNKNOWN: i32 = 2;

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) home: PathBuf,
}

/// The account of a user; `None`: the user has no account.
pub(crate) fn account(uid: u32) -> Option<Account> {
    if raw::is_static()
        && let Some(answer) = ask("passwd", &uid.to_string())
    {
        return account_in(&answer.ok()?);
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
    if raw::is_static()
        && let Some(answer) = ask("ahosts", host)
    {
        return answer.map(|text| addresses_in(&text));
    }
    Ok((host, 0_u16).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// The answer of `getent`, or why there is none. `None` if the system has no such program.
fn ask(table: &str, key: &str) -> Option<io::Result<Vec<u8>>> {
    let mut command = Command::new("getent");
    command.args([table, "--", key]).stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let mut text = Vec::new();
    let output = child.stdout.take();
    let read = output.map_or(Ok(0), |output| output.take(MAX_ANSWER).read_to_end(&mut text));
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
