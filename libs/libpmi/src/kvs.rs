//! The keyval space. A job has one; who asks for a new one is given that, as MPD's server does.

use std::ffi::{c_char, c_int};
use std::sync::Mutex;
use std::sync::PoisonError;

use pmi_client::c::{
    ERR_INVALID_ARG, ERR_INVALID_KEY, ERR_INVALID_KEY_LENGTH, ERR_INVALID_LENGTH, ERR_INVALID_VAL,
    ERR_INVALID_VAL_LENGTH, FAIL, Out, Outcome, code, int, room, set_text, text,
};

use crate::process_info::{name, number};
use crate::{ERR_INVALID_KVS, client};

/// The name of the job's keyval space.
///
/// # Safety
/// `kvsname` is NULL or has room for `length` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_my_name(kvsname: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller vouches for the room.
    unsafe { name(kvsname, length) }
}

/// How much room the name of a keyval space needs.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Get_name_length_max(length: Out) -> c_int {
    number(length, |client| Ok(int(client.limits().job)))
}

/// How much room a key needs.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Get_key_length_max(length: Out) -> c_int {
    number(length, |client| Ok(int(client.limits().key)))
}

/// How much room a value needs.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_KVS_Get_value_length_max(length: Out) -> c_int {
    number(length, |client| Ok(int(client.limits().value)))
}

/// The keyval space of the job.
///
/// # Safety
/// `kvsname` is NULL or has room for `length` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Create(kvsname: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller vouches for the room.
    unsafe { name(kvsname, length) }
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
        Ok(client()?.put(key, value)?)
    })
}

/// Does nothing: a put is with the server when it returns.
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
        let found = client()?.get(key)?.ok_or(FAIL)?;
        set_text(&room, &found, ERR_INVALID_LENGTH)
    })
}

/// The first pair; an empty key is the end.
///
/// # Safety
/// `kvsname` is NULL or a text, the others are NULL or have room as said.
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

/// The next pair; an empty key is the end.
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

/// Where the walk through the pairs is: the interface has one for the whole process.
static NEXT: Mutex<usize> = Mutex::new(0);

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
    let pair = client()?.entry(*next)?;
    let is_end = pair.is_none();
    let (key, value) = pair.unwrap_or_default();
    set_text(&key_room, &key, ERR_INVALID_KEY_LENGTH)?;
    set_text(&value_room, &value, ERR_INVALID_VAL_LENGTH)?;
    *next += usize::from(!is_end);
    Ok(())
}

/// Whether a text names the keyval space of this job.
///
/// # Safety
/// `kvsname` is NULL or a text.
unsafe fn check_name(kvsname: *const c_char) -> Outcome {
    // SAFETY: the caller vouches for the text.
    let name = unsafe { text(kvsname) }.ok_or(ERR_INVALID_ARG)?;
    if client()?.process_info().job == name { Ok(()) } else { Err(ERR_INVALID_KVS) }
}
