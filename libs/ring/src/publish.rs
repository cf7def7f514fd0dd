//! How names come to all members and go again. The books are kept in `names`.
//!
//! A claim goes on the owner's sheet, which is told like any change, and a scatter asks every live
//! member whether it has that sheet and nobody better for the name. All do: published. One knows
//! better, or not all were heard of in time: the claim is taken back. So of two who want one name in a
//! ring that is whole at most one is told that it has it.

use crate::config::MAX_REQUESTS;
use crate::links::{Link, LinkId};
use crate::scatter::Asker;
use crate::{Event, Output, RequestId, Ring};
use mpd_machine::Time;
use mpd_wire::message::{Naming, Payload, RingMessage};
use mpd_wire::names::{Claim, MAX_SHEET, NameKey, Sheet, TOO_MANY_OF_JOB};
use mpd_wire::{DaemonName, JobId, Standing};

/// How a publication ended. Unless it is done, the name is not published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publication {
    /// All live members have it.
    Done,
    /// Somebody else has the name; [`Ring::lookup`] tells who, if its claim has come here already.
    Taken,
    /// Not all live members were heard of in time.
    Incomplete {
        /// Who was not.
        missing: Vec<DaemonName>,
    },
    /// It was not tried, or given up; why, for people.
    Refused(&'static str),
}

/// Why not, for now.
const NO_RING: &str = "not in a ring yet";
const BUSY: &str = "too many requests";

impl Publication {
    /// Whether the same may be done soon.
    pub fn may_be_done_later(&self) -> bool {
        match self {
            Self::Incomplete { .. } => true,
            Self::Refused(problem) => [NO_RING, BUSY].contains(problem),
            Self::Done | Self::Taken => false,
        }
    }
}

/// The answer of a member that knows somebody better for a name.
const TAKEN: &[u8] = b"taken";

impl Ring {
    /// Who has that name, and the claim.
    pub fn lookup(&self, name: &str) -> Option<(&DaemonName, &Claim)> {
        self.names.winner(&self.list, name)
    }

    /// Every name that is published, in order, and who has it.
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

    /// Takes back those of our claims of which `over` holds; publications of them end for that reason.
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

    /// This daemon's sheet, an empty one if it has published nothing.
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

    /// What a naming scatter carries: the sheet as it is now.
    pub(super) fn naming(&self, name: &str) -> Naming {
        Naming { name: name.to_owned(), sheet: self.own_sheet() }
    }

    /// Somebody asks whether a name may be its. No answer if its sheet cannot be taken, or does not
    /// count, because its record has not come here yet: it will ask again.
    pub(super) fn consent(&mut self, naming: &Naming, from: Option<LinkId>) -> Option<Payload> {
        let Naming { name, sheet } = naming;
        if !sheet.is_sound() || !self.take_sheet(sheet.clone(), from) {
            return None;
        }
        // Nobody has it as long as its owner is dead for us.
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

    /// Whether these answers speak against a name.
    pub(super) fn is_dissent(answer: &Payload) -> bool {
        answer.as_bytes() == TAKEN
    }

    pub(super) fn heard_names(&mut self, id: LinkId, sheets: Vec<Sheet>) {
        for sheet in sheets.into_iter().filter(Sheet::is_sound) {
            self.take_sheet(sheet, Some(id));
        }
    }

    /// Takes a sheet over if it is news; true if this daemon has that one or a later one.
    fn take_sheet(&mut self, sheet: Sheet, from: Option<LinkId>) -> bool {
        if sheet.owner == self.config.name {
            // Nobody but us knows better.
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

    /// A member's record has changed: its sheet may be that of a former life.
    pub(super) fn review_sheet(&mut self, owner: &DaemonName) {
        self.names.unreviewed = true;
        let record = self.list.get(owner);
        let record = record.filter(|record| record.standing != Standing::Departed);
        let sheet = self.names.get(owner);
        if sheet.is_some_and(|sheet| record.is_none_or(|r| r.instance != sheet.instance)) {
            self.names.drop_sheet(owner);
        }
    }

    /// Gives up those of our names that another has by right.
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
        // Fewer claims of ours leave the others' as they are.
        self.names.unreviewed = false;
    }

    /// All sheets that are kept, to somebody whose digest differs.
    pub(super) fn send_sheets(&mut self, id: LinkId) {
        let sheets = self.names.iter().cloned().collect();
        self.send_in_parts(id, sheets);
    }

    /// Tells every link which sheets changed since the last call.
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

    /// As many sheets to a message as one of the largest would take.
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

/// What a sheet takes besides its words, at most: owner, instance, version.
const SHEET_FRAME: usize = 400;
