//! The report of the CPUs that a rank has.

use mpd_io::host::cpus;
use mpd_placement::cpu::Cpu;
use mpd_placement::description::describe;
use mpd_placement::locality::list;
use nix::unistd::Pid;

/// A line about the CPUs that a process has now; `all` are those that the job may use here.
pub(super) fn report(rank: &str, host: &str, pid: Pid, all: &[Cpu]) -> String {
    let Some(found) = cpus::of_process(pid) else {
        return format!("rank {rank} on {host}: its CPUs cannot be read");
    };
    let numbers = list(found.iter().copied());
    format!("rank {rank} on {host}: CPUs {numbers} ({})", describe(&found, all))
}
