//! The state in which a process begins: which standard descriptors are closed, the size of the stack, and the
//! unchanged environment.

use std::ffi::{CStr, c_char, c_int};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::sys::resource::{Resource, getrlimit};

/// The stack that a program of the suite needs.
const ENOUGH_STACK: usize = 1 << 20;

/// Runs `work` in this thread on a stack of sufficient size. The user's limit of stacks (`ulimit -s`) is meant for the
/// started programs, and does not change.
pub fn with_enough_stack<R, W: FnOnce() -> R>(work: W) -> R {
    extern "C" fn carry_out<R, W: FnOnce() -> R>(both: *mut libc::c_void) {
        // SAFETY: the caller below passes its own pair and does not use it during the call.
        let (work, result) = unsafe { &mut *both.cast::<(Option<W>, Option<R>)>() };
        *result = work.take().map(|work| work());
    }
    let limit = getrlimit(Resource::RLIMIT_STACK);
    if limit.is_ok_and(|(soft, _)| soft >= ENOUGH_STACK as u64) {
        return work();
    }
    let mut both = (Some(work), None);
    let size = 8 * ENOUGH_STACK;
    // SAFETY: new memory, whose lowest page is inaccessible, so an overflow is stopped there. Only this thread uses the
    // new stack, and only until the call returns; a panic does not leave `carry_out`. No safe code changes the stack of
    // the only thread.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let stack = libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0);
        if stack != libc::MAP_FAILED {
            libc::mprotect(stack, 1 << 16, libc::PROT_NONE);
            call_on(stack.byte_add(size), carry_out::<R, W>, (&raw mut both).cast());
            libc::munmap(stack, size);
        }
    }
    let (work, result) = both;
    match (result, work) {
        (Some(result), _) => result,
        (None, Some(work)) => work(),
        (None, None) => unreachable!("the work was done and gave nothing"),
    }
}

unsafe extern "C" {
    /// Calls `entry(data)` on the stack that ends at `top`.
    ///
    /// # Safety
    /// `top` is aligned to 16 and is the end of writable memory that no other code uses; `entry` may be called with `data`.
    #[link_name = "mpd_call_on"]
    fn call_on(
        top: *mut libc::c_void,
        entry: extern "C" fn(*mut libc::c_void),
        data: *mut libc::c_void,
    );
}

// The frame pointer keeps the old stack, and the directives say so: a backtrace, which errors may make, continues there.
// Otherwise it would read behind the end of the new stack.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.mpd_call_on,\"ax\",@progbits",
    ".globl mpd_call_on",
    ".hidden mpd_call_on",
    ".type mpd_call_on,@function",
    "mpd_call_on:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "mov rsp, rdi",
    "mov rdi, rdx",
    "call rsi",
    "mov rsp, rbp",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size mpd_call_on, . - mpd_call_on",
    ".popsection",
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.mpd_call_on,\"ax\",@progbits",
    ".globl mpd_call_on",
    ".hidden mpd_call_on",
    ".type mpd_call_on,@function",
    "mpd_call_on:",
    ".cfi_startproc",
    "stp x29, x30, [sp, #-16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset x29, -16",
    ".cfi_offset x30, -8",
    "mov x29, sp",
    ".cfi_def_cfa_register x29",
    "mov sp, x0",
    "mov x0, x2",
    "blr x1",
    "mov sp, x29",
    "ldp x29, x30, [sp], #16",
    ".cfi_def_cfa sp, 0",
    "ret",
    ".cfi_endproc",
    ".size mpd_call_on, . - mpd_call_on",
    ".popsection",
);

/// Which of 0, 1 and 2 were closed when this process began, a bit for each.
static CLOSED_AT_START: AtomicU8 = AtomicU8::new(0);

/// Examines the descriptors before `main`, because Rust's runtime opens `/dev/null` at closed ones.
extern "C" fn note_closed() {
    let mut three = [0, 1, 2].map(|fd| libc::pollfd { fd, events: 0, revents: 0 });
    // SAFETY: the call reads and writes these three structs. Without waiting it cannot fail.
    unsafe { libc::poll(three.as_mut_ptr(), 3, 0) };
    for (number, entry) in three.iter().enumerate() {
        if entry.revents & libc::POLLNVAL != 0 {
            CLOSED_AT_START.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
}

// SAFETY: the section holds pointers to functions without arguments, which the C library calls in order before `main`.
// This function needs nothing that the runtime prepares. No safe code runs that early.
#[unsafe(link_section = ".init_array")]
#[used]
static NOTE_CLOSED: extern "C" fn() = note_closed;

/// Which of the descriptors 0, 1 and 2 were closed when this process began.
pub fn closed_at_start() -> [bool; 3] {
    let closed = CLOSED_AT_START.load(Ordering::Relaxed);
    [0, 1, 2].map(|number| closed >> number & 1 == 1)
}

/// The environment of this process, each entry unchanged, also if it has not the form `NAME=VALUE`.
pub(crate) fn environment() -> Vec<Vec<u8>> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: a list of NUL-terminated strings that ends with NULL, or no list. It changes only in `remove_variables`,
    // while there is one thread: this one, which is here.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            entries.push(CStr::from_ptr(*next).to_bytes().to_vec());
            next = next.add(1);
        }
    }
    entries
}

