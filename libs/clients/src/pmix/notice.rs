//! An event on its way between managers.

use pmix_proto::Event;
use pmix_proto::message::{read_relayed, write_relayed};

/// An event, as managers send it to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// The tree index of the sender's host.
    pub(super) host: u32,
    /// Whether default handlers get it.
    pub(super) has_default: bool,
    pub(super) event: Event,
}

impl Notice {
    pub(super) fn write(&self) -> Vec<u8> {
        let head = [&self.host.to_be_bytes()[..], &[u8::from(self.has_default)]].concat();
        [head, write_relayed(&self.event)].concat()
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (host, rest) = bytes.split_first_chunk::<4>()?;
        let (has_default, event) = rest.split_first()?;
        let event = read_relayed(event).ok()?;
        Some(Self { host: u32::from_be_bytes(*host), has_default: *has_default == 1, event })
    }
}
