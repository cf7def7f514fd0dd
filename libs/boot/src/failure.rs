//! Where the start of a daemon failed, and advice: pure.
//!
//! ssh exits with 255 for all of its own failures, so this module finds the cause in the text. The
//! text of a host is shown as it is, escaped for a terminal.

use mpd_io::files::logging::one_line;
use mpd_site::SSH_CONFIG;
use serde::{Deserialize, Serialize};

/// The steps from the name of a host to a daemon in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Resolving the host name.
    Resolve,
    /// Connecting to the host's ssh port.
    Connect,
    /// Logging in.
    Ssh,
    /// Running MPD's programs there.
    Exec,
    /// Comparing the keys.
    Key,
    /// Entering the ring.
    Join,
}

impl Step {
    /// The name of the step, as in the wire format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Ssh => "ssh",
            Self::Exec => "exec",
            Self::Key => "key",
            Self::Join => "join",
        }
    }

    /// Whether the step precedes the contact with the host: another way to it may still succeed.
    pub const fn is_before_host(self) -> bool {
        matches!(self, Self::Resolve | Self::Connect | Self::Ssh)
    }
}

/// Why a daemon did not start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The failed step.
    pub step: Step,
    /// The problem, in the host's own text if possible.
    pub problem: String,
    /// Advice; may be empty.
    pub hint: String,
}

impl Failure {
    /// A failure with escaped and shortened texts.
    pub fn new(step: Step, problem: &str, hint: impl Into<String>) -> Self {
        Self { step, problem: fit(problem), hint: fit(&hint.into()) }
    }

    /// The same failure with escaped and shortened texts, for a failure from another host.
    pub fn printable(&self) -> Self {
        Self::new(self.step, &self.problem, self.hint.as_str())
    }
}

/// How a child process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// This signal killed it.
    Signaled(i32),
    /// It could not be started, for this reason.
    NotStarted(String),
}

/// A remote shell that ended before its agent reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How the shell ended.
    pub ending: Ending,
    /// The last part of its standard error.
    pub stderr_tail: String,
    /// The last part of its standard output, without reports.
    pub chatter: String,
}

/// The way to a host, for hints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The remote shell with user and port, as a command line for people.
    pub rsh: String,
    /// Path of the agent.
    pub agent: String,
    /// Whether ssh is used, so that code 255 is a failure of ssh itself.
    pub is_ssh: bool,
}

/// Texts of ssh with their step and hint; `{host}` and `{rsh}` are replaced.
const SSH_MESSAGES: &[(&str, Step, &str)] = &[
    ("Could not resolve hostname", Step::Resolve, RESOLVE_HINT),
    ("Permission denied", Step::Ssh, LOGIN_HINT),
    ("Too many authentication failures", Step::Ssh, LOGIN_HINT),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", Step::Ssh, CHANGED_HINT),
    ("Host key verification failed", Step::Ssh, HOST_KEY_HINT),
    (
        "Connection refused",
        Step::Connect,
        "is sshd running there? a line of the host file can say port=N",
    ),
    ("timed out", Step::Connect, OFF_HINT),
    ("No route to host", Step::Connect, OFF_HINT),
    ("Network is unreachable", Step::Connect, OFF_HINT),
    ("Connection closed by", Step::Connect, CLOSED_HINT),
    ("Connection reset", Step::Connect, CLOSED_HINT),
    ("kex_exchange_identification", Step::Connect, CLOSED_HINT),
    ("not responding", Step::Connect, OFF_HINT),
];

/// For an `mpd` that does not know its options.
pub const VERSION_HINT: &str = "do mpd and mpdboot there have the same version?";

const RESOLVE_HINT: &str =
    "check the spelling in the list of hosts; 'getent hosts {host}' must find it";
const LOGIN_HINT: &str = "mpdboot uses no passwords; make '{rsh} -o BatchMode=yes {host} true' work (ssh-copy-id, ssh-agent)";
const HOST_KEY_HINT: &str =
    "log in once by hand with '{rsh} {host}', or put its key into known_hosts";
