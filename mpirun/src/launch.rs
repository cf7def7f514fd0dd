//! From a specification to a connection with the job's manager: through the daemon of this host, or
//! private ones that are started for this job and end with it.

use std::io::Write as _;
use std::os::fd::AsFd;

use anyhow::{Context, Result, bail};
use mpd_io::conn::Conn;
use mpd_io::ringname::RingName;
use mpd_io::rundir::{RunDir, host_name};
use mpd_io::signals::Signals;
use mpd_proto::frame::Kind;
use mpd_proto::job::MAX_SPEC;
use mpd_proto::message::{Opening, VERSION};

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
}

/// What came of submitting.
#[derive(Debug)]
pub enum Submission {
    /// The job is on its way.
    Done(Submitted),
    /// This signal came before; nothing is left.
    Interrupted(i32),
}

/// Submits the job with our standard output and error, and the program that runs already if there is one. Where it runs may depend on whether daemons were
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
            let _ = writeln!(std::io::stderr(), "mpirun: {e}; going on without a daemon");
            None
        }
        found => found?,
    };
    let (mut conn, private) = match daemon {
        Some(conn) => (conn, Private::default()),
        None => {
            job.spec.placement.hosts.append(&mut job.demand.allocated);
            match private::start(&job.demand, job.verbose, signals)? {
                Started::Up(conn, private) => (conn, private),
                Started::Interrupted(signal) => return Ok(Submission::Interrupted(signal)),
            }
        }
    };
    if let Err(error) = send(&mut conn, job, adopted) {
        drop(conn);
        private.wait();
        return Err(error);
    }
    Ok(Submission::Done(Submitted { conn, private }))
}

fn send(conn: &mut Conn, job: &Run, adopted: Option<Adopted>) -> Result<()> {
    let encoded = job.spec.encode();
    if encoded.len() > MAX_SPEC {
        bail!(
            "arguments and environment of {} bytes are more than the {MAX_SPEC} that a job may have",
            encoded.len()
        );
    }
    let opening = Opening::Submit { version: VERSION, spec_bytes: u32::try_from(encoded.len())? };
    let outputs = [
        std::io::stdout().as_fd().try_clone_to_owned(),
        std::io::stderr().as_fd().try_clone_to_owned(),
    ];
    let outputs = outputs.into_iter().collect::<Result<Vec<_>, _>>();
    let mut passed = outputs.context("cannot pass our output")?;
    passed.extend(adopted.into_iter().flat_map(|Adopted { pmi, process }| [pmi, process]));
    conn.send_with(&opening, passed)?;
    conn.send_bulk(Kind::Spec, &encoded);
    conn.flush().context("cannot reach the daemon")
}
