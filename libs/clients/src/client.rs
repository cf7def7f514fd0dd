//! The clients: of which kind they are, and the ids of their connections.

use mpd_wire::Rank;

/// The kind of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Of a program that this manager started.
    Program,
    /// Of a program that runs under a debugger and may be started again.
    Debugged,
    /// Of a program that ran before its job.
    Adopted,
}

/// A connection of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionId {
    /// The PMI connection of this rank.
    Pmi(Rank),
    /// A PMIx connection, by the number that its owner gave it. No later connection has the same number.
    Pmix(usize),
}
