//! Man pages and completions, written from the tables that parse the command lines. `mpirun` writes
//! its own: its options are not those of clap.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::{Shell, generate_to};

/// Writes `man/COMMAND.1` and `completions/SHELL/*` below `directory`.
///
/// # Errors
/// When something cannot be written; the error names it.
pub fn generate(directory: &Path, commands: impl IntoIterator<Item = Command>) -> Result<()> {
    let man = directory.join("man");
    fs::create_dir_all(&man).with_context(|| format!("cannot make {}", man.display()))?;
    for mut command in commands {
        let name = command.get_name().to_owned();
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut page)?;
        let path = man.join(format!("{name}.1"));
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let place = directory.join("completions").join(shell.to_string());
            fs::create_dir_all(&place)
                .and_then(|()| generate_to(shell, &mut command, &name, &place).map(drop))
                .with_context(|| format!("cannot write to {}", place.display()))?;
        }
    }
    Ok(())
}
