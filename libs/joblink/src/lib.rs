//! One end of one job link, above the channel: the order of frames, and whether the peer lives.
//!
//! **Purpose.** The owner hands in [`Input::Opened`] when the channel is open, and every frame that the channel
//! opened. It calls [`JobLink::handle_timeout`] when the time of [`JobLink::poll_timeout`] has come
//! *and it has read everything from the peer*. After each call it drains [`JobLink::poll_output`].
//! It seals the frames that [`JobLink::next_frame`] returns, until there is none. Frames may be
//! queued before the link is open.
//!
//! The first frame of each end states the versions of its messages. Commands go down and reports go up. Each end accepts only messages that the peer's side may
//! send; any other message loses the link and nothing else. A class waits only for the classes
//! before it, and few bytes are sealed in advance. A signal therefore overtakes output that the
//! peer does not take.
//!
//! **Users.** The manager process in `mpd`.
//!
//! **Must not know.** Descriptors and ciphers (`mpd-channel`); the meaning of the messages (`mpd-job`).
//!
//! | module | subject |
//! |---|---|
//! | `frame` | the frames and the messages in them |
//! | `liveness` | pulses, and when silence means loss |
//! | `outgoing` | the classes of waiting frames, and their bounds |
//! | [`Seek`] | the attempts to reach the parent's addresses |
//! | [`Timing`] | the times of a link |
#![forbid(unsafe_code)]

mod frame;
mod liveness;
mod outgoing;
mod seek;
mod timing;

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

pub use frame::{Frame, InvalidFrame, JobLinkMessage, Side};
pub use seek::Seek;
pub use timing::Timing;

use liveness::{Liveness, Verdict};
use mpd_sansio::{Time, UNDRAINED};
use mpd_wire::frame::{Skipped, Versions};
use mpd_wire::message::{Class, Down, LINK_VERSIONS, LinkHello, Up};
use outgoing::{Full, Outgoing};

/// Bytes that may wait sealed before the socket. A sealed frame cannot be overtaken any longer.
pub const MAX_SEALED: usize = 64 * 1024;

/// An input of the link.
#[derive(Debug)]
pub enum Input {
    /// The channel is open.
    Opened,
    /// A frame of the peer.
    Received(Vec<u8>),
}

/// An action for the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Act on this message of the peer.
    Act(JobLinkMessage),
    /// A message of a kind that is unknown here was skipped: a line for the log. Only the first ones have it.
    Skipped(String),
    /// The peer has been silent for this time. It may still come back.
    Suspect(Duration),
    /// A suspected peer is back.
    Clear,
    /// Close the connection: the peer is lost. This is the last output.
    Lose(Loss),
}

/// The reason why a peer is lost. The texts follow "host h3 is lost: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// The peer was silent for this time.
    #[error("no message from it for {}", Seconds(*.0))]
    Silent(Duration),
    /// Too many bytes wait for the peer.
    #[error("it does not read its messages")]
    Clogged,
    /// The peer reads no version of the messages that this side reads.
    #[error("it speaks version {0} of job links, and this manager {LINK_VERSIONS}")]
    Version(Versions),
    /// The peer sent a frame that it must not send.
    #[error("it broke the protocol of job links: {0}")]
    Misbehaved(#[from] InvalidFrame),
}

/// One end of a link. The module's documentation describes it.
#[derive(Debug)]
pub struct JobLink {
    peer: Side,
    timing: Timing,
    outgoing: Outgoing,
    state: State,
    outputs: VecDeque<Output>,
    skipped: Skipped,
}

#[derive(Debug)]
enum State {
    /// There is no connection yet: silence does not count.
    Waiting,
    /// The hello of the peer is missing.
    Expecting(Liveness),
    Open(Liveness),
    Lost,
}

impl JobLink {
    /// Changes the times of the link.
    pub fn set_timing(&mut self, timing: Timing) {
        self.timing = timing;
    }

