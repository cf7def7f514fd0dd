//! From a specification to a connection with the job's manager: through the daemon of this host, or
//! through private daemons that end with the job.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result, bail};
use mpd_io::host::this_host::{self, Machines};
use mpd_io::network::conn::Conn;
use mpd_io::process::signals::Signals;
use mpd_io::ring::console::Endpoint;
use mpd_io::ring::private_sockets;
use mpd_io::ring::rundir::{Found, RunDir, host_name};
use mpd_wire::frame::Kind;
use mpd_wire::job::{JobSpec, MAX_SPEC};
use mpd_wire::message::{Opening, VERSION};
use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use crate::cli::Run;
use crate::private::{self, Cut, Listing, Private, Started};
use crate::singleton::Adopted;
use crate::site::{self, Wanted};
use crate::surroundings::RingKind;

/// A submitted job.
#[derive(Debug)]
pub struct Submitted {
    /// The connection to the daemon, which passes it to the manager.
    pub(crate) conn: Conn,
    /// The private daemons, if there are any.
    pub(crate) private: Private,
}

/// Descriptors that are sent with a job. They are kept until it has started, because it may be
/// submitted again.
#[derive(Debug)]
pub struct Passed(Vec<Lent>);

/// One of them.
#[derive(Debug)]
enum Lent {
    /// Our standard output.
    Output(io::Stdout),
    /// Our standard error.
    Errors(io::Stderr),
    Own(OwnedFd),
}

impl AsFd for Lent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Output(output) => output.as_fd(),
            Self::Errors(errors) => errors.as_fd(),
            Self::Own(fd) => fd.as_fd(),
        }
    }
}

/// The result of submitting a job.
#[derive(Debug)]
pub enum Submission {
    /// The job was submitted.
    Done(Submitted),
    /// The start of private daemons was ended first. Processes that are left were named to the user.
    Cut(Cut),
}

/// The descriptors of a job: standard output and error, or pipes if the job is debugged, and an
/// adopted program. The second result is the other ends of the pipes.
///
/// # Errors
/// No descriptors are left.
pub fn passed(job: &Run, adopted: Option<Adopted>) -> Result<(Passed, Option<[OwnedFd; 2]>)> {
    let (mut passed, pipes) = outputs(job.debug.is_some()).context("cannot pass our output")?;
    let adopted = adopted.into_iter().flat_map(|Adopted { pmi, process }| [pmi, process]);
    passed.extend(adopted.map(Lent::Own));
    Ok((Passed(passed), pipes))
}

/// Submits the job. The placement in the specification may depend on private daemons. If the daemon
/// dies meanwhile, the connection ends.
///
/// # Errors
/// No daemon runs and none can be started, or the daemon's directory is not safe.
pub fn submit(job: &Run, passed: &Passed, signals: &mut Signals) -> Result<Submission> {
    let mut spec = Cow::Borrowed(&job.spec);
    let (mut conn, private) = match &job.endpoint {
        Some(endpoint @ Endpoint::Private(_)) => match endpoint.connect()? {
            Some(conn) => (conn, Private::default()),
            None => bail!("the job has ended"),
        },
        Some(Endpoint::Standing(_)) | None => match connect(job, &mut spec, signals)? {
            Started::Up(conn, private) => (conn, private),
            Started::Cut(cut) => return Ok(Submission::Cut(cut)),
        },
    };
    match send(&mut conn, &spec, passed) {
        Err(error) => {
            drop(conn);
            let _ = private.wait(private::PATIENCE);
            Err(error)
        }
        Ok(()) => Ok(Submission::Done(Submitted { conn, private })),
    }
}

