//! Handles the problems that writes find.

use mpd_job::manager::Input;
use mpd_wire::Stream;

use super::sink::Trouble;
use crate::manager::context::Turn;

/// Handles the result of a write.
pub(super) fn after_write(turn: &mut Turn<'_>, trouble: Option<Trouble>) {
    match trouble {
        // A closed standard error does not end a job.
        None | Some(Trouble::Closed(Stream::Err)) => {}
        Some(Trouble::Closed(Stream::Out)) => turn.post(Input::OutputClosed),
        Some(Trouble::Failed(problem)) => turn.post(Input::OutputFailed(problem)),
    }
}
