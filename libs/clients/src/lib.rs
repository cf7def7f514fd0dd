//! The PMI and PMIx clients among the ranks of one host.
//!
//! **Purpose.** The ranks of a job speak PMI or PMIx to their manager: they put and get keys, meet in fences, spawn
//! processes, publish names, abort. [`Clients`] decides how each request is answered, what other managers, the daemon and
//! the job's machine get to know, and which connections are admitted. Bytes of clients go in, and bytes for clients come out.
//!
//! **Users.** The node of a manager (`libs/manager/`), and the simulator of jobs. `mpd/src/manager/pmi/` has the descriptors.
//!
//! **Must not know.** Descriptors, files, clocks. Facts of the host come from [`HostFacts`], those of the job from [`Job`].
//! The job's machine (`mpd-job`) decides when all ranks have entered a fence.
//!
//! | module | has |
//! |---|---|
//! | `clients` | the machine, and its methods |
//! | `router` | the way of inputs to the parts, and between the parts |
//! | `input`, `output` | what the owner reports, and what it has to do |
//! | `caller`, `client`, `turn` | a request, a connection, the context of a call |
//! | `pmi` | the sessions of PMI, the key-value spaces |
//! | `pmix` | the sessions of PMIx, and what they commit and get |
//! | `names`, `name_router` | names that ranks publish and look up |
//! | `fresh_name` | names instead of taken ones |
//! | `libraries` | the MPI libraries of ranks, by their requests |
//! | `job`, `worlds`, [`universe`] | the job, as a manager knows it |
#![forbid(unsafe_code)]

mod caller;
mod client;
mod clients;
mod fresh_name;
mod input;
mod job;
mod libraries;
mod name_router;
mod names;
mod output;
mod pmi;
mod pmix;
mod router;
mod turn;
pub mod universe;
mod worlds;

pub use caller::{Caller, ClientSpawn, SpawnResult};
pub use client::{Client, ConnectionId};
pub use clients::Clients;
pub use input::{Accepted, FromClient, FromJob, Input};
pub use job::{HostFacts, Job};
pub use output::{Action, Level, LinkOutput, Output};
pub use pmix::{Room, variables_of};
pub use worlds::{Spawner, World, Worlds};
