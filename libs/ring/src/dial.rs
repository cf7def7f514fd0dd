//! Attempts to connect: the aim of each, its deadline, and the consequences of success and failure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::links::{LinkId, Peer, Purpose};
use crate::{Connect, Output, Phase, Ring, Timer, Token};
use mpd_sansio::Time;
use mpd_wire::{Address, DaemonName, Instance};

/// The reason why a connection did not come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialFailure {
    /// The host refuses the connection, or the network reports it unreachable.
    Refused,
    /// No answer before the deadline.
    TimedOut,
    /// The peer did not prove that it belongs to the ring.
    NotProved,
    /// The address is this daemon's own.
    Myself,
    /// This daemon could not try, for example because no descriptor was free. The failure says
    /// nothing about the peer.
    NoMeans,
}

/// The aim of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// A new rhs, at this incarnation (R3).
    Rhs(DaemonName, u64),
    /// A possible rhs, tried ahead of its turn (R3).
    Candidate(DaemonName, u64),
    /// A dead member (R4).
    Dead(DaemonName),
    /// The seed with this index (R5).
    Seed(usize),
    Entry(Address),
    /// The daemon that may have our name, at this incarnation.
    Double(u64),
    Chord(DaemonName),
    /// A daemon that claims to be a member (R7).
    Proof(DaemonName),
    /// A daemon of another ring, which a console names.
    Meeting,
}

impl Aim {
    const fn purpose(&self) -> Purpose {
        match self {
            Self::Rhs(..) => Purpose::Ring,
            Self::Candidate(..)
            | Self::Dead(_)
            | Self::Seed(_)
            | Self::Proof(_)
            | Self::Meeting => Purpose::Probe,
            Self::Entry(_) | Self::Double(_) => Purpose::Join,
            Self::Chord(_) => Purpose::Chord,
        }
    }

    /// The member that the aim names, if it names one.
    pub(crate) const fn wanted(&self) -> Option<&DaemonName> {
        match self {
            Self::Rhs(name, _)
            | Self::Candidate(name, _)
            | Self::Dead(name)
            | Self::Chord(name)
            | Self::Proof(name) => Some(name),
            Self::Seed(_) | Self::Entry(_) | Self::Double(_) | Self::Meeting => None,
        }
    }

    /// Whether the daemon that answered is the one that the aim names.
    pub(crate) fn is_met_by(&self, peer: &DaemonName) -> bool {
        match self {
            Self::Double(_) => false,
            Self::Rhs(..)
            | Self::Candidate(..)
            | Self::Dead(_)
            | Self::Seed(_)
            | Self::Entry(_)
            | Self::Chord(_)
            | Self::Proof(_)
            | Self::Meeting => self.wanted().is_none_or(|name| name == peer),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Dials {
    by_token: BTreeMap<Token, Aim>,
    last: u64,
}

impl Dials {
    pub(crate) fn len(&self) -> usize {
        self.by_token.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Token, &Aim)> {
        self.by_token.iter().map(|(token, aim)| (*token, aim))
    }

    pub(crate) fn any(&self, wanted: impl Fn(&Aim) -> bool) -> bool {
        self.by_token.values().any(wanted)
    }
}

impl Ring {
    pub(super) fn dial(&mut self, now: Time, aim: Aim, addresses: Vec<Address>) {
        self.dials.last += 1;
        let token = Token(self.dials.last);
        let purpose = aim.purpose();
        let name = aim.wanted().cloned();
        let instance = self.instance_for(&aim);
        self.dials.by_token.insert(token, aim);
        self.timers.set(Timer::Dial(token), now + self.config.timing.connect);
        self.outputs.push_back(Output::Connect(Connect {
            token,
            name,
            instance,
            addresses,
            purpose,
        }));
    }

    /// The instance that must answer for a live member. A member that died may be back with another
    /// instance.
    fn instance_for(&self, aim: &Aim) -> Option<Instance> {
        match aim {
            Aim::Rhs(name, _) | Aim::Candidate(name, _) | Aim::Chord(name) => {
                self.list.live(name).map(|record| record.instance)
            }
            Aim::Dead(_)
            | Aim::Seed(_)
            | Aim::Entry(_)
            | Aim::Double(_)
            | Aim::Proof(_)
            | Aim::Meeting => None,
        }
    }

    pub(super) fn take_dial(&mut self, token: Token) -> Option<Aim> {
        self.timers.stop(Timer::Dial(token));
        self.dials.by_token.remove(&token)
    }

    /// Abandons the attempts for which `unwanted` is true.
    pub(super) fn abandon(&mut self, unwanted: impl Fn(&Aim) -> bool) {
        let tokens: Vec<Token> =
            self.dials.iter().filter(|(_, aim)| unwanted(aim)).map(|(token, _)| token).collect();
        for token in tokens {
            self.take_dial(token);
            self.outputs.push_back(Output::Abandon(token));
        }
    }

    pub(super) fn connect_failed(&mut self, now: Time, token: Token, failure: DialFailure) {
        let aim = self.take_dial(token);
        if let (Some(Aim::Seed(index)), DialFailure::Myself) = (&aim, failure) {
            self.search.seed_is_mine(*index);
        }
        let judges = matches!(aim, Some(Aim::Rhs(..) | Aim::Candidate(..) | Aim::Double(_)));
        if judges && failure == DialFailure::NoMeans {
            return self.try_rhs_later(now);
        }
        self.aim_missed(now, aim);
    }

    pub(super) fn dial_expired(&mut self, now: Time, token: Token) {
        let aim = self.take_dial(token);
        self.outputs.push_back(Output::Abandon(token));
        self.aim_missed(now, aim);
    }

    pub(super) fn aim_met(&mut self, now: Time, id: LinkId, peer: &Peer, aim: Aim) {
        match aim {
            Aim::Rhs(..) => self.rhs_up(now, id, peer),
            Aim::Seed(index) => self.search.seed_answered(index, &peer.name),
            Aim::Entry(_)
            | Aim::Candidate(..)
            | Aim::Dead(_)
            | Aim::Chord(_)
            | Aim::Proof(_)
            | Aim::Meeting => {}
            Aim::Double(_) => unreachable!("a double bears our own name and is met elsewhere"),
        }
    }

    pub(super) fn aim_missed(&mut self, now: Time, aim: Option<Aim>) {
        // A daemon that has left the ring accuses no member.
        match aim.filter(|_| self.phase != Phase::Over) {
            None | Some(Aim::Dead(_) | Aim::Seed(_) | Aim::Chord(_) | Aim::Meeting) => {}
            Some(Aim::Proof(name)) => self.not_dialed_back(name),
            Some(Aim::Entry(_)) => self.entry_failed(now),
            Some(Aim::Rhs(name, incarnation) | Aim::Candidate(name, incarnation)) => {
                self.unreachable(now, &name, incarnation);
            }
            Some(Aim::Double(incarnation)) => self.no_double(now, incarnation),
        }
    }
}
