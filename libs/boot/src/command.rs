//! The command lines of the remote shell, the agent and the daemon. Pure.
//!
//! They never contain a secret, because every user of a host can read them.

use std::os::fd::RawFd;

use mpd_placement::hosts::{is_host_name, is_user_name};
use mpd_wire::{Address, Instance};

use crate::failure::Way;
use crate::wire::{Manner, Member};

/// ssh gives up a host after this silence, as interval in seconds and count.
const ALIVE: [&str; 4] = ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"];

/// Options for one process on each host that takes nothing from the allocation. The process gets all
/// CPUs and all memory, and other steps do not wait for it ([`SRUN_VARIABLE`]). All processes have the
/// input, and the end of one has no effect on the others.
const SRUN: [&str; 9] = [
    "--ntasks-per-node=1",
    "--mem=0",
    "--cpu-bind=none",
    "--mpi=none",
    "--input=all",
    "--output=all",
    "--error=all",
    "--kill-on-bad-exit=0",
    "--wait=0",
];

/// A variable instead of an option, because releases of srun that do not need it reject the option.
pub const SRUN_VARIABLE: (&str, &str) = ("SLURM_OVERLAP", "1");

/// A variable that would put numbers before the lines of reports.
pub const SRUN_LABELS: &str = "SLURM_LABELIO";

/// sshd sets this variable: address and port of the client, then those of the server.
pub const SSH_CONNECTION: &str = "SSH_CONNECTION";

/// The variable that tells a process of a Slurm step the name of its node.
pub const SLURM_NODE: &str = "SLURMD_NODENAME";

/// The command line that runs an agent on the host of `member`, and with Slurm on the `carried` hosts.
/// `None` if the names of hosts or of the user are invalid; their readers have refused such names before.
pub fn remote_shell(
    manner: &Manner,
    member: &Member,
    carried: &[Member],
    connect_s: u32,
) -> Option<Vec<String>> {
    if !is_host_name(&member.host) || !member.user.as_deref().is_none_or(is_user_name) {
        return None;
    }
    let mut arguments = manner.rsh.clone();
    if is_srun(manner) {
        let hosts: Vec<&str> =
            std::iter::once(member).chain(carried).map(|member| member.host.as_str()).collect();
        if !hosts.iter().all(|host| is_host_name(host)) {
            return None;
        }
        let count = hosts.len();
        arguments.extend([format!("--nodes={count}"), format!("--ntasks={count}")]);
        arguments.extend(SRUN.map(str::to_owned));
        arguments.push(format!("--nodelist={}", hosts.join(",")));
        arguments.extend(agent(manner, None));
        return Some(arguments);
    }
    let ssh = is_ssh(manner);
    if ssh {
        arguments.extend(["-x", "-T", "-o", "BatchMode=yes", "-o"].map(str::to_owned));
        arguments.push(format!("ConnectTimeout={connect_s}"));
        arguments.extend(ALIVE.map(str::to_owned));
        if let Some(port) = member.port {
            arguments.extend(["-p".to_owned(), port.to_string()]);
        }
    }
    if let Some(user) = &member.user {
        arguments.extend(["-l".to_owned(), user.clone()]);
    }
    if ssh {
        arguments.push("--".to_owned());
    }
    let command: Vec<String> =
        agent(manner, Some(member)).iter().map(|word| quoted(word)).collect();
    arguments.extend([member.host.clone(), command.join(" ")]);
    Some(arguments)
}

/// Whether the remote shell is ssh, judged by its name.
pub fn is_ssh(manner: &Manner) -> bool {
    program(manner) == Some("ssh")
}

/// Whether the remote shell is Slurm's, judged by its name.
fn is_srun(manner: &Manner) -> bool {
    program(manner) == Some("srun")
}

/// Whether the end of a command kills all processes that it started, as with Slurm. The agent then
/// runs as long as its daemon. Such a command runs agents on many hosts together.
pub fn kills_at_end(manner: &Manner) -> bool {
    is_srun(manner)
}

