//! Forgetting those who died or left and do not come back.
//!
//! Each daemon does it by its own clock, so their records carry their age, and the last part of the
//! memory is kept to oneself: a record that old is neither told nor taken by who does not know it, and
//! counts in nobody's digest. What one daemon has forgotten another cannot bring back.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Ring;
use crate::config::Timing;
use mpd_machine::Time;
use mpd_wire::{DaemonName, Record, Standing};

/// Since when the dead are dead and the departed away.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    since: BTreeMap<DaemonName, Time>,
}

impl Gone {
    /// Takes down how old a record is that was just taken over.
    pub(crate) fn note(&mut self, now: Time, record: &Record) {
        match record.standing {
            Standing::Live => {
                self.since.remove(&record.name);
            }
            Standing::Dead | Standing::Departed => {
                // There is no time before the epoch: what is older counts from there.
                let age = Duration::from_secs(record.age_s.into());
                let since = Time::ZERO + (now - Time::ZERO).saturating_sub(age);
                self.since.insert(record.name.clone(), since);
            }
        }
    }

    fn age(&self, now: Time, name: &DaemonName) -> Duration {
        self.since.get(name).map_or(Duration::ZERO, |since| now - *since)
    }
}

impl Timing {
    /// How long a record of that standing is kept; the living are not forgotten.
    fn memory(&self, standing: Standing) -> Duration {
        match standing {
            Standing::Live => Duration::MAX,
            Standing::Dead => self.dead_memory,
            Standing::Departed => self.departed,
        }
    }

    /// The age from which on a record of that standing is not talked about.
    fn discretion(&self, standing: Standing) -> Duration {
        self.memory(standing) / 8 * 7
    }
}

impl Ring {
    /// Whether a record that is not known here is too old to be taken.
    pub(super) fn is_stale(&self, told: &Record) -> bool {
        let age = Duration::from_secs(told.age_s.into());
        age >= self.config.timing.discretion(told.standing)
    }

    /// The record as it is told: with its age.
    pub(super) fn aged(&self, record: &Record) -> Record {
        let age = match record.standing {
            Standing::Live => Duration::ZERO,
            Standing::Dead | Standing::Departed => self.gone.age(self.now, &record.name),
        };
        let age_s = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        Record { age_s, ..record.clone() }
    }

    /// Goes through the dead and departed: the old ones fade, the oldest are forgotten.
    pub(super) fn forget_gone(&mut self, now: Time) {
        let mut faded = Vec::new();
        let mut forgotten = Vec::new();
        for name in self.gone.since.keys() {
            let Some(record) = self.list.get(name) else { continue };
            let age = self.gone.age(now, name);
            if age >= self.config.timing.memory(record.standing) {
                forgotten.push(name.clone());
            } else if age >= self.config.timing.discretion(record.standing) {
                faded.push(name.clone());
            }
        }
        for name in faded {
            self.list.fade(&name);
        }
        for name in forgotten {
            self.gone.since.remove(&name);
            self.list.remove(&name);
            self.review_sheet(&name);
            self.revision += 1;
        }
    }
}
