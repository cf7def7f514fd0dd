//! Values of parameters that need more than a pattern.

use crate::dialect::language::Facts;
use crate::dialect::layout::Layout;
use crate::dialect::open_mpi;
use crate::dialect::translation::Translation;

/// Hosts that count if no others are named.
pub(super) fn default_hosts(
    layout: &mut Layout,
    values: &[&str],
    caller: &dyn Facts,
) -> Translation {
    if values[0] != "none" {
        let words = open_mpi::one_slot(values, caller)?;
        layout.default_hosts(words);
    }
    Ok(Vec::new())
}

/// The remote shell: one command, or a list of alternatives like `ssh : rsh`.
pub(super) fn agent(layout: &mut Layout, values: &[&str], caller: &dyn Facts) -> Translation {
    let all = values[0].split(':').map(str::trim).filter(|command| !command.is_empty());
    let all: Vec<&str> = all.collect();
    let is_here = |command: &&&str| {
        let program = command.split_whitespace().next().unwrap_or_default();
        program.contains('/') || caller.has_program(program)
    };
    let chosen = all.iter().find(is_here).or(all.first());
    let chosen = chosen.ok_or_else(|| "it must be a command, like ssh".to_owned())?;
    layout.remote_agent(chosen);
    Ok(Vec::new())
}

/// The component that maps: the sequential one has an option of ours.
pub(super) fn mapper(layout: &mut Layout, values: &[&str], _: &dyn Facts) -> Translation {
    match values[0] {
        "seq" => layout.map_by("seq"),
        "round_robin" | "ppr" | "rank_file" => Ok(Vec::new()),
        _ => {
            layout.note("it has no effect: --map-by chooses the mapper");
            Ok(Vec::new())
        }
    }
}

/// The signals to forward.
pub(super) fn signals(layout: &mut Layout, values: &[&str], _: &dyn Facts) -> Translation {
    if values[0] == "none" {
        layout.note("it has no effect: every signal that can be caught is forwarded");
    }
    Ok(Vec::new())
}
