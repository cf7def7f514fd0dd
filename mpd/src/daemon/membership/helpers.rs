//! The helpers `mpdboot --revive`, which start lost members again. They are children of this process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mpd_io::process::spawn::{Extra, Spawn, own_environment};
use mpd_wire::{Address, DaemonName};
use nix::unistd::Pid;
use serde::Deserialize;

/// The plan of `mpdboot`, as far as this daemon reads it. The helper gets the whole file.
#[derive(Debug, Deserialize)]
struct Plan {
    hosts: Vec<PlannedHost>,
}

#[derive(Debug, Deserialize)]
struct PlannedHost {
    name: String,
}

/// The plan, and the helpers that run.
#[derive(Debug)]
pub(super) struct Helpers {
    plan: PathBuf,
    running: BTreeMap<DaemonName, Pid>,
}

impl Helpers {
    /// Reads the plan. Also returns the names of its members.
    pub(super) fn open(plan: &Path) -> Result<(Self, BTreeSet<String>)> {
        let failed = || format!("--keep {}", plan.display());
        let text = fs::read(plan).with_context(failed)?;
        let read: Plan = serde_json::from_slice(&text).with_context(failed)?;
        // The daemon changes to / later.
        let plan = std::path::absolute(plan).with_context(failed)?;
        let names = read.hosts.into_iter().map(|host| host.name).collect();
        Ok((Self { plan, running: BTreeMap::new() }, names))
    }

    /// Starts the helper for a member, which enters through `entries`.
    pub(super) fn start(&mut self, member: &DaemonName, entries: &[Address]) -> Result<Pid> {
        let pid = revive(member, &self.plan, entries)?;
        self.running.insert(member.clone(), pid);
        Ok(pid)
    }

    /// Removes the helpers that have ended. Returns their members.
    pub(super) fn ended(&mut self, is_running: impl Fn(Pid) -> bool) -> Vec<DaemonName> {
        self.running.extract_if(.., |_, pid| !is_running(*pid)).map(|(name, _)| name).collect()
    }
}

fn revive(name: &DaemonName, plan: &Path, entries: &[Address]) -> Result<Pid> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let program = own.with_file_name("mpdboot");
    let entries: Vec<&str> = entries.iter().map(Address::as_str).collect();
    let argv = [
        b"mpdboot".to_vec(),
        b"--revive".to_vec(),
        name.to_string().into_bytes(),
        b"--plan".to_vec(),
        plan.to_owned().into_os_string().into_vec(),
        b"--join".to_vec(),
        entries.join(",").into_bytes(),
    ];
    let null: OwnedFd = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?.into();
    let stderr = std::io::stderr();
    let mut spawn =
        Spawn::new(program.into_os_string().into_vec().as_slice(), argv, own_environment())?;
    // It begins its session itself.
    spawn.in_our_group();
    spawn
        .start(&[null.as_fd(), null.as_fd(), stderr.as_fd()], Extra::default(), None)
        .context("cannot start mpdboot; it must be in the directory of mpd")
}
