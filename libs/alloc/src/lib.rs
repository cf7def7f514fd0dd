//! Slots of hosts: their holds, the requests that wait for them, and the turn of each request.
//!
//! **Purpose.** Each daemon has one [`Allocator`]. It has three parts, which speak to each other by messages, also
//! within one daemon:
//!
//! | part | decides |
//! |---|---|
//! | host | the holds of this host's slots. This table is authoritative |
//! | requester | the requests of consoles here; it confirms granted slots to their hosts again and again |
//! | dispenser | only at the live member with the lowest ordinal: the queue, and whose turn it is |
//!
//! ```text
//! requester ── submit ──► dispenser ── hello, reserve ──► hosts
//!     ◄─────── offer ────────┘ ◄────── state, reserved ─────┘
//!     ├─────── confirm, again and again ──────────────────► hosts
//!     ◄─────── held ────────────────────────────────────────┘
//!     └── granted ──► owner
//! ```
//!
//! Every message may be lost, be late, or arrive twice. No slot is believed to be held by two owners at a time:
//! [`Timing`] explains why.
//!
//! **Users.** The daemon, and the simulator of allocations.
//!
//! **Must not know.** Jobs and their processes, how messages travel, files, sockets and clocks.
#![forbid(unsafe_code)]

mod choice;
pub mod data;
mod dispenser;
pub mod exchange;
mod host;
mod plan;
mod requester;
mod saved;
mod shared;
#[cfg(test)]
mod tests;
mod timing;
pub mod variables;

use std::collections::VecDeque;

pub use dispenser::MAX_QUEUE;
pub use saved::{MAX_HOLDS, MAX_OWN, Saved, SavedHold, SavedOwn};
pub use timing::Timing;

use crate::data::{AllocEntry, AllocId, AllocMessage, AllocNews, AllocRequest, Part};
use mpd_sansio::{Machine, Time, UNDRAINED};
use mpd_wire::{DaemonName, Instance};

use dispenser::Dispenser;
use host::Host;
use requester::Requester;
use shared::Shared;

/// A console that owns a request, as its daemon numbers it. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerId(pub u64);

/// A live member of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: DaemonName,
    pub instance: Instance,
    /// Its place in listings; the lowest one is the dispenser.
    pub ordinal: u64,
    pub slots: u32,
    /// Whether only requests that name it may use it.
    pub draining: bool,
}

/// An owner that returns to a daemon that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Its request or allocation.
    pub id: AllocId,
    pub request: AllocRequest,
    /// The number in the queue, if the owner knows it.
    pub ticket: Option<u64>,
    /// Whether the owner has the slots.
    pub is_granted: bool,
}

/// An event that the owner of the machine hands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The live members of the ring, this one among them. Empty: this daemon is in no ring.
    Members(Vec<Member>),
    /// The jobs of an earlier daemon are known. Before this, this host gives no slot away.
    Ready,
    /// A message of another member.
    Received(DaemonName, AllocMessage),
    /// A console requests slots.
    Request(OwnerId, AllocRequest),
    /// A console returns to its request.
    Resume(OwnerId, Resume),
    /// A console is gone.
    OwnerGone(OwnerId),
    /// A user cancels a request or an allocation of this user.
    Cancel(AllocId, u32),
    /// An allocation of this user shall have no more than these slots.
    Keep(AllocId, u32, Vec<Part>),
}

/// An action for the owner of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Write this record before any later output is performed.
    Save(Box<Saved>),
    /// Send a message to another member. It may be lost.
    Send(DaemonName, AllocMessage),
    /// News of its request for a console. After [`AllocNews::Over`] nothing follows.
    Tell(OwnerId, AllocNews),
    /// Refuse the request of a console, with the reason.
    Refused(OwnerId, String),
}

/// What a daemon knows when it starts.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: DaemonName,
    /// The architecture of this host.
    pub arch: String,
    /// Wall-clock time at [`Time::ZERO`], in microseconds.
    pub life: u64,
    pub timing: Timing,
    /// The record of an earlier daemon.
    pub saved: Saved,
}

/// One daemon's part in the allocations of the ring. The crate's documentation describes it.
#[derive(Debug)]
pub struct Allocator {
    shared: Shared,
    host: Host,
    requester: Requester,
    dispenser: Dispenser,
    next_tick: Option<Time>,
}

impl Allocator {
    /// The allocations of a daemon that starts now.
    pub fn new(now: Time, config: Config) -> Self {
        let Config { name, arch, life, timing, saved } = config;
        let mut shared = Shared {
            timing,
            me: name,
            life,
            last_stamp: 0,
            is_changed: false,
            outputs: VecDeque::new(),
            own: VecDeque::new(),
        };
        let host = Host::new(now, arch, saved.epoch, saved.holds, &shared);
        let requester = Requester::new(now, saved.next, saved.own, &mut shared);
        let mut new =
            Self { shared, host, requester, dispenser: Dispenser::default(), next_tick: None };
        new.settle(now);
        new
    }

