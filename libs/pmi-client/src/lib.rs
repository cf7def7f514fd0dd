//! The client side of PMI: a process that a process manager has started finds its place in the
//! job, and its peers.
//!
//! ```
//! use pmi_client::{Client, Version};
//!
//! # fn main() -> Result<(), pmi_client::Error> {
//! let client = Client::connect(Version::One)?;
//! let process = client.process_info();
//! client.put(format!("address-{}", process.rank).as_bytes(), b"10.0.0.1:99")?;
//! client.fence()?;
//! let right = (process.rank + 1) % process.size;
//! let address = client.get(format!("address-{right}").as_bytes())?;
//! assert!(address.is_some());
//! client.finalize()
//! # }
//! ```
//!
//! The server is found by `PMI_FD`, else by `PMI_PORT`; a process without either is rank 0 of 1
//! and has a key-value space of its own. It may be MPD's, Hydra's, or another. What is on the wire
//! is `pmi-proto`'s; here are the descriptor, the waiting, and who of several threads gets which
//! answer. The C interfaces are the crates `libpmi` and `libpmi2`.

mod alone;
mod client;
mod environment;
mod error;
mod frames;
mod lines;
#[expect(unsafe_code, reason = "the one place for it; each block says why it is sound")]
mod raw;
mod server;
mod wire;

pub mod c;

pub use client::{Client, Version};
pub use error::Error;
pub use pmi_proto::{SpawnCommand, SpawnRequest};
pub use server::{Limits, Pair, ProcessInfo, Ring, Source, Spawned};
