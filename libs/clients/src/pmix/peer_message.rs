//! Messages between managers of one job for their PMIx clients.
//!
//! A message travels in pieces ([`TreeKind::Pmix`]). *Shared* messages are for all hosts. Those of a fence go up to the
//! root before the entries, and down before the release. *Routed* messages go to one manager.
//!
//! [`TreeKind::Pmix`]: mpd_wire::message::TreeKind::Pmix

use mpd_wire::frame::compact;
use mpd_wire::message::{FenceGroup, WorldPiece, pieces};
use mpd_wire::{Rank, binary};
use pmix_proto::Status;
use pmix_proto::encoding::Encoding;
use pmix_proto::message::{read_pairs, write_pairs};
use pmix_proto::view::Pair;
use serde::{Deserialize, Serialize};

use super::notice::Notice;
use super::world_info::WorldInfo;

/// A message between managers about a rank, numbered through the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PeerMessage {
    /// Shared: data that the rank committed for other hosts.
    Commit(Rank, #[serde(with = "pairs")] Vec<Pair>),
    /// Shared: what the rank contributes to a group that is constructed, and the number for the group that counts if
    /// this is the lowest member.
    Contribution(Rank, FenceGroup, u64, #[serde(with = "pairs")] Vec<Pair>),
    /// Routed: a request for data that the rank committed. It is answered when the rank has committed this key, or has
    /// ended, or after a time.
    Ask(Rank, #[serde(with = "binary")] Vec<u8>),
    /// Routed: the answer.
    Answer(Rank, #[serde(with = "binary")] Vec<u8>, #[serde(with = "found")] Found),
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
        let bytes = compact::to_vec(self);
        pieces(self.rank(), &bytes).map(|piece| [&head[..], &piece].concat()).collect()
    }

    /// Reads a complete message about this rank. `None` if it is malformed.
    pub(super) fn read(rank: Rank, bytes: &[u8]) -> Option<Self> {
        compact::from_slice(bytes).ok().filter(|message: &Self| message.rank() == rank)
    }
}

/// Pairs as bytes in the encoding of PMIx.
mod pairs {
    use mpd_wire::binary;
    use pmix_proto::view::Pair;
    use serde::de::Error;
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(pairs: &[Pair], out: S) -> Result<S::Ok, S::Error> {
        out.serialize_bytes(&super::encoded(pairs))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Pair>, D::Error> {
        let bytes: Vec<u8> = binary::deserialize(from)?;
        super::decoded(&bytes).ok_or_else(|| D::Error::custom("not the pairs of PMIx"))
    }
}

/// Pairs, or a status of PMIx as its number.
mod found {
    use pmix_proto::Status;
    use pmix_proto::view::Pair;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Found;

    #[derive(Serialize, Deserialize)]
    struct Pairs(#[serde(with = "super::pairs")] Vec<Pair>);

    pub(super) fn serialize<S: Serializer>(found: &Found, out: S) -> Result<S::Ok, S::Error> {
        found.clone().map(Pairs).map_err(|status| status.0).serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Found, D::Error> {
        let found = Result::<Pairs, i32>::deserialize(from)?;
        Ok(found.map(|pairs| pairs.0).map_err(Status))
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
