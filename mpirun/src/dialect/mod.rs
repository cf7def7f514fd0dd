//! The options of other launchers. An option that `mpirun` does not have is looked up in the table of foreign options.
//! It becomes words of our own, or is accepted without effect, or is refused with a reason. The table is read only for
//! such options, or when a dialect is chosen. Options that we have keep our meaning unless a dialect is chosen.

mod answer;
mod binding;
pub(crate) mod cpus;
mod intel;
mod language;
mod layout;
pub(crate) mod open_mpi;
mod output;
#[cfg(test)]
mod page;
pub(crate) mod parameters;
mod srun;
mod table;
mod translation;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use crate::usage::Usage;
use answer::Answer;
pub(crate) use language::{Dialect, Facts, Language};
pub(crate) use layout::{Known, Layout, shares};
use table::{Row, TABLE};

/// A foreign option in our words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Translated {
    /// Our options.
    pub(crate) words: Vec<OsString>,
    /// Lines for the user about what has no effect.
    pub(crate) remarks: Vec<String>,
    /// How many of the words after the option were its values.
    pub(crate) used: usize,
}

/// The error for our option `-d`, if it is written like the depth of PALS.
pub(crate) fn ambiguous(name: &[u8], after: &[OsString]) -> Option<Usage> {
    let number = after
        .first()
        .filter(|word| !word.is_empty() && word.as_bytes().iter().all(u8::is_ascii_digit))?;
    let number = number.to_string_lossy();
    (name == b"d").then(|| {
        Usage::syntax(format!(
            "-d {number} has two meanings: here -d is the debugger and has no value (write -gdb {number}); for PALS it is \
             the depth (write --depth {number}, or -dialect pals)"
        ))
    })
}

/// Translates the option `written`, whose name without dashes is `name`; `glued` is the value after `=`. The result is
/// `None` if the table does not have it.
///
/// # Errors
/// The option is refused, lacks a value, or means different things in several dialects.
pub(crate) fn translate(
    (written, name): (&str, &[u8]),
    glued: Option<&[u8]>,
    after: &[OsString],
    language: Language<'_>,
    layout: &mut Layout,
) -> Result<Option<Translated>, Usage> {
    let Ok(name) = str::from_utf8(name) else { return Ok(None) };
    let shape = Shape { is_glued: glued.is_some(), next: after.first() };
    let Some((row, of)) = row(written, name, language.dialect, shape)? else { return Ok(None) };
    let wanted = row.wanted(after);
    let (values, used): (Vec<OsString>, usize) = match glued {
        Some(value) if row.values.len() == 1 => (vec![OsString::from_vec(value.to_vec())], 0),
        Some(_) => {
            let count = if wanted == 0 { "takes no value" } else { "takes separate values" };
            return Err(Usage::syntax(format!("{written} {count}")));
        }
        None if after.len() < wanted => {
            let missing = row.values[after.len()..].join(" ");
            return Err(Usage::syntax(format!("{written} needs a value: {missing}")));
        }
        None => (after[..wanted].to_vec(), wanted),
    };
    let shown = |values: &[OsString]| {
        let words = values.iter().map(|value| value.to_string_lossy());
        std::iter::once(written.into()).chain(words).collect::<Vec<_>>().join(" ")
    };
    let problem = |e: String| Usage::new(format!("{}: {e}", shown(&values)));
    let made = |words: Vec<String>| {
        let words = words.into_iter().map(Into::into).collect();
        Ok(Some(Translated { words, remarks: Vec::new(), used }))
    };
    match row.answer {
        Answer::Words(pattern) => {
            let words = pattern.iter().map(|word| filled(word, &values)).collect();
            Ok(Some(Translated { words, remarks: Vec::new(), used }))
        }
        Answer::Computed(compute, _) => made(
            texts(&values).and_then(|texts| compute(&texts, language.caller)).map_err(problem)?,
        ),
        Answer::Collected(collect, _) => {
            let before = layout.clone();
            let words = texts(&values).and_then(|texts| collect(layout, &texts, language.caller));
            let words = words.map_err(problem)?;
            if layout.differs(&before) {
                layout.say(shown(&values));
            }
            let notes = layout.take_notes().into_iter();
            let remarks = notes.map(|note| format!("{}: {note}", shown(&values))).collect();
            Ok(made(words)?.map(|translated| Translated { remarks, ..translated }))
        }
        Answer::Silent(_) => made(Vec::new()),
        Answer::Request => srun::request(&shown(&values), language.caller)
            .map(|remark| remark.into_iter().collect())
            .map(|remarks| Some(Translated { words: Vec::new(), remarks, used })),
        Answer::Accepted(reason) => {
            let remarks = vec![format!("{} has no effect: {reason}", shown(&values))];
            Ok(Some(Translated { words: Vec::new(), remarks, used }))
        }
        Answer::Refused(reason) => {
            let text = format!("{written} of {} is not available: {reason}", dialects(of));
            Err(Usage::new(text))
        }
    }
}

fn texts(values: &[OsString]) -> Result<Vec<&str>, String> {
    let texts: Option<_> = values.iter().map(|value| value.to_str()).collect();
    texts.ok_or_else(|| "the value is not UTF-8 text".to_owned())
}

/// What follows an option: it tells which of several launchers it was written for.
#[derive(Clone, Copy)]
struct Shape<'a> {
    is_glued: bool,
    next: Option<&'a OsString>,
}

