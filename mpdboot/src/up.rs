//! `mpdboot` on the booting host: from the command line to a verified ring.

mod before;
mod end;
mod hold;
mod key;
mod private;
mod progress;
mod ring;
mod site;
mod versions;

use std::io::{Write as _, stdin};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use mpd_boot::agent::CONNECT_S;
use mpd_boot::boot::State;
use mpd_boot::child::Child;
use mpd_boot::daemon::{Aborted, NotStarted, Start, Watch};
use mpd_boot::drive::{Brief, Driver};
use mpd_boot::failure::{Failure, Step};
use mpd_boot::wire::{BootTask, Manner, Member, Running, SecretText};
use mpd_boot::{command, daemon};
use mpd_channel::KeyText;
use mpd_io::host::random;
use mpd_io::process::signals::Signals;
use mpd_io::ring::ring_name::RingName;
use mpd_io::ring::rundir::RunDir;
use mpd_io::ring::site::ThisSite;

use crate::cli::{Cli, EXIT_NOTHING, EXIT_PARTIAL};
use crate::complain::complain;
use crate::report::{self, Fate, Row};
use crate::roster::Roster;

use end::StepEnd;
use private::PrivateBoot;
use progress::Progress;

/// A running mpdboot.
struct Up<'a> {
    cli: &'a Cli,
    /// Set for an mpirun that needs a ring for its job.
    wanted: Option<PrivateBoot>,
    manner: Manner,
    roster: Roster,
    rundir: RunDir,
    signals: Signals,
    rows: Vec<Row>,
    /// The name of this host for Slurm or for the site, if the remote shell starts its daemon too.
    node: Option<String>,
    /// Whether the ring existed before.
    was_running: bool,
    /// Set for the user's ring on a site: whether this host is to run processes, and the right to boot.
    site: Option<(bool, site::Turn)>,
    /// The remote shells that stay.
    kept: Vec<Child>,
    /// The members that this boot has introduced.
    list: ring::List,
}

pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    let report = cli.hold.then(hold::report).transpose()?;
    let this_site = site::wanted(cli)?;
    let ring =
        if this_site.is_some() { mpd_io::ring::site::ring_name() } else { before::ring(cli)? };
    let mut kept = None;
    let (rows, result) = match Up::prepare(cli, &ring, this_site.as_ref()) {
        Err(error) => (Vec::new(), Err(error)),
        Ok(mut up) => {
            if up.needs_holder() && report.is_none() {
                return hold::run_in_holder(&mut up.signals);
            }
            let result = up.run();
            if up.site.is_some() && !up.was_running && versions::is_missing(&up.rows) {
                ring::undo(cli.add, &up.rundir, &up.rows, &up.list);
                // The right to boot passes on with the process.
                drop(up.site.take());
                versions::become_common(&up.rows)?;
            }
            kept = Some((up.kept, up.signals));
            (up.rows, result)
        }
    };
    let problem = result.as_ref().err().map(|error| format!("{error:#}"));
    if cli.json {
        let text = report::json(ring.as_str(), &rows, problem.as_deref());
        writeln!(std::io::stdout(), "{text}").context("cannot print the report")?;
    }
    let end = result?;
    let _ = write!(std::io::stderr(), "{}", report::table(&rows));
    if cli.private {
        return Ok(private::exit_code(&rows, &end));
    }
    let code = summary(cli, &rows, &end);
    if let (Some(report), Some((shells, signals))) = (report, kept) {
        hold::stay(code, report, shells, signals)?;
    }
    Ok(ExitCode::from(code))
}

