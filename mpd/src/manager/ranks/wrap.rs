//! The executed program of a rank: the program itself, or a launcher shim before it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use mpd_debug::shim::{Abilities, Tracing};
use mpd_wire::Rank;
use mpd_wire::job::{Argset, Bytes, Failure};

use super::ranks_context::RanksContext;
use crate::shim::plan::Plan;
use mpd_io::process::locate::{self, Program};

/// This executable, in another role.
const THIS_EXECUTABLE: &[u8] = b"/proc/self/exe";

/// An executable and its arguments; the first argument is its name.
#[derive(Debug)]
pub(super) struct Arguments {
    pub(super) path: Bytes,
    pub(super) argv: Vec<Bytes>,
    /// Whether the program is a script without interpreter line.
    pub(super) script: bool,
    /// The abilities of the shim, if one is executed.
    pub(super) shim: Option<Abilities>,
}

/// The executable and the arguments that run `program` as the rank.
///
/// # Errors
/// gdb is needed and missing.
pub(super) fn arguments(
    context: RanksContext<'_>,
    argset: &Argset,
    (rank, program): (Rank, Program),
) -> Result<Arguments, Failure> {
    let plan = plan(context, argset, rank)?;
    // The program's own name on this host.
    let is_of_host = locate::names_architecture(&argset.program);
    let mut argv = vec![if is_of_host { program.path.clone() } else { argset.program.clone() }];
    if !plan.is_needed() {
        argv.extend(argset.args.iter().cloned());
        return Ok(Arguments { path: program.path, argv, script: program.script, shim: None });
    }
    let mut arguments = plan.words();
    if program.script {
        argv = vec![b"/bin/sh".into(), b"/bin/sh".into()];
    }
    arguments.append(&mut argv);
    arguments.push(program.path);
    arguments.extend(argset.args.iter().cloned());
    let shim = Some(plan.abilities());
    Ok(Arguments { path: THIS_EXECUTABLE.to_vec(), argv: arguments, script: false, shim })
}

/// The plan of the shim of a rank.
fn plan(context: RanksContext<'_>, argset: &Argset, rank: Rank) -> Result<Plan, Failure> {
    let spec = context.spec;
    let mut plan = Plan { tracer: context.tracer().as_raw().unsigned_abs(), ..Plan::default() };
    let mut gdb = None;
    if let Some(debug) = context.debug {
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
        plan.gdb = OsString::from_vec(debugger(gdb, argset)?);
    }
    Ok(plan)
}

/// The debugger of this host.
fn debugger(gdb: &[u8], argset: &Argset) -> Result<Bytes, Failure> {
    let wanted = Argset { program: gdb.to_vec(), ..argset.clone() };
    let found = locate::program(&wanted).map(|program| program.path);
    found.map_err(|unusable| {
        let gdb = String::from_utf8_lossy(gdb);
        let problem = format!(
            "cannot execute the debugger {gdb}: {}; install it, or name another one with -gdb-path",
            unusable.problem
        );
        Failure::Suite { problem }
    })
}
