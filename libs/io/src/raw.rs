//! Every `unsafe` block of this crate: the child's half of a spawn, inherited descriptors, caught signals, System V IPC.
//!
//! Rules of the child routine: it runs on the parent's memory and stack while the parent is suspended
//! (`CLONE_VM | CLONE_VFORK`). So between clone and exec it makes only async-signal-safe system calls on data prepared
//! before, never allocates, and never returns.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mpd_job::leftovers::Kind;

pub(crate) mod caught;
mod start;
mod title;

pub(crate) use start::environment;
pub use start::{begin, closed_at_start, with_enough_stack};
pub(crate) use title::show_arguments;

/// The steps of the child before exec, all prepared by the parent.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) program: &'a CStr,
    /// Ends with NULL.
    pub(crate) argv: &'a [*const c_char],
    /// `/bin/sh`, program, arguments, NULL: for scripts without an interpreter line.
    pub(crate) shell_argv: Option<&'a [*const c_char]>,
    /// Ends with NULL.
    pub(crate) envp: &'a [*const c_char],
    pub(crate) directory: Option<&'a CStr>,
    /// (descriptor of the parent, number in the child); the numbers are 0, 1, 2 … without gaps.
    pub(crate) descriptors: &'a [(RawFd, RawFd)],
    /// Which of 0, 1 and 2 the child closes at last.
    pub(crate) closed: [bool; 3],
    /// Kernel number, soft, hard.
    pub(crate) limits: &'a [(u8, u64, u64)],
    pub(crate) umask: Option<u32>,
    /// Its niceness, if the system permits it; `None`: that of the parent.
    pub(crate) niceness: Option<c_int>,
    /// The CPUs that it may use, a bit for each; empty: those of the parent.
    pub(crate) cpus: &'a [c_ulong],
    pub(crate) signal_scope: SignalScope,
    /// Descriptor 0 becomes the controlling terminal of the new session.
    pub(crate) terminal: bool,
    /// Whether it inherits further open descriptors without close-on-exec, besides the given ones.
    pub(crate) keeps_inherited: bool,
    /// The signal that the kernel sends it when its parent dies; 0: no signal.
    pub(crate) at_parents_end: c_int,
    pub(crate) parent: libc::pid_t,
    /// The process whose descendants may trace the child where tracing is restricted; 0: no process.
    pub(crate) tracer: libc::pid_t,
    /// The signals that get their default effect, a bit for each from signal 1 on. The others must have it already.
    pub(crate) reset: u64,
    /// Set by the child: the step that failed, and errno.
    pub(crate) failed: Option<(Step, c_int)>,
}

/// The processes that get signals of the terminal, or of a process group, together with the child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SignalScope {
    /// No others: it has a session of its own.
    #[default]
    OwnSession,
    /// No others: it has a process group of its own in our session.
    OwnGroup,
    /// Those of our process group.
    OurGroup,
}

/// The steps of the child that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Making a session or process group.
    Session,
    /// Moving a descriptor to its number.
    Descriptors,
    /// Setting the controlling terminal.
    Terminal,
    /// Setting a resource limit, by the kernel's number.
    Limit(u8),
    /// Setting the CPUs that it may use.
    Binding,
    /// Changing to the working directory.
    Directory,
    /// Executing the program.
    Exec,
}

/// Starts a child by `plan`, in the control group open at `cgroup` if given. Returns its pid once it
/// has exec'd, or the step that failed.
pub(crate) fn spawn(plan: &mut Plan<'_>, cgroup: Option<RawFd>) -> Result<libc::pid_t, SpawnFault> {
    // SAFETY: sigset_t is plain data; sigfillset and pthread_sigmask only write the sets given.
    // No safe wrapper keeps the old mask across a raw clone.
    let old = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut old: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        old
    };
    let result = clone_child(plan, cgroup);
    // SAFETY: as above; `old` was filled in.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut());
    }
    let failed = plan.failed.take();
    if result < 0 {
        let errno = i32::try_from(-result).unwrap_or(libc::EINVAL);
        return Err(SpawnFault::Clone(io::Error::from_raw_os_error(errno)));
    }
    let pid = libc::pid_t::try_from(result).unwrap_or(0);
    match failed {
        None => Ok(pid),
        Some((step, errno)) => {
            Err(SpawnFault::Child { pid, step, error: io::Error::from_raw_os_error(errno) })
        }
    }
}

