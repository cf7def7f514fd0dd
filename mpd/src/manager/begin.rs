//! The start of the process: from the inherited descriptors to the loop.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use log::LevelFilter;
use mpd_clients::World;
use mpd_io::adopt_inherited;
use mpd_io::process::{identity, oom};
use mpd_job::manager::spawns::SpawnSettings;
use mpd_job::manager::{Config, Input, Manager};
use mpd_manager::{Beginning, Node};
use mpd_sansio::{Pump, Time};
use mpd_wire::job::JobSpec;
use mpd_wire::message::{ManagerReport, StartJob};
use nix::unistd::setsid;

use super::context::{Common, Job, Turn};
use super::ending::{Elsewhere, Ending, forget};
use super::host_facts::ThisHost;
use super::links::{LinkEnd, Links};
use super::means::{Beforehand, Means, Prepared};
use super::parent;
use super::pmi::Pmi;
use super::process::Process;
use super::ranks::Ranks;
use super::stdio::Stdio;
use super::upstream::{Console, Daemon, HandOver, Passed, Upstream};
use crate::cli;
use crate::notes::Notes;
use crate::recording;

/// The manager that was started with its connection as descriptor 3.
pub(crate) fn inherit(level: LevelFilter) -> Result<ExitCode> {
    let began = mpd_io::clock::wall();
    // The daemon is suspended until this program runs. In a new session that would take seconds on a busy host.
    identity::lead_session().context("cannot begin a session")?;
    let prepared = Prepared::new(level)?;
    let connection = adopt_inherited(3).context("a manager is started by its daemon only")?;
    run(connection, prepared, began, cli::is_called(cli::IN_WAITING))
}

/// The manager that is a copy of the fork server.
pub(super) fn run_copy(connection: OwnedFd, prepared: Prepared) -> Result<ExitCode> {
    let began = mpd_io::clock::wall();
    identity::rename(&[cli::IN_WAITING, "--manager"]);
    setsid().context("cannot begin a session")?;
    mpd_io::prepare_memory();
    run(connection, prepared, began, true)
}

/// The manager with this connection to its daemon. `is_unnamed`: its arguments do not name its job.
fn run(connection: OwnedFd, prepared: Prepared, began: u64, is_unnamed: bool) -> Result<ExitCode> {
    mpd_io::process::priority::of_a_server();
    mpd_io::process::tree::become_subreaper().context("cannot become a subreaper")?;
    let mut daemon = Daemon::new(connection);
    let level = prepared.level;
    let beforehand = Beforehand::new(prepared)?;
    // A manager in waiting stays here until there is a job. All that depends on the job or on the time is made later.
    let Some(handed) = daemon.receive_job().context("the daemon sent no job")? else {
        return Ok(ExitCode::SUCCESS);
    };
    let HandOver { order, encoded, record, cgroup, passed, has_waited } = handed;
    let began = if has_waited { mpd_io::clock::wall() } else { began };
    // Even if it had its job before it waited.
    if is_unnamed {
        identity::rename(&[cli::MANAGER, "--manager", "--name", &order.job.to_string()]);
    }
    mpd_io::files::logging::start(&format!("mpdman {}", order.job), level, None)?;
    // The lock of the job's record shows that we live. It is held as long as the record is open.
    let notes = Notes::new(record.into());
    let mut means = Means::new(daemon, &order, (began, beforehand), (notes, cgroup))?;
    let is_root = order.tree_index == 0;
    let now = means.clock.now();
    means.branches.begin(means.poll.registry(), now);
    let encoded = if is_root { Some(encoded) } else { parent::specification(&mut means)? };
    let Some(encoded) = encoded else { return Ok(means.leave(&order)) };
    means.process(order, &encoded, passed)?.serve()
}

impl Means {
    /// Ends the process of a job that is over before anything was begun here.
    fn leave(mut self, order: &StartJob) -> ExitCode {
        let children = order.host_slices.children(order.tree_index as usize);
        let unlinked =
            children.into_iter().any(|tree_index| self.branches.awaits(LinkEnd::Child(tree_index)));
        forget(order, self.cgroup.take().as_deref());
        let code = mpd_wire::job::exit::SUITE;
        self.daemon.report(&ManagerReport::Ended { code, unlinked });
        self.daemon.flush();
        ExitCode::SUCCESS
    }

