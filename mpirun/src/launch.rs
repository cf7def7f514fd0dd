//! From a specification to a connection with the job's manager: through the daemon of this host, or a
//! private one that is started for this job and ends with it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use mpd_io::conn::Conn;
use mpd_io::ringname::RingName;
use mpd_io::rundir::{RunDir, host_name};
use mpd_io::spawn::{Extra, Spawn, own_environment};
use mpd_proto::frame::Kind;
use mpd_proto::job::{JobSpec, MAX_SPEC};
use mpd_proto::message::{Opening, VERSION};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

/// A submitted job.
#[derive(Debug)]
pub struct Submitted {
    /// The connection, soon the manager's.
    conn: Conn,
    /// The private daemon, if one was started.
    private: Option<Pid>,
}

/// Submits `spec` with our standard output and error.
///
/// # Errors
/// No daemon and none can be started, or its directory is not to be trusted.
pub fn submit(spec: &JobSpec) -> Result<Submitted> {
    let encoded = spec.encode();
    if encoded.len() > MAX_SPEC {
        bail!(
            "arguments and environment of {} bytes are more than the {MAX_SPEC} that a job may have",
            encoded.len()
        );
    }
    let rundir = RunDir::resolve(None, &RingName::resolve(None)?, &host_name());
    let (mut conn, private) = match rundir.connect() {
        Ok(Some(conn)) => (conn, None),
        Ok(None) => start_private()?,
        // Somebody sits where our daemon would be: we can do without one.
        Err(e) if !rundir.is_explicit() => {
            let _ = writeln!(std::io::stderr(), "mpirun: {e}; going on without a daemon");
            start_private()?
        }
        Err(e) => return Err(e.into()),
    };
    let opening = Opening::Submit { version: VERSION, spec_bytes: u32::try_from(encoded.len())? };
    let outputs = [
        std::io::stdout().as_fd().try_clone_to_owned(),
        std::io::stderr().as_fd().try_clone_to_owned(),
    ];
    let outputs =
        outputs.into_iter().collect::<Result<_, _>>().context("cannot pass our output")?;
    conn.send_with(&opening, outputs)?;
    conn.send_bulk(Kind::Spec, &encoded);
    conn.flush().context("cannot reach the daemon")?;
    Ok(Submitted { conn, private })
}

impl Submitted {
    /// The connection, and what to wait for at the end.
    pub fn into_parts(self) -> (Conn, Private) {
        (self.conn, Private(self.private))
    }
}

/// The private daemon, if there is one.
#[derive(Debug)]
pub struct Private(Option<Pid>);

impl Private {
    /// Waits until it has left, so that nothing is there when we are gone.
    pub fn wait(self) {
        if let Some(pid) = self.0 {
            let _ = waitpid(pid, None);
        }
    }
}

/// Starts `mpd` as a ring of one for us alone.
fn start_private() -> Result<(Conn, Option<Pid>)> {
    let program = find_mpd()?;
    let (ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
    let null: OwnedFd = OpenOptions::new().read(true).write(true).open("/dev/null")?.into();
    let spawn =
        Spawn::new(program.as_os_str().as_bytes(), ["mpd", "--private"], own_environment())?;
    let stderr = std::io::stderr();
    let pid = spawn
        .start(
            &[null.as_fd(), null.as_fd(), stderr.as_fd(), theirs.as_fd()],
            Extra::default(),
            None,
        )
        .with_context(|| format!("cannot start {}", program.display()))?;
    Ok((Conn::new(ours)?, Some(pid)))
}

/// `mpd` beside this executable, else in PATH.
fn find_mpd() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let beside = own.with_file_name("mpd");
    if beside.is_file() {
        return Ok(beside);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join("mpd"))
        .find(|file| file.is_file())
        .with_context(|| {
            format!("cannot find the daemon: no mpd beside {} nor in PATH", own.display())
        })
}
