//! The parameters (MCA) of Open MPI's launchers: options `--mca`, `--prtemca`, and variables `OMPI_MCA_KEY`,
//! `PRTE_MCA_KEY`. Each is obeyed, or one line says that it has no effect. Parameters of the MPI library are in no
//! table: they reach the ranks as variables.
//!
//! The sources are `ompi_info --all` of Open MPI 4.1.8 and `prte_info --all` of PRRTE 3.0.14. The last rows have the
//! frameworks of the launchers, so that a parameter that is in neither list is reported too.

mod functions;
mod row;
mod table;

use super::answer::Answer;
use super::language::Facts;
pub(crate) use super::layout::Given;
use super::layout::Layout;
use super::translation::{Translation, is_yes, words};
use row::{Parameter, When};
pub(super) use table::PARAMETERS;

/// The beginnings of variables for parameters.
pub(crate) const BEGINNINGS: [&str; 2] = ["OMPI_MCA_", "PRTE_MCA_"];

/// What a parameter means here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// These options of ours.
    Words(Vec<String>),
    /// None, for this reason.
    Nothing(&'static str),
    /// It belongs to the MPI library.
    OfLibrary,
}

/// The parameter of this name: the exact name comes before a beginning.
pub(super) fn find(key: &str) -> Option<&'static Parameter> {
    let fits = |name: &&&str| match name.strip_suffix('*') {
        Some(beginning) => key.starts_with(beginning),
        None => **name == key,
    };
    let weight = |parameter: &&Parameter| {
        let names = parameter.keys.iter().filter(fits);
        names.map(|name| (!name.ends_with('*'), name.len())).max()
    };
    PARAMETERS.iter().filter(|row| weight(row).is_some()).max_by_key(weight)
}

/// Whether two names are one parameter.
pub(crate) fn are_same(one: &str, other: &str) -> bool {
    one == other
        || match (find(one), find(other)) {
            (Some(a), Some(b)) => {
                std::ptr::eq(a, b) && a.keys.contains(&one) && a.keys.contains(&other)
            }
            _ => false,
        }
}

/// What a parameter means. Parameters that place ranks change the layout.
///
/// # Errors
/// The value has no meaning here.
pub(crate) fn meaning(
    given: &Given,
    layout: &mut Layout,
    caller: &dyn Facts,
) -> Result<Meaning, String> {
    let Some(row) = find(&given.key) else { return Ok(Meaning::OfLibrary) };
    let value = given.value.as_str();
    let has_effect = match row.when {
        When::Always => !value.is_empty(),
        When::Yes => is_yes(value),
        When::No => !is_yes(value),
    };
    if !has_effect {
        return Ok(Meaning::Words(Vec::new()));
    }
    Ok(Meaning::Words(match row.answer {
        Answer::Words(pattern) => pattern.iter().map(|word| word.replace("{0}", value)).collect(),
        Answer::Computed(compute, _) => compute(&[value], caller)?,
        Answer::Collected(collect, _) => {
            let words = collect(layout, &[value], caller)?;
            layout.launch.say(&given.said);
            words
        }
        Answer::Silent(_) => Vec::new(),
        Answer::Accepted(reason) | Answer::Refused(reason) => return Ok(Meaning::Nothing(reason)),
        Answer::Request => Vec::new(),
    }))
}

/// Whether the parameter changes the layout.
fn changes_layout(key: &str) -> bool {
    find(key).is_some_and(|row| matches!(row.answer, Answer::Collected(..)))
}

/// `--mca KEY VALUE`: a variable of the ranks, and its effect on the launcher.
pub(super) fn mca(layout: &mut Layout, values: &[&str], caller: &dyn Facts) -> Translation {
    parameter("--mca", "OMPI_MCA_", layout, values, caller)
}

/// `--prtemca KEY VALUE`.
pub(super) fn prte_mca(layout: &mut Layout, values: &[&str], caller: &dyn Facts) -> Translation {
    parameter("--prtemca", "PRTE_MCA_", layout, values, caller)
}

/// A parameter that places ranks has its effect at once, in the order of the options. Others count less than options, so
/// they are collected.
fn parameter(
    option: &str,
    family: &str,
    layout: &mut Layout,
    values: &[&str],
    caller: &dyn Facts,
) -> Translation {
    let &[key, value] = values else { return Err("it needs a key and a value".to_owned()) };
    let said = format!("{option} {key} {value}");
    let given = Given { said, key: key.to_owned(), value: value.to_owned() };
    let mut made = match changes_layout(key) {
        true => match meaning(&given, layout, caller)? {
            Meaning::Words(words) => words,
            Meaning::Nothing(_) | Meaning::OfLibrary => Vec::new(),
        },
        false => {
            layout.launch.parameters.push(given);
            Vec::new()
        }
    };
    made.extend(words(&["-genv", &format!("{family}{key}"), value]));
    Ok(made)
}
