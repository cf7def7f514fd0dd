//! How names reach all members, and how they are taken back. `names` keeps the names.
//!
//! A claim is added to the owner's name record, which is sent like any change. A scatter asks every live
//! member whether it has that name record and knows no better claim to the name. If all members agree,
//! the name is published. If a member knows a better claim, or a member does not answer in time,
//! the claim is taken back. If two jobs want one name in a whole ring, at most one of them receives
//! a success.

use crate::config::MAX_REQUESTS;
use crate::links::{Link, LinkId};
use crate::scatter::ScatterOrigin;
use crate::{Event, Output, RequestId, Ring};
use mpd_sansio::Time;
use mpd_wire::message::{Naming, Payload, RingMessage};
use mpd_wire::names::{Claim, Hold, MAX_NAME_RECORD, NameKey, NameRecord, TOO_MANY_OF_JOB};
use mpd_wire::{DaemonName, JobId, Standing};

/// The result of a publication. The name is published only if the result is `Done`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publication {
    /// All live members have the claim.
    Done,
    /// Another daemon has the name. [`Ring::lookup`] gives its name, if its claim has already
    /// arrived here.
    Taken,
    /// Not all live members answered in time.
    Incomplete {
        /// The members that did not answer.
        missing: Vec<DaemonName>,
    },
    /// The publication was not tried, or it was given up. The text gives the reason.
    Refused(&'static str),
}

/// The reason for a publication whose name was taken back before all members had answered.
pub const UNPUBLISHED: &str = "unpublished";

/// A reason that may pass.
const NO_RING: &str = "not in a ring yet";
const BUSY: &str = "too many requests";

impl Publication {
    /// Whether the same publication may soon succeed.
    pub fn may_be_done_later(&self) -> bool {
        match self {
            Self::Incomplete { .. } => true,
            Self::Refused(problem) => [NO_RING, BUSY].contains(problem),
            Self::Done | Self::Taken => false,
        }
    }
}

/// The answer of a member that knows a better claim to a name.
pub(super) const TAKEN: &[u8] = b"taken";

impl Ring {
    /// The owner of this name, and its claim.
    pub fn lookup(&self, name: &str) -> Option<(&DaemonName, &Claim)> {
        self.names.winner(name)
    }

    /// Every published name, in order, with its owner.
    pub fn names(&self) -> Vec<(&DaemonName, &Claim)> {
        self.names.all()
    }

    pub(super) fn publish(&mut self, now: Time, request: RequestId, claim: Claim) {
        if let Err(result) = self.may_publish(&claim) {
            self.outputs.push_back(Output::Published { request, result });
            return;
        }
        let name = claim.name.clone();
        self.change_name_record(|claims| claims.push(claim));
        let asker = ScatterOrigin::Name(request, name);
        self.begin_scatter(now, asker, None, Payload::from(&b""[..]));
    }

    fn may_publish(&self, claim: &Claim) -> Result<(), Publication> {
        let mut name_record = self.own_name_record();
        name_record.claims.push(claim.clone());
        name_record.claims.sort();
        if let Some(problem) = claim.problem() {
            Err(Publication::Refused(problem))
        } else if self.seat().is_none() {
            Err(Publication::Refused(NO_RING))
        } else if self.lookup(&claim.name).is_some() {
            Err(Publication::Taken)
        } else if !claim.is_within_share(&self.own_name_record().claims) {
            Err(Publication::Refused(TOO_MANY_OF_JOB))
        } else if !name_record.is_sound() || !self.names.has_room(&name_record) {
            Err(Publication::Refused("too many names"))
        } else if self.scatters.requests() >= MAX_REQUESTS {
            Err(Publication::Refused(BUSY))
        } else {
            Ok(())
        }
    }

