//! Reports about a process that was caught when it crashed.

use serde::{Deserialize, Serialize};

use crate::binary;
use crate::bounded::at_most;
use crate::job::bounds::Bytes;

/// Most stacks of one crash. A report fits a frame of a job link, even if every byte is escaped.
pub const MAX_STACKS: usize = 8;

/// Most bytes of one stack.
pub const MAX_STACK: usize = 1024;

/// How crashes of programs are handled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnCrash {
    /// The debugger that reads the stacks: a path if it has a `/`, else searched like the program.
    #[serde(with = "binary")]
    pub gdb: Bytes,
    /// Whether a crashed process is held, without a debugger, until the console continues the job.
    /// The user can attach a debugger meanwhile.
    pub hold: bool,
}

/// A fatal signal of a process of a rank, caught before the process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    /// The signal's number.
    pub signal: u8,
    /// The calls of each thread from the outermost to the innermost, separated by tabs.
    #[serde(deserialize_with = "at_most::<_, _, MAX_STACKS>")]
    pub stacks: Vec<String>,
    /// Why there are no stacks.
    pub problem: Option<String>,
    /// Whether the process is held, without a debugger, until the console continues the job.
    pub held: bool,
}

impl Crash {
    /// The report of a held process.
    pub const fn held(signal: u8) -> Self {
        Self { signal, stacks: Vec::new(), problem: None, held: true }
    }

    /// Cuts the report to its bounds: removes further threads, and the outermost calls of deep
    /// stacks.
    pub fn shorten(&mut self) {
        self.stacks.truncate(MAX_STACKS);
        for stack in &mut self.stacks {
            while stack.len() > MAX_STACK {
                let outermost = stack.find('\t').map_or(stack.len(), |at| at + 1);
                stack.drain(..outermost);
            }
        }
        if let Some(problem) = &mut self.problem
            && problem.len() > MAX_STACK
        {
            *problem = problem.chars().take(MAX_STACK / 4).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_stacks_keep_their_innermost_calls() {
        let deep = vec!["again at a.c:1"; 500].join("\t") + "\tlast at a.c:2";
        let mut crash = Crash { signal: 11, stacks: vec![deep; 20], problem: None, held: false };
        crash.shorten();
        assert_eq!(crash.stacks.len(), MAX_STACKS);
        assert!(crash.stacks[0].len() <= MAX_STACK && crash.stacks[0].ends_with("last at a.c:2"));
        assert!(crash.stacks[0].starts_with("again at"));
    }
}
