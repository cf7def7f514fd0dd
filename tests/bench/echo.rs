//! The floor of a lap: a ring of processes that only read a message from the left and write it to the right, over
//! TCP. The ring of daemons is measured against it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mpd_io::console::{Console, PATIENCE};
use mpd_io::rundir::RunDir;
use mpd_wire::message::{ConsoleReply, RingRequest};

/// Bytes of a message: the size of a sealed lap.
const MESSAGE: usize = 128;

/// A bare ring: this process and `members - 1` children.
pub(crate) struct Bare {
    left: TcpStream,
    right: TcpStream,
    children: Vec<Child>,
}

impl Bare {
    pub(crate) fn start(members: usize) -> Result<Self, String> {
        let text = |e: std::io::Error| e.to_string();
        let own = TcpListener::bind("127.0.0.1:0").map_err(text)?;
        let mut next = own.local_addr().map_err(text)?.port();
        let mut children = Vec::with_capacity(members);
        for _ in 1..members {
            let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
            let port = listener.local_addr().map_err(text)?.port();
            let mut command = Command::new(std::env::current_exe().map_err(text)?);
            command.args(["echo", &next.to_string()]).stdin(OwnedFd::from(listener));
            children.push(command.spawn().map_err(text)?);
            next = port;
        }
        let right = TcpStream::connect(("127.0.0.1", next)).map_err(text)?;
        let (left, _) = own.accept().map_err(text)?;
        right.set_nodelay(true).map_err(text)?;
        Ok(Self { left, right, children })
    }

    pub(crate) fn laps(&mut self, laps: usize) -> Result<Duration, String> {
        let begin = Instant::now();
        let mut message = [7; MESSAGE];
        for _ in 0..laps {
            let sent = self.right.write_all(&message);
            sent.and_then(|()| self.left.read_exact(&mut message)).map_err(|e| e.to_string())?;
        }
        Ok(begin.elapsed())
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // The end of the stream passes through all members.
        let _ = self.right.shutdown(std::net::Shutdown::Both);
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// One member of the bare ring; its listener is descriptor 0.
pub(crate) fn member(next: &str) -> Result<(), String> {
    let text = |e: std::io::Error| e.to_string();
    let port: u16 = next.parse().map_err(|_| "no port")?;
    let mut right = TcpStream::connect(("127.0.0.1", port)).map_err(text)?;
    right.set_nodelay(true).map_err(text)?;
    let inherited = std::io::stdin().as_fd().try_clone_to_owned().map_err(text)?;
    let (mut left, _) = TcpListener::from(inherited).accept().map_err(text)?;
    let mut message = [0; MESSAGE];
    while left.read_exact(&mut message).is_ok() {
        right.write_all(&message).map_err(text)?;
    }
    Ok(())
}

/// A ring of daemons, started by `scripts/localring`.
pub(crate) struct Daemons {
    script: PathBuf,
    directory: tempfile::TempDir,
}

impl Daemons {
    pub(crate) fn start(members: usize) -> Result<Self, String> {
        let script = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/localring"));
        let directory =
            tempfile::Builder::new().prefix("mb-").tempdir_in("/tmp").map_err(|e| e.to_string())?;
        let ring = Self { script, directory };
        ring.run(&[&members.to_string()])?;
        Ok(ring)
    }

    fn run(&self, arguments: &[&str]) -> Result<(), String> {
        let mut command = Command::new(&self.script);
        command.args(arguments).arg("--dir").arg(self.directory.path().join("ring"));
        let status = command.stdout(Stdio::null()).status().map_err(|e| e.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("scripts/localring: {status}")) }
    }

    /// The run directory of the first daemon.
    pub(crate) fn rundir(&self) -> RunDir {
        RunDir::at(self.directory.path().join("ring/1"))
    }

    pub(crate) fn laps(&self, members: usize, laps: usize) -> Result<Duration, String> {
        let rundir = self.rundir();
        let laps = u32::try_from(laps).map_err(|e| e.to_string())?;
        let begin = Instant::now();
        let mut console = Console::ask(&rundir, RingRequest::Lap { laps, trace: false })
            .map_err(|e| e.to_string())?;
        match console.answer(Some(PATIENCE)).map_err(|e| e.to_string())? {
            ConsoleReply::LapsHome { hops, .. } if hops as usize == members => Ok(begin.elapsed()),
            other => Err(format!("the ring is not whole: {other:?}")),
        }
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
    }
}
