//! What a job is: its specification, how its ranks ended, and what that means for `mpirun`.

mod codec;
mod failure;
mod spec;

pub use codec::InvalidSpec;
pub use failure::{Failure, RankEnd, exit};
pub use spec::{
    Argset, Bytes, JobSpec, LabelFormat, Limit, MAX_ARGSETS, MAX_RANKS, MAX_SPEC, Misfit,
    OnFailure, OutputSpec,
};
