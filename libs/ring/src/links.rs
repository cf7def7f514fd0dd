//! The links of a daemon, their purposes, and how they come and go.
//!
//! A link serves both directions, whichever side opened it. Ring links carry everything. Entry and
//! probe links live for an exchange of lists. Chords carry scatters only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::{MAX_CHORD_GUESTS, MAX_GUESTS, MAX_RING_GUESTS};
use crate::{Event, Output, Ring, Token};
use mpd_sansio::Time;
use mpd_wire::message::RingMessage;
use mpd_wire::{Address, DaemonName, Instance};

/// The number of a link, given by the owner of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LinkId(pub u64);

/// The daemon at the other end, as the channel proved it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    pub name: DaemonName,
    pub instance: Instance,
}

/// The use that the connecting side makes of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To become the peer's lhs.
    Ring,
    /// To enter.
    Join,
    /// To learn whether a daemon lives, and to exchange lists with it.
    Probe,
    /// To carry scatters.
    Chord,
}

/// A link as it came up.
pub(crate) struct LinkUp {
    pub(crate) token: Option<Token>,
    pub(crate) peer: Peer,
    pub(crate) purpose: Purpose,
    pub(crate) from: Address,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: Peer,
    pub(crate) purpose: Purpose,
    /// Opened by this daemon.
    pub(crate) own: bool,
    /// The address from which it comes.
    pub(crate) from: Address,
    /// Messages that come by it count (R7).
    pub(crate) proved: bool,
    /// Records came by it that were not accepted.
    pub(crate) dropped: bool,
    pub(crate) up: Time,
    pub(crate) received: Time,
    pub(crate) suspected: bool,
    /// Pulses in a row whose digest differed.
    pub(crate) mismatches: u32,
}

impl Link {
    pub(crate) fn is_own(&self, purpose: Purpose) -> bool {
        self.own && self.purpose == purpose
    }

    /// Whether it was accepted for this purpose from a peer that counts.
    pub(crate) fn is_guest(&self, purpose: Purpose) -> bool {
        !self.own && self.proved && self.purpose == purpose
    }

