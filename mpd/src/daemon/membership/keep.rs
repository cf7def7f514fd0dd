//! Starts lost members again: their left neighbour at that time runs the helper `mpdboot --revive`, which uses ssh.
//! So no single daemon is responsible for all members.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use mpd_io::spawn::{Extra, Spawn, own_environment};
use mpd_machine::Time;
use mpd_wire::{Address, DaemonName};
use nix::unistd::Pid;
use serde::Deserialize;

/// How long a member must be dead before it is started again. A short interruption ends within this time, and so
/// does a start by other means.
const GRACE: Duration = Duration::from_secs(2);

/// The time from one attempt to the next. It doubles with each attempt up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// How long the attempts for a member are remembered after its return.
const MEMORY: Duration = Duration::from_secs(60);

/// Most helpers at one time.
const MAX_HELPERS: usize = 4;

/// How often the dead members are counted.
const INTERVAL: Duration = Duration::from_secs(1);

/// The plan of `mpdboot`, as far as this daemon reads it. The helper gets the whole file.
#[derive(Debug, Deserialize)]
struct Plan {
    hosts: Vec<PlannedHost>,
}

#[derive(Debug, Deserialize)]
struct PlannedHost {
    name: String,
}

#[derive(Debug)]
struct WatchedDeadPeer {
    next: Time,
    pause: Duration,
    tried: Option<Time>,
}

/// The owner of the plan: it starts lost members again.
#[derive(Debug)]
pub(super) struct Keep {
    plan: PathBuf,
    /// Members in the plan.
    known: BTreeSet<String>,
    watched_dead: BTreeMap<DaemonName, WatchedDeadPeer>,
    next_look: Time,
    /// The members that are being started, each with its helper.
    helpers: BTreeMap<DaemonName, Pid>,
}

impl Keep {
    /// Reads the plan.
    pub(super) fn open(plan: &Path, now: Time) -> Result<Self> {
        let failed = || format!("--keep {}", plan.display());
        let text = fs::read(plan).with_context(failed)?;
        let read: Plan = serde_json::from_slice(&text).with_context(failed)?;
        Ok(Self {
            // The daemon changes to / later.
            plan: std::path::absolute(plan).with_context(failed)?,
            known: read.hosts.into_iter().map(|host| host.name).collect(),
            watched_dead: BTreeMap::new(),
            next_look: now + INTERVAL,
            helpers: BTreeMap::new(),
        })
    }

    pub(super) const fn next_deadline(&self) -> Time {
        self.next_look
    }

    /// Starts a helper for each member of `lost` that is due. Returns the started helpers.
    pub(super) fn turn(
        &mut self,
        now: Time,
        lost: Vec<DaemonName>,
        entries: &[Address],
        is_running: impl Fn(Pid) -> bool,
    ) -> Vec<Pid> {
        if now < self.next_look {
            return Vec::new();
        }
        self.next_look = now + INTERVAL;
        self.helpers.retain(|_, pid| is_running(*pid));
        // A member that returns only for a moment keeps its pause.
        let recent = |peer: &WatchedDeadPeer| peer.tried.is_some_and(|at| now.since(at) < MEMORY);
        self.watched_dead.retain(|name, peer| lost.contains(name) || recent(peer));
        let mut started = Vec::new();
        for name in lost {
            if !self.known.contains(name.as_str()) {
                continue;
            }
            let first = WatchedDeadPeer { next: now + GRACE, pause: PAUSE, tried: None };
            let peer = self.watched_dead.entry(name.clone()).or_insert(first);
            let is_busy = self.helpers.contains_key(&name) || self.helpers.len() >= MAX_HELPERS;
            if peer.next > now || is_busy {
                continue;
            }
            peer.tried = Some(now);
            peer.next = now + peer.pause;
            peer.pause = (peer.pause * 2).min(LONGEST_PAUSE);
            match revive(&name, &self.plan, entries) {
                Ok(pid) => {
                    log::info!("starting {name} again, helper {pid}");
                    self.helpers.insert(name, pid);
                    started.push(pid);
                }
                Err(e) => log::error!("cannot start {name} again: {e:#}"),
            }
        }
        started
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
