//! Variables that other launchers obey. Each stands for an option, which counts unless the command line has such an
//! option. A variable that is set and cannot be obeyed is reported in one line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mpd_wire::job::Bytes;

use crate::argsets::Argsets;
use crate::caller::Caller;
use crate::dialect::cpus;
use crate::options::Key;
use crate::usage::Usage;

/// The families of the variables in [`VARIABLES`]. Other names are not searched for.
const FAMILIES: [&[u8]; 5] = [b"MPIEXEC_", b"HYDRA_", b"I_MPI_", b"MV2_", b"PALS_"];

/// The families of variables that count even if only an option sets them for the ranks: the MPI libraries bind by them.
const OF_RANKS: [&[u8]; 2] = [b"I_MPI_PIN", b"MV2_"];

/// The effect of a variable.
#[derive(Clone, Copy)]
#[cfg_attr(not(test), expect(dead_code, reason = "only the page of the manual has the texts"))]
enum Effect {
    /// The value of this option.
    Value(&'static str),
    /// This option, if the value means yes.
    Flag(&'static str),
    /// The options that result from the value, with their description; `None` if it has no effect here.
    Words(fn(&str, &Given<'_>) -> Option<Vec<String>>, &'static str),
    /// No effect, with the reason, which is reported.
    Nothing(&'static str),
    /// No effect, and no line: its effect is always there, or a launcher leaves it in the environment.
    Quiet(&'static str),
}

/// The variables, each with its effect. The first of several variables for one option counts.
const VARIABLES: &[(&str, Effect)] = {
    use Effect::{Flag, Nothing, Quiet, Value, Words};
    const DETECTED: &str = "the batch system is detected";
    const NETWORK: &str = "mpdboot chooses the network (ifhn in the host file)";
    const PINNING: &str = "use I_MPI_PIN_DOMAIN or -bind-to";
    const PORTS: &str = "ranks choose their ports (MPICH_PORT_RANGE), daemons have one port";
    const START: &str = "each host has its time for the start; -timeout limits the whole job";
    const ONE: &str = "there is one implementation of this part";
    const DEBUGGER: &str = "use -d; -gdb-path names the debugger";
    const ROUTE: &str = "ranks always use an inherited descriptor";
    const LIMIT: &str = "`-timeout VALUE`; below 0: no limit";
    const SIGNALS: &str = "-timeout sends SIGTERM, then SIGKILL";
    const LINES: &str = "output is written line by line";
    const TOTALVIEW: &str = "write totalview mpirun -a ... instead";
    const LAUNCHER: &str = "`-launcher VALUE`, for ssh, rsh, slurm, lsf and sge";
    const LOCAL: &str = "ranks of this host never need a remote shell";
    const INHERITED: &str = "`all`: `-genvall`; `none`: `-genvnone`; `list:A,B`: `-genvlist A,B`";
    const NAMES: &str = "published names are in the ring";
    const WINDOW: &str = "mpdboot --window sets how many hosts one host starts at a time";
    const DOMAINS: &str = "`-bind-to`: core, numa, socket, cache, omp, auto, node, a number, or lists of CPUs; no: `-bind-to none`";
    const UNBOUND: &str = "no: `-bind-to none`";
    const PREFIX: &str = "use -prepend-pattern";
    &[
        ("MPIEXEC_TIMEOUT", Words(limit, LIMIT)),
        ("I_MPI_JOB_TIMEOUT", Words(limit, LIMIT)),
        ("I_MPI_MPIEXEC_TIMEOUT", Words(limit, LIMIT)),
        ("MPIEXEC_TIMEOUT_SIGNAL", Nothing(SIGNALS)),
        ("I_MPI_JOB_TIMEOUT_SIGNAL", Nothing(SIGNALS)),
        ("I_MPI_JOB_SIGNAL_PROPAGATION", Quiet("signals always reach the ranks")),
        ("MPIEXEC_UNIVERSE_SIZE", Value("usize")),
        ("MPIEXEC_USIZE", Words(universe, "`-usize VALUE`; 0: none")),
        ("MPIEXEC_SHOW_LINE_LABELS", Flag("l")),
        ("MPIEXEC_LINE_LABEL_FMT", Value("label-fmt")),
        ("MPIEXEC_PREPEND_RANK", Flag("l")),
        ("HYDRA_PREPEND_RANK", Flag("l")),
        (
            "MPIEXEC_PREFIX_DEFAULT",
            Words(|_, _| Some(words(&["prepend-pattern", "%r> "])), "`-prepend-pattern '%r> '`"),
        ),
        ("MPIEXEC_PREFIX_STDOUT", Nothing(PREFIX)),
        ("MPIEXEC_PREFIX_STDERR", Nothing(PREFIX)),
        ("MPIEXEC_JOB_ALIAS", Value("a")),
        ("MPIEXEC_MERGE_OUTPUT", Flag("m")),
        ("MPIEXEC_STDIN_DEST", Value("s")),
        ("MPIEXEC_STDOUTBUF", Nothing(LINES)),
        ("MPIEXEC_STDERRBUF", Nothing(LINES)),
        ("MPIEXEC_MACHINEFILE", Value("f")),
        ("MPIEXEC_EXITCODES_FILENAME", Value("ecfn")),
        ("MPIEXEC_TRY_1ST_LOCALLY", Words(first_host, "no: `-1`")),
        ("MPIEXEC_GDB", Nothing("use -d")),
        ("MPIEXEC_TOTALVIEW", Nothing(TOTALVIEW)),
        ("MPIEXEC_TVSU", Nothing(TOTALVIEW)),
        ("MPIEXEC_IFHN", Nothing(NETWORK)),
        ("MPIEXEC_RECV_TIMEOUT", Nothing("mpirun waits as long as its daemon lives")),
        ("MPIEXEC_BNR", Nothing("MPICH 1 is not served")),
        ("MPIEXEC_PORT_RANGE", Nothing(PORTS)),
        ("MPIEXEC_PORTRANGE", Nothing(PORTS)),
        ("I_MPI_PORT_RANGE", Quiet("the MPI library obeys it")),
        ("HYDRA_HOST_FILE", Value("f")),
        ("I_MPI_HYDRA_HOST_FILE", Value("f")),
        ("I_MPI_HYDRA_HOSTS_GROUP", Value("hosts")),
        ("I_MPI_PERHOST", Words(per_host, "`-ppn VALUE`; `all` and `allcores`: the default")),
        ("HYDRA_LAUNCHER", Words(launcher, LAUNCHER)),
        ("HYDRA_BOOTSTRAP", Words(launcher, LAUNCHER)),
        ("I_MPI_HYDRA_BOOTSTRAP", Words(launcher, LAUNCHER)),
        ("HYDRA_LAUNCHER_EXEC", Value("launcher-exec")),
        ("HYDRA_BOOTSTRAP_EXEC", Value("launcher-exec")),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC", Value("launcher-exec")),
        ("HYDRA_LAUNCHER_EXTRA_ARGS", Value("launcher-args")),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", Value("launcher-args")),
        ("I_MPI_HYDRA_BOOTSTRAP_AUTOFORK", Quiet(LOCAL)),
        ("HYDRA_ENV", Words(inherited, INHERITED)),
        ("I_MPI_HYDRA_ENV", Words(inherited, INHERITED)),
        ("HYDRA_RMK", Nothing(DETECTED)),
        ("I_MPI_HYDRA_RMK", Nothing(DETECTED)),
        ("HYDRA_DEFAULT_RMK", Nothing(DETECTED)),
        ("HYDRA_IFACE", Nothing(NETWORK)),
        ("I_MPI_HYDRA_IFACE", Nothing(NETWORK)),
        ("HYDRA_BINDING", Value("bind-to")),
        ("HYDRA_BIND_TO", Value("bind-to")),
        ("HYDRA_MEMBIND", Nothing("memory is not bound")),
        ("HYDRA_MAPPING", Words(mapping, "`-map-by VALUE`")),
        ("HYDRA_DEBUG", Flag("v")),
        ("I_MPI_HYDRA_DEBUG", Flag("v")),
        ("HYDRA_PMI_PORT", Nothing(ROUTE)),
        ("HYDRA_NAMESERVER", Nothing(NAMES)),
        ("I_MPI_HYDRA_NAMESERVER", Nothing(NAMES)),
        ("HYDRA_LAUNCHER_AUTOFORK", Quiet(LOCAL)),
        ("HYDRA_LAUNCHER_SSH_LIMIT", Nothing(WINDOW)),
        ("HYDRA_LAUNCHER_SSH_LIMIT_TIME", Nothing(WINDOW)),
        ("HYDRA_LAUNCHER_SSH_ENABLE_WARNINGS", Quiet("warnings of ssh are shown")),
        ("HYDRA_PROXY_RETRY_COUNT", Nothing("a host that does not start is reported")),
        ("HYDRA_CONFIG_FILE", Nothing("mpirun reads no configuration file of Hydra")),
        ("HYDRA_HOSTNAME_PROPAGATION", Quiet("MPI libraries ask for the name themselves")),
        ("HYDRA_USE_LOCALHOST", Nothing("mpd --name names a daemon")),
        ("HYDRA_DEMUX", Quiet(ONE)),
        ("HYDRA_TOPOLIB", Quiet(ONE)),
        ("I_MPI_HYDRA_TOPOLIB", Quiet(ONE)),
        ("I_MPI_HYDRA_DEMUX", Quiet(ONE)),
        ("I_MPI_HYDRA_PMI_CONNECT", Quiet(ROUTE)),
        ("I_MPI_HYDRA_PMI_AGGREGATE", Quiet(ROUTE)),
        (
            "I_MPI_HYDRA_BRANCH_COUNT",
            Quiet("the tree of the launch is chosen by the number of hosts"),
        ),
        ("I_MPI_HYDRA_GDB_REMOTE_SHELL", Nothing(DEBUGGER)),
        ("I_MPI_HYDRA_GDB_ARGS", Nothing(DEBUGGER)),
        ("I_MPI_TMPDIR", Value("tmpdir")),
        ("I_MPI_JOB_STARTUP_TIMEOUT", Nothing(START)),
        ("I_MPI_JOB_ABORT_SIGNAL", Nothing("SIGTERM, then SIGKILL end the ranks")),
        ("I_MPI_JOB_TRACE_LIBS", Nothing("use -trace, or -genv LD_PRELOAD")),
        ("I_MPI_JOB_CHECK_LIBS", Nothing("use -check_mpi, or -genv LD_PRELOAD")),
        ("I_MPI_FAULT_CONTINUE", Words(fault, "yes: `-on-failure continue`")),
        ("I_MPI_FAULT_NODE_CONTINUE", Nothing("the loss of a host ends the job")),
        ("I_MPI_PROCESS_MANAGER", Quiet("there is one")),
        ("I_MPI_MPIRUN_CLEANUP", Quiet("a job leaves nothing behind")),
        ("I_MPI_HYDRA_CLEANUP", Nothing("mpdcleanup finds what is left")),
        ("I_MPI_OUTPUT_CHUNK_SIZE", Quiet(LINES)),
        ("I_MPI_JOB_RESPECT_PROCESS_PLACEMENT", Quiet("options come before the batch system")),
        ("I_MPI_GTOOL", Value("gtool")),
        ("I_MPI_PIN_DOMAIN", Words(pinning, DOMAINS)),
        ("I_MPI_PIN_PROCESSOR_LIST", Words(processors, "`-bind-to`, one processor for each rank")),
        ("I_MPI_PIN", Words(pinning, DOMAINS)),
        ("I_MPI_PIN_CELL", Nothing(PINNING)),
        ("I_MPI_PIN_ORDER", Words(order, "`-map-by`, for domains of cores or processors")),
        ("I_MPI_PIN_RESPECT_CPUSET", Quiet("only allowed CPUs are used")),
        ("I_MPI_PIN_RESPECT_HCA", Nothing(PINNING)),
        ("I_MPI_PIN_SHOW_REAL_MASK", Quiet("-report-bindings shows the CPUs")),
        ("I_MPI_PIN_PROCESSOR_EXCLUDE_LIST", Nothing(PINNING)),
        ("I_MPI_PIN_UNIT", Nothing(PINNING)),
        ("I_MPI_PIN_GRAIN", Nothing(PINNING)),
        ("I_MPI_PIN_OFFSET", Nothing(PINNING)),
        ("I_MPI_PIN_SHIFT", Nothing(PINNING)),
        ("I_MPI_PIN_MODE", Quiet("the launcher binds the ranks")),
        ("PALS_PPN", Value("ppn")),
        ("PALS_HOSTFILE", Value("f")),
        ("PALS_HOSTLIST", Value("hosts")),
        ("PALS_DEPTH", Nothing("use --depth")),
        ("PALS_CPU_BIND", Nothing("use --cpu-bind")),
        ("MV2_ENABLE_AFFINITY", Words(affinity, UNBOUND)),
        ("MV2_USE_AFFINITY", Words(affinity, UNBOUND)),
        ("MV2_CPU_MAPPING", Words(mvapich_mapping, "`-bind-to user:LIST`")),
        ("MV2_CPU_BINDING_LEVEL", Words(mvapich_level, "`-bind-to socket` or `numa`")),
        ("MV2_CPU_BINDING_POLICY", Words(mvapich_policy, "`-bind-to` and `-map-by`")),
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
    // The program of another launcher than the one that an option names.
    let is_launcher_given = argsets.has(Key::Launcher);
    for &(name, effect) in VARIABLES {
        let Some(value) = given.variable(name) else { continue };
        let found = match effect {
            Effect::Value("launcher-exec") if is_launcher_given => continue,
            Effect::Value(option) => Ok(words(&[option, &value])),
            Effect::Flag(option) if is_yes(&value) => Ok(words(&[option])),
            Effect::Flag(_) | Effect::Quiet(_) => continue,
            Effect::Words(find, _) => {
                find(&value, &given).ok_or(Cow::from("this value is not known here"))
            }
            Effect::Nothing(reason) => Err(Cow::from(reason)),
        };
        match found {
            Ok(words) => {
                argsets.add_unless_given(&format!("the variable {name}={value}"), words)?;
            }
            Err(reason) => {
                lines.push(format!("the variable {name}={value} has no effect: {reason}"))
            }
        }
    }
    lines.extend(unknown(caller));
    Ok(lines)
}

/// The family of Intel's launcher alone. Other families have variables of libraries and of other programs.
const OF_LAUNCHER: &[u8] = b"I_MPI_HYDRA_";

/// A line for each variable of a launcher that is in no table. In a job, they are those of the launcher around it.
fn unknown(caller: &Caller) -> Vec<String> {
    if caller.variable(b"PMI_RANK").is_some() {
        return Vec::new();
    }
    let line = |entry: &Vec<u8>| {
        let (name, value) = str::from_utf8(entry).ok()?.split_once('=')?;
        let is_known = VARIABLES.iter().any(|(known, _)| *known == name);
        (!is_known && !value.is_empty()).then(|| {
            format!("the variable {name}={value} has no effect: this variable of the launcher is not known here")
        })
    };
    let entries = caller.environment.iter().filter(|entry| entry.starts_with(OF_LAUNCHER));
    entries.filter_map(line).collect()
}

/// The variables as rows of a table for people: name and effect.
#[cfg(test)]
pub(crate) fn rows() -> Vec<(&'static str, String)> {
    let meaning = |effect: &Effect| match effect {
        Effect::Value(option) => format!("`-{option} VALUE`"),
        Effect::Flag(option) => format!("yes: `-{option}`"),
        Effect::Words(_, meaning) => (*meaning).to_owned(),
        Effect::Nothing(reason) => format!("no effect, with a line: {reason}"),
        Effect::Quiet(reason) => format!("accepted: {reason}"),
    };
    VARIABLES.iter().map(|(name, effect)| (*name, meaning(effect))).collect()
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

/// A value below 0 is no limit, as for Hydra.
fn limit(value: &str, _: &Given<'_>) -> Option<Vec<String>> {
    let is_unlimited = value.parse::<i64>().is_ok_and(|seconds| seconds < 0);
    Some(words(&["timeout", if is_unlimited { "0" } else { value }]))
}

fn fault(value: &str, _: &Given<'_>) -> Option<Vec<String>> {
    Some(if is_yes(value) { words(&["on-failure", "continue"]) } else { Vec::new() })
}

/// The parts of a host that Hydra maps to.
fn mapping(value: &str, _: &Given<'_>) -> Option<Vec<String>> {
    let known = ["node", "slot", "socket", "numa", "l3cache", "core", "hwthread"];
    let unit = value.split(':').next().unwrap_or_default();
    known.contains(&unit).then(|| words(&["map-by", value]))
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
