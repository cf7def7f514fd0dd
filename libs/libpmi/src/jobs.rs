//! What reaches beyond the own job: names, and jobs that are spawned.

use std::ffi::{c_char, c_int};

use pmi_client::c::{
    ERR_INVALID_ARG, ERR_INVALID_LENGTH, MAX_PORT, Room, array, code, int, room, set_text, text,
};
use pmi_client::{Pair, SpawnCommand, SpawnRequest};

use crate::client;

/// A pair of texts, as C lays it out.
#[repr(C)]
#[derive(Debug)]
pub struct Keyval {
    key: *mut c_char,
    val: *mut c_char,
}

/// Publishes what a service is reached by.
///
/// # Safety
/// Both are NULL or texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Publish_name(
    service_name: *const c_char,
    port: *const c_char,
) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the texts.
        let (service, port) = unsafe { (text(service_name), text(port)) };
        Ok(client()?.publish(service.ok_or(ERR_INVALID_ARG)?, port.ok_or(ERR_INVALID_ARG)?)?)
    })
}

/// Takes a name back.
///
/// # Safety
/// `service_name` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Unpublish_name(service_name: *const c_char) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the text.
        let service = unsafe { text(service_name) }.ok_or(ERR_INVALID_ARG)?;
        Ok(client()?.unpublish(service)?)
    })
}

/// What a service is reached by.
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
        let found = client()?.lookup(service)?;
        // The call does not name its room. MPI programs provide MPI_MAX_PORT_NAME, and a caller with less
        // room has ports that fit it: a port of a usual length touches no more than it takes.
        let needed = int(found.len().min(MAX_PORT - 1) + 1);
        // SAFETY: the caller vouches for the room.
        let room = unsafe { room(port, needed) }.ok_or(ERR_INVALID_ARG)?;
        set_text(&room, &found, ERR_INVALID_LENGTH)
    })
}

/// Starts programs as a job of their own.
///
/// # Safety
/// `count` is the length of the arrays `cmds`, `argvs`, `maxprocs`, `info_keyval_sizesp` and
/// `info_keyval_vectors`; an element of `argvs` is NULL or ends with NULL; the vectors are as long
/// as their sizes say; `errors` is NULL or has room for a number for each process.
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
        if count <= 0 {
            return Err(ERR_INVALID_ARG);
        }
        let mut request = SpawnRequest::default();
        // SAFETY: the caller vouches for all arrays and texts; arrays that may be left out are
        // looked at only where they are not NULL.
        unsafe {
            let commands = array(cmds, count).ok_or(ERR_INVALID_ARG)?;
            let sizes = array(maxprocs, count).ok_or(ERR_INVALID_ARG)?;
            let arguments = array(argvs, count);
            let infos = array(info_keyval_sizesp, count).zip(array(info_keyval_vectors, count));
            for (index, &command) in commands.iter().enumerate() {
                let info = match infos {
                    Some((counts, vectors)) => pairs(vectors[index], counts[index])?,
                    None => Vec::new(),
                };
                request.commands.push(SpawnCommand {
                    program: text(command).ok_or(ERR_INVALID_ARG)?.to_vec(),
                    args: arguments.map_or_else(Vec::new, |all| texts(all[index])),
                    size: u32::try_from(sizes[index]).map_err(|_| ERR_INVALID_ARG)?,
                    info,
                });
            }
            request.preput = pairs(preput_keyval_vector, preput_keyval_size)?;
        }
        let spawned = client()?.spawn(&request)?;
        let total =
            request.commands.iter().map(|command| command.size).fold(0, u32::saturating_add);
        // SAFETY: the caller vouches for the room, or there is none.
        if let Some(room) = unsafe { room(errors, int(total)) } {
            report(&room, &spawned.codes);
        }
        Ok(())
    })
}

/// A code for each process; the processes without a code were started.
fn report(room: &Room<c_int>, codes: &[i32]) {
    room.fill(codes.iter().copied().chain(std::iter::repeat(0)));
}

/// Texts up to NULL.
///
/// # Safety
/// `first` is NULL or an array of texts that ends with NULL.
unsafe fn texts(first: *const *const c_char) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    if first.is_null() {
        return found;
    }
    for index in 0.. {
        // SAFETY: elements up to the first NULL are there, and none before was it.
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
