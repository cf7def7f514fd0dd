//! A job: its specification, its hosts and ranks, the ends of its ranks, and the exit code of
//! `mpirun`.

mod bounds;
mod codec;
mod crash;
mod debug;
mod digest;
mod failure;
mod fields;
mod group;
mod notice;
mod secret;
mod share;
mod spawn;
mod spec;
mod wish;
mod world;

pub use bounds::{Bytes, MAX_ARGSETS, MAX_HOSTS, MAX_RANKS, MAX_SPEC, Misfit};
pub use crash::{Crash, MAX_STACK, MAX_STACKS, OnCrash};
pub use debug::Debug;
pub use digest::Digest;
pub use failure::{Failure, RankEnd, exit};
pub use fields::InvalidSpec;
pub use group::{Group, GroupKey, group_of};
pub use notice::Notice;
pub use secret::{Cookie, JobKey, KEY_LENGTH};
pub use share::{FAN_OUT, InvalidShares, MAX_SHARES, Share, Shares};
pub use spawn::{SpawnBlock, SpawnPolicy, SpawnWish};
pub use spec::{Argset, ArgumentFormat, JobSpec, LabelFormat, Limit, OnFailure, OutputSpec};
pub use wish::{Binding, HostWish, PlacementSpec, RankOrder};
pub use world::{MAX_RANKS_EVER, Parts, SpawnOutcome, World};
