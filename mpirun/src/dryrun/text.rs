//! The answer as text: the job and its hosts, with one block of lines `NAME: VALUE` per program, quoted for a shell.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use mpd_io::files::logging::{is_plain, one_line};
use mpd_placement::cpu_list;
use mpd_placement::locality::list;
use mpd_wire::RankSet;
use mpd_wire::job::{
    AbortScope, Argset, Binding, CpuChoice, HostChoice, JobSpec, LabelFormat, OnFailure, RankOrder,
    SpawnPolicy, Spread,
};

use super::environment::{self, Difference};
use super::outlook::{HostOutlook, Outlook};
use super::shown::Shown;
use crate::caller::Caller;
use crate::job_options::{ExitReports, TraceOptions};
use crate::limits;
use crate::linked::Found;
use crate::surroundings::RingKind;

/// The job as text for people.
pub(super) fn render(shown: &Shown<'_>) -> String {
    let Shown { spec, exits, trace, caller, .. } = shown;
    let mut text = String::new();
    line(&mut text, "processes", &spec.size().to_string());
    for (name, value) in options(spec, exits, trace) {
        line(&mut text, name, &value);
    }
    match &shown.outlook {
        Ok(outlook) => outlook_lines(&mut text, outlook),
        Err(problem) => line(&mut text, "problem", &one_line(problem)),
    }
    shown.remarks.iter().for_each(|remark| line(&mut text, "remark", &one_line(remark)));
    let mut first = 0;
    for (argset, found) in spec.argsets.iter().zip(&shown.found) {
        let ranks = RankSet::from_ranges(vec![(first, first + argset.size - 1)]);
        first += argset.size;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}:", counted(&ranks));
        let arguments = std::iter::once(&argset.program).chain(&argset.args);
        let command: Vec<String> = arguments.map(|w| quoted(w)).collect();
        line(&mut text, "  program", &command.join(" "));
        found_lines(&mut text, found);
        if argset.substitute {
            line(&mut text, "  arguments", "filled in for each rank");
        }
        if let Some(hosts) = &argset.hosts {
            line(&mut text, "  hosts", &listed(hosts));
        }
        line(&mut text, "  directory", &quoted(&argset.directory));
        if !argset.program.contains(&b'/') {
            line(&mut text, "  search", &quoted(&argset.search));
        }
        line(&mut text, "  umask", &format!("{:04o}", argset.umask));
        if let Some((columns, lines)) = argset.pty {
            line(&mut text, "  terminal", &format!("{columns}x{lines}"));
        }
        limit_lines(&mut text, argset, caller);
        environment_lines(&mut text, &Difference::new(environment::of(spec, argset), caller));
    }
    text
}

/// The options that differ from the default, with their values as texts.
pub(super) fn options(
    spec: &JobSpec,
    exits: &ExitReports,
    trace: &TraceOptions,
) -> Vec<(&'static str, String)> {
    job_lines(spec, exits, trace).into_iter().chain(host_lines(spec)).collect()
}

/// `rank 3` or `ranks 0-2`.
fn counted(ranks: &RankSet) -> String {
    format!("rank{} {ranks}", if ranks.count() == 1 { "" } else { "s" })
}

/// The hosts with their ranks, and the CPUs of bound ranks.
fn outlook_lines(text: &mut String, outlook: &Outlook) {
    let daemons = match outlook.kind {
        RingKind::Standing => "those of the ring",
        RingKind::Private => "started for the job",
    };
    line(text, "daemons", daemons);
    for host in &outlook.hosts {
        line(text, &format!("host {}", host.name), &host_text(host));
        for (rank, bound) in host.ranks.ranks().zip(&host.bound) {
            let Some((parts, cpus)) = bound else { continue };
            let cpus = list(cpus.iter().copied());
            line(text, &format!("  CPUs of rank {rank}"), &format!("{cpus} ({parts})"));
        }
        for (local, rank) in host.ranks.ranks().enumerate() {
            let Some((gpus, each)) = host.gpus else { break };
            let chosen = gpus.variables(local, each).into_iter().next();
            let chosen = chosen.map(|(_, value)| value).unwrap_or_default();
            line(text, &format!("  GPUs of rank {rank}"), &chosen);
        }
    }
    outlook.notices.iter().for_each(|notice| line(text, "notice", &one_line(notice)));
}

