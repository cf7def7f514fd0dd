//! Lost members are started again by whoever is their left neighbour then, over ssh, by a helper:
//! `mpdboot --revive`. So nobody is master of that either.

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

/// A member that is dead for so long is started again: one that merely was cut off for a moment, or is
/// started by somebody else, is back by then.
const GRACE: Duration = Duration::from_secs(2);

/// From one try to the next; doubled each time up to the longest.
const PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// How long a member that came back is remembered to have been started.
const MEMORY: Duration = Duration::from_secs(60);

/// Helpers at one time.
const MAX_HELPERS: usize = 4;

/// How often the dead are counted.
const INTERVAL: Duration = Duration::from_secs(1);

/// The plan of `mpdboot`, as far as this daemon reads it: it hands the file on.
#[derive(Debug, Deserialize)]
struct Plan {
    hosts: Vec<PlannedHost>,
}

#[derive(Debug, Deserialize)]
struct PlannedHost {
    name: String,
}

#[derive(Debug)]
struct Ward {
    next: Time,
    pause: Duration,
    tried: Option<Time>,
}

/// The duty to start lost members again.
#[derive(Debug)]
pub(super) struct Keep {
    plan: PathBuf,
    /// Members that can be started by the plan.
    known: BTreeSet<String>,
    wards: BTreeMap<DaemonName, Ward>,
    next_look: Time,
    /// Those being started, and by whom.
    helpers: BTreeMap<DaemonName, Pid>,
}

impl Keep {
    /// Reads the plan.
    pub(super) fn open(plan: &Path, now: Time) -> Result<Self> {
        let failed = || format!("--keep {}", plan.display());
        let text = fs::read(plan).with_context(failed)?;
        let read: Plan = serde_json::from_slice(&text).with_context(failed)?;
        Ok(Self {
            // A daemon moves to / later.
            plan: std::path::absolute(plan).with_context(failed)?,
            known: read.hosts.into_iter().map(|host| host.name).collect(),
            wards: BTreeMap::new(),
            next_look: now + INTERVAL,
            helpers: BTreeMap::new(),
        })
    }

    pub(super) const fn next_deadline(&self) -> Time {
        self.next_look
    }

    /// Starts a helper for each of `lost` whose turn it is; returns what was started.
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
        // Who is back for a moment only does not begin anew.
        let recent = |ward: &Ward| ward.tried.is_some_and(|at| now.since(at) < MEMORY);
        self.wards.retain(|name, ward| lost.contains(name) || recent(ward));
        let mut started = Vec::new();
        for name in lost {
            if !self.known.contains(name.as_str()) {
                continue;
            }
            let first = Ward { next: now + GRACE, pause: PAUSE, tried: None };
            let ward = self.wards.entry(name.clone()).or_insert(first);
            let is_busy = self.helpers.contains_key(&name) || self.helpers.len() >= MAX_HELPERS;
            if ward.next > now || is_busy {
                continue;
            }
            ward.tried = Some(now);
            ward.next = now + ward.pause;
            ward.pause = (ward.pause * 2).min(LONGEST_PAUSE);
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
    let spawn =
        Spawn::new(program.into_os_string().into_vec().as_slice(), argv, own_environment())?;
    spawn
        .start(&[null.as_fd(), null.as_fd(), stderr.as_fd()], Extra::default(), None)
        .context("cannot start mpdboot, which should be beside mpd")
}