const CHANGED_HINT: &str = "if the host was reinstalled, 'ssh-keygen -R {host}' removes its old key; if not, another host may pose as it";
const OFF_HINT: &str = "is the host on, and does a firewall let ssh through?";
const CLOSED_HINT: &str = "sshd there refuses connections: too many at once (MaxStartups; try a smaller --window), or not from here";

/// For all failures of ssh to the starter of a site: users cannot repair it.
const SITE_HINT: &str = "the administrator of the site finds the reason with 'mpdsite check'";

/// The failure of a remote shell that ended before its daemon was in the ring. `at` is the last
/// step that its agent reported; `None` without a report.
pub fn classify(ended: &Ended, at: Option<Step>, host: &str, way: &Way) -> Failure {
    let fill = |hint: &str| hint.replace("{host}", host).replace("{rsh}", &way.rsh);
    let of_ssh = |hint: &str| match way.rsh.contains(SSH_CONFIG) {
        true => SITE_HINT.to_owned(),
        false => fill(hint),
    };
    if let Ending::NotStarted(reason) = &ended.ending {
        let problem = format!("cannot run '{}': {reason}", way.rsh);
        return Failure::new(Step::Ssh, &problem, "install it, or name another with --rsh");
    }
    if way.is_ssh && ended.ending == Ending::Exited(255) {
        for (message, step, hint) in SSH_MESSAGES {
            if let Some(line) = ended.stderr_tail.lines().rfind(|line| line.contains(message)) {
                return Failure::new(*step, line, of_ssh(hint));
            }
        }
    }
    let line = last_line(&ended.stderr_tail).or_else(|| last_line(&ended.chatter));
    let problem =
        |what: String| line.map_or_else(|| what.clone(), |line| format!("{line} ({what})"));
    match (&ended.ending, at) {
        (Ending::Exited(2), Some(Step::Join)) => {
            Failure::new(Step::Exec, &problem("mpd ended with code 2".to_owned()), VERSION_HINT)
        }
        (_, Some(step)) => {
            let problem = problem("the connection to the host was lost".to_owned());
            Failure::new(step, &problem, "boot it again with 'mpdboot --add'")
        }
        (Ending::Exited(255), None) if way.is_ssh => {
            let hint = of_ssh("see what '{rsh} -v {host} true' says");
            Failure::new(Step::Ssh, &problem("exit code 255".to_owned()), hint)
        }
        (Ending::Exited(127), None) => {
            let problem = problem("exit code 127".to_owned());
            Failure::new(Step::Exec, &problem, not_there(&way.agent))
        }
        (Ending::Exited(126), None) => {
            let hint = format!(
                "{} is there and cannot be executed: mode, noexec, or built for another machine",
                way.agent
            );
            Failure::new(Step::Exec, &problem("exit code 126".to_owned()), hint)
        }
        (Ending::Exited(2), None) => {
            let hint = format!("does {} there have another version?", way.agent);
            Failure::new(Step::Exec, &problem("exit code 2".to_owned()), hint)
        }
        (Ending::Exited(code), None) => {
            let hint = fill("see what '{rsh} {host} true' says");
            Failure::new(Step::Exec, &problem(format!("exit code {code}, no report")), hint)
        }
        (Ending::Signaled(signal), None) => {
            Failure::new(Step::Ssh, &problem(format!("killed by signal {signal}")), "")
        }
        (Ending::NotStarted(_), None) => unreachable!("handled above"),
    }
}

fn not_there(agent: &str) -> String {
    format!(
        "{agent} is not on that host: install the suite in the same directory on all hosts, or give its path \
         with --mpd"
    )
}

/// The failure of a host that was silent for too long at this step.
pub fn silence(at: Option<Step>, host: &str, way: &Way, seconds: u64) -> Failure {
    let problem = format!("no answer for {seconds} s");
    match at {
        None => {
            let hint =
                format!("does '{} {host} true' end by itself? --timeout allows more time", way.rsh);
            Failure::new(Step::Ssh, &problem, hint)
        }
        Some(step) => Failure::new(step, &problem, "--timeout allows more time"),
    }
}

