//! `mpdboot --revive NAME --plan FILE --join ADDRESSES`, run by the neighbour of a dead member. The
//! exit code is 0 if the daemon NAME is in the ring or was running already. Otherwise it is 1, with
//! one line on standard error.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use mpd_boot::boot::State;
use mpd_boot::drive::{Brief, Driver};
use mpd_boot::keep;
use mpd_boot::wire::{BootTask, Running, SecretText};
use mpd_io::files::key_file::KeyFile;
use mpd_io::host::random;
use mpd_io::process::signals::Signals;
use mpd_wire::Address;

/// Time for ssh to connect, in seconds; short, because the host may be off.
const CONNECT_S: u32 = 5;

pub(crate) fn run(name: &str, plan: &Path, join: &[String]) -> Result<ExitCode> {
    // A shell's own job keeps its session and may ask its user.
    let _ = mpd_io::process::identity::lead_session();
    let mut signals = Signals::catch(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
        .context("cannot catch signals")?;
    let recipe = keep::read(plan).map_err(|error| anyhow!(error))?;
    let member = recipe
        .hosts
        .iter()
        .find(|member| member.name == name)
        .cloned()
        .with_context(|| format!("{} does not name {name}", plan.display()))?;
    let join = join.iter().map(|text| Address::new(text)).collect::<Result<_, _>>();
    let file = KeyFile::resolve(recipe.manner.key_file.as_ref().map(Into::into))?;
    let file = file.in_force(&recipe.manner.ring);
    let text =
        file.load()?.with_context(|| format!("there is no key in {}", file.path().display()))?;
    let manner = recipe.manner;
    let brief = Brief {
        nonce: random::hex128()?,
        connect_s: CONNECT_S.min(manner.timeout_s),
        boot: Some(BootTask {
            key: SecretText(text.to_text()),
            manner: manner.clone(),
            member: member.clone(),
            join: join.context("--join")?,
            root: None,
            running: Running::Welcome,
            waits: false,
            hosts: Vec::new(),
            keep: Some(recipe.hosts),
        }),
        manner,
        here: None,
        own: None,
        introduces: false,
    };
    let mut driver = Driver::new(&mut signals, brief, vec![member], false, None);
    while !driver.is_over() {
        let turn = driver.turn(None, Duration::from_secs(60))?;
        if !turn.signals.is_empty() {
            driver.abort()?;
            bail!("ended by a signal");
        }
    }
    match driver.states().next() {
        Some((_, State::Failed { failure, .. })) => {
            bail!(
                "host {name}: step {}: {}; {}",
                failure.step.name(),
                failure.problem,
                failure.hint
            )
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
