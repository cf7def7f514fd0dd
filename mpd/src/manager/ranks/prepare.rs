//! The first phase of a start: everything that can be told to fail before a rank runs is checked here.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mpd_io::locate;
use mpd_io::spawn::Spawn;
use mpd_io::sweep::COOKIE;
use mpd_placement::binding::Bindings;
use mpd_wire::Rank;
use mpd_wire::job::group_of;
use mpd_wire::job::{Argset, ArgumentFormat, Binding, Failure, JobSpec, Limit};
use mpd_wire::message::StartJob;
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;

use super::wrap::{self, Words};
use crate::manager::ending::Groups;
use crate::manager::links::Staging;

/// Number of the PMI descriptor in every rank.
pub(crate) const PMI_FD: usize = 3;

/// Number of the descriptor where a rank's terminal finds its size, see [`super::window`].
pub(super) const WINDOW_FD: usize = PMI_FD + 1;

/// Descriptors that the manager needs besides those of the ranks.
const OWN_DESCRIPTORS: u64 = 64;

/// Variables that the manager gives; what the user's environment says of them does not reach a rank.
const OURS: [&str; 18] = [
    "GFORTRAN_UNBUFFERED_PRECONNECTED",
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
    "PMI_FD",
    "PMI_HOSTNAME",
    "PMI_ID",
    "PMI_PORT",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_SPAWNED",
];

/// Whose ranks are prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whose<'a> {
    /// The programs of their world.
    pub(crate) spec: &'a JobSpec,
    pub(crate) order: &'a StartJob,
    /// Ranks that run here already.
    pub(crate) there: usize,
    /// Whether a rank has spawned them.
    pub(crate) spawned: bool,
    /// The daemon that has started this manager.
    pub(crate) daemon: Pid,
}

/// What is known of the ranks of this host before one of them runs.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// By argset.
    pub(crate) spawns: BTreeMap<usize, Spawn>,
    pub(crate) bindings: Bindings,
}

