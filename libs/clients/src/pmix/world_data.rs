//! What this manager keeps for the PMIx clients of one world.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use mpd_wire::Rank;
use pmix_proto::encoding::Encoding;
use pmix_proto::event_log::EventLog;
use pmix_proto::modex::Modex;

use super::peer_message::PeerMessage;

/// The shared state of one world.
#[derive(Debug, Default)]
pub(super) struct WorldData {
    pub(super) modex: Modex,
    /// Ranks of this host that have committed since their pairs were sent to the other hosts.
    pub(super) fresh: BTreeSet<Rank>,
    /// Ranks of this subtree whose pairs go to the other hosts with the next entry or release of a fence.
    pub(super) shared: BTreeSet<Rank>,
    /// Contributions to groups that go with them.
    pub(super) contributions: Vec<PeerMessage>,
    /// What the world is to its ranks here, by encoding.
    pub(super) described: BTreeMap<Encoding, Rc<[u8]>>,
    /// Events for this world, for its ranks here that register late.
    pub(super) events: EventLog,
    /// Ranks that have failed, of all hosts.
    pub(super) dead: BTreeSet<Rank>,
    /// Ranks of this host whose processes have ended.
    pub(super) ended: BTreeSet<Rank>,
}
