//! Completions of requests.

use std::ffi::{c_char, c_int};
use std::ptr;

use mpd_requests::{Error, State, Status};

use crate::{Request, code, host_field, id_of, missing, session, set_detail};

const INACTIVE: c_int = 0;
const GRANTED: c_int = 1;
const STARTED: c_int = 2;
const EXITED: c_int = 3;
const CANCELLED: c_int = 4;
const LOST: c_int = 5;

/// `MPD_Status`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CStatus {
    state: c_int,
    code: c_int,
    signal: c_int,
    host: [c_char; 256],
}

impl CStatus {
    const NONE: Self = Self { state: INACTIVE, code: 0, signal: 0, host: [0; 256] };

    fn of(status: &Status) -> Self {
        let mut all = Self { host: host_field(&status.host), ..Self::NONE };
        (all.state, all.code, all.signal) = match status.state {
            State::Granted => (GRANTED, 0, 0),
            State::Started => (STARTED, 0, 0),
            State::Exited(code) => (EXITED, code.into(), 0),
            State::Signaled(signal) => (EXITED, 128 + c_int::from(signal), signal.into()),
            State::Cancelled => (CANCELLED, 0, 0),
            State::Refused => (CANCELLED, Error::Refused(String::new()).code(), 0),
            State::Lost(code) => (LOST, code.into(), 0),
        };
        all
    }
}

/// Reports a completion: the request becomes null if it is over.
///
/// # Safety
/// `request` points to a request; `to` is NULL or has room for a status.
unsafe fn report(request: *mut Request, status: &Status, to: *mut CStatus) {
    // SAFETY: the caller vouches for both.
    unsafe {
        if status.state.is_last() {
            *request = ptr::null_mut();
        }
        if status.state == State::Refused
            && let Ok(session) = session()
        {
            set_detail(&session.refusal());
        }
        if !to.is_null() {
            *to = CStatus::of(status);
        }
    }
}

/// Reports a completion of a request, if there is one, without waiting.
///
/// # Safety
/// `r` and `flag` are NULL or valid; `status` is NULL or has room for a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Test(
    r: *mut Request,
    flag: *mut c_int,
    status: *mut CStatus,
) -> c_int {
    code(|| {
        if r.is_null() || flag.is_null() {
            return Err(missing("the request or the flag"));
        }
        // SAFETY: neither is NULL, and the caller vouches for the rest.
        unsafe {
            *flag = 0;
            if (*r).is_null() {
                *flag = 1;
                return inactive(status);
            }
            let id = id_of(*r)?;
            match session()?.test(id)? {
                Some(found) => {
                    report(r, &found, status);
                    *flag = 1;
                }
                None if !session()?.is_active(id)? => {
                    *flag = 1;
                    return inactive(status);
                }
                None => {}
            }
        }
        Ok(())
    })
}

/// Waits for a completion of a request.
///
/// # Safety
/// `r` is NULL or valid; `status` is NULL or has room for a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Wait(r: *mut Request, status: *mut CStatus) -> c_int {
    code(|| {
        if r.is_null() {
            return Err(missing("the request"));
        }
        // SAFETY: it is not NULL, and the caller vouches for the rest.
        unsafe {
            if (*r).is_null() {
                return inactive(status);
            }
            match session()?.wait(id_of(*r)?)? {
                Some(found) => report(r, &found, status),
                None => return inactive(status),
            }
        }
        Ok(())
    })
}

/// # Safety
/// `status` is NULL or has room for a status.
unsafe fn inactive(status: *mut CStatus) -> Result<(), Error> {
    // SAFETY: the caller vouches for it.
    if let Some(status) = unsafe { status.as_mut() } {
        *status = CStatus::NONE;
    }
    Ok(())
}

/// Waits until at least one of the requests completes.
///
/// # Safety
/// `r` is an array of `n` requests; `nout` is NULL or valid; `index` and `s` are NULL or have room for `n` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Waitsome(
    n: c_int,
    r: *mut Request,
    nout: *mut c_int,
    index: *mut c_int,
    s: *mut CStatus,
) -> c_int {
    code(|| {
        let count = usize::try_from(n).map_err(|_| Error::Argument("n is negative".to_owned()))?;
        if nout.is_null() || (count > 0 && (r.is_null() || index.is_null())) {
            return Err(missing("the array of requests, nout or index"));
        }
        // SAFETY: none of them is NULL, and the caller vouches for the lengths.
        unsafe {
            *nout = 0;
            let at = (0..count).filter(|&at| !(*r.add(at)).is_null());
            let at: Vec<usize> = at.collect();
            let ids: Result<Vec<_>, Error> = at.iter().map(|&at| id_of(*r.add(at))).collect();
            let found = session()?.wait_some(&ids?)?;
            for (out, (number, status)) in found.iter().enumerate() {
                let place = at[*number];
                report(r.add(place), status, if s.is_null() { s } else { s.add(out) });
                *index.add(out) = c_int::try_from(place).unwrap_or(c_int::MAX);
                *nout += 1;
            }
        }
        Ok(())
    })
}

/// The exit code of a process that has exited, as a shell reports it.
///
/// # Safety
/// `status` is NULL or a status; `to` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Get_return_code(status: *const CStatus, to: *mut c_int) -> c_int {
    code(|| {
        if status.is_null() || to.is_null() {
            return Err(missing("the status or the code"));
        }
        // SAFETY: neither is NULL, and the caller vouches for the rest. There is no reference: the caller may want the
        // code in a field of the status.
        unsafe {
            if (*status).state != EXITED {
                let text = "the status is not that of a process that has exited";
                return Err(Error::State(text.to_owned()));
            }
            *to = (*status).code;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_may_be_stored_in_the_status_itself() {
        let mut status = CStatus { state: EXITED, code: 7, ..CStatus::NONE };
        let place: *mut CStatus = &raw mut status;
        // SAFETY: both places are in this status.
        let result = unsafe { MPD_Get_return_code(place, &raw mut (*place).signal) };
        assert_eq!((result, status.signal), (0, 7));
        // SAFETY: as above.
        let result = unsafe { MPD_Get_return_code(place, &raw mut (*place).state) };
        assert_eq!((result, status.state), (0, 7));
        // SAFETY: as above.
        assert_ne!(unsafe { MPD_Get_return_code(place, &raw mut (*place).state) }, 0, "not exited");
        // SAFETY: NULL is refused.
        assert_ne!(unsafe { MPD_Get_return_code(ptr::null(), ptr::null_mut()) }, 0);
    }
}