    /// Makes the process and begins the first phase of its job.
    fn process(
        mut self,
        order: StartJob,
        encoded: &[u8],
        passed: Option<Passed>,
    ) -> Result<Process> {
        let spec = Rc::new(JobSpec::decode(encoded)?);
        self.trace.decide(spec.trace, &order.spans);
        spec.check()?;
        order.host_slices.check(spec.size())?;
        order
            .host_slices
            .get(order.tree_index as usize)
            .context("this manager has no host slice")?;
        if let Some(seconds) = spec.host_timeout {
            let host_lost = Duration::from_secs(seconds.into()) / crate::scale::divisor()?;
            self.branches.set_host_lost(host_lost);
        }
        let world = World::of_job(&spec, &order);
        let (ending, machine_of_end, made) = Ending::start(
            Path::new(&order.tmpdir),
            (&spec, &world.here),
            self.notes,
            self.cgroup.clone(),
        );
        let (pump, unrecorded) = pump_of(&spec, &order, self.clock.now());
        let directory = ending.directory().map(Path::to_owned);
        let host_facts = Rc::new(ThisHost::default());
        let job = Job { directory, ..Job::new(spec, order, world, host_facts) };
        let (console, outputs, adopted) = match passed {
            Some(Passed { console, outputs, adopted }) => {
                (Console::new(console), Some(outputs), adopted)
            }
            None => (Console::default(), None, None),
        };
        let (stdio, machine_of_output, trouble) = Stdio::new(&job, outputs);
        let beginning = Beginning {
            manager: std::process::id(),
            trace: self.trace,
            sign: self.sign,
            has_daemon: self.daemon.is_connected(),
        };
        let machine_of_ranks = mpd_ranks::Ranks::new(mpd_ranks::Beginning {
            adopts: adopted.is_some(),
            kills: oom::kills(),
            began: oom::log_time(),
            daemon: identity::number_of(self.parent),
        });
        let machines = (pump, machine_of_ranks, machine_of_end, machine_of_output);
        let mut process = Process {
            signals: self.signals,
            signalled: false,
            upstream: Upstream { console, daemon: self.daemon },
            links: Links::new(self.branches),
            ranks: Ranks::new(self.cgroup, self.readiness, adopted)?,
            stdio,
            pmi: Pmi::new(self.listener),
            ending,
            common: Common {
                node: Node::new(self.clock.now(), job, machines, beginning),
                poll: self.poll,
                clock: self.clock,
                null: self.null,
                handed_over: VecDeque::new(),
            },
        };
        let turn = &mut process.common.turn();
        unrecorded.into_iter().for_each(|notice| turn.post(Input::Notice(notice)));
        let problem = made.map(|elsewhere| report(turn, elsewhere)).err();
        let watched = process.upstream.console.watch(turn.registry);
        watched.context("cannot watch the console")?;
        process.stdio.register(turn.registry).context("cannot watch the outputs")?;
        process.links.pass_on_specification(encoded);
        process.links.begin(turn, problem.or(trouble), self.early);
        Ok(process)
    }
}

/// Reports that the job's directory is in another place.
fn report(turn: &mut Turn<'_>, elsewhere: Option<Elsewhere>) {
    if let Some(Elsewhere { place, problem }) = elsewhere {
        turn.post(Input::Elsewhere(place, problem));
    }
}

/// The pump of the machine; recorded if the user asked for that. A notice reports why recording failed.
pub(super) fn pump_of(
    spec: &JobSpec,
    order: &StartJob,
    now: Time,
) -> (Pump<Manager>, Option<String>) {
    let config = Config {
        host_slices: order.host_slices.clone(),
        tree_index: order.tree_index as usize,
        size: spec.size(),
        on_failure: spec.on_failure,
        abort_scope: spec.abort_scope,
        limit: spec.timeout,
        debugged: spec.debug.is_some(),
        elastic: spec.elastic,
        spawns: if order.tree_index == 0 {
            settings_of(spec, order)
        } else {
            SpawnSettings::default()
        },
    };
    let member = order.host_slices.get(config.tree_index).map(|slice| slice.member.to_string());
    let host = member.unwrap_or_else(|| order.host.clone());
    let recorded = spec.record.as_ref().map(|directory| {
        let file = format!("{}.{host}.recording", order.job);
        let path = Path::new(OsStr::from_bytes(directory)).join(file);
        recording::pump(&path, ("mpdman", &host), now, config.clone())
    });
    match recorded {
        Some(Ok(pump)) => (pump, None),
        Some(Err(e)) => (Pump::new(Manager::new(&config)), Some(format!("host {host}: {e:#}"))),
        None => (Pump::new(Manager::new(&config)), None),
    }
}

fn settings_of(spec: &JobSpec, order: &StartJob) -> SpawnSettings {
    SpawnSettings {
        kvsname: order.kvsname.clone(),
        policy: spec.spawn.policy,
        limit: spec.spawn.limit,
        hosts: spec.placement.hosts.clone(),
        exclude: spec.placement.exclude.clone(),
        here_first: spec.placement.here_first,
    }
}
