//! The worker of one host, as `mpdfarm` sees it: an `mpirun` with one rank, and the pipes to it.
//!
//! Each worker is a job of its own. So it has a channel and a credit of its own. Its loss concerns no other
//! host. A host that joins gets a worker like any other.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context as _, Result, bail};
use mpd_farm::frame::{Decoder, FORMAT, ToWorker, VERSION};
use mpd_io::network::outgoing::Outgoing;
use mpd_io::process::spawn::{Extra, Fate, Spawn, fate_of};
use mpd_wire::frame::Versions;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::Pid;

use super::sight::Place;
use crate::own_jobs::environment;
use crate::tool::own_path;

/// Bytes that are read from a worker at a time.
const READ: usize = 256 << 10;
/// Bytes of standard error that are kept for a message.
const MAX_TEXT: usize = 16 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Site {
    pid: Pid,
    /// The number of slots that was sent to the worker last; 0: its CPUs.
    pub(crate) slots: u32,
    /// `None` when the worker shall end.
    input: Option<io::PipeWriter>,
    output: Option<io::PipeReader>,
    errors: Option<io::PipeReader>,
    decoder: Decoder,
    outgoing: Outgoing,
    /// What mpirun and the worker have written to standard error.
    text: Vec<u8>,
}

impl Site {
    /// Starts the worker of a host.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start(place: &Place, host: &str, setup: ToWorker<'_>) -> Result<Self> {
        let mpirun = own_path("mpirun")?;
        let mut argv = vec!["mpirun".to_owned()];
        if let Place::Ring(rundir) = place {
            argv.extend(["-rundir".to_owned(), rundir.display().to_string()]);
        }
        argv.extend(["-n", "1", "-bind-to", "none"].map(str::to_owned));
        if !matches!(place, Place::Here) {
            argv.extend(["-hosts".to_owned(), host.to_owned()]);
        }
        argv.extend([own_path("mpdfarm")?, "--worker".to_owned()]);
        let mut spawn = Spawn::new(mpirun.as_bytes(), argv, environment())?;
        // ^C reaches mpdfarm alone, which decides about the workers.
        spawn.in_our_session().end_with_parent();
        let (input_end, input) = io::pipe()?;
        let (output, output_end) = io::pipe()?;
        let (errors, errors_end) = io::pipe()?;
        let ends = [OwnedFd::from(input_end), output_end.into(), errors_end.into()];
        let descriptors: Vec<BorrowedFd<'_>> = ends.iter().map(AsFd::as_fd).collect();
        let pid = spawn
            .start(&descriptors, Extra::default(), None)
            .with_context(|| format!("cannot run {mpirun}"))?;
        for fd in [input.as_fd(), output.as_fd(), errors.as_fd()] {
            fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        for fd in [input.as_fd(), output.as_fd()] {
            // Fewer switches between the processes. A refusal is harmless.
            let _ = fcntl(fd, FcntlArg::F_SETPIPE_SZ(1 << 20));
        }
        let mut outgoing = Outgoing::default();
        setup.encode(outgoing.buffer());
        let slots = if let ToWorker::Setup { slots, .. } = setup { slots } else { 0 };
        Ok(Self {
            pid,
            slots,
            input: Some(input),
            output: Some(output),
            errors: Some(errors),
            decoder: Decoder::new(FORMAT),
            outgoing,
            text: Vec::new(),
        })
    }

    /// Queues a message.
    pub(crate) fn send(&mut self, message: ToWorker<'_>) {
        message.encode(self.outgoing.buffer());
    }

    /// Writes what the worker accepts now. If it accepts nothing more, its end is near.
    pub(crate) fn flush(&mut self) {
        if let Some(input) = &mut self.input
            && self.outgoing.flush(input).is_err()
        {
            self.close();
        }
    }

    /// Ends the worker at once.
    pub(crate) fn close(&mut self) {
        self.input = None;
        self.outgoing = Outgoing::default();
    }

    /// What to wait for: the input if bytes wait for it, output, and standard error.
    pub(crate) fn fds(&self) -> [Option<BorrowedFd<'_>>; 3] {
        let input = self.input.as_ref().filter(|_| !self.outgoing.is_empty());
        [
            input.map(AsFd::as_fd),
            self.output.as_ref().map(AsFd::as_fd),
            self.errors.as_ref().map(AsFd::as_fd),
        ]
    }

    /// Reads what the worker has sent; returns whether more may be there.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn read(&mut self) -> Result<bool> {
        let Some(output) = &mut self.output else { return Ok(false) };
        let mut buffer = vec![0; READ];
        match output.read(&mut buffer) {
            Ok(0) => self.output = None,
            Ok(read) => {
                self.decoder.push(&buffer[..read]);
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        Ok(false)
    }

    /// The payload of the next message.
    ///
    /// # Errors
    /// The bytes are no messages.
    pub(crate) fn next_payload(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.decoder.next_frame()?.map(|frame| frame.payload))
    }

    /// Reads standard error.
    pub(crate) fn read_errors(&mut self) {
        let mut buffer = [0; 4096];
        while let Some(errors) = &mut self.errors {
            match errors.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => self.errors = None,
                Ok(read) => {
                    let room = MAX_TEXT.saturating_sub(self.text.len());
                    self.text.extend_from_slice(&buffer[..read.min(room)]);
                }
            }
        }
    }

    /// How the worker's mpirun has ended, if it has. What it has written is read then.
    pub(crate) fn fate(&mut self) -> Option<Fate> {
        match fate_of(self.pid) {
            Ok(None | Some(Fate::Stopped)) => None,
            Ok(fate) => {
                self.read_errors();
                fate
            }
            Err(_) => Some(Fate::Exited(u8::MAX)),
        }
    }

    /// Kills the worker's mpirun. Its job ends with it.
    pub(crate) fn kill(&self) {
        let _ = mpd_io::process::signals::send(self.pid, libc::SIGKILL);
    }

    /// The first line with text on the standard error of the worker, without the name of its program.
    pub(crate) fn problem(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.text);
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        let line = line.strip_prefix("mpirun: ").unwrap_or(line);
        Some(line.strip_prefix("mpdfarm: ").unwrap_or(line).to_owned())
    }
}

/// Checks that a worker is of this release.
///
/// # Errors
/// The worker is of another release: a text for the user.
pub(crate) fn check_version(versions: Versions) -> Result<()> {
    if VERSION.common(versions).is_none() {
        bail!(
            "its mpdfarm is of another release: it speaks version {versions}, this one {VERSION}"
        );
    }
    Ok(())
}
