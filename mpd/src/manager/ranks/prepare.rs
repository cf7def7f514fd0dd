//! The first phase of a start: all checks that are possible before a rank runs.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mpd_clients::universe;
use mpd_debug::shim::Abilities;
use mpd_io::process::locate;
use mpd_io::process::spawn::Spawn;
use mpd_io::process::sweep::COOKIE;
use mpd_io::ring::slots::{LIST_VARIABLE, LOCAL_VARIABLE};
use mpd_placement::binding::Bindings;
use mpd_placement::cpu::Cpu;
use mpd_placement::gpus::Gpus;
use mpd_placement::is_alike;
use mpd_placement::locality::list;
use mpd_wire::Rank;
use mpd_wire::job::group_of;
use mpd_wire::job::{Argset, ArgumentFormat, Failure, JobSpec, Limit};
use mpd_wire::message::StartJob;
use nix::sys::resource::Resource;

use super::descriptors::PMI_FD;
use super::ranks_context::RanksContext;
use super::resources;
use super::wrap::{self, Arguments};
use crate::limits;
use crate::manager::ending::groups::Groups;
use crate::manager::links::staging::Staging;

/// Descriptors that the manager needs besides those of the ranks.
const OWN_DESCRIPTORS: u64 = 64;

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

/// The results of the checks of a world, and what its ranks are started with.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// By argset.
    pub(crate) launches: BTreeMap<usize, Launch>,
    pub(crate) bindings: Bindings,
    /// The GPUs of this host, if ranks get GPUs.
    pub(crate) gpus: Option<Gpus>,
    /// The CPUs that the job may use here, if those of the ranks are to be reported.
    pub(crate) cpus: Option<Vec<Cpu>>,
}

/// How the ranks of an argset are started.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) spawn: Spawn,
    /// Those of their shim, if one is started.
    pub(crate) shim: Option<Abilities>,
}

/// Checks the programs of `ranks`, which are to run here besides the ranks that already run. Prepares one [`Spawn`]
/// per argset. Some programs may have been brought to this host.
///
/// # Errors
/// The failure of the first argset at fault.
pub(crate) fn prepare(
    context: RanksContext<'_>,
    ranks: &[Rank],
    tmpdir: Option<&Path>,
    staging: Option<&Staging>,
) -> Result<Prepared, Failure> {
    let spec = context.spec;
    check_descriptors(context, ranks)?;
    let bindings = resources::bindings(&spec.placement, context.running, ranks)?;
    resources::check_limit(context, ranks)?;
    let gpus = resources::gpus(context, ranks)?;
    let mut launches = BTreeMap::new();
    for &rank in ranks {
        let number = spec.argset_of(rank);
        if launches.contains_key(&number) {
            continue;
        }
        let argset = &spec.argsets[number];
        let failed = |problem: String| Failure::Suite { problem };
        let directory = Path::new(OsStr::from_bytes(&argset.directory));
        let entered = std::fs::metadata(directory).and_then(|metadata| match metadata.is_dir() {
            true => Ok(()),
            false => Err(std::io::Error::from_raw_os_error(libc::ENOTDIR)),
        });
        entered.or_else(|e| match e.kind() {
            // Only certain failures are refused here.
            std::io::ErrorKind::PermissionDenied => Ok(()),
            _ => Err(failed(cannot_enter(&argset.directory, &e))),
        })?;
        let brought = staging.and_then(|staging| staging.path_of(number, tmpdir));
        let program = brought.map_or_else(|| locate::program(argset), locate::at);
        let program = program.map_err(|unusable| Failure::CannotExecute {
            rank,
            program: String::from_utf8_lossy(&argset.program).into_owned(),
            problem: unusable.problem,
            missing: unusable.missing,
        })?;
        let arguments = wrap::arguments(context, argset, (rank, program))?;
        let shim = arguments.shim;
        let spawn = spawn_of((context, ranks.len()), argset, arguments, tmpdir).map_err(failed)?;
        launches.insert(number, Launch { spawn, shim });
    }
    Ok(Prepared { launches, bindings, gpus, cpus: None })
}

