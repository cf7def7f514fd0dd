//! What a daemon reports when it is in the ring: to the process that started it and waits, on standard output, and in
//! a file with its process id.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use mpd_io::files::own_file::open_behind_links;
use nix::poll::PollFlags;

use crate::cli::Cli;
use crate::start::READY;
use mpd_io::wait::is_ready;

/// The reports that are still to be made.
#[derive(Debug)]
pub(super) struct Ready {
    /// The pipe to the waiting process; `None` after the first message.
    pipe: Option<File>,
    /// Whether the port is printed.
    echo: bool,
    /// The file of the process id.
    pid_file: Option<PathBuf>,
    has_entered: bool,
}

impl Ready {
    /// `pipe` is the write end of the pipe, if a process waits.
    ///
    /// # Errors
    /// The path of the file cannot be made absolute.
    pub(super) fn new(pipe: Option<File>, cli: &Cli) -> Result<Self> {
        let pid_file = cli.pid_file.as_ref().map(std::path::absolute).transpose()?;
        Ok(Self { pipe, echo: cli.echo, pid_file, has_entered: false })
    }

    /// Reports that the daemon is in the ring and listens on `port`. The pipe stays open. Later calls do nothing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn entered(&mut self, port: u16) -> Result<()> {
        if std::mem::replace(&mut self.has_entered, true) {
            return Ok(());
        }
        if let Some(path) = &self.pid_file {
            let text = format!("{}\n", std::process::id());
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true);
            open_behind_links(&mut options, 0, path)
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if self.echo
            && let Err(e) = writeln!(std::io::stdout(), "mpd_port={port}")
        {
            log::warn!("cannot print the port: {e}");
        }
        self.write(&format!("{READY} {port}"));
        Ok(())
    }

    /// Closes the pipe, so that the waiting process continues.
    pub(super) fn release(&mut self) {
        self.pipe = None;
    }

    fn write(&mut self, text: &str) {
        if let Some(pipe) = &mut self.pipe
            && let Err(e) = pipe.write_all(text.as_bytes())
        {
            log::warn!("cannot report readiness: {e}");
        }
    }

    /// Writes the first message and closes the pipe. Later messages are dropped.
    pub(super) fn report(&mut self, text: &str) {
        self.write(text);
        self.release();
    }

    /// Whether the waiting process has ended before the first message.
    pub(super) fn is_deserted(&self) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        matches!(is_ready(pipe, PollFlags::empty()), Ok(true))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        let own = std::process::id().to_string();
        let Some(path) = self.pid_file.as_ref().filter(|_| self.has_entered) else { return };
        // The next daemon may have written its own.
        if fs::read_to_string(path).is_ok_and(|text| text.trim_end() == own) {
            let _ = fs::remove_file(path);
        }
    }
}