/// Prints the result; returns the exit code.
fn summary(cli: &Cli, rows: &[Row], end: &StepEnd) -> u8 {
    let total = rows.len();
    let good = rows.iter().filter(|r| matches!(r.fate, Fate::InRing | Fate::Up)).count();
    let only_checked = rows.iter().all(|row| row.fate != Fate::InRing);
    match end {
        StepEnd::Signal(signal) => {
            complain("interrupted; the started daemons have been ended");
            128 + u8::try_from(*signal).unwrap_or(0)
        }
        StepEnd::Done | StepEnd::Failed if good == total => {
            if cli.verbose {
                let what = if only_checked { "can be reached" } else { "are in the ring" };
                complain(&format!("all {total} {what}"));
            }
            0
        }
        StepEnd::Done | StepEnd::Failed if only_checked => {
            complain("nothing was started");
            EXIT_NOTHING
        }
        StepEnd::Done | StepEnd::Failed => {
            complain(&format!(
                "the ring runs with {good} of {total} daemons; 'mpdboot --add' adds the others once the \
                 problems are repaired, mpdallexit ends the ring"
            ));
            EXIT_PARTIAL
        }
    }
}

impl<'a> Up<'a> {
    /// Reads and checks all inputs, and starts nothing.
    fn prepare(cli: &'a Cli, ring: &RingName, this_site: Option<&ThisSite>) -> Result<Self> {
        let signals = Signals::catch(&[libc::SIGCHLD, libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
            .context("cannot catch signals")?;
        let wanted = cli.private.then(private::read_request).transpose()?;
        let allocation = before::Allocation::find(cli)?;
        let wanted_hosts = wanted.as_ref().map(|wanted| &wanted.hosts[..]);
        let mut roster = match this_site {
            Some(this) => site::roster(cli, this)?,
            None => before::roster(cli, wanted_hosts, &allocation)?,
        };
        let mut manner = before::manner(cli, ring, &roster, &allocation)?;
        let mut node = allocation.own_name().filter(|_| manner.in_batch).map(str::to_owned);
        if let Some(this) = this_site {
            manner = site::manner(manner, this, ring)?;
            node = Some(this.here.clone());
        }
        if let Some(node) = &node {
            roster.local.host.clone_from(node);
        }
        let rundir = daemon::rundir(&manner, &roster.local)?;
        let rows = std::iter::once(&roster.local)
            .chain(&roster.others)
            .map(|member| Row {
                name: member.name.clone(),
                host: member.host.clone(),
                fate: Fate::NotStarted,
                seconds: 0.0,
            })
            .collect();
        let kept = Vec::new();
        let list = ring::List::default();
        let runs = |this: &ThisSite| this.own().is_some_and(|own| own.roles.run);
        let turn = |this| Ok::<_, anyhow::Error>((runs(this), site::Turn::take(&rundir)?));
        let site = this_site.map(turn).transpose()?;
        let was_running = false;
        let up = Self {
            was_running,
            cli,
            wanted,
            manner,
            roster,
            rundir,
            signals,
            rows,
            node,
            site,
            kept,
            list,
        };
        if !up.roster.dropped.is_empty() {
            let again = up.roster.dropped.join(", ");
            up.report(&format!(
                "named several times, used once: {again} (-1 starts several daemons)"
            ));
        }
        Ok(up)
    }

    /// Whether remote shells stay after the boot. Then another process holds them.
    fn needs_holder(&self) -> bool {
        let has_shells = self.node.is_some() || !self.roster.others.is_empty();
        command::kills_at_end(&self.manner)
            && has_shells
            && !self.cli.private
            && !self.cli.chkuponly
    }

    fn run(&mut self) -> Result<StepEnd> {
        if self.cli.chkup || self.cli.chkuponly {
            let end = self.check()?;
            if self.cli.chkuponly || !matches!(end, StepEnd::Done) {
                return Ok(end);
            }
        }
        let existing = ring::take_over(self.cli, &self.rundir)?;
        let key = self.key(existing.is_none())?;
        before::number(&mut self.roster, existing.as_ref());
        let is_new = existing.is_none();
        self.was_running = !is_new;
        let end = match existing {
            Some(view) => {
                ring::mark_own(&view, &mut self.rows);
                StepEnd::Done
            }
            None if self.node.is_some() => self.start_local_in_step(&key)?,
            None => self.start_local()?,
        };
        match end {
            StepEnd::Done => {}
            StepEnd::Failed | StepEnd::Signal(_) => return Ok(end),
        }
        let view = daemon::describe(&self.rundir).context("the daemon of this host")?;
        let join = ring::entries(&view);
        let boot = BootTask {
            keep: self.cli.keep.then(|| self.all()),
            join,
            root: ring::root(&view),
            running: if self.cli.replace { Running::Replace } else { Running::Refuse },
            // Members of an existing ring may have died; a newcomer looks for them itself.
            waits: view.members.len() == 1,
            ..self.task(&key)
        };
        let end = self.drive(Some(boot))?;
        if self.wanted.is_some() {
            return Ok(end);
        }
        if let StepEnd::Signal(signal) = end {
            ring::undo(self.cli.add || self.was_running, &self.rundir, &self.rows, &self.list);
            return Ok(StepEnd::Signal(signal));
        }
        let patience = Duration::from_secs(self.cli.timeout.into());
        ring::verify(&self.rundir, &mut self.rows, patience)?;
        if self.site.is_some() {
            versions::record(&self.rundir, &self.manner.mpd)?;
        }
        let is_guest = self.site.as_ref().is_some_and(|(runs, _)| !runs);
        if is_new && (is_guest || self.manner.in_batch && self.node.is_none()) {
            ring::drain_own(&self.rundir, &view)?;
        }
        Ok(end)
    }

    /// The task of an agent whose daemon begins a ring.
    fn task(&self, key: &KeyText) -> BootTask {
        BootTask {
            key: SecretText(key.to_text()),
            manner: self.manner.clone(),
            member: self.roster.local.clone(),
            join: Vec::new(),
            root: None,
            running: Running::Refuse,
            waits: false,
            hosts: Vec::new(),
            keep: self.keeps().then(|| self.all()),
        }
    }

    /// Whether the daemons start dead ones again. On a site, the first daemon does: run hosts may start nothing.
    const fn keeps(&self) -> bool {
        self.cli.keep || self.site.is_some()
    }

    fn key(&mut self, is_new: bool) -> Result<KeyText> {
        if let Some(wanted) = &self.wanted {
            return Ok(wanted.key.clone());
        }
        let (key, is_alone) = key::of_ring(&self.manner, &self.roster, is_new)?;
        self.manner.key_alone = is_alone;
        Ok(key)
    }

    fn all(&self) -> Vec<Member> {
        std::iter::once(&self.roster.local).chain(&self.roster.others).cloned().collect()
    }

    fn report(&self, text: &str) {
        if self.cli.verbose {
            complain(text);
        }
    }

    fn start_local(&mut self) -> Result<StepEnd> {
        let begin = Instant::now();
        let all = self.cli.keep.then(|| self.all());
        let start = Start {
            manner: &self.manner,
            member: &self.roster.local,
            join: &[],
            root: None,
            running: Running::Refuse,
            keep: all.as_deref(),
            holder: self.cli.hold.then(std::process::id),
        };
        let started = start.run(&mut Watch { signals: &mut self.signals, other: None });
        let row = &mut self.rows[0];
        row.seconds = begin.elapsed().as_secs_f64();
        match started {
            Ok(_) => {
                row.fate = Fate::InRing;
                self.report(&format!("host {}: running", self.roster.local.name));
                Ok(StepEnd::Done)
            }
            Err(NotStarted::Failed(failure)) => {
                row.fate = Fate::Failed(failure);
                Ok(StepEnd::Failed)
            }
            Err(NotStarted::Aborted(Aborted::Signal(signal))) => Ok(StepEnd::Signal(signal)),
            Err(NotStarted::Aborted(Aborted::Other)) => unreachable!("there is no other"),
        }
    }

    /// Starts the daemon of this host in a step of the batch job, so that the batch system ends it.
    fn start_local_in_step(&mut self, key: &KeyText) -> Result<StepEnd> {
        let local = self.roster.local.clone();
        let end = self.drive_to(Some(self.task(key)), vec![local], None)?;
        let is_started = self.rows[0].fate == Fate::InRing;
        Ok(if is_started || matches!(end, StepEnd::Signal(_)) { end } else { StepEnd::Failed })
    }

    /// Tests whether all hosts can be reached.
    fn check(&mut self) -> Result<StepEnd> {
        self.rows[0].fate = Fate::Up;
        let end = self.drive(None)?;
        let up = self.rows.iter().all(|row| row.fate == Fate::Up);
        if up && matches!(end, StepEnd::Done) && !self.cli.chkuponly {
            for row in &mut self.rows {
                row.fate = Fate::NotStarted;
            }
        }
        Ok(if up { end } else { StepEnd::Failed })
    }

    /// Starts the other hosts, or only tests whether they can be reached.
    fn drive(&mut self, boot: Option<BootTask>) -> Result<StepEnd> {
        let is_member = |name: &str| {
            boot.is_some() && self.rows.iter().any(|r| r.name == name && r.fate == Fate::InRing)
        };
        let others = self.roster.others.iter();
        let others: Vec<Member> = others.filter(|m| !is_member(&m.name)).cloned().collect();
        let here = Some(self.roster.local.host.clone());
        self.drive_to(boot, others, here)
    }

    /// Starts `members`, or only tests whether they can be reached. A second daemon on the host `here` needs
    /// no remote shell.
    fn drive_to(
        &mut self,
        boot: Option<BootTask>,
        members: Vec<Member>,
        here: Option<String>,
    ) -> Result<StepEnd> {
        let good = if boot.is_some() { Fate::InRing } else { Fate::Up };
        let brief = Brief {
            nonce: random::hex128()?,
            manner: self.manner.clone(),
            connect_s: CONNECT_S.min(self.cli.timeout),
            boot,
            here,
            own: None,
            introduces: true,
        };
        let mut progress =
            Progress::new(self.cli, self.rows.len(), self.rows.len() - members.len());
        let mut driver = Driver::new(&mut self.signals, brief, members, true, None);
        // The end of standard input means that mpirun, or the mpdboot of the user, has ended. The end
        // of mpirun does not wait for remote shells.
        let is_private = self.wanted.is_some();
        let owner = (is_private || self.cli.hold).then(stdin);
        let is_done = |driver: &Driver<'_>| match is_private {
            true => driver.is_over() || driver.are_all_in_ring(),
            false => driver.is_over(),
        };
        let mut signal = None;
        while !is_done(&driver) && signal.is_none() {
            let turn = driver.turn(owner.as_ref().map(|fd| fd.as_fd()), Duration::from_secs(60))?;
            turn.events.iter().for_each(|event| progress.show(event));
            if !turn.newcomers.is_empty() {
                let names = self.list.introduce(&self.rundir, turn.newcomers)?;
                driver.introduce(&self.list.line(), names, true);
            }
            signal = turn.signals.first().copied().or(turn.readable.then_some(libc::SIGHUP));
        }
        if signal.is_some() {
            driver.abort()?;
        }
        progress.clear();
        for (member, state) in driver.states() {
            let row = self.rows.iter_mut().find(|row| row.name == member.name);
            row.expect("every member has a row").set(state, &good);
        }
        if is_private && signal.is_none() {
            let patience = Duration::from_secs(self.cli.timeout.into());
            let waits = command::kills_at_end(&self.manner);
            return private::deliver(driver, waits, &self.rundir, &mut self.rows, patience);
        }
        self.kept.extend(driver.into_kept());
        Ok(signal.map_or(StepEnd::Done, StepEnd::Signal))
    }
}

impl Row {
    fn set(&mut self, state: &State, good: &Fate) {
        let (fate, took) = match state {
            State::InRing { took } => (good.clone(), *took),
            State::Failed { took, failure } => (Fate::Failed(failure.clone()), *took),
            State::Pending | State::Running { .. } | State::Ready { .. } => {
                (Fate::NotStarted, Duration::ZERO)
            }
        };
        self.fate = fate;
        self.seconds = took.as_secs_f64();
    }

    /// The daemon reported that it is in the ring, but the daemon of this host does not list it.
    fn is_unknown(&mut self) {
        let problem =
            "it reported that it is in the ring, but the daemon of this host does not list it";
        let hint = "are there two rings? compare the output of mpdtrace on both hosts";
        self.fate = Fate::Failed(Failure::new(Step::Join, problem, hint));
    }
}
