//! What consoles and daemons say to each other about slots. The messages of `mpd-wire` carry these values as payloads, and do
//! not know them: [`Ask`] and [`Reply`] as JSON, which [`encode`] writes, and those between daemons in the compact encoding.

use mpd_wire::DaemonName;
use mpd_wire::bounded::at_most;
use mpd_wire::message::Payload;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::data::{
    AllocEntry, AllocId, AllocMessage, AllocNews, AllocRequest, MAX_MESSAGES, MAX_PARTS, Part,
    Strings,
};

/// Most hosts in one reply.
pub const MAX_HOSTS: usize = 64;
/// Most requests of a host in one reply.
pub const MAX_ENTRIES: usize = 4096;

/// A console's question or order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Request slots: [`Reply::News`] for each change, until the request is over. The slots are free again when the console
    /// closes.
    Allocate {
        /// The request. The daemon fills in the user and the time.
        request: Box<AllocRequest>,
        /// For the scheduler's hook. Only the first daemon needs them.
        strings: Strings,
    },
    /// Return to a request after the daemon was replaced: answered as [`Ask::Allocate`].
    Resume {
        /// The request.
        id: AllocId,
        /// The request, as it was made.
        request: Box<AllocRequest>,
        /// The number in the queue, if it is known.
        ticket: Option<u64>,
        /// Whether the console has the slots.
        granted: bool,
    },
    /// The slots of an allocation: one [`Reply::News`].
    Granted {
        /// The allocation: `aNUMBER` or `aNUMBER@DAEMON`.
        alloc: String,
    },
    /// Cancel a request or an allocation: done, or refused.
    Cancel {
        /// As in [`Ask::Granted`].
        alloc: String,
    },
    /// An allocation that was made through this daemon shall have no more than these slots; the others are free at once.
    /// Done, or refused. The order may come again.
    Keep {
        /// As in [`Ask::Granted`].
        alloc: String,
        /// The slots that it keeps.
        #[serde(deserialize_with = "at_most::<_, _, MAX_PARTS>")]
        parts: Vec<Part>,
    },
    /// The slots of all hosts, and all requests: [`Reply::Hosts`], in several replies if needed.
    List,
}

/// The answer of a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// News of a request.
    News(AllocNews),
    /// The slots of hosts, and requests, or a part of them.
    Hosts {
        /// This host first, then in the order of the ring. A repeated host has more requests.
        #[serde(deserialize_with = "at_most::<_, _, MAX_HOSTS>")]
        hosts: Vec<HostSlots>,
        /// Live members that did not answer in time.
        missing: Vec<DaemonName>,
        /// Whether another reply follows.
        more: bool,
    },
}

/// The slots of a host, and the requests of consoles there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSlots {
    pub host: DaemonName,
    /// All its slots.
    pub slots: u32,
    /// Those that are held or reserved.
    pub used: u32,
    /// Ranks here whose slots no allocation holds.
    #[serde(default)]
    pub ranks: u32,
    /// Some of the requests and allocations that were made there.
    #[serde(deserialize_with = "at_most::<_, _, MAX_ENTRIES>")]
    pub entries: Vec<AllocEntry>,
}

/// An order of one daemon to another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Messages of the machines, in order.
    Messages(#[serde(deserialize_with = "at_most::<_, _, MAX_MESSAGES>")] Vec<AllocMessage>),
    /// List the slots of this host and the requests of consoles here: answered with a [`Listing`].
    List {
        /// The page of the list, counted from 0. An answer has little room.
        page: u32,
    },
    /// The slots that consoles of the sender hold, for the placement of jobs without an allocation.
    Held {
        /// Later reports have greater numbers.
        number: u64,
        /// The slots, each host once.
        #[serde(deserialize_with = "at_most::<_, _, MAX_PARTS>")]
        parts: Vec<Part>,
    },
    /// The slots of an allocation that was made here: answered with [`Granted`].
    Granted {
        /// The allocation.
        id: AllocId,
        /// The user, by number.
        uid: u32,
    },
    /// Cancel a request or an allocation that was made here.
    Cancel {
        /// The request or allocation.
        id: AllocId,
        /// The user, by number.
        uid: u32,
    },
}

/// The slots of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The slots, in order.
    #[serde(deserialize_with = "at_most::<_, _, MAX_PARTS>")]
    pub parts: Vec<Part>,
}

/// A page of the list of one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// All slots.
    pub slots: u32,
    /// Those that are held or reserved.
    pub used: u32,
    /// Ranks here whose slots no allocation holds.
    #[serde(default)]
    pub ranks: u32,
    /// Some of the requests and allocations.
    #[serde(deserialize_with = "at_most::<_, _, MAX_ENTRIES>")]
    pub entries: Vec<AllocEntry>,
    /// Whether there is a next page.
    pub more: bool,
}

/// The bytes are no such value.
#[derive(Debug, thiserror::Error)]
#[error("an invalid message about slots: {0}")]
pub struct InvalidMessage(serde_json::Error);

impl From<serde_json::Error> for InvalidMessage {
    fn from(error: serde_json::Error) -> Self {
        Self(error)
    }
}

/// The payload of a value for consoles.
pub fn encode(value: &impl Serialize) -> Payload {
    // Our own types serialise: they have no maps with other keys than text.
    serde_json::to_vec(value).expect("a message serialises").as_slice().into()
}

/// The value of such a payload.
///
/// # Errors
/// [`InvalidMessage`].
pub fn decode<T: DeserializeOwned>(payload: &Payload) -> Result<T, InvalidMessage> {
    Ok(serde_json::from_slice(payload.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use mpd_wire::frame::compact;

    use super::*;

    #[test]
    fn values_come_back_and_other_bytes_are_refused() {
        let ask = Ask::Cancel { alloc: "a3".to_owned() };
        assert_eq!(decode::<Ask>(&encode(&ask)).unwrap(), ask);
        let order = Order::Messages(vec![AllocMessage::Cancel { id: "a1@h1".parse().unwrap() }]);
        assert_eq!(compact::from_slice(&compact::to_vec(&order)), Ok(order));
        let later = Payload::from(&b"{\"cancel\":{\"alloc\":\"a3\",\"later\":1}}"[..]);
        assert_eq!(decode::<Ask>(&later).unwrap(), ask, "unknown fields are ignored");
        for bad in ["", "{}", "{\"list\":{\"page\":-1}}", "{\"later\":{\"alloc\":\"a\"}}"] {
            let payload = Payload::from(bad.as_bytes());
            let text = decode::<Ask>(&payload).unwrap_err().to_string();
            assert!(text.starts_with("an invalid message about slots: "), "{text}");
        }
        let many = vec![AllocMessage::Cancel { id: "a1@h1".parse().unwrap() }; MAX_MESSAGES + 1];
        let many = compact::to_vec(&Order::Messages(many));
        assert!(compact::from_slice::<Order>(&many).is_err());
    }
}
