//! The messages between `mpdboot` and its agents, through a remote shell.
//!
//! The request is one line of JSON on standard input, which then stays open. Its end means that the
//! starter has ended. Reports are lines `MPDBOOT-<nonce> {json}`. The nonce distinguishes them from
//! banners and from the output of login scripts.

use std::fmt;

use mpd_wire::frame::Versions;
use mpd_wire::message::{DaemonReport, report_line};
use mpd_wire::{Address, Instance};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::failure::Failure;

/// The versions of requests and reports that this release reads.
pub const VERSION: Versions = Versions::only(7);

/// Version of recipes.
pub const RECIPE_VERSION: u32 = 6;

/// Most bytes of a request: [`mpd_wire::job::MAX_HOSTS`] members twice, a few hundred bytes each.
pub const MAX_REQUEST: usize = 16 << 20;

/// Most bytes of a report line. A longer line is not a report.
pub const MAX_REPORT: usize = 64 << 10;

/// Most bytes of a [`HostId`]: a boot id, two namespaces and a host name.
pub const MAX_HOST_ID: usize = 256;

/// A daemon to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name in the ring.
    pub name: String,
    /// Its host, as the remote shell knows it.
    pub host: String,
    /// User to log in as.
    pub user: Option<String>,
    /// Port of ssh.
    pub port: Option<u16>,
    /// Name or address of the interface for the other hosts.
    pub ifhn: Option<String>,
    /// Number of processes before other hosts are preferred.
    pub ncpus: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Most processes of a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Its speed in hundredths of that of an ordinary host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<u32>,
    /// Its ordinal in the ring; `None` for the last place.
    pub ordinal: Option<u64>,
    /// Number of the daemon on its host, from 1.
    pub nth: u32,
}

/// The settings of all daemons of a ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manner {
    /// Name of the ring; empty for the ring without a name.
    pub ring: String,
    /// The remote shell, with options.
    pub rsh: Vec<String>,
    /// Absolute path of `mpd`.
    pub mpd: String,
    /// Port that all daemons listen on.
    pub listen: Option<u16>,
    /// Path of the key file, if it is not the default.
    pub key_file: Option<String>,
    /// Whether the ring has a key of its own, because accounts of other users have daemons of it.
    pub key_alone: bool,
    /// Time for one host to start, in seconds.
    pub timeout_s: u32,
    /// Most remote shells at a time.
    pub window: u32,
    /// Whether the booting host starts every host itself.
    pub flat: bool,
    /// Whether the ring is made for one job. Its key is then in no file, and it ends with its first
    /// daemon.
    pub private: bool,
    /// Whether the ring ends with a batch job. Its daemons then leave nothing in their run directories.
    pub in_batch: bool,
    /// Number of managers in waiting of each daemon; `None` for its default.
    pub waiting: Option<u8>,
    /// Absolute path of the program that sees each request for slots; `None` for the default of each daemon.
    pub alloc_hook: Option<String>,
    /// Only for a user's ring on a site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteTerms>,
}

/// The terms of a user's ring on a site. Its key is in its run directories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteTerms {
    /// The name of the daemon that begins the ring, and ends it when it is idle.
    pub first: String,
    /// How long the ring stays after its last use, in seconds.
    pub idle_s: u32,
}

/// `keep.json`: the data to restart any daemon of a ring. It does not contain the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// [`RECIPE_VERSION`].
    pub version: u32,
    /// Settings of all daemons.
    pub manner: Manner,
    /// All daemons of the ring.
    pub hosts: Vec<Member>,
}

/// The line that an agent reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRequest {
    /// [`VERSION`].
    pub version: Versions,
    /// Prefix of report lines: 32 hexadecimal digits.
    pub nonce: String,
    pub task: Task,
}

/// The task of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Report that this host can be reached.
    Check {
        /// The member's name.
        name: String,
    },
    /// Start the daemon of this host, then the daemons of other hosts.
    Boot(Box<BootTask>),
}

/// The data of [`Task::Boot`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootTask {
    /// Text of the key file.
    pub key: SecretText,
    /// Settings of all daemons.
    pub manner: Manner,
    /// The daemon of this host.
    pub member: Member,
    /// Addresses of daemons through which to enter the ring.
    pub join: Vec<Address>,
    /// The incarnation of this boot's first daemon. A daemon that lists it as alive is in the same
    /// ring.
    pub root: Option<Instance>,
    /// How to treat a running daemon of another ring.
    pub running: Running,
    /// Whether the daemons wait for the list of members, instead of entering through `join`.
    pub waits: bool,
    /// Daemons that this agent starts.
    pub hosts: Vec<Member>,
    /// With `--keep`, all daemons of the ring, for the recipe.
    pub keep: Option<Vec<Member>>,
}

/// How to treat a running daemon that is not in the ring of this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Running {
    /// Fail.
    Refuse,
    /// End that daemon first.
    Replace,
    /// Accept that daemon.
    Welcome,
}

/// A report of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The request was read; the next step is the key.
    Reached {
        /// The daemon.
        name: String,
        /// The identity of its host, if the agent is the command of a login from the network.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host_id: Option<HostId>,
    },
    /// The key is in place; the daemon is being started.
    Joining,
    /// The outcome of the agent's own daemon, or of a daemon that it started on another host.
    Host {
        /// The daemon.
        name: String,
        outcome: Outcome,
    },
    /// The agent's own daemon, or one that it starts on another host, reports this.
    Daemon(DaemonReport),
    /// The agent is still at work.
    Alive,
    /// The agent has no work left.
    Done,
}

/// The outcome of a daemon's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The host can be reached.
    Up,
    /// The daemon is in the ring.
    InRing {
        /// Addresses of the daemon.
        addresses: Vec<Address>,
    },
    /// The start failed.
    Failed(Failure),
}

