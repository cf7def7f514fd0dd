//! What a job is: its specification, who runs what of it, how its ranks ended, and what that means for
//! `mpirun`.

mod codec;
mod crash;
mod debug;
mod digest;
mod failure;
mod group;
mod notice;
mod secret;
mod share;
mod spawn;
mod spec;
mod wish;
mod world;

pub use codec::InvalidSpec;
pub use crash::{Crash, MAX_STACK, MAX_STACKS, OnCrash};
pub use debug::Debug;
pub use digest::Digest;
pub use failure::{Failure, RankEnd, exit};
pub use group::{Group, GroupKey, group_of};
pub use notice::Notice;
pub use secret::{Cookie, JobKey, KEY_LENGTH};
pub use share::{FAN_OUT, InvalidShares, MAX_SHARES, Share, Shares};
pub use spawn::{SpawnBlock, SpawnPolicy, SpawnWish};
pub use spec::{
    Argset, ArgumentFormat, Bytes, JobSpec, LabelFormat, Limit, MAX_ARGSETS, MAX_RANKS, MAX_SPEC,
    Misfit, OnFailure, OutputSpec,
};
pub use wish::{Binding, HostWish, MAX_HOSTS, PlacementSpec, RankOrder};
pub(crate) use wish::{check_hosts, check_names};
pub use world::{MAX_RANKS_EVER, Parts, SpawnOutcome, World};
