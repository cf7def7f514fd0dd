//! Every `unsafe` block of this crate: the descriptor in `PMI_FD`, signals by their numbers, and texts and arrays of C
//! for the two libraries above.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use nix::libc;

/// A descriptor of our own for what an inherited number stands for.
pub(crate) fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the number is not -1 and is looked at during this call only; one that is not open
    // makes the call fail. No safe call takes a number from the environment.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

/// Sends this process a signal by its number, which may be a real-time one: `nix` has no words for those.
pub(crate) fn signal_self(signal: c_int) -> io::Result<()> {
    // SAFETY: the calls take and return plain numbers.
    match unsafe { libc::kill(libc::getpid(), signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The bytes of a text of C, without its zero; `None` for NULL.
///
/// # Safety
/// `text` is NULL or points to a zero-terminated text that stays as it is for `'a`.
pub unsafe fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not NULL, and the caller vouches for the rest. C gives nothing safer.
    Some(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// The elements of an array of C; `None` for NULL with a count other than 0, and for a negative
/// count.
///
/// # Safety
/// `first` is NULL or points to `count` elements that stay as they are for `'a`.
pub unsafe fn array<'a, T>(first: *const T, count: c_int) -> Option<&'a [T]> {
    match (usize::try_from(count), first.is_null()) {
        (Ok(0), _) => Some(&[]),
        // SAFETY: not NULL, and the caller vouches for the rest. C gives nothing safer.
        (Ok(count), false) => Some(unsafe { std::slice::from_raw_parts(first, count) }),
        _ => None,
    }
}

/// The room that C gives for results; `None` for NULL and for a negative count.
///
/// # Safety
/// `first` is NULL or points to room for `count` elements that nobody else touches for `'a`.
pub unsafe fn room<'a, T>(first: *mut T, count: c_int) -> Option<&'a mut [MaybeUninit<T>]> {
    let count = usize::try_from(count).ok()?;
    if first.is_null() {
        return None;
    }
    // SAFETY: not NULL, uninitialized elements are what the type says, and the caller vouches for
    // the rest. C gives nothing safer.
    Some(unsafe { std::slice::from_raw_parts_mut(first.cast(), count) })
}
