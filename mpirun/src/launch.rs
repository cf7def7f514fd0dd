//! From a specification to a connection with the job's manager: through the daemon of this host, or
//! private ones that are started for this job and end with it.

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result, bail};
use mpd_io::conn::Conn;
use mpd_io::listed;
use mpd_io::rings::Door;
use mpd_io::rundir::Found;
use mpd_io::signals::Signals;
use mpd_wire::frame::Kind;
use mpd_wire::job::{JobSpec, MAX_SPEC};
use mpd_wire::message::{Opening, VERSION};
use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use crate::cli::Run;
use crate::private::{self, Listing, Private, Started};
use crate::singleton::Adopted;

/// A submitted job.
#[derive(Debug)]
pub struct Submitted {
    /// The connection, soon the manager's.
    pub(crate) conn: Conn,
    /// The private daemons, if some were started.
    pub(crate) private: Private,
}

/// Descriptors that go with a job. They are kept until it has started: it may have to be submitted again.
#[derive(Debug)]
pub struct Passed(Vec<OwnedFd>);

/// What came of submitting.
#[derive(Debug)]
pub enum Submission {
    /// The job is on its way.
    Done(Submitted),
    /// This signal came before; nothing is left.
    Interrupted(i32),
}

/// What goes with a job: our standard output and error, or pipes if it is debugged, and the program that runs
/// already if there is one. Behind it the other ends of the pipes.
///
/// # Errors
/// Descriptors have run out.
pub fn passed(job: &Run, adopted: Option<Adopted>) -> Result<(Passed, Option<[OwnedFd; 2]>)> {
    let (mut passed, pipes) = outputs(job.debug.is_some()).context("cannot pass our output")?;
    passed.extend(adopted.into_iter().flat_map(|Adopted { pmi, process }| [pmi, process]));
    Ok((Passed(passed), pipes))
}

/// Submits the job. Where it runs may depend on whether daemons were started for it, so that is put into its
/// specification. A daemon that dies meanwhile shows in the connection.
///
/// # Errors
/// No daemon and none can be started, or its directory is not to be trusted.
pub fn submit(job: &Run, passed: &Passed, signals: &mut Signals) -> Result<Submission> {
    let mut spec = Cow::Borrowed(&job.spec);
    let (mut conn, private) = match &job.door {
        Some(door @ Door::Private(_)) => match door.connect()? {
            Some(conn) => (conn, Private::default()),
            None => bail!("the job has ended"),
        },
        Some(Door::Standing(_)) | None => match connect(job, &mut spec, signals)? {
            Started::Up(conn, private) => (conn, private),
            Started::Interrupted(signal) => return Ok(Submission::Interrupted(signal)),
        },
    };
    match send(&mut conn, &spec, passed) {
        Err(error) => {
            drop(conn);
            private.wait();
            Err(error)
        }
        Ok(()) => Ok(Submission::Done(Submitted { conn, private })),
    }
}

/// Connects to the daemon of this host, else starts private ones, on the hosts of a batch job if there are some.
fn connect(job: &Run, spec: &mut Cow<'_, JobSpec>, signals: &mut Signals) -> Result<Started> {
    let rundir = job.place.rundir()?;
    let is_usable = match rundir.find() {
        Ok(Found::Daemon(conn)) => return Ok(Started::Up(conn, Private::default())),
        Ok(Found::Directory) => true,
        // Without it the job runs, and consoles do not find it.
        Ok(Found::Nothing) => job.place.is_missed(&rundir).is_none() && rundir.make().is_ok(),
        // Somebody sits where our daemon would be: we can do without one.
        Err(e) if !rundir.is_explicit() => {
            let _ = writeln!(io::stderr(), "mpirun: {e}; going on without a daemon");
            false
        }
        Err(e) => return Err(e.into()),
    };
    if let Some(error) = job.place.is_missed(&rundir) {
        return Err(error);
    }
    if !job.demand.allocated.is_empty() {
        spec.to_mut().placement.hosts.extend(job.demand.allocated.iter().cloned());
    }
    // A directory that the user chose stays.
    let listed = is_usable.then(|| Listing {
        directory: listed::directory(rundir.path()),
        removes_rundir: !rundir.is_explicit(),
    });
    private::start(&job.demand, job.verbose, listed.as_ref(), signals)
}

fn send(conn: &mut Conn, spec: &JobSpec, Passed(passed): &Passed) -> Result<()> {
    let encoded = spec.encode();
    if encoded.len() > MAX_SPEC {
        bail!(
            "arguments and environment of {} bytes are more than the {MAX_SPEC} that a job may have",
            encoded.len()
        );
    }
    let opening = Opening::Submit { version: VERSION, spec_bytes: u32::try_from(encoded.len())? };
    let copies: io::Result<_> = passed.iter().map(OwnedFd::try_clone).collect();
    conn.send_with(&opening, copies.context("cannot pass our output")?)?;
    conn.send_bulk(Kind::Spec, &encoded);
    // What a daemon that is gone said last is still to be read.
    let _ = conn.flush();
    Ok(())
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
