//! Requests: their slots, their programs, and their ends.

use std::ffi::{c_char, c_int};

use mpd_requests::{Error, Hardness, RequestId, Wanted};
use pmi_client::c::{array, room, set_text, text};

use crate::{Request, code, handle_of, id_of, missing, session};

/// `MPD_STARTED`.
const STARTED: c_int = 2;

/// Requests slots.
///
/// # Safety
/// `global` and `arch` are NULL or texts. `local` and `nodes` are NULL or arrays of `n` pointers, each NULL or a text. `r` has
/// room for `n` requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Iallocate(
    n: c_int,
    global: *const c_char,
    local: *const *const c_char,
    arch: *const c_char,
    nodes: *const *const c_char,
    hardness: c_int,
    r: *mut Request,
) -> c_int {
    code(|| {
        let count = u32::try_from(n).unwrap_or(0);
        if r.is_null() {
            return Err(missing("the array of requests"));
        }
        let hardness = match hardness {
            0 => Hardness::Hard,
            1 => Hardness::Soft,
            2 => Hardness::Gang,
            _ => {
                let text = "hardness must be MPD_HARD, MPD_SOFT or MPD_GANG";
                return Err(Error::Argument(text.to_owned()));
            }
        };
        // SAFETY: the caller vouches for texts and arrays.
        let wanted = unsafe {
            Wanted {
                count,
                hardness,
                nodes: each(nodes, n, "*")?,
                arch: utf8(arch)?,
                global: utf8(global)?,
                local: each(local, n, "")?,
            }
        };
        let ids = session()?.allocate(&wanted)?;
        // SAFETY: the caller vouches for the room.
        let room = unsafe { room(r, n) }.ok_or(Error::Library)?;
        room.fill(ids.into_iter().map(handle_of));
        Ok(())
    })
}

/// A text in UTF-8; `None` for NULL.
///
/// # Safety
/// `given` is NULL or a text.
unsafe fn utf8(given: *const c_char) -> Result<Option<String>, Error> {
    // SAFETY: the caller vouches for the text.
    let Some(bytes) = (unsafe { text(given) }) else { return Ok(None) };
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| Error::Argument("a string is not in UTF-8".to_owned()))?;
    Ok(Some(text.to_owned()))
}

/// The texts of an array, with `default` for NULL; empty for NULL in the place of the array.
///
/// # Safety
/// `first` is NULL or an array of `n` pointers, each NULL or a text.
unsafe fn each(first: *const *const c_char, n: c_int, default: &str) -> Result<Vec<String>, Error> {
    if first.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the caller vouches for the array and the texts.
    let pointers = unsafe { array(first, n) }.unwrap_or_default();
    let one = |&pointer: &*const c_char| {
        // SAFETY: as above.
        Ok(unsafe { utf8(pointer) }?.unwrap_or_else(|| default.to_owned()))
    };
    pointers.iter().map(one).collect()
}

/// Sets the program.
///
/// # Safety
/// `path` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Set_exec(r: Request, path: *const c_char) -> c_int {
    // SAFETY: the caller vouches for the text.
    let path = unsafe { text(path) };
    code(|| session()?.set_exec(id_of(r)?, path.ok_or_else(|| missing("the path"))?))
}

/// Sets the arguments, without the program.
///
/// # Safety
/// `argv` is NULL or an array of texts that ends with NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Set_args(r: Request, argv: *const *const c_char) -> c_int {
    code(|| {
        let id = id_of(r)?;
        let mut arguments = Vec::new();
        if !argv.is_null() {
            // SAFETY: the array has this element, since none before it is NULL; it is NULL or a text.
            while let Some(argument) = unsafe { text(*argv.add(arguments.len())) } {
                arguments.push(argument);
            }
        }
        session()?.set_args(id, &arguments)
    })
}

/// Lets the start of the process be reported.
#[unsafe(no_mangle)]
pub extern "C" fn MPD_Want(r: Request, state: c_int) -> c_int {
    code(|| match state {
        STARTED => session()?.want_start(id_of(r)?),
        _ => Err(Error::Argument("only MPD_STARTED can be wanted".to_owned())),
    })
}

/// Starts the process of a request.
///
/// # Safety
/// `r` is NULL or points to a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Start(r: *mut Request) -> c_int {
    // SAFETY: the caller vouches for the pointer.
    let request = unsafe { r.as_ref() };
    code(|| session()?.start(id_of(*request.ok_or_else(|| missing("the request"))?)?))
}

/// Starts the processes of several requests.
///
/// # Safety
/// `r` is an array of `n` requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Startall(n: c_int, r: *mut Request) -> c_int {
    // SAFETY: the caller vouches for the array.
    code(|| session()?.start_all(&unsafe { living(n, r) }?))
}

/// The requests of an array that are not null.
///
/// # Safety
/// `r` is an array of `n` requests.
unsafe fn living(n: c_int, r: *const Request) -> Result<Vec<RequestId>, Error> {
    // SAFETY: the caller vouches for the array.
    let all = unsafe { array(r, n) }
        .ok_or_else(|| Error::Argument("the array of requests is invalid".to_owned()))?;
    all.iter().filter(|request| !request.is_null()).map(|&request| id_of(request)).collect()
}

/// Cancels a request.
///
/// # Safety
/// `r` is NULL or points to a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Cancel(r: *mut Request) -> c_int {
    // SAFETY: the caller vouches for the pointer.
    let request = unsafe { r.as_ref() };
    code(|| session()?.cancel(id_of(*request.ok_or_else(|| missing("the request"))?)?))
}

/// Sends a signal to the processes of requests.
///
/// # Safety
/// `name` is NULL or a text; `r` is an array of `n` requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Signal(name: *const c_char, n: c_int, r: *mut Request) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for text and array.
        let (name, ids) = unsafe { (text(name), living(n, r)?) };
        let name = name.ok_or_else(|| missing("the signal"))?;
        session()?.signal(&String::from_utf8_lossy(name), &ids)
    })
}

/// The host of a request.
///
/// # Safety
/// `buf` is NULL or has room for `length` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Get_nodename(r: Request, buf: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller vouches for the room.
    code(|| unsafe { give(&session()?.node_name(id_of(r)?)?, buf, length) })
}

/// What the scheduler knows about a request.
///
/// # Safety
/// `buf` is NULL or has room for `length` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Get_jsinfo(r: Request, buf: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller vouches for the room.
    code(|| unsafe { give(&session()?.js_info(id_of(r)?)?, buf, length) })
}

/// Writes a text.
///
/// # Safety
/// `buf` is NULL or has room for `length` characters.
unsafe fn give(text: &str, buf: *mut c_char, length: c_int) -> Result<(), Error> {
    if buf.is_null() {
        return Err(missing("the buffer"));
    }
    let short = || Error::Short(text.len() as u64 + 1);
    // SAFETY: the caller vouches for the room.
    let room = unsafe { room(buf, length) }.ok_or_else(short)?;
    set_text(&room, text.as_bytes(), 1).map_err(|_| short())
}
