//! Published names, and jobs that this job starts.

use std::ffi::{c_char, c_int};

use pmi_client::c::{
    ERR_INVALID_ARG, ERR_INVALID_LENGTH, MAX_PORT, array, code, int, room, set_text, text, texts,
};
use pmi_client::library::commands;
use pmi_client::{Pair, SpawnRequest};

use crate::LIBRARY;

/// A pair of texts in the layout of C.
#[repr(C)]
#[derive(Debug)]
pub struct Keyval {
    key: *mut c_char,
    val: *mut c_char,
}

/// Publishes the port of a service.
///
/// # Safety
/// Both are NULL or texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Publish_name(
    service_name: *const c_char,
    port: *const c_char,
) -> c_int {
    // SAFETY: the caller vouches for the texts.
    let (service, port) = unsafe { (text(service_name), text(port)) };
    LIBRARY.publish(service, port)
}

/// Withdraws a published service.
///
/// # Safety
/// `service_name` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Unpublish_name(service_name: *const c_char) -> c_int {
    // SAFETY: the caller vouches for the text.
    LIBRARY.unpublish(unsafe { text(service_name) })
}

/// The port of a service.
///
/// # Safety
/// `service_name` is NULL or a text; `port` is NULL or has room for [`MAX_PORT`] characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Lookup_name(service_name: *const c_char, port: *mut c_char) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the text.
        let service = unsafe { text(service_name) }.ok_or(ERR_INVALID_ARG)?;
        if port.is_null() {
            return Err(ERR_INVALID_ARG);
        }
        let found = LIBRARY.client()?.lookup(service)?;
        // The caller does not pass the size of its buffer. MPI programs provide MPI_MAX_PORT_NAME. Only the bytes
        // of the port are written, so a smaller buffer suffices for a short port.
        let needed = int(found.len().min(MAX_PORT - 1) + 1);
        // SAFETY: the caller vouches for the room.
        let room = unsafe { room(port, needed) }.ok_or(ERR_INVALID_ARG)?;
        set_text(&room, &found, ERR_INVALID_LENGTH)
    })
}

/// Starts programs as a new job.
///
/// # Safety
/// `count` is the length of the arrays `cmds`, `argvs`, `maxprocs`, `info_keyval_sizesp` and
/// `info_keyval_vectors`. An element of `argvs` is NULL or an array that ends with NULL. The
/// lengths of the vectors are in `info_keyval_sizesp` and `preput_keyval_size`. `errors` is NULL or
/// has room for one number per process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Spawn_multiple(
    count: c_int,
    cmds: *const *const c_char,
    argvs: *const *const *const c_char,
    maxprocs: *const c_int,
    info_keyval_sizesp: *const c_int,
    info_keyval_vectors: *const *const Keyval,
    preput_keyval_size: c_int,
    preput_keyval_vector: *const Keyval,
    errors: *mut c_int,
) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for all arrays and texts. An array that may be NULL is read only
        // if it is not NULL.
        let request = unsafe {
            let arguments = array(argvs, count);
            let infos = array(info_keyval_sizesp, count).zip(array(info_keyval_vectors, count));
            let rest = |index: usize| {
                let arguments = arguments.map_or_else(Vec::new, |all| texts_to_null(all[index]));
                let info = infos.map(|(counts, vectors)| pairs(vectors[index], counts[index]));
                Ok((arguments, info.transpose()?.unwrap_or_default()))
            };
            SpawnRequest {
                commands: commands(texts(cmds, count), array(maxprocs, count), rest)?,
                preput: pairs(preput_keyval_vector, preput_keyval_size)?,
            }
        };
        // SAFETY: the caller vouches for the buffer.
        LIBRARY.spawn(&request, |total| unsafe { room(errors, total) }).map(drop)
    })
}

/// The texts before NULL.
///
/// # Safety
/// `first` is NULL or an array of texts that ends with NULL.
unsafe fn texts_to_null(first: *const *const c_char) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    if first.is_null() {
        return found;
    }
    for index in 0.. {
        // SAFETY: the array has this element, since no element before it is NULL.
        let Some(text) = (unsafe { text(*first.add(index)) }) else { break };
        found.push(text.to_vec());
    }
    found
}

/// Pairs of texts.
///
/// # Safety
/// `first` is NULL or an array of that many pairs of texts.
unsafe fn pairs(first: *const Keyval, count: c_int) -> Result<Vec<Pair>, c_int> {
    // SAFETY: the caller vouches for the array and its texts.
    let keyvals = unsafe { array(first, count) }.ok_or(ERR_INVALID_ARG)?;
    let pair = |keyval: &Keyval| {
        // SAFETY: as above.
        let (key, val) = unsafe { (text(keyval.key), text(keyval.val)) };
        Some((key?.to_vec(), val?.to_vec()))
    };
    keyvals.iter().map(|keyval| pair(keyval).ok_or(ERR_INVALID_ARG)).collect()
}
