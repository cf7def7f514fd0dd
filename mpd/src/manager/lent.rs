//! What is lent to the node: the lengths of queues, and facts of this host and of its processes.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use mpd_io::files::logging::plain;
use mpd_io::host::{cpus, gpus};
use mpd_io::process::cgroup;
use mpd_io::process::identity::{number_of, process_of};
use mpd_io::process::{locate, oom, priority, signals, tree};
use mpd_job::manager::LinkEnd;
use mpd_manager::Facts;
use mpd_placement::cpu::Cpu;
use mpd_placement::gpus::Gpus;
use mpd_ranks::{Host, Unentered, Victims};
use mpd_wire::Pid;
use mpd_wire::job::{Argset, Group, Program, Unusable};
use mpd_wire::message::Class;
use nix::sys::resource::Resource;

use super::ending::Ending;
use super::links::Links;
use super::upstream::Upstream;
use crate::limits;

/// The owners that know it.
pub(super) struct Lent<'a> {
    pub(super) upstream: &'a Upstream,
    pub(super) links: &'a Links,
    pub(super) ending: &'a Ending,
}

impl Facts for Lent<'_> {
    fn console_waiting(&self) -> usize {
        self.upstream.console.waiting()
    }

    fn daemon_waits(&self) -> bool {
        self.upstream.daemon.waits()
    }

    fn queued(&self, to: LinkEnd, class: Class) -> usize {
        self.links.queued(to, class)
    }

    fn most_queued(&self, class: Class) -> usize {
        self.links.most_queued(class)
    }

    fn awaits(&self, tree_index: usize) -> bool {
        self.links.awaits(tree_index)
    }

    fn describe(&self, process: Pid) -> String {
        tree::describe(process_of(process))
    }

    fn name_of(&self, signal: i32) -> String {
        signals::name(signal)
    }
}

impl Host for Lent<'_> {
    fn kills(&self) -> Option<u64> {
        oom::kills()
    }

    fn victims(&self, since: Duration) -> Option<Victims> {
        let victims = oom::victims(since)?;
        Some(victims.into_iter().map(|victim| Pid(victim.pid)).collect())
    }

    fn memory_events(&self) -> Option<(String, Option<String>)> {
        let group = self.ending.group()?.path().to_str()?;
        let read = |file: &str| cgroup::read(&format!("{group}/{file}")).ok();
        Some((read("memory.events")?, read("memory.events.local")))
    }

    fn niceness(&self) -> Option<i8> {
        priority::niceness()
    }

    fn may_have(&self, niceness: i8) -> bool {
        priority::may_have(niceness)
    }

    fn text_of(&self, errno: i32) -> String {
        plain(&io::Error::from_raw_os_error(errno))
    }

    fn limit(&self, resource: u8) -> Option<(u64, u64)> {
        limits::own(resource)
    }

    fn allowed_cpus(&self) -> Result<Vec<Cpu>, String> {
        cpus::allowed().map_err(|e| plain(&e))
    }

    fn has_fewer_cpus_than(&self, number: usize) -> bool {
        cpus::are_fewer_than(number)
    }

    fn gpus(&self) -> Gpus {
        gpus::here()
    }

    fn enter(&self, directory: &[u8]) -> Result<(), Unentered> {
        let metadata = std::fs::metadata(Path::new(OsStr::from_bytes(directory)));
        let entered = metadata.and_then(|metadata| match metadata.is_dir() {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ENOTDIR)),
        });
        entered.map_err(|e| match e.kind() {
            ErrorKind::PermissionDenied => Unentered::NotPermitted,
            _ => Unentered::Impossible(plain(&e)),
        })
    }

    fn program(&self, argset: &Argset, brought: Option<usize>) -> Result<Program, Unusable> {
        let staging = self.links.staging().zip(brought);
        let directory = self.ending.directory();
        let brought = staging.and_then(|(staging, number)| staging.path_of(number, directory));
        brought.map_or_else(|| locate::program(argset), locate::at)
    }

    fn variables_of_group(&self, group: Group) -> Vec<String> {
        self.ending.groups().variables(group)
    }

    fn host_name(&self) -> String {
        mpd_io::ring::rundir::host_name()
    }

    fn parent(&self) -> Pid {
        number_of(nix::unistd::Pid::parent())
    }

    fn this(&self) -> Pid {
        number_of(nix::unistd::Pid::this())
    }
}

/// How many descriptors this process may have at most.
pub(super) fn descriptor_limit() -> u64 {
    limits::own(Resource::RLIMIT_NOFILE as u8).map_or(u64::MAX, |(_, hard)| hard)
}