    pub(super) fn unpublish(
        &mut self,
        request: RequestId,
        name: &str,
        job: &JobId,
        key: Option<&NameKey>,
    ) {
        let claim = self.own_name_record().claim(name).cloned();
        let found = claim.is_some_and(|claim| claim.may_be_taken_back(job, key));
        if found {
            self.withdraw(UNPUBLISHED, |claim| claim.name == name);
        }
        self.outputs.push_back(Output::Unpublished { request, found });
    }

    pub(super) fn job_over(&mut self, job: &JobId) {
        let over = |claim: &Claim| claim.job == *job && claim.hold != Hold::Kept;
        self.withdraw("the job is over", over);
    }

    /// Takes back the own claims for which `over` is true. Their publications in progress end with
    /// `reason`.
    fn withdraw(&mut self, reason: &'static str, over: impl Fn(&Claim) -> bool) {
        let name_record = self.own_name_record();
        let gone: Vec<&Claim> = name_record.claims.iter().filter(|claim| over(claim)).collect();
        if gone.is_empty() {
            return;
        }
        for claim in &gone {
            if let Some(request) = self.end_naming(&claim.name) {
                let result = Publication::Refused(reason);
                self.outputs.push_back(Output::Published { request, result });
            }
        }
        self.change_name_record(|claims| claims.retain(|claim| !over(claim)));
    }

    /// This daemon's name record; an empty one if it has published nothing.
    fn own_name_record(&self) -> NameRecord {
        let own = self.names.get(&self.config.name).cloned();
        own.unwrap_or_else(|| NameRecord::new(self.config.name.clone(), self.config.instance))
    }

    fn change_name_record(&mut self, change: impl FnOnce(&mut Vec<Claim>)) {
        let mut name_record = self.own_name_record();
        change(&mut name_record.claims);
        name_record.claims.sort();
        name_record.version += 1;
        self.keep_name_record(name_record, None);
    }

    fn keep_name_record(&mut self, name_record: NameRecord, from: Option<LinkId>) {
        let owner = name_record.owner.clone();
        self.names.put(name_record, from);
        self.names.count(&owner, &self.list);
    }

    /// The content of a naming scatter: the present name record.
    pub(super) fn naming(&self, name: &str) -> Naming {
        Naming { name: name.to_owned(), name_record: self.own_name_record() }
    }

    /// Answers a daemon that asks for a name. There is no answer if its name record cannot be accepted,
    /// or does not count because its record has not arrived here yet. The daemon asks again.
    pub(super) fn consent(&mut self, naming: &Naming, from: Option<LinkId>) -> Option<Payload> {
        let Naming { name, name_record } = naming;
        if !name_record.is_sound() || !self.take_name_record(name_record.clone(), from) {
            return None;
        }
        // A name has no owner here while this daemon has its owner recorded as dead.
        let (winner, _) = self.lookup(name)?;
        Some(Payload::from(if *winner == name_record.owner { &b""[..] } else { TAKEN }))
    }

    /// The scatter that asked for a name is over.
    pub(super) fn named(
        &mut self,
        request: RequestId,
        name: &str,
        taken: bool,
        missing: Vec<DaemonName>,
    ) {
        let result = match (taken, missing.is_empty()) {
            (true, _) => Publication::Taken,
            (false, false) => Publication::Incomplete { missing },
            (false, true) => Publication::Done,
        };
        if result != Publication::Done {
            self.change_name_record(|claims| claims.retain(|claim| claim.name != name));
        }
        self.outputs.push_back(Output::Published { request, result });
    }

    /// Whether this answer speaks against a name.
    pub(super) fn is_dissent(answer: &Payload) -> bool {
        answer.as_bytes() == TAKEN
    }

    pub(super) fn received_names(&mut self, id: LinkId, name_records: Vec<NameRecord>) {
        for name_record in name_records.into_iter().filter(NameRecord::is_sound) {
            self.take_name_record(name_record, Some(id));
        }
    }