fn program(manner: &Manner) -> Option<&str> {
    manner.rsh.first()?.rsplit('/').next()
}

/// The way to the host of `member`, for hints.
pub fn way(manner: &Manner, member: &Member) -> Way {
    let mut rsh = manner.rsh.join(" ");
    let is_ssh = is_ssh(manner);
    if let Some(port) = member.port.filter(|_| is_ssh) {
        rsh.push_str(&format!(" -p {port}"));
    }
    if let Some(user) = &member.user {
        rsh.push_str(&format!(" -l {user}"));
    }
    Way { rsh, agent: manner.mpd.clone(), is_ssh }
}

/// The first argument of an agent.
pub const AGENT: &str = "--boot-agent";

/// The command line of an agent. The name of its `member` is for people: it tells them which daemon the
/// process becomes. The agents of a Slurm step have one command line and no name.
pub fn agent(manner: &Manner, member: Option<&Member>) -> Vec<String> {
    let mut arguments = vec![manner.mpd.clone(), AGENT.to_owned()];
    arguments.extend(member.into_iter().flat_map(|it| ["--name".to_owned(), it.name.clone()]));
    arguments
}

/// Quotes `text` for any Unix shell. An argument of a process has no NUL, which cannot be quoted.
fn quoted(text: &str) -> String {
    shlex::try_quote(text).unwrap_or_default().into_owned()
}

/// Paths and keys of a daemon that are not the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places<'a> {
    /// The run directory.
    pub rundir: Option<&'a str>,
    /// The recipe to start dead members again.
    pub keep: Option<&'a str>,
    /// In a private ring, the incarnation of its first daemon.
    pub launcher: Option<Instance>,
    /// The process whose end ends the daemon.
    pub holder: Option<u32>,
    /// The agent that runs the daemon; `None` for the daemon of the booting host.
    pub agent: Option<AgentPlaces<'a>>,
}

/// What an agent passes to its daemon.
#[derive(Clone, Copy, Debug)]
pub struct AgentPlaces<'a> {
    /// The prefix of report lines.
    pub nonce: &'a str,
    /// Whether the daemon waits for the list of members.
    pub waits: bool,
    /// The descriptor with the key, if the key is in no file.
    pub key: Option<RawFd>,
    /// Whether descriptor 3 takes the daemon's report that it is in the ring.
    pub reports: bool,
}

