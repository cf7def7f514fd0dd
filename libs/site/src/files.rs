//! The files that make the starter, from the list of hosts and the keys of the hosts.
//!
//! The starter is a second sshd on a port of its own. It accepts only host-based authentication
//! (sshd_config(5), ssh-keysign(8)): a submit host proves by its host key that it is this host, and
//! its `ssh-keysign` proves the user. The command of each login is [`crate::starter`].

use serde::{Deserialize, Serialize};

use crate::VERSIONS;
use crate::hosts::{Site, SiteHost};

/// What a host reported about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Its name in the list.
    pub name: String,
    /// Further names by which it may present itself, such as the long one.
    pub names: Vec<String>,
    pub addresses: Vec<String>,
    /// Its public host keys: type and base64.
    pub keys: Vec<String>,
}

/// A file to write, with the owner root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteFile {
    pub path: String,
    pub content: String,
}

/// Lines in the marked part of a file that belongs to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedFile {
    pub path: &'static str,
    pub lines: Vec<String>,
}

/// sshd reads the names of hosts that may log users in only there (hosts.equiv(5)).
pub const SHOSTS: &str = "/etc/ssh/shosts.equiv";
/// sshd reads the keys of these hosts only there.
pub const KNOWN_HOSTS: &str = "/etc/ssh/ssh_known_hosts";
/// ssh-keysign reads only the global configuration, so this file is outside of the site's directory.
pub const KEYSIGN: &str = "/etc/ssh/ssh_config.d/mpd-suite.conf";
/// The program of the starter: a link to sshd, so that its PAM service is `mpd-sshd`.
pub const SSHD: &str = "/usr/lib/mpd-suite/mpd-sshd";
/// The command of each login, with the option `--site-starter`.
pub const STARTER: &str = "/usr/lib/mpd-suite/current/bin/mpd";

const HEADER: &str = "# Made by mpdsite from /etc/mpd/hosts. Changes are lost.\n";

/// The files of `host`, without the list of hosts and the policy. They contain no secret.
pub fn of_host(site: &Site, host: &SiteHost, facts: &[HostFacts]) -> Vec<SiteFile> {
    let file = |path: &str, content: String| SiteFile { path: path.to_owned(), content };
    vec![
        file("/etc/mpd/ssh_config", ssh_config(site)),
        file("/etc/mpd/known_hosts", known_hosts(site, facts).join("\n") + "\n"),
        file("/etc/mpd/sshd_config", sshd_config(site, host, facts)),
        file("/etc/mpd/mpd-suite-sshd.socket", socket(host)),
        file("/etc/mpd/mpd-suite-sshd@.service", SERVICE.to_owned()),
        file(KEYSIGN, format!("{HEADER}EnableSSHKeysign yes\n")),
    ]
}

/// The marked parts of the files that belong to others.
pub fn shared(site: &Site, facts: &[HostFacts]) -> Vec<SharedFile> {
    vec![
        SharedFile { path: SHOSTS, lines: submit_names(site, facts) },
        SharedFile { path: KNOWN_HOSTS, lines: known_hosts(site, facts) },
    ]
}

/// All names by which the submit hosts may present themselves. A line with a user would let that user log in as others.
fn submit_names(site: &Site, facts: &[HostFacts]) -> Vec<String> {
    site.submit_hosts().flat_map(|host| names(host, facts)).collect()
}

