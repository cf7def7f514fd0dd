//! Members that a boot starts together. They learn each other from the boot, in one message, and not
//! through an entry.
//!
//! A daemon that waits for this message accepts links, but it sends no pulse and no list, and it
//! dials no peer. Other daemons may have the message earlier, and may already link to this one.

use std::sync::Arc;

use crate::config::GAP;
use crate::links::Link;
use crate::{Event, Phase, Ring};
use mpd_sansio::Time;
use mpd_wire::{MAX_MEMBERS, Newcomer, Record, Standing};

impl Ring {
    /// This daemon as it describes itself to the boot.
    pub fn newcomer(&self) -> Newcomer {
        Newcomer {
            name: self.config.name.clone(),
            instance: self.config.instance,
            ordinal: self.config.ordinal,
            ncpus: self.config.ncpus,
            addresses: self.config.addresses.clone(),
        }
    }

    /// The first records of daemons that wait. Those whose names live members have are left out. A daemon of a member
    /// that is gone takes its place.
    pub fn records_of(&self, newcomers: Vec<Newcomer>) -> Vec<Record> {
        let (mut position, mut ordinal) = self.list.highest().unwrap_or_default();
        let unknown = newcomers.into_iter().filter(|new| self.list.live(&new.name).is_none());
        let record = |new: Newcomer| {
            let former = self.list.get(&new.name);
            let (position, ordinal) = match (former, new.ordinal) {
                (Some(former), _) => (former.position, former.ordinal),
                (None, Some(given)) => {
                    (position, ordinal) = (given.saturating_mul(GAP), given);
                    (position, ordinal)
                }
                (None, None) => {
                    (position, ordinal) = (position.saturating_add(GAP), ordinal.saturating_add(1));
                    (position, ordinal)
                }
            };
            Record {
                name: new.name,
                incarnation: former.map_or(1, |former| former.incarnation.saturating_add(1)),
                standing: Standing::Live,
                instance: new.instance,
                position,
                ordinal,
                ncpus: new.ncpus,
                draining: false,
                addresses: new.addresses,
                by: None,
                age_s: 0,
            }
        };
        unknown.map(record).filter(Record::is_sound).collect()
    }

    pub(super) fn introduced(&mut self, now: Time, records: Vec<Record>) {
        let waited = self.is_waiting();
        if let Phase::Waiting(entrance) = self.phase {
            self.phase = Phase::Entering(entrance);
        }
        for record in records.into_iter().filter(Record::is_sound) {
            let is_own = record.name == self.config.name;
            let is_first = record.instance == self.config.instance
                && record.standing == Standing::Live
                && self.seat().is_none();
            if is_own && !is_first {
                self.received_of_me(now, &record);
            } else if self.is_news(&record) {
                if self.list.len() >= MAX_MEMBERS && self.list.get(&record.name).is_none() {
                    return self.event(Event::Full("members"));
                }
                if waited {
                    // The whole list is new: it is no news about one member.
                    self.accept(now, Arc::new(record), None);
                } else {
                    self.put(now, Arc::new(record), None);
                }
            }
        }
        if waited {
            self.begin_introduced(now);
        }
    }

    /// Whether an introduced member is unknown here, or was gone.
    fn is_news(&self, record: &Record) -> bool {
        self.list.get(&record.name).is_none_or(|known| {
            known.standing != Standing::Live && record.beats(known, self.config.rules.whole_order)
        })
    }

    /// The boot has sent the same records to all members. Only what differs is sent on.
    fn begin_introduced(&mut self, now: Time) {
        self.untold.clear();
        if self.seat().is_none() {
            self.take_place(now);
        }
        self.correct(now);
        for id in self.links.which(Link::carries_list) {
            self.greet(id);
        }
    }
}
