//! Two daemons of one name, an error of whoever started them: one has to go, and never both.
//!
//! Who is in the ring stays, a newcomer goes; of two that are in, and of two newcomers, the lesser
//! instance goes. A daemon that is asked by a daemon of its own name and is in the ring shows its record
//! and closes; a newcomer just closes. Only the daemon that asks may go: it chose the address, so it knows
//! more than that somebody used its name. Two newcomers that ask each other do not both go.

use crate::config::GAP;
use crate::dial::Aim;
use crate::links::{Link, LinkId};
use crate::{Event, Output, Phase, Ring};
use mpd_machine::Time;
use mpd_wire::message::RingMessage;
use mpd_wire::{Record, Standing};

/// A daemon of our name has answered, and may be about to show its record.
#[derive(Debug)]
pub(crate) struct Hearing {
    link: LinkId,
    aim: Aim,
}

impl Ring {
    /// Asks the addresses of a record that bears our name whether somebody lives there. False if it can
    /// only be a former life of ours: it had our address.
    pub(super) fn look_for_double(&mut self, now: Time, told: &Record) -> bool {
        let ours = |address| self.config.addresses.contains(address);
        let possible = told.standing == Standing::Live
            && !told.addresses.is_empty()
            && !told.addresses.iter().any(ours);
        let asks = self.hearing.is_some() || self.dials.any(|aim| matches!(aim, Aim::Double(_)));
        if possible && !asks {
            self.dial(now, Aim::Double(told.incarnation), told.addresses.clone());
        }
        possible
    }

    /// Nobody of our name answered: its place is ours.
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

    /// Somebody of our name is at the other end of a link, perhaps this daemon itself.
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
                // Whatever the other is, we are the one to go.
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
        let own = self.list.get(&self.config.name).cloned();
        if let Some(own) = own {
            // The link is not on our books and never will be.
            self.outputs.push_back(Output::Send(id, RingMessage::List { records: vec![own] }));
        }
        self.outputs.push_back(Output::Close(id));
    }

    fn step_down(&mut self, now: Time) {
        self.event(Event::SteppedDown);
        self.end(now);
    }

    /// Whether a message came from a double that is being heard, and is dealt with.
    pub(super) fn heard_double(&mut self, now: Time, id: LinkId, message: &RingMessage) -> bool {
        if self.hearing.as_ref().is_none_or(|hearing| hearing.link != id) {
            return false;
        }
        if let (RingMessage::List { records }, Some(link)) = (message, self.links.get(id)) {
            let of_peer = |r: &Record| {
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

    /// A double that was heard is gone without a record that counts: it is none. False if it was
    /// another link that is gone.
    pub(super) fn double_gone(&mut self, now: Time, id: LinkId) -> bool {
        let heard = self.hearing.take_if(|hearing| hearing.link == id);
        let was_heard = heard.is_some();
        self.aim_missed(now, heard.map(|hearing| hearing.aim));
        was_heard
    }
}
