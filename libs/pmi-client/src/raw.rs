//! Every `unsafe` block of this crate: the descriptor in `PMI_FD`, signals by their numbers, and texts and arrays of C
//! for `libpmi` and `libpmi2`.

use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use nix::libc;

/// Duplicates an inherited descriptor.
pub(crate) fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the number is not -1 and is used only during this call, which fails if the descriptor
    // is not open. No safe function takes a number from the environment.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

/// Sends this process a signal by its number. `nix` has no names for real-time signals.
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
/// `text` is NULL or points to a zero-terminated text that does not change during `'a`.
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
/// `first` is NULL or points to `count` elements that do not change during `'a`.
pub unsafe fn array<'a, T>(first: *const T, count: c_int) -> Option<&'a [T]> {
    match (usize::try_from(count), first.is_null()) {
        (Ok(0), _) => Some(&[]),
        // SAFETY: not NULL, and the caller vouches for the rest. C gives nothing safer.
        (Ok(count), false) => Some(unsafe { std::slice::from_raw_parts(first, count) }),
        _ => None,
    }
}

/// The texts of an array of C; `None` if [`array`](fn@array) gives `None` or a text is NULL.
///
/// # Safety
/// `first` is NULL or points to `count` pointers. Each of them is NULL or points to a zero-terminated text. Pointers
/// and texts do not change during `'a`.
pub unsafe fn texts<'a>(first: *const *const c_char, count: c_int) -> Option<Vec<&'a [u8]>> {
    // SAFETY: the caller vouches for the array.
    let pointers = unsafe { array(first, count) }?;
    // SAFETY: the caller vouches for each text.
    pointers.iter().map(|&pointer| unsafe { text(pointer) }).collect()
}

/// A pointer of C to the place of one result. An `Option` of it has the layout of a pointer that may be NULL.
///
/// Only C makes a slot, so C vouches that it may be written. A slot is not a reference: C may give one address for two
/// results, and the later result stays.
#[repr(transparent)]
#[derive(Debug)]
pub struct Slot<T>(NonNull<T>);

impl<T> Slot<T> {
    /// Writes the result.
    pub const fn write(self, value: T) {
        // SAFETY: C vouches for the place, and no reference to it exists. C gives nothing safer.
        unsafe { self.0.write(value) }
    }
}

// Derived implementations would require the same of `T`.
impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slot<T> {}

/// A buffer of C for several results. It may overlap another buffer.
#[derive(Debug)]
pub struct Room<T> {
    first: NonNull<T>,
    count: usize,
}

impl<T> Room<T> {
    /// The number of results that fit.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Writes results from the first element on, as many as fit.
    pub fn fill(&self, values: impl IntoIterator<Item = T>) {
        for (index, value) in values.into_iter().take(self.count).enumerate() {
            // SAFETY: the index is below the count, for which the maker of the room vouches, and no reference to
            // the room exists. C gives nothing safer.
            unsafe { self.first.add(index).write(value) }
        }
    }
}

#[cfg(test)]
impl<T> Room<T> {
    /// A whole slice. The test does not use the slice otherwise while it uses the room.
    pub(crate) fn of(slice: &mut [T]) -> Self {
        Self { first: NonNull::from(&mut *slice).cast(), count: slice.len() }
    }
}

/// A buffer of C for results; `None` for NULL and for a negative count.
///
/// # Safety
/// `first` is NULL or points to room for `count` elements, which may be written as long as the result is used.
pub unsafe fn room<T>(first: *mut T, count: c_int) -> Option<Room<T>> {
    Some(Room { first: NonNull::new(first)?, count: usize::try_from(count).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_results_may_have_one_address() {
        let mut number: c_int = 0;
        let slot = Slot(NonNull::from(&mut number));
        let (one, other) = (slot, slot);
        one.write(1);
        other.write(2);
        assert_eq!(number, 2);
    }

    #[test]
    fn a_room_takes_no_more_results_than_fit() {
        let mut numbers: [c_int; 4] = [0; 4];
        Room::of(&mut numbers[..2]).fill([7, 8, 9]);
        assert_eq!(numbers, [7, 8, 0, 0]);
        // SAFETY: nothing is written.
        let none =
            unsafe { (room(numbers.as_mut_ptr(), -1), room::<c_int>(std::ptr::null_mut(), 4)) };
        assert!(none.0.is_none() && none.1.is_none());
    }
}
