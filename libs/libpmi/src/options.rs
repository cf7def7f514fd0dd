//! Options of the process manager in the arguments of a program. MPD reads no such options. These functions exist
//! because programs are linked with them.

use std::ffi::{c_char, c_int};
use std::ptr;

use pmi_client::c::{
    ERR_INVALID_ARG, ERR_INVALID_ARGS, ERR_INVALID_KEYVALP, ERR_INVALID_LENGTH,
    ERR_INVALID_NUM_ARGS, ERR_INVALID_NUM_PARSED, ERR_INVALID_SIZE, ERR_NOMEM, Out, code, set,
};

use crate::jobs::Keyval;

/// Finds no option: `num_parsed` and `size` become 0.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Parse_option(
    num_args: c_int,
    args: *mut *mut c_char,
    num_parsed: Out,
    keyvalp: Out<*mut Keyval>,
    size: Out,
) -> c_int {
    code(|| {
        if num_args < 1 {
            return Err(ERR_INVALID_NUM_ARGS);
        }
        if args.is_null() {
            return Err(ERR_INVALID_ARGS);
        }
        set(num_parsed, 0, ERR_INVALID_NUM_PARSED)?;
        set(keyvalp, ptr::null_mut(), ERR_INVALID_KEYVALP)?;
        set(size, 0, ERR_INVALID_SIZE)
    })
}

/// Changes no argument and returns no pair.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Args_to_keyval(
    argcp: *mut c_int,
    argvp: *mut *mut *mut c_char,
    keyvalp: Out<*mut Keyval>,
    size: Out,
) -> c_int {
    code(|| {
        if argcp.is_null() || argvp.is_null() {
            return Err(ERR_INVALID_ARG);
        }
        set(keyvalp, ptr::null_mut(), ERR_INVALID_ARG)?;
        set(size, 0, ERR_INVALID_ARG)
    })
}

/// Frees the pairs of the functions above. There are none.
#[unsafe(no_mangle)]
pub extern "C" fn PMI_Free_keyvals(keyvalp: *mut Keyval, size: c_int) -> c_int {
    code(|| if keyvalp.is_null() && size == 0 { Ok(()) } else { Err(ERR_INVALID_ARG) })
}

/// Writes the description of all options, which is an empty text.
///
/// # Safety
/// `length` is NULL or points to the number of characters for which `text` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_options(text: Out<c_char>, length: *mut c_int) -> c_int {
    code(|| {
        let first = text.ok_or(ERR_INVALID_ARG)?;
        if length.is_null() {
            return Err(ERR_INVALID_LENGTH);
        }
        // SAFETY: not NULL, and the caller vouches for the number.
        let room = unsafe { length.read() };
        if room < 0 {
            return Err(ERR_INVALID_LENGTH);
        }
        // SAFETY: as above.
        unsafe { length.write(1) }
        if room == 0 {
            return Err(ERR_NOMEM);
        }
        first.write(0);
        Ok(())
    })
}
