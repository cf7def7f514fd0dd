//! The hosts and the launcher of a private ring, which is made for a job if no daemon runs on this
//! host.

use std::collections::BTreeMap;

use mpd_placement::hosts::HostEntry;
use mpd_wire::job::{HostChoice, JobSpec, PlacementSpec};

use crate::allocation::Allocation;
use crate::surroundings::RingKind;

/// The daemons of a private ring for a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The hosts that the command line names, else those of the batch system; empty for this host
    /// alone.
    pub hosts: Vec<HostEntry>,
    /// The placement in that ring, if the user gives none.
    pub allocated: Vec<HostChoice>,
    /// The launcher of daemons on other hosts.
    pub launcher: Launcher,
    /// Why these hosts may not be started, because of an account in a file that others may have written.
    pub refusal: Option<String>,
}

/// The launcher of daemons on other hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launcher {
    /// Its name from the user (`-launcher`).
    pub name: Option<String>,
    /// Its program (`-launcher-exec`).
    pub program: Option<String>,
    /// Its further arguments (`-launcher-args`).
    pub arguments: Option<String>,
    /// Whether this process runs in a Slurm allocation.
    pub in_slurm: bool,
}

impl Demand {
    /// The ring for the `named` hosts without the excluded hosts. Without named hosts, the ring of
    /// the batch system's hosts.
    pub fn new(
        named: Vec<HostEntry>,
        excluded: &[String],
        allocation: Option<Allocation>,
        launcher: Launcher,
    ) -> Self {
        let allocated = allocation.map(|allocation| allocation.hosts).unwrap_or_default();
        let of_request = |request: &HostChoice| HostEntry {
            host: request.name.clone(),
            ncpus: request.slots,
            max: request.max,
            gpus: request.gpus,
            speed: request.speed,
            ifhn: None,
            user: None,
            port: None,
        };
        let mut hosts = named;
        hosts.extend(allocated.iter().map(of_request));
        hosts.retain(|entry| !excluded.contains(&entry.host));
        Self { hosts, allocated, launcher, refusal: None }
    }

    /// The ring with each machine once. The job then uses the first name of each; `others` has the other names.
    pub(crate) fn by_first_names(
        &self,
        others: &BTreeMap<String, String>,
        spec: &mut JobSpec,
    ) -> Self {
        let rename = |choice: &mut HostChoice| {
            if let Some(first) = others.get(&choice.name) {
                choice.name.clone_from(first);
            }
        };
        let own = spec.argsets.iter_mut().filter_map(|argset| argset.hosts.as_mut());
        own.chain([&mut spec.placement.hosts]).flatten().for_each(rename);
        let mut demand = self.clone();
        demand.hosts.retain(|entry| !others.contains_key(&entry.host));
        demand.allocated.iter_mut().for_each(rename);
        demand
    }

    /// Gives the batch system's hosts to a placement in a private ring.
    pub(crate) fn use_allocation(&self, kind: RingKind, placement: &mut PlacementSpec) {
        if kind == RingKind::Private {
            placement.hosts.extend(self.allocated.iter().cloned());
        }
    }
}

impl Launcher {
    /// The launcher's command, to which host and command are appended. `is_there` reports which
    /// programs exist.
    pub fn command(&self, is_there: impl Fn(&str) -> bool) -> String {
        let named = match self.name.as_deref() {
            // Hydra calls srun `slurm`.
            Some("slurm") => Some("srun"),
            name => name,
        };
        let by_slurm = self.in_slurm && is_there("srun");
        let default = if by_slurm { "srun" } else { "ssh" };
        let command = self.program.as_deref().or(named).unwrap_or(default);
        match &self.arguments {
            Some(arguments) => format!("{command} {arguments}"),
            None => command.to_owned(),
        }
    }
}

/// The line of a host file for `entry`.
pub(crate) fn line(entry: &HostEntry) -> String {
    use std::fmt::Write as _;
    let mut text = match (&entry.host, entry.ncpus) {
        (host, Some(ncpus)) if host.contains(':') => format!("[{host}]:{ncpus}"),
        (host, Some(ncpus)) => format!("{host}:{ncpus}"),
        (host, None) if host.contains(':') => format!("[{host}]"),
        (host, None) => host.clone(),
    };
    // Writing to a String cannot fail.
    if let Some(ifhn) = &entry.ifhn {
        let ifhn = if ifhn.contains(':') { format!("[{ifhn}]") } else { ifhn.clone() };
        let _ = write!(text, " ifhn={ifhn}");
    }
    if let Some(user) = &entry.user {
        let _ = write!(text, " user={user}");
    }
    if let Some(port) = entry.port {
        let _ = write!(text, " port={port}");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use mpd_placement::hosts::parse_file;

    use super::*;

    #[test]
    fn a_line_of_a_host_file_parses_to_its_entry() {
        let file =
            b"h1\nh2:4 user=al port=2222\n[fe80::1]:2 ifhn=[fe80::2]\n[::7]\nc[1-2] ifhn=i[1-2]\n";
        let entries = parse_file(file).unwrap();
        let lines: String = entries.iter().map(line).collect();
        assert_eq!(parse_file(lines.as_bytes()).unwrap(), entries);
    }

    #[test]
    fn slurm_starts_daemons_in_its_allocation_unless_the_user_selects_another_launcher() {
        let command = |name: Option<&str>, program: Option<&str>, in_slurm, there: &str| {
            let (name, program) = (name.map(str::to_owned), program.map(str::to_owned));
            let arguments = None;
            Launcher { name, program, arguments, in_slurm }.command(|program| program == there)
        };
        assert_eq!(command(None, None, false, "srun"), "ssh");
        assert_eq!(command(None, None, true, "srun"), "srun");
        assert_eq!(command(None, None, true, ""), "ssh");
        assert_eq!(command(Some("slurm"), None, false, ""), "srun");
        assert_eq!(command(Some("ssh"), None, true, "srun"), "ssh");
        assert_eq!(command(Some("ssh"), Some("/opt/ssh -q"), true, "srun"), "/opt/ssh -q");
        assert_eq!(command(Some("my rsh"), None, false, ""), "my rsh");
        let arguments = Some("-p 2222".to_owned());
        let port = Launcher { arguments, ..Launcher::default() };
        assert_eq!(port.command(|_| false), "ssh -p 2222");
    }

    #[test]
    fn no_daemon_is_started_on_excluded_hosts() {
        let named = parse_file(b"a\nb\nc").unwrap();
        let demand = Demand::new(named, &["b".to_owned()], None, Launcher::default());
        let names: Vec<&str> = demand.hosts.iter().map(|entry| entry.host.as_str()).collect();
        assert_eq!(names, ["a", "c"]);
    }

    #[test]
    fn a_machine_with_two_names_gets_one_daemon_and_the_ranks_of_both() {
        let named = parse_file(b"a\n10.0.0.1\nb").unwrap();
        let demand = Demand::new(named.clone(), &[], None, Launcher::default());
        let mut spec = JobSpec::default();
        spec.placement.hosts = crate::hosts::choices(&named);
        let others = BTreeMap::from([("10.0.0.1".to_owned(), "a".to_owned())]);
        let demand = demand.by_first_names(&others, &mut spec);
        let names: Vec<&str> = demand.hosts.iter().map(|entry| entry.host.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let names: Vec<&str> = spec.placement.hosts.iter().map(|host| &*host.name).collect();
        assert_eq!(names, ["a", "a", "b"]);
    }
}
