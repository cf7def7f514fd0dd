//! The words of the commands that are run: the remote shell, the agent behind it, the daemon. Pure.
//!
//! Nothing secret is ever among them: argument lists can be read by everybody on a host.

use mpd_io::keyfile::STANDARD_INPUT;
use mpd_placement::hosts::{is_host_name, is_user_name};
use mpd_wire::{Address, Instance};

use crate::failure::Way;
use crate::wire::{Manner, Member};

/// Silence after which ssh gives up a host that was reached, as interval and count.
const ALIVE: [&str; 4] = ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"];

/// One process on a host, which takes nothing from the allocation: it gets all CPUs and all memory there,
/// and other steps do not wait for it ([`SRUN_VARIABLE`]).
const SRUN: [&str; 5] = ["--nodes=1", "--ntasks=1", "--mem=0", "--cpu-bind=none", "--mpi=none"];

/// As a variable, because releases of srun that do not need it do not know the option.
pub(crate) const SRUN_VARIABLE: (&str, &str) = ("SLURM_OVERLAP", "1");

/// The words that run an agent on the host of `member`; none when host or user could be something
/// else than a name, which whoever read them has refused already.
pub(crate) fn remote_shell(
    manner: &Manner,
    member: &Member,
    connect_s: u32,
) -> Option<Vec<String>> {
    if !is_host_name(&member.host) || !member.user.as_deref().is_none_or(is_user_name) {
        return None;
    }
    let mut words = manner.rsh.clone();
    if is_srun(manner) {
        words.extend(SRUN.map(str::to_owned));
        words.extend([format!("--nodelist={}", member.host), agent(manner), "--agent".to_owned()]);
        return Some(words);
    }
    let ssh = is_ssh(manner);
    if ssh {
        words.extend(["-x", "-T", "-o", "BatchMode=yes", "-o"].map(str::to_owned));
        words.push(format!("ConnectTimeout={connect_s}"));
        words.extend(ALIVE.map(str::to_owned));
        if let Some(port) = member.port {
            words.extend(["-p".to_owned(), port.to_string()]);
        }
    }
    if let Some(user) = &member.user {
        words.extend(["-l".to_owned(), user.clone()]);
    }
    if ssh {
        words.push("--".to_owned());
    }
    words.extend([member.host.clone(), format!("{} --agent", quoted(&agent(manner)))]);
    Some(words)
}

/// Whether the remote shell is ssh, by its name.
pub(crate) fn is_ssh(manner: &Manner) -> bool {
    program(manner) == Some("ssh")
}

/// Whether it is Slurm's, by its name.
fn is_srun(manner: &Manner) -> bool {
    program(manner) == Some("srun")
}

/// Whether what a command has started is killed when the command ends, as Slurm does: then the agent stays
/// as long as its daemon.
pub(crate) fn kills_at_end(manner: &Manner) -> bool {
    is_srun(manner)
}

fn program(manner: &Manner) -> Option<&str> {
    manner.rsh.first()?.rsplit('/').next()
}

/// The way to the host of `member`, for hints.
pub(crate) fn way(manner: &Manner, member: &Member) -> Way {
    let mut rsh = manner.rsh.join(" ");
    let is_ssh = is_ssh(manner);
    if let Some(port) = member.port.filter(|_| is_ssh) {
        rsh.push_str(&format!(" -p {port}"));
    }
    if let Some(user) = &member.user {
        rsh.push_str(&format!(" -l {user}"));
    }
    Way { rsh, agent: agent(manner), is_ssh }
}

/// Path of the agent: `mpdboot` beside `mpd`.
pub(crate) fn agent(manner: &Manner) -> String {
    let directory = manner.mpd.rsplit_once('/').map_or("", |(directory, _)| directory);
    format!("{directory}/mpdboot")
}

/// The word of any shell that means `text`.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Where a daemon keeps what is its own, where that is not the default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places<'a> {
    pub(crate) rundir: Option<&'a str>,
    pub(crate) keep: Option<&'a str>,
    /// In a private ring the life of its first daemon. The key comes on standard input.
    pub(crate) launcher: Option<Instance>,
}

