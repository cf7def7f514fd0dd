//! `libmpd.so.0`: requests for processes on slots in C, as `include/mpd/mpd.h` declares them.
//!
//! Each function checks the arguments of C, calls the session of the process, and returns a code. NULL and a buffer that is
//! too small are errors, and a panic becomes `MPD_ERR_INTERNAL`.
#![expect(unsafe_code, reason = "C calls these functions, and gives texts and arrays as pointers")]

pub mod completions;
pub mod events;
pub mod requests;

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use mpd_requests::{Error, RequestId, Session};

/// A request in C: its number as a pointer, which is never followed. NULL is no request.
pub type Request = *mut c_void;

thread_local! {
    /// The text of [`MPD_Error_detail`].
    static DETAIL: RefCell<CString> = RefCell::default();
}

/// The requests of this process.
fn session() -> Result<&'static Session, Error> {
    static SESSION: OnceLock<Result<Session, Error>> = OnceLock::new();
    SESSION.get_or_init(|| Session::with_places(own_places())).as_ref().map_err(Clone::clone)
}

/// The directories of the programs, by the file of this library: a build has both in one directory, an installation in
/// `lib` and `bin`.
fn own_places() -> Vec<PathBuf> {
    let mut found = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: the address is that of a function of this library, and the structure is ours. No safe code knows the file of
    // a library.
    let known = unsafe { libc::dladdr(MPD_Descriptor as *const c_void, &raw mut found) };
    if known == 0 || found.dli_fname.is_null() {
        return Vec::new();
    }
    // SAFETY: the loader gives a text that stays while the library is loaded.
    let file = unsafe { CStr::from_ptr(found.dli_fname) };
    let file = std::path::absolute(Path::new(OsStr::from_bytes(file.to_bytes())));
    let directory = file.ok().and_then(|file| Some(file.parent()?.to_owned()));
    let places = |directory: PathBuf| [directory.join("../bin"), directory];
    directory.map(places).into_iter().flatten().collect()
}

/// Turns a result into its code. A panic becomes a code too, since it must not reach C.
fn code(call: impl FnOnce() -> Result<(), Error>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(Error::Library));
    let Err(error) = result else { return 0 };
    set_detail(&error.to_string());
    error.code()
}

fn set_detail(text: &str) {
    let detail = CString::new(text.replace('\0', "?")).unwrap_or_default();
    // A thread that ends has no place for it.
    let _ = DETAIL.try_with(|place| *place.borrow_mut() = detail);
}

fn id_of(request: Request) -> Result<RequestId, Error> {
    if request.is_null() { Err(Error::Request) } else { Ok(RequestId(request.addr() as u64)) }
}

fn handle_of(id: RequestId) -> Request {
    ptr::without_provenance_mut(usize::try_from(id.0).unwrap_or(usize::MAX))
}

/// The field of a structure of C for a host. The name of a daemon has at most 255 bytes.
fn host_field(name: &str) -> [c_char; 256] {
    let mut field = [0; 256];
    for (place, &byte) in field[..255].iter_mut().zip(name.as_bytes()) {
        *place = byte as c_char;
    }
    field
}

fn missing(what: &str) -> Error {
    Error::Argument(format!("{what} is NULL"))
}

/// The text of a code.
#[unsafe(no_mangle)]
pub extern "C" fn MPD_Error_string(code: c_int) -> *const c_char {
    Error::text(code).as_ptr()
}

/// What exactly was wrong with the last call of this thread that failed.
#[unsafe(no_mangle)]
pub extern "C" fn MPD_Error_detail() -> *const c_char {
    DETAIL.try_with(|place| place.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// A descriptor that is readable when a completion or an event waits, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn MPD_Descriptor() -> c_int {
    let descriptor = || session().map_or(-1, |session| session.descriptor().as_raw_fd());
    catch_unwind(descriptor).unwrap_or(-1)
}
