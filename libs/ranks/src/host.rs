//! What the machine reads of its host.

use std::time::Duration;

use mpd_ending::Pid;
use mpd_placement::cpu::Cpu;
use mpd_placement::gpus::Gpus;
use mpd_wire::job::{Argset, Group, Program, Unusable};

/// Processes that the kernel has killed for lack of memory.
pub type Victims = Vec<Pid>;

/// What a call reads of the host.
pub trait Host {
    /// How many processes the kernel has killed for lack of memory since the system started, if that is known.
    fn kills(&self) -> Option<u64>;
    /// The processes that it has killed since that time on the clock of its log; `None`: the log cannot be read.
    fn victims(&self, since: Duration) -> Option<Victims>;
    /// The file `memory.events` of the job's control group, and `memory.events.local` if the kernel has it; `None`: there is
    /// none, or it cannot be read.
    fn memory_events(&self) -> Option<(String, Option<String>)>;
    /// The niceness of this process.
    fn niceness(&self) -> Option<i8>;
    /// Whether this process may give others that niceness.
    fn may_have(&self, niceness: i8) -> bool;
    /// The system's text for an error number.
    fn text_of(&self, errno: i32) -> String;

    // The checks.

    /// The soft and the hard limit of this process, by the number of the kernel. `None`: the kernel has no such limit.
    fn limit(&self, resource: u8) -> Option<(u64, u64)>;
    /// The CPUs that this process may use, or the system's text.
    fn allowed_cpus(&self) -> Result<Vec<Cpu>, String>;
    /// Whether this process may use fewer CPUs.
    fn has_fewer_cpus_than(&self, number: usize) -> bool;
    /// The GPUs, by their devices.
    fn gpus(&self) -> Gpus;
    /// Whether a process can enter that directory.
    fn enter(&self, directory: &[u8]) -> Result<(), Unentered>;
    /// The program of an argset. One that was brought is known by the number of the argset.
    fn program(&self, argset: &Argset, brought: Option<usize>) -> Result<Program, Unusable>;
    /// The variables of a rank in a group of ranks.
    fn variables_of_group(&self, group: Group) -> Vec<String>;
    /// The name of the host.
    fn host_name(&self) -> String;
    /// The parent of this process.
    fn parent(&self) -> Pid;
    /// This process.
    fn this(&self) -> Pid;
}

/// Why a directory cannot be entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unentered {
    /// This process is not permitted to look. The rank may be.
    NotPermitted,
    /// The system's text.
    Impossible(String),
}
