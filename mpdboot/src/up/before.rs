//! Reads and checks all inputs before a process is started.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use mpd_boot::command;
use mpd_boot::wire::Manner;
use mpd_io::files::key_file;
use mpd_io::files::trust;
use mpd_io::host::this_host;
use mpd_io::process::identity;
use mpd_io::process::search::{self, is_executable};
use mpd_io::ring::ring_name::RingName;
use mpd_io::ring::rundir::host_name;
use mpd_placement::allocation::{self, Sources};
use mpd_placement::hosts::accounts;
use mpd_placement::hosts::{HostEntry, MAX_FILE, parse_file, parse_list};
use mpd_wire::message::RingView;

use crate::cli::Cli;
use crate::roster::{Roster, RosterOptions, choose};

/// Default file of hosts.
const DEFAULT_FILE: &str = "mpd.hosts";

/// Larger ordinals were given by the ring, which puts a newcomer last.
const MAX_ORDINAL: u64 = 1 << 31;

pub(super) fn ring(cli: &Cli) -> Result<RingName> {
    Ok(RingName::resolve(cli.ring.as_deref())?)
}

/// The hosts of the batch job that contains this process; empty outside of one.
#[derive(Debug, Default)]
pub(super) struct Allocation {
    hosts: Vec<HostEntry>,
    /// The names of this host in it.
    here: BTreeSet<String>,
    is_slurm: bool,
    /// In a heterogeneous job of Slurm, srun starts nothing on the hosts of further components.
    has_components: bool,
}

impl Allocation {
    /// # Errors
    /// The variables or files of the batch system are not valid, and the command line names no hosts.
    pub(super) fn find(cli: &Cli) -> Result<Self> {
        if cli.private {
            return Ok(Self::default());
        }
        let variable = |name: &str| {
            let value = std::env::var_os(name)?;
            Some(value.into_string().unwrap_or_else(|_| "?".to_owned()))
        };
        let file = |path: &str| {
            let text = File::open(path).and_then(|file| read(&file));
            let text = text.map_err(|e| format!("{path}: cannot read it: {e}"))?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        let found = allocation::find(&Sources { variable: &variable, file: &file });
        let hosts = match found {
            Err(_) if cli.hosts.is_some() || cli.file.is_some() => None,
            found => found.context("name the hosts with -f or --hosts, or unset the variable")?,
        };
        let entry = |host: mpd_wire::job::HostChoice| HostEntry::named(host.name, host.slots);
        let hosts: Vec<HostEntry> = hosts.into_iter().flatten().map(entry).collect();
        let here = this_host::names_of_this_host(&hosts, &host_name());
        let is_slurm = allocation::is_slurm(&variable);
        let has_components = allocation::has_components(&variable);
        Ok(Self { hosts, here, is_slurm, has_components })
    }

    /// The name that the batch system gives this host, if it is one of its hosts.
    pub(super) fn own_name(&self) -> Option<&str> {
        self.hosts.iter().map(|entry| entry.host.as_str()).find(|host| self.here.contains(*host))
    }

    fn has(&self, host: &str) -> bool {
        self.hosts.iter().any(|entry| entry.host == host)
    }
}

/// The daemons of the `wanted` hosts, which do not include this one, or of the command line's
/// hosts.
pub(super) fn roster(
    cli: &Cli,
    wanted: Option<&[HostEntry]>,
    allocation: &Allocation,
) -> Result<Roster> {
    if let Some(hosts) = wanted {
        return Ok(choose(hosts, &RosterOptions::default(), &host_name(), |_| false)?);
    }
    let entries = entries(cli, allocation)?;
    let options = RosterOptions {
        total: cli.totalnum.map(|n| n as usize),
        several: cli.several,
        ncpus: cli.ncpus,
        ifhn: cli.ifhn.clone(),
        user: cli.user.clone(),
    };
    let here = host_name();
    let ours = this_host::names_of_this_host(&entries, &here);
    Ok(choose(&entries, &options, &here, |host| ours.contains(host))?)
}

fn entries(cli: &Cli, allocation: &Allocation) -> Result<Vec<HostEntry>> {
    if let Some(list) = &cli.hosts {
        return parse_list(list).context("--hosts");
    }
    if cli.file.is_none() && !allocation.hosts.is_empty() {
        return Ok(allocation.hosts.clone());
    }
    match (&cli.file, cli.totalnum.unwrap_or(1)) {
        (Some(path), _) => entries_of(cli, path, Origin::Named),
        (None, 1) => Ok(Vec::new()),
        (None, _) => entries_of(cli, Path::new(DEFAULT_FILE), Origin::Found),
    }
}

/// How a file of hosts came to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The user named it.
    Named,
    /// It is in the current directory.
    Found,
}

