//! The XML of the original MPD: `create-process-group` with `process-spec` and `host-spec`. As there, ranks get only
//! the variables that the file names; `PATH` is passed too, because programs are searched in it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use roxmltree::{Document, Node};

use super::line::Line;

const ROOT: &str = "create-process-group";
/// The most ranks of a file; more than a job may have.
const MAX_RANKS: u32 = 1 << 24;

/// The lines of a file. `user` is the caller.
pub(super) fn lines(text: &str, user: &str) -> Result<Vec<Line>, String> {
    let document = Document::parse(text).map_err(|e| e.to_string())?;
    let root = document.root_element();
    if !root.has_tag_name(ROOT) {
        return Err(format!("its root is '{}', not '{ROOT}'", root.tag_name().name()));
    }
    let mut job = Line::default();
    let mut total = None;
    for attribute in root.attributes() {
        let (name, value) = (attribute.name(), attribute.value());
        match (name, value) {
            ("totalprocs", _) => total = Some(number(name, value)?),
            ("try_1st_locally", "1") | ("gdb" | "doing_bnr" | "use_root_pm" | "tv", "0") => {}
            ("try_1st_locally", "0") => job.option("1", None::<OsString>),
            ("output", "label") => job.option("l", None::<OsString>),
            ("pgid", _) => job.option("a", [value]),
            ("stdin_dest", _) => job.option("s", [value]),
            ("exit_codes_filename", _) => job.option("ecfn", [value]),
            ("dry_run", "0") => {}
            _ => {
                return Err(format!(
                    "the attribute {name}='{value}' of {ROOT} has no meaning here"
                ));
            }
        }
    }
    let total = total.ok_or_else(|| format!("{ROOT} has no attribute totalprocs"))?;
    let mut programs: Vec<((u32, u32), Line)> = Vec::new();
    for child in root.children().filter(Node::is_element) {
        match child.tag_name().name() {
            "process-spec" => programs.push(program(child, user)?),
            "host-spec" => pool(&mut job, child)?,
            other => return Err(format!("the element '{other}' is not known")),
        }
    }
    programs.sort_by_key(|(ranks, _)| *ranks);
    check(&programs, total)?;
    let programs = programs.into_iter().map(|(_, line)| line);
    let job = (!job.options.is_empty()).then_some(job);
    Ok(job.into_iter().chain(programs).collect())
}

/// Checks that each rank below `total` has one program.
fn check(programs: &[((u32, u32), Line)], total: u32) -> Result<(), String> {
    let mut next = 0;
    for &((low, high), _) in programs {
        match low {
            low if low < next => return Err(format!("rank {low} is in several process-spec")),
            low if low > next => return Err(format!("rank {next} is in no process-spec")),
            _ => next = high + 1,
        }
    }
    match next {
        next if next == total && total > 0 => Ok(()),
        next => Err(format!("totalprocs is {total}, and there are {next} ranks")),
    }
}

fn program(node: Node<'_, '_>, user: &str) -> Result<((u32, u32), Line), String> {
    let needed =
        |name| node.attribute(name).ok_or_else(|| format!("a process-spec has no '{name}'"));
    let range = needed("range")?;
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    let (low, high) = (number("range", low)?, number("range", high)?);
    if low > high {
        return Err(format!("the range '{range}' is empty"));
    }
    let mut line = Line { origin: format!("ranks {range}"), ..Line::default() };
    line.option("n", [(high - low + 1).to_string()]);
    line.option("envnone", None::<OsString>);
    for attribute in node.attributes() {
        let value = attribute.value();
        match attribute.name() {
            "range" | "exec" => {}
            "cwd" => line.option("wdir", [value]),
            "path" => line.option("path", [value]),
            "umask" => line.option("umask", [umask(value)?]),
            "host" => line.option("host", [value]),
            "user" if value == user => {}
            "user" => return Err(format!("user='{value}': ranks run as the user of mpirun")),
            other => return Err(format!("the attribute '{other}' of process-spec is not known")),
        }
    }
    let mut arguments = Vec::new();
    for child in node.children().filter(Node::is_element) {
        let of_child = |name| {
            let missing = || format!("a '{}' has no '{name}'", child.tag_name().name());
            child.attribute(name).ok_or_else(missing)
        };
        match child.tag_name().name() {
            "arg" => {
                arguments.push((number("idx", of_child("idx")?)?, unquoted(of_child("value")?)))
            }
            "env" => {
                line.option("env", [unquoted(of_child("name")?), unquoted(of_child("value")?)])
            }
            "limit" => {
                let (kind, value) = (of_child("type")?, of_child("value")?);
                let kind = if kind == "ofile" { "nofile" } else { kind };
                line.option("rlimit", [format!("{kind}={value}")]);
            }
            "host-spec" => line.option("host", [hosts(child)?]),
            other => return Err(format!("the element '{other}' of process-spec is not known")),
        }
    }
    arguments.sort_by_key(|(index, _)| *index);
    line.command = vec![unquoted(needed("exec")?)];
    line.command.extend(arguments.into_iter().map(|(_, value)| value));
    Ok(((low, high), line))
}

