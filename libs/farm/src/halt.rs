//! The rule for an early end, as GNU parallel has it: `--halt now,fail=1`.

use crate::Outcome;

/// What to do with the running tasks at an early end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// They are killed.
    Now,
    /// They run to their ends; no further task begins.
    Soon,
}

/// Which ends count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Failures.
    Fail,
    /// Successes.
    Success,
    /// All.
    Done,
}

/// The rule: the farm ends early after so many ends of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halt {
    /// Whether running tasks are killed.
    pub when: When,
    /// Which ends count.
    pub kind: Kind,
    /// How many.
    pub count: u64,
}

/// The text is no such rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it must be never, or now or soon with what ends the farm: for instance now,fail=1 or soon,fail=3; success=N and done=N count other ends"
)]
pub struct InvalidHalt;

/// The rule of a text; `None` for `never`.
///
/// # Errors
/// [`InvalidHalt`].
pub fn parse(text: &str) -> Result<Option<Halt>, InvalidHalt> {
    if text == "never" {
        return Ok(None);
    }
    let (when, what) = text.split_once(',').ok_or(InvalidHalt)?;
    let when = match when {
        "now" => When::Now,
        "soon" => When::Soon,
        _ => return Err(InvalidHalt),
    };
    let (kind, count) = what.split_once('=').ok_or(InvalidHalt)?;
    let kind = match kind {
        "fail" => Kind::Fail,
        "success" => Kind::Success,
        "done" => Kind::Done,
        _ => return Err(InvalidHalt),
    };
    let count = count.parse().ok().filter(|count| *count > 0).ok_or(InvalidHalt)?;
    Ok(Some(Halt { when, kind, count }))
}

impl Halt {
    /// Whether an end counts; `None`: the task was lost with its host.
    pub fn counts(&self, outcome: Option<Outcome>) -> bool {
        let success = outcome.is_some_and(Outcome::is_success);
        match self.kind {
            Kind::Fail => !success,
            Kind::Success => success,
            Kind::Done => true,
        }
    }
}
