//! Symbols that debuggers and other tools read in the memory of `mpirun`. They follow the MPIR
//! Process Acquisition Interface, version 1.0, of the MPI Forum's tools working group.
//!
//! The interface defines their names and types. Another process reads and writes them, so every
//! access here is volatile. `mpirun` has one thread, and only this module accesses the symbols.
//! Tools read the types from debug information. Rust's debug information has the symbols in the
//! namespace `mpirun::mpir`, where tools do not look, so `mpir.s` has them as C would. `build.rs`
//! links it into releases, too, which have no other debug information.
//!
//! The absence of symbols has a meaning. `MPIR_acquired_pre_main` is absent, because ranks run when
//! they are reported, and are held in `MPI_Init` at the earliest. `MPIR_ignore_queues` is absent,
//! because the libraries of the ranks may have message queues to show.
#![expect(unsafe_code, reason = "symbols of a C interface; each block says why it is sound")]

use std::ffi::{CString, c_char, c_int};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

/// A process of the job, in the C layout of a struct with three members.
#[repr(C)]
#[derive(Debug)]
pub struct MPIR_PROCDESC {
    pub host_name: *const c_char,
    /// Path of the program on that host.
    pub executable_name: *const c_char,
    /// Process id on that host.
    pub pid: c_int,
}

// Debug information of the type above and the variables below.
std::arch::global_asm!(include_str!("mpir.s"));
const _: () = assert!(size_of::<MPIR_PROCDESC>() == 24 && offset_of!(MPIR_PROCDESC, pid) == 16);

/// [`MPIR_debug_state`]: nothing was reported.
pub const MPIR_NULL: c_int = 0;
/// [`MPIR_debug_state`]: all processes were started and are in the table.
pub const MPIR_DEBUG_SPAWNED: c_int = 1;
/// [`MPIR_debug_state`]: the job is being ended; [`MPIR_debug_abort_string`] has the reason.
pub const MPIR_DEBUG_ABORTING: c_int = 2;

/// Set by a tool that controls this process.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_being_debugged: c_int = 0;

/// The processes by rank, once they are known.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_proctable: *mut MPIR_PROCDESC = ptr::null_mut();

/// Number of processes in the table.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_proctable_size: c_int = 0;

/// The reason of a stop at [`MPIR_Breakpoint`].
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_debug_state: c_int = MPIR_NULL;

/// Why the job is being ended.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_debug_abort_string: *const c_char = ptr::null();

/// Its presence means that this process starts ranks and is not a rank.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_i_am_starter: c_int = 1;

/// Its presence means that `mpirun` releases the ranks, so a tool need not attach to all of them.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_partial_attach_ok: c_int = 1;

/// Its presence means that a tool should show a rank at `main`, because a held rank is inside its
/// library.
#[unsafe(no_mangle)]
#[used]
pub static mut MPIR_force_to_main: c_int = 1;

/// Number of reports to tools. It also makes [`MPIR_Breakpoint`] unique, so that no linker merges
/// it with another function.
static REPORTED: AtomicUsize = AtomicUsize::new(0);

/// The function at which a tool sets its breakpoint.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn MPIR_Breakpoint() {
    REPORTED.fetch_add(1, Ordering::SeqCst);
}

/// Whether a tool controls this process and requests reports.
pub fn is_being_debugged() -> bool {
    // SAFETY: a static integer, which the tool writes while this process is stopped.
    unsafe { (&raw const MPIR_being_debugged).read_volatile() != 0 }
}

/// Publishes the processes of the job, by rank, to tools that attach. A process is given by the
/// indices of its host and its program in these lists, and by its process id. The table is kept
/// until this process ends.
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
    // SAFETY: static variables; the memory that they point to is never freed.
    unsafe {
        (&raw mut MPIR_proctable).write_volatile(table.as_mut_ptr());
        let size = c_int::try_from(table.len()).unwrap_or(0);
        (&raw mut MPIR_proctable_size).write_volatile(size);
    }
}

/// Stops at the breakpoint of a tool, if there is one, after the processes were published.
pub fn report_spawned() {
    report(MPIR_DEBUG_SPAWNED);
}

/// Publishes that the job is being ended, and the reason.
pub fn show_abort(why: &str) {
    let text = CString::new(why.replace('\0', " ")).unwrap_or_default();
    // SAFETY: a static variable; the memory that it points to is never freed.
    unsafe { (&raw mut MPIR_debug_abort_string).write_volatile(text.into_raw()) };
    report(MPIR_DEBUG_ABORTING);
}

fn report(state: c_int) {
    // SAFETY: a static integer.
    unsafe { (&raw mut MPIR_debug_state).write_volatile(state) };
    if is_being_debugged() {
        // All values must be in memory when the tool reads them.
        compiler_fence(Ordering::SeqCst);
        MPIR_Breakpoint();
    }
}
