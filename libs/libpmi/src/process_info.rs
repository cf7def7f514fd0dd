//! Beginning and end, and the place of this process in its job.

use std::ffi::{c_char, c_int};
use std::io::Write;
use std::sync::Arc;

use pmi_client::c::{
    ERR_INIT, ERR_INVALID_ARG, ERR_INVALID_LENGTH, Out, Room, code, connect, int, room, set,
    set_text, text,
};
use pmi_client::{Client, Version};

use crate::{client, state};

/// Connects; a second call without a finalize between changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Init(spawned: Out) -> c_int {
    code(|| {
        let spawned = spawned.ok_or(ERR_INVALID_ARG)?;
        let mut state = state();
        let client = match &*state {
            Some(client) => client,
            None => state.insert(Arc::new(connect(Version::One)?)),
        };
        spawned.write(client.process_info().is_spawned.into());
        Ok(())
    })
}

/// Whether there is a connection.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Initialized(initialized: Out) -> c_int {
    code(|| set(initialized, state().is_some().into(), ERR_INVALID_ARG))
}

/// Says goodbye.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Finalize() -> c_int {
    code(|| {
        let client = state().take().ok_or(ERR_INIT)?;
        Ok(client.finalize_shared()?)
    })
}

/// Ends the job and this process.
///
/// # Safety
/// `error_msg` is NULL or a text.
#[unsafe(no_mangle)]
#[expect(clippy::exit, reason = "this is what it is for")]
pub unsafe extern "C" fn PMI_Abort(exit_code: c_int, error_msg: *const c_char) -> c_int {
    // SAFETY: the caller vouches for the text.
    let message = unsafe { text(error_msg) }.unwrap_or_default();
    code(|| {
        let client = client().ok();
        if client.as_ref().is_none_or(|client| client.process_info().size == 1)
            && !message.is_empty()
        {
            // There may be nobody else to say it.
            let _ = writeln!(std::io::stderr(), "{}", String::from_utf8_lossy(message));
        }
        // What comes of it makes no difference now.
        drop(client.map(|client| client.abort(exit_code, message)));
        Ok(())
    });
    std::process::exit(if exit_code & 0xff == 0 { 1 } else { exit_code })
}

/// How many ranks the job has.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_size(size: Out) -> c_int {
    number(size, |client| Ok(int(client.process_info().size)))
}

/// The rank of this process.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_rank(rank: Out) -> c_int {
    number(rank, |client| Ok(int(client.process_info().rank)))
}

/// How many processes there could be, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_universe_size(size: Out) -> c_int {
    number(size, |client| Ok(client.universe_size()?.map_or(-1, int)))
}

/// Which of the job's programs this is.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_appnum(appnum: Out) -> c_int {
    number(appnum, |client| Ok(client.process_info().appnum))
}

/// Waits for all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Barrier() -> c_int {
    code(|| Ok(client()?.fence()?))
}

/// How many ranks are on this node.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_clique_size(size: Out) -> c_int {
    number(size, |client| Ok(int(client.ranks_of_node()?.len())))
}

/// The ranks on this node.
///
/// # Safety
/// `ranks` is NULL or has room for `length` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_clique_ranks(ranks: *mut c_int, length: c_int) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the room.
        let room = unsafe { room_or_code(ranks, length) }?;
        let found = client()?.ranks_of_node()?;
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
    unsafe { name(id_str, length) }
}

/// The name of those who share a keyval space: that of the job.
///
/// # Safety
/// `id_str` is NULL or has room for `length` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_kvs_domain_id(id_str: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller vouches for the room.
    unsafe { name(id_str, length) }
}

/// How much room a name needs.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Get_id_length_max(length: Out) -> c_int {
    number(length, |client| Ok(int(client.limits().job)))
}

/// Has a signal sent to a rank of this job, a real-time one as well. Only MPD does that.
#[unsafe(no_mangle)]
pub extern "C" fn MPD_Signal_rank(rank: c_int, signal: c_int) -> c_int {
    code(|| {
        let rank = u32::try_from(rank).map_err(|_| ERR_INVALID_ARG)?;
        if signal <= 0 {
            return Err(ERR_INVALID_ARG);
        }
        Ok(client()?.signal_rank(rank, signal)?)
    })
}

/// Writes a number of the client where C wants it.
pub(crate) fn number(out: Out, find: impl FnOnce(&Client) -> Result<c_int, c_int>) -> c_int {
    code(|| {
        let out = out.ok_or(ERR_INVALID_ARG)?;
        out.write(find(&*client()?)?);
        Ok(())
    })
}

/// Writes the name of the job where C wants it.
///
/// # Safety
/// `to` is NULL or has room for `length` characters.
pub(crate) unsafe fn name(to: *mut c_char, length: c_int) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the room.
        let room = unsafe { room_or_code(to, length) }?;
        set_text(&room, &client()?.process_info().job, ERR_INVALID_LENGTH)
    })
}

/// The room C gives, or what is wrong with it.
///
/// # Safety
/// As of [`room`].
unsafe fn room_or_code<T>(first: *mut T, length: c_int) -> Result<Room<T>, c_int> {
    if length <= 0 {
        return Err(if first.is_null() { ERR_INVALID_ARG } else { ERR_INVALID_LENGTH });
    }
    // SAFETY: the caller vouches for the room.
    unsafe { room(first, length) }.ok_or(ERR_INVALID_ARG)
}
