//! `mpd --daemon`: starts the daemon in a session of its own and waits until it serves.
//!
//! The daemon tells readiness on an inherited pipe: `ready`, or the text of its failure. If the pipe
//! closes without a word, the daemon died.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mpd_io::spawn::{Spawn, own_environment};

use crate::cli::Cli;

/// What the daemon writes on descriptor 3 when it serves.
pub(crate) const READY: &str = "ready";

pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    let (mut reader, writer) = io::pipe().context("cannot make a pipe")?;
    let null: OwnedFd = OpenOptions::new().read(true).write(true).open("/dev/null")?.into();
    let writer = OwnedFd::from(writer);
    let spawn = Spawn::new(b"/proc/self/exe", arguments(cli)?, own_environment())?;
    spawn
        .start(&[null.as_fd(), null.as_fd(), null.as_fd(), writer.as_fd()], &[], None)
        .context("cannot start the daemon")?;
    drop(writer);
    let mut word = String::new();
    reader.read_to_string(&mut word).context("cannot hear from the daemon")?;
    match word.trim_end() {
        READY => Ok(ExitCode::SUCCESS),
        "" => bail!("the daemon died before it served; start it without --daemon to see why"),
        problem => bail!("{problem}"),
    }
}

/// Our own arguments less `--daemon`, paths made absolute since a daemon lives at `/`.
fn arguments(cli: &Cli) -> Result<Vec<Vec<u8>>> {
    use std::os::unix::ffi::OsStringExt;
    let mut words = vec![b"mpd".to_vec(), b"--tell-ready".to_vec()];
    let mut option = |name: &str, value: Vec<u8>| words.extend([name.as_bytes().to_vec(), value]);
    if let Some(name) = &cli.name {
        option("--name", name.clone().into_bytes());
    }
    if let Some(ncpus) = cli.ncpus {
        option("--ncpus", ncpus.to_string().into_bytes());
    }
    for (name, path) in [("--rundir", &cli.rundir), ("--log-file", &cli.log_file)] {
        if let Some(path) = path {
            let path = std::path::absolute(path)
                .with_context(|| format!("cannot find {}", path.display()))?;
            option(name, path.into_os_string().into_vec());
        }
    }
    words.extend((0..cli.verbose).map(|_| b"--verbose".to_vec()));
    Ok(words)
}
