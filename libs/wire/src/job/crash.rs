//! What is told of a process that was caught when it crashed.

use serde::{Deserialize, Serialize};

use crate::bounded::at_most;
use crate::job::bounds::Bytes;
use crate::job::fields::{InvalidSpec, Reader, Writer};

/// Most stacks of one crash: however they are escaped, the word about it fits a frame of a job link.
pub const MAX_STACKS: usize = 8;

/// Most bytes of one stack.
pub const MAX_STACK: usize = 1024;

/// What is done about programs that crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnCrash {
    /// The debugger that looks where they were: with a `/` a path, else searched as the program is.
    pub gdb: Bytes,
    /// Nobody looks: they are held as they were until the console lets the job go on, so that its user can.
    pub hold: bool,
}

impl OnCrash {
    pub(super) fn encode(this: Option<&Self>, w: &mut Writer) {
        w.option(this.map(|on_crash| &on_crash.gdb[..]));
        w.flag(this.is_some_and(|on_crash| on_crash.hold));
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Option<Self>, InvalidSpec> {
        let (gdb, hold) = (r.option()?, r.flag()?);
        Ok(gdb.map(|gdb| Self { gdb, hold }))
    }
}

/// A process of a rank was about to die of a signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crash {
    /// Its number.
    pub signal: u8,
    /// Each thread's calls from the outermost to the innermost, with tabs in between.
    #[serde(deserialize_with = "at_most::<_, _, MAX_STACKS>")]
    pub stacks: Vec<String>,
    /// Why there are none.
    pub problem: Option<String>,
    /// Nobody has looked: it is held as it was, until the console lets the job go on.
    pub held: bool,
}

impl Crash {
    /// Of one that is held.
    pub const fn held(signal: u8) -> Self {
        Self { signal, stacks: Vec::new(), problem: None, held: true }
    }

    /// Takes away what is more than may be told: further threads, and the outermost calls of deep stacks.
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
