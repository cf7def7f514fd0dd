//! Leaving by command: the daemon sends its departed record to the neighbours before it closes the
//! links.

use std::sync::Arc;

use crate::{Event, Ring};
use mpd_sansio::Time;
use mpd_wire::{Record, Standing};

impl Ring {
    pub(super) fn leave(&mut self, now: Time) {
        if let Some(own) = self.list.get(&self.config.name) {
            let incarnation = own.incarnation + 1;
            let gone = Record { incarnation, standing: Standing::Departed, ..Record::clone(own) };
            self.put(now, Arc::new(gone), None);
        }
        self.event(Event::Left);
        self.end(now);
    }
}