/// Removes variables from the environment of this process.
///
/// # Errors
/// Another thread may read the environment meanwhile.
pub fn remove_variables(names: impl IntoIterator<Item = &'static str>) -> io::Result<()> {
    let names: Vec<_> = names.into_iter().filter(|name| std::env::var_os(name).is_some()).collect();
    // The directory has two links and one for each thread.
    if !names.is_empty() && std::fs::metadata("/proc/self/task")?.nlink() != 3 {
        return Err(io::Error::other("this process has several threads"));
    }
    for name in names {
        // SAFETY: this is the only thread, so no other reads the environment, and none begins meanwhile.
        unsafe { std::env::remove_var(name) };
    }
    Ok(())
}

/// Makes `main` of a program without the preparations of Rust's runtime: they take about twenty system calls, and read
/// `/proc/self/maps`. `$serve` is the program's `fn() -> ExitCode`. The program has this attribute, because only glibc
/// gives the arguments to the standard library without the runtime, and because tests have a `main` of their own:
/// `#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]`.
#[macro_export]
macro_rules! program {
    ($serve:path) => {
        #[cfg(not(all(target_env = "gnu", not(test))))]
        fn main() -> std::process::ExitCode {
            $crate::with_enough_stack($serve)
        }

        #[cfg(all(target_env = "gnu", not(test)))]
        #[allow(unsafe_code, reason = "the C library calls main, and there is one such function")]
        const _: () = {
            #[unsafe(no_mangle)]
            extern "C" fn main(
                count: std::ffi::c_int,
                arguments: *const *mut std::ffi::c_char,
            ) -> std::ffi::c_int {
                // SAFETY: these are the parameters of `main`.
                unsafe { $crate::begin(count, arguments, $serve) }
            }
        };
    };
}

/// Runs a program: with open standard descriptors, with enough stack, and without a signal for a lost reader. See
/// [`crate::program`].
///
/// # Safety
/// The first two are the parameters of `main`.
pub unsafe fn begin(count: c_int, arguments: *const *mut c_char, serve: fn() -> ExitCode) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { super::title::note_arguments(count, arguments) };
    for _ in closed_at_start().into_iter().filter(|closed| *closed) {
        // SAFETY: a constant path. The call takes the lowest free number: that of a closed descriptor.
        unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
    }
    super::ignore_signal(libc::SIGPIPE);
    let code = with_enough_stack(serve);
    // As the runtime does. An error has no reader.
    let _ = io::stdout().flush();
    // The standard library does not tell the number of a code.
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).map_or(1, c_int::from)
}

#[cfg(test)]
mod tests {
    use nix::sys::resource::setrlimit;

    use super::*;

    #[test]
    fn a_backtrace_of_work_on_another_stack_includes_its_caller() {
        let (_, hard) = getrlimit(Resource::RLIMIT_STACK).unwrap();
        setrlimit(Resource::RLIMIT_STACK, ENOUGH_STACK as u64 / 2, hard).unwrap();
        let own = std::hint::black_box(0_u8);
        let own = (&raw const own).addr();
        let (elsewhere, trace) = with_enough_stack(|| {
            let used = [0_u8; ENOUGH_STACK];
            let distance = std::hint::black_box(&used).as_ptr().addr().abs_diff(own);
            (distance > 2 * ENOUGH_STACK, std::backtrace::Backtrace::force_capture().to_string())
        });
        assert!(elsewhere, "it has a stack of its own");
        for frame in ["carry_out", "with_enough_stack", "a_backtrace_of_work_on_another_stack"] {
            assert!(trace.contains(frame), "{frame}: {trace}");
        }
    }

    #[test]
    fn variables_are_not_removed_while_another_thread_may_read_them() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || ended.recv());
        let error = remove_variables(["PATH"]).unwrap_err();
        assert_eq!(error.to_string(), "this process has several threads");
        assert!(std::env::var_os("PATH").is_some());
        drop(end);
        other.join().unwrap().unwrap_err();
        remove_variables(["MPD_NO_SUCH_VARIABLE"]).expect("nothing is removed");
    }
}
