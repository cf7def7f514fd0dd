//! How members that died or left, and did not come back, are forgotten.
//!
//! Each daemon measures the age of their records by its own clock, so a record carries its age. A
//! daemon does not pass on a record in the last part of its memory. A record that old is not
//! accepted by a daemon that does not have it, and is part of no digest. A record that one daemon
//! has forgotten can therefore not return from another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::Ring;
use crate::config::Timing;
use mpd_sansio::Time;
use mpd_wire::{DaemonName, Record, Standing};

/// The times at which the dead died and the departed left.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    since: BTreeMap<DaemonName, Time>,
    /// No record fades or is forgotten before this time; `None` if that must be derived again.
    quiet_until: Option<Time>,
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
                self.quiet_until = None;
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
    /// A member that died less than `time` ago and is not back.
    pub fn lately_dead(&self, time: Duration) -> Option<&DaemonName> {
        let is_dead = |name: &&DaemonName| {
            let record = self.list.get(name);
            record.is_some_and(|record| record.standing == Standing::Dead)
        };
        let mut dead = self.gone.since.keys().filter(is_dead);
        dead.find(|name| self.gone.age(self.now, name) < time)
    }

    /// Whether a record that is not known here is too old to be accepted.
    pub(super) fn is_stale(&self, reported: &Record) -> bool {
        let age = Duration::from_secs(reported.age_s.into());
        age >= self.config.timing.discretion(reported.standing)
    }

    /// The record as it is sent: with its age.
    pub(super) fn aged(&self, record: &Arc<Record>) -> Arc<Record> {
        let age = match record.standing {
            Standing::Live => Duration::ZERO,
            Standing::Dead | Standing::Departed => self.gone.age(self.now, &record.name),
        };
        let age_s = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        if age_s == record.age_s {
            return Arc::clone(record);
        }
        Arc::new(Record { age_s, ..Record::clone(record) })
    }

    /// Goes through the dead and departed: old records fade, and the oldest are forgotten.
    pub(super) fn forget_gone(&mut self, now: Time) {
        if self.gone.quiet_until.is_some_and(|until| now < until) {
            return;
        }
        let mut faded = Vec::new();
        let mut forgotten = Vec::new();
        let mut next = Duration::MAX;
        for name in self.gone.since.keys() {
            let Some(record) = self.list.get(name) else { continue };
            let age = self.gone.age(now, name);
            let memory = self.config.timing.memory(record.standing);
            let discretion = self.config.timing.discretion(record.standing);
            if age >= memory {
                forgotten.push(name.clone());
            } else if age >= discretion {
                faded.push(name.clone());
                next = next.min(memory - age);
            } else {
                next = next.min(discretion - age);
            }
        }
        // A record that is noted meanwhile resets this.
        self.gone.quiet_until = Some(now + next.min(self.config.timing.pulse * 1024));
        for name in faded {
            self.list.fade(&name);
        }
        for name in forgotten {
            self.gone.since.remove(&name);
            self.search.note(self.list.get(&name).map(|record| &**record), None);
            self.list.remove(&name);
            self.review_name_record(&name);
            self.revision += 1;
        }
    }
}
