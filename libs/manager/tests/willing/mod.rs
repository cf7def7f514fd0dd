//! The host of a manager in tests: every check succeeds. `T` has what differs between the tests.

use std::time::Duration;

use mpd_placement::cpu::Cpu;
use mpd_placement::gpus::Gpus;
use mpd_ranks::{Host, Unentered, Victims};
use mpd_wire::Pid;
use mpd_wire::job::{Argset, Group, Program, Unusable};

/// The daemon that has started the manager.
pub(crate) const DAEMON: Pid = Pid(1);

/// A host on which every check succeeds.
#[derive(Default)]
pub(crate) struct Willing<T>(pub(crate) T);

impl<T> Host for Willing<T> {
    fn kills(&self) -> Option<u64> {
        None
    }

    fn victims(&self, _: Duration) -> Option<Victims> {
        None
    }

    fn memory_events(&self) -> Option<(String, Option<String>)> {
        None
    }

    fn niceness(&self) -> Option<i8> {
        None
    }

    fn may_have(&self, _: i8) -> bool {
        true
    }

    fn text_of(&self, errno: i32) -> String {
        format!("error {errno}")
    }

    fn limit(&self, _: u8) -> Option<(u64, u64)> {
        None
    }

    fn allowed_cpus(&self) -> Result<Vec<Cpu>, String> {
        Ok(Vec::new())
    }

    fn has_fewer_cpus_than(&self, _: usize) -> bool {
        false
    }

    fn gpus(&self) -> Gpus {
        Gpus::of_number(0)
    }

    fn enter(&self, _: &[u8]) -> Result<(), Unentered> {
        Ok(())
    }

    fn program(&self, argset: &Argset, _: Option<usize>) -> Result<Program, Unusable> {
        Ok(Program { path: argset.program.clone(), script: false })
    }

    fn variables_of_group(&self, _: Group) -> Vec<String> {
        Vec::new()
    }

    fn host_name(&self) -> String {
        "h1".to_owned()
    }

    fn parent(&self) -> Pid {
        DAEMON
    }

    fn this(&self) -> Pid {
        Pid(2)
    }
}
