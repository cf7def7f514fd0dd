//! Command lines of programs: how a wrong one is refused, and man pages and completions, written from the
//! tables that parse them. `mpirun` does this by itself: its options are not those of clap.

pub mod arguments;
pub mod completion;
mod jobs;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::{Shell, generate_to};
use clap_mangen::roff::{Roff, bold, roman};

/// A variable of the environment, and what it means to a program.
pub type Variable = (&'static str, &'static str);

/// By what a program finds the daemon of this host.
pub const OF_RING: [Variable; 4] = [
    ("MPD_RUNDIR", "the run directory of the daemon, where --rundir does not name it"),
    (
        "MPD_RING, MPD_CON_EXT",
        "the name of the ring, where --ring does not; the first one that is set counts",
    ),
    (
        "SLURM_JOB_ID, PBS_JOBID, LSB_JOBID, JOB_ID, FLUX_JOB_ID, COBALT_JOBID",
        "the batch job, whose id is the name of the ring if nothing else names it",
    ),
    ("XDG_RUNTIME_DIR", "the directory in which the run directory is, if nothing names that"),
];

/// How a program that has to do with keys and logs finds these.
pub const OF_DAEMON: [Variable; 2] = [
    ("MPD_KEY_FILE", "the file of the ring's key, where --key does not name it"),
    ("MPD_LOG", "what is logged: error, warn, info, debug or trace"),
];

/// Pages that concern everybody.
const PAGES: [&str; 6] = ["mpd", "mpdboot", "mpdtrace", "mpdlistjobs", "mpirun", "mpdhelp"];

/// The sections behind those that clap writes.
fn references(name: &str, variables: &[Variable]) -> Roff {
    let mut roff = Roff::new();
    if !variables.is_empty() {
        roff.control("SH", ["ENVIRONMENT"]);
    }
    for (variable, meaning) in variables {
        roff.control("TP", []);
        roff.text([bold(*variable)]);
        roff.text([roman(*meaning)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    let others = PAGES.iter().filter(|page| **page != name);
    let list: Vec<String> = others.map(|page| format!("{page}(1)")).collect();
    roff.text([roman(list.join(", "))]);
    roff
}

/// Writes `man/COMMAND.1` and `completions/SHELL/*` below `directory`.
///
/// # Errors
/// When something cannot be written; the error names it.
pub fn generate(
    directory: &Path,
    commands: impl IntoIterator<Item = Command>,
    variables: &[Variable],
) -> Result<()> {
    let man = directory.join("man");
    fs::create_dir_all(&man).with_context(|| format!("cannot make {}", man.display()))?;
    for mut command in commands {
        let name = command.get_name().to_owned();
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut page)?;
        references(&name, variables).to_writer(&mut page)?;
        let path = man.join(format!("{name}.1"));
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
        if let Some(table) = jobs::table(&command) {
            let bash = format!("{name}.bash");
            completion::write(directory, &name, &bash, &table)?;
            continue;
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let place = directory.join("completions").join(shell.to_string());
            fs::create_dir_all(&place)
                .and_then(|()| generate_to(shell, &mut command, &name, &place).map(drop))
                .with_context(|| format!("cannot write to {}", place.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_its_variables_and_names_others() {
        let page = references("mpd", &[OF_RING.as_slice(), &OF_DAEMON].concat()).render();
        for part in
            [".SH ENVIRONMENT", "MPD_RUNDIR", "MPD_KEY_FILE", ".SH \"SEE ALSO\"", "mpdboot(1)"]
        {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("mpd(1)"), "a page does not name itself: {page}");
        let page = references("mpdhelp", &[]).render();
        assert!(!page.contains("ENVIRONMENT") && page.contains(".SH \"SEE ALSO\""), "{page}");
    }
}
