//! Codes and conversions of the C interfaces `libpmi` and `libpmi2`: texts, arrays, results, panics.

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::Error;
pub use crate::raw::{Room, Slot, array, room, text, texts};
pub use pmi_proto::limits::MAX_PORT;

/// The call succeeded.
pub const SUCCESS: c_int = 0;
/// The call failed for a reason without a code of its own.
pub const FAIL: c_int = -1;
/// The library is not initialized.
pub const ERR_INIT: c_int = 1;
/// The buffer is too small.
pub const ERR_NOMEM: c_int = 2;
/// A pointer is NULL, or an argument is invalid.
pub const ERR_INVALID_ARG: c_int = 3;
/// The key is invalid.
pub const ERR_INVALID_KEY: c_int = 4;
/// The key is too long, or its buffer is invalid.
pub const ERR_INVALID_KEY_LENGTH: c_int = 5;
/// The value is invalid.
pub const ERR_INVALID_VAL: c_int = 6;
/// The value is too long, or its buffer is invalid.
pub const ERR_INVALID_VAL_LENGTH: c_int = 7;
/// The length is invalid, or the buffer is too small.
pub const ERR_INVALID_LENGTH: c_int = 8;
/// The number of arguments is invalid.
pub const ERR_INVALID_NUM_ARGS: c_int = 9;
/// The arguments are invalid.
pub const ERR_INVALID_ARGS: c_int = 10;
/// The pointer for the number of parsed arguments is NULL.
pub const ERR_INVALID_NUM_PARSED: c_int = 11;
/// The pointer for pairs is NULL.
pub const ERR_INVALID_KEYVALP: c_int = 12;
/// The size is invalid, or the pointer for it is NULL.
pub const ERR_INVALID_SIZE: c_int = 13;

/// A pointer of C to the place of one result; NULL is `None`.
pub type Out<T = c_int> = Option<Slot<T>>;

/// The result of a call. The error is a code other than [`SUCCESS`].
pub type Outcome = Result<(), c_int>;

/// Turns an outcome into its code. A panic becomes [`FAIL`], since it must not reach C.
pub fn code(call: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => FAIL,
    }
}

/// Writes `value` to the place that C gave.
///
/// # Errors
/// `missing` if the pointer is NULL.
pub fn set<T>(out: Out<T>, value: T, missing: c_int) -> Outcome {
    out.ok_or(missing)?.write(value);
    Ok(())
}

/// The buffer that C gave at `first`, if it has at least one element.
///
/// # Errors
/// [`ERR_INVALID_ARG`] for NULL, [`ERR_INVALID_LENGTH`] for a count below 1.
pub fn required<T>(first: *const T, room: Option<Room<T>>) -> Result<Room<T>, c_int> {
    match room.filter(|room| room.count() > 0) {
        Some(room) => Ok(room),
        None if first.is_null() => Err(ERR_INVALID_ARG),
        None => Err(ERR_INVALID_LENGTH),
    }
}

/// Writes a text and its zero into `room`.
///
/// # Errors
/// `short` if the text does not fit. Then an empty text is written.
pub fn set_text(room: &Room<c_char>, text: &[u8], short: c_int) -> Outcome {
    if text.len() >= room.count() {
        room.fill([0]);
        return Err(short);
    }
    room.fill(text.iter().chain(&[0]).map(|&byte| byte as c_char));
    Ok(())
}

/// A number as an `int` of C. A larger number becomes the largest `int`.
pub fn int(number: impl TryInto<c_int>) -> c_int {
    number.try_into().unwrap_or(c_int::MAX)
}

impl From<Error> for c_int {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidKey => ERR_INVALID_KEY,
            Error::KeyTooLong(_) => ERR_INVALID_KEY_LENGTH,
            Error::InvalidValue => ERR_INVALID_VAL,
            Error::ValueTooLong(_) => ERR_INVALID_VAL_LENGTH,
            Error::PortTooLong(_) => ERR_INVALID_LENGTH,
            Error::InvalidText => ERR_INVALID_ARG,
            Error::Variable { .. }
            | Error::Descriptor { .. }
            | Error::Connect { .. }
            | Error::Io(_)
            | Error::Closed
            | Error::NotUnderstood { .. }
            | Error::Refused { .. }
            | Error::Unsupported(_) => FAIL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_does_not_fit_is_not_cut() {
        let mut text: [c_char; 4] = [1; 4];
        assert_eq!(set_text(&Room::of(&mut text), b"abcd", 8), Err(8));
        assert_eq!(text, [0, 1, 1, 1]);
        assert_eq!(set_text(&Room::of(&mut []), b"", 8), Err(8));
        assert_eq!(set_text(&Room::of(&mut text), b"abc", 8), Ok(()));
        assert_eq!(text.map(|character| character as u8), *b"abc\0");
    }

    #[test]
    fn a_panic_is_a_failure() {
        assert_eq!(code(|| panic!("a bug")), FAIL);
        assert_eq!(code(|| Err(7)), 7);
        assert_eq!(code(|| Ok(())), SUCCESS);
    }
}
