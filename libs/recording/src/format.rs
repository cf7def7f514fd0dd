//! The lines of a recording, each one JSON value.
//!
//! The first line is the [`Header`]. Each other line is one step of the machine. It is written
//! before the machine takes the step, so that a step that ends the program is in the file. Its
//! `outputs` are those of the step before: for the first line, those of the new machine.
//!
//! ```text
//! {"recording":1,"machine":"ring","program":"mpd","version":"0.1.0",…,"at":1000012,"start":{…}}
//! {"at":1000020,"outputs":{"count":1,"digest":1234},"step":{"input":{…}}}
//! {"at":2000020,"outputs":{"count":0,"digest":0},"step":"timeout"}
//! {"at":2000031,"outputs":{"count":2,"digest":5678},"step":"end"}
//! ```

use mpd_sansio::Time;
use mpd_wire::digest::Fnv;
use serde::{Deserialize, Serialize};

use crate::Recorded;

pub const FORMAT: u32 = 1;

/// Most bytes of one line, its newline included. A frame of the ring has at most one MiB.
pub const MAX_LINE: usize = 4 << 20;

/// Most bytes of a recording. A busy ring writes them in hours, an idle ring in days.
pub const MAX_RECORDING: u64 = 64 << 20;

/// The origin of a recording, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    pub program: String,
    /// The release of the program.
    pub version: String,
    /// The name of its host in the ring.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// The time of its start, as RFC 3339.
    pub began: String,
}

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub recording: u32,
    /// [`Recorded::NAME`].
    pub machine: String,
    /// The origin of the recording.
    pub origin: Origin,
    /// The time of the machine's construction in microseconds.
    pub at: u64,
    /// The configuration of the machine.
    pub start: serde_json::Value,
}

impl Header {
    /// The header of a recording of `M`.
    ///
    /// # Panics
    /// The configuration does not serialise. Every configuration of the suite serialises.
    pub fn new<M: Recorded>(origin: Origin, now: Time, start: &M::Start) -> Self {
        Self {
            recording: FORMAT,
            machine: M::NAME.to_owned(),
            origin,
            at: micros(now),
            start: serde_json::to_value(start).expect("a configuration serialises"),
        }
    }
}

/// A line after the header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line<E> {
    /// The time of the step in microseconds.
    pub(crate) at: u64,
    /// The outputs of the step before.
    pub(crate) outputs: Outputs,
    pub(crate) step: Step<E>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step<E> {
    Input(E),
    Timeout,
    EndOfTurn,
    /// The program ended.
    End,
    /// The recording ended before the program, for this reason.
    Stopped(String),
}

/// A digest of outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outputs {
    pub(crate) count: u32,
    /// 0 if there are none.
    pub(crate) digest: u64,
}

impl Outputs {
    /// Adds an output by its text.
    pub(crate) fn add(&mut self, text: &str) {
        let mut sum = Fnv::default();
        sum.add(&self.digest.to_be_bytes());
        sum.add(text.as_bytes());
        self.digest = sum.spread();
        self.count = self.count.saturating_add(1);
    }
}

pub(crate) fn micros(time: Time) -> u64 {
    u64::try_from(time.since(Time::ZERO).as_micros()).unwrap_or(u64::MAX)
}
