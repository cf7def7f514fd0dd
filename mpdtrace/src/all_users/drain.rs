//! `mpddrain --all-users`: root's mark, which the daemons of all users obey.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use mpd_io::host::drain_mark::{PATH, WHILE_ACTIVE, is_active};
use mpd_io::parallel;
use mpd_io::ring::rundir::{host_name, replace};
use mpd_io::ring::site;
use nix::unistd::geteuid;

use super::{AllUsers, PATIENCE, WIDTH, audit, root_shell};
use crate::tool;

/// Drains these hosts for all users, or ends that.
///
/// # Errors
/// This user is not root, a name is not valid, or a mark cannot be written.
pub fn drain(hosts: &[String], all: &AllUsers, undo: bool, while_active: bool) -> Result<ExitCode> {
    if !geteuid().is_root() {
        bail!("--all-users is for root; without it, you drain hosts of your own ring");
    }
    let mut names = Vec::new();
    for text in hosts {
        names.extend(mpd_placement::hosts::expand_names(text)?);
    }
    let here = site::load()?.map_or_else(host_name, |this| this.here);
    let is_here = |name: &String| all.here || *name == here || name == "localmpd";
    let (ours, others): (Vec<String>, Vec<String>) = names.into_iter().partition(is_here);
    let mut failed = false;
    if !ours.is_empty() {
        mark(undo, while_active)?;
    }
    let program = tool::path_elsewhere("mpddrain")?;
    let mut options = vec!["--all-users".to_owned(), "--here".to_owned()];
    options.extend(undo.then(|| "--undo".to_owned()));
    options.extend(while_active.then(|| "--while-active".to_owned()));
    let results = parallel::each(&others, WIDTH, |host| {
        let line: Vec<String> =
            [program.clone(), host.clone()].into_iter().chain(options.iter().cloned()).collect();
        root_shell().output(host, &line, PATIENCE)
    });
    for (host, result) in others.iter().zip(results) {
        if let Err(problem) = result {
            failed = true;
            tool::warn("mpddrain", &format!("{host}: {problem}"));
        }
    }
    Ok(tool::code(failed))
}

/// Sets or removes the mark of this host.
fn mark(undo: bool, while_active: bool) -> Result<()> {
    if undo {
        match fs::remove_file(PATH) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).context(PATH),
            Ok(()) | Err(_) => return audit("mpddrain --undo for all users: done"),
        }
    }
    if while_active {
        is_active()
            .context("whether a session is active here is unknown: systemd-logind does not run")?;
    }
    if let Some(parent) = Path::new(PATH).parent() {
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    let text = if while_active { WHILE_ACTIVE } else { "always\n" };
    replace(Path::new(PATH), text.as_bytes()).context(PATH)?;
    fs::set_permissions(PATH, fs::Permissions::from_mode(0o644)).context(PATH)?;
    audit(&format!("mpddrain for all users, {}: done", text.trim_end()))
}