/// The identity of a host. Two names of one host have the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct HostId(String);

impl HostId {
    /// The identity with this text; `None` if it is empty or longer than [`MAX_HOST_ID`].
    pub fn new(text: String) -> Option<Self> {
        (1..=MAX_HOST_ID).contains(&text.len()).then_some(Self(text))
    }
}

impl TryFrom<String> for HostId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(text).ok_or("the identity of a host is empty or too long")
    }
}

/// A secret text: wiped when dropped, and hidden from logs and error messages.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(pub Zeroizing<String>);

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

impl AgentRequest {
    /// The line, wiped when dropped.
    pub fn to_line(&self) -> Zeroizing<Vec<u8>> {
        // Large enough at the start, because growing would leave copies in memory.
        const ROOM: usize = 4096;
        const ROOM_PER_MEMBER: usize = 1024;
        let members = match &self.task {
            Task::Check { .. } => 0,
            Task::Boot(boot) => boot.hosts.len() + boot.keep.as_ref().map_or(0, Vec::len),
        };
        let mut line = Zeroizing::new(Vec::with_capacity(ROOM + members * ROOM_PER_MEMBER));
        // Strings and numbers can always be encoded, and a Vec accepts all bytes.
        let _ = serde_json::to_writer(&mut *line, self);
        line.push(b'\n');
        line
    }
}

impl Report {
    /// The line, with its newline.
    pub fn to_line(&self, nonce: &str) -> String {
        report_line(self, nonce)
    }

    /// Parses a line without its newline; `None` if the line is not a report.
    pub fn parse(line: &[u8], nonce: &str) -> Option<Self> {
        let json =
            line.strip_prefix(b"MPDBOOT-")?.strip_prefix(nonce.as_bytes())?.strip_prefix(b" ")?;
        serde_json::from_slice(json).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> AgentRequest {
        let member = Member {
            name: "h1".into(),
            host: "h1".into(),
            user: None,
            port: None,
            ifhn: None,
            ncpus: Some(4),
            gpus: None,
            max: None,
            speed: None,
            ordinal: Some(2),
            nth: 1,
        };
        let manner = Manner {
            ring: "blue".into(),
            rsh: vec!["ssh".into()],
            mpd: "/opt/mpd/bin/mpd".into(),
            listen: None,
            key_file: None,
            key_alone: false,
            timeout_s: 30,
            window: 32,
            flat: false,
            private: false,
            in_batch: false,
            waiting: None,
            alloc_hook: None,
            site: None,
        };
        let task = BootTask {
            key: SecretText(Zeroizing::new("ring blue\nc0ffee\n".into())),
            manner,
            member,
            join: vec![Address::new("10.0.0.1:7000").unwrap()],
            root: Some(Instance::from_bytes([0xab; 16])),
            running: Running::Refuse,
            waits: true,
            hosts: Vec::new(),
            keep: None,
        };
        AgentRequest { version: VERSION, nonce: "00ff".into(), task: Task::Boot(Box::new(task)) }
    }

    #[test]
    fn a_request_is_one_line_of_json_and_decodes_to_the_same_request() {
        let line = order().to_line();
        let text = str::from_utf8(&line).unwrap();
        assert_eq!(
            text,
            "{\"version\":7,\"nonce\":\"00ff\",\"task\":{\"boot\":{\"key\":\"ring blue\\nc0ffee\\n\",\
             \"manner\":{\"ring\":\"blue\",\"rsh\":[\"ssh\"],\"mpd\":\"/opt/mpd/bin/mpd\",\
             \"listen\":null,\"key_file\":null,\"key_alone\":false,\"timeout_s\":30,\"window\":32,\"flat\":false,\
             \"private\":false,\"in_batch\":false,\"waiting\":null,\"alloc_hook\":null},\
             \"member\":{\"name\":\"h1\",\"host\":\"h1\",\"user\":null,\"port\":null,\"ifhn\":null,\
             \"ncpus\":4,\"ordinal\":2,\"nth\":1},\"join\":[\"10.0.0.1:7000\"],\
             \"root\":\"abababababababababababababababab\",\"running\":\"refuse\",\"waits\":true,\"hosts\":[],\"keep\":null}}}\n"
        );
        assert_eq!(serde_json::from_str::<AgentRequest>(text).unwrap(), order());
    }

    #[test]
    fn the_debug_form_of_a_request_hides_its_key() {
        assert!(!format!("{:?}", order()).contains("c0ffee"));
    }

    #[test]
    fn a_line_is_a_report_only_with_its_nonce() {
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

    #[test]
    fn an_agent_reports_its_name_and_a_bounded_identity_of_its_host() {
        let reached = |text: &str| Report::Reached {
            name: "h1".into(),
            host_id: HostId::new(text.to_owned()),
        };
        let of_login = reached("b net:[1] pid:[2] h1");
        let line = of_login.to_line("ab");
        assert_eq!(
            line,
            "MPDBOOT-ab {\"reached\":{\"name\":\"h1\",\"host_id\":\"b net:[1] pid:[2] h1\"}}\n"
        );
        let parsed = |line: &str| Report::parse(line.trim_end().as_bytes(), "ab");
        assert_eq!(parsed(&line), Some(of_login));
        let other = reached("").to_line("ab");
        assert_eq!(other, "MPDBOOT-ab {\"reached\":{\"name\":\"h1\"}}\n");
        assert_eq!(parsed(&other), Some(reached("")));
        let long = line.replace("b net", &"b".repeat(MAX_HOST_ID));
        assert_eq!(parsed(&long), None);
    }
}
