//! How long this process waits for one that gives no sign, and the words for it. Pure.

use std::time::Duration;

/// The silence after which the process is looked at, and the time between two looks.
pub(crate) const LOOK_AFTER: Duration = Duration::from_secs(5);

/// How long the process may take for what it was asked for, when the user no longer wants the job.
pub(crate) const PATIENCE: Duration = Duration::from_millis(1500);

/// The time between two looks after the time limit of the job.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A process without which the job does not start is stopped.
pub(crate) fn stopped_at_start((name, pid): (&str, i32)) -> String {
    format!(
        "the {name} (process {pid}) is stopped, so the job does not start; 'kill -CONT {pid}' lets it continue"
    )
}

/// The job has not begun within its time limit, for this state of a process.
pub(crate) fn not_begun(limit: Duration, (name, pid): (&str, i32), state: &str) -> String {
    let limit = limit.as_secs_f64();
    format!(
        "the job has not begun within its limit of {limit} s: the {name} (process {pid}) {state}"
    )
}

/// A process is left, because it does not end.
pub(crate) fn left((name, pid): (&str, i32), is_stopped: bool) -> String {
    match is_stopped {
        true => format!(
            "the {name} of this job (process {pid}) is stopped; it ends when it continues ('kill -CONT {pid}')"
        ),
        false => format!(
            "the {name} of this job (process {pid}) has not ended; 'kill -KILL {pid}' ends it"
        ),
    }
}
