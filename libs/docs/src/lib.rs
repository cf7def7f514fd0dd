//! Command lines of programs: their parser, man pages and completions, all from the same tables of clap.
//!
//! `mpirun` has options that clap cannot parse. It uses only the module `completion`.
//!
//! | module | subject |
//! |---|---|
//! | [`arguments`] | the parser, and the report of a wrong command line |
//! | [`completion`] | completions from a [`Table`](completion::Table), for three shells |
//! | `jobs` | tables of tools with a job as argument |
//! | `page` | the parts of a man page that differ from those of clap |
//! | [`original`] | the command lines of the original MPD |

pub mod arguments;
pub mod completion;
mod jobs;
pub mod original;
mod page;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::{Shell, generate_to};

use page::page;

/// The name of a variable of the environment, and its meaning for a program.
pub type Variable = (&'static str, &'static str);

/// The variables by which a program finds the daemon of this host.
pub const OF_RING: [Variable; 4] = [
    ("MPD_RUNDIR", "the run directory of the daemon, if --rundir is not given"),
    (
        "MPD_RING, MPD_CON_EXT",
        "the name of the ring, if --ring is not given; MPD_RING is used if both are set",
    ),
    (
        "SLURM_JOB_ID, PBS_JOBID, LSB_JOBID, JOB_ID, FLUX_JOB_ID, COBALT_JOBID",
        "the id of the batch job, which is the default name of the ring",
    ),
    ("XDG_RUNTIME_DIR", "the default directory of the run directory"),
];

/// The variables for the key and the log of a program.
pub const OF_DAEMON: [Variable; 2] = [
    ("MPD_KEY_FILE", "the file of the ring's key, if --key is not given"),
    ("MPD_LOG", "the level of the log: error, warn, info, debug or trace"),
];

/// Writes `man/COMMAND.1` and `completions/SHELL/*` below `directory`, for each command.
///
/// # Errors
/// A file or directory cannot be written; the error names it.
pub fn generate(
    directory: &Path,
    commands: impl IntoIterator<Item = Command>,
    variables: &[Variable],
) -> Result<()> {
    let man = directory.join("man");
    fs::create_dir_all(&man).with_context(|| format!("cannot create {}", man.display()))?;
    for mut command in commands {
        let name = command.get_name().to_owned();
        let page = page(&command, variables)?;
        let path = man.join(format!("{name}.1"));
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
        if let Some(table) = jobs::table(&command) {
            let bash = format!("{name}.bash");
            completion::write(directory, &name, &bash, &table)?;
            continue;
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let folder = directory.join("completions").join(shell.to_string());
            fs::create_dir_all(&folder)
                .and_then(|()| generate_to(shell, &mut command, &name, &folder).map(drop))
                .with_context(|| format!("cannot write to {}", folder.display()))?;
        }
    }
    Ok(())
}