/// Checks all that is to run here, besides as many ranks as are there, and prepares one [`Spawn`] per argset that does; some programs may have been
/// brought here.
///
/// # Errors
/// The failure of the first argset at fault.
pub(crate) fn prepare(
    whose: Whose<'_>,
    ranks: &[Rank],
    tmpdir: Option<&Path>,
    staging: Option<&Staging>,
) -> Result<Prepared, Failure> {
    let spec = whose.spec;
    check_descriptors(spec, ranks, whose.there)?;
    let bindings = bindings(spec.placement.binding, ranks.len())?;
    let mut spawns = BTreeMap::new();
    for &rank in ranks {
        let number = spec.argset_of(rank);
        if spawns.contains_key(&number) {
            continue;
        }
        let argset = &spec.argsets[number];
        let failed = |problem: String| Failure::Suite { problem };
        let directory = Path::new(OsStr::from_bytes(&argset.directory));
        std::fs::read_dir(directory).map(drop).or_else(|e| match e.kind() {
            // Entering needs less than reading: only what certainly fails is refused here.
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
        let words = wrap::words(whose, argset, (rank, program))?;
        let spawn = spawn_of((whose, ranks.len()), argset, words, tmpdir);
        spawns.insert(number, spawn.map_err(failed)?);
    }
    Ok(Prepared { spawns, bindings })
}

/// What the ranks here are bound to, of the CPUs that this manager may use.
fn bindings(wish: Binding, ranks: usize) -> Result<Bindings, Failure> {
    if wish == Binding::None {
        return Ok(Bindings::default());
    }
    let allowed = mpd_io::cpus::allowed().map_err(|e| {
        let name = wish.name();
        let problem = format!(
            "-bind-to {name}: cannot tell which CPUs are here: {}",
            mpd_io::logging::plain(&e)
        );
        Failure::Suite { problem }
    })?;
    Ok(Bindings::plan(wish, &allowed, ranks))
}

pub(crate) fn cannot_enter(directory: &[u8], error: &std::io::Error) -> String {
    let directory = String::from_utf8_lossy(directory);
    format!("cannot enter the working directory {directory}: {}", mpd_io::logging::plain(error))
}

/// Two pipes and a socket per rank, a pipe more for receivers of stdin, a file or two by pattern.
fn check_descriptors(spec: &JobSpec, ranks: &[Rank], there: usize) -> Result<(), Failure> {
    let size = (ranks.len() + there) as u64;
    let is_fed = |rank| spec.stdin_switch || spec.debug.is_some() || spec.stdin.contains(rank);
    let fed = ranks.iter().filter(|&&rank| is_fed(rank)).count() as u64;
    let files = [&spec.output.outfile, &spec.output.errfile].into_iter().flatten();
    let fronted = u64::from(spec.debug.is_some() || spec.on_crash.is_some());
    let per_rank = 3 + fronted + files.filter(|f| f.names(b'r')).count() as u64;
    let need = size * per_rank + fed + OWN_DESCRIPTORS;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((u64::MAX, u64::MAX));
    if need > hard {
        let problem = format!(
            "{size} processes on one host need {need} file descriptors, and the hard limit is {hard} (ulimit -Hn where mpd was started)"
        );
        return Err(Failure::Suite { problem });
    }
    Ok(())
}

/// Whether the root, beside so many ranks of its own, can have so many files open for output.
///
/// # Errors
/// Why not.
pub(in crate::manager) fn check_files(ranks: usize, files: usize) -> Result<(), String> {
    // Mostly no rank has more than these.
    let need = 3 * ranks as u64 + files as u64 + OWN_DESCRIPTORS;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((u64::MAX, u64::MAX));
    if need > hard {
        return Err(format!(
            "{files} files for output need {need} file descriptors in all, and the hard limit is {hard} (ulimit -Hn where mpd was started)"
        ));
    }
    Ok(())
}

fn spawn_of(
    (whose, ranks_here): (Whose<'_>, usize),
    argset: &Argset,
    words: Words,
    tmpdir: Option<&Path>,
) -> Result<Spawn, String> {
    let Whose { spec, order, .. } = whose;
    let nul = |_| "a NUL byte in the job".to_owned();
    let given = &spec.environments[argset.environment as usize];
    let mut environment: Vec<Vec<u8>> = given.iter().filter(|v| !is_ours(v)).cloned().collect();
    let crowded = whose.there + ranks_here > mpd_io::cpus::count() as usize;
    let intel = for_intel(given, crowded);
    let mut set = |name: &str, value: &[u8]| {
        environment.push([name.as_bytes(), b"=", value].concat());
    };
    let size = spec.size().to_string();
    set("PMI_FD", PMI_FD.to_string().as_bytes());
    set("PMI_SIZE", size.as_bytes());
    set("PMI_HOSTNAME", order.host.as_bytes());
    set("MPI_LOCALNRANKS", ranks_here.to_string().as_bytes());
    set("MPD_JOB_ID", order.job.to_string().as_bytes());
    set(COOKIE, order.cookie.at(order.place).as_bytes());
    intel.for_each(|(name, value)| set(name, value.as_bytes()));
    if whose.spawned {
        set("PMI_SPAWNED", b"1");
    }
    set("GFORTRAN_UNBUFFERED_PRECONNECTED", b"y");
    if let Some(tmpdir) = tmpdir {
        set("MPD_JOB_TMPDIR", tmpdir.as_os_str().as_bytes());
    }
    let mut spawn = Spawn::new(&words.path, words.argv, environment).map_err(nul)?;
    spawn.script(words.script);
    spawn.directory(&argset.directory).map_err(nul)?;
    spawn.umask(argset.umask).limits(limits(&argset.limits)?).niceness(spec.niceness);
    spawn.in_our_session().die_with_parent().traced_by(tracer(whose.daemon));
    Ok(spawn)
}

/// What Intel's library is told by its own launcher and finds out of no other: that processes can be spawned, and
/// where ranks outnumber CPUs, that those that wait should not poll, or the others hardly come on. What the
/// user has said stays.
fn for_intel(
    given: &[Vec<u8>],
    crowded: bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let wanted = [("I_MPI_SPAWN", "on", true), ("I_MPI_WAIT_MODE", "1", crowded)];
    let is_said = |name: &str| {
        let said = |variable: &[u8]| variable.split(|&b| b == b'=').next() == Some(name.as_bytes());
        given.iter().any(|variable| said(variable))
    };
    let wanted = wanted.into_iter().filter(move |&(name, _, wants)| wants && !is_said(name));
    wanted.map(|(name, value, _)| (name, value)).collect::<Vec<_>>().into_iter()
}

/// Debuggers that are attached to the job are children of another manager, and descend from the daemon; not
/// from one that was started later, after the death of ours.
pub(super) fn tracer(daemon: Pid) -> Pid {
    if Pid::parent() == daemon { daemon } else { Pid::this() }
}

fn is_ours(variable: &[u8]) -> bool {
    let name = variable.split(|&b| b == b'=').next().unwrap_or_default();
    OURS.iter().any(|ours| ours.as_bytes() == name)
}

/// The variables that differ from rank to rank; `local` is the rank's number on this host.
pub(crate) fn variables_of(
    (spec, groups): (&JobSpec, &Groups),
    rank: Rank,
    local: usize,
) -> Vec<CString> {
    let mut texts = vec![format!("PMI_RANK={rank}"), format!("MPI_LOCALRANKID={local}")];
    if let Some(group) = group_of(spec, rank) {
        texts.extend(groups.variables(group));
    }
    texts.into_iter().filter_map(|text| CString::new(text).ok()).collect()
}

/// The arguments of a rank's program, if they differ from rank to rank.
pub(crate) fn arguments_of(
    (spec, order): (&JobSpec, &StartJob),
    rank: Rank,
) -> Option<Vec<CString>> {
    let argset = spec.argsets.get(spec.argset_of(rank)).filter(|argset| argset.substitute)?;
    let share = order.shares.get(order.place as usize);
    let value = |field| match field {
        b'r' => rank.to_string(),
        b'h' => share.map_or_else(|| order.host.clone(), |share| share.member.to_string()),
        b'j' => order.job.to_string(),
        _ => spec.size().to_string(),
    };
    let filled = argset.args.iter().map(|arg| match ArgumentFormat::new(arg) {
        Ok(format) => format.fill(|field| value(field).into_bytes()),
        Err(_) => arg.clone(),
    });
    Some(filled.filter_map(|word| CString::new(word).ok()).collect())
}

/// The limits that differ from ours. What the daemon's own hard limits do not allow is cut down to
/// them: the user's shell may have been granted more than the daemon was.
fn limits(wanted: &[Limit]) -> Result<Vec<(u8, u64, u64)>, String> {
    let mut differing = Vec::new();
    for limit in wanted {
        let Some(resource) = resource(limit.resource) else {
            return Err(format!("resource limit {} is unknown", limit.resource));
        };
        let Ok((soft, hard)) = getrlimit(resource) else { continue };
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

fn resource(number: u8) -> Option<Resource> {
    Some(match u32::from(number) {
        libc::RLIMIT_CPU => Resource::RLIMIT_CPU,
        libc::RLIMIT_FSIZE => Resource::RLIMIT_FSIZE,
        libc::RLIMIT_DATA => Resource::RLIMIT_DATA,
        libc::RLIMIT_STACK => Resource::RLIMIT_STACK,
        libc::RLIMIT_CORE => Resource::RLIMIT_CORE,
        libc::RLIMIT_RSS => Resource::RLIMIT_RSS,
        libc::RLIMIT_NPROC => Resource::RLIMIT_NPROC,
        libc::RLIMIT_NOFILE => Resource::RLIMIT_NOFILE,
        libc::RLIMIT_MEMLOCK => Resource::RLIMIT_MEMLOCK,
        libc::RLIMIT_AS => Resource::RLIMIT_AS,
        libc::RLIMIT_LOCKS => Resource::RLIMIT_LOCKS,
        libc::RLIMIT_SIGPENDING => Resource::RLIMIT_SIGPENDING,
        libc::RLIMIT_MSGQUEUE => Resource::RLIMIT_MSGQUEUE,
        libc::RLIMIT_NICE => Resource::RLIMIT_NICE,
        libc::RLIMIT_RTPRIO => Resource::RLIMIT_RTPRIO,
        libc::RLIMIT_RTTIME => Resource::RLIMIT_RTTIME,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intel_s_library_is_told_what_the_user_has_not_said() {
        let told = |given: &[&str], crowded| {
            let given: Vec<Vec<u8>> = given.iter().map(|text| text.as_bytes().to_vec()).collect();
            for_intel(&given, crowded).map(|(name, value)| format!("{name}={value}")).collect()
        };
        let both: Vec<String> = told(&[], true);
        assert_eq!(both, ["I_MPI_SPAWN=on", "I_MPI_WAIT_MODE=1"]);
        assert_eq!(told(&["I_MPI_SPAWNER=x"], false), ["I_MPI_SPAWN=on"]);
        assert_eq!(told(&["I_MPI_SPAWN=off", "I_MPI_WAIT_MODE=0"], true), Vec::<String>::new());
    }
}
