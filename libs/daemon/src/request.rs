//! Numbers and answers of requests to the ring.

use mpd_ring::RequestId;
use mpd_wire::DaemonName;
use mpd_wire::frame::{InvalidFrame, compact};
use mpd_wire::message::{Answer, Payload};
use serde::de::DeserializeOwned;

/// The owner of a request, which receives the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    Allocations,
    Consoles,
    Followers,
    Launches,
    Meetings,
    Names,
    Stay,
}

impl Requester {
    const ALL: [Self; 7] = [
        Self::Allocations,
        Self::Consoles,
        Self::Followers,
        Self::Launches,
        Self::Meetings,
        Self::Names,
        Self::Stay,
    ];

    /// The owner of this request.
    pub(crate) fn of(request: RequestId) -> Self {
        let which = request.0 % Self::ALL.len() as u64;
        Self::ALL.into_iter().find(|owner| *owner as u64 == which).unwrap_or(Self::Stay)
    }
}

/// Generates the numbers of one owner's requests. A number contains its owner.
#[derive(Debug)]
pub(crate) struct Numbers {
    owner: Requester,
    last: u64,
}

impl Numbers {
    pub(crate) const fn new(owner: Requester) -> Self {
        Self { owner, last: 0 }
    }

    /// A new number.
    pub(crate) const fn next(&mut self) -> RequestId {
        self.last += 1;
        RequestId(self.last * Requester::ALL.len() as u64 + self.owner as u64)
    }
}

/// The answers of all members to one request.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) request: RequestId,
    pub(crate) answers: Vec<Answer>,
    pub(crate) missing: Vec<DaemonName>,
    /// Depth of the tree that distributed the request.
    pub(crate) depth: u32,
}

/// An order or an answer, encoded for the ring.
pub(crate) fn payload_of(message: &impl serde::Serialize) -> Payload {
    compact::to_vec(message).as_slice().into()
}

/// The order or answer of a payload.
pub(crate) fn read_payload<M: DeserializeOwned>(payload: &Payload) -> Result<M, InvalidFrame> {
    compact::decode_message(payload.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_contains_its_owner_and_no_number_is_used_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for owner in Requester::ALL {
            let mut numbers = Numbers::new(owner);
            for _ in 0..100 {
                let request = numbers.next();
                assert_eq!(Requester::of(request), owner);
                assert!(seen.insert(request), "{request:?}");
            }
        }
    }
}
