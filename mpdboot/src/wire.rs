//! What `mpdboot` and its agents on the hosts say to each other through ssh.
//!
//! The order goes in as one line of JSON on standard input, which then stays open: its end means that
//! nobody waits any more. Reports come out as lines `MPDBOOT-<nonce> {json}`; the nonce tells them
//! from banners and from what login scripts print.

use std::fmt;

use mpd_wire::{Address, Instance};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::failure::Failure;

/// Version of orders, reports and recipes.
pub(crate) const VERSION: u32 = 1;

/// Most bytes of an order: [`mpd_wire::job::MAX_HOSTS`] members twice, a few hundred bytes each.
pub(crate) const MAX_ORDER: usize = 16 << 20;

/// Most bytes of a report line; longer ones are chatter.
pub(crate) const MAX_REPORT: usize = 64 << 10;

/// One daemon to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    /// Its name in the ring.
    pub(crate) name: String,
    /// Where ssh finds its host.
    pub(crate) host: String,
    /// Whom to log in as.
    pub(crate) user: Option<String>,
    /// Port of ssh.
    pub(crate) port: Option<u16>,
    /// Name of the interface that the others reach it by.
    pub(crate) ifhn: Option<String>,
    /// Processes it takes before another is preferred.
    pub(crate) ncpus: Option<u32>,
    /// Its place in the ring; none: behind all others.
    pub(crate) ordinal: Option<u64>,
    /// Which daemon of its host it is, from 1.
    pub(crate) nth: u32,
}

/// How all daemons of a ring are started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manner {
    /// Name of the ring; empty for the one without.
    pub(crate) ring: String,
    /// The remote shell, with options.
    pub(crate) rsh: Vec<String>,
    /// Absolute path of `mpd`; `mpdboot` is beside it.
    pub(crate) mpd: String,
    /// Port that all daemons listen on.
    pub(crate) listen: Option<u16>,
    /// Path of the key file where it is not the default one.
    pub(crate) key_file: Option<String>,
    /// How long one host may take.
    pub(crate) timeout_s: u32,
    /// Remote shells at once.
    pub(crate) window: u32,
    /// Whether every host is started by the first one itself.
    pub(crate) flat: bool,
    /// Whether the ring is made for one job: its key is in no file, and it ends with its first daemon.
    pub(crate) private: bool,
}

/// `keep.json`: what it takes to start any daemon of a ring again. No key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recipe {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// How.
    pub(crate) manner: Manner,
    /// All daemons.
    pub(crate) hosts: Vec<Member>,
}

/// The line that an agent reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// What report lines begin with: 32 hexadecimal digits.
    pub(crate) nonce: String,
    /// What to do.
    pub(crate) errand: Errand,
}

/// What an agent is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Errand {
    /// Say that this host can be reached.
    Check {
        /// The member's name.
        name: String,
    },
    /// Start the daemon of this host, then those of others.
    Boot(Box<BootErrand>),
}

/// See [`Errand::Boot`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BootErrand {
    /// Text of the key file.
    pub(crate) key: SecretText,
    /// How.
    pub(crate) manner: Manner,
    /// The daemon of this host.
    pub(crate) member: Member,
    /// Daemons to enter the ring through.
    pub(crate) join: Vec<Address>,
    /// The life of the daemon that this boot began with: whoever knows it to live is in its ring.
    pub(crate) root: Option<Instance>,
    /// What to do where a daemon of another ring is running.
    pub(crate) running: Running,
    /// Daemons that this agent starts itself, once its own is in the ring.
    pub(crate) hosts: Vec<Member>,
    /// With `--keep` all daemons of the ring, for the recipe.
    pub(crate) keep: Option<Vec<Member>>,
}

/// What to do where a daemon is running that is not in the ring of this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Running {
    /// It is an error.
    Refuse,
    /// End it first.
    Replace,
    /// It is what was wanted.
    Welcome,
}

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Report {
    /// The order is read; the key comes next.
    Reached,
    /// The key is there; the daemon is being started.
    Joining,
    /// What became of the agent's own daemon, or of one that it started elsewhere.
    Host {
        /// The daemon.
        name: String,
        /// What became of it.
        outcome: Outcome,
    },
    /// Still at work.
    Alive,
    /// Nothing is left to be done.
    Done,
}

/// What became of a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Outcome {
    /// The host can be reached.
    Up,
    /// It is in the ring.
    InRing {
        /// Where others reach it.
        addresses: Vec<Address>,
    },
    /// It is not.
    Failed(Failure),
}

/// Text that no log and no error message shows, wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretText(pub(crate) Zeroizing<String>);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(..)")
    }
}

