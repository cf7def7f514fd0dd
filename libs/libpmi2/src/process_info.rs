//! Initialization and end of the library, and the rank of this process in its job.

use std::ffi::{c_char, c_int};

use pmi_client::c::{ERR_INVALID_ARG, Out, code, int, required, room, text};

use crate::LIBRARY;

/// Connects. A second call before `PMI2_Finalize` changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Init(spawned: Out, size: Out, rank: Out, appnum: Out) -> c_int {
    code(|| {
        let (Some(spawned), Some(size), Some(rank), Some(appnum)) = (spawned, size, rank, appnum)
        else {
            return Err(ERR_INVALID_ARG);
        };
        let client = LIBRARY.initialize()?;
        let process_info = client.process_info();
        spawned.write(process_info.is_spawned.into());
        size.write(int(process_info.size));
        rank.write(int(process_info.rank));
        appnum.write(process_info.appnum);
        Ok(())
    })
}

/// 1 if the library is initialized, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Initialized() -> c_int {
    LIBRARY.is_initialized().into()
}

/// Reports that this process ends as planned.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Finalize() -> c_int {
    LIBRARY.finalize()
}

/// Ends this process, and with a flag other than 0 the job.
///
/// # Safety
/// `msg` is NULL or a text.
#[unsafe(no_mangle)]
#[expect(clippy::exit, reason = "this is its purpose")]
pub unsafe extern "C" fn PMI2_Abort(flag: c_int, msg: *const c_char) -> c_int {
    // SAFETY: the caller vouches for the text.
    let message = unsafe { text(msg) }.unwrap_or_default();
    // With flag 0 the exit code still ends the job, unless an option of mpirun prevents it.
    LIBRARY.abort((flag != 0).then_some(ABORTED), message);
    std::process::exit(ABORTED)
}

/// The name of the job.
///
/// # Safety
/// `jobid` is NULL or has room for `jobid_size` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Job_GetId(jobid: *mut c_char, jobid_size: c_int) -> c_int {
    // SAFETY: the caller vouches for the room.
    code(|| LIBRARY.job_name(&required(jobid, unsafe { room(jobid, jobid_size) })?))
}

/// The rank of this process.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Job_GetRank(rank: Out) -> c_int {
    LIBRARY.number(rank, |client| Ok(int(client.process_info().rank)))
}

/// The number of ranks on this node.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Info_GetSize(size: Out) -> c_int {
    LIBRARY.number(size, |client| Ok(int(client.ranks_of_node()?.len())))
}

/// Sends a signal to a rank of this job. Real-time signals are allowed too. Only MPD supports it.
#[unsafe(no_mangle)]
pub extern "C" fn MPD2_Signal_rank(rank: c_int, signal: c_int) -> c_int {
    LIBRARY.signal_rank(rank, signal)
}

/// The exit code of an abort. The interface has no parameter for it.
const ABORTED: c_int = 1;
