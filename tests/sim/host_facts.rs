//! The facts about a simulated host that a manager lends to its machines.

use std::rc::Rc;

use mpd_clients::HostFacts;
use mpd_placement::locality::Topology;
use mpd_wire::job::Bytes;

use crate::dialect::USER;

#[derive(Debug)]
struct SimulatedHost {
    topology: Topology,
    cpus: u32,
    architecture: &'static str,
}

/// A host without files, with this number of CPUs.
pub(crate) fn of_host(cpus: u32, architecture: &'static str) -> Rc<dyn HostFacts> {
    Rc::new(SimulatedHost { topology: Topology::new(Vec::new()), cpus, architecture })
}

impl HostFacts for SimulatedHost {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn cpus(&self) -> u32 {
        self.cpus
    }

    fn user(&self) -> u32 {
        USER
    }

    fn architecture(&self) -> &str {
        self.architecture
    }

    fn read(&self, _: &[u8]) -> Result<Bytes, String> {
        Err("there are no files".to_owned())
    }
}