impl Serialize for SecretText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

impl Order {
    /// The line, wiped when dropped.
    pub(crate) fn to_line(&self) -> Zeroizing<Vec<u8>> {
        // Large enough from the start: growing would leave copies behind.
        const ROOM: usize = 4096;
        const ROOM_PER_MEMBER: usize = 1024;
        let members = match &self.errand {
            Errand::Check { .. } => 0,
            Errand::Boot(boot) => boot.hosts.len() + boot.keep.as_ref().map_or(0, Vec::len),
        };
        let mut line = Zeroizing::new(Vec::with_capacity(ROOM + members * ROOM_PER_MEMBER));
        // Strings and numbers are always JSON, and a Vec takes all.
        let _ = serde_json::to_writer(&mut *line, self);
        line.push(b'\n');
        line
    }
}

impl Report {
    /// The line, with its end.
    pub(crate) fn to_line(&self, nonce: &str) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("MPDBOOT-{nonce} {json}\n")
    }

    /// Reads a line without its end; `None` if it is something else.
    pub(crate) fn parse(line: &[u8], nonce: &str) -> Option<Self> {
        let json =
            line.strip_prefix(b"MPDBOOT-")?.strip_prefix(nonce.as_bytes())?.strip_prefix(b" ")?;
        serde_json::from_slice(json).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        let member = Member {
            name: "h1".into(),
            host: "h1".into(),
            user: None,
            port: None,
            ifhn: None,
            ncpus: Some(4),
            ordinal: Some(2),
            nth: 1,
        };
        let manner = Manner {
            ring: "blue".into(),
            rsh: vec!["ssh".into()],
            mpd: "/opt/mpd/bin/mpd".into(),
            listen: None,
            key_file: None,
            timeout_s: 30,
            window: 32,
            flat: false,
            private: false,
        };
        let errand = BootErrand {
            key: SecretText(Zeroizing::new("ring blue\nc0ffee\n".into())),
            manner,
            member,
            join: vec![Address::new("10.0.0.1:7000").unwrap()],
            root: Some(Instance::from_bytes([0xab; 16])),
            running: Running::Refuse,
            hosts: Vec::new(),
            keep: None,
        };
        Order { version: VERSION, nonce: "00ff".into(), errand: Errand::Boot(Box::new(errand)) }
    }

    #[test]
    fn an_order_is_one_line_of_json_that_reads_back() {
        let line = order().to_line();
        let text = str::from_utf8(&line).unwrap();
        assert_eq!(
            text,
            "{\"version\":1,\"nonce\":\"00ff\",\"errand\":{\"boot\":{\"key\":\"ring blue\\nc0ffee\\n\",\
             \"manner\":{\"ring\":\"blue\",\"rsh\":[\"ssh\"],\"mpd\":\"/opt/mpd/bin/mpd\",\
             \"listen\":null,\"key_file\":null,\"timeout_s\":30,\"window\":32,\"flat\":false,\
             \"private\":false},\
             \"member\":{\"name\":\"h1\",\"host\":\"h1\",\"user\":null,\"port\":null,\"ifhn\":null,\
             \"ncpus\":4,\"ordinal\":2,\"nth\":1},\"join\":[\"10.0.0.1:7000\"],\
             \"root\":\"abababababababababababababababab\",\"running\":\"refuse\",\"hosts\":[],\"keep\":null}}}\n"
        );
        assert_eq!(serde_json::from_str::<Order>(text).unwrap(), order());
    }

    #[test]
    fn an_order_does_not_print_its_key() {
        assert!(!format!("{:?}", order()).contains("c0ffee"));
    }

    #[test]
    fn a_report_is_known_by_its_nonce_and_all_else_is_chatter() {
        let report = Report::Host {
            name: "h1".into(),
            outcome: Outcome::InRing { addresses: vec![Address::new("h1:1").unwrap()] },
        };
        let line = report.to_line("ab");
        assert_eq!(
            line,
            "MPDBOOT-ab {\"host\":{\"name\":\"h1\",\"outcome\":{\"in_ring\":{\"addresses\":[\"h1:1\"]}}}}\n"
        );
        assert_eq!(Report::parse(line.trim_end().as_bytes(), "ab"), Some(report));
        for chatter in
            ["Welcome to h1", "MPDBOOT-ac \"done\"", "MPDBOOT-ab {", "MPDBOOT-ab\"done\""]
        {
            assert_eq!(Report::parse(chatter.as_bytes(), "ab"), None);
        }
        assert_eq!(Report::parse(b"MPDBOOT-ab \"done\"", "ab"), Some(Report::Done));
    }
}
