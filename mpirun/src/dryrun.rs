//! The text of `-dry-run`: the job with one block of lines `NAME: VALUE` per program, quoted for a shell.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use mpd_io::logging::is_plain;
use mpd_wire::RankSet;
use mpd_wire::job::{
    Argset, Binding, Bytes, HostChoice, JobSpec, LabelFormat, OnFailure, RankOrder, SpawnPolicy,
};

use crate::caller::Caller;
use crate::job_options::{ExitReports, TraceOptions};
use crate::limits;
use crate::linked::Found;

/// The job as text for people.
pub fn render(
    spec: &JobSpec,
    exits: &ExitReports,
    trace: &TraceOptions,
    caller: &Caller,
) -> String {
    let mut text = String::new();
    for (name, value) in job_lines(spec, exits, trace).into_iter().chain(host_lines(spec)) {
        line(&mut text, name, &value);
    }
    let mut first = 0;
    for argset in &spec.argsets {
        let ranks = RankSet::from_ranges(vec![(first, first + argset.size - 1)]);
        first += argset.size;
        // Writing to a String cannot fail.
        let plural = if argset.size == 1 { "" } else { "s" };
        let _ = writeln!(text, "rank{plural} {ranks}:");
        let arguments = std::iter::once(&argset.program).chain(&argset.args);
        let command: Vec<String> = arguments.map(|w| quoted(w)).collect();
        line(&mut text, "  program", &command.join(" "));
        let environment = spec.environments.get(argset.environment as usize);
        let environment = environment.map_or(&[][..], Vec::as_slice);
        found_lines(&mut text, &(caller.look)(argset, environment));
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
        environment_lines(&mut text, environment, caller);
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
        ("processes", Some(spec.size().to_string())),
        ("alias", spec.alias.as_ref().map(|a| quoted(a.as_bytes()))),
        ("standard input", Some(format!("rank {}", spec.stdin))),
        ("standard input can be switched", flag(spec.stdin_switch)),
        ("label", output.label.as_ref().map(pattern)),
        ("merge", flag(output.merge)),
        ("timestamp", flag(output.timestamp)),
        ("standard output", output.outfile.as_ref().map(pattern)),
        ("standard error", output.errfile.as_ref().map(pattern)),
        ("time limit", spec.timeout.map(|t| format!("{} s", t.as_secs_f64()))),
        ("on failure", (spec.on_failure == OnFailure::Continue).then(|| "continue".to_owned())),
        ("ranks may run alone", flag(spec.allow_alone)),
        ("universe size", spec.universe_size.map(|n| n.to_string())),
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
            if_set(spec.spawn_policy != SpawnPolicy::default(), spec.spawn_policy.name()),
        ),
        ("bound to", if_set(request.binding != Binding::None, request.binding.name())),
        ("print rank map", if_set(request.print_rank_map, "yes")),
    ];
    lines.into_iter().filter_map(|(name, value)| Some((name, value?)))
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
fn environment_lines(text: &mut String, environment: &[Bytes], caller: &Caller) {
    let old: BTreeMap<&[u8], &[u8]> =
        caller.environment.iter().rev().map(|entry| split(entry)).collect();
    let names: BTreeSet<&[u8]> = environment.iter().map(|v| split(v).0).collect();
    let removed: Vec<&[u8]> = old.keys().copied().filter(|n| !names.contains(n)).collect();
    if removed.len() > environment.len() {
        line(text, "  environment", "nothing but");
        environment.iter().for_each(|variable| set_line(text, variable));
        return;
    }
    let changed: Vec<&Bytes> =
        environment.iter().filter(|v| old.get(split(v).0) != Some(&split(v).1)).collect();
    if removed.is_empty() && changed.is_empty() {
        return line(text, "  environment", "the caller's");
    }
    line(text, "  environment", "the caller's, but");
    for name in removed {
        let _ = writeln!(text, "    without {}", quoted(name));
    }
    changed.into_iter().for_each(|variable| set_line(text, variable));
}

fn set_line(text: &mut String, variable: &[u8]) {
    let (name, value) = split(variable);
    let _ = writeln!(text, "    {}={}", String::from_utf8_lossy(name), quoted(value));
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name}: {value}");
}

fn split(variable: &[u8]) -> (&[u8], &[u8]) {
    let at = variable.iter().position(|&b| b == b'=').unwrap_or(variable.len());
    (&variable[..at], variable.get(at + 1..).unwrap_or_default())
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
