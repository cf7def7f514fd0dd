//! Attributes of the node and of the job, as texts and as numbers.

use std::ffi::{c_char, c_int};

use pmi_client::c::{
    ERR_INVALID_ARG, ERR_INVALID_KEY, ERR_INVALID_LENGTH, ERR_INVALID_VAL, ERR_INVALID_VAL_LENGTH,
    FAIL, Out, Outcome, code, int, room, set_text, text,
};

use crate::LIBRARY;

/// An attribute of the node. With `waitfor` other than 0 the call waits until a process puts it.
///
/// # Safety
/// `name` is NULL or a text; `value` is NULL or has room for `valuelen` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Info_GetNodeAttr(
    name: *const c_char,
    value: *mut c_char,
    valuelen: c_int,
    found: Out,
    waitfor: c_int,
) -> c_int {
    let find = |name: &[u8]| Ok(LIBRARY.client()?.node_attribute(name, waitfor != 0)?);
    // SAFETY: the caller vouches for text and room.
    code(|| unsafe { report(name, (value, valuelen), found, find) })
}

/// An attribute of the node that is a list of numbers.
///
/// # Safety
/// `name` is NULL or a text; `array` is NULL or has room for `arraylen` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Info_GetNodeAttrIntArray(
    name: *const c_char,
    array: *mut c_int,
    arraylen: c_int,
    outlen: Out,
    found: Out,
) -> c_int {
    let find = |name: &[u8]| Ok(LIBRARY.client()?.node_attribute(name, false)?);
    // SAFETY: the caller vouches for text and room.
    code(|| unsafe { report_numbers(name, (array, arraylen), outlen, found, find) })
}

/// Puts an attribute for all processes of this job on this node.
///
/// # Safety
/// Both are NULL or texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Info_PutNodeAttr(name: *const c_char, value: *const c_char) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the texts.
        let (name, value) = unsafe { (text(name), text(value)) };
        let (name, value) = (name.ok_or(ERR_INVALID_KEY)?, value.ok_or(ERR_INVALID_VAL)?);
        Ok(LIBRARY.client()?.put_node_attribute(name, value)?)
    })
}

/// An attribute of the job.
///
/// # Safety
/// `name` is NULL or a text; `value` is NULL or has room for `valuelen` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Info_GetJobAttr(
    name: *const c_char,
    value: *mut c_char,
    valuelen: c_int,
    found: Out,
) -> c_int {
    let find = |name: &[u8]| Ok(LIBRARY.client()?.job_attribute(name)?);
    // SAFETY: the caller vouches for text and room.
    code(|| unsafe { report(name, (value, valuelen), found, find) })
}

/// An attribute of the job that is a list of numbers.
///
/// # Safety
/// `name` is NULL or a text; `array` is NULL or has room for `arraylen` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Info_GetJobAttrIntArray(
    name: *const c_char,
    array: *mut c_int,
    arraylen: c_int,
    outlen: Out,
    found: Out,
) -> c_int {
    let find = |name: &[u8]| Ok(LIBRARY.client()?.job_attribute(name)?);
    // SAFETY: the caller vouches for text and room.
    code(|| unsafe { report_numbers(name, (array, arraylen), outlen, found, find) })
}

/// The value of an attribute; `None` if there is none of its name.
type Found = Result<Option<Vec<u8>>, c_int>;

/// Writes the value that `find` returns, and whether there is one.
///
/// # Safety
/// `name` is NULL or a text; `value` is NULL or has room for its number of characters.
unsafe fn report(
    name: *const c_char,
    value: (*mut c_char, c_int),
    found: Out,
    find: impl FnOnce(&[u8]) -> Found,
) -> Outcome {
    // SAFETY: the caller vouches for text and room.
    let (name, room) = unsafe { (text(name), room(value.0, value.1)) };
    let (name, is_found) = (name.ok_or(ERR_INVALID_KEY)?, found.ok_or(ERR_INVALID_ARG)?);
    if value.0.is_null() {
        return Err(ERR_INVALID_VAL);
    }
    let room = room.ok_or(ERR_INVALID_VAL_LENGTH)?;
    let value = find(name)?;
    is_found.write(value.is_some().into());
    value.map_or(Ok(()), |value| set_text(&room, &value, ERR_INVALID_VAL_LENGTH))
}

/// Writes the numbers of the value that `find` returns, and whether there is one.
///
/// # Safety
/// `name` is NULL or a text; `array` is NULL or has room for its number of elements.
unsafe fn report_numbers(
    name: *const c_char,
    array: (*mut c_int, c_int),
    outlen: Out,
    found: Out,
    find: impl FnOnce(&[u8]) -> Found,
) -> Outcome {
    // SAFETY: the caller vouches for text and room.
    let (name, room) = unsafe { (text(name), room(array.0, array.1)) };
    let name = name.ok_or(ERR_INVALID_KEY)?;
    let (Some(length), Some(is_found)) = (outlen, found) else { return Err(ERR_INVALID_ARG) };
    if array.0.is_null() {
        return Err(ERR_INVALID_ARG);
    }
    let room = room.ok_or(ERR_INVALID_LENGTH)?;
    let value = find(name)?;
    is_found.write(value.is_some().into());
    length.write(0);
    let numbers = numbers(&value.unwrap_or_default()).ok_or(FAIL)?;
    if numbers.len() > room.count() {
        return Err(ERR_INVALID_LENGTH);
    }
    length.write(int(numbers.len()));
    room.fill(numbers);
    Ok(())
}

/// The numbers of a text like `1,2,3`.
fn numbers(text: &[u8]) -> Option<Vec<c_int>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let text = std::str::from_utf8(text).ok()?;
    text.split(',').map(|number| number.trim().parse().ok()).collect()
}
