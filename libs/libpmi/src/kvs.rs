//! The keyval space. A job has only one, so the creation of a space returns its name.

use std::ffi::{c_char, c_int};
use std::sync::Mutex;
use std::sync::PoisonError;

use pmi_client::c::{
    ERR_INVALID_ARG, ERR_INVALID_KEY, ERR_INVALID_KEY_LENGTH, ERR_INVALID_LENGTH, ERR_INVALID_VAL,
    ERR_INVALID_VAL_LENGTH, FAIL, Out, Outcome, code, int, room, set_text, text,
};

use crate::process_info::job_name;
use crate::{ERR_INVALID_KVS, LIBRARY};

/// The name of the job's keyval space.
///
/// # Safety
/// `kvsname` is NULL or has room for `length` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_my_name(kvsname: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller vouches for the room.
    unsafe { job_name(kvsname, length) }
}

/// The size of a buffer for the name of a keyval space.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Get_name_length_max(length: Out) -> c_int {
    LIBRARY.number(length, |client| Ok(int(client.limits().job)))
}

/// The size of a buffer for a key.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Get_key_length_max(length: Out) -> c_int {
    LIBRARY.number(length, |client| Ok(int(client.limits().key)))
}

/// The size of a buffer for a value.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Get_value_length_max(length: Out) -> c_int {
    LIBRARY.number(length, |client| Ok(int(client.limits().value)))
}

/// The keyval space of the job.
///
/// # Safety
/// `kvsname` is NULL or has room for `length` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Create(kvsname: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller vouches for the room.
    unsafe { job_name(kvsname, length) }
}

/// Does nothing: the keyval space ends with the job.
///
/// # Safety
/// `kvsname` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Destroy(kvsname: *const c_char) -> c_int {
    // SAFETY: the caller vouches for the text.
    code(|| unsafe { check_name(kvsname) })
}

/// Puts a pair.
///
/// # Safety
/// Each of the three is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Put(
    kvsname: *const c_char,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the texts.
        let (key, value) = unsafe {
            check_name(kvsname)?;
            (text(key).ok_or(ERR_INVALID_KEY)?, text(value).ok_or(ERR_INVALID_VAL)?)
        };
        Ok(LIBRARY.client()?.put(key, value)?)
    })
}

/// Does nothing, since a put returns after the answer of the server.
///
/// # Safety
/// `kvsname` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Commit(kvsname: *const c_char) -> c_int {
    // SAFETY: the caller vouches for the text.
    code(|| unsafe { check_name(kvsname) })
}

/// The value of a key.
///
/// # Safety
/// `kvsname` and `key` are NULL or texts; `value` is NULL or has room for `length` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get(
    kvsname: *const c_char,
    key: *const c_char,
    value: *mut c_char,
    length: c_int,
) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for texts and room.
        let (key, room) = unsafe {
            check_name(kvsname)?;
            let key = text(key).ok_or(ERR_INVALID_KEY)?;
            if value.is_null() {
                return Err(ERR_INVALID_VAL);
            }
            (key, room(value, length).ok_or(ERR_INVALID_LENGTH)?)
        };
        let found = LIBRARY.client()?.get(key)?.ok_or(FAIL)?;
        set_text(&room, &found, ERR_INVALID_LENGTH)
    })
}

/// The first pair. An empty key means that there is no further pair.
///
/// # Safety
/// `kvsname` is NULL or a text. `key` is NULL or has room for `key_len` characters, and `val` is NULL
/// or has room for `val_len` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Iter_first(
    kvsname: *const c_char,
    key: *mut c_char,
    key_len: c_int,
    val: *mut c_char,
    val_len: c_int,
) -> c_int {
    code(|| {
        *NEXT.lock().unwrap_or_else(PoisonError::into_inner) = 0;
        // SAFETY: the caller vouches for text and room.
        unsafe { next_pair(kvsname, (key, key_len), (val, val_len)) }
    })
}

/// The next pair. An empty key means that there is no further pair.
///
/// # Safety
/// As of [`PMI_KVS_Iter_first`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Iter_next(
    kvsname: *const c_char,
    key: *mut c_char,
    key_len: c_int,
    val: *mut c_char,
    val_len: c_int,
) -> c_int {
    // SAFETY: the caller vouches for text and room.
    code(|| unsafe { next_pair(kvsname, (key, key_len), (val, val_len)) })
}

/// The index of the next pair. The interface has one iteration for the whole process.
static NEXT: Mutex<usize> = Mutex::new(0);

/// Writes the next pair into the buffers of C.
///
/// # Safety
/// As of [`PMI_KVS_Iter_first`].
unsafe fn next_pair(
    kvsname: *const c_char,
    key: (*mut c_char, c_int),
    val: (*mut c_char, c_int),
) -> Outcome {
    if key.0.is_null() || val.0.is_null() {
        return Err(if key.0.is_null() { ERR_INVALID_KEY } else { ERR_INVALID_VAL });
    }
    // SAFETY: the caller vouches for text and room.
    let (key_room, value_room) = unsafe {
        check_name(kvsname)?;
        let key_room = room(key.0, key.1).ok_or(ERR_INVALID_KEY_LENGTH)?;
        (key_room, room(val.0, val.1).ok_or(ERR_INVALID_VAL_LENGTH)?)
    };
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let pair = LIBRARY.client()?.entry(*next)?;
    let is_end = pair.is_none();
    let (key, value) = pair.unwrap_or_default();
    set_text(&key_room, &key, ERR_INVALID_KEY_LENGTH)?;
    set_text(&value_room, &value, ERR_INVALID_VAL_LENGTH)?;
    *next += usize::from(!is_end);
    Ok(())
}

/// Fails if a text is not the name of the keyval space of this job.
///
/// # Safety
/// `kvsname` is NULL or a text.
unsafe fn check_name(kvsname: *const c_char) -> Outcome {
    // SAFETY: the caller vouches for the text.
    let name = unsafe { text(kvsname) }.ok_or(ERR_INVALID_ARG)?;
    if LIBRARY.client()?.process_info().job == name { Ok(()) } else { Err(ERR_INVALID_KVS) }
}
