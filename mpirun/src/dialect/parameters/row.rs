//! A row of the table of parameters.

use crate::dialect::answer::Answer;

/// When a parameter has its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dialect) enum When {
    /// With any value.
    Always,
    /// If the value means yes.
    Yes,
    /// If the value means no.
    No,
}

/// Parameters with one effect.
#[cfg_attr(not(test), expect(dead_code, reason = "only the page of the manual has the texts"))]
pub(in crate::dialect) struct Parameter {
    /// Its names. A star at the end stands for all names with this beginning.
    pub(in crate::dialect) keys: &'static [&'static str],
    pub(in crate::dialect) of: u16,
    pub(in crate::dialect) when: When,
    pub(in crate::dialect) answer: Answer,
}

#[cfg(test)]
impl Parameter {
    /// Its effect as a text for people.
    pub(in crate::dialect) fn meaning(&self) -> String {
        let meaning = self.answer.meaning();
        match self.when {
            When::Always => meaning,
            When::Yes => format!("yes: {meaning}"),
            When::No => format!("no: {meaning}"),
        }
    }
}
