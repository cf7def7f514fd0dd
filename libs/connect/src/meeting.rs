//! The meetings that wait, and the search for their jobs.

use std::collections::BTreeMap;

use mpd_sansio::Time;
use mpd_wire::JobId;
use mpd_wire::job::{namespace_mark, same_secret};
use mpd_wire::message::{MeetingAnswer, MeetingOperation, Payload};

use crate::found::Found;
use crate::frame::{Message, Party};
use crate::peer::{PeerAddition, Request};
use crate::{
    AGAIN, Assembly, Effect, Failure, MAX_JOBS, MAX_KEY, MAX_MEETINGS, Meetings, Output, PATIENCE,
};

/// A waiting meeting.
#[derive(Debug)]
pub(crate) struct Meeting {
    assembly: Assembly,
    /// Tells the uses of the name apart.
    attempt: u32,
    pub(crate) deadline: Option<Time>,
    /// Whether the coordinator knows of our arrival.
    is_reported: bool,
}

impl Meetings {
    pub(crate) fn concerns(&self, meeting: &Meeting, job: &JobId) -> bool {
        let secrets = meeting.assembly.secrets.iter();
        secrets.filter_map(|secret| self.job_of(secret)).any(|other| other == job)
    }

    fn job_of(&self, secret: &str) -> Option<&JobId> {
        match self.found.get(secret)? {
            Found::Yes(job) => Some(job),
            Found::Asked { .. } | Found::Again { .. } => None,
        }
    }

    pub(crate) fn assembled(&mut self, now: Time, assembly: Assembly) {
        let key = assembly.key.clone();
        let others = assembly.secrets.iter().filter(|secret| **secret != self.secret);
        let others: Vec<String> = others.cloned().collect();
        let is_full = self.meetings.len() >= MAX_MEETINGS
            || self.found.len() + others.len() > 2 * MAX_JOBS
            || key.len() > MAX_KEY;
        if is_full || self.meetings.contains_key(&key) {
            return self.outputs.push_back(Output::Met(key, Err(Failure::Full)));
        }
        self.last_attempt = self.last_attempt.wrapping_add(1);
        let deadline = assembly.timeout.map(|timeout| now + timeout);
        let attempt = self.last_attempt;
        let meeting = Meeting { assembly, attempt, deadline, is_reported: false };
        self.meetings.insert(key.clone(), meeting);
        for secret in others {
            if !self.found.contains_key(&secret) {
                self.found.insert(secret.clone(), Found::Asked { until: now + PATIENCE });
                self.find(secret);
            }
        }
        self.review(now, &key);
    }

    fn find(&mut self, secret: String) {
        let operation = MeetingOperation::Find { mark: namespace_mark(&secret) };
        self.ask(Request::Find(secret), operation);
    }

    /// Does the next step of a meeting, if all its jobs are known.
    pub(crate) fn review(&mut self, now: Time, key: &str) {
        let Some(meeting) = self.meetings.get(key) else { return };
        let others = meeting.assembly.secrets.iter().filter(|secret| **secret != self.secret);
        let others = others.map(|secret| Some((secret.clone(), self.job_of(secret)?.clone())));
        let Some(others) = others.collect::<Option<Vec<_>>>() else { return };
        let coordinator = meeting.assembly.secrets.first();
        if coordinator == Some(&self.secret) {
            return self.review_arrivals(now, key, &others);
        }
        let to = others.iter().find(|(secret, _)| Some(secret) == coordinator);
        let Some(to) = to.map(|(_, job)| job.clone()) else { return };
        let party = self.own_party(key);
        let Some(meeting) = self.meetings.get_mut(key) else { return };
        if !std::mem::replace(&mut meeting.is_reported, true) {
            let (key, attempt) = (key.to_owned(), meeting.attempt);
            self.send(now, &to, &Message::Arrived { key, attempt, party });
        }
    }

    fn own_party(&self, key: &str) -> Party {
        let assembly = self.meetings.get(key).map(|meeting| &meeting.assembly);
        Party {
            secret: self.secret.clone(),
            is_whole: assembly.is_some_and(|assembly| assembly.is_whole),
            info: Payload::from(assembly.map_or(&[][..], |assembly| &assembly.info)),
        }
    }

    /// At the coordinator: completes a meeting when the members of all jobs have arrived.
    fn review_arrivals(&mut self, now: Time, key: &str, others: &[(String, JobId)]) {
        let arrived = |(secret, job): &(String, JobId)| {
            let (_, party) = self.peers.get(job)?.early.get(key)?;
            same_secret(party.secret.as_bytes(), secret.as_bytes()).then_some(())
        };
        if !others.iter().all(|other| arrived(other).is_some()) {
            return;
        }
        let own = self.own_party(key);
        let mut parties = Vec::new();
        for (_, job) in others {
            let peer = self.peers.get_mut(job);
            let early = peer.and_then(|peer| peer.early.remove(key));
            parties.extend(early.map(|(attempt, party)| (job.clone(), attempt, party)));
        }
        for (job, attempt, _) in &parties {
            let rest = parties.iter().filter(|(other, ..)| other != job);
            let rest = rest.map(|(_, _, party)| party.clone());
            let parties = std::iter::once(own.clone()).chain(rest).collect();
            let (key, attempt) = (key.to_owned(), *attempt);
            self.send(now, job, &Message::Complete { key, attempt, parties });
        }
        let parties = parties.into_iter().map(|(job, _, party)| (job, party)).collect();
        self.complete(key, parties);
    }