/// Why [`spawn`] started no child.
#[derive(Debug)]
pub(crate) enum SpawnFault {
    /// The kernel made no process.
    Clone(io::Error),
    /// The process exists as a zombie that the caller must reap.
    Child { pid: libc::pid_t, step: Step, error: io::Error },
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
const CLONE_FLAGS: u64 = (libc::CLONE_VM | libc::CLONE_VFORK) as u64;

/// `struct clone_args` of Linux in its second version, which includes the control group.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Returns the pid, or a negated errno.
fn clone_child(plan: &mut Plan<'_>, cgroup: Option<RawFd>) -> c_long {
    let plan: *mut Plan<'_> = plan;
    if let Some(cgroup) = cgroup {
        let args = CloneArgs {
            flags: CLONE_FLAGS | CLONE_INTO_CGROUP,
            exit_signal: libc::SIGCHLD as u64,
            cgroup: cgroup as u64,
            ..CloneArgs::default()
        };
        let size = size_of::<CloneArgs>() as u64;
        // SAFETY: see `vfork_call`; clone3 reads `args`, which lives across the call.
        let result =
            unsafe { vfork_call(libc::SYS_clone3, &raw const args as u64, size, plan.cast()) };
        // Containers may forbid clone3 or this group; the plain clone always exists.
        if result >= 0 || result == -c_long::from(libc::EAGAIN) {
            return result;
        }
    }
    let flags = CLONE_FLAGS | libc::SIGCHLD as u64;
    // SAFETY: see `vfork_call`; clone with a zero stack keeps the stack pointer.
    unsafe { vfork_call(libc::SYS_clone, flags, 0, plan.cast()) }
}

/// Makes the system call `number(a, b, 0, 0, 0)`, which clones. The child calls [`child_entry`] with `plan`.
///
/// # Safety
/// The call must be clone or clone3 with `CLONE_VM | CLONE_VFORK` and no stack of its own, all signals
/// blocked, in a process of one thread. The child then runs below the parent's stack pointer while the
/// parent is suspended; it returns to nowhere: `child_entry` execs or exits. `plan` must point to a
/// live [`Plan`]. There is no safe way: `fork` copies page tables (slow for a large parent) and libc's
/// `posix_spawn` has neither parent-death signals nor limits nor groups.
#[cfg(target_arch = "x86_64")]
unsafe fn vfork_call(number: c_long, a: u64, b: u64, plan: *mut libc::c_void) -> c_long {
    let result: c_long;
    // SAFETY: the caller's promise; without `nostack` the compiler keeps nothing below the stack
    // pointer and has it aligned for the call.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov rdi, r12",
            "call {entry}",
            "ud2",
            "2:",
            entry = sym child_entry,
            inlateout("rax") number => result,
            inlateout("rdi") a => _,
            inlateout("rsi") b => _,
            inlateout("rdx") 0_u64 => _,
            inlateout("r10") 0_u64 => _,
            inlateout("r8") 0_u64 => _,
            in("r12") plan,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// The same for aarch64.
///
/// # Safety
/// The same as for x86_64.
#[cfg(target_arch = "aarch64")]
unsafe fn vfork_call(number: c_long, a: u64, b: u64, plan: *mut libc::c_void) -> c_long {
    let result: c_long;
    // SAFETY: as for x86_64.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x0, x20",
            "bl {entry}",
            "brk 1",
            "2:",
            entry = sym child_entry,
            inlateout("x0") a => result,
            in("x1") b,
            in("x2") 0_u64,
            in("x3") 0_u64,
            in("x4") 0_u64,
            in("x8") number,
            in("x20") plan,
        );
    }
    result
}