    /// Whether it carries lists and pulses.
    pub(crate) fn carries_list(&self) -> bool {
        match self.purpose {
            Purpose::Ring | Purpose::Join | Purpose::Probe => true,
            Purpose::Chord => false,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Links(BTreeMap<LinkId, Link>);

impl Links {
    pub(crate) fn get(&self, id: LinkId) -> Option<&Link> {
        self.0.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.0.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.0.iter().map(|(id, link)| (*id, link))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (LinkId, &mut Link)> {
        self.0.iter_mut().map(|(id, link)| (*id, link))
    }

    pub(crate) fn insert(&mut self, id: LinkId, link: Link) {
        self.0.insert(id, link);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Ids of the links for which `wanted` is true.
    pub(crate) fn which(&self, wanted: impl Fn(&Link) -> bool) -> Vec<LinkId> {
        self.iter().filter(|(_, link)| wanted(link)).map(|(id, _)| id).collect()
    }

    /// The newest link accepted from the member `peer` for this purpose.
    pub(crate) fn guest(&self, purpose: Purpose, peer: &DaemonName) -> Option<(LinkId, &Link)> {
        let fits = |link: &Link| link.is_guest(purpose) && link.peer.name == *peer;
        self.iter().filter(|(_, link)| fits(link)).last()
    }
}

impl Ring {
    pub(super) fn link_up(
        &mut self,
        now: Time,
        id: LinkId,
        LinkUp { token, peer, purpose, from }: LinkUp,
    ) {
        let own = token.is_some();
        let link = Link {
            peer: peer.clone(),
            purpose,
            own,
            from,
            proved: own || !self.config.rules.prove,
            dropped: false,
            up: now,
            received: now,
            suspected: false,
            mismatches: 0,
        };
        let aim = match token {
            None => None,
            Some(token) => match self.take_dial(token) {
                Some(aim) => Some(aim),
                // The attempt was abandoned meanwhile.
                None => return self.outputs.push_back(Output::Close(id)),
            },
        };
        if peer.name == self.config.name {
            return self.met_double(now, id, link, aim);
        }
        if aim.as_ref().is_some_and(|aim| !aim.is_met_by(&peer.name)) {
            self.outputs.push_back(Output::Close(id));
            return self.aim_missed(now, aim);
        }
        self.links.insert(id, link);
        match aim {
            Some(aim) => self.aim_met(now, id, &peer, aim),
            None => self.guest_came(now, id, &peer, purpose),
        }
        if self.links.get(id).is_some_and(Link::carries_list) {
            self.greet(id);
        }
    }

    fn guest_came(&mut self, now: Time, id: LinkId, peer: &Peer, purpose: Purpose) {
        if self.links.get(id).is_some_and(|link| self.is_member_at(link)) {
            self.proved(id);
        }
        let bound = match purpose {
            Purpose::Ring => MAX_RING_GUESTS,
            Purpose::Join | Purpose::Probe => MAX_GUESTS,
            Purpose::Chord => MAX_CHORD_GUESTS,
        };
        let proved = self.links.get(id).is_some_and(|link| link.proved);
        let same = |link: &Link| !link.own && link.purpose == purpose;
        // A peer that connects again has lost its earlier link. A mere claim to a name ends no link
        // of a member.
        let earlier =
            |link: &Link| same(link) && link.peer.name == peer.name && (proved || !link.proved);
        for old in self.links.which(earlier) {
            if old != id {
                self.close(now, old);
            }
        }
        let guests = self.links.which(same);
        if guests.len() > bound {
            let unproved = self.links.which(|link| same(link) && !link.proved);
            self.event(Event::Full("links"));
            self.close(now, *unproved.first().unwrap_or(&guests[0]));
        }
    }

    pub(super) fn received(&mut self, now: Time, id: LinkId, message: RingMessage) {
        // Messages that were on their way when this daemon closed the link are ignored.
        let Some(link) = self.links.get_mut(id) else { return };
        link.received = now;
        let proved = link.proved;
        if std::mem::replace(&mut link.suspected, false) && proved {
            let name = link.peer.name.clone();
            self.event(Event::Recovered(name));
        }
        if self.received_double(now, id, &message) {
            return;
        }
        match message {
            RingMessage::Pulse { digest } => self.received_pulse(id, digest),
            RingMessage::List { records } | RingMessage::Update { records } if !proved => {
                self.dial_back(now, id, &records);
            }
            RingMessage::Names { .. } if !proved => {}
            RingMessage::Lap(_) if !proved => {
                self.refuse_frame(id, "a lap", "the sender is no live member");
            }
            RingMessage::List { records } => self.received_list(now, id, records),
            RingMessage::Update { records } => self.received_update(now, id, records),
            RingMessage::Scatter(scatter) => self.received_scatter(now, id, scatter),
            RingMessage::Gathered(gathered) => self.received_gathered(now, id, gathered),
            RingMessage::Names { name_records } => self.received_names(id, name_records),
            RingMessage::Lap(lap) => self.received_lap(now, lap),
        }
    }

    /// Closes a link from this side.
    pub(super) fn close(&mut self, now: Time, id: LinkId) {
        if self.links.get(id).is_some() {
            self.outputs.push_back(Output::Close(id));
            self.link_gone(now, id);
        }
    }

    pub(super) fn link_gone(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.0.remove(&id) else { return };
        self.review_dropped(&link);
        if self.reknit.rhs == Some(id) {
            self.rhs_gone(now, &link);
        } else if link.is_guest(Purpose::Ring) {
            let seat = self.seat();
            let lhs = seat.as_ref().and_then(|seat| self.list.before(seat));
            let replaced = self.links.guest(Purpose::Ring, &link.peer.name).is_some();
            if !replaced && lhs.is_some_and(|lhs| lhs.name == link.peer.name) {
                self.event(Event::LostLhs(link.peer.name.clone()));
            }
        }
        self.scatter_part_carrier_gone(now, id);
        if !self.double_gone(now, id) && link.is_own(Purpose::Join) {
            // The daemon that answered did not admit this daemon.
            self.entry_failed(now);
        }
    }

    /// Entry and probe links end when they have done their work or lasted long enough.
    pub(super) fn dismiss_visitors(&mut self, now: Time) {
        let pulse = self.config.timing.pulse;
        let entered = self.seat().is_some();
        let over = |link: &Link| {
            let age = now - link.up;
            match (link.purpose, link.own) {
                (Purpose::Probe, true) => age > pulse * 2,
                (Purpose::Join, true) => age > pulse * 4 || entered && age > pulse * 2,
                (Purpose::Probe | Purpose::Join, false) => age > pulse * 6,
                // A peer that does not become a member in this time is dismissed.
                (Purpose::Ring | Purpose::Chord, false) if !link.proved => {
                    age > pulse * 6 && !self.is_live_instance(link.peer.instance)
                }
                (Purpose::Ring | Purpose::Chord, _) => false,
            }
        };
        for id in self.links.which(over) {
            self.close(now, id);
        }
        // A ring link of this daemon that is no longer the link to the rhs.
        let rhs = self.reknit.rhs;
        for id in self.links.which(|link| link.is_own(Purpose::Ring)) {
            if Some(id) != rhs {
                self.close(now, id);
            }
        }
    }

    /// Sends a message on a link, unless a message received by that link has just led to its end.
    pub(super) fn send(&mut self, link: LinkId, message: RingMessage) {
        if self.links.get(link).is_some() {
            self.outputs.push_back(Output::Send(link, message));
        }
    }
}
