//! The child's half of a spawn.
//!
//! Rules of the child routine: it runs on the parent's memory and stack while the parent is suspended
//! (`CLONE_VM | CLONE_VFORK`). So between clone and exec it makes only async-signal-safe system calls on data prepared
//! before, never allocates, and never returns.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong};
use std::io;
use std::os::fd::RawFd;

use nix::sys::signal::SigSet;

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
    /// Its niceness, if the system permits it; `None`: the parent's niceness.
    pub(crate) niceness: Option<c_int>,
    /// The CPUs that it may use, a bit for each; empty: the parent's CPUs.
    pub(crate) cpus: &'a [c_ulong],
    pub(crate) signal_scope: SignalScope,
    /// Descriptor 0 becomes the controlling terminal of the new session.
    pub(crate) terminal: bool,
    /// The child gets only the descriptors below this number, instead of all: copying and closing thousands takes long.
    /// Those that it is given must be among them.
    pub(crate) below: Option<c_uint>,
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
    /// Unblocking all signals.
    Signals,
    /// Executing the program.
    Exec,
}

/// Starts a child by `plan`, in the control group open at `cgroup` if given. The flag: without the group, no child is
/// started. Returns its pid once it has exec'd, or the step that failed.
pub(crate) fn spawn(
    plan: &mut Plan<'_>,
    cgroup: Option<(RawFd, bool)>,
) -> Result<libc::pid_t, SpawnFault> {
    let old = block_all().map_err(SpawnFault::Clone)?;
    let result = clone_child(plan, cgroup);
    // Signals that stay blocked still reach a process that reads them from a descriptor.
    let _ = set_mask(&old);
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

/// Blocks all signals in this thread; returns the mask of before. Without this, a signal for the parent would reach the
/// child, so no child is started.
fn block_all() -> io::Result<libc::sigset_t> {
    // SAFETY: sigset_t is plain data; sigfillset and pthread_sigmask only write the sets given.
    // No safe wrapper keeps the old mask across a raw clone.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut old: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        match libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old) {
            0 => Ok(old),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// Sets the mask of this thread. That of `nix` takes a refusal for a success: the call returns the errno, not -1.
pub(crate) fn set_signal_mask(mask: &SigSet) -> io::Result<()> {
    match set_mask(mask.as_ref()) {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Sets the mask of this thread. A refusal that passes is no failure. Returns 0 or the errno; the child may call it.
fn set_mask(mask: &libc::sigset_t) -> c_int {
    const TRIES: usize = 8;
    let mut result = 0;
    for _ in 0..TRIES {
        // SAFETY: the call reads the set given, and is async-signal-safe.
        result = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
        if result == 0 {
            break;
        }
    }
    result
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
fn clone_child(plan: &mut Plan<'_>, cgroup: Option<(RawFd, bool)>) -> c_long {
    let shared = if plan.below.is_some() { libc::CLONE_FILES as u64 } else { 0 };
    let plan: *mut Plan<'_> = plan;
    if let Some((cgroup, is_confined)) = cgroup {
        let args = CloneArgs {
            flags: CLONE_FLAGS | CLONE_INTO_CGROUP | shared,
            exit_signal: libc::SIGCHLD as u64,
            cgroup: cgroup as u64,
            ..CloneArgs::default()
        };
        let size = size_of::<CloneArgs>() as u64;
        // SAFETY: see `vfork_call`; clone3 reads `args`, which lives across the call.
        let result =
            unsafe { vfork_call(libc::SYS_clone3, &raw const args as u64, size, plan.cast()) };
        // Containers may forbid clone3 or this group; the plain clone always exists.
        if result >= 0 || is_confined || result == -c_long::from(libc::EAGAIN) {
            return result;
        }
    }
    let flags = CLONE_FLAGS | shared | libc::SIGCHLD as u64;
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
pub(crate) const LAST_SIGNAL: c_int = 64;

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
        if let Some(below) = plan.below {
            leave_descriptors(below)?;
        }
        place_descriptors(plan.descriptors)?;
        for (number, _) in (0..).zip(plan.closed).filter(|(_, closed)| *closed) {
            libc::close(number);
        }
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
        match set_mask(&none) {
            0 => Ok(()),
            errno => Err((Step::Signals, errno)),
        }
    }
}

/// Makes descriptors of its own, instead of those that it shares with its parent: those below `below`.
fn leave_descriptors(below: c_uint) -> Result<(), (Step, c_int)> {
    // SAFETY: system calls on numbers. Linux before 5.9 does not know the first one. The second one copies all.
    let result = unsafe {
        match libc::syscall(libc::SYS_close_range, below, c_uint::MAX, libc::CLOSE_RANGE_UNSHARE) {
            0 => 0,
            _ => libc::unshare(libc::CLONE_FILES),
        }
    };
    check(Step::Descriptors, result)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::tests::{inherited, is_open};

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
