//! The file of programs for `srun --multi-prog`. Each line has tasks like `0,2-3`, a program and its arguments. `*` means all other
//! tasks. `%t` is the number of the task, and `%o` its place among the tasks of its line.
//!
//! Our jobs have their programs in the order of ranks. So a line becomes a section for each range of tasks, and a section for each
//! task if its arguments have `%o`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use mpd_io::files::logging::plain;
use mpd_wire::RankSet;
use mpd_wire::job::MAX_ARGSETS;

use crate::caller::Caller;
use crate::configfile::{self, Line};
use crate::options::Key;
use crate::scan::{self, Section};
use crate::usage::Usage;

/// The program of some tasks.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    /// The first task, and the number of tasks.
    first: u32,
    count: u32,
    /// The place of the first task in its line.
    offset: u32,
    /// The line of the file.
    line: usize,
}

/// The sections for the section `given`, whose program is a file.
///
/// # Errors
/// The file cannot be read, or is not of this form.
pub(crate) fn sections(given: Section, caller: &Caller) -> Result<Vec<Section>, Usage> {
    let Some([file, more @ ..]) = given.program.as_deref() else { return Ok(vec![given]) };
    let shown = format!("the file {} of --multi-prog", file.to_string_lossy());
    let problem = |problem: String| Usage::new(format!("{shown}: {problem}"));
    let path = caller.directory.join(Path::new(file));
    let bytes =
        configfile::read(&path).map_err(|e| problem(format!("cannot read it: {}", plain(&e))))?;
    let lines = configfile::lines(&bytes).map_err(|e| problem(e.to_string()))?;
    let tasks = tasks(&given, caller)?;
    let parts = parts(&lines, tasks).map_err(problem)?;
    let mut made = Vec::new();
    for part in parts {
        let words = lines[part.line].words[1..].iter().chain(more);
        let words: Vec<OsString> = words.cloned().collect();
        if words.is_empty() {
            return Err(problem(format!("line {}: there is no program", lines[part.line].number)));
        }
        let has_offset = words.iter().any(|word| field(word.as_bytes(), b'o').is_some());
        let sections = if has_offset { part.count as usize } else { 1 };
        if made.len() + sections > MAX_ARGSETS {
            return Err(problem(format!("these are more than {MAX_ARGSETS} programs")));
        }
        let size = if has_offset { 1 } else { part.count };
        for (_, at) in (0..sections).zip(0..) {
            let offset = has_offset.then_some(part.offset + at);
            made.push(section(&given, size, part.first + at, offset, &words)?);
        }
    }
    Ok(made)
}

/// The number of tasks, if an option or a variable gives it.
fn tasks(given: &Section, caller: &Caller) -> Result<Option<u32>, Usage> {
    let option = given.settings.iter().find(|setting| setting.opt.key == Key::Processes);
    match option {
        Some(setting) => {
            let number = setting.text()?.parse().map_err(|_| setting.error("it must be a number"));
            number.map(Some)
        }
        None => {
            let value =
                caller.variable(b"SLURM_NTASKS").and_then(|value| str::from_utf8(value).ok());
            Ok(value.and_then(|value| value.parse().ok()))
        }
    }
}

/// The programs in the order of tasks. Without a number of tasks, the file gives it.
fn parts(lines: &[Line], tasks: Option<u32>) -> Result<Vec<Part>, String> {
    let mut named = RankSet::none();
    let mut sets: Vec<Option<RankSet>> = Vec::new();
    for line in lines {
        let word = line.words[0].to_string_lossy();
        if word == "*" {
            sets.push(None);
            continue;
        }
        let wrong = || format!("line {}: '{word}' is no list of tasks", line.number);
        let set: RankSet = word.parse().map_err(|_| wrong())?;
        let Some(greatest) = set.greatest().filter(|_| !named.meets(&set)) else {
            return Err(wrong());
        };
        if let Some(tasks) = tasks.filter(|&tasks| greatest.0 >= tasks) {
            let number = line.number;
            return Err(format!("line {number}: task {greatest}, but there are {tasks} tasks"));
        }
        named.join(&set);
        sets.push(Some(set));
    }
    let greatest = named.greatest().map_or(0, |rank| rank.0 + 1);
    let tasks = tasks.unwrap_or(greatest);
    let mut others: RankSet = RankSet::below(tasks);
    others.remove(&named);
    let mut parts = Vec::new();
    for (line, set) in sets.into_iter().enumerate() {
        let set = set.unwrap_or_else(|| std::mem::replace(&mut others, RankSet::none()));
        let mut offset = 0;
        for &(low, high) in set.ranges() {
            let end = high + 1;
            parts.push(Part { first: low, count: end - low, offset, line });
            offset += end - low;
        }
    }
    if let Some(&(task, _)) = others.ranges().first() {
        return Err(format!("there is no program for task {task}"));
    }
    parts.sort_by_key(|part| part.first);
    Ok(parts)
}

