//! The search for the job of a namespace.

use mpd_sansio::Time;
use mpd_wire::JobId;

/// A job of a namespace.
#[derive(Debug)]
pub(crate) enum Found {
    /// It is being looked for, until that time.
    Asked {
        until: Time,
    },
    /// The request is repeated then.
    Again {
        at: Time,
        until: Time,
    },
    Yes(JobId),
}