pub(crate) fn cannot_enter(directory: &[u8], error: &std::io::Error) -> String {
    let directory = String::from_utf8_lossy(directory);
    format!(
        "cannot enter the working directory {directory}: {}",
        mpd_io::files::logging::plain(error)
    )
}

/// Counts two pipes and a socket per rank, a pipe more for receivers of stdin, and one or two files by pattern.
fn check_descriptors(context: RanksContext<'_>, ranks: &[Rank]) -> Result<(), Failure> {
    let spec = context.spec;
    let size = (ranks.len() + context.running) as u64;
    let is_fed = |rank| spec.stdin_switch || spec.stdin.contains(rank);
    let fed = ranks.iter().filter(|&&rank| is_fed(rank)).count() as u64;
    let files = [&spec.output.outfile, &spec.output.errfile].into_iter().flatten();
    let has_terminal = spec.argsets.iter().any(|argset| argset.pty.is_some());
    let has_shim = has_terminal || context.debug.is_some() || spec.on_crash.is_some();
    let per_rank = 3 + u64::from(has_shim) + files.filter(|f| f.names_rank()).count() as u64;
    let need = size * per_rank + fed + OWN_DESCRIPTORS;
    let hard = limits::own(Resource::RLIMIT_NOFILE as u8).map_or(u64::MAX, |(_, hard)| hard);
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

/// Whether the root can have `files` files open for output, besides the descriptors of its own `ranks`.
///
/// # Errors
/// Why not.
pub(in crate::manager) fn check_files(ranks: usize, files: usize) -> Result<(), String> {
    // Few ranks have more descriptors than these.
    let need = 3 * ranks as u64 + files as u64 + OWN_DESCRIPTORS;
    let hard = limits::own(Resource::RLIMIT_NOFILE as u8).map_or(u64::MAX, |(_, hard)| hard);
    if need > hard {
        return Err(format!(
            "{files} files for output need {need} file descriptors in all, and the hard limit is {hard} (ulimit -Hn where mpd was started)"
        ));
    }
    Ok(())
}

fn spawn_of(
    (context, ranks_here): (RanksContext<'_>, usize),
    argset: &Argset,
    arguments: Arguments,
    tmpdir: Option<&Path>,
) -> Result<Spawn, String> {
    let RanksContext { spec, order, .. } = context;
    let nul = |_| "a NUL byte in the job".to_owned();
    let given = &spec.environments[argset.environment as usize];
    let has_strings = strings_of(given).is_some();
    let is_string = |variable: &[u8]| has_strings && value_of(variable, LOCAL_VARIABLE).is_some();
    let is_kept = |variable: &&Vec<u8>| !is_set_by_manager(variable) && !is_string(variable);
    let mut environment: Vec<Vec<u8>> = given.iter().filter(is_kept).cloned().collect();
    name_this_host(&mut environment, order);
    let crowded = mpd_io::host::cpus::are_fewer_than(context.running + ranks_here);
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
    if let Some(tmpdir) = tmpdir {
        set("MPD_JOB_TMPDIR", tmpdir.as_os_str().as_bytes());
    }
    let mut spawn = Spawn::new(&arguments.path, arguments.argv, environment).map_err(nul)?;
    spawn.script(arguments.script);
    spawn.directory(&argset.directory).map_err(nul)?;
    spawn.umask(argset.umask).limits(differing_limits(&argset.limits)?).niceness(spec.niceness);
    spawn.in_our_session().die_with_parent().traced_by(context.tracer());
    Ok(spawn)
}

/// Lets variables with the name of the caller's host have the name of this host.
fn name_this_host(environment: &mut [Vec<u8>], order: &StartJob) {
    let root = order.host_slices.get(0).filter(|_| order.tree_index > 0);
    let Some(root) = root.map(|slice| slice.member.as_str()) else { return };
    for entry in environment {
        for name in ["HOSTNAME=", "HOST="] {
            let value = entry.strip_prefix(name.as_bytes());
            if value.is_some_and(|value| str::from_utf8(value).is_ok_and(|it| is_alike(it, root))) {
                *entry = [name, &mpd_io::ring::rundir::host_name()].concat().into_bytes();
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
pub(crate) fn variable_of_scheduler(spec: &JobSpec, rank: Rank) -> Option<(&'static str, String)> {
    let argset = &spec.argsets[spec.argset_of(rank)];
    let own = own_string(&spec.environments[argset.environment as usize], rank)?;
    Some((LOCAL_VARIABLE, own))
}

fn own_string(given: &[Vec<u8>], rank: Rank) -> Option<String> {
    let mut strings = strings_of(given)?.split(|byte| *byte == b'\n');
    let own = strings.nth(usize::try_from(rank.0).ok()?)?;
    Some(String::from_utf8_lossy(own).into_owned())
}

/// The variables that differ from rank to rank; `local` is the rank's index on this host.
pub(crate) fn variables_of(
    (spec, groups): (&JobSpec, &Groups),
    rank: Rank,
    local: usize,
) -> Vec<CString> {
    let mut texts = vec![
        format!("PMI_RANK={rank}"),
        format!("MPI_LOCALRANKID={local}"),
        format!("OMPI_COMM_WORLD_RANK={rank}"),
        format!("OMPI_COMM_WORLD_LOCAL_RANK={local}"),
        format!("OMPI_COMM_WORLD_NODE_RANK={local}"),
        format!("MV2_COMM_WORLD_RANK={rank}"),
        format!("MV2_COMM_WORLD_LOCAL_RANK={local}"),
    ];
    if let Some(group) = group_of(spec, rank) {
        texts.extend(groups.variables(group));
    }
    texts.into_iter().filter_map(|text| CString::new(text).ok()).collect()
}

/// The variables by which Open MPI 4 learns to which CPUs a rank is bound; none if it is not bound. Open MPI 5 reads that
/// from the job information.
pub(crate) fn variables_of_binding(cpus: &[u32]) -> Vec<(&'static str, String)> {
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
pub(crate) fn variables_of_gpus(
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

/// Variables as lines of an environment.
pub(crate) fn lines_of(variables: Vec<(&str, String)>) -> impl Iterator<Item = CString> {
    variables.into_iter().filter_map(|(name, value)| CString::new(format!("{name}={value}")).ok())
}

/// The arguments of a rank's program, if they differ from rank to rank.
pub(crate) fn arguments_of(
    (spec, order): (&JobSpec, &StartJob),
    (rank, local): (Rank, usize),
) -> Option<Vec<CString>> {
    let argset = spec.argsets.get(spec.argset_of(rank)).filter(|argset| argset.substitute)?;
    let host_slice = order.host_slices.get(order.tree_index as usize);
    let value = |field| match field {
        b'r' => rank.to_string(),
        b'l' => local.to_string(),
        b'h' => host_slice
            .map_or_else(|| order.host.clone(), |host_slice| host_slice.member.to_string()),
        b'j' => order.job.to_string(),
        _ => spec.size().to_string(),
    };
    let filled = argset.args.iter().map(|arg| match ArgumentFormat::new(arg) {
        Ok(format) => format.fill(|field| value(field).into_bytes()),
        Err(_) => arg.clone(),
    });
    Some(filled.filter_map(|word| CString::new(word).ok()).collect())
}

/// The limits that differ from ours. They are cut to the daemon's own hard limits, since the user's shell may have
/// larger ones.
fn differing_limits(wanted: &[Limit]) -> Result<Vec<(u8, u64, u64)>, String> {
    let mut differing = Vec::new();
    for limit in wanted {
        if !limits::is_resource(limit.resource) {
            return Err(format!("resource limit {} is unknown", limit.resource));
        }
        let Some((soft, hard)) = limits::own(limit.resource) else { continue };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_with_the_name_of_the_callers_host_have_that_of_the_own_host_elsewhere() {
        let mut order = crate::manager::fixture::common("true").node.job().order.clone();
        let given = ["HOST=h1.cluster", "HOSTNAME=h1", "OTHER=h1", "HOST=mine"];
        let given = given.map(|variable| variable.as_bytes().to_vec());
        let mut variables = given.clone();
        name_this_host(&mut variables, &order);
        assert_eq!(variables, given, "on the host of the caller");
        order.tree_index = 1;
        name_this_host(&mut variables, &order);
        let own = mpd_io::ring::rundir::host_name();
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
