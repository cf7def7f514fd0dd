//! What happened to a ring, for people: logs, `mpdwatch`, transcripts. One text per fact.

use std::fmt;

use crate::ring::member::DaemonName;

/// A fact about the ring as this daemon sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This daemon has its place and both neighbours, or is alone by intention.
    Entered {
        /// Members, this one included.
        members: usize,
    },
    /// No entry answered so far.
    EntryFailed,
    /// A member was heard of for the first time.
    MemberEntered(DaemonName),
    /// A member that was dead or departed is back.
    MemberReturned(DaemonName),
    /// A member was declared dead.
    MemberDied {
        /// Who.
        name: DaemonName,
        /// By whom.
        by: Option<DaemonName>,
    },
    /// A member left by command.
    MemberLeft(DaemonName),
    /// The link to the rhs is up.
    LinkedRhs(DaemonName),
    /// The link to the rhs is gone.
    LostRhs(DaemonName),
    /// The lhs has linked to this daemon.
    LinkedLhs(DaemonName),
    /// The link from the lhs is gone.
    LostLhs(DaemonName),
    /// A neighbour is silent for a while.
    Suspected(DaemonName),
    /// A suspected neighbour was heard again.
    Recovered(DaemonName),
    /// This daemon was declared dead and refuted it (R2).
    Refuted {
        /// Who had said so.
        by: Option<DaemonName>,
    },
    /// This daemon moved away from its accusers (R6).
    Reseated,
    /// Another living daemon bears this name; this one goes.
    SteppedDown,
    /// This daemon left by command.
    Left,
    /// This daemon itself stood still for a while and judges nobody for it.
    Stalled,
    /// A list or table is full; what did not fit was dropped.
    Full(&'static str),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entered { members: 1 } => f.write_str("began a ring of one"),
            Self::Entered { members } => write!(f, "entered a ring of {members}"),
            Self::EntryFailed => f.write_str("no entry answers"),
            Self::MemberEntered(name) => write!(f, "{name} entered"),
            Self::MemberReturned(name) => write!(f, "{name} is back"),
            Self::MemberDied { name, by: Some(by) } => write!(f, "{name} is dead, says {by}"),
            Self::MemberDied { name, by: None } => write!(f, "{name} is dead"),
            Self::MemberLeft(name) => write!(f, "{name} left"),
            Self::LinkedRhs(name) => write!(f, "rhs is {name}"),
            Self::LostRhs(name) => write!(f, "lost rhs {name}"),
            Self::LinkedLhs(name) => write!(f, "lhs is {name}"),
            Self::LostLhs(name) => write!(f, "lost lhs {name}"),
            Self::Suspected(name) => write!(f, "{name} is silent"),
            Self::Recovered(name) => write!(f, "{name} is heard again"),
            Self::Refuted { by: Some(by) } => write!(f, "refuted {by}, who said we are dead"),
            Self::Refuted { by: None } => f.write_str("took the place of a former instance"),
            Self::Reseated => f.write_str("moved away from the accusers"),
            Self::SteppedDown => f.write_str("another daemon of this name lives: stepped down"),
            Self::Left => f.write_str("left the ring"),
            Self::Stalled => f.write_str("stood still for a while"),
            Self::Full(what) => write!(f, "too many {what}"),
        }
    }
}
