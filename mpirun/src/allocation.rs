//! The hosts that a batch system allocated to this process.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mpd_io::files::logging::plain;
use mpd_placement::allocation::{self, Sources};
use mpd_wire::job::HostChoice;

use crate::caller::Caller;
use crate::configfile;
use crate::usage::Usage;

#[cfg(test)]
mod tests;

/// Hosts in their order, each once, with their numbers of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub hosts: Vec<HostChoice>,
}

impl Allocation {
    /// The allocation of this process, if there is one.
    ///
    /// # Errors
    /// A variable or file of the batch system is not valid.
    pub fn find(caller: &Caller) -> Result<Option<Self>, Usage> {
        let sources = Sources {
            variable: &|name| variable(caller, name),
            file: &|path| contents(caller, path),
        };
        let hosts = allocation::find(&sources).map_err(|error| {
            let advice = "name the hosts with -hosts, or unset the variable";
            Usage::new(format!("{error}; {advice}"))
        })?;
        Ok(hosts.map(|hosts| Self { hosts }))
    }

    /// The number of slots of all hosts; `None` if a host has no limit.
    pub fn slots(&self) -> Option<u32> {
        let add = |sum: u32, host: &HostChoice| Some(sum.saturating_add(host.slots?));
        self.hosts.iter().try_fold(0, add)
    }
}

/// Whether this process runs in a Slurm allocation, all of whose hosts `srun` reaches.
pub fn is_within_srun(caller: &Caller) -> bool {
    let variable = |name: &str| variable(caller, name);
    allocation::is_slurm(&variable) && !allocation::has_components(&variable)
}

fn variable(caller: &Caller, name: &str) -> Option<String> {
    let value = caller.variable(name.as_bytes())?;
    Some(str::from_utf8(value).unwrap_or("?").to_owned())
}

fn contents(caller: &Caller, path: &str) -> Result<String, String> {
    let path = caller.directory.join(Path::new(std::ffi::OsStr::from_bytes(path.as_bytes())));
    let failed = |e| format!("{}: cannot read it: {}", path.display(), plain(&e));
    Ok(String::from_utf8_lossy(&configfile::read(&path).map_err(failed)?).into_owned())
}
