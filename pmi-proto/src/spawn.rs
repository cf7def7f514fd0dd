//! The request and the result of a spawn, for both dialects.

/// The request of one call: a new job, whose ranks are numbered over all commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpawnRequest {
    /// The programs; at least one.
    pub commands: Vec<SpawnCommand>,
    /// The pairs that the KVS of the new job holds at its start.
    pub preput: Vec<(Vec<u8>, Vec<u8>)>,
}

/// One program of a spawn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpawnCommand {
    /// The name from the client, not empty. Without a slash it is searched for.
    pub program: Vec<u8>,
    /// The arguments after the program's name. Each may be empty.
    pub args: Vec<Vec<u8>>,
    /// How many processes, at least one.
    pub size: u32,
    /// Hints, such as directory and hosts, and keys of the user. Unknown ones are ignored.
    pub info: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The result of a spawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spawned<'a> {
    /// The name of the new job's KVS, one word.
    pub jobid: &'a str,
    /// One code for each process, in the order of ranks; 0 means that the process runs.
    pub errors: &'a [i32],
}
