//! What one host of the site gets, and its installation there.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use mpd_io::ring::rundir::replace;
use mpd_site::files::{self, HostFacts, KEYSIGN, KNOWN_HOSTS, SHOSTS};
use mpd_site::hosts::{Site, SiteHost};
use mpd_site::{DIRECTORY, HOSTS, block};
use serde::{Deserialize, Serialize};

use super::{ended, facts};
use crate::all_users::audit;
use crate::remote;

/// The files of one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// The name of the host in the list.
    pub host: String,
    /// Whether the administrator accepts that the other sshd accepts host-based logins.
    pub shared: bool,
    /// Paths and texts.
    pub files: Vec<(String, String)>,
    /// Files that belong to others, and the lines of their marked parts.
    pub marked: Vec<(String, Vec<String>)>,
    /// Hosts that the site no longer has.
    #[serde(default)]
    pub removed: Vec<String>,
}

impl Bundle {
    /// What `host` gets. `own` are the texts of the list and of the policy, by path.
    pub fn new(
        site: &Site,
        host: &SiteHost,
        facts: &[HostFacts],
        own: &[(String, String)],
        shared: bool,
    ) -> Self {
        let made =
            files::of_host(site, host, facts).into_iter().map(|file| (file.path, file.content));
        let marked =
            files::shared(site, facts).into_iter().map(|file| (file.path.to_owned(), file.lines));
        Self {
            host: host.name().to_owned(),
            shared,
            files: own.iter().cloned().chain(made).collect(),
            marked: marked.collect(),
            removed: Vec::new(),
        }
    }

    /// What is written outside of the site's directory, for people.
    pub fn outside(&self) -> Vec<String> {
        let files = self.files.iter().filter(|(path, _)| !path.starts_with(DIRECTORY));
        let files = files.map(|(path, _)| path.clone());
        let marked = self.marked.iter();
        files
            .chain(marked.map(|(path, lines)| format!("{path} ({} marked lines)", lines.len())))
            .collect()
    }

    /// Writes the files of this host and starts its starter.
    ///
    /// # Errors
    /// When the other sshd of this host accepts host-based logins and `shared` is not set, a path is none of the
    /// site's, or a file cannot be written. Files that were written before stay.
    pub fn install(&self) -> Result<()> {
        let is_ours = |path: &str| path == KEYSIGN || is_in_directory(path);
        if let Some((path, _)) = self.files.iter().find(|(path, _)| !is_ours(path)) {
            bail!("{path} is no file of a site");
        }
        for path in self.marked.iter().map(|(path, _)| path.as_str()) {
            if path != SHOSTS && path != KNOWN_HOSTS {
                bail!("{path} is no file with marked lines of a site");
            }
        }
        if !self.shared && facts::hostbased() != Some(false) {
            bail!(
                "the other sshd of this host accepts host-based logins, or cannot be asked (sshd -T). With \
                 'mpdsite init --shared', the submit hosts may log in there too"
            );
        }
        for (path, text) in &self.files {
            write(path, text)?;
        }
        for (path, lines) in &self.marked {
            mark(path, lines)?;
        }
        activate()?;
        for line in ended::end_rings_with(&self.removed) {
            audit(&line)?;
        }
        Ok(())
    }
}

fn is_in_directory(path: &str) -> bool {
    let name = path.strip_prefix(DIRECTORY).and_then(|rest| rest.strip_prefix('/'));
    name.is_some_and(|name| !name.contains('/') && name != "." && name != "..")
}

/// Removes everything that [`Bundle::install`] wrote here, and ends the starter.
///
/// # Errors
/// When a file cannot be removed. The other files go nevertheless.
pub fn remove() -> Result<()> {
    let mut failed = Vec::new();
    if is_under_systemd() {
        let socket = ["disable", "--now", "mpd-suite-sshd.socket"];
        let template = ["disable", "mpd-suite-sshd@.service"];
        for line in [&socket[..], &template, &["daemon-reload"]] {
            systemctl(line).unwrap_or_else(|e| failed.push(e.to_string()));
        }
    }
    for path in [SHOSTS, KNOWN_HOSTS] {
        mark(path, &[]).unwrap_or_else(|e| failed.push(format!("{e:#}")));
    }
    let made = [
        "ssh_config",
        "known_hosts",
        "sshd_config",
        "mpd-suite-sshd.socket",
        "mpd-suite-sshd@.service",
        "facts.json",
    ];
    let made = made.map(|name| format!("{DIRECTORY}/{name}"));
    for path in made.iter().map(String::as_str).chain([HOSTS, KEYSIGN]) {
        match fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => failed.push(format!("{path}: {e}")),
            _ => {}
        }
    }
    // The administrator may have further files there.
    let _ = fs::remove_dir(DIRECTORY);
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("; ")) }
}

/// Writes a file that all may read.
///
/// # Errors
/// With the path.
pub fn write(path: &str, text: &str) -> Result<()> {
    if let Some(parent) = Path::new(path).parent() {
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    replace(Path::new(path), text.as_bytes()).with_context(|| path.to_owned())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).with_context(|| path.to_owned())
}

/// Replaces the marked lines of a file. An empty file that is left is removed.
fn mark(path: &str, lines: &[String]) -> Result<()> {
    let text = match fs::read_to_string(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
        read => read.with_context(|| path.to_owned())?,
    };
    let new = block::replaced(&text, lines).with_context(|| path.to_owned())?;
    match new.is_empty() {
        true if text.is_empty() => Ok(()),
        true => fs::remove_file(path).with_context(|| path.to_owned()),
        false => write(path, &new),
    }
}

fn is_under_systemd() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// Has systemd listen for the starter. Without systemd, the administrator's own supervisor does.
fn activate() -> Result<()> {
    if !is_under_systemd() {
        return Ok(());
    }
    systemctl(&["enable", "/etc/mpd/mpd-suite-sshd@.service", "/etc/mpd/mpd-suite-sshd.socket"])?;
    systemctl(&["daemon-reload"])?;
    // Another port needs a new socket.
    systemctl(&["restart", "mpd-suite-sshd.socket"])
}

fn systemctl(arguments: &[&str]) -> Result<()> {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
    let line: Vec<String> =
        ["systemctl"].iter().chain(arguments).map(|&word| word.to_owned()).collect();
    let ended = remote::run(&line, PATIENCE).map_err(anyhow::Error::msg)?;
    if !ended.status.success() {
        bail!("{}: {}", line.join(" "), ended.err.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_outside_of_the_site_is_refused_before_anything_is_written() {
        for path in
            ["/etc/passwd", "/etc/mpd/../passwd", "/etc/mpd/x/y", "/etc/mpdx", "/etc/mpd/.."]
        {
            let bundle = Bundle {
                host: "h1".to_owned(),
                shared: true,
                files: vec![(path.to_owned(), String::new())],
                marked: Vec::new(),
                removed: Vec::new(),
            };
            assert!(
                bundle.install().unwrap_err().to_string().contains("no file of a site"),
                "{path}"
            );
        }
        let bundle = Bundle {
            host: "h1".to_owned(),
            shared: true,
            files: Vec::new(),
            marked: vec![("/etc/passwd".to_owned(), Vec::new())],
            removed: Vec::new(),
        };
        assert!(bundle.install().is_err());
    }
}
