//! Values of options of Intel MPI: tools and tuning.

use super::language::Facts;
use super::layout::Layout;
use super::translation::{Translation, words};

/// A tool before the program of each rank.
pub(super) fn tool(name: &str, caller: &dyn Facts) -> Translation {
    match caller.has_program(name) {
        true => Ok(words(&["-gtool", &format!("{name}:all")])),
        false => Err(format!("{name} is not in PATH")),
    }
}

/// A tool that is a library.
pub(super) fn preload(library: &str, caller: &dyn Facts) -> Translation {
    if !caller.has_library(library) {
        return Err(format!("{library} is not in LD_LIBRARY_PATH"));
    }
    let old = caller.variable(b"LD_PRELOAD").filter(|old| !old.is_empty());
    let old = old.map(|old| format!(":{}", String::from_utf8_lossy(old))).unwrap_or_default();
    Ok(words(&["-genv", "LD_PRELOAD", &format!("{library}{old}")]))
}

/// `-tune [FILE]`.
pub(super) fn tune(layout: &mut Layout, values: &[&str], _: &dyn Facts) -> Translation {
    match values.first() {
        Some(file) => Ok(words(&["-genv", "I_MPI_TUNING_BIN", file])),
        None => {
            layout.note("it has no effect without a file: the MPI library uses its own values");
            Ok(Vec::new())
        }
    }
}