    fn complete(&mut self, key: &str, parties: Vec<(JobId, Party)>) {
        let Some(meeting) = self.meetings.remove(key) else { return };
        let jobs: Vec<JobId> = parties.iter().map(|(job, _)| job.clone()).collect();
        self.outputs.push_back(Output::Met(key.to_owned(), Ok(parties)));
        for job in jobs {
            let Some(peer) = self.peers.get_mut(&job) else { continue };
            match meeting.assembly.effect {
                Effect::Connect => {
                    peer.connections += 1;
                    for told in peer.held.drain(..) {
                        let told = told.as_bytes().to_vec();
                        self.outputs.push_back(Output::Told(job.clone(), told));
                    }
                }
                Effect::Disconnect if peer.connections == 1 => {
                    peer.connections = 0;
                    self.outputs.push_back(Output::Disconnected(job));
                }
                Effect::Disconnect => peer.connections = peer.connections.saturating_sub(1),
                Effect::None => {}
            }
        }
    }

    /// The coordinator has completed a meeting.
    pub(crate) fn completed(&mut self, from: &JobId, key: &str, attempt: u32, parties: Vec<Party>) {
        let Some(meeting) = self.meetings.get(key) else { return };
        let coordinator = meeting.assembly.secrets.first();
        if meeting.attempt != attempt
            || coordinator.and_then(|secret| self.job_of(secret)) != Some(from)
        {
            return;
        }
        let is_member = |party: &Party| {
            let is = |secret: &String| same_secret(party.secret.as_bytes(), secret.as_bytes());
            !is(&self.secret) && meeting.assembly.secrets.iter().any(is)
        };
        let known = parties.into_iter().filter(is_member);
        let known = known.filter_map(|party| Some((self.job_of(&party.secret)?.clone(), party)));
        let known: BTreeMap<JobId, Party> = known.collect();
        if known.len() + 1 == meeting.assembly.secrets.len() {
            self.complete(key, known.into_iter().collect());
        }
    }

    fn fail(&mut self, key: &str, failure: Failure) {
        if self.meetings.remove(key).is_some() {
            self.outputs.push_back(Output::Met(key.to_owned(), Err(failure)));
        }
        self.forget_unneeded();
    }

    /// Forgets namespaces that were looked for, and that no meeting needs.
    fn forget_unneeded(&mut self) {
        let meetings = &self.meetings;
        let is_needed = |secret: &String| {
            meetings.values().any(|meeting| meeting.assembly.secrets.contains(secret))
        };
        self.found.retain(|secret, found| matches!(found, Found::Yes(_)) || is_needed(secret));
    }

    /// The members of this job wait no longer: the coordinator learns it.
    fn withdraw(&mut self, now: Time, key: &str, failure: Failure) {
        let Some(meeting) = self.meetings.get(key) else { return };
        let coordinator = meeting.assembly.secrets.first();
        let coordinator = coordinator.and_then(|secret| self.job_of(secret)).cloned();
        if let Some(to) = coordinator.filter(|_| meeting.is_reported) {
            let message = Message::Withdrawn { key: key.to_owned(), attempt: meeting.attempt };
            self.send(now, &to, &message);
        }
        self.fail(key, failure);
    }

    pub(crate) fn fail_all_with(&mut self, now: Time, secret: &str, failure: Failure) {
        let meetings = self.meetings.iter();
        let failed = meetings.filter(|(_, meeting)| meeting.assembly.secrets.contains(secret));
        for key in failed.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.withdraw(now, &key, failure);
        }
    }

    pub(crate) fn found_out(&mut self, now: Time, secret: String, answer: MeetingAnswer) {
        let Some(found) = self.found.get_mut(&secret) else { return };
        let Found::Asked { until } = *found else { return };
        match answer {
            MeetingAnswer::Found(job) => {
                *found = Found::Yes(job.clone());
                match self.make_peer(now, &job) {
                    // The other job learns that it is waited for, so that it reports its end.
                    PeerAddition::New => self.probe(now, &job),
                    PeerAddition::Known => {}
                    PeerAddition::Full => {
                        self.found.remove(&secret);
                        return self.fail_all_with(now, &secret, Failure::Full);
                    }
                }
                let keys: Vec<String> = self.meetings.keys().cloned().collect();
                keys.iter().for_each(|key| self.review(now, key));
            }
            MeetingAnswer::Later(_) => *found = Found::Again { at: until.min(now + AGAIN), until },
            MeetingAnswer::Gone | MeetingAnswer::Passed => {
                self.found.remove(&secret);
                self.fail_all_with(now, &secret, Failure::Unknown);
            }
        }
    }

    pub(crate) fn expire_meetings(&mut self, now: Time) {
        let is_due = |meeting: &Meeting| meeting.deadline.is_some_and(|at| at <= now);
        let due = self.meetings.iter().filter(|(_, meeting)| is_due(meeting));
        for key in due.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.withdraw(now, &key, Failure::Timeout);
        }
    }

    pub(crate) fn expire_searches(&mut self, now: Time) {
        let mut over = Vec::new();
        let mut again = Vec::new();
        for (secret, found) in &mut self.found {
            match *found {
                Found::Asked { until } | Found::Again { until, .. } if until <= now => {
                    over.push(secret.clone());
                }
                Found::Again { at, until } if at <= now => {
                    *found = Found::Asked { until };
                    again.push(secret.clone());
                }
                Found::Asked { .. } | Found::Again { .. } | Found::Yes(_) => {}
            }
        }
        for secret in over {
            self.found.remove(&secret);
            self.requests.retain(|_, request| *request != Request::Find(secret.clone()));
            self.fail_all_with(now, &secret, Failure::Lost);
        }
        again.into_iter().for_each(|secret| self.find(secret));
    }
}