/// Connects to the daemon of this host, or starts private daemons: in a batch job on its hosts.
fn connect(job: &Run, spec: &mut Cow<'_, JobSpec>, signals: &mut Signals) -> Result<Started> {
    let mut rundir = job.ring_options.rundir()?;
    if rundir.is_of_site() {
        if let Some(started) = connect_on_site(job, &rundir, signals)? {
            return Ok(started);
        }
        rundir = job.ring_options.default_rundir()?;
    }
    let is_usable = match rundir.find() {
        Ok(Found::Daemon(conn)) => return Ok(Started::Up(conn, Private::default())),
        Ok(Found::Directory) => {
            if let Some(count) = rundir.saved_members() {
                let _ = writeln!(
                    io::stderr(),
                    "mpirun: no daemon is running here, so the ring of {count} hosts is gone from here and \
                     the job runs without it; 'mpd --daemon' returns to the ring, 'mpdboot' also \
                     starts its other daemons"
                );
            }
            true
        }
        // Without a usable directory the job runs, but consoles do not find it.
        Ok(Found::Nothing) => {
            job.ring_options.missing_daemon(&rundir).is_none() && rundir.make().is_ok()
        }
        // Another user occupies the directory of the daemon; the job runs without a standing
        // daemon.
        Err(e) if !rundir.is_explicit() => {
            let _ = writeln!(io::stderr(), "mpirun: {e}; continuing without a daemon");
            false
        }
        Err(e) => return Err(e.into()),
    };
    if let Some(error) = job.ring_options.missing_daemon(&rundir) {
        return Err(error);
    }
    let Machines { others, here } = this_host::machines(&job.demand.hosts, &host_name());
    let mut demand = Cow::Borrowed(&job.demand);
    if !others.is_empty() {
        demand = Cow::Owned(demand.by_first_names(&others, spec.to_mut()));
    }
    if !demand.allocated.is_empty() {
        demand.use_allocation(RingKind::Private, &mut spec.to_mut().placement);
    }
    // A directory that the user chose is not removed.
    let listed = is_usable.then(|| Listing {
        directory: private_sockets::directory(rundir.path()),
        removes_rundir: !rundir.is_explicit(),
    });
    let patience = (signals, job.spec.timeout);
    private::start(&demand, here.as_deref(), job.verbose, listed.as_ref(), patience)
}

/// Connects to the user's ring on the site, and begins it if needed. `None` if the job gets a private ring.
fn connect_on_site(job: &Run, rundir: &RunDir, signals: &mut Signals) -> Result<Option<Started>> {
    /// A ring may end, because it is idle, when it is found.
    const TRIES: usize = 3;
    for _ in 0..TRIES {
        let mut found = rundir.find()?;
        if matches!(found, Found::Daemon(_)) && site::has_waited_for_boot(rundir) {
            // The boot of the connected daemon may have failed.
            found = rundir.find()?;
        }
        if let Found::Daemon(conn) = found {
            site::become_version_of(rundir)?;
            return Ok(Some(Started::Up(conn, Private::default())));
        }
        match site::wanted(rundir, &job.demand)? {
            Wanted::Private => return Ok(None),
            Wanted::OfSite => {}
        }
        if let Some(cut) = site::begin(job.verbose, (signals, job.spec.timeout))? {
            return Ok(Some(Started::Cut(cut)));
        }
    }
    bail!("the ring of this site ends as soon as it begins; 'mpdboot --site --verbose' shows more")
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
    let before = conn.queued();
    conn.send(&opening);
    conn.send_bulk(Kind::Spec, &encoded);
    let lent: Vec<_> = passed.iter().map(AsFd::as_fd).collect();
    match conn.flush_lending(before, &lent) {
        // The last message of a daemon that has ended is still read.
        Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Ok(()),
        sent => sent.context("cannot send the job to the daemon"),
    }
}

/// The outputs of the job, and the read ends if they are pipes.
fn outputs(piped: bool) -> io::Result<(Vec<Lent>, Option<[OwnedFd; 2]>)> {
    if piped {
        let (out, err) = (pipe2(OFlag::O_CLOEXEC)?, pipe2(OFlag::O_CLOEXEC)?);
        return Ok((vec![Lent::Own(out.1), Lent::Own(err.1)], Some([out.0, err.0])));
    }
    Ok((vec![Lent::Output(io::stdout()), Lent::Errors(io::stderr())], None))
}
