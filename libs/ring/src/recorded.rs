//! Recordings of a ring. They have no keys, and nothing of what orders and answers say.
//!
//! Payloads are opaque to the ring, except for the one answer that refuses a name. A recording has
//! the length of a payload instead of its bytes. A replay uses zeros. The keys of published names
//! and their locks are replaced by those of a fixed key. The digest of a name record stays the same.

use mpd_recording::Recorded;
use mpd_sansio::Time;
use mpd_wire::message::{Payload, RingMessage, ScatterId};
use mpd_wire::names::{Claim, NameKey, NameRecord};
use mpd_wire::{Address, DaemonName, JobId, Record};
use serde::{Deserialize, Serialize};

use crate::config::MAX_PAYLOAD;
use crate::links::{LinkId, Peer, Purpose};
use crate::publish::TAKEN;
use crate::{DialFailure, Input, RequestId, Ring, RingConfig, Token};

/// The recorded form of an [`Input`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Entry {
    /// [`Input::LinkUp`].
    LinkUp {
        /// The link's id.
        link: LinkId,
        /// The token of the attempt.
        token: Option<Token>,
        peer: Peer,
        /// The use of the link.
        purpose: Purpose,
        /// The address at the other end.
        from: Address,
    },
    /// [`Input::Received`].
    Received {
        link: LinkId,
        /// The message, with empty payloads.
        message: Box<RingMessage>,
        /// The payloads in the order of the message.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        payloads: Vec<Blank>,
    },
    /// [`Input::LinkClosed`].
    LinkClosed(LinkId),
    /// [`Input::ConnectFailed`].
    ConnectFailed(Token, DialFailure),
    /// [`Input::Introduce`].
    Introduce(Vec<Record>),
    /// [`Input::Seek`].
    Seek(Vec<Address>),
    /// [`Input::Leave`].
    Leave,
    /// [`Input::Readdress`].
    Readdress(Vec<Address>),
    /// [`Input::Drain`].
    Drain(bool),
    /// [`Input::Scatter`].
    Scatter(RequestId, Blank),
    /// [`Input::Send`].
    Send(RequestId, DaemonName, Blank),
    /// [`Input::Answered`].
    Answered(ScatterId, Blank),
    /// [`Input::Lap`].
    Lap {
        request: RequestId,
        laps: u32,
        /// Whether members add their names.
        trace: bool,
    },
    /// [`Input::Publish`].
    Publish {
        request: RequestId,
        /// The claim. Its lock is that of the fixed key.
        claim: Claim,
    },
    /// [`Input::Unpublish`].
    Unpublish {
        request: RequestId,
        name: String,
        job: JobId,
        /// Whether a key was given, and whether it opens the lock of the name here.
        opens: Option<bool>,
    },
    /// [`Input::JobOver`].
    JobOver(JobId),
}

/// What is recorded of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blank {
    /// Its length.
    Bytes(u32),
    /// It is the answer that refuses a name.
    Taken,
}

impl Blank {
    fn new(payload: &Payload) -> Self {
        match payload.as_bytes() {
            TAKEN => Self::Taken,
            bytes => Self::Bytes(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
        }
    }

    fn payload(self) -> Payload {
        match self {
            Self::Taken => Payload::from(TAKEN),
            Self::Bytes(length) => {
                // One byte too many is refused like many.
                Payload::from(&vec![0; (length as usize).min(MAX_PAYLOAD + 1)][..])
            }
        }
    }
}

impl Recorded for Ring {
    const NAME: &'static str = "ring";
    type Start = RingConfig;
    type Entry = Entry;

    fn begin(now: Time, start: RingConfig) -> Result<Self, String> {
        let timing = &start.timing;
        if timing.pulse.is_zero() || timing.connect.is_zero() {
            return Err("a duration is zero".to_owned());
        }
        Ok(Self::new(now, start))
    }

    fn entry(&self, input: &Input) -> Entry {
        match input.clone() {
            Input::LinkUp { link, token, peer, purpose, from } => {
                Entry::LinkUp { link, token, peer, purpose, from }
            }
            Input::Received(link, mut message) => {
                let payloads = blank(&mut message);
                Entry::Received { link, message: Box::new(message), payloads }
            }
            Input::LinkClosed(link) => Entry::LinkClosed(link),
            Input::ConnectFailed(token, failure) => Entry::ConnectFailed(token, failure),
            Input::Introduce(records) => Entry::Introduce(records),
            Input::Seek(addresses) => Entry::Seek(addresses),
            Input::Leave => Entry::Leave,
            Input::Readdress(addresses) => Entry::Readdress(addresses),
            Input::Drain(draining) => Entry::Drain(draining),
            Input::Scatter(request, payload) => Entry::Scatter(request, Blank::new(&payload)),
            Input::Send(request, to, payload) => Entry::Send(request, to, Blank::new(&payload)),
            Input::Answered(id, payload) => Entry::Answered(id, Blank::new(&payload)),
            Input::Lap { request, laps, trace } => Entry::Lap { request, laps, trace },
            Input::Publish { request, mut claim } => {
                rekey(&mut claim, &fixed_key());
                Entry::Publish { request, claim }
            }
            Input::Unpublish { request, name, job, key } => {
                let opens = key.map(|key| self.opens(&name, &key));
                Entry::Unpublish { request, name, job, opens }
            }
            Input::JobOver(job) => Entry::JobOver(job),
        }
    }

