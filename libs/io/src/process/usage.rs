//! The use of CPUs and memory by processes and by this host, from `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use mpd_stdio::silence::{MAX_TASKS, Task};
use mpd_wire::message::HostUse;
use nix::unistd::Pid;

use crate::host::cpus;
use crate::process::procfile;
use crate::process::stat::{Stat, TICK_MS};
use crate::process::status;
use crate::process::tree::children;

/// Most processes of one tree that are examined.
const MAX_PROCESSES: usize = 512;

/// The use of a process and all its descendants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeUse {
    /// The state of the first process, by the kernel's letter.
    pub state: char,
    /// CPU time of all, and of the processes that they have reaped.
    pub cpu_ms: u64,
    /// Resident memory of all.
    pub memory_kib: u64,
    /// How many processes they are.
    pub processes: u32,
}

/// The use of the tree of `root`; `None` if it is not a living child of `parent`.
pub fn of_tree(root: Pid, parent: Pid) -> Option<TreeUse> {
    let first =
        Stat::of(root).filter(|stat| stat.parent == parent.as_raw() && stat.state != 'Z')?;
    let mut all = TreeUse { state: first.state, cpu_ms: 0, memory_kib: 0, processes: 0 };
    for (pid, stat) in tree(root) {
        all.cpu_ms += stat.ticks * TICK_MS;
        all.memory_kib += resident_kib(pid);
        all.processes += 1;
    }
    Some(all)
}

/// The threads of a process and its descendants that would run if they had a CPU, or if they were not stopped. A thread
/// in an uninterruptible wait is among them, since it continues by itself. At most [`MAX_TASKS`].
pub fn ready(root: Pid) -> Vec<Task> {
    let first = look(root);
    if first.len() < 2 || first.values().any(|thread| thread.is_ready) {
        return tasks_of(first, |_, thread| thread.is_ready);
    }
    // One thread may have woken another one that had been looked at before. Then one of them has run meanwhile.
    let has_run = |id: &u32, ran| first.get(id).is_none_or(|thread| thread.ran != ran);
    tasks_of(look(root), |id, thread| thread.is_ready || has_run(id, thread.ran))
}

/// A thread at one moment.
struct Thread {
    is_ready: bool,
    ran: Duration,
}

fn tasks_of(
    threads: BTreeMap<u32, Thread>,
    is_wanted: impl Fn(&u32, &Thread) -> bool,
) -> Vec<Task> {
    let wanted = threads.into_iter().filter(|(id, thread)| is_wanted(id, thread));
    wanted.map(|(id, thread)| Task { id, ran: thread.ran }).collect()
}

/// The threads of a process and its descendants.
fn look(root: Pid) -> BTreeMap<u32, Thread> {
    let mut threads = BTreeMap::new();
    for (pid, stat) in tree(root) {
        let ids = match stat.threads {
            0 | 1 => vec![pid.as_raw().unsigned_abs()],
            _ => threads_of(pid),
        };
        for id in ids {
            if threads.len() >= MAX_TASKS {
                return threads;
            }
            let is_first = i32::try_from(id) == Ok(pid.as_raw());
            let own = if is_first && stat.threads <= 1 { None } else { Stat::of_thread(pid, id) };
            let stat = own.as_ref().unwrap_or(&stat);
            let ticks = || Duration::from_millis(stat.ticks * TICK_MS);
            let ran = nanoseconds(pid, id).map_or_else(ticks, Duration::from_nanos);
            threads.insert(id, Thread { is_ready: matches!(stat.state, 'R' | 'T' | 'D'), ran });
        }
    }
    threads
}

fn threads_of(pid: Pid) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A process and its descendants.
fn tree(root: Pid) -> Vec<(Pid, Stat)> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut queue = vec![root];
    while let Some(pid) = queue.pop() {
        if seen.len() >= MAX_PROCESSES || !seen.insert(pid) {
            continue;
        }
        let Some(stat) = Stat::of(pid) else { continue };
        found.push((pid, stat));
        queue.extend(children(pid));
    }
    found
}

