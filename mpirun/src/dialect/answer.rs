//! Our answer to an option or a parameter of another launcher.

use super::language::Facts;
use super::layout::Layout;
use super::translation::Translation;

/// Open MPI 4, by the bit of `Dialect`.
pub(super) const O4: u16 = 1 << 2;
/// Open MPI 5.
pub(super) const O5: u16 = 1 << 3;
/// Both.
pub(super) const O: u16 = O4 | O5;

/// A function that makes our words of values.
pub(super) type Compute = fn(&[&str], &dyn Facts) -> Translation;

/// A function that changes the layout, and makes our words.
pub(super) type Collect = fn(&mut Layout, &[&str], &dyn Facts) -> Translation;

/// Our answer to a foreign option.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    /// These words of ours; `{0}` is the first value.
    Words(&'static [&'static str]),
    /// The words that a function makes of the values, and their description.
    Computed(Compute, &'static str),
    /// Like that, but the function also changes the collected layout.
    Collected(Collect, &'static str),
    /// No effect, and no line: what the option asks for is always so.
    Silent(&'static str),
    /// No effect, which one line reports with this reason.
    Accepted(&'static str),
    /// A request to the batch system, see `srun::request`.
    Request,
    /// Refused with this reason.
    Refused(&'static str),
}

impl Answer {
    /// The answer as a text for people.
    pub(super) fn meaning(&self) -> String {
        match self {
            Self::Words(words) => {
                let has_two = words.iter().any(|word| word.contains("{1}"));
                let first = if has_two { "KEY" } else { "VALUE" };
                let shown = |word: &&str| word.replace("{0}", first).replace("{1}", "VALUE");
                format!("`{}`", words.iter().map(shown).collect::<Vec<_>>().join(" "))
            }
            Self::Computed(_, meaning) | Self::Collected(_, meaning) => (*meaning).to_owned(),
            Self::Silent(reason) => format!("accepted: {reason}"),
            Self::Accepted(reason) => format!("accepted without effect: {reason}"),
            Self::Request => "no effect in a job of Slurm, as there; accepted without effect where there is no Slurm; otherwise refused: put it \
                 into sbatch or salloc"
                .to_owned(),
            Self::Refused(reason) => format!("refused: {reason}"),
        }
    }
}