    fn input(entry: Entry) -> Input {
        match entry {
            Entry::LinkUp { link, token, peer, purpose, from } => {
                Input::LinkUp { link, token, peer, purpose, from }
            }
            Entry::Received { link, mut message, payloads } => {
                fill(&mut message, &payloads);
                Input::Received(link, *message)
            }
            Entry::LinkClosed(link) => Input::LinkClosed(link),
            Entry::ConnectFailed(token, failure) => Input::ConnectFailed(token, failure),
            Entry::Introduce(records) => Input::Introduce(records),
            Entry::Seek(addresses) => Input::Seek(addresses),
            Entry::Leave => Input::Leave,
            Entry::Readdress(addresses) => Input::Readdress(addresses),
            Entry::Drain(draining) => Input::Drain(draining),
            Entry::Scatter(request, blank) => Input::Scatter(request, blank.payload()),
            Entry::Send(request, to, blank) => Input::Send(request, to, blank.payload()),
            Entry::Answered(id, blank) => Input::Answered(id, blank.payload()),
            Entry::Lap { request, laps, trace } => Input::Lap { request, laps, trace },
            Entry::Publish { request, claim } => Input::Publish { request, claim },
            Entry::Unpublish { request, name, job, opens } => {
                let key = opens.map(|opens| if opens { fixed_key() } else { other_key() });
                Input::Unpublish { request, name, job, key }
            }
            Entry::JobOver(job) => Input::JobOver(job),
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.poll_timeout()
    }
}

impl Ring {
    /// Whether the key opens the name that this daemon has published.
    fn opens(&self, name: &str, key: &NameKey) -> bool {
        let name_record = self.names.get(self.name());
        name_record
            .and_then(|name_record| name_record.claim(name))
            .is_some_and(|claim| claim.opens_with(Some(key)))
    }
}

/// Takes the payloads out of a message, and the locks of names.
fn blank(message: &mut RingMessage) -> Vec<Blank> {
    let take = |payload: &mut Payload| {
        let blank = Blank::new(payload);
        *payload = Payload::from(&b""[..]);
        blank
    };
    match message {
        RingMessage::Scatter(scatter) => {
            if let Some(naming) = &mut scatter.naming {
                rekey_name_record(&mut naming.name_record, &fixed_key());
            }
            vec![take(&mut scatter.payload)]
        }
        RingMessage::Gathered(gathered) => {
            gathered.answers.iter_mut().map(|answer| take(&mut answer.answer)).collect()
        }
        RingMessage::Names { name_records } => {
            let key = fixed_key();
            name_records.iter_mut().for_each(|name_record| rekey_name_record(name_record, &key));
            Vec::new()
        }
        RingMessage::Pulse { .. }
        | RingMessage::List { .. }
        | RingMessage::Update { .. }
        | RingMessage::Lap(_) => Vec::new(),
    }
}

/// Puts payloads of these lengths into a message.
fn fill(message: &mut RingMessage, payloads: &[Blank]) {
    let mut payloads = payloads.iter().map(|blank| blank.payload());
    let mut put = |payload: &mut Payload| {
        if let Some(filled) = payloads.next() {
            *payload = filled;
        }
    };
    match message {
        RingMessage::Scatter(scatter) => put(&mut scatter.payload),
        RingMessage::Gathered(gathered) => {
            gathered.answers.iter_mut().for_each(|answer| put(&mut answer.answer));
        }
        RingMessage::Pulse { .. }
        | RingMessage::List { .. }
        | RingMessage::Update { .. }
        | RingMessage::Names { .. }
        | RingMessage::Lap(_) => {}
    }
}

fn rekey_name_record(name_record: &mut NameRecord, key: &NameKey) {
    name_record.claims.iter_mut().for_each(|claim| rekey(claim, key));
}

fn rekey(claim: &mut Claim, key: &NameKey) {
    claim.lock = claim.lock.take().map(|lock| lock.rekeyed(key));
}

/// The key in the place of every key that opens a lock.
fn fixed_key() -> NameKey {
    NameKey::new("recording", b"opens")
}

/// The key in the place of every other key.
fn other_key() -> NameKey {
    NameKey::new("recording", b"does not open")
}
