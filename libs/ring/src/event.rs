//! Events of a ring, for logs, `mpdwatch` and transcripts. Each event has one text.

use std::fmt;

use mpd_wire::{Address, DaemonName};

/// A fact about the ring as this daemon sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This daemon has its place and both neighbours, or it is alone by intention.
    Entered {
        /// Members, this one included.
        members: usize,
    },
    /// Every entry was tried once more, and none admitted this daemon.
    EntryFailed,
    /// The first record of a member arrived.
    MemberEntered(DaemonName),
    /// A member that was dead or departed is back.
    MemberReturned(DaemonName),
    /// A member was declared dead.
    MemberDied {
        /// The member.
        name: DaemonName,
        /// The member that declared it dead.
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
    /// A neighbour has been silent for some time.
    Suspected(DaemonName),
    /// A suspected neighbour has sent again.
    Recovered(DaemonName),
    /// This daemon was declared dead and refuted it (R2).
    Refuted {
        /// The member that had declared it dead.
        by: Option<DaemonName>,
    },
    /// This daemon moved away from its accusers (R6).
    Reseated,
    /// Another living daemon has this name; this one leaves.
    SteppedDown,
    /// This daemon left by command.
    Left,
    /// This daemon itself stalled, and therefore suspects no neighbour.
    Stalled,
    /// A daemon claims to be a member, and no daemon of its name answers at its addresses (R7).
    NotDialedBack {
        name: DaemonName,
        /// The address from which its link comes.
        at: Address,
    },
    /// A frame was dropped, because its sender may not send it.
    FrameRefused {
        /// The name that the sender gave.
        name: DaemonName,
        /// The address from which its link comes.
        at: Address,
        /// The kind of message.
        what: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// A list or table is full; what did not fit was dropped.
    Full(&'static str),
}

impl Event {
    /// The kind of event as one word, for programs; `message::console::Happening::event` has the
    /// same words.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Entered { .. } => "entered",
            Self::EntryFailed => "entry_failed",
            Self::MemberEntered(_) => "member_entered",
            Self::MemberReturned(_) => "member_returned",
            Self::MemberDied { .. } => "member_died",
            Self::MemberLeft(_) => "member_left",
            Self::LinkedRhs(_) => "linked_rhs",
            Self::LostRhs(_) => "lost_rhs",
            Self::LinkedLhs(_) => "linked_lhs",
            Self::LostLhs(_) => "lost_lhs",
            Self::Suspected(_) => "suspected",
            Self::Recovered(_) => "recovered",
            Self::Refuted { .. } => "refuted",
            Self::Reseated => "reseated",
            Self::SteppedDown => "stepped_down",
            Self::Left => "left",
            Self::Stalled => "stalled",
            Self::NotDialedBack { .. } => "not_dialed_back",
            Self::FrameRefused { .. } => "frame_refused",
            Self::Full(_) => "full",
        }
    }

    /// The other member that the event is about; `None` if it is about this daemon or the ring.
    pub const fn member(&self) -> Option<&DaemonName> {
        match self {
            Self::MemberEntered(name)
            | Self::MemberReturned(name)
            | Self::MemberDied { name, .. }
            | Self::MemberLeft(name)
            | Self::LinkedRhs(name)
            | Self::LostRhs(name)
            | Self::LinkedLhs(name)
            | Self::LostLhs(name)
            | Self::Suspected(name)
            | Self::Recovered(name)
            | Self::NotDialedBack { name, .. }
            | Self::FrameRefused { name, .. } => Some(name),
            Self::Entered { .. }
            | Self::EntryFailed
            | Self::Refuted { .. }
            | Self::Reseated
            | Self::SteppedDown
            | Self::Left
            | Self::Stalled
            | Self::Full(_) => None,
        }
    }
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
            Self::Refuted { by: Some(by) } => write!(f, "refuted {by}, which declared us dead"),
            Self::Refuted { by: None } => f.write_str("took the place of a former instance"),
            Self::Reseated => f.write_str("moved away from the accusers"),
            Self::SteppedDown => f.write_str("another daemon of this name lives: stepped down"),
            Self::Left => f.write_str("left the ring"),
            Self::Stalled => f.write_str("stood still for a while"),
            Self::NotDialedBack { name, at } => write!(
                f,
                "{name} ({at}) is not taken in: no daemon of that name answers at the addresses \
                 that it gives"
            ),
            Self::FrameRefused { name, at, what, why } => {
                write!(f, "refused {what} from {name} ({at}): {why}")
            }
            Self::Full(what) => write!(f, "too many {what}"),
        }
    }
}
