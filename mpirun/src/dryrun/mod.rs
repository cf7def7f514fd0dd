//! `-dry-run`: the job, its hosts and its programs, as text for people or as one JSON object. Nothing is started.

mod environment;
mod json;
mod outlook;
mod shown;
mod text;

use mpd_wire::job::JobSpec;

use crate::caller::Caller;
use crate::demand::Demand;
use crate::job_options::{ExitReports, TraceOptions};
use crate::ring_options::RingOptions;
use outlook::Outlook;
use shown::Shown;

/// The form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

/// The answer of a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What is printed on standard output.
    pub text: String,
    /// Whether the ranks have hosts; otherwise the job would fail.
    pub is_placed: bool,
}

/// Makes the answer. The specification is changed as for a submission.
pub(crate) fn answer(
    form: Form,
    mut spec: JobSpec,
    (ring_options, demand): (&RingOptions, &Demand),
    (exits, trace): (&ExitReports, &TraceOptions),
    (caller, remarks): (&Caller, Vec<String>),
) -> Answer {
    let surroundings = (caller.survey)(ring_options, &demand.hosts);
    let outlook = surroundings.and_then(|surroundings| {
        let demand = demand.by_first_names(&surroundings.others, &mut spec);
        demand.use_allocation(surroundings.kind, &mut spec.placement);
        Outlook::of(&spec, &surroundings)
    });
    let look = |argset| (caller.look)(argset, environment::of(&spec, argset));
    let found = spec.argsets.iter().map(look).collect();
    let shown = Shown { spec: &spec, exits, trace, caller, remarks, outlook, found };
    let text = match form {
        Form::Text => text::render(&shown),
        Form::Json => json::render(&shown),
    };
    Answer { text, is_placed: shown.outlook.is_ok() }
}
