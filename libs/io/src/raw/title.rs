//! The arguments of this process, as other processes see them.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The memory of the arguments, which the kernel shows as `/proc/PID/cmdline`.
static ARGUMENTS: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
/// Its length with the last NUL; 0 if it is unknown.
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Notes where the arguments are. The kernel writes them one behind the other.
///
/// # Safety
/// The two are the parameters of `main`.
pub(super) unsafe fn note_arguments(count: c_int, arguments: *const *mut c_char) {
    let count = usize::try_from(count).unwrap_or(0);
    if count == 0 || arguments.is_null() {
        return;
    }
    // SAFETY: by the caller's promise, there are `count` NUL-terminated strings.
    let length = unsafe {
        let first = *arguments;
        let mut length = 0;
        for at in 0..count {
            let next = *arguments.add(at);
            if next != first.add(length) {
                return;
            }
            length += CStr::from_ptr(next).to_bytes_with_nul().len();
        }
        ARGUMENTS.store(first.cast(), Ordering::Relaxed);
        length
    };
    LENGTH.store(length, Ordering::Relaxed);
}

/// Shows other processes these arguments of this one. Returns whether the memory of its arguments has room for them.
/// Only for a process with one thread, which reads its own arguments no more.
pub(crate) fn show_arguments(arguments: &[&str]) -> bool {
    let mut text = arguments.join("\0").into_bytes();
    let length = LENGTH.load(Ordering::Relaxed);
    // The last byte stays NUL. Otherwise the kernel shows the environment as well.
    if text.len() >= length {
        return false;
    }
    text.resize(length, 0);
    // SAFETY: the memory has this length and is writable. No other code uses it: see above.
    unsafe { ARGUMENTS.load(Ordering::Relaxed).copy_from_nonoverlapping(text.as_ptr(), length) };
    true
}
