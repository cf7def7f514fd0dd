//! Beginning and end, and the place of this process in its job.

use std::ffi::{c_char, c_int};
use std::io::Write;
use std::sync::Arc;

use pmi_client::Version;
use pmi_client::c::{
    ERR_INIT, ERR_INVALID_ARG, ERR_INVALID_LENGTH, Out, code, connect, int, room, set, set_text,
    text,
};

use crate::{client, state};

/// Connects; a second call without a finalize between changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Init(spawned: Out, size: Out, rank: Out, appnum: Out) -> c_int {
    code(|| {
        let (Some(spawned), Some(size), Some(rank), Some(appnum)) = (spawned, size, rank, appnum)
        else {
            return Err(ERR_INVALID_ARG);
        };
        let mut state = state();
        let client = match &*state {
            Some(client) => client,
            None => state.insert(Arc::new(connect(Version::Two)?)),
        };
        let process_info = client.process_info();
        spawned.write(process_info.is_spawned.into());
        size.write(int(process_info.size));
        rank.write(int(process_info.rank));
        appnum.write(process_info.appnum);
        Ok(())
    })
}

/// 1 if there is a connection, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Initialized() -> c_int {
    state().is_some().into()
}

/// Says goodbye.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Finalize() -> c_int {
    code(|| {
        let client = state().take().ok_or(ERR_INIT)?;
        Ok(client.finalize_shared()?)
    })
}

/// Ends this process, and with a flag other than 0 the job.
///
/// # Safety
/// `msg` is NULL or a text.
#[unsafe(no_mangle)]
#[expect(clippy::exit, reason = "this is what it is for")]
pub unsafe extern "C" fn PMI2_Abort(flag: c_int, msg: *const c_char) -> c_int {
    // SAFETY: the caller vouches for the text.
    let message = unsafe { text(msg) }.unwrap_or_default();
    code(|| {
        let client = client().ok();
        if client.as_ref().is_none_or(|client| client.process_info().size == 1)
            && !message.is_empty()
        {
            // There may be nobody else to say it.
            let _ = writeln!(std::io::stderr(), "{}", String::from_utf8_lossy(message));
        }
        // A process that ends with an error ends its job as well, unless mpirun was told otherwise.
        if let Some(client) = client.filter(|_| flag != 0) {
            let _ = client.abort(ABORTED, message);
        }
        Ok(())
    });
    std::process::exit(ABORTED)
}

/// The name of the job.
///
/// # Safety
/// `jobid` is NULL or has room for `jobid_size` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Job_GetId(jobid: *mut c_char, jobid_size: c_int) -> c_int {
    code(|| {
        if jobid.is_null() {
            return Err(ERR_INVALID_ARG);
        }
        // SAFETY: the caller vouches for the room.
        let room = unsafe { room(jobid, jobid_size) }.ok_or(ERR_INVALID_LENGTH)?;
        set_text(&room, &client()?.process_info().job, ERR_INVALID_LENGTH)
    })
}

/// The rank of this process.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Job_GetRank(rank: Out) -> c_int {
    code(|| {
        let rank = rank.ok_or(ERR_INVALID_ARG)?;
        set(Some(rank), int(client()?.process_info().rank), ERR_INVALID_ARG)
    })
}

/// How many ranks are on this node.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Info_GetSize(size: Out) -> c_int {
    code(|| {
        let size = size.ok_or(ERR_INVALID_ARG)?;
        set(Some(size), int(client()?.ranks_of_node()?.len()), ERR_INVALID_ARG)
    })
}

/// Has a signal sent to a rank of this job, a real-time one as well. Only MPD does that.
#[unsafe(no_mangle)]
pub extern "C" fn MPD2_Signal_rank(rank: c_int, signal: c_int) -> c_int {
    code(|| {
        let rank = u32::try_from(rank).map_err(|_| ERR_INVALID_ARG)?;
        if signal <= 0 {
            return Err(ERR_INVALID_ARG);
        }
        Ok(client()?.signal_rank(rank, signal)?)
    })
}

/// The interface has no code to give.
const ABORTED: c_int = 1;
