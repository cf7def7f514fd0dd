//! The environment and the arguments of ranks.

use mpd_alloc::variables::{LIST_VARIABLE, LOCAL_VARIABLE};
use mpd_clients::{Job, World, universe, variables_of};
use mpd_placement::gpus::Gpus;
use mpd_placement::is_alike;
use mpd_placement::locality::list;
use mpd_wire::Rank;
use mpd_wire::job::{Argset, ArgumentFormat, Bytes, JobSpec, group_of};
use mpd_wire::message::StartJob;

use crate::host::Host;
use crate::ranks::Context;
use crate::world_context::WorldContext;

/// The number of the PMI descriptor in every rank.
const PMI_FD: u32 = 3;

/// The variable with the cookie of the job.
const COOKIE: &str = "MPD_JOB_COOKIE";

/// Variables that the manager sets. Values from the user's environment do not reach a rank.
const SET_BY_MANAGER: [&str; 45] = [
    "GFORTRAN_UNBUFFERED_PRECONNECTED",
    "JSM_JSRUN_PORT",
    "MPD_GROUP_DIR",
    "MPD_GROUP_IPC_KEY",
    "MPD_GROUP_KEY",
    "MPD_GROUP_RANK",
    "MPD_GROUP_SIZE",
    "MPD_JOB_COOKIE",
    "MPD_JOB_ID",
    "MPD_JOB_TMPDIR",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_NODE_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_MCA_orte_base_applied_binding",
    "OMPI_MCA_orte_bound_at_launch",
    "OMPI_UNIVERSE_SIZE",
    "PMIX_BFROP_BUFFER_TYPE",
    "PMIX_GDS_MODULE",
    "PMIX_HOSTNAME",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "PMIX_SECURITY_MODE",
    "PMIX_SERVER_TMPDIR",
    "PMIX_SERVER_URI2",
    "PMIX_SERVER_URI21",
    "PMIX_SERVER_URI3",
    "PMIX_SERVER_URI4",
    "PMIX_SERVER_URI41",
    "PMIX_SYSTEM_TMPDIR",
    "PMIX_VERSION",
    "PMI_FD",
    "PMI_HOSTNAME",
    "PMI_ID",
    "PMI_PORT",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_SPAWNED",
];

/// The environment that the ranks of an argset have in common.
pub(crate) fn environment(
    context: WorldContext<'_>,
    ranks_here: usize,
    argset: &Argset,
) -> Vec<Bytes> {
    let WorldContext { spec, job, host, .. } = context;
    let order = &job.order;
    let given = &spec.environments[argset.environment as usize];
    let has_strings = strings_of(given).is_some();
    let is_string = |variable: &[u8]| has_strings && value_of(variable, LOCAL_VARIABLE).is_some();
    let is_kept = |variable: &&Vec<u8>| !is_set_by_manager(variable) && !is_string(variable);
    let mut environment: Vec<Bytes> = given.iter().filter(is_kept).cloned().collect();
    name_this_host(&mut environment, order, host);
    let ranks = context.running + ranks_here;
    let crowded = host.has_fewer_cpus_than(ranks) || job.spec.allowance.has_fewer_cpus_than(ranks);
    let wanted = for_libraries(given, crowded);
    let mut set = |name: &str, value: &[u8]| {
        environment.push([name.as_bytes(), b"=", value].concat());
    };
    let size = spec.size().to_string();
    if let Some(universe) = universe::known(order, spec.size()) {
        set("OMPI_UNIVERSE_SIZE", universe.to_string().as_bytes());
    }
    set("PMI_FD", PMI_FD.to_string().as_bytes());
    set("PMI_SIZE", size.as_bytes());
    set("PMI_HOSTNAME", order.host.as_bytes());
    let here = ranks_here.to_string();
    set("MPI_LOCALNRANKS", here.as_bytes());
    // Scripts find their place by these names, whatever library the program has.
    for family in ["OMPI", "MV2"] {
        set(&format!("{family}_COMM_WORLD_SIZE"), size.as_bytes());
        set(&format!("{family}_COMM_WORLD_LOCAL_SIZE"), here.as_bytes());
    }
    set("MPD_JOB_ID", order.job.to_string().as_bytes());
    set(COOKIE, order.cookie.at(order.tree_index).as_bytes());
    wanted.for_each(|(name, value)| set(name, value.as_bytes()));
    if context.has_parent {
        set("PMI_SPAWNED", b"1");
    }
    set("GFORTRAN_UNBUFFERED_PRECONNECTED", b"y");
    if let Some(directory) = &job.directory {
        set("MPD_JOB_TMPDIR", directory.as_os_str().as_encoded_bytes());
    }
    environment
}

