//! Members of the ring that send any messages. They have the key, and may be faulty or malicious.
//!
//! The machine checks its invariants after every call in debug builds. This target also checks that every request
//! is answered, that the number of outputs is bounded, and that every timeout makes progress.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mpd_ring::{
    Connect, DialFailure, GAP, Input, LinkId, Output, Peer, Purpose, RequestId, Ring, RingConfig,
    Rules, Seed, Timing, Token,
};
use mpd_sansio::{Pump, Time};
use mpd_wire::message::{
    Answer, Gathered, IntroductionReader, Lap, Naming, Payload, RingMessage, Scatter, ScatterId,
};
use mpd_wire::names::{Claim, Hold, Lock, NameKey, NameRecord};
use mpd_wire::{Address, DaemonName, Instance, JobId, Newcomer, Record, Seat, Standing};

use super::Bytes;

/// Inputs of one execution at most.
const STEPS: usize = 400;
/// Most outputs of one input. The number of links and members is small here.
const MAX_OUTPUTS: usize = 4000;

struct Owner {
    ring: Pump<Ring>,
    now: Time,
    links: BTreeSet<LinkId>,
    last_link: u64,
    dials: BTreeMap<Token, Purpose>,
    delivered: Vec<ScatterId>,
    waiting: BTreeSet<RequestId>,
    last_request: u64,
}

/// Runs one machine with the inputs that the bytes choose.
pub(crate) fn ring(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut owner = Owner::new(&mut bytes);
    for _ in 0..STEPS {
        if bytes.is_empty() {
            break;
        }
        owner.pass(Duration::from_millis(u64::from(bytes.byte() / 8) * 20));
        owner.step(&mut bytes);
    }
    // Without further inputs, every request is answered at its deadline at the latest.
    for _ in 0..200 {
        owner.pass(Duration::from_millis(100));
    }
    assert!(owner.waiting.is_empty(), "never answered: {:?}", owner.waiting);
}

/// Input of a daemon that waits for the list of members. However it is cut, it has the same lists, and the machine of
/// the ring accepts each.
pub(crate) fn boot_list(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let cuts = bytes.some();
    let input = bytes.rest();
    let own = Newcomer {
        name: DaemonName::new("h0").expect("a name"),
        instance: Instance::from_bytes([3; 16]),
        ordinal: None,
        ncpus: 1,
        addresses: Vec::new(),
    };
    let whole = lists(&own, |take| take(input));
    let cut = lists(&own, |take| super::in_pieces(input, Bytes::new(cuts), take));
    assert_eq!(whole, cut);
    for records in whole.0 {
        assert!(records.iter().any(|record| record.instance == own.instance));
        let waits = [0x0c];
        let mut owner = Owner::new(&mut Bytes::new(&waits));
        owner.give(Input::Introduce(records));
        owner.pass(Duration::from_secs(20));
    }
}

/// The lists of an input that comes in pieces, and whether it was refused.
fn lists(own: &Newcomer, feed: impl FnOnce(&mut dyn FnMut(&[u8]))) -> (Vec<Vec<Record>>, bool) {
    let mut reader = IntroductionReader::default();
    let (mut lists, mut is_refused) = (Vec::new(), false);
    feed(&mut |mut piece| {
        while !is_refused {
            match reader.take(piece, own) {
                Ok(Some(records)) => lists.push(records),
                Ok(None) => break,
                Err(_) => is_refused = true,
            }
            piece = &[];
        }
    });
    (lists, is_refused)
}

impl Owner {
    /// A machine whose configuration the bytes choose, after its first outputs.
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let mut owner = Self {
            ring: Pump::new(Ring::new(Time::ZERO + Duration::from_secs(1), config(bytes))),
            now: Time::ZERO + Duration::from_secs(1),
            links: BTreeSet::new(),
            last_link: 0,
            dials: BTreeMap::new(),
            delivered: Vec::new(),
            waiting: BTreeSet::new(),
            last_request: 0,
        };
        owner.drain();
        owner
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        for _ in 0..10_000 {
            let Some(due) = self.ring.machine().poll_timeout().filter(|due| *due <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(due);
            self.ring.handle_timeout(self.now);
            self.drain();
        }
        panic!("time does not move on");
    }

    fn give(&mut self, input: Input) {
        self.ring.post(input);
        self.drain();
    }

