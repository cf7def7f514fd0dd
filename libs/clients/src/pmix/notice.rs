//! An event on its way between managers.

use pmix_proto::Event;
use serde::{Deserialize, Serialize};

/// An event, as managers send it to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Notice {
    /// The tree index of the sender's host.
    pub(super) host: u32,
    /// Whether default handlers get it.
    pub(super) has_default: bool,
    #[serde(with = "relayed")]
    pub(super) event: Event,
}

/// An event as bytes in the encoding of PMIx.
mod relayed {
    use mpd_wire::binary;
    use pmix_proto::Event;
    use pmix_proto::message::{read_relayed, write_relayed};
    use serde::de::Error;
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(event: &Event, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_bytes(&write_relayed(event))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Event, D::Error> {
        let bytes: Vec<u8> = binary::deserialize(from)?;
        read_relayed(&bytes).map_err(D::Error::custom)
    }
}