/// The number of the last real-time signal.
const LAST_SIGNAL: c_int = 64;

/// The child's half. Async-signal-safe calls only, by the rules at the top of this file.
unsafe extern "C" fn child_entry(plan: *mut libc::c_void) -> ! {
    // SAFETY: `vfork_call` passes its Plan, alive and untouched by the suspended parent.
    let plan = unsafe { &mut *plan.cast::<Plan<'_>>() };
    let fault = match prepare(plan) {
        Err(fault) => fault,
        Ok(()) => (Step::Exec, exec(plan)),
    };
    plan.failed = Some(fault);
    // SAFETY: _exit runs no handlers of the parent's.
    unsafe { libc::_exit(127) }
}

fn errno() -> c_int {
    // SAFETY: errno is this thread's; the parent that shares it is suspended.
    unsafe { *libc::__errno_location() }
}

fn check(step: Step, result: c_int) -> Result<(), (Step, c_int)> {
    if result < 0 { Err((step, errno())) } else { Ok(()) }
}

fn prepare(plan: &Plan<'_>) -> Result<(), (Step, c_int)> {
    // SAFETY: plain system calls on prepared data; sigset_t is plain data, and `default` is as large as the struct
    // that the kernel reads.
    unsafe {
        // The C library reserves two signals, so the kernel is called. Its struct of zeros is the default action.
        let default = [0_u64; 4];
        for signal in (1..=LAST_SIGNAL).filter(|signal| plan.reset >> (signal - 1) & 1 == 1) {
            let none = std::ptr::null_mut::<u64>();
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), none, size_of::<u64>());
        }
        let place = match plan.signal_scope {
            SignalScope::OwnSession => libc::setsid(),
            SignalScope::OwnGroup => libc::setpgid(0, 0),
            SignalScope::OurGroup => 0,
        };
        check(Step::Session, place)?;
        if plan.at_parents_end != 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, plan.at_parents_end as c_ulong, 0, 0, 0);
            if libc::getppid() != plan.parent {
                libc::_exit(127);
            }
        }
        if plan.tracer != 0 {
            // Kernels without this restriction do not know the call.
            libc::prctl(libc::PR_SET_PTRACER, plan.tracer as c_ulong, 0, 0, 0);
        }
        place_descriptors(plan.descriptors)?;
        close_standard(plan.closed);
        if !plan.keeps_inherited {
            close_others(plan.descriptors.len())?;
        }
        if plan.terminal {
            check(Step::Terminal, libc::ioctl(0, libc::TIOCSCTTY, 0))?;
        }
        if let Some(umask) = plan.umask {
            libc::umask(umask);
        }
        if let Some(niceness) = plan.niceness {
            // The parent has checked that this is permitted.
            libc::setpriority(libc::PRIO_PROCESS, 0, niceness);
        }
        if let Some(directory) = plan.directory {
            check(Step::Directory, libc::chdir(directory.as_ptr()))?;
        }
        for &(resource, soft, hard) in plan.limits {
            let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
            let result = libc::setrlimit(resource.into(), &raw const limit);
            check(Step::Limit(resource), result)?;
        }
        if !plan.cpus.is_empty() {
            let bytes = size_of_val(plan.cpus);
            let result = libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, plan.cpus.as_ptr());
            check(Step::Binding, if result < 0 { -1 } else { 0 })?;
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
    Ok(())
}

/// Puts every descriptor at its number.
fn place_descriptors(wanted: &[(RawFd, RawFd)]) -> Result<(), (Step, c_int)> {
    for &(from, to) in wanted {
        // SAFETY: system calls on numbers. `Spawn::start` has moved every source behind all targets, so no call
        // overwrites a source that is still needed.
        let result = unsafe { libc::dup2(from, to) };
        check(Step::Descriptors, result)?;
    }
    Ok(())
}

