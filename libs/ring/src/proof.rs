//! R7: which messages count. The key alone makes no member.
//!
//! Messages that come by a link that this daemon opened count, because it chose the address.
//! Messages on an accepted link count when the list has the peer as a live member. Instance and
//! address must agree with those of the link. Until then records that come by the link are not
//! accepted. Instead, this daemon dials the peer at the addresses that the peer gives, and the two
//! exchange their lists on that link.

use std::sync::Arc;

use crate::config::MAX_PROOFS;
use crate::dial::Aim;
use crate::links::{Link, LinkId, Purpose};
use crate::{Event, Ring};
use mpd_sansio::Time;
use mpd_wire::{DaemonName, Instance, Record, Standing};

impl Ring {
    /// Whether the list has this peer as a live member with the address from which the link comes.
    pub(super) fn is_member_at(&self, link: &Link) -> bool {
        let record = self.list.live(&link.peer.name);
        record.is_some_and(|record| {
            record.instance == link.peer.instance
                && record.addresses.iter().any(|address| address.host() == link.from.host())
        })
    }

    /// Whether a live member has this instance.
    pub fn is_live_instance(&self, instance: Instance) -> bool {
        self.live_named(instance).is_some()
    }

    /// The live member that has this instance.
    pub(super) fn live_named(&self, instance: Instance) -> Option<&DaemonName> {
        self.list.instance(instance).map(|record| &record.name)
    }

    /// The record of `name` is new: its links may count from now on.
    pub(super) fn review_proofs(&mut self, name: &DaemonName) {
        let waits = |link: &Link| !link.proved && link.peer.name == *name;
        for id in self.links.which(waits) {
            if self.links.get(id).is_some_and(|link| self.is_member_at(link)) {
                self.proved(id);
            }
        }
    }

    /// The link counts from now on, and an earlier link of the same member is not needed.
    pub(super) fn proved(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(id) else { return };
        link.proved = true;
        let (name, purpose) = (link.peer.name.clone(), link.purpose);
        let earlier = |link: &Link| link.is_guest(purpose) && link.peer.name == name;
        for old in self.links.which(earlier) {
            if old < id {
                self.close(self.now, old);
            }
        }
        let seat = self.seat();
        let lhs = seat.as_ref().and_then(|seat| self.list.before(seat));
        if purpose == Purpose::Ring && lhs.is_some_and(|lhs| lhs.name == name) {
            self.event(Event::LinkedLhs(name));
        }
    }

    /// Records came by a link that does not count. The peer's own record gives the addresses at
    /// which to dial it.
    pub(super) fn dial_back(&mut self, now: Time, id: LinkId, records: &[Arc<Record>]) {
        if self.is_waiting() {
            return;
        }
        let Some(link) = self.links.get(id) else { return };
        let peer = link.peer.clone();
        let own = |r: &&Arc<Record>| {
            r.name == peer.name && r.instance == peer.instance && r.standing == Standing::Live
        };
        let reported = records.iter().find(own).filter(|record| record.is_sound()).cloned();
        if let Some(link) = self.links.get_mut(id).filter(|_| !records.is_empty()) {
            link.dropped = true;
        }
        let Some(reported) = reported else { return };
        let known = self.list.live(&peer.name);
        let is_news = known.is_none_or(|known| {
            known.instance != reported.instance || known.addresses != reported.addresses
        });
        let proofs = self.dials.iter().filter(|(_, aim)| matches!(aim, Aim::Proof(_))).count();
        if is_news && proofs < MAX_PROOFS && !self.is_dialed_back(&peer.name) {
            self.dial(now, Aim::Proof(peer.name), reported.addresses.clone());
        }
    }

    fn is_dialed_back(&self, name: &DaemonName) -> bool {
        let probing = |link: &Link| link.is_own(Purpose::Probe) && link.peer.name == *name;
        self.dials.any(|aim| matches!(aim, Aim::Proof(of) if of == name))
            || self.links.iter().any(|(_, link)| probing(link))
    }

    /// No daemon of the newcomer's name answered at the addresses that the newcomer gave.
    pub(super) fn not_dialed_back(&mut self, name: DaemonName) {
        let waits = |link: &Link| !link.proved && link.peer.name == name;
        let waiting = self.links.which(waits).pop().and_then(|id| self.links.get(id));
        if let Some(at) = waiting.map(|link| link.from.clone()) {
            self.event(Event::NotDialedBack { name, at });
        }
    }

    /// A link is gone. If it never counted, the records that came by it did not count either.
    pub(super) fn review_dropped(&mut self, link: &Link) {
        if link.dropped && !link.proved {
            let (name, at) = (link.peer.name.clone(), link.from.clone());
            let why = "the sender is no live member";
            self.event(Event::FrameRefused { name, at, what: "records", why });
        }
    }

    /// A message came that its sender may not send.
    pub(super) fn refuse_frame(&mut self, id: LinkId, what: &'static str, why: &'static str) {
        let Some(link) = self.links.get(id) else { return };
        let (name, at) = (link.peer.name.clone(), link.from.clone());
        self.event(Event::FrameRefused { name, at, what, why });
    }
}
