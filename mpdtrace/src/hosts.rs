//! Host names of a host file, checked so that a remote shell can take them as arguments.

use std::path::Path;

use anyhow::{Context as _, Result};
use mpd_placement::hosts;

/// The names in a host file of `mpdboot`'s format, without duplicates.
///
/// # Errors
/// The file cannot be read or is not a host file; the error names the line.
pub fn read(path: &Path) -> Result<Vec<String>> {
    let shown = path.display();
    let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let mut names: Vec<String> = Vec::new();
    for entry in hosts::parse_file(&text).with_context(|| shown.to_string())? {
        if !names.contains(&entry.host) {
            names.push(entry.host);
        }
    }
    Ok(names)
}