    fn drain(&mut self) {
        let mut count = 0;
        while let Some(output) = self.ring.next(self.now) {
            count += 1;
            assert!(count < MAX_OUTPUTS, "no end of outputs");
            match output {
                Output::Connect(Connect { token, purpose, .. }) => {
                    self.dials.insert(token, purpose);
                }
                Output::Abandon(token) => {
                    self.dials.remove(&token);
                }
                Output::Close(link) => {
                    self.links.remove(&link);
                }
                Output::Send(link, message) => {
                    assert!(
                        self.links.contains(&link),
                        "sent on a link that is closed: {message:?}"
                    );
                    let size = serde_json::to_string(&message).expect("it serialises").len();
                    assert!(size <= 1 << 20, "a message of {size} bytes");
                }
                Output::Deliver { id, .. } => self.delivered.push(id),
                Output::Scattered { request, .. }
                | Output::LapsHome { request, .. }
                | Output::LapLost { request, .. }
                | Output::Published { request, .. }
                | Output::Unpublished { request, .. }
                | Output::Refused(request) => {
                    assert!(self.waiting.remove(&request), "{request:?} was answered twice");
                }
                Output::Event(_) | Output::NameLost { .. } => {}
                Output::Over => self.dials.clear(),
            }
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.below(16) {
            0 | 1 => self.link_up(bytes),
            2 => {
                let Some(link) = self.some_link(bytes) else { return };
                self.links.remove(&link);
                self.give(Input::LinkClosed(link));
            }
            3 => {
                let chosen = bytes.below(self.dials.len().max(1));
                let Some(token) = self.dials.keys().nth(chosen).copied() else { return };
                self.dials.remove(&token);
                let failures = [DialFailure::Refused, DialFailure::TimedOut, DialFailure::Myself];
                self.give(Input::ConnectFailed(token, failures[bytes.below(3)]));
            }
            4 => {
                let Some(id) = self.delivered.pop() else { return };
                self.give(Input::Answered(id, bytes.some().into()));
            }
            5 => self.ask(|request| Input::Scatter(request, b"payload"[..].into())),
            6 => {
                let laps = u32::from(bytes.byte());
                self.ask(|request| Input::Lap { request, laps, trace: true });
            }
            7 => {
                let claim = claim(bytes);
                self.ask(|request| Input::Publish { request, claim });
            }
            8 => {
                let Claim { name, job, .. } = claim(bytes);
                let key = (bytes.byte() & 1 == 0).then(key);
                self.ask(|request| Input::Unpublish { request, name, job, key });
            }
            9 if bytes.byte() < 8 => self.give(Input::Leave),
            9 => self.give(Input::JobOver(claim(bytes).job)),
            10 if bytes.byte() < 64 => self.give(Input::Drain(bytes.byte() & 1 == 1)),
            11 if bytes.byte() < 64 => self.give(Input::Introduce(several(bytes, record))),
            10 => self.give(Input::Readdress(vec![address(bytes)])),
            _ => {
                let Some(link) = self.some_link(bytes) else { return };
                let message = message(bytes);
                self.give(Input::Received(link, message));
            }
        }
    }

    fn some_link(&self, bytes: &mut Bytes<'_>) -> Option<LinkId> {
        let chosen = bytes.below(self.links.len().max(1));
        self.links.iter().nth(chosen).copied()
    }

    fn link_up(&mut self, bytes: &mut Bytes<'_>) {
        let purposes = [Purpose::Ring, Purpose::Join, Purpose::Probe, Purpose::Chord];
        let dialed = bytes.byte() & 1 == 1;
        let chosen = bytes.below(self.dials.len().max(1));
        let dial = self.dials.iter().nth(chosen).map(|(token, purpose)| (*token, *purpose));
        let (token, purpose) = match dial.filter(|_| dialed) {
            Some((token, purpose)) => (Some(token), purpose),
            None => (None, purposes[bytes.below(4)]),
        };
        token.map(|token| self.dials.remove(&token));
        self.last_link += 1;
        let link = LinkId(self.last_link);
        self.links.insert(link);
        let peer = Peer { name: name(bytes), instance: instance(bytes) };
        let from = address(bytes);
        self.give(Input::LinkUp { link, token, peer, purpose, from });
    }

    fn ask(&mut self, make: impl FnOnce(RequestId) -> Input) {
        self.last_request += 1;
        let request = RequestId(self.last_request);
        self.waiting.insert(request);
        self.give(make(request));
    }
}

fn config(bytes: &mut Bytes<'_>) -> RingConfig {
    let kind = bytes.byte();
    let entry = if kind & 1 == 1 { vec![address(bytes), address(bytes)] } else { Vec::new() };
    let seed =
        |ordinal| Seed { ordinal, address: Address::new(&format!("h{ordinal}:1")).expect("one") };
    RingConfig {
        name: DaemonName::new("h0").expect("a name"),
        instance: Instance::from_bytes([3; 16]),
        addresses: vec![Address::new("h0:1").expect("an address")],
        ncpus: 1,
        ordinal: (kind & 2 == 2).then_some(u64::from(kind >> 4)),
        entry,
        seeds: if kind & 4 == 4 { (0..4).map(seed).collect() } else { Vec::new() },
        waits: kind & 0x0c == 0x0c,
        timing: Timing::default(),
        chance: u64::from(kind),
        rules: Rules { prove: kind & 8 == 8, ..Rules::default() },
    }
}

fn name(bytes: &mut Bytes<'_>) -> DaemonName {
    DaemonName::new(&format!("h{}", bytes.below(8))).expect("a name")
}

fn instance(bytes: &mut Bytes<'_>) -> Instance {
    Instance::from_bytes([bytes.byte() % 8; 16])
}

fn address(bytes: &mut Bytes<'_>) -> Address {
    Address::new(&format!("h{}:1", bytes.below(10))).expect("an address")
}

fn number(bytes: &mut Bytes<'_>) -> u64 {
    const EDGES: [u64; 8] =
        [0, 1, GAP, GAP - 1, u64::MAX, u64::MAX - 1, u64::MAX / 2 - 1, u64::MAX / 2];
    let byte = bytes.byte();
    if byte >= 0xe0 { EDGES[usize::from(byte % 8)] } else { u64::from(byte / 8) }
}

fn small(bytes: &mut Bytes<'_>) -> u32 {
    u32::try_from(number(bytes)).unwrap_or(u32::MAX)
}

fn several<T>(bytes: &mut Bytes<'_>, mut one: impl FnMut(&mut Bytes<'_>) -> T) -> Vec<T> {
    (0..bytes.below(6)).map(|_| one(bytes)).collect()
}