/// Lets variables with the name of the caller's host have the name of this host.
fn name_this_host(environment: &mut [Bytes], order: &StartJob, host: &dyn Host) {
    let root = order.host_slices.get(0).filter(|_| order.tree_index > 0);
    let Some(root) = root.map(|slice| slice.member.as_str()) else { return };
    for entry in environment {
        for name in ["HOSTNAME=", "HOST="] {
            let value = entry.strip_prefix(name.as_bytes());
            if value.is_some_and(|value| str::from_utf8(value).is_ok_and(|it| is_alike(it, root))) {
                *entry = [name, &host.host_name()].concat().into_bytes();
            }
        }
    }
}

/// Variables that libraries need. MPICH 5 would choose PMIx where it is offered. The library of Intel normally gets its
/// variables from its own launcher. They say that processes can be spawned. If ranks outnumber CPUs, they make waiting
/// ranks block instead of polling, which would slow down the others. Open MPI 4 then yields the CPU; Open MPI 5 reads that
/// from the job information. Values of the user are kept.
fn for_libraries(
    given: &[Vec<u8>],
    crowded: bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let wanted = [
        ("I_MPI_SPAWN", "on", true),
        ("I_MPI_WAIT_MODE", "1", crowded),
        ("MPIR_CVAR_PMI_VERSION", "1", true),
        ("OMPI_MCA_mpi_oversubscribe", "1", crowded),
    ];
    let is_given = |name: &str| {
        let matches =
            |variable: &[u8]| variable.split(|&b| b == b'=').next() == Some(name.as_bytes());
        given.iter().any(|variable| matches(variable))
    };
    let wanted = wanted.into_iter().filter(move |&(name, _, wants)| wants && !is_given(name));
    wanted.map(|(name, value, _)| (name, value)).collect::<Vec<_>>().into_iter()
}

fn is_set_by_manager(variable: &[u8]) -> bool {
    let name = variable.split(|&b| b == b'=').next().unwrap_or_default();
    SET_BY_MANAGER.iter().any(|ours| ours.as_bytes() == name)
}

fn value_of<'a>(variable: &'a [u8], name: &str) -> Option<&'a [u8]> {
    variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// The strings of the scheduler about each process of an allocation, if its command has started the job.
fn strings_of(given: &[Vec<u8>]) -> Option<&[u8]> {
    given.iter().find_map(|variable| value_of(variable, LIST_VARIABLE))?;
    given.iter().find_map(|variable| value_of(variable, LOCAL_VARIABLE))
}

/// The variable with the string of the scheduler about this rank, which is a line of those of all ranks.
fn variable_of_scheduler(spec: &JobSpec, rank: Rank) -> Option<(&'static str, String)> {
    let argset = &spec.argsets[spec.argset_of(rank)];
    let own = own_string(&spec.environments[argset.environment as usize], rank)?;
    Some((LOCAL_VARIABLE, own))
}

fn own_string(given: &[Vec<u8>], rank: Rank) -> Option<String> {
    let mut strings = strings_of(given)?.split(|byte| *byte == b'\n');
    let own = strings.nth(usize::try_from(rank.0).ok()?)?;
    Some(String::from_utf8_lossy(own).into_owned())
}

/// The variables that differ from rank to rank. With the GPUs comes the number of ranks that ran here before the world.
pub(crate) fn variables(
    Context { job, host, .. }: Context<'_>,
    world: &World,
    rank: Rank,
    gpus: Option<(Gpus, usize)>,
) -> Vec<String> {
    let (own, local) = (world.numbers.own(rank), world.local(rank));
    let mut texts = vec![
        format!("PMI_RANK={own}"),
        format!("MPI_LOCALRANKID={local}"),
        format!("OMPI_COMM_WORLD_RANK={own}"),
        format!("OMPI_COMM_WORLD_LOCAL_RANK={local}"),
        format!("OMPI_COMM_WORLD_NODE_RANK={local}"),
        format!("MV2_COMM_WORLD_RANK={own}"),
        format!("MV2_COMM_WORLD_LOCAL_RANK={local}"),
    ];
    if let Some(group) = group_of(&world.spec, own) {
        texts.extend(host.variables_of_group(group));
    }
    let mut named = variables_of(job, world, rank);
    named.extend(variables_of_binding(world.cpus_of(rank)));
    named.extend(variable_of_scheduler(&world.spec, own));
    if let Some((gpus, running)) = gpus {
        named.extend(variables_of_gpus(&world.spec, (own, running + local), gpus));
    }
    texts.extend(named.into_iter().map(|(name, value)| format!("{name}={value}")));
    texts
}

/// The variables by which Open MPI 4 learns to which CPUs a rank is bound; none if it is not bound. Open MPI 5 reads that
/// from the job information.
fn variables_of_binding(cpus: &[u32]) -> Vec<(&'static str, String)> {
    if cpus.is_empty() {
        return Vec::new();
    }
    vec![
        ("OMPI_MCA_orte_bound_at_launch", "1".to_owned()),
        ("OMPI_MCA_orte_base_applied_binding", list(cpus.iter().copied())),
    ]
}

