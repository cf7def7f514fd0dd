//! Events of a job.

use std::ffi::{c_char, c_int, c_longlong};

use mpd_requests::{Error, Event, EventKind};
use pmi_client::c::text;

use crate::{code, host_field, missing, session};

/// The variable with the job of a rank.
const OWN_JOB: &str = "MPD_JOB_ID";

/// `MPD_Event`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CEvent {
    number: c_longlong,
    kind: c_int,
    rank: c_int,
    pid: c_int,
    code: c_int,
    signal: c_int,
    host: [c_char; 256],
}

impl CEvent {
    fn of(event: &Event) -> Self {
        let mut all = Self {
            number: number(event.number),
            kind: event.kind.bit().cast_signed(),
            rank: -1,
            pid: 0,
            code: 0,
            signal: 0,
            host: host_field(&event.host),
        };
        match event.kind {
            EventKind::Started { rank, pid } => {
                (all.rank, all.pid) = (rank.cast_signed(), pid.cast_signed());
            }
            EventKind::Exited { rank, code, signal } => {
                all.rank = rank.cast_signed();
                (all.code, all.signal) = (code.into(), signal.into());
            }
            EventKind::JobEnded { code } => all.code = code.into(),
            _ => {}
        }
        all
    }
}

fn number(number: u64) -> c_longlong {
    c_longlong::try_from(number).unwrap_or(c_longlong::MAX)
}

/// Subscribes to the events of a job.
///
/// # Safety
/// `job` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Notify(job: *const c_char, events: c_int, from: c_longlong) -> c_int {
    code(|| {
        // SAFETY: the caller vouches for the text.
        let job = match unsafe { text(job) } {
            Some(job) => String::from_utf8_lossy(job).into_owned(),
            None => std::env::var(OWN_JOB).unwrap_or_default(),
        };
        let from = u64::try_from(from)
            .map_err(|_| Error::Argument("the number of the first event is negative".to_owned()))?;
        session()?.notify(&job, events.cast_unsigned(), from)
    })
}

/// Gives the next event, if there is one, without waiting.
///
/// # Safety
/// `flag` and `event` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPD_Next_event(flag: *mut c_int, event: *mut CEvent) -> c_int {
    code(|| {
        if flag.is_null() || event.is_null() {
            return Err(missing("the flag or the event"));
        }
        // SAFETY: neither is NULL, and the caller vouches for the rest. There is no reference: the two may overlap.
        unsafe {
            *flag = 0;
            if let Some(found) = session()?.next_event()? {
                *event = CEvent::of(&found);
                *flag = 1;
            }
        }
        Ok(())
    })
}
