//! Which process runs on which host when a rank of a running job spawns further ones.

mod wish;

pub use wish::{SpawnBlock, SpawnPolicy, SpawnWish};
