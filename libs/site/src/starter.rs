//! The only command that the starter runs: the boot agent of an installed version.
//!
//! sshd runs the starter's command as the user and sets `SSH_ORIGINAL_COMMAND` to the words that
//! the other host asked for (sshd(8)). No shell reads these words.

use mpd_placement::hosts::is_host_name;

use crate::VERSIONS;
use crate::version::Version;

/// Most bytes of a command.
const MAX_BYTES: usize = 1024;

/// A command that the starter may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The boot agent of a version, and the name of the daemon that it becomes.
    Agent { version: Version, name: Option<String> },
    /// The list of the installed versions.
    Versions,
}

/// The starter was asked for another command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "the starter of this site needs a command; logins belong to the other sshd of this host"
    )]
    Nothing,
    #[error("the starter of this site runs only the boot agent of mpd-suite, not {0}")]
    Other(String),
    #[error("{VERSIONS} {NO_VERSION} {0} here; installed: {1}")]
    NotInstalled(Version, String),
}

/// What the refusal of a version says, by which the other host knows it.
pub const NO_VERSION: &str = "has no version";

/// The word that asks for the versions.
pub const ASK_VERSIONS: &str = "mpd-suite-versions";

/// The path of the daemon of a version.
pub fn daemon_of(version: &Version) -> String {
    format!("{VERSIONS}/{version}/bin/mpd")
}

/// A word without quotes around it.
fn bare(word: &str) -> &str {
    let inner = |quote: char| word.strip_prefix(quote)?.strip_suffix(quote);
    inner('\'').or_else(|| inner('"')).unwrap_or(word)
}

/// Reads what the other host asked for. `installed` are the versions of this host.
///
/// # Errors
/// [`Refused`].
pub fn parse(command: Option<&str>, installed: &[Version]) -> Result<Command, Refused> {
    let command = command.filter(|it| !it.is_empty()).ok_or(Refused::Nothing)?;
    let other = || Refused::Other(format!("{:?}", command.chars().take(64).collect::<String>()));
    if command.len() > MAX_BYTES {
        return Err(other());
    }
    // A version with ~ is quoted. A quote elsewhere is in no valid word.
    let words: Vec<&str> = command.split(' ').map(bare).collect();
    let (program, name) = match words[..] {
        [ASK_VERSIONS] => return Ok(Command::Versions),
        [program, "--boot-agent"] => (program, None),
        [program, "--boot-agent", "--name", name] if is_host_name(name) => {
            (program, Some(name.to_owned()))
        }
        _ => return Err(other()),
    };
    let version = program
        .strip_prefix(VERSIONS)
        .and_then(|rest| rest.strip_prefix('/')?.strip_suffix("/bin/mpd"))
        .and_then(Version::new)
        .ok_or_else(other)?;
    if !installed.contains(&version) {
        let list = installed.iter().map(Version::as_str).collect::<Vec<_>>().join(", ");
        return Err(Refused::NotInstalled(
            version,
            if list.is_empty() { "none".to_owned() } else { list },
        ));
    }
    Ok(Command::Agent { version, name })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::version::installed;

    fn parse_here(command: &str) -> Result<Command, Refused> {
        parse(Some(command), &installed(["0.2.0", "0.3.0"]))
    }

    #[test]
    fn the_boot_agent_of_an_installed_version_is_run() {
        let agent = |name: Option<&str>| {
            Ok(Command::Agent {
                version: Version::new("0.2.0").unwrap(),
                name: name.map(str::to_owned),
            })
        };
        assert_eq!(parse_here("/usr/lib/mpd-suite/0.2.0/bin/mpd --boot-agent"), agent(None));
        assert_eq!(
            parse_here("/usr/lib/mpd-suite/0.2.0/bin/mpd --boot-agent --name h1_2"),
            agent(Some("h1_2"))
        );
        let rc = parse(
            Some("'/usr/lib/mpd-suite/0.3.0~rc1/bin/mpd' --boot-agent"),
            &installed(["0.3.0~rc1"]),
        );
        assert!(matches!(rc, Ok(Command::Agent { .. })), "{rc:?}");
        assert_eq!(parse_here(ASK_VERSIONS), Ok(Command::Versions));
    }

    #[test]
    fn everything_else_is_refused() {
        for command in [
            "sh",
            "/usr/lib/mpd-suite/0.2.0/bin/mpd",
            "/usr/lib/mpd-suite/0.2.0/bin/mpd --daemon",
            "/usr/lib/mpd-suite/0.2.0/bin/mpd --boot-agent --name -x",
            "/usr/lib/mpd-suite/0.2.0/bin/mpd --boot-agent; sh",
            "/usr/lib/mpd-suite/0.2.0/bin/mpd --boot-agent --name h1 --rundir /home/bob",
            "/usr/lib/mpd-suite/../../../home/bob/bin/mpd --boot-agent",
            "/usr/lib/mpd-suite/0.2.0/../x/bin/mpd --boot-agent",
            "/home/bob/0.2.0/bin/mpd --boot-agent",
            "/usr/lib/mpd-suite//bin/mpd --boot-agent",
            " /usr/lib/mpd-suite/0.2.0/bin/mpd --boot-agent",
            "/usr/lib/mpd-suite/0.2.0/bin/mpd  --boot-agent",
            "/usr/lib/mpd-suite/0.2.0/bin/mpd\t--boot-agent",
            "mpd-suite-versions x",
        ] {
            assert!(matches!(parse_here(command), Err(Refused::Other(_))), "{command}");
        }
        assert_eq!(parse(None, &[]), Err(Refused::Nothing));
        assert_eq!(parse(Some(""), &[]), Err(Refused::Nothing));
    }

    #[test]
    fn a_version_that_is_not_installed_is_refused_with_those_that_are() {
        let refused = parse_here("/usr/lib/mpd-suite/0.9.0/bin/mpd --boot-agent").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "/usr/lib/mpd-suite has no version 0.9.0 here; installed: 0.3.0, 0.2.0"
        );
    }

    proptest! {
        #[test]
        fn an_accepted_command_has_only_safe_words(command in "[ -~]{0,80}") {
            if let Ok(Command::Agent { version, name }) = parse_here(&command) {
                prop_assert!(Version::new(version.as_str()).is_some());
                prop_assert!(name.is_none_or(|name| is_host_name(&name)));
            }
        }
    }
}