fn names(host: &SiteHost, facts: &[HostFacts]) -> Vec<String> {
    let mut names = vec![host.name().to_owned()];
    for name in facts.iter().filter(|it| it.name == host.name()).flat_map(|it| &it.names) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// One line for each key of each host: its names and addresses, also with the port of its starter.
fn known_hosts(site: &Site, facts: &[HostFacts]) -> Vec<String> {
    let mut lines = Vec::new();
    for host in site.hosts() {
        for told in facts.iter().filter(|it| it.name == host.name()) {
            let mut all = names(host, facts);
            all.extend(told.addresses.iter().cloned());
            let ports: Vec<String> =
                all.iter().map(|it| format!("[{it}]:{}", host.port())).collect();
            all.extend(ports);
            lines.extend(told.keys.iter().map(|key| format!("{} {key}", all.join(","))));
        }
    }
    lines
}

fn ssh_config(site: &Site) -> String {
    let mut text = HEADER.to_owned();
    for host in site.hosts() {
        text += &format!("Host {}\n    Port {}\n", host.name(), host.port());
    }
    text + "\
Host *
    EnableSSHKeysign yes
    HostbasedAuthentication yes
    PreferredAuthentications hostbased
    PubkeyAuthentication no
    PasswordAuthentication no
    KbdInteractiveAuthentication no
    GSSAPIAuthentication no
    # A start of many hosts is bound by the CPUs of this one. The hybrid key exchange takes a fifth of a login.
    KexAlgorithms ^curve25519-sha256
    GlobalKnownHostsFile /etc/mpd/known_hosts
    UserKnownHostsFile none
    StrictHostKeyChecking yes
    UpdateHostKeys no
    CheckHostIP no
    IdentityAgent none
    ControlMaster no
    ControlPath none
    ForwardAgent no
    ForwardX11 no
    ClearAllForwardings yes
    PermitLocalCommand no
    BatchMode yes
    LogLevel ERROR
"
}

fn sshd_config(site: &Site, host: &SiteHost, facts: &[HostFacts]) -> String {
    let mut from = submit_names(site, facts);
    for told in facts {
        if site.submit_hosts().any(|host| host.name() == told.name) {
            from.extend(told.addresses.iter().cloned());
        }
    }
    let users: Vec<String> = from.iter().map(|name| format!("*@{name}")).collect();
    format!(
        "{HEADER}\
Port {port}
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile none
UsePAM yes
UseDNS no
HostbasedAuthentication yes
HostbasedUsesNameFromPacketOnly yes
IgnoreRhosts yes
IgnoreUserKnownHosts yes
PubkeyAuthentication no
PasswordAuthentication no
KbdInteractiveAuthentication no
GSSAPIAuthentication no
KerberosAuthentication no
AuthenticationMethods hostbased
PermitRootLogin no
DisableForwarding yes
PermitTTY no
PermitUserRC no
PermitUserEnvironment no
PermitTunnel no
AcceptEnv none-of-the-client
PrintMotd no
PrintLastLog no
MaxAuthTries 6
LoginGraceTime 20
MaxStartups 256:30:1024
ClientAliveInterval 5
ClientAliveCountMax 3
AllowUsers {users}
ForceCommand exec {STARTER} --site-starter
",
        port = host.port(),
        users = users.join(" "),
    )
}

fn socket(host: &SiteHost) -> String {
    format!(
        "{HEADER}\
[Unit]
Description=Starter of the parallel jobs of this site's users (socket)

[Socket]
ListenStream={}
Accept=yes
MaxConnections=1024
MaxConnectionsPerSource=256
TriggerLimitIntervalSec=0

[Install]
WantedBy=sockets.target
",
        host.port()
    )
}

/// The process of a login becomes the user's daemon. It stays when sshd ends, in the group of this unit.
const SERVICE: &str = "\
# Made by mpdsite. Changes are lost.
[Unit]
Description=Starter of the parallel jobs of this site's users
CollectMode=inactive-or-failed

[Service]
ExecStart=-/usr/lib/mpd-suite/mpd-sshd -i -f /etc/mpd/sshd_config
StandardInput=socket
KillMode=process
Delegate=yes
TasksMax=infinity
LimitNOFILE=524288
OOMPolicy=continue
";

/// Whether `path` is below the directory of the installed versions.
pub fn is_installed(path: &str) -> bool {
    path.strip_prefix(VERSIONS).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> (Site, Vec<HostFacts>) {
        let site = Site::parse(b"h1 roles=submit,run\nh2 roles=run port=7123\n").unwrap();
        let report = |name: &str, address: &str| HostFacts {
            name: name.to_owned(),
            names: vec![name.to_owned(), format!("{name}.lab")],
            addresses: vec![address.to_owned()],
            keys: vec![format!("ssh-ed25519 KEY-{name}")],
        };
        (site, vec![report("h1", "10.0.0.1"), report("h2", "10.0.0.2")])
    }

    #[test]
    fn only_submit_hosts_may_log_users_in() {
        let (site, facts) = site();
        assert_eq!(shared(&site, &facts)[0].lines, ["h1", "h1.lab"]);
        let config = sshd_config(&site, &site.hosts()[1], &facts);
        assert!(config.contains("\nAllowUsers *@h1 *@h1.lab *@10.0.0.1\n"), "{config}");
        assert!(config.contains("\nPort 7123\n"), "{config}");
    }

    #[test]
    fn the_key_of_each_host_is_known_by_its_names_with_and_without_the_port() {
        let (site, facts) = site();
        assert_eq!(
            known_hosts(&site, &facts)[1],
            "h2,h2.lab,10.0.0.2,[h2]:7123,[h2.lab]:7123,[10.0.0.2]:7123 ssh-ed25519 KEY-h2"
        );
    }

    #[test]
    fn a_host_without_a_report_gets_no_key() {
        let (site, facts) = site();
        assert_eq!(known_hosts(&site, &facts[..1]).len(), 1);
        assert_eq!(shared(&site, &[])[0].lines, ["h1"]);
    }

    #[test]
    fn files_lie_in_the_directory_of_the_site_except_the_one_of_ssh_keysign() {
        let (site, facts) = site();
        let files = of_host(&site, &site.hosts()[0], &facts);
        let outside: Vec<_> = files.iter().filter(|it| !it.path.starts_with("/etc/mpd/")).collect();
        assert_eq!(outside.len(), 1);
        assert_eq!(outside[0].path, KEYSIGN);
    }
}