    /// The time at which [`Machine::handle_timeout`] is due.
    pub const fn poll_timeout(&self) -> Option<Time> {
        self.next_tick
    }

    /// Whether this daemon is the dispenser.
    pub const fn is_dispenser(&self) -> bool {
        self.dispenser.is_active()
    }

    /// The slots of an allocation of this user that was granted through this daemon.
    pub fn granted(&self, id: &AllocId, uid: u32) -> Option<&[Part]> {
        self.requester.granted(id, uid)
    }

    /// The requests and allocations of consoles here.
    pub fn entries(&self) -> impl Iterator<Item = AllocEntry> {
        self.requester.entries(&self.shared)
    }

    /// The slots of this host: all of them, and those that are held or reserved.
    pub fn slots(&self) -> (u32, u32) {
        (self.host.slots(), self.host.used())
    }

    /// The allocations that hold slots of this host.
    pub fn holds(&self) -> impl Iterator<Item = (&AllocId, u32)> {
        self.host.holds()
    }

    fn set_members(&mut self, now: Time, mut members: Vec<Member>) {
        members.sort_by(|a, b| (a.ordinal, &a.name).cmp(&(b.ordinal, &b.name)));
        if let Some(own) = members.iter().find(|member| member.name == self.shared.me) {
            self.host.set_slots(own.slots);
        }
        self.dispenser.set_members(now, &members, self.host.epoch(), &self.shared);
        let first = members.first().map(|first| (first.name.clone(), first.instance));
        self.requester.set_dispenser(now, first, &mut self.shared);
        self.host.report_change(now, &mut self.shared);
    }

    /// Gives a message to the part that it is for.
    fn received(&mut self, now: Time, from: &DaemonName, message: AllocMessage) {
        let shared = &mut self.shared;
        match message {
            AllocMessage::Submit { .. }
            | AllocMessage::Cancel { .. }
            | AllocMessage::Taken { .. }
            | AllocMessage::State { .. }
            | AllocMessage::Reserved { .. }
            | AllocMessage::Stale { .. } => self.dispenser.received(now, from, message, shared),
            AllocMessage::Queued { .. }
            | AllocMessage::Offer { .. }
            | AllocMessage::Wanted { .. }
            | AllocMessage::Held { .. }
            | AllocMessage::NotHeld { .. }
            | AllocMessage::Released { .. } => self.requester.received(now, from, message, shared),
            AllocMessage::Hello { .. }
            | AllocMessage::Reserve { .. }
            | AllocMessage::Unreserve { .. }
            | AllocMessage::Confirm { .. }
            | AllocMessage::Release { .. } => self.host.received(now, from, message, shared),
        }
    }

    /// Delivers the messages within this daemon, and writes the record before anything else is done.
    fn settle(&mut self, now: Time) {
        loop {
            while let Some(message) = self.shared.own.pop_front() {
                let me = self.shared.me.clone();
                self.received(now, &me, message);
            }
            self.dispenser.review(now, &mut self.shared);
            if self.shared.own.is_empty() {
                break;
            }
        }
        if std::mem::take(&mut self.shared.is_changed) {
            let (next, own) = self.requester.saved(&self.shared);
            let (epoch, holds) = (self.host.epoch(), self.host.saved(&self.shared));
            let saved = Saved { epoch, next, holds, own };
            self.shared.outputs.push_front(Output::Save(Box::new(saved)));
        }
        let is_idle = self.host.is_idle() && self.requester.is_idle() && self.dispenser.is_idle();
        self.next_tick = match self.next_tick {
            _ if is_idle => None,
            None => Some(now + self.shared.timing.tick),
            set => set,
        };
    }

    fn assert_drained(&self) {
        debug_assert!(self.shared.outputs.is_empty(), "{UNDRAINED}");
    }
}

impl Machine for Allocator {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        self.assert_drained();
        let shared = &mut self.shared;
        match input {
            Input::Members(members) => self.set_members(now, members),
            Input::Ready => self.host.set_ready(),
            Input::Received(from, message) => self.received(now, &from, message),
            Input::Request(owner, request) => self.requester.request(now, owner, request, shared),
            Input::Resume(owner, resume) => self.requester.resume(now, owner, resume, shared),
            Input::OwnerGone(owner) => self.requester.owner_gone(now, owner, shared),
            Input::Cancel(id, uid) => {
                self.requester.cancel(now, &id, uid, shared);
            }
            Input::Keep(id, uid, parts) => self.requester.keep(now, &id, uid, &parts, shared),
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.assert_drained();
        if self.next_tick.is_none_or(|at| at > now) {
            return;
        }
        self.next_tick = None;
        self.requester.tick(now, &mut self.shared);
        self.host.tick(now, &mut self.shared);
        self.dispenser.tick(now, &mut self.shared);
        self.settle(now);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.shared.outputs.pop_front()
    }
}
