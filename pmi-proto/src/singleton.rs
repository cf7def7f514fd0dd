//! How a process that was started without a process manager and one that it called for begin.
//!
//! A program that is started alone is a world of one. When its library needs a process manager after
//! all, it listens at a port, runs `mpiexec -pmi_args PORT default_interface default_key PID`, and
//! waits for that to connect:
//!
//! ```text
//! manager  cmd=singinit authtype=none
//! client   cmd=singinit pmi_version=1 pmi_subversion=2 stdio=yes authtype=none
//! manager  cmd=singinit_info rc=0 versionok=yes stdio=no kvsname=NAME
//! ```
//!
//! What follows is PMI-1 as on any connection, from `init` on. Whoever connects says [`GREETING`], and looks
//! at the answer with [`check`]; the third line is the first that a [`Session`](crate::Session) says which
//! was made [`of_singleton`](crate::Session::of_singleton).

use crate::error::{ProtocolError, excerpt};
use crate::keyval::{Attribute, Attributes};
use crate::pmi1::reply::VERSION;

/// What the manager says first.
pub const GREETING: &[u8] = b"cmd=singinit authtype=none\n";

/// Checks what the client answers, a line without its end. That it would have its standard input and
/// output carried is not asked of it.
///
/// # Errors
/// It is no such answer, or the client does not speak PMI-1.
pub fn check(line: &[u8]) -> Result<(), ProtocolError> {
    let Some(rest) = line.strip_prefix(b"cmd=singinit ") else {
        return Err(ProtocolError::NoCommand { line: excerpt(line) });
    };
    match Attributes::parse(COMMAND, ATTRIBUTES, rest)?.number("pmi_version")? {
        VERSION => Ok(()),
        version => Err(ProtocolError::UnsupportedVersion { version }),
    }
}

/// What the client is told of its key-value space; its standard input and output stay its own.
pub(crate) fn welcome(kvsname: &str) -> Vec<u8> {
    format!("cmd=singinit_info rc=0 versionok=yes stdio=no kvsname={kvsname}\n").into_bytes()
}

const COMMAND: &str = "singinit";
const ATTRIBUTES: &[Attribute] = &[Attribute::word("pmi_version")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_every_subversion_are_welcome_and_nobody_else() {
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
