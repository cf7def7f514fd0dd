//! The recipe for `--keep`: the data to restart any daemon of the ring, without the key.

use std::path::Path;
use std::{fs, io};

use mpd_io::ring::rundir::{self, RunDir};

use crate::wire::{MAX_REQUEST, RECIPE_VERSION, Recipe};

/// Writes the recipe atomically into the run directory, and returns its path.
///
/// # Errors
/// The system's error, with the path.
pub fn write(rundir: &RunDir, recipe: &Recipe) -> io::Result<String> {
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
/// A text for people.
pub fn read(path: &Path) -> Result<Recipe, String> {
    let arguments = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read(path).map_err(|error| arguments(&error))?;
    if text.len() > MAX_REQUEST {
        return Err(arguments(&"larger than any recipe"));
    }
    let recipe: Recipe = serde_json::from_slice(&text).map_err(|error| arguments(&error))?;
    if recipe.version != RECIPE_VERSION {
        return Err(arguments(&format!(
            "a recipe of version {}, not {RECIPE_VERSION}",
            recipe.version
        )));
    }
    Ok(recipe)
}
