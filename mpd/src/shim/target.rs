//! The process to which a debugger attaches for a rank. If the rank's process is a shim, the program is another
//! process.

use anyhow::{Context, Result, bail};
use mpd_debug::shim::Tracing;
use mpd_io::process::tracer::caught_by;
use mpd_io::process::tree::children;
use nix::unistd::Pid;

use super::plan;

/// The process to attach to for the process of a rank: that process, the program of its shim, or the crashed
/// process that its shim holds.
///
/// # Errors
/// The program has another tracer, or has not crashed.
pub(super) fn of(process: u32) -> Result<u32> {
    let Some(plan) = plan::of(process) else { return Ok(process) };
    let shim = Pid::from_raw(i32::try_from(process)?);
    let pid = match plan.tracing {
        _ if plan.debugs => bail!("cannot attach: this rank runs under gdb already"),
        Some(Tracing::Stacks) => {
            bail!("cannot attach: this rank runs with -on-crash, and its shim traces it")
        }
        Some(Tracing::Hold) => caught_by(shim).into_iter().next().context(
            "cannot attach: this rank runs with -on-crash and has not crashed; -r names ranks",
        )?,
        None => {
            children(shim).into_iter().next().context("cannot attach: the program has ended")?
        }
    };
    Ok(pid.as_raw().unsigned_abs())
}