    /// A link to a peer on that side, not open yet.
    pub fn new(peer: Side, timing: Timing) -> Self {
        let (mut outgoing, outputs) = (Outgoing::default(), VecDeque::new());
        outgoing.push(Frame::hello()).expect("nothing else waits");
        let skipped = Skipped::default();
        Self { peer, timing, outgoing, state: State::Waiting, outputs, skipped }
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Time, input: Input) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        match (&mut self.state, input) {
            (State::Waiting, Input::Opened) => self.state = State::Expecting(Liveness::new(now)),
            (State::Expecting(liveness), Input::Received(frame)) => {
                if liveness.received(now) {
                    self.outputs.push_back(Output::Clear);
                }
                match frame::read_hello(&frame) {
                    Ok(LinkHello { versions }) if LINK_VERSIONS.common(versions).is_some() => {
                        self.state = State::Open(std::mem::replace(liveness, Liveness::new(now)));
                    }
                    Ok(LinkHello { versions }) => self.lose(Loss::Version(versions)),
                    Err(invalid) => self.lose(invalid.into()),
                }
            }
            (State::Open(liveness), Input::Received(frame)) => {
                if liveness.received(now) {
                    self.outputs.push_back(Output::Clear);
                }
                match frame::read(self.peer, frame) {
                    Ok(received) => self.outputs.extend(received.map(Output::Act)),
                    // An order is never optional: the parent may wait for what follows from it.
                    Err(InvalidFrame::Unknown(kind)) if self.peer == Side::Child => {
                        self.outputs.extend(self.skipped.count(&kind).map(Output::Skipped));
                    }
                    Err(invalid) => self.lose(invalid.into()),
                }
            }
            (State::Waiting, Input::Received(_)) => unreachable!("a frame before the channel"),
            (State::Expecting(_) | State::Open(_), Input::Opened) => {
                unreachable!("a link opens once")
            }
            (State::Lost, Input::Opened | Input::Received(_)) => {}
        }
    }

    /// Does the work that is due.
    pub fn handle_timeout(&mut self, now: Time) {
        debug_assert!(self.outputs.is_empty(), "{UNDRAINED}");
        let (State::Expecting(liveness) | State::Open(liveness)) = &mut self.state else { return };
        match liveness.judge(now, &self.timing) {
            Verdict::Well => {}
            Verdict::Suspect(silence) => self.outputs.push_back(Output::Suspect(silence)),
            Verdict::Lost(silence) => return self.lose(Loss::Silent(silence)),
        }
        // A waiting frame replaces a pulse.
        if liveness.is_pulse_due(now, &self.timing) && self.outgoing.is_empty() {
            let pulse = match self.peer {
                Side::Parent => Frame::up(&Up::Pulse),
                Side::Child => Frame::down(&Down::Pulse),
            };
            self.send(pulse);
        }
    }

    /// The time at which [`JobLink::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.state {
            State::Expecting(liveness) | State::Open(liveness) => {
                Some(liveness.poll_timeout(&self.timing, !self.outgoing.is_empty()))
            }
            State::Waiting | State::Lost => None,
        }
    }

    /// The next action.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Queues a frame. A peer for which too many bytes wait is lost. Frames for a lost peer are
    /// dropped.
    pub fn send(&mut self, frame: Frame) {
        match self.state {
            State::Waiting | State::Expecting(_) | State::Open(_) => {
                if let Err(Full) = self.outgoing.push(frame) {
                    self.lose(Loss::Clogged);
                }
            }
            State::Lost => {}
        }
    }

    /// The next frame to seal, while `sealed` bytes wait sealed.
    pub fn next_frame(&mut self, now: Time, sealed: usize) -> Option<Frame> {
        let (State::Expecting(liveness) | State::Open(liveness)) = &mut self.state else {
            return None;
        };
        let room = if sealed == 0 { usize::MAX } else { MAX_SEALED.saturating_sub(sealed) };
        let frame = self.outgoing.pop(room)?;
        liveness.sent(now);
        Some(frame)
    }

    /// The number of bytes of that class that wait to be sealed.
    pub const fn queued(&self, class: Class) -> usize {
        self.outgoing.bytes(class)
    }

    /// Whether nothing waits to be sealed.
    pub fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Gives up the peer: no frames are sent to it or accepted from it.
    pub fn abandon(&mut self) {
        self.state = State::Lost;
        self.outgoing.clear();
    }

    fn lose(&mut self, loss: Loss) {
        self.abandon();
        self.outputs.push_back(Output::Lose(loss));
    }
}

/// A duration as text for the user: `8 s`, `0.4 s`.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.as_millis() / 100;
        match tenths % 10 {
            0 => write!(f, "{} s", tenths / 10),
            rest => write!(f, "{}.{rest} s", tenths / 10),
        }
    }
}

#[cfg(test)]
mod tests;
