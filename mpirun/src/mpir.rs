//! What debuggers and other tools read in the memory of `mpirun`: the symbols of the MPIR Process
//! Acquisition Interface, version 1.0, of the MPI Forum's tools working group.
//!
//! Their names and types are its. They are read and written by another process, so every access of ours is
//! volatile. `mpirun` has one thread; nobody else here touches them. Their types are told by debug information, and
//! what Rust could say of them stands under `mpirun::mpir`, where no tool looks: `mpir.s` has it as C would say it.
//! `build.rs` has that linked into releases, too, which have no other.
//!
//! What is absent says something, too. There is no `MPIR_acquired_pre_main`: ranks run when they are
//! told, and wait in `MPI_Init` at the earliest. There is no `MPIR_ignore_queues`, for the libraries of
//! the ranks may have message queues to show.
#![expect(unsafe_code, reason = "symbols of a C interface; each block says why it is sound")]

use std::ffi::{CString, c_char, c_int};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

/// One process of the job, in the layout that C gives to three members.
#[repr(C)]
#[derive(Debug)]
pub struct MPIR_PROCDESC {
    /// The host's name.
    pub host_name: *const c_char,
    /// The program's path there.
    pub executable_name: *const c_char,
    /// Its process id there.
    pub pid: c_int,
}

// The type above and the variables below, for readers of debug information.
std::arch::global_asm!(include_str!("mpir.s"));
const _: () = assert!(size_of::<MPIR_PROCDESC>() == 24 && offset_of!(MPIR_PROCDESC, pid) == 16);

/// Nothing to tell yet.
pub const MPIR_NULL: c_int = 0;
/// [`MPIR_debug_state`]: all processes were started, and are in the table.
pub const MPIR_DEBUG_SPAWNED: c_int = 1;
/// [`MPIR_debug_state`]: the job is being ended; [`MPIR_debug_abort_string`] says why.
pub const MPIR_DEBUG_ABORTING: c_int = 2;

/// Set by a tool that controls this process.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_being_debugged: c_int = 0;

/// The processes by rank, once they are known.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_proctable: *mut MPIR_PROCDESC = ptr::null_mut();

/// How many they are.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_proctable_size: c_int = 0;

/// Why a tool finds itself at [`MPIR_Breakpoint`].
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_debug_state: c_int = MPIR_NULL;

/// Why the job is being ended.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_debug_abort_string: *const c_char = ptr::null();

/// Its presence says that this process starts ranks and is none.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_i_am_starter: c_int = 1;

/// Its presence says that we let the ranks go ourselves, so that a tool need not attach to all of them.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_partial_attach_ok: c_int = 1;

/// Its presence says that a rank is best shown at `main`: where it is held is deep in its library.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_force_to_main: c_int = 1;

/// How often a tool was told; also what makes [`MPIR_Breakpoint`] a function like no other, which no
/// linker folds with another one.
static TOLD: AtomicUsize = AtomicUsize::new(0);

/// Where a tool has its breakpoint.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn MPIR_Breakpoint() {
    TOLD.fetch_add(1, Ordering::SeqCst);
}

/// Whether a tool controls this process and wants to hear of the job.
pub fn is_being_debugged() -> bool {
    // SAFETY: an integer of static life, which the tool writes while we are stopped.
    unsafe { (&raw const MPIR_being_debugged).read_volatile() != 0 }
}

/// Shows the processes of the job, by rank, to whoever attaches. Each is the numbers of its host and of its
/// program in those lists, and its process id there. All of it is kept to the end of this process.
pub fn show(hosts: Vec<CString>, programs: Vec<CString>, processes: &[(usize, usize, u32)]) {
    let kept = |text: CString| text.into_raw().cast_const();
    let hosts: Vec<_> = hosts.into_iter().map(kept).collect();
    let programs: Vec<_> = programs.into_iter().map(kept).collect();
    let of = |texts: &[*const c_char], at: usize| texts.get(at).copied().unwrap_or(c"".as_ptr());
    let described = processes.iter().map(|&(host, program, pid)| MPIR_PROCDESC {
        host_name: of(&hosts, host),
        executable_name: of(&programs, program),
        pid: c_int::try_from(pid).unwrap_or(0),
    });
    let table = Box::leak(described.collect::<Box<[_]>>());
    // SAFETY: variables of static life; what they point to is never freed.
    unsafe {
        (&raw mut MPIR_proctable).write_volatile(table.as_mut_ptr());
        let size = c_int::try_from(table.len()).unwrap_or(0);
        (&raw mut MPIR_proctable_size).write_volatile(size);
    }
}

/// Stops at the breakpoint of a tool that is there: all processes were shown.
pub fn tell_spawned() {
    tell(MPIR_DEBUG_SPAWNED);
}

/// Shows that the job is being ended, and why.
pub fn show_abort(why: &str) {
    let text = CString::new(why.replace('\0', " ")).unwrap_or_default();
    // SAFETY: a variable of static life; what it points to is never freed.
    unsafe { (&raw mut MPIR_debug_abort_string).write_volatile(text.into_raw()) };
    tell(MPIR_DEBUG_ABORTING);
}

fn tell(state: c_int) {
    // SAFETY: an integer of static life.
    unsafe { (&raw mut MPIR_debug_state).write_volatile(state) };
    if is_being_debugged() {
        // All was written when the tool looks.
        compiler_fence(Ordering::SeqCst);
        MPIR_Breakpoint();
    }
}
