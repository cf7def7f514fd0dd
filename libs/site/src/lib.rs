//! A site: hosts on which every user may start jobs without ssh keys of his own.
//!
//! **Purpose.** The administrator writes one list of hosts, `/etc/mpd/hosts`. From it follow the
//! configuration files of a second sshd on each host, the *starter*. The starter logs users of the
//! site's submit hosts in by the keys of these hosts, and runs nothing but the boot agent.
//!
//! **Users.** `mpdsite` writes, distributes and checks the files. `mpirun` and `mpdboot` read the
//! list. The starter's command (`mpd --site-starter`) checks what it was asked to run.
//!
//! **Must not know.** Files, processes and names of this host: callers give and take texts.
//!
//! | module | subject |
//! |---|---|
//! | `hosts` | the list of hosts with their roles |
//! | `files` | the files that make the starter |
//! | `block` | the marked part of a file that belongs to others |
//! | `starter` | the only command that the starter runs |
//! | `version` | versions of the suite that are installed side by side |
//! | `policy` | the rules of the site: `/etc/mpd/policy.toml` |
//! | `compare` | the facts of hosts, and what differs |
#![forbid(unsafe_code)]

pub mod block;
pub mod compare;
pub mod files;
pub mod hosts;
pub mod policy;
pub mod starter;
pub mod version;

/// The directory of the site's files, the same on all hosts.
pub const DIRECTORY: &str = "/etc/mpd";

/// The list of hosts.
pub const HOSTS: &str = "/etc/mpd/hosts";

/// The configuration of ssh on the way to a starter.
pub const SSH_CONFIG: &str = "/etc/mpd/ssh_config";

/// The rules of the site. Without this file, the defaults of [`policy::Policy`] hold.
pub const POLICY: &str = "/etc/mpd/policy.toml";

/// The directory with one directory for each installed version.
pub const VERSIONS: &str = "/usr/lib/mpd-suite";

/// The link to the directory of the newest installed version.
pub const CURRENT: &str = "/usr/lib/mpd-suite/current";
