//! How names reach all members, and how they are taken back. `names` keeps the names.
//!
//! A claim is added to the owner's sheet, which is sent like any change. A scatter asks every live
//! member whether it has that sheet and knows no better claim to the name. If all members agree,
//! the name is published. If a member knows a better claim, or a member does not answer in time,
//! the claim is taken back. If two jobs want one name in a whole ring, at most one of them receives
//! a success.

use crate::config::MAX_REQUESTS;
use crate::links::{Link, LinkId};
use crate::scatter::Asker;
use crate::{Event, Output, RequestId, Ring};
use mpd_machine::Time;
use mpd_wire::message::{Naming, Payload, RingMessage};
use mpd_wire::names::{Claim, MAX_SHEET, NameKey, Sheet, TOO_MANY_OF_JOB};
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
const TAKEN: &[u8] = b"taken";

impl Ring {
    /// The owner of this name, and its claim.
    pub fn lookup(&self, name: &str) -> Option<(&DaemonName, &Claim)> {
        self.names.winner(&self.list, name)
    }

    /// Every published name, in order, with its owner.
    pub fn names(&self) -> Vec<(&DaemonName, &Claim)> {
        self.names.all(&self.list)
    }

    pub(super) fn publish(&mut self, now: Time, request: RequestId, claim: Claim) {
        if let Err(result) = self.may_publish(&claim) {
            self.outputs.push_back(Output::Published { request, result });
            return;
        }
        let name = claim.name.clone();
        self.change_sheet(|claims| claims.push(claim));
        self.begin_scatter(now, Asker::Name(request, name), Payload::from(&b""[..]));
    }

    fn may_publish(&self, claim: &Claim) -> Result<(), Publication> {
        let mut sheet = self.own_sheet();
        sheet.claims.push(claim.clone());
        sheet.claims.sort();
        if let Some(problem) = claim.problem() {
            Err(Publication::Refused(problem))
        } else if self.seat().is_none() {
            Err(Publication::Refused(NO_RING))
        } else if self.lookup(&claim.name).is_some() {
            Err(Publication::Taken)
        } else if !claim.is_within_share(&self.own_sheet().claims) {
            Err(Publication::Refused(TOO_MANY_OF_JOB))
        } else if !sheet.is_sound() || !self.names.has_room(&sheet) {
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
        let ours = |claim: &Claim| claim.job == *job && claim.opens_with(key);
        let found = self.own_sheet().claim(name).is_some_and(ours);
        if found {
            self.withdraw("unpublished", |claim| claim.name == name);
        }
        self.outputs.push_back(Output::Unpublished { request, found });
    }

    pub(super) fn job_over(&mut self, job: &JobId) {
        self.withdraw("the job is over", |claim| claim.job == *job);
    }

    /// Takes back the own claims for which `over` is true. Their publications in progress end with
    /// `reason`.
    fn withdraw(&mut self, reason: &'static str, over: impl Fn(&Claim) -> bool) {
        let sheet = self.own_sheet();
        let gone: Vec<&Claim> = sheet.claims.iter().filter(|claim| over(claim)).collect();
        if gone.is_empty() {
            return;
        }
        for claim in &gone {
            if let Some(request) = self.end_naming(&claim.name) {
                let result = Publication::Refused(reason);
                self.outputs.push_back(Output::Published { request, result });
            }
        }
        self.change_sheet(|claims| claims.retain(|claim| !over(claim)));
    }

    /// This daemon's sheet; an empty one if it has published nothing.
    fn own_sheet(&self) -> Sheet {
        let own = self.names.get(&self.config.name).cloned();
        own.unwrap_or_else(|| Sheet::new(self.config.name.clone(), self.config.instance))
    }

    fn change_sheet(&mut self, change: impl FnOnce(&mut Vec<Claim>)) {
        let mut sheet = self.own_sheet();
        change(&mut sheet.claims);
        sheet.claims.sort();
        sheet.version += 1;
        self.names.put(sheet, None);
    }

    /// The content of a naming scatter: the present sheet.
    pub(super) fn naming(&self, name: &str) -> Naming {
        Naming { name: name.to_owned(), sheet: self.own_sheet() }
    }

    /// Answers a daemon that asks for a name. There is no answer if its sheet cannot be accepted,
    /// or does not count because its record has not arrived here yet. The daemon asks again.
    pub(super) fn consent(&mut self, naming: &Naming, from: Option<LinkId>) -> Option<Payload> {
        let Naming { name, sheet } = naming;
        if !sheet.is_sound() || !self.take_sheet(sheet.clone(), from) {
            return None;
        }
        // A name has no owner here while this daemon has its owner recorded as dead.
        let (winner, _) = self.lookup(name)?;
        Some(Payload::from(if *winner == sheet.owner { &b""[..] } else { TAKEN }))
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
            self.change_sheet(|claims| claims.retain(|claim| claim.name != name));
        }
        self.outputs.push_back(Output::Published { request, result });
    }

