//! The ring as this daemon knows it, for consoles. Pure.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use mpd_ring::{Purpose, Ring};
use mpd_wire::message::{MemberView, RingView};
use mpd_wire::{DaemonName, MAX_MEMBERS, Record, Standing};

use crate::daemon::net::{DialRequest, Myself};

/// Most members in a view. Dead and departed members beyond it are left out.
const MAX_VIEWED: usize = MAX_MEMBERS;

/// How often each kind of event happened here.
pub(super) type EventCounts = BTreeMap<&'static str, u64>;

/// Whether this member is alive.
pub(super) fn is_live(ring: &Ring, member: &DaemonName) -> bool {
    ring.record(member).is_some_and(|r| r.standing == Standing::Live)
}

/// Describes the ring as it is known here.
pub(super) fn describe(ring: &Ring, myself: &Myself, events: &EventCounts) -> RingView {
    let order = ring.members();
    let live = order.iter().filter_map(|name| ring.record(name));
    let room = MAX_VIEWED.saturating_sub(order.len());
    let gone = ring.records().filter(|r| r.standing != Standing::Live).take(room);
    let members: Vec<MemberView> = live.chain(gone).map(|r| member(ring, r)).collect();
    let rhs = ring.rhs().map(|(_, name)| name.clone());
    let lhs = ring.lhs().map(|(_, name)| name.clone());
    let linked = order.len() == 1 || (rhs.is_some() && lhs.is_some());
    RingView {
        ring: myself.ring.clone(),
        me: ring.name().clone(),
        key: myself.keys.connect().id().to_string(),
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

/// The connection for a ping of `target`, a member or an address; or why there is none.
pub(super) fn pinged(ring: &Ring, target: &str) -> Result<DialRequest, String> {
    let member = DaemonName::new(target).ok().and_then(|name| ring.record(&name));
    let addresses: Vec<SocketAddr> = match member {
        Some(record) => record.addresses.iter().filter_map(|a| a.as_str().parse().ok()).collect(),
        None => target.parse().into_iter().collect(),
    };
    if addresses.is_empty() {
        return Err(format!(
            "{}: no member of the ring has this name, and it is not ADDRESS:PORT",
            target.escape_default()
        ));
    }
    let name = member.map(|record| record.name.clone());
    Ok(DialRequest { name, instance: None, addresses, purpose: Purpose::Probe })
}
