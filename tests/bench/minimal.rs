//! The floor of a job of one rank with a standing daemon. A console passes its standard output to a server. The server
//! starts `/bin/true` with it, waits, and answers with the exit code. No launcher with a daemon does less.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

use mpd_io::network::passing::{self, Passed};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::contest::{self, Measured};
use crate::floor;

/// A running server, and what its console needs.
pub(crate) struct Server {
    child: Child,
    directory: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        let directory = tempfile::Builder::new().prefix("mb-").tempdir_in("/tmp").map_err(text)?;
        // The socket listens before the server runs, so that no console comes too early.
        let listener = UnixListener::bind(directory.path().join("socket")).map_err(text)?;
        let mut command = Command::new(std::env::current_exe().map_err(text)?);
        command.arg("serve").stdin(OwnedFd::from(listener)).stdout(Stdio::null());
        Ok(Self { child: command.spawn().map_err(text)?, directory })
    }

    /// The time of one job.
    pub(crate) fn job(&self) -> Result<Measured, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(own);
        command.arg("submit").arg(self.directory.path().join("socket"));
        contest::time(|| floor::run(&mut command))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server; its listener is descriptor 0.
pub(crate) fn serve() -> io::Result<()> {
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    loop {
        let (mut console, _) = listener.accept()?;
        let mut readable = [PollFd::new(console.as_fd(), PollFlags::POLLIN)];
        poll(&mut readable, PollTimeout::NONE)?;
        let Passed::Message(_, Some(output)) = passing::receive(&console)? else { continue };
        let mut command = Command::new("/bin/true");
        let status = command.stdin(Stdio::null()).stdout(output).stderr(Stdio::null()).status()?;
        console.write_all(&[status.code().and_then(|code| code.try_into().ok()).unwrap_or(1)])?;
    }
}

/// The console: submits the job, and returns its exit code.
pub(crate) fn submit(socket: &str) -> io::Result<u8> {
    let mut server = UnixStream::connect(socket)?;
    passing::pass(&server, 0, io::stdout())?;
    let mut code = [0];
    server.read_exact(&mut code)?;
    Ok(code[0])
}
