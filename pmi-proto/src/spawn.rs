//! A spawn as both dialects ask for it and answer it.

/// What one call wants started: a job of its own, of ranks numbered over all commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpawnRequest {
    /// At least one.
    pub commands: Vec<SpawnCommand>,
    /// What the KVS of the new job holds beforehand.
    pub preput: Vec<(Vec<u8>, Vec<u8>)>,
}

/// One program of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpawnCommand {
    /// As the client named it, which is not nothing; without a slash it is to be searched for.
    pub program: Vec<u8>,
    /// The arguments behind the program's name; each may be empty.
    pub args: Vec<Vec<u8>>,
    /// How many processes, at least one.
    pub size: u32,
    /// Hints: directory, hosts and whatever the user wrote; unknown ones are to be passed over.
    pub info: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spawned<'a> {
    /// The name of the new job's KVS, one word.
    pub jobid: &'a str,
    /// One for each process, in the order of ranks; 0 is a process that runs.
    pub errors: &'a [i32],
}
