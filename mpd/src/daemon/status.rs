//! `mpd --status`: asks the running daemon and prints its answer as one line of JSON.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mpd_io::conn::{Conn, Filled};
use mpd_io::rundir::RunDir;
use mpd_proto::frame;
use mpd_proto::message::{ConsoleReply, JobSummary, Opening, VERSION};
use serde::Serialize;

use crate::cli::Cli;

#[derive(Serialize)]
struct Status {
    name: String,
    pid: u32,
    jobs: Vec<JobSummary>,
}

pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    let rundir = RunDir::resolve(cli.rundir.clone(), &mpd_io::rundir::host_name());
    let Some(mut conn) = rundir.connect()? else {
        bail!(
            "no daemon is running with {} (start one with: mpd --daemon)",
            rundir.path().display()
        );
    };
    conn.send(&Opening::Status { version: VERSION });
    conn.flush_blocking().context("cannot ask the daemon")?;
    match answer(&mut conn)? {
        ConsoleReply::Refused { problem } => bail!("{problem}"),
        ConsoleReply::Status { name, pid, jobs } => {
            let line = serde_json::to_string(&Status { name, pid, jobs })?;
            writeln!(io::stdout(), "{line}").context("cannot write the status")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn answer(conn: &mut Conn) -> Result<ConsoleReply> {
    const PATIENCE_MS: u16 = 10_000;
    let mut closed = false;
    loop {
        if let Some((_, payload)) = conn.next_frame()? {
            return Ok(frame::decode_message(payload)?);
        }
        if closed {
            bail!("the daemon closed the connection");
        }
        // The answer may have come together with the end.
        closed = conn.wait(PATIENCE_MS)?.context("the daemon does not answer")? == Filled::Closed;
    }
}
