//! The client side of PMI: a process of a parallel job gets its rank from the process manager and
//! exchanges values with the other ranks.
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
//! The variable `PMI_FD` names the connection to the server, or else `PMI_PORT` names its address.
//! The server may be that of MPD, Hydra or another process manager. A process without both
//! variables is rank 0 of 1 and has a key-value space of its own.
//!
//! The crate `pmi-proto` encodes and decodes messages. This crate owns the descriptor, waits for
//! answers, and gives each answer to the thread that waits for it. The C interfaces are the crates
//! `libpmi` and `libpmi2`.
//!
//! | module | subject |
//! |---|---|
//! | `client` | [`Client`]: checks arguments, then calls the server |
//! | `server` | the trait of the three servers, and the types of their answers |
//! | `lines` | the server over PMI-1 |
//! | `frames` | the server over PMI-2 |
//! | `singleton` | the replacement of a server for a process without one |
//! | `environment` | the variables that the process manager has set |
//! | `wire` | the connection |
//! | `error` | [`Error`] |
//! | `raw` | the unsafe code |
//! | [`c`] | codes and conversions of both C interfaces |
//! | [`library`] | functions that both C interfaces have |

mod client;
mod environment;
mod error;
mod frames;
mod lines;
#[expect(unsafe_code, reason = "the one place for it; each block says why it is sound")]
mod raw;
mod server;
mod singleton;
mod wire;

pub mod c;
pub mod library;

pub use client::{Client, Version};
pub use error::Error;
pub use pmi_proto::{SpawnCommand, SpawnRequest};
pub use server::{Limits, Pair, ProcessInfo, Ring, Source, Spawned};
