//! The list of hosts: `/etc/mpd/hosts`.
//!
//! ```text
//! # a comment, to the end of the line
//! HOST[:NCPUS] [roles=submit,run,serve] [slots=NCPUS] [max_slots=N] [gpus=N] [speed=X] [ifhn=NAME] [port=N]
//! ```
//!
//! A line is one of a host file ([`mpd_placement::hosts`]) with one more key. `roles` is `run` if
//! it is not given. `port` is the port of the starter.

use mpd_placement::hosts::{HostEntry, InvalidHosts, parse_file};

/// The port of a starter, unless its line has another.
pub const PORT: u16 = 7122;

/// Most bytes of the list.
pub const MAX_FILE: usize = 1 << 20;

/// What a host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Roles {
    /// Its users may start jobs: it may log in at the starters of all hosts.
    pub submit: bool,
    /// It runs processes of jobs.
    pub run: bool,
    /// It may give out the slots of the site.
    pub serve: bool,
}

/// A host of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteHost {
    /// Its name, slots, GPUs and speed. It has no user.
    pub entry: HostEntry,
    pub roles: Roles,
}

impl SiteHost {
    pub fn name(&self) -> &str {
        &self.entry.host
    }

    /// The port of its starter.
    pub fn port(&self) -> u16 {
        self.entry.port.unwrap_or(PORT)
    }
}

/// The hosts of a site, in the order of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    hosts: Vec<SiteHost>,
}

/// The list cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSite {
    #[error("it has more than {MAX_FILE} bytes")]
    TooLong,
    #[error("{0}")]
    Hosts(#[from] InvalidHosts),
    #[error("line {line}: roles={given}: valid are submit, run and serve, separated by commas")]
    Role { line: usize, given: String },
    #[error("line {line}: roles is given twice")]
    RolesTwice { line: usize },
    #[error("line {line}: {host} has a user, but each user of the site logs in as himself")]
    User { line: usize, host: String },
    #[error("line {line}: {host} is in the list already, in line {first}")]
    Duplicate { line: usize, host: String, first: usize },
    #[error("no host has the role submit, so no user could start a job")]
    NoSubmitHost,
}

impl Site {
    /// Reads the text of the list.
    ///
    /// # Errors
    /// [`InvalidSite`], with the number of the line where one is wrong.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidSite> {
        if text.len() > MAX_FILE {
            return Err(InvalidSite::TooLong);
        }
        let mut hosts: Vec<(usize, SiteHost)> = Vec::new();
        let lines = text.split(|&byte| byte == b'\n').map(String::from_utf8_lossy);
        for (line, content) in (1..).zip(lines) {
            let content = content.split('#').next().unwrap_or_default();
            if content.trim().is_empty() {
                continue;
            }
            let (rest, roles) = take_roles(line, content)?;
            let entries = parse_file(rest.as_bytes());
            for entry in entries.map_err(|e| InvalidHosts { line: Some(line), ..e })? {
                if entry.user.is_some() {
                    return Err(InvalidSite::User { line, host: entry.host });
                }
                if let Some((first, _)) = hosts.iter().find(|(_, it)| it.entry.host == entry.host) {
                    return Err(InvalidSite::Duplicate { line, host: entry.host, first: *first });
                }
                hosts.push((line, SiteHost { entry, roles }));
            }
        }
        let site = Self { hosts: hosts.into_iter().map(|(_, host)| host).collect() };
        if !site.hosts.iter().any(|host| host.roles.submit) {
            return Err(InvalidSite::NoSubmitHost);
        }
        Ok(site)
    }

    pub fn hosts(&self) -> &[SiteHost] {
        &self.hosts
    }

    /// The hosts whose users may start jobs.
    pub fn submit_hosts(&self) -> impl Iterator<Item = &SiteHost> {
        self.hosts.iter().filter(|host| host.roles.submit)
    }

    /// The hosts that run processes of jobs.
    pub fn run_hosts(&self) -> impl Iterator<Item = &SiteHost> {
        self.hosts.iter().filter(|host| host.roles.run)
    }

    /// The host that one of these names means, in this order.
    pub fn find<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<&SiteHost> {
        names.into_iter().find_map(|name| self.hosts.iter().find(|host| host.name() == name))
    }
}

/// A line without its key `roles`, and the roles.
fn take_roles(line: usize, content: &str) -> Result<(String, Roles), InvalidSite> {
    let mut roles = None;
    let mut rest = Vec::new();
    for word in content.split_whitespace() {
        match word.strip_prefix("roles=") {
            Some(given) => {
                if roles.replace(parse_roles(line, given)?).is_some() {
                    return Err(InvalidSite::RolesTwice { line });
                }
            }
            None => rest.push(word),
        }
    }
    Ok((rest.join(" "), roles.unwrap_or(Roles { run: true, ..Roles::default() })))
}

fn parse_roles(line: usize, given: &str) -> Result<Roles, InvalidSite> {
    let mut roles = Roles::default();
    for role in given.split(',') {
        match role {
            "submit" => roles.submit = true,
            "run" => roles.run = true,
            "serve" => roles.serve = true,
            _ => {
                return Err(InvalidSite::Role {
                    line,
                    given: given.escape_default().take(64).collect(),
                });
            }
        }
    }
    Ok(roles)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: Result<Site, InvalidSite>) -> String {
        result.map_or_else(|e| e.to_string(), |site| format!("{} hosts", site.hosts.len()))
    }

    #[test]
    fn a_host_runs_processes_unless_its_roles_say_otherwise() {
        let site = Site::parse(
            b"# the lab\nh1:8 roles=submit,run port=22\nh[2-3] gpus=2\nold roles=serve\n",
        )
        .unwrap();
        let names =
            |hosts: Vec<&SiteHost>| hosts.iter().map(|it| it.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(site.submit_hosts().collect()), ["h1"]);
        assert_eq!(names(site.run_hosts().collect()), ["h1", "h2", "h3"]);
        assert_eq!(
            site.hosts().iter().map(SiteHost::port).collect::<Vec<_>>(),
            [22, PORT, PORT, PORT]
        );
        assert_eq!(site.hosts()[2].entry.gpus, Some(2));
        assert!(site.hosts()[3].roles.serve);
    }

    #[test]
    fn an_error_names_its_line() {
        assert_eq!(
            text(Site::parse(b"h1 roles=submit\n\nh2 root=1\n")).split(':').next(),
            Some("line 3")
        );
        assert_eq!(
            text(Site::parse(b"h1 roles=run,boss\n")),
            "line 1: roles=run,boss: valid are submit, run and serve, separated by commas"
        );
        assert_eq!(text(Site::parse(b"h1 roles=run roles=run\n")), "line 1: roles is given twice");
        assert_eq!(
            text(Site::parse(b"h1 roles=submit\nbob@h2\n")),
            "line 2: h2 has a user, but each user of the site logs in as himself"
        );
        assert_eq!(
            text(Site::parse(b"h[1-2] roles=submit\nh2\n")),
            "line 2: h2 is in the list already, in line 1"
        );
    }

    #[test]
    fn a_site_needs_a_host_that_submits() {
        assert_eq!(
            text(Site::parse(b"h1\nh2\n")),
            "no host has the role submit, so no user could start a job"
        );
        assert_eq!(
            text(Site::parse(b"")),
            "no host has the role submit, so no user could start a job"
        );
    }
}