/// The use of this host. The caller fills in the time.
pub fn of_host() -> HostUse {
    let load = read("/proc/loadavg");
    let memory = read("/proc/meminfo");
    HostUse {
        at_us: 0,
        cpus: cpus::count(),
        load_hundredths: load_hundredths(&load),
        speed_hundredths: 100,
        busy_ms: busy_ticks(&read("/proc/stat")) * TICK_MS,
        memory_kib: field(&memory, "MemTotal:"),
        available_kib: field(&memory, "MemAvailable:"),
    }
}

/// CPU time of a thread in nanoseconds; `None` if the kernel does not count it.
fn nanoseconds(pid: Pid, thread: u32) -> Option<u64> {
    let text = procfile::record(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

fn resident_kib(pid: Pid) -> u64 {
    field(&status::of(pid), "VmRSS:")
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn field(text: &str, name: &str) -> u64 {
    let number = status::field(text, name).and_then(|rest| rest.split_ascii_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The first number of a text in hundredths: `0.52 …` gives 52.
fn load_hundredths(text: &str) -> u64 {
    let number = text.split_ascii_whitespace().next().unwrap_or_default();
    number.replacen('.', "", 1).parse().unwrap_or(0)
}

/// The sum of the first line without idle time and time of waiting for I/O. The first two numbers include guests.
fn busy_ticks(text: &str) -> u64 {
    let line = text.lines().next().unwrap_or_default();
    let numbers = line.split_ascii_whitespace().skip(1).take(8);
    let numbers = numbers.map(|number| number.parse::<u64>().unwrap_or(0)).enumerate();
    numbers.filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, ticks)| ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_host_are_read() {
        assert_eq!(load_hundredths("0.52 0.58 1.02 1/200 77\n"), 52);
        assert_eq!(load_hundredths("12.00 1 1"), 1200);
        assert_eq!(busy_ticks("cpu 1 2 4 1000 2000 8 16 32 64 128\ncpu0 1"), 63);
        assert_eq!(field("MemTotal:   100 kB\nMemAvailable: 70 kB\n", "MemAvailable:"), 70);
        let host = of_host();
        assert!(host.cpus > 0 && host.busy_ms > 0 && host.memory_kib > host.available_kib);
    }

    #[test]
    fn a_process_is_found_under_its_parent_alone() {
        let (me, parent) = (Pid::this(), Pid::parent());
        let own = of_tree(me, parent).unwrap();
        assert!(own.processes >= 1 && own.memory_kib > 0);
        assert_eq!(of_tree(me, me), None);
    }

    #[test]
    fn a_running_process_is_ready_with_its_cpu_time_and_a_waiting_one_is_not() {
        let run = |script: &str| {
            let child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
            (Pid::from_raw(child.id().cast_signed()), child)
        };
        let (busy, mut first) = run("while :; do :; done");
        while ready(busy).first().is_none_or(|task| task.ran < Duration::from_millis(5)) {
            std::thread::yield_now();
        }
        let (pid, mut second) = run("exec sleep 60");
        while !ready(pid).is_empty() {
            std::thread::yield_now();
        }
        for child in [&mut first, &mut second] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(ready(busy), []);
        assert_eq!(ready(pid), []);
    }

    #[test]
    fn a_thread_that_runs_is_ready_although_the_first_thread_of_its_process_waits() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let busy = std::thread::spawn(move || {
            tell.send(nix::unistd::gettid().as_raw().unsigned_abs()).unwrap();
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                std::hint::spin_loop();
            }
        });
        let id = told.recv().unwrap();
        let me = nix::unistd::gettid().as_raw().unsigned_abs();
        assert_ne!(me, Pid::this().as_raw().unsigned_abs(), "tests run in threads");
        let task = ready(Pid::this()).into_iter().find(|task| task.id == id).unwrap();
        let later = || ready(Pid::this()).into_iter().find(|task| task.id == id).unwrap();
        while later().ran == task.ran {
            std::thread::yield_now();
        }
        stop.send(()).unwrap();
        busy.join().unwrap();
        assert!(ready(Pid::this()).iter().all(|task| task.id != id));
    }
}
