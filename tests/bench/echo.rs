//! The floors of a lap: rings of processes that read a message from the left and write it to the right, over TCP. In one
//! of them, each process also waits for events before it reads, and opens and seals the message, as a daemon must.
//! The ring of daemons is measured against both.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crypto::aead;
use mpd_io::ring::console::{Console, PATIENCE};
use mpd_io::ring::rundir::RunDir;
use mpd_wire::message::{ConsoleReply, RingRequest};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Bytes of a message: the size of a sealed lap.
const MESSAGE: usize = 128;

/// What a member does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It forwards the message.
    Forward,
    /// It waits for an event, opens the message, and seals it again.
    Seal,
}

impl Work {
    const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Seal => "seal",
        }
    }
}

/// A bare ring: this process and `members - 1` children.
pub(crate) struct Bare {
    left: TcpStream,
    right: TcpStream,
    children: Vec<Child>,
    sealed: Sealed,
}

impl Bare {
    pub(crate) fn start(members: usize, work: Work) -> Result<Self, String> {
        let text = |e: std::io::Error| e.to_string();
        let own = TcpListener::bind("127.0.0.1:0").map_err(text)?;
        let mut next = own.local_addr().map_err(text)?.port();
        let mut children = Vec::with_capacity(members);
        for _ in 1..members {
            let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
            let port = listener.local_addr().map_err(text)?.port();
            let mut command = Command::new(std::env::current_exe().map_err(text)?);
            command.args(["echo", &next.to_string(), work.name()]).stdin(OwnedFd::from(listener));
            children.push(command.spawn().map_err(text)?);
            next = port;
        }
        let right = TcpStream::connect(("127.0.0.1", next)).map_err(text)?;
        let (left, _) = own.accept().map_err(text)?;
        right.set_nodelay(true).map_err(text)?;
        Ok(Self { left, right, children, sealed: Sealed::new()? })
    }

    pub(crate) fn laps(&mut self, laps: usize) -> Result<Duration, String> {
        let begin = Instant::now();
        let mut message = self.sealed.message()?;
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
pub(crate) fn member(next: &str, work: &str) -> Result<(), String> {
    let text = |e: std::io::Error| e.to_string();
    let port: u16 = next.parse().map_err(|_| "no port")?;
    let mut right = TcpStream::connect(("127.0.0.1", port)).map_err(text)?;
    right.set_nodelay(true).map_err(text)?;
    let inherited = std::io::stdin().as_fd().try_clone_to_owned().map_err(text)?;
    let (mut left, _) = TcpListener::from(inherited).accept().map_err(text)?;
    let seals = (work == Work::Seal.name()).then(Sealed::new).transpose()?;
    let mut message = [0; MESSAGE];
    loop {
        if seals.is_some() {
            poll(&mut [PollFd::new(left.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE)
                .map_err(|e| e.to_string())?;
        }
        if left.read_exact(&mut message).is_err() {
            return Ok(());
        }
        if let Some(sealed) = &seals {
            sealed.pass(&mut message)?;
        }
        right.write_all(&message).map_err(text)?;
    }
}

/// The cost of a sealed message, with a key and a nonce that are only for this measurement.
struct Sealed(aead::LessSafeKey);

impl Sealed {
    fn new() -> Result<Self, String> {
        let key = aead::UnboundKey::new(&aead::AES_256_GCM, &[7; 32]);
        Ok(Self(aead::LessSafeKey::new(key.map_err(|e| e.to_string())?)))
    }

    fn nonce() -> aead::Nonce {
        aead::Nonce::assume_unique_for_key([0; aead::NONCE_LEN])
    }

    fn message(&self) -> Result<[u8; MESSAGE], String> {
        let mut message = [7; MESSAGE];
        self.seal(&mut message)?;
        Ok(message)
    }

    fn seal(&self, message: &mut [u8; MESSAGE]) -> Result<(), String> {
        let (text, tag) = message.split_at_mut(MESSAGE - aead::MAX_TAG_LEN);
        let sealed = self.0.seal_in_place_separate_tag(Self::nonce(), aead::Aad::empty(), text);
        tag.copy_from_slice(sealed.map_err(|e| e.to_string())?.as_ref());
        Ok(())
    }

    /// Opens a message and seals it again.
    fn pass(&self, message: &mut [u8; MESSAGE]) -> Result<(), String> {
        let opened = self.0.open_in_place(Self::nonce(), aead::Aad::empty(), message);
        opened.map_err(|e| e.to_string())?;
        self.seal(message)
    }
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