/// The words that start the daemon of `member`.
pub(crate) fn daemon(
    manner: &Manner,
    member: &Member,
    join: &[Address],
    places: Places<'_>,
) -> Vec<String> {
    let mut words = vec![manner.mpd.clone(), "--daemon".to_owned()];
    let mut option = |name: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    };
    let join = join.iter().map(Address::as_str).collect::<Vec<_>>().join(",");
    option("--name", Some(member.name.clone()));
    option("--ring", Some(manner.ring.clone()).filter(|ring| !ring.is_empty()));
    option("--join", Some(join).filter(|join| !join.is_empty()));
    option("--ordinal", member.ordinal.map(|n| n.to_string()));
    option("--port", manner.listen.map(|n| n.to_string()));
    option("--ifhn", member.ifhn.clone());
    option("--ncpus", member.ncpus.map(|n| n.to_string()));
    let key = places.launcher.map(|_| STANDARD_INPUT.to_owned());
    option("--key", key.or_else(|| manner.key_file.clone()));
    option("--launched-by", places.launcher.map(|life| life.to_string()));
    option("--rundir", places.rundir.map(str::to_owned));
    option("--keep", places.keep.map(str::to_owned));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        Member {
            name: "h7".into(),
            host: "h7".into(),
            user: None,
            port: None,
            ifhn: None,
            ncpus: None,
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
            timeout_s: 30,
            window: 32,
            flat: false,
            private: false,
        }
    }

    #[test]
    fn ssh_gets_no_terminal_asks_nothing_and_cannot_take_a_host_for_an_option() {
        let words = remote_shell(&manner(&["ssh"], "/opt/bin/mpd"), &member(), 10).unwrap();
        assert_eq!(
            words.join(" "),
            "ssh -x -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 \
             -o ServerAliveCountMax=3 -- h7 /opt/bin/mpdboot --agent"
        );
        let member = Member { user: Some("al".into()), port: Some(22), ..member() };
        let words = remote_shell(&manner(&["/usr/bin/ssh", "-F", "x"], "/o/mpd"), &member, 5);
        let words = words.unwrap().join(" ");
        assert!(words.starts_with("/usr/bin/ssh -F x -x -T"), "{words}");
        assert!(words.ends_with(" -p 22 -l al -- h7 /o/mpdboot --agent"), "{words}");
    }

    #[test]
    fn hints_name_the_user_and_the_port() {
        let member = Member { user: Some("al".into()), port: Some(22), ..member() };
        assert_eq!(way(&manner(&["ssh", "-v"], "/m/mpd"), &member).rsh, "ssh -v -p 22 -l al");
        assert_eq!(way(&manner(&["rsh"], "/m/mpd"), &member).rsh, "rsh -l al");
    }

    #[test]
    fn other_remote_shells_get_host_and_command() {
        let words = remote_shell(&manner(&["rsh"], "/opt/bin/mpd"), &member(), 10).unwrap();
        assert_eq!(words, ["rsh", "h7", "/opt/bin/mpdboot --agent"]);
    }

    #[test]
    fn slurm_gets_words_and_no_shell() {
        let words =
            remote_shell(&manner(&["/bin/srun", "-Q"], "/my bin/mpd"), &member(), 10).unwrap();
        assert_eq!(words[..2], ["/bin/srun", "-Q"]);
        assert_eq!(words[7..], ["--nodelist=h7", "/my bin/mpdboot", "--agent"]);
        let bad = Member { host: "a,b".into(), ..member() };
        assert_eq!(remote_shell(&manner(&["srun"], "/mpd"), &bad, 10), None);
    }

    #[test]
    fn the_remote_command_is_quoted() {
        let words = remote_shell(&manner(&["rsh"], "/my $(x) it's/mpd"), &member(), 10).unwrap();
        assert_eq!(words[2], "'/my $(x) it'\\''s/mpdboot' --agent");
    }

    #[test]
    fn a_host_or_user_that_could_be_an_option_has_no_words() {
        for bad in ["-oProxyCommand=x", "$(x)", "a;b", ""] {
            let host = Member { host: bad.into(), ..member() };
            let user = Member { user: Some(bad.into()), ..member() };
            assert_eq!(remote_shell(&manner(&["ssh"], "/mpd"), &host, 10), None);
            assert_eq!(remote_shell(&manner(&["ssh"], "/mpd"), &user, 10), None);
        }
    }

    #[test]
    fn a_daemon_gets_the_options_that_are_known_and_no_others() {
        let mut manner = manner(&["ssh"], "/opt/mpd");
        let plain = daemon(&manner, &member(), &[], Places::default());
        assert_eq!(plain.join(" "), "/opt/mpd --daemon --name h7");
        manner.ring = "blue".into();
        manner.listen = Some(7000);
        manner.key_file = Some("/k".into());
        let member =
            Member { ifhn: Some("ib7".into()), ncpus: Some(4), ordinal: Some(3), ..member() };
        let join = ["h1:1", "h2:2"].map(|text| Address::new(text).unwrap());
        let places = Places { rundir: Some("/r"), keep: Some("/r/keep.json"), launcher: None };
        assert_eq!(
            daemon(&manner, &member, &join, places).join(" "),
            "/opt/mpd --daemon --name h7 --ring blue --join h1:1,h2:2 --ordinal 3 --port 7000 \
             --ifhn ib7 --ncpus 4 --key /k --rundir /r --keep /r/keep.json"
        );
    }
}
