//! The first phase of a start: all checks that are possible before a rank runs, in their order.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use mpd_debug::shim::{Plan, Tracing};
use mpd_wire::Rank;
use mpd_wire::job::{Argset, Bytes, Failure, Limit, names_architecture};

use crate::environment::environment;
use crate::failures::cannot_enter;
use crate::host::{Host, Unentered};
use crate::launch::{Checked, Launch};
use crate::resources;
use crate::world_context::WorldContext;

/// Descriptors that the manager needs besides those of the ranks.
const OWN_DESCRIPTORS: u64 = 64;

/// Numbers of Linux: the limit of descriptors, and the last one of all limits.
pub(crate) const RLIMIT_NOFILE: u8 = 7;
const LAST_RESOURCE: u8 = 15;

/// Checks the programs of `ranks`, which are to run here besides the ranks that already run.
///
/// # Errors
/// The failure of the first argset at fault.
pub(crate) fn check(context: WorldContext<'_>, ranks: &[Rank]) -> Result<Checked, Failure> {
    let spec = context.spec;
    check_descriptors(context, ranks)?;
    let bindings = resources::bindings(context, ranks)?;
    resources::check_limit(context, ranks)?;
    let gpus = resources::gpus(context, ranks)?;
    let mut launches = BTreeMap::new();
    for &rank in ranks {
        let number = spec.argset_of(rank);
        if let Entry::Vacant(vacant) = launches.entry(number) {
            vacant.insert(launch(context, (rank, ranks.len()), number)?);
        }
    }
    Ok(Checked { launches, bindings, gpus })
}

/// Checks an argset; the rank is its first one here.
fn launch(
    context: WorldContext<'_>,
    (rank, ranks_here): (Rank, usize),
    number: usize,
) -> Result<Launch, Failure> {
    let WorldContext { spec, host, .. } = context;
    let argset = &spec.argsets[number];
    let failed = |problem: String| Failure::Suite { problem };
    host.enter(&argset.directory).or_else(|unentered| match unentered {
        // Only certain failures are refused here.
        Unentered::NotPermitted => Ok(()),
        Unentered::Impossible(problem) => Err(failed(cannot_enter(&argset.directory, &problem))),
    })?;
    let brought = if context.is_added { None } else { Some(number) };
    let program = host.program(argset, brought).map_err(|unusable| Failure::CannotExecute {
        rank,
        program: String::from_utf8_lossy(&argset.program).into_owned(),
        problem: unusable.problem,
        missing: unusable.missing,
    })?;
    let plan = plan(context, argset, rank)?;
    // The program's own name on this host.
    let is_of_host = names_architecture(&argset.program);
    let name = if is_of_host { &program.path } else { &argset.program };
    let mut launch = Launch {
        argv: [std::slice::from_ref(name), &argset.args].concat(),
        program,
        shim: Some(plan).filter(Plan::is_needed),
        environment: environment(context, ranks_here, argset),
        directory: argset.directory.clone(),
        umask: argset.umask,
        limits: Vec::new(),
        niceness: spec.niceness,
        tracer: context.tracer(),
    };
    let texts = launch.argv.iter().chain(&launch.environment);
    let texts = texts.chain([&launch.program.path, &launch.directory]);
    if { texts }.any(|text| text.contains(&0)) {
        return Err(failed("a NUL byte in the job".to_owned()));
    }
    launch.limits = differing_limits(host, &argset.limits).map_err(failed)?;
    Ok(launch)
}