/// The variables that select the GPUs of a rank, except those that its program has already. `local` counts the ranks that
/// get GPUs of this host, also of earlier worlds.
fn variables_of_gpus(
    spec: &JobSpec,
    (rank, local): (Rank, usize),
    gpus: Gpus,
) -> Vec<(&'static str, String)> {
    let argset = &spec.argsets[spec.argset_of(rank)];
    let given = &spec.environments[argset.environment as usize];
    let is_given = |name: &str| {
        let is_it =
            |variable: &Vec<u8>| variable.split(|&b| b == b'=').next() == Some(name.as_bytes());
        given.iter().any(is_it)
    };
    let mut variables = gpus.variables(local, spec.placement.gpus.unwrap_or(1));
    variables.retain(|(name, _)| !is_given(name));
    variables
}

/// The arguments of a rank's program, if they differ from rank to rank.
pub(crate) fn arguments(job: &Job, world: &World, rank: Rank) -> Vec<Bytes> {
    let (own, local) = (world.numbers.own(rank), world.local(rank));
    let spec = &world.spec;
    let argset = &spec.argsets[spec.argset_of(own)];
    if !argset.substitute {
        return Vec::new();
    }
    let value = |field| match field {
        b'r' => own.to_string(),
        b'l' => local.to_string(),
        b'h' => job.host(),
        b'j' => job.order.job.to_string(),
        _ => spec.size().to_string(),
    };
    let filled = argset.args.iter().map(|arg| match ArgumentFormat::new(arg) {
        Ok(format) => format.fill(|field| value(field).into_bytes()),
        Err(_) => arg.clone(),
    });
    filled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Manager;

    #[test]
    fn variables_with_the_name_of_the_callers_host_have_that_of_the_own_host_elsewhere() {
        let manager = Manager::new(1);
        let mut order = manager.job.order.clone();
        let given = ["HOST=h1.cluster", "HOSTNAME=h1", "OTHER=h1", "HOST=mine"];
        let given = given.map(|variable| variable.as_bytes().to_vec());
        let mut variables = given.clone();
        name_this_host(&mut variables, &order, &manager);
        assert_eq!(variables, given, "on the host of the caller");
        order.tree_index = 1;
        name_this_host(&mut variables, &order, &manager);
        let own = manager.host_name();
        let expected = [
            format!("HOST={own}"),
            format!("HOSTNAME={own}"),
            "OTHER=h1".to_owned(),
            "HOST=mine".to_owned(),
        ];
        assert_eq!(variables, expected.map(String::into_bytes));
    }

    #[test]
    fn variables_for_libraries_s_library_are_set_unless_the_user_has_set_them() {
        let reported = |given: &[&str], crowded| {
            let given: Vec<Vec<u8>> = given.iter().map(|text| text.as_bytes().to_vec()).collect();
            for_libraries(&given, crowded).map(|(name, value)| format!("{name}={value}")).collect()
        };
        let all: Vec<String> = reported(&[], true);
        let yields = "OMPI_MCA_mpi_oversubscribe=1";
        assert_eq!(all, ["I_MPI_SPAWN=on", "I_MPI_WAIT_MODE=1", "MPIR_CVAR_PMI_VERSION=1", yields]);
        let mpich = "MPIR_CVAR_PMI_VERSION=2";
        assert_eq!(reported(&["I_MPI_SPAWNER=x", mpich], false), ["I_MPI_SPAWN=on"]);
        let polls = "OMPI_MCA_mpi_oversubscribe=0";
        let given = ["I_MPI_SPAWN=off", "I_MPI_WAIT_MODE=0", mpich, polls];
        assert_eq!(reported(&given, true), Vec::<String>::new());
    }

    #[test]
    fn each_rank_has_its_own_string_of_the_scheduler() {
        let of = |variables: &[&str], rank| {
            let given: Vec<Vec<u8>> =
                variables.iter().map(|text| text.as_bytes().to_vec()).collect();
            own_string(&given, Rank(rank))
        };
        let both = ["MPD_ALLOC_LOCAL=a\nb c", "MPD_ALLOC_SLOTS=h1:2"];
        assert_eq!(of(&both, 0).as_deref(), Some("a"));
        assert_eq!(of(&both, 1).as_deref(), Some("b c"));
        assert_eq!(of(&both, 2), None);
        // A process of a program with libmpd has its string already.
        assert_eq!(of(&["MPD_ALLOC_LOCAL=a"], 0), None);
        assert_eq!(of(&["MPD_ALLOC_SLOTS=h1:2"], 0), None);
    }

    #[test]
    fn a_bound_rank_has_variables_with_its_cpus() {
        assert_eq!(variables_of_binding(&[]), []);
        let [bound, cpus] = variables_of_binding(&[0, 1, 4]).try_into().unwrap();
        assert_eq!((bound.1.as_str(), cpus.1.as_str()), ("1", "0-1,4"));
        assert!([bound.0, cpus.0].iter().all(|name| is_set_by_manager(name.as_bytes())));
    }
}