/// The hosts of ranks without a host.
fn pool(job: &mut Line, node: Node<'_, '_>) -> Result<(), String> {
    job.option("hosts", [hosts(node)?]);
    Ok(())
}

/// The hosts of a `host-spec`, as a list. Inside a `process-spec` they are those of its ranks.
fn hosts(node: Node<'_, '_>) -> Result<String, String> {
    let names: Vec<&str> = node.text().unwrap_or_default().split_whitespace().collect();
    match names.is_empty() {
        true => Err("a host-spec has no host".to_owned()),
        false => Ok(names.join(",")),
    }
}

fn number(name: &str, text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|&number| number <= MAX_RANKS);
    number.ok_or_else(|| format!("{name}='{text}' is not a number"))
}

/// The original MPD reads a mask without prefix as decimal.
fn umask(text: &str) -> Result<String, String> {
    match text.starts_with('0') {
        true => Ok(text.to_owned()),
        false => number("umask", text).map(|mask| format!("0{mask:o}")),
    }
}

/// The original MPD writes bytes of texts as `%XX`, as in a URL.
fn unquoted(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let quoted = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = quoted.and_then(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::line::shown;
    use super::*;

    #[test]
    fn a_job_of_the_original_mpd_becomes_options_and_programs() {
        let text = "<?xml version='1.0' ?>
            <create-process-group totalprocs='3' output='label' pgid='ocean' try_1st_locally='0'>
              <host-spec check='yes'>
                h1
                h2
              </host-spec>
              <process-spec range='2' exec='/bin/c' host='h3' umask='18' user='me'/>
              <process-spec range='0-1' exec='a' cwd='/w' path='/x:/y'>
                <arg idx='2' value='two%20words'/>
                <arg idx='1' value='100%'/>
                <env name='A' value='x%3dy'/>
                <limit type='ofile' value='64'/>
              </process-spec>
            </create-process-group>";
        assert_eq!(
            shown(&lines(text, "me").unwrap()),
            [
                "-l -a ocean -1 -hosts h1,h2",
                "-n 2 -envnone -wdir /w -path /x:/y -env A x=y -rlimit nofile=64 a 100% 'two words'",
                "-n 1 -envnone -host h3 -umask 022 /bin/c",
            ]
        );
    }

    #[test]
    fn a_pool_inside_a_program_has_the_hosts_of_its_ranks() {
        let text = "<create-process-group totalprocs='2'>
              <process-spec range='0' exec='a'/>
              <process-spec range='1' exec='b'><host-spec>h1 h2</host-spec></process-spec>
            </create-process-group>";
        let all = ["-n 1 -envnone a", "-n 1 -envnone -host h1,h2 b"];
        assert_eq!(shown(&lines(text, "me").unwrap()), all);
    }

    #[test]
    fn what_is_no_job_is_refused() {
        let group = |inside: &str| {
            format!("<create-process-group totalprocs='2'>{inside}</create-process-group>")
        };
        let one = |range| group(&format!("<process-spec range='{range}' exec='a'/>"));
        for (text, problem) in [
            ("<x/>".to_owned(), "its root is 'x'"),
            ("<x>".to_owned(), "the root node was opened but never closed"),
            (
                "<create-process-group/>".to_owned(),
                "create-process-group has no attribute totalprocs",
            ),
            (one("0"), "totalprocs is 2, and there are 1 ranks"),
            (one("1"), "rank 0 is in no process-spec"),
            (
                group("<process-spec range='0-1' exec='a' user='root'/>"),
                "user='root': ranks run as the user of mpirun",
            ),
            (one("1-0"), "the range '1-0' is empty"),
            (one("x"), "range='x' is not a number"),
            (group("<process-spec range='0'/>"), "a process-spec has no 'exec'"),
            (group("<a/>"), "the element 'a' is not known"),
            ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>".to_owned(), "XML with DTD detected"),
        ] {
            let error = lines(&text, "me").unwrap_err();
            assert!(error.starts_with(problem), "{text}: {error}");
        }
        let twice = group("<process-spec range='0-1' exec='a'/><process-spec range='1' exec='a'/>");
        assert_eq!(lines(&twice, "me").unwrap_err(), "rank 1 is in several process-spec");
    }
}