/// The command line that starts the daemon of `member`.
pub fn daemon(
    manner: &Manner,
    member: &Member,
    join: &[Address],
    places: Places<'_>,
) -> Vec<String> {
    let role = if places.agent.is_some() { "--agent" } else { "--daemon" };
    let mut arguments = vec![manner.mpd.clone(), role.to_owned()];
    if let Some(agent) = places.agent {
        arguments.extend(["--nonce".to_owned(), agent.nonce.to_owned()]);
        arguments.extend(agent.waits.then(|| "--waits".to_owned()));
        arguments.extend(agent.reports.then(|| "--report-ready".to_owned()));
        let key = agent.key.map(|fd| fd.to_string());
        arguments.extend(key.into_iter().flat_map(|fd| ["--key-descriptor".to_owned(), fd]));
    }
    let mut option = |name: &str, value: Option<String>| {
        arguments.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    };
    let join = join.iter().map(Address::as_str).collect::<Vec<_>>().join(",");
    option("--name", Some(member.name.clone()));
    option("--ring", Some(manner.ring.clone()).filter(|ring| !ring.is_empty()));
    option("--join", Some(join).filter(|join| !join.is_empty()));
    option("--ordinal", member.ordinal.map(|n| n.to_string()));
    option("--port", manner.listen.map(|n| n.to_string()));
    option("--ifhn", member.ifhn.clone());
    option("--ncpus", member.ncpus.map(|n| n.to_string()));
    option("--gpus", member.gpus.map(|n| n.to_string()));
    option("--max-slots", member.max.map(|n| n.to_string()));
    option("--speed", member.speed.map(|speed| format!("{}.{:02}", speed / 100, speed % 100)));
    option("--key", manner.key_file.clone().filter(|_| !manner.private));
    option("--waiting", manner.waiting.map(|n| n.to_string()));
    option("--alloc-hook", manner.alloc_hook.clone());
    option("--held-by", places.holder.map(|pid| pid.to_string()));
    option("--launched-by", places.launcher.map(|incarnation| incarnation.to_string()));
    if let Some(site) = &manner.site {
        option("--idle", Some(site.idle_s.to_string()));
        option("--first", Some(site.first.clone()).filter(|first| *first != member.name));
    }
    option("--rundir", places.rundir.map(str::to_owned));
    option("--keep", places.keep.map(str::to_owned));
    arguments.extend(manner.in_batch.then(|| "--in-batch".to_owned()));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::SiteTerms;

    fn member() -> Member {
        Member {
            name: "h7".into(),
            host: "h7".into(),
            user: None,
            port: None,
            ifhn: None,
            ncpus: None,
            gpus: None,
            max: None,
            speed: None,
            ordinal: None,
            nth: 1,
        }
    }

    fn manner(rsh: &[&str], mpd: &str) -> Manner {
        Manner {
            ring: String::new(),
            rsh: rsh.iter().map(|&word| word.to_owned()).collect(),
            mpd: mpd.into(),
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
        }
    }

    #[test]
    fn ssh_has_no_terminal_and_no_prompt_and_never_reads_a_host_as_an_option() {
        let arguments =
            remote_shell(&manner(&["ssh"], "/opt/bin/mpd"), &member(), &[], 10).unwrap();
        assert_eq!(
            arguments.join(" "),
            "ssh -x -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 \
             -o ServerAliveCountMax=3 -- h7 /opt/bin/mpd --boot-agent --name h7"
        );
        let member = Member { user: Some("al".into()), port: Some(22), ..member() };
        let arguments =
            remote_shell(&manner(&["/usr/bin/ssh", "-F", "x"], "/o/mpd"), &member, &[], 5);
        let arguments = arguments.unwrap().join(" ");
        assert!(arguments.starts_with("/usr/bin/ssh -F x -x -T"), "{arguments}");
        let end = " -p 22 -l al -- h7 /o/mpd --boot-agent --name h7";
        assert!(arguments.ends_with(end), "{arguments}");
    }

    #[test]
    fn hints_name_the_user_and_the_port() {
        let member = Member { user: Some("al".into()), port: Some(22), ..member() };
        assert_eq!(way(&manner(&["ssh", "-v"], "/m/mpd"), &member).rsh, "ssh -v -p 22 -l al");
        assert_eq!(way(&manner(&["rsh"], "/m/mpd"), &member).rsh, "rsh -l al");
    }

    #[test]
    fn other_remote_shells_get_host_and_command() {
        let arguments =
            remote_shell(&manner(&["rsh"], "/opt/bin/mpd"), &member(), &[], 10).unwrap();
        assert_eq!(arguments, ["rsh", "h7", "/opt/bin/mpd --boot-agent --name h7"]);
    }

    #[test]
    fn slurm_gets_arguments_and_no_shell() {
        let arguments =
            remote_shell(&manner(&["/bin/srun", "-Q"], "/my bin/mpd"), &member(), &[], 10).unwrap();
        assert_eq!(arguments[..2], ["/bin/srun", "-Q"]);
        assert_eq!(arguments[2..4], ["--nodes=1", "--ntasks=1"]);
        assert_eq!(arguments[13..], ["--nodelist=h7", "/my bin/mpd", "--boot-agent"]);
        let others = ["h8", "h9"].map(|host| Member { host: host.into(), ..member() });
        let arguments = remote_shell(&manner(&["srun"], "/mpd"), &member(), &others, 10).unwrap();
        assert_eq!(arguments[1..3], ["--nodes=3", "--ntasks=3"]);
        assert_eq!(arguments[12], "--nodelist=h7,h8,h9");
        let bad = Member { host: "a,b".into(), ..member() };
        assert_eq!(remote_shell(&manner(&["srun"], "/mpd"), &bad, &[], 10), None);
    }

    #[test]
    fn the_remote_command_is_quoted() {
        let arguments =
            remote_shell(&manner(&["rsh"], "/my $(x) it's/mpd"), &member(), &[], 10).unwrap();
        let words = ["/my $(x) it's/mpd", "--boot-agent", "--name", "h7"].map(str::to_owned);
        assert_eq!(shlex::split(&arguments[2]), Some(words.to_vec()));
        assert!(!arguments[2].contains("\"/my $(x)"), "a shell would run it: {}", arguments[2]);
    }

    #[test]
    fn a_host_or_user_that_could_be_an_option_has_no_command_line() {
        for bad in ["-oProxyCommand=x", "$(x)", "a;b", ""] {
            let host = Member { host: bad.into(), ..member() };
            let user = Member { user: Some(bad.into()), ..member() };
            assert_eq!(remote_shell(&manner(&["ssh"], "/mpd"), &host, &[], 10), None);
            assert_eq!(remote_shell(&manner(&["ssh"], "/mpd"), &user, &[], 10), None);
        }
    }

    #[test]
    fn a_daemon_gets_only_the_options_that_are_set() {
        let mut manner = manner(&["ssh"], "/opt/mpd");
        let plain = daemon(&manner, &member(), &[], Places::default());
        assert_eq!(plain.join(" "), "/opt/mpd --daemon --name h7");
        manner.ring = "blue".into();
        manner.listen = Some(7000);
        manner.key_file = Some("/k".into());
        let member = Member {
            ifhn: Some("ib7".into()),
            ncpus: Some(4),
            gpus: Some(2),
            max: Some(8),
            speed: Some(150),
            ordinal: Some(3),
            ..member()
        };
        let join = ["h1:1", "h2:2"].map(|text| Address::new(text).unwrap());
        let places = Places {
            rundir: Some("/r"),
            keep: Some("/r/keep.json"),
            holder: Some(77),
            ..Places::default()
        };
        (manner.waiting, manner.in_batch) = (Some(2), true);
        manner.alloc_hook = Some("/etc/hook".into());
        assert_eq!(
            daemon(&manner, &member, &join, places).join(" "),
            "/opt/mpd --daemon --name h7 --ring blue --join h1:1,h2:2 --ordinal 3 --port 7000 \
             --ifhn ib7 --ncpus 4 --gpus 2 --max-slots 8 --speed 1.50 --key /k --waiting 2 --alloc-hook /etc/hook --held-by 77 --rundir /r \
             --keep /r/keep.json --in-batch"
        );
        (manner.waiting, manner.in_batch, manner.alloc_hook) = (None, false, None);
        let terms = SiteTerms { first: "h7".into(), idle_s: 600 };
        let of_site = |first: &str| {
            let site = Some(SiteTerms { first: first.into(), ..terms.clone() });
            daemon(&Manner { site, ..manner.clone() }, &member, &[], Places::default()).join(" ")
        };
        assert!(of_site("h7").ends_with(" --speed 1.50 --key /k --idle 600"), "{}", of_site("h7"));
        assert!(of_site("h1").ends_with(" --idle 600 --first h1"), "{}", of_site("h1"));
        let agent = AgentPlaces { nonce: "00ff", waits: true, key: Some(4), reports: true };
        let agent = Some(agent);
        manner.private = true;
        assert_eq!(
            daemon(&manner, &member, &[], Places { agent, ..Places::default() }).join(" "),
            "/opt/mpd --agent --nonce 00ff --waits --report-ready --key-descriptor 4 --name h7 \
             --ring blue --ordinal 3 --port 7000 --ifhn ib7 --ncpus 4 --gpus 2 --max-slots 8 --speed 1.50"
        );
    }
}
