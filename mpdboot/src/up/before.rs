//! Reads and checks all inputs before a process is started.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use mpd_io::ringname::RingName;
use mpd_io::rundir::host_name;
use mpd_io::search::{self, is_executable};
use mpd_io::{keyfile, thishost};
use mpd_placement::hosts::{HostEntry, MAX_FILE, parse_file, parse_list};
use mpd_wire::message::RingView;

use crate::cli::Cli;
use crate::roster::{Roster, RosterOptions, choose};
use crate::wire::Manner;

/// Default file of hosts.
const DEFAULT_FILE: &str = "mpd.hosts";

/// Larger ordinals were given by the ring, which puts a newcomer last.
const MAX_ORDINAL: u64 = 1 << 31;

pub(super) fn ring(cli: &Cli) -> Result<RingName> {
    Ok(RingName::resolve(cli.ring.as_deref())?)
}

/// The daemons of the `wanted` hosts, which do not include this one, or of the command line's
/// hosts.
pub(super) fn roster(cli: &Cli, wanted: Option<&[HostEntry]>) -> Result<Roster> {
    if let Some(hosts) = wanted {
        return Ok(choose(hosts, &RosterOptions::default(), &host_name(), |_| false)?);
    }
    let entries = entries(cli)?;
    let options = RosterOptions {
        total: cli.totalnum.map(|n| n as usize),
        several: cli.several,
        ncpus: cli.ncpus,
        ifhn: cli.ifhn.clone(),
        user: cli.user.clone(),
    };
    let here = host_name();
    let ours = thishost::names_of_this_host(&entries, &here);
    Ok(choose(&entries, &options, &here, |host| ours.contains(host))?)
}

fn entries(cli: &Cli) -> Result<Vec<HostEntry>> {
    if let Some(list) = &cli.hosts {
        return parse_list(list).context("--hosts");
    }
    let path = match (&cli.file, cli.totalnum.unwrap_or(1)) {
        (Some(path), _) => path.clone(),
        (None, 1) => return Ok(Vec::new()),
        (None, _) => PathBuf::from(DEFAULT_FILE),
    };
    let advice = || {
        let shown = path.display();
        format!(
            "{shown}: cannot read the list of hosts; name a file with -f, or hosts with --hosts"
        )
    };
    let mut text = Vec::new();
    let file = File::open(&path).with_context(advice)?;
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut text).with_context(advice)?;
    parse_file(&text).with_context(|| path.display().to_string())
}

pub(super) fn manner(cli: &Cli, ring: &RingName, roster: &Roster) -> Result<Manner> {
    let rsh: Vec<String> = cli.rsh.split_whitespace().map(str::to_owned).collect();
    let Some(shell) = rsh.first() else { bail!("--rsh: it is empty") };
    if !roster.others.is_empty() && !is_program(shell) {
        bail!(
            "cannot run '{shell}': there is no such program; install it, or name another with --rsh"
        );
    }
    let mpd = mpd(cli)?;
    let mpd = mpd.to_str().filter(|path| !path.contains(char::is_control));
    Ok(Manner {
        ring: ring.as_str().to_owned(),
        rsh,
        mpd: mpd.context("--mpd: the path has characters that no remote shell takes")?.to_owned(),
        listen: cli.port,
        key_file: keyfile::in_environment()
            .filter(|_| !cli.private)
            .and_then(|path| path.into_os_string().into_string().ok()),
        timeout_s: cli.timeout,
        window: cli.window,
        flat: cli.flat,
        private: cli.private,
    })
}

/// The absolute path of `mpd`.
fn mpd(cli: &Cli) -> Result<PathBuf> {
    let path = match &cli.mpd {
        Some(path) => std::path::absolute(path).context("--mpd")?,
        None => {
            std::env::current_exe().context("cannot find mpdboot itself")?.with_file_name("mpd")
        }
    };
    if !is_executable(&path) {
        bail!("{}: no such program; give its path with --mpd", path.display());
    }
    Ok(path)
}

fn is_program(name: &str) -> bool {
    if name.contains('/') {
        return is_executable(Path::new(name));
    }
    search::in_path(name).is_some()
}

/// Gives ordinals in the order of the list, after those of the existing ring.
pub(super) fn number(roster: &mut Roster, existing: Option<&RingView>) {
    let highest = existing.and_then(|view| view.members.iter().map(|m| m.ordinal).max());
    let first = match highest {
        None => {
            roster.local.ordinal = Some(1);
            2
        }
        Some(highest) if highest < MAX_ORDINAL => highest + 1,
        // The ring puts each newcomer last.
        Some(_) => return,
    };
    for (ordinal, member) in (first..).zip(&mut roster.others) {
        member.ordinal = Some(ordinal);
    }
}
