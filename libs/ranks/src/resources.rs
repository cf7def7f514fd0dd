//! The CPUs and GPUs of this host for the ranks of a world, and the host's limit of ranks.

use mpd_placement::binding::Bindings;
use mpd_placement::gpus::Gpus;
use mpd_placement::gpus_of;
use mpd_wire::Rank;
use mpd_wire::job::{Binding, Failure};

use crate::world_context::WorldContext;

/// The bindings of the ranks here to CPUs that the manager may use.
pub(crate) fn bindings(context: WorldContext<'_>, ranks: &[Rank]) -> Result<Bindings, Failure> {
    let (placement, running) = (&context.spec.placement, context.running);
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
    let allowed = context.host.allowed_cpus();
    let allowed = allowed.map_err(|e| failed(format!("cannot tell which CPUs are here: {e}")))?;
    Bindings::plan_after(placement, &allowed, running, ranks).map_err(|e| failed(e.to_string()))
}

/// Checks that this host takes so many ranks, by the host file with which its daemon was started. The host list of a job was
/// checked when the job was placed.
pub(crate) fn check_limit(context: WorldContext<'_>, ranks: &[Rank]) -> Result<(), Failure> {
    let Some(max) = context.job.order.limits.max else { return Ok(()) };
    let count = context.running + ranks.len();
    if ranks.is_empty() || count <= usize::try_from(max).unwrap_or(usize::MAX) {
        return Ok(());
    }
    let problem = format!("{count} processes are more than its limit of {max} (max_slots)");
    Err(Failure::Suite { problem })
}

/// The GPUs of this host for its ranks, if ranks get GPUs. The host list of the job gives their number, otherwise the host file of
/// the boot, and otherwise the devices of this host.
pub(crate) fn gpus(context: WorldContext<'_>, ranks: &[Rank]) -> Result<Option<Gpus>, Failure> {
    let (spec, order) = (context.spec, &context.job.order);
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
    let found = named.map_or_else(|| context.host.gpus(), Gpus::of_number);
    match found.count() {
        0 => Err(Failure::Suite {
            problem: "-gpus-per-proc: there is no GPU here: no /dev/nvidia* and no /dev/dri/renderD*, and no gpus=N \
                      in the host file"
                .to_owned(),
        }),
        _ => Ok(Some(found)),
    }
}
