//! The CPUs and GPUs of this host for the ranks of a world, and the report of the CPUs that they have.

use mpd_io::files::logging::plain;
use mpd_io::host::cpus;
use mpd_io::host::gpus;
use mpd_placement::binding::Bindings;
use mpd_placement::cpu::Cpu;
use mpd_placement::description::describe;
use mpd_placement::gpus::Gpus;
use mpd_placement::gpus_of;
use mpd_placement::locality::list;
use mpd_wire::Rank;
use mpd_wire::job::{Binding, Failure, PlacementSpec};
use nix::unistd::Pid;

use super::ranks_context::RanksContext;

/// The bindings of the ranks here to CPUs that this manager may use. `running`: so many ranks run here already.
pub(super) fn bindings(
    placement: &PlacementSpec,
    running: usize,
    ranks: &[Rank],
) -> Result<Bindings, Failure> {
    if !placement.binds() {
        return Ok(Bindings::default());
    }
    let failed = |problem: String| {
        let option = match placement.binding {
            Binding::None => "the CPUs of ranks".to_owned(),
            binding => format!("-bind-to {}", binding.name()),
        };
        Failure::Suite { problem: format!("{option}: {problem}") }
    };
    let allowed = cpus::allowed()
        .map_err(|e| failed(format!("cannot tell which CPUs are here: {}", plain(&e))))?;
    Bindings::plan_after(placement, &allowed, running, ranks).map_err(|e| failed(e.to_string()))
}

/// Checks that this host takes so many ranks, by the host file with which its daemon was started. The host list of a job was
/// checked when the job was placed.
pub(super) fn check_limit(context: RanksContext<'_>, ranks: &[Rank]) -> Result<(), Failure> {
    let Some(max) = context.order.limits.max else { return Ok(()) };
    let count = context.running + ranks.len();
    if ranks.is_empty() || count <= usize::try_from(max).unwrap_or(usize::MAX) {
        return Ok(());
    }
    let problem = format!("{count} processes are more than its limit of {max} (max_slots)");
    Err(Failure::Suite { problem })
}

/// The GPUs of this host for its ranks, if ranks get GPUs. Their number is that of the job's host list. Otherwise it is that of the
/// host file of the boot, or that of the devices here.
pub(super) fn gpus(context: RanksContext<'_>, ranks: &[Rank]) -> Result<Option<Gpus>, Failure> {
    let RanksContext { spec, order, .. } = context;
    // The host of the root manager may have no rank.
    if spec.placement.gpus.is_none() || ranks.is_empty() {
        return Ok(None);
    }
    let own = order.host_slices.get(order.tree_index as usize).map(|slice| &slice.member);
    let lists = spec.argsets.iter().filter_map(|argset| argset.hosts.as_deref());
    let mut lists = lists.chain(std::iter::once(&spec.placement.hosts[..]));
    let is_origin = order.tree_index == 0;
    let named = own.and_then(|own| lists.find_map(|list| gpus_of(list, own, is_origin)));
    let named = named.or(order.limits.gpus);
    let found = named.map_or_else(gpus::here, Gpus::of_number);
    match found.count() {
        0 => Err(Failure::Suite {
            problem: "-gpus-per-proc: there is no GPU here: no /dev/nvidia* and no /dev/dri/renderD*, and no gpus=N \
                      in the host file"
                .to_owned(),
        }),
        _ => Ok(Some(found)),
    }
}

/// A line about the CPUs that a process has now; `all` are those that the job may use here.
pub(super) fn report(rank: &str, host: &str, pid: Pid, all: &[Cpu]) -> String {
    let Some(found) = cpus::of_process(pid) else {
        return format!("rank {rank} on {host}: its CPUs cannot be read");
    };
    let numbers = list(found.iter().copied());
    format!("rank {rank} on {host}: CPUs {numbers} ({})", describe(&found, all))
}
