//! Man page and completions, written from the same table that parses the command line.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::{Shell, generate_to};

use crate::cli::Cli;

/// Writes `man/mpdboot.1` and `completions/SHELL/*` below `directory`.
pub(crate) fn generate(directory: &Path) -> Result<ExitCode> {
    let mut command = Cli::command();
    let man = directory.join("man");
    fs::create_dir_all(&man).with_context(|| format!("cannot make {}", man.display()))?;
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    fs::write(man.join("mpdboot.1"), page)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let place = directory.join("completions").join(shell.to_string());
        fs::create_dir_all(&place)?;
        generate_to(shell, &mut command, "mpdboot", place)?;
    }
    Ok(ExitCode::SUCCESS)
}
