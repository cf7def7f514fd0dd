//! `mpd --daemon`: starts the daemon in a session of its own and waits until it is in the ring.
//!
//! The daemon writes to an inherited pipe: `ready PORT`, or the text of its failure. If the pipe closes without
//! either, the daemon has died.

use std::fs::OpenOptions;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mpd_io::files::key_file;
use mpd_io::process::spawn::{Extra, Spawn, own_environment};

use crate::cli::Cli;

/// The daemon writes this and its port on descriptor 3 as soon as it is in the ring.
pub(crate) const READY: &str = "ready";

pub(crate) fn run(cli: &Cli) -> Result<ExitCode> {
    let (mut reader, writer) = io::pipe().context("cannot make a pipe")?;
    let null: OwnedFd = OpenOptions::new().read(true).write(true).open("/dev/null")?.into();
    let writer = OwnedFd::from(writer);
    let spawn = Spawn::new(b"/proc/self/exe", arguments(cli)?, own_environment())?;
    let stdin = io::stdin();
    let input = if cli.has_key_on_input() { stdin.as_fd() } else { null.as_fd() };
    spawn
        .start(&[input, null.as_fd(), null.as_fd(), writer.as_fd()], Extra::default(), None)
        .context("cannot start the daemon")?;
    drop(writer);
    let mut report = String::new();
    reader.read_to_string(&mut report).context("cannot read the daemon's report")?;
    if let Some(port) = report.strip_prefix(READY) {
        if cli.echo {
            writeln!(io::stdout(), "mpd_port={}", port.trim()).context("cannot write the port")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    match report.trim_end() {
        "" => bail!("the daemon died before it served; start it without --daemon to see why"),
        problem => bail!("{problem}"),
    }
}

/// Our own arguments without `--daemon`. Paths are made absolute, since the daemon's directory is `/`.
fn arguments(cli: &Cli) -> Result<Vec<Vec<u8>>> {
    use std::os::unix::ffi::OsStringExt;
    let mut arguments = vec![b"mpd".to_vec(), b"--report-ready".to_vec()];
    let mut option =
        |name: &str, value: Vec<u8>| arguments.extend([name.as_bytes().to_vec(), value]);
    if let Some(name) = &cli.name {
        option("--name", name.clone().into_bytes());
    }
    if let Some(ncpus) = cli.ncpus {
        option("--ncpus", ncpus.to_string().into_bytes());
    }
    if let Some(speed) = cli.speed {
        option("--speed", format!("{}.{:02}", speed / 100, speed % 100).into_bytes());
    }
    let texts = [
        ("--gpus", cli.gpus.map(|n| n.to_string())),
        ("--max-slots", cli.max_slots.map(|n| n.to_string())),
        ("--ring", cli.ring.clone()),
        ("--join", Some(cli.entries().join(",")).filter(|list| !list.is_empty())),
        ("--patience", cli.patience.map(|n| n.to_string())),
        ("--port", cli.port.map(|n| n.to_string())),
        ("--ifhn", cli.ifhn.clone()),
        ("--ordinal", cli.ordinal.map(|n| n.to_string())),
        ("--waiting", cli.waiting.map(|n| n.to_string())),
        ("--idle", cli.idle.map(|seconds| seconds.to_string())),
        ("--first", cli.first.clone()),
        ("--held-by", cli.held_by.map(|pid| pid.to_string())),
        ("--launched-by", cli.launched_by.map(|instance| instance.to_string())),
        ("--key", cli.has_key_on_input().then(|| key_file::STANDARD_INPUT.to_owned())),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            option(name, value.into_bytes());
        }
    }
    let key_file = cli.key.clone().filter(|_| !cli.has_key_on_input());
    let paths = [
        ("--rundir", &cli.rundir),
        ("--log-file", &cli.log_file),
        ("--key", &key_file),
        ("--keep", &cli.keep),
        ("--alloc-hook", &cli.alloc_hook),
        ("--record", &cli.record),
        ("--pid-file", &cli.pid_file),
    ];
    for (name, path) in paths {
        if let Some(path) = path {
            let path = std::path::absolute(path)
                .with_context(|| format!("cannot find {}", path.display()))?;
            option(name, path.into_os_string().into_vec());
        }
    }
    arguments.extend(cli.or_begin.then(|| b"--or-begin".to_vec()));
    arguments.extend(cli.in_batch.then(|| b"--in-batch".to_vec()));
    arguments.extend((0..cli.verbose).map(|_| b"--verbose".to_vec()));
    Ok(arguments)
}
