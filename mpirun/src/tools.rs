//! Tools that start the programs of some ranks, like `valgrind -q:0;strace -f:1-3`. A part of a program with a tool is a
//! program of its own, whose arguments are those of the tool, the program and its arguments.

use mpd_wire::job::{Argset, Bytes};
use mpd_wire::{Rank, RankSet};

use crate::configfile;
use crate::once::Once;
use crate::scan::Setting;
use crate::usage::Usage;

/// A tool for some ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tool {
    words: Vec<Bytes>,
    ranks: RankSet,
}

/// The tools of a job. The first tool of a rank counts.
#[derive(Debug, Default)]
pub(crate) struct Tools(Once<Vec<Tool>>);

impl Tools {
    /// Adds the tools of an option.
    pub(crate) fn note(&mut self, setting: &Setting) -> Result<(), Usage> {
        let items = setting.text()?.split([';', '\n']).map(str::trim);
        let tools: Result<Vec<Tool>, String> =
            items.filter(|item| !item.is_empty()).map(tool).collect();
        match tools {
            Ok(tools) if !tools.is_empty() => self.0.set(tools, setting),
            Ok(_) => Err(setting.error("it must be TOOL:RANKS, like valgrind:0 or valgrind:all")),
            Err(e) => Err(setting.error(e)),
        }
    }

    /// The programs with their tools, in rank order.
    pub(crate) fn apply(&self, argsets: Vec<Argset>) -> Vec<Argset> {
        let Some(tools) = self.0.get() else { return argsets };
        let mut made = Vec::with_capacity(argsets.len());
        let mut first = 0_u32;
        for argset in argsets {
            let next = first.saturating_add(argset.size);
            let of = |rank: u32| tools.iter().position(|tool| tool.ranks.contains(Rank(rank)));
            let mut begin = first;
            while begin < next {
                let own = of(begin);
                let end = (begin..next).find(|&rank| of(rank) != own).unwrap_or(next);
                let part = Argset { size: end - begin, ..argset.clone() };
                made.push(match own {
                    Some(at) => with(&tools[at], part),
                    None => part,
                });
                begin = end;
            }
            first = next;
        }
        made
    }
}

/// `TOOL:RANKS[=exclusive]`.
fn tool(text: &str) -> Result<Tool, String> {
    let wrong = || format!("{text:?} is not TOOL:RANKS, like valgrind:0 or valgrind:all");
    let (command, ranks) = text.rsplit_once(':').ok_or_else(wrong)?;
    if ranks.contains('@') {
        return Err(format!("{text:?}: an architecture is not available"));
    }
    let ranks = match ranks.split_once('=') {
        None => ranks,
        // One process of the tool for each rank is what happens.
        Some((ranks, "exclusive")) => ranks,
        Some((_, mode)) => return Err(format!("{text:?}: the mode '{mode}' is not available")),
    };
    let ranks = match ranks.trim() {
        "all" => RankSet::all(),
        ranks => ranks.parse().map_err(|_| wrong())?,
    };
    let lines = configfile::lines(command.as_bytes()).map_err(|e| format!("{text:?}: {e}"))?;
    let words = lines.into_iter().flat_map(|line| line.words);
    let words: Vec<Bytes> = words.map(std::os::unix::ffi::OsStringExt::into_vec).collect();
    match words.is_empty() {
        true => Err(wrong()),
        false => Ok(Tool { words, ranks }),
    }
}

/// A program that a tool starts.
fn with(tool: &Tool, argset: Argset) -> Argset {
    // Arguments may have fields. A percent sign of the tool or of the program is no field.
    let literal = |word: &Bytes| match argset.substitute {
        true => word
            .iter()
            .flat_map(|&byte| if byte == b'%' { vec![b'%'; 2] } else { vec![byte] })
            .collect(),
        false => word.clone(),
    };
    let own = tool.words[1..].iter().chain([&argset.program]).map(literal);
    let args = own.chain(argset.args.iter().cloned()).collect();
    Argset { program: tool.words[0].clone(), args, ..argset }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_a_command_and_its_ranks() {
        let made = |text: &str| {
            let Tool { words, ranks } = tool(text)?;
            let words = words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
            Ok::<_, String>((words.collect::<Vec<_>>(), ranks.to_string()))
        };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(made("t -r ./x:y:0,2-3"), Ok((words("t -r ./x:y"), "0,2-3".to_owned())));
        assert_eq!(made("t 'a b':0=exclusive").unwrap().0, ["t", "a b"]);
        for wrong in ["t", "t:", ":0", "t:x", "t:0=attach", "t:0@bdw", "'t:0"] {
            assert!(made(wrong).is_err(), "{wrong}");
        }
    }
}