/// Counts two pipes and a socket per rank, a pipe more for receivers of stdin, and one or two files by pattern.
fn check_descriptors(context: WorldContext<'_>, ranks: &[Rank]) -> Result<(), Failure> {
    let spec = context.spec;
    let size = (ranks.len() + context.running) as u64;
    let is_fed = |rank| spec.stdin_switch || spec.stdin.contains(rank);
    let fed = ranks.iter().filter(|&&rank| is_fed(rank)).count() as u64;
    let files = [&spec.output.outfile, &spec.output.errfile].into_iter().flatten();
    let has_terminal = spec.argsets.iter().any(|argset| argset.pty.is_some());
    let is_debugged = context.job.spec.debug.is_some();
    let has_shim = has_terminal || is_debugged || spec.on_crash.is_some();
    let per_rank = 3 + u64::from(has_shim) + files.filter(|f| f.names_rank()).count() as u64;
    let need = size * per_rank + fed + OWN_DESCRIPTORS;
    let hard = context.host.limit(RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard);
    if need > hard {
        let processes = if size == 1 {
            "1 process needs".to_owned()
        } else {
            format!("{size} processes on one host need")
        };
        let problem = format!(
            "{processes} {need} file descriptors, and the hard limit is {hard} (ulimit -Hn where mpd was started)"
        );
        return Err(Failure::Suite { problem });
    }
    Ok(())
}

/// Whether the root can have `files` files open for output, besides the descriptors of its own `ranks`. `hard`: how many
/// descriptors it may have.
///
/// # Errors
/// Why not.
pub fn check_files(ranks: usize, files: usize, hard: u64) -> Result<(), String> {
    // Few ranks have more descriptors than these.
    let need = 3 * ranks as u64 + files as u64 + OWN_DESCRIPTORS;
    if need > hard {
        return Err(format!(
            "{files} files for output need {need} file descriptors in all, and the hard limit is {hard} (ulimit -Hn where mpd was started)"
        ));
    }
    Ok(())
}

/// The plan of the shim of a rank.
fn plan(context: WorldContext<'_>, argset: &Argset, rank: Rank) -> Result<Plan, Failure> {
    let spec = context.spec;
    let mut plan = Plan { tracer: context.tracer().0.unsigned_abs(), ..Plan::default() };
    let mut gdb = None;
    if let Some(debug) = &context.job.spec.debug {
        plan.debugs = true;
        // The session continues without a spawned rank that has ended, since many others may follow.
        plan.once = context.is_added;
        plan.attach = debug.attach.get(rank.index()).copied();
        gdb = Some(&debug.gdb);
    } else {
        plan.terminal = argset.pty;
        if let Some(on_crash) = spec.on_crash.as_ref().filter(|_| !context.is_added) {
            plan.tracing = Some(if on_crash.hold { Tracing::Hold } else { Tracing::Stacks });
            gdb = Some(&on_crash.gdb);
        }
    }
    if let Some(gdb) = gdb {
        plan.gdb = debugger(context.host, gdb, argset)?;
    }
    Ok(plan)
}

/// The debugger of this host.
fn debugger(host: &dyn Host, gdb: &[u8], argset: &Argset) -> Result<Bytes, Failure> {
    let wanted = Argset { program: gdb.to_vec(), ..argset.clone() };
    let found = host.program(&wanted, None).map(|program| program.path);
    found.map_err(|unusable| {
        let gdb = String::from_utf8_lossy(gdb);
        let problem = format!(
            "cannot execute the debugger {gdb}: {}; install it, or name another one with -gdb-path",
            unusable.problem
        );
        Failure::Suite { problem }
    })
}

/// The limits that differ from ours. They are cut to the daemon's own hard limits, since the user's shell may have
/// larger ones.
fn differing_limits(host: &dyn Host, wanted: &[Limit]) -> Result<Vec<(u8, u64, u64)>, String> {
    let mut differing = Vec::new();
    for limit in wanted {
        if limit.resource > LAST_RESOURCE {
            return Err(format!("resource limit {} is unknown", limit.resource));
        }
        let Some((soft, hard)) = host.limit(limit.resource) else { continue };
        let (new_soft, new_hard) = (limit.soft.min(hard), limit.hard.min(hard));
        if new_soft > new_hard {
            return Err("a soft resource limit is above its hard limit".into());
        }
        if (new_soft, new_hard) != (soft, hard) {
            differing.push((limit.resource, new_soft, new_hard));
        }
    }
    Ok(differing)
}
