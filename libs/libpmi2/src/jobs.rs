//! What reaches beyond the own job: names, other jobs, and jobs that are spawned.

use std::ffi::{c_char, c_int, c_void};

use pmi_client::c::{
    ERR_INVALID_ARG, ERR_INVALID_LENGTH, Room, array, code, int, room, set_text, text,
};
use pmi_client::{Pair, SpawnCommand, SpawnRequest};

use crate::client;

/// A list of pairs, as MPICH lays it out. The three numbers are for its own use; the head of a
/// list may have no key.
#[repr(C)]
#[derive(Debug)]
pub struct Info {
    handle: c_int,
    pobj_mutex: c_int,
    ref_count: c_int,
    next: *const Self,
    key: *const c_char,
    value: *const c_char,
}

/// Starts programs as a job of their own.
///
/// # Safety
/// `count` is the length of the arrays `cmds`, `argcs`, `argvs`, `maxprocs`, `info_keyval_sizes` and
/// `info_keyval_vectors`, and `preput_keyval_size` that of `preput_keyval_vector`; elements of `argvs`
/// and of the vectors are as long as is said; `jobId` is NULL or has room for `jobIdSize` characters,
/// and `errors` is NULL or has room for a number for each process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Job_Spawn(
    count: c_int,
    cmds: *const *const c_char,
    argcs: *const c_int,
    argvs: *const *const *const c_char,
    maxprocs: *const c_int,
    info_keyval_sizes: *const c_int,
    info_keyval_vectors: *const *const Info,
    preput_keyval_size: c_int,
    preput_keyval_vector: *const *const Info,
    jobId: *mut c_char,
    jobIdSize: c_int,
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
            let arguments = array(argcs, count).zip(array(argvs, count));
            let infos = array(info_keyval_sizes, count).zip(array(info_keyval_vectors, count));
            for (index, &command) in commands.iter().enumerate() {
                let arguments = match arguments {
                    Some((counts, vectors)) => texts(vectors[index], counts[index])?,
                    None => Vec::new(),
                };
                let info = match infos {
                    Some((counts, vectors)) => vector(vectors[index], counts[index])?,
                    None => Vec::new(),
                };
                request.commands.push(SpawnCommand {
                    program: text(command).ok_or(ERR_INVALID_ARG)?.to_vec(),
                    args: arguments,
                    size: u32::try_from(sizes[index]).map_err(|_| ERR_INVALID_ARG)?,
                    info,
                });
            }
            let heads = array(preput_keyval_vector, preput_keyval_size).ok_or(ERR_INVALID_ARG)?;
            for &head in heads {
                request.preput.extend(pair(head)?);
            }
        }
        let spawned = client()?.spawn(&request)?;
        let total =
            request.commands.iter().map(|command| command.size).fold(0, u32::saturating_add);
        // SAFETY: the caller vouches for the rooms, or there are none.
        let (id, errors) = unsafe { (room(jobId, jobIdSize), room(errors, int(total))) };
        if let Some(room) = errors {
            report(&room, &spawned.codes);
        }
        id.map_or(Ok(()), |room| {
            set_text(&room, spawned.job.as_deref().unwrap_or_default(), ERR_INVALID_LENGTH)
        })
    })
}

/// Lets the key-value space of another job be read. Nothing goes through `conn`: the process
/// managers know each other's jobs.
///
/// # Safety
/// `jobid` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Job_Connect(jobid: *const c_char, _conn: *mut c_void) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the text.
        let job = unsafe { text(jobid) }.ok_or(ERR_INVALID_ARG)?;
        Ok(client()?.connect_job(job)?)
    })
}

/// Undoes [`PMI2_Job_Connect`].
///
/// # Safety
/// `jobid` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Job_Disconnect(jobid: *const c_char) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the text.
        let job = unsafe { text(jobid) }.ok_or(ERR_INVALID_ARG)?;
        Ok(client()?.disconnect_job(job)?)
    })
}

/// Publishes what a service is reached by; `info_ptr` does not matter.
///
/// # Safety
/// The texts are NULL or texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Nameserv_publish(
    service_name: *const c_char,
    _info_ptr: *const Info,
    port: *const c_char,
) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the texts.
        let (service, port) = unsafe { (text(service_name), text(port)) };
        Ok(client()?.publish(service.ok_or(ERR_INVALID_ARG)?, port.ok_or(ERR_INVALID_ARG)?)?)
    })
}

/// What a service is reached by; `info_ptr` does not matter.
///
/// # Safety
/// `service_name` is NULL or a text; `port` is NULL or has room for `portLen` characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Nameserv_lookup(
    service_name: *const c_char,
    _info_ptr: *const Info,
    port: *mut c_char,
    portLen: c_int,
) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for text and room.
        let (service, room) = unsafe { (text(service_name), room(port, portLen)) };
        let service = service.ok_or(ERR_INVALID_ARG)?;
        if port.is_null() {
            return Err(ERR_INVALID_ARG);
        }
        let room = room.ok_or(ERR_INVALID_LENGTH)?;
        set_text(&room, &client()?.lookup(service)?, ERR_INVALID_LENGTH)
    })
}

/// Takes a name back; `info_ptr` does not matter.
///
/// # Safety
/// `service_name` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Nameserv_unpublish(
    service_name: *const c_char,
    _info_ptr: *const Info,
) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the text.
        let service = unsafe { text(service_name) }.ok_or(ERR_INVALID_ARG)?;
        Ok(client()?.unpublish(service)?)
    })
}

/// A code for each process; the processes without a code were started.
fn report(room: &Room<c_int>, codes: &[i32]) {
    room.fill(codes.iter().copied().chain(std::iter::repeat(0)));
}

/// # Safety
/// `first` is NULL or an array of that many texts.
unsafe fn texts(first: *const *const c_char, count: c_int) -> Result<Vec<Vec<u8>>, c_int> {
    // SAFETY: the caller vouches for the array and its texts.
    let found = unsafe { array(first, count) }.ok_or(ERR_INVALID_ARG)?;
    // SAFETY: as above.
    let one = |&first: &*const c_char| unsafe { text(first) }.map(<[u8]>::to_vec);
    found.iter().map(|first| one(first).ok_or(ERR_INVALID_ARG)).collect()
}

/// # Safety
/// `first` is NULL or an array of that many pairs.
unsafe fn vector(first: *const Info, count: c_int) -> Result<Vec<Pair>, c_int> {
    // SAFETY: the caller vouches for the array.
    let found = unsafe { array(first, count) }.ok_or(ERR_INVALID_ARG)?;
    let mut pairs = Vec::new();
    for info in found {
        // SAFETY: the caller vouches for the texts.
        pairs.extend(unsafe { pair(info) }?);
    }
    Ok(pairs)
}

/// The pair of an element; none if it has no key, as the head of MPICH's lists.
///
/// # Safety
/// `info` is NULL or points to a pair of texts.
unsafe fn pair(info: *const Info) -> Result<Option<Pair>, c_int> {
    // SAFETY: the caller vouches for the pair.
    let info = unsafe { info.as_ref() }.ok_or(ERR_INVALID_ARG)?;
    // SAFETY: as above.
    let (key, value) = unsafe { (text(info.key), text(info.value)) };
    let Some(key) = key else { return Ok(None) };
    Ok(Some((key.to_vec(), value.ok_or(ERR_INVALID_ARG)?.to_vec())))
}
