//! Messages between managers of one job for their PMIx clients.
//!
//! A message travels in pieces ([`TreeKind::Pmix`]). *Shared* messages are for all hosts. Those of a fence go up to the
//! root before the entries, and down before the release. *Routed* messages go to one manager.
//!
//! [`TreeKind::Pmix`]: mpd_wire::message::TreeKind::Pmix

use mpd_wire::Rank;
use mpd_wire::message::{FenceGroup, WorldPiece, pieces};
use pmix_proto::Status;
use pmix_proto::encoding::Encoding;
use pmix_proto::message::{read_pairs, write_pairs};
use pmix_proto::view::Pair;

use super::notice::Notice;
use super::world_info::WorldInfo;

/// A message between managers about a rank, numbered through the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PeerMessage {
    /// Shared: data that the rank committed for other hosts.
    Commit(Rank, Vec<Pair>),
    /// Shared: what the rank contributes to a group that is constructed, and the number for the group that counts if
    /// this is the lowest member.
    Contribution(Rank, FenceGroup, u64, Vec<Pair>),
    /// Routed: a request for data that the rank committed. It is answered when the rank has committed this key, or has
    /// ended, or after a time.
    Ask(Rank, Vec<u8>),
    /// Routed: the answer.
    Answer(Rank, Vec<u8>, Found),
    /// Routed to the root: a request for the description of the world of this number.
    AskWorld(u32),
    /// Routed: the answer.
    World(u32, Option<Box<WorldInfo>>),
    /// Routed to the root: an event that the client of this rank has sent.
    Notify(Rank, Box<Notice>),
    /// Shared, from the root: the next event. The rank is that of the sender, or one that failed.
    Event(Rank, Box<Notice>),
    /// Shared, from the root: the members of a group have met those of other jobs, with this status and these worlds.
    /// The rank is the first one of a world of the group.
    Met(Rank, FenceGroup, i32, Vec<WorldInfo>),
    /// Shared, from the root: the world of another job with this number is no longer connected. With a value its job has
    /// ended; the value tells whether because of a failure.
    Parted(u32, Option<bool>),
}

/// What a rank has committed; or that it does not have a key, or has committed nothing in the time for it.
pub(super) type Found = Result<Vec<Pair>, Status>;

/// Pairs as bytes.
pub(super) fn encoded(pairs: &[Pair]) -> Vec<u8> {
    write_pairs(Encoding::Flexible, pairs)
}

/// The pairs in these bytes.
pub(super) fn decoded(bytes: &[u8]) -> Option<Vec<Pair>> {
    read_pairs(Encoding::Flexible, bytes).ok()
}

/// Where a piece of a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Shared,
    /// To the manager at a tree index, from another one.
    Routed {
        to: u32,
        from: u32,
    },
}

const SHARED: u8 = 0;
const ROUTED: u8 = 1;

impl PeerMessage {
    fn rank(&self) -> Rank {
        match self {
            Self::Commit(rank, _)
            | Self::Contribution(rank, ..)
            | Self::Met(rank, ..)
            | Self::Ask(rank, _)
            | Self::Answer(rank, ..)
            | Self::Notify(rank, _)
            | Self::Event(rank, _) => *rank,
            // These messages have no rank. The number distinguishes those that are in transit together.
            Self::AskWorld(number) | Self::World(number, _) | Self::Parted(number, _) => {
                Rank(*number)
            }
        }
    }

    /// The payloads of its frames.
    pub(super) fn frames(&self, route: Route) -> Vec<Vec<u8>> {
        let head = match route {
            Route::Shared => vec![SHARED],
            Route::Routed { to, from } => {
                [&[ROUTED][..], &to.to_be_bytes(), &from.to_be_bytes()].concat()
            }
        };
        let bytes = self.write();
        pieces(self.rank(), &bytes).map(|piece| [&head[..], &piece].concat()).collect()
    }

    fn write(&self) -> Vec<u8> {
        let pairs = encoded;
        // Our own structs serialise; see frame::encode_message.
        let (kind, first, rest) = match self {
            Self::Commit(_, committed) => (0, Vec::new(), pairs(committed)),
            Self::Contribution(_, group, context, contributed) => {
                let group = serde_json::to_vec(group).expect("a group serialises");
                (1, group, [&context.to_be_bytes()[..], &pairs(contributed)].concat())
            }
            Self::Ask(_, key) => (2, key.clone(), Vec::new()),
            Self::Answer(_, key, Err(status)) => (3, key.clone(), status.0.to_be_bytes().to_vec()),
            Self::Answer(_, key, Ok(found)) => (4, key.clone(), pairs(found)),
            Self::AskWorld(_) => (5, Vec::new(), Vec::new()),
            Self::World(_, info) => {
                (6, serde_json::to_vec(info).expect("a world serialises"), Vec::new())
            }
            Self::Notify(_, notice) => (7, Vec::new(), notice.write()),
            Self::Event(_, notice) => (8, Vec::new(), notice.write()),
            Self::Met(_, group, status, worlds) => {
                let met = (group, status, worlds);
                (9, serde_json::to_vec(&met).expect("a result serialises"), Vec::new())
            }
            Self::Parted(_, ended) => {
                (10, serde_json::to_vec(ended).expect("a flag serialises"), Vec::new())
            }
        };
        let length = u32::try_from(first.len()).unwrap_or(u32::MAX);
        [&[kind][..], &length.to_be_bytes(), &first, &rest].concat()
    }

