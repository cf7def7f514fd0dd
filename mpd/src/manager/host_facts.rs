//! Facts of this host that decisions about clients use.

use std::cell::OnceCell;

use mpd_clients::HostFacts;
use mpd_io::host::cpus;
use mpd_placement::locality::Topology;

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
}
