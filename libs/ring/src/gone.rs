//! How members that died or left, and did not come back, are forgotten.
//!
//! Each daemon measures the age of their records by its own clock, so a record carries its age. A
//! daemon does not pass on a record in the last part of its memory. A record that old is not
//! accepted by a daemon that does not have it, and is part of no digest. A record that one daemon
//! has forgotten can therefore not return from another.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Ring;
use crate::config::Timing;
use mpd_machine::Time;
use mpd_wire::{DaemonName, Record, Standing};

/// The times at which the dead died and the departed left.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    since: BTreeMap<DaemonName, Time>,
}

impl Gone {
    /// Notes the age of a record that was just accepted.
    pub(crate) fn note(&mut self, now: Time, record: &Record) {
        match record.standing {
            Standing::Live => {
                self.since.remove(&record.name);
            }
            Standing::Dead | Standing::Departed => {
                // No time lies before the epoch: older records count from there.
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
    /// How long a record of this standing is kept. Live members are not forgotten.
    fn memory(&self, standing: Standing) -> Duration {
        match standing {
            Standing::Live => Duration::MAX,
            Standing::Dead => self.dead_memory,
            Standing::Departed => self.departed,
        }
    }

    /// The age from which a record of this standing is not passed on.
    fn discretion(&self, standing: Standing) -> Duration {
        self.memory(standing) / 8 * 7
    }
}

impl Ring {
    /// Whether a record that is not known here is too old to be accepted.
    pub(super) fn is_stale(&self, reported: &Record) -> bool {
        let age = Duration::from_secs(reported.age_s.into());
        age >= self.config.timing.discretion(reported.standing)
    }

    /// The record as it is sent: with its age.
    pub(super) fn aged(&self, record: &Record) -> Record {
        let age = match record.standing {
            Standing::Live => Duration::ZERO,
            Standing::Dead | Standing::Departed => self.gone.age(self.now, &record.name),
        };
        let age_s = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        Record { age_s, ..record.clone() }
    }

    /// Goes through the dead and departed: old records fade, and the oldest are forgotten.
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
            self.review_name_record(&name);
            self.revision += 1;
        }
    }
}
