//! How records travel: merged by R1, sent on at once, compared by digest with every pulse.
//!
//! Changes go to all links that carry the list, except the link from which they came. A full list is
//! sent only where a digest differs: at once on a new link, later after two pulses in a row. One
//! pulse is not enough, since a change on its way makes digests differ as well.

use std::sync::Arc;

use crate::links::{Link, LinkId, Peer, Purpose};
use crate::{Event, Ring};
use mpd_sansio::Time;
use mpd_wire::message::{LIST_CHUNK, RingMessage};
use mpd_wire::{MAX_MEMBERS, Record, Standing};

impl Ring {
    /// The first messages on a link. A daemon that enters waits for a list, even for an empty one.
    pub(super) fn greet(&mut self, id: LinkId) {
        if self.is_waiting() {
            return;
        }
        let Some(link) = self.links.get(id) else { return };
        let link_greets = !link.is_own(Purpose::Join);
        if link.purpose == Purpose::Join && !link.own {
            self.send_list(id);
        }
        // A newcomer has no list to compare.
        if link_greets {
            let digest = self.digest();
            self.send(id, RingMessage::Pulse { digest });
        }
    }

    pub(super) fn send_pulses(&mut self) {
        if self.is_waiting() {
            return;
        }
        let digest = self.digest();
        for id in self.links.which(Link::carries_list) {
            self.send(id, RingMessage::Pulse { digest });
        }
    }

    pub(super) fn received_pulse(&mut self, id: LinkId, digest: u64) {
        if self.is_waiting() {
            return;
        }
        let same = digest == self.digest();
        let Some(link) = self.links.get_mut(id) else { return };
        link.mismatches = match (same, link.mismatches) {
            (true, _) => 1,
            (false, 0) => 3,
            (false, so_far) => so_far + 1,
        };
        if !same && link.mismatches >= 3 {
            link.mismatches = 1;
            self.send_list(id);
        }
    }

    fn send_list(&mut self, id: LinkId) {
        let reported: Vec<&Arc<Record>> = self.list.reported().collect();
        let aged = |chunk: &[&Arc<Record>]| chunk.iter().map(|record| self.aged(record)).collect();
        let mut chunks: Vec<Vec<Arc<Record>>> = reported.chunks(LIST_CHUNK).map(aged).collect();
        if chunks.is_empty() {
            chunks.push(Vec::new());
        }
        for records in chunks {
            self.send(id, RingMessage::List { records });
        }
        self.send_name_records(id);
    }

    /// A digest of everything on which two daemons must agree: the list, and the names of the live
    /// members.
    pub fn digest(&self) -> u64 {
        self.list.digest().wrapping_add(self.names.digest())
    }

    pub(super) fn received_list(&mut self, now: Time, id: LinkId, records: Vec<Arc<Record>>) {
        let of_me = records.iter().any(|record| record.name == self.config.name);
        self.merge(now, id, records, false);
        if self.seat().is_none() && !of_me {
            self.take_place(now);
        }
    }

    pub(super) fn received_update(&mut self, now: Time, id: LinkId, records: Vec<Arc<Record>>) {
        self.merge(now, id, records, true);
    }

    /// R1. With `answer`, the sender receives the records that are newer here.
    fn merge(&mut self, now: Time, id: LinkId, records: Vec<Arc<Record>>, answer: bool) {
        let mut better = Vec::new();
        for record in records.into_iter().take(LIST_CHUNK).filter(|record| record.is_sound()) {
            if record.name == self.config.name {
                if self.received_of_me(now, &record) && answer {
                    better.extend(self.list.get(&record.name).cloned());
                }
                continue;
            }
            let whole_order = self.config.rules.whole_order;
            match self.list.get(&record.name) {
                None if self.is_stale(&record) => {}
                None if self.list.len() >= MAX_MEMBERS => self.event(Event::Full("members")),
                None => self.put(now, record, Some(id)),
                Some(known) if record.beats(known, whole_order) => self.put(now, record, Some(id)),
                Some(known) if known.beats(&record, whole_order) && answer => {
                    better.push(self.aged(known));
                }
                Some(_) => {}
            }
        }
        if !better.is_empty() {
            self.send(id, RingMessage::Update { records: better });
        }
    }

    /// Accepts a record, with all consequences, and reports what has happened to the member.
    pub(super) fn put(&mut self, now: Time, record: Arc<Record>, from: Option<LinkId>) {
        let (name, standing, by) = (record.name.clone(), record.standing, record.by.clone());
        let standing_before = self.accept(now, record, from);
        if name == self.config.name {
            return;
        }
        match (standing_before, standing) {
            (None, Standing::Live) => self.event(Event::MemberEntered(name)),
            (Some(Standing::Dead | Standing::Departed), Standing::Live) => {
                self.event(Event::MemberReturned(name));
            }
            (Some(Standing::Live), Standing::Dead) => {
                self.close_chords(now, &name);
                self.event(Event::MemberDied { name, by });
            }
            (Some(Standing::Live | Standing::Dead), Standing::Departed) => {
                self.close_chords(now, &name);
                self.event(Event::MemberLeft(name));
            }
            (Some(Standing::Live), Standing::Live)
            | (None | Some(Standing::Dead | Standing::Departed), Standing::Dead)
            | (None | Some(Standing::Departed), Standing::Departed) => {}
        }
    }

    /// Puts a record into the list. Returns the standing that the member had there.
    pub(super) fn accept(
        &mut self,
        now: Time,
        mut record: Arc<Record>,
        from: Option<LinkId>,
    ) -> Option<Standing> {
        let before = self.list.get(&record.name);
        let standing_before = before.map(|record| record.standing);
        let replaced = before.filter(|before| before.instance != record.instance);
        let replaced = replaced.map(|old| Peer { name: old.name.clone(), instance: old.instance });
        let name = record.name.clone();
        self.search.note(before.map(|before| &**before), Some(&record));
        self.gone.note(now, &record);
        if record.age_s != 0 {
            Arc::make_mut(&mut record).age_s = 0;
        }
        self.list.put(record);
        self.list_changed = now;
        self.revision += 1;
        self.untold.insert(name.clone(), from);
        if let Some(peer) = replaced {
            self.instance_changed(now, &name, peer);
        }
        self.review_name_record(&name);
        self.review_proofs(&name);
        standing_before
    }

    /// Sends every link the changes since the last call.
    pub(super) fn report_news(&mut self) {
        let untold = std::mem::take(&mut self.untold);
        let links =
            if untold.is_empty() { Vec::new() } else { self.links.which(Link::carries_list) };
        for id in links {
            let fresh = untold.iter().filter(|(_, from)| **from != Some(id));
            let records: Vec<Arc<Record>> =
                fresh.filter_map(|(name, _)| self.list.get(name)).map(|r| self.aged(r)).collect();
            for chunk in records.chunks(LIST_CHUNK) {
                self.send(id, RingMessage::Update { records: chunk.to_vec() });
            }
        }
        // After the records: a name record of an unknown owner would not be accepted.
        self.report_name_records();
    }
}
