//! Recordings of the machines of daemons and managers.

use std::path::Path;

use anyhow::{Context as _, Result};
use mpd_io::clock;
use mpd_io::files::recording::RecordingFile;
use mpd_recording::{Header, MAX_RECORDING, Origin, Recorded, Recorder};
use mpd_sansio::{Pump, Time};

/// Makes a machine and its pump. The file receives the steps of the machine; `program` and `host` name its origin.
///
/// # Errors
/// When the file cannot be made, or the machine refuses its configuration.
pub(crate) fn pump<M: Recorded + 'static>(
    path: &Path,
    (program, host): (&str, &str),
    now: Time,
    start: M::Start,
) -> Result<Pump<M>> {
    let file = RecordingFile::create(path)
        .with_context(|| format!("cannot record in {}", path.display()))?;
    let origin = Origin {
        program: program.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: host.to_owned(),
        pid: std::process::id(),
        began: clock::timestamp(),
    };
    let header = Header::new::<M>(origin, now, &start);
    let machine = M::begin(now, start).map_err(anyhow::Error::msg)?;
    log::info!("recording in {}", path.display());
    Ok(Pump::new(machine).observed(Recorder::new(file, MAX_RECORDING, &header)))
}
