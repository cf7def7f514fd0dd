//! Published names, connections to other jobs, and jobs that this job starts.

use std::ffi::{c_char, c_int, c_void};

use pmi_client::c::{
    ERR_INVALID_ARG, ERR_INVALID_LENGTH, array, code, room, set_text, text, texts,
};
use pmi_client::library::commands;
use pmi_client::{Pair, SpawnRequest};

use crate::LIBRARY;

/// An element of a list of pairs in the layout of MPICH. The first three members are for its own
/// use. The head of a list may have no key.
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

/// Starts programs as a new job.
///
/// # Safety
/// `count` is the length of the arrays `cmds`, `argcs`, `argvs`, `maxprocs`, `info_keyval_sizes` and
/// `info_keyval_vectors`. `preput_keyval_size` is the length of `preput_keyval_vector`. The lengths of
/// the elements of `argvs` are in `argcs`, those of the vectors in `info_keyval_sizes`. `jobId` is
/// NULL or has room for `jobIdSize` characters. `errors` is NULL or has room for one number per
/// process.
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
        // SAFETY: the caller vouches for all arrays and texts. An array that may be NULL is read only
        // if it is not NULL.
        let request = unsafe {
            let arguments = array(argcs, count).zip(array(argvs, count));
            let infos = array(info_keyval_sizes, count).zip(array(info_keyval_vectors, count));
            let rest = |index: usize| {
                let arguments = arguments
                    .map(|(counts, vectors)| owned_texts(vectors[index], counts[index]))
                    .transpose()?;
                let info = infos.map(|(counts, vectors)| vector(vectors[index], counts[index]));
                Ok((arguments.unwrap_or_default(), info.transpose()?.unwrap_or_default()))
            };
            let heads = array(preput_keyval_vector, preput_keyval_size).ok_or(ERR_INVALID_ARG)?;
            let preput: Result<Vec<Option<Pair>>, c_int> =
                heads.iter().map(|&head| pair(head)).collect();
            SpawnRequest {
                commands: commands(texts(cmds, count), array(maxprocs, count), rest)?,
                preput: preput?.into_iter().flatten().collect(),
            }
        };
        // SAFETY: the caller vouches for the buffer.
        let spawned = LIBRARY.spawn(&request, |total| unsafe { room(errors, total) })?;
        // SAFETY: the caller vouches for the buffer.
        let Some(room) = (unsafe { room(jobId, jobIdSize) }) else { return Ok(()) };
        set_text(&room, spawned.job.as_deref().unwrap_or_default(), ERR_INVALID_LENGTH)
    })
}

/// Opens the key-value space of another job for [`PMI2_KVS_Get`](crate::kvs::PMI2_KVS_Get). `conn` is
/// ignored, since the process managers know the jobs of each other.
///
/// # Safety
/// `jobid` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Job_Connect(jobid: *const c_char, _conn: *mut c_void) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the text.
        let job = unsafe { text(jobid) }.ok_or(ERR_INVALID_ARG)?;
        Ok(LIBRARY.client()?.connect_job(job)?)
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
        Ok(LIBRARY.client()?.disconnect_job(job)?)
    })
}

/// Publishes the port of a service; `info_ptr` is ignored.
///
/// # Safety
/// The texts are NULL or texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Nameserv_publish(
    service_name: *const c_char,
    _info_ptr: *const Info,
    port: *const c_char,
) -> c_int {
    // SAFETY: the caller vouches for the texts.
    let (service, port) = unsafe { (text(service_name), text(port)) };
    LIBRARY.publish(service, port)
}

/// The port of a service; `info_ptr` is ignored.
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
        set_text(&room, &LIBRARY.client()?.lookup(service)?, ERR_INVALID_LENGTH)
    })
}

/// Withdraws a published service; `info_ptr` is ignored.
///
/// # Safety
/// `service_name` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI2_Nameserv_unpublish(
    service_name: *const c_char,
    _info_ptr: *const Info,
) -> c_int {
    // SAFETY: the caller vouches for the text.
    LIBRARY.unpublish(unsafe { text(service_name) })
}

/// The texts of an array, copied.
///
/// # Safety
/// As of [`texts`].
unsafe fn owned_texts(first: *const *const c_char, count: c_int) -> Result<Vec<Vec<u8>>, c_int> {
    // SAFETY: the caller vouches for the array and its texts.
    let found = unsafe { texts(first, count) }.ok_or(ERR_INVALID_ARG)?;
    Ok(found.into_iter().map(<[u8]>::to_vec).collect())
}

/// The pairs of an array.
///
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

/// The pair of an element; `None` if it has no key, like the head of a list of MPICH.
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
