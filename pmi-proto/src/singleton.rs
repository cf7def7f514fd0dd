//! The first lines between a process that was started without a process manager and the one that it starts later.
//!
//! A program that is started alone is a world of one rank. If its library needs a process manager later, it listens
//! at a port, runs `mpiexec -pmi_args PORT default_interface default_key PID`, and waits for a connection:
//!
//! ```text
//! manager  cmd=singinit authtype=none
//! client   cmd=singinit pmi_version=1 pmi_subversion=2 stdio=yes authtype=none
//! manager  cmd=singinit_info rc=0 versionok=yes stdio=no kvsname=NAME
//! ```
//!
//! Then PMI-1 follows as on any connection, beginning with `init`. The manager's side connects, sends [`GREETING`], and
//! checks the answer with [`check`]. The third line is the first output of a [`Session`](crate::Session) made with
//! [`of_singleton`](crate::Session::of_singleton).

use crate::error::{ProtocolError, excerpt};
use crate::keyval::{Attribute, Attributes};
use crate::pmi1::reply::VERSION;

/// The first line of the manager.
pub const GREETING: &[u8] = b"cmd=singinit authtype=none\n";

/// Checks the client's answer, a line without its end. A request to carry standard input and output is ignored.
///
/// # Errors
/// The line is no such answer, or the client does not speak PMI-1.
pub fn check(line: &[u8]) -> Result<(), ProtocolError> {
    let Some(rest) = line.strip_prefix(b"cmd=singinit ") else {
        return Err(ProtocolError::NoCommand { line: excerpt(line) });
    };
    match Attributes::parse(COMMAND, ATTRIBUTES, rest)?.number("pmi_version")? {
        VERSION => Ok(()),
        version => Err(ProtocolError::UnsupportedVersion { version }),
    }
}

/// The line with the name of the key-value space. The client keeps its standard input and output.
pub(crate) fn welcome(kvsname: &str) -> Vec<u8> {
    format!("cmd=singinit_info rc=0 versionok=yes stdio=no kvsname={kvsname}\n").into_bytes()
}

const COMMAND: &str = "singinit";
const ATTRIBUTES: &[Attribute] = &[Attribute::word("pmi_version")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_every_subversion_are_accepted_and_other_peers_are_not() {
        for subversion in [1, 2] {
            let line = format!(
                "cmd=singinit pmi_version=1 pmi_subversion={subversion} stdio=yes authtype=none"
            );
            assert_eq!(check(line.as_bytes()), Ok(()));
        }
        assert!(matches!(
            check(b"cmd=singinit pmi_version=2 pmi_subversion=0"),
            Err(ProtocolError::UnsupportedVersion { version: 2 })
        ));
        assert!(matches!(
            check(b"cmd=singinit authtype=none"),
            Err(ProtocolError::MissingAttribute { .. })
        ));
        for line in [&b""[..], b"GET / HTTP/1.1", b"cmd=init pmi_version=1 pmi_subversion=1"] {
            assert!(matches!(check(line), Err(ProtocolError::NoCommand { .. })));
        }
    }
}