    /// Accepts a name record if it is new. True if this daemon has that name record or a later one.
    fn take_name_record(&mut self, name_record: NameRecord, from: Option<LinkId>) -> bool {
        if name_record.owner == self.config.name {
            // Only this daemon changes its own name record.
            return name_record.instance == self.config.instance;
        }
        let Some(record) = self.list.get(&name_record.owner) else { return false };
        if record.instance != name_record.instance || record.standing == Standing::Departed {
            return false;
        }
        let news = |known: &NameRecord| {
            (name_record.version, &name_record.claims) > (known.version, &known.claims)
        };
        if !self.names.get(&name_record.owner).is_none_or(news) {
            return true;
        }
        let room = self.names.has_room(&name_record);
        if room {
            self.keep_name_record(name_record, from);
        } else {
            self.event(Event::Full("names"));
        }
        room
    }

    /// A member's record has changed: its name record may be that of a former instance.
    pub(super) fn review_name_record(&mut self, owner: &DaemonName) {
        // The claims of most members are none, and no change of theirs needs a review.
        let Some(name_record) = self.names.get(owner) else { return };
        let instance = name_record.instance;
        self.names.unreviewed = true;
        let record = self.list.get(owner);
        let record = record.filter(|record| record.standing != Standing::Departed);
        if record.is_none_or(|record| record.instance != instance) {
            self.names.drop_name_record(owner);
        } else {
            self.names.count(owner, &self.list);
        }
    }

    /// Takes back the own names to which another daemon has the better claim.
    pub(super) fn review_names(&mut self) {
        if !std::mem::take(&mut self.names.unreviewed) {
            return;
        }
        let Some(name_record) = self.names.get(&self.config.name) else { return };
        let mut lost: Vec<(Claim, JobId)> = Vec::new();
        for claim in &name_record.claims {
            if let Some((owner, winner)) = self.lookup(&claim.name)
                && *owner != self.config.name
            {
                lost.push((claim.clone(), winner.job.clone()));
            }
        }
        if lost.is_empty() {
            return;
        }
        self.change_name_record(|claims| {
            claims.retain(|claim| !lost.iter().any(|(gone, _)| gone.name == claim.name));
        });
        for (Claim { name, job, .. }, to) in lost {
            let output = match self.end_naming(&name) {
                Some(request) => Output::Published { request, result: Publication::Taken },
                None => Output::NameLost { name, job, to },
            };
            self.outputs.push_back(output);
        }
        // A smaller set of own claims does not change the claims of others.
        self.names.unreviewed = false;
    }

    /// Sends all name records to a peer whose digest differs.
    pub(super) fn send_name_records(&mut self, id: LinkId) {
        let name_records = self.names.iter().cloned().collect();
        self.send_in_parts(id, name_records);
    }

    /// Sends every link the name records that changed since the last call.
    pub(super) fn report_name_records(&mut self) {
        let untold = std::mem::take(&mut self.names.untold);
        if untold.is_empty() {
            return;
        }
        for id in self.links.which(Link::carries_list) {
            let fresh = untold.iter().filter(|(_, from)| **from != Some(id));
            let name_records =
                fresh.filter_map(|(owner, _)| self.names.get(owner)).cloned().collect();
            self.send_in_parts(id, name_records);
        }
    }

    /// Puts as many name records into a message as fit if each were of the largest size.
    fn send_in_parts(&mut self, id: LinkId, name_records: Vec<NameRecord>) {
        let mut part = Vec::new();
        let mut bytes = 0;
        for name_record in name_records {
            let more = name_record.bytes() + NAME_RECORD_FRAME;
            if bytes + more > MAX_NAME_RECORD && !part.is_empty() {
                self.send(id, RingMessage::Names { name_records: std::mem::take(&mut part) });
                bytes = 0;
            }
            bytes += more;
            part.push(name_record);
        }
        if !part.is_empty() {
            self.send(id, RingMessage::Names { name_records: part });
        }
    }
}

/// Most bytes of a name record besides its names and values: owner, instance, version.
const NAME_RECORD_FRAME: usize = 400;
