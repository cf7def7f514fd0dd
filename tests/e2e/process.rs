//! Facts from /proc about processes. No function here except `send` and `stop` changes anything.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::run::wait_until;

/// A process, like a line of `ps`, at the time of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    /// `R`, `S`, `T`, `Z` … as in proc(5).
    pub(crate) state: char,
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
}

impl Process {
    /// `None` if the process has gone, or if /proc denies access.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (before, after) = stat.rsplit_once(')')?;
        let mut fields = after.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments = line
            .split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        Some(Self { pid, parent, state, name: before.split_once('(')?.1.to_owned(), arguments })
    }

    /// Every process of the machine that is not dead already.
    pub(crate) fn all() -> Vec<Self> {
        pids().into_iter().filter_map(Self::read).filter(Self::is_alive).collect()
    }

    /// Whether no process of that number lives.
    pub(crate) fn is_gone(pid: i32) -> bool {
        Self::read(pid).is_none_or(|process| !process.is_alive())
    }

    /// Stops it, and waits until it is stopped or dead.
    pub(crate) fn stop(&self) {
        send(self.pid, Signal::SIGSTOP);
        wait_until("the process is stopped", || {
            Self::read(self.pid).is_none_or(|process| process.is_stopped() || !process.is_alive())
        });
    }

    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state == 'T'
    }

    /// Whether the suite with this mark started the process: by its environment, or by its directory if it has
    /// another environment.
    pub(crate) fn bears(&self, mark: &str, directory: &Path) -> bool {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        let marked = environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
        let here = fs::read_link(format!("/proc/{}/cwd", self.pid))
            .is_ok_and(|cwd| cwd.starts_with(directory));
        let directory = directory.as_os_str().as_bytes();
        marked || here || self.arguments.iter().any(|a| a.as_bytes().starts_with(directory))
    }

    /// Whether it executes the program of this name.
    pub(crate) fn runs(&self, program: &str) -> bool {
        fs::read_link(format!("/proc/{}/exe", self.pid))
            .is_ok_and(|exe| exe.file_name().is_some_and(|name| name == program))
    }

    pub(crate) fn is_manager(&self) -> bool {
        self.runs("mpd") && self.is_called_manager() && !self.is_below_manager()
    }

    /// Whether it is a helper of a manager that lists the users of shared memory, or a child before its `exec`, which
    /// still runs the same program.
    pub(crate) fn is_helper(&self) -> bool {
        let is_called_helper = self.arguments.first().is_some_and(|name| name == "mpdusers");
        self.runs("mpd")
            && (is_called_helper || self.is_called_manager() && self.is_below_manager())
    }

    pub(crate) fn is_daemon(&self) -> bool {
        let is_agent = self.arguments.first().is_some_and(|name| name == "mpdagent");
        let is_other = is_agent || self.is_manager() || self.is_helper();
        self.runs("mpd") && !is_other && !self.is_called_waiting()
    }

    /// Whether it is a manager in waiting of a living daemon, or its fork server.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_called_waiting()
            && self.runs("mpd")
            && Self::read(self.parent).is_some_and(|parent| parent.is_alive() && parent.is_daemon())
    }

    fn is_called_waiting(&self) -> bool {
        self.is_called("mpdwait") || self.is_called("mpdfork")
    }

    fn is_called(&self, name: &str) -> bool {
        self.arguments.first().is_some_and(|called| called == name)
    }

    fn is_called_manager(&self) -> bool {
        self.arguments.first().is_some_and(|name| name.contains("mpdman"))
    }

    fn is_below_manager(&self) -> bool {
        Self::read(self.parent).is_some_and(|parent| parent.is_called_manager())
    }

    /// Greatest size so far in KiB of the memory that it keeps, approximately. The pages of its program are not
    /// counted: all its processes share them, and their number depends on the build.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.status("VmHWM:").saturating_sub(self.status("RssFile:"))
    }

    /// Resident size, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// Size in KiB of its anonymous memory now. Pages of files, also of its program, are not counted, because
    /// a debug build has more of them.
    pub(crate) fn anonymous_kib(&self) -> u64 {
        self.status("RssAnon:")
    }

    pub(crate) fn niceness(&self) -> i32 {
        self.field_of_stat(16)
    }

    /// The process that leads its session.
    pub(crate) fn session(&self) -> i32 {
        self.field_of_stat(3)
    }

    /// A number behind the name in `/proc/PID/stat`, counted from 0.
    fn field_of_stat(&self, index: usize) -> i32 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).expect("it lives");
        let fields = stat.rsplit_once(')').expect("a name").1;
        fields.split_whitespace().nth(index).expect("a field").parse().expect("a number")
    }

    /// Processor time so far.
    pub(crate) fn cpu(&self) -> Duration {
        const TICKS: u64 = 100;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|text| text.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 1000 / TICKS)
    }

    /// Number of open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid)).map_or(0, Iterator::count)
    }

    /// Its children, including dead ones, except managers in waiting and the fork server.
    pub(crate) fn children(&self) -> Vec<Self> {
        self.all_children().into_iter().filter(|child| !child.is_called_waiting()).collect()
    }

    /// The first manager in waiting among its children.
    pub(crate) fn manager_in_waiting(&self) -> Option<Self> {
        self.all_children().into_iter().find(|child| child.is_called("mpdwait") && child.is_alive())
    }

    /// The fork server among its children.
    pub(crate) fn fork_server(&self) -> Option<Self> {
        self.all_children().into_iter().find(|child| child.is_called("mpdfork") && child.is_alive())
    }

    fn all_children(&self) -> Vec<Self> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid);
        let pids = fs::read_to_string(path).unwrap_or_default();
        pids.split_whitespace().filter_map(|pid| Self::read(pid.parse().ok()?)).collect()
    }

    /// Its dead children that were not waited for.
    pub(crate) fn zombies(&self) -> usize {
        let zombie = |p: &Self| p.parent == self.pid && p.state == 'Z';
        pids().into_iter().filter_map(Self::read).filter(zombie).count()
    }

    /// Whether it has a handler for this signal.
    pub(crate) fn catches(&self, signal: Signal) -> bool {
        self.has_in("SigCgt:", signal)
    }

    /// Whether this signal was sent to it and is still pending.
    pub(crate) fn is_yet_to_take(&self, signal: Signal) -> bool {
        self.has_in("ShdPnd:", signal)
    }

    fn has_in(&self, name: &str, signal: Signal) -> bool {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix(name));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        mask >> (signal as i32 - 1) & 1 == 1
    }

    fn status(&self, name: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pid, parent, state, name, arguments } = self;
        write!(f, "{pid} (parent {parent}) {state} {name}: {}", arguments.join(" "))
    }
}

/// Sends a signal to a process that a test has started, or to a descendant of one.
pub(crate) fn send(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

fn pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}
