//! What is lent to the node of a simulated manager: a host on which every check succeeds.

use std::time::Duration;

use mpd_job::manager::LinkEnd;
use mpd_manager::Facts;
use mpd_placement::cpu::Cpu;
use mpd_placement::gpus::Gpus;
use mpd_ranks::{Host, Unentered, Victims};
use mpd_wire::Pid;
use mpd_wire::job::{Argset, Group, Program, Unusable};
use mpd_wire::message::Class;

use super::links::Links;

/// The daemon that has started the manager.
pub(super) const DAEMON: Pid = Pid(1);

/// Only a link that is not open yet lets much wait.
pub(super) struct Lent<'a>(pub(super) &'a Links);

impl Facts for Lent<'_> {
    fn console_waiting(&self) -> usize {
        0
    }

    fn daemon_waits(&self) -> bool {
        false
    }

    fn queued(&self, end: LinkEnd, class: Class) -> usize {
        self.0.queued(end, class)
    }

    fn most_queued(&self, _: Class) -> usize {
        0
    }

    fn awaits(&self, tree_index: usize) -> bool {
        self.0.awaits(LinkEnd::Child(tree_index))
    }

    fn describe(&self, process: Pid) -> String {
        panic!("process {} is the user's, so it ends", process.0)
    }

    fn name_of(&self, signal: i32) -> String {
        signal.to_string()
    }
}

impl Host for Lent<'_> {
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
        errno.to_string()
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
