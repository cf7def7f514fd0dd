//! The requests that guests may send: consoles that find the ring of one mpirun.

use mpd_wire::job::JobSpec;
use mpd_wire::message::{Opening, RingRequest};

/// The answer to any other request.
pub(crate) const REFUSAL: &str = "this daemon runs the job of one mpirun: it lists and follows that job, \
                       carries out orders to it, prints its state, and runs debuggers of it, and nothing else";

/// Whether a guest may open with this. A submission is checked again when it is complete.
///
/// # Errors
/// The refusal.
pub fn check_guest(opening: &Opening) -> Result<(), String> {
    match opening {
        Opening::Ring { request, .. } => match request {
            RingRequest::Jobs
            | RingRequest::Job { .. }
            | RingRequest::JobEvents { .. }
            | RingRequest::State { job: Some(_) } => Ok(()),
            RingRequest::Describe
            | RingRequest::Lap { .. }
            | RingRequest::Census
            | RingRequest::Exit { .. }
            | RingRequest::ExitAll
            | RingRequest::Drain { .. }
            | RingRequest::Names
            | RingRequest::Slots(_)
            | RingRequest::Top
            | RingRequest::Introduce { .. }
            | RingRequest::Seek { .. }
            | RingRequest::Watch
            | RingRequest::State { job: None }
            | RingRequest::Ping { .. } => Err(REFUSAL.to_owned()),
        },
        Opening::Submit { .. } => Ok(()),
        Opening::Status { .. } | Opening::Register { .. } => Err(REFUSAL.to_owned()),
    }
}

/// Whether a guest may submit this: debuggers that attach to processes, and no other job.
pub(crate) fn check_job_of_guest(spec: &JobSpec) -> Result<(), String> {
    match &spec.debug {
        Some(debug) if !debug.attach.is_empty() => Ok(()),
        _ => Err(REFUSAL.to_owned()),
    }
}