/// The last line that is not blank.
pub fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

fn fit(text: &str) -> String {
    const MAX_CHARS: usize = 400;
    one_line(&text.trim().chars().take(MAX_CHARS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way() -> Way {
        Way { rsh: "ssh".into(), agent: "/opt/bin/mpd".into(), is_ssh: true }
    }

    fn failure_of(ending: Ending, stderr: &str) -> Failure {
        let ended = Ended { ending, stderr_tail: stderr.into(), chatter: String::new() };
        classify(&ended, None, "h7", &way())
    }

    #[test]
    fn the_text_of_ssh_determines_the_step() {
        for (message, step) in [
            ("ssh: Could not resolve hostname h7: Name or service not known", Step::Resolve),
            ("ssh: connect to host h7 port 22: Connection refused", Step::Connect),
            ("ssh: connect to host h7 port 22: Connection timed out", Step::Connect),
            ("Timeout, server h7 not responding.", Step::Connect),
            ("Banner!\nal@h7: Permission denied (publickey).\nbye", Step::Ssh),
            ("Host key verification failed.", Step::Ssh),
            ("something new", Step::Ssh),
            ("", Step::Ssh),
        ] {
            assert_eq!(failure_of(Ending::Exited(255), message).step, step, "{message}");
        }
    }

    #[test]
    fn a_failure_has_the_hosts_text_and_a_hint_with_its_name() {
        let failure =
            failure_of(Ending::Exited(255), "hello\r\nal@h7: Permission denied (publickey).\r\n");
        assert_eq!(failure.problem, "al@h7: Permission denied (publickey).");
        assert!(failure.hint.contains("'ssh -o BatchMode=yes h7 true'"), "{}", failure.hint);
        let failure = failure_of(Ending::Exited(127), "sh: 1: /opt/bin/mpd: not found\n");
        assert_eq!(failure.step, Step::Exec);
        assert_eq!(failure.problem, "sh: 1: /opt/bin/mpd: not found (exit code 127)");
        assert!(failure.hint.starts_with("/opt/bin/mpd is not on that host"));
    }

    #[test]
    fn users_of_a_site_are_sent_to_their_administrator() {
        let way = Way { rsh: format!("ssh -F {SSH_CONFIG}"), ..way() };
        for text in ["al@h7: Permission denied (hostbased).", "something new"] {
            let ended = Ended {
                ending: Ending::Exited(255),
                stderr_tail: text.into(),
                chatter: String::new(),
            };
            assert_eq!(classify(&ended, None, "h7", &way).hint, SITE_HINT, "{text}");
        }
    }

    #[test]
    fn text_of_a_host_cannot_control_the_terminal_or_fill_the_screen() {
        let failure =
            failure_of(Ending::Exited(1), &format!("\u{1b}]0;x\u{7}{}", "y".repeat(5000)));
        assert!(failure.problem.starts_with("\\u{1b}]0;x\\u{7}yyy"));
        assert!(failure.problem.len() < 500);
    }

    #[test]
    fn an_agent_that_was_lost_after_a_report_failed_at_the_reported_step() {
        let ended = Ended {
            ending: Ending::Exited(255),
            stderr_tail: String::new(),
            chatter: String::new(),
        };
        assert_eq!(classify(&ended, Some(Step::Join), "h7", &way()).step, Step::Join);
    }

    #[test]
    fn code_255_is_a_failure_of_the_remote_shell_only_with_ssh() {
        let way = Way { is_ssh: false, rsh: "rsh".into(), ..way() };
        let ended = Ended {
            ending: Ending::Exited(255),
            stderr_tail: "Permission denied".into(),
            chatter: String::new(),
        };
        assert_eq!(classify(&ended, None, "h7", &way).step, Step::Exec);
    }
}