/// A section for some tasks. It has the options of the given one, and its own number of processes.
fn section(
    given: &Section,
    size: u32,
    first: u32,
    offset: Option<u32>,
    words: &[OsString],
) -> Result<Section, Usage> {
    let mut options: Vec<OsString> = vec!["-n".into(), size.to_string().into()];
    let has_task = words.iter().any(|word| field(word.as_bytes(), b't').is_some());
    if has_task && size > 1 {
        options.push("-subst".into());
    }
    let mut made = scan::options(&options)?;
    let others = given.settings.iter().filter(|setting| setting.opt.key != Key::Processes);
    made.settings.extend(others.cloned());
    made.remarks.clone_from(&given.remarks);
    made.layout = given.layout.clone();
    made.dialect = given.dialect;
    let filled = words.iter().map(|word| match (has_task && size > 1, offset) {
        (true, _) => substitution(word.as_bytes()),
        (false, offset) => literal(word.as_bytes(), first, offset.unwrap_or(0)),
    });
    made.program = Some(filled.map(OsString::from_vec).collect());
    Ok(made)
}

/// The place of a field in a word.
fn field(word: &[u8], letter: u8) -> Option<usize> {
    word.windows(2).position(|pair| pair == [b'%', letter])
}

/// An argument for `-subst`: `%t` is `%r`.
fn substitution(word: &[u8]) -> Vec<u8> {
    let mut made = Vec::new();
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        match (byte, after.first()) {
            (b'%', Some(b't')) => {
                made.extend_from_slice(b"%r");
                rest = &after[1..];
            }
            (b'%', _) => {
                made.extend_from_slice(b"%%");
                rest = after;
            }
            _ => {
                made.push(byte);
                rest = after;
            }
        }
    }
    made
}

/// An argument of one task.
fn literal(word: &[u8], task: u32, offset: u32) -> Vec<u8> {
    let mut made = Vec::new();
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        let number = match (byte, after.first()) {
            (b'%', Some(b't')) => Some(task),
            (b'%', Some(b'o')) => Some(offset),
            _ => None,
        };
        match number {
            Some(number) => made.extend_from_slice(number.to_string().as_bytes()),
            None => made.push(byte),
        }
        rest = &after[usize::from(number.is_some())..];
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, tasks: Option<u32>) -> Result<String, String> {
        let lines = configfile::lines(text.as_bytes()).unwrap();
        let shown = |part: &Part| {
            let Part { first, count, offset, line } = part;
            format!("{first}+{count}@{offset}:{line}")
        };
        parts(&lines, tasks).map(|parts| parts.iter().map(shown).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn lines_become_programs_in_the_order_of_tasks() {
        let text = "# a comment\n4-6 hostname\n1,7 echo task:%t\n0,2-3 echo offset:%o\n";
        assert_eq!(of(text, Some(8)).unwrap(), "0+1@0:2 1+1@0:1 2+2@1:2 4+3@0:0 7+1@1:1");
        assert_eq!(of(text, None), of(text, Some(8)));
        assert_eq!(of("0 a\n* b\n", Some(4)).unwrap(), "0+1@0:0 1+3@0:1");
    }

    #[test]
    fn a_task_needs_one_program() {
        assert_eq!(of("0 a\n2 b\n", None).unwrap_err(), "there is no program for task 1");
        assert_eq!(of("0 a\n0-1 b\n", None).unwrap_err(), "line 2: '0-1' is no list of tasks");
        let error = of("1-9 a\n0 b\n", Some(3)).unwrap_err();
        assert_eq!(error, "line 1: task 9, but there are 3 tasks");
        assert_eq!(of("x a\n", None).unwrap_err(), "line 1: 'x' is no list of tasks");
        assert_eq!(of("0 a\n", Some(2)).unwrap_err(), "there is no program for task 1");
    }

    #[test]
    fn words_have_the_task_and_its_place() {
        assert_eq!(literal(b"a%t-%o%%x%", 3, 1), b"a3-1%%x%");
        assert_eq!(substitution(b"a%t-%x%"), b"a%r-%%x%%");
    }
}
