//! `libmpd.so.0`: requests for processes on slots in C, as `include/mpd/mpd.h` declares them.
//!
//! Each function checks the arguments of C, calls the session of the process, and returns a code. NULL and a buffer that is
//! too small are errors, and a panic becomes `MPD_ERR_INTERNAL`.
#![expect(unsafe_code, reason = "C calls these functions, and gives texts and arrays as pointers")]

pub mod completions;
pub mod events;
pub mod requests;

use std::cell::RefCell;
use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
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
/// `lib` and `bin`. The kernel knows the path of the file. The loader only knows a relative path if it was given one, which means another
/// file after a `chdir`.
fn own_places() -> Vec<PathBuf> {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    let own = (MPD_Descriptor as *const c_void).addr();
    let file = maps.split(|byte| *byte == b'\n').find_map(|line| mapped_at(line, own));
    let directory = file.and_then(|file| Some(file.parent()?.to_owned()));
    let places = |directory: PathBuf| [directory.join("../bin"), directory];
    directory.map(places).into_iter().flatten().collect()
}

/// The file of a line of `maps`, if the address is there.
fn mapped_at(line: &[u8], address: usize) -> Option<PathBuf> {
    let range = std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?;
    let (begin, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    if !(number(begin)?..number(end)?).contains(&address) {
        return None;
    }
    let path = line.iter().position(|byte| *byte == b'/').map(|at| &line[at..])?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_an_address_is_that_of_its_mapping() {
        let line = b"7f00a000-7f00b000 r-xp 00001000 08:01 1234   /opt/a b/lib/libmpd.so.0";
        let file = PathBuf::from("/opt/a b/lib/libmpd.so.0");
        assert_eq!(mapped_at(line, 0x7f00_a000), Some(file));
        assert_eq!((mapped_at(line, 0x7f00_b000), mapped_at(b"", 0)), (None, None));
        assert!(own_places().iter().all(|place| place.is_absolute()) && !own_places().is_empty());
    }
}