impl Shape<'_> {
    /// Whether an option with so many values can be written so, if others have another number.
    fn fits(self, row: &Row) -> bool {
        let is_option = self.next.is_none_or(|next| next.as_bytes().starts_with(b"-"));
        match row.values.len() {
            _ if row.has_optional_value() => true,
            0 => !self.is_glued && is_option,
            1 => self.is_glued || !is_option,
            _ => !self.is_glued,
        }
    }
}

/// The row of a name, and the dialects that have the name with this meaning.
fn row(
    written: &str,
    name: &str,
    dialect: Option<Dialect>,
    shape: Shape<'_>,
) -> Result<Option<(&'static Row, u16)>, Usage> {
    let wanted = dialect.map_or_else(|| having(name.as_bytes()), Dialect::bit);
    let all = || TABLE.iter().filter(|row| row.names.contains(&name) && row.of & wanted != 0);
    let shape_of = |row: &Row| (row.values.len(), row.has_optional_value());
    let is_one_shape = all().zip(all().skip(1)).all(|(one, next)| shape_of(one) == shape_of(next));
    let mut rows = all().filter(|row| is_one_shape || shape.fits(row));
    let Some(first) = rows.next() else { return Ok(None) };
    let meaning = first.answer.meaning();
    let mut of = first.of;
    for other in rows {
        let others = other.answer.meaning();
        if others != meaning || other.values.len() != first.values.len() {
            return Err(Usage::syntax(format!(
                "{written} has several meanings: {meaning} ({}), {others} ({}); choose one with -dialect",
                dialects(of),
                dialects(other.of),
            )));
        }
        of |= other.of;
    }
    Ok(Some((first, of)))
}

/// Whether a letter is an option of `srun` whose value may follow without a space, and whether the value is optional.
pub(crate) fn letter_of_srun(letter: &str) -> Option<bool> {
    let row =
        TABLE.iter().find(|row| row.of & Dialect::Srun.bit() != 0 && row.names.contains(&letter));
    row.filter(|row| !row.values.is_empty()).map(Row::has_optional_value)
}

/// Whether these dialects are one launcher, or versions of one.
pub(crate) fn are_alike(bits: u16) -> bool {
    let open_mpi = Dialect::OpenMpi4.bit() | Dialect::OpenMpi5.bit();
    let hydra = Dialect::Hydra.bit() | Dialect::Intel.bit();
    bits.count_ones() == 1 || bits & !open_mpi == 0 || bits & !hydra == 0
}

/// The dialects that have an option of this name, as bits. `srun` counts only for names that no `mpirun` has.
pub(crate) fn having(name: &[u8]) -> u16 {
    let rows = TABLE.iter().filter(|row| row.names.iter().any(|known| known.as_bytes() == name));
    let all = rows.fold(0, |bits, row| bits | row.of);
    match all & !Dialect::Srun.bit() {
        0 => all,
        others => others,
    }
}

/// Names of dialects as a list.
pub(crate) fn dialects(bits: u16) -> String {
    let all = Dialect::ALL.into_iter().filter(|dialect| bits & dialect.bit() != 0);
    all.map(Dialect::title).collect::<Vec<_>>().join(", ")
}

/// A pattern with `{0}` and `{1}` replaced by values.
fn filled(pattern: &str, values: &[OsString]) -> OsString {
    let mut made = Vec::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        made.extend_from_slice(before.as_bytes());
        let (number, tail) = after.split_once('}').unwrap_or((after, ""));
        let value = number.parse::<usize>().ok().and_then(|number| values.get(number));
        made.extend_from_slice(value.map_or(OsStr::new(""), OsString::as_os_str).as_bytes());
        rest = tail;
    }
    made.extend_from_slice(rest.as_bytes());
    OsString::from_vec(made)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::options;

    #[test]
    fn no_dialect_has_two_answers_for_a_name() {
        let mut seen = BTreeMap::new();
        for row in TABLE {
            for name in row.names {
                for dialect in Dialect::ALL.into_iter().filter(|d| row.of & d.bit() != 0) {
                    assert!(seen.insert((dialect, name), ()).is_none(), "{name} of {dialect:?}");
                }
            }
        }
    }

    #[test]
    fn every_answer_uses_options_of_ours() {
        for row in TABLE {
            let Answer::Words(words) = row.answer else { continue };
            let option = words.first().and_then(|word| word.strip_prefix('-'));
            assert!(
                option.is_some_and(|name| options::find(name.as_bytes()).is_some()),
                "{words:?}"
            );
        }
    }

    #[test]
    fn an_installation_has_a_link_for_each_name_of_a_dialect() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/install");
        let script = std::fs::read_to_string(path).unwrap();
        let (_, list) = script.split_once("\naliases=(").unwrap();
        let (list, _) = list.split_once(')').unwrap();
        let names: Vec<&str> = list.split_whitespace().collect();
        assert_eq!(names, language::PROGRAMS.map(|(name, _)| name));
    }

    #[test]
    fn patterns_are_filled_with_values() {
        let values = [OsString::from("a"), OsString::from_vec(vec![0xff])];
        assert_eq!(filled("X_{0}=", &values), OsString::from("X_a="));
        assert_eq!(filled("{1}{1}", &values).into_vec(), [0xff, 0xff]);
    }
}