/// Closes each of the descriptors 0, 1 and 2 whose item in `closed` is true. The process must own none of them, and
/// must exec next.
pub fn close_standard(closed: [bool; 3]) {
    for (number, _) in (0..).zip(closed).filter(|(_, closed)| *closed) {
        // SAFETY: a system call on a number; by contract the caller owns no descriptor of that number.
        unsafe { libc::close(number) };
    }
}

/// Closes all descriptors but the first `count`.
fn close_others(count: usize) -> Result<(), (Step, c_int)> {
    let first = c_uint::try_from(count).unwrap_or(c_uint::MAX);
    // SAFETY: a system call on numbers.
    if unsafe { libc::syscall(libc::SYS_close_range, first, c_uint::MAX, 0) } == 0 {
        return Ok(());
    }
    close_listed(first).map_err(|errno| (Step::Descriptors, errno))
}

/// Closes the descriptors from `first` on that `/proc` lists: Linux before 5.9 has no `close_range`, and filters of
/// system calls may refuse it. Returns errno if there is no list.
fn close_listed(first: c_uint) -> Result<(), c_int> {
    #[repr(C, align(8))]
    struct Entries([u8; 2048]);
    let mut entries = Entries([0; 2048]);
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: system calls on a constant path, on numbers, and on a buffer of the length that is named. The calls are
    // async-signal-safe; a directory of the standard library would allocate. `/proc` continues its list behind the last
    // number that it named, so closing does not disturb it.
    unsafe {
        let list = libc::open(c"/proc/self/fd".as_ptr(), flags);
        if list < 0 {
            return Err(errno());
        }
        loop {
            let room = entries.0.len();
            let read = libc::syscall(libc::SYS_getdents64, list, entries.0.as_mut_ptr(), room);
            let Ok(read @ 1..) = usize::try_from(read) else {
                let errno = errno();
                libc::close(list);
                return if read < 0 { Err(errno) } else { Ok(()) };
            };
            let mut rest = entries.0.get(..read).unwrap_or_default();
            while let Some((number, behind)) = first_entry(rest) {
                rest = behind;
                match number {
                    Some(number) if number >= first && number != list.cast_unsigned() => {
                        libc::close(number.cast_signed());
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Parses the first of these `struct linux_dirent64`. Returns its name as a number, if it is a number, and the
/// following entries.
fn first_entry(entries: &[u8]) -> Option<(Option<c_uint>, &[u8])> {
    let (_inode_and_offset, rest) = entries.split_at_checked(16)?;
    let (length, _) = rest.split_first_chunk()?;
    let (entry, behind) = entries.split_at_checked(u16::from_ne_bytes(*length).into())?;
    let name = entry.get(19..)?.split(|&byte| byte == 0).next()?;
    let digit = |number: c_uint, byte: &u8| match byte {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add((byte - b'0').into()),
        _ => None,
    };
    Some((name.iter().try_fold(0, digit), behind))
}

/// Runs the program; returns errno if that fails.
fn exec(plan: &Plan<'_>) -> c_int {
    // SAFETY: all pointers are NUL-terminated strings and NULL-terminated arrays that the parent owns.
    unsafe {
        libc::execve(plan.program.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr());
        if let (libc::ENOEXEC, Some(argv)) = (errno(), plan.shell_argv) {
            libc::execve(c"/bin/sh".as_ptr(), argv.as_ptr(), plan.envp.as_ptr());
        }
    }
    errno()
}

/// Takes over a descriptor that this process was started with, and makes it close-on-exec.
///
/// A descriptor without the flag close-on-exec came through the exec of this process, and has no owner yet. Every
/// descriptor that this process opens has the flag, and so has one that was taken over. A number with the flag is
/// refused.
///
/// # Errors
/// There is no such descriptor, or it has an owner.
pub fn adopt_inherited(number: RawFd) -> io::Result<OwnedFd> {
    static ADOPTING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = ADOPTING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: fcntl on a number; a closed one gives EBADF.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::other(format!("descriptor {number} was not inherited")));
    }
    // SAFETY: as above.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open and had no owner, and from now on this call refuses it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes all descriptors except 0, 1 and 2 that this process was started with.
///
/// # Errors
/// `/proc` does not list them.
pub fn close_inherited() -> io::Result<()> {
    let list = std::fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<RawFd> = list
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&number| number > 2)
        .collect();
    for number in numbers {
        // Descriptors that this process has opened are refused, and stay open.
        drop(adopt_inherited(number));
    }
    Ok(())
}

/// Puts a descriptor at `number`, for a program that this process is about to become. A descriptor that has this
/// number is closed.
///
/// # Errors
/// The number is too large.
pub fn place_for_exec(descriptor: OwnedFd, number: RawFd) -> io::Result<()> {
    use std::os::fd::{AsRawFd, IntoRawFd};
    let result = if descriptor.as_raw_fd() == number {
        // SAFETY: as below. The descriptor has that number already, and stays open without its owner.
        unsafe { libc::fcntl(descriptor.into_raw_fd(), libc::F_SETFD, 0) }
    } else {
        // SAFETY: a system call on numbers; by contract the caller owns no descriptor of the target number and calls
        // right before exec.
        unsafe { libc::dup2(descriptor.as_raw_fd(), number) }
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes over a descriptor that the kernel has just made for this process (received over a socket).
pub(crate) fn adopt_received(number: RawFd) -> OwnedFd {
    // SAFETY: recvmsg made it for this process, and no other code knows the number.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Gives a signal its default effect.
pub fn default_signal(signal: c_int) {
    // SAFETY: no handler is given.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
    }
}

/// Ignores a signal from now on. Spawned children have its default effect again.
pub fn ignore_signal(signal: c_int) {
    caught::note_changed(signal);
    // SAFETY: SIG_IGN is no handler, so nothing can run in a wrong place.
    unsafe {
        libc::signal(signal, libc::SIG_IGN);
    }
}

/// Sends a signal by its number. It may be a real-time signal, for which `nix` has no type.
pub(crate) fn kill(pid: libc::pid_t, signal: c_int) -> io::Result<()> {
    // SAFETY: the call takes and returns plain numbers.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends a signal to one thread of a process.
pub(crate) fn tgkill(pid: libc::pid_t, tid: libc::pid_t, signal: c_int) -> io::Result<()> {
    // SAFETY: the call takes and returns plain numbers.
    match unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Raises a signal with its default effect, regardless of the present action. Returns if the signal does not end the
/// process.
pub(crate) fn raise_default(signal: c_int) {
    // SAFETY: SIG_DFL is no handler; sigset_t is plain data, and the calls write only the set given.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut this: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut this);
        libc::sigaddset(&raw mut this, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const this, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Columns and lines of the terminal open at `fd`.
pub(crate) fn window_size(fd: RawFd) -> Option<(u16, u16)> {
    // SAFETY: winsize is plain data, and the call writes no more than one.
    unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        let result = libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size);
        (result == 0).then_some((size.ws_col, size.ws_row))
    }
}

/// Sets columns and lines of the terminal open at `fd`. The kernel sends its foreground processes `SIGWINCH`.
pub(crate) fn set_window_size(fd: RawFd, (columns, lines): (u16, u16)) -> io::Result<()> {
    let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the call reads one winsize.
    let result = unsafe { libc::ioctl(fd, libc::TIOCSWINSZ, &raw const size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// How many bytes a read of the terminal open at `fd` would return now.
pub(crate) fn readable_bytes(fd: RawFd) -> io::Result<usize> {
    let mut count: c_int = 0;
    // SAFETY: the call writes one int.
    let result = unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut count) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Returns free memory in the middle of the heap to the system, if the allocator supports it.
pub fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the allocator's own function, which touches free memory alone.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Keeps large blocks out of the heap, if the allocator supports it: small blocks that live longer would keep their
/// memory from the system. By default glibc puts blocks of up to 32 MiB there after the first one was freed.
pub fn part_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a parameter of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 10);
    }
}

/// The niceness of this process; `None` under another scheduling policy than the ordinary one.
pub(crate) fn niceness() -> Option<c_int> {
    // SAFETY: system calls without pointers. -1 is also a valid niceness, so errno is cleared first.
    unsafe {
        *libc::__errno_location() = 0;
        let nice = libc::getpriority(libc::PRIO_PROCESS, 0);
        let policy = libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK;
        let is_ordinary = policy == libc::SCHED_OTHER;
        (is_ordinary && errno() == 0).then_some(nice)
    }
}

/// Whether a child of this process may have that niceness.
pub(crate) fn may_have_niceness(wanted: c_int) -> bool {
    let Some(own) = niceness() else { return true };
    // A child begins at 0 if this process has less. A higher niceness is always permitted.
    if wanted >= own.max(0) {
        return true;
    }
    // SAFETY: system calls without pointers, on this process alone, which gets its own niceness back.
    unsafe {
        let may = libc::setpriority(libc::PRIO_PROCESS, 0, wanted) == 0;
        if may {
            libc::setpriority(libc::PRIO_PROCESS, 0, own);
        }
        may
    }
}

/// Sets the ordinary scheduling policy with this niceness and time slice; children inherit neither. The system call is
/// sched_setattr(2). Kernels before 6.12 ignore the slice.
pub(crate) fn schedule(nice: c_int, slice: Duration) -> io::Result<()> {
    // SAFETY: plain data, all zeros are valid, and a system call that reads it.
    unsafe {
        let mut request: libc::sched_attr = std::mem::zeroed();
        request.size = size_of::<libc::sched_attr>() as c_uint;
        request.sched_policy = libc::SCHED_OTHER as c_uint;
        request.sched_flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
        request.sched_nice = nice;
        request.sched_runtime = slice.as_nanos() as u64;
        match libc::syscall(libc::SYS_sched_setattr, 0, &raw const request, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A pidfd for a process, which need not be a child.
pub(crate) fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: a system call on a number; the returned descriptor has no other owner.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(adopt_received(RawFd::try_from(fd).unwrap_or(-1)))
}

/// Sends a signal through a pidfd. It never reaches another process that has got the number.
pub(crate) fn pidfd_signal(pidfd: RawFd, signal: c_int) -> io::Result<()> {
    // SAFETY: a system call on numbers and a null pointer.
    let result = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd, signal, std::ptr::null::<()>(), 0)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Removes a System V object.
pub(crate) fn remove_system_v(kind: Kind, id: c_int) -> io::Result<()> {
    // SAFETY: IPC_RMID takes no argument besides the id.
    let result = unsafe {
        match kind {
            Kind::Memory => libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()),
            Kind::Semaphores => libc::semctl(id, 0, libc::IPC_RMID),
            Kind::Messages => libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()),
        }
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// How many System V objects of that kind exist on this host, in one system call; `None` if the kernel does not say.
pub(crate) fn count_system_v(kind: Kind) -> Option<usize> {
    // Commands and structs of the kernel's `linux/shm.h`, `linux/sem.h` and `linux/msg.h`.
    const MSG_INFO: c_int = 12;
    const SHM_INFO: c_int = 14;
    const SEM_INFO: c_int = 19;
    /// Larger than each of the structs, and aligned like them.
    type Info = [c_ulong; 32];
    let mut info: Info = [0; 32];
    let place = info.as_mut_ptr();
    // SAFETY: each call writes one struct that is smaller than `info`, which consists of plain integers.
    let (result, index) = unsafe {
        match kind {
            Kind::Memory => (libc::shmctl(0, SHM_INFO, place.cast()), 0),
            // The eighth number of the struct.
            Kind::Semaphores => (libc::semctl(0, 0, SEM_INFO, place), 7),
            Kind::Messages => (libc::msgctl(0, MSG_INFO, place.cast()), 0),
        }
    };
    // SAFETY: `info` is larger and plain data; the fields up to the wanted one have the type int in all three structs.
    let count = unsafe { *place.cast::<c_int>().add(index) };
    (result >= 0).then(|| usize::try_from(count).ok())?
}

/// The process that last operated on a semaphore of a set; 0 if no process did.
pub(crate) fn semaphore_pid(id: c_int, number: c_int) -> io::Result<u32> {
    // SAFETY: GETPID takes no argument besides set and number.
    let pid = unsafe { libc::semctl(id, number, libc::GETPID) };
    u32::try_from(pid).map_err(|_| io::Error::last_os_error())
}

/// ptrace(2) with a request whose argument is a number.
pub(crate) fn ptrace(request: c_uint, pid: libc::pid_t, number: c_int) -> io::Result<()> {
    // SAFETY: none of the tracer's requests writes to memory of this process.
    let result = unsafe {
        libc::ptrace(
            request,
            pid,
            std::ptr::null_mut::<libc::c_void>(),
            number as *mut libc::c_void,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The thread or process that a traced thread has just begun (PTRACE_GETEVENTMSG).
pub(crate) fn new_thread(tid: libc::pid_t) -> io::Result<libc::pid_t> {
    let mut begun: c_ulong = 0;
    // SAFETY: the request writes one number to the given place.
    let result = unsafe {
        libc::ptrace(
            libc::PTRACE_GETEVENTMSG,
            tid,
            std::ptr::null_mut::<libc::c_void>(),
            &raw mut begun,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    libc::pid_t::try_from(begun).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// waitpid(2) for a child or tracee, or any of them with -1: its pid and the kernel's status. `nix` cannot represent
/// signals beyond 31. With `WNOHANG` among the options: `None` if there is nothing now.
pub(crate) fn wait(pid: libc::pid_t, options: c_int) -> io::Result<Option<(libc::pid_t, c_int)>> {
    let mut status = 0;
    loop {
        // SAFETY: the call writes to the one number given.
        match unsafe { libc::waitpid(pid, &raw mut status, options) } {
            0 => return Ok(None),
            -1 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            pid => return Ok(Some((pid, status))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsRawFd, IntoRawFd};

    use super::*;

    /// Makes a descriptor at `number` that looks like an inherited one.
    fn inherited(number: RawFd) {
        place_for_exec(File::open("/dev/null").unwrap().into(), number).unwrap();
    }

    fn is_open(number: RawFd) -> bool {
        std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok()
    }

    #[test]
    fn a_descriptor_is_taken_over_once_and_never_from_its_owner() {
        inherited(700);
        let first = adopt_inherited(700).unwrap();
        assert!(adopt_inherited(700).is_err(), "it has an owner");
        assert!(is_open(700));
        drop(first);
        assert_eq!(adopt_inherited(700).unwrap_err().raw_os_error(), Some(libc::EBADF));
        let own = File::open("/dev/null").unwrap();
        let error = adopt_inherited(own.as_raw_fd()).unwrap_err();
        assert_eq!(error.to_string(), format!("descriptor {} was not inherited", own.as_raw_fd()));
        assert!(is_open(own.into_raw_fd()));
    }

    #[test]
    fn descriptors_are_closed_without_close_range_too() {
        // More than one buffer of entries.
        for number in 900..1000 {
            inherited(number);
        }
        close_listed(901).unwrap();
        let open: Vec<RawFd> = (900..1000).filter(|&number| is_open(number)).collect();
        assert_eq!(open, [900]);
    }
}
