//! Facts of this host that decisions use.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mpd_clients::HostFacts;
use mpd_io::files::logging::plain;
use mpd_io::host::cpus;
use mpd_placement::locality::Topology;
use mpd_wire::job::Bytes;

/// Longest file of hints or of hosts.
const MAX_FILE: u64 = 1 << 20;

/// Facts that take many system calls are looked up once, when they are needed.
#[derive(Debug, Default)]
pub(super) struct ThisHost {
    topology: OnceCell<Topology>,
    cpus: OnceCell<u32>,
}

impl HostFacts for ThisHost {
    fn topology(&self) -> &Topology {
        self.topology.get_or_init(cpus::topology)
    }

    fn cpus(&self) -> u32 {
        *self.cpus.get_or_init(cpus::count)
    }

    fn user(&self) -> u32 {
        nix::unistd::geteuid().as_raw()
    }

    fn architecture(&self) -> &str {
        std::env::consts::ARCH
    }

    fn read(&self, path: &[u8]) -> Result<Bytes, String> {
        let mut bytes = Vec::new();
        let file = File::open(Path::new(OsStr::from_bytes(path)));
        let file = file.and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
        file.map_err(|e| plain(&e))?;
        Ok(bytes)
    }
}
