//! The key-value space of the job, and the exchange in a ring.

use std::ffi::{c_char, c_int};

use pmi_client::Source;
use pmi_client::c::{
    ERR_INVALID_ARG, ERR_INVALID_KEY, ERR_INVALID_LENGTH, ERR_INVALID_VAL, ERR_INVALID_VAL_LENGTH,
    FAIL, Out, code, int, room, set_text, text,
};

use crate::LIBRARY;

/// Puts a pair.
///
/// # Safety
/// Both are NULL or texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_KVS_Put(key: *const c_char, value: *const c_char) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the texts.
        let (key, value) = unsafe { (text(key), text(value)) };
        Ok(LIBRARY.client()?.put(key.ok_or(ERR_INVALID_KEY)?, value.ok_or(ERR_INVALID_VAL)?)?)
    })
}

/// Waits until all ranks have called it. Then all ranks can get all pairs that were put before.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_KVS_Fence() -> c_int {
    code(|| Ok(LIBRARY.client()?.fence()?))
}

/// The value of a key. A value that does not fit is cut, and `vallen` is then the negative of the needed size.
///
/// # Safety
/// `jobid` and `key` are NULL or texts; `value` is NULL or has room for `maxvalue` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_KVS_Get(
    jobid: *const c_char,
    src_pmi_id: c_int,
    key: *const c_char,
    value: *mut c_char,
    maxvalue: c_int,
    vallen: Out,
) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for texts and room.
        let (job, key, room) = unsafe { (text(jobid), text(key), room(value, maxvalue)) };
        let (key, length) = (key.ok_or(ERR_INVALID_KEY)?, vallen.ok_or(ERR_INVALID_ARG)?);
        if value.is_null() {
            return Err(ERR_INVALID_VAL);
        }
        let room = room.filter(|room| room.count() > 0).ok_or(ERR_INVALID_VAL_LENGTH)?;
        let job = job.filter(|job| !job.is_empty());
        let source = Source { job, rank: u32::try_from(src_pmi_id).ok() };
        let found = LIBRARY.client()?.get_from(source, key)?.ok_or(FAIL)?;
        let fits = found.len().min(room.count() - 1);
        length.write(if fits == found.len() { int(fits) } else { -int(found.len() + 1) });
        set_text(&room, &found[..fits], FAIL)
    })
}

/// Exchanges a value with both neighbours in a ring of all ranks.
///
/// # Safety
/// `value` is NULL or a text; `left` and `right` are NULL or have room for `maxvalue` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMIX_Ring(
    value: *const c_char,
    rank: Out,
    ranks: Out,
    left: *mut c_char,
    right: *mut c_char,
    maxvalue: c_int,
) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for text and room.
        let (value, left, right) =
            unsafe { (text(value), room(left, maxvalue), room(right, maxvalue)) };
        let value = value.ok_or(ERR_INVALID_VAL)?;
        let (Some(rank), Some(ranks), Some(left), Some(right)) = (rank, ranks, left, right) else {
            return Err(ERR_INVALID_ARG);
        };
        let ring = LIBRARY.client()?.ring(value)?;
        set_text(&left, &ring.left, ERR_INVALID_LENGTH)?;
        set_text(&right, &ring.right, ERR_INVALID_LENGTH)?;
        rank.write(int(ring.position));
        ranks.write(int(ring.size));
        Ok(())
    })
}
