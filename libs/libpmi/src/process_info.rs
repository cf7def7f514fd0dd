//! Initialization and end of the library, and the rank of this process in its job.

use std::ffi::{c_char, c_int};

use pmi_client::c::{
    ERR_INVALID_ARG, ERR_INVALID_LENGTH, Out, code, int, required, room, set, text,
};

use crate::LIBRARY;

/// Connects. A second call before `PMI_Finalize` changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Init(spawned: Out) -> c_int {
    code(|| {
        let spawned = spawned.ok_or(ERR_INVALID_ARG)?;
        spawned.write(LIBRARY.initialize()?.process_info().is_spawned.into());
        Ok(())
    })
}

/// Whether the library is initialized.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Initialized(initialized: Out) -> c_int {
    code(|| set(initialized, LIBRARY.is_initialized().into(), ERR_INVALID_ARG))
}

/// Reports that this process ends as planned.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Finalize() -> c_int {
    LIBRARY.finalize()
}

/// Ends the job and this process.
///
/// # Safety
/// `error_msg` is NULL or a text.
#[unsafe(no_mangle)]
#[expect(clippy::exit, reason = "this is its purpose")]
pub unsafe extern "C" fn PMI_Abort(exit_code: c_int, error_msg: *const c_char) -> c_int {
    // SAFETY: the caller vouches for the text.
    let message = unsafe { text(error_msg) }.unwrap_or_default();
    LIBRARY.abort(Some(exit_code), message);
    std::process::exit(if exit_code & 0xff == 0 { 1 } else { exit_code })
}

/// The number of ranks of the job.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_size(size: Out) -> c_int {
    LIBRARY.number(size, |client| Ok(int(client.process_info().size)))
}

/// The rank of this process.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_rank(rank: Out) -> c_int {
    LIBRARY.number(rank, |client| Ok(int(client.process_info().rank)))
}

/// The number of processes that the process manager can run; -1 if it is unknown.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_universe_size(size: Out) -> c_int {
    LIBRARY.number(size, |client| Ok(client.universe_size()?.map_or(-1, int)))
}

/// The number of this program in the job.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_appnum(appnum: Out) -> c_int {
    LIBRARY.number(appnum, |client| Ok(client.process_info().appnum))
}

/// Waits until all ranks have called it.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Barrier() -> c_int {
    code(|| Ok(LIBRARY.client()?.fence()?))
}

/// The number of ranks on this node.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_clique_size(size: Out) -> c_int {
    LIBRARY.number(size, |client| Ok(int(client.ranks_of_node()?.len())))
}

/// The ranks on this node.
///
/// # Safety
/// `ranks` is NULL or has room for `length` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_clique_ranks(ranks: *mut c_int, length: c_int) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the room.
        let room = required(ranks, unsafe { room(ranks, length) })?;
        let found = LIBRARY.client()?.ranks_of_node()?;
        if found.len() > room.count() {
            return Err(ERR_INVALID_LENGTH);
        }
        room.fill(found.into_iter().map(int));
        Ok(())
    })
}

/// The name of the job.
///
/// # Safety
/// `id_str` is NULL or has room for `length` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_id(id_str: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller vouches for the room.
    unsafe { job_name(id_str, length) }
}

/// The name of the ranks that share a keyval space: the name of the job.
///
/// # Safety
/// `id_str` is NULL or has room for `length` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_kvs_domain_id(id_str: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller vouches for the room.
    unsafe { job_name(id_str, length) }
}

/// The size of a buffer for the name of a job.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_id_length_max(length: Out) -> c_int {
    LIBRARY.number(length, |client| Ok(int(client.limits().job)))
}

/// Sends a signal to a rank of this job. Real-time signals are allowed too. Only MPD supports it.
#[unsafe(no_mangle)]
pub extern "C" fn MPD_Signal_rank(rank: c_int, signal: c_int) -> c_int {
    LIBRARY.signal_rank(rank, signal)
}

/// Writes the name of the job into a buffer of C.
///
/// # Safety
/// `name` is NULL or has room for `length` characters.
pub(crate) unsafe fn job_name(name: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller vouches for the room.
    code(|| LIBRARY.job_name(&required(name, unsafe { room(name, length) })?))
}
