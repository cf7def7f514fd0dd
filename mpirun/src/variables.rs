//! Variables that other launchers obey. Each stands for an option, which counts unless the command line has such an
//! option. A variable that is set and cannot be obeyed is reported in one line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;

use mpd_wire::job::Bytes;

use crate::argsets::Argsets;
use crate::caller::Caller;
use crate::dialect::cpus;
use crate::options::Key;
use crate::scan;
use crate::usage::Usage;

/// The families of the variables in [`VARIABLES`]. Other names are not searched for.
const FAMILIES: [&[u8]; 5] = [b"MPIEXEC_", b"HYDRA_", b"I_MPI_", b"MV2_", b"PALS_"];

/// The families of variables that count even if only an option sets them for the ranks: the MPI libraries bind by them.
const OF_RANKS: [&[u8]; 2] = [b"I_MPI_PIN", b"MV2_"];

/// The effect of a variable.
#[derive(Clone, Copy)]
enum Effect {
    /// The value of this option.
    Value(&'static str),
    /// This option, if the value means yes.
    Flag(&'static str),
    /// The options that result from the value; `None` if it has no effect here.
    Words(fn(&str, &Given<'_>) -> Option<Vec<String>>),
    /// No effect, with the reason.
    Nothing(&'static str),
    /// No effect, and the user need not know: the value of a launcher that leaves its mark in the environment.
    Quiet,
}

/// The variables, each with its effect. The first of several variables for one option counts.
const VARIABLES: &[(&str, Effect)] = {
    use Effect::{Flag, Nothing, Quiet, Value, Words};
    const DETECTED: &str = "the batch system is detected";
    const NETWORK: &str = "mpdboot chooses the network (ifhn in the host file)";
    const PINNING: &str = "use I_MPI_PIN_DOMAIN or -bind-to";
    const ROUTE: &str = "ranks always use an inherited descriptor";
    &[
        ("MPIEXEC_TIMEOUT", Value("timeout")),
        ("I_MPI_JOB_TIMEOUT", Value("timeout")),
        ("I_MPI_MPIEXEC_TIMEOUT", Value("timeout")),
        ("MPIEXEC_TIMEOUT_SIGNAL", Nothing("-timeout sends SIGTERM, then SIGKILL")),
        ("I_MPI_JOB_TIMEOUT_SIGNAL", Nothing("-timeout sends SIGTERM, then SIGKILL")),
        ("I_MPI_JOB_SIGNAL_PROPAGATION", Quiet),
        ("MPIEXEC_UNIVERSE_SIZE", Value("usize")),
        ("MPIEXEC_USIZE", Words(universe)),
        ("MPIEXEC_SHOW_LINE_LABELS", Flag("l")),
        ("MPIEXEC_LINE_LABEL_FMT", Value("label-fmt")),
        ("MPIEXEC_PREPEND_RANK", Flag("l")),
        ("HYDRA_PREPEND_RANK", Flag("l")),
        ("MPIEXEC_PREFIX_DEFAULT", Words(|_, _| Some(words(&["prepend-pattern", "%r> "])))),
        ("MPIEXEC_PREFIX_STDOUT", Nothing("use -prepend-pattern")),
        ("MPIEXEC_PREFIX_STDERR", Nothing("use -prepend-pattern")),
        ("MPIEXEC_JOB_ALIAS", Value("a")),
        ("MPIEXEC_MERGE_OUTPUT", Flag("m")),
        ("MPIEXEC_STDIN_DEST", Value("s")),
        ("MPIEXEC_STDOUTBUF", Nothing("output is written line by line")),
        ("MPIEXEC_STDERRBUF", Nothing("output is written line by line")),
        ("MPIEXEC_MACHINEFILE", Value("f")),
        ("MPIEXEC_EXITCODES_FILENAME", Value("ecfn")),
        ("MPIEXEC_TRY_1ST_LOCALLY", Words(first_host)),
        ("MPIEXEC_GDB", Nothing("use -d")),
        ("MPIEXEC_TOTALVIEW", Nothing("write totalview mpirun -a ... instead")),
        ("MPIEXEC_TVSU", Nothing("write totalview mpirun -a ... instead")),
        ("MPIEXEC_IFHN", Nothing(NETWORK)),
        ("MPIEXEC_RECV_TIMEOUT", Nothing("mpirun waits as long as its daemon lives")),
        ("MPIEXEC_BNR", Nothing("MPICH 1 is not served")),
        (
            "MPIEXEC_PORT_RANGE",
            Nothing("ranks choose their ports (MPICH_PORT_RANGE), daemons have one port"),
        ),
        ("HYDRA_HOST_FILE", Value("f")),
        ("I_MPI_HYDRA_HOST_FILE", Value("f")),
        ("I_MPI_HYDRA_HOSTS_GROUP", Value("hosts")),
        ("I_MPI_PERHOST", Words(per_host)),
        ("HYDRA_LAUNCHER", Words(launcher)),
        ("HYDRA_BOOTSTRAP", Words(launcher)),
        ("I_MPI_HYDRA_BOOTSTRAP", Words(launcher)),
        ("HYDRA_LAUNCHER_EXEC", Value("launcher-exec")),
        ("HYDRA_BOOTSTRAP_EXEC", Value("launcher-exec")),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC", Value("launcher-exec")),
        ("HYDRA_LAUNCHER_EXTRA_ARGS", Nothing("add the arguments to -launcher-exec")),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", Nothing("add the arguments to -launcher-exec")),
        ("I_MPI_HYDRA_BOOTSTRAP_AUTOFORK", Quiet),
        ("HYDRA_ENV", Words(inherited)),
        ("I_MPI_HYDRA_ENV", Words(inherited)),
        ("HYDRA_RMK", Nothing(DETECTED)),
        ("I_MPI_HYDRA_RMK", Nothing(DETECTED)),
        ("HYDRA_DEFAULT_RMK", Nothing(DETECTED)),
        ("HYDRA_IFACE", Nothing(NETWORK)),
        ("I_MPI_HYDRA_IFACE", Nothing(NETWORK)),
        ("HYDRA_BINDING", Value("bind-to")),
        ("HYDRA_BIND_TO", Value("bind-to")),
        ("HYDRA_MEMBIND", Nothing("memory is not bound")),
        ("HYDRA_MAPPING", Nothing("use -ppn, -rr and -bind-to")),
        ("HYDRA_DEBUG", Flag("v")),
        ("I_MPI_HYDRA_DEBUG", Flag("v")),
        ("HYDRA_PMI_PORT", Nothing(ROUTE)),
        ("HYDRA_NAMESERVER", Nothing("published names are in the ring")),
        ("I_MPI_HYDRA_NAMESERVER", Nothing("published names are in the ring")),
        ("I_MPI_HYDRA_CLEANUP", Nothing("mpdcleanup finds what is left")),
        ("I_MPI_OUTPUT_CHUNK_SIZE", Quiet),
        ("I_MPI_JOB_RESPECT_PROCESS_PLACEMENT", Quiet),
        ("I_MPI_GTOOL", Nothing("write the tool before the program")),
        ("I_MPI_PIN_DOMAIN", Words(pinning)),
        ("I_MPI_PIN_PROCESSOR_LIST", Words(processors)),
        ("I_MPI_PIN", Words(pinning)),
        ("I_MPI_PIN_CELL", Nothing(PINNING)),
        ("I_MPI_PIN_ORDER", Words(order)),
        ("I_MPI_PIN_RESPECT_CPUSET", Quiet),
        ("I_MPI_PIN_RESPECT_HCA", Nothing(PINNING)),
        ("I_MPI_PIN_SHOW_REAL_MASK", Quiet),
        ("PALS_PPN", Value("ppn")),
        ("PALS_HOSTFILE", Value("f")),
        ("PALS_HOSTLIST", Value("hosts")),
        ("PALS_DEPTH", Nothing("use --depth")),
        ("PALS_CPU_BIND", Nothing("use --cpu-bind")),
        ("MV2_ENABLE_AFFINITY", Words(affinity)),
        ("MV2_USE_AFFINITY", Words(affinity)),
        ("MV2_CPU_MAPPING", Words(mvapich_mapping)),
        ("MV2_CPU_BINDING_LEVEL", Words(mvapich_level)),
        ("MV2_CPU_BINDING_POLICY", Words(mvapich_policy)),
        ("MV2_HYBRID_BINDING_POLICY", Nothing("use -bind-to and -map-by")),
    ]
};

/// Adds the options that variables of the caller stand for. The result is a line for each variable without effect.
///
/// # Errors
/// The value of a variable is wrong.
pub(crate) fn apply(argsets: &mut Argsets<'_>, caller: &Caller) -> Result<Vec<String>, Usage> {
    let is_of_family = |entry: &Vec<u8>| FAMILIES.iter().any(|family| entry.starts_with(family));
    let assigned = argsets.assigned(|name| {
        name == b"OMP_NUM_THREADS" || OF_RANKS.iter().any(|family| name.starts_with(family))
    });
    if assigned.is_empty() && !caller.environment.iter().any(is_of_family) {
        return Ok(Vec::new());
    }
    let given = Given { caller, assigned };
    let mut lines = Vec::new();
    for &(name, effect) in VARIABLES {
        let Some(value) = given.variable(name) else { continue };
        let found = match effect {
            Effect::Value(option) => Ok(words(&[option, &value])),
            Effect::Flag(option) if is_yes(&value) => Ok(words(&[option])),
            Effect::Flag(_) | Effect::Quiet => continue,
            Effect::Words(find) => {
                find(&value, &given).ok_or(Cow::from("this value is not known here"))
            }
            Effect::Nothing(reason) => Err(Cow::from(reason)),
        };
        match found {
            Ok(words) => add(argsets, (name, &value), words)?,
            Err(reason) => {
                lines.push(format!("the variable {name}={value} has no effect: {reason}"))
            }
        }
    }
    Ok(lines)
}

/// The variables of the caller, and those that options give to the ranks.
struct Given<'a> {
    caller: &'a Caller,
    assigned: BTreeMap<Bytes, Bytes>,
}

impl Given<'_> {
    /// The value of a variable, unless it is empty.
    fn variable(&self, name: &str) -> Option<String> {
        let assigned = self.assigned.get(name.as_bytes()).map(Vec::as_slice);
        let value = assigned.or_else(|| self.caller.variable(name.as_bytes()));
        let value = value.filter(|value| !value.is_empty());
        value.map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// The same in small letters.
    fn lower(&self, name: &str) -> Option<String> {
        self.variable(name).map(|value| value.to_ascii_lowercase())
    }
}

/// Adds one option for a variable, unless an option of its kind was given.
fn add(
    argsets: &mut Argsets<'_>,
    (name, value): (&str, &str),
    words: Vec<String>,
) -> Result<(), Usage> {
    if words.is_empty() {
        return Ok(());
    }
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let section = scan::options(&words)?.said_by(&format!("the variable {name}={value}"));
    let keys: Vec<Key> = section.settings.iter().map(|setting| setting.opt.key).collect();
    if keys.iter().any(|&key| argsets.has(key)) {
        return Ok(());
    }
    argsets.add(section, None)
}

fn words(words: &[&str]) -> Vec<String> {
    let (option, values) =
        words.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
    let option = format!("-{option}");
    std::iter::once(option).chain(values.iter().map(|&value| value.to_owned())).collect()
}

fn is_yes(value: &str) -> bool {
    !["0", "no", "off", "false", "disable"].contains(&value.to_ascii_lowercase().as_str())
}

/// The original MPD means the number of ranks by 0.
fn universe(value: &str, _: &Given<'_>) -> Option<Vec<String>> {
    Some(if value == "0" { Vec::new() } else { words(&["usize", value]) })
}

fn first_host(value: &str, _: &Given<'_>) -> Option<Vec<String>> {
    Some(if is_yes(value) { Vec::new() } else { words(&["1"]) })
}

fn per_host(value: &str, _: &Given<'_>) -> Option<Vec<String>> {
    match value {
        "all" | "allcores" => Some(Vec::new()),
        _ => Some(words(&["ppn", value])),
    }
}

/// The launchers of Hydra that a private ring can use.
fn launcher(value: &str, _: &Given<'_>) -> Option<Vec<String>> {
    match value {
        "ssh" | "rsh" | "srun" | "slurm" | "blaunch" => Some(words(&["launcher", value])),
        "lsf" => Some(words(&["launcher", "blaunch"])),
        "sge" | "qrsh" => Some(words(&["launcher", "qrsh -inherit"])),
        _ => None,
    }
}

/// `all`, `none` or `list:A,B`.
fn inherited(value: &str, _: &Given<'_>) -> Option<Vec<String>> {
    match value.split_once(':') {
        None if value == "all" => Some(words(&["genvall"])),
        None if value == "none" => Some(words(&["genvnone"])),
        Some(("list", names)) => Some(words(&["genvlist", names])),
        _ => None,
    }
}

/// Whether `I_MPI_PIN=off` hides the other variables.
fn is_unpinned(given: &Given<'_>) -> bool {
    given.lower("I_MPI_PIN").is_some_and(|pin| !is_yes(&pin))
}

/// The binding of Intel's variables of domains.
fn pinning(value: &str, given: &Given<'_>) -> Option<Vec<String>> {
    if is_unpinned(given) {
        return Some(words(&["bind-to", "none"]));
    }
    if let Some(lists) = cpus::intel_domains(value) {
        return Some(words(&["bind-to", &lists]));
    }
    let threads = || given.lower("OMP_NUM_THREADS").and_then(|n| n.parse::<u32>().ok());
    let value = value.to_ascii_lowercase();
    let (domain, layout) = value.split_once(':').unwrap_or((&value, "compact"));
    if !["compact", "platform"].contains(&layout) {
        return None;
    }
    let unit = match domain {
        "1" | "on" | "yes" | "enable" | "true"
            if given.lower("I_MPI_PIN").as_deref() == Some(domain) =>
        {
            let other = ["I_MPI_PIN_DOMAIN", "I_MPI_PIN_PROCESSOR_LIST"];
            match other.iter().any(|name| given.variable(name).is_some()) {
                true => return Some(Vec::new()),
                false => "slots".to_owned(),
            }
        }
        "auto" => "slots".to_owned(),
        "core" => "core".to_owned(),
        "numa" => "numa".to_owned(),
        "node" => "none".to_owned(),
        "socket" | "sock" => "socket".to_owned(),
        "cache" | "cache3" => "l3cache".to_owned(),
        "omp" => match threads() {
            Some(threads) => format!("hwthread:{threads}"),
            None => "slots".to_owned(),
        },
        number => format!("hwthread:{}", number.parse::<u32>().ok().filter(|&n| n > 0)?),
    };
    Some(words(&["bind-to", &unit]))
}

/// The binding of `I_MPI_PIN_PROCESSOR_LIST`: one processor for each rank. A map chooses the order of the processors; without
/// one, it is that of the list.
fn processors(value: &str, given: &Given<'_>) -> Option<Vec<String>> {
    if is_unpinned(given) {
        return Some(words(&["bind-to", "none"]));
    }
    let value = value.to_ascii_lowercase();
    let (set, map) = match value.split_once(':') {
        Some((set, map)) => (set, Some(map)),
        // Without a list, all processors count.
        None if value.starts_with("map=") => ("all", Some(value.as_str())),
        None => (value.as_str(), None),
    };
    let unit = match set {
        "" | "all" => "hwthread".to_owned(),
        "allcores" => "core".to_owned(),
        "allsocks" => "socket".to_owned(),
        _ => cpus::intel_processors(set)?,
    };
    let mut made = words(&["bind-to", &unit]);
    if let Some(map) = map {
        let over =
            turns(map.strip_prefix("map=")?).filter(|_| ["hwthread", "core"].contains(&&*unit))?;
        made.extend(words(&["map-by", over]));
    }
    Some(made)
}

/// How ranks use the sockets by the order of domains or processors: in turn, or an equal share of consecutive ranks for each.
fn turns(order: &str) -> Option<&'static str> {
    match order {
        "scatter" => Some("socket"),
        "bunch" => Some("socket:even"),
        _ => None,
    }
}

/// The order of Intel's domains. It has an effect on domains of cores or processors.
fn order(value: &str, given: &Given<'_>) -> Option<Vec<String>> {
    let value = value.to_ascii_lowercase();
    if is_unpinned(given) || value == "compact" {
        return Some(Vec::new());
    }
    let domain = given.lower("I_MPI_PIN_DOMAIN")?;
    let domain = domain.split_once(':').map_or(domain.as_str(), |(domain, _)| domain);
    let is_fine = match domain {
        "core" => true,
        "omp" => given.variable("OMP_NUM_THREADS").is_some(),
        number => number.parse::<u32>().is_ok(),
    };
    turns(&value).filter(|_| is_fine).map(|over| words(&["map-by", over]))
}

/// `MV2_ENABLE_AFFINITY=0` hides the other variables of MVAPICH.
fn affinity(value: &str, _: &Given<'_>) -> Option<Vec<String>> {
    Some(if is_yes(value) { Vec::new() } else { words(&["bind-to", "none"]) })
}

fn mvapich_mapping(value: &str, _: &Given<'_>) -> Option<Vec<String>> {
    Some(words(&["bind-to", &cpus::mvapich_mapping(value)?]))
}

fn mvapich_level(value: &str, given: &Given<'_>) -> Option<Vec<String>> {
    match value.to_ascii_lowercase().as_str() {
        // A mapping, or the policy, decides.
        _ if given.variable("MV2_CPU_MAPPING").is_some() => Some(Vec::new()),
        "core" => Some(Vec::new()),
        "socket" => Some(words(&["bind-to", "socket"])),
        "numanode" => Some(words(&["bind-to", "numa"])),
        _ => None,
    }
}

fn mvapich_policy(value: &str, _: &Given<'_>) -> Option<Vec<String>> {
    match value.to_ascii_lowercase().as_str() {
        "bunch" => Some(words(&["bind-to", "core"])),
        "scatter" => Some([words(&["bind-to", "core"]), words(&["map-by", "socket"])].concat()),
        "hybrid" => Some(words(&["bind-to", "slots"])),
        _ => None,
    }
}