    /// Whether this answer speaks against a name.
    pub(super) fn is_dissent(answer: &Payload) -> bool {
        answer.as_bytes() == TAKEN
    }

    pub(super) fn heard_names(&mut self, id: LinkId, sheets: Vec<Sheet>) {
        for sheet in sheets.into_iter().filter(Sheet::is_sound) {
            self.take_sheet(sheet, Some(id));
        }
    }

    /// Accepts a sheet if it is new. True if this daemon has that sheet or a later one.
    fn take_sheet(&mut self, sheet: Sheet, from: Option<LinkId>) -> bool {
        if sheet.owner == self.config.name {
            // Only this daemon changes its own sheet.
            return sheet.instance == self.config.instance;
        }
        let Some(record) = self.list.get(&sheet.owner) else { return false };
        if record.instance != sheet.instance || record.standing == Standing::Departed {
            return false;
        }
        let news = |known: &Sheet| (sheet.version, &sheet.claims) > (known.version, &known.claims);
        if !self.names.get(&sheet.owner).is_none_or(news) {
            return true;
        }
        let room = self.names.has_room(&sheet);
        if room {
            self.names.put(sheet, from);
        } else {
            self.event(Event::Full("names"));
        }
        room
    }

    /// A member's record has changed: its sheet may be that of a former instance.
    pub(super) fn review_sheet(&mut self, owner: &DaemonName) {
        self.names.unreviewed = true;
        let record = self.list.get(owner);
        let record = record.filter(|record| record.standing != Standing::Departed);
        let sheet = self.names.get(owner);
        if sheet.is_some_and(|sheet| record.is_none_or(|r| r.instance != sheet.instance)) {
            self.names.drop_sheet(owner);
        }
    }

    /// Takes back the own names to which another daemon has the better claim.
    pub(super) fn review_names(&mut self) {
        if !std::mem::take(&mut self.names.unreviewed) {
            return;
        }
        let Some(sheet) = self.names.get(&self.config.name) else { return };
        let mut lost: Vec<(Claim, JobId)> = Vec::new();
        for claim in &sheet.claims {
            if let Some((owner, winner)) = self.lookup(&claim.name)
                && *owner != self.config.name
            {
                lost.push((claim.clone(), winner.job.clone()));
            }
        }
        if lost.is_empty() {
            return;
        }
        self.change_sheet(|claims| {
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

    /// Sends all sheets to a peer whose digest differs.
    pub(super) fn send_sheets(&mut self, id: LinkId) {
        let sheets = self.names.iter().cloned().collect();
        self.send_in_parts(id, sheets);
    }

    /// Sends every link the sheets that changed since the last call.
    pub(super) fn tell_sheets(&mut self) {
        let untold = std::mem::take(&mut self.names.untold);
        if untold.is_empty() {
            return;
        }
        for id in self.links.which(Link::carries_list) {
            let fresh = untold.iter().filter(|(_, from)| **from != Some(id));
            let sheets = fresh.filter_map(|(owner, _)| self.names.get(owner)).cloned().collect();
            self.send_in_parts(id, sheets);
        }
    }

    /// Puts as many sheets into a message as fit if each were of the largest size.
    fn send_in_parts(&mut self, id: LinkId, sheets: Vec<Sheet>) {
        let mut part = Vec::new();
        let mut bytes = 0;
        for sheet in sheets {
            let more = sheet.bytes() + SHEET_FRAME;
            if bytes + more > MAX_SHEET && !part.is_empty() {
                self.send(id, RingMessage::Names { sheets: std::mem::take(&mut part) });
                bytes = 0;
            }
            bytes += more;
            part.push(sheet);
        }
        if !part.is_empty() {
            self.send(id, RingMessage::Names { sheets: part });
        }
    }
}

/// Most bytes of a sheet besides its names and values: owner, instance, version.
const SHEET_FRAME: usize = 400;