fn record(bytes: &mut Bytes<'_>) -> Record {
    let standings = [Standing::Live, Standing::Dead, Standing::Departed];
    Record {
        name: name(bytes),
        incarnation: number(bytes),
        standing: standings[bytes.below(3)],
        instance: instance(bytes),
        position: number(bytes).saturating_mul(GAP / 4),
        ordinal: number(bytes),
        ncpus: small(bytes),
        draining: bytes.byte() & 1 == 1,
        addresses: several(bytes, address),
        by: (bytes.byte() & 1 == 1).then(|| name(bytes)),
        age_s: small(bytes),
    }
}

/// The key of every name with a key.
fn key() -> NameKey {
    NameKey::new("", b"words")
}

fn claim(bytes: &mut Bytes<'_>) -> Claim {
    let job = JobId::new(number(bytes), name(bytes).as_str()).expect("a job");
    let lock = (bytes.byte() & 3 == 0).then(|| Lock::new([bytes.byte(); 16], &key()));
    let hold = [Hold::Job, Hold::Shared, Hold::Kept][bytes.below(3)];
    Claim { name: format!("{}", bytes.below(4)), value: "port".to_owned(), job, lock, hold }
}

fn name_record(bytes: &mut Bytes<'_>) -> NameRecord {
    let mut claims = several(bytes, claim);
    if bytes.byte() & 7 != 0 {
        claims.sort();
        claims.dedup_by(|a, b| a.name == b.name);
    }
    NameRecord { owner: name(bytes), instance: instance(bytes), version: number(bytes), claims }
}

fn seat(bytes: &mut Bytes<'_>) -> Seat {
    Seat { position: number(bytes).saturating_mul(GAP / 4), name: name(bytes) }
}

fn id(bytes: &mut Bytes<'_>) -> ScatterId {
    ScatterId { origin: instance(bytes), sequence: number(bytes) }
}

fn payload(bytes: &mut Bytes<'_>) -> Payload {
    Payload::from(bytes.some())
}

fn scatter(bytes: &mut Bytes<'_>) -> Scatter {
    let naming =
        |bytes: &mut Bytes<'_>| Naming { name: claim(bytes).name, name_record: name_record(bytes) };
    Scatter {
        id: id(bytes),
        round: small(bytes),
        after: seat(bytes),
        until: seat(bytes),
        only: several(bytes, name),
        hops: small(bytes),
        patience_ms: small(bytes),
        payload: payload(bytes),
        naming: (bytes.byte() & 1 == 1).then(|| Box::new(naming(bytes))),
    }
}

fn message(bytes: &mut Bytes<'_>) -> RingMessage {
    let answer = |bytes: &mut Bytes<'_>| Answer { name: name(bytes), answer: payload(bytes) };
    match bytes.below(9) {
        0 => RingMessage::Pulse { digest: number(bytes) },
        1 | 2 => RingMessage::list(several(bytes, record)),
        3 | 4 => RingMessage::update(several(bytes, record)),
        5 => RingMessage::Names { name_records: several(bytes, name_record) },
        6 => RingMessage::Scatter(scatter(bytes)),
        7 => RingMessage::Gathered(Gathered {
            id: id(bytes),
            round: small(bytes),
            answers: several(bytes, answer),
            lost: several(bytes, name),
            depth: small(bytes),
        }),
        _ => RingMessage::Lap(Lap {
            origin: instance(bytes),
            sequence: number(bytes),
            hops: small(bytes),
            trace: bytes.byte() & 1 == 1,
            way: number(bytes),
            names: several(bytes, name),
        }),
    }
}
