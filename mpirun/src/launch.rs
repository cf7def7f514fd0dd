//! From a specification to a connection with the job's manager: through the daemon of this host, or
//! private ones that are started for this job and end with it.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result, bail};
use mpd_io::conn::Conn;
use mpd_io::ringname::RingName;
use mpd_io::rundir::{RunDir, host_name};
use mpd_io::signals::Signals;
use mpd_proto::frame::Kind;
use mpd_proto::job::MAX_SPEC;
use mpd_proto::message::{Opening, VERSION};
use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use crate::cli::Run;
use crate::private::{self, Private, Started};
use crate::singleton::Adopted;

/// A submitted job.
#[derive(Debug)]
pub struct Submitted {
    /// The connection, soon the manager's.
    pub(crate) conn: Conn,
    /// The private daemons, if some were started.
    pub(crate) private: Private,
    /// Where the job's output and errors come, if they are not our own.
    pub(crate) pipes: Option<[OwnedFd; 2]>,
}

/// What came of submitting.
#[derive(Debug)]
pub enum Submission {
    /// The job is on its way.
    Done(Submitted),
    /// This signal came before; nothing is left.
    Interrupted(i32),
}

/// Submits the job with our standard output and error, or pipes if it is debugged, and the program that runs already if there is one. Where it runs may depend on whether daemons were
/// started for it, so that is put into its specification.
///
/// # Errors
/// No daemon and none can be started, or its directory is not to be trusted.
pub fn submit(
    job: &mut Run,
    adopted: Option<Adopted>,
    signals: &mut Signals,
) -> Result<Submission> {
    let rundir = RunDir::resolve(None, &RingName::resolve(None)?, &host_name());
    let daemon = match rundir.connect() {
        // Somebody sits where our daemon would be: we can do without one.
        Err(e) if !rundir.is_explicit() => {
            let _ = writeln!(io::stderr(), "mpirun: {e}; going on without a daemon");
            None
        }
        found => found?,
    };
    let (mut conn, private) = match daemon {
        Some(conn) => (conn, Private::default()),
        None => {
            job.spec.placement.hosts.append(&mut job.demand.allocated);
            // A debugger would not find the job.
            job.spec.on_crash.iter_mut().for_each(|on_crash| on_crash.hold = false);
            match private::start(&job.demand, job.verbose, signals)? {
                Started::Up(conn, private) => (conn, private),
                Started::Interrupted(signal) => return Ok(Submission::Interrupted(signal)),
            }
        }
    };
    match send(&mut conn, job, adopted) {
        Err(error) => {
            drop(conn);
            private.wait();
            Err(error)
        }
        Ok(pipes) => Ok(Submission::Done(Submitted { conn, private, pipes })),
    }
}

fn send(conn: &mut Conn, job: &Run, adopted: Option<Adopted>) -> Result<Option<[OwnedFd; 2]>> {
    let encoded = job.spec.encode();
    if encoded.len() > MAX_SPEC {
        bail!(
            "arguments and environment of {} bytes are more than the {MAX_SPEC} that a job may have",
            encoded.len()
        );
    }
    let opening = Opening::Submit { version: VERSION, spec_bytes: u32::try_from(encoded.len())? };
    let (mut passed, pipes) = outputs(job.debug.is_some()).context("cannot pass our output")?;
    passed.extend(adopted.into_iter().flat_map(|Adopted { pmi, process }| [pmi, process]));
    conn.send_with(&opening, passed)?;
    conn.send_bulk(Kind::Spec, &encoded);
    conn.flush().context("cannot reach the daemon")?;
    Ok(pipes)
}

/// Where the job writes, and where we read that if it is not our own output and error.
fn outputs(piped: bool) -> io::Result<(Vec<OwnedFd>, Option<[OwnedFd; 2]>)> {
    if piped {
        let (out, err) = (pipe2(OFlag::O_CLOEXEC)?, pipe2(OFlag::O_CLOEXEC)?);
        return Ok((vec![out.1, err.1], Some([out.0, err.0])));
    }
    let (out, err) = (io::stdout(), io::stderr());
    Ok((vec![out.as_fd().try_clone_to_owned()?, err.as_fd().try_clone_to_owned()?], None))
}
