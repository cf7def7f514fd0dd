//! The hosts and CPUs of ranks that a command line of another launcher asks for, also by the defaults of that launcher and by
//! its variables. They become options of ours when all sections and files are read.

mod parameter_files;
mod parameters;
mod srun;

use crate::argsets::Argsets;
use crate::dialect::{Dialect, Known, Layout};
use crate::options::Key;
use crate::usage::Usage;

/// Adds the options.
///
/// # Errors
/// The options do not fit each other, or have no meaning here.
pub(crate) fn apply(argsets: &mut Argsets<'_>) -> Result<(), Usage> {
    let caller = argsets.caller();
    let mut given = std::mem::take(&mut argsets.layout);
    let mut layout = Layout::default();
    let is_open_mpi = argsets.dialect.is_some_and(Dialect::is_open_mpi);
    let has_parameters = is_open_mpi || argsets.dialect.is_none();
    if has_parameters {
        parameters::apply(argsets, &mut given, &mut layout)?;
    }
    if argsets.dialect == Some(Dialect::Srun) {
        layout = srun::of_variables(argsets, &given, caller)?;
    }
    layout.join(given);
    if has_parameters {
        parameters::prepare(argsets, &layout)?;
    }
    let tasks = match argsets.dialect {
        Some(Dialect::Srun) => srun::tasks(argsets, &layout, caller)?,
        _ => srun::Tasks::default(),
    };
    let names_cpus =
        [Key::RankFile, Key::Pick, Key::OnlyCpus].into_iter().any(|key| argsets.has(key));
    let dialect = argsets.dialect;
    if matches!(dialect, Some(Dialect::Hydra | Dialect::Mvapich)) && argsets.has(Key::HostFile) {
        // A host of a file has one slot unless the file says more.
        for host in argsets.job.placement.hosts.get_mut().into_iter().flatten() {
            host.ncpus = host.ncpus.or(Some(1));
        }
    }
    if is_open_mpi && argsets.has(Key::HostFile) {
        argsets.limit_to_file(|host| layout.is_plain(host))?;
    }
    let has_default = is_open_mpi || matches!(dialect, Some(Dialect::Intel | Dialect::Srun));
    if layout.is_empty() && (!has_default || names_cpus) {
        return Ok(());
    }
    let is_pin = |name: &[u8]| name.starts_with(b"I_MPI_PIN");
    let is_pinned = argsets.has(Key::Binding)
        || dialect != Some(Dialect::Srun)
            && (!argsets.assigned(is_pin).is_empty()
                || caller.environment.iter().any(|entry| is_pin(entry)));
    let said = match layout.said() {
        said if said.is_empty() => {
            format!("the default of {}", dialect.map_or("mpirun", Dialect::title))
        }
        said => said,
    };
    let mut known = Known {
        dialect: argsets.dialect,
        processes: 0,
        is_given: argsets.has(Key::Processes),
        is_pinned,
        slots: &tasks.slots,
        per_host: argsets.has(Key::PerHost),
        is_shared: tasks.is_shared,
        hosts: &tasks.hosts,
        in_turn: argsets.has(Key::RoundRobin),
        rooms: None,
        caller,
    };
    let problem = |e: String| Usage::new(format!("{said}: {e}"));
    if argsets.dialect == Some(Dialect::Srun) {
        known.processes = argsets.finish()?.0.size().into();
    }
    argsets.add_words(&said, layout.of_each_host(&known).map_err(problem)?)?;
    known.processes = argsets.finish()?.0.size().into();
    let rooms = match layout.ranks_by_node() {
        true => argsets.rooms(known.processes)?,
        false => None,
    };
    known.rooms = rooms.as_deref();
    argsets.add_words(&said, layout.words(&known).map_err(problem)?)
}