fn host_text(host: &HostOutlook) -> String {
    let plural = if host.cpus == 1 { "" } else { "s" };
    let mut text = format!("{}, {} CPU{plural}", counted(&host.ranks), host.cpus);
    if host.is_assumed {
        text.push_str(" (as this host)");
    }
    if host.is_here {
        return text + ", this host";
    }
    match &host.addresses {
        Some(Ok(addresses)) if addresses.is_empty() => {}
        Some(Ok(addresses)) => text.extend([", ", &addresses.join(" ")]),
        Some(Err(problem)) => {
            text.extend([", no address (", &one_line(problem), "); ssh may know the name"]);
        }
        None => text.push_str(", no answer from the resolver"),
    }
    text
}

/// The file of a program on this host, and its MPI library.
fn found_lines(text: &mut String, found: &Found) {
    match found {
        Found::Unusable(problem) => line(text, "  found", &format!("not on this host: {problem}")),
        Found::Program(path, visible) => {
            line(text, "  found", &quoted(path.as_os_str().as_bytes()));
            line(text, "  MPI library", &visible.to_string());
        }
    }
}

/// The options of the whole job that differ from the default.
fn job_lines(
    spec: &JobSpec,
    exits: &ExitReports,
    trace: &TraceOptions,
) -> Vec<(&'static str, String)> {
    let pattern = |p: &LabelFormat| quoted(p.as_bytes());
    let output = &spec.output;
    let path = |p: &std::path::PathBuf| quoted(p.as_os_str().as_bytes());
    let flag = |set: bool| set.then(|| "yes".to_owned());
    let lines = [
        ("alias", spec.alias.as_ref().map(|a| quoted(a.as_bytes()))),
        ("standard input", Some(format!("rank {}", spec.stdin))),
        ("standard input can be switched", flag(spec.stdin_switch)),
        ("label", output.label.as_ref().map(pattern)),
        ("merge", flag(output.merge)),
        ("timestamp", flag(output.timestamp)),
        ("standard output", output.outfile.as_ref().map(pattern)),
        ("standard error", output.errfile.as_ref().map(pattern)),
        ("output of", output.only.as_ref().map(|only| format!("rank {only}"))),
        ("output files are copied", flag(output.copy)),
        ("standard error is standard output", flag(output.joined)),
        ("time limit", spec.timeout.map(|t| format!("{} s", t.as_secs_f64()))),
        ("on failure", (spec.on_failure == OnFailure::Continue).then(|| "continue".to_owned())),
        (
            "abort scope",
            (spec.abort_scope != AbortScope::Job).then(|| spec.abort_scope.name().to_owned()),
        ),
        ("ranks may leave", flag(spec.elastic)),
        ("a silent host is lost after", spec.host_timeout.map(|seconds| format!("{seconds} s"))),
        ("memory on each host", spec.allowance.memory.map(|memory| memory.to_string())),
        ("CPUs on each host", spec.allowance.cpus.map(|cpus| cpus.to_string())),
        ("ranks may run alone", flag(spec.allow_alone)),
        ("no PMIx", flag(spec.no_pmix)),
        ("unique names", flag(spec.unique_names)),
        ("universe size", spec.universe_size.map(universe)),
        ("memory kinds", spec.memory_kinds.clone()),
        ("status file", exits.status_file.as_ref().map(path)),
        ("niceness", spec.niceness.filter(|&nice| nice != 0).map(|nice| nice.to_string())),
        ("exit code file", exits.ecfn.as_ref().map(path)),
        ("print exit codes", flag(exits.print_all)),
        ("preload", flag(spec.preload)),
        ("processes to", trace.proctable.as_ref().map(path)),
        ("timeline", trace.file.as_ref().map(path)),
        ("recordings", spec.record.as_deref().map(quoted)),
        ("print forwarding steps", flag(trace.hops)),
        ("temporary files", Some(quoted(&spec.tmpdir))),
    ];
    lines.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn universe(size: u32) -> String {
    if size == 0 { "without a bound".to_owned() } else { size.to_string() }
}

/// The options of the placement.
fn host_lines(spec: &JobSpec) -> impl Iterator<Item = (&'static str, String)> {
    let request = &spec.placement;
    let if_set = |set: bool, text: &str| set.then(|| text.to_owned());
    let lines = [
        ("hosts", (!request.hosts.is_empty()).then(|| listed(&request.hosts))),
        ("excluded hosts", (!request.exclude.is_empty()).then(|| request.exclude.join(" "))),
        ("processes per host", request.per_host.map(|n| n.to_string())),
        ("order", if_set(request.order == RankOrder::RoundRobin, "each host in turn")),
        ("group size", request.group.map(|n| n.to_string())),
        ("first host", if_set(!request.here_first, "the next in the ring")),
        (
            "spawned processes",
            if_set(spec.spawn.policy != SpawnPolicy::default(), spec.spawn.policy.name()),
        ),
        ("processes per slot while ranks spawn", spec.spawn.limit.map(|n| n.to_string())),
        ("longest chain of spawns", spec.spawn.depth.map(|n| n.to_string())),
        (
            "niceness of spawned processes",
            Some(spec.spawn.nice_step).filter(|&step| step != 0).map(|step| format!("{step:+}")),
        ),
        (
            "bound to",
            match (request.binding, &request.cpus.lists[..]) {
                (Binding::None, []) => None,
                (Binding::None, lists) => Some(lists_text(lists, request.cpus.by_rank)),
                (binding, _) => Some(unit(binding, request.width)),
            },
        ),
        ("if there is room", if_set(request.if_room, "yes")),
        ("in turn", request.spread.map(in_turn)),
        ("only CPUs", request.cpus.only.as_ref().map(cpu_list::show)),
        ("GPUs per process", request.gpus.map(|n| n.to_string())),
        ("more processes than slots", if_set(request.strict, "refused")),
        ("report bindings", if_set(request.report_bindings, "yes")),
        ("print rank map", if_set(request.print_rank_map, "yes")),
    ];
    lines.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// The lists of CPUs of ranks.
fn lists_text(lists: &[CpuChoice], by_rank: bool) -> String {
    match by_rank {
        true => "the CPUs of the rank file".to_owned(),
        false => format!("user:{}", lists.iter().map(cpu_list::show).collect::<Vec<_>>().join(",")),
    }
}

/// Parts of a host, as a value of `-map-by`.
fn in_turn(spread: Spread) -> String {
    let block = spread.block.map_or_else(
        || ":even".to_owned(),
        |block| match block {
            1 => String::new(),
            block => format!(":block={block}"),
        },
    );
    let joined = if spread.joined > 1 { format!(":{}", spread.joined) } else { String::new() };
    format!("{}{joined}{block}", spread.over.name())
}

/// A unit with a number that is not one.
fn unit(unit: Binding, number: u32) -> String {
    match number {
        1 => unit.name().to_owned(),
        number => format!("{}:{number}", unit.name()),
    }
}

/// Hosts with their slots, in the form of a host file.
fn listed(hosts: &[HostChoice]) -> String {
    if hosts.is_empty() {
        return "all".into();
    }
    let word = |host: &HostChoice| match host.slots {
        // An address with colons needs brackets before a number.
        Some(slots) if host.name.contains(':') => format!("[{}]:{slots}", host.name),
        Some(slots) => format!("{}:{slots}", host.name),
        None => host.name.clone(),
    };
    hosts.iter().map(word).collect::<Vec<String>>().join(" ")
}

/// The limits that differ from the caller's.
fn limit_lines(text: &mut String, argset: &Argset, caller: &Caller) {
    for limit in argset.limits.iter().filter(|l| !caller.limits.contains(l)) {
        let name = limits::name_of(limit.resource);
        let (soft, hard) = (limits::shown(limit.soft), limits::shown(limit.hard));
        line(text, "  limit", &format!("{name}={soft}:{hard}"));
    }
}

/// The environment as differences from the caller's, or in full if that is shorter.
fn environment_lines(text: &mut String, difference: &Difference<'_>) {
    let (base, without, with) = match difference {
        Difference::Only(with) => ("nothing but", &[][..], with),
        Difference::Callers { without, with } if without.is_empty() && with.is_empty() => {
            return line(text, "  environment", "the caller's");
        }
        Difference::Callers { without, with } => ("the caller's, but", without.as_slice(), with),
    };
    line(text, "  environment", base);
    for name in without {
        let _ = writeln!(text, "    without {}", quoted(name));
    }
    for (name, value) in with {
        let _ = writeln!(text, "    {}={}", String::from_utf8_lossy(name), quoted(value));
    }
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name}: {value}");
}

/// Quotes any bytes for a shell.
fn quoted(word: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_-+./:,=@%".contains(b);
    match std::str::from_utf8(word) {
        Ok(text) if !word.is_empty() && word.iter().all(plain) => text.to_owned(),
        Ok(text) if text.chars().all(is_plain) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => {
            let mut text = String::from("$'");
            for &byte in word {
                match byte {
                    b'\n' => text.push_str("\\n"),
                    b'\t' => text.push_str("\\t"),
                    b'\\' | b'\'' => text.extend(['\\', char::from(byte)]),
                    b' '..=b'~' => text.push(char::from(byte)),
                    // Octal with three digits; a hexadecimal escape would include following digits.
                    _ => {
                        let _ = write!(text, "\\{byte:03o}");
                    }
                }
            }
            text + "'"
        }
    }
}
