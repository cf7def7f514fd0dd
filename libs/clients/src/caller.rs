//! A rank that waits for an answer by PMI or PMIx, and the processes that it may want.

use mpd_wire::job::Bytes;
use pmi_proto::SpawnRequest;

pub use mpd_job::manager::spawns::Caller;

/// The result of a spawn: the name of the world's key-value space and an error code per process, or an error text that
/// client libraries know.
pub type SpawnResult = Result<(String, Vec<i32>), &'static str>;

/// The processes that a rank wants to be started.
#[derive(Debug)]
pub struct ClientSpawn {
    /// The programs, and the values that their ranks find in their key-value space.
    pub request: SpawnRequest,
    /// For each program, variables for its environment. Empty for PMI, where a hint has them.
    pub variables: Vec<Vec<Bytes>>,
}

impl From<SpawnRequest> for ClientSpawn {
    /// A request without further variables.
    fn from(request: SpawnRequest) -> Self {
        Self { request, variables: Vec::new() }
    }
}
