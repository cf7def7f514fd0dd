//! The recipe for `--keep`: what it takes to start any daemon of the ring again, and no key.

use std::path::Path;
use std::{fs, io};

use mpd_io::rundir::{self, RunDir};

use crate::wire::{MAX_ORDER, Recipe, VERSION};

/// Writes the recipe into the run directory, whole or not at all, and returns its path.
///
/// # Errors
/// Those of the system, with the path.
pub(crate) fn write(rundir: &RunDir, recipe: &Recipe) -> io::Result<String> {
    rundir.prepare().map_err(|error| io::Error::other(error.to_string()))?;
    let path = rundir.path().join("keep.json");
    let text = serde_json::to_vec(recipe).expect("a recipe serialises");
    rundir::replace(&path, &text)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    Ok(path.display().to_string())
}

/// Reads a recipe.
///
/// # Errors
/// For people.
pub(crate) fn read(path: &Path) -> Result<Recipe, String> {
    let words = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read(path).map_err(|error| words(&error))?;
    if text.len() > MAX_ORDER {
        return Err(words(&"larger than any recipe"));
    }
    let recipe: Recipe = serde_json::from_slice(&text).map_err(|error| words(&error))?;
    if recipe.version != VERSION {
        return Err(words(&format!("a recipe of version {}, not {VERSION}", recipe.version)));
    }
    Ok(recipe)
}