/// The hosts of a file. Another user could have left a file in the directory, or could exchange it; its hosts and
/// accounts would get the key of the ring.
fn entries_of(cli: &Cli, path: &Path, origin: Origin) -> Result<Vec<HostEntry>> {
    const OTHERWISE: &str = "name a file with -f, or hosts with --hosts";
    let shown = path.display();
    let cannot = || format!("{shown}: cannot read the list of hosts; {OTHERWISE}");
    let file = File::open(path).with_context(cannot)?;
    if origin == Origin::Found
        && let Some(doubt) = trust::doubt_content(&file, path).with_context(cannot)?
    {
        bail!("./{shown} {doubt}: ignored; {OTHERWISE}");
    }
    let text = read(&file).with_context(cannot)?;
    let entries = parse_file(&text).with_context(|| shown.to_string())?;
    let foreign = accounts::first_foreign(&entries, &identity::own_account(), &cli.allow_user);
    let Some((host, user)) = foreign else { return Ok(entries) };
    let advice = accounts::advice(host, user);
    match origin {
        Origin::Found => bail!("./{shown}: {advice}, or name the file with -f"),
        Origin::Named => match trust::doubt_place(&file, path).with_context(cannot)? {
            Some(doubt) => bail!("{shown} {doubt}. {advice}"),
            None => Ok(entries),
        },
    }
}

/// Reads a file of hosts, and one byte more than such a file may have.
fn read(file: &File) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// The remote shell: srun reaches the hosts of a Slurm job, and no others.
fn remote_shell<'a>(cli: &'a Cli, roster: &Roster, allocation: &Allocation) -> &'a str {
    if let Some(rsh) = &cli.rsh {
        return rsh;
    }
    let reaches_all = roster.others.iter().all(|member| allocation.has(&member.host));
    let reaches_all = reaches_all && !allocation.has_components;
    let by_slurm = allocation.is_slurm && reaches_all && search::in_path("srun").is_some();
    if by_slurm { "srun" } else { "ssh" }
}

pub(super) fn manner(
    cli: &Cli,
    ring: &RingName,
    roster: &Roster,
    allocation: &Allocation,
) -> Result<Manner> {
    let rsh = remote_shell(cli, roster, allocation);
    let rsh: Vec<String> = rsh.split_whitespace().map(str::to_owned).collect();
    let Some(shell) = rsh.first() else { bail!("--rsh: it is empty") };
    if !roster.others.is_empty() && !is_program(shell) {
        bail!(
            "cannot run '{shell}': there is no such program; install it, or name another with --rsh"
        );
    }
    let mpd = mpd(cli)?;
    let mpd = mpd.to_str().filter(|path| !path.contains(char::is_control));
    let mut manner = Manner {
        ring: ring.as_str().to_owned(),
        rsh,
        mpd: mpd.context("--mpd: the path has characters that no remote shell takes")?.to_owned(),
        listen: cli.port,
        key_file: key_file::in_environment()
            .filter(|_| !cli.private)
            .and_then(|path| path.into_os_string().into_string().ok()),
        key_alone: false,
        timeout_s: cli.timeout,
        window: cli.window,
        flat: cli.flat,
        private: cli.private,
        in_batch: false,
        waiting: cli.waiting,
        alloc_hook: alloc_hook(cli)?,
        site: None,
    };
    manner.in_batch = allocation.is_slurm && command::kills_at_end(&manner);
    Ok(manner)
}

/// The absolute path of the program that sees each request for slots.
fn alloc_hook(cli: &Cli) -> Result<Option<String>> {
    let Some(path) = &cli.alloc_hook else { return Ok(None) };
    let path = std::path::absolute(path).context("--alloc-hook")?;
    let path = path.to_str().filter(|path| !path.contains(char::is_control));
    let path = path.context("--alloc-hook: the path has characters that no remote shell takes")?;
    Ok(Some(path.to_owned()))
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
