//! What a process finds when it begins: which standard descriptors are closed, how much stack there is, and its
//! environment as it is.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU8, Ordering};

use nix::sys::resource::{Resource, getrlimit};

/// What a program of the suite needs of stack, and has it in any case.
const ENOUGH_STACK: usize = 1 << 20;

/// Runs `work` on a stack that is large enough, in this thread, whatever the limit of stacks is: that of the
/// user's shell (`ulimit -s`) is for programs. It stays as it is.
pub fn with_enough_stack<R, W: FnOnce() -> R>(work: W) -> R {
    extern "C" fn carry_out<R, W: FnOnce() -> R>(both: *mut libc::c_void) {
        // SAFETY: the caller below passes its own pair, which it leaves alone meanwhile.
        let (work, result) = unsafe { &mut *both.cast::<(Option<W>, Option<R>)>() };
        *result = work.take().map(|work| work());
    }
    let limit = getrlimit(Resource::RLIMIT_STACK);
    if limit.is_ok_and(|(soft, _)| soft >= ENOUGH_STACK as u64) {
        return work();
    }
    let mut both = (Some(work), None);
    let size = 8 * ENOUGH_STACK;
    // SAFETY: new memory, of which the lowest page is left without access: whoever goes so deep is stopped there.
    // The new stack is used by this thread alone and until the call is back; a panic does not leave `carry_out`.
    // Nothing safe changes the stack of the only thread.
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

/// Calls `entry(data)` on the stack that ends at `top`.
///
/// # Safety
/// `top` is aligned to 16 and the end of writable memory that nobody else uses; `entry` may be called with `data`.
unsafe fn call_on(
    top: *mut libc::c_void,
    entry: extern "C" fn(*mut libc::c_void),
    data: *mut libc::c_void,
) {
    // SAFETY: the caller's promise; the register that keeps the old stack is one that a callee preserves.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {entry}",
            "mov rsp, r12",
            top = in(reg) top,
            entry = in(reg) entry,
            in("rdi") data,
            out("r12") _,
            clobber_abi("C"),
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {entry}",
            "mov sp, x20",
            top = in(reg) top,
            entry = in(reg) entry,
            in("x0") data,
            out("x20") _,
            clobber_abi("C"),
        );
    }
}

/// Which of 0, 1 and 2 were closed when this process began, a bit for each.
static CLOSED_AT_START: AtomicU8 = AtomicU8::new(0);

/// Looks before `main`, since the runtime of Rust opens `/dev/null` in the place of closed ones.
extern "C" fn note_closed() {
    for number in 0..3 {
        // SAFETY: fcntl on a number; a closed one gives EBADF.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
            CLOSED_AT_START.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
}

// SAFETY: the section holds pointers to functions without arguments that the C library calls one after the
// other before `main`; this one needs nothing that the runtime prepares. Nothing safe runs that early.
#[unsafe(link_section = ".init_array")]
#[used]
static NOTE_CLOSED: extern "C" fn() = note_closed;

/// Which of the descriptors 0, 1 and 2 this process was started without.
pub fn closed_at_start() -> [bool; 3] {
    let closed = CLOSED_AT_START.load(Ordering::Relaxed);
    [0, 1, 2].map(|number| closed >> number & 1 == 1)
}

/// The environment of this process, each entry as it is, whether it has the form `NAME=VALUE` or not.
pub(crate) fn environment() -> Vec<Vec<u8>> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: a list of NUL-terminated strings that ends with NULL, if there is one at all. Nobody changes it:
    // no program of the suite sets variables of its own.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            entries.push(CStr::from_ptr(*next).to_bytes().to_vec());
            next = next.add(1);
        }
    }
    entries
}
