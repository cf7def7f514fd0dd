//! The ring as this daemon knows it, for consoles. Pure.

use std::collections::BTreeMap;

use mpd_ring::Ring;
use mpd_wire::message::{ConsoleReply, MemberView, RingView};
use mpd_wire::{Address, ConsoleId, DaemonName, MAX_MEMBERS, Record, Standing};

use crate::output::RingAction;

/// Most members in a view. Dead and departed members beyond it are left out.
const MAX_VIEWED: usize = MAX_MEMBERS;

/// How often each kind of event happened here.
pub(crate) type EventCounts = BTreeMap<&'static str, u64>;

/// How this daemon shows its ring.
#[derive(Clone, Debug)]
pub struct RingIdentity {
    /// The name of the ring; empty: the ring without a name.
    pub name: String,
    /// The id of the key.
    pub key: String,
}

/// Whether this member is alive.
pub(crate) fn is_live(ring: &Ring, member: &DaemonName) -> bool {
    ring.record(member).is_some_and(|r| r.standing == Standing::Live)
}

/// Describes the ring as it is known here.
pub(crate) fn describe(ring: &Ring, identity: &RingIdentity, events: &EventCounts) -> RingView {
    let order = ring.members();
    let live = order.iter().filter_map(|name| ring.record(name));
    let room = MAX_VIEWED.saturating_sub(order.len());
    let gone = ring.records().filter(|r| r.standing != Standing::Live).take(room);
    let members: Vec<MemberView> = live.chain(gone).map(|r| member(ring, r)).collect();
    let rhs = ring.rhs().map(|(_, name)| name.clone());
    let lhs = ring.lhs().map(|(_, name)| name.clone());
    let linked = order.len() == 1 || (rhs.is_some() && lhs.is_some());
    RingView {
        ring: identity.name.clone(),
        me: ring.name().clone(),
        key: identity.key.clone(),
        whole: linked && !members.iter().any(|m| m.suspect),
        rhs,
        lhs,
        members,
        events: events.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
    }
}

fn member(ring: &Ring, record: &Record) -> MemberView {
    MemberView {
        name: record.name.clone(),
        standing: record.standing,
        instance: record.instance,
        ordinal: record.ordinal,
        ncpus: record.ncpus,
        addresses: record.addresses.clone(),
        suspect: record.standing == Standing::Live && ring.is_suspect(&record.name),
        draining: record.draining,
        by: record.by.clone(),
    }
}

/// The ping of `target`, a member or an address.
pub(crate) fn ping(ring: &Ring, console: ConsoleId, target: String) -> RingAction {
    let member = DaemonName::new(&target).ok().and_then(|name| ring.record(&name));
    let (name, addresses) = match member {
        Some(record) => (Some(record.name.clone()), record.addresses.clone()),
        None => (None, Address::new(&target).into_iter().collect()),
    };
    RingAction::Ping { console, name, addresses, target }
}

/// Why there is no ping of `target`: none of its addresses is numeric.
pub fn not_pingable(target: &str) -> ConsoleReply {
    let target = target.escape_default();
    let problem =
        format!("{target}: no member of the ring has this name, and it is not ADDRESS:PORT");
    ConsoleReply::Refused { problem }
}
