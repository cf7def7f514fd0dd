//! Requests to the daemon of this host about the existing ring and the new ring.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mpd_boot::daemon;
use mpd_io::ring::console::{Console, ConsoleError, PATIENCE};
use mpd_io::ring::rundir::RunDir;
use mpd_wire::message::{ConsoleReply, Introduction, LIST_CHUNK, RingRequest, RingView};
use mpd_wire::{Address, DaemonName, Instance, Newcomer, Record, Standing};

use crate::cli::Cli;
use crate::complain::complain;
use crate::report::{Fate, Row};

/// Most addresses given to a newcomer. Several are given, because one of the daemons may have died.
const MAX_ENTRIES: usize = 4;

/// The ring to which hosts are added; `None` if a new ring can be made.
pub(super) fn take_over(cli: &Cli, rundir: &RunDir) -> Result<Option<RingView>> {
    let path = rundir.path().display();
    let is_running = rundir.connect()?.is_some();
    // On a site, a running ring gets the hosts that it lacks.
    let adds = cli.add || cli.private || (is_running && rundir.is_of_site());
    match (is_running, adds, cli.replace) {
        (true, true, _) => Ok(Some(daemon::describe(rundir)?)),
        (true, false, true) => {
            let missing =
                daemon::end(rundir, RingRequest::ExitAll).context("cannot end the running ring")?;
            if !missing.is_empty() {
                let names: Vec<&str> = missing.iter().map(DaemonName::as_str).collect();
                complain(&format!(
                    "of the old ring did not confirm the request to end: {}",
                    names.join(", ")
                ));
            }
            Ok(None)
        }
        (true, false, false) => bail!(
            "your daemon already runs on this host ({path}). --add adds hosts to its ring, \
             --replace ends that ring first, --ring NAME creates a second ring"
        ),
        (false, true, _) => bail!("no daemon of yours runs on this host ({path}); leave out --add"),
        (false, false, _) => Ok(None),
    }
}

/// Addresses of this host's daemon and of some others.
pub(super) fn entries(view: &RingView) -> Vec<Address> {
    let mut entries = daemon::own_addresses(view);
    let live = view.members.iter().filter(|m| m.standing == Standing::Live && m.name != view.me);
    entries.extend(live.filter_map(|member| member.addresses.first()).take(MAX_ENTRIES).cloned());
    entries
}

/// The incarnation of this host's daemon.
pub(super) fn root(view: &RingView) -> Option<Instance> {
    view.members.iter().find(|member| member.name == view.me).map(|own| own.instance)
}

fn live(view: &RingView) -> BTreeSet<&str> {
    let live = |m: &&mpd_wire::message::MemberView| m.standing == Standing::Live;
    view.members.iter().filter(live).map(|member| member.name.as_str()).collect()
}

/// Marks this host's daemon, the first row. The other members are marked by their own reports,
/// because a listed member may have just died.
pub(super) fn mark_own(view: &RingView, rows: &mut [Row]) {
    if let Some(first) = rows.first_mut() {
        first.fate = Fate::InRing;
        // The daemon may have been started under another name.
        first.name = view.me.to_string();
    }
}

/// Waits until the daemon of this host lists all members that reported they are in the ring.
pub(super) fn verify(rundir: &RunDir, rows: &mut [Row], patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    // Opened first, so that no event between two requests is lost.
    let mut watch = Console::ask(rundir, RingRequest::Watch).context("cannot watch the ring")?;
    loop {
        let view = daemon::describe(rundir).context("cannot verify the ring")?;
        let live = live(&view);
        let unknown =
            |row: &&mut Row| row.fate == Fate::InRing && !live.contains(row.name.as_str());
        let mut unknown: Vec<&mut Row> = rows.iter_mut().filter(unknown).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        match watch.answer(Some(deadline.saturating_duration_since(Instant::now()))) {
            Ok(ConsoleReply::Event(_)) => {}
            Ok(_) => bail!("the answer of this host's daemon does not fit the request"),
            Err(ConsoleError::Silent(_)) => {
                unknown.iter_mut().for_each(|row| row.is_unknown());
                return Ok(());
            }
            Err(error) => return Err(error).context("cannot watch the ring"),
        }
    }
}

/// The records of this boot.
#[derive(Debug, Default)]
pub(super) struct List(BTreeMap<DaemonName, Record>);

impl List {
    /// Lets the daemon of this host accept these daemons. Returns their names, without those that it
    /// refuses.
    pub(super) fn introduce(
        &mut self,
        rundir: &RunDir,
        newcomers: Vec<Newcomer>,
    ) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for part in newcomers.chunks(LIST_CHUNK) {
            let request = RingRequest::Introduce { newcomers: part.to_vec() };
            let mut console = Console::ask(rundir, request).context("the daemon of this host")?;
            match console.answer(Some(PATIENCE)).context("the daemon of this host")? {
                ConsoleReply::Introduced { records } => {
                    names.extend(records.iter().map(|record| record.name.to_string()));
                    self.0.extend(records.into_iter().map(|record| (record.name.clone(), record)));
                }
                _ => bail!("the answer of this host's daemon does not fit the request"),
            }
        }
        Ok(names)
    }

    fn has(&self, name: &str) -> bool {
        self.0.keys().any(|known| known.as_str() == name)
    }

    /// The message for all daemons of the boot.
    pub(super) fn line(&self) -> Vec<u8> {
        Introduction { records: self.0.values().cloned().collect() }.to_line()
    }
}

/// Lets the daemon of this host, which is none of the batch job's hosts, get processes only if a job names it.
pub(super) fn drain_own(rundir: &RunDir, view: &RingView) -> Result<()> {
    let request = RingRequest::Drain { members: vec![view.me.clone()], draining: true };
    let mut console = Console::ask(rundir, request).context("the daemon of this host")?;
    console.answer(Some(PATIENCE)).context("cannot drain this host")?;
    Ok(())
}

/// Ends the started daemons: the whole ring, or the added members of a ring that existed before (`adds`). Daemons that ran before stay.
pub(super) fn undo(adds: bool, rundir: &RunDir, rows: &[Row], list: &List) {
    if !adds {
        let view = daemon::describe(rundir).ok();
        let is_found = |view: &RingView, name: &str| name != view.me.as_str() && !list.has(name);
        let Some(view) = view.filter(|view| live(view).iter().any(|name| is_found(view, name)))
        else {
            let _ = daemon::end(rundir, RingRequest::ExitAll);
            return;
        };
        for name in list.0.keys().filter(|name| **name != view.me) {
            let _ = leave(rundir, name.as_str());
        }
        let _ = daemon::end(rundir, RingRequest::Exit { member: None });
        return;
    }
    // Members that were there before have no start time.
    for row in rows.iter().filter(|row| row.fate == Fate::InRing && row.seconds > 0.0) {
        let _ = leave(rundir, &row.name);
    }
}

/// Lets one member leave.
fn leave(rundir: &RunDir, name: &str) -> Option<()> {
    let member = Some(DaemonName::new(name).ok()?);
    let mut console = Console::ask(rundir, RingRequest::Exit { member }).ok()?;
    console.answer(Some(PATIENCE)).ok().map(|_| ())
}
