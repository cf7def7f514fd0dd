//! Every `unsafe` block of this crate: the child's half of a spawn, copies of this process, inherited descriptors,
//! signals, memory, System V IPC, the ends of children.

use std::ffi::{c_int, c_uint, c_ulong};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mpd_leftovers::Kind;

mod child;
mod copy;
mod memory;
mod start;
mod title;
mod wait;

pub use child::Step;
pub(crate) use child::{LAST_SIGNAL, Plan, SignalScope, SpawnFault, set_signal_mask, spawn};
pub use copy::{Copied, copy_beside};
pub use memory::{part_large_blocks, prepare_memory, trim_memory};
pub(crate) use start::environment;
pub use start::{begin, closed_at_start, remove_variables, with_enough_stack};
pub(crate) use title::show_arguments;
pub(crate) use wait::{peek, wait};

/// Closes each of the descriptors 0, 1 and 2 whose item in `closed` is true when this process becomes another program.
/// Until then they stay open.
pub fn close_standard_at_exec(closed: [bool; 3]) {
    for (number, _) in (0..).zip(closed).filter(|(_, closed)| *closed) {
        // SAFETY: a system call on a number. It closes nothing in this program.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// Whether an access control list gives further users permissions for a file.
///
/// # Errors
/// The file system does not tell.
pub(crate) fn has_access_list(path: &std::path::Path) -> io::Result<bool> {
    const NAME: &std::ffi::CStr = c"system.posix_acl_access";
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: path and name end with a zero byte, and a size of 0 makes the kernel write nothing.
    let size = unsafe { libc::getxattr(path.as_ptr(), NAME.as_ptr(), std::ptr::null_mut(), 0) };
    if size >= 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if [Some(libc::ENODATA), Some(libc::EOPNOTSUPP)].contains(&error.raw_os_error()) => {
            Ok(false)
        }
        error => Err(error),
    }
}

/// One thread at a time takes over inherited descriptors, or makes such that a program inherits.
static ADOPTING: Mutex<()> = Mutex::new(());

/// Whether this process was started without a loader of shared objects.
pub(crate) fn is_static() -> bool {
    // SAFETY: the call reads what the kernel gave this process: here the address of the loader.
    unsafe { libc::getauxval(libc::AT_BASE) == 0 }
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

/// Puts a descriptor at `number`, for a program that this process becomes. Until then it has no owner here, see
/// [`adopt_inherited`]. An inherited descriptor of this number without an owner is closed, also a standard one.
///
/// # Errors
/// The number is too large, or a descriptor of that number has an owner.
pub fn place_for_exec(descriptor: OwnedFd, number: RawFd) -> io::Result<()> {
    let _one_at_a_time = ADOPTING.lock().unwrap_or_else(PoisonError::into_inner);
    let from = descriptor.as_raw_fd();
    if from == number {
        // SAFETY: the descriptor has that number already, and stays open without its owner.
        return checked(unsafe { libc::fcntl(descriptor.into_raw_fd(), libc::F_SETFD, 0) })
            .map(drop);
    }
    // SAFETY: fcntl on a number; a closed one gives EBADF.
    match unsafe { libc::fcntl(number, libc::F_GETFD) } {
        // SAFETY: a system call on numbers. It takes a free number, so nothing that has an owner is closed.
        ..0 => match checked(unsafe { libc::fcntl(from, libc::F_DUPFD, number) })? {
            placed if placed == number => Ok(()),
            // Another thread has opened a descriptor of this number, which it owns.
            elsewhere => {
                drop(adopt_received(elsewhere));
                Err(owned(number))
            }
        },
        flags if flags & libc::FD_CLOEXEC != 0 => Err(owned(number)),
        // SAFETY: a system call on numbers. The descriptor of the target number has no owner, since it is not
        // close-on-exec, and no other thread takes it over meanwhile.
        _ => checked(unsafe { libc::dup2(from, number) }).map(drop),
    }
}

fn owned(number: RawFd) -> io::Error {
    io::Error::other(format!("descriptor {number} is in use"))
}

/// The result of a system call of the C library.
fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Lets the number of a descriptor lead to what `from` leads to. It stays close-on-exec.
///
/// # Errors
/// The system's.
pub(crate) fn redirect(number: &OwnedFd, from: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a system call on two open descriptors. The owner of the number stays its owner.
    match unsafe { libc::dup3(from.as_raw_fd(), number.as_raw_fd(), libc::O_CLOEXEC) } {
        result if result < 0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
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

/// Signals that this process has ignored or caught since it began, a bit for each from signal 1 on.
static CHANGED: AtomicU64 = AtomicU64::new(0);

/// Notes that this process ignores or catches a signal.
pub(crate) fn note_changed(signal: c_int) {
    if (1..=LAST_SIGNAL).contains(&signal) {
        CHANGED.fetch_or(1 << (signal - 1), Ordering::Relaxed);
    }
}

/// The signals that this process has ignored or caught since it began.
pub(crate) fn changed() -> u64 {
    CHANGED.load(Ordering::Relaxed)
}

/// Whether this process ignores a signal now.
pub(crate) fn is_ignored(signal: c_int) -> bool {
    // SAFETY: sigaction is plain data. The call writes one, and changes no action.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        let result = libc::sigaction(signal, std::ptr::null(), &raw mut now);
        result == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}

/// Ignores a signal from now on. Spawned children have its default effect again.
pub fn ignore_signal(signal: c_int) {
    note_changed(signal);
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

/// The niceness of this process; `None` under another scheduling policy than the ordinary one.
pub(crate) fn niceness() -> Option<c_int> {
    // SAFETY: system calls without pointers. -1 is also a valid niceness, so errno is cleared first.
    unsafe {
        *libc::__errno_location() = 0;
        let nice = libc::getpriority(libc::PRIO_PROCESS, 0);
        let policy = libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK;
        let is_ordinary = policy == libc::SCHED_OTHER;
        (is_ordinary && io::Error::last_os_error().raw_os_error() == Some(0)).then_some(nice)
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsRawFd, IntoRawFd};

    use super::*;

    /// Makes a descriptor at `number` that looks like an inherited one.
    pub(super) fn inherited(number: RawFd) {
        place_for_exec(File::open("/dev/null").unwrap().into(), number).unwrap();
    }

    pub(super) fn is_open(number: RawFd) -> bool {
        std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok()
    }

    #[test]
    fn a_descriptor_is_placed_only_where_none_has_an_owner() {
        let file = || OwnedFd::from(File::open("/dev/null").unwrap());
        place_for_exec(file(), 710).unwrap();
        place_for_exec(file(), 710).expect("the first one has no owner");
        let own = adopt_inherited(710).unwrap();
        assert_eq!(
            place_for_exec(file(), 710).unwrap_err().to_string(),
            "descriptor 710 is in use"
        );
        // To the number that it has.
        place_for_exec(own, 710).unwrap();
        drop(adopt_inherited(710).unwrap());
        assert!(!is_open(710));
        assert_eq!(place_for_exec(file(), -1).unwrap_err().raw_os_error(), Some(libc::EINVAL));
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
}
