//! Two daemons of one name: an error of the user. One of them must go, and never
//! both.
//!
//! A daemon that is in the ring stays, and a newcomer goes. If both are in the ring, or both are
//! newcomers, the lesser instance goes. A daemon in the ring that is dialed by a daemon of its own
//! name shows its record and closes the link. A newcomer only closes the link. Only the daemon that
//! dialed may go: it chose the address, so it knows that a daemon of its name runs there. Therefore
//! two newcomers that dial each other do not both go.

use std::sync::Arc;

use crate::config::GAP;
use crate::dial::Aim;
use crate::links::{Link, LinkId};
use crate::{Event, Output, Phase, Ring};
use mpd_sansio::Time;
use mpd_wire::message::RingMessage;
use mpd_wire::{Record, Standing};

/// A daemon of our name has answered, and may be about to show its record.
#[derive(Debug)]
pub(crate) struct Hearing {
    link: LinkId,
    aim: Aim,
}

impl Ring {
    /// Dials the addresses of a record that has our name, to find a living daemon there. False if
    /// the record can only be one of a former instance of ours: it has one of our addresses.
    pub(super) fn look_for_double(&mut self, now: Time, reported: &Record) -> bool {
        let ours = |address| self.config.addresses.contains(address);
        let possible = reported.standing == Standing::Live
            && !reported.addresses.is_empty()
            && !reported.addresses.iter().any(ours);
        let asks = self.hearing.is_some() || self.dials.any(|aim| matches!(aim, Aim::Double(_)));
        if possible && !asks {
            self.dial(now, Aim::Double(reported.incarnation), reported.addresses.clone());
        }
        possible
    }

    /// No daemon of our name answered: this daemon takes its place.
    pub(super) fn no_double(&mut self, now: Time, incarnation: u64) {
        if self.seat().is_none() && self.phase != Phase::Over {
            let (position, ordinal) = self.list.highest().unwrap_or_default();
            self.owner.inherits = false;
            self.place(
                now,
                incarnation + 1,
                position.saturating_add(GAP),
                ordinal.saturating_add(1),
            );
        }
    }

    /// A daemon of our name is at the other end of a link. It may be this daemon itself.
    pub(super) fn met_double(&mut self, now: Time, id: LinkId, link: Link, aim: Option<Aim>) {
        if link.peer.instance == self.config.instance {
            if let Some(Aim::Seed(index)) = aim {
                self.search.seed_is_mine(index);
            }
            self.outputs.push_back(Output::Close(id));
            return self.aim_missed(now, aim);
        }
        match aim {
            None => self.double_asks(id),
            Some(_) if self.seat().is_none() && self.is_lesser(&link) => {
                // Whether the other daemon is in the ring or a newcomer, this daemon has to go.
                self.outputs.push_back(Output::Close(id));
                self.step_down(now);
            }
            Some(aim) if self.hearing.is_none() => {
                self.hearing = Some(Hearing { link: id, aim });
                self.links.insert(id, link);
            }
            Some(aim) => {
                self.outputs.push_back(Output::Close(id));
                self.aim_missed(now, Some(aim));
            }
        }
    }

    fn is_lesser(&self, link: &Link) -> bool {
        self.config.instance < link.peer.instance
    }

    fn double_asks(&mut self, id: LinkId) {
        if let Some(own) = self.list.get(&self.config.name).cloned() {
            // The link was not entered into `links` and never will be.
            self.outputs.push_back(Output::Send(id, RingMessage::List { records: vec![own] }));
        }
        self.outputs.push_back(Output::Close(id));
    }

    fn step_down(&mut self, now: Time) {
        self.event(Event::SteppedDown);
        self.end(now);
    }

    /// Whether a message came from a double that is being examined. If so, it is handled.
    pub(super) fn received_double(&mut self, now: Time, id: LinkId, message: &RingMessage) -> bool {
        if self.hearing.as_ref().is_none_or(|hearing| hearing.link != id) {
            return false;
        }
        if let (RingMessage::List { records }, Some(link)) = (message, self.links.get(id)) {
            let of_peer = |r: &Arc<Record>| {
                r.name == link.peer.name
                    && r.instance == link.peer.instance
                    && r.standing == Standing::Live
            };
            if records.iter().any(of_peer) && (self.seat().is_none() || self.is_lesser(link)) {
                self.step_down(now);
            } else {
                self.close(now, id);
            }
        }
        true
    }

    /// A link is gone. If it was that of a double that showed no record that counts, the daemon
    /// there is no double. False if it was another link.
    pub(super) fn double_gone(&mut self, now: Time, id: LinkId) -> bool {
        let received = self.hearing.take_if(|hearing| hearing.link == id);
        let was_received = received.is_some();
        self.aim_missed(now, received.map(|hearing| hearing.aim));
        was_received
    }
}