    /// Reads a complete message. `None` if it is malformed.
    pub(super) fn read(rank: Rank, bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = u32::from_be_bytes(*length) as usize;
        let (first, rest) = rest.split_at_checked(length)?;
        let pairs = decoded;
        Some(match kind {
            0 => Self::Commit(rank, pairs(rest)?),
            1 => {
                let (context, rest) = rest.split_first_chunk::<8>()?;
                let group = serde_json::from_slice(first).ok()?;
                Self::Contribution(rank, group, u64::from_be_bytes(*context), pairs(rest)?)
            }
            2 => Self::Ask(rank, first.to_vec()),
            3 => {
                let status = i32::from_be_bytes(rest.try_into().ok()?);
                Self::Answer(rank, first.to_vec(), Err(Status(status)))
            }
            4 => Self::Answer(rank, first.to_vec(), Ok(pairs(rest)?)),
            5 => Self::AskWorld(rank.0),
            6 => Self::World(rank.0, serde_json::from_slice(first).ok()?),
            7 => Self::Notify(rank, Notice::read(rest)?.into()),
            8 => Self::Event(rank, Notice::read(rest)?.into()),
            9 => {
                let (group, status, worlds) = serde_json::from_slice(first).ok()?;
                Self::Met(rank, group, status, worlds)
            }
            10 => Self::Parted(rank.0, serde_json::from_slice(first).ok()?),
            _ => return None,
        })
    }
}

/// The route of a frame, and the piece in it. `None` if it is malformed.
pub(super) fn read_frame(frame: &[u8]) -> Option<(Route, WorldPiece<'_>)> {
    let (kind, rest) = frame.split_first()?;
    let (route, rest) = match *kind {
        SHARED => (Route::Shared, rest),
        ROUTED => {
            let (to, rest) = rest.split_first_chunk::<4>()?;
            let (from, rest) = rest.split_first_chunk::<4>()?;
            let (to, from) = (u32::from_be_bytes(*to), u32::from_be_bytes(*from));
            (Route::Routed { to, from }, rest)
        }
        _ => return None,
    };
    Some((route, WorldPiece::read(rest)?))
}

#[cfg(test)]
mod tests {
    use mpd_wire::message::FenceMembers;
    use pmix_proto::encoding::Value;
    use pmix_proto::view::{Info, Proc};
    use pmix_proto::{Event, Range};

    use super::*;

    #[test]
    fn a_parcel_reads_as_it_was_written_and_its_cuts_do_not() {
        let pairs = || vec![Pair::new("a", Value::u32(7)), Pair::new("b", Value::text("text"))];
        let group = FenceGroup { members: FenceMembers::World, tag: 0, name: "construct g".into() };
        let event = Event {
            status: Status(-3000),
            source: Proc::new("job", 7),
            range: Range::Custom,
            targets: vec![Proc::new("job", 1), Proc::all("other")],
            info: vec![Info { key: b"k".into(), flags: 1, value: Value::text("v") }],
        };
        let notice = Box::new(Notice { host: 3, has_default: true, event });
        let messages = [
            PeerMessage::Notify(Rank(7), notice.clone()),
            PeerMessage::Event(Rank(7), notice),
            PeerMessage::Commit(Rank(3), pairs()),
            PeerMessage::Contribution(Rank(4), group.clone(), 1 << 40, pairs()),
            PeerMessage::Met(Rank(4), group, -24, Vec::new()),
            PeerMessage::Parted(1 << 31, Some(true)),
            PeerMessage::Parted(1 << 31, None),
            PeerMessage::Ask(Rank(5), b"key".into()),
            PeerMessage::Answer(Rank(6), b"key".into(), Err(Status::TIMEOUT)),
            PeerMessage::Answer(Rank(6), Vec::new(), Ok(pairs())),
        ];
        for message in messages {
            for route in [Route::Shared, Route::Routed { to: 1, from: 70_000 }] {
                let frames = message.frames(route);
                assert_eq!(frames.len(), 1);
                let (read, piece) = read_frame(&frames[0]).unwrap();
                assert_eq!((read, piece.last, piece.of), (route, true, message.rank()));
                assert_eq!(PeerMessage::read(piece.of, piece.bytes), Some(message.clone()));
                assert_eq!(PeerMessage::read(piece.of, &piece.bytes[..4]), None);
            }
        }
        assert_eq!(read_frame(&[2, 0, 0, 0, 0, 1]), None);
        assert_eq!(read_frame(&[]), None);
    }
}
