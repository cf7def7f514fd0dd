//! A job: its specification, its hosts and ranks, the ends of its ranks, and the exit code of
//! `mpirun`.

mod allowance;
mod bounds;
mod codec;
mod cpu_choice;
mod crash;
mod debug;
mod digest;
mod failure;
mod group;
mod host_slice;
mod library;
mod notice;
mod placement_options;
mod places;
mod program;
mod secret;
mod spawn;
mod spawn_options;
mod spec;
mod world;

pub use allowance::{Allowance, CpuAmount, InvalidAllowance, MemorySize};
pub use bounds::{Bytes, MAX_ARGSETS, MAX_HOST_ENTRIES, MAX_HOSTS, MAX_RANKS, MAX_SPEC, Misfit};
pub use codec::InvalidSpec;
pub use cpu_choice::{CpuChoice, CpuChoices, CpuNumbers, CpuRange, MAX_CPU};
pub use crash::{Crash, MAX_STACK, MAX_STACKS, OnCrash};
pub use debug::Debug;
pub use digest::Digest;
pub use failure::{Failure, ManagerEnd, RankEnd, exit};
pub use group::{Group, GroupKey, group_of};
pub use host_slice::{FAN_OUT, HostSlice, HostSlices, InvalidHostSlices, MAX_HOST_SLICES};
pub use library::MpiLibrary;
pub use notice::Notice;
pub use placement_options::{Binding, HostChoice, MAX_GPUS, PlacementSpec, RankOrder, Spread};
pub use places::Places;
pub use program::{ARCHITECTURE, Program, Unusable, names_architecture};
pub use secret::{Cookie, JobKey, KEY_LENGTH, members_mark, namespace_mark, same_secret};
pub use spawn::{SpawnBlock, SpawnPlacement, SpawnProgram};
pub use spawn_options::{SpawnOptions, SpawnPolicy};
pub use spec::{
    AbortScope, Argset, ArgumentFormat, InvalidLabel, JobSpec, LabelFormat, Limit, OnFailure,
    OutputSpec,
};
pub use world::{MAX_RANKS_EVER, Parts, SpawnOutcome, World};
