//! What `libpmi` and `libpmi2` have in common: texts and arrays of C, codes, panics that stay here.

use std::error::Error as _;
use std::ffi::{c_char, c_int};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::client::{Client, Version};
use crate::error::Error;
pub use crate::raw::{Room, Slot, array, room, text};
pub use pmi_proto::limits::MAX_PORT;

/// All went well.
pub const SUCCESS: c_int = 0;
/// It did not, for a reason without a number of its own.
pub const FAIL: c_int = -1;
/// The library is not initialized.
pub const ERR_INIT: c_int = 1;
/// The room is too small.
pub const ERR_NOMEM: c_int = 2;
/// A pointer is NULL, or an argument makes no sense.
pub const ERR_INVALID_ARG: c_int = 3;
/// The key makes no sense.
pub const ERR_INVALID_KEY: c_int = 4;
/// The key is too long, or there is no room for one.
pub const ERR_INVALID_KEY_LENGTH: c_int = 5;
/// The value makes no sense.
pub const ERR_INVALID_VAL: c_int = 6;
/// The value is too long, or there is no room for one.
pub const ERR_INVALID_VAL_LENGTH: c_int = 7;
/// The length makes no sense, or the room is too small.
pub const ERR_INVALID_LENGTH: c_int = 8;
/// The number of arguments makes no sense.
pub const ERR_INVALID_NUM_ARGS: c_int = 9;
/// The arguments make no sense.
pub const ERR_INVALID_ARGS: c_int = 10;
/// There is no room for the number of arguments parsed.
pub const ERR_INVALID_NUM_PARSED: c_int = 11;
/// There is no room for pairs.
pub const ERR_INVALID_KEYVALP: c_int = 12;
/// There is no room for a size, or it makes no sense.
pub const ERR_INVALID_SIZE: c_int = 13;

/// The place of one result of C: NULL is `None`.
pub type Out<T = c_int> = Option<Slot<T>>;

/// A call's outcome: a code other than [`SUCCESS`] is an error.
pub type Outcome = Result<(), c_int>;

/// Connects; that it cannot is said on standard error, since the code tells nothing.
///
/// # Errors
/// [`FAIL`].
pub fn connect(version: Version) -> Result<Client, c_int> {
    Client::connect(version).map_err(|error| {
        let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
        let _ = writeln!(std::io::stderr(), "PMI: {error}{cause}");
        c_int::from(error)
    })
}

/// Turns an outcome into its code. A panic is [`FAIL`]: it must not reach C.
pub fn code(call: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => FAIL,
    }
}

/// Writes `value` where C wants it; fails with `missing` for NULL.
///
/// # Errors
/// `missing`.
pub fn set<T>(out: Out<T>, value: T, missing: c_int) -> Outcome {
    out.ok_or(missing)?.write(value);
    Ok(())
}

/// Writes a text and its zero into `room`; fails with `short`, leaving an empty text, if it does not fit.
///
/// # Errors
/// `short`.
pub fn set_text(room: &Room<c_char>, text: &[u8], short: c_int) -> Outcome {
    if text.len() >= room.count() {
        room.fill([0]);
        return Err(short);
    }
    room.fill(text.iter().chain(&[0]).map(|&byte| byte as c_char));
    Ok(())
}

/// A number as C counts: what is larger becomes the largest.
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
