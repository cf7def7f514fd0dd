//! The facts that a dry run shows, in any form.

use mpd_wire::job::JobSpec;

use super::outlook::Outlook;
use crate::caller::Caller;
use crate::job_options::{ExitReports, TraceOptions};
use crate::linked::Found;

/// What a dry run shows.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    pub(super) spec: &'a JobSpec,
    pub(super) exits: &'a ExitReports,
    pub(super) trace: &'a TraceOptions,
    pub(super) caller: &'a Caller,
    /// Options and variables without effect.
    pub(super) remarks: Vec<String>,
    /// The hosts, or the reason why there are none.
    pub(super) outlook: Result<Outlook, String>,
    /// The program of each argset on this host.
    pub(super) found: Vec<Found>,
}
