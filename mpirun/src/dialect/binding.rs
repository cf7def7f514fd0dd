//! The option `-bind-to` of Hydra, and `--cpu-bind` of PALS and of Slurm.

use mpd_wire::job::Binding;

use super::cpus::{lists, masks, repeated, user, wrong};
use super::language::Facts;
use super::made::{Made, words};
use super::open_mpi::bind_to;

/// `-bind-to` of Hydra, which has our units and a few more.
pub(super) fn hydra(values: &[&str], caller: &dyn Facts) -> Made {
    let unit = values[0].split(':').next().unwrap_or_default();
    match unit == "user" || Binding::of_name(unit).is_some() {
        true => Ok(words(&["-bind-to", values[0]])),
        false => bind_to(&[if unit == "machine" { unit } else { values[0] }], caller),
    }
}

/// `--cpu-bind` of PALS.
pub(super) fn pals(values: &[&str], caller: &dyn Facts) -> Made {
    match values[0].split_once(':').unwrap_or((values[0], "")) {
        // The depth decides, or the rank may use all CPUs.
        ("depth", "") => Ok(Vec::new()),
        ("list", text) => Ok(user(&lists(text, ':')?)),
        ("mask", text) => {
            let masks = masks(text.split([':', ',']));
            Ok(user(&masks.ok_or_else(|| wrong(text))?))
        }
        _ => bind_to(values, caller),
    }
}

/// `--cpu-bind` of Slurm: `[verbose,|quiet,]METHOD`.
pub(super) fn slurm(values: &[&str], caller: &dyn Facts) -> Made {
    let mut made = Vec::new();
    let mut value = values[0];
    if let Some((word @ ("verbose" | "v" | "quiet" | "q"), rest)) = value.split_once(',') {
        if word.starts_with('v') {
            made = words(&["-report-bindings"]);
        }
        value = rest;
    }
    made.extend(match value.split_once(':').unwrap_or((value, "")) {
        ("none" | "no", "") => words(&["-bind-to", "none"]),
        ("sockets", "") => bind_to(&["socket"], caller)?,
        ("cores", "") => bind_to(&["core"], caller)?,
        ("threads", "") => bind_to(&["hwthread"], caller)?,
        ("ldoms", "") => bind_to(&["numa"], caller)?,
        ("verbose" | "v", "") => words(&["-report-bindings"]),
        ("quiet" | "q", "") => Vec::new(),
        ("map_cpu", text) => {
            let cpus = repeated(text)?;
            match cpus.iter().all(|cpu| cpu.parse::<u16>().is_ok()) {
                true => user(&cpus.join(",")),
                false => return Err(wrong(text)),
            }
        }
        ("mask_cpu", text) => {
            let found = masks(repeated(text)?.into_iter());
            user(&found.ok_or_else(|| wrong(text))?)
        }
        (method, _) => return Err(format!("the method '{method}' is not available")),
    });
    Ok(made)
}
