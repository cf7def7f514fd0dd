//! Leaving by command: a record of its own, told to the neighbours before the links close behind it.

use crate::ring::member::{Record, Standing};
use crate::ring::{Event, Ring};
use crate::time::Time;

impl Ring {
    pub(super) fn leave(&mut self, now: Time) {
        if let Some(own) = self.list.get(&self.config.name) {
            let incarnation = own.incarnation + 1;
            let gone = Record { incarnation, standing: Standing::Departed, ..own.clone() };
            self.put(now, gone, None);
        }
        self.event(Event::Left);
        self.end(now);
    }
}
